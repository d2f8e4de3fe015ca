//! A change as a query with all its expressions, so that whatever is done to a query is done to
//! them.

use std::sync::Arc;

use evenkeel_types::Datum;

use crate::ast::Pos;
use crate::bound::{
    Change, ChangeKind, ChangeShape, ClauseShape, Expr, ExprKind, MergeAction, MergeClause, Query,
    Target,
};
use crate::relation::Relation;

/// Puts RETURNING, ON CONFLICT, the WHEN clauses and CHECK constraints behind the new values.
pub(crate) fn flat(change: Change) -> (Query, ChangeShape) {
    let Change {
        kind,
        mut query,
        target,
        relation,
        mut columns,
        conflict,
        clauses,
        generated,
        checks,
        returning,
    } = change;
    if kind == ChangeKind::Insert {
        let given = std::mem::take(&mut query.targets);
        query.targets = whole_row(&relation, &columns, given);
        columns = (0..relation.columns.len()).collect();
    }
    let before_after = returning.as_ref().map(|list| (list.old, list.new));
    let action = returning.as_ref().and_then(|list| list.action);
    let returning = returning.into_iter().flat_map(|list| list.targets);
    let before = query.targets.len();
    query.targets.extend(returning);
    let returned = query.targets.len() - before;
    let conflict = conflict.map(|conflict| {
        let update = conflict.update.map(|update| {
            query.targets.extend(update.targets);
            query.targets.extend(update.filter.map(hidden));
            (update.excluded, update.columns)
        });
        (conflict.arbiter, update)
    });
    let clauses = clauses.into_iter();
    let clauses = clauses.map(|clause| flat_clause(clause, &relation, &mut query));
    let clauses = clauses.collect();
    let (positions, values): (Vec<_>, Vec<_>) = generated.into_iter().unzip();
    query.targets.extend(values.into_iter().map(hidden));
    let (names, conditions): (Vec<_>, Vec<_>) = checks.into_iter().unzip();
    query.targets.extend(conditions.into_iter().map(hidden));
    let shape = ChangeShape {
        kind,
        target,
        relation,
        columns,
        returned,
        before_after,
        conflict,
        clauses,
        generated: positions,
        checks: names,
        action,
    };
    (query, shape)
}

fn flat_clause(clause: MergeClause, relation: &Relation, query: &mut Query) -> ClauseShape {
    let MergeClause {
        when,
        condition,
        action,
        mut columns,
        mut targets,
    } = clause;
    if action == MergeAction::Insert {
        targets = whole_row(relation, &columns, targets);
        columns = (0..relation.columns.len()).collect();
    }
    let conditional = condition.is_some();
    query.targets.extend(condition.map(hidden));
    query.targets.extend(targets);
    ClauseShape {
        when,
        conditional,
        action,
        columns,
    }
}

fn hidden(expr: Expr) -> Target {
    Target {
        expr,
        name: Arc::from(""),
        junk: true,
    }
}

/// The values of all columns; those that are not given are NULL.
fn whole_row(relation: &Relation, columns: &[usize], given: Vec<Target>) -> Vec<Target> {
    let mut row: Vec<Target> = relation
        .columns
        .iter()
        .map(|column| Target {
            expr: Expr {
                kind: ExprKind::Const(Datum::Null),
                ty: column.ty,
                at: Pos::NONE,
            },
            name: Arc::clone(&column.name),
            junk: false,
        })
        .collect();
    for (column, target) in columns.iter().zip(given) {
        row[*column] = target;
    }
    row
}
