//! In a grouped query every column is grouped, within an aggregate, or depends on the key.

use evenkeel_types::SqlState;

use super::walk::{self, RED_ZONE, STACK_PART};
use super::{equal, place};
use crate::bound::{Expr, ExprKind, Query, RangeKind, Var, WHOLE_ROW};
use crate::error::{PlanError, PlanResult};
use crate::relation::SystemColumn;

struct Check<'q> {
    query: &'q Query,
    /// Members of GROUP BY that are in every grouping set.
    common: Vec<usize>,
}

/// Refuses columns that are not grouped.
pub(super) fn check(query: &Query, windows: &[&Expr]) -> PlanResult<()> {
    let all = 0..query.group_by.len();
    let in_all = |member: &usize| query.grouping_sets.iter().all(|set| set.contains(member));
    let check = Check {
        query,
        common: all.filter(in_all).collect(),
    };
    for target in &query.targets {
        check.expr(&target.expr, 0, false)?;
    }
    for expr in windows {
        check.expr(expr, 0, false)?;
    }
    if let Some(having) = &query.having {
        check.expr(having, 0, false)?;
    }
    Ok(())
}

impl Check<'_> {
    fn expr(&self, expr: &Expr, level: usize, direct: bool) -> PlanResult<()> {
        stacker::maybe_grow(RED_ZONE, STACK_PART, || self.node(expr, level, direct))
    }

    fn node(&self, expr: &Expr, level: usize, direct: bool) -> PlanResult<()> {
        if level == 0 && self.query.group_by.iter().any(|g| equal::exprs(g, expr)) {
            return Ok(());
        }
        match &expr.kind {
            ExprKind::Const(_) | ExprKind::Param(_) => return Ok(()),
            ExprKind::Aggregate(aggregate) => {
                if aggregate.depth == level {
                    let mut direct = aggregate.direct.iter();
                    return direct.try_for_each(|arg| self.expr(arg, level, true));
                }
                if aggregate.depth > level {
                    return Ok(());
                }
            }
            ExprKind::Grouping(_) if level == 0 => return Ok(()),
            ExprKind::Var(var) if var.depth == level => {
                return self.variable(expr, *var, level, direct);
            }
            ExprKind::Sublink(sublink) => {
                self.subquery(&sublink.query, level + 1, direct)?;
            }
            _ => {}
        }
        let mut result = Ok(());
        walk::children(expr, &mut |child| {
            if result.is_ok() {
                result = self.expr(child, level, direct);
            }
        });
        result
    }

    /// The expressions of a subquery, as far as they mention the grouped query.
    fn subquery(&self, query: &Query, level: usize, direct: bool) -> PlanResult<()> {
        let mut result = Ok(());
        walk::walk_query(query, level, &mut |node, at| {
            let outer = match &node.kind {
                ExprKind::Var(var) => var.depth == at,
                ExprKind::Aggregate(aggregate) if aggregate.depth >= at => {
                    // Its arguments are within an aggregate of this query or one further out.
                    return walk::Enter::No;
                }
                _ => false,
            };
            if outer && result.is_ok() {
                result = self.expr(node, at, direct);
            }
            if result.is_ok() {
                walk::Enter::Yes
            } else {
                walk::Enter::No
            }
        });
        result
    }

    fn variable(&self, expr: &Expr, var: Var, level: usize, direct: bool) -> PlanResult<()> {
        let own = Var { depth: 0, ..var };
        let grouped = |group: &Expr| matches!(&group.kind, ExprKind::Var(g) if *g == own);
        if self.query.group_by.iter().any(grouped) || self.depends_on_key(var.rel) {
            return Ok(());
        }
        let Some(entry) = self.query.range_table.get(var.rel) else {
            return Ok(());
        };
        if let RangeKind::Join { columns } = &entry.kind
            && let Some(column) = columns.get(var.column)
        {
            let all_grouped = self.expr(column, 0, direct);
            if all_grouped.is_ok() {
                return Ok(());
            }
        }
        let column = match var.column {
            WHOLE_ROW => "*",
            column => match (entry.columns.get(column), SystemColumn::at(column)) {
                (Some(name), _) => name,
                (None, Some(system)) => system.name(),
                (None, None) => "?column?",
            },
        };
        let name = format!("{}.{column}", entry.alias);
        let message = if level == 0 {
            format!(
                "column \"{name}\" must appear in the GROUP BY clause or be used in an aggregate \
                 function"
            )
        } else {
            format!("subquery uses ungrouped column \"{name}\" from outer query")
        };
        let error = PlanError::new(SqlState::GROUPING_ERROR, message).at(place::of(expr));
        Err(if direct {
            error.detail(
                "Direct arguments of an ordered-set aggregate must use only grouped columns.",
            )
        } else {
            error
        })
    }

    /// Whether the primary key of the entry's relation is grouped.
    fn depends_on_key(&self, rel: usize) -> bool {
        let Some(RangeKind::Relation(relation)) =
            self.query.range_table.get(rel).map(|entry| &entry.kind)
        else {
            return false;
        };
        let is_grouped = |column: usize| {
            self.common.iter().any(|member| {
                matches!(&self.query.group_by[*member].kind, ExprKind::Var(var)
                    if var.depth == 0 && var.rel == rel && var.column == column)
            })
        };
        let keys = relation
            .indexes
            .iter()
            .filter(|index| index.primary && index.is_proof());
        keys.into_iter().any(|index| {
            index
                .columns
                .iter()
                .all(|key| key.column.is_some_and(&is_grouped))
        })
    }
}
