//! SQL/JSON: the predicate `IS JSON` and the constructors.

use super::{Expr, Pos, Query, TypeName};

/// Kind of JSON that `IS JSON` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonItem {
    /// `IS JSON [VALUE]`
    Value,
    /// `IS JSON ARRAY`
    Array,
    /// `IS JSON OBJECT`
    Object,
    /// `IS JSON SCALAR`
    Scalar,
}

/// `FORMAT JSON [ENCODING name]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonFormat {
    /// The encoding, in lower case.
    pub encoding: Option<String>,
    /// Where it begins.
    pub at: Pos,
}

/// `value [FORMAT JSON]`
#[derive(Debug, Clone, PartialEq)]
pub struct JsonInput {
    /// The value.
    pub value: Expr,
    /// Its format, if given.
    pub format: Option<JsonFormat>,
}

/// `RETURNING type [FORMAT JSON]`
#[derive(Debug, Clone, PartialEq)]
pub struct JsonOutput {
    /// The type.
    pub ty: TypeName,
    /// Its format, if given.
    pub format: Option<JsonFormat>,
}

/// A constructor of JSON.
#[derive(Debug, Clone, PartialEq)]
pub enum JsonConstructor {
    /// `JSON (value [WITH UNIQUE KEYS])`
    Parse { value: JsonInput, unique: bool },
    /// `JSON_SCALAR (value)`
    Scalar(Expr),
    /// `JSON_SERIALIZE (value [RETURNING type])`
    Serialize {
        value: JsonInput,
        returning: Option<JsonOutput>,
    },
    /// `JSON_OBJECT (name : value, …)`
    Object {
        members: Vec<(Expr, JsonInput)>,
        /// Members whose value is NULL are left out.
        absent: bool,
        /// No name may come twice.
        unique: bool,
        returning: Option<JsonOutput>,
    },
    /// `JSON_ARRAY (value, …)`
    Array {
        items: Vec<JsonInput>,
        /// Elements that are NULL are left out.
        absent: bool,
        returning: Option<JsonOutput>,
    },
    /// `JSON_ARRAY (query)`
    ArrayOf {
        query: Box<Query>,
        format: Option<JsonFormat>,
        returning: Option<JsonOutput>,
    },
}
