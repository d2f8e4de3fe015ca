//! A table as a DataFusion plan sees it: at one snapshot.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use evenkeel_engine::{CancelFlag, Snapshot};

use super::scan::TablePartition;
use super::statistics::{TableScanExec, of_columns};
use crate::arrow::datum_from_scalar;
use crate::catalog::TableInfo;
use crate::error::SqlError;
use crate::exec::StatementCx;
use crate::exec::oltp::access::Access;
use crate::exec::oltp::expr::{Typed, Value};
use crate::planner::access::choose_among;
use crate::types::SqlType;

/// A table at a snapshot, captured when the plan was bound (exec rule 3).
pub struct BoundTable {
    table: Arc<TableInfo>,
    schema: SchemaRef,
    snapshot: Snapshot,
    cx: Arc<StatementCx>,
    cancel: CancelFlag,
}

impl std::fmt::Debug for BoundTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BoundTable({})", self.table.name)
    }
}

impl BoundTable {
    /// A table at `snapshot`; `schema` is its columns, perhaps with the hidden row id behind.
    pub fn new(
        table: Arc<TableInfo>,
        schema: SchemaRef,
        snapshot: Snapshot,
        cx: Arc<StatementCx>,
        cancel: CancelFlag,
    ) -> BoundTable {
        BoundTable {
            table,
            schema,
            snapshot,
            cx,
            cancel,
        }
    }

    /// The index range that the filters select, if it is worth it.
    fn access(&self, filters: &[&Expr]) -> Result<Access> {
        let schema = DFSchema::try_from(self.schema.as_ref().clone())?;
        let compile = |expr: &Expr| match expr {
            Expr::Literal(scalar, meta) => {
                let field = datafusion::arrow::datatypes::Field::new("", scalar.data_type(), true);
                let field = match meta {
                    Some(meta) => meta.add_to_field(field),
                    None => field,
                };
                let ty = SqlType::from_arrow_field(&field);
                Ok(Typed {
                    value: Value::Const(datum_from_scalar(scalar, ty)?),
                    ty,
                })
            }
            _ => Err(SqlError::internal("not a literal")),
        };
        let literal: Vec<&Expr> = filters
            .iter()
            .copied()
            .filter(|filter| compares_literal(filter))
            .collect();
        if literal.is_empty() {
            return Ok(Access::Scan);
        }
        let chosen = choose_among(&compile, &self.table, &literal, &schema)?;
        Ok(match chosen.access {
            Access::Range {
                prefix,
                low,
                high,
                index,
            } if prefix.is_empty() && (low.is_none() || high.is_none()) => {
                // One end alone may select most of the table.
                let _ = index;
                Access::Scan
            }
            access => access,
        })
    }
}

/// Comparisons of a column with a literal.
fn compares_literal(filter: &Expr) -> bool {
    match filter {
        Expr::BinaryExpr(binary) => {
            let literal = |expr: &Expr| matches!(expr, Expr::Literal(..));
            let column = |expr: &Expr| matches!(expr, Expr::Column(_) | Expr::Cast(_));
            (column(&binary.left) && literal(&binary.right))
                || (literal(&binary.left) && column(&binary.right))
        }
        Expr::Between(between) => {
            matches!(*between.expr, Expr::Column(_))
                && matches!(*between.low, Expr::Literal(..))
                && matches!(*between.high, Expr::Literal(..))
        }
        Expr::InList(list) => {
            matches!(*list.expr, Expr::Column(_))
                && list
                    .list
                    .iter()
                    .all(|item| matches!(item, Expr::Literal(..)))
        }
        _ => false,
    }
}

#[async_trait]
impl TableProvider for BoundTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        // An index narrows the rows down; the filter itself stays above the scan.
        let pushdown = |filter: &&Expr| {
            if compares_literal(filter) {
                TableProviderFilterPushDown::Inexact
            } else {
                TableProviderFilterPushDown::Unsupported
            }
        };
        Ok(filters.iter().map(pushdown).collect())
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let filters: Vec<&Expr> = filters.iter().collect();
        let access = self.access(&filters)?;
        let columns: Vec<usize> = match projection {
            Some(columns) => columns.clone(),
            None => (0..self.schema.fields().len()).collect(),
        };
        let schema = Arc::new(self.schema.project(&columns)?);
        // What an index narrows down is not known to be any number of rows.
        let whole = matches!(access, Access::Scan) && limit.is_none();
        let projected = columns.clone();
        let partition = TablePartition {
            table: Arc::clone(&self.table),
            access: Arc::new(access),
            columns,
            schema: Arc::clone(&schema),
            snapshot: self.snapshot.clone(),
            cx: Arc::clone(&self.cx),
            cancel: self.cancel.clone(),
        };
        let partitions: Vec<Arc<dyn PartitionStream>> = vec![Arc::new(partition)];
        let exec = StreamingTableExec::try_new(schema, partitions, None, [], false, limit)?;
        match whole.then(|| of_columns(&self.table, &projected)).flatten() {
            Some(statistics) => Ok(Arc::new(TableScanExec::new(exec, statistics))),
            None => Ok(Arc::new(exec)),
        }
    }
}
