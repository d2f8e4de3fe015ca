//! Names that nobody gave: `t_pkey`, `t_a_b_key`, `t_a_idx`, `t_a_idx1`.

use super::{CatalogState, Oid};

/// Bytes of the longest identifier.
const NAME_LENGTH: usize = 63;

/// `table_columns_label`, shortened to the length of a name as PostgreSQL does it: the longer of
/// the two parts gives way.
pub(super) fn object_name(table: &str, columns: &str, label: &str) -> String {
    let separators = if columns.is_empty() { 1 } else { 2 };
    let room = NAME_LENGTH.saturating_sub(label.len() + separators);
    let (mut first, mut second) = (table.len(), columns.len());
    while first + second > room {
        if first > second {
            first -= 1;
        } else {
            second -= 1;
        }
    }
    let table = &table[..table.floor_char_boundary(first)];
    let columns = &columns[..columns.floor_char_boundary(second)];
    if columns.is_empty() {
        format!("{table}_{label}")
    } else {
        format!("{table}_{columns}_{label}")
    }
}

/// The first of `name`, `name1`, `name2`, … that is free in the schema and not in `taken`.
pub(super) fn free_name(
    state: &CatalogState,
    schema: Oid,
    taken: &[String],
    table: &str,
    columns: &str,
    label: &str,
) -> String {
    let used = |name: &str| {
        let here = taken.iter().any(|other| other == name);
        here || state.relation_in(schema, name).is_some()
    };
    free_name_among(used, table, columns, label)
}

/// The first of `name`, `name1`, `name2`, … that is not used.
pub(super) fn free_name_among(
    used: impl Fn(&str) -> bool,
    table: &str,
    columns: &str,
    label: &str,
) -> String {
    let mut suffix = 0usize;
    loop {
        let numbered = if suffix == 0 {
            label.to_owned()
        } else {
            format!("{label}{suffix}")
        };
        let name = object_name(table, columns, &numbered);
        if !used(&name) {
            return name;
        }
        suffix += 1;
    }
}

/// The lock of a relation's name: held from the check that it is free to the end of the
/// transaction that takes it. In the space of table locks, beyond all oids.
pub(crate) fn name_lock(database: Oid, schema: Oid, name: &str) -> u64 {
    // FNV-1a. Two names that collide only wait for each other. The schemas that every database has
    // have the same oids in all.
    let place = u64::from(database) << 32 | u64::from(schema);
    let mut hash = 0xcbf2_9ce4_8422_2325u64 ^ place;
    for byte in name.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash | 1 << 63
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_up_names_are_those_of_postgres() {
        assert_eq!(object_name("t", "", "pkey"), "t_pkey");
        assert_eq!(object_name("t", "a_b", "idx"), "t_a_b_idx");
        let long = "x".repeat(80);
        assert_eq!(object_name(&long, "", "pkey").len(), NAME_LENGTH);
        assert_eq!(object_name(&long, &long, "key").len(), NAME_LENGTH);
        assert!(object_name(&"ä".repeat(40), "", "pkey").len() <= NAME_LENGTH);
    }

    #[test]
    fn name_locks_are_no_oids() {
        assert!(name_lock(5, 2200, "t") > u64::from(u32::MAX));
        assert_ne!(name_lock(5, 2200, "t"), name_lock(5, 2200, "u"));
        assert_ne!(name_lock(5, 2200, "t"), name_lock(16_400, 2200, "t"));
    }
}
