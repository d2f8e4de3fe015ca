//! The durability proof: a mixed workload on the simulated disk, an oracle outside of the
//! engine, crashes at its operations, failing operations, deliberate bugs, and the same work
//! under different settings. The rules are in the README of this directory's parent.
//!
//! Random, by seeds that are printed; `EVENKEEL_SEED` sets the first.

mod ddl;
mod dml;
mod faults;
mod hooked;
mod images;
mod keep;
mod model;
mod mutants;
mod races;
mod reach;
mod schema;
mod settings;
mod transfers;
mod verify;
mod watch;
mod ways;
mod workload;
