//! The subject's own statistics views: read before and after a measurement, kept as differences.
//! A view that a subject does not have is not recorded.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::client::{Answer, Client};

const VIEWS: [&str; 9] = [
    "pg_stat_checkpointer",
    "pg_stat_bgwriter",
    "evenkeel_buffers",
    "pg_stat_wal",
    "pg_stat_io",
    "pg_stat_slru",
    "pg_stat_recovery_prefetch",
    "pg_stat_doublewrite",
    "pg_stat_recovery",
];

/// Columns whose values tell rows of one view apart.
const KEYS: [&str; 2] = ["object", "name"];

/// Backend type whose share of `pg_stat_io` is also kept by itself, as
/// `pg_stat_io.client.object.column`.
const SESSION: &str = "client backend";

const INSERTED: &str = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')";
const LOG_BYTES: &str = "SELECT wal_bytes FROM pg_stat_wal";

/// A session's counters are complete when it has gone, which may be after its client has.
const OTHERS: &str = "SELECT count(*) FROM pg_stat_activity \
                      WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
/// Longest wait for that.
const SETTLED: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(20);

/// Accesses of sessions to pages, except those through a ring: most accesses of vacuum, bulk writes
/// and large scans.
const SESSIONS_IO: &str = "pg_stat_io WHERE backend_type = 'client backend' \
                           AND object = 'relation' AND context = 'normal'";
/// Pages that sessions found in the pool, those that they read, and where a subject counts them;
/// the first that it has. Where reads have no bytes, each is counted by its pages.
const ACCESSES: [(&str, &str, &str); 3] = [
    ("hits", "read_bytes / 8192", SESSIONS_IO),
    ("hits", "reads", SESSIONS_IO),
    ("blks_hit", "blks_read", "pg_stat_database"),
];

/// Counts of the views, by `view.column` or `view.key.column`.
pub type Counters = BTreeMap<String, f64>;

/// Reads every view there is.
#[must_use]
pub fn read(client: &mut Client) -> Counters {
    let mut counters = Counters::new();
    for view in VIEWS {
        if let Ok(answer) = client.ask(&format!("SELECT * FROM {view}")) {
            add(view, &answer, &mut counters);
        }
    }
    counters
}

/// As [`read`], once the sessions of the measured client have ended; where the subject does not
/// tell, once its counters are the same twice.
#[must_use]
pub fn read_settled(client: &mut Client) -> Counters {
    let begun = Instant::now();
    let mut before = None;
    while begun.elapsed() < SETTLED {
        match client.number(OTHERS) {
            Some(others) if others < 0.5 => break,
            Some(_) => {}
            None => {
                let now = read(client);
                if before.replace(now.clone()) == Some(now.clone()) {
                    return now;
                }
            }
        }
        std::thread::sleep(POLL);
    }
    read(client)
}

fn add(view: &str, answer: &Answer, counters: &mut Counters) {
    for row in &answer.rows {
        let cells = || answer.columns.iter().zip(row);
        let by_session = cells()
            .any(|(column, value)| column == "backend_type" && value.as_deref() == Some(SESSION));
        let key = cells().find_map(|(column, value)| {
            let is_key = KEYS.contains(&column.as_str());
            is_key.then(|| value.clone()).flatten()
        });
        for (column, value) in cells() {
            let Some(value) = value.as_ref().and_then(|v| v.parse::<f64>().ok()) else {
                continue;
            };
            let name = match &key {
                Some(key) => format!("{view}.{key}.{column}"),
                None => format!("{view}.{column}"),
            };
            *counters.entry(name).or_default() += value;
            if let Some(key) = &key
                && by_session
            {
                let name = format!("{view}.client.{key}.{column}");
                *counters.entry(name).or_default() += value;
            }
        }
    }
}

/// Changes of the counts from `before` to `after`.
#[must_use]
pub fn difference(before: &Counters, after: &Counters) -> Counters {
    let changed = after.iter().filter_map(|(name, value)| {
        let change = value - before.get(name).unwrap_or(&0.0);
        (change.abs() > f64::EPSILON).then(|| (name.clone(), change))
    });
    changed.collect()
}

/// How often sessions have used a page so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Accesses {
    hits: f64,
    reads: f64,
}

