//! Queries: SELECT, VALUES, TABLE, set operations, and what may surround them.

use evenkeel_types::SqlState;

use super::clauses::Limits;
use super::cursor::Parser;
use super::expr::{Stop, node};
use super::keywords::Kw;
use super::token::Tok;
use crate::ast::{
    Distinct, Expr, ExprKind, FieldPart, FromItem, LockWait, Persistence, Pos, QualifiedName,
    Query, QueryBody, Select, SetOp, Target, With,
};
use crate::error::{PlanError, PlanResult};

fn syntax_error(message: &str, at: Pos) -> PlanError {
    PlanError::new(SqlState::SYNTAX_ERROR, message).at(at)
}

fn query_of(body: QueryBody, at: Pos) -> Query {
    Query {
        with: None,
        body,
        order_by: Vec::new(),
        limit: None,
        with_ties: false,
        offset: None,
        locking: Vec::new(),
        at,
    }
}

/// Where the text of an expression begins, parentheses aside: PostgreSQL's `exprLocation`.
fn leftmost(expr: &Expr) -> Pos {
    let mut expr = expr;
    let mut at = expr.at;
    loop {
        let left = match &expr.kind {
            ExprKind::Op {
                left: Some(left), ..
            }
            | ExprKind::AnyAll { left, .. }
            | ExprKind::IsDistinct { left, .. } => left,
            ExprKind::Cast { arg, .. }
            | ExprKind::Collate { arg, .. }
            | ExprKind::AtTimeZone { arg, .. }
            | ExprKind::IsNull { arg, .. }
            | ExprKind::IsBool { arg, .. }
            | ExprKind::Like { arg, .. }
            | ExprKind::Between { arg, .. }
            | ExprKind::InList { arg, .. } => arg,
            ExprKind::And(list) | ExprKind::Or(list) => match list.first() {
                Some(first) => first,
                None => return at,
            },
            _ => return at,
        };
        at = at.min(left.at);
        expr = left;
    }
}

fn continues_query(keyword: Kw) -> bool {
    matches!(
        keyword,
        Kw::Union
            | Kw::Intersect
            | Kw::Except
            | Kw::Order
            | Kw::Limit
            | Kw::Offset
            | Kw::Fetch
            | Kw::For
    )
}

