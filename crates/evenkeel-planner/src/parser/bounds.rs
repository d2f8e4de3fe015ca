//! How large a statement may be, measured on its tokens in linear time, before anything recurses on
//! it. A statement that passes is walked and dropped on an ordinary stack.

use evenkeel_types::SqlState;

use super::keywords::Kw;
use super::token::{Tok, Tokens};
use crate::error::{PlanError, PlanResult};

/// Tokens of a text: a tree of them takes some hundred bytes each.
pub(super) const TOKENS_MAX: usize = 2_000_000;
/// Levels of a statement's tree: parentheses, CASE, and the operators of a chain, each of which
/// has the one before it as its operand. Chains of AND and OR count once: they are flat.
const DEPTH_MAX: usize = 6_000;
/// Parentheses and CASEs in one another.
const NESTING_MAX: usize = 200;
/// Subqueries of expressions in one another.
const SUBQUERIES_MAX: usize = 14;
/// Tables and subqueries of one FROM.
const RELATIONS_MAX: usize = 1_000;
/// UNION, INTERSECT and EXCEPT of one query.
const SETS_MAX: usize = 2_000;
/// Digits of a `numeric`, before and behind its point.
const NUMERIC_DIGITS_MAX: usize = 131_072 + 16_383;
/// Bytes of a text: a position is 32 bits, and PostgreSQL takes no more in a message.
const BYTES_MAX: usize = 1 << 30;
/// Levels that a thread's ordinary stack carries.
const SHALLOW: usize = 64;
/// Tokens that are parsed in less time than another thread takes to begin.
const FEW_TOKENS: usize = 128;

/// The size of a text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shape {
    /// Tokens.
    pub tokens: usize,
    /// An upper limit of the depth of its tree, by whichever grammar it is read.
    pub depth: usize,
}

impl Shape {
    /// Whether it may be parsed on a thread that serves others.
    pub fn is_small(self) -> bool {
        self.tokens <= FEW_TOKENS && self.depth <= SHALLOW
    }

    /// Refuses a text that a parser without a bound of its own cannot read on an ordinary stack.
    ///
    /// # Errors
    /// 54001.
    pub fn shallow(self) -> PlanResult<()> {
        if self.depth > SHALLOW {
            return Err(too_deep());
        }
        Ok(())
    }
}

/// 54001, in PostgreSQL's words.
pub fn too_deep() -> PlanError {
    PlanError::new(
        SqlState::STATEMENT_TOO_COMPLEX,
        "stack depth limit exceeded",
    )
    .hint("Split the statement, or nest its expressions less deeply.")
}

fn too_large(what: &str, limit: usize) -> PlanError {
    PlanError::new(SqlState::STATEMENT_TOO_COMPLEX, "statement is too complex")
        .detail(format!("It has more than {limit} {what}."))
}

/// 54001 for a text whose positions do not fit.
pub(super) fn check_length(text: &str) -> PlanResult<()> {
    if text.len() > BYTES_MAX {
        return Err(too_large("bytes", BYTES_MAX));
    }
    Ok(())
}

/// An open parenthesis, bracket or CASE.
#[derive(Default)]
struct Level {
    /// Operators since the last comma or AND.
    chain: usize,
    /// INTERVALs since then: other grammars read one as a prefix of the next. They count for the
    /// shape alone.
    prefixes: usize,
    relations: usize,
    sets: usize,
    in_from: bool,
    is_case: bool,
    /// Whether it is the query of WITH or of FROM.
    is_relation: bool,
    is_subquery: bool,
}

impl Level {
    fn depth(&self) -> usize {
        1 + self.chain + self.relations + self.sets
    }

    fn end_chain(&mut self) {
        self.chain = 0;
        self.prefixes = 0;
    }
}

/// The shape of a text; 54001 for tokens that make a larger tree than the bounds allow. Each byte
/// behind a token that the lexer refuses counts as a token and a level.
pub(super) fn check(text: &str, tokens: &Tokens) -> PlanResult<Shape> {
    if tokens.list.len() > TOKENS_MAX + 1 {
        return Err(too_large("tokens", TOKENS_MAX));
    }
    let mut measure = Measure::default();
    for token in &tokens.list {
        if token.tok == Tok::Number {
            check_number(&text[token.start as usize..token.end as usize])?;
        }
        measure.token(token.tok)?;
    }
    let unread = match tokens.list.last() {
        Some(last) if last.tok == Tok::Bad => text.len() - last.start as usize,
        _ => 0,
    };
    Ok(Shape {
        tokens: tokens.list.len() - 1 + unread,
        depth: measure.deepest + unread,
    })
}

/// Refuses a number that no `numeric` can be: reading it takes the square of its length.
fn check_number(text: &str) -> PlanResult<()> {
    let exponent = text.split_once(['e', 'E']).map(|(_, exponent)| exponent);
    let large = exponent.is_some_and(|exponent| {
        let exponent = exponent.replace('_', "").parse::<i64>();
        exponent.unwrap_or(i64::MAX).unsigned_abs() > NUMERIC_DIGITS_MAX as u64
    });
    let decimal = !matches!(text.as_bytes().get(1), Some(b'x' | b'X'));
    if (large && decimal) || text.len() > NUMERIC_DIGITS_MAX {
        let message = "value overflows numeric format";
        return Err(PlanError::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            message,
        ));
    }
    Ok(())
}

