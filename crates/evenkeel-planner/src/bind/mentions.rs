//! Where a text that the catalog keeps hangs on types that were created: their names in it, and the
//! constants of them. A type that changes has those written anew, and one that goes takes the text
//! with it.

use std::sync::Arc;

use evenkeel_expr::call::Session;
use evenkeel_expr::proc::CastContext;
use evenkeel_types::{Datum, SqlType};

use super::Binder;
use super::check::{Origin, row_binder};
use super::scope::Place;
use crate::ast::{Pos, TypeName};
use crate::catalog::Catalog;
use crate::error::PlanResult;
use crate::parser;
use crate::relation::Relation;

/// A place of a text that hangs on a type.
#[derive(Debug, Clone)]
pub struct TypeMention {
    /// The type, or that of its arrays.
    pub ty: SqlType,
    /// Where the place begins.
    pub start: usize,
    /// Where its last token begins.
    pub last: usize,
    /// Its kind.
    pub kind: MentionKind,
}

/// The kinds of mention.
#[derive(Debug, Clone)]
pub enum MentionKind {
    /// The type's name, with a schema if one is said.
    Name {
        /// The schema.
        schema: Option<String>,
    },
    /// A string that is a value of it.
    Value(Datum),
}

/// The places of an expression over a table's columns that hang on types; one that gives a column
/// its value is read as that column's type.
///
/// # Errors
/// The binder's, of an expression that is no longer understood.
pub fn type_mentions(
    text: &str,
    gives: Option<SqlType>,
    relation: &Arc<Relation>,
    names: (&dyn Catalog, &dyn Session),
) -> PlanResult<Vec<TypeMention>> {
    let written = parser::parse_expr(text)?;
    let (mut binder, rel) = row_binder(relation, Origin::Kept, names);
    binder.mentions = Some(Vec::new());
    let bound = binder.bind_over_row(&written, relation, rel, Place::Check)?;
    if let Some(ty) = gives {
        binder.coerce_to_target(bound, ty, CastContext::Assignment, Pos::NONE)?;
    }
    Ok(binder.take_mentions())
}

impl Binder<'_> {
    /// The mentions so far, in the order of the text.
    pub(super) fn take_mentions(&mut self) -> Vec<TypeMention> {
        let mut mentions = self.mentions.take().unwrap_or_default();
        mentions.sort_by_key(|mention| mention.start);
        mentions.dedup_by_key(|mention| mention.start);
        mentions
    }

    pub(super) fn note_type(&mut self, name: &TypeName, ty: SqlType) {
        let (Some(mentions), Some(_)) = (&mut self.mentions, ty.created()) else {
            return;
        };
        let parts = &name.name.parts;
        mentions.push(TypeMention {
            ty,
            start: name.name.at().0 as usize,
            last: parts.last().map_or(0, |part| part.at.0 as usize),
            kind: MentionKind::Name {
                schema: name.name.schema().map(str::to_owned),
            },
        });
    }

    pub(super) fn note_value(&mut self, value: &Datum, ty: SqlType, at: Pos) {
        if let (Some(mentions), Some(_)) = (&mut self.mentions, ty.enumerated())
            && !value.is_null()
        {
            let start = at.0 as usize;
            mentions.push(TypeMention {
                ty,
                start,
                last: start,
                kind: MentionKind::Value(value.clone()),
            });
        }
    }
}
