//! Sessions that run statements as a server would: text, plan, execution, transaction.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

use evenkeel_engine::memory::SessionMemory;
use evenkeel_engine::{CancelFlag, Config, Database, Durability, Isolation, Transaction, block_on};
use evenkeel_exec::{
    Batch, Environment, ExecError, Execution, Limits, RowEvents, Step, TempSpace,
    TransactionWriter, Wait,
};
use evenkeel_expr::ExprResult;
use evenkeel_io::SimDisk;
use evenkeel_planner::ast::Statement;
use evenkeel_planner::bind::bind;
use evenkeel_planner::plan::Plan;
use evenkeel_planner::planning::{PlannerSettings, Planning, plan};
use evenkeel_planner::{PlanError, explain, parser};
use evenkeel_storage::StorageConfig;
use evenkeel_types::{Datum, TypeContext};

use crate::catalog::Tables;
use crate::transcript::{Server, Session};

/// Takes all texts.
fn free(_: usize) -> Result<(), Infallible> {
    Ok(())
}

struct Functions(TypeContext);

impl evenkeel_expr::call::Session for Functions {
    fn types(&self) -> &TypeContext {
        &self.0
    }

    fn statement_start(&self) -> i64 {
        0
    }

    fn reserve(&self, _bytes: usize) -> ExprResult<()> {
        Ok(())
    }

    fn hold(&self, _: usize) -> ExprResult<()> {
        Ok(())
    }

    fn release(&self, _: usize) {}

    fn check_cancel(&self) -> ExprResult<()> {
        Ok(())
    }

    fn system_call(&self, _oid: u32, _args: &[Datum]) -> ExprResult<Datum> {
        Ok(Datum::Null)
    }
}

/// A database in memory.
pub struct Ours {
    db: Database,
    tables: Arc<Tables>,
    limits: Limits,
}

impl Ours {
    pub fn new(limits: Limits) -> Ours {
        let disk = Arc::new(SimDisk::new(1));
        let config = Config {
            storage: StorageConfig::small(),
            ..Config::default()
        };
        let db = Database::open(disk, Path::new("/db"), config).unwrap();
        Ours {
            db,
            tables: Arc::default(),
            limits,
        }
    }
}

impl Server for Ours {
    type Session = OurSession;

    fn connect(&mut self, _first: bool) -> OurSession {
        OurSession {
            db: self.db.clone(),
            tables: Arc::clone(&self.tables),
            limits: self.limits.clone(),
            txn: None,
            block: None,
            running: None,
            said: None,
        }
    }
}

pub struct OurSession {
    db: Database,
    tables: Arc<Tables>,
    limits: Limits,
    txn: Option<Transaction>,
    /// Whether there is a transaction block, and whether it has failed.
    block: Option<bool>,
    running: Option<Running>,
    said: Option<Vec<String>>,
}

struct Running {
    run: Execution,
    plan: Arc<Plan>,
    tag: &'static str,
    writer: Arc<TransactionWriter>,
    lines: Vec<String>,
}

fn bind_error(sql: &str, error: &PlanError) -> Vec<String> {
    let mut lines = vec![format!("! {} {}", error.state.as_str(), error.message)];
    lines.extend(error.detail.iter().map(|text| format!("D {text}")));
    lines.extend(error.hint.iter().map(|text| format!("H {text}")));
    let place = |at: u32| sql[..at as usize].chars().count() + 1;
    lines.extend(error.at.iter().map(|at| format!("@ {}", place(at.0))));
    lines
}

fn exec_error(error: &ExecError) -> Vec<String> {
    let mut lines = vec![format!("! {} {error}", error.sqlstate())];
    if let ExecError::Value(error) = error {
        lines.extend(error.detail.iter().map(|text| format!("D {text}")));
        lines.extend(error.hint.iter().map(|text| format!("H {text}")));
    }
    lines
}

impl OurSession {
    fn begin(&mut self, isolation: Isolation) {
        if self.txn.is_none() {
            self.txn = Some(self.db.begin(isolation).unwrap());
        }
    }

    fn end(&mut self, commit: bool) {
        if let Some(txn) = self.txn.take()
            && commit
        {
            block_on(txn.commit(Durability::Sync)).unwrap();
        }
    }

