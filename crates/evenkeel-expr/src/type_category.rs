//! The categories of types, by which a call or operator is chosen: `typcategory`,
//! `typispreferred`.

use evenkeel_types::SqlType;

/// The category of a type, as `pg_type` has it.
pub fn category(ty: SqlType) -> char {
    match ty {
        SqlType::Bool => 'B',
        SqlType::Int2
        | SqlType::Int4
        | SqlType::Int8
        | SqlType::Float4
        | SqlType::Float8
        | SqlType::Numeric(_)
        | SqlType::Oid
        | SqlType::Regclass
        | SqlType::Regtype
        | SqlType::Regproc
        | SqlType::Regprocedure
        | SqlType::Regoper
        | SqlType::Regoperator
        | SqlType::Regnamespace
        | SqlType::Regrole => 'N',
        SqlType::Text | SqlType::Varchar(_) | SqlType::Char(_) | SqlType::Name => 'S',
        SqlType::Date
        | SqlType::Time(_)
        | SqlType::Timetz(_)
        | SqlType::Timestamp(_)
        | SqlType::Timestamptz(_) => 'D',
        SqlType::Interval(_) => 'T',
        SqlType::Uuid
        | SqlType::Bytea
        | SqlType::Json
        | SqlType::Jsonb
        | SqlType::Tid
        | SqlType::Xid
        | SqlType::Cid
        | SqlType::Xid8 => 'U',
        SqlType::InternalChar => 'Z',
        SqlType::Enum(_) => 'E',
        SqlType::Domain(of) => category(of.root()),
        SqlType::Int2Vector | SqlType::OidVector | SqlType::Array(..) => 'A',
        SqlType::Record | SqlType::Void => 'P',
        SqlType::Unknown => 'X',
    }
}

/// Whether a type is preferred in its category.
pub fn is_preferred(ty: SqlType) -> bool {
    matches!(
        ty.storage(),
        SqlType::Bool
            | SqlType::Text
            | SqlType::Float8
            | SqlType::Oid
            | SqlType::Timestamptz(_)
            | SqlType::Interval(_)
    )
}
