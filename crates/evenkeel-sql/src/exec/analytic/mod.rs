//! The analytic executor: DataFusion plans over our tables, bound to a snapshot when they run.

pub mod batches;
pub mod bind;
pub mod modify;
pub mod pool;
pub mod provider;
pub mod scan;
pub mod series;
mod statistics;
