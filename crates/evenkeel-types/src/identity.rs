//! Which type: oid and typmod, as `pg_type` and the wire have them.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::LazyLock;

use parking_lot::{Mutex, RwLock};

use crate::enums::EnumType;

/// Declared precision and scale of a `numeric(p, s)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NumericMod {
    /// Most significant decimal digits, 1 to 1000.
    pub precision: u16,
    /// Digits after the decimal point, -1000 to 1000.
    pub scale: i16,
}

/// Declared fields and digits of a second of an `interval`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IntervalMod {
    /// The fields, as PostgreSQL's `INTERVAL_MASK` numbers them.
    pub fields: u16,
    /// Digits of a second, 0 to 6.
    pub precision: Option<u8>,
}

impl IntervalMod {
    /// `year`
    pub const YEAR: u16 = 1 << 2;
    /// `month`
    pub const MONTH: u16 = 1 << 1;
    /// `day`
    pub const DAY: u16 = 1 << 3;
    /// `hour`
    pub const HOUR: u16 = 1 << 10;
    /// `minute`
    pub const MINUTE: u16 = 1 << 11;
    /// `second`
    pub const SECOND: u16 = 1 << 12;
    /// `year to month`
    pub const YEAR_TO_MONTH: u16 = Self::YEAR | Self::MONTH;
    /// `day to hour`
    pub const DAY_TO_HOUR: u16 = Self::DAY | Self::HOUR;
    /// `day to minute`
    pub const DAY_TO_MINUTE: u16 = Self::DAY_TO_HOUR | Self::MINUTE;
    /// `day to second`
    pub const DAY_TO_SECOND: u16 = Self::DAY_TO_MINUTE | Self::SECOND;
    /// `hour to minute`
    pub const HOUR_TO_MINUTE: u16 = Self::HOUR | Self::MINUTE;
    /// `hour to second`
    pub const HOUR_TO_SECOND: u16 = Self::HOUR_TO_MINUTE | Self::SECOND;
    /// `minute to second`
    pub const MINUTE_TO_SECOND: u16 = Self::MINUTE | Self::SECOND;
    /// All fields.
    pub const FULL: u16 = 0x7fff;

    /// The fields as they are declared, with a blank before them; `None` for bits that are no
    /// declaration.
    pub fn words(self) -> Option<&'static str> {
        Some(match self.fields {
            Self::YEAR => " year",
            Self::MONTH => " month",
            Self::DAY => " day",
            Self::HOUR => " hour",
            Self::MINUTE => " minute",
            Self::SECOND => " second",
            Self::YEAR_TO_MONTH => " year to month",
            Self::DAY_TO_HOUR => " day to hour",
            Self::DAY_TO_MINUTE => " day to minute",
            Self::DAY_TO_SECOND => " day to second",
            Self::HOUR_TO_MINUTE => " hour to minute",
            Self::HOUR_TO_SECOND => " hour to second",
            Self::MINUTE_TO_SECOND => " minute to second",
            Self::FULL => "",
            _ => return None,
        })
    }

    fn typmod(self) -> i32 {
        i32::from(self.fields & Self::FULL) << 16
            | self.precision.map_or(i32::from(u16::MAX), i32::from)
    }

    fn from_typmod(typmod: i32) -> Option<IntervalMod> {
        let fields = u16::try_from(typmod >> 16).ok()?;
        let precision = u8::try_from(typmod & i32::from(u16::MAX)).ok();
        let modifier = IntervalMod {
            fields,
            precision: precision.filter(|digits| *digits <= 6),
        };
        modifier.words().map(|_| modifier)
    }
}

/// The modifier of the elements of an array, as `pg_attribute.atttypmod` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ElementModifier(i32);

impl ElementModifier {
    /// No modifier.
    pub const NONE: ElementModifier = ElementModifier(-1);

    fn kept(typmod: i32) -> ElementModifier {
        ElementModifier(typmod.max(-1))
    }

    /// The element's type with it.
    pub fn on(self, element: SqlType) -> SqlType {
        match self {
            ElementModifier::NONE => element,
            ElementModifier(typmod) => SqlType::from_oid(element.oid(), typmod).unwrap_or(element),
        }
    }
}

