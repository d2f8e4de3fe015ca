//! The select list, and how its columns are named.

use std::sync::Arc;

use super::Binder;
use super::scope::Place;
use super::walk::{self, Enter};
use crate::ast::{self, ExprKind as K, FieldPart, JsonConstructor, Pos, SqlValue, SublinkKind};
use crate::bound::{Expr, ExprKind, Target};
use crate::error::PlanResult;

/// The name that an expression gives its column, with how good it is: 0 for none, 1 for a type or
/// a construct, 2 for a name.
fn figure(expr: &ast::Expr, bound: &Bound<'_>) -> (u8, String) {
    let named = |name: &str| (2, name.to_owned());
    match &expr.kind {
        K::Column(parts) => last_name(parts).map_or((0, String::new()), |name| named(&name)),
        K::Field { base, field } => match field {
            FieldPart::Name(name) => named(&name.text),
            FieldPart::Star(_) => figure(base, bound),
        },
        K::Subscript { base, .. } | K::Collate { arg: base, .. } => figure(base, bound),
        K::Cast { arg, ty } => match figure(arg, bound) {
            (strength, _) if strength <= 1 => (1, ty.name.last().to_owned()),
            found => found,
        },
        K::Call(call) => named(call.name.last()),
        K::AtTimeZone { .. } => named("timezone"),
        K::IsNormalized { .. } => named("is_normalized"),
        K::Json(json) => named(match **json {
            JsonConstructor::Parse { .. } => "json",
            JsonConstructor::Scalar(_) => "json_scalar",
            JsonConstructor::Serialize { .. } => "json_serialize",
            JsonConstructor::Object { .. } => "json_object",
            JsonConstructor::Array { .. } | JsonConstructor::ArrayOf { .. } => "json_array",
        }),
        K::Case { otherwise, .. } => match otherwise.as_deref().map(|expr| figure(expr, bound)) {
            Some((strength, name)) if strength > 1 => (strength, name),
            _ => (1, "case".to_owned()),
        },
        K::Coalesce(_) => named("coalesce"),
        K::Greatest(_) => named("greatest"),
        K::Least(_) => named("least"),
        K::NullIf(..) => named("nullif"),
        K::Array(_) => named("array"),
        K::Row { .. } => named("row"),
        K::Grouping(_) => named("grouping"),
        K::MergeAction => named("merge_action"),
        K::SqlValue(value, _) => named(sql_value_name(*value)),
        K::Sublink(link) => match link.kind {
            SublinkKind::Exists => named("exists"),
            SublinkKind::Array => named("array"),
            SublinkKind::Scalar => match bound(expr.at) {
                Some(name) => named(&name),
                None => (0, String::new()),
            },
            SublinkKind::Any { .. } | SublinkKind::All { .. } => (0, String::new()),
        },
        _ => (0, String::new()),
    }
}

/// The name that an expression gives a column, if it gives one.
pub(super) fn given_name(expr: &ast::Expr) -> Option<String> {
    let (strength, name) = figure(expr, &|_| None);
    (strength > 0).then_some(name)
}

fn last_name(parts: &[FieldPart]) -> Option<String> {
    parts.iter().rev().find_map(|part| match part {
        FieldPart::Name(name) => Some(name.text.clone()),
        FieldPart::Star(_) => None,
    })
}

fn sql_value_name(value: SqlValue) -> &'static str {
    match value {
        SqlValue::CurrentDate => "current_date",
        SqlValue::CurrentTime => "current_time",
        SqlValue::CurrentTimestamp => "current_timestamp",
        SqlValue::LocalTime => "localtime",
        SqlValue::LocalTimestamp => "localtimestamp",
        SqlValue::CurrentRole => "current_role",
        SqlValue::CurrentUser => "current_user",
        SqlValue::User => "user",
        SqlValue::SessionUser => "session_user",
        SqlValue::CurrentCatalog => "current_catalog",
        SqlValue::CurrentSchema => "current_schema",
    }
}

/// The name of the column of a subquery that stands somewhere in an expression.
type Bound<'b> = dyn Fn(Pos) -> Option<Arc<str>> + 'b;

/// The name of a column without an alias, of an expression that is bound.
fn column_name(expr: &ast::Expr, bound: &Expr) -> String {
    let subquery = |at: Pos| {
        let mut found = None;
        walk::walk(bound, 0, &mut |node, level| {
            if let ExprKind::Sublink(link) = &node.kind
                && level == 0
                && node.at == at
            {
                found = link
                    .query
                    .targets
                    .first()
                    .map(|target| Arc::clone(&target.name));
            }
            match level == 0 && found.is_none() {
                true => Enter::Yes,
                false => Enter::No,
            }
        });
        found
    };
    match figure(expr, &subquery) {
        (0, _) => "?column?".to_owned(),
        (_, name) => name,
    }
}

/// As `column_name`, for a function in FROM.
pub(super) fn function_name(expr: &ast::Expr) -> String {
    match figure(expr, &|_| None) {
        (0, _) => "?column?".to_owned(),
        (_, name) => name,
    }
}

impl Binder<'_> {
    /// A select list or that of RETURNING.
    pub(super) fn bind_targets(
        &mut self,
        list: &[ast::Target],
        place: Place,
    ) -> PlanResult<Vec<Target>> {
        let before = std::mem::replace(&mut self.scope().place, place);
        let mut targets = Vec::with_capacity(list.len());
        for item in list {
            match self.expand(&item.value)? {
                Some(named) => {
                    targets.extend(named.into_iter().map(|(name, expr)| shown(expr, name)));
                }
                None => {
                    let expr = self.bind_expr(&item.value)?;
                    let name = match &item.alias {
                        Some(alias) => alias.text.clone(),
                        None => column_name(&item.value, &expr),
                    };
                    targets.push(shown(expr, name.into()));
                }
            }
        }
        self.scope().place = before;
        Ok(targets)
    }
}

/// A column of the result.
pub(super) fn shown(expr: Expr, name: Arc<str>) -> Target {
    Target {
        expr,
        name,
        junk: false,
    }
}

/// A column that only an order or a grouping needs.
pub(super) fn junk(expr: Expr) -> Target {
    Target {
        expr,
        name: "".into(),
        junk: true,
    }
}
