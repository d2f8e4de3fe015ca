//! Groups and their aggregates.

mod group;
mod hashed;
mod ordered;

pub(crate) use hashed::Hashed;
pub(crate) use ordered::Ordered;
