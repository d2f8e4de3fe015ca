//! `evenkeel serve`: opens the database, listens, and stops cleanly on SIGTERM or SIGINT.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use evenkeel_engine::Database;
use evenkeel_io::FileDisk;
use evenkeel_server::{Server, Settings};
use evenkeel_sql::SqlEngine;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use crate::Failure;

const SETTINGS_FILE: &str = "evenkeel.conf";

/// The settings, for `evenkeel serve --help`.
pub fn settings_help() -> String {
    format!(
        "Settings (in evenkeel.conf or by -c):\n{}",
        Settings::describe("  ")
    )
}

pub fn serve(data: &Path, port: Option<u16>, overrides: &[String]) -> Result<(), Failure> {
    tracing_subscriber::fmt()
        .with_target(false)
        .with_writer(std::io::stderr)
        .init();
    let settings = read_settings(data, port, overrides)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    // A page miss blocks its thread: the runtime moves the other sessions off it first.
    evenkeel_io::set_blocking_hook(|work| tokio::task::block_in_place(work))?;
    let disk = Arc::new(FileDisk::new(settings.io_method));
    let database = Database::open(disk, data, settings.database.clone())?;
    write_settings_file(data)?;
    let outcome = serve_database(&runtime, &database, settings);
    // Whatever ended the server, the directory is left as clean as it can be.
    let closed = database.close();
    outcome?;
    closed?;
    tracing::info!("database system is shut down");
    Ok(())
}

fn serve_database(
    runtime: &Runtime,
    database: &Database,
    settings: Settings,
) -> Result<(), Failure> {
    let engine = SqlEngine::open(database.clone(), settings.sql)?;
    runtime.block_on(async {
        let server = Server::bind(engine, &settings.server).await?;
        announce(&server)?;
        let stop = server.stop_handle();
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => tracing::info!("received SIGTERM: shutting down"),
                _ = interrupt.recv() => tracing::info!("received SIGINT: shutting down"),
            }
            stop.stop();
        });
        server.run().await;
        Ok(())
    })
}

/// Says where the server listens and how to get in, on standard output.
fn announce(server: &Server) -> Result<(), Failure> {
    let port = server.address()?.port();
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "evenkeel is ready: it listens on 127.0.0.1, port {port}"
    )?;
    if let Some(directory) = server.socket_directory() {
        writeln!(
            out,
            "and on the Unix socket {}/.s.PGSQL.{port}",
            directory.display()
        )?;
    }
    writeln!(out, "(loopback only: every client is trusted). Try:")?;
    writeln!(
        out,
        "\n  psql -h 127.0.0.1 -p {port} -U postgres postgres\n"
    )?;
    out.flush()?;
    tracing::info!("database system is ready to accept connections");
    Ok(())
}

fn read_settings(
    data: &Path,
    port: Option<u16>,
    overrides: &[String],
) -> Result<Settings, Failure> {
    let mut settings = Settings::default();
    let file = data.join(SETTINGS_FILE);
    match std::fs::read_to_string(&file) {
        Ok(text) => {
            settings
                .apply_file(&text)
                .map_err(|e| format!("{}: {e}", file.display()))?;
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
        Err(e) => return Err(format!("cannot read {}: {e}", file.display()).into()),
    }
    for text in overrides {
        let (name, value) = text
            .split_once('=')
            .ok_or_else(|| format!("-c {text}: not of the form NAME=VALUE"))?;
        settings.apply(name.trim(), value.trim())?;
    }
    if let Some(port) = port {
        settings.apply("port", &port.to_string())?;
    }
    Ok(settings)
}

/// A new directory gets a file with every setting, commented out.
fn write_settings_file(data: &Path) -> Result<(), Failure> {
    let file = data.join(SETTINGS_FILE);
    if file.exists() {
        return Ok(());
    }
    let head = "# Settings of this evenkeel database, read when the server starts.\n\
                # Those commented out show their defaults.\n\n";
    let text = format!("{head}{}", Settings::describe("# "));
    std::fs::write(&file, text).map_err(|e| format!("cannot write {}: {e}", file.display()).into())
}
