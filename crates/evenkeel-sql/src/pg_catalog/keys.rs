//! The columns by which rows of the catalogs are found: the first columns of PostgreSQL's indexes
//! on them.

/// An index of a catalog.
pub struct CatalogKey {
    /// Its name in PostgreSQL.
    pub name: &'static str,
    /// The column.
    pub column: &'static str,
    /// Whether no two rows have one value.
    pub unique: bool,
}

const fn unique(name: &'static str, column: &'static str) -> CatalogKey {
    CatalogKey {
        name,
        column,
        unique: true,
    }
}

const fn key(name: &'static str, column: &'static str) -> CatalogKey {
    CatalogKey {
        name,
        column,
        unique: false,
    }
}

/// The keys of the relations of `pg_catalog` that have any.
const KEYS: &[(&str, &[CatalogKey])] = &[
    (
        "pg_class",
        &[
            unique("pg_class_oid_index", "oid"),
            key("pg_class_relname_nsp_index", "relname"),
        ],
    ),
    (
        "pg_attribute",
        &[key("pg_attribute_relid_attnum_index", "attrelid")],
    ),
    (
        "pg_attrdef",
        &[
            unique("pg_attrdef_oid_index", "oid"),
            key("pg_attrdef_adrelid_adnum_index", "adrelid"),
        ],
    ),
    (
        "pg_type",
        &[
            unique("pg_type_oid_index", "oid"),
            key("pg_type_typname_nsp_index", "typname"),
        ],
    ),
    (
        "pg_proc",
        &[
            unique("pg_proc_oid_index", "oid"),
            key("pg_proc_proname_args_nsp_index", "proname"),
        ],
    ),
    (
        "pg_namespace",
        &[
            unique("pg_namespace_oid_index", "oid"),
            unique("pg_namespace_nspname_index", "nspname"),
        ],
    ),
    (
        "pg_index",
        &[
            unique("pg_index_indexrelid_index", "indexrelid"),
            key("pg_index_indrelid_index", "indrelid"),
        ],
    ),
    (
        "pg_constraint",
        &[
            unique("pg_constraint_oid_index", "oid"),
            key("pg_constraint_conrelid_contypid_conname_index", "conrelid"),
            key("pg_constraint_conname_nsp_index", "conname"),
        ],
    ),
    (
        "pg_depend",
        &[
            key("pg_depend_depender_index", "objid"),
            key("pg_depend_reference_index", "refobjid"),
        ],
    ),
    (
        "pg_description",
        &[key("pg_description_o_c_o_index", "objoid")],
    ),
    ("pg_collation", &[unique("pg_collation_oid_index", "oid")]),
];

/// The keys of a relation of `pg_catalog`.
pub fn of(relation: &str) -> &'static [CatalogKey] {
    let mut keys = KEYS.iter().filter(|(name, _)| *name == relation);
    keys.next().map_or(&[], |(_, keys)| keys)
}

#[cfg(test)]
mod tests {
    use super::super::relations;
    use super::*;

    #[test]
    fn the_keys_of_catalogs_are_columns_of_theirs() {
        for def in relations::all() {
            for key in of(def.name) {
                assert!(def.position(key.column).is_some(), "{}", key.name);
            }
        }
    }
}
