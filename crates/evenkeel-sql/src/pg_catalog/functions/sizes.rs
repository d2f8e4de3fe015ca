//! How large things are.

use std::sync::Arc;

use super::{Definition, lax, relation_arg, strict};
use crate::catalog::Catalog;
use crate::error::SqlResult;
use crate::pg_catalog::context::CatalogSizes;
use crate::pg_catalog::view::{CatalogView, Relation, Sizes};
use crate::types::Datum;

/// Bytes of a block.
const BLOCK: i64 = 8192;

pub(super) const FUNCTIONS: &[Definition] = &[
    strict("pg_relation_size", |snapshot, args| {
        measured(snapshot, args, |relation| vec![relation.oid()], &bytes)
    }),
    strict("pg_table_size", |snapshot, args| {
        let whole = |snapshot: &CatalogView, oid| bytes(snapshot, oid) + large_bytes(snapshot, oid);
        measured(snapshot, args, |relation| vec![relation.oid()], &whole)
    }),
    strict("pg_indexes_size", |snapshot, args| {
        measured(
            snapshot,
            args,
            |relation| match relation {
                Relation::Table(table) => table.indexes.iter().map(|index| index.oid).collect(),
                _ => Vec::new(),
            },
            &bytes,
        )
    }),
    strict("pg_total_relation_size", |snapshot, args| {
        let whole = |snapshot: &CatalogView, oid| bytes(snapshot, oid) + large_bytes(snapshot, oid);
        measured(
            snapshot,
            args,
            |relation| match relation {
                Relation::Table(table) => {
                    let indexes = table.indexes.iter().map(|index| index.oid);
                    indexes.chain([table.oid]).collect()
                }
                other => vec![other.oid()],
            },
            &whole,
        )
    }),
    strict("pg_database_size", database_size),
    strict("pg_tablespace_size", |snapshot, _| {
        let Some(instance) = &snapshot.instance else {
            return Ok(Datum::Null);
        };
        let catalogs = instance.databases().catalogs()?;
        let all = catalogs.iter().map(|catalog| everything(catalog));
        Ok(Datum::Int8(all.sum()))
    }),
    strict("pg_tablespace_location", |_, _| {
        Ok(Datum::Text(String::new()))
    }),
    lax("pg_relation_filepath", |_, _| Ok(Datum::Null)),
];

fn bytes(snapshot: &CatalogView, oid: u32) -> i64 {
    i64::from(snapshot.blocks(oid)) * BLOCK
}

fn large_bytes(snapshot: &CatalogView, oid: u32) -> i64 {
    i64::from(snapshot.large_blocks(oid)) * BLOCK
}

/// Bytes of the relations that `parts` tells, each by `size`; NULL for a relation that does not
/// exist.
fn measured(
    snapshot: &CatalogView,
    args: &[Datum],
    parts: fn(Relation<'_>) -> Vec<u32>,
    size: &dyn Fn(&CatalogView, u32) -> i64,
) -> SqlResult<Datum> {
    let oid = relation_arg(snapshot, args, 0)?;
    Ok(snapshot.relation(oid).map_or(Datum::Null, |relation| {
        Datum::Int8(
            parts(relation)
                .into_iter()
                .map(|oid| size(snapshot, oid))
                .sum(),
        )
    }))
}

/// Bytes of a database by its name or oid; NULL for an oid that none has.
fn database_size(snapshot: &CatalogView, args: &[Datum]) -> SqlResult<Datum> {
    let Some(instance) = &snapshot.instance else {
        return Ok(Datum::Null);
    };
    let databases = instance.databases();
    let info = match args.first() {
        Some(Datum::Text(name)) => databases.expect(name)?,
        Some(Datum::Oid(oid)) => match databases.list().into_iter().find(|info| info.oid == *oid) {
            Some(info) => info,
            None => return Ok(Datum::Null),
        },
        _ => return Ok(Datum::Null),
    };
    if !info.files.is_made() {
        return Ok(Datum::Int8(0));
    }
    Ok(Datum::Int8(everything(&*databases.catalog(info.oid)?)))
}

/// Bytes of all tables of a database, with those of its catalog.
fn everything(catalog: &Catalog) -> i64 {
    let state = catalog.current();
    let sizes = CatalogSizes(Arc::clone(&state));
    let users = state.tables().map(|table| {
        let indexes = table.indexes.iter().map(|index| index.oid);
        let parts = indexes.chain([table.oid]);
        let blocks = parts.filter_map(|oid| sizes.blocks(oid)).map(i64::from);
        blocks.sum::<i64>() + i64::from(sizes.large_blocks(table.oid))
    });
    let own = catalog
        .system_tables()
        .map(|(_, table)| i64::from(table.blocks()));
    users.chain(own).sum::<i64>() * BLOCK
}
