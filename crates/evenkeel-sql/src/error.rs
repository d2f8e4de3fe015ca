//! The one error type of the SQL layer: PostgreSQL's SQLSTATE, message and fields.

use std::fmt;

use datafusion::arrow::error::ArrowError;
use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use evenkeel_engine::EngineError;

/// Result of everything in this crate that can fail.
pub type SqlResult<T> = Result<T, SqlError>;

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
    /// NULL where there must be a value.
    NULL_VALUE_NOT_ALLOWED = "22004";
    /// A date or time that does not exist.
    INVALID_DATETIME_FORMAT = "22007";
    /// A date or time field out of range.
    DATETIME_FIELD_OVERFLOW = "22008";
    /// Division by zero.
    DIVISION_BY_ZERO = "22012";
    /// A function argument that makes no sense.
    INVALID_PARAMETER_VALUE = "22023";
    /// LIMIT with a negative number.
    INVALID_ROW_COUNT_IN_LIMIT = "2201W";
    /// OFFSET with a negative number.
    INVALID_ROW_COUNT_IN_OFFSET = "2201X";
    /// A text that is not valid UTF-8.
    CHARACTER_NOT_IN_REPERTOIRE = "22021";
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
    /// A duplicate key in a unique index.
    UNIQUE_VIOLATION = "23505";
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
    /// A column reference that is not possible there.
    INVALID_COLUMN_REFERENCE = "42P10";
    /// A table definition that makes no sense.
    INVALID_TABLE_DEFINITION = "42P16";
    /// The type of a parameter cannot be known.
    INDETERMINATE_DATATYPE = "42P18";
    /// The disk is full.
    DISK_FULL = "53100";
    /// No memory.
    OUT_OF_MEMORY = "53200";
    /// No more connections.
    TOO_MANY_CONNECTIONS = "53300";
    /// A limit of the engine.
    PROGRAM_LIMIT_EXCEEDED = "54000";
    /// A statement too deep to be handled.
    STATEMENT_TOO_COMPLEX = "54001";
    /// The object is not in the state the command needs.
    OBJECT_NOT_IN_PREREQUISITE_STATE = "55000";
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

/// The fields of an ErrorResponse that are not always there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErrorFields {
    /// A second sentence about what happened.
    pub detail: Option<String>,
    /// What the user may do.
    pub hint: Option<String>,
    /// Where in the query text, in characters from 1.
    pub position: Option<u32>,
    /// Where the engine was: COPY's line, for example.
    pub context: Option<String>,
    /// The table concerned.
    pub table: Option<String>,
    /// The column concerned.
    pub column: Option<String>,
    /// The constraint concerned.
    pub constraint: Option<String>,
}

/// An error as the client sees it. Small to move: the fields are boxed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{sqlstate}: {message}")]
pub struct SqlError {
    /// PostgreSQL's code.
    pub sqlstate: SqlState,
    /// The primary message, in PostgreSQL's words where it has them.
    pub message: Box<str>,
    /// The rest.
    pub fields: Box<ErrorFields>,
}

impl SqlError {
    /// An error with a code and a message.
    pub fn new(sqlstate: SqlState, message: impl Into<String>) -> SqlError {
        SqlError {
            sqlstate,
            message: message.into().into_boxed_str(),
            fields: Box::default(),
        }
    }

