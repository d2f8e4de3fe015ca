//! The heap: pages of tuples, their redo, and what a snapshot sees of them.
//!
//! Entry points: [`redo::apply`], [`prune::plan`], [`read::read_page`], [`read::chain`]. The
//! operations of a table are in [`crate::table`]. The rules are in the README beside this file.

pub mod check;
mod compact;
pub(crate) mod horizon_xids;
pub mod layout;
pub mod ops;
pub mod prune;
pub mod read;
pub mod redo;
pub mod rows;
#[cfg(test)]
mod tests;
pub mod visibility;

pub use layout::MAX_ROW;
pub use rows::{Row, RowBatch, RowHandle};
