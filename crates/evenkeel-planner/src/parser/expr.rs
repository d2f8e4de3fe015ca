//! Operators: `a_expr` and `b_expr` of the grammar, by precedence climbing. The levels and their
//! associativity are those of PostgreSQL's grammar.

use super::cursor::Parser;
use super::keywords::Kw;
use super::token::Tok;
use crate::ast::{
    Expr, ExprKind, LikeKind, Literal, Operator, Pos, QualifiedName, Sublink, SublinkKind,
};
use crate::error::PlanResult;

/// How tightly an operator binds; a greater level binds tighter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Any,
    Or,
    And,
    Not,
    Is,
    Comparison,
    /// BETWEEN, IN, LIKE and kin.
    Match,
    /// Operators without a level of their own.
    Op,
    Sum,
    Product,
    Power,
    At,
    Collate,
    Sign,
    Cast,
    Nothing,
}

impl Level {
    /// The least level of a right operand of a left-associative operator.
    fn tighter(self) -> Level {
        match self {
            Level::Any => Level::Or,
            Level::Or => Level::And,
            Level::And => Level::Not,
            Level::Not => Level::Is,
            Level::Is => Level::Comparison,
            Level::Comparison => Level::Match,
            Level::Match => Level::Op,
            Level::Op => Level::Sum,
            Level::Sum => Level::Product,
            Level::Product => Level::Power,
            Level::Power => Level::At,
            Level::At => Level::Collate,
            Level::Collate => Level::Sign,
            Level::Sign => Level::Cast,
            Level::Cast | Level::Nothing => Level::Nothing,
        }
    }

    fn is_nonassociative(self) -> bool {
        matches!(self, Level::Is | Level::Comparison | Level::Match)
    }
}

/// Which of the grammar's two kinds of expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grammar {
    /// `a_expr`: everything.
    Full,
    /// `b_expr`: without the operators that are words.
    Basic,
}

/// Where an expression ends although an operator seems to follow: PostgreSQL's grammar takes the
/// word for another thing if what comes after it allows no operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// Nowhere.
    Never,
    /// At a word that is the label of a column.
    Label,
    /// At SIMILAR without TO, in SUBSTRING.
    Similar,
}

/// An operator before its operand.
enum Prefix {
    Not,
    Minus,
    Operator(Operator),
}

impl Prefix {
    /// The least level of an operator within its operand.
    fn operand(&self) -> Level {
        match self {
            Prefix::Not => Level::Is,
            Prefix::Minus => Level::Cast,
            Prefix::Operator(operator) if operator.schema.is_none() && operator.symbol == "+" => {
                Level::Cast
            }
            Prefix::Operator(_) => Level::Sum,
        }
    }
}

/// `x` as a node.
pub(super) fn node(kind: ExprKind, at: Pos) -> Expr {
    Expr { kind, at }
}

/// An operator without a schema.
pub(super) fn plain_operator(symbol: &str) -> Operator {
    Operator {
        schema: None,
        symbol: symbol.to_owned(),
    }
}

/// `- x`, which of a constant is the negative constant.
fn negate(arg: Expr, at: Pos) -> Expr {
    let kind = match arg.kind {
        // Only parsed digits get here, and their negative is an `int4` too.
        ExprKind::Literal(Literal::Integer(value)) => {
            ExprKind::Literal(Literal::Integer(value.wrapping_neg()))
        }
        ExprKind::Literal(Literal::Number(digits)) => {
            ExprKind::Literal(Literal::Number(match digits.strip_prefix('-') {
                Some(positive) => positive.to_owned(),
                None => format!("-{digits}"),
            }))
        }
        kind => ExprKind::Op {
            op: plain_operator("-"),
            left: None,
            right: Box::new(node(kind, arg.at)),
        },
    };
    node(kind, at)
}

/// A constant with its sign.
pub(super) fn signed(value: Expr, negative: bool, at: Pos) -> Expr {
    if negative {
        return negate(value, at);
    }
    let kind = ExprKind::Op {
        op: plain_operator("+"),
        left: None,
        right: Box::new(value),
    };
    node(kind, at)
}

