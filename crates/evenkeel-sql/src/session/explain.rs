//! EXPLAIN: the plan as text.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::streaming::StreamingTableExec;
use datafusion::physical_plan::{ExecutionPlan, displayable, execute_stream};
use datafusion::sql::sqlparser::ast::{Statement, UtilityOption};
use futures::StreamExt;

use super::commands::text_row;
use super::run::{Data, Source};
use super::{Session, StatementResult};
use crate::error::{SqlError, SqlResult};
use crate::exec::RowStream;
use crate::exec::analytic::bind::Binding;
use crate::exec::oltp::modify::Action;
use crate::exec::oltp::select::Select;
use crate::planner::compile::{Compiled, Kind};
use crate::planner::query::{QueryPlan, column};
use crate::types::{Datum, SqlType};

impl Session {
    /// Runs EXPLAIN.
    pub(super) async fn explain_statement(
        &mut self,
        explain: &Statement,
    ) -> SqlResult<StatementResult> {
        let Statement::Explain {
            analyze,
            statement,
            format,
            options,
            ..
        } = explain
        else {
            return Err(SqlError::internal("not an EXPLAIN"));
        };
        let options = options.as_deref().unwrap_or(&[]);
        if format.is_some() || options.iter().any(|option| is(option, "format")) {
            return Err(SqlError::unsupported("EXPLAIN with a FORMAT"));
        }
        let analyze = *analyze || options.iter().any(|o| is(o, "analyze") && is_on(o));
        let text: Arc<str> = statement.to_string().into();
        let began = Instant::now();
        let lines = if analyze {
            let source = Source::Simple(&text);
            let (compiled, literals) = self.ready(&source).await?;
            let planned = began.elapsed();
            let data = match &literals {
                Some(literals) => self.literal_data(&compiled, literals)?,
                None => Data::new(),
            };
            self.analyzed_lines(&compiled, &data, planned).await?
        } else {
            let compiled = self.obtain_text(&text, &Arc::from([]))?;
            self.tx.txn()?.begin_statement()?;
            self.plan_lines(&compiled).await?
        };
        let rows = lines.iter().map(|line| text_row(&[line])).collect();
        let columns = Arc::from([column("QUERY PLAN".into(), SqlType::Text)]);
        Ok(StatementResult::Rows(
            RowStream::ready(columns, rows, "EXPLAIN").untagged(),
        ))
    }

    async fn plan_lines(&mut self, compiled: &Compiled) -> SqlResult<Vec<String>> {
        match &compiled.kind {
            Kind::Select(select) => Ok(select_lines(select)),
            Kind::Insert(insert) => Ok(vec![
                format!("Insert on {}", insert.table.name),
                "  ->  Values".into(),
            ]),
            Kind::Modify(modify) => {
                let verb = match modify.action {
                    Action::Update { .. } => "Update",
                    Action::Delete => "Delete",
                };
                let table = &modify.table;
                let mut lines = vec![format!("{verb} on {}", table.name)];
                lines.push(format!("  ->  {}", modify.access.describe(table)));
                Ok(lines)
            }
            Kind::Query(plan) => self.physical_lines(plan).await,
            Kind::Change(change) => {
                let mut lines = vec![format!("{} on {}", change.verb.tag(), change.table.name)];
                let inner = self.physical_lines(&change.plan).await?;
                lines.extend(inner.into_iter().map(|line| format!("  {line}")));
                Ok(lines)
            }
            _ => Err(SqlError::unsupported("EXPLAIN of this statement")),
        }
    }

    /// Runs the statement, and says what came of it.
    async fn analyzed_lines(
        &mut self,
        compiled: &Arc<Compiled>,
        data: &[Datum],
        planned: Duration,
    ) -> SqlResult<Vec<String>> {
        let began = Instant::now();
        let mut lines = if let Kind::Query(plan) = &compiled.kind {
            self.tx.txn()?.begin_statement()?;
            self.measured_lines(plan, compiled, data).await?
        } else {
            let mut lines = self.plan_lines(compiled).await?;
            let rows = match Box::pin(self.execute_compiled(compiled, data, &[])).await? {
                StatementResult::Rows(mut rows) => {
                    let mut count = 0;
                    while let Some(batch) = rows.next_batch(1024).await? {
                        count += batch.len();
                    }
                    count.to_string()
                }
                StatementResult::Command(tag) => {
                    tag.rsplit(' ').next().unwrap_or_default().to_owned()
                }
                _ => String::new(),
            };
            let took = millis(began.elapsed());
            if let Some(first) = lines.first_mut() {
                first.push_str(&format!(" (actual time={took} rows={rows})"));
            }
            lines
        };
        lines.push(format!("Planning Time: {} ms", millis(planned)));
        lines.push(format!("Execution Time: {} ms", millis(began.elapsed())));
        Ok(lines)
    }

