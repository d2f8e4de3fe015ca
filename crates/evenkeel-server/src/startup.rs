//! The first packets of a connection: encryption requests, cancel requests, start-up.

use bytes::{Buf, Bytes, BytesMut};
use evenkeel_sql::databases::Databases;
use evenkeel_sql::{SqlError, SqlState};
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::startup::NegotiateProtocolVersion;

use crate::error::ConnectionError;
use crate::options;
use crate::wire::{Transport, Wire};

const CANCEL_REQUEST: u32 = 80_877_102;
const SSL_REQUEST: u32 = 80_877_103;
const GSS_REQUEST: u32 = 80_877_104;
const MAJOR: u32 = 3;
/// The newest minor version of the protocol that is spoken (3.2 has longer cancel keys).
const MINOR_MAX: u32 = 2;
/// Protocol 3.1 does not exist.
const MINOR_UNUSED: u32 = 1;

/// The database that every server begins with.
const DATABASE: &str = "postgres";

/// Request of a new connection.
pub(crate) enum Request {
    /// To be a session.
    Session(StartupParameters),
    /// To cancel another connection's statement.
    Cancel { pid: i32, secret: Bytes },
    /// Nothing any more.
    Closed,
}

/// The start-up packet.
pub(crate) struct StartupParameters {
    pub user: String,
    pub database: String,
    pub settings: Vec<(String, String)>,
    /// Protocol 3.2 or later: the cancel key may be long.
    pub long_cancel_key: bool,
}

impl StartupParameters {
    /// The database that the client asks for. One that names none sends the user's name: it gets
    /// `postgres`, unless there is a database of that name.
    pub fn wanted_database(&self, databases: &Databases) -> String {
        if self.database == self.user && databases.named(&self.database).is_none() {
            return DATABASE.to_owned();
        }
        self.database.clone()
    }
}

/// Reads packets until one says what the connection is for. Encryption is refused: the server
/// listens on loopback only.
pub(crate) async fn negotiate<T: Transport>(
    wire: &mut Wire<T>,
) -> Result<Request, ConnectionError> {
    loop {
        let Some(mut packet) = wire.startup_packet().await? else {
            return Ok(Request::Closed);
        };
        let code = packet.get_u32();
        match code {
            SSL_REQUEST | GSS_REQUEST => {
                wire.put_raw(b'N');
                wire.flush().await?;
            }
            CANCEL_REQUEST if packet.len() >= 8 => {
                let pid = packet.get_i32();
                return Ok(Request::Cancel {
                    pid,
                    secret: packet.freeze(),
                });
            }
            _ => return session_request(wire, code, &packet).map(Request::Session),
        }
    }
}

fn session_request<T: Transport>(
    wire: &mut Wire<T>,
    version: u32,
    packet: &BytesMut,
) -> Result<StartupParameters, ConnectionError> {
    let (major, minor) = (version >> 16, version & 0xffff);
    if major != MAJOR {
        return Err(ConnectionError::Fatal(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!(
                "unsupported frontend protocol {major}.{minor}: server supports \
                 {MAJOR}.0 to {MAJOR}.{MINOR_MAX}"
            ),
        )));
    }
    let mut settings = parameters(packet)?;
    let unknown: Vec<String> = settings
        .iter()
        .filter(|(name, _)| name.starts_with("_pq_."))
        .map(|(name, _)| name.clone())
        .collect();
    settings.retain(|(name, _)| !name.starts_with("_pq_."));
    if minor > MINOR_MAX || minor == MINOR_UNUSED || !unknown.is_empty() {
        let spoken = if minor == MINOR_UNUSED {
            0
        } else {
            minor.min(MINOR_MAX)
        };
        wire.put(&PgWireBackendMessage::NegotiateProtocolVersion(
            NegotiateProtocolVersion::new(spoken as i32, unknown),
        ));
    }
    let mut take = |wanted: &str| {
        let index = settings.iter().position(|(name, _)| name == wanted)?;
        Some(settings.remove(index).1)
    };
    let user = take("user")
        .filter(|user| !user.is_empty())
        .ok_or_else(|| {
            ConnectionError::Fatal(SqlError::new(
                SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
                "no PostgreSQL user name specified in startup packet",
            ))
        })?;
    let database = take("database")
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| user.clone());
    if take("replication").is_some_and(|value| !matches!(&*value, "false" | "off" | "no" | "0")) {
        return Err(ConnectionError::Fatal(SqlError::unsupported(
            "a replication connection",
        )));
    }
    // First, so that a parameter of its own overrides the same setting among the options.
    if let Some(options) = take("options") {
        let mut all = options::settings(&options).map_err(ConnectionError::Fatal)?;
        all.append(&mut settings);
        settings = all;
    }
    Ok(StartupParameters {
        user,
        database,
        settings,
        long_cancel_key: minor >= MINOR_MAX,
    })
}

/// The name and value pairs of a start-up packet, which end with an empty name.
pub(crate) fn parameters(packet: &[u8]) -> Result<Vec<(String, String)>, ConnectionError> {
    let malformed = || {
        ConnectionError::protocol("invalid startup packet layout: expected terminator as last byte")
    };
    let body = packet
        .strip_suffix(&[0, 0])
        .or_else(|| packet.strip_suffix(&[0]));
    let body = body.ok_or_else(malformed)?;
    if body.is_empty() {
        return Ok(Vec::new());
    }
    let text = std::str::from_utf8(body)
        .map_err(|_| ConnectionError::protocol("startup packet is not valid UTF-8"))?;
    let mut fields = text.split('\0');
    let mut pairs = Vec::new();
    while let Some(name) = fields.next() {
        let value = fields.next().ok_or_else(malformed)?;
        pairs.push((name.to_owned(), value.to_owned()));
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn startup_parameters_come_in_pairs_and_end_with_an_empty_name() {
        let pairs = parameters(b"user\0ann\0database\0db\0\0").unwrap();
        assert_eq!(
            pairs,
            [("user", "ann"), ("database", "db")].map(|(n, v)| (n.to_owned(), v.to_owned()))
        );
        assert!(parameters(b"user\0ann").is_err());
        assert!(parameters(b"user\0\xff\0\0").is_err());
        assert!(parameters(b"\0").unwrap().is_empty());
        assert!(parameters(b"").is_err());
    }
}
