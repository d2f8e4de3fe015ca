//! How large things are.

use super::{Definition, lax, relation_arg, strict};
use crate::error::SqlResult;
use crate::pg_catalog::view::{CatalogView, Relation};
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
    strict("pg_database_size", |snapshot, _| {
        Ok(Datum::Int8(everything(snapshot)))
    }),
    strict("pg_tablespace_size", |snapshot, _| {
        Ok(Datum::Int8(everything(snapshot)))
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

fn everything(snapshot: &CatalogView) -> i64 {
    let tables = snapshot.tables.iter();
    let oids = tables.flat_map(|table| {
        table
            .indexes
            .iter()
            .map(|index| index.oid)
            .chain([table.oid])
    });
    oids.map(|oid| bytes(snapshot, oid) + large_bytes(snapshot, oid))
        .sum()
}
