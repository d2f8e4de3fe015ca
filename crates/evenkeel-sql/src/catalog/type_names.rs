//! Looking types up: those that were created, by name and by oid.

use std::sync::Arc;

use evenkeel_types::CreatedType;

use super::{CatalogState, Oid, TypeInfo};
use crate::quote::quote_ident;
use crate::types::SqlType;

impl CatalogState {
    /// A type that was created, by oid.
    pub fn created_type(&self, oid: Oid) -> Option<&Arc<TypeInfo>> {
        self.types.get(&oid)
    }

    /// All types that were created, by oid.
    pub fn created_types(&self) -> impl Iterator<Item = &Arc<TypeInfo>> {
        self.types.values()
    }

    /// The types of a schema that were created, by oid.
    pub fn types_in(&self, schema: Oid) -> impl Iterator<Item = &Arc<TypeInfo>> {
        self.types
            .values()
            .filter(move |info| info.schema_oid == schema)
    }

    /// Whether a type has the definition that it has here.
    pub(super) fn has_type(&self, ty: CreatedType) -> bool {
        let known = self.types.get(&ty.oid());
        known.is_none_or(|info| {
            let now = info.ty().created().map(CreatedType::number);
            now == Some(ty.number())
        })
    }

    /// A type that was created, or that of the arrays of such, by oid.
    pub fn type_by_oid(&self, oid: Oid) -> Option<SqlType> {
        if let Some(info) = self.types.get(&oid) {
            return Some(info.ty());
        }
        let info = self.types.get(self.array_types.get(&oid)?)?;
        info.ty().array_of()
    }

    /// A built-in type or one that was created, by oid.
    pub fn column_type(&self, oid: Oid, typmod: i32) -> Option<SqlType> {
        SqlType::from_oid(oid, typmod).or_else(|| self.type_by_oid(oid))
    }

    /// A type that was created, by schema and name.
    pub fn type_in(&self, schema: Oid, name: &str) -> Option<SqlType> {
        self.type_by_oid(*self.type_names.get(&(schema, Arc::from(name)))?)
    }

    /// A type that was created, by name: in `schema` if one is given, else in the first schema of
    /// the path that has it.
    pub fn type_named(&self, schema: Option<&str>, name: &str, path: &[String]) -> Option<SqlType> {
        match schema {
            Some(schema) => self.type_in(self.schema_oid(schema)?, name),
            None => path
                .iter()
                .filter_map(|schema| self.schema_oid(schema))
                .find_map(|oid| self.type_in(oid, name)),
        }
    }

    /// Whether a type's name without a schema means it along the path.
    pub fn is_type_visible(&self, info: &TypeInfo, path: &[String]) -> bool {
        let found = self.type_named(None, &info.name, path);
        found.is_some_and(|found| found.oid() == info.oid)
    }

    /// A type's name, with its schema unless the path has it.
    pub fn shown_type(&self, info: &TypeInfo, path: &[String]) -> String {
        let name = quote_ident(&info.name);
        match self.is_type_visible(info, path) {
            true => name,
            false => format!("{}.{name}", quote_ident(&info.schema)),
        }
    }

    /// As [`CatalogState::type_named`], for a text that the catalog keeps: a type that is not on
    /// the path is looked for in the schema of the text's relation, and then in all others.
    pub fn type_kept(&self, name: &str, home: &str, path: &[String]) -> Option<SqlType> {
        let elsewhere = || {
            let all = self.types.values();
            let mut all = all.map(|info| info.schema_oid);
            all.find_map(|schema| self.type_in(schema, name))
        };
        let found = self.type_named(None, name, path);
        let at_home = || self.type_named(Some(home), name, &[]);
        found.or_else(at_home).or_else(elsewhere)
    }
}
