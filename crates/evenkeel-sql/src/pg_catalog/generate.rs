//! Which relation is filled by what.

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

use evenkeel_exec::VirtualRows;

use super::relations::{self, RelationDef};
use super::rows::Rows;
use super::view::CatalogView;
use super::{
    domains, enums, foreign_keys, information, relation_rows, sequences, shared_rows, statistics,
    views,
};
use crate::error::SqlResult;
use crate::types::{Datum, SqlType, TypeContext};

/// Adds rows that are the same for all.
type Common = fn(&mut Rows) -> SqlResult<()>;
/// Adds rows that the catalog or the session tells.
type Session = fn(&CatalogView, &mut Rows) -> SqlResult<()>;

/// Source of a relation's rows.
struct Generator {
    relation: (&'static str, &'static str),
    common: Option<Common>,
    session: Option<Session>,
    /// Whether the session's rows are those of the catalog's state, the same for all sessions.
    of_state: bool,
    /// The fixed rows, made when first asked for.
    made: OnceLock<VirtualRows>,
}

const PG: &str = "pg_catalog";
const INFO: &str = "information_schema";

fn fixed(name: &'static str, rows: Common) -> Generator {
    let made = OnceLock::new();
    Generator {
        relation: (PG, name),
        common: Some(rows),
        session: None,
        of_state: false,
        made,
    }
}

fn session(schema: &'static str, name: &'static str, rows: Session) -> Generator {
    let made = OnceLock::new();
    Generator {
        relation: (schema, name),
        common: None,
        session: Some(rows),
        of_state: false,
        made,
    }
}

/// Rows that the catalog's state alone tells.
fn state(name: &'static str, rows: Session) -> Generator {
    Generator {
        of_state: true,
        ..session(PG, name, rows)
    }
}

fn both(name: &'static str, common: Common, session: Session) -> Generator {
    let made = OnceLock::new();
    Generator {
        relation: (PG, name),
        common: Some(common),
        session: Some(session),
        of_state: true,
        made,
    }
}

/// The statistics views (`statistics`).
fn statistics() -> Vec<Generator> {
    use statistics as stat;
    let view = |name, rows| session(PG, name, rows);
    vec![
        view("pg_stat_activity", stat::activity),
        view("pg_stat_ssl", stat::encryption),
        view("pg_stat_gssapi", stat::gssapi),
        view("pg_locks", stat::locks),
        view("pg_stat_database", stat::database),
        view("pg_stat_database_conflicts", stat::conflicts),
        view("pg_stat_checkpointer", stat::checkpointer),
        view("evenkeel_checkpointer", stat::checkpoint_details),
        view("pg_stat_bgwriter", stat::cleaner),
        view("evenkeel_buffers", stat::buffers),
        view("evenkeel_damaged_pages", stat::damaged_pages),
        view("pg_stat_wal", stat::log),
        view("pg_stat_io", stat::io),
        view("pg_aios", stat::under_way),
        view("pg_stat_recovery", stat::recovery),
        view("pg_stat_recovery_prefetch", stat::recovery_prefetch),
        view("pg_stat_progress_vacuum", stat::vacuums),
        view("pg_stat_progress_analyze", stat::analyzes),
        view("evenkeel_io_latency", stat::latency),
        view("pg_stat_slru", stat::status_pages),
        view("pg_stat_archiver", stat::archiver),
        view("pg_stat_all_tables", stat::tables),
        view("pg_stat_user_tables", stat::tables),
        view("pg_stat_all_indexes", stat::indexes),
        view("pg_stat_user_indexes", stat::indexes),
        view("pg_statio_all_tables", stat::table_io),
        view("pg_statio_user_tables", stat::table_io),
        view("pg_statio_all_indexes", stat::index_io),
        view("pg_statio_user_indexes", stat::index_io),
    ]
}

fn generators() -> Vec<Generator> {
    let mut all = catalogs();
    all.extend(information_schema());
    all.extend(statistics());
    all
}

