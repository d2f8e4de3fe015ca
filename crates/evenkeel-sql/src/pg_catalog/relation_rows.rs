//! Tables, indexes, their columns and constraints: `pg_class` and what hangs on it.

use super::builtin;
use super::deparse;
use super::foreign_keys;
use super::relations;
use super::rows::{Cell, Rows, flag, number, oid, text, xid};
use super::view::{
    BTREE_AM, CatalogView, HEAP_AM, INFORMATION_SCHEMA, Index, KeyPart, KeySource, OWNER,
    PG_CATALOG, Table,
};
use crate::catalog::{CLASSES, DroppedColumn, OperatorClass, numbered_names};
use crate::error::SqlResult;
use crate::search_path::is_temporary;
use crate::types::{Datum, SqlType};

/// `attoptions` and the like of an array without items are NULL.
fn options(table: &Table) -> Datum {
    if table.options.is_empty() {
        return Datum::Null;
    }
    text(format!("{{{}}}", table.options.join(",")))
}

/// Columns that every row of `pg_class` fills in the same way, of a relation in a schema of some
/// oid and name.
pub(super) fn class(
    oid_: u32,
    name: &str,
    (schema_oid, schema): (u32, &str),
    kind: &'static str,
) -> Vec<Cell> {
    let persistence = if is_temporary(schema) { "t" } else { "p" };
    vec![
        ("oid", oid(oid_)),
        ("relname", text(name)),
        ("relnamespace", oid(schema_oid)),
        ("relowner", oid(OWNER)),
        ("relpersistence", text(persistence)),
        ("relkind", text(kind)),
        ("relispopulated", flag(true)),
        ("relreplident", text("n")),
    ]
}

/// Schema oid of one of PostgreSQL's own relations.
fn system_schema(def: &relations::RelationDef) -> u32 {
    if def.schema == "pg_catalog" {
        PG_CATALOG
    } else {
        INFORMATION_SCHEMA
    }
}

/// `pg_class` rows of PostgreSQL's own relations.
pub fn system_classes(rows: &mut Rows) -> SqlResult<()> {
    for def in relations::all() {
        let mut row = class(
            def.oid,
            def.name,
            (system_schema(def), def.schema),
            def.kind,
        );
        row.push(("reltuples", Datum::Float4(-1.0)));
        row.push(("relnatts", number(def.columns.len())));
        if def.kind == "r" {
            row.push(("relam", oid(HEAP_AM)));
        } else {
            row.push(("relhasrules", flag(true)));
        }
        rows.push(row)?;
    }
    Ok(())
}

/// `pg_class` rows of the database's tables and indexes.
pub fn classes(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    for table in snapshot.tables.iter() {
        let schema = (table.schema_oid, &*table.schema);
        let mut row = class(table.oid, &table.name, schema, "r");
        row.extend([
            ("relam", oid(HEAP_AM)),
            ("relfilenode", oid(table.oid)),
            ("relpages", number(table.stats.relpages)),
            ("reltuples", Datum::Float4(table.stats.reltuples)),
            ("relallvisible", number(table.stats.relallvisible)),
            ("relallfrozen", number(table.stats.relallfrozen)),
            ("relfrozenxid", xid(table.stats.relfrozenxid)),
            // PostgreSQL's first number of a set of lockers: no table has any.
            ("relminmxid", xid(1)),
            ("relhasindex", flag(!table.indexes.is_empty())),
            ("relnatts", number(table.attributes())),
            ("relchecks", number(table.checks.len())),
            (
                "relhastriggers",
                flag(foreign_keys::has_triggers(snapshot, table)),
            ),
            ("relreplident", text("d")),
            ("reloptions", options(table)),
        ]);
        rows.push(row)?;
        for index in &table.indexes {
            let mut row = class(index.oid, &index.name, schema, "i");
            row.extend([
                ("relam", oid(BTREE_AM)),
                ("relfilenode", oid(index.oid)),
                ("relpages", number(snapshot.blocks(index.oid))),
                ("reltuples", Datum::Float4(table.stats.reltuples)),
                ("relnatts", number(index.key.len())),
            ]);
            rows.push(row)?;
        }
    }
    Ok(())
}

