//! Joins: USING, NATURAL, and what a join shows of its sides.

use std::sync::Arc;

use evenkeel_expr::proc::CastContext;
use evenkeel_types::SqlState;

use super::columns::variable;
use super::expr::boolean;
use super::from::{BoundItem, check_conflicts, item_of, rename_columns, set_lateral};
use super::operators::plain;
use super::scope::{NsColumn, NsItem, Place};
use super::{Binder, common_type};
use crate::ast::{self, JoinKind, Pos};
use crate::bound::{Expr, ExprKind, FromNode, JoinNode, RangeEntry, RangeKind};
use crate::error::{PlanError, PlanResult};

/// Columns that USING or NATURAL merges.
struct Merged {
    names: Vec<String>,
    /// The merged columns.
    columns: Vec<Expr>,
    condition: Option<Expr>,
    /// Places of the merged columns in the sides.
    left: Vec<usize>,
    right: Vec<usize>,
}

fn visible(item: &NsItem) -> impl Iterator<Item = (usize, &NsColumn)> {
    let columns = item.columns.iter().enumerate();
    columns.filter(|(_, column)| !column.hidden)
}

/// The column that USING names on one side.
fn side_column(item: &NsItem, name: &str, side: &str) -> PlanResult<usize> {
    let mut found = visible(item).filter(|(_, column)| *column.name == *name);
    let Some((index, _)) = found.next() else {
        let message =
            format!("column \"{name}\" specified in USING clause does not exist in {side} table");
        return Err(PlanError::new(SqlState::UNDEFINED_COLUMN, message));
    };
    if found.next().is_some() {
        let message =
            format!("common column name \"{name}\" appears more than once in {side} table");
        return Err(PlanError::new(SqlState::AMBIGUOUS_COLUMN, message));
    }
    Ok(index)
}

fn hide(items: &mut [NsItem]) {
    for item in items {
        item.columns_visible = false;
    }
}

