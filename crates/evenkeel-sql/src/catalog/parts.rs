//! A table's definition before the engine's table is opened.

use std::sync::Arc;

use evenkeel_engine::table::{IndexDef, Table, TableDef};
use evenkeel_engine::{Database, FileId, Tid};
use evenkeel_types::row::{PhysicalColumn, RowLayout};

use super::index_expr::{computed, index_key};
use super::parameters::StorageParameters;
use super::statistics::RelationStats;
use super::{
    CheckInfo, ColumnInfo, ConstraintInfo, DroppedColumn, ForeignKeyInfo, IndexInfo, LargeInfo,
    Oid, TableInfo,
};
use crate::error::SqlResult;

/// `fillfactor` of a table that declares none.
pub(super) const DEFAULT_FILLFACTOR: u8 = 100;

/// The layout of rows of these columns, with the places of those that were dropped.
pub(super) fn layout_of(columns: &[ColumnInfo], dropped: &[DroppedColumn]) -> RowLayout {
    let live = columns.iter().map(|column| {
        let physical = PhysicalColumn {
            missing: column.missing.clone(),
            ..PhysicalColumn::new(column.ty)
        };
        (column.attnum, physical)
    });
    let gone = dropped.iter().map(|column| {
        let physical = PhysicalColumn {
            ty: None,
            width: column.width,
            missing: None,
        };
        (column.attnum, physical)
    });
    let mut all: Vec<(i16, PhysicalColumn)> = live.chain(gone).collect();
    all.sort_by_key(|(attnum, _)| *attnum);
    let all: Vec<PhysicalColumn> = all.into_iter().map(|(_, physical)| physical).collect();
    RowLayout::of(&all)
}

/// How the engine is to see an index.
pub(super) fn index_def(index: &IndexInfo) -> IndexDef {
    IndexDef {
        file: index.file,
        unique: index.unique,
        deferrable: index.deferrable,
        name: Arc::clone(&index.name),
        key: Arc::clone(&index.key) as _,
        usable_after: index.usable_after,
    }
}

/// A table's definition before it is opened.
#[derive(Clone)]
pub(super) struct TableParts {
    /// Its number for locks and counters.
    pub id: u64,
    pub oid: Oid,
    pub name: Arc<str>,
    pub schema: Arc<str>,
    pub schema_oid: Oid,
    pub columns: Vec<ColumnInfo>,
    pub dropped: Vec<DroppedColumn>,
    pub indexes: Vec<Arc<IndexInfo>>,
    pub constraints: Vec<Arc<ConstraintInfo>>,
    pub checks: Vec<Arc<CheckInfo>>,
    pub foreign_keys: Vec<Arc<ForeignKeyInfo>>,
    pub heap: FileId,
    pub large: Option<Arc<LargeInfo>>,
    pub fillfactor: Option<u8>,
    pub parameters: Arc<StorageParameters>,
    pub stats: Arc<RelationStats>,
    pub place: Tid,
}

impl TableParts {
    /// The parts of an open table.
    pub fn of(table: &TableInfo) -> TableParts {
        TableParts {
            id: table.lock_id(),
            oid: table.oid,
            name: Arc::clone(&table.name),
            schema: Arc::clone(&table.schema),
            schema_oid: table.schema_oid,
            columns: table.columns.clone(),
            dropped: table.dropped.clone(),
            indexes: table.indexes.clone(),
            constraints: table.constraints.clone(),
            checks: table.checks.clone(),
            foreign_keys: table.foreign_keys.clone(),
            heap: table.heap,
            large: table.large.clone(),
            fillfactor: table.fillfactor_declared.then_some(table.fillfactor),
            parameters: Arc::clone(&table.parameters),
            stats: Arc::clone(&table.stats),
            place: table.place,
        }
    }

    /// Where its columns are in a row.
    pub fn layout(&self) -> Arc<RowLayout> {
        Arc::new(layout_of(&self.columns, &self.dropped))
    }

    /// Gives the indexes the keys of rows of the present layout.
    pub fn renew_keys(&mut self) {
        let layout = self.layout();
        for index in &mut self.indexes {
            let computed = computed(&index.expressions, index.predicate.as_ref());
            let key = index_key(&layout, &index.columns, computed, index.nulls_not_distinct);
            *index = Arc::new(IndexInfo {
                key,
                ..IndexInfo::clone(index)
            });
        }
    }

    /// How the engine is to see the table with its first `indexes` indexes.
    pub fn def(&self, indexes: usize) -> TableDef {
        TableDef {
            id: self.id,
            heap: self.heap,
            fillfactor: self.fillfactor.unwrap_or(DEFAULT_FILLFACTOR),
            indexes: self
                .indexes
                .iter()
                .take(indexes)
                .map(|index| index_def(index))
                .collect(),
        }
    }

    /// Opens the engine's table, with its large values.
    pub fn open_table(&self, db: &Database, def: TableDef) -> SqlResult<Arc<Table>> {
        Ok(match &self.large {
            Some(large) => Table::open_with_large(db, def, &large.def(self.id, &self.layout()))?,
            None => Table::open(db, def)?,
        })
    }

    /// Opens the table; its indexes are numbered as they stand.
    pub fn open(mut self, db: &Database) -> SqlResult<TableInfo> {
        for (position, index) in self.indexes.iter_mut().enumerate() {
            if index.position != position {
                *index = Arc::new(IndexInfo {
                    position,
                    ..IndexInfo::clone(index)
                });
            }
        }
        let layout = self.layout();
        let table = self.open_table(db, self.def(self.indexes.len()))?;
        Ok(TableInfo {
            oid: self.oid,
            name: self.name,
            schema: self.schema,
            schema_oid: self.schema_oid,
            columns: self.columns,
            dropped: self.dropped,
            indexes: self.indexes,
            constraints: self.constraints,
            checks: self.checks,
            foreign_keys: self.foreign_keys,
            layout,
            table,
            heap: self.heap,
            large: self.large,
            fillfactor: self.fillfactor.unwrap_or(DEFAULT_FILLFACTOR),
            fillfactor_declared: self.fillfactor.is_some(),
            parameters: self.parameters,
            stats: self.stats,
            place: self.place,
        })
    }
}
