//! Commands that have no plan.

use std::sync::Arc;

use bytes::BytesMut;
use evenkeel_engine::{TableLockMode, WaitPolicy};
use evenkeel_planner::ast::{
    AlterSystem, Command, Define, Discarded, LockMode, Prepare, QualifiedName, SetSetting,
};
use evenkeel_planner::bind::AssignedTo;

use super::api::Prepared;
use super::run::{Arguments, Source};
use super::{Session, StatementResult};
use crate::deep::Deep;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::exec::{RowStream, row};

use crate::parser::parse::type_of;
use crate::planner::compile::{Compiled, Kind, define_tag};
use crate::planner::rows;
use crate::protocol::{Column, Format};
use crate::types::{Datum, SqlType};

fn done(tag: &str) -> SqlResult<StatementResult> {
    Ok(StatementResult::Command(tag.to_owned()))
}

impl Session {
    /// Runs a command.
    pub(super) async fn utility(
        &mut self,
        command: &Arc<Deep<Command>>,
        formats: &[Format],
    ) -> SqlResult<StatementResult> {
        match &***command {
            Command::Transaction(command) => {
                let tag = self.transaction_command(command).await?;
                done(tag)
            }
            Command::Set(SetSetting { name, value, local }) => {
                self.set_setting(name, value.as_deref(), *local)?;
                done("SET")
            }
            Command::SetFromCurrent { name, local } => {
                let value = self.setting(name)?;
                self.set_setting(name, Some(&value), *local)?;
                done("SET")
            }
            Command::Reset(name) => {
                match name {
                    Some(name) => drop(self.settings.set(name, None, false)?),
                    None => self.settings.reset_all(),
                }
                self.refresh()?;
                done("RESET")
            }
            Command::AlterSystem(change) => self.alter_system(change).await,
            Command::SetConstraints { names, deferred } => {
                self.set_constraints(names, *deferred).await?;
                done("SET CONSTRAINTS")
            }
            Command::Show(name) => self.show(name),
            Command::Discard(what) => self.discard(*what).await,
            Command::Prepare(prepare) => self.prepare_sql(prepare).await,
            Command::Execute { .. } => self.execute_sql(command, formats).await,
            Command::Explain(explain) => self.explain(explain).await,
            Command::Deallocate(name) => self.deallocate(name.as_deref()),
            Command::Listen(channel) => {
                self.resources.channels.listen(channel)?;
                done("LISTEN")
            }
            Command::Notify { channel, payload } => {
                self.resources.channels.notify(channel, payload)?;
                done("NOTIFY")
            }
            Command::Unlisten(channel) => {
                self.resources.channels.unlisten(channel.as_deref());
                done("UNLISTEN")
            }
            Command::Declare(declare) => self.declare(declare).await,
            Command::Fetch(fetch) => self.fetch(fetch, formats).await,
            Command::Close(name) => self.close_cursor(name.as_deref()),
            Command::Copy(copy) => self.copy(copy).await,
            Command::Vacuum(maintain) => self.vacuum(maintain).await,
            Command::Analyze(maintain) => self.analyze(maintain).await,
            Command::Reindex(reindex) => self.reindex(reindex).await,
            Command::Checkpoint => self.checkpoint().await,
            Command::Lock {
                tables,
                mode,
                nowait,
            } => self.lock_table_command(tables, *mode, *nowait).await,
            Command::Define(_) | Command::Unbuilt(_) => {
                Err(SqlError::internal("a command that is run elsewhere"))
            }
        }
    }

    /// Runs a definition.
    pub(super) async fn define(
        &mut self,
        define: &Arc<Deep<Define>>,
    ) -> SqlResult<StatementResult> {
        self.tx.used = true;
        self.tx.txn()?.begin_statement()?;
        if matches!(&***define, Define::CreateTableAs(_)) {
            return Ok(StatementResult::Command(
                self.create_table_as(define).await?,
            ));
        }
        self.ddl(define).await?;
        done(define_tag(define))
    }

    fn set_setting(&mut self, name: &str, value: Option<&str>, local: bool) -> SqlResult<()> {
        refuse_setting(name, value)?;
        if local && self.tx.block != super::Block::Explicit && !self.in_batch {
            self.warn(
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                "SET LOCAL can only be used in transaction blocks",
            );
        }
        if let Some(without_effect) = self.settings.set(name, value, local)? {
            self.notice("NOTICE", SqlState::SUCCESS, without_effect);
        }
        self.refresh()
    }