impl Binder<'_> {
    pub(super) fn bind_join(&mut self, join: &ast::Join) -> PlanResult<BoundItem> {
        let mut left = self.bind_from_item(&join.left)?;
        let lateral_ok = matches!(join.kind, JoinKind::Inner | JoinKind::Left);
        set_lateral(&mut left.visible, true, lateral_ok);
        let before = self.scope().namespace.len();
        self.scope().namespace.extend(left.visible.iter().cloned());
        let right = self.bind_from_item(&join.right)?;
        self.scope().namespace.truncate(before);
        check_conflicts(&left.visible, &right.visible)?;
        let names = if join.natural {
            let common = visible(&left.own)
                .filter(|(_, l)| visible(&right.own).any(|(_, r)| l.name == r.name));
            Some(common.map(|(_, column)| column.name.to_string()).collect())
        } else {
            let using = join.using.as_ref();
            using.map(|(names, _)| names.iter().map(|name| name.text.clone()).collect())
        };
        let merged = match names {
            Some(names) => Some(self.merge(join, names, &left.own, &right.own)?),
            None => None,
        };
        let mut inner = left.visible;
        inner.extend(right.visible);
        set_lateral(&mut inner, false, true);
        let condition = match (&merged, &join.on) {
            (Some(merged), _) => merged.condition.clone(),
            (None, Some(on)) => Some(self.bind_on(on, &inner)?),
            (None, None) => None,
        };
        self.show_join(
            join,
            (left.node, left.own),
            (right.node, right.own),
            merged,
            condition,
            inner,
        )
    }

    /// The condition of ON, which sees the two sides alone.
    fn bind_on(&mut self, on: &ast::Expr, inner: &[NsItem]) -> PlanResult<Expr> {
        let outer = std::mem::replace(&mut self.scope().namespace, inner.to_vec());
        let condition = self.bind_condition(Place::JoinOn, "JOIN/ON", on);
        self.scope().namespace = outer;
        condition
    }

    fn merge(
        &mut self,
        join: &ast::Join,
        names: Vec<String>,
        left: &NsItem,
        right: &NsItem,
    ) -> PlanResult<Merged> {
        let mut merged = Merged {
            columns: Vec::with_capacity(names.len()),
            condition: None,
            left: Vec::new(),
            right: Vec::new(),
            names: Vec::new(),
        };
        let mut pairs = Vec::with_capacity(names.len());
        for name in names {
            if merged.names.contains(&name) {
                let message =
                    format!("column name \"{name}\" appears more than once in USING clause");
                return Err(PlanError::new(SqlState::DUPLICATE_COLUMN, message));
            }
            let l = side_column(left, &name, "left")?;
            let r = side_column(right, &name, "right")?;
            merged.left.push(l);
            merged.right.push(r);
            merged.names.push(name);
            pairs.push((
                variable(&left.columns[l], 0, Pos::NONE),
                variable(&right.columns[r], 0, Pos::NONE),
            ));
        }
        let mut tests = Vec::with_capacity(pairs.len());
        for (l, r) in &pairs {
            let test = self.make_op(&plain("="), Some(l.clone()), r.clone(), Pos::NONE)?;
            tests.push(self.coerce_to_boolean(test, "JOIN/USING")?);
        }
        merged.condition = match tests.len() {
            0 => None,
            1 => tests.pop(),
            _ => Some(boolean(ExprKind::And(tests), Pos::NONE)),
        };
        for (l, r) in pairs {
            merged.columns.push(self.merged_column(join.kind, l, r)?);
        }
        Ok(merged)
    }

    fn merged_column(&mut self, kind: JoinKind, l: Expr, r: Expr) -> PlanResult<Expr> {
        let common = common_type::select(&[&l, &r], "JOIN/USING")?;
        let ty = common_type::with_modifier(&[&l, &r], common);
        let l = self.coerce(l, ty, CastContext::Implicit, Pos::NONE)?;
        let l = super::coerce::apply_modifier(l, ty, CastContext::Implicit, Pos::NONE);
        let r = self.coerce(r, ty, CastContext::Implicit, Pos::NONE)?;
        let r = super::coerce::apply_modifier(r, ty, CastContext::Implicit, Pos::NONE);
        let is_plain = |expr: &Expr| matches!(expr.kind, ExprKind::Var(_));
        Ok(match kind {
            JoinKind::Inner if !is_plain(&l) && is_plain(&r) => r,
            JoinKind::Inner | JoinKind::Left => l,
            JoinKind::Right => r,
            JoinKind::Full => Expr {
                kind: ExprKind::Coalesce(vec![l, r]),
                ty,
                at: Pos::NONE,
            },
        })
    }

    /// Adds the join's entry: merged columns first, then the rest of the left side and of the
    /// right.
    fn show_join(
        &mut self,
        join: &ast::Join,
        left: (FromNode, NsItem),
        right: (FromNode, NsItem),
        merged: Option<Merged>,
        condition: Option<Expr>,
        inner: Vec<NsItem>,
    ) -> PlanResult<BoundItem> {
        let merged = merged.unwrap_or(Merged {
            names: Vec::new(),
            columns: Vec::new(),
            condition: None,
            left: Vec::new(),
            right: Vec::new(),
        });
        let mut names: Vec<Arc<str>> = merged.names.iter().map(|n| n.as_str().into()).collect();
        let mut columns = merged.columns;
        let merged_count = columns.len();
        for (item, taken) in [(&left.1, &merged.left), (&right.1, &merged.right)] {
            for (index, column) in visible(item) {
                if !taken.contains(&index) {
                    names.push(Arc::clone(&column.name));
                    columns.push(variable(column, 0, Pos::NONE));
                }
            }
        }
        let alias = join.alias.as_ref();
        let mut entry = RangeEntry {
            alias: alias
                .map_or("unnamed_join", |alias| &alias.name.text)
                .into(),
            columns: names,
            types: columns.iter().map(|column| column.ty).collect(),
            kind: RangeKind::Join {
                columns: columns.clone(),
            },
            lateral: false,
            indexes: Vec::new(),
            virtuals: Vec::new(),
        };
        rename_columns("join expression", &mut entry, alias)?;
        let rel = self.add_join(entry, alias.is_some());
        let own = joined_item(rel, &self.scope().range_table[rel], &columns);
        let node = FromNode::Join(Box::new(JoinNode {
            kind: join.kind,
            left: left.0,
            right: right.0,
            condition,
            entry: rel,
        }));
        let mut shown = if alias.is_some() { Vec::new() } else { inner };
        hide(&mut shown);
        if let Some((_, Some(using_alias))) = &join.using {
            let mut item = own.clone();
            item.name = using_alias.text.as_str().into();
            item.columns.truncate(merged_count);
            item.columns_visible = false;
            check_conflicts(&shown, std::slice::from_ref(&item))?;
            shown.push(item);
        }
        let mut visible_own = own.clone();
        visible_own.table_visible = alias.is_some();
        shown.push(visible_own);
        Ok(BoundItem {
            node,
            own,
            visible: shown,
        })
    }
}

/// The join's item: its columns are those of its sides where they are nothing else.
fn joined_item(rel: usize, entry: &RangeEntry, columns: &[Expr]) -> NsItem {
    let mut item = item_of(rel, entry);
    for (shown, column) in item.columns.iter_mut().zip(columns) {
        if let ExprKind::Var(var) = &column.kind {
            shown.rel = var.rel;
            shown.column = var.column;
        }
    }
    item
}
