//! The commands of our own grammar.

use std::sync::Arc;

use bytes::BytesMut;
use evenkeel_engine::{TableLockMode, WaitPolicy};
use evenkeel_planner::bind::AssignedTo;
use sqlparser::ast::{DataType, ObjectName, Statement};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::Location;

use super::api::Prepared;
use super::run::{Arguments, Source};
use super::{Session, StatementResult};
use crate::deep::Deep;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::exec::{RowStream, row};

use crate::parser::type_from_ast;
use crate::parser::utility::{Span, Utility};
use crate::planner::compile::{Compiled, Kind, command_tag};
use crate::planner::rows;
use crate::protocol::{Column, Format};
use crate::types::{Datum, SqlType};

fn done(tag: &str) -> SqlResult<StatementResult> {
    Ok(StatementResult::Command(tag.to_owned()))
}

impl Session {
    /// Runs a command of our own grammar.
    pub(super) async fn utility(
        &mut self,
        utility: &Utility,
        formats: &[Format],
    ) -> SqlResult<StatementResult> {
        match utility {
            Utility::Transaction(command) => {
                let tag = self.transaction_command(command).await?;
                done(tag)
            }
            Utility::Set { name, value, local } => {
                self.set_setting(name, value.as_deref(), *local)?;
                done("SET")
            }
            Utility::Reset(name) => {
                match name {
                    Some(name) => self.settings.set(name, None, false)?,
                    None => self.settings.reset_all(),
                }
                self.refresh()?;
                done("RESET")
            }
            Utility::Show(name) => self.show(name),
            Utility::Discard(what) => self.discard(*what),
            Utility::Prepare { name, types, at } => self.prepare_sql(name, types, *at).await,
            Utility::Execute { name, args } => self.execute_sql(name, *args, formats).await,
            Utility::Explain(explain) => self.explain(explain).await,
            Utility::Deallocate(name) => self.deallocate(name.as_deref()),
            Utility::Declare(declare) => self.declare(declare).await,
            Utility::Fetch(fetch) => self.fetch(fetch, formats).await,
            Utility::Close(name) => self.close_cursor(name.as_deref()),
            Utility::Copy(copy) => self.copy(copy).await,
            Utility::Vacuum { flags, tables } => self.vacuum(flags, tables).await,
            Utility::Analyze { flags, tables } => self.analyze(flags, tables).await,
            Utility::ResetParameters { table, names } => {
                self.reset_parameters(table, names).await?;
                done("ALTER TABLE")
            }
            Utility::Checkpoint => self.checkpoint().await,
            Utility::LockTable {
                tables,
                mode,
                nowait,
            } => self.lock_table_command(tables, mode, *nowait).await,
        }
    }

    /// Runs a definition.
    pub(super) async fn command(
        &mut self,
        statement: &Arc<Deep<Statement>>,
    ) -> SqlResult<StatementResult> {
        self.tx.used = true;
        self.tx.txn()?.begin_statement()?;
        self.ddl(statement).await?;
        done(command_tag(statement))
    }

    fn set_setting(&mut self, name: &str, value: Option<&str>, local: bool) -> SqlResult<()> {
        match (name, value) {
            ("transaction_isolation" | "transaction_read_only", Some(_)) => {
                return Err(SqlError::unsupported(format!("SET {name} = value"))
                    .hint("Use SET TRANSACTION."));
            }
            ("default_transaction_isolation", Some("serializable")) => {
                return Err(SqlError::unsupported("isolation level SERIALIZABLE"));
            }
            _ => {}
        }
        if local && self.tx.block != super::Block::Explicit && !self.in_batch {
            self.warn(
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                "SET LOCAL can only be used in transaction blocks",
            );
        }
        self.settings.set(name, value, local)?;
        self.refresh()
    }

