//! SQL's cursors: queries whose rows are taken by FETCH, as many as it asks for.

use std::sync::Arc;

use bytes::BytesMut;
use evenkeel_engine::WaitPolicy;
use evenkeel_engine::memory::Reservation;
use evenkeel_planner::ast::{
    ChangeTarget, Declare, Define, Direction, Fetch, Insert, Name, Pos, QualifiedName, Statement,
};

use super::run::plan_lock_mode;
use super::transaction::in_failed_block;
use super::{Block, Session, StatementResult};
use crate::deep::Deep;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::exec::row::{PlanRows, RowSession};
use crate::exec::{RowBuffer, RowStream, StatementCx};
use crate::parser::parse;
use crate::planner::rows::{self, RowQuery};
use crate::protocol::{Column, Format};
use crate::types::{Datum, SqlType};

/// An open cursor.
pub(super) struct SqlCursor {
    columns: Arc<[Column]>,
    column_types: Vec<SqlType>,
    /// The rows still to be read; `None` when the transaction they belong to is over.
    source: Option<PlanRows>,
    session: Arc<RowSession>,
    /// Rows read so far, of a cursor that may go back, and of one that outlives its
    /// transaction those that were left then.
    kept: Vec<Vec<Datum>>,
    /// Their memory.
    memory: Reservation,
    /// Rows before the first that was kept.
    forgotten: u64,
    /// Rows read so far.
    read: u64,
    /// The number of the row at hand: 0 before the first, one more than there are behind the
    /// last.
    position: u64,
    scroll: bool,
    hold: bool,
    binary: bool,
    /// Savepoints that there were when it was opened.
    level: usize,
}

impl SqlCursor {
    /// The row with a number, counted from 1; `None` behind the last.
    async fn row(&mut self, number: u64) -> SqlResult<Option<Vec<Datum>>> {
        while self.read < number {
            let mut row = Vec::new();
            let more = match &mut self.source {
                Some(source) => source.next_row(&mut row).await?,
                None => false,
            };
            if !more {
                self.source = None;
                return Ok(None);
            }
            self.read += 1;
            if self.scroll {
                self.memory.grow(row_bytes(&row))?;
                self.kept.push(row);
            } else if self.read == number {
                return Ok(Some(row));
            }
        }
        let at = number.checked_sub(self.forgotten + 1);
        let at = at.and_then(|at| usize::try_from(at).ok());
        Ok(at.and_then(|at| self.kept.get(at).cloned()))
    }

    /// Reads what is left, so that it can be fetched when the transaction is over.
    async fn keep(&mut self) -> SqlResult<()> {
        if !self.scroll {
            self.kept.clear();
            self.memory.shrink(self.memory.bytes());
            self.forgotten = self.read;
            self.scroll = true;
            let forward_only = self.row(u64::MAX).await.map(drop);
            self.scroll = false;
            return forward_only;
        }
        self.row(u64::MAX).await.map(drop)
    }

    /// Goes to a row and gives it.
    async fn go(&mut self, number: u64) -> SqlResult<Option<Vec<Datum>>> {
        if number < self.position && !self.scroll {
            return Err(forward_only());
        }
        if number == 0 {
            self.position = 0;
            return Ok(None);
        }
        let row = if number == self.position && !self.scroll {
            return Err(forward_only());
        } else {
            self.row(number).await?
        };
        self.position = if row.is_some() { number } else { self.read + 1 };
        Ok(row)
    }

    /// Rows one after another, up to `count`, in the direction of `step`.
    async fn run(&mut self, step: i64, count: u64) -> SqlResult<Vec<Vec<Datum>>> {
        let mut rows = Vec::new();
        let mut memory = self.memory.another();
        while (rows.len() as u64) < count {
            let Some(next) = self.position.checked_add_signed(step) else {
                break;
            };
            match self.go(next).await? {
                Some(row) => {
                    memory.grow(row_bytes(&row))?;
                    rows.push(row);
                }
                None => break,
            }
        }
        Ok(rows)
    }

