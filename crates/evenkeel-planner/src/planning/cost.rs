//! Estimated costs of paths, in PostgreSQL's units and by its formulas.

use std::rc::Rc;

use crate::plan::Estimate;

use super::path::{OrderKey, Path, PathKind, PathRef};
use super::rels::Rels;
use super::settings::{DISABLED, PlannerSettings};
use super::statement::Statement;

/// Bytes of a page.
pub(super) const PAGE: f64 = 8192.0;
/// Memory of a row besides its values.
const ROW_OVERHEAD: f64 = 24.0;
/// Above so many rows PostgreSQL does not count more of them.
const ROWS_MAX: f64 = 1.0e100;

/// Rows as an estimate: whole, and never none.
pub(super) fn rows(estimate: f64) -> f64 {
    if estimate.is_nan() || estimate > ROWS_MAX {
        ROWS_MAX
    } else {
        estimate.round().max(1.0)
    }
}

/// Makes a path.
pub(super) fn path(
    kind: PathKind,
    estimate: Estimate,
    order: Vec<OrderKey>,
    rels: Rels,
) -> PathRef {
    Rc::new(Path {
        kind,
        estimate,
        order,
        rels,
    })
}

/// Pages of a table that so many fetched rows touch, of an index that is searched `loops` times,
/// with a cache of `cache` pages: Mackert and Lohman, "Index Scans Using a Finite LRU Buffer", as
/// PostgreSQL's `index_pages_fetched` uses it.
pub(super) fn pages_fetched(tuples: f64, pages: f64, cache: f64) -> f64 {
    let pages = pages.max(1.0);
    let cache = cache.max(1.0);
    if pages <= cache {
        let fetched = (2.0 * pages * tuples) / (2.0 * pages + tuples);
        return fetched.min(pages).ceil();
    }
    let limit = (2.0 * pages * cache) / (2.0 * pages - cache);
    if tuples <= limit {
        ((2.0 * pages * tuples) / (2.0 * pages + tuples)).ceil()
    } else {
        (cache + (tuples - limit) * (pages - cache) / pages).ceil()
    }
}

impl Statement<'_> {
    /// A sort of a path; with a limit above it only so many rows are kept.
    pub(super) fn sort(
        &self,
        child: &PathRef,
        keys: Vec<OrderKey>,
        presorted: usize,
        limit: Option<f64>,
    ) -> PathRef {
        let settings = self.settings;
        let rows = child.estimate.rows.max(2.0);
        let kept = limit.map_or(rows, |limit| limit.clamp(1.0, rows));
        let compare = 2.0 * settings.cpu_operator_cost * keys.len().max(1) as f64;
        let bytes = rows * (child.estimate.bytes + ROW_OVERHEAD);
        let mut startup = child.estimate.total + disabled(settings.sort);
        startup += if kept * 2.0 < rows {
            compare * rows * (2.0 * kept).log2()
        } else {
            compare * rows * rows.log2()
        };
        if bytes > settings.work_mem && kept * 2.0 >= rows {
            // Written once and read once, three quarters of it in order.
            let pages = (bytes / PAGE).ceil();
            let each = settings.seq_page_cost * 0.75 + settings.random_page_cost * 0.25;
            startup += 2.0 * pages * each;
        }
        if presorted > 0 {
            // Groups of rows that are equal in the columns that are in order are sorted by
            // themselves: the first comes early.
            startup = child.estimate.startup + (startup - child.estimate.startup) * 0.05;
        }
        let total = (startup + settings.cpu_operator_cost * kept).max(child.estimate.total);
        let estimate = Estimate {
            startup,
            total,
            ..child.estimate
        };
        path(
            PathKind::Sort {
                child: Rc::clone(child),
                keys: keys.clone(),
                presorted,
                bounded: limit.is_some(),
            },
            estimate,
            keys,
            child.rels.clone(),
        )
    }

    /// A path whose rows are kept for further runs.
    pub(super) fn materialize(&self, child: &PathRef) -> PathRef {
        let estimate = Estimate {
            total: child.estimate.total
                + 2.0 * self.settings.cpu_operator_cost * child.estimate.rows,
            ..child.estimate
        };
        path(
            PathKind::Materialize {
                child: Rc::clone(child),
            },
            estimate,
            child.order.clone(),
            child.rels.clone(),
        )
    }

    /// Cost of running a path once more.
    pub(super) fn rescan(&self, path: &Path) -> f64 {
        let settings = self.settings;
        match &path.kind {
            PathKind::Materialize { .. } => {
                let bytes = path.estimate.rows * (path.estimate.bytes + ROW_OVERHEAD);
                let spilled = match bytes > settings.work_mem {
                    true => settings.seq_page_cost * (bytes / PAGE).ceil(),
                    false => 0.0,
                };
                settings.cpu_operator_cost * path.estimate.rows + spilled
            }
            PathKind::Scan { rel, .. }
                if matches!(self.rels[*rel].source, super::statement::Source::Cte(_)) =>
            {
                settings.cpu_tuple_cost * path.estimate.rows
            }
            _ => path.estimate.total,
        }
    }

    /// Bytes of a relation's row, as far as they are known.
    pub(super) fn row_bytes(&self, rel: usize) -> f64 {
        let rel = &self.rels[rel];
        let widths = rel.types.iter().enumerate().map(|(column, ty)| {
            if let super::statement::Source::Relation(relation) = &rel.source
                && let Some(stats) = &relation.columns[column].stats
                && stats.width > 0.0
            {
                return stats.width;
            }
            match ty.wire_len() {
                fixed if fixed > 0 => f64::from(fixed),
                _ => 32.0,
            }
        });
        widths.sum()
    }
}

/// The cost that a switch adds.
pub(super) fn disabled(enabled: bool) -> f64 {
    if enabled { 0.0 } else { DISABLED }
}

/// Cost of evaluating conditions on one row.
pub(super) fn filter_cost(settings: &PlannerSettings, conditions: usize) -> f64 {
    settings.cpu_operator_cost * conditions as f64
}

/// Whether rows in the order `has` are in the order `wanted`, where `is_constant` expressions order
/// nothing and `equal` ones order alike. Answers how many of the wanted keys are met.
pub(super) fn keys_met(
    has: &[OrderKey],
    wanted: &[OrderKey],
    is_constant: &dyn Fn(&crate::bound::Expr) -> bool,
    equal: &dyn Fn(&crate::bound::Expr, &crate::bound::Expr) -> bool,
) -> usize {
    let mut next = 0;
    for (met, want) in wanted.iter().enumerate() {
        if is_constant(&want.expr) {
            continue;
        }
        while has.get(next).is_some_and(|key| is_constant(&key.expr)) {
            next += 1;
        }
        match has.get(next) {
            Some(key)
                if equal(&key.expr, &want.expr)
                    && key.desc == want.desc
                    && key.nulls_first == want.nulls_first =>
            {
                next += 1;
            }
            _ => return met,
        }
    }
    wanted.len()
}
