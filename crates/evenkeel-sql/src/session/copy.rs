//! COPY as a command: its checks, its target, and the way of its data to the receiver.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::BytesMut;
use evenkeel_engine::table::InsertOptions;
use evenkeel_engine::{TableLockMode, Transaction, WaitPolicy};
use evenkeel_planner::ast::{Copy, CopyFile, CopyTarget, Expr, Name, QualifiedName};
use evenkeel_planner::quote::identifier;

use super::cursors::Within;
use super::run::Timeout;
use super::{Block, Session, StatementResult};
use crate::catalog::{ColumnInfo, Relation, TableInfo};
use crate::error::{SqlError, SqlResult, SqlState, lock_error};
use crate::exec::copy::{CopyReceiver, CopyRules, CopyShape, CopyWriter, Defaults, Skip};
use crate::exec::{CopyOutStream, StatementCx};
use crate::parser::copy_options::{CopyColumns, CopyOptions};
use crate::parser::names::undefined_table;
use crate::pg_catalog;
use crate::planner::rows;
use crate::protocol::{Column, CopyFormat};
use crate::types::SqlType;

/// The COPY FROM STDIN of a session whose data is coming.
pub(super) struct CopyIn {
    receiver: Box<CopyReceiver>,
    /// How many row events there were before it.
    events: usize,
    /// Whether the transaction ends with the COPY.
    autocommit: bool,
    /// The statement's timer, which ends with it.
    timeout: Option<Timeout>,
}

/// The form in which a COPY FROM STDIN wants its data, for CopyInResponse.
#[derive(Debug, Clone, Copy)]
pub struct CopyInStart {
    /// Number of columns.
    pub columns: usize,
    /// The format.
    pub format: CopyFormat,
}

impl Session {
    /// Keeps a timer running until the end of the data.
    pub(super) fn time_copy(&mut self, timeout: Option<Timeout>) {
        if let Some(copy) = &mut self.copy_in {
            copy.timeout = timeout;
        }
    }

    /// Takes a piece of the data of COPY FROM STDIN, cut anywhere, and stores rows as they gather.
    ///
    /// # Errors
    /// A bad line, with its number as context, or a row that the table refuses; the COPY and the
    /// transaction have then failed.
    pub async fn copy_data(&mut self, data: &[u8]) -> SqlResult<()> {
        let result = match &mut self.copy_in {
            Some(copy) => match copy.receiver.take(data) {
                Ok(false) => Ok(()),
                Ok(true) => match self.tx.txn() {
                    Ok(txn) => copy.receiver.store(txn).await,
                    Err(error) => Err(error),
                },
                Err(error) => Err(error),
            },
            None => Err(no_copy()),
        };
        self.copy_notices();
        self.settle(result)
    }

    fn copy_notices(&mut self) {
        let copy = self.copy_in.as_mut();
        let notices = copy.map(|copy| copy.receiver.take_notices());
        for notice in notices.unwrap_or_default() {
            self.notice("NOTICE", SqlState::SUCCESS, notice);
        }
    }

    /// CopyDone: the command tag.
    ///
    /// # Errors
    /// A bad last line, or the commit's if the COPY is a transaction of its own.
    pub async fn copy_done(&mut self) -> SqlResult<String> {
        let Some(mut copy) = self.copy_in.take() else {
            return Err(no_copy());
        };
        let mut result = match self.tx.txn() {
            Ok(txn) => copy.receiver.finish(txn).await,
            Err(error) => Err(error),
        };
        for notice in copy.receiver.take_notices() {
            self.notice("NOTICE", SqlState::SUCCESS, notice);
        }
        if let Ok(count) = result {
            let checked = self.statement_events(copy.events).await;
            result = checked.map(|()| count);
        }
        let count = self.settle(result)?;
        copy.timeout = None;
        if copy.autocommit {
            self.sync().await?;
        }
        Ok(format!("COPY {count}"))
    }

    /// CopyFail with the client's message: the error to report.
    pub fn copy_fail(&mut self, message: &str) -> SqlError {
        self.statement_failed();
        SqlError::new(
            SqlState::QUERY_CANCELED,
            format!("COPY from stdin failed: {message}"),
        )
        .detail("The client ended the copy.")
    }