    async fn fetch(&mut self, direction: Direction) -> SqlResult<Vec<Vec<Datum>>> {
        let one = |row: Option<Vec<Datum>>| row.into_iter().collect();
        match direction {
            Direction::Forward(0) | Direction::Relative(0) => {
                if !self.scroll {
                    return Err(forward_only());
                }
                Ok(one(self.go(self.position).await?))
            }
            Direction::Forward(count) => self.run(count.signum(), count.unsigned_abs()).await,
            Direction::ForwardAll => self.run(1, u64::MAX).await,
            Direction::BackwardAll => self.run(-1, u64::MAX).await,
            Direction::Relative(distance) => {
                let to = self.position.saturating_add_signed(distance);
                Ok(one(self.go(to).await?))
            }
            Direction::Absolute(number) => {
                let to = match u64::try_from(number) {
                    Ok(number) => number,
                    Err(_) => {
                        if !self.scroll && self.source.is_some() {
                            return Err(forward_only());
                        }
                        self.row(u64::MAX).await?;
                        (self.read + 1).saturating_sub(number.unsigned_abs())
                    }
                };
                Ok(one(self.go(to).await?))
            }
        }
    }

    fn encode(&self, rows: Vec<Vec<Datum>>, formats: &[Format]) -> SqlResult<RowBuffer> {
        let types = &self.column_types;
        let encode = |row: Vec<Datum>| -> SqlResult<BytesMut> {
            let mut body = BytesMut::new();
            for (number, (datum, ty)) in row.iter().zip(types).enumerate() {
                let format = if self.binary {
                    Format::Binary
                } else {
                    Format::of(formats, number)
                };
                let name = match format {
                    Format::Text => self.session.name_of(datum, *ty)?,
                    Format::Binary => None,
                };
                let shown = name.as_ref().unwrap_or(datum);
                shown.put_field(*ty, format, &self.session.cx().types, &mut body);
            }
            Ok(body)
        };
        let mut encoded = RowBuffer::default();
        for row in rows {
            encoded.push(encode(row)?, self.memory.memory())?;
        }
        Ok(encoded)
    }
}

/// The memory of a row.
fn row_bytes(row: &[Datum]) -> usize {
    let values = row.iter().map(|datum| match datum {
        Datum::Text(text) | Datum::Char(text) => text.capacity(),
        Datum::Bytea(bytes) => bytes.capacity(),
        // A numeric's digits are few.
        Datum::Numeric(_) => 32,
        _ => 0,
    });
    values.sum::<usize>() + (row.len() + 1) * size_of::<Datum>()
}

/// A statement that a command has within it.
#[derive(Clone)]
pub(super) enum Within {
    /// The only one of the text.
    Text,
    /// The query of CREATE TABLE AS.
    Query(Arc<Deep<Define>>),
    /// The same, with its rows inserted into the table of this schema and name.
    Insert(Arc<Deep<Define>>, Arc<(String, String)>),
}

impl Within {
    fn statement(&self, text: &str) -> SqlResult<Option<Statement>> {
        let (define, table) = match self {
            Within::Text => return parse::parse(text),
            Within::Query(define) => (define, None),
            Within::Insert(define, table) => (define, Some(table)),
        };
        let Define::CreateTableAs(create) = &***define else {
            return Ok(None);
        };
        let Some(query) = &create.query else {
            return Ok(None);
        };
        let Some(table) = table else {
            return Ok(Some(Statement::Query(query.clone())));
        };
        let name = |text: &str| Name {
            text: text.to_owned(),
            at: Pos::NONE,
        };
        let parts = vec![name(&table.0), name(&table.1)];
        Ok(Some(Statement::Insert(Box::new(Insert {
            with: None,
            target: ChangeTarget {
                name: QualifiedName { parts },
                only: false,
                alias: None,
            },
            columns: Vec::new(),
            overriding: None,
            source: Some((**query).clone()),
            on_conflict: None,
            returning: None,
            at: Pos::NONE,
        }))))
    }
}

/// A statement of a text of its own, with all that planning takes.
struct Query {
    text: Arc<str>,
    within: Within,
    cx: Arc<StatementCx>,
    /// The command it is a part of, which takes queries alone; `None` for EXPLAIN.
    of: Option<&'static str>,
}

