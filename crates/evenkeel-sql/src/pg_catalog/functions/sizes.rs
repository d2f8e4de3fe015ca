//! How large things are.

use super::{Definition, lax, number_arg, relation_arg, strict};
use crate::error::SqlResult;
use crate::pg_catalog::snapshot::{Relation, Snapshot};
use crate::types::{Datum, SqlType};

/// Bytes of a block.
const BLOCK: i64 = 8192;

pub(super) const FUNCTIONS: &[Definition] = &[
    strict("pg_relation_size", SqlType::Int8, own_size),
    strict("pg_table_size", SqlType::Int8, own_size),
    strict("pg_indexes_size", SqlType::Int8, |snapshot, args| {
        measured(snapshot, args, |relation| match relation {
            Relation::Table(table) => table.indexes.iter().map(|index| index.oid).collect(),
            _ => Vec::new(),
        })
    }),
    strict("pg_total_relation_size", SqlType::Int8, |snapshot, args| {
        measured(snapshot, args, |relation| match relation {
            Relation::Table(table) => {
                let indexes = table.indexes.iter().map(|index| index.oid);
                indexes.chain([table.oid]).collect()
            }
            other => vec![other.oid()],
        })
    }),
    strict("pg_database_size", SqlType::Int8, |snapshot, _| {
        Ok(Datum::Int8(everything(snapshot)))
    }),
    strict("pg_tablespace_size", SqlType::Int8, |snapshot, _| {
        Ok(Datum::Int8(everything(snapshot)))
    }),
    strict("pg_tablespace_location", SqlType::Text, |_, _| {
        Ok(Datum::Text(String::new()))
    }),
    strict("pg_size_pretty", SqlType::Text, |_, args| {
        Ok(Datum::Text(pretty(number_arg(args, 0)?)))
    }),
    lax("pg_relation_filepath", SqlType::Text, |_, _| {
        Ok(Datum::Null)
    }),
];

fn bytes(snapshot: &Snapshot, oid: u32) -> i64 {
    i64::from(snapshot.blocks(oid)) * BLOCK
}

/// Bytes of the relations that `parts` tells; NULL for a relation that does not exist.
fn measured(
    snapshot: &Snapshot,
    args: &[Datum],
    parts: fn(Relation<'_>) -> Vec<u32>,
) -> SqlResult<Datum> {
    let oid = relation_arg(snapshot, args, 0)?;
    Ok(snapshot.relation(oid).map_or(Datum::Null, |relation| {
        Datum::Int8(
            parts(relation)
                .into_iter()
                .map(|oid| bytes(snapshot, oid))
                .sum(),
        )
    }))
}

fn own_size(snapshot: &Snapshot, args: &[Datum]) -> SqlResult<Datum> {
    measured(snapshot, args, |relation| vec![relation.oid()])
}

fn everything(snapshot: &Snapshot) -> i64 {
    let tables = snapshot.tables.iter();
    let oids = tables.flat_map(|table| {
        table
            .indexes
            .iter()
            .map(|index| index.oid)
            .chain([table.oid])
    });
    oids.map(|oid| bytes(snapshot, oid)).sum()
}

/// A number of bytes in the largest unit that leaves at least ten of it, rounded half up, as
/// PostgreSQL does it: one bit below the unit is kept until the end.
fn pretty(size: i64) -> String {
    const LIMIT: u64 = 20 * 1024 - 1;
    if size.unsigned_abs() < 10 * 1024 {
        return format!("{size} bytes");
    }
    let mut halves = size / 512;
    for unit in ["kB", "MB", "GB", "TB"] {
        if halves.unsigned_abs() < LIMIT {
            return format!("{} {unit}", half_rounded(halves));
        }
        halves /= 1024;
    }
    format!("{} PB", half_rounded(halves))
}

fn half_rounded(halves: i64) -> i64 {
    (halves + if halves < 0 { -1 } else { 1 }) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_as_in_postgresql() {
        for (size, text) in [
            (0, "0 bytes"),
            (10_239, "10239 bytes"),
            (10_240, "10 kB"),
            (20_000, "20 kB"),
            (10_485_760, "10 MB"),
            (10_000_000_000, "9537 MB"),
            (1_000_000_000_000_000, "909 TB"),
            (-5, "-5 bytes"),
            (20_971_519, "20 MB"),
        ] {
            assert_eq!(pretty(size), text);
        }
    }
}
