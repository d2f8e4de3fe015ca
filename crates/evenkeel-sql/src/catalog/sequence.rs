//! Sequences: CREATE, ALTER, DROP, and what depends on one.

use std::sync::Arc;

use evenkeel_engine::sequence::Rule;
use evenkeel_engine::{TableLockMode, Transaction, WaitPolicy};

use super::names::free_name;
use super::parts::TableParts;
use super::sequence_info::default_text;
use super::state::CatalogChange;
use super::system::sequence_rows;
use super::{
    Catalog, CatalogState, ColumnInfo, DdlLog, Identity, NOWHERE, Oid, SequenceInfo, TableInfo,
    gone,
};
use crate::error::{SqlError, SqlResult};
use crate::types::SqlType;

fn own_name(state: &CatalogState, schema: Oid, table: &str, column: &str) -> String {
    let taken = [table.to_owned()];
    free_name(state, schema, &taken, table, column, "seq")
}

/// CREATE SEQUENCE
#[derive(Debug, Clone)]
pub struct NewSequence {
    /// Schema.
    pub schema: String,
    /// Name.
    pub name: String,
    /// Type of its numbers.
    pub ty: SqlType,
    /// START
    pub start: i64,
    /// How it counts.
    pub rule: Rule,
    /// OWNED BY
    pub owner: Option<(Oid, i16)>,
    /// Whether that column is an identity.
    pub identity: Option<Identity>,
    /// IF NOT EXISTS
    pub if_not_exists: bool,
}

/// The sequence of a new column.
#[derive(Debug, Clone)]
pub struct OwnSequence {
    /// Its name, if it was given one.
    pub name: Option<String>,
    /// Type of its numbers.
    pub ty: SqlType,
    /// START
    pub start: i64,
    /// How it counts.
    pub rule: Rule,
    /// Whether the column is an identity, or else a `serial`.
    pub identity: Option<Identity>,
}

/// Another definition of a sequence.
#[derive(Debug, Clone)]
pub struct SequenceChange {
    /// Type of its numbers.
    pub ty: SqlType,
    /// START
    pub start: i64,
    /// How it counts.
    pub rule: Rule,
    /// OWNED BY
    pub owner: Option<(Oid, i16)>,
    /// Whether that column is an identity.
    pub identity: Option<Identity>,
    /// RESTART: the next number.
    pub restart: Option<i64>,
}

impl SequenceChange {
    /// The definition as it is.
    pub fn of(sequence: &SequenceInfo) -> SequenceChange {
        SequenceChange {
            ty: sequence.ty,
            start: sequence.start,
            rule: sequence.rule,
            owner: sequence.owner,
            identity: sequence.identity,
            restart: None,
        }
    }
}

impl CatalogState {
    /// The columns whose defaults take numbers of a sequence.
    pub fn defaults_by(
        &self,
        sequence: Oid,
    ) -> impl Iterator<Item = (&Arc<TableInfo>, &ColumnInfo)> {
        let text = default_text(sequence);
        self.tables().flat_map(move |table| {
            let text = text.clone();
            let columns = table.columns.iter();
            let uses = move |column: &&ColumnInfo| {
                let default = column.default.as_ref();
                default.is_some_and(|default| **default == *text)
            };
            columns.filter(uses).map(move |column| (table, column))
        })
    }
}

impl Catalog {
    /// Creates a sequence; `None` if the name is taken and IF NOT EXISTS was said.
    ///
    /// # Errors
    /// 42P07, 3F000, and the engine's.
    pub async fn create_sequence(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        new: &NewSequence,
    ) -> SqlResult<Option<Arc<SequenceInfo>>> {
        let schema_oid = self.schema_for_create(ddl, &new.schema)?;
        let may_exist = new.if_not_exists;
        if !self
            .claim_name(txn, ddl, schema_oid, &new.name, may_exist)
            .await?
        {
            return Ok(None);
        }
        let oid = self.new_oid()?;
        self.lock_sequence(txn, oid).await?;
        let file = self.new_file(txn, &new.schema)?;
        txn.create_sequence(file, new.start)?;
        let sequence = SequenceInfo {
            oid,
            name: new.name.as_str().into(),
            schema: new.schema.as_str().into(),
            schema_oid,
            ty: new.ty,
            start: new.start,
            rule: new.rule,
            file,
            owner: new.owner,
            identity: new.identity,
            places: [NOWHERE; 2],
        };
        self.put_sequence(txn, ddl, sequence).await.map(Some)
    }

    /// Makes the sequences of a new table's columns, and the columns' defaults with them.
    pub(super) async fn own_sequences(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        parts: &mut TableParts,
        own: impl Iterator<Item = Option<&OwnSequence>>,
    ) -> SqlResult<()> {
        for (at, own) in own.enumerate() {
            let Some(own) = own else {
                continue;
            };
            let column = &parts.columns[at];
            let state = self.view(ddl);
            let name = own.name.clone();
            let schema = parts.schema_oid;
            let name = name.unwrap_or_else(|| own_name(&state, schema, &parts.name, &column.name));
            let new = NewSequence {
                schema: parts.schema.to_string(),
                name,
                ty: own.ty,
                start: own.start,
                rule: own.rule,
                owner: Some((parts.oid, column.attnum)),
                identity: own.identity,
                if_not_exists: false,
            };
            let made = self.create_sequence(txn, ddl, &new).await?;
            let made = made.ok_or_else(|| SqlError::internal("a sequence was not made"))?;
            let column = &mut parts.columns[at];
            match own.identity {
                Some(identity) => column.identity = Some((identity, made.oid)),
                None => column.default = Some(made.default_text().into()),
            }
        }
        Ok(())
    }

