//! Columns, and parts of columns, that INSERT and UPDATE assign to.

use std::sync::Arc;

use evenkeel_expr::proc::CastContext;
use evenkeel_types::{Datum, SqlState, SqlType};

use super::scope::Place;
use super::simple::Range;
use super::{Binder, place, types};
use crate::ast::{Name, Pos, SetPart, SetTarget, Subscript};
use crate::bound::{Expr, ExprKind, PartAssignment};
use crate::error::{PlanError, PlanResult};
use crate::relation::{Column, Relation, SystemColumn};

/// A column that is given a value: its number, where it is named, and which part of it is meant.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    pub(super) column: usize,
    pub(super) at: Pos,
    pub(super) part: Option<Part>,
}

/// An element or a slice of a column's array, or a part of its `jsonb`.
#[derive(Debug, Clone)]
pub(super) struct Part {
    ranges: Vec<Range>,
    slice: bool,
    /// [`PartAssignment::json`]
    json: Option<bool>,
    /// The type of a value for it.
    ty: SqlType,
}

impl Slot {
    /// The type of a value for it.
    pub(super) fn ty(&self, relation: &Relation) -> SqlType {
        match &self.part {
            Some(part) => part.ty,
            None => relation.columns[self.column].declared(),
        }
    }
}

impl Part {
    /// The array with a value in this part.
    pub(super) fn assigned(&self, array: Expr, value: Expr) -> Expr {
        Expr {
            ty: array.ty,
            at: Pos::NONE,
            kind: ExprKind::AssignPart(Box::new(PartAssignment {
                array,
                ranges: self.ranges.clone(),
                slice: self.slice,
                json: self.json,
                value,
            })),
        }
    }
}