/// Columns of a `pg_attribute` row that follow from the column's type.
pub(super) fn attribute(relation: u32, name: &str, attnum: usize, ty: SqlType) -> Vec<Cell> {
    // A created type is as some built-in one is stored.
    let stored = ty.storage();
    let like = match stored {
        SqlType::Enum(_) => SqlType::Int4,
        SqlType::Array(SqlType::Enum(_), _) => SqlType::TEXT_ARRAY,
        other => other,
    };
    let def = builtin::type_by_oid(like.oid());
    let get = |column| match column {
        "typcollation" if like != stored => "0",
        column => def.map_or("", |def| def.get(column)),
    };
    vec![
        ("attrelid", oid(relation)),
        ("attname", text(name)),
        ("atttypid", oid(ty.oid())),
        ("attlen", number(ty.wire_len())),
        ("attnum", number(attnum)),
        (
            "attndims",
            number(usize::from(
                !matches!(ty, SqlType::Domain(_)) && ty.element().is_some(),
            )),
        ),
        ("atttypmod", number(ty.typmod())),
        ("attbyval", flag(get("typbyval") == "t")),
        ("attalign", text(get("typalign"))),
        ("attstorage", text(get("typstorage"))),
        ("attislocal", flag(true)),
        (
            "attcollation",
            oid(get("typcollation").parse().unwrap_or(0)),
        ),
    ]
}

/// `pg_attribute` rows of PostgreSQL's own relations.
pub fn system_attributes(rows: &mut Rows) -> SqlResult<()> {
    for def in relations::all() {
        for (at, column) in def.columns.iter().enumerate() {
            let mut row = attribute(def.oid, column.name, at + 1, column.ty);
            row.push(("attnotnull", flag(column.not_null)));
            rows.push(row)?;
        }
    }
    Ok(())
}

/// `pg_attribute` rows of the database's tables and indexes.
pub fn attributes(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    for table in snapshot.tables.iter() {
        for column in &table.columns {
            let attnum = usize::try_from(column.attnum).unwrap_or(0);
            let mut row = attribute(table.oid, &column.name, attnum, column.declared);
            row.push(("attnotnull", flag(column.not_null.is_some())));
            let has_default = column.default.is_some() || column.generated.is_some();
            row.push(("atthasdef", flag(has_default)));
            if let Some(generated) = &column.generated {
                let kept = if generated.is_virtual { "v" } else { "s" };
                row.push(("attgenerated", text(kept)));
            }
            row.push(("atthasmissing", flag(column.has_missing)));
            if let Some((identity, _)) = column.identity {
                row.push(("attidentity", text(identity.code())));
            }
            rows.push(row)?;
        }
        for column in &table.dropped {
            rows.push(dropped_attribute(table.oid, column))?;
        }
        for index in &table.indexes {
            let parts = index.key.iter().filter_map(|part| match &part.source {
                KeySource::Column(at) => {
                    let column = table.columns.get(*at)?;
                    Some((&*column.name, column.ty))
                }
                KeySource::Expression(expression) => Some((&*expression.name, expression.ty)),
            });
            let (names, types): (Vec<&str>, Vec<SqlType>) = parts.unzip();
            let names = numbered_names(names.into_iter());
            for (at, (name, ty)) in names.iter().zip(types).enumerate() {
                rows.push(attribute(index.oid, name, at + 1, ty))?;
            }
        }
    }
    Ok(())
}

fn dropped_attribute(table: u32, column: &DroppedColumn) -> Vec<Cell> {
    let length = column.width.and_then(|width| i64::try_from(width).ok());
    vec![
        ("attrelid", oid(table)),
        ("attname", text(column.name())),
        ("attlen", number(length.unwrap_or(-1))),
        ("attnum", number(column.attnum)),
        ("atttypmod", number(-1)),
        ("attisdropped", flag(true)),
        ("attislocal", flag(true)),
    ]
}

/// `pg_attrdef`
pub fn defaults(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    for table in snapshot.tables.iter() {
        for column in &table.columns {
            let shown = match (&column.default, &column.generated) {
                (_, Some(generated)) => generated.text.to_string(),
                (Some(default), None) => shown_default(snapshot, default, column.ty),
                (None, None) => continue,
            };
            rows.push([
                ("oid", oid(table.default_oid(column.attnum))),
                ("adrelid", oid(table.oid)),
                ("adnum", number(column.attnum)),
                ("adbin", text(shown)),
            ])?;
        }
    }
    Ok(())
}

/// A default as PostgreSQL shows it.
pub(super) fn shown_default(snapshot: &CatalogView, default: &str, ty: SqlType) -> String {
    let by_sequence = snapshot.shown_default(default);
    by_sequence.unwrap_or_else(|| deparse::default(default, ty))
}

fn joined(words: impl Iterator<Item = u32>) -> Datum {
    text(
        words
            .map(|word| word.to_string())
            .collect::<Vec<_>>()
            .join(" "),
    )
}