impl Accesses {
    /// As the subject counts them, where it does.
    pub fn read(client: &mut Client) -> Option<Accesses> {
        ACCESSES.into_iter().find_map(|(hits, reads, from)| {
            let mut sum = |what: &str| client.number(&format!("SELECT sum({what}) FROM {from}"));
            Some(Accesses {
                hits: sum(hits)?,
                reads: sum(reads)?,
            })
        })
    }

    /// The share, in percent, of the accesses since `before` that found their page in the pool.
    #[must_use]
    pub fn hit_share_since(&self, before: &Accesses) -> Option<f64> {
        let (hits, reads) = (self.hits - before.hits, self.reads - before.reads);
        (hits + reads > 0.0).then(|| 100.0 * hits / (hits + reads))
    }
}

/// Bytes of log inserted so far, where the subject tells.
pub fn log_position(client: &mut Client) -> Option<f64> {
    insert_position(client).or_else(|| client.number(LOG_BYTES))
}

/// Where in the log the next record goes, in the positions that the server's own log names.
pub fn insert_position(client: &mut Client) -> Option<f64> {
    client.number(INSERTED)
}

/// The log position that `text` begins with, as servers print one, in bytes.
#[must_use]
pub fn position(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !c.is_ascii_hexdigit() && c != '/');
    let (high, low) = text.get(..end.unwrap_or(text.len()))?.split_once('/')?;
    let part = |digits| u32::from_str_radix(digits, 16).ok().map(f64::from);
    Some(part(high)? * 4_294_967_296.0 + part(low)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::tests_support::serve;

    #[test]
    fn counters_are_read_when_the_measured_sessions_have_gone() {
        let mut others = 3;
        let port = serve(move |sql| match sql {
            OTHERS => {
                others -= 1;
                Some(others.to_string())
            }
            "SELECT * FROM pg_stat_wal" => Some(if others > 0 { "1" } else { "2" }.to_owned()),
            _ => None,
        });
        let mut client = Client::connect(port, SETTLED).unwrap();
        assert!((read_settled(&mut client)["pg_stat_wal.value"] - 2.0).abs() < 1e-9);
    }

    #[test]
    fn counters_without_activity_are_read_until_they_stand_still() {
        let mut asked = 0;
        let port = serve(move |sql| {
            (sql == "SELECT * FROM pg_stat_wal").then(|| {
                asked += 1;
                asked.min(4).to_string()
            })
        });
        let mut client = Client::connect(port, SETTLED).unwrap();
        assert!((read_settled(&mut client)["pg_stat_wal.value"] - 4.0).abs() < 1e-9);
    }

    #[test]
    fn accesses_come_from_the_first_view_that_tells_both() {
        let port = serve(|sql| {
            let values = [("sum(hits)", "1"), ("blks_hit", "30"), ("blks_read", "10")];
            let value = values.iter().find(|(what, _)| sql.contains(what));
            value.map(|(_, value)| (*value).to_owned())
        });
        let mut client = Client::connect(port, SETTLED).unwrap();
        let accesses = Accesses::read(&mut client).unwrap();
        let nothing = Accesses {
            hits: 0.0,
            reads: 0.0,
        };
        assert_eq!(accesses.hit_share_since(&nothing), Some(75.0));
        assert_eq!(accesses.hit_share_since(&accesses), None);
    }

    #[test]
    fn rows_of_one_object_are_summed_and_text_is_passed_over() {
        let answer = Answer {
            columns: ["backend_type", "object", "fsyncs"]
                .map(str::to_owned)
                .to_vec(),
            rows: [("a", "wal", "2"), ("b", "wal", "3"), ("b", "relation", "7")]
                .map(|(b, o, f)| [b, o, f].map(|v| Some(v.to_owned())).to_vec())
                .to_vec(),
        };
        let mut counters = Counters::new();
        add("pg_stat_io", &answer, &mut counters);
        assert_eq!(counters.len(), 2);
        assert!((counters["pg_stat_io.wal.fsyncs"] - 5.0).abs() < 1e-9);
        let before = Counters::from([("pg_stat_io.wal.fsyncs".to_owned(), 5.0)]);
        let changed = difference(&before, &counters);
        assert_eq!(
            changed.keys().collect::<Vec<_>>(),
            ["pg_stat_io.relation.fsyncs"]
        );
    }
}