impl Query {
    fn plan(self) -> SqlResult<RowQuery> {
        let statement = match (self.within.statement(&self.text)?, self.of) {
            (Some(Statement::Command(_)) | None, None) => {
                return Err(SqlError::unsupported("EXPLAIN of this statement"));
            }
            (Some(statement @ Statement::Query(_)), _) | (Some(statement), None) => statement,
            (_, Some(command)) => {
                return Err(SqlError::syntax(format!("{command} needs a query")));
            }
        };
        let query = rows::plan(
            &self.text,
            &statement,
            &self.cx,
            &[],
            self.of.is_none(),
            false,
        )?;
        match self.of {
            Some(command) if !query.plan.changed.is_empty() => Err(SqlError::unsupported(format!(
                "{command} of a statement that changes rows"
            ))),
            Some(command) if !query.plan.locked.is_empty() => {
                Err(SqlError::unsupported(format!("{command} with FOR UPDATE")))
            }
            _ => Ok(query),
        }
    }
}

fn forward_only() -> SqlError {
    SqlError::new(
        SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
        "cursor can only scan forward",
    )
    .hint("Declare it with SCROLL option to enable backward scan.")
}

fn no_cursor(name: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_CURSOR_NAME,
        format!("cursor \"{name}\" does not exist"),
    )
}

impl Session {
    /// A part of the current statement's text, behind as many blanks as there are characters before
    /// it: errors in it are placed as in the whole.
    pub(super) fn part(&self, from: Pos, to: Option<Pos>) -> String {
        let text = &*self.current_text;
        let from = from.0 as usize;
        let to = to.map_or(text.len(), |to| to.0 as usize);
        let before = text.get(..from).unwrap_or_default().chars().count();
        let part = text.get(from..to).unwrap_or_default();
        format!("{}{part}", " ".repeat(before))
    }

    /// Plans a statement of a text of its own, with its tables locked; planned anew as long as the
    /// catalog changes under it (SESS-3). The command `of` takes queries alone; without one the
    /// plan of any statement is made, with notes for EXPLAIN.
    pub(super) async fn planned(
        &mut self,
        text: &str,
        within: Within,
        of: Option<&'static str>,
    ) -> SqlResult<(RowQuery, StatementCx)> {
        let _planning = self.charge_planning(text)?;
        loop {
            let view = self.view();
            let cx = self.statement_cx(Arc::clone(&view));
            let query = Query {
                text: Arc::from(text),
                within: within.clone(),
                cx: Arc::new(self.statement_cx(Arc::clone(&view))),
                of,
            };
            let planners = self.engine.planners();
            let query = planners.run(&self.cancel, move || query.plan()).await?;
            let txn = self.tx.txn()?;
            for table in &query.tables {
                let mode = plan_lock_mode(&query.plan, table.oid);
                txn.lock_table(table.lock_id(), mode, WaitPolicy::Block)
                    .await?;
            }
            if self.view().version == view.version {
                return Ok((query, cx));
            }
        }
    }

