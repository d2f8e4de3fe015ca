//! Subqueries within expressions.

use std::sync::Arc;

use evenkeel_types::{SqlState, SqlType};

use super::operators::plain;
use super::query::Unknowns;
use super::scope::Place;
use super::{Binder, place, types};
use crate::ast::{self, ExprKind as K, Pos};
use crate::bound::{Expr, ExprKind, Query, RangeKind, Sublink, SublinkId, SublinkKind};
use crate::error::{PlanError, PlanResult};

fn sublink(kind: SublinkKind, query: Query, ty: SqlType, at: Pos) -> Expr {
    let (id, query) = (SublinkId::fresh(), Arc::new(query));
    Expr {
        kind: ExprKind::Sublink(Box::new(Sublink { id, kind, query })),
        ty,
        at,
    }
}

fn columns(query: &Query) -> Vec<SqlType> {
    let shown = query.targets.iter().filter(|target| !target.junk);
    shown.map(|target| target.expr.ty).collect()
}

/// A name that no name of a statement is.
fn own_name(at: Pos) -> ast::Name {
    let text = "\0row".to_owned();
    ast::Name { text, at }
}

/// `SELECT value FROM (query) s (columns)`
fn over(query: &ast::Query, at: Pos, columns: Vec<ast::Name>, value: ast::Expr) -> ast::Query {
    let select = ast::Select {
        targets: vec![ast::Target { value, alias: None }],
        from: vec![ast::FromItem::Subquery {
            query: Box::new(query.clone()),
            lateral: false,
            alias: Some(ast::Alias {
                name: own_name(at),
                columns,
            }),
            at,
        }],
        ..ast::Select::default()
    };
    ast::Query {
        with: None,
        body: ast::QueryBody::Select(Box::new(select)),
        order_by: Vec::new(),
        limit: None,
        with_ties: false,
        offset: None,
        locking: Vec::new(),
        at,
    }
}

/// `SELECT value(ROW(s.*)) FROM (query) s`
fn over_row(query: &ast::Query, at: Pos, value: impl FnOnce(ast::Expr) -> ast::Expr) -> ast::Query {
    let node = |kind| ast::Expr { kind, at };
    let star = vec![ast::FieldPart::Name(own_name(at)), ast::FieldPart::Star(at)];
    let row = node(K::Row {
        fields: vec![node(K::Column(star))],
        explicit: true,
    });
    over(query, at, Vec::new(), value(row))
}

/// `SELECT value(s.c) FROM (query) s (c)`
pub(super) fn over_column(
    query: &ast::Query,
    at: Pos,
    value: impl FnOnce(ast::Expr) -> ast::Expr,
) -> ast::Query {
    let name = || ast::FieldPart::Name(own_name(at));
    let kind = K::Column(vec![name(), name()]);
    over(query, at, vec![own_name(at)], value(ast::Expr { kind, at }))
}

