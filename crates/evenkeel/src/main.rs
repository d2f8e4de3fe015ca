//! The command `evenkeel`: a server over a data directory, and tools that look into one.

#![forbid(unsafe_code)]

mod check;
mod damaged;
mod lab;
mod repair;
mod serve;
mod waldump;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use evenkeel_engine::memory::counting::CountingAllocator;
use tikv_jemallocator::Jemalloc;

/// The memory budget looks at its total. jemalloc gives free memory back to the system by itself,
/// from a thread of its own (`.cargo/config.toml` has its settings).
#[global_allocator]
static ALLOCATOR: CountingAllocator<Jemalloc> = CountingAllocator(Jemalloc);

/// A transactional database engine of PostgreSQL's shape.
#[derive(Parser)]
#[command(version, about, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the database in a directory to PostgreSQL clients; a new one is made if the
    /// directory is absent or empty
    #[command(after_help = serve::settings_help())]
    Serve {
        /// The data directory
        data: PathBuf,
        /// TCP port on 127.0.0.1, 0 for any that is free
        #[arg(long)]
        port: Option<u16>,
        /// A setting, stronger than the directory's evenkeel.conf; may be repeated
        #[arg(short = 'c', value_name = "NAME=VALUE")]
        settings: Vec<String>,
    },
    /// Check a directory that no server uses: page checksums, heaps, indexes, and that they agree
    Check {
        /// The data directory
        data: PathBuf,
    },
    /// List the pages that are set aside as damaged, or end that for one of them
    Damaged {
        /// The data directory
        data: PathBuf,
        #[command(subcommand)]
        action: Option<damaged::Action>,
    },
    /// Read every page, and make damaged ones again from the log, their side files and the
    /// double-write area, where these have all of them. No server may be using the directory
    Repair {
        /// The data directory
        data: PathBuf,
    },
    /// Print the log's records
    Waldump {
        /// The data directory
        data: PathBuf,
        /// Print counts and sizes by kind of record instead
        #[arg(long)]
        stats: bool,
    },
    /// Repeat the experiments beside PostgreSQL on this machine, and report
    Lab {
        #[command(subcommand)]
        command: evenkeel_lab::LabCommand,
    },
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Serve {
            data,
            port,
            settings,
        } => serve::serve(&data, port, &settings),
        Command::Check { data } => check::check(&data),
        Command::Damaged { data, action } => damaged::damaged(&data, action.as_ref()),
        Command::Repair { data } => repair::repair(&data),
        Command::Waldump { data, stats } => waldump::waldump(&data, stats),
        Command::Lab { command } => lab::lab(&command),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("evenkeel: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A command's failure: the message for the user, complete.
type Failure = Box<dyn std::error::Error>;
