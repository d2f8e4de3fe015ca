//! DataFusion wants the columns of a select list to have different names, PostgreSQL does not
//! care: repeated names are told apart before planning, and lose the difference in what the
//! client is told. The columns of subqueries get PostgreSQL's names on the way, since the
//! queries around them use those.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, Expr, Ident, OrderByKind, Query, Select, SelectItem, SetExpr,
};

use super::names::{ItemName, of_item};
use super::utility::ident_text;
use crate::pg_catalog::rewrite::visit::{HooksMut, walk_mut};

/// Begins what is added to a name to tell it from another; no name has it in it.
const MARK: char = '\u{1}';

/// Makes the names of every select list in a query differ.
pub fn make_names_unique(query: &mut Query) {
    walk_mut(query, &mut Uniquely { inside: false });
}

/// A name as it was before [`make_names_unique`].
pub fn original(name: &str) -> &str {
    name.split(MARK).next().unwrap_or(name)
}

struct Uniquely {
    inside: bool,
}

impl HooksMut for Uniquely {
    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let ordered = ordered_by(query);
        let place = if std::mem::replace(&mut self.inside, true) {
            Place::Inside
        } else {
            Place::Top(&ordered)
        };
        set(&mut query.body, place);
        ControlFlow::Continue(())
    }
}

/// Where a select list is.
#[derive(Clone, Copy)]
enum Place<'a> {
    /// Its columns go to the client, whose names for them come from elsewhere; these names are
    /// in the ORDER BY.
    Top(&'a HashSet<String>),
    /// Other queries use its names.
    Inside,
}

/// The plain names in a query's ORDER BY.
fn ordered_by(query: &Query) -> HashSet<String> {
    let kind = query.order_by.as_ref().map(|order| &order.kind);
    let Some(OrderByKind::Expressions(items)) = kind else {
        return HashSet::new();
    };
    let name = |expr: &Expr| match expr {
        Expr::Identifier(ident) => Some(ident_text(ident)),
        _ => None,
    };
    items.iter().filter_map(|item| name(&item.expr)).collect()
}

fn set(body: &mut SetExpr, place: Place<'_>) {
    match body {
        SetExpr::Select(select) => list(select, place),
        SetExpr::SetOperation { left, right, .. } => {
            set(left, place);
            set(right, place);
        }
        _ => {}
    }
}

fn list(select: &mut Select, place: Place<'_>) {
    let names: Vec<ItemName> = select.projection.iter().map(of_item).collect();
    let starred = names.contains(&ItemName::Star);
    let mut repeated: HashMap<String, bool> = HashMap::new();
    for key in select.projection.iter().filter_map(key) {
        repeated
            .entry(key)
            .and_modify(|more| *more = true)
            .or_insert(false);
    }
    let mut times: HashMap<String, usize> = HashMap::new();
    for (item, name) in select.projection.iter_mut().zip(names) {
        let (ItemName::One(name), Some(key)) = (name, key(item)) else {
            continue;
        };
        // Of a repeated expression the first gets a name too: by its text it would be all.
        let as_text = repeated.get(&key) == Some(&true) && !has_name(item);
        let times = times.entry(key).or_insert(0);
        *times += 1;
        let may_meet_star = match place {
            Place::Top(ordered) => starred && has_name(item) && !ordered.contains(&name),
            Place::Inside => false,
        };
        if *times == 1 && matches!(place, Place::Inside) {
            if !has_name(item) {
                rename(item, &name);
            }
        } else if *times > 1 || may_meet_star || as_text {
            rename(item, &format!("{name}{MARK}{times}"));
        }
    }
}

/// What must not be there twice: an unnamed expression is named after its text.
fn key(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::UnnamedExpr(Expr::Identifier(ident)) => Some(ident_text(ident)),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => parts.last().map(ident_text),
        SelectItem::UnnamedExpr(_) => match of_item(item) {
            ItemName::One(name) => Some(name),
            ItemName::Star => None,
        },
        SelectItem::ExprWithAlias { alias, .. } => Some(ident_text(alias)),
        _ => None,
    }
}

/// Whether the item is a column or has an alias.
fn has_name(item: &SelectItem) -> bool {
    matches!(
        item,
        SelectItem::UnnamedExpr(Expr::Identifier(_) | Expr::CompoundIdentifier(_))
            | SelectItem::ExprWithAlias { .. }
    )
}

fn rename(item: &mut SelectItem, name: &str) {
    let new = Ident::with_quote('"', name);
    match item {
        SelectItem::ExprWithAlias { alias, .. } => *alias = new,
        SelectItem::UnnamedExpr(expr) => {
            let null = Expr::Value(ast::Value::Null.into());
            let expr = std::mem::replace(expr, null);
            *item = SelectItem::ExprWithAlias { expr, alias: new };
        }
        _ => {}
    }
}