/// A type with its modifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SqlType {
    /// `boolean`
    Bool,
    /// `smallint`
    Int2,
    /// `integer`
    Int4,
    /// `bigint`
    Int8,
    /// `real`
    Float4,
    /// `double precision`
    Float8,
    /// `numeric`, with or without precision and scale
    Numeric(Option<NumericMod>),
    /// `text`
    Text,
    /// `character varying(n)`, n in characters
    Varchar(Option<u32>),
    /// `character(n)`, n in characters; `None` is `bpchar` without a length
    Char(Option<u32>),
    /// `date`
    Date,
    /// `time(p) without time zone`, p in digits of a second
    Time(Option<u8>),
    /// `time(p) with time zone`
    Timetz(Option<u8>),
    /// `timestamp(p) without time zone`, p in digits of a second
    Timestamp(Option<u8>),
    /// `timestamp(p) with time zone`
    Timestamptz(Option<u8>),
    /// `interval`, with or without fields and digits of a second
    Interval(Option<IntervalMod>),
    /// `uuid`
    Uuid,
    /// `bytea`
    Bytea,
    /// `json`: text of JSON as it was given
    Json,
    /// `jsonb`: JSON taken apart
    Jsonb,
    /// `name`: an identifier of at most 63 bytes
    Name,
    /// `oid`
    Oid,
    /// `"char"`: one byte
    InternalChar,
    /// `regclass`: a relation's oid that reads as its name
    Regclass,
    /// `regtype`
    Regtype,
    /// `regproc`
    Regproc,
    /// `regprocedure`
    Regprocedure,
    /// `regoper`
    Regoper,
    /// `regoperator`
    Regoperator,
    /// `regnamespace`
    Regnamespace,
    /// `regrole`
    Regrole,
    /// `tid`: a row's place in its table
    Tid,
    /// `xid`: the last 32 bits of a transaction's number
    Xid,
    /// `cid`: the number of a command in its transaction
    Cid,
    /// `xid8`: a transaction's number
    Xid8,
    /// `int2vector`
    Int2Vector,
    /// `oidvector`
    OidVector,
    /// An array of values of this type, which has no modifier but this one
    Array(&'static SqlType, ElementModifier),
    /// An enumerated type
    Enum(&'static EnumType),
    /// A domain. No value, row or program has it: [`SqlType::storage`] is what they have.
    Domain(&'static DomainType),
    /// `record`: a row whose fields its value knows
    Record,
    /// A literal whose type is not known yet
    Unknown,
    /// Result type of a function without a result
    Void,
}

/// Bytes that PostgreSQL adds to lengths in typmods (its varlena header).
const TYPMOD_HEADER: i32 = 4;
/// Most characters of a `char(n)` or `varchar(n)`.
pub const MAX_CHAR_LENGTH: i32 = 10_485_760;

/// An element's type, and its array's oid, name and `typname`.
type ArrayRow = (SqlType, u32, &'static str, &'static str);

/// The array types of `pg_type`.
static ARRAYS: [ArrayRow; 38] = [
    (SqlType::Json, 199, "json[]", "_json"),
    (SqlType::Jsonb, 3807, "jsonb[]", "_jsonb"),
    (SqlType::Bool, 1000, "boolean[]", "_bool"),
    (SqlType::Bytea, 1001, "bytea[]", "_bytea"),
    (SqlType::InternalChar, 1002, "\"char\"[]", "_char"),
    (SqlType::Name, 1003, "name[]", "_name"),
    (SqlType::Int2, 1005, "smallint[]", "_int2"),
    (SqlType::Int2Vector, 1006, "int2vector[]", "_int2vector"),
    (SqlType::Int4, 1007, "integer[]", "_int4"),
    (SqlType::Tid, 1010, "tid[]", "_tid"),
    (SqlType::Xid, 1011, "xid[]", "_xid"),
    (SqlType::Cid, 1012, "cid[]", "_cid"),
    (SqlType::Xid8, 271, "xid8[]", "_xid8"),
    (SqlType::Regproc, 1008, "regproc[]", "_regproc"),
    (SqlType::Text, 1009, "text[]", "_text"),
    (SqlType::OidVector, 1013, "oidvector[]", "_oidvector"),
    (SqlType::Char(None), 1014, "character[]", "_bpchar"),
    (
        SqlType::Varchar(None),
        1015,
        "character varying[]",
        "_varchar",
    ),
    (SqlType::Int8, 1016, "bigint[]", "_int8"),
    (SqlType::Float4, 1021, "real[]", "_float4"),
    (SqlType::Float8, 1022, "double precision[]", "_float8"),
    (SqlType::Oid, 1028, "oid[]", "_oid"),
    (
        SqlType::Timestamp(None),
        1115,
        "timestamp without time zone[]",
        "_timestamp",
    ),
    (SqlType::Date, 1182, "date[]", "_date"),
    (
        SqlType::Time(None),
        1183,
        "time without time zone[]",
        "_time",
    ),
    (
        SqlType::Timetz(None),
        1270,
        "time with time zone[]",
        "_timetz",
    ),
    (
        SqlType::Timestamptz(None),
        1185,
        "timestamp with time zone[]",
        "_timestamptz",
    ),
    (SqlType::Interval(None), 1187, "interval[]", "_interval"),
    (SqlType::Numeric(None), 1231, "numeric[]", "_numeric"),
    (
        SqlType::Regprocedure,
        2207,
        "regprocedure[]",
        "_regprocedure",
    ),
    (SqlType::Regoper, 2208, "regoper[]", "_regoper"),
    (SqlType::Regoperator, 2209, "regoperator[]", "_regoperator"),
    (SqlType::Regclass, 2210, "regclass[]", "_regclass"),
    (SqlType::Regtype, 2211, "regtype[]", "_regtype"),
    (SqlType::Record, 2287, "record[]", "_record"),
    (SqlType::Uuid, 2951, "uuid[]", "_uuid"),
    (
        SqlType::Regnamespace,
        4090,
        "regnamespace[]",
        "_regnamespace",
    ),
    (SqlType::Regrole, 4097, "regrole[]", "_regrole"),
];

fn array_row(element: SqlType) -> Option<&'static ArrayRow> {
    let oid = element.oid();
    ARRAYS.iter().find(|row| row.0.oid() == oid)
}

/// The types that were created, as element types of their arrays: by oid and number of the
/// definition.
type KeptElements = LazyLock<Mutex<HashMap<(u32, u32), &'static SqlType>>>;

/// A type that was created as the element type of its arrays: one for each definition, which lives
/// as long.
fn kept(ty: CreatedType) -> &'static SqlType {
    static KEPT: KeptElements = LazyLock::new(Mutex::default);
    let mut kept = KEPT.lock();
    kept.entry((ty.oid(), ty.number()))
        .or_insert_with(|| Box::leak(Box::new(ty.ty())))
}

