//! From records to tables: medians over rounds, ratios against the reference, holes.

use std::collections::BTreeMap;

use crate::experiments::ALL;
use crate::plan::{Better, Experiment, Figure};
use crate::record::{Extent, Record, Row, median};

const REFERENCE: &str = "PostgreSQL 18";
/// The subject that the glance is about.
pub const OURS: &str = "evenkeel";
/// Below this ratio a measurement counts as behind.
const LEVEL: f64 = 0.95;
/// What is said where no cause was found.
pub const UNEXPLAINED: &str = "the cause is not known yet";

/// What there is of one experiment.
pub struct Section<'a> {
    /// The experiment.
    pub experiment: &'static Experiment,
    /// Full results where there are any, else quick ones.
    pub extent: Extent,
    /// The subjects, in the order in which they are shown and coloured.
    pub subjects: Vec<&'a str>,
    /// The subject that ratios refer to.
    pub reference: Option<&'a str>,
    /// The measurements, in the order of the experiment.
    pub lines: Vec<Line<'a>>,
    /// Why something is missing.
    pub holes: Vec<Hole<'a>>,
    /// The records.
    pub records: Vec<&'a Record>,
}

/// A missing result.
#[derive(PartialEq, Eq)]
pub struct Hole<'a> {
    /// Whose.
    pub subject: &'a str,
    /// Of what.
    pub what: String,
    /// Why.
    pub reason: &'a str,
}

/// One measurement of one subject, over all rounds.
pub struct Line<'a> {
    /// The case.
    pub case: &'a str,
    /// The row of the case.
    pub label: &'a str,
    /// The subject.
    pub subject: &'a str,
    /// The rounds' rows.
    pub rows: Vec<&'a Row>,
}

impl Line<'_> {
    /// A figure's values, by round.
    pub fn values(&self, key: &str) -> Vec<f64> {
        self.rows
            .iter()
            .filter_map(|row| row.figures.get(key).copied())
            .collect()
    }

    /// A figure's median.
    pub fn median(&self, key: &str) -> Option<f64> {
        median(self.values(key))
    }

    /// The row whose figure is nearest to the median: the one that is drawn.
    pub fn typical(&self, key: &str) -> Option<&Row> {
        let middle = self.median(key).unwrap_or(0.0);
        let distance = |row: &&&Row| row.figures.get(key).map_or(0.0, |v| (v - middle).abs());
        let nearest = |a: &&&Row, b: &&&Row| distance(a).total_cmp(&distance(b));
        self.rows.iter().min_by(nearest).copied()
    }
}

impl<'a> Section<'a> {
    /// The figures that at least one line has.
    pub fn figures(&self) -> Vec<&'static Figure> {
        let figures = self.experiment.figures.iter();
        let present = |f: &&Figure| self.lines.iter().any(|line| !line.values(f.key).is_empty());
        figures.filter(present).collect()
    }

    /// The figure a line is judged by: the first that it has and that is better one way.
    pub fn judged_by(&self, line: &Line<'_>) -> Option<&'static Figure> {
        self.experiment
            .figures
            .iter()
            .find(|f| f.better != Better::Neither && line.median(f.key).is_some())
    }

    /// The line of another subject for the same measurement.
    pub fn counterpart(&self, line: &Line<'_>, subject: &str) -> Option<&Line<'a>> {
        let same = |other: &&Line<'_>| {
            other.subject == subject && other.case == line.case && other.label == line.label
        };
        self.lines.iter().find(same)
    }

    /// How many times better than the reference a line is, by the figure it is judged by.
    pub fn ratio(&self, line: &Line<'_>) -> Option<f64> {
        let figure = self.judged_by(line)?;
        let reference = self.counterpart(line, self.reference?)?;
        let (ours, theirs) = (line.median(figure.key)?, reference.median(figure.key)?);
        let (over, under) = match figure.better {
            Better::More => (ours, theirs),
            _ => (theirs, ours),
        };
        if over.abs() < 1e-9 && under.abs() < 1e-9 {
            return Some(1.0);
        }
        (under.abs() > 1e-9).then_some(over / under)
    }

    /// The distinct (case, row) pairs.
    pub fn measurements(&self) -> Vec<(&'a str, &'a str)> {
        let mut pairs = Vec::new();
        for line in &self.lines {
            if !pairs.contains(&(line.case, line.label)) {
                pairs.push((line.case, line.label));
            }
        }
        pairs
    }

    /// Our measurements that are behind, how far, and why if that is known.
    pub fn behind(&self) -> Vec<(&Line<'a>, f64, Option<&'static str>)> {
        if self.reference == Some(OURS) {
            return Vec::new();
        }
        let ours = self.lines.iter().filter(|line| line.subject == OURS);
        ours.filter_map(|line| {
            let ratio = self.ratio(line).filter(|ratio| *ratio < LEVEL)?;
            Some((line, ratio, self.experiment.reason(line.case, line.label)))
        })
        .collect()
    }

    /// How many measurements of ours are ahead, level and behind.
    pub fn standing(&self) -> Option<(usize, usize, usize)> {
        if self.reference == Some(OURS) {
            return None;
        }
        let ours = self.lines.iter().filter(|line| line.subject == OURS);
        let ratios: Vec<f64> = ours.filter_map(|line| self.ratio(line)).collect();
        let ahead = ratios.iter().filter(|r| **r > 1.05).count();
        let behind = ratios.iter().filter(|r| **r < LEVEL).count();
        (!ratios.is_empty()).then(|| (ahead, ratios.len() - ahead - behind, behind))
    }
}

