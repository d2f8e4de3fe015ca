//! CREATE TYPE … AS ENUM, ALTER TYPE, DROP TYPE.

use std::sync::Arc;

use evenkeel_engine::{TableLockMode, WaitPolicy};
use evenkeel_planner::ast::{
    self, AlterType, DropKind, NewLabelPlace, Persistence, QualifiedName, TypeChange,
};

use super::Session;
use super::schemas::{is_missing, still_needed, undefined_schema};
use super::type_texts::OfType;
use crate::catalog::{LabelPlace, Oid, TypeInfo, gone_type, rename_label};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::parser::parse::type_named;

pub(super) fn undefined_type(name: &QualifiedName) -> SqlError {
    let message = format!("type \"{}\" does not exist", name.display());
    SqlError::new(SqlState::UNDEFINED_OBJECT, message)
}

impl Session {
    pub(super) async fn create_enum(
        &mut self,
        name: &QualifiedName,
        labels: &[String],
    ) -> SqlResult<()> {
        let (schema, name) = self.new_name(name, Persistence::Permanent, "TYPE").await?;
        let (catalog, txn, ddl) = self.ddl_parts()?;
        let of = (schema.as_str(), name.as_str());
        catalog.create_enum(txn, ddl, of, labels).await
    }

    /// The type of a name that was created; none if there is no type of that name.
    pub(super) fn find_created(&self, name: &QualifiedName) -> SqlResult<Option<Arc<TypeInfo>>> {
        let (schema, last) = self.split_name(name)?;
        if let Some(schema) = &schema
            && self.view().schema_oid(schema).is_none()
        {
            return Err(undefined_schema(schema));
        }
        let state = self.view();
        let path = &self.effective.search_path;
        let found = state.type_named(schema.as_deref(), &last, path);
        let found = found.and_then(|ty| state.created_type(ty.oid()).cloned());
        if found.is_none()
            && schema.is_none_or(|schema| schema == "pg_catalog")
            && let Ok(built_in) = type_named(&last)
        {
            let message = format!("{} is not an enum", built_in.base_name());
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        Ok(found)
    }

    pub(super) fn named_created(&self, name: &QualifiedName) -> SqlResult<Arc<TypeInfo>> {
        self.find_created(name)?.ok_or_else(|| undefined_type(name))
    }

    pub(super) async fn alter_type(&mut self, alter: &AlterType) -> SqlResult<()> {
        if let TypeChange::Unbuilt(change) = &alter.change {
            return Err(SqlError::unsupported(*change));
        }
        let info = self.named_created(&alter.name)?;
        match &alter.change {
            TypeChange::Unbuilt(_) => Ok(()),
            TypeChange::Owner(role) => self.check_owner(role),
            TypeChange::AddValue { .. } | TypeChange::RenameValue { .. } if info.is_domain() => {
                let message = format!("{} is not an enum", self.type_in_words(&info));
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
            }
            TypeChange::AddValue {
                label,
                if_not_exists,
                place,
            } => {
                self.add_label(info.oid, (label, *if_not_exists), place)
                    .await
            }
            TypeChange::RenameValue { from, to } => {
                let change = |info: &mut TypeInfo| rename_label(info, from, to);
                self.redefine(info.oid, change).await
            }
            TypeChange::Rename(to) => self.rename_type(info.oid, &to.text).await,
            TypeChange::SetSchema(to) => self.move_type(&info, &to.text).await,
        }
    }

    /// Gives a type another name, schema or labels, and writes the kept texts anew that mention it.
    pub(super) async fn redefine(
        &mut self,
        oid: Oid,
        change: impl FnOnce(&mut TypeInfo) -> SqlResult<()>,
    ) -> SqlResult<()> {
        self.lock_type(oid).await?;
        let state = self.view();
        let old = state.created_type(oid).cloned();
        let old = old.ok_or_else(|| gone_type(oid))?;
        let mut new = TypeInfo::clone(&old);
        change(&mut new)?;
        let texts = self.texts_for(&state, &old, &new)?;
        let (catalog, txn, ddl) = self.ddl_parts()?;
        let put = |_: &_, info: &mut TypeInfo| {
            *info = new;
            Ok(())
        };
        catalog.change_type(txn, ddl, oid, put).await?;
        self.put_new_texts(texts).await
    }

    pub(super) async fn lock_type(&mut self, oid: Oid) -> SqlResult<()> {
        let (lock, mode) = (self.catalog.table_id(oid), TableLockMode::AccessExclusive);
        let txn = self.tx.txn()?;
        txn.lock_table(lock, mode, WaitPolicy::Block).await?;
        Ok(())
    }

    async fn add_label(
        &mut self,
        oid: Oid,
        (label, if_not_exists): (&str, bool),
        place: &NewLabelPlace,
    ) -> SqlResult<()> {
        let state = self.view();
        let known = state.created_type(oid).map(|info| info.labels());
        let is_there = known.is_some_and(|all| all.iter().any(|it| *it.label == *label));
        if is_there && if_not_exists {
            let message = format!("enum label \"{label}\" already exists, skipping");
            self.notice("NOTICE", SqlState::DUPLICATE_OBJECT, message);
            return Ok(());
        }
        let place = match place {
            NewLabelPlace::Last => LabelPlace::Last,
            NewLabelPlace::Before(neighbour) => LabelPlace::Before(neighbour.clone()),
            NewLabelPlace::After(neighbour) => LabelPlace::After(neighbour.clone()),
        };
        let (catalog, txn, ddl) = self.ddl_parts()?;
        let add = |catalog: &crate::catalog::Catalog, info: &mut TypeInfo| {
            catalog.add_label(info, label, &place)
        };
        catalog.change_type(txn, ddl, oid, add).await
    }

    /// DROP TYPE, DROP DOMAIN
    pub(super) async fn drop_types(&mut self, drop: &ast::Drop) -> SqlResult<()> {
        let mut found: Vec<Arc<TypeInfo>> = Vec::with_capacity(drop.names.len());
        for name in &drop.names {
            match self.find_created(name) {
                Ok(Some(info)) if drop.kind == DropKind::Domain && !info.is_domain() => {
                    let message = format!("\"{}\" is not a domain", name.display());
                    return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
                }
                Ok(Some(info)) if found.iter().any(|known| known.oid == info.oid) => {}
                Ok(Some(info)) => found.push(info),
                Ok(None) if drop.if_exists => {
                    let message = format!("type \"{}\" does not exist, skipping", name.display());
                    self.notice("NOTICE", SqlState::SUCCESS, message);
                }
                Ok(None) => return Err(undefined_type(name)),
                Err(error) if drop.if_exists && is_missing(&error) => {
                    let message = format!("{}, skipping", error.message);
                    self.notice("NOTICE", SqlState::SUCCESS, message);
                }
                Err(error) if error.sqlstate == SqlState::WRONG_OBJECT_TYPE => {
                    let shown = type_named(name.last()).map(|ty| ty.base_name());
                    let message = format!(
                        "cannot drop type {} because it is required by the database system",
                        shown.unwrap_or("unknown")
                    );
                    let state = SqlState::DEPENDENT_OBJECTS_STILL_EXIST;
                    return Err(SqlError::new(state, message));
                }
                Err(error) => return Err(error),
            }
        }
        self.drop_all_types(&found, drop.cascade).await
    }

    /// Drops types, and all that depends on them if CASCADE was said.
    ///
    /// # Errors
    /// 2BP01 if there is any such object and it was not said.
    pub(super) async fn drop_all_types(
        &mut self,
        types: &[Arc<TypeInfo>],
        cascade: bool,
    ) -> SqlResult<()> {
        for info in types {
            self.lock_type(info.oid).await?;
        }
        let mut reported = Vec::new();
        let mut objects = Vec::new();
        for info in types {
            let needs = format!("type {}", self.type_in_words(info));
            for dependent in self.dependents_of_type(info) {
                // An object that goes as well is in nobody's way; each is told of once.
                let goes = matches!(dependent.object, OfType::Domain(oid)
                    if types.iter().any(|other| other.oid == oid));
                let told = |(words, _): &(String, String)| *words == dependent.words;
                if goes || reported.iter().any(told) {
                    continue;
                }
                let needs = dependent.needs.unwrap_or_else(|| needs.clone());
                reported.push((dependent.words, needs));
                objects.push(dependent.object);
            }
        }
        if !cascade && !reported.is_empty() {
            let what = match types {
                [info] => Some(format!("type {}", self.type_in_words(info))),
                _ => None,
            };
            return Err(still_needed(what.as_deref(), reported));
        }
        self.report_cascade(reported);
        // Each after those that depend on it.
        for object in objects.into_iter().rev() {
            self.drop_of_type(object).await?;
        }
        for info in types {
            let (catalog, txn, ddl) = self.ddl_parts()?;
            catalog.drop_type(txn, ddl, info.oid).await?;
        }
        Ok(())
    }

    /// The type's name, with its schema unless the path has it.
    pub(super) fn type_in_words(&self, info: &TypeInfo) -> String {
        let path = &self.effective.search_path;
        self.view().shown_type(info, path)
    }
}
