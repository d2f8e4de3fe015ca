//! What analyze found out, as DataFusion's planner sees it.

use std::sync::Arc;

use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ColumnStatistics, Statistics};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::streaming::StreamingTableExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
    StatisticsArgs,
};

use crate::arrow::scalar_from_datum;
use crate::catalog::TableInfo;
use crate::error::SqlError;

/// A table scan that knows about how many rows it will give. Everything but that is the inner
/// scan's.
#[derive(Debug)]
pub struct TableScanExec {
    inner: Arc<StreamingTableExec>,
    statistics: Arc<Statistics>,
}

impl TableScanExec {
    /// The scan with these statistics of its columns.
    pub fn new(inner: StreamingTableExec, statistics: Statistics) -> TableScanExec {
        TableScanExec {
            inner: Arc::new(inner),
            statistics: Arc::new(statistics),
        }
    }
}

impl DisplayAs for TableScanExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.fmt_as(t, f)
    }
}

impl ExecutionPlan for TableScanExec {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.inner.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() {
            return Ok(self);
        }
        Err(SqlError::internal("a table scan has no inputs").into())
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() {
            return Ok(self);
        }
        Err(SqlError::internal("a table scan has no inputs").into())
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.inner.execute(partition, context)
    }

    fn fetch(&self) -> Option<usize> {
        self.inner.fetch()
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        self.inner.with_fetch(limit)
    }

    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExec,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        self.inner.try_swapping_with_projection(projection)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.inner.metrics()
    }

    fn statistics_from_inputs(
        &self,
        _inputs: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        // There is one partition: the whole.
        Ok(Arc::clone(&self.statistics))
    }
}

/// The statistics of some columns of a table; a number behind the last column is the row id.
/// None for a table that was never vacuumed or analyzed.
pub fn of_columns(table: &TableInfo, columns: &[usize]) -> Option<Statistics> {
    let known = &table.stats;
    if known.reltuples < 0.0 {
        return None;
    }
    // The table has grown or shrunk since; its rows are as dense as they were.
    let rows = if known.relpages > 0 {
        let density = f64::from(known.reltuples) / f64::from(known.relpages);
        density * f64::from(table.table.blocks())
    } else {
        f64::from(known.reltuples)
    };
    let rows = rows.round().max(0.0) as usize;
    let columns: Vec<ColumnStatistics> = columns
        .iter()
        .map(|&column| column_statistics(table, column, rows))
        .collect();
    let bytes = columns
        .iter()
        .filter_map(|column| column.byte_size.get_value())
        .sum();
    Some(Statistics {
        num_rows: Precision::Inexact(rows),
        total_byte_size: Precision::Inexact(bytes),
        column_statistics: columns,
    })
}

fn column_statistics(table: &TableInfo, column: usize, rows: usize) -> ColumnStatistics {
    let mut statistics = ColumnStatistics::new_unknown();
    let (Some(known), Some(info)) = (table.stats.column(column), table.columns.get(column)) else {
        return statistics;
    };
    let share = |part: f32| (f64::from(part) * rows as f64).round() as usize;
    statistics.null_count = Precision::Inexact(share(known.null_frac));
    let distinct = if known.n_distinct < 0.0 {
        share(-known.n_distinct)
    } else {
        known.n_distinct as usize
    };
    if distinct > 0 {
        statistics.distinct_count = Precision::Inexact(distinct);
    }
    let width = usize::try_from(known.avg_width).unwrap_or(0);
    statistics.byte_size = Precision::Inexact(width.saturating_mul(rows));
    if let Some((low, high)) = known.bounds()
        && let (Ok(low), Ok(high)) = (
            scalar_from_datum(low, info.ty),
            scalar_from_datum(high, info.ty),
        )
    {
        statistics.min_value = Precision::Inexact(low);
        statistics.max_value = Precision::Inexact(high);
    }
    statistics
}
