//! Temporary relations: the session's own schema, the names of new relations, ON COMMIT, and the
//! end of it all.

use std::sync::Arc;

use evenkeel_engine::{FileId, TableLockMode, block_on};
use evenkeel_planner::ast::{OnCommit, Persistence, QualifiedName};

use super::api::SessionParams;
use super::schemas::undefined_schema;
use super::{Session, SqlEngine};
use crate::catalog::{Catalog, CatalogState, Oid, Relation, SchemaInfo, TableInfo};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::instance::TemporaryNumber;
use crate::parser::names::split_name;
use crate::search_path::{OWN_TEMPORARY, is_temporary};
use crate::settings::Effective;

/// A session's temporary schema, from its first temporary relation on.
pub(super) struct Temporary {
    number: TemporaryNumber,
    /// Temporary tables that do not just stay at a commit.
    on_commit: Vec<(Oid, OnCommit)>,
}

impl Temporary {
    pub(super) fn schema(&self) -> &Arc<str> {
        self.number.schema()
    }
}

fn invalid(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message)
}

/// 0A000 for a table that is neither permanent nor temporary.
fn refuse_unlogged(persistence: Persistence, kind: &str) -> SqlResult<()> {
    match persistence {
        Persistence::Unlogged => Err(SqlError::unsupported(format!("CREATE UNLOGGED {kind}"))),
        Persistence::Permanent | Persistence::Temporary => Ok(()),
    }
}

