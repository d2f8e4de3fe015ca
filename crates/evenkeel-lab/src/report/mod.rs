//! `lab report`: one HTML file, a Markdown summary, and the README's comparison.

mod html;
mod markdown;
mod plot;
mod selection;
mod summary;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::error::LabError;
use crate::record::{Extent, Record};
use summary::{Section, sections};

const BEGIN: &str = "<!-- lab:begin";
const END: &str = "<!-- lab:end -->";

/// Facts about the machine, by extent.
type Machines = BTreeMap<Extent, BTreeMap<String, String>>;

/// Renders whatever is in `out` into `report.html` and `report.md` there; gives the former's path.
///
/// # Errors
/// When the files cannot be written.
pub fn write(out: &Path) -> Result<PathBuf, LabError> {
    let records = Record::load_all(out);
    let sections = sections(&records);
    let machines = machines(out);
    let page = out.join("report.html");
    std::fs::create_dir_all(out).map_err(LabError::file("creating", out))?;
    let text = html::page(&sections, &machines);
    std::fs::write(&page, text).map_err(LabError::file("writing", &page))?;
    let summary = out.join("report.md");
    let text = markdown::document(&sections, &machines);
    std::fs::write(&summary, text).map_err(LabError::file("writing", &summary))?;
    Ok(page)
}

fn machines(out: &Path) -> Machines {
    let read = |extent: Extent| {
        let text = std::fs::read(out.join(extent.name()).join("machine.json")).ok()?;
        Some((extent, serde_json::from_slice(&text).ok()?))
    };
    [Extent::Quick, Extent::Full]
        .into_iter()
        .filter_map(read)
        .collect()
}

/// Rewrites what stands between the marks of `readme` with the comparison in `out`.
///
/// # Errors
/// When the file has no marks, there is nothing to compare, or it cannot be read or written.
pub fn rewrite_readme(out: &Path, readme: &Path) -> Result<(), LabError> {
    let records = Record::load_all(out);
    let sections = sections(&records);
    let text = std::fs::read_to_string(readme).map_err(LabError::file("reading", readme))?;
    let table = markdown::comparison(&sections, &machines(out)).ok_or_else(|| {
        let why = "no experiment there has a result of PostgreSQL and of evenkeel";
        LabError::unavailable(format!("a comparison in {}", out.display()), why)
    })?;
    let replaced = between_marks(&text, &table).ok_or_else(|| {
        let why = format!("has no line `{BEGIN} -->` followed by a line `{END}`");
        LabError::unavailable(readme.display().to_string(), why)
    })?;
    std::fs::write(readme, replaced).map_err(LabError::file("writing", readme))
}

fn between_marks(text: &str, table: &str) -> Option<String> {
    let begin = text.find(BEGIN)?;
    let head_end = begin + text.get(begin..)?.find('\n')? + 1;
    let end = head_end + text.get(head_end..)?.find(END)?;
    Some(format!(
        "{}{table}{}",
        text.get(..head_end)?,
        text.get(end..)?
    ))
}

/// A figure as people read it: three significant digits, thousands apart.
#[must_use]
pub fn number(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return "–".to_owned();
    }
    if size < 1e-9 {
        return "0".to_owned();
    }
    if size >= 99.95 {
        return grouped(value);
    }
    let decimals = match size {
        s if s >= 9.995 => 1,
        s if s >= 0.0995 => 2,
        s if s >= 0.00995 => 3,
        _ => 4,
    };
    format!("{value:.decimals$}")
}

fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 {
        text.insert(0, '-');
    }
    text
}

/// The date, the command that makes such a report, and how much of it was run.
fn origin(section: &Section<'_>) -> String {
    let date = section.records.iter().map(|r| r.started.as_str()).max();
    let date: String = date.unwrap_or_default().chars().take(10).collect();
    let mut text = format!(
        "{date}, `evenkeel lab run {} --{}`",
        section.experiment.name,
        section.extent.name()
    );
    match section.rounds() {
        Some((1, 1)) => text.push_str(", 1 round"),
        Some((least, most)) if least == most => text.push_str(&format!(", {most} rounds")),
        Some((least, most)) => text.push_str(&format!(", {least} to {most} rounds")),
        None => {}
    }
    let (run, all) = section.cases();
    if run < all {
        text.push_str(&format!(", {run} of its {all} cases"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        let texts = [0.0, 0.0123, 0.5, 1.0, 12.345, 123.4, 44_577.3, -1_234_567.0].map(number);
        let expected = [
            "0",
            "0.012",
            "0.50",
            "1.00",
            "12.3",
            "123",
            "44,577",
            "-1,234,567",
        ];
        assert_eq!(texts, expected);
    }

    #[test]
    fn only_what_stands_between_the_marks_is_replaced() {
        let text = "a\n<!-- lab:begin (generated) -->\nold\n<!-- lab:end -->\nb\n";
        let new = between_marks(text, "new\n").unwrap();
        assert_eq!(
            new,
            "a\n<!-- lab:begin (generated) -->\nnew\n<!-- lab:end -->\nb\n"
        );
        assert!(between_marks("a\n<!-- lab:end -->", "x").is_none());
    }

    #[test]
    fn an_empty_directory_gives_a_report_that_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let page = write(dir.path()).unwrap();
        let text = std::fs::read_to_string(page).unwrap();
        assert!(text.contains("not run yet"), "{text}");
        let readme = dir.path().join("README.md");
        std::fs::write(&readme, "x").unwrap();
        let reason = rewrite_readme(dir.path(), &readme).unwrap_err().reason();
        assert!(
            reason.contains("no experiment there has a result"),
            "{reason}"
        );
    }
}