impl Parser<'_> {
    /// Whether a query begins here that no parenthesis surrounds.
    pub(super) fn is_query_start(&self) -> bool {
        matches!(
            self.peek(),
            Tok::Key(Kw::Select | Kw::Values | Kw::Table | Kw::With) | Tok::Joined(Kw::With)
        )
    }

    /// Whether a query in parentheses goes on here as a larger query.
    pub(super) fn is_query_continuation(&self) -> bool {
        self.peek_key().is_some_and(continues_query)
    }

    /// `select_with_parens`
    pub(super) fn query_in_parentheses(&mut self) -> PlanResult<Query> {
        self.expect_char(b'(')?;
        let query = self.deeper(Self::query)?;
        self.expect_char(b')')?;
        Ok(query)
    }

    /// `SelectStmt`
    pub(super) fn query(&mut self) -> PlanResult<Query> {
        let with = self.with()?;
        self.query_with(with)
    }

    /// A query behind its WITH.
    pub(super) fn query_with(&mut self, with: Option<With>) -> PlanResult<Query> {
        let left = self.arm()?;
        let query = self.set_operations(left, false)?;
        self.options(query, with)
    }

    /// Continues a query that stood in parentheses.
    pub(super) fn query_after(&mut self, query: Query) -> PlanResult<Query> {
        let query = self.set_operations(query, false)?;
        self.options(query, None)
    }

    /// Continues `left` with set operations, or only with INTERSECT, which binds tighter.
    fn set_operations(&mut self, mut left: Query, intersect_only: bool) -> PlanResult<Query> {
        loop {
            let op = match self.peek() {
                Tok::Key(Kw::Union) if !intersect_only => SetOp::Union,
                Tok::Key(Kw::Except) if !intersect_only => SetOp::Except,
                Tok::Key(Kw::Intersect) => SetOp::Intersect,
                _ => return Ok(left),
            };
            self.bump();
            let all = self.accept_key(Kw::All);
            if !all {
                self.accept_key(Kw::Distinct);
            }
            let mut right = self.arm()?;
            if op != SetOp::Intersect {
                right = self.set_operations(right, true)?;
            }
            let at = left.at;
            let body = QueryBody::SetOp {
                op,
                all,
                left: Box::new(left),
                right: Box::new(right),
            };
            left = query_of(body, at);
        }
    }

    /// An operand of a set operation.
    fn arm(&mut self) -> PlanResult<Query> {
        let at = self.pos();
        let body = match self.peek() {
            Tok::Char(b'(') => return self.query_in_parentheses(),
            Tok::Key(Kw::Select) => {
                self.bump();
                QueryBody::Select(Box::new(self.select()?))
            }
            Tok::Key(Kw::Values) => {
                self.bump();
                QueryBody::Values(self.list(Self::exprs_in_parentheses)?)
            }
            Tok::Key(Kw::Table) => {
                self.bump();
                QueryBody::Select(Box::new(self.table_command(at)?))
            }
            _ => return Err(self.unexpected()),
        };
        Ok(query_of(body, at))
    }

    fn table_command(&mut self, at: Pos) -> PlanResult<Select> {
        let (name, only) = self.relation()?;
        let star = ExprKind::Column(vec![FieldPart::Star(at)]);
        Ok(Select {
            targets: vec![Target {
                value: node(star, at),
                alias: None,
            }],
            from: vec![FromItem::Table {
                name,
                only,
                alias: None,
                sample: false,
            }],
            ..Select::default()
        })
    }

    /// Behind SELECT.
    fn select(&mut self) -> PlanResult<Select> {
        let mut select = Select::default();
        if self.accept_key(Kw::Distinct) {
            select.distinct = if self.accept_key(Kw::On) {
                Distinct::On(self.exprs_in_parentheses()?)
            } else {
                Distinct::Rows
            };
            select.targets = self.targets()?;
        } else {
            self.accept_key(Kw::All);
            if !self.is_end_of_targets(0) {
                select.targets = self.targets()?;
            }
        }
        if self.accept_key(Kw::Into) {
            let (into, persistence) = self.target_table()?;
            select.into = Some(into);
            select.into_persistence = persistence;
        }
        if self.accept_key(Kw::From) {
            select.from = self.list(Self::table_ref)?;
        }
        select.filter = self.filter()?;
        if self.accept_key(Kw::Group) {
            self.expect_key(Kw::By)?;
            select.group_distinct = self.accept_key(Kw::Distinct);
            if !select.group_distinct {
                self.accept_key(Kw::All);
            }
            select.group_by = self.group_by()?;
        }
        if self.accept_key(Kw::Having) {
            select.having = Some(self.expr()?);
        }
        select.windows = self.windows()?;
        Ok(select)
    }

    /// `where_clause`
    pub(super) fn filter(&mut self) -> PlanResult<Option<Expr>> {
        if self.accept_key(Kw::Where) {
            self.expr().map(Some)
        } else {
            Ok(None)
        }
    }

    /// Whether the token `ahead` cannot be part of a select list.
    pub(super) fn is_end_of_targets(&self, ahead: usize) -> bool {
        match self.peek_at(ahead) {
            Tok::End | Tok::Char(b')' | b';') => true,
            Tok::Char(b',') => ahead > 0,
            Tok::Key(keyword) => {
                matches!(
                    keyword,
                    Kw::From
                        | Kw::Into
                        | Kw::Where
                        | Kw::Group
                        | Kw::Having
                        | Kw::Window
                        | Kw::On
                        | Kw::Returning
                ) || continues_query(keyword)
            }
            _ => false,
        }
    }

    /// `target_list`
    pub(super) fn targets(&mut self) -> PlanResult<Vec<Target>> {
        self.list(Self::target)
    }

    fn target(&mut self) -> PlanResult<Target> {
        if self.is_char(b'*') {
            let at = self.bump();
            let value = node(ExprKind::Column(vec![FieldPart::Star(at)]), at);
            return Ok(Target { value, alias: None });
        }
        let value = self.expr_until(Stop::Label)?;
        let alias = if self.accept_key(Kw::As) {
            Some(self.col_label()?)
        } else {
            self.bare_label()
        };
        Ok(Target { value, alias })
    }

    /// `OptTempTableName`
    fn target_table(&mut self) -> PlanResult<(QualifiedName, Persistence)> {
        let is_name = |tok| Self::is_col_id(tok) || tok == Tok::Key(Kw::Table);
        let scope = matches!(self.peek(), Tok::Key(Kw::Local | Kw::Global))
            && matches!(self.peek_at(1), Tok::Key(Kw::Temporary | Kw::Temp));
        if scope {
            self.bump();
        }
        let persistence = matches!(
            self.peek(),
            Tok::Key(Kw::Temporary | Kw::Temp | Kw::Unlogged)
        );
        let mut kind = Persistence::Permanent;
        if persistence && (scope || is_name(self.peek_at(1))) {
            kind = match self.is_key(Kw::Unlogged) {
                true => Persistence::Unlogged,
                false => Persistence::Temporary,
            };
            self.bump();
        }
        self.accept_key(Kw::Table);
        Ok((self.qualified_name()?, kind))
    }

    /// Reads the clauses after a query's body, and attaches its WITH. A query in parentheses may
    /// have some of them already; none may be given twice.
    fn options(&mut self, mut query: Query, with: Option<With>) -> PlanResult<Query> {
        let order_by = self.order_by()?;
        let mut locking = self.locking()?;
        let limits = self.limits()?;
        if locking.is_empty() {
            locking = self.locking()?;
        }
        if let Some(first) = order_by.first() {
            if !query.order_by.is_empty() {
                let at = leftmost(&first.value);
                return Err(syntax_error("multiple ORDER BY clauses not allowed", at));
            }
            query.order_by = order_by;
        }
        query.locking.extend(locking);
        insert_limits(&mut query, limits)?;
        if let Some(with) = with {
            if query.with.is_some() {
                return Err(syntax_error("multiple WITH clauses not allowed", with.at));
            }
            query.with = Some(with);
        }
        Ok(query)
    }
}

fn insert_limits(query: &mut Query, limits: Limits) -> PlanResult<()> {
    if let Some((offset, at)) = limits.offset {
        if query.offset.is_some() {
            return Err(syntax_error("multiple OFFSET clauses not allowed", at));
        }
        query.offset = Some(offset);
    }
    if let Some((limit, at)) = limits.limit {
        if query.limit.is_some() {
            return Err(syntax_error("multiple LIMIT clauses not allowed", at));
        }
        query.limit = limit;
    }
    if let Some(at) = limits.with_ties {
        if query.order_by.is_empty() {
            let message = "WITH TIES cannot be specified without ORDER BY clause";
            return Err(syntax_error(message, at));
        }
        if query.locking.iter().any(|lock| lock.wait == LockWait::Skip) {
            let message = "SKIP LOCKED and WITH TIES options cannot be used together";
            return Err(syntax_error(message, at));
        }
        query.with_ties = true;
    }
    Ok(())
}
