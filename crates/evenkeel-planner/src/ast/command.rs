//! Commands that have no plan: transactions, settings, prepared statements, cursors, COPY and
//! maintenance. Definitions stand in `define`.

use super::{Define, Expr, Name, Pos, QualifiedName, Statement, TypeName};

/// A command.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Transaction control.
    Transaction(TransactionCommand),
    /// `SET`
    Set(SetSetting),
    /// `SET name FROM CURRENT`: in lower case.
    SetFromCurrent {
        /// The setting.
        name: String,
        /// `LOCAL`
        local: bool,
    },
    /// `RESET`; `None` for `ALL`.
    Reset(Option<String>),
    /// `ALTER SYSTEM`
    AlterSystem(AlterSystem),
    /// `SET CONSTRAINTS`
    SetConstraints {
        /// Their names; none for `ALL`.
        names: Vec<QualifiedName>,
        /// `DEFERRED`, or else `IMMEDIATE`
        deferred: bool,
    },
    /// `SHOW`; `all` for `ALL`.
    Show(String),
    /// `DISCARD`
    Discard(Discarded),
    /// `PREPARE`
    Prepare(Prepare),
    /// `EXECUTE`
    Execute {
        /// The prepared statement.
        name: Name,
        /// Its arguments.
        args: Vec<Expr>,
    },
    /// `EXPLAIN`
    Explain(Explain),
    /// `DEALLOCATE`; `None` for `ALL`.
    Deallocate(Option<String>),
    /// `LISTEN`
    Listen(String),
    /// `NOTIFY`
    Notify {
        /// The channel.
        channel: String,
        /// Empty if none was given.
        payload: String,
    },
    /// `UNLISTEN`; `None` for `*`.
    Unlisten(Option<String>),
    /// `DECLARE`
    Declare(Declare),
    /// `FETCH`, `MOVE`
    Fetch(Fetch),
    /// `CLOSE`; `None` for `ALL`.
    Close(Option<String>),
    /// `COPY`
    Copy(Box<Copy>),
    /// `VACUUM`
    Vacuum(Maintain),
    /// `ANALYZE`
    Analyze(Maintain),
    /// `REINDEX`
    Reindex(Reindex),
    /// `CHECKPOINT`
    Checkpoint,
    /// `LOCK TABLE`
    Lock {
        /// The tables.
        tables: Vec<QualifiedName>,
        /// `IN … MODE`, in lower case; `None` for `ACCESS EXCLUSIVE`.
        mode: LockMode,
        /// `NOWAIT`
        nowait: bool,
    },
    /// A definition.
    Define(Box<Define>),
    /// A command of PostgreSQL's that is not built: its name.
    Unbuilt(&'static str),
}

/// Isolation levels; `READ UNCOMMITTED` is `READ COMMITTED`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IsolationLevel {
    /// `READ COMMITTED`
    ReadCommitted,
    /// `REPEATABLE READ`
    RepeatableRead,
    /// `SERIALIZABLE`
    Serializable,
}

/// The modes of BEGIN and SET TRANSACTION.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TransactionModes {
    /// `ISOLATION LEVEL`
    pub isolation: Option<IsolationLevel>,
    /// `READ ONLY` or `READ WRITE`
    pub read_only: Option<bool>,
}

/// A transaction command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransactionCommand {
    /// `BEGIN`, `START TRANSACTION`
    Begin(TransactionModes),
    /// `COMMIT`, `END`; with `AND CHAIN`
    Commit { chain: bool },
    /// `ROLLBACK`, `ABORT`; with `AND CHAIN`
    Rollback { chain: bool },
    /// `SAVEPOINT`
    Savepoint(String),
    /// `RELEASE`
    Release(String),
    /// `ROLLBACK TO`
    RollbackTo(String),
    /// `SET TRANSACTION`
    SetTransaction(TransactionModes),
    /// `SET SESSION CHARACTERISTICS AS TRANSACTION`
    SetSession(TransactionModes),
}

/// `ALTER SYSTEM`; names in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AlterSystem {
    /// `SET`; `None` for `DEFAULT`.
    Set(String, Option<String>),
    /// `RESET`; `None` for `ALL`.
    Reset(Option<String>),
}

/// `SET name = value`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetSetting {
    /// In lower case, dotted for an extension's.
    pub name: String,
    /// The values of a list, joined; `None` for `DEFAULT`.
    pub value: Option<String>,
    /// `LOCAL`
    pub local: bool,
}

/// The parts of a session that DISCARD names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discarded {
    /// `ALL`
    All,
    /// `PLANS`
    Plans,
    /// `SEQUENCES`
    Sequences,
    /// `TEMP`
    Temp,
}

/// `PREPARE name (types) AS statement`
#[derive(Debug, Clone, PartialEq)]
pub struct Prepare {
    /// Its name.
    pub name: Name,
    /// The types of its parameters.
    pub types: Vec<TypeName>,
    /// Where the statement begins; it ends where the command does.
    pub body: Pos,
}

