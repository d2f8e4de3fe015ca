//! Gives the relations of a query numbers of their own within the statement, so that an expression
//! means the same wherever it is moved. A variable of a join is replaced by what it stands for.

use std::sync::Arc;

use evenkeel_types::{Datum, SqlType};

use crate::ast::{JoinKind, Pos};
use crate::bound::{Expr, ExprKind, FromNode, Query, RangeEntry, RangeKind, Var, WHOLE_ROW};

use crate::error::{PlanError, PlanResult};
use crate::relation::{Oid, RelationKind, SystemColumn};

use super::walk::{self, Change};

/// [`Var::depth`] of a variable whose relation has a number of the statement.
pub(super) const NUMBERED: usize = usize::MAX;

/// [`Var::column`] of what says which row of its relation it is: the last column of a node with a
/// mark.
pub(super) const ROW_ID: usize = usize::MAX - 1;

/// The entries of one query, as the statement numbers them.
pub(super) struct Numbers {
    /// First number: entry `i` is relation `first + i`.
    pub(super) first: usize,
    /// First number of its common table expressions.
    pub(super) first_cte: usize,
}

struct Renumber<'q> {
    numbers: &'q Numbers,
    /// Of entries whose rows an outer join may add, or need not be there: a column (or the row's
    /// id) that is NULL only then.
    nullable: &'q [Option<Option<usize>>],
    /// A row was wanted that cannot be told from one that an outer join adds.
    refused: bool,
    /// Expressions that the columns of joins stand for, by entry.
    joins: &'q [Option<Vec<Expr>>],
    /// The types of the entries' columns, for whole rows.
    entries: &'q [Vec<SqlType>],
    /// The names of those columns.
    names: &'q [Arc<[Arc<str>]>],
    /// The oids of the entries' relations, 0 for others.
    oids: &'q [Oid],
    /// The values of columns that are computed where they are read, by entry and column.
    virtuals: &'q [(usize, usize, Expr)],
}

impl Renumber<'_> {
    /// The value of a column that is computed where it is read.
    fn computed(&self, var: Var) -> Option<&Expr> {
        let mut virtuals = self.virtuals.iter();
        let found = virtuals.find(|(rel, column, _)| (*rel, *column) == (var.rel, var.column));
        found.map(|(.., value)| value)
    }

    /// A value that every row of an entry has, and that is NULL in rows that an outer join adds.
    fn of_row(&mut self, var: Var, value: Expr) -> Expr {
        let types = &self.entries[var.rel];
        match self.nullable.get(var.rel).copied().flatten() {
            None => value,
            Some(Some(column)) => {
                let ty = types.get(column).copied().unwrap_or(SqlType::Int8);
                null_unless(self.numbers.first + var.rel, column, ty, &value)
            }
            Some(None) => {
                self.refused = true;
                value
            }
        }
    }
}

impl Change for Renumber<'_> {
    fn expr(&mut self, expr: &mut Expr, depth: usize) {
        match &mut expr.kind {
            ExprKind::Var(var) if var.depth == depth => {
                let var = *var;
                if let Some(Some(columns)) = self.joins.get(var.rel) {
                    *expr = if var.column == WHOLE_ROW {
                        row_of(&self.names[var.rel], columns.clone(), expr)
                    } else {
                        retyped(&columns[var.column], expr)
                    };
                    return;
                }
                let rel = self.numbers.first + var.rel;
                if var.column == SystemColumn::TableOid.position() {
                    let oid = Expr {
                        kind: ExprKind::Const(Datum::Oid(self.oids[var.rel])),
                        ..expr.clone()
                    };
                    *expr = self.of_row(var, oid);
                } else if var.column == WHOLE_ROW {
                    let types = &self.entries[var.rel];
                    let fields = types.iter().enumerate().map(|(column, ty)| {
                        let stored = || Expr {
                            kind: ExprKind::Var(numbered(rel, column)),
                            ty: *ty,
                            at: Pos::NONE,
                        };
                        let value = self.computed(Var { column, ..var });
                        value.cloned().unwrap_or_else(stored)
                    });
                    let row = row_of(&self.names[var.rel], fields.collect(), expr);
                    *expr = self.of_row(var, row);
                } else if let Some(value) = self.computed(var) {
                    *expr = self.of_row(var, retyped(value, expr));
                } else {
                    expr.kind = ExprKind::Var(numbered(rel, var.column));
                }
            }
            ExprKind::Aggregate(aggregate) if depth > 0 && aggregate.depth == depth => {
                aggregate.depth = NUMBERED;
            }
            _ => {}
        }
    }

    fn entry(&mut self, entry: &mut RangeEntry, depth: usize) {
        if let RangeKind::Cte {
            depth: out, cte, ..
        } = &mut entry.kind
            && *out == depth
        {
            *out = NUMBERED;
            *cte += self.numbers.first_cte;
        }
    }
}

fn row_of(names: &Arc<[Arc<str>]>, fields: Vec<Expr>, like: &Expr) -> Expr {
    Expr {
        kind: ExprKind::NamedRow(Arc::clone(names), fields),
        ty: like.ty,
        at: like.at,
    }
}

