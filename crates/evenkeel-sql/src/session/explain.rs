//! EXPLAIN: the plan as text.

use std::sync::Arc;

use datafusion::physical_plan::displayable;
use datafusion::sql::sqlparser::ast::Statement;

use super::commands::text_row;
use super::{Session, StatementResult};
use crate::catalog::TableInfo;
use crate::error::{SqlError, SqlResult};
use crate::exec::RowStream;
use crate::exec::analytic::bind::Binding;
use crate::exec::oltp::access::Access;
use crate::exec::oltp::modify::Action;
use crate::exec::oltp::select::Select;
use crate::planner::compile::{Compiled, Kind};
use crate::planner::query::{QueryPlan, column};
use crate::types::SqlType;

impl Session {
    /// Runs EXPLAIN.
    pub(super) async fn explain_statement(
        &mut self,
        explain: &Statement,
    ) -> SqlResult<StatementResult> {
        let Statement::Explain {
            analyze, statement, ..
        } = explain
        else {
            return Err(SqlError::internal("not an EXPLAIN"));
        };
        if *analyze {
            return Err(SqlError::unsupported("EXPLAIN ANALYZE"));
        }
        let text: Arc<str> = statement.to_string().into();
        let compiled = self.obtain_text(&text, &Arc::from([]))?;
        self.tx.txn()?.begin_statement()?;
        let lines = self.plan_lines(&compiled).await?;
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
                lines.push(format!("  ->  {}", access_line(table, &modify.access)));
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

    async fn physical_lines(&mut self, plan: &QueryPlan) -> SqlResult<Vec<String>> {
        let cx = Arc::new(self.statement_cx(self.view()));
        self.set_vars(&cx);
        let cancel = self.cancel.clone();
        let (state, txn) = self.state_and_txn()?;
        let binding = Binding::new(txn.snapshot()?, cx, cancel, &[], &[])?;
        let physical = binding.physical(&plan.plan, state).await?;
        let text = displayable(physical.as_ref()).indent(false).to_string();
        Ok(text.lines().map(str::to_owned).collect())
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
        Some(table) => access_line(table, &select.access),
        None => "Result".into(),
    };
    lines.push(format!(
        "{indent}{}{line}",
        if indent.is_empty() { "" } else { "->  " }
    ));
    lines
}

fn access_line(table: &TableInfo, access: &Access) -> String {
    match access {
        Access::Point { index, .. }
        | Access::Points { index, .. }
        | Access::Range { index, .. } => {
            format!(
                "Index Scan using {} on {}",
                table.indexes[*index].name, table.name
            )
        }
        Access::Scan => format!("Seq Scan on {}", table.name),
    }
}
