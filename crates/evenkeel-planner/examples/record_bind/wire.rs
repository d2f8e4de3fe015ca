//! As much of PostgreSQL's protocol as describing a statement needs.

use std::io::{self, Read, Write};
use std::net::TcpStream;

/// A connection without encryption or password.
pub struct Connection {
    stream: TcpStream,
}

/// The server's description of a statement.
#[derive(Default)]
pub struct Answer {
    /// Type oids of the parameters.
    pub params: Vec<u32>,
    /// Name, type oid and modifier of each column.
    pub columns: Vec<(String, u32, i32)>,
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

    fn send(&mut self, kind: u8, body: &[u8]) -> io::Result<()> {
        let length = u32::try_from(body.len() + 4).unwrap_or(0);
        self.stream.write_all(&[kind])?;
        self.stream.write_all(&length.to_be_bytes())?;
        self.stream.write_all(body)
    }

    /// Runs commands; an error is the answer's.
    pub fn run(&mut self, sql: &str) -> io::Result<Answer> {
        self.send(b'Q', format!("{sql}\0").as_bytes())?;
        self.until_ready()
    }

    /// Describes a statement.
    pub fn describe(&mut self, sql: &str) -> io::Result<Answer> {
        self.send(b'P', format!("\0{sql}\0\0\0").as_bytes())?;
        self.send(b'D', b"S\0")?;
        self.send(b'S', b"")?;
        self.until_ready()
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
                b't' => {
                    for _ in 0..i16::from_be_bytes(number(&body, &mut at)) {
                        answer
                            .params
                            .push(u32::from_be_bytes(number(&body, &mut at)));
                    }
                }
                b'T' => {
                    for _ in 0..i16::from_be_bytes(number(&body, &mut at)) {
                        let name = text(&body, &mut at);
                        at += 6;
                        let oid = u32::from_be_bytes(number(&body, &mut at));
                        at += 2;
                        let modifier = i32::from_be_bytes(number(&body, &mut at));
                        at += 2;
                        answer.columns.push((name, oid, modifier));
                    }
                }
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
