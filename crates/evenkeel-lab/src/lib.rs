//! The lab: experiments that compare evenkeel with PostgreSQL on one machine, run with stock
//! clients on fresh servers, and their report. See README.md for its rules.

#![forbid(unsafe_code)]

mod answers;
mod benches;
mod client;
mod command;
mod context;
mod embedded;
mod environment;
mod error;
mod experiments;
mod pgbench;
mod plan;
mod postgres_install;
mod record;
mod report;
mod run;
mod sample;
mod server;
mod steps;
mod subject;
mod views;

pub use command::{Host, LabCommand};
pub use error::LabError;

#[cfg(test)]
mod tests {
    #[test]
    fn the_lab_knows_no_other_crate_of_the_workspace() {
        let manifest = include_str!("../Cargo.toml");
        let (_, dependencies) = manifest
            .split_once("[dependencies]")
            .expect("there are some");
        assert!(!dependencies.contains("evenkeel"), "{dependencies}");
    }
}