#[derive(Default)]
struct Measure {
    levels: Vec<Level>,
    level: Level,
    /// The depth of `levels`.
    below: usize,
    /// INTERVALs of `levels`.
    prefixes: usize,
    /// The greatest depth so far, INTERVALs included.
    deepest: usize,
    subqueries: usize,
    after_as: bool,
}

impl Measure {
    fn token(&mut self, tok: Tok) -> PlanResult<()> {
        match step(tok) {
            Step::Open { is_case } => self.open(is_case)?,
            Step::Close { case } if !case || self.level.is_case => self.close(case),
            Step::Statement if self.levels.is_empty() => self.level = Level::default(),
            step => within(&mut self.level, step)?,
        }
        let select = tok == Tok::Key(Kw::Select) && !self.levels.is_empty();
        if select && !self.level.is_relation && !self.level.is_subquery {
            self.level.is_subquery = true;
            self.subqueries += 1;
            if self.subqueries > SUBQUERIES_MAX {
                return Err(too_deep());
            }
        }
        self.after_as = tok == Tok::Key(Kw::As);
        if tok == Tok::Key(Kw::Interval) {
            self.level.prefixes += 1;
        }
        let depth = self.below + self.level.depth();
        if depth > DEPTH_MAX {
            return Err(too_deep());
        }
        let prefixes = self.prefixes + self.level.prefixes;
        self.deepest = self.deepest.max(depth + prefixes);
        Ok(())
    }

    fn open(&mut self, is_case: bool) -> PlanResult<()> {
        let outer = std::mem::take(&mut self.level);
        self.level.is_case = is_case;
        self.level.is_relation = self.after_as || outer.in_from;
        self.below += outer.depth();
        self.prefixes += outer.prefixes;
        self.levels.push(outer);
        if self.levels.len() > NESTING_MAX {
            return Err(too_deep());
        }
        Ok(())
    }

    fn close(&mut self, case: bool) {
        self.subqueries -= usize::from(self.level.is_subquery);
        if let Some(outer) = self.levels.pop() {
            self.level = outer;
            self.below -= self.level.depth();
            self.prefixes -= self.level.prefixes;
        } else {
            self.level.is_subquery = false;
        }
        // Subscripts, calls and types of arrays are chains too.
        self.level.chain += usize::from(!case);
    }
}

/// A step that neither opens nor closes a level.
fn within(level: &mut Level, step: Step) -> PlanResult<()> {
    match step {
        Step::Operator => level.chain += 1,
        Step::Logic => level.end_chain(),
        Step::Comma => {
            level.end_chain();
            level.relations += usize::from(level.in_from);
        }
        Step::Join => {
            level.end_chain();
            level.relations += 1;
        }
        Step::From => level.in_from = true,
        Step::Clause => {
            level.end_chain();
            level.in_from = false;
        }
        Step::Set => {
            level.end_chain();
            level.in_from = false;
            level.relations = 0;
            level.sets += 1;
        }
        Step::Operand | Step::Statement | Step::Open { .. } | Step::Close { .. } => {}
    }
    if level.relations > RELATIONS_MAX {
        return Err(too_large("relations in FROM", RELATIONS_MAX));
    }
    if level.sets > SETS_MAX {
        return Err(too_large("set operations", SETS_MAX));
    }
    Ok(())
}

/// The effect of a token on the depth.
#[derive(Clone, Copy)]
enum Step {
    Open { is_case: bool },
    Close { case: bool },
    Comma,
    Operator,
    Logic,
    Join,
    From,
    Clause,
    Set,
    Statement,
    Operand,
}

fn step(tok: Tok) -> Step {
    match tok {
        Tok::Char(b'(' | b'[') => Step::Open { is_case: false },
        Tok::Char(b')' | b']') => Step::Close { case: false },
        Tok::Char(b',') => Step::Comma,
        Tok::Char(b';') => Step::Statement,
        Tok::Char(_)
        | Tok::Op
        | Tok::TypeCast
        | Tok::LessEquals
        | Tok::GreaterEquals
        | Tok::NotEquals => Step::Operator,
        Tok::Key(keyword) | Tok::Joined(keyword) => match keyword {
            Kw::And | Kw::Or => Step::Logic,
            Kw::Not
            | Kw::Is
            | Kw::Isnull
            | Kw::Notnull
            | Kw::In
            | Kw::Like
            | Kw::Ilike
            | Kw::Similar
            | Kw::Between
            | Kw::Collate
            | Kw::Operator
            | Kw::At => Step::Operator,
            Kw::Join => Step::Join,
            Kw::From => Step::From,
            Kw::Select | Kw::Where | Kw::Group | Kw::Order => Step::Clause,
            Kw::Union | Kw::Intersect | Kw::Except => Step::Set,
            Kw::Case => Step::Open { is_case: true },
            Kw::End => Step::Close { case: true },
            _ => Step::Operand,
        },
        _ => Step::Operand,
    }
}
