//! CREATE, ALTER and DROP DATABASE.

use std::sync::Arc;

use evenkeel_engine::{TableLockMode, Transaction, WaitPolicy};

use super::info::DatabaseInfo;
use super::seats::{Closed, Shared};
use super::{DATABASES, Databases, Oid, unknown_database};
use crate::catalog::{Catalog, CatalogFiles, name_lock};
use crate::error::{SqlError, SqlResult, SqlState};

/// CREATE DATABASE.
#[derive(Debug, Clone)]
pub struct NewDatabase {
    /// Name.
    pub name: String,
    /// IS_TEMPLATE.
    pub is_template: bool,
    /// ALLOW_CONNECTIONS.
    pub allows_connections: bool,
    /// CONNECTION LIMIT.
    pub connection_limit: i32,
}

/// A change of a database; what is absent stays.
#[derive(Debug, Clone, Default)]
pub struct DatabaseChange {
    /// RENAME TO.
    pub name: Option<String>,
    /// IS_TEMPLATE.
    pub is_template: Option<bool>,
    /// ALLOW_CONNECTIONS.
    pub allows_connections: Option<bool>,
    /// CONNECTION LIMIT.
    pub connection_limit: Option<i32>,
    /// SET and RESET.
    pub setting: Option<SettingChange>,
    /// COMMENT, as `DatabaseInfo` has it.
    pub comment: Option<Option<Arc<str>>>,
}

/// A change of the settings that a database's sessions begin with.
#[derive(Debug, Clone)]
pub enum SettingChange {
    /// SET.
    Set(String, String),
    /// RESET.
    Reset(String),
    /// RESET ALL.
    ResetAll,
}

impl SettingChange {
    /// The settings after the change: one that is changed keeps its place.
    fn of(self, settings: &[(Arc<str>, Arc<str>)]) -> Arc<[(Arc<str>, Arc<str>)]> {
        let mut settings = settings.to_vec();
        match self {
            SettingChange::Set(name, value) => {
                let known = settings.iter_mut().find(|(known, _)| **known == *name);
                match known {
                    Some((_, known)) => *known = value.into(),
                    None => settings.push((name.into(), value.into())),
                }
            }
            SettingChange::Reset(name) => settings.retain(|(known, _)| **known != *name),
            SettingChange::ResetAll => settings.clear(),
        }
        settings.into()
    }
}

fn database_exists(name: &str) -> SqlError {
    let message = format!("database \"{name}\" already exists");
    SqlError::new(SqlState::DUPLICATE_DATABASE, message)
}

impl Databases {
    /// Closes a database to all but `own` sessions that are in it, or says how many others there
    /// are.
    ///
    /// # Errors
    /// 3D000
    pub fn close(&self, oid: Oid, own: usize) -> SqlResult<Result<Closed, usize>> {
        Shared::close(&self.shared, oid, own)
    }

    /// Claims the name of a database to the end of the transaction; 42P04 if it is taken.
    async fn claim(&self, txn: &Transaction, name: &str) -> SqlResult<()> {
        self.lock(txn, name).await?;
        match self.named(name) {
            Some(_) => Err(database_exists(name)),
            None => Ok(()),
        }
    }

    /// Locks the name of a database: whoever changes or drops it does so first.
    ///
    /// # Errors
    /// The engine's.
    async fn lock(&self, txn: &Transaction, name: &str) -> SqlResult<()> {
        let lock = name_lock(0, DATABASES, name);
        txn.lock_table(lock, TableLockMode::Exclusive, WaitPolicy::Block)
            .await?;
        Ok(())
    }

