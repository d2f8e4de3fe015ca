//! From records to tables: medians over rounds, ratios against the reference, holes.

use super::selection::{OURS, REFERENCE, comparable};
use crate::experiments::ALL;
use crate::plan::{Better, Experiment, Figure, Work};
use crate::record::{Extent, Record, Row, median};

/// Where there is no [`REFERENCE`].
const FORMER_REFERENCE: &str = "PostgreSQL 15";
/// Below this ratio a measurement counts as behind.
const LEVEL: f64 = 0.95;
/// Text shown where no cause was found.
pub const UNEXPLAINED: &str = "the cause is not known yet";

/// The results of one experiment.
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
    /// Measurements with values over time, of a run or of its load phase.
    pub drawn: Vec<Line<'a>>,
    /// Why something is missing.
    pub holes: Vec<Hole<'a>>,
    /// The records.
    pub records: Vec<&'a Record>,
}

/// A missing result.
#[derive(PartialEq, Eq)]
pub struct Hole<'a> {
    /// The subject.
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

/// The distinct (case, row) pairs.
pub fn measurements<'a>(lines: &[Line<'a>]) -> Vec<(&'a str, &'a str)> {
    let mut pairs = Vec::new();
    for line in lines {
        if !pairs.contains(&(line.case, line.label)) {
            pairs.push((line.case, line.label));
        }
    }
    pairs
}

/// A measurement of ours that is behind.
pub struct Behind<'s, 'a> {
    /// Which.
    pub line: &'s Line<'a>,
    /// By which figures, and how far.
    pub by: Vec<(&'static Figure, f64)>,
    /// Why, if that is known.
    pub why: Option<&'static str>,
}

impl Behind<'_, '_> {
    /// The figures as text.
    pub fn figures(&self) -> String {
        let texts = self
            .by
            .iter()
            .map(|(figure, ratio)| format!("{} {ratio:.2}", figure.label));
        texts.collect::<Vec<_>>().join(", ")
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
        self.ratio_by(line, self.judged_by(line)?)
    }