/// A type that a statement created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CreatedType {
    /// An enumerated type
    Enum(&'static EnumType),
    /// A domain
    Domain(&'static DomainType),
}

impl CreatedType {
    /// The type.
    pub fn ty(self) -> SqlType {
        match self {
            CreatedType::Enum(of) => SqlType::Enum(of),
            CreatedType::Domain(of) => SqlType::Domain(of),
        }
    }

    /// `pg_type.oid`
    pub fn oid(self) -> u32 {
        self.ty().oid()
    }

    /// The number of its definition.
    pub fn number(self) -> u32 {
        match self {
            CreatedType::Enum(of) => of.number(),
            CreatedType::Domain(of) => of.number(),
        }
    }

    /// Whether this is its name, which is not quoted.
    pub fn is_called(self, name: &str) -> bool {
        match self {
            CreatedType::Enum(of) => of.is_called(name),
            CreatedType::Domain(of) => of.is_called(name),
        }
    }
}

impl SqlType {
    /// `text[]`
    pub const TEXT_ARRAY: SqlType = SqlType::array(&SqlType::Text);

    /// Arrays of a type, without modifier.
    pub const fn array(element: &'static SqlType) -> SqlType {
        SqlType::Array(element, ElementModifier::NONE)
    }

    /// The type of arrays of this type, whatever its modifier; `None` where there is none.
    pub fn array_of(self) -> Option<SqlType> {
        match self {
            SqlType::Array(..) => None,
            SqlType::Enum(ty) => Some(SqlType::array(kept(CreatedType::Enum(ty)))),
            // An array's elements are no arrays.
            SqlType::Domain(ty) => ty
                .root()
                .array_of()
                .map(|_| SqlType::array(kept(CreatedType::Domain(ty)))),
            element => array_row(element).map(|row| SqlType::array(&row.0)),
        }
    }

    /// The type of arrays whose elements are of this type with its modifier; an array's own.
    pub fn arrays_with_its_modifier(self) -> Option<SqlType> {
        match (self, self.array_of()) {
            (SqlType::Array(..), _) => Some(self),
            (_, Some(SqlType::Array(element, _))) => Some(SqlType::Array(
                element,
                ElementModifier::kept(self.typmod()),
            )),
            _ => None,
        }
    }

    /// The type of an array's or vector's elements; `None` for a type that is neither.
    pub fn element(self) -> Option<SqlType> {
        match self {
            SqlType::Array(element, modifier) => Some(modifier.on(*element)),
            SqlType::Int2Vector => Some(SqlType::Int2),
            SqlType::OidVector => Some(SqlType::Oid),
            SqlType::Domain(of) => of.parts().base.element(),
            _ => None,
        }
    }

    /// The type that values have: of a domain, and of arrays of one, the type that it is over.
    #[must_use]
    pub fn storage(self) -> SqlType {
        match self {
            SqlType::Domain(of) => of.root(),
            SqlType::Array(SqlType::Domain(of), _) => {
                of.root().arrays_with_its_modifier().unwrap_or(self)
            }
            other => other,
        }
    }

    /// The type that this is over if it is a domain: of arrays of domains, this itself.
    #[must_use]
    pub fn base(self) -> SqlType {
        match self {
            SqlType::Domain(of) => of.parts().base.base(),
            other => other,
        }
    }

    /// Whether this is a domain, or its arrays' type.
    pub fn is_of_domain(self) -> bool {
        self.domain().is_some()
    }

    /// The domain that this is, or whose arrays this is of.
    pub fn domain(self) -> Option<&'static DomainType> {
        match self {
            SqlType::Domain(of) => Some(of),
            SqlType::Array(SqlType::Domain(of), _) => Some(*of),
            _ => None,
        }
    }

    /// Whether this is a domain, or arrays of one, that does not allow every value.
    pub fn is_constrained(self) -> bool {
        self.domain().is_some_and(DomainType::is_constrained)
    }

    /// The type created by a statement that this is, or whose arrays this is of.
    pub fn created(self) -> Option<CreatedType> {
        match self {
            SqlType::Enum(of) => Some(CreatedType::Enum(of)),
            SqlType::Domain(of) => Some(CreatedType::Domain(of)),
            SqlType::Array(element, _) => element.created(),
            _ => None,
        }
    }

    /// The enumerated type that this is, or whose arrays this is of.
    pub fn enumerated(self) -> Option<&'static EnumType> {
        match self {
            SqlType::Enum(of) => Some(of),
            SqlType::Array(SqlType::Enum(of), _) => Some(*of),
            _ => None,
        }
    }

    /// The type without its modifier.
    #[must_use]
    pub fn without_modifier(self) -> SqlType {
        match self {
            SqlType::Numeric(_) => SqlType::Numeric(None),
            SqlType::Varchar(_) => SqlType::Varchar(None),
            SqlType::Char(_) => SqlType::Char(None),
            SqlType::Time(_) => SqlType::Time(None),
            SqlType::Timetz(_) => SqlType::Timetz(None),
            SqlType::Timestamp(_) => SqlType::Timestamp(None),
            SqlType::Timestamptz(_) => SqlType::Timestamptz(None),
            SqlType::Interval(_) => SqlType::Interval(None),
            SqlType::Array(element, _) => SqlType::array(element),
            other => other,
        }
    }

    /// Whether values are arrays that print as numbers with blanks between them.
    pub fn is_vector(self) -> bool {
        matches!(self, SqlType::Int2Vector | SqlType::OidVector)
    }

    /// The types of all arrays.
    pub fn arrays() -> impl Iterator<Item = SqlType> {
        ARRAYS.iter().map(|row| SqlType::array(&row.0))
    }

    /// The type's oid in `pg_type`.
    pub fn oid(self) -> u32 {
        match self {
            SqlType::Bool => 16,
            SqlType::Bytea => 17,
            SqlType::InternalChar => 18,
            SqlType::Name => 19,
            SqlType::Int8 => 20,
            SqlType::Int2 => 21,
            SqlType::Int2Vector => 22,
            SqlType::Int4 => 23,
            SqlType::Regproc => 24,
            SqlType::Text => 25,
            SqlType::Oid => 26,
            SqlType::Tid => 27,
            SqlType::Xid => 28,
            SqlType::Cid => 29,
            SqlType::Xid8 => 5069,
            SqlType::OidVector => 30,
            SqlType::Float4 => 700,
            SqlType::Float8 => 701,
            SqlType::Unknown => 705,
            SqlType::Array(SqlType::Enum(ty), _) => ty.array_oid(),
            SqlType::Array(SqlType::Domain(ty), _) => ty.parts().array_oid,
            SqlType::Domain(ty) => ty.oid(),
            SqlType::Array(element, _) => array_row(*element).map_or(0, |row| row.1),
            SqlType::Enum(ty) => ty.oid(),
            SqlType::Record => 2249,
            SqlType::Char(_) => 1042,
            SqlType::Varchar(_) => 1043,
            SqlType::Date => 1082,
            SqlType::Time(_) => 1083,
            SqlType::Timetz(_) => 1266,
            SqlType::Timestamp(_) => 1114,
            SqlType::Timestamptz(_) => 1184,
            SqlType::Interval(_) => 1186,
            SqlType::Numeric(_) => 1700,
            SqlType::Regclass => 2205,
            SqlType::Regtype => 2206,
            SqlType::Regprocedure => 2202,
            SqlType::Regoper => 2203,
            SqlType::Regoperator => 2204,
            SqlType::Regnamespace => 4089,
            SqlType::Regrole => 4096,
            SqlType::Void => 2278,
            SqlType::Uuid => 2950,
            SqlType::Json => 114,
            SqlType::Jsonb => 3802,
        }
    }

    /// The modifier as PostgreSQL packs it; -1 when there is none.
    pub fn typmod(self) -> i32 {
        match self {
            SqlType::Numeric(Some(m)) => {
                ((i32::from(m.precision) << 16) | (i32::from(m.scale) & 0x7ff)) + TYPMOD_HEADER
            }
            SqlType::Varchar(Some(n)) | SqlType::Char(Some(n)) => {
                i32::try_from(n).unwrap_or(MAX_CHAR_LENGTH) + TYPMOD_HEADER
            }
            SqlType::Time(Some(p))
            | SqlType::Timetz(Some(p))
            | SqlType::Timestamp(Some(p))
            | SqlType::Timestamptz(Some(p)) => i32::from(p),
            SqlType::Interval(Some(modifier)) => modifier.typmod(),
            SqlType::Array(_, modifier) => modifier.0,
            _ => -1,
        }
    }

    /// The type for an oid and a modifier; `None` for an oid that is not one of ours.
    pub fn from_oid(oid: u32, typmod: i32) -> Option<SqlType> {
        let length = (typmod > TYPMOD_HEADER && typmod - TYPMOD_HEADER <= MAX_CHAR_LENGTH)
            .then(|| (typmod - TYPMOD_HEADER).unsigned_abs());
        let seconds_digits = u8::try_from(typmod).ok().filter(|p| *p <= 6);
        Some(match oid {
            16 => SqlType::Bool,
            17 => SqlType::Bytea,
            18 => SqlType::InternalChar,
            19 => SqlType::Name,
            20 => SqlType::Int8,
            21 => SqlType::Int2,
            22 => SqlType::Int2Vector,
            23 => SqlType::Int4,
            24 => SqlType::Regproc,
            25 => SqlType::Text,
            26 => SqlType::Oid,
            27 => SqlType::Tid,
            28 => SqlType::Xid,
            29 => SqlType::Cid,
            5069 => SqlType::Xid8,
            30 => SqlType::OidVector,
            700 => SqlType::Float4,
            701 => SqlType::Float8,
            705 => SqlType::Unknown,
            1042 => SqlType::Char(length),
            1043 => SqlType::Varchar(length),
            1082 => SqlType::Date,
            1083 => SqlType::Time(seconds_digits),
            1266 => SqlType::Timetz(seconds_digits),
            1114 => SqlType::Timestamp(seconds_digits),
            1184 => SqlType::Timestamptz(seconds_digits),
            1186 => SqlType::Interval(IntervalMod::from_typmod(typmod)),
            1700 => SqlType::Numeric(numeric_mod(typmod)),
            2205 => SqlType::Regclass,
            2206 => SqlType::Regtype,
            2202 => SqlType::Regprocedure,
            2203 => SqlType::Regoper,
            2204 => SqlType::Regoperator,
            4089 => SqlType::Regnamespace,
            4096 => SqlType::Regrole,
            2249 => SqlType::Record,
            2278 => SqlType::Void,
            2950 => SqlType::Uuid,
            114 => SqlType::Json,
            3802 => SqlType::Jsonb,
            _ => {
                return ARRAYS
                    .iter()
                    .find(|row| row.1 == oid)
                    .map(|row| SqlType::Array(&row.0, ElementModifier::kept(typmod)));
            }
        })
    }

    /// `typlen`: bytes of the value, or -1 for a variable length.
    pub fn wire_len(self) -> i16 {
        match self {
            SqlType::Bool | SqlType::InternalChar => 1,
            SqlType::Int2 => 2,
            SqlType::Int4
            | SqlType::Float4
            | SqlType::Date
            | SqlType::Void
            | SqlType::Enum(_)
            | SqlType::Xid
            | SqlType::Cid => 4,
            SqlType::Tid => 6,
            _ if self.is_oid() => 4,
            SqlType::Int8
            | SqlType::Xid8
            | SqlType::Float8
            | SqlType::Time(_)
            | SqlType::Timestamp(_)
            | SqlType::Timestamptz(_) => 8,
            SqlType::Timetz(_) => 12,
            SqlType::Interval(_) | SqlType::Uuid => 16,
            SqlType::Name => 64,
            SqlType::Unknown => -2,
            SqlType::Domain(of) => of.root().wire_len(),
            _ => -1,
        }
    }

    /// The name without modifier, as in PostgreSQL's messages (`character varying`).
    pub fn base_name(self) -> &'static str {
        match self {
            SqlType::Bool => "boolean",
            SqlType::Int2 => "smallint",
            SqlType::Int4 => "integer",
            SqlType::Int8 => "bigint",
            SqlType::Float4 => "real",
            SqlType::Float8 => "double precision",
            SqlType::Numeric(_) => "numeric",
            SqlType::Text => "text",
            SqlType::Varchar(_) => "character varying",
            SqlType::Char(_) => "character",
            SqlType::Date => "date",
            SqlType::Time(_) => "time without time zone",
            SqlType::Timetz(_) => "time with time zone",
            SqlType::Timestamp(_) => "timestamp without time zone",
            SqlType::Timestamptz(_) => "timestamp with time zone",
            SqlType::Interval(_) => "interval",
            SqlType::Uuid => "uuid",
            SqlType::Json => "json",
            SqlType::Jsonb => "jsonb",
            SqlType::Bytea => "bytea",
            SqlType::Name => "name",
            SqlType::Oid => "oid",
            SqlType::InternalChar => "\"char\"",
            SqlType::Regclass => "regclass",
            SqlType::Regtype => "regtype",
            SqlType::Regproc => "regproc",
            SqlType::Regprocedure => "regprocedure",
            SqlType::Regoper => "regoper",
            SqlType::Regoperator => "regoperator",
            SqlType::Regnamespace => "regnamespace",
            SqlType::Regrole => "regrole",
            SqlType::Tid => "tid",
            SqlType::Xid => "xid",
            SqlType::Cid => "cid",
            SqlType::Xid8 => "xid8",
            SqlType::Int2Vector => "int2vector",
            SqlType::OidVector => "oidvector",
            SqlType::Array(SqlType::Enum(ty), _) => ty.array_name(),
            SqlType::Array(SqlType::Domain(ty), _) => &ty.parts().array_name,
            SqlType::Array(element, _) => array_row(*element).map_or("anyarray", |row| row.2),
            SqlType::Enum(ty) => ty.name(),
            SqlType::Domain(ty) => ty.name(),
            SqlType::Record => "record",
            SqlType::Unknown => "unknown",
            SqlType::Void => "void",
        }
    }

    /// `typname` in `pg_type` (`int4`, `bpchar`, …).
    pub fn type_name(self) -> &'static str {
        match self {
            SqlType::Bool => "bool",
            SqlType::Int2 => "int2",
            SqlType::Int4 => "int4",
            SqlType::Int8 => "int8",
            SqlType::Float4 => "float4",
            SqlType::Float8 => "float8",
            SqlType::Varchar(_) => "varchar",
            SqlType::Char(_) => "bpchar",
            SqlType::Time(_) => "time",
            SqlType::Timetz(_) => "timetz",
            SqlType::Timestamp(_) => "timestamp",
            SqlType::Timestamptz(_) => "timestamptz",
            SqlType::InternalChar => "char",
            SqlType::Array(SqlType::Enum(ty), _) => ty.array_name(),
            SqlType::Array(SqlType::Domain(ty), _) => &ty.parts().array_name,
            SqlType::Array(element, _) => array_row(*element).map_or("anyarray", |row| row.3),
            other => other.base_name(),
        }
    }

    /// The name with modifier, as `format_type` gives it.
    pub fn name(self) -> String {
        match self {
            SqlType::Numeric(Some(m)) => format!("numeric({},{})", m.precision, m.scale),
            SqlType::Varchar(Some(n)) => format!("character varying({n})"),
            SqlType::Char(Some(n)) => format!("character({n})"),
            SqlType::Char(None) => "bpchar".to_owned(),
            SqlType::Time(Some(p)) => format!("time({p}) without time zone"),
            SqlType::Timetz(Some(p)) => format!("time({p}) with time zone"),
            SqlType::Interval(Some(modifier)) => {
                let fields = modifier.words().unwrap_or_default();
                match modifier.precision {
                    Some(digits) => format!("interval{fields}({digits})"),
                    None => format!("interval{fields}"),
                }
            }
            SqlType::Timestamp(Some(p)) => format!("timestamp({p}) without time zone"),
            SqlType::Timestamptz(Some(p)) => format!("timestamp({p}) with time zone"),
            SqlType::Array(element, modifier) if modifier != ElementModifier::NONE => {
                format!("{}[]", modifier.on(*element).name())
            }
            other => other.base_name().to_owned(),
        }
    }

    /// Whether values are character strings.
    pub fn is_string(self) -> bool {
        matches!(
            self,
            SqlType::Text
                | SqlType::Varchar(_)
                | SqlType::Char(_)
                | SqlType::Name
                | SqlType::InternalChar
                | SqlType::Unknown
        )
    }

    /// Whether values are numbers.
    pub fn is_number(self) -> bool {
        matches!(
            self,
            SqlType::Int2
                | SqlType::Int4
                | SqlType::Int8
                | SqlType::Float4
                | SqlType::Float8
                | SqlType::Numeric(_)
        )
    }

    /// Whether a value is an object id.
    pub fn is_oid(self) -> bool {
        self == SqlType::Oid || self.is_named_oid()
    }

    /// Whether values, or their elements, are oids that read as names.
    pub fn has_names(self) -> bool {
        self.is_named_oid() || self.element().is_some_and(SqlType::is_named_oid)
    }

    /// Whether a value is an object id that reads as the object's name.
    pub fn is_named_oid(self) -> bool {
        matches!(
            self,
            SqlType::Regclass
                | SqlType::Regtype
                | SqlType::Regproc
                | SqlType::Regprocedure
                | SqlType::Regoper
                | SqlType::Regoperator
                | SqlType::Regnamespace
                | SqlType::Regrole
        )
    }

    /// Whether a table may have a column of this type.
    pub fn is_storable(self) -> bool {
        match self {
            SqlType::Unknown | SqlType::Void | SqlType::Record => false,
            SqlType::Array(element, _) => element.is_storable(),
            _ => true,
        }
    }

    /// All types that the catalog's `pg_type` lists.
    pub fn all() -> &'static [SqlType] {
        &[
            SqlType::Bool,
            SqlType::Bytea,
            SqlType::InternalChar,
            SqlType::Name,
            SqlType::Int8,
            SqlType::Int2,
            SqlType::Int2Vector,
            SqlType::Int4,
            SqlType::Regproc,
            SqlType::Text,
            SqlType::Oid,
            SqlType::OidVector,
            SqlType::Tid,
            SqlType::Xid,
            SqlType::Cid,
            SqlType::Xid8,
            SqlType::Float4,
            SqlType::Float8,
            SqlType::Unknown,
            SqlType::TEXT_ARRAY,
            SqlType::Char(None),
            SqlType::Varchar(None),
            SqlType::Date,
            SqlType::Time(None),
            SqlType::Timestamp(None),
            SqlType::Timestamptz(None),
            SqlType::Interval(None),
            SqlType::Timetz(None),
            SqlType::Numeric(None),
            SqlType::Regclass,
            SqlType::Regtype,
            SqlType::Regprocedure,
            SqlType::Regoper,
            SqlType::Regoperator,
            SqlType::Regnamespace,
            SqlType::Regrole,
            SqlType::Void,
            SqlType::Uuid,
            SqlType::Json,
            SqlType::Jsonb,
        ]
    }
}