    async fn alter_system(&mut self, change: &AlterSystem) -> SqlResult<StatementResult> {
        self.refuse_in_block("ALTER SYSTEM")?;
        let (configuration, change) = (Arc::clone(self.settings.configuration()), change.clone());
        let altered = self.off_thread(move |_| {
            let change = match &change {
                AlterSystem::Set(name, value) => Some((name.as_str(), value.as_deref())),
                AlterSystem::Reset(Some(name)) => Some((name.as_str(), None)),
                AlterSystem::Reset(None) => None,
            };
            Ok(configuration.alter(change)?)
        });
        if let Some(without_effect) = altered.await? {
            self.notice("NOTICE", SqlState::SUCCESS, without_effect);
        }
        done("ALTER SYSTEM")
    }

    /// A setting's value as SHOW gives it.
    pub(super) fn setting(&self, name: &str) -> SqlResult<String> {
        match name {
            "transaction_isolation" => {
                Ok(crate::settings::isolation_name(self.tx.isolation).to_owned())
            }
            "transaction_read_only" => Ok(if self.tx.read_only { "on" } else { "off" }.to_owned()),
            _ => self.settings.show(name),
        }
    }

    fn show(&self, name: &str) -> SqlResult<StatementResult> {
        let mut rows = Vec::new();
        if name == "all" {
            for (name, _) in self.settings.view().all() {
                let value = self.setting(&name)?;
                rows.push(text_row(&[&name, &value, ""]));
            }
        } else {
            rows.push(text_row(&[&self.setting(name)?]));
        }
        Ok(StatementResult::Rows(
            RowStream::ready(show_columns(name), rows, "SHOW").untagged(),
        ))
    }

    async fn discard(&mut self, what: Discarded) -> SqlResult<StatementResult> {
        match what {
            Discarded::All => {
                self.refuse_in_block("DISCARD ALL")?;
                self.settings.reset_all();
                self.forget_statements();
                self.cursors.clear();
                self.resources.advisory.unlock_all();
                self.resources.channels.unlisten(None);
                self.resources.sequences.forget();
                self.refresh()?;
                self.drop_temporary().await?;
                done("DISCARD ALL")
            }
            Discarded::Plans => done("DISCARD PLANS"),
            Discarded::Sequences => {
                self.resources.sequences.forget();
                done("DISCARD SEQUENCES")
            }
            Discarded::Temp => {
                self.ensure_transaction()?;
                self.drop_temporary().await?;
                done("DISCARD TEMP")
            }
        }
    }

    /// A prepared statement's parameter types and all else are found when it is prepared.
    async fn prepare_sql(&mut self, prepare: &Prepare) -> SqlResult<StatementResult> {
        let name = &prepare.name.text;
        self.check_statement_name(name)?;
        let (text, names) = (self.current_text.clone(), self.names());
        let types = prepare.types.iter();
        let types = types.map(|ty| Ok(type_of(ty, &text, &names)?.oid()));
        let oids = types.collect::<SqlResult<Vec<u32>>>()?;
        let body = text.get(prepare.body.0 as usize..).unwrap_or_default();
        let prepared = self.prepare_text(body, &oids).await?;
        self.keep_statement(name.clone(), prepared, text, true);
        done("PREPARE")
    }

    async fn execute_sql(
        &mut self,
        command: &Arc<Deep<Command>>,
        formats: &[Format],
    ) -> SqlResult<StatementResult> {
        let Command::Execute { name, .. } = &***command else {
            return Err(SqlError::internal("EXECUTE of another command"));
        };
        let prepared = self.sql_statement(&name.text)?;
        let data = self
            .execute_arguments(&name.text, &prepared, command)
            .await?;
        let source = Source::Prepared(&prepared);
        Box::pin(self.run(source, Arguments::Data(data), formats)).await
    }

    async fn execute_arguments(
        &mut self,
        name: &str,
        prepared: &Prepared,
        command: &Arc<Deep<Command>>,
    ) -> SqlResult<Vec<Datum>> {
        let types = prepared.param_types.iter();
        let view = self.view();
        let types = types.map(|oid| view.column_type(*oid, -1).unwrap_or(SqlType::Text));
        let types: Vec<SqlType> = types.collect();
        check_number(name, types.len(), execute_args(command).len())?;
        if types.is_empty() {
            return Ok(Vec::new());
        }
        let cx = Arc::new(self.statement_cx(self.view()));
        let (text, command) = (self.current_text.clone(), Arc::clone(command));
        let values = move || {
            let args = execute_args(&command);
            let programs = rows::assigned(&text, args, &types, AssignedTo::Parameters, &cx)?;
            row::values(&programs, &cx)
        };
        self.engine.planners().run(&self.cancel, values).await
    }

