//! The commands of our own grammar.

use std::sync::Arc;

use bytes::BytesMut;
use datafusion::common::DFSchema;
use datafusion::sql::sqlparser::ast::{Expr, Statement};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::Location;
use evenkeel_engine::{TableLockMode, WaitPolicy};

use super::api::{Column, Format, Prepared};
use super::run::{Arguments, Source};
use super::{Session, StatementResult};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::exec::RowStream;
use crate::exec::oltp::expr::Env;
use crate::planner::binder::Binder;
use crate::planner::compile::{Compiled, Kind, command_tag};
use crate::planner::query::column;
use crate::planner::utility::Utility;
use crate::planner::value;
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
            Utility::Prepare { name, types, at } => self.prepare_sql(name, types, *at),
            Utility::Execute { name, args } => self.execute_sql(name, args, formats).await,
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

    /// Runs a command of sqlparser's grammar.
    pub(super) async fn command(
        &mut self,
        statement: &Arc<Statement>,
        _formats: &[Format],
    ) -> SqlResult<StatementResult> {
        if let Statement::Explain { .. } = &**statement {
            return self.explain_statement(statement).await;
        }
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
                Ok(super::settings::isolation_name(self.tx.isolation).to_owned())
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

    fn prepare_sql(
        &mut self,
        name: &str,
        types: &[datafusion::sql::sqlparser::ast::DataType],
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
            .map(SqlType::from_ast)
            .collect::<SqlResult<Vec<_>>>()?;
        let oids: Vec<u32> = types.iter().map(|ty| ty.oid()).collect();
        let text = self.current_text.clone();
        let start = offset_of(&text, at);
        let prepared = self.prepare_text(&text[start..], &oids)?;
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
        args: &[Expr],
        formats: &[Format],
    ) -> SqlResult<StatementResult> {
        let prepared = self.sql_statement(name)?;
        let data = self.execute_arguments(name, &prepared, args)?;
        let source = Source::Prepared(&prepared);
        Box::pin(self.run(source, Arguments::Data(data), formats)).await
    }

    fn execute_arguments(
        &self,
        name: &str,
        prepared: &Prepared,
        args: &[Expr],
    ) -> SqlResult<Vec<Datum>> {
        if args.len() != prepared.param_types.len() {
            return Err(SqlError::syntax(format!(
                "wrong number of parameters for prepared statement \"{name}\""
            ))
            .detail(format!(
                "Expected {} parameters but got {}.",
                prepared.param_types.len(),
                args.len()
            )));
        }
        let view = self.view();
        let cx = self.statement_cx(Arc::clone(&view));
        let env = Env {
            params: &[],
            cx: &cx,
        };
        let binder = Binder::new(self.engine.base(), &view, cx.vars(), &[], 0);
        let schema = DFSchema::empty();
        let mut data = Vec::with_capacity(args.len());
        for (sql, oid) in args.iter().zip(&prepared.param_types) {
            let to = SqlType::from_oid(*oid, -1).unwrap_or(SqlType::Text);
            let expr = binder.expr(sql.clone(), &schema)?;
            let typed = value::compile(&binder, &expr, &schema)?;
            let datum = typed.eval(None, env)?;
            data.push(match (&datum, typed.ty) {
                (Datum::Null, _) => Datum::Null,
                // A string literal is of unknown type: the parameter's input function reads it.
                (Datum::Text(text), SqlType::Text) => Datum::parse_text(to, text, &cx.types)?,
                (_, from) => datum.cast_assign(from, to, &cx.types)?,
            });
        }
        Ok(data)
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
        tables: &[datafusion::sql::sqlparser::ast::ObjectName],
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
        compiled.columns = match &**utility {
            Utility::Show(name) => Some(show_columns(name)),
            Utility::Fetch(fetch) if fetch.rows => self.cursor_columns(&fetch.name),
            Utility::Execute { name, .. } => self.sql_statement(name)?.columns.clone(),
            _ => None,
        };
        Ok(())
    }
}

fn show_columns(name: &str) -> Arc<[Column]> {
    let text = |name: &str| column(name.to_owned(), SqlType::Text);
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
