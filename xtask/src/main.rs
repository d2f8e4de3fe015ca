//! `cargo xtask COMMAND`: what developers and CI run. See `COMMANDS` for the list.
#![forbid(unsafe_code)]

mod again;
mod apps;
mod clients;
mod deny;
mod miri;
mod modules;
mod prose;
mod rules;
mod run;
mod test;
mod tidy;

use std::process::ExitCode;

const COMMANDS: &str = "\
cargo xtask COMMAND

  test            format, tidy, licences and sources of dependencies, clippy, documentation,
                  then every test, the sample applications, the loom models and Miri; fetches
                  the stock PostgreSQL clients (psql, pgbench) first where the machine has
                  none; a test that fails runs once more, and is named at the end if it
                  passes then
  test --fast     the same without the server's end-to-end tests, the applications, the loom
                  models and Miri
  apps            the sample applications of examples/apps; their packages come from PyPI
  tidy            file and function length, leftover markers, unenforced rules, import cycles
  modules         draw the modules of each crate in ARCHITECTURE.md and list their import cycles
  settings        write the tables of settings in README.md and docs/settings.md
  miri            the tests of the small unsafe parts under Miri, some minutes; needs
                  `rustup component add miri rust-src --toolchain nightly`
  clients         print the directory of the stock PostgreSQL clients, fetching them if need be
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let rest = args.get(1..).unwrap_or(&[]);
    let outcome = match args.first().map(String::as_str) {
        Some("test") => test::test(rest),
        Some("tidy") => tidy::tidy(),
        Some("modules") => modules::write(),
        Some("settings") => test::write_settings(),
        Some("apps") => apps::apps(),
        Some("miri") => miri::miri(),
        Some("clients") => clients::directory().map(|dir| println!("{}", dir.display())),
        _ => Err(format!("which command?\n\n{COMMANDS}")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}
