//! A copy of a whole database: its relations' files, and a catalog that names the copies.

use std::collections::HashMap;

use evenkeel_engine::{FileId, Isolation, TableLockMode, Transaction, WaitPolicy};

use super::comment_info::DATABASES;
use super::{Catalog, CatalogFiles, CatalogState, damaged};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::Datum;

/// The column of `pg_class` that names a relation's file.
const CLASS_FILE: usize = 4;
/// The columns of `evenkeel_large` that name the files of a table's large values.
const LARGE_FILES: [usize; 2] = [3, 4];
/// The column of `pg_description` that has the object's class.
const COMMENT_CLASS: usize = 1;

/// The files of the original to those of the copy.
type Copies = HashMap<FileId, FileId>;

impl Catalog {
    /// Writes a copy of the database, in which nobody is but the caller. `files` gets the files of
    /// the copy's catalog. The relations keep their oids.
    ///
    /// # Errors
    /// 55006 if it has temporary relations; the engine's.
    pub async fn copy(&self, txn: &mut Transaction, files: &mut CatalogFiles) -> SqlResult<()> {
        let state = self.current();
        for table in state.tables() {
            // Keeps vacuum out to the end: it would change pages between the reading of two, and
            // move the age that the copy takes over from the original.
            let mode = TableLockMode::ShareUpdateExclusive;
            txn.lock_table(table.lock_id(), mode, WaitPolicy::Block)
                .await?;
        }
        // A vacuum may have published another definition meanwhile.
        let copies = self.copy_relations(txn, &self.current())?;
        let tables = Catalog::make_tables(&self.db, txn, files)?;
        let mut reader = self.db.begin(Isolation::RepeatableRead)?;
        reader.begin_statement()?;
        for ((name, from), (_, to)) in self.tables.all().into_iter().zip(tables.all()) {
            for (_, mut row) in from.read(&mut reader)? {
                if copied(name, &mut row, &copies)? {
                    to.insert(txn, &row).await?;
                }
            }
        }
        reader.rollback();
        Ok(())
    }

    fn copy_relations(&self, txn: &mut Transaction, state: &CatalogState) -> SqlResult<Copies> {
        let mut copies = Copies::new();
        for file in state.tables().flat_map(|table| table.files()) {
            if file.is_temporary() {
                return Err(has_temporary());
            }
            copies.insert(file, txn.copy_file(file)?);
        }
        for sequence in state.sequences() {
            if sequence.file.is_temporary() {
                return Err(has_temporary());
            }
            let gone = || SqlError::internal("a sequence is not there");
            let position = self
                .db
                .sequence(sequence.file)?
                .ok_or_else(gone)?
                .position();
            let file = txn.create_file()?;
            txn.create_sequence(file, position.last_value)?;
            if position.is_called {
                let copy = self.db.sequence(file)?.ok_or_else(gone)?;
                let set = copy.set(position.last_value, true)?;
                set.map_err(|_| gone())?;
            }
            copies.insert(sequence.file, file);
        }
        Ok(copies)
    }
}

fn has_temporary() -> SqlError {
    let message = "the source database has temporary relations";
    SqlError::new(SqlState::OBJECT_IN_USE, message)
}

/// Has a row of a catalog table name the copies of files; false for one that the copy is without.
fn copied(table: &str, row: &mut [Datum], copies: &Copies) -> SqlResult<bool> {
    let named: &[usize] = match table {
        "pg_class" => &[CLASS_FILE],
        "evenkeel_large" => &LARGE_FILES,
        "evenkeel_table_counts" => return Ok(false),
        "pg_description" => {
            let of_database = Datum::Oid(DATABASES);
            return Ok(row.get(COMMENT_CLASS) != Some(&of_database));
        }
        _ => &[],
    };
    for at in named {
        let Some(Datum::Int8(file)) = row.get_mut(*at) else {
            return Err(damaged("pg_class"));
        };
        let copy = copies.get(&FileId(file.cast_unsigned()));
        let copy = copy.ok_or_else(|| damaged("pg_class"))?;
        *file = copy.0.cast_signed();
    }
    Ok(true)
}
