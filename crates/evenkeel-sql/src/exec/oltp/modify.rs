//! UPDATE and DELETE of one table, by key or by scan, with READ COMMITTED's re-check of rows
//! that changed meanwhile.

use std::sync::Arc;

use evenkeel_engine::heap::rows::RowBatch;
use evenkeel_engine::table::{Direction, KeyHint, Modified};
use evenkeel_engine::{Tid, Transaction};

use super::access::{Access, Rows};
use super::expr::{Env, RowExpr, RowRef, Typed};
use super::insert::{Changed, Returning, RowMaker, describe_violation};
use super::select::encode_row;
use crate::catalog::TableInfo;
use crate::error::SqlResult;
use crate::exec::StatementCx;
use crate::session::api::Format;
use crate::types::Datum;

/// What to do with a row.
#[derive(Debug)]
pub enum Action {
    /// Set these columns.
    Update {
        assignments: Vec<(usize, Typed)>,
        hint: KeyHint,
    },
    /// Delete it.
    Delete,
}

/// A compiled UPDATE or DELETE.
#[derive(Debug)]
pub struct Modify {
    /// The table.
    pub table: Arc<TableInfo>,
    /// Where its rows are.
    pub access: Access,
    /// The whole condition.
    pub condition: Option<RowExpr>,
    /// Whether rows that the access yields need no test.
    pub exact: bool,
    /// UPDATE or DELETE.
    pub action: Action,
    /// RETURNING.
    pub returning: Option<Returning>,
}

struct Run<'a> {
    modify: &'a Modify,
    env: Env<'a>,
    formats: &'a [Format],
    maker: RowMaker<'a>,
    changed: Changed,
}

/// Runs an UPDATE or DELETE. It never sees its own changes: the rows come from the snapshot the
/// statement began with.
pub async fn run(
    modify: &Modify,
    params: &[Datum],
    cx: &StatementCx,
    formats: &[Format],
    txn: &mut Transaction,
) -> SqlResult<Changed> {
    let env = Env { params, cx };
    let table = &modify.table;
    let snapshot = txn.snapshot()?;
    let mut rows = Rows::open(table, &modify.access, Direction::Forward, env, &snapshot)?;
    let mut run = Run {
        modify,
        env,
        formats,
        maker: RowMaker::new(table, &cx.types),
        changed: Changed::default(),
    };
    let mut page = RowBatch::new();
    while rows.next_page(&mut page)? {
        // A long scan gives way to other sessions.
        tokio::task::consume_budget().await;
        txn.check_cancel()?;
        let wanted = run.wanted(&page)?;
        for number in wanted {
            run.row(txn, page.tid(number), page.row(number)).await?;
        }
    }
    Ok(run.changed)
}

impl Run<'_> {
    /// The rows of a page that the condition is true for.
    fn wanted(&self, page: &RowBatch) -> SqlResult<smallvec::SmallVec<[usize; 8]>> {
        match &self.modify.condition {
            Some(condition) if !self.modify.exact => {
                condition.wanted(&self.modify.table.layout, page, self.env)
            }
            _ => Ok((0..page.len()).collect()),
        }
    }

    async fn row(&mut self, txn: &mut Transaction, tid: Tid, bytes: &[u8]) -> SqlResult<()> {
        let table = &self.modify.table;
        let mut tid = tid;
        let mut newer: Option<Vec<u8>> = None;
        loop {
            let old = newer.as_deref().unwrap_or(bytes);
            let modified = match &self.modify.action {
                Action::Delete => table.table.delete(txn, tid).await?,
                Action::Update { assignments, hint } => {
                    self.maker.begin_from(old)?;
                    let row = RowRef {
                        layout: &table.layout,
                        bytes: old,
                    };
                    for (column, value) in assignments {
                        let datum = value.eval(Some(row), self.env)?;
                        self.maker.set(*column, datum, value.ty)?;
                    }
                    self.maker.finish()?;
                    let new = &self.maker.bytes;
                    match table.table.update(txn, tid, new, *hint).await {
                        Ok(modified) => modified,
                        Err(error) => {
                            let types = &self.env.cx.types;
                            return Err(describe_violation(error, table, new, types));
                        }
                    }
                }
            };
            let newest = match modified {
                Modified::Done(_) => {
                    self.changed.count += 1;
                    let is_delete = matches!(self.modify.action, Action::Delete);
                    let bytes = if is_delete {
                        old
                    } else {
                        self.maker.bytes.as_slice()
                    };
                    if let Some(returning) = &self.modify.returning {
                        let row = RowRef {
                            layout: &table.layout,
                            bytes,
                        };
                        let body =
                            encode_row(&returning.output, Some(row), self.env, self.formats)?;
                        self.changed.rows.push(body);
                    }
                    return Ok(());
                }
                Modified::SelfModified | Modified::Gone | Modified::Skipped => return Ok(()),
                Modified::Changed { newest } => newest,
            };
            let Some(row) = table.table.fetch_locked(txn, newest)? else {
                return Ok(());
            };
            let still = RowRef {
                layout: &table.layout,
                bytes: &row.bytes,
            };
            if let Some(condition) = &self.modify.condition
                && !condition.holds(still, self.env)?
            {
                return Ok(());
            }
            tid = newest;
            newer = Some(row.bytes);
        }
    }
}
