//! The server: listens, accepts, and stops cleanly.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_sql::{Client, SqlEngine};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::task::JoinSet;

use crate::config::ServerConfig;
use crate::instance::{Reopen, RunError};
use crate::session;
use crate::shared::{Shared, stopped};

/// How long sessions may take to end when the server stops.
const GRACE: Duration = Duration::from_secs(5);
/// How long a connection that was dropped may go on before the others are not kept waiting for it.
const STUCK: Duration = Duration::from_secs(5);
/// How often those that run a statement are told again.
const REMIND: Duration = Duration::from_millis(100);

/// Why the server could not start listening.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Another program has the port, most likely.
    #[error("could not listen on {address}: {source}; is another server running on that port?")]
    Tcp {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// The Unix socket could not be made.
    #[error("could not create the Unix socket {}: {source}", path.display())]
    Unix {
        /// The socket's path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// A server that is listening.
pub struct Server {
    shared: Arc<Shared>,
    tcp: TcpListener,
    unix: Option<(UnixListener, SocketFile)>,
}

/// Stops a server from anywhere.
#[derive(Clone)]
pub struct StopHandle(Arc<Shared>);

impl StopHandle {
    /// Changes how long a client may take to say who it is.
    pub fn set_authentication_timeout(&self, time: Duration) {
        self.0.set_authentication_timeout(time);
    }

    /// Ends every session (running statements are cancelled and rolled back) and lets
    /// `Server::run` return.
    pub fn stop(&self) {
        self.0.stopping.send_replace(true);
        self.0.instances.shut_down_all();
    }
}

/// Removes the socket's file in the end.
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Server {
    /// Listens on loopback: authentication is `trust`, so nobody from outside may come in
    /// (SRV-1).
    pub async fn bind(
        engine: Arc<SqlEngine>,
        config: &ServerConfig,
    ) -> Result<Server, ServerError> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, config.port));
        let tcp_error = |source| ServerError::Tcp { address, source };
        let tcp = TcpListener::bind(address).await.map_err(tcp_error)?;
        let port = tcp.local_addr().map_err(tcp_error)?.port();
        let unix = match &config.socket_directory {
            Some(directory) => Some(unix_listener(directory, port).await?),
            None => None,
        };
        let shared = Shared::new(engine, config);
        Ok(Server {
            shared: Arc::new(shared),
            tcp,
            unix,
        })
    }

    /// The address it listens on.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// The directory of the Unix socket, if there is one.
    pub fn socket_directory(&self) -> Option<&Path> {
        self.unix.as_ref().and_then(|(_, file)| file.0.parent())
    }

    /// A handle that stops it.
    pub fn stop_handle(&self) -> StopHandle {
        StopHandle(Arc::clone(&self.shared))
    }

    /// Accepts and serves connections until it is stopped and the last one has ended. When the
    /// database fails its sessions end, and it is opened anew with `reopen` (SRV-8).
    /// Answers the database that was open last.
    ///
    /// # Errors
    /// When the database could not be opened again.
    pub async fn run(self, reopen: Reopen) -> Result<Arc<SqlEngine>, RunError> {
        let mut connections = JoinSet::new();
        let mut stopping = self.shared.stopping.subscribe();
        let mut recovery = pin!(self.shared.instances.keep_open(&reopen));
        let outcome = loop {
            let shared = Arc::clone(&self.shared);
            tokio::select! {
                accepted = self.tcp.accept() => match accepted {
                    Ok((stream, peer)) => {
                        let _ = stream.set_nodelay(true);
                        if let Some(place) = shared.admit(&stream) {
                            let client = Client::Tcp(peer);
                            connections.spawn(session::serve(stream, client, shared, place));
                        }
                    }
                    Err(e) => accept_failed(&e).await,
                },
                accepted = accept_unix(self.unix.as_ref()) => match accepted {
                    Ok(stream) => {
                        if let Some(place) = shared.admit(&stream) {
                            let client = Client::Local;
                            connections.spawn(session::serve(stream, client, shared, place));
                        }
                    }
                    Err(e) => accept_failed(&e).await,
                },
                Some(ended) = connections.join_next() => report(ended),
                // It only ends when the database cannot be opened.
                error = &mut recovery => break Err(error),
                () = stopped(&mut stopping) => break Ok(()),
            }
        };
        self.shared.stopping.send_replace(true);
        drop(self.tcp);
        drop(self.unix);
        let remind = || self.shared.instances.shut_down_all();
        let left = end_all(connections, remind, GRACE, STUCK).await;
        outcome?;
        if left > 0 {
            return Err(RunError::Stuck { sessions: left });
        }
        // Stopped while it was recovering: that is finished first.
        let instance = loop {
            if let Some(instance) = self.shared.instances.current() {
                break instance;
            }
            tokio::select! {
                error = &mut recovery => return Err(error),
                () = tokio::time::sleep(Duration::from_millis(20)) => {}
            }
        };
        Ok(instance.engine)
    }
}