    fn deallocate(&mut self, name: Option<&str>) -> SqlResult<StatementResult> {
        let Some(name) = name else {
            self.forget_statements();
            return done("DEALLOCATE ALL");
        };
        self.sql_statement(name)?;
        self.forget_statement(name);
        done("DEALLOCATE")
    }

    async fn lock_table_command(
        &mut self,
        tables: &[QualifiedName],
        mode: LockMode,
        nowait: bool,
    ) -> SqlResult<StatementResult> {
        if self.tx.block != super::Block::Explicit {
            return Err(SqlError::new(
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                "LOCK TABLE can only be used in transaction blocks",
            ));
        }
        let mode = match mode {
            LockMode::AccessShare => TableLockMode::AccessShare,
            LockMode::RowShare => TableLockMode::RowShare,
            LockMode::RowExclusive => TableLockMode::RowExclusive,
            LockMode::ShareUpdateExclusive => TableLockMode::ShareUpdateExclusive,
            LockMode::Share => TableLockMode::Share,
            LockMode::ShareRowExclusive => TableLockMode::ShareRowExclusive,
            LockMode::Exclusive => TableLockMode::Exclusive,
            LockMode::AccessExclusive => TableLockMode::AccessExclusive,
        };
        let policy = if nowait {
            WaitPolicy::NoWait
        } else {
            WaitPolicy::Block
        };
        for name in tables {
            match self.named_view(name)? {
                Some(view) => self.lock_view_and_below(&view, mode, policy).await?,
                None => drop(self.locked_table(name, mode, policy).await?),
            }
        }
        done("LOCK TABLE")
    }

    /// The result columns of commands that have some.
    pub(super) fn complete_columns(&self, compiled: &mut Compiled) -> SqlResult<()> {
        let Kind::Utility(command) = &compiled.kind else {
            return Ok(());
        };
        compiled.columns = match &***command {
            Command::Show(name) => Some(show_columns(name)),
            Command::Fetch(fetch) if fetch.rows => self.cursor_columns(&fetch.name),
            Command::Execute { name, .. } => self.sql_statement(&name.text)?.columns.clone(),
            _ => None,
        };
        Ok(())
    }
}

/// Refuses settings that no SET changes, and values that are not built.
pub(super) fn refuse_setting(name: &str, value: Option<&str>) -> SqlResult<()> {
    match (name, value) {
        ("transaction_isolation" | "transaction_read_only", Some(_)) => {
            Err(SqlError::unsupported(format!("SET {name} = value")).hint("Use SET TRANSACTION."))
        }
        ("default_transaction_isolation", Some("serializable")) => {
            Err(SqlError::unsupported("isolation level SERIALIZABLE"))
        }
        _ => Ok(()),
    }
}

/// Refuses arguments of EXECUTE that are not as many as the parameters.
fn check_number(name: &str, expected: usize, given: usize) -> SqlResult<()> {
    if given == expected {
        return Ok(());
    }
    let message = format!("wrong number of parameters for prepared statement \"{name}\"");
    let detail = format!("Expected {expected} parameters but got {given}.");
    Err(SqlError::syntax(message).detail(detail))
}

fn show_columns(name: &str) -> Arc<[Column]> {
    let text = |name: &str| Column::of(name.to_owned(), SqlType::Text);
    match name {
        "all" => Arc::from([text("name"), text("setting"), text("description")]),
        "timezone" => Arc::from([text("TimeZone")]),
        "datestyle" => Arc::from([text("DateStyle")]),
        "intervalstyle" => Arc::from([text("IntervalStyle")]),
        name => Arc::from([text(name)]),
    }
}

/// The DataRow body of some texts; their text and binary forms are the same.
pub(super) fn text_row(texts: &[&str]) -> BytesMut {
    use bytes::BufMut;
    let mut body = BytesMut::new();
    for text in texts {
        // A setting or a plan's line is far below 2 GiB.
        body.put_i32(text.len() as i32);
        body.put_slice(text.as_bytes());
    }
    body
}

/// The arguments of EXECUTE.
fn execute_args(command: &Command) -> &[evenkeel_planner::ast::Expr] {
    match command {
        Command::Execute { args, .. } => args,
        _ => &[],
    }
}
