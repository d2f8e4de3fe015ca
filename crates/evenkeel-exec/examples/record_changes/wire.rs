//! As much of PostgreSQL's protocol as running statements needs.

use std::io::{self, Read, Write};
use std::net::TcpStream;

/// A connection without encryption or password.
pub struct Connection {
    stream: TcpStream,
}

fn text(bytes: &[u8], at: &mut usize) -> String {
    let rest = &bytes[*at..];
    let end = rest.iter().position(|b| *b == 0).unwrap_or(rest.len());
    *at += end + 1;
    String::from_utf8_lossy(&rest[..end]).into_owned()
}

/// A DataRow as a line.
fn row(body: &[u8]) -> String {
    let mut line = String::from("|");
    let mut at = 2;
    while let Some(length) = body.get(at..at + 4) {
        at += 4;
        let length = i32::from_be_bytes([length[0], length[1], length[2], length[3]]);
        match usize::try_from(length) {
            Ok(length) => {
                let value = String::from_utf8_lossy(&body[at..at + length]);
                line.push_str(&format!(" {value} |"));
                at += length;
            }
            Err(_) => line.push_str(" NULL |"),
        }
    }
    line
}

/// An ErrorResponse as lines.
fn error(body: &[u8]) -> Vec<String> {
    let mut at = 0;
    let mut fields = Vec::new();
    while body.get(at).is_some_and(|code| *code != 0) {
        let code = char::from(body[at]);
        at += 1;
        fields.push((code, text(body, &mut at)));
    }
    let of = |wanted: char| {
        let field = fields.iter().find(|(code, _)| *code == wanted);
        field.map(|(_, text)| text.replace('\n', "\\n"))
    };
    let mut lines = vec![format!(
        "! {} {}",
        of('C').unwrap_or_default(),
        of('M').unwrap_or_default()
    )];
    lines.extend(of('D').map(|text| format!("D {text}")));
    lines.extend(of('H').map(|text| format!("H {text}")));
    lines.extend(of('P').map(|text| format!("@ {text}")));
    lines
}

impl Connection {
    /// Connects to `127.0.0.1:port` as `postgres`.
    pub fn open(port: u16) -> io::Result<Connection> {
        let mut connection = Connection {
            stream: TcpStream::connect(("127.0.0.1", port))?,
        };
        connection.stream.set_nodelay(true)?;
        let body = b"\0\x03\0\0user\0postgres\0database\0postgres\0\0";
        connection.write(body)?;
        let _ = connection.until_ready()?;
        Ok(connection)
    }

    fn write(&mut self, body: &[u8]) -> io::Result<()> {
        let length = u32::try_from(body.len() + 4).unwrap_or(0);
        self.stream.write_all(&length.to_be_bytes())?;
        self.stream.write_all(body)
    }

    /// Runs a statement: its rows and tag, or its error.
    pub fn run(&mut self, sql: &str) -> io::Result<Vec<String>> {
        self.stream.write_all(b"Q")?;
        self.write(format!("{sql}\0").as_bytes())?;
        self.until_ready()
    }

    fn until_ready(&mut self) -> io::Result<Vec<String>> {
        let mut lines = Vec::new();
        loop {
            let mut head = [0; 5];
            self.stream.read_exact(&mut head)?;
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
            let mut body = vec![0; length - 4];
            self.stream.read_exact(&mut body)?;
            match head[0] {
                b'Z' => return Ok(lines),
                b'D' => lines.push(row(&body)),
                b'C' => lines.push(format!("= {}", text(&body, &mut 0))),
                b'E' => lines.extend(error(&body)),
                _ => {}
            }
        }
    }
}