/// 0 for an expression, as in PostgreSQL.
fn attnum(table: &Table, source: &KeySource) -> u32 {
    let KeySource::Column(position) = source else {
        return 0;
    };
    let column = table.columns.get(*position);
    column.map_or(0, |column| u32::from(column.attnum.unsigned_abs()))
}

/// The type of an index's key.
fn key_type(table: &Table, source: &KeySource) -> Option<SqlType> {
    match source {
        KeySource::Column(position) => table.columns.get(*position).map(|column| column.ty),
        KeySource::Expression(expression) => Some(expression.ty),
    }
}

fn collation(table: &Table, source: &KeySource) -> u32 {
    let ty = key_type(table, source).and_then(|ty| builtin::type_by_oid(ty.oid()));
    ty.and_then(|ty| ty.get("typcollation").parse().ok())
        .unwrap_or(0)
}

/// `indexprs`, as `pg_get_expr` shows it.
fn expressions(index: &Index) -> Datum {
    let texts = index.key.iter().filter_map(|part| match &part.source {
        KeySource::Expression(expression) => Some(expression.text.to_string()),
        KeySource::Column(_) => None,
    });
    let texts: Vec<String> = texts.collect();
    match texts.is_empty() {
        true => Datum::Null,
        false => Datum::Text(texts.join(", ")),
    }
}

/// The oid of a key's operator class.
fn operator_class(table: &Table, part: &KeyPart) -> u32 {
    let ty = key_type(table, &part.source);
    let class = part.class.or_else(|| OperatorClass::default_of(ty?));
    class.map_or(0, |class| class.oid)
}

/// `pg_opclass`: those of B-trees.
pub fn operator_classes(rows: &mut Rows) -> SqlResult<()> {
    for class in &CLASSES {
        rows.push(vec![
            ("oid", oid(class.oid)),
            ("opcmethod", oid(BTREE_AM)),
            ("opcname", text(class.name)),
            ("opcnamespace", oid(PG_CATALOG)),
            ("opcowner", oid(OWNER)),
            ("opcfamily", oid(class.family)),
            ("opcintype", oid(class.input)),
            ("opcdefault", flag(class.default)),
        ])?;
    }
    Ok(())
}

/// `pg_opfamily`: those of the classes.
pub fn operator_families(rows: &mut Rows) -> SqlResult<()> {
    for (at, class) in CLASSES.iter().enumerate() {
        if CLASSES[..at]
            .iter()
            .any(|other| other.family == class.family)
        {
            continue;
        }
        rows.push(vec![
            ("oid", oid(class.family)),
            ("opfmethod", oid(BTREE_AM)),
            ("opfname", text(class.family_name)),
            ("opfnamespace", oid(PG_CATALOG)),
            ("opfowner", oid(OWNER)),
        ])?;
    }
    Ok(())
}

/// `pg_index`
pub fn indexes(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    for table in snapshot.tables.iter() {
        for index in &table.indexes {
            rows.push(index_row(table, index))?;
        }
    }
    Ok(())
}

fn index_row(table: &Table, index: &Index) -> Vec<Cell> {
    let all = index.key.iter();
    let key = || index.key.iter().take(index.key_columns);
    let option =
        |descending: bool, nulls_first: bool| u32::from(descending) | (u32::from(nulls_first) << 1);
    vec![
        ("indexrelid", oid(index.oid)),
        ("indrelid", oid(table.oid)),
        ("indnatts", number(index.key.len())),
        ("indnkeyatts", number(index.key_columns)),
        ("indisunique", flag(index.unique)),
        ("indnullsnotdistinct", flag(index.nulls_not_distinct)),
        ("indisprimary", flag(index.primary)),
        ("indimmediate", flag(!index.deferrable)),
        ("indisvalid", flag(true)),
        ("indcheckxmin", flag(index.check_xmin)),
        ("indexprs", expressions(index)),
        (
            "indpred",
            index
                .predicate
                .as_ref()
                .map_or(Datum::Null, |predicate| text(&*predicate.text)),
        ),
        ("indisready", flag(true)),
        ("indislive", flag(true)),
        (
            "indkey",
            joined(all.map(|part| attnum(table, &part.source))),
        ),
        (
            "indcollation",
            joined(key().map(|part| collation(table, &part.source))),
        ),
        (
            "indclass",
            joined(key().map(|part| operator_class(table, part))),
        ),
        (
            "indoption",
            joined(key().map(|part| option(part.descending, part.nulls_first))),
        ),
    ]
}