/// A section for each experiment that has records.
pub fn sections(records: &[Record]) -> Vec<Section<'_>> {
    let sections = ALL
        .into_iter()
        .map(|experiment| section(experiment, records));
    sections
        .filter(|section| !section.records.is_empty())
        .collect()
}

fn section<'a>(experiment: &'static Experiment, records: &'a [Record]) -> Section<'a> {
    let of_it = || {
        records
            .iter()
            .filter(|record| record.experiment == experiment.name)
    };
    let full = of_it().any(|r| r.extent == Extent::Full && r.hole.is_none());
    let extent = if full { Extent::Full } else { Extent::Quick };
    let mut records: Vec<&Record> = of_it().filter(|record| record.extent == extent).collect();
    let order = case_order(experiment, extent);
    let place = |record: &Record| {
        order
            .iter()
            .position(|name| *name == record.case)
            .unwrap_or(order.len())
    };
    records.sort_by_key(|record| (place(record), subject_rank(&record.subject), record.round));
    let mut section = Section {
        experiment,
        extent,
        subjects: Vec::new(),
        reference: None,
        lines: Vec::new(),
        holes: Vec::new(),
        records: Vec::new(),
    };
    for record in records {
        if !section.subjects.contains(&record.subject.as_str()) {
            section.subjects.push(&record.subject);
        }
        section.records.push(record);
        gather(&mut section, record);
    }
    section
        .subjects
        .sort_by_key(|subject| subject_rank(subject));
    order_lines(&mut section);
    let measured = |name: &str| section.lines.iter().any(|line| line.subject == name);
    let candidates = [REFERENCE, OURS]
        .into_iter()
        .chain(section.subjects.iter().copied());
    let reference = candidates.into_iter().find(|name| measured(name));
    section.reference = reference.and_then(|r| section.subjects.iter().find(|s| **s == r).copied());
    section
}

fn case_order(experiment: &Experiment, extent: Extent) -> Vec<String> {
    match experiment.work {
        crate::plan::Work::Servers { cases, .. } => {
            cases(extent).into_iter().map(|case| case.name).collect()
        }
        crate::plan::Work::Embedded => Vec::new(),
    }
}

fn subject_rank(subject: &str) -> (usize, String) {
    let rank = [REFERENCE, "PostgreSQL 15", OURS]
        .iter()
        .position(|known| *known == subject);
    (rank.unwrap_or(3), subject.to_owned())
}

fn gather<'a>(section: &mut Section<'a>, record: &'a Record) {
    let mut hole = |what: String, reason: &'a str| {
        let subject = record.subject.as_str();
        let hole = Hole {
            subject,
            what,
            reason,
        };
        if !section.holes.contains(&hole) {
            section.holes.push(hole);
        }
    };
    if let Some(reason) = &record.hole {
        hole(record.case.clone(), reason);
    }
    for row in &record.rows {
        if let Some(reason) = &row.hole {
            hole(format!("{}: {}", record.case, row.label), reason);
            continue;
        }
        let judged = |f: &Figure| f.better != Better::Neither && row.figures.contains_key(f.key);
        if !section.experiment.figures.iter().any(judged) {
            continue;
        }
        let line = section.lines.iter_mut().find(|line| {
            line.subject == record.subject && line.case == record.case && line.label == row.label
        });
        match line {
            Some(line) => line.rows.push(row),
            None => section.lines.push(Line {
                case: &record.case,
                label: &row.label,
                subject: &record.subject,
                rows: vec![row],
            }),
        }
    }
}

