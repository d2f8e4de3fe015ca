//! The place of a table's large values, as the catalog has it.

use std::sync::Arc;

use evenkeel_engine::table::{LargeDef, LargeRef, NamesLarge};
use evenkeel_engine::{FileId, Tid};
use evenkeel_types::row::RowLayout;

use super::Oid;
use super::fields::Fields;
use super::files::id_beside;
use crate::error::SqlResult;
use crate::types::Datum;

/// The place of a table's large values.
#[derive(Debug, Clone)]
pub struct LargeInfo {
    /// Oid of the chunks' table.
    pub oid: Oid,
    /// Oid of the tree that finds them.
    pub index_oid: Oid,
    /// The file of the chunks' heap.
    pub heap: FileId,
    /// The file of the tree.
    pub tree: FileId,
    /// Its row in `evenkeel_large`.
    pub(crate) place: Tid,
}

/// The large values that rows of a layout name.
struct RowNames(Arc<RowLayout>);

impl NamesLarge for RowNames {
    fn each(&self, row: &[u8], found: &mut dyn FnMut(LargeRef)) {
        self.0.each_external(row, &mut |external| {
            found(LargeRef {
                id: external.id,
                bytes: external.stored,
            });
        });
    }
}

impl LargeInfo {
    /// How the engine is to see it, beside the table that has this number.
    pub(super) fn def(&self, table: u64, layout: &Arc<RowLayout>) -> LargeDef {
        LargeDef {
            id: id_beside(table, self.oid),
            heap: self.heap,
            tree: self.tree,
            names: Arc::new(RowNames(Arc::clone(layout))),
        }
    }

    pub(super) fn read(place: Tid, values: Vec<Datum>) -> SqlResult<(Oid, LargeInfo)> {
        let mut fields = Fields::new(values, "evenkeel_large");
        let table = fields.oid()?;
        let large = LargeInfo {
            oid: fields.oid()?,
            index_oid: fields.oid()?,
            heap: fields.file()?,
            tree: fields.file()?,
            place,
        };
        Ok((table, large))
    }

    pub(super) fn row(&self, table: Oid) -> Vec<Datum> {
        vec![
            Datum::Oid(table),
            Datum::Oid(self.oid),
            Datum::Oid(self.index_oid),
            Datum::Int8(self.heap.0.cast_signed()),
            Datum::Int8(self.tree.0.cast_signed()),
        ]
    }
}
