//! Functions in FROM.

use std::sync::Arc;

use evenkeel_types::{Datum, RecordValue, SqlState, SqlType};

use super::expr::constant;
use super::from::{BoundItem, rename_columns};
use super::scope::Place;
use super::targets::function_name;
use super::{Binder, tables};
use crate::ast::{self, Alias, FromItem, Pos};
use crate::bound::{CallExpr, Expr, ExprKind, RangeEntry, RangeKind};
use crate::error::{PlanError, PlanResult};

/// `json_to_record`, `json_to_recordset` and those of `jsonb`, which take a column definition list.
const RECORDS: [u32; 4] = [3204, 3205, 3490, 3491];

/// The columns of one function.
struct Columns {
    names: Vec<Arc<str>>,
    types: Vec<SqlType>,
    /// One column of a type that is no row.
    scalar: bool,
}

impl Binder<'_> {
    pub(super) fn bind_functions(&mut self, item: &FromItem) -> PlanResult<BoundItem> {
        let FromItem::Functions {
            calls,
            ordinality,
            alias,
            columns: definitions,
            ..
        } = item
        else {
            return Err(PlanError::new(SqlState::INTERNAL_ERROR, "no functions"));
        };
        if let (Some(first), true) = (definitions.first(), *ordinality) {
            let message = "WITH ORDINALITY cannot be used with a column definition list";
            let hint = "Put the column definition list inside ROWS FROM().";
            let error = PlanError::new(SqlState::SYNTAX_ERROR, message).hint(hint);
            return Err(error.at(first.name.at));
        }
        let calls = &with_unnests_apart(calls);
        let mut bound = Vec::with_capacity(calls.len());
        let mut all = Columns {
            names: Vec::new(),
            types: Vec::new(),
            scalar: false,
        };
        let mut widths = Vec::with_capacity(calls.len());
        let alone = calls.len() == 1;
        for (call, own_definitions) in calls {
            let given = if own_definitions.is_empty() {
                definitions
            } else {
                own_definitions
            };
            let alias = alias.as_ref();
            let (expr, columns) = self.bind_function(call, given, alias.filter(|_| alone))?;
            widths.push(columns.types.len());
            all.scalar = columns.scalar;
            all.names.extend(columns.names);
            all.types.extend(columns.types);
            bound.push(expr);
        }
        if *ordinality {
            all.names.push("ordinality".into());
            all.types.push(SqlType::Int8);
        }
        let name = match (alias, calls.first()) {
            (Some(alias), _) => alias.name.text.clone(),
            (None, Some((call, _))) => function_name(call),
            (None, None) => String::new(),
        };
        let kind = range_kind(bound, widths, *ordinality)?;
        let mut entry = RangeEntry {
            alias: name.as_str().into(),
            columns: all.names,
            types: all.types,
            kind,
            lateral: true,
            indexes: Vec::new(),
            virtuals: Vec::new(),
        };
        rename_columns("table", &mut entry, alias.as_ref())?;
        let mut item = self.add_functions(entry, alias.is_some());
        item.own.scalar_function = alone && all.scalar && !*ordinality;
        for visible in &mut item.visible {
            visible.scalar_function = item.own.scalar_function;
        }
        Ok(item)
    }

    /// A function and its columns; the alias names the only column of one that stands alone.
    fn bind_function(
        &mut self,
        call: &ast::Expr,
        given: &[ast::ColumnDef],
        alias: Option<&Alias>,
    ) -> PlanResult<(Expr, Columns)> {
        let mut expr = self.bind_from_call(call)?;
        check_definitions(&expr, given)?;
        let columns = if given.is_empty() {
            columns_of(&expr, call, alias)
        } else {
            self.defined_columns(&mut expr, given)?
        };
        Ok((expr, columns))
    }

    /// The columns of a definition list, of which the function hears by two more arguments: their
    /// names, and a row of their types.
    fn defined_columns(
        &mut self,
        expr: &mut Expr,
        given: &[ast::ColumnDef],
    ) -> PlanResult<Columns> {
        let mut names: Vec<Arc<str>> = Vec::with_capacity(given.len());
        let mut types = Vec::with_capacity(given.len());
        for definition in given {
            let name = definition.name.text.as_str();
            if names.iter().any(|known| **known == *name) {
                let message = format!("column name \"{name}\" specified more than once");
                return Err(PlanError::new(SqlState::DUPLICATE_COLUMN, message));
            }
            if let Some(collation) = &definition.collation {
                let message = "a collation in a column definition list is not supported";
                return Err(PlanError::unsupported(message).at(collation.at()));
            }
            names.push(name.into());
            let ty = self.bind_type(&definition.ty)?;
            if ty.is_of_domain() {
                let message = "a column definition list with a domain is not supported";
                return Err(PlanError::unsupported(message).at(definition.ty.at));
            }
            types.push(ty);
        }
        let (ExprKind::Call(call) | ExprKind::SetCall(call)) = &mut expr.kind else {
            return Err(PlanError::new(SqlState::INTERNAL_ERROR, "no function"));
        };
        let listed = names.iter().map(|name| Datum::from(&**name)).collect();
        let listed = constant(Datum::array(listed), SqlType::TEXT_ARRAY, Pos::NONE);
        let nulls = vec![Datum::Null; types.len()].into_boxed_slice();
        let sample = RecordValue::new(types.clone().into_boxed_slice(), nulls);
        let sample = constant(Datum::Record(sample.into()), SqlType::Record, Pos::NONE);
        call.args.extend([listed, sample]);
        Ok(Columns {
            names,
            types,
            scalar: false,
        })
    }

    fn bind_from_call(&mut self, call: &ast::Expr) -> PlanResult<Expr> {
        let scope = self.scope();
        let active = std::mem::replace(&mut scope.lateral_active, true);
        let seen = scope.set_calls_seen;
        let expr = self.bind_in(Place::FromFunction, call)?;
        let scope = self.scope();
        scope.lateral_active = active;
        if scope.set_calls_seen != seen && !matches!(expr.kind, ExprKind::SetCall(_)) {
            let message = "set-returning functions must appear at top level of FROM";
            let at = scope.last_set_call.unwrap_or(expr.at);
            return Err(PlanError::unsupported(message).at(at));
        }
        self.resolve_unknown(expr)
    }
}

