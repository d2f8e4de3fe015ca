//! CREATE SCHEMA, ALTER SCHEMA, DROP SCHEMA.

use std::sync::Arc;

use evenkeel_engine::{TableLockMode, WaitPolicy};
use evenkeel_planner::ast::{self, Name, Role, SchemaChange};

use super::Session;
use crate::catalog::{
    CatalogState, INFORMATION_SCHEMA_OID, Oid, PG_CATALOG_OID, PUBLIC_OID, SchemaInfo, TableInfo,
};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::pg_catalog;
use crate::quote::quote_ident;

/// Objects that a message names at most.
const REPORTED: usize = 100;

/// An object that goes with a schema.
enum Dependent {
    Table(Oid),
    Sequence(Oid),
    View(Oid),
    Type(Oid),
    /// The default of a column of a table that stays: the table's oid and the column's number.
    Default(Oid, i16),
    Extension(Arc<str>),
    /// A foreign key by the oid of its table and its name.
    ForeignKey(Oid, Arc<str>),
}

/// The objects that go with some schemas, and what PostgreSQL says of those that it names.
#[derive(Default)]
struct Contents {
    objects: Vec<Dependent>,
    /// An object and the one that it depends on.
    reported: Vec<(String, String)>,
}

impl Session {
    /// 3F000 for a schema that was named and is not there.
    pub(super) fn refuse_missing_schema(&self, schema: Option<&str>) -> SqlResult<()> {
        match schema.filter(|schema| self.view().schema_oid(schema).is_none()) {
            Some(schema) => Err(undefined_schema(schema)),
            None => Ok(()),
        }
    }

    pub(super) async fn create_schema(
        &mut self,
        name: Option<&Name>,
        owner: Option<&Role>,
        if_not_exists: bool,
    ) -> SqlResult<()> {
        if let Some(owner) = owner {
            self.check_owner(owner)?;
        }
        let user = self.params.user.clone();
        let name = name.map_or(user, |name| name.text.clone());
        let (catalog, txn, ddl) = self.ddl_parts()?;
        if !catalog
            .create_schema(txn, ddl, &name, if_not_exists)
            .await?
        {
            let message = format!("schema \"{name}\" already exists, skipping");
            self.notice("NOTICE", SqlState::DUPLICATE_SCHEMA, message);
        }
        Ok(())
    }

    pub(super) async fn alter_schema(
        &mut self,
        name: &Name,
        change: &SchemaChange,
    ) -> SqlResult<()> {
        match change {
            SchemaChange::Rename(to) => {
                let (catalog, txn, ddl) = self.ddl_parts()?;
                catalog.rename_schema(txn, ddl, &name.text, &to.text).await
            }
            SchemaChange::Owner(owner) => {
                self.check_owner(owner)?;
                match self.view().schema_oid(&name.text) {
                    Some(_) => Ok(()),
                    None => Err(undefined_schema(&name.text)),
                }
            }
        }
    }

    pub(super) async fn drop_schemas(&mut self, drop: &ast::Drop) -> SqlResult<()> {
        let mut schemas: Vec<Arc<SchemaInfo>> = Vec::with_capacity(drop.names.len());
        for name in &drop.names {
            let name = name.last();
            let Some(oid) = self.view().schema_oid(name) else {
                if !drop.if_exists {
                    return Err(undefined_schema(name));
                }
                let message = format!("schema \"{name}\" does not exist, skipping");
                self.notice("NOTICE", SqlState::SUCCESS, message);
                continue;
            };
            if oid == PG_CATALOG_OID || oid == INFORMATION_SCHEMA_OID {
                let message = format!(
                    "cannot drop schema {name} because it is required by the database system"
                );
                let state = SqlState::DEPENDENT_OBJECTS_STILL_EXIST;
                return Err(SqlError::new(state, message));
            }
            if schemas.iter().any(|schema| schema.oid == oid) {
                continue;
            }
            let (catalog, txn, ddl) = self.ddl_parts()?;
            let mode = TableLockMode::AccessExclusive;
            schemas.push(catalog.lock_schema(txn, ddl, oid, mode).await?);
        }
        let mut contents = self.contents_of(&schemas);
        if drop.cascade {
            // Until a relation is locked, SET SCHEMA may move it elsewhere.
            for object in &contents.objects {
                if let Dependent::Table(oid) | Dependent::Sequence(oid) | Dependent::View(oid) =
                    object
                {
                    self.lock_dependent(*oid).await?;
                }
            }
            contents = self.contents_of(&schemas);
        }
        if !drop.cascade && !contents.reported.is_empty() {
            let what = match schemas.as_slice() {
                [schema] => Some(format!("schema {}", schema.name)),
                _ => None,
            };
            return Err(still_needed(what.as_deref(), contents.reported));
        }
        self.report_cascade(contents.reported);
        self.drop_objects(contents.objects).await?;
        for schema in &schemas {
            let (catalog, txn, ddl) = self.ddl_parts()?;
            catalog.drop_schema(txn, ddl, schema).await?;
        }
        Ok(())
    }

