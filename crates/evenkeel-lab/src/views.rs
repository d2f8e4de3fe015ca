//! The subject's own statistics views: read before and after a measurement, kept as differences.
//! A view that a subject does not have is not recorded.

use std::collections::BTreeMap;

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

/// Whose share of `pg_stat_io` is also kept by itself, as `pg_stat_io.client.object.column`.
const SESSION: &str = "client backend";

const LOG_POSITION: [&str; 2] = [
    "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')",
    "SELECT wal_bytes FROM pg_stat_wal",
];

/// What the views counted, by `view.column` or `view.key.column`.
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

/// What changed from `before` to `after`.
#[must_use]
pub fn difference(before: &Counters, after: &Counters) -> Counters {
    let changed = after.iter().filter_map(|(name, value)| {
        let change = value - before.get(name).unwrap_or(&0.0);
        (change.abs() > f64::EPSILON).then(|| (name.clone(), change))
    });
    changed.collect()
}

/// Bytes of log inserted so far, where the subject tells.
pub fn log_position(client: &mut Client) -> Option<f64> {
    LOG_POSITION.iter().find_map(|sql| client.number(sql))
}

#[cfg(test)]
mod tests {
    use super::*;

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
