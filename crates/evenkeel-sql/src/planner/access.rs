//! Which index, and which part of it, holds the rows that a condition can be true for.

use std::sync::Arc;

use datafusion::common::DFSchema;
use datafusion::logical_expr::expr::{BinaryExpr, Cast, InList};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Between, Expr, Operator};

use super::binder::Binder;
use super::value;
use crate::catalog::{IndexInfo, TableInfo};
use crate::error::SqlResult;
use crate::exec::oltp::access::{Access, Bound, KeyValue};
use crate::exec::oltp::expr::Typed;
use crate::types::SqlType;

/// The score of a range with one end and nothing else.
const ONE_BOUND: usize = 1;

/// A comparison of a column with something that needs no row.
struct Comparison {
    column: usize,
    op: Operator,
    key: Expr,
    /// Position of its conjunct in the condition.
    conjunct: usize,
}

/// The rows to look at, and the conjuncts that the access decides completely.
pub struct Chosen {
    /// Where to look.
    pub access: Access,
    /// Whether every conjunct is decided by the access: no row it yields fails the condition.
    pub exact: bool,
}

/// Chooses the access for a statement's condition, or a scan of the whole table.
pub fn choose(
    binder: &Binder<'_>,
    table: &TableInfo,
    condition: Option<&Expr>,
    schema: &DFSchema,
) -> SqlResult<Chosen> {
    let Some(condition) = condition else {
        return Ok(Chosen {
            access: Access::Scan,
            exact: true,
        });
    };
    let compile = |expr: &Expr| value::compile(binder, expr, &DFSchema::empty());
    choose_among(&compile, table, &split_conjunction(condition), schema)
}

/// Compiles an expression that needs no row.
type Compile<'a> = &'a dyn Fn(&Expr) -> SqlResult<Typed>;

/// As [`choose`], for conjuncts whose values `compile` makes.
pub fn choose_among(
    compile: Compile<'_>,
    table: &TableInfo,
    conjuncts: &[&Expr],
    schema: &DFSchema,
) -> SqlResult<Chosen> {
    let mut comparisons = Vec::new();
    for (number, conjunct) in conjuncts.iter().enumerate() {
        comparisons_of(conjunct, number, schema, &mut comparisons);
    }
    let mut best: Option<(usize, Access, bool)> = None;
    for (position, index) in table.indexes.iter().enumerate() {
        let found = match_index(
            compile,
            table,
            position,
            index,
            &comparisons,
            conjuncts.len(),
        )?;
        if let Some((score, access, exact)) = found
            && best.as_ref().is_none_or(|(top, _, _)| score > *top)
        {
            best = Some((score, access, exact));
        }
    }
    if let Some((score, access, exact)) = best
        && (score > ONE_BOUND || !conjuncts.iter().any(|c| matches!(c, Expr::InList(_))))
    {
        return Ok(Chosen { access, exact });
    }
    let listed = match_list(compile, table, conjuncts, schema)?;
    Ok(listed.unwrap_or(Chosen {
        access: Access::Scan,
        exact: false,
    }))
}

/// The access for `column IN (…)` on the first column of an index.
fn match_list(
    compile: Compile<'_>,
    table: &TableInfo,
    conjuncts: &[&Expr],
    schema: &DFSchema,
) -> SqlResult<Option<Chosen>> {
    for conjunct in conjuncts {
        let Expr::InList(InList {
            expr,
            list,
            negated: false,
        }) = conjunct
        else {
            continue;
        };
        let Some(column) = column_of(expr, schema) else {
            continue;
        };
        let first = |index: &Arc<IndexInfo>| {
            index
                .columns
                .first()
                .is_some_and(|key| key.column == column)
        };
        let Some(index) = table.indexes.iter().position(first) else {
            continue;
        };
        if !list.iter().all(is_row_free) {
            continue;
        }
        let keys = list.iter().map(|key| key_of(compile, table, column, key));
        let keys: Option<Vec<KeyValue>> = keys.collect::<SqlResult<_>>()?;
        if let Some(keys) = keys {
            let exact = conjuncts.len() == 1;
            return Ok(Some(Chosen {
                access: Access::Points { index, keys },
                exact,
            }));
        }
    }
    Ok(None)
}