    /// Creates a database, as a copy of a template or empty. It is there when the transaction
    /// commits. The caller has closed the template.
    ///
    /// # Errors
    /// 42P04, 55006, and the engine's.
    pub async fn create(
        &self,
        txn: &mut Transaction,
        new: &NewDatabase,
        template: Option<&Catalog>,
    ) -> SqlResult<()> {
        self.claim(txn, &new.name).await?;
        let oid = self.oids.take()?;
        let mut files = CatalogFiles::new(oid);
        match template {
            Some(template) => template.copy(txn, &mut files).await?,
            None => drop(Catalog::make_tables(&self.db, txn, &mut files)?),
        }
        let mut info = DatabaseInfo {
            oid,
            name: new.name.as_str().into(),
            is_template: new.is_template,
            allows_connections: new.allows_connections,
            connection_limit: new.connection_limit,
            files,
            settings: Arc::default(),
            comment: None,
            place: None,
        };
        info.place = Some(self.table.insert(txn, &info.row()).await?);
        let shared = Arc::clone(&self.shared);
        txn.on_commit(Box::new(move || shared.put(info)));
        Ok(())
    }

    /// Changes a database. The caller has closed one that gets another name.
    ///
    /// # Errors
    /// 3D000, 42P04, and the engine's.
    pub async fn alter(
        &self,
        txn: &mut Transaction,
        name: &str,
        change: &DatabaseChange,
    ) -> SqlResult<()> {
        self.lock(txn, name).await?;
        let old = self.locked(name)?;
        let mut new = DatabaseInfo::clone(&old);
        if let Some(name) = &change.name {
            self.claim(txn, name).await?;
            new.name = name.as_str().into();
        }
        new.is_template = change.is_template.unwrap_or(old.is_template);
        new.allows_connections = change.allows_connections.unwrap_or(old.allows_connections);
        new.connection_limit = change.connection_limit.unwrap_or(old.connection_limit);
        if let Some(setting) = change.setting.clone() {
            new.settings = setting.of(&old.settings);
        }
        new.comment = change.comment.clone().unwrap_or(new.comment);
        self.replace(txn, &old, new).await
    }

    /// Drops a database that the caller has closed; its files go at commit.
    ///
    /// # Errors
    /// 3D000, and the engine's.
    pub async fn drop_database(&self, txn: &mut Transaction, oid: Oid) -> SqlResult<()> {
        let info = self.shared.info(oid);
        let info = info.ok_or_else(|| unknown_database(&oid.to_string()))?;
        self.lock(txn, &info.name).await?;
        let catalog = match info.files.is_made() {
            true => Some(self.catalog(oid)?),
            false => None,
        };
        if let Some(catalog) = &catalog {
            drop_content(txn, catalog).await?;
        }
        self.remove_row(txn, info.place).await?;
        if DatabaseInfo::is_builtin(oid) {
            self.hide(txn, oid).await?;
        }
        let shared = Arc::clone(&self.shared);
        txn.on_commit(Box::new(move || {
            shared.remove(oid);
            if let Some(catalog) = catalog {
                catalog.empty();
            }
        }));
        Ok(())
    }
}

/// Drops the files of all relations and of the catalog. Each table is locked first: autovacuum may
/// have it in hand, and gives way.
async fn drop_content(txn: &mut Transaction, catalog: &Catalog) -> SqlResult<()> {
    let mode = TableLockMode::AccessExclusive;
    let state = catalog.current();
    let own = catalog.system_tables().map(|(_, table)| table.def().id);
    let tables = state.tables().map(|table| table.lock_id());
    let ids: Vec<u64> = tables.chain(own).collect();
    for id in &ids {
        txn.lock_table(*id, mode, WaitPolicy::Block).await?;
    }
    // A vacuum that has ended meanwhile may have published another definition.
    let state = catalog.current();
    let files = state.tables().flat_map(|table| table.files());
    for file in files.chain(catalog.files().listed()) {
        txn.drop_file(file)?;
    }
    if catalog.files().listed().next().is_none() {
        for (_, table) in catalog.system_tables() {
            txn.drop_file(table.def().heap)?;
        }
    }
    for sequence in state.sequences() {
        txn.drop_sequence(sequence.file)?;
    }
    let db = catalog.database().clone();
    txn.on_commit(Box::new(move || {
        for id in ids {
            db.forget_table_statistics(id);
        }
    }));
    Ok(())
}