    fn setting(&self, name: &str) -> SqlResult<String> {
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

    fn discard(&mut self, what: Keyword) -> SqlResult<StatementResult> {
        if what == Keyword::ALL {
            self.refuse_in_block("DISCARD ALL")?;
            self.settings.reset_all();
            self.sql_prepared.clear();
            self.cursors.clear();
            self.refresh()?;
            return done("DISCARD ALL");
        }
        if what == Keyword::PLANS {
            return done("DISCARD PLANS");
        }
        done(if what == Keyword::SEQUENCES {
            "DISCARD SEQUENCES"
        } else {
            "DISCARD TEMP"
        })
    }

    async fn prepare_sql(
        &mut self,
        name: &str,
        types: &[DataType],
        at: Location,
    ) -> SqlResult<StatementResult> {
        if self.sql_prepared.contains_key(name) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_PREPARED_STATEMENT,
                format!("prepared statement \"{name}\" already exists"),
            ));
        }
        let types = types
            .iter()
            .map(type_from_ast)
            .collect::<SqlResult<Vec<_>>>()?;
        let oids: Vec<u32> = types.iter().map(|ty| ty.oid()).collect();
        let text = self.current_text.clone();
        let start = offset_of(&text, at);
        let prepared = self.prepare_text(&text[start..], &oids).await?;
        self.sql_prepared.insert(name.to_owned(), prepared);
        done("PREPARE")
    }

    fn sql_statement(&self, name: &str) -> SqlResult<Arc<Prepared>> {
        self.sql_prepared.get(name).cloned().ok_or_else(|| {
            SqlError::new(
                SqlState::INVALID_SQL_STATEMENT_NAME,
                format!("prepared statement \"{name}\" does not exist"),
            )
        })
    }

    async fn execute_sql(
        &mut self,
        name: &str,
        args: Option<Span>,
        formats: &[Format],
    ) -> SqlResult<StatementResult> {
        let prepared = self.sql_statement(name)?;
        let data = self.execute_arguments(name, &prepared, args).await?;
        let source = Source::Prepared(&prepared);
        Box::pin(self.run(source, Arguments::Data(data), formats)).await
    }

    async fn execute_arguments(
        &mut self,
        name: &str,
        prepared: &Prepared,
        args: Option<Span>,
    ) -> SqlResult<Vec<Datum>> {
        let types = prepared.param_types.iter();
        let types = types.map(|oid| SqlType::from_oid(*oid, -1).unwrap_or(SqlType::Text));
        let types: Vec<SqlType> = types.collect();
        let Some(args) = args else {
            check_number(name, types.len(), 0)?;
            return Ok(Vec::new());
        };
        let list = self.part(args.from, Some(args.to));
        // EXECUTE, a name and a parenthesis were there.
        let text = list.replacen("       ", "SELECT ", 1);
        let name = name.to_owned();
        let cx = Arc::new(self.statement_cx(self.view()));
        let values = move || {
            let list = rows::value_list(&text)?;
            check_number(&name, types.len(), list.len())?;
            if list.is_empty() {
                return Ok(Vec::new());
            }
            let programs = rows::assigned(&text, &list, &types, AssignedTo::Parameters, &cx)?;
            row::values(&programs, &cx)
        };
        self.engine.planners().run(&self.cancel, values).await
    }

    fn deallocate(&mut self, name: Option<&str>) -> SqlResult<StatementResult> {
        let Some(name) = name else {
            self.sql_prepared.clear();
            return done("DEALLOCATE ALL");
        };
        self.sql_statement(name)?;
        self.sql_prepared.remove(name);
        done("DEALLOCATE")
    }

    async fn lock_table_command(
        &mut self,
        tables: &[ObjectName],
        mode: &str,
        nowait: bool,
    ) -> SqlResult<StatementResult> {
        if self.tx.block != super::Block::Explicit {
            return Err(SqlError::new(
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                "LOCK TABLE can only be used in transaction blocks",
            ));
        }
        let mode = match mode {
            "access share" => TableLockMode::AccessShare,
            "row share" => TableLockMode::RowShare,
            "row exclusive" => TableLockMode::RowExclusive,
            "share update exclusive" => TableLockMode::ShareUpdateExclusive,
            "share" => TableLockMode::Share,
            "share row exclusive" => TableLockMode::ShareRowExclusive,
            "exclusive" => TableLockMode::Exclusive,
            "access exclusive" => TableLockMode::AccessExclusive,
            other => return Err(SqlError::syntax(format!("no such lock mode: {other}"))),
        };
        let policy = if nowait {
            WaitPolicy::NoWait
        } else {
            WaitPolicy::Block
        };
        for name in tables {
            self.locked_table(name, mode, policy).await?;
        }
        done("LOCK TABLE")
    }

    /// The result columns of commands that have some.
    pub(super) fn complete_columns(&self, compiled: &mut Compiled) -> SqlResult<()> {
        let Kind::Utility(utility) = &compiled.kind else {
            return Ok(());
        };
        compiled.columns = match &***utility {
            Utility::Show(name) => Some(show_columns(name)),
            Utility::Fetch(fetch) if fetch.rows => self.cursor_columns(&fetch.name),
            Utility::Execute { name, .. } => self.sql_statement(name)?.columns.clone(),
            _ => None,
        };
        Ok(())
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

/// The byte offset of a parser's location; the end of the text if it lies outside.
pub(super) fn offset_of(text: &str, at: Location) -> usize {
    let line = usize::try_from(at.line)
        .unwrap_or(usize::MAX)
        .saturating_sub(1);
    let column = usize::try_from(at.column)
        .unwrap_or(usize::MAX)
        .saturating_sub(1);
    let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
    let rest = text.get(start..).unwrap_or("");
    start
        + rest
            .char_indices()
            .nth(column)
            .map_or(rest.len(), |(offset, _)| offset)
}