/// PostgreSQL keeps the scale in 11 bits, as a signed number.
fn numeric_mod(typmod: i32) -> Option<NumericMod> {
    if typmod < TYPMOD_HEADER {
        return None;
    }
    let packed = typmod - TYPMOD_HEADER;
    let precision = u16::try_from((packed >> 16) & 0xffff).ok()?;
    let scale = i16::try_from(((packed & 0x7ff) ^ 1024) - 1024).ok()?;
    (precision > 0).then_some(NumericMod { precision, scale })
}

/// A CHECK constraint of a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainCheck {
    /// Its name.
    pub name: Box<str>,
    /// The condition over `VALUE`, as SQL text with every cast.
    pub text: Box<str>,
}

/// The parts of a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainParts {
    /// `pg_type.oid`
    pub oid: u32,
    /// The oid of the type of its arrays.
    pub array_oid: u32,
    /// Its name as messages have it, quoted where it has to be.
    pub name: Box<str>,
    /// The name of the type of its arrays, the same way.
    pub array_name: Box<str>,
    /// Its schema.
    pub schema: Box<str>,
    /// The type that it is over, with its modifier; it may be a domain.
    pub base: SqlType,
    /// Definition of the type that it is over: another one makes another domain.
    pub base_definition: Option<u32>,
    /// Whether it allows no NULL.
    pub not_null: bool,
    /// DEFAULT, as SQL text.
    pub default: Option<Box<str>>,
    /// Its own CHECK constraints, in the order in which they are checked.
    pub checks: Vec<DomainCheck>,
}