    /// How many times better than the reference a line is by `figure`.
    fn ratio_by(&self, line: &Line<'_>, figure: &Figure) -> Option<f64> {
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

    /// The distinct (case, row) pairs of the table.
    pub fn measurements(&self) -> Vec<(&'a str, &'a str)> {
        measurements(&self.lines)
    }

    /// Our measurements that are behind by any figure that is better one way: those of one
    /// measurement that have the same reason together.
    pub fn behind(&self) -> Vec<Behind<'_, 'a>> {
        let mut all: Vec<Behind<'_, 'a>> = Vec::new();
        let reference_is_ours = self.reference == Some(OURS);
        let ours = self.lines.iter();
        for line in ours.filter(|line| line.subject == OURS && !reference_is_ours) {
            let first = all.len();
            let figures = self.experiment.figures.iter();
            for figure in figures.filter(|figure| figure.better != Better::Neither) {
                let ratio = self.ratio_by(line, figure);
                let Some(ratio) = ratio.filter(|ratio| *ratio < LEVEL) else {
                    continue;
                };
                let why = self.experiment.reason(line.case, line.label, figure.key);
                let mut of_line = all.iter_mut().skip(first);
                match of_line.find(|behind| behind.why == why) {
                    Some(behind) => behind.by.push((figure, ratio)),
                    None => all.push(Behind {
                        line,
                        by: vec![(figure, ratio)],
                        why,
                    }),
                }
            }
        }
        all
    }

    /// The fewest and the most rounds of a measurement that is shown. The embedded stores'
    /// rounds are within their program.
    pub fn rounds(&self) -> Option<(usize, usize)> {
        if matches!(self.experiment.work, Work::Embedded) {
            return None;
        }
        let rounds = || self.lines.iter().map(|line| line.rows.len());
        rounds().min().zip(rounds().max())
    }

    /// How many of the experiment's cases were run, and how many it has.
    pub fn cases(&self) -> (usize, usize) {
        let all = case_order(self.experiment, self.extent);
        let run = |case: &&String| self.records.iter().any(|record| record.case == **case);
        (all.iter().filter(run).count(), all.len())
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
    let records = of_it().filter(|record| record.extent == extent);
    let mut records: Vec<&Record> = comparable(records.collect());
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
        drawn: Vec::new(),
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
    order_lines(&mut section.lines);
    order_lines(&mut section.drawn);
    let measured = |name: &str| section.lines.iter().any(|line| line.subject == name);
    let candidates = [REFERENCE, FORMER_REFERENCE, OURS]
        .into_iter()
        .chain(section.subjects.iter().copied());
    let reference = candidates.into_iter().find(|name| measured(name));
    section.reference = reference.and_then(|r| section.subjects.iter().find(|s| **s == r).copied());
    section
}

fn case_order(experiment: &Experiment, extent: Extent) -> Vec<String> {
    match experiment.work {
        Work::Servers { cases, .. } => cases(extent).into_iter().map(|case| case.name).collect(),
        Work::Embedded => Vec::new(),
    }
}

fn subject_rank(subject: &str) -> (usize, String) {
    let rank = [REFERENCE, FORMER_REFERENCE, OURS]
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
        if section.experiment.figures.iter().any(judged) {
            add(&mut section.lines, record, row);
        }
        if !row.series.is_empty() {
            add(&mut section.drawn, record, row);
        }
    }
}

fn add<'a>(lines: &mut Vec<Line<'a>>, record: &'a Record, row: &'a Row) {
    let line = lines.iter_mut().find(|line| {
        line.subject == record.subject && line.case == record.case && line.label == row.label
    });
    match line {
        Some(line) => line.rows.push(row),
        None => lines.push(Line {
            case: &record.case,
            label: &row.label,
            subject: &record.subject,
            rows: vec![row],
        }),
    }
}

/// Lines of one measurement stand together, in the order in which it was first seen.
fn order_lines(lines: &mut [Line<'_>]) {
    let order = measurements(lines);
    lines.sort_by_key(|line| {
        let place = order
            .iter()
            .position(|place| *place == (line.case, line.label));
        (place, subject_rank(line.subject))
    });
}

#[cfg(test)]
pub mod tests_support {
    use super::*;
    use crate::record::FORMAT;
    use std::collections::BTreeMap;

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
        let [behind] = behind.as_slice() else {
            panic!("{} lines are behind", behind.len());
        };
        assert_eq!((behind.line.subject, behind.why), (OURS, None));
        assert_eq!(behind.figures(), "late or skipped 0.25");
    }

    #[test]
    fn a_measurement_that_is_ahead_may_be_behind_in_another_figure() {
        let records = [(REFERENCE, 3.0, 10.0), (OURS, 1.0, 20.0)];
        let records = records.map(|(subject, late, p99)| {
            let mut record = flush_record(subject, 1, late);
            record.rows[0].figures.insert("p99_ms".to_owned(), p99);
            record
        });
        let sections = sections(&records);
        assert_eq!(sections[0].standing(), Some((1, 0, 0)));
        assert_eq!(sections[0].behind()[0].figures(), "p99 0.50");
    }

    #[test]
    fn ratios_refer_to_the_older_postgresql_where_there_is_no_newer() {
        let records = [
            flush_record(OURS, 1, 4.0),
            flush_record("PostgreSQL 15", 1, 1.0),
        ];
        assert_eq!(sections(&records)[0].reference, Some("PostgreSQL 15"));
    }

    #[test]
    fn a_load_with_series_is_drawn_though_it_is_not_judged() {
        let mut record = flush_record(OURS, 1, 4.0);
        record.experiment = "redo".to_owned();
        let records = [record];
        let section = &sections(&records)[0];
        assert!(section.lines.is_empty());
        assert_eq!(section.drawn.len(), 1);
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