    /// Drops all that is in schemas, and what needs it.
    pub(super) async fn drop_contents(&mut self, schemas: &[Arc<SchemaInfo>]) -> SqlResult<()> {
        let contents = self.contents_of(schemas);
        self.drop_objects(contents.objects).await
    }

    async fn drop_objects(&mut self, objects: Vec<Dependent>) -> SqlResult<()> {
        for object in objects {
            self.drop_dependent(object).await?;
        }
        Ok(())
    }

    /// The objects of schemas with the defaults that use their sequences, in the order in which
    /// they can be dropped. PostgreSQL names the objects of the last schema first, the oldest
    /// before the others.
    fn contents_of(&self, schemas: &[Arc<SchemaInfo>]) -> Contents {
        let view = self.view();
        let goes = |oid: Oid| schemas.iter().any(|schema| schema.oid == oid);
        let mut contents = Contents::default();
        for schema in schemas.iter().rev() {
            let described = format!("schema {}", schema.name);
            let tables = view.tables_in(schema.oid).map(|table| table.oid);
            let sequences = view.sequences_in(schema.oid).map(|sequence| sequence.oid);
            let views = view.views_in(schema.oid).map(|view| view.oid);
            let types = view.types_in(schema.oid).map(|info| info.oid);
            let relations = tables.chain(sequences).chain(views);
            let mut objects: Vec<Oid> = relations.chain(types).collect();
            if schema.oid == PUBLIC_OID {
                objects.extend(view.extensions().map(|extension| extension.oid));
            }
            objects.sort_unstable();
            for oid in objects {
                self.note_content(&view, oid, &described, &goes, &mut contents);
            }
        }
        // A sequence goes after the defaults that use it, and a column's with its table.
        contents.objects.sort_by_key(|object| match object {
            Dependent::View(_) => 0,
            Dependent::Default(..) | Dependent::ForeignKey(..) => 1,
            Dependent::Table(_) | Dependent::Extension(_) => 2,
            Dependent::Sequence(_) => 3,
            // Behind the tables whose columns have it.
            Dependent::Type(_) => 4,
        });
        contents
    }

    fn note_content(
        &self,
        view: &CatalogState,
        oid: Oid,
        schema: &str,
        goes: &impl Fn(Oid) -> bool,
        contents: &mut Contents,
    ) {
        if let Some(table) = view.table(oid) {
            let described = self.described(view, "table", oid, (&table.schema, &table.name));
            contents.reported.push((described, schema.to_owned()));
            contents.objects.push(Dependent::Table(oid));
            self.note_references(view, table, goes, contents);
            self.note_views(view, oid, goes, contents);
            for sequence in view.sequences_of(oid) {
                self.note_defaults(view, sequence.oid, goes, contents);
            }
        } else if let Some(sequence) = view.sequence(oid) {
            let name = (&*sequence.schema, &*sequence.name);
            // A column's sequence is in its table's schema, and goes with the table.
            if sequence.owner.is_none() {
                let described = self.described(view, "sequence", oid, name);
                contents.reported.push((described, schema.to_owned()));
                contents.objects.push(Dependent::Sequence(oid));
                self.note_defaults(view, oid, goes, contents);
                self.note_views(view, oid, goes, contents);
            }
        } else if let Some(found) = view.view(oid) {
            let described = self.described(view, "view", oid, (&found.schema, &found.name));
            contents.reported.push((described, schema.to_owned()));
            contents.objects.push(Dependent::View(oid));
            self.note_views(view, oid, goes, contents);
        } else if let Some(info) = view.created_type(oid) {
            let described = format!("type {}", self.type_in_words(info));
            contents
                .reported
                .push((described.clone(), schema.to_owned()));
            contents.objects.push(Dependent::Type(oid));
            for dependent in self.dependents_of_type(info) {
                if !goes(dependent.schema) {
                    let needs = dependent.needs.unwrap_or_else(|| described.clone());
                    contents.reported.push((dependent.words, needs));
                }
            }
        } else if let Some(extension) = view.extensions().find(|e| e.oid == oid) {
            let described = format!("extension {}", extension.name);
            contents.reported.push((described, schema.to_owned()));
            let name = Arc::clone(&extension.name);
            contents.objects.push(Dependent::Extension(name));
        }
    }

