//! `evenkeel serve`: opens the database, listens, and stops cleanly on SIGTERM or SIGINT. The
//! second such signal ends it at once, as a crash would.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use evenkeel_engine::memory::{self, counting};
use evenkeel_engine::{Config, Database, EngineError};
use evenkeel_io::{Disk, FileDisk, IoErrorKind, IoMethod};
use evenkeel_server::{Descriptors, Reopen, Server, ServerConfig, settings};
use evenkeel_settings::{Configuration, FILE, Loaded, settings_file};
use evenkeel_sql::{SqlConfig, SqlEngine};
use evenkeel_storage::Store;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::Failure;

/// The server has not begun to serve.
static STARTING: AtomicBool = AtomicBool::new(true);

/// How long a failed instance may keep its directory locked.
const UNLOCKED: Duration = Duration::from_secs(10);

/// The settings, for `evenkeel serve --help`.
pub fn settings_help() -> String {
    format!(
        "Settings (in evenkeel.conf or by -c):\n{}",
        settings_file("  ")
    )
}

pub fn serve(data: &Path, port: Option<u16>, overrides: &[String]) -> Result<(), Failure> {
    tracing_subscriber::fmt()
        .with_target(false)
        .with_writer(std::io::stderr)
        .init();
    end_on_panic_while_starting();
    let configuration = Arc::new(read_settings(data, port, overrides)?);
    let (server_memory, session_memory) = settings::settle_memory(&configuration);
    let loaded = configuration.loaded();
    let mut listen = settings::server_config(&loaded);
    let mut config = settings::database_config(&loaded);
    share_open_files(&mut listen, &mut config);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    // A page that not even the page cache has blocks the thread that reads it: the runtime moves
    // the other sessions off it first.
    evenkeel_io::set_blocking_hook(|work| tokio::task::block_in_place(work))?;
    memory::set_gauge(counting::in_use);
    let disk: Arc<dyn Disk> = Arc::new(FileDisk::new(settings::io_method(&loaded)));
    let opener = Opener {
        disk: Arc::clone(&disk),
        data: data.to_owned(),
        config,
        sql: SqlConfig {
            server_memory,
            session_memory,
            settings: configuration,
            ..SqlConfig::default()
        },
    };
    runtime.spawn(end_on_signal_while_starting());
    let engine = opener.open()?;
    write_settings_file(&*disk, data)?;
    let served = serve_database(&runtime, engine, opener, &listen).and_then(|engine| {
        engine.stop_autovacuum();
        engine.close()?;
        engine.database().close()?;
        tracing::info!("database system is shut down");
        Ok(())
    });
    // Not waiting for threads that nothing can interrupt.
    runtime.shutdown_background();
    served
}

/// A thread that the system does not give is a panic in the runtime, whose other threads would
/// wait for ever. Until the server serves, a panic ends the process.
fn end_on_panic_while_starting() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        if STARTING.load(Ordering::SeqCst) {
            let reason = panic.payload_as_str().unwrap_or("a panic");
            eprintln!("evenkeel: the server could not start: {reason}");
            std::process::exit(1);
        }
    }));
}

/// Has the process allowed as many open files as the system lets it have, and shares them out
/// between sessions and data files.
fn share_open_files(listen: &mut ServerConfig, config: &mut Config) {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!("could not raise the limit of open files: {error}");
    }
    let limit = getrlimit(Resource::Nofile).current;
    let wanted = listen.max_connections;
    let shares = Descriptors::share(limit, wanted);
    if shares.sessions < wanted {
        let limit = limit.unwrap_or_default();
        tracing::warn!(
            "max_connections is lowered from {wanted} to {}: the process may have {limit} files open",
            shares.sessions
        );
        listen.max_connections = shares.sessions;
    }
    listen.max_pending = shares.pending;
    config.storage.max_data_files = Some(shares.data_files);
}

/// Opens the database, at the start and after a failure.
struct Opener {
    disk: Arc<dyn Disk>,
    data: PathBuf,
    config: Config,
    sql: SqlConfig,
}

impl Opener {
    fn open(&self) -> Result<Arc<SqlEngine>, Failure> {
        let database = Database::open(Arc::clone(&self.disk), &self.data, self.config.clone())?;
        let atomic = database.store().writes_pages_atomically();
        let configuration = &self.sql.settings;
        configuration.settle("atomic_page_writes", if atomic { "on" } else { "off" });
        // Of this database, which may be closed and opened anew.
        let store = Arc::downgrade(database.store());
        configuration.on_load(move |loaded| {
            if let Some(store) = store.upgrade() {
                tune(&store, loaded);
            }
        });
        let opened = SqlEngine::open(database.clone(), self.sql.clone());
        let running = opened.and_then(|engine| engine.start_autovacuum().map(|()| engine));
        match running {
            Ok(engine) => Ok(engine),
            Err(error) => {
                // The directory is left as clean as it can be.
                database.close()?;
                Err(error.into())
            }
        }
    }

