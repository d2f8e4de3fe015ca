//! CREATE VIEW, ALTER VIEW, and what depends on a view or goes with what it is over.

use std::collections::BTreeSet;
use std::sync::Arc;

use evenkeel_engine::{TableLockMode, WaitPolicy};
use evenkeel_planner::ast::{
    AlterAction, AlterView, ColumnChange, Command, CreateView, Cte, Define, Name, Persistence,
    QualifiedName, Statement, ViewChange,
};

use super::Session;
use super::in_the_way::in_order;
use super::schemas::is_missing;
use crate::catalog::{CatalogState, NewView, Oid, Relation, TableInfo, ViewColumn, ViewInfo};
use crate::error::{SqlError, SqlResult, SqlState, lock_error};
use crate::parser::parse::parse;
use crate::planner::rows::views::{self, ViewParts};
use crate::quote::quote_ident;
use crate::search_path::is_temporary;

fn invalid(message: String) -> SqlError {
    SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message)
}

/// 0A000 for a clause of CREATE VIEW that is not built.
fn refuse_features(create: &CreateView) -> SqlResult<()> {
    if let Some(clause) = create.unbuilt {
        return Err(SqlError::unsupported(clause));
    }
    if let Some(option) = create.options.first() {
        return Err(SqlError::unsupported(format!(
            "a view with {}",
            option.name
        )));
    }
    let with = create.query.with.iter().flat_map(|with| &with.ctes);
    let is_change = |cte: &Cte| !matches!(*cte.statement, Statement::Query(_));
    if with.into_iter().any(is_change) {
        let message = "views must not contain data-modifying statements in WITH";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    Ok(())
}

/// Names the columns as CREATE VIEW says, and refuses such as no relation has.
fn name_columns(columns: &mut [ViewColumn], names: &[Name]) -> SqlResult<()> {
    if names.len() > columns.len() {
        let message = "CREATE VIEW specifies more column names than columns";
        return Err(SqlError::syntax(message));
    }
    for (column, name) in columns.iter_mut().zip(names) {
        column.name = name.text.as_str().into();
    }
    let mut seen = BTreeSet::new();
    for column in &*columns {
        if !seen.insert(&*column.name) {
            let message = format!("column \"{}\" specified more than once", column.name);
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        if !column.ty.is_storable() {
            let ty = column.ty.base_name();
            return Err(invalid(format!(
                "column \"{}\" has pseudo-type {ty}",
                column.name
            )));
        }
    }
    Ok(())
}

/// 42P16 unless the new columns begin with the old ones.
fn check_replaced(old: &ViewInfo, new: &[ViewColumn]) -> SqlResult<()> {
    if new.len() < old.columns.len() {
        return Err(invalid("cannot drop columns from view".into()));
    }
    for (old, new) in old.columns.iter().zip(new) {
        if old.name != new.name {
            let message = format!(
                "cannot change name of view column \"{}\" to \"{}\"",
                old.name, new.name
            );
            let hint = "Use ALTER VIEW ... RENAME COLUMN ... to change name of view column \
                        instead.";
            return Err(invalid(message).hint(hint));
        }
        if old.ty != new.ty {
            return Err(invalid(format!(
                "cannot change data type of view column \"{}\" from {} to {}",
                old.name,
                old.ty.name(),
                new.ty.name()
            )));
        }
    }
    Ok(())
}

/// Whether a view reads another, or itself, through views.
fn reads(state: &CatalogState, references: impl Iterator<Item = Oid>, wanted: Oid) -> bool {
    let mut rest: Vec<Oid> = references.collect();
    let mut seen = BTreeSet::new();
    while let Some(oid) = rest.pop() {
        if oid == wanted {
            return true;
        }
        if let Some(view) = state.view(oid).filter(|_| seen.insert(oid)) {
            rest.extend(view.references.iter().map(|reference| reference.oid));
        }
    }
    false
}

/// A recursive view as the command that makes the same one by `WITH RECURSIVE`, with where the
/// query's text begins in it.
fn as_plain(create: &CreateView, text: &str) -> (String, usize) {
    let quoted = |name: &Name| quote_ident(&name.text);
    let columns: Vec<String> = create.columns.iter().map(quoted).collect();
    let (columns, name) = (columns.join(", "), quote_ident(create.name.last()));
    let before = format!("CREATE VIEW v ({columns}) AS WITH RECURSIVE {name} ({columns}) AS (");
    let whole = format!("{before}{text}) SELECT {columns} FROM {name}");
    (whole, before.len())
}

impl Session {
    /// CREATE RECURSIVE VIEW, as PostgreSQL defines it: by the view that reads a common table
    /// expression of its name.
    pub(super) async fn create_recursive_view(&mut self, create: &CreateView) -> SqlResult<()> {
        let (command, text) = (Arc::clone(&self.current_text), create.text.clone());
        let query = command.get(text.clone());
        let query = query.ok_or_else(|| SqlError::internal("a view without a text"))?;
        let (plain, start) = as_plain(create, query);
        let made = match parse(&plain)? {
            Some(Statement::Command(made)) => match *made {
                Command::Define(define) => Some(*define),
                _ => None,
            },
            _ => None,
        };
        let Some(Define::CreateView(made)) = made else {
            return Err(SqlError::internal("a view that is none"));
        };
        let made = CreateView {
            name: create.name.clone(),
            persistence: create.persistence,
            or_replace: create.or_replace,
            options: create.options.clone(),
            unbuilt: create.unbuilt,
            ..made
        };
        let within = plain[..start].chars().count();
        let before = command
            .get(..text.start)
            .unwrap_or_default()
            .chars()
            .count();
        self.current_text = plain.into();
        let created = self.create_view(&made).await;
        self.current_text = command;
        created.map_err(|mut error| {
            let place = error
                .fields
                .position
                .and_then(|at| usize::try_from(at).ok());
            let place = place.and_then(|at| at.checked_sub(within));
            let place = place.and_then(|at| u32::try_from(at + before).ok());
            error.fields.position = place;
            error
        })
    }

    pub(super) async fn create_view(&mut self, create: &CreateView) -> SqlResult<()> {
        refuse_features(create)?;
        let parts = self.view_parts(create).await?;
        let (schema, name) = self.view_name(create, &parts).await?;
        let mut columns = parts.columns;
        name_columns(&mut columns, &create.columns)?;
        let text = self.current_text.get(create.text.clone());
        let text = text.ok_or_else(|| SqlError::internal("a view without a text"))?;
        let new = NewView {
            schema,
            name,
            columns,
            named: !create.columns.is_empty(),
            text: text.to_owned(),
            read_under: parts.read_under,
            references: parts.references,
        };
        let there = self.view().find(Some(&new.schema), &new.name, &[]);
        let (true, Some(there)) = (create.or_replace, there) else {
            let (catalog, txn, ddl) = self.ddl_parts()?;
            return catalog.create_view(txn, ddl, new).await;
        };
        let Relation::View(old) = there else {
            let message = format!("\"{}\" is not a view", new.name);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        };
        if reads(
            &self.view(),
            new.references.iter().map(|it| it.oid),
            old.oid,
        ) {
            let message = format!(
                "infinite recursion detected in rules for relation \"{}\"",
                new.name
            );
            return Err(SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message));
        }
        let (catalog, txn, ddl) = self.ddl_parts()?;
        catalog
            .change_view(txn, ddl, old.oid, |view| {
                check_replaced(view, &new.columns)?;
                view.columns = new.columns;
                view.named = new.named;
                view.text = new.text.into();
                view.read_under = new.read_under;
                view.references = new.references;
                Ok(())
            })
            .await
    }

    /// The schema and the name of a new view. One over a temporary relation is temporary itself.
    async fn view_name(
        &mut self,
        create: &CreateView,
        parts: &ViewParts,
    ) -> SqlResult<(String, String)> {
        let view = self.view();
        let is_over_temporary = parts.references.iter().any(|reference| {
            let relation = view.relation(reference.oid);
            relation.is_some_and(|relation| is_temporary(relation.schema()))
        });
        let persistence = match create.persistence {
            Persistence::Permanent if is_over_temporary => Persistence::Temporary,
            given => given,
        };
        let found = self.new_name(&create.name, persistence, "VIEW").await?;
        if persistence != create.persistence {
            let name = &found.1;
            let message = format!("view \"{name}\" will be a temporary view");
            self.notice("NOTICE", SqlState::SUCCESS, message);
        }
        Ok(found)
    }

    /// Binds the query of a new view over relations that are there until the transaction ends.
    async fn view_parts(&mut self, create: &CreateView) -> SqlResult<ViewParts> {
        let text = self.current_text.clone();
        loop {
            let state = self.view();
            let cx = Arc::new(self.statement_cx(Arc::clone(&state)));
            let parts = views::parts(&text, &create.query, create.text.start, &cx)?;
            let (catalog, txn, _) = self.ddl_parts()?;
            for reference in &parts.references {
                let (lock, mode) = (catalog.table_id(reference.oid), TableLockMode::AccessShare);
                txn.lock_table(lock, mode, WaitPolicy::Block).await?;
            }
            if self.view().version == state.version {
                return Ok(parts);
            }
        }
    }

    pub(super) async fn alter_view(&mut self, alter: &AlterView) -> SqlResult<()> {
        let relation = match self.renamed_relation(&alter.name) {
            Ok(relation) => relation,
            Err(error) if alter.if_exists && is_missing(&error) => {
                let name = alter.name.last();
                let message = format!("relation \"{name}\" does not exist, skipping");
                self.notice("NOTICE", SqlState::SUCCESS, message);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        if !matches!(relation, Relation::View(_)) {
            let message = format!("\"{}\" is not a view", alter.name.last());
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        match &alter.change {
            ViewChange::Owner(owner) => self.check_owner(owner),
            ViewChange::Unbuilt(change) => Err(SqlError::unsupported(*change)),
        }
    }

    /// ALTER VIEW … RENAME COLUMN
    pub(super) async fn rename_view_column(
        &mut self,
        view: &ViewInfo,
        column: &str,
        to: &str,
    ) -> SqlResult<()> {
        let (catalog, txn, ddl) = self.ddl_parts()?;
        catalog
            .change_view(txn, ddl, view.oid, |view| {
                let name = &view.name;
                if view.columns.iter().any(|known| *known.name == *to) {
                    let message = format!("column \"{to}\" of relation \"{name}\" already exists");
                    return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
                }
                let mut columns = view.columns.iter_mut();
                let Some(known) = columns.find(|known| *known.name == *column) else {
                    let message = format!("column \"{column}\" does not exist");
                    return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
                };
                known.name = to.into();
                view.named = true;
                Ok(())
            })
            .await
    }

    /// The view of a name, if that is one.
    pub(super) fn named_view(&self, name: &QualifiedName) -> SqlResult<Option<Arc<ViewInfo>>> {
        let (schema, last) = self.split_name(name)?;
        let path = &self.effective.search_path;
        Ok(match self.view().find(schema.as_deref(), &last, path) {
            Some(Relation::View(view)) => Some(view),
            _ => None,
        })
    }

    /// LOCK TABLE of a view: it, and the relations that it is over, views among them.
    pub(super) async fn lock_view_and_below(
        &mut self,
        view: &ViewInfo,
        mode: TableLockMode,
        policy: WaitPolicy,
    ) -> SqlResult<()> {
        let state = self.view();
        let (mut rest, mut seen) = (vec![view.oid], BTreeSet::new());
        while let Some(oid) = rest.pop() {
            // A catalog's rows are nobody's to lock.
            let Some(relation) = state.relation(oid).filter(|_| seen.insert(oid)) else {
                continue;
            };
            let txn = self.tx.txn()?;
            let locked = txn
                .lock_table(self.catalog.table_id(oid), mode, policy)
                .await;
            locked.map_err(|error| lock_error(error, "relation", relation.name()))?;
            if let Relation::View(view) = relation {
                rest.extend(view.references.iter().map(|reference| reference.oid));
            }
        }
        Ok(())
    }

    /// ALTER TABLE of a view, which has an owner and nothing else that this changes.
    pub(super) fn alter_view_as_table(
        &self,
        view: &ViewInfo,
        actions: &[AlterAction],
    ) -> SqlResult<()> {
        for action in actions {
            let name = match action {
                AlterAction::Owner(role) => {
                    self.check_owner(role)?;
                    continue;
                }
                AlterAction::Unbuilt(name) => return Err(SqlError::unsupported(*name)),
                AlterAction::SetOptions(_) => {
                    return Err(SqlError::unsupported("options of views"));
                }
                AlterAction::Column {
                    change: ColumnChange::SetDefault(_) | ColumnChange::DropDefault,
                    ..
                } => return Err(SqlError::unsupported("defaults of a view's columns")),
                AlterAction::Column { change, .. } => match change {
                    ColumnChange::NotNull(true) => "ALTER COLUMN ... SET NOT NULL",
                    ColumnChange::NotNull(false) => "ALTER COLUMN ... DROP NOT NULL",
                    ColumnChange::Type { .. } => "ALTER COLUMN ... SET DATA TYPE",
                    _ => "ALTER COLUMN",
                },
                AlterAction::AddColumn { .. } => "ADD COLUMN",
                AlterAction::DropColumn { .. } => "DROP COLUMN",
                AlterAction::AddConstraint(_) => "ADD CONSTRAINT",
                AlterAction::DropConstraint { .. } => "DROP CONSTRAINT",
                AlterAction::AlterConstraint { .. } => "ALTER CONSTRAINT",
                AlterAction::Validate(_) => "VALIDATE CONSTRAINT",
                AlterAction::ResetOptions(_) => "RESET",
            };
            let message = format!(
                "ALTER action {name} cannot be performed on relation \"{}\"",
                view.name
            );
            let error = SqlError::new(SqlState::WRONG_OBJECT_TYPE, message);
            return Err(error.detail("This operation is not supported for views."));
        }
        Ok(())
    }

    /// DROP VIEW of views that were found.
    pub(super) async fn drop_views(&mut self, views: &[Oid], cascade: bool) -> SqlResult<()> {
        self.drop_views_on(views, cascade).await?;
        for view in views {
            // One that was named twice is gone.
            if self.view().view(*view).is_some() {
                let (catalog, txn, ddl) = self.ddl_parts()?;
                catalog.drop_view(txn, ddl, *view).await?;
            }
        }
        Ok(())
    }

    /// Drops the views over relations that are about to be dropped themselves.
    ///
    /// # Errors
    /// 2BP01 if there are any, unless CASCADE was said.
    pub(super) async fn drop_views_on(
        &mut self,
        relations: &[Oid],
        cascade: bool,
    ) -> SqlResult<()> {
        let state = self.view();
        let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
        for oid in relations.iter().rev() {
            let needs = self.in_words(&state, *oid);
            let over = self.views_over(&state, (*oid, &needs, &|_| true), relations, &mut seen);
            found.extend(in_order(over));
        }
        let what = match relations {
            [only] => Some(self.in_words(&state, *only)),
            _ => None,
        };
        self.drop_in_the_way(found, what.as_deref(), cascade).await
    }

    /// 0A000 for a column whose type a view rests on.
    pub(super) fn refuse_used_by_view(&self, table: &TableInfo, at: usize) -> SqlResult<()> {
        let state = self.view();
        let column = &table.columns[at];
        let mut views = state.views_of(table.oid);
        let Some(view) = views.find(|view| view.uses_column(table.oid, column.attnum)) else {
            return Ok(());
        };
        let message = "cannot alter type of a column used by a view or rule";
        let detail = format!(
            "rule _RETURN on {} depends on column \"{}\"",
            self.in_words(&state, view.oid),
            column.name
        );
        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).detail(detail))
    }
}

/// The views among relations that DROP VIEW names.
pub(super) fn only_views(found: &[Relation]) -> Result<Vec<Oid>, &Relation> {
    let mut views = Vec::with_capacity(found.len());
    for relation in found {
        match relation {
            Relation::View(view) => views.push(view.oid),
            other => return Err(other),
        }
    }
    Ok(views)
}
