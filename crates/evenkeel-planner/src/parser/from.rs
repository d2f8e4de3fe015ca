//! `table_ref` of the grammar: tables, subqueries, functions and joins.

use super::cursor::{Indirection, Parser};
use super::keywords::Kw;
use super::token::Tok;
use crate::ast::{
    Alias, ColumnDef, Expr, FieldPart, FromItem, Join, JoinKind, Name, Pos, QualifiedName, Query,
};
use crate::error::PlanResult;

/// Functions of FROM, before their alias.
struct Functions {
    calls: Vec<(Expr, Vec<ColumnDef>)>,
    rows_from: bool,
}

/// The alias of a function, and the columns it defines.
type FunctionAlias = (Option<Alias>, Vec<ColumnDef>);

impl Parser<'_> {
    /// `table_ref`
    pub(super) fn table_ref(&mut self) -> PlanResult<FromItem> {
        let at = self.pos();
        let left = self.table_primary()?;
        self.joins(left, at)
    }

    fn joins(&mut self, mut left: FromItem, at: Pos) -> PlanResult<FromItem> {
        while let Tok::Key(keyword) = self.peek() {
            let natural = keyword == Kw::Natural;
            if natural {
                self.bump();
            }
            let cross = !natural && self.accept_key(Kw::Cross);
            let kind = if cross {
                self.expect_key(Kw::Join)?;
                JoinKind::Inner
            } else {
                match self.join_kind()? {
                    Some(kind) => kind,
                    None if natural => return Err(self.unexpected()),
                    None => return Ok(left),
                }
            };
            let mut using = None;
            let mut on = None;
            let right = if natural || cross {
                self.table_primary()?
            } else {
                // The condition of this join comes behind the joins of its right side.
                let right = self.deeper(Self::table_ref)?;
                if self.accept_key(Kw::Using) {
                    using = Some(self.join_using()?);
                } else {
                    self.expect_key(Kw::On)?;
                    on = Some(self.expr()?);
                }
                right
            };
            left = FromItem::Join(Box::new(Join {
                kind,
                natural,
                left,
                right,
                using,
                on,
                alias: None,
                at,
            }));
        }
        Ok(left)
    }

    fn join_using(&mut self) -> PlanResult<(Vec<Name>, Option<Name>)> {
        self.expect_char(b'(')?;
        let columns = self.list(Self::col_id)?;
        self.expect_char(b')')?;
        let alias = if self.accept_key(Kw::As) {
            Some(self.col_id()?)
        } else {
            None
        };
        Ok((columns, alias))
    }

    /// A table, or what stands for one, without joins outside of parentheses.
    fn table_primary(&mut self) -> PlanResult<FromItem> {
        let at = self.pos();
        match (self.peek(), self.peek_at(1)) {
            (Tok::Char(b'('), _) => match self.parenthesis_of_from()? {
                Ok(query) => self.subquery(query, false, at),
                Err(mut join) => {
                    join.alias = self.alias()?;
                    Ok(FromItem::Join(join))
                }
            },
            (Tok::Key(Kw::Only), _) => {
                let (name, only) = self.relation()?;
                self.table(name, only)
            }
            (Tok::Key(Kw::Lateral), Tok::Char(b'(')) => {
                self.bump();
                let query = self.query_in_parentheses()?;
                self.subquery(query, true, at)
            }
            (Tok::Key(Kw::Lateral), _) => {
                self.bump();
                match self.function()? {
                    Ok(call) => self.functions(call, true, at),
                    Err(_) => Err(self.unexpected()),
                }
            }
            _ => match self.function()? {
                Ok(call) => self.functions(call, false, at),
                Err(name) => {
                    self.accept_char(b'*');
                    self.table(name, false)
                }
            },
        }
    }

    /// `(…)` in FROM: a query, or a join.
    fn parenthesis_of_from(&mut self) -> PlanResult<Result<Query, Box<Join>>> {
        self.expect_char(b'(')?;
        if self.is_query_start() {
            let query = self.deeper(Self::query)?;
            self.expect_char(b')')?;
            return Ok(Ok(query));
        }
        let at = self.pos();
        let item = if self.is_char(b'(') {
            let item = match self.deeper(Self::parenthesis_of_from)? {
                Ok(query) if self.accept_char(b')') => return Ok(Ok(query)),
                Ok(query) if self.is_query_continuation() => {
                    let query = self.query_after(query)?;
                    self.expect_char(b')')?;
                    return Ok(Ok(query));
                }
                Ok(query) => self.subquery(query, false, at)?,
                Err(mut join) => {
                    join.alias = self.alias()?;
                    FromItem::Join(join)
                }
            };
            self.joins(item, at)?
        } else {
            self.deeper(Self::table_ref)?
        };
        match item {
            FromItem::Join(join) if join.alias.is_none() => {
                self.expect_char(b')')?;
                Ok(Err(join))
            }
            _ => Err(self.unexpected()),
        }
    }

    fn subquery(&mut self, query: Query, lateral: bool, at: Pos) -> PlanResult<FromItem> {
        Ok(FromItem::Subquery {
            query: Box::new(query),
            lateral,
            alias: self.alias()?,
            at,
        })
    }

    /// `relation_expr`: the name of a table, and whether ONLY stands before it.
    pub(super) fn relation(&mut self) -> PlanResult<(QualifiedName, bool)> {
        if !self.accept_key(Kw::Only) {
            let name = self.qualified_name()?;
            self.accept_char(b'*');
            return Ok((name, false));
        }
        if !self.accept_char(b'(') {
            return Ok((self.qualified_name()?, true));
        }
        let name = self.qualified_name()?;
        self.expect_char(b')')?;
        Ok((name, true))
    }

    /// Behind a table's name.
    fn table(&mut self, name: QualifiedName, only: bool) -> PlanResult<FromItem> {
        let alias = self.alias()?;
        let sample = self.accept_key(Kw::Tablesample);
        if sample {
            self.function_name()?;
            self.exprs_in_parentheses()?;
            if self.accept_key(Kw::Repeatable) {
                self.expect_char(b'(')?;
                self.expr()?;
                self.expect_char(b')')?;
            }
        }
        Ok(FromItem::Table {
            name,
            only,
            alias,
            sample,
        })
    }

    /// `func_name`
    fn function_name(&mut self) -> PlanResult<QualifiedName> {
        let first = self.peek();
        if !Self::is_col_id(first) || self.peek_at(1) != Tok::Char(b'.') {
            if !Self::is_function_name(first) {
                return Err(self.unexpected());
            }
            let parts = vec![self.take_name()];
            return Ok(QualifiedName { parts });
        }
        self.any_name()
    }

    /// `opt_alias_clause`
    fn alias(&mut self) -> PlanResult<Option<Alias>> {
        if !self.accept_key(Kw::As) && !Self::is_col_id(self.peek()) {
            return Ok(None);
        }
        let name = self.col_id()?;
        let columns = self.optional_names()?;
        Ok(Some(Alias { name, columns }))
    }

    /// A function of FROM, or the name of a table.
    fn function(&mut self) -> PlanResult<Result<Functions, QualifiedName>> {
        let one = |call| {
            let calls = vec![(call, Vec::new())];
            let rows_from = false;
            Ok(Ok(Functions { calls, rows_from }))
        };
        if let Tok::Key(keyword) = self.peek() {
            let parenthesis = self.peek_at(1) == Tok::Char(b'(');
            match keyword {
                Kw::Rows if self.peek_at(1) == Tok::Key(Kw::From) => {
                    let calls = self.rows_from()?;
                    let rows_from = true;
                    return Ok(Ok(Functions { calls, rows_from }));
                }
                Kw::Xmltable if parenthesis => return one(self.xml_table()?),
                Kw::JsonTable if parenthesis => return one(self.json_table()?),
                _ => {
                    if let Some(call) = self.special_call(keyword)? {
                        return one(call);
                    }
                }
            }
        }
        let first = self.peek();
        let called = self.peek_at(1) == Tok::Char(b'(');
        if Self::is_function_name(first) && (called || !Self::is_col_id(first)) {
            let parts = vec![self.take_name()];
            return one(self.windowless_call(QualifiedName { parts })?);
        }
        let name = self.col_id()?;
        let parts = self.indirection()?;
        let is_name = |part: &Indirection| matches!(part, Indirection::Field(FieldPart::Name(_)));
        if !parts.is_empty() && parts.iter().all(is_name) && self.is_char(b'(') {
            let mut names = vec![name];
            names.extend(parts.into_iter().filter_map(|part| match part {
                Indirection::Field(FieldPart::Name(name)) => Some(name),
                _ => None,
            }));
            return one(self.windowless_call(QualifiedName { parts: names })?);
        }
        Ok(Err(self.relation_name(name, parts)?))
    }

    /// `ROWS FROM (…)`
    fn rows_from(&mut self) -> PlanResult<Vec<(Expr, Vec<ColumnDef>)>> {
        self.bump();
        self.bump();
        self.expect_char(b'(')?;
        let calls = self.list(|parser| {
            let call = parser.windowless()?;
            let columns = if parser.accept_key(Kw::As) {
                parser.expect_char(b'(')?;
                let columns = parser.list(Self::column_def)?;
                parser.expect_char(b')')?;
                columns
            } else {
                Vec::new()
            };
            Ok((call, columns))
        })?;
        self.expect_char(b')')?;
        Ok(calls)
    }

    /// `func_expr_windowless`
    pub(super) fn windowless(&mut self) -> PlanResult<Expr> {
        if let Tok::Key(keyword) = self.peek()
            && let Some(call) = self.special_call(keyword)?
        {
            return Ok(call);
        }
        let name = self.function_name()?;
        self.windowless_call(name)
    }

    /// Behind the calls of a function in FROM.
    fn functions(&mut self, functions: Functions, lateral: bool, at: Pos) -> PlanResult<FromItem> {
        let ordinality = self.accept(Tok::Joined(Kw::With));
        if ordinality {
            self.expect_key(Kw::Ordinality)?;
        }
        let (alias, columns) = self.function_alias()?;
        Ok(FromItem::Functions {
            calls: functions.calls,
            rows_from: functions.rows_from,
            ordinality,
            lateral,
            alias,
            columns,
            at,
        })
    }

    /// `func_alias_clause`
    fn function_alias(&mut self) -> PlanResult<FunctionAlias> {
        let explicit = self.accept_key(Kw::As);
        if explicit && self.accept_char(b'(') {
            let columns = self.list(Self::column_def)?;
            self.expect_char(b')')?;
            return Ok((None, columns));
        }
        if !explicit && !Self::is_col_id(self.peek()) {
            return Ok((None, Vec::new()));
        }
        let name = self.col_id()?;
        let mut alias = Alias {
            name,
            columns: Vec::new(),
        };
        if !self.accept_char(b'(') {
            return Ok((Some(alias), Vec::new()));
        }
        let mut columns = Vec::new();
        if matches!(self.peek_at(1), Tok::Char(b',' | b')')) {
            alias.columns = self.list(Self::col_id)?;
        } else {
            columns = self.list(Self::column_def)?;
        }
        self.expect_char(b')')?;
        Ok((Some(alias), columns))
    }

    fn column_def(&mut self) -> PlanResult<ColumnDef> {
        let name = self.col_id()?;
        let ty = self.type_name()?;
        let collation = if self.accept_key(Kw::Collate) {
            Some(self.any_name()?)
        } else {
            None
        };
        Ok(ColumnDef {
            name,
            ty,
            collation,
        })
    }

    /// `[INNER | LEFT | RIGHT | FULL [OUTER]] JOIN`, if it is next.
    fn join_kind(&mut self) -> PlanResult<Option<JoinKind>> {
        let kind = match self.peek() {
            Tok::Key(Kw::Join) => {
                self.bump();
                return Ok(Some(JoinKind::Inner));
            }
            Tok::Key(Kw::Inner) => JoinKind::Inner,
            Tok::Key(Kw::Left) => JoinKind::Left,
            Tok::Key(Kw::Right) => JoinKind::Right,
            Tok::Key(Kw::Full) => JoinKind::Full,
            _ => return Ok(None),
        };
        self.bump();
        if kind != JoinKind::Inner {
            self.accept_key(Kw::Outer);
        }
        self.expect_key(Kw::Join)?;
        Ok(Some(kind))
    }
}