    /// Drains a plan, and gives it with what its parts have measured.
    async fn measured_lines(
        &mut self,
        plan: &QueryPlan,
        compiled: &Compiled,
        data: &[Datum],
    ) -> SqlResult<Vec<String>> {
        let cx = Arc::new(self.statement_cx(self.view()));
        self.set_vars(&cx);
        let cancel = self.cancel.clone();
        let (state, txn) = self.state_and_txn()?;
        let binding = Binding::new(txn.snapshot()?, cx, cancel, data, &compiled.param_types)?;
        let physical = binding.physical(&plan.plan, state).await?;
        let stream = execute_stream(Arc::clone(&physical), state.task_ctx())?;
        let mut stream = self.engine.pool().run(stream);
        while let Some(batch) = stream.next().await {
            batch?;
        }
        let text = DisplayableExecutionPlan::with_metrics(physical.as_ref());
        Ok(named_scans(&physical, &text.indent(false).to_string()))
    }

    async fn physical_lines(&mut self, plan: &QueryPlan) -> SqlResult<Vec<String>> {
        let cx = Arc::new(self.statement_cx(self.view()));
        self.set_vars(&cx);
        let cancel = self.cancel.clone();
        let (state, txn) = self.state_and_txn()?;
        let binding = Binding::new(txn.snapshot()?, cx, cancel, &[], &[])?;
        let physical = binding.physical(&plan.plan, state).await?;
        let text = displayable(physical.as_ref()).indent(false).to_string();
        Ok(named_scans(&physical, &text))
    }
}

fn is(option: &UtilityOption, name: &str) -> bool {
    option.name.value.eq_ignore_ascii_case(name)
}

fn is_on(option: &UtilityOption) -> bool {
    let off = |text: String| {
        let text = text.trim_matches('\'').to_ascii_lowercase();
        matches!(text.as_str(), "off" | "false" | "0")
    };
    !option.arg.as_ref().is_some_and(|arg| off(arg.to_string()))
}

fn millis(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64() * 1000.0)
}

/// The lines of a plan, with what its scans read in place of how DataFusion runs them.
fn named_scans(plan: &Arc<dyn ExecutionPlan>, text: &str) -> Vec<String> {
    let mut names = Vec::new();
    scans(plan, &mut names);
    let mut names = names.into_iter();
    let line = |line: &str| match line.split_once(STREAMED) {
        Some((indent, rest)) => {
            let name = names.next().unwrap_or_else(|| STREAMED.to_owned());
            let rest = rest.trim_start_matches(": partition_sizes=1");
            format!("{indent}{name}{rest}")
        }
        None => line.to_owned(),
    };
    text.lines().map(line).collect()
}

/// DataFusion's name for what our tables are read by.
const STREAMED: &str = "StreamingTableExec";

/// What the scans read, in the order in which a plan is written.
fn scans(plan: &Arc<dyn ExecutionPlan>, names: &mut Vec<String>) {
    let any: &dyn Any = plan.as_ref();
    if let Some(scan) = any.downcast_ref::<StreamingTableExec>() {
        let partition = scan.partitions().first();
        names.push(partition.map_or_else(String::new, |partition| format!("{partition:?}")));
    }
    for child in plan.children() {
        scans(child, names);
    }
}

fn select_lines(select: &Select) -> Vec<String> {
    let mut lines = Vec::new();
    let mut indent = String::new();
    for (there, name) in [
        (select.limit.is_some() || select.offset.is_some(), "Limit"),
        (select.locking.is_some(), "LockRows"),
    ] {
        if there {
            lines.push(format!(
                "{indent}{}{name}",
                if indent.is_empty() { "" } else { "->  " }
            ));
            indent.push_str("  ");
        }
    }
    let line = match &select.table {
        Some(table) => select.access.describe(table),
        None => "Result".into(),
    };
    lines.push(format!(
        "{indent}{}{line}",
        if indent.is_empty() { "" } else { "->  " }
    ));
    lines
}
