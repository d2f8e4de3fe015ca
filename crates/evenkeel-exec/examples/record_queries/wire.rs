//! As much of PostgreSQL's protocol as running a statement needs.

use std::io::{self, Read, Write};
use std::net::TcpStream;

/// A connection without encryption or password.
pub struct Connection {
    stream: TcpStream,
}

/// The server's answer to a statement.
#[derive(Default)]
pub struct Answer {
    /// Name, type oid and modifier of each column.
    pub columns: Vec<(String, u32, i32)>,
    /// Text forms; `None` is NULL.
    pub rows: Vec<Vec<Option<String>>>,
    /// Fields of an error by their codes.
    pub error: Vec<(char, String)>,
}

fn text(bytes: &[u8], at: &mut usize) -> String {
    let rest = &bytes[*at..];
    let end = rest.iter().position(|b| *b == 0).unwrap_or(rest.len());
    *at += end + 1;
    String::from_utf8_lossy(&rest[..end]).into_owned()
}

fn number<const N: usize>(bytes: &[u8], at: &mut usize) -> [u8; N] {
    let mut value = [0; N];
    value.copy_from_slice(&bytes[*at..*at + N]);
    *at += N;
    value
}

fn columns(body: &[u8]) -> Vec<(String, u32, i32)> {
    let mut at = 0;
    (0..i16::from_be_bytes(number(body, &mut at)))
        .map(|_| {
            let name = text(body, &mut at);
            at += 6;
            let oid = u32::from_be_bytes(number(body, &mut at));
            at += 2;
            let modifier = i32::from_be_bytes(number(body, &mut at));
            at += 2;
            (name, oid, modifier)
        })
        .collect()
}

fn row(body: &[u8]) -> Vec<Option<String>> {
    let mut at = 0;
    (0..i16::from_be_bytes(number(body, &mut at)))
        .map(|_| {
            let length = usize::try_from(i32::from_be_bytes(number(body, &mut at))).ok()?;
            at += length;
            Some(String::from_utf8_lossy(&body[at - length..at]).into_owned())
        })
        .collect()
}

fn put(message: &mut Vec<u8>, kind: u8, body: &[u8]) {
    let length = u32::try_from(body.len() + 4).unwrap_or(0);
    message.push(kind);
    message.extend(length.to_be_bytes());
    message.extend(body);
}

impl Connection {
    /// Connects to `127.0.0.1:port` as `postgres`.
    pub fn open(port: u16) -> io::Result<Connection> {
        let mut connection = Connection {
            stream: TcpStream::connect(("127.0.0.1", port))?,
        };
        connection.stream.set_nodelay(true)?;
        let body = b"\0\x03\0\0user\0postgres\0database\0postgres\0\0";
        let length = u32::try_from(body.len() + 4).unwrap_or(0);
        connection.stream.write_all(&length.to_be_bytes())?;
        connection.stream.write_all(body)?;
        connection.until_ready()?;
        Ok(connection)
    }

    /// Runs a statement; an error is part of the answer.
    pub fn run(&mut self, sql: &str) -> io::Result<Answer> {
        let mut message = Vec::new();
        put(&mut message, b'Q', format!("{sql}\0").as_bytes());
        self.stream.write_all(&message)?;
        self.until_ready()
    }

    /// The columns of a statement that is not run: the modifiers of its types are those that it
    /// has by its text, not by a plan.
    pub fn columns(&mut self, sql: &str) -> io::Result<Vec<(String, u32, i32)>> {
        let mut message = Vec::new();
        put(&mut message, b'P', format!("\0{sql}\0\0\0").as_bytes());
        put(&mut message, b'D', b"S\0");
        put(&mut message, b'S', b"");
        self.stream.write_all(&message)?;
        Ok(self.until_ready()?.columns)
    }

    fn until_ready(&mut self) -> io::Result<Answer> {
        let mut answer = Answer::default();
        loop {
            let mut head = [0; 5];
            self.stream.read_exact(&mut head)?;
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
            let mut body = vec![0; length - 4];
            self.stream.read_exact(&mut body)?;
            let mut at = 0;
            match head[0] {
                b'Z' => return Ok(answer),
                b'T' => answer.columns = columns(&body),
                b'D' => answer.rows.push(row(&body)),
                b'E' if answer.error.is_empty() => {
                    while body.get(at).is_some_and(|code| *code != 0) {
                        let code = char::from(body[at]);
                        at += 1;
                        answer.error.push((code, text(&body, &mut at)));
                    }
                }
                _ => {}
            }
        }
    }
}
