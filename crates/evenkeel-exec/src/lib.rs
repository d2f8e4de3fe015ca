//! The row executor: it runs every plan. See the README.

#![forbid(unsafe_code)]

mod any_set;
mod batch;
mod build;
mod context;
mod error;
mod eval;
mod events;
mod execution;
mod hash_index;
mod key;
mod large;
mod measure;
mod new_row;
mod nodes;
mod partitions;
mod raw_test;
mod recheck;
mod relations;
mod rows;
mod sorter;
mod spill;
mod stack;
mod subplan;
mod transaction;
mod virtual_rows;
mod walk;
mod writer;

pub use batch::Batch;
pub use context::{Environment, Limits};
pub use error::{ExecError, ExecResult};
pub use events::{Role, RowEvent, RowEvents};
pub use execution::{Execution, Step, Wait};
pub use large::{NewRow, NewRows, RowReader, settle};
pub use measure::{Measure, MergeCounts};
pub use new_row::{check_violation, null_violation};
pub use relations::Relations;
pub use spill::TempSpace;
pub use transaction::TransactionWriter;
pub use virtual_rows::VirtualRows;
pub use writer::{Waiting, Write, Writer, Written};
