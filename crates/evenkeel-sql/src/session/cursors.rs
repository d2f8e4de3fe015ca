//! SQL's cursors: queries whose rows are taken by FETCH, as many as it asks for.

use std::sync::Arc;

use bytes::BytesMut;
use datafusion::sql::sqlparser::ast::Statement;
use evenkeel_engine::{TableLockMode, WaitPolicy};

use super::api::{Column, Format};
use super::commands::offset_of;
use super::{Block, Session, StatementResult};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::exec::analytic::batches::BatchRows;
use crate::exec::{RowStream, StatementCx};
use crate::planner::binder::Binder;
use crate::planner::compile::refuse_locks;
use crate::planner::cursor::{Declare, Direction, Fetch};
use crate::planner::parse::{self, Parsed};
use crate::planner::query::{self, QueryPlan};
use crate::planner::sets;
use crate::types::{Datum, TypeContext};

/// An open cursor.
pub(super) struct SqlCursor {
    columns: Arc<[Column]>,
    /// The rows still to be read; `None` when the transaction they belong to is over.
    source: Option<BatchRows>,
    types: TypeContext,
    /// Rows read so far, of a cursor that may go back, and of one that outlives its
    /// transaction those that were left then.
    kept: Vec<Vec<Datum>>,
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
        while (rows.len() as u64) < count {
            let Some(next) = self.position.checked_add_signed(step) else {
                break;
            };
            match self.go(next).await? {
                Some(row) => rows.push(row),
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

    fn encode(&self, rows: &[Vec<Datum>], formats: &[Format]) -> Vec<BytesMut> {
        let types = self.columns.iter().map(|column| {
            let ty = crate::types::SqlType::from_oid(column.type_oid, column.typmod);
            ty.unwrap_or(crate::types::SqlType::Text)
        });
        let types: Vec<_> = types.collect();
        let encode = |row: &Vec<Datum>| {
            let mut body = BytesMut::new();
            for (number, (datum, ty)) in row.iter().zip(&types).enumerate() {
                let format = if self.binary {
                    Format::Binary
                } else {
                    Format::of(formats, number)
                };
                datum.put_field(*ty, format, &self.types, &mut body);
            }
            body
        };
        rows.iter().map(encode).collect()
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
    /// Plans a query of a text of its own, with its tables locked; planned anew as long as the
    /// catalog changes under it (session rule 3).
    pub(super) async fn planned_query(
        &mut self,
        text: &str,
        what: &str,
    ) -> SqlResult<(QueryPlan, StatementCx)> {
        loop {
            let view = self.view();
            let cx = self.statement_cx(Arc::clone(&view));
            let Parsed::Sql(mut statement) = parse::parse(text)? else {
                return Err(SqlError::syntax(format!("{what} needs a query")));
            };
            sets::expand(&mut statement, self.engine.base())?;
            crate::pg_catalog::rewrite::rewrite(&mut statement, cx.vars())?;
            let Statement::Query(query) = *statement else {
                return Err(SqlError::syntax(format!("{what} query must be a SELECT")));
            };
            refuse_locks(&query)?;
            let binder = Binder::new(self.engine.base(), &view, cx.vars(), &[], 0);
            let plan = query::plan_query(&binder, &query)?;
            let tables = binder.tables();
            drop(binder);
            let txn = self.tx.txn()?;
            for table in tables {
                let id = u64::from(table.oid);
                txn.lock_table(id, TableLockMode::AccessShare, WaitPolicy::Block)
                    .await?;
            }
            if self.view().version == view.version {
                return Ok((plan, cx));
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
        if self.cursors.contains_key(&declare.name) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_CURSOR,
                format!("cursor \"{}\" already exists", declare.name),
            ));
        }
        let text = Arc::clone(&self.current_text);
        let text = &text[offset_of(&text, declare.at)..];
        self.tx.used = true;
        self.tx.txn()?.begin_statement()?;
        let (plan, cx) = self.planned_query(text, "DECLARE CURSOR").await?;
        let types = cx.types.clone();
        let source = Some(self.start_plan(&plan, &[], &[], cx).await?);
        let cursor = SqlCursor {
            columns: plan.columns,
            source,
            types,
            kept: Vec::new(),
            forgotten: 0,
            read: 0,
            position: 0,
            scroll: declare.scroll,
            hold: declare.hold,
            binary: declare.binary,
            level: self.tx.level(),
        };
        self.cursors.insert(declare.name.clone(), cursor);
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
        let rows = cursor.encode(&rows, formats);
        Ok(StatementResult::Rows(RowStream::ready(
            columns, rows, "FETCH",
        )))
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
