//! How many rows a condition leaves, by statistics and PostgreSQL's defaults.

use std::cmp::Ordering;

use evenkeel_types::Datum;

use crate::bound::{Expr, ExprKind, Var};
use crate::relation::{ColumnStatistics, Relation};

use super::number::NUMBERED;
use super::ops::{self, Comparison};
use super::problem::Clause;
use super::rels::Rels;
use super::statement::{Source, Statement, rels_of};

/// `DEFAULT_EQ_SEL`
const EQUAL: f64 = 0.005;
/// `DEFAULT_INEQ_SEL`
const UNEQUAL: f64 = 0.333_333_333_333_333_3;
/// `DEFAULT_RANGE_INEQ_SEL`
const RANGE: f64 = 0.005;
/// `DEFAULT_MATCH_SEL`
const MATCH: f64 = 0.005;
/// `DEFAULT_NUM_DISTINCT`
const DISTINCT: f64 = 200.0;

impl Statement<'_> {
    /// The relation of a variable's table, and its column.
    pub(super) fn table_column(&self, expr: &Expr) -> Option<(&Relation, Var)> {
        let ExprKind::Var(var) = ops::stripped(expr).kind else {
            return None;
        };
        if var.depth != NUMBERED {
            return None;
        }
        match &self.rels.get(var.rel)?.source {
            Source::Relation(relation) => Some((relation, var)),
            _ => None,
        }
    }

    fn statistics(&self, expr: &Expr) -> Option<(&ColumnStatistics, f64)> {
        let (relation, var) = self.table_column(expr)?;
        let stats = relation.columns.get(var.column)?.stats.as_deref()?;
        Some((stats, relation.size.rows.max(1.0)))
    }

    /// Whether no two rows of a table have the same value there.
    pub(super) fn is_unique_column(&self, expr: &Expr) -> bool {
        let Some((relation, var)) = self.table_column(expr) else {
            return false;
        };
        relation.indexes.iter().any(|index| {
            let of_all = index.unique && index.predicate.is_none();
            of_all && matches!(&*index.columns, [only] if only.column == Some(var.column))
        })
    }

    /// Distinct values of an expression among `rows` rows.
    pub(super) fn distinct(&self, expr: &Expr, rows: f64) -> f64 {
        if let ExprKind::Const(_) = expr.kind {
            return 1.0;
        }
        let table_rows = self
            .table_column(expr)
            .map(|(table, _)| table.size.rows.max(1.0));
        let all = if self.is_unique_column(expr) {
            table_rows.unwrap_or(rows)
        } else if let Some((stats, table_rows)) = self.statistics(expr) {
            match stats.distinct {
                0.0 => DISTINCT.min(table_rows),
                share if share < 0.0 => -share * table_rows,
                count => count,
            }
        } else {
            DISTINCT.min(table_rows.unwrap_or(rows))
        };
        // Of the values of a table, those that so many of its rows are expected to have.
        match table_rows {
            Some(table_rows) if rows < table_rows && all > 0.0 => {
                let missed = (1.0 - rows / table_rows).powf(table_rows / all);
                (all * (1.0 - missed)).max(1.0)
            }
            _ => all.min(rows).max(1.0),
        }
    }

    /// The share of rows that all of these leave. `inside` are the relations whose rows are
    /// counted; others are constants.
    pub(super) fn selectivity(&self, clauses: &[&Clause], inside: &Rels) -> f64 {
        let mut share = 1.0;
        let mut ranges: Vec<(&Expr, Option<f64>, Option<f64>)> = Vec::new();
        for clause in clauses.iter().filter(|clause| !clause.implied) {
            // Two ends of one range are not independent.
            if let Some((expr, is_low, of_end)) = self.range_end(&clause.expr, inside) {
                let known = ranges
                    .iter_mut()
                    .find(|(other, ..)| super::path::same(other, expr));
                let range = match known {
                    Some(range) => range,
                    None => {
                        ranges.push((expr, None, None));
                        ranges.last_mut().expect("just pushed")
                    }
                };
                let end = if is_low { &mut range.1 } else { &mut range.2 };
                *end = Some(end.map_or(of_end, |other: f64| other.min(of_end)));
                continue;
            }
            share *= self.of_expr(&clause.expr, inside);
        }
        for (_, low, high) in ranges {
            share *= match (low, high) {
                (Some(UNEQUAL), Some(UNEQUAL)) => RANGE,
                (Some(low), Some(high)) => (low + high - 1.0).max(1.0e-6),
                (Some(one), None) | (None, Some(one)) => one,
                (None, None) => 1.0,
            };
        }
        share.clamp(0.0, 1.0)
    }

    fn range_end<'e>(&self, expr: &'e Expr, inside: &Rels) -> Option<(&'e Expr, bool, f64)> {
        let compared = ops::comparison(expr)?;
        let constant = |expr: &Expr| !rels_of(expr).meets(inside);
        let (column, value, op) = if constant(compared.right) && !constant(compared.left) {
            (compared.left, compared.right, compared.op)
        } else if constant(compared.left) && !constant(compared.right) {
            (compared.right, compared.left, compared.op.commuted())
        } else {
            return None;
        };
        let is_low = match op {
            Comparison::Greater | Comparison::GreaterEqual => true,
            Comparison::Less | Comparison::LessEqual => false,
            Comparison::Equal => return None,
        };
        let share = self.inequality(column, value, is_low);
        Some((ops::stripped(column), is_low, share))
    }

    /// The value of an expression where it is known while the plan is made.
    pub(super) fn known_value<'e>(&'e self, expr: &'e Expr) -> Option<&'e Datum> {
        match &ops::stripped(expr).kind {
            ExprKind::Const(value) => Some(value),
            ExprKind::Param(number) => self.values?.get(*number),
            _ => None,
        }
    }

    fn of_expr(&self, expr: &Expr, inside: &Rels) -> f64 {
        match &expr.kind {
            ExprKind::Const(Datum::Bool(true)) => 1.0,
            ExprKind::Const(_) => 0.0,
            ExprKind::And(items) => items.iter().map(|e| self.of_expr(e, inside)).product(),
            ExprKind::Or(items) => items.iter().fold(0.0, |all, item| {
                let one = self.of_expr(item, inside);
                all + one - all * one
            }),
            ExprKind::Not(arg) => 1.0 - self.of_expr(arg, inside),
            ExprKind::IsNull { arg, negated, .. } => {
                let nulls = self
                    .statistics(arg)
                    .map_or(EQUAL, |(stats, _)| stats.null_fraction);
                if *negated { 1.0 - nulls } else { nulls }
            }
            ExprKind::Var(_) => self.equality(expr, &bool_constant(true)),
            ExprKind::AnyAll {
                left,
                array,
                all: false,
                op,
            } if op.proc.name.ends_with("eq") => {
                let one = match self.known_value(array) {
                    _ if rels_of(array).meets(inside) => EQUAL,
                    Some(Datum::Array(array)) if array.elements().len() <= ELEMENTS_ASKED => {
                        let equal = |value| self.equality_with(left, Some(value));
                        return array.elements().iter().map(equal).sum::<f64>().min(1.0);
                    }
                    _ => 1.0 / self.distinct(left, self.rows_of_table(left)),
                };
                (one * self.elements(array)).min(1.0)
            }
            ExprKind::Call(_) => self.of_call(expr, inside),
            _ => 0.5,
        }
    }

    /// How many elements an array is expected to have.
    pub(super) fn elements(&self, array: &Expr) -> f64 {
        match &ops::stripped(array).kind {
            ExprKind::Array { items, .. } => items.len() as f64,
            _ => match self.known_value(array) {
                Some(Datum::Array(array)) => array.elements().len() as f64,
                _ => 10.0,
            },
        }
    }

    fn rows_of_table(&self, expr: &Expr) -> f64 {
        self.table_column(expr)
            .map_or(1000.0, |(table, _)| table.size.rows.max(1.0))
    }

    fn of_call(&self, expr: &Expr, inside: &Rels) -> f64 {
        let Some(compared) = ops::comparison(expr) else {
            let ExprKind::Call(call) = &expr.kind else {
                return 0.5;
            };
            return match ops::operator(call).map(|operator| operator.name) {
                Some("<>") => {
                    let equal = call
                        .args
                        .first()
                        .map_or(EQUAL, |left| self.share_of_one(left));
                    1.0 - equal
                }
                Some("~~" | "~~*" | "~" | "~*") => MATCH,
                Some("!~~" | "!~~*" | "!~" | "!~*") => 1.0 - MATCH,
                _ => UNEQUAL,
            };
        };
        if compared.op != Comparison::Equal {
            return UNEQUAL;
        }
        let (in_left, in_right) = (
            rels_of(compared.left).meets(inside),
            rels_of(compared.right).meets(inside),
        );
        match (in_left, in_right) {
            (true, true) => {
                let of = |side: &Expr| self.distinct(side, self.rows_of_table(side));
                1.0 / of(compared.left).max(of(compared.right)).max(1.0)
            }
            (true, false) => self.equality(compared.left, compared.right),
            (false, true) => self.equality(compared.right, compared.left),
            (false, false) => 1.0,
        }
    }

    fn share_of_one(&self, column: &Expr) -> f64 {
        let rows = self.rows_of_table(column);
        1.0 / self.distinct(column, rows)
    }

    /// `column = value`
    fn equality(&self, column: &Expr, value: &Expr) -> f64 {
        self.equality_with(column, self.known_value(value))
    }

    /// As [`Self::equality`], with the value if it is known.
    fn equality_with(&self, column: &Expr, value: Option<&Datum>) -> f64 {
        if self.is_unique_column(column) {
            return 1.0 / self.rows_of_table(column);
        }
        let Some((stats, rows)) = self.statistics(column) else {
            return match self.table_column(column) {
                Some(_) => self.share_of_one(column).max(EQUAL.min(1.0)),
                None => EQUAL,
            };
        };
        let distinct = self.distinct(column, rows);
        let common: f64 = stats.most_common.iter().map(|(_, share)| share).sum();
        match value {
            Some(value) => {
                let found = stats.most_common.iter();
                let mut found = found.filter(|(one, _)| order(one, value).is_eq());
                if let Some((_, share)) = found.next() {
                    return *share;
                }
                let others = (distinct - stats.most_common.len() as f64).max(1.0);
                let rest = (1.0 - common - stats.null_fraction).max(0.0) / others;
                let least = stats.most_common.last().map_or(1.0, |(_, share)| *share);
                rest.min(least)
            }
            None => (1.0 - stats.null_fraction) / distinct,
        }
    }

    /// `column > value`, or with a high end `column < value`.
    fn inequality(&self, column: &Expr, value: &Expr, is_low: bool) -> f64 {
        let (Some((stats, _)), Some(value)) = (self.statistics(column), self.known_value(value))
        else {
            return UNEQUAL;
        };
        let wanted = |one: &Datum| match is_low {
            true => order(one, value).is_gt(),
            false => order(one, value).is_lt(),
        };
        let common = stats.most_common.iter().filter(|(one, _)| wanted(one));
        let common: f64 = common.map(|(_, share)| share).sum();
        let all_common: f64 = stats.most_common.iter().map(|(_, share)| share).sum();
        let others = (1.0 - all_common - stats.null_fraction).max(0.0);
        if stats.histogram.len() < 2 {
            return (common + others * UNEQUAL).clamp(0.0001, 1.0);
        }
        let below = below(&stats.histogram, value);
        let part = if is_low { 1.0 - below } else { below };
        (common + others * part).clamp(0.0001, 0.9999)
    }
}

