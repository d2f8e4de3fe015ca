//! Which records of one experiment are compared with each other.

use std::collections::{BTreeMap, BTreeSet};

use crate::record::Record;

/// The subject that evenkeel is compared with first.
pub const REFERENCE: &str = "PostgreSQL 18";
/// The subject that the report is about.
pub const OURS: &str = "evenkeel";

/// Per case: of each subject the records of its newest build, and of the two that are compared
/// first only the rounds that both have, if they share any. Holes are told in any case.
pub fn comparable(mut records: Vec<&Record>) -> Vec<&Record> {
    let mut newest: BTreeMap<(&str, &str), &Record> = BTreeMap::new();
    for &record in records.iter().filter(|record| !is_absence(record)) {
        let known = newest.entry(place(record)).or_insert(record);
        if record.started > known.started {
            *known = record;
        }
    }
    records.retain(|record| {
        let newest = newest.get(&place(record));
        is_absence(record) || newest.is_some_and(|newest| newest.build == record.build)
    });
    let mut rounds: BTreeMap<(&str, &str), BTreeSet<u32>> = BTreeMap::new();
    for &record in records.iter().filter(|record| record.hole.is_none()) {
        rounds
            .entry(place(record))
            .or_default()
            .insert(record.round);
    }
    let none = BTreeSet::new();
    let of = |case, subject| rounds.get(&(case, subject)).unwrap_or(&none);
    records.retain(|record| {
        let case = record.case.as_str();
        let (ours, theirs) = (of(case, OURS), of(case, REFERENCE));
        let is_compared = [OURS, REFERENCE].contains(&record.subject.as_str());
        let is_shared = ours.contains(&record.round) && theirs.contains(&record.round);
        record.hole.is_some() || !is_compared || ours.is_disjoint(theirs) || is_shared
    });
    records
}

fn place(record: &Record) -> (&str, &str) {
    (&record.case, &record.subject)
}

/// Whether a record only says that its subject was not to be had.
fn is_absence(record: &Record) -> bool {
    record.hole.is_some() && record.build.is_empty()
}

#[cfg(test)]
mod tests {
    use super::super::summary::tests_support::flush_record;
    use super::*;

    fn built(subject: &str, round: u32, build: &str, day: u32) -> Record {
        Record {
            build: build.to_owned(),
            started: format!("2026-01-{day:02} 03:04:05 UTC"),
            ..flush_record(subject, round, 1.0)
        }
    }

    fn kept(records: &[Record]) -> Vec<(&str, u32, &str)> {
        let kept = comparable(records.iter().collect()).into_iter();
        kept.map(|r| (r.subject.as_str(), r.round, r.build.as_str()))
            .collect()
    }

    #[test]
    fn only_the_newest_build_of_a_subject_counts() {
        let mut records = vec![
            built("PostgreSQL 15", 1, "a", 1),
            built(OURS, 1, "new", 3),
            built(OURS, 2, "old", 2),
            built(OURS, 3, "old", 2),
        ];
        let expected = [("PostgreSQL 15", 1, "a"), (OURS, 1, "new")];
        assert_eq!(kept(&records), expected);
        // That there is no program now says nothing about what it measured.
        let mut absent = built(OURS, 4, "", 9);
        absent.hole = Some("not installed".to_owned());
        records.push(absent);
        assert_eq!(kept(&records)[1..], [(OURS, 1, "new"), (OURS, 4, "")]);
    }

    #[test]
    fn the_two_that_are_compared_first_have_the_same_rounds() {
        let records = [
            built(REFERENCE, 1, "p", 1),
            built(REFERENCE, 2, "p", 1),
            built("PostgreSQL 15", 1, "a", 1),
            built(OURS, 2, "e", 1),
            built(OURS, 3, "e", 1),
        ];
        let expected = [
            (REFERENCE, 2, "p"),
            ("PostgreSQL 15", 1, "a"),
            (OURS, 2, "e"),
        ];
        assert_eq!(kept(&records), expected);
        let unshared = [built(REFERENCE, 1, "p", 1), built(OURS, 2, "e", 1)];
        assert_eq!(kept(&unshared).len(), 2);
    }
}
