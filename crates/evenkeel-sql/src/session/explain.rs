//! EXPLAIN: the plan as text.

use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_engine::memory::{Reservation, SessionMemory};
use evenkeel_exec::Measure;
use evenkeel_planner::ast::{CommandOption, Explain};
use evenkeel_planner::explain;
use evenkeel_planner::plan::{Node, Plan};

use super::commands::text_row;
use super::cursors::Within;
use super::{Session, StatementResult};
use crate::deep::on_deep_stack;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::exec::row::{self, PlanRows};
use crate::exec::{RowBuffer, RowStream, StatementCx};
use crate::parser::options::{flag, placed};
use crate::planner::compile::explain_columns;

impl Session {
    /// EXPLAIN.
    pub(super) async fn explain(&mut self, explain: &Explain) -> SqlResult<StatementResult> {
        let shown = Shown::of(&explain.options, &self.current_text)?;
        let text = self.part(explain.body, None);
        let began = Instant::now();
        self.tx.used = true;
        self.tx.txn()?.begin_statement()?;
        let (query, cx) = self.planned(&text, Within::Text, None).await?;
        let planned = began.elapsed();
        let lines = match shown.analyze {
            true => self.analyzed(&query.plan, cx, shown, planned).await?,
            false => shown.lines(&query.plan, None, &[], &self.resources.memory)?,
        };
        Ok(StatementResult::Rows(
            RowStream::buffered(explain_columns(), lines, "EXPLAIN").untagged(),
        ))
    }

    /// Runs a plan, and says what its operators did.
    async fn analyzed(
        &mut self,
        plan: &Arc<Plan>,
        cx: StatementCx,
        shown: Shown,
        planned: Duration,
    ) -> SqlResult<RowBuffer> {
        let cx = Arc::new(cx);
        let (snapshot, cancel) = (self.tx.txn()?.snapshot()?, self.cancel.clone());
        let memory = Arc::clone(&self.resources.memory);
        let began = Instant::now();
        let lines = |run: &PlanRows| {
            let times = [
                ("Planning Time", millis(planned)),
                ("Execution Time", millis(began.elapsed())),
            ];
            let ran = |node: &Node| actual(&run.measure(node));
            shown.lines(plan, Some(&ran), &times, &memory)
        };
        if plan.changed.is_empty() && plan.locked.is_empty() {
            let mut run = row::start_measured(plan, &cx, snapshot, cancel)?;
            run.drain().await?;
            return lines(&run);
        }
        let (events, at) = (self.resources.events.len(), (snapshot, cancel));
        let shown = row::change::measured(plan, &cx, at, &mut self.tx.txn, lines).await?;
        self.statement_events(events).await?;
        shown
    }
}

/// The options of EXPLAIN.
#[derive(Debug, Clone, Copy)]
struct Shown {
    analyze: bool,
    costs: bool,
    timing: bool,
    summary: bool,
    json: bool,
}

impl Shown {
    fn of(options: &[CommandOption], text: &str) -> SqlResult<Shown> {
        let mut shown = Shown {
            analyze: false,
            costs: true,
            timing: true,
            summary: true,
            json: false,
        };
        for option in options {
            let name = option.name.as_str();
            let value = option.value.text();
            match name {
                "analyze" => shown.analyze = flag(option)?,
                "costs" => shown.costs = flag(option)?,
                "timing" => shown.timing = flag(option)?,
                "summary" => shown.summary = flag(option)?,
                "format" => shown.json = is_json(value.unwrap_or_default())?,
                "verbose" | "buffers" | "wal" | "settings" | "generic_plan" | "memory"
                | "serialize" => {
                    if value == Some("none") || !flag(option)? {
                        continue;
                    }
                    let option = name.to_ascii_uppercase();
                    return Err(SqlError::unsupported(format!("EXPLAIN with {option}")));
                }
                _ => {
                    let message = format!("unrecognized EXPLAIN option \"{name}\"");
                    return Err(placed(SqlError::syntax(message), option, text));
                }
            }
        }
        Ok(shown)
    }

    /// The rows that show a plan, which is as deep as its statement made it.
    fn lines(
        self,
        plan: &Plan,
        ran: Option<explain::Ran<'_>>,
        times: &[(&'static str, f64)],
        memory: &Arc<SessionMemory>,
    ) -> SqlResult<RowBuffer> {
        let options = explain::Options {
            costs: self.costs,
            timing: self.timing,
        };
        let times = if self.summary { times } else { &[] };
        let mut texts = Reservation::new(memory);
        let mut charge = |bytes: usize| texts.grow(bytes);
        let mut lines = on_deep_stack(|| match self.json {
            true => explain::json(plan, options, ran, times, &mut charge).map(|text| vec![text]),
            false => explain::text(plan, options, ran, &mut charge),
        })?;
        if !self.json {
            let times = times.iter();
            lines.extend(times.map(|(name, took)| format!("{name}: {took:.3} ms")));
        }
        let mut rows = RowBuffer::default();
        for line in lines {
            rows.push(text_row(&[&line]), memory)?;
        }
        Ok(rows)
    }
}

fn is_json(format: &str) -> SqlResult<bool> {
    match format.to_ascii_lowercase().as_str() {
        "text" => Ok(false),
        "json" => Ok(true),
        "xml" | "yaml" => Err(SqlError::unsupported(format!("EXPLAIN in {format}"))),
        _ => Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("unrecognized value for EXPLAIN option \"format\": \"{format}\""),
        )),
    }
}

/// An operator's measurements, as a mean of its runs.
fn actual(measure: &Measure) -> explain::Actual {
    let loops = measure.loops.max(1) as f64;
    explain::Actual {
        startup: millis(measure.startup) / loops,
        total: millis(measure.total) / loops,
        rows: measure.rows as f64 / loops,
        removed: measure.removed as f64 / loops,
        searches: measure.searches,
        heap_rows: measure.heap_rows,
        heap_blocks: measure.heap_blocks,
        loops: measure.loops,
        merged: [
            measure.merged.inserted,
            measure.merged.updated,
            measure.merged.deleted,
        ],
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
