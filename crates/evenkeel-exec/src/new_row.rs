//! Rows to be stored: NOT NULL, CHECK, their bytes, and what errors say of them.

use std::sync::Arc;

use evenkeel_engine::EngineError;
use evenkeel_engine::memory::Reservation;
use evenkeel_engine::table::Table;
use evenkeel_expr::program::Program;
use evenkeel_planner::bound::RowRule;
use evenkeel_planner::plan::{Check, Node, NodeKind};
use evenkeel_planner::relation::{Index, Relation};
use evenkeel_types::row::{Kept, RowLayout};
use evenkeel_types::{Datum, SqlState, SqlType, TypeContext, TypeError};

use crate::context::Cx;
use crate::error::{ExecError, ExecResult};
use crate::large::{NewRow, RowReader, reading_bytes};

/// Bytes of a value that an error shows.
const SHOWN_BYTES: usize = 64;

/// The rules that rows to be stored keep to.
#[derive(Clone, Copy)]
pub(crate) struct Rules<'a> {
    pub relation: &'a Relation,
    /// Values of generated columns.
    pub generated: &'a [(usize, Program)],
    pub checks: &'a [Check],
}

impl<'a> Rules<'a> {
    /// Those of the table that a node changes.
    pub fn of(node: &'a Node) -> ExecResult<Rules<'a>> {
        match &node.kind {
            NodeKind::ModifyTable {
                relation,
                generated,
                checks,
                ..
            } => Ok(Rules {
                relation,
                generated,
                checks,
            }),
            _ => Err(ExecError::plan("a node of another kind")),
        }
    }
}

/// The table that rows are stored in.
#[derive(Clone)]
pub(crate) struct Stored {
    pub table: Arc<Table>,
    pub layout: Arc<RowLayout>,
    /// Columns that keys of indexes are made of.
    indexed: Vec<usize>,
}

impl Stored {
    pub fn open(relation: &Relation, cx: &Cx) -> ExecResult<Stored> {
        let (table, layout) = cx.env.relations.table(relation)?;
        let keys = relation.indexes.iter().flat_map(Index::looks_at);
        Ok(Stored {
            table,
            layout,
            indexed: keys.collect(),
        })
    }

    /// The values of the version `old`. Of those that are outside of the row only `wanted` ones
    /// are fetched; the others are NULL here.
    pub fn decode(
        &self,
        old: &[u8],
        wanted: impl Fn(usize) -> bool,
        cx: &Cx,
    ) -> ExecResult<Vec<Datum>> {
        let reader = RowReader {
            table: &self.table,
            layout: &self.layout,
            snapshot: &cx.env.snapshot,
            cancel: &cx.env.cancel,
        };
        let mut charge = cx.reservation();
        let columns = 0..self.layout.len();
        let values = columns.map(|column| match self.layout.read(old, column)? {
            Ok(value) => Ok(value),
            Err(external) if wanted(column) => {
                charge.grow(reading_bytes(&external))?;
                reader.fetch(column, &external)
            }
            Err(_) => Ok(Datum::Null),
        });
        values.collect()
    }

