//! The errors of expressions, by PostgreSQL's codes.

use evenkeel_types::{SqlState, TypeError, TypeResult};

/// Result of everything here that can fail.
pub type ExprResult<T> = TypeResult<T>;

macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident = $state:ident;)*) => {
        $($(#[$doc])*
        pub(crate) fn $name(message: impl Into<String>) -> TypeError {
            TypeError::new(SqlState::$state, message)
        })*
    };
}

errors! {
    /// Not implemented.
    unsupported = FEATURE_NOT_SUPPORTED;
    /// A number does not fit its type.
    out_of_range = NUMERIC_VALUE_OUT_OF_RANGE;
    /// NULL where there must be a value.
    null = NULL_VALUE_NOT_ALLOWED;
    /// A date or time that does not exist.
    datetime_format = INVALID_DATETIME_FORMAT;
    /// A date or time out of range.
    datetime_overflow = DATETIME_FIELD_OVERFLOW;
    /// A logarithm of what has none.
    logarithm = INVALID_ARGUMENT_FOR_LOGARITHM;
    /// A power that does not exist.
    power = INVALID_ARGUMENT_FOR_POWER;
    /// No bucket for these bounds.
    width_bucket = INVALID_ARGUMENT_FOR_WIDTH_BUCKET;
    /// An argument that makes no sense.
    parameter = INVALID_PARAMETER_VALUE;
    /// A text form that a type does not accept.
    text_representation = INVALID_TEXT_REPRESENTATION;
    /// A regular expression that does not parse.
    regular_expression = INVALID_REGULAR_EXPRESSION;
    /// An escape of more than one character, or without one behind it.
    escape = INVALID_ESCAPE_SEQUENCE;
    /// An escape at a place where there is none.
    escape_use = INVALID_USE_OF_ESCAPE_CHARACTER;
    /// Syntax.
    syntax = SYNTAX_ERROR;
    /// A value that would be too large.
    too_large = PROGRAM_LIMIT_EXCEEDED;
    /// A substring of negative length.
    substring = SUBSTRING_ERROR;
    /// A subscript out of range.
    subscript = ARRAY_SUBSCRIPT_ERROR;
    /// A state that the binder excludes.
    internal = INTERNAL_ERROR;
}

/// 54001
pub(crate) fn too_complex() -> TypeError {
    TypeError::new(
        SqlState::STATEMENT_TOO_COMPLEX,
        "stack depth limit exceeded",
    )
}

/// 22012
pub(crate) fn division_by_zero() -> TypeError {
    TypeError::new(SqlState::DIVISION_BY_ZERO, "division by zero")
}
