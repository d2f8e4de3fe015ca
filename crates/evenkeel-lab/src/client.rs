//! A minimal client of PostgreSQL's simple query protocol, for what the lab asks beside the
//! measured load: readiness, statistics views, checkpoints. Measured statements go through the
//! stock `psql` and `pgbench`.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use crate::error::{LabError, one_line};

/// A message longer than this is not one that the lab's questions have for an answer.
const MESSAGE_MAX: usize = 1 << 24;
/// A server that is silent for longer hangs.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);
const PROTOCOL_3_0: u32 = 196_608;

/// One session.
pub struct Client {
    stream: TcpStream,
}

/// A result: the columns' names, and text values row by row.
#[derive(Debug, Default)]
pub struct Answer {
    /// The columns' names.
    pub columns: Vec<String>,
    /// The rows; `None` is NULL.
    pub rows: Vec<Vec<Option<String>>>,
}

impl Client {
    /// Connects as `postgres` to the database `postgres` on the loopback interface.
    ///
    /// # Errors
    /// A message when there is no server, or it refuses.
    pub fn connect(port: u16, timeout: Duration) -> Result<Client, String> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let stream = TcpStream::connect_timeout(&address, timeout).map_err(|e| e.to_string())?;
        let _ = stream.set_nodelay(true);
        let _ = stream.set_read_timeout(Some(ANSWER_TIMEOUT));
        let mut client = Client { stream };
        let mut body = PROTOCOL_3_0.to_be_bytes().to_vec();
        body.extend_from_slice(b"user\0postgres\0database\0postgres\0\0");
        client.send(None, &body)?;
        client.until_ready()?;
        Ok(client)
    }

    /// Runs `sql` and returns its last result.
    ///
    /// # Errors
    /// The server's message, or that the connection is lost.
    pub fn ask(&mut self, sql: &str) -> Result<Answer, LabError> {
        let mut body = sql.as_bytes().to_vec();
        body.push(0);
        self.send(Some(b'Q'), &body)
            .and_then(|()| self.until_ready())
            .map_err(|message| LabError::Sql {
                statement: one_line(sql, 60),
                message,
            })
    }

    /// The first value of the first row, when there is one and it is a number.
    pub fn number(&mut self, sql: &str) -> Option<f64> {
        let answer = self.ask(sql).ok()?;
        answer.rows.first()?.first()?.as_ref()?.parse().ok()
    }

    /// Sends one message.
    ///
    /// # Errors
    /// That the connection is lost.
    pub(crate) fn send(&mut self, kind: Option<u8>, body: &[u8]) -> Result<(), String> {
        let length = u32::try_from(body.len() + 4).map_err(|e| e.to_string())?;
        let mut message: Vec<u8> = kind.into_iter().collect();
        message.extend_from_slice(&length.to_be_bytes());
        message.extend_from_slice(body);
        self.stream.write_all(&message).map_err(|e| e.to_string())
    }

    fn until_ready(&mut self) -> Result<Answer, String> {
        let mut answer = Answer::default();
        let mut error = None;
        loop {
            let (kind, body) = self.message()?;
            match kind {
                b'Z' => return error.map_or(Ok(answer), Err),
                b'E' => {
                    let message = error_text(&body);
                    // A refused start-up ends without a ReadyForQuery.
                    if message.starts_with("FATAL") {
                        return Err(message);
                    }
                    error = Some(message);
                }
                b'R' if body.get(..4) != Some(&[0; 4]) => {
                    return Err("the server wants a password".to_owned());
                }
                b'T' => {
                    answer = Answer {
                        columns: column_names(&body),
                        rows: Vec::new(),
                    }
                }
                b'D' => answer.rows.push(values(&body)),
                _ => {}
            }
        }
    }

    /// The server's next message: its kind and body.
    ///
    /// # Errors
    /// That the connection is lost.
    pub(crate) fn message(&mut self) -> Result<(u8, Vec<u8>), String> {
        let mut head = [0; 5];
        self.stream
            .read_exact(&mut head)
            .map_err(|e| e.to_string())?;
        let [kind, length @ ..] = head;
        let length = u32::from_be_bytes(length) as usize;
        if !(4..=MESSAGE_MAX).contains(&length) {
            return Err(format!("a message of {length} bytes"));
        }
        let mut body = vec![0; length - 4];
        self.stream
            .read_exact(&mut body)
            .map_err(|e| e.to_string())?;
        Ok((kind, body))
    }
}

