//! The settings that plans are chosen by, under PostgreSQL's names and with its defaults.

/// Costs and switches.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannerSettings {
    /// `seq_page_cost`
    pub seq_page_cost: f64,
    /// `random_page_cost`
    pub random_page_cost: f64,
    /// `cpu_tuple_cost`
    pub cpu_tuple_cost: f64,
    /// `cpu_index_tuple_cost`
    pub cpu_index_tuple_cost: f64,
    /// `cpu_operator_cost`
    pub cpu_operator_cost: f64,
    /// `effective_cache_size`, in pages
    pub effective_cache_pages: f64,
    /// `work_mem`, in bytes
    pub work_mem: f64,
    /// `enable_seqscan`
    pub seqscan: bool,
    /// `enable_indexscan`
    pub indexscan: bool,
    /// `enable_bitmapscan`
    pub bitmapscan: bool,
    /// `enable_indexonlyscan`
    pub indexonlyscan: bool,
    /// `enable_nestloop`
    pub nestloop: bool,
    /// `enable_hashjoin`
    pub hashjoin: bool,
    /// `enable_hashagg`
    pub hashagg: bool,
    /// `enable_sort`
    pub sort: bool,
    /// `enable_material`
    pub material: bool,
    /// `enable_memoize`
    pub memoize: bool,
    /// One less than `geqo_threshold`: with more relations joins are ordered greedily.
    pub exhaustive_joins: usize,
}

impl Default for PlannerSettings {
    fn default() -> PlannerSettings {
        PlannerSettings {
            seq_page_cost: 1.0,
            random_page_cost: 4.0,
            cpu_tuple_cost: 0.01,
            cpu_index_tuple_cost: 0.005,
            cpu_operator_cost: 0.0025,
            effective_cache_pages: 524_288.0,
            work_mem: 4.0 * 1024.0 * 1024.0,
            seqscan: true,
            indexscan: true,
            bitmapscan: true,
            indexonlyscan: true,
            nestloop: true,
            hashjoin: true,
            hashagg: true,
            sort: true,
            material: true,
            memoize: true,
            exhaustive_joins: 10,
        }
    }
}

/// Added to the cost of what a switch turns off: it is used only where nothing else does.
pub(super) const DISABLED: f64 = 1.0e10;