/// Elements of a known array up to which each is looked for among the most common values.
const ELEMENTS_ASKED: usize = 200;

fn bool_constant(value: bool) -> Expr {
    Expr {
        kind: ExprKind::Const(Datum::Bool(value)),
        ty: evenkeel_types::SqlType::Bool,
        at: crate::ast::Pos::NONE,
    }
}

/// The share of a histogram's rows below a value.
fn below(histogram: &[Datum], value: &Datum) -> f64 {
    let buckets = (histogram.len() - 1) as f64;
    let at = histogram.partition_point(|bound| order(bound, value).is_lt());
    if at == 0 {
        return 0.0;
    }
    if at == histogram.len() {
        return 1.0;
    }
    let within = match (
        scalar(&histogram[at - 1]),
        scalar(value),
        scalar(&histogram[at]),
    ) {
        (Some(low), Some(value), Some(high)) if high > low => {
            ((value - low) / (high - low)).clamp(0.0, 1.0)
        }
        _ => 0.5,
    };
    ((at - 1) as f64 + within) / buckets
}

/// The order of a column's value and one that it is compared with, which may be of another type,
/// as a date and a timestamp are.
fn order(one: &Datum, value: &Datum) -> Ordering {
    let alike = std::mem::discriminant(one) == std::mem::discriminant(value);
    let on_line = || match (scalar(one), scalar(value)) {
        (Some(one), Some(value)) => one.partial_cmp(&value),
        _ => None,
    };
    let apart = if alike { None } else { on_line() };
    apart.unwrap_or_else(|| one.compare(value))
}

const MICROS_OF_DAY: f64 = 86_400e6;

/// A value on a line that it shares with the types which it is compared with, for interpolation.
fn scalar(value: &Datum) -> Option<f64> {
    Some(match value {
        Datum::Int2(v) => f64::from(*v),
        Datum::Int4(v) => f64::from(*v),
        Datum::Date(v) => f64::from(*v) * MICROS_OF_DAY,
        Datum::Int8(v) | Datum::Time(v) | Datum::Timestamp(v) | Datum::Timestamptz(v) => *v as f64,
        Datum::Timetz(v) => v.utc_micros() as f64,
        Datum::Interval(v) => v.comparison_micros() as f64,
        Datum::Float4(v) => f64::from(*v),
        Datum::Float8(v) => *v,
        Datum::Oid(v) => f64::from(*v),
        Datum::Numeric(v) => v.to_f64(),
        _ => return None,
    })
}