/// Waits until every connection has ended. Those that do not within `grace` are dropped where they
/// wait, which rolls their transactions back. Answers how many go on even so after `stuck`: they
/// compute without a wait, and nothing can end them but the process.
async fn end_all(
    mut connections: JoinSet<()>,
    remind: impl Fn(),
    grace: Duration,
    stuck: Duration,
) -> usize {
    let begun = Instant::now();
    let mut dropped: Option<Instant> = None;
    while !connections.is_empty() && dropped.is_none_or(|at| at.elapsed() < stuck) {
        if begun.elapsed() > grace && dropped.is_none() {
            tracing::warn!(
                "{} connections do not end: dropping them",
                connections.len()
            );
            connections.abort_all();
            dropped = Some(Instant::now());
        }
        // A statement that began just as the others were cancelled is cancelled here.
        remind();
        let ended = tokio::time::timeout(REMIND, connections.join_next()).await;
        if let Ok(Some(ended)) = ended {
            report(ended);
        }
    }
    let left = connections.len();
    // Dropping the set would not wait either, but says nothing.
    connections.detach_all();
    left
}

/// A connection's panic ends that connection only; the session's drop has rolled it back.
fn report(ended: Result<(), tokio::task::JoinError>) {
    if let Err(e) = ended
        && e.is_panic()
    {
        tracing::error!("a connection ended by a panic: {e}");
    }
}

/// Too many open files, most likely: waiting lets some connection end first.
async fn accept_failed(error: &io::Error) {
    tracing::warn!("could not accept a connection: {error}");
    tokio::time::sleep(Duration::from_millis(50)).await;
}

async fn accept_unix(unix: Option<&(UnixListener, SocketFile)>) -> io::Result<UnixStream> {
    match unix {
        Some((listener, _)) => listener.accept().await.map(|(stream, _)| stream),
        None => std::future::pending().await,
    }
}

async fn unix_listener(
    directory: &Path,
    port: u16,
) -> Result<(UnixListener, SocketFile), ServerError> {
    let path = directory.join(format!(".s.PGSQL.{port}"));
    // A server that answers there is alive, though it does not have this TCP port; a file without
    // one is left over from a dead server.
    let answer = UnixStream::connect(&path).await;
    // So does one that has too many callers waiting.
    if answer.map_or_else(|e| e.kind() == io::ErrorKind::WouldBlock, |_| true) {
        let why = "address already in use: another server answers there";
        let source = io::Error::new(io::ErrorKind::AddrInUse, why);
        return Err(ServerError::Unix { path, source });
    }
    let _ = std::fs::remove_file(&path);
    match UnixListener::bind(&path) {
        Ok(listener) => Ok((listener, SocketFile(path))),
        Err(source) => Err(ServerError::Unix { path, source }),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::sync::watch;

    use super::*;

    #[tokio::test]
    async fn a_connection_that_does_not_end_is_dropped_after_a_while() {
        struct Session(watch::Sender<bool>);
        impl Drop for Session {
            fn drop(&mut self) {
                self.0.send_replace(true);
            }
        }
        let (rolled_back, seen) = watch::channel(false);
        let mut connections = JoinSet::new();
        connections.spawn(async move {
            let _session = Session(rolled_back);
            std::future::pending::<()>().await;
        });
        let (grace, stuck) = (Duration::from_millis(1), Duration::from_secs(60));
        assert_eq!(end_all(connections, || {}, grace, stuck).await, 0);
        assert!(*seen.borrow());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_connection_that_computes_without_a_wait_holds_no_end_up() {
        let ended = Arc::new(AtomicBool::new(false));
        let computing = Arc::clone(&ended);
        let mut connections = JoinSet::new();
        connections.spawn(async move {
            while !computing.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let (grace, stuck) = (Duration::from_millis(1), Duration::from_millis(20));
        assert_eq!(end_all(connections, || {}, grace, stuck).await, 1);
        ended.store(true, Ordering::Relaxed);
    }
}