impl Session {
    /// A relation's schema, if given, and last part; `pg_temp` is the session's own.
    ///
    /// # Errors
    /// 42601 for a name of too many parts, 0A000 for one in another database.
    pub(super) fn split_name(&self, name: &QualifiedName) -> SqlResult<(Option<String>, String)> {
        if let [database, _, _] = name.parts.as_slice()
            && database.text != *self.seat.info().name
        {
            let shown = name.display();
            let message = format!("cross-database references are not implemented: \"{shown}\"");
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let (schema, name) = split_name(name)?;
        let path = &self.effective.search_path;
        Ok((schema.map(|schema| path.meant(&schema).to_owned()), name))
    }

    /// The schema that a new relation of some `kind` goes into, and its name. The session's
    /// temporary schema is made if there is none.
    ///
    /// # Errors
    /// 3F000; 42P16 for a schema where such a relation may not be.
    pub(super) async fn new_name(
        &mut self,
        name: &QualifiedName,
        persistence: Persistence,
        kind: &str,
    ) -> SqlResult<(String, String)> {
        refuse_unlogged(persistence, kind)?;
        let (schema, name) = self.split_name(name)?;
        let is_temp = persistence == Persistence::Temporary;
        let schema = match schema {
            Some(schema) if schema == OWN_TEMPORARY => self.temporary_schema().await?,
            Some(schema) => schema,
            None if is_temp => self.temporary_schema().await?,
            None => self.schema_for_new().await?,
        };
        if self.is_own(&schema) {
            // One that an earlier transaction made may have been rolled back.
            return Ok((self.temporary_schema().await?, name));
        }
        self.refuse_missing_schema(Some(&schema))?;
        if is_temporary(&schema) {
            let message = "cannot create relations in temporary schemas of other sessions";
            return Err(invalid(message));
        }
        if is_temp {
            let message = "cannot create temporary relation in non-temporary schema";
            return Err(invalid(message));
        }
        Ok((schema, name))
    }

    /// The first schema of the path, for a relation that is given none.
    async fn schema_for_new(&mut self) -> SqlResult<String> {
        let view = self.view();
        let mut named = self.effective.search_path.named().iter();
        let found = named
            .find(|schema| *schema == OWN_TEMPORARY || view.schema_oid(schema).is_some())
            .cloned();
        match found {
            Some(own) if own == OWN_TEMPORARY => self.temporary_schema().await,
            Some(schema) => Ok(schema),
            None => {
                let message = "no schema has been selected to create in";
                Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, message))
            }
        }
    }

    fn is_own(&self, schema: &str) -> bool {
        self.effective.search_path.temporary() == Some(schema)
    }

    /// The session's temporary schema, made if there is none.
    async fn temporary_schema(&mut self) -> SqlResult<String> {
        let schema = match &self.temporary {
            Some(temporary) => Arc::clone(temporary.schema()),
            None => {
                let number = self.engine.instance().take_temporary_number();
                let schema = Arc::clone(number.schema());
                self.temporary = Some(Temporary {
                    number,
                    on_commit: Vec::new(),
                });
                let user = &self.params.user;
                self.effective = Effective::of(&self.settings, user, Some(&schema))?;
                self.renew_seed();
                // Left by an earlier session of the number.
                self.empty_schema(&schema).await?;
                schema
            }
        };
        if self.view().schema_oid(&schema).is_none() {
            let (catalog, txn, ddl) = self.ddl_parts()?;
            catalog.create_temporary_schema(txn, ddl, &schema).await?;
        }
        Ok(schema.to_string())
    }

    /// 0A000 for a temporary table of another session, which may only be dropped.
    pub(super) fn refuse_foreign(&self, table: &TableInfo, does: &str) -> SqlResult<()> {
        if !table.is_temporary() || self.is_own(&table.schema) {
            return Ok(());
        }
        let message = format!("cannot {does} temporary tables of other sessions");
        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
    }

    /// 42P16 for ON COMMIT of a table in a schema that is not temporary.
    pub(super) fn check_on_commit(
        &self,
        schema: &str,
        on_commit: Option<OnCommit>,
    ) -> SqlResult<()> {
        match on_commit {
            Some(_) if !self.is_own(schema) => {
                Err(invalid("ON COMMIT can only be used on temporary tables"))
            }
            _ => Ok(()),
        }
    }

    /// Remembers the fate of a new temporary table at a commit.
    pub(super) fn note_on_commit(&mut self, table: Oid, on_commit: Option<OnCommit>) {
        if let (Some(temporary), Some(fate @ (OnCommit::Delete | OnCommit::Drop))) =
            (&mut self.temporary, on_commit)
        {
            temporary.on_commit.push((table, fate));
        }
    }

    /// Empties and drops the temporary tables that are to be so at a commit.
    ///
    /// # Errors
    /// 0A000 for foreign keys between tables that are emptied and others that are not.
    pub(super) async fn on_commit_actions(&mut self) -> SqlResult<()> {
        let Some(temporary) = &mut self.temporary else {
            return Ok(());
        };
        if temporary.on_commit.is_empty() || self.tx.txn.is_none() {
            return Ok(());
        }
        let (committed, view) = (self.catalog.current(), self.catalog.view(&self.tx.ddl));
        let is_there = |oid: Oid| committed.table(oid).is_some() || view.table(oid).is_some();
        temporary.on_commit.retain(|(oid, _)| is_there(*oid));
        let with = |wanted: OnCommit| {
            let all = temporary.on_commit.iter();
            let all = all.filter(move |(_, fate)| *fate == wanted);
            all.filter_map(|(oid, _)| view.table(*oid).cloned())
        };
        let dropped: Vec<Arc<TableInfo>> = with(OnCommit::Drop).collect();
        let emptied: Vec<Arc<TableInfo>> = with(OnCommit::Delete).collect();
        refuse_unequal(&view, &emptied)?;
        // One without rows has been left alone.
        for table in emptied.iter().filter(|table| table.table.blocks() > 0) {
            let (catalog, txn, ddl) = self.ddl_parts()?;
            catalog.truncate(txn, ddl, table.oid).await?;
        }
        if !dropped.is_empty() {
            let told = self.notices.len();
            self.drop_tables(dropped.into_iter().map(Relation::Table), true)
                .await?;
            self.notices.truncate(told);
        }
        Ok(())
    }

    /// Drops everything in the session's temporary schema.
    pub(super) async fn drop_temporary(&mut self) -> SqlResult<()> {
        let schema = self.temporary.as_ref();
        match schema.map(|temporary| Arc::clone(temporary.schema())) {
            Some(schema) => self.empty_schema(&schema).await,
            None => Ok(()),
        }
    }

    async fn empty_schema(&mut self, name: &str) -> SqlResult<()> {
        let Some(oid) = self.view().schema_oid(name) else {
            return Ok(());
        };
        if !self.view().has_content(oid) {
            return Ok(());
        }
        let (catalog, txn, ddl) = self.ddl_parts()?;
        let mode = TableLockMode::AccessShare;
        let schema: Arc<SchemaInfo> = catalog.lock_schema(txn, ddl, oid, mode).await?;
        self.drop_contents(&[schema]).await?;
        let (catalog, txn, ddl) = self.ddl_parts()?;
        catalog.drop_comments(txn, ddl).await
    }

    /// Ends the session: its transaction rolls back, and its temporary relations go.
    pub async fn close(mut self) {
        let (engine, catalog) = (Arc::clone(&self.engine), Arc::clone(&self.catalog));
        let temporary = self.temporary.take();
        // The database stays until they are gone.
        let seat = temporary.as_ref().map(|_| self.seat.again());
        drop(self);
        if let Some(temporary) = temporary {
            engine.end_temporary(&catalog, &temporary).await;
        }
        drop(seat);
    }

    /// SET SCHEMA of a relation may not cross the border of a temporary schema.
    pub(super) fn refuse_move(&self, from: &str, to: &str) -> SqlResult<()> {
        let to = self.effective.search_path.meant(to);
        if from == to {
            return Ok(());
        }
        if self.view().schema_oid(to).is_none() {
            return Err(undefined_schema(to));
        }
        if is_temporary(from) || is_temporary(to) {
            let message = "cannot move objects into or out of temporary schemas";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        Ok(())
    }
}