    /// 0A000: `feature` is not supported.
    pub fn unsupported(feature: impl fmt::Display) -> SqlError {
        SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("{feature} is not supported"),
        )
    }

    /// XX000: a state that this engine must never be in.
    pub fn internal(message: impl Into<String>) -> SqlError {
        SqlError::new(SqlState::INTERNAL_ERROR, message)
    }

    /// 42601.
    pub fn syntax(message: impl Into<String>) -> SqlError {
        SqlError::new(SqlState::SYNTAX_ERROR, message)
    }

    /// Adds the detail line.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> SqlError {
        self.fields.detail = Some(detail.into());
        self
    }

    /// Adds the hint line.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> SqlError {
        self.fields.hint = Some(hint.into());
        self
    }

    /// Adds the position in the query text, in characters from 1.
    #[must_use]
    pub fn at(mut self, position: u32) -> SqlError {
        self.fields.position = Some(position);
        self
    }

    /// Adds the context line.
    #[must_use]
    pub fn context(mut self, context: impl Into<String>) -> SqlError {
        self.fields.context = Some(context.into());
        self
    }

    /// Names the table.
    #[must_use]
    pub fn table(mut self, table: impl Into<String>) -> SqlError {
        self.fields.table = Some(table.into());
        self
    }

    /// Names the column.
    #[must_use]
    pub fn column(mut self, column: impl Into<String>) -> SqlError {
        self.fields.column = Some(column.into());
        self
    }

    /// Names the constraint.
    #[must_use]
    pub fn constraint(mut self, constraint: impl Into<String>) -> SqlError {
        self.fields.constraint = Some(constraint.into());
        self
    }
}

impl From<EngineError> for SqlError {
    fn from(error: EngineError) -> SqlError {
        SqlError::new(SqlState::from_code(error.sqlstate()), error.to_string())
    }
}

/// An error of ours travels through DataFusion as `External` and comes back whole.
impl From<SqlError> for DataFusionError {
    fn from(error: SqlError) -> DataFusionError {
        DataFusionError::External(Box::new(error))
    }
}

impl From<DataFusionError> for SqlError {
    fn from(error: DataFusionError) -> SqlError {
        from_datafusion(&error)
    }
}

impl From<ArrowError> for SqlError {
    fn from(error: ArrowError) -> SqlError {
        from_arrow(&error)
    }
}

/// DataFusion's errors carry no SQLSTATE. What cannot be told from the variant is told from
/// the message; anything left is reported as what it is, an internal error.
fn from_datafusion(error: &DataFusionError) -> SqlError {
    match error {
        DataFusionError::External(inner) => from_external(inner.as_ref()),
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => {
            from_datafusion(inner)
        }
        DataFusionError::Shared(inner) => from_datafusion(inner),
        DataFusionError::Collection(all) => match all.first() {
            Some(first) => from_datafusion(first),
            None => SqlError::internal("an empty collection of errors"),
        },
        DataFusionError::ArrowError(inner, _) => from_arrow(inner),
        DataFusionError::SQL(inner, _) => from_parser(&inner.to_string()),
        DataFusionError::SchemaError(inner, _) => from_schema(inner),
        DataFusionError::NotImplemented(what) => {
            SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, what.clone())
        }
        DataFusionError::Plan(message) => from_plan(message),
        DataFusionError::Execution(message) => from_execution(message),
        DataFusionError::ResourcesExhausted(message) => {
            SqlError::new(SqlState::OUT_OF_MEMORY, message.clone())
        }
        other => SqlError::internal(other.strip_backtrace()),
    }
}

fn from_external(inner: &(dyn std::error::Error + 'static)) -> SqlError {
    if let Some(ours) = inner.downcast_ref::<SqlError>() {
        return ours.clone();
    }
    if let Some(engine) = inner.downcast_ref::<EngineError>() {
        return engine.clone().into();
    }
    if let Some(datafusion) = inner.downcast_ref::<DataFusionError>() {
        return from_datafusion(datafusion);
    }
    SqlError::internal(inner.to_string())
}

fn from_arrow(error: &ArrowError) -> SqlError {
    match error {
        ArrowError::DivideByZero => SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero"),
        ArrowError::ArithmeticOverflow(message) => overflow(message),
        ArrowError::ExternalError(inner) => from_external(inner.as_ref()),
        ArrowError::CastError(message) => from_cast(message),
        other => from_execution(&other.to_string()),
    }
}

/// 22003 in PostgreSQL's words; Arrow names the operation or type, not always both.
fn overflow(message: &str) -> SqlError {
    let text = if message.contains("Int16") || message.contains("smallint") {
        "smallint out of range"
    } else if message.contains("Int64") || message.contains("bigint") {
        "bigint out of range"
    } else if message.contains("Decimal") || message.contains("numeric") {
        "numeric field overflow"
    } else {
        "integer out of range"
    };
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, text)
}