/// The part of `index` that the comparisons select, with a score: a whole unique key beats
/// everything, then more columns by equality, then bounds.
fn match_index(
    compile: Compile<'_>,
    table: &TableInfo,
    position: usize,
    index: &IndexInfo,
    comparisons: &[Comparison],
    conjuncts: usize,
) -> SqlResult<Option<(usize, Access, bool)>> {
    let mut prefix = Vec::new();
    let mut used = vec![false; conjuncts];
    for key_column in &index.columns {
        let wanted = |c: &&Comparison| c.column == key_column.column && c.op == Operator::Eq;
        let Some(found) = comparisons.iter().find(wanted) else {
            break;
        };
        let Some(key) = key_value(compile, table, found)? else {
            break;
        };
        used[found.conjunct] = true;
        prefix.push(key);
    }
    let all_equal = used.iter().all(|used| *used);
    if prefix.len() == index.columns.len() && index.unique {
        let access = Access::Point {
            index: position,
            key: prefix,
        };
        return Ok(Some((usize::MAX, access, all_equal)));
    }
    let (mut low, mut high) = (None, None);
    if let Some(key_column) = index.columns.get(prefix.len()) {
        for found in comparisons.iter().filter(|c| c.column == key_column.column) {
            let (end, inclusive) = match found.op {
                Operator::Gt => (&mut low, false),
                Operator::GtEq => (&mut low, true),
                Operator::Lt => (&mut high, false),
                Operator::LtEq => (&mut high, true),
                _ => continue,
            };
            if end.is_none()
                && let Some(value) = key_value(compile, table, found)?
            {
                *end = Some(Bound { value, inclusive });
            }
        }
        if key_column.descending {
            std::mem::swap(&mut low, &mut high);
        }
    }
    let bounds = usize::from(low.is_some()) + usize::from(high.is_some());
    let score = prefix.len() * 4 + bounds;
    if score == 0 {
        return Ok(None);
    }
    let exact = all_equal && bounds == 0;
    let access = Access::Range {
        index: position,
        prefix,
        low,
        high,
    };
    Ok(Some((score, access, exact)))
}

/// The key's value as the index's column type; `None` when its type does not fit the column's.
fn key_value(
    compile: Compile<'_>,
    table: &TableInfo,
    comparison: &Comparison,
) -> SqlResult<Option<KeyValue>> {
    key_of(compile, table, comparison.column, &comparison.key)
}

fn key_of(
    compile: Compile<'_>,
    table: &TableInfo,
    column: usize,
    key: &Expr,
) -> SqlResult<Option<KeyValue>> {
    let column = table.columns[column].ty;
    let value = compile(key)?;
    let narrow = narrowing(value.ty, column);
    let same =
        value.ty.arrow_type() == column.arrow_type() && value.ty.is_string() == column.is_string();
    if !same && !narrow {
        return Ok(None);
    }
    Ok(Some(KeyValue {
        value,
        column,
        narrow,
    }))
}

/// An integer column meets a wider integer: the value is narrowed when it is known.
fn narrowing(value: SqlType, column: SqlType) -> bool {
    matches!(
        (value, column),
        (SqlType::Int4 | SqlType::Int8, SqlType::Int2) | (SqlType::Int8, SqlType::Int4)
    )
}

fn comparisons_of(conjunct: &Expr, number: usize, schema: &DFSchema, out: &mut Vec<Comparison>) {
    let mut add = |column: &Expr, op: Operator, key: &Expr| {
        if let Some(index) = column_of(column, schema)
            && is_row_free(key)
        {
            out.push(Comparison {
                column: index,
                op,
                key: key.clone(),
                conjunct: number,
            });
        }
    };
    match conjunct {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            add(left, *op, right);
            if let Some(swapped) = op.swap() {
                add(right, swapped, left);
            }
        }
        Expr::Between(Between {
            expr,
            negated: false,
            low,
            high,
        }) => {
            add(expr, Operator::GtEq, low);
            add(expr, Operator::LtEq, high);
        }
        _ => {}
    }
}

/// The column an expression is, perhaps under a widening cast.
fn column_of(expr: &Expr, schema: &DFSchema) -> Option<usize> {
    match expr {
        Expr::Column(column) => schema.index_of_column(column).ok(),
        Expr::Cast(Cast { expr, field }) => {
            let index = column_of(expr, schema)?;
            let from = SqlType::from_arrow_field(schema.field(index));
            narrowing(SqlType::from_arrow_field(field), from).then_some(index)
        }
        _ => None,
    }
}

fn is_row_free(expr: &Expr) -> bool {
    !expr.any_column_refs() && !expr.is_volatile() && !value::needs_plan(expr)
}
