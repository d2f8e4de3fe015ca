//! Clauses of a query: GROUP BY, ORDER BY, LIMIT, row locks, windows.

use evenkeel_types::SqlState;

use super::cursor::Parser;
use super::expr::{Grammar, Level};
use super::keywords::Kw;
use super::token::Tok;
use super::types::integer;
use crate::ast::{
    Expr, ExprKind, Frame, FrameBound, FrameExclude, FrameUnit, Grouping, LockStrength, LockWait,
    Locking, Name, Pos, SortBy, SortDirection, Window,
};
use crate::error::{PlanError, PlanResult};

const WINDOWING_ERROR: SqlState = SqlState("42P20");

/// LIMIT and OFFSET, or FETCH.
#[derive(Default)]
pub(super) struct Limits {
    /// A limit was written; `None` in it is LIMIT ALL.
    pub(super) limit: Option<(Option<Expr>, Pos)>,
    pub(super) offset: Option<(Expr, Pos)>,
    /// Where WITH TIES stands.
    pub(super) with_ties: Option<Pos>,
}

impl Parser<'_> {
    /// `sort_clause`, if one is next.
    pub(super) fn order_by(&mut self) -> PlanResult<Vec<SortBy>> {
        if !self.accept_key(Kw::Order) {
            return Ok(Vec::new());
        }
        self.expect_key(Kw::By)?;
        self.list(Self::sort_by)
    }

    fn sort_by(&mut self) -> PlanResult<SortBy> {
        let value = self.expr()?;
        let direction = if self.accept_key(Kw::Using) {
            let at = self.pos();
            SortDirection::Using(self.operator()?, at)
        } else {
            self.direction()
        };
        let nulls_first = self.nulls_order();
        Ok(SortBy {
            value,
            direction,
            nulls_first,
        })
    }

    pub(super) fn direction(&mut self) -> SortDirection {
        if self.accept_key(Kw::Asc) {
            SortDirection::Asc
        } else if self.accept_key(Kw::Desc) {
            SortDirection::Desc
        } else {
            SortDirection::Default
        }
    }

    pub(super) fn nulls_order(&mut self) -> Option<bool> {
        if !self.accept(Tok::Joined(Kw::Nulls)) {
            return None;
        }
        let first = self.is_key(Kw::First);
        self.bump();
        Some(first)
    }

    /// Behind GROUP BY.
    pub(super) fn group_by(&mut self) -> PlanResult<Vec<Grouping>> {
        let mut list = Vec::new();
        for item in self.list(|parser| parser.grouping())? {
            match item {
                Grouping::Set(fields) => list.extend(fields.into_iter().map(Grouping::Expr)),
                item => list.push(item),
            }
        }
        Ok(list)
    }

    fn grouping(&mut self) -> PlanResult<Grouping> {
        let at = self.pos();
        match (self.peek(), self.peek_at(1)) {
            (Tok::Char(b'('), Tok::Char(b')')) => {
                self.bump();
                self.bump();
                return Ok(Grouping::Empty(at));
            }
            (Tok::Key(keyword @ (Kw::Rollup | Kw::Cube)), Tok::Char(b'(')) => {
                self.bump();
                let list = self.exprs_in_parentheses()?;
                let list = list.into_iter().map(grouping_of).collect();
                return Ok(if keyword == Kw::Rollup {
                    Grouping::Rollup(list, at)
                } else {
                    Grouping::Cube(list, at)
                });
            }
            (Tok::Key(Kw::Grouping), Tok::Key(Kw::Sets)) => {
                self.bump();
                self.bump();
                self.expect_char(b'(')?;
                let list = self.deeper(|parser| parser.list(Self::grouping))?;
                self.expect_char(b')')?;
                return Ok(Grouping::Sets(list, at));
            }
            _ => {}
        }
        Ok(grouping_of(self.expr()?))
    }

    /// `select_limit`, if one is next.
    pub(super) fn limits(&mut self) -> PlanResult<Limits> {
        let mut limits = Limits::default();
        loop {
            match self.peek() {
                Tok::Key(Kw::Limit | Kw::Fetch) if limits.limit.is_none() => {
                    self.limit(&mut limits)?;
                }
                Tok::Key(Kw::Offset) if limits.offset.is_none() => {
                    let at = self.bump();
                    let offset = self.offset_value()?;
                    limits.offset = Some((offset, at));
                }
                _ => return Ok(limits),
            }
        }
    }

    fn limit(&mut self, limits: &mut Limits) -> PlanResult<()> {
        let at = self.pos();
        let fetch = self.is_key(Kw::Fetch);
        self.bump();
        if !fetch {
            let value = if self.accept_key(Kw::All) {
                None
            } else {
                Some(self.expr()?)
            };
            if self.accept_char(b',') {
                self.expr()?;
                let message = "LIMIT #,# syntax is not supported";
                let error = PlanError::new(SqlState::SYNTAX_ERROR, message).at(at);
                return Err(error.hint("Use separate LIMIT and OFFSET clauses."));
            }
            limits.limit = Some((value, at));
            return Ok(());
        }
        if !self.accept_key(Kw::First) {
            self.expect_key(Kw::Next)?;
        }
        let value = if matches!(self.peek(), Tok::Key(Kw::Row | Kw::Rows)) && !self.is_row_call() {
            integer(1, Pos::NONE)
        } else {
            self.fetch_value()?
        };
        if !self.accept_key(Kw::Row) {
            self.expect_key(Kw::Rows)?;
        }
        if self.is_key(Kw::With) {
            limits.with_ties = Some(self.bump());
            self.expect_key(Kw::Ties)?;
        } else {
            self.expect_key(Kw::Only)?;
        }
        limits.limit = Some((Some(value), at));
        Ok(())
    }

    /// `ROW (…)`, which is an expression.
    fn is_row_call(&self) -> bool {
        self.is_key(Kw::Row) && self.peek_at(1) == Tok::Char(b'(')
    }

    /// `select_fetch_first_value`
    fn fetch_value(&mut self) -> PlanResult<Expr> {
        let at = self.pos();
        if !matches!(self.peek(), Tok::Char(b'+' | b'-')) {
            return self.primary(Grammar::Basic);
        }
        if !matches!(self.peek_at(1), Tok::Integer | Tok::Number) {
            self.bump();
            return Err(self.unexpected());
        }
        let negative = self.is_char(b'-');
        self.bump();
        let value = self.primary(Grammar::Basic)?;
        Ok(super::expr::signed(value, negative, at))
    }

    /// Behind OFFSET: an expression, or a simple one with ROW or ROWS after it.
    fn offset_value(&mut self) -> PlanResult<Expr> {
        let is_rows = |tok| matches!(tok, Tok::Key(Kw::Row | Kw::Rows));
        let signed = matches!(self.peek(), Tok::Char(b'+' | b'-'))
            && matches!(self.peek_at(1), Tok::Integer | Tok::Number)
            && is_rows(self.peek_at(2));
        if signed {
            let value = self.fetch_value()?;
            self.bump();
            return Ok(value);
        }
        let prefixed = matches!(
            self.peek(),
            Tok::Char(b'+' | b'-') | Tok::Op | Tok::Key(Kw::Operator | Kw::Not)
        );
        if prefixed {
            return self.expr();
        }
        let value = self.primary(Grammar::Full)?;
        if is_rows(self.peek()) {
            self.bump();
            return Ok(value);
        }
        self.infix(value, Level::Any, Grammar::Full)
    }

    /// `for_locking_clause`, if one is next.
    pub(super) fn locking(&mut self) -> PlanResult<Vec<Locking>> {
        let mut list = Vec::new();
        while self.is_key(Kw::For) {
            let at = self.bump();
            if list.is_empty() && self.is_key(Kw::Read) {
                self.bump();
                self.expect_key(Kw::Only)?;
                return Ok(list);
            }
            list.push(self.locking_item(at)?);
        }
        Ok(list)
    }

    fn locking_item(&mut self, at: Pos) -> PlanResult<Locking> {
        let (strength, name) = match self.peek() {
            Tok::Key(Kw::Update) => (LockStrength::Update, "FOR UPDATE"),
            Tok::Key(Kw::Share) => (LockStrength::Share, "FOR SHARE"),
            Tok::Key(Kw::No) => {
                self.bump();
                self.expect_key(Kw::Key)?;
                (LockStrength::NoKeyUpdate, "FOR NO KEY UPDATE")
            }
            Tok::Key(Kw::Key) => {
                self.bump();
                (LockStrength::KeyShare, "FOR KEY SHARE")
            }
            _ => return Err(self.unexpected()),
        };
        self.expect_key(match strength {
            LockStrength::Update | LockStrength::NoKeyUpdate => Kw::Update,
            _ => Kw::Share,
        })?;
        let tables = if self.accept_key(Kw::Of) {
            self.list(|parser| parser.locked_table(name))?
        } else {
            Vec::new()
        };
        let wait = if self.accept_key(Kw::Nowait) {
            LockWait::Error
        } else if self.accept_key(Kw::Skip) {
            self.expect_key(Kw::Locked)?;
            LockWait::Skip
        } else {
            LockWait::Block
        };
        Ok(Locking {
            strength,
            tables,
            wait,
            at,
        })
    }

    fn locked_table(&mut self, clause: &str) -> PlanResult<Name> {
        let mut name = self.qualified_name()?;
        if name.parts.len() > 1 {
            let message = format!("{clause} must specify unqualified relation names");
            return Err(PlanError::new(SqlState::SYNTAX_ERROR, message).at(name.at()));
        }
        name.parts.pop().ok_or_else(|| self.unexpected())
    }

    /// `WINDOW name AS (…), …`, if it is next.
    pub(super) fn windows(&mut self) -> PlanResult<Vec<Window>> {
        if !self.accept_key(Kw::Window) {
            return Ok(Vec::new());
        }
        self.list(|parser| {
            let name = parser.col_id()?;
            parser.expect_key(Kw::As)?;
            parser.window(Some(name))
        })
    }

    /// `window_specification`
    pub(super) fn window(&mut self, name: Option<Name>) -> PlanResult<Window> {
        let at = self.expect_char(b'(')?;
        let clause = matches!(
            self.peek(),
            Tok::Key(Kw::Partition | Kw::Range | Kw::Rows | Kw::Groups)
        );
        let base = if !clause && Self::is_col_id(self.peek()) {
            Some(self.take_name())
        } else {
            None
        };
        let partition_by = if self.accept_key(Kw::Partition) {
            self.expect_key(Kw::By)?;
            self.exprs()?
        } else {
            Vec::new()
        };
        let order_by = self.order_by()?;
        let frame = self.frame()?;
        self.expect_char(b')')?;
        Ok(Window {
            name,
            reference: false,
            base,
            partition_by,
            order_by,
            frame,
            at,
        })
    }

    fn frame(&mut self) -> PlanResult<Option<Frame>> {
        let unit = match self.peek() {
            Tok::Key(Kw::Range) => FrameUnit::Range,
            Tok::Key(Kw::Rows) => FrameUnit::Rows,
            Tok::Key(Kw::Groups) => FrameUnit::Groups,
            _ => return Ok(None),
        };
        let at = self.bump();
        let error = |message: &str, at| PlanError::new(WINDOWING_ERROR, message).at(at);
        let between = self.accept_key(Kw::Between);
        let start_at = self.pos();
        let start = self.frame_bound()?;
        let mut end = FrameBound::CurrentRow;
        let mut end_at = start_at;
        if between {
            self.expect_key(Kw::And)?;
            end_at = self.pos();
            end = self.frame_bound()?;
        }
        let following_end = if between {
            "frame starting from following row cannot have preceding rows"
        } else {
            "frame starting from following row cannot end with current row"
        };
        match (&start, &end) {
            (FrameBound::UnboundedFollowing, _) => {
                return Err(error("frame start cannot be UNBOUNDED FOLLOWING", start_at));
            }
            (_, FrameBound::UnboundedPreceding) => {
                return Err(error("frame end cannot be UNBOUNDED PRECEDING", end_at));
            }
            (FrameBound::CurrentRow, FrameBound::Preceding(_)) => {
                let message = "frame starting from current row cannot have preceding rows";
                return Err(error(message, end_at));
            }
            (FrameBound::Following(_), FrameBound::Preceding(_) | FrameBound::CurrentRow) => {
                return Err(error(following_end, end_at));
            }
            _ => {}
        }
        let exclude = self.frame_exclusion()?;
        Ok(Some(Frame {
            unit,
            start,
            end,
            exclude,
            at,
        }))
    }

    fn frame_bound(&mut self) -> PlanResult<FrameBound> {
        let direction = |tok| match tok {
            Tok::Key(Kw::Preceding) => Some(true),
            Tok::Key(Kw::Following) => Some(false),
            _ => None,
        };
        if self.is_key(Kw::Unbounded)
            && let Some(preceding) = direction(self.peek_at(1))
        {
            self.bump();
            self.bump();
            return Ok(if preceding {
                FrameBound::UnboundedPreceding
            } else {
                FrameBound::UnboundedFollowing
            });
        }
        if self.is_key(Kw::Current) && self.peek_at(1) == Tok::Key(Kw::Row) {
            self.bump();
            self.bump();
            return Ok(FrameBound::CurrentRow);
        }
        let value = Box::new(self.expr()?);
        let Some(preceding) = direction(self.peek()) else {
            return Err(self.unexpected());
        };
        self.bump();
        Ok(if preceding {
            FrameBound::Preceding(value)
        } else {
            FrameBound::Following(value)
        })
    }

    fn frame_exclusion(&mut self) -> PlanResult<FrameExclude> {
        if !self.accept_key(Kw::Exclude) {
            return Ok(FrameExclude::NoOthers);
        }
        if self.accept_key(Kw::Current) {
            self.expect_key(Kw::Row)?;
            return Ok(FrameExclude::CurrentRow);
        }
        if self.accept_key(Kw::Group) {
            return Ok(FrameExclude::Group);
        }
        if self.accept_key(Kw::Ties) {
            return Ok(FrameExclude::Ties);
        }
        self.expect_keys(&[Kw::No, Kw::Others])?;
        Ok(FrameExclude::NoOthers)
    }
}

/// A row without ROW is a set of grouping expressions, its inner rows included.
fn grouping_of(expr: Expr) -> Grouping {
    match expr.kind {
        ExprKind::Row {
            fields,
            explicit: false,
        } => {
            let mut list = Vec::new();
            flatten(fields, &mut list);
            Grouping::Set(list)
        }
        kind => Grouping::Expr(Expr { kind, at: expr.at }),
    }
}

fn flatten(fields: Vec<Expr>, list: &mut Vec<Expr>) {
    for field in fields {
        match field.kind {
            ExprKind::Row {
                fields,
                explicit: false,
            } => flatten(fields, list),
            kind => list.push(Expr { kind, at: field.at }),
        }
    }
}
