//! From the text of a query or change to its plan, the shape in which statements are kept, and the
//! cache of them.

pub mod cache;
pub mod compile;
pub mod references;
pub mod rows;