/// Lines of one measurement stand together, in the order in which it was first seen.
fn order_lines(section: &mut Section<'_>) {
    let mut order: BTreeMap<(String, String), usize> = BTreeMap::new();
    for (case, label) in section.measurements() {
        let next = order.len();
        order.insert((case.to_owned(), label.to_owned()), next);
    }
    let place = |line: &Line<'_>| {
        let place = order.get(&(line.case.to_owned(), line.label.to_owned()));
        (place.copied(), subject_rank(line.subject))
    };
    section.lines.sort_by_key(place);
}

#[cfg(test)]
pub mod tests_support {
    use super::*;
    use crate::record::FORMAT;

    /// A run of `flush` with a rate and a share of late transactions.
    pub fn flush_record(subject: &str, round: u32, late: f64) -> Record {
        let mut row = Row::new("-R 100");
        row.figures.insert("late_pct".to_owned(), late);
        row.figures.insert("tps".to_owned(), 100.0 - late);
        row.series
            .insert("tps".to_owned(), vec![(0.5, 90.0), (1.5, 110.0)]);
        Record {
            format: FORMAT,
            experiment: "flush".to_owned(),
            case: "flushing on, -R 100".to_owned(),
            subject: subject.to_owned(),
            version: "1".to_owned(),
            build: String::new(),
            extent: Extent::Quick,
            round,
            started: "2026-01-02 03:04:05 UTC".to_owned(),
            seconds: 1.0,
            hole: None,
            settings: BTreeMap::from([("shared_buffers".to_owned(), "1GB".to_owned())]),
            missing: vec!["autovacuum".to_owned()],
            environment: vec!["slow disk".to_owned()],
            commands: vec!["pgbench -N < 'x'".to_owned()],
            rows: vec![row],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::tests_support::flush_record;
    use super::*;

    #[test]
    fn ratios_are_of_medians_and_above_one_when_better() {
        let mut records = Vec::new();
        for (round, pg, ours) in [(1, 4.0, 1.0), (2, 6.0, 2.0), (3, 90.0, 3.0)] {
            records.push(flush_record(OURS, round, ours));
            records.push(flush_record(REFERENCE, round, pg));
        }
        let sections = sections(&records);
        let section = &sections[0];
        assert_eq!(section.subjects, [REFERENCE, OURS]);
        assert_eq!(section.reference, Some(REFERENCE));
        let ours = &section.lines[1];
        assert_eq!(ours.subject, OURS);
        // Less is better: 6 against 2.
        assert!((section.ratio(ours).unwrap() - 3.0).abs() < 1e-9);
        assert_eq!(section.standing(), Some((1, 0, 0)));
    }

    #[test]
    fn what_is_behind_is_listed_with_its_reason() {
        let records = [flush_record(REFERENCE, 1, 1.0), flush_record(OURS, 1, 4.0)];
        let sections = sections(&records);
        let behind = sections[0].behind();
        let [(line, ratio, why)] = behind.as_slice() else {
            panic!("{} lines are behind", behind.len());
        };
        assert_eq!((line.subject, *why), (OURS, None));
        assert!((ratio - 0.25).abs() < 1e-9);
        let hints = ALL.into_iter().find(|e| e.name == "hints").unwrap();
        assert!(hints.reason("buffered", "second scan").is_some());
    }

    #[test]
    fn a_hole_is_said_once_and_full_results_come_before_quick_ones() {
        let mut records = vec![flush_record(REFERENCE, 1, 1.0)];
        for round in 1..3 {
            let mut record = flush_record(OURS, round, 1.0);
            record.hole = Some("no root".to_owned());
            record.rows.clear();
            records.push(record);
        }
        let found = sections(&records);
        assert_eq!(found[0].holes.len(), 1);
        assert_eq!(found[0].extent, Extent::Quick);
        let full = Record {
            extent: Extent::Full,
            ..flush_record(OURS, 1, 5.0)
        };
        records.push(full);
        let found = sections(&records);
        assert_eq!(found[0].extent, Extent::Full);
        assert_eq!(found[0].lines.len(), 1);
    }
}