fn from_cast(message: &str) -> SqlError {
    if message.starts_with("Can't cast value") || message.contains("too large to store") {
        return overflow(message);
    }
    if let Some(rest) = message.strip_prefix("Cannot cast string '")
        && let Some((value, _)) = rest.split_once("' to value of")
    {
        let kind = type_word(message);
        return SqlError::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            format!("invalid input syntax for type {kind}: \"{value}\""),
        );
    }
    SqlError::new(SqlState::CANNOT_COERCE, message)
}

fn type_word(message: &str) -> &'static str {
    const WORDS: [(&str, &str); 8] = [
        ("Int16", "smallint"),
        ("Int32", "integer"),
        ("Int64", "bigint"),
        ("Float32", "real"),
        ("Float64", "double precision"),
        ("Boolean", "boolean"),
        ("Decimal", "numeric"),
        ("Timestamp", "timestamp"),
    ];
    let found = WORDS.iter().find(|(arrow, _)| message.contains(arrow));
    found.map_or("text", |(_, word)| *word)
}

fn from_schema(error: &SchemaError) -> SqlError {
    match error {
        SchemaError::FieldNotFound { field, .. } => {
            let name = match &field.relation {
                Some(relation) => format!("{}.{}", relation.table(), field.name),
                None => format!("\"{}\"", field.name),
            };
            SqlError::new(
                SqlState::UNDEFINED_COLUMN,
                format!("column {name} does not exist"),
            )
        }
        SchemaError::AmbiguousReference { field } => SqlError::new(
            SqlState::AMBIGUOUS_COLUMN,
            format!("column reference \"{}\" is ambiguous", field.name),
        ),
        SchemaError::DuplicateQualifiedField { qualifier, name } => SqlError::new(
            SqlState::DUPLICATE_ALIAS,
            format!(
                "column \"{name}\" of table name \"{}\" is given twice",
                qualifier.table()
            ),
        ),
        SchemaError::DuplicateUnqualifiedField { name } => SqlError::new(
            SqlState::AMBIGUOUS_COLUMN,
            format!("column reference \"{name}\" is ambiguous"),
        ),
    }
}

fn from_plan(message: &str) -> SqlError {
    let lower = message.to_ascii_lowercase();
    let state = if lower.contains("invalid function") {
        return undefined_function(message);
    } else if lower.contains("must appear in the group by")
        || lower.contains("must be in group by")
        || lower.contains("could not be resolved from available columns")
    {
        SqlState::GROUPING_ERROR
    } else if [
        "function '",
        "no function matches",
        "cannot coerce",
        "cannot infer common",
    ]
    .iter()
    .any(|words| lower.contains(words))
    {
        SqlState::UNDEFINED_FUNCTION
    } else if lower.contains("unsupported") || lower.contains("not supported") {
        SqlState::FEATURE_NOT_SUPPORTED
    } else if lower.contains("placeholder") {
        SqlState::INDETERMINATE_DATATYPE
    } else if lower.contains("type") {
        SqlState::DATATYPE_MISMATCH
    } else {
        SqlState::SYNTAX_ERROR
    };
    SqlError::new(state, message)
}

fn undefined_function(message: &str) -> SqlError {
    let name = message.split('\'').nth(1).unwrap_or("?");
    SqlError::new(
        SqlState::UNDEFINED_FUNCTION,
        format!("function {name} does not exist"),
    )
}

fn from_execution(message: &str) -> SqlError {
    let lower = message.to_ascii_lowercase();
    if lower.contains("divide by zero") || lower.contains("division by zero") {
        return SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero");
    }
    if lower.contains("overflow") {
        return overflow(message);
    }
    if lower.contains("more than one row") {
        return SqlError::new(
            SqlState::CARDINALITY_VIOLATION,
            "more than one row returned by a subquery used as an expression",
        );
    }
    SqlError::internal(message)
}

/// sqlparser's text ends in ` at Line: 1, Column: 8`; the planner turns that into a position
/// in the query.
fn from_parser(message: &str) -> SqlError {
    let text = message
        .strip_prefix("sql parser error: ")
        .unwrap_or(message);
    SqlError::syntax(text)
}