impl Binder<'_> {
    pub(super) fn bind_sublink(&mut self, link: &ast::Sublink, at: Pos) -> PlanResult<Expr> {
        let refused = match self.scope().place {
            Place::Default => Some("DEFAULT expression"),
            Place::Check => Some("check constraint"),
            Place::Transform => Some("transform expression"),
            Place::Generated => Some("column generation expression"),
            Place::CopyWhere => Some("COPY FROM WHERE condition"),
            Place::IndexExpression => Some("index expression"),
            Place::IndexPredicate => Some("index predicate"),
            Place::ExecuteArgument => Some("EXECUTE parameter"),
            _ => None,
        };
        if let Some(refused) = refused {
            let message = format!("cannot use subquery in {refused}");
            return Err(PlanError::unsupported(message).at(at));
        }
        let query = self.bind_query(&link.query, Unknowns::Text)?;
        let syntax = |message: &str| PlanError::new(SqlState::SYNTAX_ERROR, message).at(at);
        match &link.kind {
            ast::SublinkKind::Exists => Ok(sublink(SublinkKind::Exists, query, SqlType::Bool, at)),
            ast::SublinkKind::Scalar => match columns(&query).as_slice() {
                [ty] => {
                    let ty = *ty;
                    Ok(sublink(SublinkKind::Scalar, query, ty, at))
                }
                _ => Err(syntax("subquery must return only one column")),
            },
            ast::SublinkKind::Array => match columns(&query).as_slice() {
                [element] => {
                    let Some(array) = element.arrays_with_its_modifier() else {
                        let name = types::name(*element);
                        let message = format!("could not find array type for data type {name}");
                        return Err(PlanError::new(SqlState::UNDEFINED_OBJECT, message));
                    };
                    Ok(sublink(SublinkKind::Array, query, array, at))
                }
                _ => Err(syntax("subquery must return only one column")),
            },
            ast::SublinkKind::Any { left, op } => {
                let test = self.sublink_test(left, op.as_ref(), &query, at)?;
                let kind = SublinkKind::Any(Box::new(test));
                Ok(sublink(kind, query, SqlType::Bool, at))
            }
            ast::SublinkKind::All { left, op } => {
                let test = self.sublink_test(left, Some(op), &query, at)?;
                let kind = SublinkKind::All(Box::new(test));
                Ok(sublink(kind, query, SqlType::Bool, at))
            }
        }
    }

    /// `(a, b) op (SELECT …)`: the value of `SELECT (a, b) op (s.*) FROM (SELECT …) s`, which is
    /// NULL without a row and an error with several.
    pub(super) fn bind_row_sublink(
        &mut self,
        op: &ast::Operator,
        left: &ast::Expr,
        query: &ast::Query,
        at: Pos,
    ) -> PlanResult<Expr> {
        let wrapper = over_row(query, at, |row| {
            let kind = K::Op {
                op: op.clone(),
                left: Some(Box::new(left.clone())),
                right: Box::new(row),
            };
            ast::Expr { kind, at }
        });
        let bound = self.bind_query(&wrapper, Unknowns::Text)?;
        if bound.grouped || !bound.windows.is_empty() {
            let message = "an aggregate without columns compared with a subquery's row is not \
                           supported";
            return Err(PlanError::unsupported(message).at(at));
        }
        Ok(sublink(SublinkKind::Scalar, bound, SqlType::Bool, at))
    }

    /// A subquery's row as a value, and the types and places of its columns.
    pub(super) fn bind_row_of(
        &mut self,
        query: &ast::Query,
        at: Pos,
    ) -> PlanResult<(Expr, Vec<(SqlType, Pos)>)> {
        let bound = self.bind_query(&over_row(query, at, |row| row), Unknowns::Text)?;
        let columns = match bound.range_table.first().map(|entry| &entry.kind) {
            Some(RangeKind::Subquery(inner)) => {
                let shown = inner.targets.iter().filter(|target| !target.junk);
                let columns = shown.map(|target| (target.expr.ty, place::of(&target.expr)));
                columns.collect()
            }
            _ => Vec::new(),
        };
        let row = sublink(SublinkKind::Scalar, bound, SqlType::Record, at);
        Ok((row, columns))
    }

    fn sublink_test(
        &mut self,
        left: &ast::Expr,
        op: Option<&ast::Operator>,
        query: &Query,
        at: Pos,
    ) -> PlanResult<Expr> {
        let left = match &left.kind {
            K::Row { fields, .. } => self.bind_list(fields)?,
            _ => vec![self.bind_expr(left)?],
        };
        let right = columns(query);
        let syntax = |message: &str| PlanError::new(SqlState::SYNTAX_ERROR, message).at(at);
        if left.len() < right.len() {
            return Err(syntax("subquery has too many columns"));
        }
        if left.len() > right.len() {
            return Err(syntax("subquery has too few columns"));
        }
        let right = right.into_iter().enumerate().map(|(index, ty)| Expr {
            kind: ExprKind::SublinkColumn(index),
            ty,
            at: Pos::NONE,
        });
        let right = right.collect();
        let equal = plain("=");
        self.compare_rows(op.unwrap_or(&equal), left, right, at)
    }
}
