//! The differences by function, each with its smallest case.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::compare::{Accepted, Kind, differs_in_last_digits};
use super::wire::Outcome;

/// One difference.
pub struct Finding {
    /// Its kind.
    pub kind: Kind,
    /// The statement.
    pub statement: String,
    /// PostgreSQL's answer.
    pub wanted: String,
    /// The other.
    pub given: String,
}

/// All that was found.
pub struct Report {
    accepted: Vec<Accepted>,
    used: Vec<usize>,
    asked: usize,
    /// Group and template in the order of the ledger.
    found: Vec<(&'static str, &'static str, Vec<Finding>)>,
}

impl Report {
    /// An empty report.
    pub fn new(accepted: Vec<Accepted>) -> Report {
        Report {
            used: vec![0; accepted.len()],
            accepted,
            asked: 0,
            found: Vec::new(),
        }
    }

    /// Takes note of one statement's answers.
    pub fn note(
        &mut self,
        group: &'static str,
        template: &'static str,
        reference: &Outcome,
        subject: &Outcome,
        statement: String,
        kind: Option<Kind>,
    ) {
        self.asked += 1;
        let Some(kind) = kind else { return };
        let digits = kind == Kind::Rows && differs_in_last_digits(reference, subject);
        let mut list = self.accepted.iter();
        if let Some(at) = list.position(|entry| entry.covers(template, kind, digits)) {
            self.used[at] += 1;
            return;
        }
        let finding = Finding {
            kind,
            statement,
            wanted: shown(reference),
            given: shown(subject),
        };
        match self.found.last_mut() {
            Some((_, last, findings)) if *last == template => findings.push(finding),
            _ => self.found.push((group, template, vec![finding])),
        }
    }

    /// Whether every difference is accepted.
    pub fn is_clean(&self) -> bool {
        self.found.is_empty()
    }

    /// Every template's differences by kind, each with its shortest statement; `whole` when all
    /// groups were run, so that accepted differences that no longer occur can be named.
    pub fn text(&self, whole: bool) -> String {
        let mut out = String::new();
        let mut group = "";
        let mut totals: BTreeMap<Kind, (usize, usize)> = BTreeMap::new();
        for (of, template, findings) in &self.found {
            if *of != group {
                group = of;
                let _ = writeln!(out, "\n== {group}");
            }
            let _ = writeln!(out, "{template}");
            for kind in Kind::ALL {
                let of_kind = || findings.iter().filter(|finding| finding.kind == kind);
                let Some(least) = of_kind().min_by_key(|finding| finding.statement.len()) else {
                    continue;
                };
                let count = of_kind().count();
                let total = totals.entry(kind).or_default();
                *total = (total.0 + count, total.1 + 1);
                let _ = writeln!(out, "  {} {count}: {}", kind.name(), least.statement);
                let _ = writeln!(out, "      PostgreSQL: {}", least.wanted);
                let _ = writeln!(out, "      evenkeel:   {}", least.given);
            }
        }
        let _ = writeln!(out, "\n{} statements", self.asked);
        for (kind, (count, templates)) in &totals {
            let silent = if kind.is_silent() { ", in silence" } else { "" };
            let _ = writeln!(
                out,
                "  {count} {} in {templates} lines{silent}",
                kind.name()
            );
        }
        let accepted: usize = self.used.iter().sum();
        let _ = writeln!(out, "  {accepted} accepted");
        let stale = self.accepted.iter().zip(&self.used);
        for (entry, _) in stale.filter(|(_, used)| whole && **used == 0) {
            let _ = writeln!(
                out,
                "accepted, but does not occur: {} ({})",
                entry.subject, entry.reason
            );
        }
        out
    }

    /// Every difference on a line.
    pub fn all(&self) -> String {
        let mut out = String::new();
        for (group, template, findings) in &self.found {
            for finding in findings {
                let _ = writeln!(
                    out,
                    "{}\t{group}\t{template}\t{}\t{}\t{}",
                    finding.kind.name(),
                    finding.statement,
                    finding.wanted,
                    finding.given
                );
            }
        }
        out
    }
}

/// An answer on one line.
pub fn shown(outcome: &Outcome) -> String {
    const MOST: usize = 300;
    let text = match outcome {
        Outcome::Lost(why) => format!("lost: {why}"),
        Outcome::Error { state, message } => format!("{state} {message}"),
        Outcome::Rows { columns, rows } => {
            let heads: Vec<String> = columns
                .iter()
                .map(|column| format!("{} {}", column.name, column.oid))
                .collect();
            let rows: Vec<String> = rows
                .iter()
                .map(|row| {
                    let values: Vec<&str> = row
                        .iter()
                        .map(|value| value.as_deref().unwrap_or("NULL"))
                        .collect();
                    values.join(" | ")
                })
                .collect();
            format!("[{}] {}", heads.join(", "), rows.join(" ; "))
        }
    };
    crate::error::one_line(&text, MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_statement_stands_for_a_kind() {
        let mut report = Report::new(Vec::new());
        let error = |state: &str| Outcome::Error {
            state: state.to_owned(),
            message: "m".to_owned(),
        };
        for statement in ["SELECT f(100)", "SELECT f(1)", "SELECT f(10)"] {
            let (wanted, given) = (error("22003"), error("22012"));
            let statement = statement.to_owned();
            report.note(
                "g",
                "f({int4})",
                &wanted,
                &given,
                statement,
                Some(Kind::State),
            );
        }
        let text = report.text(true);
        assert!(text.contains("state 3: SELECT f(1)\n"), "{text}");
        assert_eq!(report.all().lines().count(), 3);
        assert!(!report.is_clean());
    }
}
