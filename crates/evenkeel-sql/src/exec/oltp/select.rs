//! SELECT of one table by key, or of no table, with results straight from row bytes.

use std::sync::Arc;

use bytes::BytesMut;
use evenkeel_engine::heap::rows::RowBatch;
use evenkeel_engine::table::{Direction, Modified};
use evenkeel_engine::{CancelFlag, RowLockMode, Snapshot, Transaction, WaitPolicy};
use smallvec::SmallVec;

use super::access::{Access, Rows, lookup};
use super::expr::{Env, RowExpr, RowRef, Typed, Value};
use crate::catalog::TableInfo;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::exec::StatementCx;
use crate::session::api::{Column, Format};
use crate::types::Datum;

/// From so many rows on a page's are tested together.
const MANY: u64 = 16;

/// FOR UPDATE or FOR SHARE.
#[derive(Debug, Clone, Copy)]
pub struct Locking {
    /// The row lock.
    pub mode: RowLockMode,
    /// What to do with rows that are locked.
    pub policy: WaitPolicy,
}

/// A compiled SELECT.
#[derive(Debug)]
pub struct Select {
    /// The table; `None` for a SELECT without FROM.
    pub table: Option<Arc<TableInfo>>,
    /// Where its rows are.
    pub access: Access,
    /// The order to visit an index in.
    pub direction: Direction,
    /// The whole condition.
    pub condition: Option<RowExpr>,
    /// Whether rows that the access yields need no test.
    pub exact: bool,
    /// The result columns' values.
    pub output: Vec<Typed>,
    /// The result columns.
    pub columns: Arc<[Column]>,
    /// LIMIT.
    pub limit: Option<Typed>,
    /// OFFSET.
    pub offset: Option<Typed>,
    /// Row locks to take.
    pub locking: Option<Locking>,
}

impl Select {
    /// How many rows OFFSET passes over, and how many LIMIT lets through behind them.
    fn skip_and_left(&self, env: Env<'_>) -> SqlResult<(u64, u64)> {
        let (limit, offset) = (self.limit.as_ref(), self.offset.as_ref());
        let left = count_of(limit, env, SqlState::INVALID_ROW_COUNT_IN_LIMIT)?;
        let skip = count_of(offset, env, SqlState::INVALID_ROW_COUNT_IN_OFFSET)?;
        Ok((skip.unwrap_or(0), left.unwrap_or(u64::MAX)))
    }

    /// Whether the rows are few by construction and read at once.
    fn is_point(&self) -> bool {
        self.table.is_none() || matches!(self.access, Access::Point { .. })
    }

    fn encode(
        &self,
        row: Option<RowRef<'_>>,
        env: Env<'_>,
        formats: &[Format],
    ) -> SqlResult<BytesMut> {
        encode_row(&self.output, row, env, formats)
    }

    /// The rows of a page that the condition is true for; `None`: they are to be tested one by
    /// one, because few are wanted, or because one that may not be wanted fails it.
    fn wanted(
        &self,
        table: &TableInfo,
        page: &RowBatch,
        rows: u64,
        env: Env<'_>,
    ) -> Option<SmallVec<[usize; 8]>> {
        match &self.condition {
            Some(condition) if !self.exact => {
                let many = rows >= MANY;
                many.then(|| condition.wanted(&table.layout, page, env).ok())?
            }
            _ => Some((0..page.len()).collect()),
        }
    }

    fn accepts(&self, row: RowRef<'_>, env: Env<'_>) -> SqlResult<bool> {
        match &self.condition {
            Some(condition) => condition.holds(row, env),
            None => Ok(true),
        }
    }
}

/// The DataRow body for some values of a row.
pub fn encode_row(
    output: &[Typed],
    row: Option<RowRef<'_>>,
    env: Env<'_>,
    formats: &[Format],
) -> SqlResult<BytesMut> {
    let mut body = BytesMut::with_capacity(output.len() * 16);
    for (number, item) in output.iter().enumerate() {
        let format = Format::of(formats, number);
        match (&item.value, row) {
            (Value::Column(index), Some(row)) => {
                row.layout
                    .put_field(row.bytes, *index, format, &env.cx.types, &mut body)?;
            }
            _ => {
                let datum = item.eval(row, env)?;
                datum.put_field(item.ty, format, &env.cx.types, &mut body);
            }
        }
    }
    Ok(body)
}

