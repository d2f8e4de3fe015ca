//! Every node by itself, over plans by hand, against simple models; each plan also runs a row at a
//! time, in next to no memory, and giving way at random.

mod common;
mod flow;
mod groups;
mod joins;
mod scans;
mod windows;