    /// Commands that have no plan.
    fn command(&mut self, sql: &str) -> Option<&'static str> {
        if sql.starts_with("BEGIN") {
            let isolation = match sql.contains("REPEATABLE READ") {
                true => Isolation::RepeatableRead,
                false => Isolation::ReadCommitted,
            };
            self.begin(isolation);
            self.block = Some(false);
            return Some("BEGIN");
        }
        if sql == "COMMIT" || sql == "ROLLBACK" {
            let commit = sql == "COMMIT" && self.block == Some(false);
            self.end(commit);
            self.block = None;
            return Some(if commit { "COMMIT" } else { "ROLLBACK" });
        }
        if let Some(name) = sql.strip_prefix("SAVEPOINT ") {
            self.txn.as_mut()?.savepoint(name);
            return Some("SAVEPOINT");
        }
        if let Some(name) = sql.strip_prefix("ROLLBACK TO ") {
            self.txn.as_mut()?.rollback_to(name).ok()?;
            self.block = Some(false);
            return Some("ROLLBACK");
        }
        if sql.starts_with("CREATE TABLE") {
            self.tables.create(&self.db, sql);
            return Some("CREATE TABLE");
        }
        None
    }

    fn plan(&self, sql: &str, notes: bool) -> Result<(Plan, &'static str), PlanError> {
        let functions = Functions(TypeContext::default());
        let parsed = parser::parse_one(sql)?.unwrap();
        let tag = match &parsed.statement {
            Statement::Insert(_) => "INSERT 0",
            Statement::Update(_) => "UPDATE",
            Statement::Delete(_) => "DELETE",
            Statement::Merge(_) => "MERGE",
            _ => "SELECT",
        };
        let bound = bind(&parsed.statement, &*self.tables, &functions, &[])?;
        let how = Planning {
            settings: &PlannerSettings::default(),
            session: &functions,
            values: None,
            notes,
        };
        Ok((plan(&bound, how)?, tag))
    }

    fn start(&mut self, sql: &str) -> Result<Running, Vec<String>> {
        let (plan, tag) = self.plan(sql, false).map_err(|e| bind_error(sql, &e))?;
        let plan = Arc::new(plan);
        self.begin(Isolation::ReadCommitted);
        let mut txn = self.txn.take().unwrap();
        txn.begin_statement().unwrap();
        let env = Environment {
            snapshot: txn.snapshot().unwrap(),
            relations: Arc::clone(&self.tables) as _,
            session: Arc::new(Functions(TypeContext::default())),
            memory: SessionMemory::unlimited(),
            events: Arc::new(RowEvents::new(&SessionMemory::unlimited())),
            cross_check: None,
            cancel: CancelFlag::new(),
            temp: Arc::new(TempSpace::new(self.db.store())),
            limits: self.limits.clone(),
        };
        let writer = Arc::new(TransactionWriter::new());
        writer.lend(txn);
        let run = Execution::start(Arc::clone(&plan), Vec::new(), env);
        let run = run.map_err(|error| exec_error(&error))?;
        Ok(Running {
            run: run.writing(Arc::clone(&writer) as _),
            plan,
            tag,
            writer,
            lines: Vec::new(),
        })
    }

    /// Runs `outer`, and `inner` as a later command between the beginning of `outer` and its rows;
    /// returns the answer to `outer`.
    pub fn within(&mut self, outer: &str, inner: &str) -> Vec<String> {
        self.send("BEGIN");
        let mut running = self.start(outer).unwrap();
        self.txn = running.writer.take();
        self.send(inner);
        let inner = self.answer().unwrap();
        assert!(inner.last().unwrap().starts_with('='), "{inner:?}");
        running.writer.lend(self.txn.take().unwrap());
        let outcome = running.go_on().unwrap();
        self.finish(Some(running), outcome);
        self.said.take().unwrap()
    }

    /// The end of a statement, or its failure.
    fn finish(&mut self, running: Option<Running>, outcome: Result<Vec<String>, Vec<String>>) {
        if let Some(running) = running {
            drop(running.run);
            self.txn = running.writer.take();
        }
        let failed = outcome.is_err();
        if self.block.is_none() {
            self.end(!failed);
        } else if failed {
            self.end(false);
            self.block = Some(true);
        }
        self.said = Some(outcome.unwrap_or_else(|error| error));
    }
}

impl Running {
    /// Runs on; none while it waits.
    fn go_on(&mut self) -> Option<Result<Vec<String>, Vec<String>>> {
        let mut batch = Batch::default();
        loop {
            match self.run.next(&mut batch) {
                Err(error) => return Some(Err(exec_error(&error))),
                Ok(Step::Wait(Wait::Row)) => return None,
                Ok(Step::Wait(Wait::Yield)) => {}
                Ok(Step::Batch) => self.lines.extend(batch.rows().map(|row| {
                    let types = TypeContext::default();
                    let columns = row.iter().zip(&self.plan.columns);
                    let texts = columns.map(|(value, column)| match value {
                        Datum::Null => " NULL |".to_owned(),
                        value => format!(" {} |", value.to_text(column.ty, &types)),
                    });
                    format!("|{}", texts.collect::<String>())
                })),
                Ok(Step::Done) => {
                    let rows = match self.tag {
                        "SELECT" => self.lines.len() as u64,
                        _ => self.run.changed(),
                    };
                    let mut lines = std::mem::take(&mut self.lines);
                    lines.push(format!("= {} {rows}", self.tag));
                    return Some(Ok(lines));
                }
            }
        }
    }
}

impl Session for OurSession {
    fn send(&mut self, sql: &str) {
        if let Some(tag) = self.command(sql) {
            self.said = Some(vec![format!("= {tag}")]);
            return;
        }
        if self.block == Some(true) {
            let message = "current transaction is aborted, commands ignored until end of \
                           transaction block";
            self.said = Some(vec![format!("! 25P02 {message}")]);
            return;
        }
        if let Some(explained) = sql.strip_prefix("EXPLAIN (COSTS OFF) ") {
            let outcome = match self.plan(explained, true) {
                Err(error) => Err(bind_error(explained, &error)),
                Ok((plan, _)) => {
                    let Ok(lines) = explain::text(&plan, explain::Options::PLAIN, None, &mut free);
                    let lines = lines.iter().map(|line| format!("| {line} |"));
                    Ok(lines.chain(["= EXPLAIN".to_owned()]).collect())
                }
            };
            self.finish(None, outcome);
            return;
        }
        match self.start(sql) {
            Ok(running) => self.running = Some(running),
            Err(error) => self.finish(None, Err(error)),
        }
    }

    fn answer(&mut self) -> Option<Vec<String>> {
        if let Some(mut running) = self.running.take() {
            match running.go_on() {
                None => {
                    self.running = Some(running);
                    return None;
                }
                Some(outcome) => self.finish(Some(running), outcome),
            }
        }
        self.said.take()
    }
}