    /// The name that the sequence of a table's column has if it was given none.
    pub fn sequence_name(&self, ddl: &DdlLog, table: &TableInfo, column: &str) -> String {
        own_name(&self.view(ddl), table.schema_oid, &table.name, column)
    }

    async fn lock_sequence(&self, txn: &Transaction, oid: Oid) -> SqlResult<()> {
        let mode = TableLockMode::AccessExclusive;
        txn.lock_table(self.table_id(oid), mode, WaitPolicy::Block)
            .await?;
        Ok(())
    }

    /// Writes the rows of a sequence, and makes it this transaction's.
    async fn put_sequence(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        mut sequence: SequenceInfo,
    ) -> SqlResult<Arc<SequenceInfo>> {
        let [class, own] = sequence_rows(&sequence);
        sequence.places = [
            self.tables.class.insert(txn, &class).await?,
            self.tables.sequence.insert(txn, &own).await?,
        ];
        let sequence = Arc::new(sequence);
        let put = CatalogChange::PutSequence(Arc::clone(&sequence));
        self.forget(txn, ddl, put)?;
        Ok(sequence)
    }

    /// Gives a sequence another definition, with another file if it restarts.
    ///
    /// # Errors
    /// 42P01 if it has gone meanwhile; the engine's.
    pub async fn alter_sequence(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        oid: Oid,
        change: &SequenceChange,
    ) -> SqlResult<Arc<SequenceInfo>> {
        let old = self.locked_sequence(txn, ddl, oid).await?;
        let mut new = SequenceInfo {
            ty: change.ty,
            start: change.start,
            rule: change.rule,
            owner: change.owner,
            identity: change.identity,
            ..SequenceInfo::clone(&old)
        };
        match change.restart {
            Some(first) => {
                txn.drop_sequence(old.file)?;
                new.file = txn.create_file_like(old.file)?;
                txn.create_sequence(new.file, first)?;
            }
            // The numbers in reserve were counted by the old rule.
            None => {
                if let Some(open) = self.db.sequence(old.file)? {
                    open.settle()?;
                }
            }
        }
        self.tables.class.delete(txn, old.places[0]).await?;
        self.tables.sequence.delete(txn, old.places[1]).await?;
        self.put_sequence(txn, ddl, new).await
    }

    pub(super) async fn locked_sequence(
        &self,
        txn: &Transaction,
        ddl: &DdlLog,
        oid: Oid,
    ) -> SqlResult<Arc<SequenceInfo>> {
        self.lock_sequence(txn, oid).await?;
        self.view(ddl)
            .sequence(oid)
            .cloned()
            .ok_or_else(|| gone(oid))
    }

    /// Gives a sequence another name.
    ///
    /// # Errors
    /// 42P07; 42P01 if it has gone meanwhile; the engine's.
    pub async fn rename_sequence(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        oid: Oid,
        to: &str,
    ) -> SqlResult<()> {
        let old = self.locked_sequence(txn, ddl, oid).await?;
        self.claim_name(txn, ddl, old.schema_oid, to, false).await?;
        self.replace_sequence(txn, ddl, &old, |new| new.name = to.into())
            .await
    }

    /// Writes the rows of a locked sequence anew.
    pub(super) async fn replace_sequence(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        old: &SequenceInfo,
        change: impl FnOnce(&mut SequenceInfo),
    ) -> SqlResult<()> {
        self.tables.class.delete(txn, old.places[0]).await?;
        self.tables.sequence.delete(txn, old.places[1]).await?;
        let mut new = SequenceInfo::clone(old);
        change(&mut new);
        self.put_sequence(txn, ddl, new).await?;
        Ok(())
    }

    /// Drops a sequence. The caller has dealt with the defaults that use it.
    ///
    /// # Errors
    /// 42P01 if it has gone meanwhile; the engine's.
    pub async fn drop_sequence(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        oid: Oid,
    ) -> SqlResult<()> {
        let sequence = self.locked_sequence(txn, ddl, oid).await?;
        self.tables.class.delete(txn, sequence.places[0]).await?;
        self.tables.sequence.delete(txn, sequence.places[1]).await?;
        txn.drop_sequence(sequence.file)?;
        self.forget(txn, ddl, CatalogChange::DropSequence(oid))
    }

    /// Gives a column another default, identity or NOT NULL.
    ///
    /// # Errors
    /// 42P01 if the table has gone meanwhile; the engine's.
    pub async fn alter_column(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        table: Oid,
        at: usize,
        change: impl FnOnce(&mut ColumnInfo),
    ) -> SqlResult<Arc<TableInfo>> {
        let mode = TableLockMode::AccessExclusive;
        let table = self.lock_table(txn, ddl, table, mode).await?;
        let mut parts = TableParts::of(&table);
        let column = parts.columns.get_mut(at);
        let column = column.ok_or_else(|| SqlError::internal("a column is not there"))?;
        change(column);
        self.put_column(txn, &mut parts, at).await?;
        self.finish(txn, ddl, parts)
    }
}
