//! A client of the wire protocol that sends whatever a test wants it to.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// A connection.
pub struct RawClient(TcpStream);

/// A message of the server: its type byte and its body.
#[derive(Debug)]
pub struct Answer {
    /// The type byte.
    pub kind: u8,
    /// The bytes after the length.
    pub body: Vec<u8>,
}

impl Answer {
    /// A field of an error response.
    #[must_use]
    pub fn field(&self, code: u8) -> Option<String> {
        let mut fields = self.body.split(|byte| *byte == 0);
        let field = fields.find(|field| field.first() == Some(&code))?;
        Some(String::from_utf8_lossy(&field[1..]).into_owned())
    }
}

/// The SQLSTATE of the first error among some answers.
#[must_use]
pub fn error_state(answers: &[Answer]) -> Option<String> {
    answers
        .iter()
        .find(|answer| answer.kind == b'E')?
        .field(b'C')
}

/// The body of a Bind without parameters.
#[must_use]
pub fn bind(portal: &str, statement: &str) -> Vec<u8> {
    let mut body = format!("{portal}\0{statement}\0").into_bytes();
    body.extend([0; 6]);
    body
}

/// The body of an Execute.
#[must_use]
pub fn execute(portal: &str, rows: i32) -> Vec<u8> {
    let mut body = format!("{portal}\0").into_bytes();
    body.extend(rows.to_be_bytes());
    body
}

impl RawClient {
    /// Connects and says nothing.
    ///
    /// # Panics
    /// When nobody listens.
    #[must_use]
    pub fn silent(port: u16) -> RawClient {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("connects");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_nodelay(true).expect("no delay");
        RawClient(stream)
    }

    /// Connects and starts a session.
    ///
    /// # Panics
    /// When the server does not let it in.
    #[must_use]
    pub fn session(port: u16) -> RawClient {
        let mut client = RawClient::silent(port);
        let parameters = b"user\0postgres\0database\0postgres\0\0";
        let mut packet = (parameters.len() as u32 + 8).to_be_bytes().to_vec();
        packet.extend(196_608_u32.to_be_bytes());
        packet.extend(parameters);
        client.bytes(&packet).expect("sends");
        let answers = client.ready();
        assert_eq!(error_state(&answers), None, "{answers:?}");
        client
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// When the server does not take them.
    pub fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    /// Sends a message.
    ///
    /// # Panics
    /// When the server does not take it.
    pub fn send(&mut self, kind: u8, body: &[u8]) {
        let mut message = vec![kind];
        message.extend((body.len() as u32 + 4).to_be_bytes());
        message.extend(body);
        self.bytes(&message).expect("sends");
    }

    /// The next message; `None` when the server has closed the connection.
    ///
    /// # Panics
    /// When none comes.
    pub fn answer(&mut self) -> Option<Answer> {
        let mut head = [0; 5];
        if let Err(error) = self.0.read_exact(&mut head) {
            let closed = [io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset];
            assert!(closed.contains(&error.kind()), "{error}");
            return None;
        }
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let mut body = vec![0; length - 4];
        self.0.read_exact(&mut body).expect("a body");
        Some(Answer {
            kind: head[0],
            body,
        })
    }

    /// The messages up to and with ReadyForQuery, or to the end of the connection.
    pub fn ready(&mut self) -> Vec<Answer> {
        let mut answers = Vec::new();
        while let Some(answer) = self.answer() {
            let ready = answer.kind == b'Z';
            answers.push(answer);
            if ready {
                break;
            }
        }
        answers
    }

    /// Runs a simple query: what came back.
    pub fn query(&mut self, sql: &str) -> Vec<Answer> {
        let mut body = sql.as_bytes().to_vec();
        body.push(0);
        self.send(b'Q', &body);
        self.ready()
    }

    /// Runs a simple query that must succeed: its first value.
    ///
    /// # Panics
    /// When it fails.
    pub fn value(&mut self, sql: &str) -> String {
        let answers = self.query(sql);
        assert_eq!(error_state(&answers), None, "{sql}: {answers:?}");
        let row = answers.iter().find(|answer| answer.kind == b'D');
        let row = row.map_or(&[][..], |row| &row.body);
        String::from_utf8_lossy(row.get(6..).unwrap_or_default()).into_owned()
    }

    /// Says that nothing more will be sent.
    pub fn close_sending(&self) {
        let _ = self.0.shutdown(Shutdown::Write);
    }

    /// Reads until the server has closed the connection, whatever it sends.
    pub fn drain(&mut self) {
        let _ = io::copy(&mut self.0, &mut io::sink());
    }

    /// Ends the session.
    pub fn terminate(mut self) {
        self.send(b'X', &[]);
        while self.answer().is_some() {}
    }
}
