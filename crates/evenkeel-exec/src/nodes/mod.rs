//! The operators, a file each.

/// The fields of a node's kind; another kind is a plan that does not fit its state.
macro_rules! kind {
    ($node:expr, $kind:ident { $($field:ident),* $(,)? }) => {
        let evenkeel_planner::plan::NodeKind::$kind { $($field,)* .. } = &$node.kind else {
            return Err(crate::error::ExecError::plan("a node of another kind"));
        };
    };
}

pub(crate) mod aggregate;
pub(crate) mod append;
pub(crate) mod bitmap_scan;
pub(crate) mod changed;
pub(crate) mod cte;
pub(crate) mod fixed;
pub(crate) mod function_scan;
pub(crate) mod hash_join;
pub(crate) mod index_keys;
pub(crate) mod index_scan;
pub(crate) mod insert_many;
pub(crate) mod leaf;
pub(crate) mod limit;
pub(crate) mod lock_rows;
pub(crate) mod materialize;
pub(crate) mod measured;
pub(crate) mod memoize;
pub(crate) mod merge;
pub(crate) mod merge_append;
pub(crate) mod merge_join;
pub(crate) mod modify;
pub(crate) mod nested_loop;
pub(crate) mod project_set;
pub(crate) mod recursive;
pub(crate) mod seq_scan;
pub(crate) mod set_operation;
pub(crate) mod shape;
pub(crate) mod sort;
pub(crate) mod unique;
pub(crate) mod virtual_scan;
pub(crate) mod window;