/// `unnest(a, b)` is `ROWS FROM (unnest(a), unnest(b))`.
fn with_unnests_apart(
    calls: &[(ast::Expr, Vec<ast::ColumnDef>)],
) -> Vec<(ast::Expr, Vec<ast::ColumnDef>)> {
    let mut apart = Vec::with_capacity(calls.len());
    for (expr, definitions) in calls {
        match &expr.kind {
            ast::ExprKind::Call(call) if is_unnest_of_several(call) && definitions.is_empty() => {
                for argument in &call.args {
                    let call = ast::Call {
                        args: vec![argument.clone()],
                        ..ast::Call::clone(call)
                    };
                    let kind = ast::ExprKind::Call(Box::new(call));
                    apart.push((ast::Expr { kind, at: expr.at }, Vec::new()));
                }
            }
            _ => apart.push((expr.clone(), definitions.clone())),
        }
    }
    apart
}

fn is_unnest_of_several(call: &ast::Call) -> bool {
    call.name.last() == "unnest"
        && call
            .name
            .schema()
            .is_none_or(|schema| schema == "pg_catalog")
        && call.args.len() > 1
        && call.args.iter().all(|argument| argument.name.is_none())
        && !call.star
        && !call.distinct
        && !call.variadic
        && call.order_by.is_empty()
        && call.filter.is_none()
        && call.over.is_none()
}

fn check_definitions(expr: &Expr, given: &[ast::ColumnDef]) -> PlanResult<()> {
    let known = match &expr.kind {
        ExprKind::Call(call) | ExprKind::SetCall(call) => {
            !tables::row_columns(call.proc).is_empty()
        }
        _ => false,
    };
    let record = expr.ty == SqlType::Record && !known;
    let syntax = |message: &str, at| Err(PlanError::new(SqlState::SYNTAX_ERROR, message).at(at));
    match given.first() {
        None if record => syntax(
            "a column definition list is required for functions returning \"record\"",
            super::place::of(expr),
        ),
        None => Ok(()),
        Some(first) if known => syntax(
            "a column definition list is redundant for a function with OUT parameters",
            first.name.at,
        ),
        Some(first) if !record => syntax(
            "a column definition list is only allowed for functions returning \"record\"",
            first.name.at,
        ),
        Some(first) => match &expr.kind {
            ExprKind::Call(call) | ExprKind::SetCall(call) if RECORDS.contains(&call.proc.oid) => {
                Ok(())
            }
            _ => {
                let message = "a column definition list is not supported for this function";
                Err(PlanError::unsupported(message).at(first.name.at))
            }
        },
    }
}

fn columns_of(expr: &Expr, call: &ast::Expr, alias: Option<&Alias>) -> Columns {
    let listed = match &expr.kind {
        ExprKind::Call(call) | ExprKind::SetCall(call) => tables::row_columns(call.proc),
        _ => &[],
    };
    if let [(name, ty)] = listed {
        return Columns {
            names: vec![(*name).into()],
            types: vec![*ty],
            scalar: true,
        };
    }
    if !listed.is_empty() {
        return Columns {
            names: listed.iter().map(|(name, _)| (*name).into()).collect(),
            types: listed.iter().map(|(_, ty)| *ty).collect(),
            scalar: false,
        };
    }
    let name = match alias {
        Some(alias) => alias.name.text.clone(),
        None => function_name(call),
    };
    Columns {
        names: vec![name.as_str().into()],
        types: vec![expr.ty],
        scalar: true,
    }
}

/// Calls are functions; a construct that is written like one is a row of VALUES.
fn range_kind(bound: Vec<Expr>, widths: Vec<usize>, ordinality: bool) -> PlanResult<RangeKind> {
    let is_call = |expr: &Expr| matches!(expr.kind, ExprKind::Call(_) | ExprKind::SetCall(_));
    if bound.iter().all(is_call) {
        let calls = bound.into_iter().filter_map(|expr| match expr.kind {
            ExprKind::Call(call) | ExprKind::SetCall(call) => Some(call),
            _ => None,
        });
        let calls: Vec<CallExpr> = calls.collect();
        return Ok(RangeKind::Functions {
            calls,
            widths,
            ordinality,
        });
    }
    if bound.len() > 1 {
        let message = "an expression that is no function call is not supported in ROWS FROM";
        return Err(PlanError::unsupported(message));
    }
    let first = constant(Datum::Int8(1), SqlType::Int8, Pos::NONE);
    let row = bound.into_iter().chain(ordinality.then_some(first));
    Ok(RangeKind::Values(vec![row.collect()]))
}