    /// A new row, which gets the values of its generated columns, has its NOT NULL columns and
    /// keeps to the CHECK constraints. With `old`, large values of columns that are not assigned
    /// are those of that version.
    pub fn encode(
        &self,
        rules: Rules<'_>,
        (row, old): (&mut [Datum], Option<Kept<'_>>),
        cx: &Cx,
    ) -> ExecResult<NewRow> {
        let mut bytes = Vec::new();
        let long = self.encode_into(rules, (row, old), cx, &mut bytes)?;
        Ok(long.unwrap_or(NewRow::Short(bytes)))
    }

    /// As [`Stored::encode`], a short row into `bytes`.
    pub fn encode_into(
        &self,
        Rules {
            relation,
            generated,
            checks,
        }: Rules<'_>,
        (row, old): (&mut [Datum], Option<Kept<'_>>),
        cx: &Cx,
        bytes: &mut Vec<u8>,
    ) -> ExecResult<Option<NewRow>> {
        for (column, value) in generated {
            let value = cx.eval(value, row)?;
            let slot = row.get_mut(*column);
            *slot.ok_or_else(|| ExecError::plan("a column that is not there"))? = value;
        }
        let row = &*row;
        let computed = generated.iter().map(|(column, _)| *column);
        let assigned = old.map(|old| old.assigned.iter().copied().chain(computed).collect());
        let assigned: Vec<usize> = assigned.unwrap_or_default();
        let old = old.map(|old| Kept {
            row: old.row,
            assigned: &assigned,
        });
        for (at, (column, value)) in relation.columns.iter().zip(row).enumerate() {
            let stored = column.not_null && !column.is_virtual();
            if stored && value.is_null() && !self.keeps(old, at)? {
                let row = self.shown(row, old, cx)?;
                let shown = shown_types(relation);
                let cx = cx.env.session.types();
                return Err(null_violation(relation.names(), &column.name, &row, shown, cx).into());
            }
        }
        for check in checks {
            // NULL is no violation.
            if matches!(cx.eval(&check.condition, row)?, Datum::Bool(false)) {
                let shown = shown_types(relation);
                let cx = cx.env.session.types();
                let names = relation.names();
                return Err(match &check.rule {
                    RowRule::Check(name) => check_violation(names, name, row, shown, cx).into(),
                    RowRule::NotNull(at) => {
                        let name = &relation.columns[*at].name;
                        null_violation(names, name, row, shown, cx).into()
                    }
                });
            }
        }
        let long = self.layout.encode_row(row, old, &self.indexed, bytes)?;
        long.map(|row| {
            let charge = Reservation::of(&cx.env.memory, row.bytes());
            Ok(NewRow::Long(Box::new(row), charge?))
        })
        .transpose()
    }

    /// The values of a row with those that it keeps of the old version.
    fn shown(&self, row: &[Datum], old: Option<Kept<'_>>, cx: &Cx) -> ExecResult<Vec<Datum>> {
        let mut row = row.to_vec();
        if let Some(old) = old {
            let kept = self.decode(old.row, |column| !old.assigned.contains(&column), cx)?;
            for (column, value) in kept.into_iter().enumerate() {
                if !old.assigned.contains(&column) && row[column].is_null() {
                    row[column] = value;
                }
            }
        }
        Ok(row)
    }

    /// Whether a column that is not assigned has a value in the old version.
    fn keeps(&self, old: Option<Kept<'_>>, column: usize) -> ExecResult<bool> {
        match old.filter(|old| !old.assigned.contains(&column)) {
            Some(old) => Ok(!self.layout.is_null(old.row, column)?),
            None => Ok(false),
        }
    }
}

fn text(value: &Datum, ty: SqlType, types: &TypeContext) -> String {
    match value {
        Datum::Null => "null".to_owned(),
        value => value.to_text(ty, types),
    }
}

/// The types of a row that an error shows; none of values that are not stored.
fn shown_types(relation: &Relation) -> impl Iterator<Item = Option<SqlType>> {
    let columns = relation.columns.iter();
    columns.map(|column| (!column.is_virtual()).then_some(column.ty))
}

/// 23502 for a row of these types in a relation given by schema and name; a value without one is
/// not stored. The detail shows it as
/// PostgreSQL does, long values shortened.
pub fn null_violation(
    relation: (&str, &str),
    column: &str,
    row: &[Datum],
    types: impl Iterator<Item = Option<SqlType>>,
    cx: &TypeContext,
) -> TypeError {
    let message = format!(
        "null value in column \"{column}\" of relation \"{}\" violates not-null constraint",
        relation.1
    );
    TypeError::new(SqlState::NOT_NULL_VIOLATION, message)
        .detail(failing(row, types, cx))
        .column(relation, column)
}

/// 23514 for a row of these types, shown in the same way.
pub fn check_violation(
    relation: (&str, &str),
    check: &str,
    row: &[Datum],
    types: impl Iterator<Item = Option<SqlType>>,
    cx: &TypeContext,
) -> TypeError {
    let message = format!(
        "new row for relation \"{}\" violates check constraint \"{check}\"",
        relation.1
    );
    TypeError::new(SqlState::CHECK_VIOLATION, message)
        .detail(failing(row, types, cx))
        .constraint(relation, check)
}

fn failing(
    row: &[Datum],
    types: impl Iterator<Item = Option<SqlType>>,
    cx: &TypeContext,
) -> String {
    let texts = row.iter().zip(types).map(|(value, ty)| {
        let Some(ty) = ty else {
            return "virtual".to_owned();
        };
        let mut text = text(value, ty, cx);
        if text.len() > SHOWN_BYTES {
            text.truncate(text.floor_char_boundary(SHOWN_BYTES));
            text.push_str("...");
        }
        text
    });
    let texts: Vec<String> = texts.collect();
    format!("Failing row contains ({}).", texts.join(", "))
}

fn key_of(index: &Index, relation: &Relation, row: &[Datum], cx: &Cx) -> ExecResult<String> {
    let types = cx.env.session.types();
    let (mut names, mut values) = (Vec::new(), Vec::new());
    for (at, column) in index.columns.iter().enumerate() {
        let (name, value) = match column.column {
            Some(column) => {
                let name = relation.columns.get(column).map(|of| Arc::clone(&of.name));
                (name, row.get(column).cloned())
            }
            None => {
                let number = index.expression_at(at);
                let of = number.and_then(|number| index.expressions.get(number));
                let value = of.map(|of| cx.eval(&of.program, row)).transpose()?;
                (of.map(|of| Arc::clone(&of.shown)), value)
            }
        };
        names.extend(name);
        values.extend(value.map(|value| text(&value, column.ty, types)));
    }
    let (names, values) = (names.join(", "), values.join(", "));
    Ok(format!("Key ({names})=({values}) already exists."))
}

/// The error of a row that was to be stored, with PostgreSQL's detail.
pub(crate) fn refused(error: ExecError, relation: &Relation, row: &[Datum], cx: &Cx) -> ExecError {
    let (ExecError::Engine(EngineError::UniqueViolation { index, .. })
    | ExecError::Engine(EngineError::DeferrableArbiter { index })) = &error
    else {
        return error;
    };
    let mut indexes = relation.indexes.iter();
    let Some(index) = indexes.find(|known| *known.name == *index.as_str()) else {
        return error;
    };
    let described = match &error {
        ExecError::Engine(EngineError::DeferrableArbiter { .. }) => {
            let state = SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE;
            TypeError::new(state, error.to_string())
        }
        _ => {
            let described = TypeError::new(SqlState::UNIQUE_VIOLATION, error.to_string());
            match key_of(index, relation, row, cx) {
                Ok(key) => described.detail(key),
                Err(error) => return error,
            }
        }
    };
    described.constraint(relation.names(), &index.name).into()
}