    /// As [`Opener::open`]; a thread of the failed instance may hold the lock a moment longer.
    fn reopen(&self) -> Result<Arc<SqlEngine>, String> {
        let begun = Instant::now();
        loop {
            match self.open() {
                Ok(engine) => return Ok(engine),
                Err(error) if begun.elapsed() < UNLOCKED && is_locked(&*error) => {
                    std::thread::sleep(Duration::from_millis(50));
                }
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}

/// Has storage follow settings that were loaded while it is open.
fn tune(store: &Store, loaded: &Loaded) {
    if let Err(error) = store.tune(settings::tuning(loaded)) {
        tracing::warn!("the settings of checkpoints and the log stay as they are: {error}");
    }
}

fn is_locked(error: &(dyn std::error::Error + 'static)) -> bool {
    let error = error.downcast_ref::<EngineError>();
    error.is_some_and(|error| error.sqlstate() == "55006")
}

fn serve_database(
    runtime: &Runtime,
    engine: Arc<SqlEngine>,
    opener: Opener,
    listen: &ServerConfig,
) -> Result<Arc<SqlEngine>, Failure> {
    runtime.block_on(async {
        let server = match Server::bind(Arc::clone(&engine), listen).await {
            Ok(server) => server,
            Err(error) => {
                engine.database().close()?;
                return Err(error.into());
            }
        };
        // The server lets go of it when it fails, and so must everybody.
        drop(engine);
        announce(&server)?;
        let stop = server.stop_handle();
        let configuration = Arc::clone(&opener.sql.settings);
        let handle = stop.clone();
        configuration.on_load(move |loaded| {
            handle.set_authentication_timeout(loaded.time("authentication_timeout"));
        });
        tokio::spawn(load_when_told_to(
            signal(SignalKind::hangup())?,
            configuration,
        ));
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        // Once these hear of a signal: one that `end_on_signal_while_starting` passes over is not
        // lost.
        STARTING.store(false, Ordering::SeqCst);
        tokio::spawn(async move {
            let mut told = async || {
                tokio::select! {
                    _ = terminate.recv() => "SIGTERM",
                    _ = interrupt.recv() => "SIGINT",
                }
            };
            let name = told().await;
            tracing::info!("received {name}: shutting down");
            stop.stop();
            let name = told().await;
            tracing::warn!("received {name} again: ending at once, the next start will recover");
            std::process::exit(1);
        });
        let reopen: Reopen = Arc::new(move || opener.reopen());
        Ok(server.run(reopen).await?)
    })
}

/// Ends the process when it is told to before it serves. The next start finds a database that was
/// not shut down, whatever this one has begun.
async fn end_on_signal_while_starting() {
    let terminate = signal(SignalKind::terminate());
    let interrupt = signal(SignalKind::interrupt());
    let (Ok(mut terminate), Ok(mut interrupt)) = (terminate, interrupt) else {
        return;
    };
    let name = tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    };
    if STARTING.load(Ordering::SeqCst) {
        tracing::info!("received {name} while starting: the next start will recover");
        std::process::exit(0);
    }
}

/// Loads the configuration again at every SIGHUP.
async fn load_when_told_to(mut hangup: Signal, configuration: Arc<Configuration>) {
    while hangup.recv().await.is_some() {
        tracing::info!("received SIGHUP, reloading configuration files");
        let configuration = Arc::clone(&configuration);
        let load = tokio::task::spawn_blocking(move || configuration.reload());
        if let Ok(Err(error)) = load.await {
            tracing::error!("the configuration is not loaded again: {error}");
        }
    }
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
) -> Result<Configuration, Failure> {
    let mut given = Vec::new();
    for text in overrides {
        let (name, value) = text
            .split_once('=')
            .ok_or_else(|| format!("-c {text}: not of the form NAME=VALUE"))?;
        given.push((
            name.trim().to_owned(),
            value.trim().trim_matches('\'').to_owned(),
        ));
    }
    given.extend(port.map(|port| ("port".to_owned(), port.to_string())));
    // How the database's files are read and written is not known yet.
    let disk: Arc<dyn Disk> = Arc::new(FileDisk::new(IoMethod::Sync));
    Ok(Configuration::open(disk, data, given)?)
}

/// A new directory gets a file with every setting, commented out; whole, or none.
fn write_settings_file(disk: &dyn Disk, data: &Path) -> Result<(), Failure> {
    let file = data.join(FILE);
    if disk.exists(&file)? {
        return Ok(());
    }
    let head = "# Settings of this evenkeel database, read when the server starts and when it is told to\n\
                # (SIGHUP or pg_reload_conf()); some take effect at a start only.\n\
                # Those commented out show their defaults.\n\n";
    let text = format!("{head}{}", settings_file("# "));
    match evenkeel_io::write_whole(disk, &file, text.as_bytes()) {
        Err(error) if error.kind() == IoErrorKind::NoSpace => {
            tracing::warn!("{error}; the settings have their defaults without it");
            Ok(())
        }
        written => Ok(written?),
    }
}
