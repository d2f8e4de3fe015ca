//! The compiled executor: statements of OLTP shape run over tuples, without a DataFusion plan.

pub mod access;
pub mod conflict;
pub mod expr;
pub mod insert;
pub mod modify;
pub mod select;
