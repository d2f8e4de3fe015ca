//! The error of values and types: PostgreSQL's SQLSTATE, message, detail and hint.

use std::fmt;

/// Result of everything in this crate that can fail.
pub type TypeResult<T> = Result<T, TypeError>;

/// A five-character SQLSTATE.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SqlState(pub &'static str);

macro_rules! states {
    ($($(#[$doc:meta])* $name:ident = $code:literal;)*) => {
        /// The codes of PostgreSQL's `errcodes.txt` that this engine reports.
        impl SqlState {
            $($(#[$doc])* pub const $name: SqlState = SqlState($code);)*

            /// The constant for `code`, or `INTERNAL_ERROR` when it is not one of ours.
            pub fn from_code(code: &str) -> SqlState {
                match code {
                    $($code => SqlState::$name,)*
                    _ => SqlState::INTERNAL_ERROR,
                }
            }
        }
    };
}

states! {
    /// No error: the code of notices.
    SUCCESS = "00000";
    /// A warning without a code of its own.
    WARNING = "01000";
    /// Protocol violation by the client.
    PROTOCOL_VIOLATION = "08P01";
    /// SQL that this engine does not implement.
    FEATURE_NOT_SUPPORTED = "0A000";
    /// A subquery used as a value returned more than one row.
    CARDINALITY_VIOLATION = "21000";
    /// A string is longer than its type allows.
    STRING_DATA_RIGHT_TRUNCATION = "22001";
    /// A number does not fit its type.
    NUMERIC_VALUE_OUT_OF_RANGE = "22003";
    /// A value that an operation cannot take.
    DATA_EXCEPTION = "22000";
    /// NULL where there must be a value.
    NULL_VALUE_NOT_ALLOWED = "22004";
    /// A date or time that does not exist.
    INVALID_DATETIME_FORMAT = "22007";
    /// A date or time field out of range.
    DATETIME_FIELD_OVERFLOW = "22008";
    /// A field of an interval out of range.
    INTERVAL_FIELD_OVERFLOW = "22015";
    /// An offset of a zone out of range.
    INVALID_TIME_ZONE_DISPLACEMENT = "22009";
    /// A substring of a negative length.
    SUBSTRING_ERROR = "22011";
    /// A window frame with a negative or NULL offset.
    INVALID_PRECEDING_OR_FOLLOWING_SIZE = "22013";
    /// `ntile` of no buckets.
    INVALID_ARGUMENT_FOR_NTILE = "22014";
    /// `nth_value` of no row.
    INVALID_ARGUMENT_FOR_NTH_VALUE = "22016";
    /// An escape that is longer than a character.
    INVALID_ESCAPE_CHARACTER = "22019";
    /// An escape sequence that is not one.
    INVALID_ESCAPE_SEQUENCE = "22025";
    /// An escape at a place where there is none.
    INVALID_USE_OF_ESCAPE_CHARACTER = "2200C";
    /// A subscript, bound or number of dimensions that the array cannot have.
    ARRAY_SUBSCRIPT_ERROR = "2202E";
    /// Division by zero.
    DIVISION_BY_ZERO = "22012";
    /// A function argument that makes no sense.
    INVALID_PARAMETER_VALUE = "22023";
    /// No logarithm of that number.
    INVALID_ARGUMENT_FOR_LOGARITHM = "2201E";
    /// No power of that number.
    INVALID_ARGUMENT_FOR_POWER = "2201F";
    /// No bucket for these bounds.
    INVALID_ARGUMENT_FOR_WIDTH_BUCKET = "2201G";
    /// LIMIT with a negative number.
    INVALID_ROW_COUNT_IN_LIMIT = "2201W";
    /// OFFSET with a negative number.
    INVALID_ROW_COUNT_IN_OFFSET = "2201X";
    /// A text that is not valid UTF-8.
    CHARACTER_NOT_IN_REPERTOIRE = "22021";
    /// A character that another encoding has not.
    UNTRANSLATABLE_CHARACTER = "22P05";
    /// A name that an object of JSON has twice.
    DUPLICATE_JSON_OBJECT_KEY_VALUE = "22030";
    /// A text form that the type does not accept.
    INVALID_TEXT_REPRESENTATION = "22P02";
    /// A binary form that the type does not accept.
    INVALID_BINARY_REPRESENTATION = "22P03";
    /// A line of COPY data that is not well formed.
    BAD_COPY_FILE_FORMAT = "22P04";
    /// A regular expression that does not parse.
    INVALID_REGULAR_EXPRESSION = "2201B";
    /// NULL in a NOT NULL column.
    NOT_NULL_VIOLATION = "23502";
    /// A key that is referred to, under RESTRICT.
    RESTRICT_VIOLATION = "23001";
    /// A foreign key without the row that it refers to.
    FOREIGN_KEY_VIOLATION = "23503";
    /// A foreign key that is not possible.
    INVALID_FOREIGN_KEY = "42830";
    /// A duplicate key in a unique index.
    UNIQUE_VIOLATION = "23505";
    /// A row was changed by what its own change has called.
    TRIGGERED_DATA_CHANGE_VIOLATION = "27000";
    /// The command does not fit the transaction's state.
    INVALID_TRANSACTION_STATE = "25000";
    /// A command that may not run inside a transaction block.
    ACTIVE_SQL_TRANSACTION = "25001";
    /// A write in a read-only transaction.
    READ_ONLY_SQL_TRANSACTION = "25006";
    /// A command outside a transaction block that needs one.
    NO_ACTIVE_SQL_TRANSACTION = "25P01";
    /// The transaction has failed; only ROLLBACK is taken.
    IN_FAILED_SQL_TRANSACTION = "25P02";
    /// `idle_in_transaction_session_timeout`.
    IDLE_IN_TRANSACTION_SESSION_TIMEOUT = "25P03";
    /// No such prepared statement.
    INVALID_SQL_STATEMENT_NAME = "26000";
    /// Objects still depend on this one.
    DEPENDENT_OBJECTS_STILL_EXIST = "2BP01";
    /// No such savepoint.
    INVALID_SAVEPOINT = "3B001";
    /// No such cursor or portal.
    INVALID_CURSOR_NAME = "34000";
    /// No such database.
    INVALID_CATALOG_NAME = "3D000";
    /// No such schema.
    INVALID_SCHEMA_NAME = "3F000";
    /// A concurrent change makes this transaction impossible.
    SERIALIZATION_FAILURE = "40001";
    /// A deadlock was broken by failing this transaction.
    DEADLOCK_DETECTED = "40P01";
    /// A portal of that name exists.
    DUPLICATE_CURSOR = "42P03";
    /// A database of that name exists.
    DUPLICATE_DATABASE = "42P04";
    /// The client did not say who it is.
    INVALID_AUTHORIZATION_SPECIFICATION = "28000";
    /// Text that is not SQL.
    SYNTAX_ERROR = "42601";
    /// No right to do that.
    INSUFFICIENT_PRIVILEGE = "42501";
    /// Text that is not a name.
    INVALID_NAME = "42602";
    /// A name longer than 63 bytes.
    NAME_TOO_LONG = "42622";
    /// A column name given twice.
    DUPLICATE_COLUMN = "42701";
    /// A column name that could mean several columns.
    AMBIGUOUS_COLUMN = "42702";
    /// No such column.
    UNDEFINED_COLUMN = "42703";
    /// No such object.
    UNDEFINED_OBJECT = "42704";
    /// The object exists already.
    DUPLICATE_OBJECT = "42710";
    /// A table alias given twice.
    DUPLICATE_ALIAS = "42712";
    /// A call that fits several functions.
    AMBIGUOUS_FUNCTION = "42725";
    /// GROUP BY does not cover a column.
    GROUPING_ERROR = "42803";
    /// A type that does not fit.
    DATATYPE_MISMATCH = "42804";
    /// The object is of the wrong kind.
    WRONG_OBJECT_TYPE = "42809";
    /// No such cast.
    CANNOT_COERCE = "42846";
    /// No such function or operator.
    UNDEFINED_FUNCTION = "42883";
    /// A name that is reserved.
    RESERVED_NAME = "42939";
    /// No such relation.
    UNDEFINED_TABLE = "42P01";
    /// No such parameter.
    UNDEFINED_PARAMETER = "42P02";
    /// The prepared statement exists already.
    DUPLICATE_PREPARED_STATEMENT = "42P05";
    /// The schema exists already.
    DUPLICATE_SCHEMA = "42P06";
    /// The relation exists already.
    DUPLICATE_TABLE = "42P07";
    /// A parameter that two uses give different types.
    AMBIGUOUS_PARAMETER = "42P08";
    /// An alias that names several relations.
    AMBIGUOUS_ALIAS = "42P09";
    /// A column reference that is not possible there.
    INVALID_COLUMN_REFERENCE = "42P10";
    /// A table definition that makes no sense.
    INVALID_TABLE_DEFINITION = "42P16";
    /// A definition of a column that makes no sense.
    INVALID_COLUMN_DEFINITION = "42611";
    /// A definition of an object that makes no sense.
    INVALID_OBJECT_DEFINITION = "42P17";
    /// The type of a parameter cannot be known.
    INDETERMINATE_DATATYPE = "42P18";
    /// A recursive query of a form that cannot be run.
    INVALID_RECURSION = "42P19";
    /// A window definition or function at a wrong place.
    WINDOWING_ERROR = "42P20";
    /// The process has no file descriptor left.
    INSUFFICIENT_RESOURCES = "53000";
    /// The disk is full.
    DISK_FULL = "53100";
    /// No memory.
    OUT_OF_MEMORY = "53200";
    /// No more connections.
    TOO_MANY_CONNECTIONS = "53300";
    /// A limit that a setting gives.
    CONFIGURATION_LIMIT_EXCEEDED = "53400";
    /// A limit of the engine.
    PROGRAM_LIMIT_EXCEEDED = "54000";
    /// More columns than a row may have.
    TOO_MANY_COLUMNS = "54011";
    /// More arguments than a function may have.
    TOO_MANY_ARGUMENTS = "54023";
    /// A statement too deep to be handled.
    STATEMENT_TOO_COMPLEX = "54001";
    /// The object is not in the state the command needs.
    OBJECT_NOT_IN_PREREQUISITE_STATE = "55000";
    /// A value for a column that only the database gives values.
    GENERATED_ALWAYS = "428C9";
    /// A sequence that has no further number.
    SEQUENCE_GENERATOR_LIMIT_EXCEEDED = "2200H";
    /// The object is in use.
    OBJECT_IN_USE = "55006";
    /// The parameter cannot be changed now.
    CANT_CHANGE_RUNTIME_PARAM = "55P02";
    /// A lock was not to be had at once.
    LOCK_NOT_AVAILABLE = "55P03";
    /// The statement was cancelled.
    QUERY_CANCELED = "57014";
    /// The server is shutting down.
    ADMIN_SHUTDOWN = "57P01";
    /// `idle_session_timeout`.
    IDLE_SESSION_TIMEOUT = "57P05";
    /// The server is recovering from an error.
    CRASH_SHUTDOWN = "57P02";
    /// The server does not take connections now.
    CANNOT_CONNECT_NOW = "57P03";
    /// An I/O error.
    IO_ERROR = "58030";
    /// A row violates a CHECK constraint.
    CHECK_VIOLATION = "23514";
    /// A configuration file has errors.
    CONFIG_FILE_ERROR = "F0000";
    /// No such file.
    UNDEFINED_FILE = "58P01";
    /// A fault of this engine.
    INTERNAL_ERROR = "XX000";
    /// Damaged data.
    DATA_CORRUPTED = "XX001";
    /// A damaged index.
    INDEX_CORRUPTED = "XX002";
}

impl SqlState {
    /// The five characters.
    pub fn as_str(self) -> &'static str {
        self.0
    }
}

impl fmt::Debug for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl fmt::Display for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// An error as PostgreSQL reports it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TypeError {
    /// The code.
    pub sqlstate: SqlState,
    /// The primary message.
    pub message: Box<str>,
    /// The detail line.
    pub detail: Option<Box<str>>,
    /// The hint line.
    pub hint: Option<Box<str>>,
    /// The context line.
    pub context: Option<Box<str>>,
    /// The object that the error is about, for programs.
    pub concerns: Option<Box<Concerned>>,
}

/// A table, with a part of it, or a type that an error is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Concerned {
    /// The name of its schema.
    pub schema: Box<str>,
    /// The table's name.
    pub table: Option<Box<str>>,
    /// The type's name.
    pub data_type: Option<Box<str>>,
    /// A column of it.
    pub column: Option<Box<str>>,
    /// A constraint of the table or the type.
    pub constraint: Option<Box<str>>,
}

impl TypeError {
    /// An error with a code and a message.
    pub fn new(sqlstate: SqlState, message: impl Into<String>) -> TypeError {
        TypeError {
            sqlstate,
            message: message.into().into_boxed_str(),
            detail: None,
            hint: None,
            context: None,
            concerns: None,
        }
    }

    /// Says which column of a table, given by schema and name, the error is about.
    #[must_use]
    pub fn column(mut self, (schema, table): (&str, &str), column: &str) -> TypeError {
        self.concerns = Some(Box::new(Concerned {
            schema: schema.into(),
            table: Some(table.into()),
            data_type: None,
            column: Some(column.into()),
            constraint: None,
        }));
        self
    }

    /// Says which constraint of a table, given by schema and name, the error is about.
    #[must_use]
    pub fn constraint(mut self, (schema, table): (&str, &str), constraint: &str) -> TypeError {
        self.concerns = Some(Box::new(Concerned {
            schema: schema.into(),
            table: Some(table.into()),
            data_type: None,
            column: None,
            constraint: Some(constraint.into()),
        }));
        self
    }

    /// Says which type, given by schema and name, and which constraint of it the error is about.
    #[must_use]
    pub fn data_type(
        mut self,
        (schema, name): (&str, &str),
        constraint: Option<&str>,
    ) -> TypeError {
        self.concerns = Some(Box::new(Concerned {
            schema: schema.into(),
            table: None,
            data_type: Some(name.into()),
            column: None,
            constraint: constraint.map(Into::into),
        }));
        self
    }

    /// 0A000: `feature` is not supported.
    pub fn unsupported(feature: impl fmt::Display) -> TypeError {
        TypeError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("{feature} is not supported"),
        )
    }

    /// XX000: a state that this engine must never be in.
    pub fn internal(message: impl Into<String>) -> TypeError {
        TypeError::new(SqlState::INTERNAL_ERROR, message)
    }

    /// Adds the detail line.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> TypeError {
        self.detail = Some(detail.into().into_boxed_str());
        self
    }

    /// Adds the context line.
    #[must_use]
    pub fn context(mut self, context: impl Into<String>) -> TypeError {
        self.context = Some(context.into().into_boxed_str());
        self
    }

    /// Adds the hint line.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> TypeError {
        self.hint = Some(hint.into().into_boxed_str());
        self
    }
}