/// `EXPLAIN statement`
#[derive(Debug, Clone, PartialEq)]
pub struct Explain {
    /// The options, in order.
    pub options: Vec<CommandOption>,
    /// The statement.
    pub statement: Box<Statement>,
    /// Where it begins; it ends where the command does.
    pub body: Pos,
}

/// `DECLARE name CURSOR FOR query`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declare {
    /// The cursor.
    pub name: Name,
    /// `SCROLL` (true) or `NO SCROLL`
    pub scroll: Option<bool>,
    /// `WITH HOLD`
    pub hold: bool,
    /// `BINARY`
    pub binary: bool,
    /// `INSENSITIVE` (true) or `ASENSITIVE`
    pub insensitive: Option<bool>,
    /// Where the query begins; it ends where the command does.
    pub body: Pos,
}

/// The rows that FETCH wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// So many of the next ones; 0 is the row at hand again, fewer are backward.
    Forward(i64),
    /// All that follow.
    ForwardAll,
    /// All before, backward.
    BackwardAll,
    /// The row of this number, from the end if negative.
    Absolute(i64),
    /// The row so many behind the one at hand.
    Relative(i64),
}

/// `FETCH`, `MOVE`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetch {
    /// The cursor.
    pub name: String,
    /// The rows.
    pub direction: Direction,
    /// `FETCH`, or else `MOVE`
    pub rows: bool,
}

/// The source or target of COPY within the database.
#[derive(Debug, Clone, PartialEq)]
pub enum CopyTarget {
    /// A table and its columns; none for all.
    Table {
        /// The table.
        name: QualifiedName,
        /// The columns.
        columns: Vec<Name>,
    },
    /// A query: where it begins and ends.
    Query(Pos, Pos),
}

/// The other side of COPY.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyFile {
    /// `STDIN`, `STDOUT`
    Client,
    /// A file of the server's, or a program of it.
    Server,
}

/// `COPY`
#[derive(Debug, Clone, PartialEq)]
pub struct Copy {
    /// The table or query.
    pub target: CopyTarget,
    /// `FROM`, or else `TO`
    pub from: bool,
    /// The other side.
    pub file: CopyFile,
    /// The options, in order.
    pub options: Vec<CommandOption>,
    /// `WHERE` of COPY FROM
    pub filter: Option<Expr>,
}

/// An option with a name: `name value`.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandOption {
    /// In lower case unless it was quoted.
    pub name: String,
    /// Its value.
    pub value: OptionValue,
    /// Where it begins.
    pub at: Pos,
}

/// The value of an option.
#[derive(Debug, Clone, PartialEq)]
pub enum OptionValue {
    /// None was given.
    Absent,
    /// A string, a name or a keyword.
    Text(String),
    /// A number with its sign.
    Number(String),
    /// `*`
    Star,
    /// A list in parentheses.
    List(Vec<String>),
}

impl OptionValue {
    /// The value as a text; `None` if there is none or it is no simple one.
    pub fn text(&self) -> Option<&str> {
        match self {
            OptionValue::Text(text) | OptionValue::Number(text) => Some(text),
            OptionValue::Absent | OptionValue::Star | OptionValue::List(_) => None,
        }
    }
}

/// `VACUUM`, `ANALYZE`
#[derive(Debug, Clone, PartialEq)]
pub struct Maintain {
    /// The options, in order.
    pub options: Vec<CommandOption>,
    /// The tables with the columns to be analyzed; none for all.
    pub tables: Vec<(QualifiedName, Vec<Name>)>,
}

/// `REINDEX`
#[derive(Debug, Clone, PartialEq)]
pub struct Reindex {
    /// The options, in order.
    pub options: Vec<CommandOption>,
    /// The object named.
    pub target: ReindexTarget,
    /// `CONCURRENTLY`
    pub concurrently: bool,
}

/// An object whose indexes REINDEX makes anew.
#[derive(Debug, Clone, PartialEq)]
pub enum ReindexTarget {
    /// `INDEX`
    Index(QualifiedName),
    /// `TABLE`
    Table(QualifiedName),
    /// `SCHEMA`
    Schema(Name),
    /// `SYSTEM`
    System,
    /// `DATABASE`, of this name if one was given.
    Database(Option<Name>),
}

/// The modes of LOCK TABLE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    /// `ACCESS SHARE`
    AccessShare,
    /// `ROW SHARE`
    RowShare,
    /// `ROW EXCLUSIVE`
    RowExclusive,
    /// `SHARE UPDATE EXCLUSIVE`
    ShareUpdateExclusive,
    /// `SHARE`
    Share,
    /// `SHARE ROW EXCLUSIVE`
    ShareRowExclusive,
    /// `EXCLUSIVE`
    Exclusive,
    /// `ACCESS EXCLUSIVE`
    AccessExclusive,
}
