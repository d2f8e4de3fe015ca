//! A statement that can run, in the shape that is kept in caches.

use std::sync::Arc;

use evenkeel_planner::ast::{
    Command, CreateTableAs, DatabaseCommand, Define, DropKind, Persistence, QualifiedName, Query,
    TransactionCommand,
};
use evenkeel_planner::plan::Plan;

use super::rows::RowQuery;
use crate::catalog::TableInfo;
use crate::deep::Deep;
use crate::error::{SqlError, SqlResult, planner_error};
use crate::parser::parse;
use crate::protocol::Column;
use crate::types::SqlType;

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
    /// Any other command.
    Utility(Arc<Deep<Command>>),
    /// A definition.
    Define(Arc<Deep<Define>>),
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
            Kind::Define(define) => define_tag(define),
        }
    }

    /// Whether it changes data, so that a read-only transaction refuses it.
    pub fn writes(&self) -> bool {
        match self {
            Kind::RowChange(..) | Kind::Define(_) => true,
            Kind::Utility(utility) => match &***utility {
                Command::Copy(copy) => copy.from,
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

fn utility_tag(command: &Command) -> &'static str {
    match command {
        Command::Transaction(command) => transaction_tag(command),
        Command::Set(_) | Command::SetFromCurrent { .. } => "SET",
        Command::Reset(_) => "RESET",
        Command::AlterSystem(_) => "ALTER SYSTEM",
        Command::SetConstraints { .. } => "SET CONSTRAINTS",
        Command::Show(_) => "SHOW",
        Command::Discard(_) => "DISCARD ALL",
        Command::Prepare(_) => "PREPARE",
        Command::Execute { .. } => "EXECUTE",
        Command::Explain(_) => "EXPLAIN",
        Command::Listen(_) => "LISTEN",
        Command::Notify { .. } => "NOTIFY",
        Command::Unlisten(_) => "UNLISTEN",
        Command::Deallocate(None) => "DEALLOCATE ALL",
        Command::Deallocate(Some(_)) => "DEALLOCATE",
        Command::Declare(_) => "DECLARE CURSOR",
        Command::Fetch(fetch) if fetch.rows => "FETCH",
        Command::Fetch(_) => "MOVE",
        Command::Close(None) => "CLOSE CURSOR ALL",
        Command::Close(Some(_)) => "CLOSE CURSOR",
        Command::Copy(_) => "COPY",
        Command::Vacuum(_) => "VACUUM",
        Command::Analyze(_) => "ANALYZE",
        Command::Reindex(_) => "REINDEX",
        Command::Checkpoint => "CHECKPOINT",
        Command::Lock { .. } => "LOCK TABLE",
        Command::Define(define) => define_tag(define),
        Command::Unbuilt(name) => name,
    }
}

/// The tag of a definition.
pub fn define_tag(define: &Define) -> &'static str {
    match define {
        Define::CreateTable(_) => "CREATE TABLE",
        Define::CreateTableAs(_) => "CREATE TABLE AS",
        Define::CreateView(_) => "CREATE VIEW",
        Define::AlterView(_) => "ALTER VIEW",
        Define::CreateIndex(_) => "CREATE INDEX",
        Define::CreateExtension { .. } => "CREATE EXTENSION",
        Define::CreateSequence { .. } => "CREATE SEQUENCE",
        Define::AlterSequence { .. } => "ALTER SEQUENCE",
        Define::CreateSchema { .. } => "CREATE SCHEMA",
        Define::AlterSchema { .. } => "ALTER SCHEMA",
        Define::Database(command) => match command {
            DatabaseCommand::Create { .. } => "CREATE DATABASE",
            DatabaseCommand::Drop { .. } => "DROP DATABASE",
            DatabaseCommand::Alter { .. } => "ALTER DATABASE",
        },
        Define::Comment(_) => "COMMENT",
        Define::CreateEnum { .. } => "CREATE TYPE",
        Define::AlterType(_) => "ALTER TYPE",
        Define::CreateDomain(_) => "CREATE DOMAIN",
        Define::AlterDomain(_) => "ALTER DOMAIN",
        Define::Rename(rename) => match rename.kind {
            DropKind::Index => "ALTER INDEX",
            DropKind::Sequence => "ALTER SEQUENCE",
            DropKind::View => "ALTER VIEW",
            _ => "ALTER TABLE",
        },
        Define::SetSchema(set) if set.kind == DropKind::Sequence => "ALTER SEQUENCE",
        Define::SetSchema(set) if set.kind == DropKind::View => "ALTER VIEW",
        Define::AlterTable(_) | Define::SetSchema(_) => "ALTER TABLE",
        Define::Drop(drop) => match drop.kind {
            DropKind::Table => "DROP TABLE",
            DropKind::Index => "DROP INDEX",
            DropKind::Sequence => "DROP SEQUENCE",
            DropKind::Schema => "DROP SCHEMA",
            DropKind::Extension => "DROP EXTENSION",
            DropKind::View => "DROP VIEW",
            DropKind::Type => "DROP TYPE",
            DropKind::Domain => "DROP DOMAIN",
        },
        Define::Truncate { .. } => "TRUNCATE TABLE",
    }
}

/// A command in the shape that runs.
///
/// # Errors
/// 0A000 for one that is not built; 54001 for a definition whose expressions are too deep to be
/// walked on ordinary stacks.
pub fn command(command: Command, text: &str) -> SqlResult<Compiled> {
    match command {
        Command::Transaction(command) => Ok(plain(Kind::Transaction(command))),
        Command::Unbuilt(name) => Err(SqlError::unsupported(name)),
        Command::Define(define) => {
            // A query is bound and planned on stacks that grow.
            if !matches!(*define, Define::CreateTableAs(_) | Define::CreateView(_)) {
                let shallow = parse::measure(text)?.shape().shallow();
                shallow.map_err(|error| planner_error(error, text))?;
            }
            Ok(plain(Kind::Define(Arc::new(Deep::new(*define)))))
        }
        command => {
            let explains = matches!(command, Command::Explain(_));
            let mut compiled = plain(Kind::Utility(Arc::new(Deep::new(command))));
            compiled.columns = explains.then(explain_columns);
            Ok(compiled)
        }
    }
}

/// `SELECT … INTO name`, behind which `query` is left.
pub fn select_into(name: QualifiedName, persistence: Persistence, query: Box<Query>) -> Compiled {
    let create = CreateTableAs {
        name,
        persistence,
        if_not_exists: false,
        columns: Vec::new(),
        options: Vec::new(),
        on_commit: None,
        query: Some(query),
        with_data: true,
        unbuilt: None,
    };
    plain(Kind::Define(Arc::new(Deep::new(Define::CreateTableAs(
        create,
    )))))
}

/// EXPLAIN's column.
pub fn explain_columns() -> Arc<[Column]> {
    Arc::from([Column::of("QUERY PLAN".into(), SqlType::Text)])
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