/// A count from LIMIT or OFFSET; `None` for NULL, which means no limit.
fn count_of(value: Option<&Typed>, env: Env<'_>, state: SqlState) -> SqlResult<Option<u64>> {
    let Some(value) = value else { return Ok(None) };
    let number = match value.eval(None, env)? {
        Datum::Null => return Ok(None),
        Datum::Int2(n) => i64::from(n),
        Datum::Int4(n) => i64::from(n),
        Datum::Int8(n) => n,
        _ => return Err(SqlError::internal("a LIMIT that is not an integer")),
    };
    u64::try_from(number).map(Some).map_err(|_| {
        let what = if state == SqlState::INVALID_ROW_COUNT_IN_LIMIT {
            "LIMIT"
        } else {
            "OFFSET"
        };
        SqlError::new(state, format!("{what} must not be negative"))
    })
}

/// A running SELECT: rows are read as they are asked for.
pub struct Cursor {
    select: Arc<Select>,
    params: Arc<[Datum]>,
    cx: Arc<StatementCx>,
    formats: Box<[Format]>,
    rows: Rows,
    page: RowBatch,
    /// The rows of the page that are wanted, if that is known.
    wanted: Option<SmallVec<[usize; 8]>>,
    /// Which of them, or of all, comes next.
    next: usize,
    skip: u64,
    left: u64,
    cancel: CancelFlag,
}

impl Cursor {
    /// Begins a SELECT that takes no row locks.
    pub fn open(
        select: &Arc<Select>,
        params: Arc<[Datum]>,
        cx: Arc<StatementCx>,
        formats: &[Format],
        snapshot: &Snapshot,
        cancel: CancelFlag,
    ) -> SqlResult<Cursor> {
        let env = Env {
            params: &params,
            cx: &cx,
        };
        let (skip, left) = select.skip_and_left(env)?;
        let rows = match &select.table {
            Some(table) => Rows::open(table, &select.access, select.direction, env, snapshot)?,
            None => Rows::Done,
        };
        Ok(Cursor {
            select: Arc::clone(select),
            params,
            cx,
            formats: formats.into(),
            rows,
            page: RowBatch::new(),
            wanted: None,
            next: 0,
            skip,
            left,
            cancel,
        })
    }

    /// Appends up to `max_rows` DataRow bodies; false when there are no more rows. Gives way to
    /// other sessions between pages.
    pub async fn read(&mut self, max_rows: usize, out: &mut Vec<BytesMut>) -> SqlResult<bool> {
        let wanted = out.len() + max_rows;
        while out.len() < wanted && self.left > 0 {
            let env = Env {
                params: &self.params,
                cx: &self.cx,
            };
            let Some(table) = &self.select.table else {
                self.left = 0;
                break;
            };
            let count = self.wanted.as_ref().map_or(self.page.len(), SmallVec::len);
            if self.next == count {
                self.next = 0;
                tokio::task::consume_budget().await;
                self.cancel.check()?;
                if !self.rows.next_page(&mut self.page)? {
                    self.left = 0;
                    break;
                }
                let rows = self.skip.saturating_add(self.left);
                self.wanted = self.select.wanted(table, &self.page, rows, env);
                continue;
            }
            let number = self.wanted.as_ref().map_or(self.next, |all| all[self.next]);
            self.next += 1;
            let row = RowRef {
                layout: &table.layout,
                bytes: self.page.row(number),
            };
            if self.wanted.is_none() && !self.select.accepts(row, env)? {
                continue;
            }
            if self.skip > 0 {
                self.skip -= 1;
                continue;
            }
            self.left -= 1;
            out.push(self.select.encode(Some(row), env, &self.formats)?);
        }
        Ok(self.left > 0)
    }
}