/// A row, or NULL where a column is NULL that no row has NULL.
fn null_unless(rel: usize, column: usize, ty: SqlType, row: &Expr) -> Expr {
    let node = |kind, ty| Expr {
        kind,
        ty,
        at: row.at,
    };
    let present = ExprKind::IsNull {
        arg: Box::new(node(ExprKind::Var(numbered(rel, column)), ty)),
        negated: true,
        row: false,
    };
    let kind = ExprKind::Case {
        operand: None,
        branches: vec![(node(present, SqlType::Bool), row.clone())],
        otherwise: Box::new(node(ExprKind::Const(Datum::Null), row.ty)),
    };
    node(kind, row.ty)
}

/// Marks the entries below the nullable side of an outer join.
fn mark_nullable(node: &FromNode, below: bool, nullable: &mut [bool]) {
    match node {
        FromNode::Entry(entry) => {
            if let Some(mark) = nullable.get_mut(*entry) {
                *mark |= below;
            }
        }
        FromNode::Join(join) => {
            let left = matches!(join.kind, JoinKind::Right | JoinKind::Full);
            let right = matches!(join.kind, JoinKind::Left | JoinKind::Full);
            mark_nullable(&join.left, below || left, nullable);
            mark_nullable(&join.right, below || right, nullable);
        }
    }
}

fn nullable_entries(query: &Query) -> Vec<Option<Option<usize>>> {
    let mut nullable = vec![false; query.range_table.len()];
    for node in &query.from {
        mark_nullable(node, false, &mut nullable);
    }
    let entries = query.range_table.iter().zip(nullable);
    let entries = entries.map(|(entry, nullable)| {
        if matches!(entry.kind, RangeKind::Version(_)) {
            return Some(Some(ROW_ID));
        }
        nullable.then(|| match &entry.kind {
            RangeKind::Relation(relation) => {
                let mut columns = relation.columns.iter();
                let not_null = columns.position(|column| column.not_null && !column.is_virtual());
                not_null.or((relation.kind != RelationKind::View).then_some(ROW_ID))
            }
            _ => None,
        })
    });
    entries.collect()
}

/// Expression that a join's column stands for, at the place of the reference.
fn retyped(column: &Expr, like: &Expr) -> Expr {
    Expr {
        kind: column.kind.clone(),
        ty: column.ty,
        at: like.at,
    }
}

/// The values of the columns of a query's entries that are computed where they are read: by entry
/// and column, over the numbered relations. Such a value is over stored columns alone.
fn virtual_values(query: &Query, numbers: &Numbers) -> Vec<(usize, usize, Expr)> {
    let mut values = Vec::new();
    for (entry, of) in query.range_table.iter().enumerate() {
        for (column, value) in &of.virtuals {
            let mut value = value.clone();
            number_row(&mut value, numbers.first + entry);
            values.push((entry, *column, value));
        }
    }
    values
}

/// Numbers the variables of an expression over one row.
fn number_row(expr: &mut Expr, rel: usize) {
    if let ExprKind::Var(var) = &mut expr.kind {
        *var = numbered(rel, var.column);
    }
    walk::parts_mut(expr, &mut |part| number_row(part, rel));
}

/// A variable of a numbered relation.
pub(super) fn numbered(rel: usize, column: usize) -> Var {
    Var {
        depth: NUMBERED,
        rel,
        column,
    }
}

/// Numbers the variables of a query's own relations, here and in its subqueries.
///
/// # Errors
/// 0A000 for a whole row that an outer join may add, of a relation without a column that tells.
pub(super) fn number(query: &mut Query, numbers: &Numbers) -> PlanResult<()> {
    let nullable = nullable_entries(query);
    let mut refused = false;
    let entries: Vec<_> = query
        .range_table
        .iter()
        .map(|entry| entry.types.clone())
        .collect();
    let names: Vec<Arc<[Arc<str>]>> = query
        .range_table
        .iter()
        .map(|entry| entry.columns.as_slice().into())
        .collect();
    let oids: Vec<Oid> = query
        .range_table
        .iter()
        .map(|entry| match &entry.kind {
            RangeKind::Relation(relation)
            | RangeKind::Excluded(relation)
            | RangeKind::Version(relation) => relation.oid,
            _ => 0,
        })
        .collect();
    let virtuals = virtual_values(query, numbers);
    let mut joins: Vec<Option<Vec<Expr>>> = Vec::with_capacity(entries.len());
    for entry in &query.range_table {
        let columns = match &entry.kind {
            RangeKind::Join { columns } => {
                let mut columns = columns.clone();
                let mut change = Renumber {
                    numbers,
                    nullable: &nullable,
                    refused: false,
                    joins: &joins,
                    entries: &entries,
                    names: &names,
                    oids: &oids,
                    virtuals: &virtuals,
                };
                for column in &mut columns {
                    walk::change_expr(column, 0, &mut change);
                }
                refused |= change.refused;
                Some(columns)
            }
            _ => None,
        };
        joins.push(columns);
    }
    let mut change = Renumber {
        numbers,
        nullable: &nullable,
        refused,
        joins: &joins,
        entries: &entries,
        names: &names,
        oids: &oids,
        virtuals: &virtuals,
    };
    walk::change_query(query, 0, &mut change);
    if change.refused {
        let message = "whole rows of an outer join's inner side that is no table are not supported";
        return Err(PlanError::unsupported(message));
    }
    Ok(())
}