    /// Runs COPY.
    pub(super) async fn copy(&mut self, copy: &Copy) -> SqlResult<StatementResult> {
        if copy.file == CopyFile::Server {
            return Err(SqlError::unsupported("COPY with a file of the server"));
        }
        let options = CopyOptions::of(&copy.options, copy.from, &self.current_text)?;
        self.tx.used = true;
        self.tx.txn()?.begin_statement()?;
        if let CopyTarget::Table { name, .. } = &copy.target
            && let Some(view) = self.named_view(name)?
        {
            return Err(no_copy_of(&view.name, copy.from));
        }
        match (&copy.target, copy.from) {
            (CopyTarget::Table { name, columns }, true) => {
                self.copy_in((name, columns, copy.filter.as_ref()), &options)
                    .await
            }
            (CopyTarget::Query(..), true) => Err(SqlError::syntax("COPY FROM needs a table")),
            (CopyTarget::Table { name, columns }, false) => {
                let list = self.copied_list(name, columns)?;
                self.copy_out(&format!("SELECT {list} FROM {}", quoted(name)), &options)
                    .await
            }
            (CopyTarget::Query(from, to), false) => {
                let text = self.part(*from, Some(*to));
                self.copy_out(&text, &options).await
            }
        }
    }

    /// Whether a COPY fills a temporary table.
    pub(super) fn fills_temporary(&self, copy: &Copy) -> bool {
        match &copy.target {
            CopyTarget::Table { name, .. } if copy.from => {
                let table = self.find_table(name);
                table.is_ok_and(|table| table.is_temporary())
            }
            _ => false,
        }
    }

    /// The columns that COPY TO gives, as a select list: those that are not generated, unless some
    /// are named.
    fn copied_list(&self, name: &QualifiedName, columns: &[Name]) -> SqlResult<String> {
        let (schema, last) = self.split_name(name)?;
        let path = &self.effective.search_path;
        let table = self.view().resolve(schema.as_deref(), &last, path);
        if let Some(table) = &table {
            copy_columns(table, columns)?;
        }
        let generated = table.filter(|table| {
            let mut columns = table.columns.iter();
            columns.any(|column| column.generated.is_some())
        });
        let list: Vec<String> = match generated {
            Some(table) => {
                let copied = copy_columns(&table, columns)?.into_iter();
                copied
                    .map(|at| identifier(&table.columns[at].name))
                    .collect()
            }
            None => columns.iter().map(|name| identifier(&name.text)).collect(),
        };
        Ok(match list.as_slice() {
            [] => "*".to_owned(),
            list => list.join(", "),
        })
    }