/// `pg_constraint`
pub fn constraints(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    for table in snapshot.tables.iter() {
        for (constraint, column) in table.not_null() {
            let mut row = constraint_row(table, constraint.oid, &constraint.name, "n");
            if !constraint.validated {
                row.retain(|(name, _)| *name != "convalidated");
            }
            row.push(("conkey", text(format!("{{{}}}", column.attnum))));
            rows.push(row)?;
        }
        for constraint in &table.constraints {
            let columns = constraint
                .columns
                .iter()
                .map(|at| attnum(table, &KeySource::Column(*at)).to_string());
            let columns = columns.collect::<Vec<_>>().join(",");
            let mut row = constraint_row(table, constraint.oid, &constraint.name, constraint.code);
            row.extend([
                ("conindid", oid(constraint.index)),
                ("condeferrable", flag(constraint.deferrable)),
                ("condeferred", flag(constraint.deferred)),
                ("connoinherit", flag(true)),
                ("conkey", text(format!("{{{columns}}}"))),
            ]);
            rows.push(row)?;
        }
        for check in &table.checks {
            let columns = check.columns.iter();
            let columns = columns.map(|at| attnum(table, &KeySource::Column(*at)).to_string());
            let columns = columns.collect::<Vec<_>>().join(",");
            let mut row = constraint_row(table, check.oid, &check.name, "c");
            if !check.validated {
                row.retain(|(name, _)| *name != "convalidated");
            }
            row.push(("conkey", text(format!("{{{columns}}}"))));
            rows.push(row)?;
        }
        for key in &table.foreign_keys {
            let mut row = constraint_row(table, key.oid, &key.name, "f");
            foreign_keys::complete(key, &mut row);
            rows.push(row)?;
        }
    }
    Ok(())
}

fn constraint_row(table: &Table, number: u32, name: &str, code: &str) -> Vec<Cell> {
    vec![
        ("oid", oid(number)),
        ("conname", text(name)),
        ("connamespace", oid(table.schema_oid)),
        ("contype", text(code)),
        ("conenforced", flag(true)),
        ("convalidated", flag(true)),
        ("conrelid", oid(table.oid)),
        ("confupdtype", text(" ")),
        ("confdeltype", text(" ")),
        ("confmatchtype", text(" ")),
        ("conislocal", flag(true)),
    ]
}

/// `pg_tables`
pub fn tables_view(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    let mut row = |schema: &str, name: &str, indexes: bool, triggers: bool| {
        rows.push([
            ("schemaname", text(schema)),
            ("tablename", text(name)),
            ("tableowner", text(&snapshot.user)),
            ("hasindexes", flag(indexes)),
            ("hasrules", flag(false)),
            ("hastriggers", flag(triggers)),
            ("rowsecurity", flag(false)),
        ])
    };
    for def in relations::all().iter().filter(|def| def.kind == "r") {
        row(def.schema, def.name, false, false)?;
    }
    for table in snapshot.tables.iter() {
        let triggers = foreign_keys::has_triggers(snapshot, table);
        row(
            &table.schema,
            &table.name,
            !table.indexes.is_empty(),
            triggers,
        )?;
    }
    Ok(())
}

/// `pg_indexes`
pub fn indexes_view(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    for table in snapshot.tables.iter() {
        for index in &table.indexes {
            rows.push([
                ("schemaname", text(&*table.schema)),
                ("tablename", text(&*table.name)),
                ("indexname", text(&*index.name)),
                ("indexdef", text(deparse::index(table, index, true, false))),
            ])?;
        }
    }
    Ok(())
}

/// `pg_stats`: what analyze found out of the columns.
pub fn column_statistics(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    let or_null = |value: Option<String>| value.map_or(Datum::Null, text);
    for table in snapshot.tables.iter() {
        for (at, column) in table.columns.iter().enumerate() {
            let Some(stats) = table.stats.column(at) else {
                continue;
            };
            rows.push([
                ("schemaname", text(&*table.schema)),
                ("tablename", text(&*table.name)),
                ("attname", text(&*column.name)),
                ("inherited", flag(false)),
                ("null_frac", Datum::Float4(stats.null_frac)),
                ("avg_width", number(stats.avg_width)),
                ("n_distinct", Datum::Float4(stats.n_distinct)),
                (
                    "most_common_vals",
                    or_null(stats.most_common_text(column.ty)),
                ),
                ("most_common_freqs", or_null(stats.frequencies_text())),
                ("histogram_bounds", or_null(stats.histogram_text(column.ty))),
                ("correlation", Datum::Float4(stats.correlation)),
            ])?;
        }
    }
    Ok(())
}
