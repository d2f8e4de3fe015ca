//! Schedules of several sessions, as text: statements, each after the letter of its session, and
//! what a server says of them, indented. `...` is a statement that waits; what it says in the end
//! comes after its session's letter. Lines that begin with `#` name a schedule.

/// A session of a server.
pub trait Session {
    /// Begins a statement.
    fn send(&mut self, sql: &str);
    /// The server's answer, if it does not wait.
    fn answer(&mut self) -> Option<Vec<String>>;
}

/// A server.
pub trait Server {
    type Session: Session;
    /// A new session; the tables of schedules before are gone when it is the first of its
    /// schedule.
    fn connect(&mut self, first: bool) -> Self::Session;
}

/// The schedules of a text, each with its name first; what servers said of them is left out.
pub fn schedules(text: &str) -> Vec<Vec<String>> {
    let mut all: Vec<Vec<String>> = Vec::new();
    for line in text.lines() {
        if line.starts_with('#') {
            all.push(vec![line.to_owned()]);
        } else if !line.is_empty()
            && !line.starts_with("  ")
            && let Some(last) = all.last_mut()
        {
            last.push(line.to_owned());
        }
    }
    all
}

/// The server's answers to a schedule.
pub fn transcript<S: Server>(schedule: &[String], server: &mut S) -> String {
    let mut sessions: Vec<(String, S::Session, bool)> = Vec::new();
    let mut out = String::new();
    for line in schedule {
        out.push_str(line);
        out.push('\n');
        let Some((name, sql)) = line.split_once(' ') else {
            continue;
        };
        if name == "#" {
            continue;
        }
        let at = match sessions.iter().position(|(known, ..)| known == name) {
            Some(at) => at,
            None => {
                let session = server.connect(sessions.is_empty());
                sessions.push((name.to_owned(), session, false));
                sessions.len() - 1
            }
        };
        let (_, session, waits) = &mut sessions[at];
        session.send(sql);
        match session.answer() {
            Some(lines) => lines.iter().for_each(|line| {
                out.push_str(&format!("  {line}\n"));
            }),
            None => {
                *waits = true;
                out.push_str("  ...\n");
            }
        }
        for (number, (name, session, waits)) in sessions.iter_mut().enumerate() {
            if number != at
                && *waits
                && let Some(lines) = session.answer()
            {
                *waits = false;
                lines.iter().for_each(|line| {
                    out.push_str(&format!("  {name} {line}\n"));
                });
            }
        }
    }
    out
}
