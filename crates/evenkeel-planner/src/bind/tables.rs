//! The tables of functions, operators, casts and types, as the binder asks for them.

use evenkeel_expr::proc::{Proc, ProcKind};
pub(super) use evenkeel_expr::{
    category, find_cast, is_preferred, is_unbuilt, operators_named, proc_by_oid, procs_named,
};
use evenkeel_types::SqlType;

/// The columns of a function that gives rows.
pub(super) fn row_columns(proc: &Proc) -> &'static [(&'static str, SqlType)] {
    match proc.kind {
        ProcKind::Set(_, columns) => columns,
        _ => &[],
    }
}

/// Types of PostgreSQL that are not built: naming one is refused by name.
pub(super) fn is_unbuilt_type(name: &str) -> bool {
    const NAMES: [&str; 37] = [
        "xml",
        "point",
        "line",
        "lseg",
        "box",
        "path",
        "polygon",
        "circle",
        "inet",
        "cidr",
        "macaddr",
        "macaddr8",
        "bit",
        "varbit",
        "money",
        "timetz",
        "tsvector",
        "tsquery",
        "int4range",
        "int8range",
        "numrange",
        "tsrange",
        "tstzrange",
        "daterange",
        "int4multirange",
        "int8multirange",
        "nummultirange",
        "tsmultirange",
        "tstzmultirange",
        "datemultirange",
        "tid",
        "xid",
        "xid8",
        "cid",
        "jsonpath",
        "pg_lsn",
        "refcursor",
    ];
    NAMES.contains(&name)
}