/// What a SELECT gives.
pub enum Selected {
    /// All rows.
    Rows(Vec<BytesMut>),
    /// Rows to come.
    Cursor(Box<Cursor>),
}

/// Runs a SELECT that takes no row locks.
pub fn run(
    select: &Arc<Select>,
    params: &[Datum],
    cx: StatementCx,
    formats: &[Format],
    snapshot: &Snapshot,
    cancel: &CancelFlag,
) -> SqlResult<Selected> {
    let limited = select.limit.is_some() || select.offset.is_some();
    if select.table.is_some() && (!select.is_point() || limited) {
        let cursor = Cursor::open(
            select,
            params.into(),
            Arc::new(cx),
            formats,
            snapshot,
            cancel.clone(),
        )?;
        return Ok(Selected::Cursor(Box::new(cursor)));
    }
    let env = Env { params, cx: &cx };
    let Some(table) = &select.table else {
        return Ok(Selected::Rows(no_table(select, env, formats)?));
    };
    let Access::Point { index, key } = &select.access else {
        return Err(SqlError::internal("a point read without a point"));
    };
    let mut found = RowBatch::new();
    lookup(table, *index, key, env, snapshot, &mut found)?;
    let mut out = Vec::with_capacity(found.len());
    for (_, bytes) in found.iter() {
        let row = RowRef {
            layout: &table.layout,
            bytes,
        };
        if select.exact || select.accepts(row, env)? {
            out.push(select.encode(Some(row), env, formats)?);
        }
    }
    Ok(Selected::Rows(out))
}

/// The one row of a SELECT without FROM, unless LIMIT or OFFSET take it away.
fn no_table(select: &Select, env: Env<'_>, formats: &[Format]) -> SqlResult<Vec<BytesMut>> {
    let (skip, left) = select.skip_and_left(env)?;
    if left == 0 || skip > 0 {
        return Ok(Vec::new());
    }
    if let Some(condition) = &select.condition
        && !condition.holds_without_row(env)?
    {
        return Ok(Vec::new());
    }
    Ok(vec![select.encode(None, env, formats)?])
}

/// Runs a SELECT that locks its rows; all of them before the first is given out.
pub async fn run_locking(
    select: &Select,
    params: &[Datum],
    cx: &StatementCx,
    formats: &[Format],
    txn: &mut Transaction,
) -> SqlResult<Vec<BytesMut>> {
    let env = Env { params, cx };
    let (Some(table), Some(locking)) = (&select.table, select.locking) else {
        return Err(SqlError::internal("row locks without a table"));
    };
    let (mut skip, mut left) = select.skip_and_left(env)?;
    let snapshot = txn.snapshot()?;
    let mut rows = Rows::open(table, &select.access, select.direction, env, &snapshot)?;
    let mut page = RowBatch::new();
    let mut out = Vec::new();
    while left > 0 && rows.next_page(&mut page)? {
        tokio::task::consume_budget().await;
        txn.check_cancel()?;
        for number in 0..page.len() {
            if left == 0 {
                break;
            }
            let row = RowRef {
                layout: &table.layout,
                bytes: page.row(number),
            };
            if !select.exact && !select.accepts(row, env)? {
                continue;
            }
            let modified = table
                .table
                .lock_row(txn, page.tid(number), locking.mode, locking.policy)
                .await?;
            let newest = match modified {
                Modified::Done(_) | Modified::SelfModified => None,
                Modified::Gone | Modified::Skipped => continue,
                Modified::Changed { newest } => match table.table.fetch_locked(txn, newest)? {
                    Some(row) => Some(row.bytes),
                    None => continue,
                },
            };
            let bytes = newest.as_deref().unwrap_or_else(|| page.row(number));
            let row = RowRef {
                layout: &table.layout,
                bytes,
            };
            if newest.is_some() && !select.accepts(row, env)? {
                continue;
            }
            if skip > 0 {
                skip -= 1;
                continue;
            }
            left -= 1;
            out.push(select.encode(Some(row), env, formats)?);
        }
    }
    Ok(out)
}