/// The definition of a domain. One that changes is another definition of the same oid.
pub struct DomainType {
    parts: DomainParts,
    number: u32,
}

/// The domains that there were in this process, by oid.
static DOMAINS: LazyLock<RwLock<HashMap<u32, Vec<&'static DomainType>>>> =
    LazyLock::new(RwLock::default);

impl DomainType {
    /// The domain of these parts, the same for the same parts. They are few, and none is freed:
    /// types are copied into plans everywhere.
    pub fn define(parts: DomainParts) -> &'static DomainType {
        let mut definitions = DOMAINS.write();
        let known = definitions.entry(parts.oid).or_default();
        if let Some(known) = known.iter().copied().find(|known| known.parts == parts) {
            return known;
        }
        let number = u32::try_from(known.len()).unwrap_or(u32::MAX);
        let made: &'static DomainType = Box::leak(Box::new(DomainType { parts, number }));
        known.push(made);
        made
    }

    /// Tells a definition from the others of its oid.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Its parts.
    pub fn parts(&self) -> &DomainParts {
        &self.parts
    }

    /// `pg_type.oid`
    pub fn oid(&self) -> u32 {
        self.parts.oid
    }

    /// Its name as messages have it.
    pub fn name(&'static self) -> &'static str {
        &self.parts.name
    }

    /// Its name without quotes.
    pub fn bare_name(&self) -> String {
        let quoted = self.parts.name.strip_prefix('"');
        match quoted.and_then(|rest| rest.strip_suffix('"')) {
            Some(within) => within.replace("\"\"", "\""),
            None => self.parts.name.to_string(),
        }
    }

    /// Whether this is its name, which is not quoted.
    pub fn is_called(&self, name: &str) -> bool {
        self.bare_name() == name
    }

    /// The domains that a value of this one must satisfy: this one last.
    pub fn chain(&'static self) -> Vec<&'static DomainType> {
        let mut chain = vec![self];
        let mut base = self.parts.base;
        while let SqlType::Domain(of) = base {
            chain.push(of);
            base = of.parts.base;
        }
        chain.reverse();
        chain
    }

    /// The type that has its values, with its modifier: no domain.
    pub fn root(&self) -> SqlType {
        self.parts.base.storage()
    }

    /// The DEFAULT of the domain, or of the one that it is over.
    pub fn default(&'static self) -> Option<&'static str> {
        self.parts.default.as_deref()
    }

    /// Whether it refuses any value of its type.
    pub fn is_constrained(&'static self) -> bool {
        let says = |of: &&DomainType| of.parts.not_null || !of.parts.checks.is_empty();
        self.chain().iter().any(says)
    }
}

impl PartialEq for DomainType {
    fn eq(&self, other: &DomainType) -> bool {
        self.parts.oid == other.parts.oid
    }
}

impl Eq for DomainType {}

impl Hash for DomainType {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts.oid.hash(state);
    }
}

impl fmt::Debug for DomainType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.parts.name, self.parts.oid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(fields: u16, precision: Option<u8>) -> SqlType {
        SqlType::Interval(Some(IntervalMod { fields, precision }))
    }

    #[test]
    fn oid_and_typmod_identify_a_type() {
        let with_modifiers = [
            SqlType::Numeric(Some(NumericMod {
                precision: 10,
                scale: 2,
            })),
            SqlType::Numeric(Some(NumericMod {
                precision: 5,
                scale: -3,
            })),
            SqlType::Numeric(Some(NumericMod {
                precision: 1000,
                scale: 1000,
            })),
            SqlType::Varchar(Some(10)),
            SqlType::Char(Some(84)),
            SqlType::Timestamp(Some(0)),
            SqlType::Timestamptz(Some(3)),
            SqlType::Time(Some(0)),
            SqlType::Timetz(Some(6)),
            interval(IntervalMod::DAY_TO_SECOND, Some(2)),
            interval(IntervalMod::YEAR, None),
            interval(IntervalMod::FULL, Some(0)),
        ];
        let arrays: Vec<SqlType> = SqlType::arrays().collect();
        for ty in SqlType::all().iter().chain(&with_modifiers).chain(&arrays) {
            assert_eq!(SqlType::from_oid(ty.oid(), ty.typmod()), Some(*ty));
        }
        for array in arrays {
            let element = array.element().unwrap();
            assert_eq!(element.array_of(), Some(array));
            assert_eq!(SqlType::from_oid(element.oid(), -1), Some(element));
        }
        assert_eq!(
            SqlType::Numeric(None).array_of(),
            with_modifiers[0].array_of()
        );
    }

    #[test]
    fn names_are_those_of_format_type() {
        let numeric = SqlType::Numeric(Some(NumericMod {
            precision: 10,
            scale: 2,
        }));
        assert_eq!(numeric.name(), "numeric(10,2)");
        assert_eq!(SqlType::Char(Some(1)).name(), "character(1)");
        assert_eq!(
            SqlType::Timestamptz(Some(3)).name(),
            "timestamp(3) with time zone"
        );
        assert_eq!(SqlType::Varchar(None).name(), "character varying");
        assert_eq!(SqlType::Time(Some(3)).name(), "time(3) without time zone");
        let fields = interval(IntervalMod::DAY_TO_SECOND, Some(2));
        assert_eq!(fields.name(), "interval day to second(2)");
        assert_eq!(fields.typmod(), 470_286_338);
        assert_eq!(numeric.typmod(), 655_366);
    }

    fn over(oid: u32, base: SqlType, default: Option<&str>) -> &'static DomainType {
        DomainType::define(DomainParts {
            oid,
            array_oid: oid + 1,
            name: "\"Dom\"".into(),
            array_name: "\"Dom\"[]".into(),
            schema: "public".into(),
            base,
            base_definition: None,
            not_null: false,
            default: default.map(Into::into),
            checks: Vec::new(),
        })
    }

    #[test]
    fn a_definition_of_a_domain_is_made_once_and_another_of_its_oid_is_the_same_type() {
        let first = over(70_001, SqlType::Varchar(Some(3)), None);
        let other = over(70_001, SqlType::Varchar(Some(3)), Some("'a'"));
        assert_eq!(first, other);
        assert_ne!(first.number(), other.number());
        assert_eq!(
            first.number(),
            over(70_001, SqlType::Varchar(Some(3)), None).number()
        );
        assert!(first.is_called("Dom"));
    }

    #[test]
    fn a_domain_is_stored_as_the_type_that_it_is_over() {
        let inner = over(70_011, SqlType::Varchar(Some(3)), None);
        let outer = over(70_013, SqlType::Domain(inner), None);
        let ty = SqlType::Domain(outer);
        assert_eq!(ty.storage(), SqlType::Varchar(Some(3)));
        assert_eq!(ty.oid(), 70_013);
        let arrays = ty.array_of().unwrap();
        assert_eq!(arrays.oid(), 70_014);
        assert_eq!(arrays.element(), Some(ty));
        assert_eq!(arrays.storage().name(), "character varying(3)[]");
        assert_eq!(arrays.name(), "\"Dom\"[]");
        assert_eq!(outer.chain(), [inner, outer]);
        let of_arrays = over(70_015, SqlType::array(&SqlType::Int4), None);
        assert_eq!(SqlType::Domain(of_arrays).array_of(), None);
    }
}
