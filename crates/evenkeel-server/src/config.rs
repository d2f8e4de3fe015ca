//! Where the server listens, and how many connections it takes.

use std::path::PathBuf;
use std::time::Duration;

/// Where and how the server listens.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// TCP port on 127.0.0.1; 0 lets the system choose.
    pub port: u16,
    /// Directory of the Unix socket `.s.PGSQL.<port>`; `None` for no Unix socket.
    pub socket_directory: Option<PathBuf>,
    /// Sessions at once; one more gets 53300.
    pub max_connections: usize,
    /// Connections at once that are not sessions yet; one more gets 53300.
    pub max_pending: usize,
    /// How long a client may take to say who it is.
    pub authentication_timeout: Duration,
}

impl Default for ServerConfig {
    fn default() -> ServerConfig {
        ServerConfig {
            port: 5432,
            socket_directory: Some(PathBuf::from("/tmp")),
            max_connections: 1000,
            max_pending: 1000,
            authentication_timeout: Duration::from_secs(60),
        }
    }
}