    /// DECLARE.
    pub(super) async fn declare(&mut self, declare: &Declare) -> SqlResult<StatementResult> {
        if self.tx.block != Block::Explicit && !declare.hold && !self.in_batch {
            return Err(SqlError::new(
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                "DECLARE CURSOR can only be used in transaction blocks",
            ));
        }
        if self.cursors.contains_key(&declare.name.text) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_CURSOR,
                format!("cursor \"{}\" already exists", declare.name.text),
            ));
        }
        let text = self.part(declare.body, None);
        self.tx.used = true;
        self.tx.txn()?.begin_statement()?;
        let (query, cx) = self
            .planned(&text, Within::Text, Some("DECLARE CURSOR"))
            .await?;
        let source = self.start_rows(&query.plan, &[], cx)?;
        let types_of_columns = query.plan.columns.iter().map(|column| column.ty);
        let cursor = SqlCursor {
            column_types: types_of_columns.collect(),
            columns: query.columns,
            session: Arc::clone(source.session()),
            source: Some(source),
            kept: Vec::new(),
            memory: Reservation::new(&self.resources.memory),
            forgotten: 0,
            read: 0,
            position: 0,
            scroll: declare.scroll == Some(true),
            hold: declare.hold,
            binary: declare.binary,
            level: self.tx.level(),
        };
        self.cursors.insert(declare.name.text.clone(), cursor);
        Ok(StatementResult::Command("DECLARE CURSOR".to_owned()))
    }

    /// FETCH and MOVE.
    pub(super) async fn fetch(
        &mut self,
        fetch: &Fetch,
        formats: &[Format],
    ) -> SqlResult<StatementResult> {
        let cursor = self.cursors.get_mut(&fetch.name);
        let cursor = cursor.ok_or_else(|| no_cursor(&fetch.name))?;
        let rows = cursor.fetch(fetch.direction).await?;
        if !fetch.rows {
            return Ok(StatementResult::Command(format!("MOVE {}", rows.len())));
        }
        let columns = Arc::clone(&cursor.columns);
        let rows = cursor.encode(rows, formats)?;
        let rows = RowStream::buffered(columns, rows, "FETCH");
        Ok(StatementResult::Rows(rows))
    }

    /// CLOSE; of all when there is no name.
    pub(super) fn close_cursor(&mut self, name: Option<&str>) -> SqlResult<StatementResult> {
        let Some(name) = name else {
            self.cursors.clear();
            return Ok(StatementResult::Command("CLOSE CURSOR ALL".to_owned()));
        };
        match self.cursors.remove(name) {
            Some(_) => Ok(StatementResult::Command("CLOSE CURSOR".to_owned())),
            None => Err(no_cursor(name)),
        }
    }

    /// The columns that FETCH gives.
    pub(super) fn cursor_columns(&self, name: &str) -> Option<Arc<[Column]>> {
        let cursor = self.cursors.get(name)?;
        Some(Arc::clone(&cursor.columns))
    }

    /// The columns of a cursor and their formats, as Describe tells them: the protocol sees a
    /// cursor as a portal of its name.
    pub fn cursor_as_portal(&self, name: &str) -> Option<(Arc<[Column]>, Vec<Format>)> {
        let cursor = self.cursors.get(name)?;
        let formats = match cursor.binary {
            true => vec![Format::Binary],
            false => Vec::new(),
        };
        Some((Arc::clone(&cursor.columns), formats))
    }

    /// Execute of a cursor as a portal: up to `limit` of its next rows, all with 0.
    ///
    /// # Errors
    /// 25P02 in a failed block, 34000; those of reading the rows.
    pub async fn execute_cursor(&mut self, name: &str, limit: usize) -> SqlResult<RowStream> {
        self.begin_statement();
        let rows = match self.tx.block {
            Block::Failed => Err(in_failed_block()),
            _ => self.next_rows_of_cursor(name, limit).await,
        };
        self.settle(rows)
    }

    async fn next_rows_of_cursor(&mut self, name: &str, limit: usize) -> SqlResult<RowStream> {
        let direction = match i64::try_from(limit) {
            Ok(0) | Err(_) => Direction::ForwardAll,
            Ok(limit) => Direction::Forward(limit),
        };
        let cursor = self.cursors.get_mut(name);
        let cursor = cursor.ok_or_else(|| no_cursor(name))?;
        let rows = cursor.fetch(direction).await?;
        let columns = Arc::clone(&cursor.columns);
        let rows = cursor.encode(rows, &[])?;
        Ok(RowStream::buffered(columns, rows, "SELECT"))
    }

    /// Close of a cursor as a portal; one that is not there is closed.
    pub fn close_cursor_as_portal(&mut self, name: &str) {
        self.cursors.remove(name);
    }

    /// Before a commit: cursors that stay read their rows.
    pub(super) async fn hold_cursors(&mut self) -> SqlResult<()> {
        for cursor in self.cursors.values_mut().filter(|cursor| cursor.hold) {
            if cursor.source.is_some() {
                cursor.keep().await?;
            }
        }
        Ok(())
    }

    /// When a transaction ends: of the cursors it opened, those stay that hold their rows.
    pub(super) fn end_cursors(&mut self, committed: bool) {
        let stays = |cursor: &SqlCursor| cursor.hold && cursor.source.is_none();
        self.cursors.retain(|_, cursor| {
            let stays = stays(cursor) && (committed || cursor.level == usize::MAX);
            if stays {
                // From now on no transaction's end takes it away.
                cursor.level = usize::MAX;
            }
            stays
        });
    }

    /// At ROLLBACK TO: cursors opened behind the savepoint go.
    pub(super) fn rollback_cursors(&mut self, level: usize) {
        self.cursors
            .retain(|_, cursor| cursor.level <= level || cursor.level == usize::MAX);
    }
}
