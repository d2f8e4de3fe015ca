//! Records what PostgreSQL says of the schedules of `tests/changes`, in their files.
//! `record_changes PORT` wants a server without password on 127.0.0.1, in which it drops and makes
//! tables of the schema `public`.

#[path = "../../tests/changes/transcript.rs"]
mod transcript;
mod wire;

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use transcript::{Server, Session, schedules, transcript};

/// A statement that has said nothing for so long waits for another session.
const WAITS: Duration = Duration::from_millis(1500);

struct Remote {
    send: Sender<String>,
    answers: Receiver<Vec<String>>,
}

impl Session for Remote {
    fn send(&mut self, sql: &str) {
        let _ = self.send.send(sql.to_owned());
    }

    fn answer(&mut self) -> Option<Vec<String>> {
        self.answers.recv_timeout(WAITS).ok()
    }
}

struct Postgres {
    port: u16,
}

impl Server for Postgres {
    type Session = Remote;

    fn connect(&mut self, first: bool) -> Remote {
        let made = wire::Connection::open(self.port);
        let mut connection = made.expect("a connection to the server");
        if first {
            let reset = "SET client_min_messages = error; DROP SCHEMA public CASCADE; \
                         CREATE SCHEMA public";
            let _ = connection.run(reset);
        }
        let (send, statements) = channel::<String>();
        let (answer, answers) = channel();
        thread::spawn(move || -> io::Result<()> {
            for sql in statements {
                if answer.send(connection.run(&sql)?).is_err() {
                    break;
                }
            }
            Ok(())
        });
        Remote { send, answers }
    }
}

fn main() -> io::Result<()> {
    let port = std::env::args().nth(1).and_then(|port| port.parse().ok());
    let port = port.ok_or_else(|| io::Error::other("the server's port is wanted"))?;
    let mut server = Postgres { port };
    for name in ["schedules.txt", "locks.txt"] {
        let path = format!("{}/tests/changes/{name}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path)?;
        let said: Vec<String> = schedules(&text)
            .iter()
            .map(|schedule| transcript(schedule, &mut server))
            .collect();
        std::fs::write(&path, said.join("\n"))?;
        println!("{name}: {} schedules", said.len());
    }
    Ok(())
}
