//! A statement that can run, in the shape that is kept in caches.

use std::sync::Arc;

use evenkeel_planner::ast;
use evenkeel_planner::parser::Measured;
use evenkeel_planner::plan::Plan;
use sqlparser::ast::Statement;

use super::rows::{self, RowQuery};
use crate::catalog::TableInfo;
use crate::deep::Deep;
use crate::error::{SqlError, SqlResult};
use crate::parser::parse::{self, Parsed};
use crate::parser::utility::{TransactionCommand, Utility};
use crate::protocol::Column;
use crate::types::SqlType;

/// A statement that has been parsed.
pub enum Read {
    /// A query or a change.
    Query(ast::Statement),
    /// A command.
    Command(Parsed),
}

/// Parses exactly one statement.
///
/// # Errors
/// PostgreSQL's of syntax, with positions; 54001 for a definition that is too deep.
pub fn read<T: AsRef<str> + Clone>(measured: Measured<T>) -> SqlResult<Read> {
    let (text, shape) = (measured.text().clone(), measured.shape());
    Ok(match rows::parse(measured)? {
        Some(statement) => Read::Query(statement),
        None => Read::Command(parse::parse(text.as_ref(), shape)?),
    })
}

/// A statement ready to run, valid for one catalog version.
#[derive(Debug)]
pub struct Compiled {
    /// Kind of the statement.
    pub kind: Kind,
    /// Types of its parameters.
    pub param_types: Vec<SqlType>,
    /// Result columns; `None` for a statement without rows.
    pub columns: Option<Arc<[Column]>>,
    /// The tables it names, for their locks.
    pub tables: Vec<Arc<TableInfo>>,
    /// Whether it may be kept and run again.
    pub keep: bool,
    /// The catalog version it was compiled under.
    pub version: u64,
}

impl Compiled {
    /// The empty statement.
    pub fn empty() -> Compiled {
        plain(Kind::Empty)
    }
}

impl From<RowQuery> for Compiled {
    fn from(query: RowQuery) -> Compiled {
        let mut tables = query.tables;
        tables.sort_by_key(|table| table.oid);
        tables.dedup_by_key(|table| table.oid);
        let reads = query.plan.changed.is_empty() && query.plan.locked.is_empty();
        let silent = query.columns.is_empty() && !query.plan.changed.is_empty();
        Compiled {
            param_types: query.plan.params.clone(),
            kind: match reads {
                true => Kind::Rows(query.plan),
                false => Kind::RowChange(query.plan, query.verb),
            },
            columns: (!silent).then_some(query.columns),
            tables,
            keep: query.keep,
            version: 0,
        }
    }
}

/// The kinds of statement, by how they run.
#[derive(Debug)]
pub enum Kind {
    /// Nothing.
    Empty,
    /// Transaction control.
    Transaction(TransactionCommand),
    /// A query.
    Rows(Arc<Plan>),
    /// A change, or a query that locks rows; its verb.
    RowChange(Arc<Plan>, &'static str),
    /// A command of our own grammar.
    Utility(Arc<Deep<Utility>>),
    /// A definition.
    Command(Arc<Deep<Statement>>),
}

impl Kind {
    /// The command's name, as a tag begins with it.
    pub fn tag(&self) -> &'static str {
        match self {
            Kind::Empty => "",
            Kind::Transaction(command) => transaction_tag(command),
            Kind::Rows(_) => "SELECT",
            Kind::RowChange(_, verb) => verb,
            Kind::Utility(utility) => utility_tag(utility),
            Kind::Command(statement) => command_tag(statement),
        }
    }

    /// Whether it changes data, so that a read-only transaction refuses it.
    pub fn writes(&self) -> bool {
        match self {
            Kind::RowChange(..) | Kind::Command(_) => true,
            Kind::Utility(utility) => match &***utility {
                Utility::Copy(copy) => copy.from,
                _ => false,
            },
            _ => false,
        }
    }
}