/// `left AND right`, or OR; the left operand's list goes on, whatever parentheses there were.
fn logic(left: Expr, right: Expr, at: Pos, and: bool) -> Expr {
    match (left.kind, and) {
        (ExprKind::And(mut list), true) => {
            list.push(right);
            node(ExprKind::And(list), left.at)
        }
        (ExprKind::Or(mut list), false) => {
            list.push(right);
            node(ExprKind::Or(list), left.at)
        }
        (kind, and) => {
            let list = vec![node(kind, left.at), right];
            let kind = if and {
                ExprKind::And(list)
            } else {
                ExprKind::Or(list)
            };
            node(kind, at)
        }
    }
}

impl Parser<'_> {
    /// `a_expr`
    pub(super) fn expr(&mut self) -> PlanResult<Expr> {
        self.operand(Level::Any, Grammar::Full)
    }

    /// `a_expr` that may end at a word of an operator.
    pub(super) fn expr_until(&mut self, stop: Stop) -> PlanResult<Expr> {
        self.deeper(|parser| parser.operand_here(Level::Any, Grammar::Full, stop))
    }

    /// `b_expr`
    pub(super) fn basic_expr(&mut self) -> PlanResult<Expr> {
        self.operand(Level::Any, Grammar::Basic)
    }

    /// `expr_list`
    pub(super) fn exprs(&mut self) -> PlanResult<Vec<Expr>> {
        self.list(Self::expr)
    }

    /// `'(' expr_list ')'`
    pub(super) fn exprs_in_parentheses(&mut self) -> PlanResult<Vec<Expr>> {
        self.expect_char(b'(')?;
        let list = self.exprs()?;
        self.expect_char(b')')?;
        Ok(list)
    }

    fn operand(&mut self, least: Level, grammar: Grammar) -> PlanResult<Expr> {
        self.deeper(|parser| parser.operand_here(least, grammar, Stop::Never))
    }

    fn operand_here(&mut self, least: Level, grammar: Grammar, stop: Stop) -> PlanResult<Expr> {
        let mut prefixes = Vec::new();
        while let Some(prefix) = self.prefix(grammar)? {
            prefixes.push(prefix);
        }
        let mut left = self.primary(grammar)?;
        while let Some((prefix, at)) = prefixes.pop() {
            let arg = self.infix(left, prefix.operand(), grammar)?;
            left = match prefix {
                Prefix::Not => node(ExprKind::Not(Box::new(arg)), at),
                Prefix::Minus => negate(arg, at),
                Prefix::Operator(op) => {
                    let right = Box::new(arg);
                    let left = None;
                    node(ExprKind::Op { op, left, right }, at)
                }
            };
        }
        self.infix_until(left, least, grammar, stop)
    }

    fn prefix(&mut self, grammar: Grammar) -> PlanResult<Option<(Prefix, Pos)>> {
        let at = self.pos();
        let prefix = match self.peek() {
            Tok::Key(Kw::Not) | Tok::Joined(Kw::Not) if grammar == Grammar::Full => {
                self.bump();
                Prefix::Not
            }
            Tok::Char(b'-') => {
                self.bump();
                Prefix::Minus
            }
            Tok::Char(b'+') => {
                self.bump();
                Prefix::Operator(plain_operator("+"))
            }
            Tok::Op => Prefix::Operator(self.operator()?),
            Tok::Key(Kw::Operator) if self.peek_at(1) == Tok::Char(b'(') => {
                Prefix::Operator(self.operator()?)
            }
            _ => return Ok(None),
        };
        Ok(Some((prefix, at)))
    }

    /// `qual_all_Op`: any operator, or `OPERATOR(schema.op)`.
    pub(super) fn operator(&mut self) -> PlanResult<Operator> {
        if self.accept_key(Kw::Operator) {
            self.expect_char(b'(')?;
            let mut schema: Option<String> = None;
            while Self::is_col_id(self.peek()) {
                let name = self.take_name().text;
                // A longer path resolves to nothing; it is kept for the message.
                schema = Some(match schema {
                    None => name,
                    Some(outer) => format!("{outer}.{name}"),
                });
                self.expect_char(b'.')?;
            }
            let symbol = self.operator_symbol()?;
            self.expect_char(b')')?;
            return Ok(Operator { schema, symbol });
        }
        let symbol = self.operator_symbol()?;
        let schema = None;
        Ok(Operator { schema, symbol })
    }

    /// `all_Op`: the symbol of any operator.
    pub(super) fn operator_symbol(&mut self) -> PlanResult<String> {
        let symbol = match self.peek() {
            Tok::NotEquals => "<>",
            Tok::Op
            | Tok::LessEquals
            | Tok::GreaterEquals
            | Tok::Char(b'+' | b'-' | b'*' | b'/' | b'%' | b'^' | b'<' | b'>' | b'=') => {
                self.word()
            }
            _ => return Err(self.unexpected()),
        };
        let symbol = symbol.to_owned();
        self.bump();
        Ok(symbol)
    }

    /// The level of the operator that is next, if one is.
    fn level(&self, grammar: Grammar) -> Option<Level> {
        let level = match self.peek() {
            Tok::Char(b'<' | b'>' | b'=')
            | Tok::LessEquals
            | Tok::GreaterEquals
            | Tok::NotEquals => Level::Comparison,
            Tok::Char(b'+' | b'-') => Level::Sum,
            Tok::Char(b'*' | b'/' | b'%') => Level::Product,
            Tok::Char(b'^') => Level::Power,
            Tok::Op | Tok::Key(Kw::Operator) => Level::Op,
            Tok::TypeCast => Level::Cast,
            Tok::Key(Kw::Is) => Level::Is,
            Tok::Joined(Kw::Not) if grammar == Grammar::Full => Level::Match,
            Tok::Key(keyword) if grammar == Grammar::Full => match keyword {
                Kw::Or => Level::Or,
                Kw::And => Level::And,
                Kw::Isnull | Kw::Notnull => Level::Is,
                Kw::Between | Kw::In | Kw::Like | Kw::Ilike | Kw::Similar => Level::Match,
                Kw::At => Level::At,
                Kw::Collate => Level::Collate,
                _ => return None,
            },
            _ => return None,
        };
        Some(level)
    }

    /// Whether the word of an operator that is next ends the expression.
    fn stops(&self, stop: Stop) -> bool {
        let Tok::Key(keyword) = self.peek() else {
            return false;
        };
        match stop {
            Stop::Never => false,
            Stop::Label => keyword.is_bare_label() && self.is_end_of_targets(1),
            Stop::Similar => keyword == Kw::Similar && self.peek_at(1) != Tok::Key(Kw::To),
        }
    }

    /// Continues `left` with operators that bind at least as tightly as `least`.
    pub(super) fn infix(&mut self, left: Expr, least: Level, grammar: Grammar) -> PlanResult<Expr> {
        self.infix_until(left, least, grammar, Stop::Never)
    }

    fn infix_until(
        &mut self,
        mut left: Expr,
        least: Level,
        grammar: Grammar,
        stop: Stop,
    ) -> PlanResult<Expr> {
        // The level of the last operator if its right operand was open.
        let mut closed = None;
        while let Some(level) = self.level(grammar).filter(|level| *level >= least) {
            if level.is_nonassociative() && closed == Some(level) {
                return Err(self.unexpected());
            }
            if self.stops(stop) {
                break;
            }
            let open;
            (left, open) = self.operator_after(left, level, grammar)?;
            closed = open.then_some(level);
        }
        Ok(left)
    }

    /// The operator that is next with its operands, and whether it ends with an operand rather
    /// than with a word or a parenthesis.
    fn operator_after(
        &mut self,
        left: Expr,
        level: Level,
        grammar: Grammar,
    ) -> PlanResult<(Expr, bool)> {
        let at = self.pos();
        let right = level.tighter();
        match level {
            Level::Or | Level::And => {
                self.bump();
                let second = self.operand(right, grammar)?;
                Ok((logic(left, second, at, level == Level::And), true))
            }
            Level::Is => self.is_test(left, grammar),
            Level::Match => self.pattern_match(left),
            Level::At => self.at_time_zone(left),
            Level::Collate => {
                self.bump();
                let collation = self.any_name()?;
                let arg = Box::new(left);
                Ok((node(ExprKind::Collate { arg, collation }, at), false))
            }
            Level::Cast => {
                self.bump();
                let ty = self.type_name()?;
                let arg = Box::new(left);
                Ok((node(ExprKind::Cast { arg, ty }, at), false))
            }
            _ => {
                let op = self.operator()?;
                if grammar == Grammar::Full && self.is_any_or_all() {
                    return Ok((self.any_all(left, op, at)?, false));
                }
                let second = self.operand(right, grammar)?;
                let left = Some(Box::new(left));
                let right = Box::new(second);
                Ok((node(ExprKind::Op { op, left, right }, at), true))
            }
        }
    }

    fn is_any_or_all(&self) -> bool {
        matches!(self.peek(), Tok::Key(Kw::Any | Kw::Some | Kw::All))
    }

    /// `ANY (…)` after an operator.
    fn any_all(&mut self, left: Expr, op: Operator, at: Pos) -> PlanResult<Expr> {
        let all = self.is_key(Kw::All);
        self.bump();
        self.expect_char(b'(')?;
        let kind = match self.query_or_first()? {
            Ok(query) => {
                let kind = if all {
                    SublinkKind::All { left, op }
                } else {
                    let op = Some(op);
                    SublinkKind::Any { left, op }
                };
                ExprKind::Sublink(Box::new(Sublink { kind, query }))
            }
            Err(array) => ExprKind::AnyAll {
                op,
                all,
                left: Box::new(left),
                array: Box::new(array),
            },
        };
        self.expect_char(b')')?;
        Ok(node(kind, at))
    }

    fn at_time_zone(&mut self, left: Expr) -> PlanResult<(Expr, bool)> {
        let at = self.bump();
        let arg = Box::new(left);
        if self.accept_key(Kw::Local) {
            let zone = None;
            return Ok((node(ExprKind::AtTimeZone { arg, zone }, at), false));
        }
        self.expect_keys(&[Kw::Time, Kw::Zone])?;
        let zone = self.operand(Level::At.tighter(), Grammar::Full)?;
        let zone = Some(Box::new(zone));
        Ok((node(ExprKind::AtTimeZone { arg, zone }, at), true))
    }

    /// IS, ISNULL, NOTNULL.
    fn is_test(&mut self, left: Expr, grammar: Grammar) -> PlanResult<(Expr, bool)> {
        let keyword = self.peek_key();
        let at = self.bump();
        if matches!(keyword, Some(Kw::Isnull | Kw::Notnull)) {
            let negated = keyword == Some(Kw::Notnull);
            let arg = Box::new(left);
            return Ok((node(ExprKind::IsNull { arg, negated }, at), false));
        }
        let negated = self.accept_key(Kw::Not);
        let Some(keyword) = self.peek_key() else {
            return Err(self.unexpected());
        };
        let word = matches!(keyword, Kw::Distinct | Kw::Document);
        if grammar == Grammar::Basic && !word {
            return Err(self.unexpected());
        }
        let kind = match keyword {
            Kw::Distinct => {
                self.bump();
                self.expect_key(Kw::From)?;
                let right = self.operand(Level::Is.tighter(), grammar)?;
                let kind = ExprKind::IsDistinct {
                    left: Box::new(left),
                    right: Box::new(right),
                    negated,
                };
                return Ok((node(kind, at), true));
            }
            Kw::Null => ExprKind::IsNull {
                arg: Box::new(left),
                negated,
            },
            Kw::True | Kw::False | Kw::Unknown => ExprKind::IsBool {
                arg: Box::new(left),
                value: (keyword != Kw::Unknown).then_some(keyword == Kw::True),
                negated,
            },
            Kw::Document => ExprKind::Unsupported("IS DOCUMENT".to_owned()),
            Kw::Json => return Ok((self.is_json(left, negated, at)?, false)),
            Kw::Normalized | Kw::Nfc | Kw::Nfd | Kw::Nfkc | Kw::Nfkd => {
                let form = (keyword != Kw::Normalized).then(|| {
                    self.bump();
                    keyword.text().to_ascii_uppercase()
                });
                if !self.is_key(Kw::Normalized) {
                    return Err(self.unexpected());
                }
                let arg = Box::new(left);
                ExprKind::IsNormalized { arg, form, negated }
            }
            _ => return Err(self.unexpected()),
        };
        self.bump();
        Ok((node(kind, at), false))
    }

    /// `[NOT] LIKE`, BETWEEN, IN.
    fn pattern_match(&mut self, left: Expr) -> PlanResult<(Expr, bool)> {
        let at = self.pos();
        let negated = self.accept(Tok::Joined(Kw::Not));
        let keyword = self.peek_key();
        self.bump();
        match keyword {
            Some(Kw::Between) => self.between(left, negated, at),
            Some(Kw::In) => Ok((self.in_list(left, negated, at)?, false)),
            Some(Kw::Like) => self.like(left, LikeKind::Like, negated, at),
            Some(Kw::Ilike) => self.like(left, LikeKind::ILike, negated, at),
            _ => {
                self.expect_key(Kw::To)?;
                self.like(left, LikeKind::Similar, negated, at)
            }
        }
    }

    fn between(&mut self, left: Expr, negated: bool, at: Pos) -> PlanResult<(Expr, bool)> {
        let symmetric = self.accept_key(Kw::Symmetric);
        if !symmetric {
            self.accept_key(Kw::Asymmetric);
        }
        let low = self.basic_expr()?;
        self.expect_key(Kw::And)?;
        let high = self.operand(Level::Match.tighter(), Grammar::Full)?;
        let kind = ExprKind::Between {
            arg: Box::new(left),
            low: Box::new(low),
            high: Box::new(high),
            symmetric,
            negated,
        };
        Ok((node(kind, at), true))
    }

    fn in_list(&mut self, left: Expr, negated: bool, at: Pos) -> PlanResult<Expr> {
        self.expect_char(b'(')?;
        let kind = match self.query_or_exprs()? {
            Ok(query) => {
                let kind = SublinkKind::Any { left, op: None };
                let sublink = ExprKind::Sublink(Box::new(Sublink { kind, query }));
                if negated {
                    ExprKind::Not(Box::new(node(sublink, at)))
                } else {
                    sublink
                }
            }
            Err(list) => ExprKind::InList {
                arg: Box::new(left),
                list,
                negated,
            },
        };
        self.expect_char(b')')?;
        Ok(node(kind, at))
    }

    fn like(
        &mut self,
        left: Expr,
        kind: LikeKind,
        negated: bool,
        at: Pos,
    ) -> PlanResult<(Expr, bool)> {
        if kind != LikeKind::Similar && self.is_any_or_all() {
            let symbol = match (kind, negated) {
                (LikeKind::Like, false) => "~~",
                (LikeKind::Like, true) => "!~~",
                (_, false) => "~~*",
                (_, true) => "!~~*",
            };
            return Ok((self.any_all(left, plain_operator(symbol), at)?, false));
        }
        let pattern = self.operand(Level::Match.tighter(), Grammar::Full)?;
        let escape = if self.accept_key(Kw::Escape) {
            let escape = self.operand(Level::Match.tighter(), Grammar::Full)?;
            Some(Box::new(escape))
        } else {
            None
        };
        let kind = ExprKind::Like {
            kind,
            negated,
            arg: Box::new(left),
            pattern: Box::new(pattern),
            escape,
        };
        Ok((node(kind, at), true))
    }
}

/// A name in `pg_catalog`.
pub(super) fn system_name(name: &str, at: Pos) -> QualifiedName {
    let part = |text: &str| crate::ast::Name {
        text: text.to_owned(),
        at,
    };
    QualifiedName {
        parts: vec![part("pg_catalog"), part(name)],
    }
}
