//! Operator classes of indexes, as `CREATE INDEX` names them.
//!
//! Strings are ordered by their bytes, so the classes for patterns order as the default ones do: an
//! index by either answers the same searches. They are kept because frameworks name them, and tools
//! show and dump them.

use evenkeel_types::SqlType;

use super::Oid;
use crate::error::{SqlError, SqlResult, SqlState};

/// A row of `pg_opclass`, of B-trees.
#[derive(Debug, PartialEq, Eq)]
pub struct OperatorClass {
    /// Oid.
    pub oid: Oid,
    /// Name.
    pub name: &'static str,
    /// The type that it is for.
    pub input: Oid,
    /// Whether it is that type's default.
    pub default: bool,
    /// Its operator family.
    pub family: Oid,
    /// The family's name.
    pub family_name: &'static str,
}

const fn class(
    oid: Oid,
    name: &'static str,
    (input, default): (Oid, bool),
    (family, family_name): (Oid, &'static str),
) -> OperatorClass {
    OperatorClass {
        oid,
        name,
        input,
        default,
        family,
        family_name,
    }
}

const ANYARRAY: Oid = 2277;
const ANYENUM: Oid = 3500;
const TEXT: Oid = 25;
const OID: Oid = 26;
const BPCHAR: Oid = 1042;

/// PostgreSQL's, of the types that there are here.
pub static CLASSES: [OperatorClass; 30] = [
    class(1978, "int4_ops", (23, true), (1976, "integer_ops")),
    class(1979, "int2_ops", (21, true), (1976, "integer_ops")),
    class(1981, "oid_ops", (26, true), (1989, "oid_ops")),
    class(3122, "date_ops", (1082, true), (434, "datetime_ops")),
    class(3123, "float8_ops", (701, true), (1970, "float_ops")),
    class(3124, "int8_ops", (20, true), (1976, "integer_ops")),
    class(3125, "numeric_ops", (1700, true), (1988, "numeric_ops")),
    class(3126, "text_ops", (TEXT, true), (1994, "text_ops")),
    class(3127, "timestamptz_ops", (1184, true), (434, "datetime_ops")),
    class(3128, "timestamp_ops", (1114, true), (434, "datetime_ops")),
    class(
        4217,
        "text_pattern_ops",
        (TEXT, false),
        (2095, "text_pattern_ops"),
    ),
    class(
        4218,
        "varchar_pattern_ops",
        (TEXT, false),
        (2095, "text_pattern_ops"),
    ),
    class(
        4219,
        "bpchar_pattern_ops",
        (1042, false),
        (2097, "bpchar_pattern_ops"),
    ),
    class(10_000, "array_ops", (ANYARRAY, true), (397, "array_ops")),
    class(10_003, "bool_ops", (16, true), (424, "bool_ops")),
    class(10_004, "bpchar_ops", (1042, true), (426, "bpchar_ops")),
    class(10_006, "bytea_ops", (17, true), (428, "bytea_ops")),
    class(10_007, "char_ops", (18, true), (429, "char_ops")),
    class(10_012, "float4_ops", (700, true), (1970, "float_ops")),
    class(10_022, "interval_ops", (1186, true), (1982, "interval_ops")),
    class(10_028, "name_ops", (19, true), (1994, "text_ops")),
    class(10_034, "record_ops", (2249, true), (2994, "record_ops")),
    class(10_038, "time_ops", (1083, true), (1996, "time_ops")),
    class(10_041, "timetz_ops", (1266, true), (2000, "timetz_ops")),
    class(10_044, "varchar_ops", (TEXT, false), (1994, "text_ops")),
    class(10_050, "tid_ops", (27, true), (2789, "tid_ops")),
    class(10_053, "xid8_ops", (5069, true), (5067, "xid8_ops")),
    class(10_065, "uuid_ops", (2950, true), (2968, "uuid_ops")),
    class(10_069, "enum_ops", (ANYENUM, true), (3522, "enum_ops")),
    class(10_088, "jsonb_ops", (3802, true), (4033, "jsonb_ops")),
];

/// The classes that are no type's default, whose numbers in a row of the catalog are their places
/// here, from 1.
const NAMED: [&str; 4] = [
    "varchar_ops",
    "text_pattern_ops",
    "varchar_pattern_ops",
    "bpchar_pattern_ops",
];

/// The type whose class takes values of a type.
fn input_of(ty: SqlType) -> Oid {
    match ty {
        SqlType::Array(..) => ANYARRAY,
        SqlType::Enum(_) => ANYENUM,
        SqlType::Varchar(_) => TEXT,
        _ if ty.is_oid() => SqlType::Oid.oid(),
        _ => ty.oid(),
    }
}

impl OperatorClass {
    fn called(name: &str) -> Option<&'static OperatorClass> {
        CLASSES.iter().find(|class| class.name == name)
    }

    /// The class that a name means for a column of a type; `None` for the type's default.
    ///
    /// # Errors
    /// 42704 for a name that is none; 42804 for a class of another type.
    pub fn named(name: &str, ty: SqlType) -> SqlResult<Option<&'static OperatorClass>> {
        let class = OperatorClass::called(name).ok_or_else(|| {
            let message =
                format!("operator class \"{name}\" does not exist for access method \"btree\"");
            SqlError::new(SqlState::UNDEFINED_OBJECT, message)
        })?;
        class.check(ty)?;
        Ok((!class.default).then_some(class))
    }

    /// Refuses a type that the class is not for.
    ///
    /// # Errors
    /// 42804; 0A000 for one that PostgreSQL lets pass for that of the class.
    pub fn check(&self, ty: SqlType) -> SqlResult<()> {
        if self.input == input_of(ty) {
            return Ok(());
        }
        let takes_its_form = match self.input {
            BPCHAR => matches!(ty, SqlType::Text | SqlType::Varchar(_)),
            OID => ty == SqlType::Int4,
            _ => false,
        };
        let (name, ty) = (self.name, ty.base_name());
        if takes_its_form {
            let feature = format!("operator class \"{name}\" of a column of type {ty}");
            return Err(SqlError::unsupported(feature));
        }
        let message = format!("operator class \"{name}\" does not accept data type {ty}");
        Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message))
    }

    /// The default class of a type; `None` for a type that has none.
    pub fn default_of(ty: SqlType) -> Option<&'static OperatorClass> {
        let input = input_of(ty);
        CLASSES
            .iter()
            .find(|class| class.default && class.input == input)
    }

    /// The number of a column's class in a row of the catalog; 0 is its type's default.
    pub(super) fn number(class: Option<&OperatorClass>) -> u32 {
        let place = class.and_then(|class| NAMED.iter().position(|name| *name == class.name));
        place.map_or(0, |place| place as u32 + 1)
    }

    /// The class of a number; `None` for one that is none's.
    pub(super) fn numbered(number: u32) -> Option<Option<&'static OperatorClass>> {
        let Some(place) = number.checked_sub(1) else {
            return Some(None);
        };
        let name = NAMED.get(usize::try_from(place).ok()?)?;
        OperatorClass::called(name).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_keeps_the_class_that_is_not_its_types_default() {
        for name in NAMED {
            let class = OperatorClass::called(name).unwrap();
            assert!(!class.default, "{name}");
            let number = OperatorClass::number(Some(class));
            assert_eq!(OperatorClass::numbered(number), Some(Some(class)));
        }
        assert_eq!(OperatorClass::numbered(0), Some(None));
        assert_eq!(OperatorClass::numbered(5), None);
        let named = CLASSES.iter().filter(|class| !class.default).count();
        assert_eq!(named, NAMED.len());
    }
}