impl Binder<'_> {
    /// The columns of INSERT: those listed, or all.
    pub(super) fn insert_slots(
        &mut self,
        listed: &[SetTarget],
        relation: &Relation,
    ) -> PlanResult<Vec<Slot>> {
        if listed.is_empty() {
            let all = (0..relation.columns.len()).map(|column| Slot {
                column,
                at: Pos::NONE,
                part: None,
            });
            return Ok(all.collect());
        }
        let mut slots: Vec<Slot> = Vec::with_capacity(listed.len());
        for target in listed {
            let slot = self.find_slot(target, relation, Place::InsertTarget)?;
            let whole = |other: &Slot| slot.part.is_none() || other.part.is_none();
            if slots
                .iter()
                .any(|other| other.column == slot.column && whole(other))
            {
                let message = format!("column \"{}\" specified more than once", target.name.text);
                return Err(PlanError::new(SqlState::DUPLICATE_COLUMN, message).at(slot.at));
            }
            slots.push(slot);
        }
        Ok(slots)
    }

    /// The column that an assignment of SET names.
    pub(super) fn set_slot(
        &mut self,
        target: &SetTarget,
        relation: &Relation,
        rel: usize,
    ) -> PlanResult<Slot> {
        let alias = Arc::clone(&self.scope().range_table[rel].alias);
        if SystemColumn::named(&target.name.text).is_some() {
            let message = format!("cannot assign to system column \"{}\"", target.name.text);
            return Err(PlanError::unsupported(message).at(target.name.at));
        }
        let found = self.find_slot(target, relation, Place::UpdateSource);
        found.map_err(|error| {
            let qualified = matches!(target.parts.first(), Some(SetPart::Field(_)));
            if qualified && *alias == *target.name.text {
                error.hint("SET target columns cannot be qualified with the relation name.")
            } else {
                error
            }
        })
    }

    fn find_slot(
        &mut self,
        target: &SetTarget,
        relation: &Relation,
        place: Place,
    ) -> PlanResult<Slot> {
        let at = target.name.at;
        let mut columns = relation.columns.iter();
        let Some(column) = columns.position(|column| *column.name == *target.name.text) else {
            let message = format!(
                "column \"{}\" of relation \"{}\" does not exist",
                target.name.text, relation.name
            );
            return Err(PlanError::new(SqlState::UNDEFINED_COLUMN, message).at(at));
        };
        let before = std::mem::replace(&mut self.scope().place, place);
        let part = self.part_of(&relation.columns[column], target);
        self.scope().place = before;
        let part = part?;
        Ok(Slot { column, at, part })
    }

    /// The part of a column that is named after it.
    fn part_of(&mut self, column: &Column, target: &SetTarget) -> PlanResult<Option<Part>> {
        let mut subscripts: Vec<&Subscript> = Vec::new();
        for part in &target.parts {
            match part {
                SetPart::Subscript(subscript) => subscripts.push(subscript),
                SetPart::Field(field) => {
                    let ty = match subscripts.is_empty() {
                        true => column.ty,
                        false => column.ty.element().unwrap_or(column.ty),
                    };
                    return Err(no_field(field, column, ty).at(target.name.at));
                }
            }
        }
        if subscripts.is_empty() {
            return Ok(None);
        }
        if column.ty == SqlType::Jsonb {
            let steps = self.jsonb_steps(&subscripts, target.name.at)?;
            let by_index = steps.first().map(|step| step.ty == SqlType::Int4);
            return Ok(Some(Part {
                ranges: steps.into_iter().map(|step| (None, Some(step))).collect(),
                slice: false,
                json: by_index,
                ty: SqlType::Jsonb,
            }));
        }
        let SqlType::Array(..) = column.ty else {
            if column.ty.is_vector() || column.ty == SqlType::Name {
                let message = format!(
                    "assigning a part of a column of type {} is not supported",
                    types::name(column.ty)
                );
                return Err(PlanError::unsupported(message).at(target.name.at));
            }
            return Err(super::simple::no_subscripts(column.ty));
        };
        let slice = subscripts.iter().any(|subscript| subscript.slice);
        let whole = column.declared().base();
        let ty = match slice {
            true => whole,
            false => whole.element().unwrap_or(whole),
        };
        let ranges = self.bind_ranges(&subscripts)?;
        let json = None;
        Ok(Some(Part {
            ranges,
            slice,
            json,
            ty,
        }))
    }

    /// A value for a column, or for a part of one.
    pub(super) fn assign(
        &mut self,
        value: Expr,
        relation: &Relation,
        slot: &Slot,
    ) -> PlanResult<Expr> {
        let column = &relation.columns[slot.column];
        if matches!(value.kind, ExprKind::Default) {
            if slot.part.is_some() {
                let message = "cannot set an array element to DEFAULT";
                return Err(PlanError::unsupported(message).at(slot.at));
            }
            let default = self.default_or_null(relation, slot.column)?;
            return Ok(default.unwrap_or(Expr {
                kind: ExprKind::Const(Datum::Null),
                ty: column.ty,
                ..value
            }));
        }
        let (from, at, wanted) = (value.ty, place::of(&value), slot.ty(relation));
        let value = self.coerce_to_target(value, wanted, CastContext::Assignment, Pos::NONE)?;
        value.ok_or_else(|| {
            let (name, wanted, from) = (&column.name, types::name(wanted), types::name(from));
            let (message, at) = match slot.part {
                Some(_) => (
                    format!(
                        "subscripted assignment to \"{name}\" requires type {wanted} but \
                         expression is of type {from}"
                    ),
                    slot.at,
                ),
                None => (
                    format!(
                        "column \"{name}\" is of type {wanted} but expression is of type {from}"
                    ),
                    at,
                ),
            };
            let hint = "You will need to rewrite or cast the expression.";
            PlanError::new(SqlState::DATATYPE_MISMATCH, message)
                .hint(hint)
                .at(at)
        })
    }
}

fn no_field(field: &Name, column: &Column, ty: SqlType) -> PlanError {
    let message = format!(
        "cannot assign to field \"{}\" of column \"{}\" because its type {} is not a composite type",
        field.text,
        column.name,
        types::name(ty)
    );
    PlanError::new(SqlState::DATATYPE_MISMATCH, message)
}
