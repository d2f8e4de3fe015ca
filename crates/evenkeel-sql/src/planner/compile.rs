//! From a parsed statement to something that can run, and the shape that is kept in caches.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{SetExpr, Statement};

use super::binder::Binder;
use super::parse::Parsed;
use super::query::{self, QueryPlan};
use super::utility::{TransactionCommand, Utility};
use super::{dml, select};
use crate::catalog::TableInfo;
use crate::error::{SqlError, SqlResult};
use crate::exec::analytic::modify::PlannedChange;
use crate::exec::oltp::insert::Insert;
use crate::exec::oltp::modify::{Action, Modify};
use crate::exec::oltp::select::Select;
use crate::session::api::Column;
use crate::types::SqlType;

/// A statement ready to run, valid for one catalog version.
#[derive(Debug)]
pub struct Compiled {
    /// What it is.
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

/// The kinds of statement, by how they run.
#[derive(Debug)]
pub enum Kind {
    /// Nothing.
    Empty,
    /// Transaction control.
    Transaction(TransactionCommand),
    /// A compiled SELECT.
    Select(Arc<Select>),
    /// A compiled INSERT … VALUES.
    Insert(Box<Insert>),
    /// A compiled UPDATE or DELETE.
    Modify(Box<Modify>),
    /// Any other query.
    Query(Box<QueryPlan>),
    /// Any other INSERT, UPDATE or DELETE.
    Change(Box<PlannedChange>),
    /// A command of our own grammar.
    Utility(Arc<Utility>),
    /// A command of sqlparser's grammar: DDL and EXPLAIN.
    Command(Arc<Statement>),
}

impl Kind {
    /// The command's name, as a tag begins with it.
    pub fn tag(&self) -> &'static str {
        match self {
            Kind::Empty => "",
            Kind::Transaction(command) => transaction_tag(command),
            Kind::Select(_) | Kind::Query(_) => "SELECT",
            Kind::Insert(_) => "INSERT",
            Kind::Modify(modify) => match modify.action {
                Action::Update { .. } => "UPDATE",
                Action::Delete => "DELETE",
            },
            Kind::Change(change) => change.verb.tag(),
            Kind::Utility(utility) => utility_tag(utility),
            Kind::Command(statement) => command_tag(statement),
        }
    }

    /// Whether it changes data, so that a read-only transaction refuses it.
    pub fn writes(&self) -> bool {
        match self {
            Kind::Insert(_) | Kind::Modify(_) | Kind::Change(_) => true,
            Kind::Select(select) => select.locking.is_some(),
            Kind::Command(statement) => !matches!(**statement, Statement::Explain { .. }),
            Kind::Utility(utility) => match &**utility {
                Utility::Copy(copy) => copy.from,
                _ => false,
            },
            _ => false,
        }
    }

    /// Whether the compiled executor runs it.
    pub fn is_compiled(&self) -> bool {
        matches!(self, Kind::Select(_) | Kind::Insert(_) | Kind::Modify(_))
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
    use datafusion::sql::sqlparser::ast::ObjectType;
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
        Statement::Explain { .. } => "EXPLAIN",
        _ => "",
    }
}

/// Compiles a statement. `bind` makes a fresh binder: an attempt that is given up must not leave
/// its parameter types behind.
pub fn compile<'a>(
    parsed: Parsed,
    bind: impl Fn() -> Binder<'a>,
    compiled_only: bool,
) -> SqlResult<Option<Compiled>> {
    let mut statement = match parsed {
        Parsed::Utility(Utility::Transaction(command)) => {
            return Ok(Some(plain(Kind::Transaction(command))));
        }
        Parsed::Utility(utility) => return Ok(Some(plain(Kind::Utility(Arc::new(utility))))),
        Parsed::Sql(statement) => statement,
    };
    let binder = bind();
    super::sets::expand(&mut statement, binder.state())?;
    crate::pg_catalog::rewrite::rewrite(&mut statement, binder.vars())?;
    match *statement {
        Statement::Query(query) => {
            // An attempt that fails leaves the message to the planner that has the last word.
            let attempt = bind();
            match select::compile(&attempt, &query) {
                Ok(Some(select)) => {
                    let columns = Some(Arc::clone(&select.columns));
                    return Ok(Some(with(
                        &attempt,
                        Kind::Select(Arc::new(select)),
                        columns,
                    )));
                }
                Err(error) if !query.locks.is_empty() => return Err(error),
                Ok(None) | Err(_) => {}
            }
            if compiled_only {
                return Ok(None);
            }
            refuse_locks(&query)?;
            if let SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) = &*query.body {
                return Err(SqlError::unsupported("a data-changing statement in WITH"));
            }
            let plan = query::plan_query(&binder, &query)?;
            let columns = Some(Arc::clone(&plan.columns));
            Ok(Some(with(&binder, Kind::Query(Box::new(plan)), columns)))
        }
        Statement::Insert(insert) => dml::insert(&bind, insert, compiled_only),
        Statement::Update(update) => dml::update(&bind, update, compiled_only),
        Statement::Delete(delete) => dml::delete(&bind, delete, compiled_only),
        other => {
            let tag = command_tag(&other);
            if tag.is_empty() {
                return Err(SqlError::unsupported(statement_name(&other)));
            }
            let columns = (tag == "EXPLAIN").then(explain_columns);
            let mut compiled = plain(Kind::Command(Arc::new(other)));
            compiled.columns = columns;
            Ok(Some(compiled))
        }
    }
}

fn explain_columns() -> Arc<[Column]> {
    Arc::from([query::column("QUERY PLAN".into(), SqlType::Text)])
}

/// Row locks are taken by compiled SELECTs alone.
pub fn refuse_locks(query: &datafusion::sql::sqlparser::ast::Query) -> SqlResult<()> {
    match query.locks.first() {
        Some(lock) => Err(SqlError::unsupported(format!(
            "FOR {} of this query",
            lock.lock_type
        ))),
        None => Ok(()),
    }
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

/// A compiled statement with what its binder found.
pub fn with(binder: &Binder<'_>, kind: Kind, columns: Option<Arc<[Column]>>) -> Compiled {
    let mut tables = binder.tables();
    tables.sort_by_key(|table| table.oid);
    tables.dedup_by_key(|table| table.oid);
    Compiled {
        kind,
        param_types: binder.param_types(),
        columns,
        tables,
        keep: !binder.has_bound_source(),
        version: 0,
    }
}