fn catalogs() -> Vec<Generator> {
    vec![
        both(
            "pg_class",
            relation_rows::system_classes,
            |snapshot, rows| {
                relation_rows::classes(snapshot, rows)?;
                sequences::classes(snapshot, rows)?;
                views::classes(snapshot, rows)
            },
        ),
        both(
            "pg_attribute",
            relation_rows::system_attributes,
            |snapshot, rows| {
                relation_rows::attributes(snapshot, rows)?;
                sequences::attributes(snapshot, rows)?;
                views::attributes(snapshot, rows)
            },
        ),
        session(PG, "pg_attrdef", relation_rows::defaults),
        state("pg_depend", |snapshot, rows| {
            sequences::dependencies(snapshot, rows)?;
            enums::dependencies(snapshot, rows)?;
            domains::dependencies(snapshot, rows)?;
            views::dependencies(snapshot, rows)
        }),
        state("pg_rewrite", views::rules),
        session(PG, "pg_views", views::views),
        session(PG, "pg_sequence", sequences::sequences),
        session(PG, "pg_sequences", sequences::sequences_view),
        state("pg_index", relation_rows::indexes),
        state("pg_constraint", |snapshot, rows| {
            relation_rows::constraints(snapshot, rows)?;
            domains::constraints(snapshot, rows)
        }),
        session(PG, "pg_tables", relation_rows::tables_view),
        session(PG, "pg_indexes", relation_rows::indexes_view),
        session(PG, "pg_stats", relation_rows::column_statistics),
        both("pg_type", shared_rows::types, created_types),
        state("pg_enum", enums::labels),
        fixed("pg_proc", shared_rows::procs),
        session(
            PG,
            "pg_prepared_statements",
            shared_rows::prepared_statements,
        ),
        fixed("pg_am", shared_rows::access_methods),
        fixed("pg_opclass", relation_rows::operator_classes),
        fixed("pg_opfamily", relation_rows::operator_families),
        fixed("pg_tablespace", shared_rows::tablespaces),
        fixed("pg_collation", shared_rows::collations),
        fixed("pg_language", shared_rows::languages),
        state("pg_namespace", shared_rows::namespaces),
        session(PG, "pg_database", shared_rows::databases),
        session(PG, "pg_roles", shared_rows::roles),
        session(PG, "pg_user", shared_rows::users),
        session(PG, "pg_extension", shared_rows::extensions),
        session(
            PG,
            "pg_available_extensions",
            shared_rows::available_extensions,
        ),
        session(PG, "pg_description", shared_rows::descriptions),
        session(PG, "pg_shdescription", shared_rows::shared_descriptions),
        session(PG, "pg_db_role_setting", shared_rows::database_settings),
        session(PG, "pg_settings", shared_rows::settings),
        session(PG, "pg_file_settings", shared_rows::file_settings),
    ]
}

fn created_types(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    enums::types(snapshot, rows)?;
    domains::types(snapshot, rows)
}

fn check_constraints(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    information::check_constraints(snapshot, rows)?;
    domains::check_constraints(snapshot, rows)
}

fn information_schema() -> Vec<Generator> {
    vec![
        session(
            INFO,
            "information_schema_catalog_name",
            information::catalog_name,
        ),
        session(INFO, "enabled_roles", information::enabled_roles),
        session(INFO, "schemata", information::schemata),
        session(INFO, "tables", information::tables),
        session(INFO, "columns", information::columns),
        session(INFO, "views", views::information),
        session(INFO, "domains", domains::domains),
        session(INFO, "domain_constraints", domains::domain_constraints),
        session(INFO, "sequences", sequences::information),
        session(INFO, "check_constraints", check_constraints),
        session(INFO, "table_constraints", information::table_constraints),
        session(INFO, "referential_constraints", foreign_keys::referential),
        session(INFO, "key_column_usage", information::key_columns),
        session(
            INFO,
            "constraint_column_usage",
            information::constraint_columns,
        ),
    ]
}

fn generator(schema: &str, name: &str) -> Option<&'static Generator> {
    static ALL: LazyLock<HashMap<u32, Generator>> = LazyLock::new(|| {
        let def = |g: Generator| Some((relations::find(g.relation.0, g.relation.1)?.oid, g));
        generators().into_iter().filter_map(def).collect()
    });
    ALL.get(&relations::find(schema, name)?.oid)
}

impl Generator {
    fn fixed(&self, def: &'static RelationDef) -> SqlResult<Option<&VirtualRows>> {
        let Some(common) = self.common else {
            return Ok(None);
        };
        if let Some(made) = self.made.get() {
            return Ok(Some(made));
        }
        let mut rows = Rows::new(def);
        common(&mut rows)?;
        let rows = with_arrays(def, rows.finish())?;
        Ok(Some(self.made.get_or_init(|| rows)))
    }

    fn own(
        &self,
        def: &'static RelationDef,
        snapshot: &CatalogView,
    ) -> SqlResult<Option<VirtualRows>> {
        let Some(session) = self.session else {
            return Ok(None);
        };
        let make = || {
            let mut rows = Rows::new(def);
            session(snapshot, &mut rows)?;
            with_arrays(def, rows.finish())
        };
        let rows = match self.of_state {
            true => snapshot.made.get_or_make(def.oid, make),
            false => make(),
        };
        rows.map(Some)
    }
}

type Row = Vec<Datum>;

/// All rows of a relation, for the row executor.
///
/// # Errors
/// XX000 for a generator that does not fit its relation.
pub fn rows(def: &'static RelationDef, snapshot: &CatalogView) -> SqlResult<Vec<VirtualRows>> {
    let Some(generator) = generator(def.schema, def.name) else {
        return Ok(Vec::new());
    };
    let mut parts = Vec::new();
    parts.extend(generator.fixed(def)?.cloned());
    parts.extend(generator.own(def, snapshot)?);
    Ok(parts)
}

/// The generators write arrays in their text form.
fn with_arrays(def: &RelationDef, mut rows: Vec<Row>) -> SqlResult<VirtualRows> {
    let arrays = def.columns.iter().enumerate();
    let arrays = arrays.filter(|(_, column)| matches!(column.ty, SqlType::Array(..)));
    let cx = TypeContext::default();
    for (at, column) in arrays {
        for value in rows.iter_mut().filter_map(|row| row.get_mut(at)) {
            if let Datum::Text(text) = value {
                *value = Datum::parse_text(column.ty, text, &cx)?;
            }
        }
    }
    Ok(rows.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_generator_has_a_relation() {
        for generator in generators() {
            let (schema, name) = generator.relation;
            assert!(relations::find(schema, name).is_some(), "{schema}.{name}");
        }
    }
}
