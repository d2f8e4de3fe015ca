//! The summary in Markdown, and the README's comparison.

use std::fmt::Write;

use super::selection::OURS;
use super::summary::{Line, Section, UNEXPLAINED};
use super::{Machines, number, origin};
use crate::plan::Figure;

/// The whole summary.
pub fn document(sections: &[Section<'_>], machines: &Machines) -> String {
    let mut text = "# Lab report\n\n".to_owned();
    if sections.is_empty() {
        text.push_str("The experiments are not run yet: `evenkeel lab run`.\n");
    }
    for section in sections {
        part(section, &mut text);
    }
    for (extent, machine) in machines {
        let _ = writeln!(text, "## The machine ({} runs)\n", extent.name());
        for (name, value) in machine {
            let _ = writeln!(text, "- {name}: {value}");
        }
        text.push('\n');
    }
    text
}

fn part(section: &Section<'_>, text: &mut String) {
    let experiment = section.experiment;
    let _ = writeln!(text, "## {}: {}\n", experiment.name, experiment.title);
    let _ = writeln!(text, "{}\n\n{}.\n", experiment.question, origin(section));
    for note in experiment.notes {
        let _ = writeln!(text, "- {note}");
    }
    let figures = section.figures();
    let heads: Vec<String> = figures.iter().map(|figure| heading(figure)).collect();
    let against = section.reference.unwrap_or("–");
    let _ = writeln!(
        text,
        "\n| case | measurement | subject | {} | against {against} |\n| --- | --- | --- |{} --- |",
        heads.join(" | "),
        " ---: |".repeat(heads.len())
    );
    for line in &section.lines {
        let cells: Vec<String> = figures.iter().map(|figure| cell(line, figure)).collect();
        let ratio = section
            .ratio(line)
            .map_or(String::new(), |r| format!("{r:.2}"));
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {ratio} |",
            line.case,
            line.label,
            line.subject,
            cells.join(" | ")
        );
    }
    let behind = section.behind();
    if !behind.is_empty() {
        text.push_str("\nWhere evenkeel is behind:\n\n");
    }
    for behind in behind {
        let why = behind.why.unwrap_or(UNEXPLAINED);
        let (line, figures) = (behind.line, behind.figures());
        let _ = writeln!(text, "- {}, {} ({figures}): {why}", line.case, line.label);
    }
    if let Some(seed) = experiment.seed {
        let _ = writeln!(text, "\nThe discussion's own figures ({}):\n", seed.source);
        let _ = writeln!(text, "| {} |", seed.head.join(" | "));
        let _ = writeln!(text, "|{}", " --- |".repeat(seed.head.len()));
        for row in seed.rows {
            let _ = writeln!(text, "| {} |", row.join(" | "));
        }
    }
    if !section.holes.is_empty() {
        text.push_str("\nWithout a result:\n\n");
        for hole in &section.holes {
            let _ = writeln!(text, "- {}, {}: {}", hole.subject, hole.what, hole.reason);
        }
    }
    text.push('\n');
}

/// A figure's heading with its unit.
pub fn heading(figure: &Figure) -> String {
    if figure.unit.is_empty() {
        figure.label.to_owned()
    } else {
        format!("{} ({})", figure.label, figure.unit)
    }
}

fn cell(line: &Line<'_>, figure: &Figure) -> String {
    line.median(figure.key).map_or(String::new(), number)
}

/// The README's table: each experiment's headlines, PostgreSQL beside evenkeel.
pub fn comparison(sections: &[Section<'_>], machines: &Machines) -> Option<String> {
    let mut rows = String::new();
    let mut origins: Vec<String> = Vec::new();
    let mut reference = None;
    for section in sections {
        let before = rows.len();
        for (case, label) in section.experiment.headlines {
            let line = section
                .lines
                .iter()
                .find(|l| l.subject == OURS && l.case == *case && l.label == *label);
            let Some(line) = line else { continue };
            let Some(against) = section.reference.filter(|name| *name != OURS) else {
                continue;
            };
            reference = Some(against);
            let theirs = section.counterpart(line, against);
            let (Some(figure), Some(theirs)) = (section.judged_by(line), theirs) else {
                continue;
            };
            let value = |line: &Line<'_>| {
                let text = cell(line, figure);
                format!("{text} {}", figure.unit).trim().to_owned()
            };
            let ratio = section
                .ratio(line)
                .map_or("–".to_owned(), |r| format!("{r:.2}"));
            let what = format!("{}: {label}, {}", section.experiment.name, figure.label);
            let _ = writeln!(
                rows,
                "| {what} | {} | {} | {ratio} |",
                value(theirs),
                value(line)
            );
        }
        if rows.len() > before {
            origins.push(origin(section));
        }
    }
    let head = format!(
        "| | {} | evenkeel | times better |\n| --- | ---: | ---: | ---: |\n",
        reference?
    );
    let machine = machines.values().next_back();
    let machine = machine
        .and_then(|m| m.get("processor"))
        .map_or("", String::as_str);
    let tail = format!(
        "\nMeasured on {}; {machine}; medians, the subjects in turn, fsync and checksums on.\n",
        origins.join("; ")
    );
    Some(format!("{head}{rows}{tail}"))
}

#[cfg(test)]
mod tests {
    use super::super::summary::sections;
    use super::super::summary::tests_support::flush_record;
    use super::*;

    #[test]
    fn the_comparison_has_figures_date_and_command() {
        let records = [
            flush_record("PostgreSQL 18", 1, 6.0),
            flush_record(OURS, 1, 2.0),
        ];
        let sections = sections(&records);
        let text = comparison(&sections, &Machines::new()).unwrap();
        assert!(text.contains("| 6.00 % | 2.00 % | 3.00 |"), "{text}");
        assert!(
            text.contains(
                "2026-01-02, `evenkeel lab run flush --quick`, 1 round, 1 of its 2 cases;"
            ),
            "{text}"
        );
        let text = document(&sections, &Machines::new());
        assert!(
            text.contains("| 6.5 % | 0.4 % |"),
            "the seed's own figures: {text}"
        );
    }
}
