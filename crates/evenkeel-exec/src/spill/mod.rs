//! Rows that memory has no room for: temporary files, and stores of rows that use them. See the
//! README, RUN-6.

mod codec;
mod file;
mod store;

pub use file::TempSpace;
pub(crate) use store::{Cursor, RowStore};