    /// Notes the views of other schemas over a relation; those that go with their schema are noted
    /// there.
    fn note_views(
        &self,
        view: &CatalogState,
        oid: Oid,
        goes: &impl Fn(Oid) -> bool,
        contents: &mut Contents,
    ) {
        for (dependent, described, needs) in self.views_on(oid) {
            let schema = view.view(dependent).map(|view| view.schema_oid);
            let mut noted = contents.reported.iter();
            if schema.is_some_and(goes) || noted.any(|(known, _)| *known == described) {
                continue;
            }
            contents.reported.push((described, needs));
            contents.objects.push(Dependent::View(dependent));
        }
    }

    /// Notes the foreign keys of other tables that refer to a table; those of tables that stay are
    /// reported.
    fn note_references(
        &self,
        view: &CatalogState,
        table: &TableInfo,
        goes: &impl Fn(Oid) -> bool,
        contents: &mut Contents,
    ) {
        let parent = self.described(view, "table", table.oid, (&table.schema, &table.name));
        for (child, key) in view.references_to(table.oid) {
            if child.oid == table.oid {
                continue;
            }
            if !goes(child.schema_oid) {
                let name = (&*child.schema, &*child.name);
                let child = self.described(view, "table", child.oid, name);
                let described = format!("constraint {} on {child}", key.name);
                contents.reported.push((described, parent.clone()));
            }
            let key = Dependent::ForeignKey(child.oid, Arc::clone(&key.name));
            contents.objects.push(key);
        }
    }

    /// Notes the defaults of tables that stay.
    fn note_defaults(
        &self,
        view: &CatalogState,
        sequence: Oid,
        goes: &impl Fn(Oid) -> bool,
        contents: &mut Contents,
    ) {
        let Some(used) = view.sequence(sequence) else {
            return;
        };
        let used = self.described(view, "sequence", sequence, (&used.schema, &used.name));
        for (table, column) in view.defaults_by(sequence) {
            if goes(table.schema_oid) {
                continue;
            }
            let table_name = (&*table.schema, &*table.name);
            let described = format!(
                "default value for column {} of {}",
                column.name,
                self.described(view, "table", table.oid, table_name)
            );
            contents.reported.push((described, used.clone()));
            let default = Dependent::Default(table.oid, column.attnum);
            contents.objects.push(default);
        }
    }

    /// The kind and the name of a relation, with its schema if the name alone does not mean it.
    pub(super) fn described(
        &self,
        view: &CatalogState,
        kind: &str,
        oid: Oid,
        name: (&str, &str),
    ) -> String {
        let (schema, name) = name;
        let path = &self.effective.search_path;
        let found = view.find(None, name, path);
        let hidden = pg_catalog::relation("pg_catalog", name).is_some();
        let visible = !hidden && found.is_some_and(|found| found.oid() == oid);
        match visible {
            true => format!("{kind} {}", quote_ident(name)),
            false => format!("{kind} {}.{}", quote_ident(schema), quote_ident(name)),
        }
    }

    pub(super) fn report_cascade(&mut self, reported: Vec<(String, String)>) {
        let lines: Vec<String> = reported
            .into_iter()
            .map(|(object, _)| format!("drop cascades to {object}"))
            .collect();
        match lines.as_slice() {
            [] => {}
            [line] => self.notice("NOTICE", SqlState::SUCCESS, line.clone()),
            lines => {
                let message = format!("drop cascades to {} other objects", lines.len());
                self.notice_with_detail("NOTICE", SqlState::SUCCESS, message, listed(lines));
            }
        }
    }