    async fn copy_in(
        &mut self,
        (name, columns, filter): (&QualifiedName, &[Name], Option<&Expr>),
        options: &CopyOptions,
    ) -> SqlResult<StatementResult> {
        let table = self
            .locked_table(name, TableLockMode::RowExclusive, WaitPolicy::Block)
            .await?;
        self.refuse_foreign(&table, "access")?;
        let columns = copy_columns(&table, columns)?;
        let freeze = options.freeze;
        let made_here = |txn: &Transaction| txn.made_here(table.heap);
        if freeze && !self.tx.txn.as_ref().is_some_and(made_here) {
            return Err(SqlError::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                "cannot perform COPY FREEZE because the table was not created or truncated in \
                 the current subtransaction",
            ));
        }
        let cx = Arc::new(self.statement_cx(self.view()));
        let filter = filter.map(|filter| {
            let text = &self.current_text;
            rows::copy_filter(text, filter, &table, &cx)
        });
        let rules = CopyRules {
            defaults: defaults(&table, &columns, options.default.is_some(), &cx)?,
            rules: rows::checks::programs(&table, &cx)?,
            filter: filter.transpose()?,
            skip: options.skip_errors.then_some(Skip {
                limit: options.reject_limit,
                verbosity: options.verbosity,
            }),
            domains: rows::domains::guards(&table, &columns, &cx)?,
        };
        let mut shape = CopyShape::new(options);
        let chosen = |named: &Option<CopyColumns>, option| forced(named, option, &table, &columns);
        shape.force_not_null = chosen(&options.force_not_null, "FORCE_NOT_NULL")?;
        shape.force_null = chosen(&options.force_null, "FORCE_NULL")?;
        let options = InsertOptions {
            freeze,
            ring: Some(table.table.load_ring()),
        };
        let cancel = self.cancel.clone();
        let start = CopyInStart {
            columns: columns.len(),
            format: shape.format,
        };
        let receiver = CopyReceiver::new(table, columns, rules, shape, options, cx, cancel);
        let autocommit = self.tx.block == Block::Implicit && !self.in_batch;
        let events = self.resources.events.len();
        self.copy_in = Some(CopyIn {
            receiver: Box::new(receiver),
            events,
            autocommit,
            timeout: None,
        });
        Ok(StatementResult::CopyIn(start))
    }

    async fn copy_out(&mut self, text: &str, options: &CopyOptions) -> SqlResult<StatementResult> {
        let (query, cx) = self.planned(text, Within::Text, Some("COPY")).await?;
        let mut shape = CopyShape::new(options);
        shape.force_quote = force_quote(options, &query.columns)?;
        let writer = CopyWriter::new(shape, cx.types.clone());
        let mut header = BytesMut::new();
        let names = query.columns.iter().map(|column| column.name.as_str());
        writer.begin(names, &mut header);
        let rows = self.start_rows(&query.plan, &[], cx)?;
        let failed = self.failed.clone();
        Ok(StatementResult::CopyOut(CopyOutStream::new(
            rows, writer, header, failed,
        )))
    }

    /// A table, locked, as the catalog has it once the lock is there.
    pub(super) async fn locked_table(
        &mut self,
        name: &QualifiedName,
        mode: TableLockMode,
        policy: WaitPolicy,
    ) -> SqlResult<Arc<TableInfo>> {
        loop {
            let table = self.find_table(name)?;
            self.tx
                .txn()?
                .lock_table(table.lock_id(), mode, policy)
                .await
                .map_err(|error| lock_error(error, "relation", &table.name))?;
            let again = self.find_table(name)?;
            if again.oid == table.oid {
                return Ok(again);
            }
        }
    }

    /// The table called `name`; 42P01 if there is none, 3F000 if its schema is not there, 42501 if
    /// it is one of the system's.
    pub(super) fn find_table(&self, name: &QualifiedName) -> SqlResult<Arc<TableInfo>> {
        let (schema, table) = self.split_name(name)?;
        let path = &self.effective.search_path;
        if let Some(found) = self.view().resolve(schema.as_deref(), &table, path) {
            return Ok(found);
        }
        if let Some(Relation::View(view)) = self.view().find(schema.as_deref(), &table, path) {
            let message = format!("\"{}\" is not a table", view.name);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        self.refuse_missing_schema(schema.as_deref())?;
        let system = schema.as_deref().unwrap_or("pg_catalog");
        if pg_catalog::relation(system, &table).is_some() {
            let message = format!("permission denied: \"{table}\" is a system catalog");
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        Err(undefined_table(schema.as_deref(), &table))
    }
}

/// 42809
fn no_copy_of(view: &str, from: bool) -> SqlError {
    let (message, hint) = match from {
        true => (
            format!("cannot copy to view \"{view}\""),
            "To enable copying to a view, provide an INSTEAD OF INSERT trigger.",
        ),
        false => (
            format!("cannot copy from view \"{view}\""),
            "Try the COPY (SELECT ...) TO variant.",
        ),
    };
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).hint(hint)
}

fn no_copy() -> SqlError {
    SqlError::internal("data of a COPY without the COPY")
}

/// A name as SQL has to spell it.
fn quoted(name: &QualifiedName) -> String {
    let parts: Vec<String> = name.parts.iter().map(|n| identifier(&n.text)).collect();
    parts.join(".")
}