/// 0A000 for a table to be emptied that another refers to which is not.
fn refuse_unequal(view: &CatalogState, emptied: &[Arc<TableInfo>]) -> SqlResult<()> {
    for parent in emptied {
        for (child, _) in view.references_to(parent.oid) {
            if emptied.iter().any(|table| table.oid == child.oid) {
                continue;
            }
            let message = "unsupported ON COMMIT and foreign key combination";
            let detail = format!(
                "Table \"{}\" references \"{}\", but they do not have the same ON COMMIT setting.",
                child.name, parent.name
            );
            let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message);
            return Err(error.detail(detail));
        }
    }
    Ok(())
}

impl SqlEngine {
    /// Drops the temporary relations of a session that has ended. Those that cannot be dropped are
    /// left to the next start, or to the next session of the number.
    async fn end_temporary(self: &Arc<Self>, catalog: &Catalog, temporary: &Temporary) {
        if let Err(error) = self.empty_temporary(catalog, temporary.schema()).await {
            let schema = temporary.schema();
            tracing::warn!(
                "temporary relations in {schema} are left behind: {}",
                error.message
            );
        }
    }

    /// Drops the temporary relations that sessions of an earlier process have left.
    pub(super) fn remove_left_temporary(self: &Arc<Self>) -> SqlResult<()> {
        let catalogs = self.databases().catalogs()?;
        // Before anything is dropped: nobody gets the number of a file that another has.
        for catalog in &catalogs {
            for file in left_files(&catalog.current()) {
                self.database().store().pass_file_id(file);
            }
        }
        for catalog in catalogs {
            let state = catalog.current();
            for schema in state.schemas().filter(|schema| is_temporary(&schema.name)) {
                block_on(self.empty_temporary(&catalog, &schema.name))?;
            }
        }
        Ok(())
    }

    async fn empty_temporary(self: &Arc<Self>, catalog: &Catalog, schema: &str) -> SqlResult<()> {
        let state = catalog.current();
        let oid = state.schema_oid(schema);
        if !oid.is_some_and(|oid| state.has_content(oid)) {
            return Ok(());
        }
        let seat = self.databases().seat(catalog.database_oid())?;
        let mut session = Session::new(Arc::clone(self), seat, SessionParams::default())?;
        session.ensure_transaction()?;
        session.empty_schema(schema).await?;
        session.commit().await
    }
}

/// The files of all temporary relations.
fn left_files(state: &CatalogState) -> Vec<FileId> {
    let mut files = Vec::new();
    for table in state.tables().filter(|table| table.is_temporary()) {
        files.extend(table.files());
    }
    let sequences = state.sequences();
    let sequences = sequences.filter(|sequence| is_temporary(&sequence.schema));
    files.extend(sequences.map(|sequence| sequence.file));
    files
}

impl Drop for Session {
    /// For one that was not closed: nobody waits for it, so this thread does.
    fn drop(&mut self) {
        if let Some(temporary) = self.temporary.take() {
            self.rollback();
            block_on(self.engine.end_temporary(&self.catalog, &temporary));
        }
    }
}