/// The tag of a transaction command.
pub fn transaction_tag(command: &TransactionCommand) -> &'static str {
    match command {
        TransactionCommand::Begin(_) => "BEGIN",
        TransactionCommand::Commit { .. } => "COMMIT",
        TransactionCommand::Rollback { .. } | TransactionCommand::RollbackTo(_) => "ROLLBACK",
        TransactionCommand::Savepoint(_) => "SAVEPOINT",
        TransactionCommand::Release(_) => "RELEASE",
        TransactionCommand::SetTransaction(_) | TransactionCommand::SetSession(_) => "SET",
    }
}

fn utility_tag(utility: &Utility) -> &'static str {
    match utility {
        Utility::Transaction(command) => transaction_tag(command),
        Utility::Set { .. } => "SET",
        Utility::Reset(_) => "RESET",
        Utility::Show(_) => "SHOW",
        Utility::Discard(_) => "DISCARD ALL",
        Utility::Prepare { .. } => "PREPARE",
        Utility::Execute { .. } => "EXECUTE",
        Utility::Explain(_) => "EXPLAIN",
        Utility::Deallocate(None) => "DEALLOCATE ALL",
        Utility::Deallocate(Some(_)) => "DEALLOCATE",
        Utility::Declare(_) => "DECLARE CURSOR",
        Utility::Fetch(fetch) if fetch.rows => "FETCH",
        Utility::Fetch(_) => "MOVE",
        Utility::Close(None) => "CLOSE CURSOR ALL",
        Utility::Close(Some(_)) => "CLOSE CURSOR",
        Utility::Copy(_) => "COPY",
        Utility::Vacuum { .. } => "VACUUM",
        Utility::Analyze { .. } => "ANALYZE",
        Utility::ResetParameters { .. } => "ALTER TABLE",
        Utility::Checkpoint => "CHECKPOINT",
        Utility::LockTable { .. } => "LOCK TABLE",
    }
}

/// The tag of a command.
pub fn command_tag(statement: &Statement) -> &'static str {
    use sqlparser::ast::ObjectType;
    match statement {
        Statement::CreateTable(_) => "CREATE TABLE",
        Statement::CreateIndex(_) => "CREATE INDEX",
        Statement::AlterTable(_) => "ALTER TABLE",
        Statement::Drop {
            object_type: ObjectType::Table,
            ..
        } => "DROP TABLE",
        Statement::Drop {
            object_type: ObjectType::Index,
            ..
        } => "DROP INDEX",
        Statement::Truncate(_) => "TRUNCATE TABLE",
        Statement::CreateExtension(_) => "CREATE EXTENSION",
        _ => "",
    }
}

/// A command in the shape that runs.
///
/// # Errors
/// 0A000 for a definition that is not built.
pub fn command(parsed: Parsed) -> SqlResult<Compiled> {
    match parsed {
        Parsed::Utility(Utility::Transaction(command)) => Ok(plain(Kind::Transaction(command))),
        Parsed::Utility(utility) => {
            let explains = matches!(utility, Utility::Explain(_));
            let mut compiled = plain(Kind::Utility(Arc::new(Deep::new(utility))));
            compiled.columns = explains.then(explain_columns);
            Ok(compiled)
        }
        Parsed::Sql(statement) if command_tag(&statement).is_empty() => {
            Err(SqlError::unsupported(statement_name(&statement)))
        }
        Parsed::Sql(statement) => Ok(plain(Kind::Command(Arc::new(Deep::new(*statement))))),
    }
}

/// EXPLAIN's column.
pub fn explain_columns() -> Arc<[Column]> {
    Arc::from([Column::of("QUERY PLAN".into(), SqlType::Text)])
}

/// The first words of a statement that is not supported.
fn statement_name(statement: &Statement) -> String {
    let text = statement.to_string();
    let words: Vec<&str> = text.split_whitespace().take(2).collect();
    words.join(" ")
}

fn plain(kind: Kind) -> Compiled {
    let keep = matches!(kind, Kind::Transaction(_));
    Compiled {
        kind,
        param_types: Vec::new(),
        columns: None,
        tables: Vec::new(),
        keep,
        version: 0,
    }
}
