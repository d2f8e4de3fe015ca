//! CHECK constraints: bound over the row that is to be stored.

use std::sync::Arc;

use super::params::Params;
use super::returning::entry_of;
use super::scope::{EntryInfo, Place};
use super::walk::{self, Enter};
use super::{Binder, Home};
use crate::ast;
use crate::bound::{Expr, ExprKind, RowRule};
use crate::catalog::Catalog;
use crate::error::{PlanError, PlanResult};
use crate::parser;
use crate::planning::deparse;
use crate::relation::Relation;
use evenkeel_expr::call::Session;
use evenkeel_types::SqlType;

/// A CHECK constraint as it is stored and shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundCheck {
    /// Its condition in PostgreSQL's words, with every cast. It means the same whatever the
    /// session's settings.
    pub text: String,
    /// The same with the parentheses that are needed, as psql shows it.
    pub pretty: String,
    /// The columns that it mentions, from 0, as they come.
    pub columns: Vec<usize>,
}

/// Binds the condition of a CHECK constraint on a table.
///
/// # Errors
/// PostgreSQL's of the binder; 42804 for a condition that is not Boolean.
pub fn bind_check(
    written: &ast::Expr,
    relation: &Arc<Relation>,
    catalog: &dyn Catalog,
    session: &dyn Session,
) -> PlanResult<BoundCheck> {
    let bound = bind_over(written, relation, Origin::Written, (catalog, session))?;
    let columns = columns_of(&bound, relation, "a CHECK constraint on")?;
    let text = deparse::over(relation, &bound, false);
    // The text is stored: it must mean what was written.
    let again = parser::parse_expr(&text)
        .and_then(|written| bind_over(&written, relation, Origin::Kept, (catalog, session)));
    if !again.is_ok_and(|again| deparse::over(relation, &again, false) == text) {
        let message = "a CHECK constraint with this expression is not supported";
        return Err(PlanError::unsupported(message).at(written.at));
    }
    Ok(BoundCheck {
        pretty: deparse::over(relation, &bound, true),
        text,
        columns,
    })
}

/// A CHECK constraint's condition written with other names of the columns: `text` is over those of
/// `relation`, and the answer over those of `renamed`.
///
/// # Errors
/// The binder's, of a condition that is no longer understood.
pub fn rename_check(
    text: &str,
    relation: &Arc<Relation>,
    renamed: &Relation,
    catalog: &dyn Catalog,
    session: &dyn Session,
) -> PlanResult<BoundCheck> {
    let written = parser::parse_expr(text)?;
    let bound = bind_over(&written, relation, Origin::Kept, (catalog, session))?;
    Ok(BoundCheck {
        text: deparse::over(renamed, &bound, false),
        pretty: deparse::over(renamed, &bound, true),
        columns: columns_of(&bound, relation, "a CHECK constraint on")?,
    })
}

/// Where an expression comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// A command.
    Written,
    /// The catalog, which keeps it for its table: the types that it names may be off the path.
    Kept,
}

/// A binder of expressions over a row of a table, which is the entry of its range table that the
/// answer names.
pub(super) fn row_binder<'a>(
    relation: &Arc<Relation>,
    origin: Origin,
    (catalog, session): (&'a dyn Catalog, &'a dyn Session),
) -> (Binder<'a>, usize) {
    let mut binder = Binder::new(catalog, session, Params::new(&[]));
    if origin == Origin::Kept {
        binder.home = Some(Home::of(relation));
    }
    let info = EntryInfo {
        aliased: false,
        relation: Some((Arc::clone(&relation.name), relation.oid)),
        cte: None,
        join: false,
    };
    let rel = binder.add_entry(entry_of(relation, &relation.name), info);
    (binder, rel)
}

fn bind_over(
    written: &ast::Expr,
    relation: &Arc<Relation>,
    origin: Origin,
    names: (&dyn Catalog, &dyn Session),
) -> PlanResult<Expr> {
    let (mut binder, rel) = row_binder(relation, origin, names);
    let bound = binder.bind_check_condition(written, relation, rel)?;
    binder.refuse_parameters()?;
    Ok(bound)
}

/// The columns that a condition mentions; only those of the row can be checked.
pub(super) fn columns_of(bound: &Expr, relation: &Relation, what: &str) -> PlanResult<Vec<usize>> {
    let mut columns = Vec::new();
    let mut other = false;
    walk::walk(bound, 0, &mut |node, _| {
        if let ExprKind::Var(var) = &node.kind {
            let known = columns.contains(&var.column);
            match var.column < relation.columns.len() {
                true if !known => columns.push(var.column),
                true => {}
                false => other = true,
            }
        }
        Enter::Yes
    });
    if other {
        let message = format!("{what} the whole row or a system column is not supported");
        return Err(PlanError::unsupported(message));
    }
    Ok(columns)
}

/// Puts the values of columns that are not stored in the places of the columns: the new row that a
/// condition is over has none of them.
fn put_values(condition: &mut Expr, virtuals: &[(usize, Expr)]) {
    if let ExprKind::Var(var) = &condition.kind {
        let value = virtuals.iter().find(|(column, _)| *column == var.column);
        if let Some((_, value)) = value {
            *condition = value.clone();
        }
        return;
    }
    walk::children_mut(condition, &mut |child| put_values(child, virtuals));
}

fn is_not_null(value: Expr) -> Expr {
    Expr {
        at: value.at,
        ty: SqlType::Bool,
        kind: ExprKind::IsNull {
            arg: Box::new(value),
            negated: true,
            row: false,
        },
    }
}

impl Binder<'_> {
    /// The rules of rows of the table that is changed: NOT NULL of columns that are not stored, and
    /// CHECK constraints.
    pub(super) fn bind_checks(
        &mut self,
        relation: &Relation,
        rel: usize,
    ) -> PlanResult<Vec<(RowRule, Expr)>> {
        let mut bound = Vec::with_capacity(relation.checks.len());
        let virtuals = self.scope().range_table[rel].virtuals.clone();
        for (column, value) in &virtuals {
            if relation.columns[*column].not_null {
                bound.push((RowRule::NotNull(*column), is_not_null(value.clone())));
            }
        }
        for check in &relation.checks {
            let written = parser::parse_expr(&check.text)?;
            let mut condition = self.of_kept(relation, |binder| {
                binder.bind_check_condition(&written, relation, rel)
            })?;
            put_values(&mut condition, &virtuals);
            bound.push((RowRule::Check(Arc::clone(&check.name)), condition));
        }
        Ok(bound)
    }

    /// A condition in which only the columns of an entry of the range table have names.
    fn bind_check_condition(
        &mut self,
        written: &ast::Expr,
        relation: &Relation,
        rel: usize,
    ) -> PlanResult<Expr> {
        let bound = self.bind_over_row(written, relation, rel, Place::Check)?;
        self.coerce_to_boolean(bound, "CHECK")
    }
}