fn error_text(body: &[u8]) -> String {
    let mut severity = "ERROR".to_owned();
    let mut message = String::new();
    for field in body.split(|&b| b == 0) {
        if let Some((&code, text)) = field.split_first() {
            let text = String::from_utf8_lossy(text).into_owned();
            match code {
                b'V' => severity = text,
                b'M' => message = text,
                _ => {}
            }
        }
    }
    format!("{severity}: {message}")
}

/// The first `count` bytes of `body`, which is left with the rest.
pub(crate) fn take<'a>(body: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (head, rest) = body.split_at_checked(count)?;
    *body = rest;
    Some(head)
}

/// A 16-bit count.
pub(crate) fn count(body: &mut &[u8]) -> usize {
    take(body, 2)
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, |bytes| usize::from(u16::from_be_bytes(bytes)))
}

fn column_names(mut body: &[u8]) -> Vec<String> {
    const AFTER_NAME: usize = 18;
    let mut names = Vec::new();
    for _ in 0..count(&mut body) {
        let Some(end) = body.iter().position(|&b| b == 0) else {
            break;
        };
        let name = take(&mut body, end).unwrap_or_default();
        names.push(String::from_utf8_lossy(name).into_owned());
        if take(&mut body, 1 + AFTER_NAME).is_none() {
            break;
        }
    }
    names
}

/// The text values of a row.
pub(crate) fn values(mut body: &[u8]) -> Vec<Option<String>> {
    let mut values = Vec::new();
    for _ in 0..count(&mut body) {
        let length = take(&mut body, 4).and_then(|bytes| bytes.try_into().ok());
        let length = length.map_or(-1, i32::from_be_bytes);
        let value = usize::try_from(length)
            .ok()
            .and_then(|length| take(&mut body, length))
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        values.push(value);
    }
    values
}

/// A server for one statement after the other.
#[cfg(test)]
pub mod tests_support {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    /// Answers each statement with one value in a column `value`, or an error where `answer`
    /// has none; gives its port.
    pub fn serve(mut answer: impl FnMut(&str) -> Option<String> + Send + 'static) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = session(stream, &mut answer);
            }
        });
        port
    }

    fn session(
        mut stream: TcpStream,
        answer: &mut impl FnMut(&str) -> Option<String>,
    ) -> std::io::Result<()> {
        body(&mut stream)?;
        message(&mut stream, b'R', &[0; 4])?;
        message(&mut stream, b'Z', b"I")?;
        loop {
            stream.read_exact(&mut [0])?;
            let statement = body(&mut stream)?;
            let statement = String::from_utf8_lossy(&statement);
            match answer(statement.trim_end_matches('\0')) {
                Some(value) => {
                    let mut columns = b"\0\x01value\0".to_vec();
                    columns.extend([0; 18]);
                    message(&mut stream, b'T', &columns)?;
                    let mut row = vec![0, 1, 0, 0, 0, value.len() as u8];
                    row.extend(value.as_bytes());
                    message(&mut stream, b'D', &row)?;
                }
                None => message(&mut stream, b'E', b"VERROR\0Mrefused\0\0")?,
            }
            message(&mut stream, b'Z', b"I")?;
        }
    }

    fn body(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
        let mut length = [0; 4];
        stream.read_exact(&mut length)?;
        let mut body = vec![0; u32::from_be_bytes(length) as usize - 4];
        stream.read_exact(&mut body)?;
        Ok(body)
    }

    fn message(stream: &mut TcpStream, kind: u8, body: &[u8]) -> std::io::Result<()> {
        let mut text = vec![kind];
        text.extend((body.len() as u32 + 4).to_be_bytes());
        text.extend(body);
        stream.write_all(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_row_is_no_panic() {
        assert_eq!(
            values(&[0, 2, 0, 0, 0, 1, b'7']),
            vec![Some("7".into()), None]
        );
        assert!(values(&[]).is_empty());
        assert_eq!(values(&[0, 1, 0, 0, 0, 9, b'x']), vec![None]);
        assert_eq!(column_names(&[0, 1, b'a', 0, 1]), vec!["a".to_owned()]);
    }

    #[test]
    fn an_error_names_its_severity() {
        let body = b"SERREUR\0VFATAL\0C53300\0Mtoo many\0\0";
        assert_eq!(error_text(body), "FATAL: too many");
    }
}