/// The fields that an option names: all of the lines' columns, or some.
fn forced(
    named: &Option<CopyColumns>,
    option: &str,
    table: &TableInfo,
    columns: &[usize],
) -> SqlResult<Vec<bool>> {
    let names = match named {
        None => return Ok(Vec::new()),
        Some(CopyColumns::All) => return Ok(vec![true; columns.len()]),
        Some(CopyColumns::Named(names)) => names,
    };
    let mut fields = vec![false; columns.len()];
    for name in names {
        let column = known_column(table, name)?;
        let place = columns.iter().position(|known| *known == column);
        let Some(place) = place else {
            let message = format!("{option} column \"{name}\" not referenced by COPY");
            return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message));
        };
        if std::mem::replace(&mut fields[place], true) {
            return Err(named_twice(name));
        }
    }
    Ok(fields)
}

/// The fields of FORCE_QUOTE, among a query's columns.
fn force_quote(options: &CopyOptions, columns: &[Column]) -> SqlResult<Vec<bool>> {
    let names = match &options.force_quote {
        None => return Ok(Vec::new()),
        Some(CopyColumns::All) => return Ok(vec![true; columns.len()]),
        Some(CopyColumns::Named(names)) => names,
    };
    let mut fields = vec![false; columns.len()];
    for name in names {
        let place = columns.iter().position(|column| column.name == *name);
        let Some(place) = place else {
            let message = format!("column \"{name}\" does not exist");
            return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
        };
        if std::mem::replace(&mut fields[place], true) {
            return Err(named_twice(name));
        }
    }
    Ok(fields)
}

fn known_column(table: &TableInfo, name: &str) -> SqlResult<usize> {
    table.column(name).ok_or_else(|| {
        SqlError::new(
            SqlState::UNDEFINED_COLUMN,
            format!(
                "column \"{name}\" of relation \"{}\" does not exist",
                table.name
            ),
        )
    })
}

fn named_twice(name: &str) -> SqlError {
    SqlError::new(
        SqlState::DUPLICATE_COLUMN,
        format!("column \"{name}\" specified more than once"),
    )
}

/// The defaults of the columns that are not among those of the lines, and of those too if lines
/// may ask for them.
fn defaults(
    table: &TableInfo,
    columns: &[usize],
    marked: bool,
    cx: &Arc<StatementCx>,
) -> SqlResult<Defaults> {
    let mut defaults = Defaults::default();
    for (number, column) in table.columns.iter().enumerate() {
        let text = default_or_domain(column);
        let text = text.as_deref().filter(|_| !columns.contains(&number));
        defaults.places.push(text.map(|_| defaults.programs.len()));
        if let Some(text) = text {
            let made = rows::default_of(text, &column.name, column.declared(), cx)?;
            defaults.programs.push(made);
        }
    }
    if marked {
        for column in columns.iter().filter_map(|at| table.columns.get(*at)) {
            let text = default_or_domain(column);
            let made =
                text.map(|text| rows::default_of(&text, &column.name, column.declared(), cx));
            defaults.marked.push(made.transpose()?);
        }
    }
    Ok(defaults)
}

/// The default of a column, or of its domain.
fn default_or_domain(column: &ColumnInfo) -> Option<Arc<str>> {
    let own = column.value_if_none();
    match column.domain {
        Some(SqlType::Domain(domain)) if own.is_none() && column.generated.is_none() => {
            domain.default().map(Arc::from)
        }
        _ => own,
    }
}

fn copy_columns(table: &TableInfo, names: &[Name]) -> SqlResult<Vec<usize>> {
    if names.is_empty() {
        let all = 0..table.columns.len();
        return Ok(all
            .filter(|at| table.columns[*at].generated.is_none())
            .collect());
    }
    let mut seen = HashSet::new();
    let mut columns = Vec::with_capacity(names.len());
    for name in names {
        let name = &name.text;
        let column = known_column(table, name)?;
        if table.columns[column].generated.is_some() {
            let message = format!("column \"{name}\" is a generated column");
            let error = SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message);
            return Err(error.detail("Generated columns cannot be used in COPY."));
        }
        if !seen.insert(column) {
            return Err(named_twice(name));
        }
        columns.push(column);
    }
    Ok(columns)
}