    /// Drops an object unless another transaction did so meanwhile.
    async fn drop_dependent(&mut self, object: Dependent) -> SqlResult<()> {
        match object {
            Dependent::Table(oid) => {
                if let Some(table) = self.view().table(oid).cloned() {
                    self.refuse_in_use(&table, "DROP TABLE")?;
                    self.refuse_pending("DROP TABLE", &table)?;
                }
                if !self.lock_dependent(oid).await? {
                    return Ok(());
                }
                let view = self.view();
                let own = view.sequences_of(oid).map(|sequence| sequence.oid);
                let own: Vec<Oid> = own.collect();
                let (catalog, txn, ddl) = self.ddl_parts()?;
                catalog.drop_table(txn, ddl, oid).await?;
                for sequence in own {
                    catalog.drop_sequence(txn, ddl, sequence).await?;
                }
                Ok(())
            }
            Dependent::Sequence(oid) => {
                if !self.lock_dependent(oid).await? {
                    return Ok(());
                }
                let (catalog, txn, ddl) = self.ddl_parts()?;
                catalog.drop_sequence(txn, ddl, oid).await
            }
            Dependent::View(oid) => {
                if !self.lock_dependent(oid).await? {
                    return Ok(());
                }
                let (catalog, txn, ddl) = self.ddl_parts()?;
                catalog.drop_view(txn, ddl, oid).await
            }
            Dependent::Type(oid) => {
                let info = self.view().created_type(oid).cloned();
                let types: Vec<_> = info.into_iter().collect();
                let told = self.notices.len();
                self.drop_all_types(&types, true).await?;
                // The schema's command has said so.
                self.notices.truncate(told);
                Ok(())
            }
            Dependent::Default(oid, attnum) => {
                if !self.lock_dependent(oid).await? {
                    return Ok(());
                }
                let view = self.view();
                let columns = view.table(oid).map(|table| &table.columns);
                let mut columns = columns.into_iter().flatten();
                let Some(at) = columns.position(|column| column.attnum == attnum) else {
                    return Ok(());
                };
                let (catalog, txn, ddl) = self.ddl_parts()?;
                catalog
                    .alter_column(txn, ddl, oid, at, |column| column.default = None)
                    .await
                    .map(drop)
            }
            Dependent::ForeignKey(oid, name) => self.drop_dependent_key(oid, &name).await,
            Dependent::Extension(name) => {
                let (catalog, txn, ddl) = self.ddl_parts()?;
                catalog.drop_extension(txn, ddl, &name).await.map(drop)
            }
        }
    }

    async fn drop_dependent_key(&mut self, oid: Oid, name: &str) -> SqlResult<()> {
        if !self.lock_dependent(oid).await? {
            return Ok(());
        }
        let view = self.view();
        let keys = view.table(oid).map(|table| &table.foreign_keys);
        if !keys.into_iter().flatten().any(|key| *key.name == *name) {
            return Ok(());
        }
        let (catalog, txn, ddl) = self.ddl_parts()?;
        catalog.drop_constraint(txn, ddl, oid, name).await.map(drop)
    }

    /// Locks a relation that goes; whether it is still there.
    async fn lock_dependent(&mut self, oid: Oid) -> SqlResult<bool> {
        let (catalog, txn, _) = self.ddl_parts()?;
        let mode = TableLockMode::AccessExclusive;
        txn.lock_table(catalog.table_id(oid), mode, WaitPolicy::Block)
            .await?;
        Ok(self.view().relation(oid).is_some())
    }
}

/// Whether a relation that was looked up is not there, nor perhaps its schema.
pub(super) fn is_missing(error: &SqlError) -> bool {
    [SqlState::UNDEFINED_TABLE, SqlState::INVALID_SCHEMA_NAME].contains(&error.sqlstate)
}

pub(super) fn undefined_schema(name: &str) -> SqlError {
    let message = format!("schema \"{name}\" does not exist");
    SqlError::new(SqlState::INVALID_SCHEMA_NAME, message)
}

/// The first lines of a list, and how many more there are.
fn listed(lines: &[String]) -> String {
    let mut text = lines[..lines.len().min(REPORTED)].join("\n");
    let more = lines.len().saturating_sub(REPORTED);
    if more > 0 {
        let objects = if more == 1 { "object" } else { "objects" };
        text.push_str(&format!(
            "\nand {more} other {objects} (see server log for list)"
        ));
    }
    text
}

/// 2BP01: an object, or one of several, with what depends on it.
pub(super) fn still_needed(what: Option<&str>, reported: Vec<(String, String)>) -> SqlError {
    let message = match what {
        Some(what) => format!("cannot drop {what} because other objects depend on it"),
        None => "cannot drop desired object(s) because other objects depend on them".to_owned(),
    };
    let lines: Vec<String> = reported
        .into_iter()
        .map(|(object, on)| format!("{object} depends on {on}"))
        .collect();
    SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
        .detail(listed(&lines))
        .hint("Use DROP ... CASCADE to drop the dependent objects too.")
}
