//! The report as one HTML file that needs nothing else.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::markdown::heading;
use super::plot::{Curve, Group, bars, curves};
use super::selection::OURS;
use super::summary::{Line, Section, UNEXPLAINED, measurements};
use super::{Machines, number, origin};
use crate::experiments::ALL;
use crate::plan::{Better, Figure, Plot};
use crate::record::Record;

const STYLE: &str = include_str!("style.css");

/// The page.
pub fn page(sections: &[Section<'_>], machines: &Machines) -> String {
    let mut body = String::new();
    glance(sections, &mut body);
    for section in sections {
        part(section, &mut body);
    }
    machine(machines, &mut body);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>evenkeel: lab report</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <main>\n<h1>Lab report</h1>\n{body}</main>\n</body>\n</html>\n"
    )
}

/// Text made safe for HTML.
fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            c => safe.push(c),
        }
    }
    safe
}

/// Text with `code` in back quotes.
fn prose(text: &str) -> String {
    let parts = escape(text);
    let parts = parts.split('`').enumerate().map(|(index, part)| {
        if index % 2 == 1 {
            format!("<code>{part}</code>")
        } else {
            part.to_owned()
        }
    });
    parts.collect()
}

fn glance(sections: &[Section<'_>], body: &mut String) {
    body.push_str(
        "<p>evenkeel beside PostgreSQL on one machine, the subjects in turn, medians. A \
         measurement is <em>ahead</em> or <em>behind</em> when its first figure differs by more \
         than 5 %.</p>\n<div class=\"scroll\"><table class=\"glance\">\n<thead><tr>\
         <th>experiment</th><th>question</th><th>runs</th><th class=\"n\">ahead</th>\
         <th class=\"n\">level</th><th class=\"n\">behind</th></tr></thead>\n<tbody>\n",
    );
    for experiment in ALL {
        let section = sections
            .iter()
            .find(|s| s.experiment.name == experiment.name);
        let _ = write!(
            body,
            "<tr><td><a href=\"#{0}\">{0}</a></td>",
            experiment.name
        );
        let _ = write!(body, "<td>{}</td>", escape(experiment.title));
        let Some(section) = section else {
            body.push_str("<td colspan=\"4\" class=\"hole\">not run yet</td></tr>\n");
            continue;
        };
        let _ = write!(body, "<td>{}</td>", section.extent.name());
        match section.standing() {
            Some((ahead, level, behind)) => {
                for count in [ahead, level, behind] {
                    let _ = write!(body, "<td class=\"n\">{count}</td>");
                }
            }
            None => body.push_str("<td colspan=\"3\">see its table</td>"),
        }
        body.push_str("</tr>\n");
    }
    body.push_str("</tbody></table></div>\n");
}

fn part(section: &Section<'_>, body: &mut String) {
    let experiment = section.experiment;
    let _ = writeln!(
        body,
        "<section id=\"{}\">\n<h2><span>{}</span> {}</h2>\n<p class=\"question\">{}</p>\n\
         <p class=\"origin\">{}</p>",
        experiment.name,
        experiment.name,
        escape(experiment.title),
        prose(experiment.question),
        prose(&origin(section))
    );
    if !experiment.notes.is_empty() {
        body.push_str("<ul class=\"notes\">\n");
        for note in experiment.notes {
            let _ = writeln!(body, "<li>{}</li>", prose(note));
        }
        body.push_str("</ul>\n");
    }
    legend(section, body);
    table(section, body);
    behind(section, body);
    holes(section, body);
    seed(section, body);
    drawings(section, body);
    how(section, body);
    body.push_str("</section>\n");
}

/// The same colour for a subject in every section that it shares with the usual ones.
fn colour_of(section: &Section<'_>, subject: &str) -> usize {
    let usual = ["PostgreSQL 18", "PostgreSQL 15", OURS];
    let at = |names: &[&str]| names.iter().position(|name| *name == subject);
    let others = section
        .subjects
        .iter()
        .copied()
        .filter(|name| !usual.contains(name));
    at(&usual).unwrap_or_else(|| usual.len() + at(&others.collect::<Vec<_>>()).unwrap_or(0))
}

fn chip(section: &Section<'_>, subject: &str) -> String {
    let colour = colour_of(section, subject) % super::plot::SERIES.len() + 1;
    format!("<i class=\"chip s{colour}\"></i>{}", escape(subject))
}

fn legend(section: &Section<'_>, body: &mut String) {
    body.push_str("<p class=\"legend\">");
    for subject in &section.subjects {
        let version = section.records.iter().find(|r| r.subject == *subject);
        let version = version.map_or("", |record| record.version.as_str());
        let chip = chip(section, subject);
        let version = escape(version);
        let _ = write!(body, "<span>{chip} <small>{version}</small></span>");
    }
    body.push_str("</p>\n");
}

fn table(section: &Section<'_>, body: &mut String) {
    let figures = section.figures();
    body.push_str("<div class=\"scroll\"><table>\n<thead><tr><th>measurement</th><th>subject</th>");
    for figure in &figures {
        let sign = match figure.better {
            Better::More => "&nbsp;↑",
            Better::Less => "&nbsp;↓",
            Better::Neither => "",
        };
        let head = heading(figure);
        let _ = write!(body, "<th class=\"n\">{}{sign}</th>", escape(&head));
    }
    let against = section.reference.unwrap_or("–");
    let _ = writeln!(
        body,
        "<th class=\"n\">times better than {}</th></tr></thead>",
        escape(against)
    );
    let mut case = "";
    for (this_case, label) in section.measurements() {
        let same = |l: &&Line<'_>| l.case == this_case && l.label == label;
        let lines: Vec<&Line<'_>> = section.lines.iter().filter(same).collect();
        body.push_str("<tbody>\n");
        if this_case != case && this_case != label {
            let columns = figures.len() + 3;
            let name = escape(this_case);
            let _ = writeln!(
                body,
                "<tr class=\"case\"><th colspan=\"{columns}\">{name}</th></tr>"
            );
        }
        case = this_case;
        for (index, line) in lines.iter().enumerate() {
            body.push_str("<tr>");
            if index == 0 {
                let (rows, label) = (lines.len(), escape(label));
                let _ = write!(body, "<th rowspan=\"{rows}\">{label}</th>");
            }
            let _ = write!(body, "<td>{}</td>", chip(section, line.subject));
            figure_cells(section, line, &figures, body);
            body.push_str("</tr>\n");
        }
        body.push_str("</tbody>\n");
    }
    body.push_str("</table></div>\n");
}

fn figure_cells(section: &Section<'_>, line: &Line<'_>, figures: &[&Figure], body: &mut String) {
    for figure in figures {
        let values: Vec<String> = line.values(figure.key).into_iter().map(number).collect();
        match line.median(figure.key) {
            Some(median) => {
                let (all, median) = (values.join(", "), number(median));
                let _ = write!(
                    body,
                    "<td class=\"n\" title=\"rounds: {all}\">{median}</td>"
                );
            }
            None => body.push_str("<td class=\"n\"></td>"),
        }
    }
    let is_reference = section.reference == Some(line.subject);
    match section.ratio(line).filter(|_| !is_reference) {
        Some(ratio) => {
            let class = match ratio {
                r if r > 1.05 => "ahead",
                r if r < 0.95 => "behind",
                _ => "level",
            };
            let _ = write!(body, "<td class=\"n {class}\">{}</td>", number(ratio));
        }
        None => body.push_str("<td class=\"n\"></td>"),
    }
}

fn holes(section: &Section<'_>, body: &mut String) {
    if section.holes.is_empty() {
        return;
    }
    body.push_str("<div class=\"holes\"><h3>Without a result</h3>\n<ul>\n");
    for hole in &section.holes {
        let _ = writeln!(
            body,
            "<li><b>{}</b>, {}: {}</li>",
            escape(hole.subject),
            escape(&hole.what),
            escape(hole.reason)
        );
    }
    body.push_str("</ul></div>\n");
}

fn behind(section: &Section<'_>, body: &mut String) {
    let behind = section.behind();
    if behind.is_empty() {
        return;
    }
    body.push_str("<div class=\"behind\"><h3>Where evenkeel is behind</h3>\n<ul>\n");
    for behind in behind {
        let _ = writeln!(
            body,
            "<li>{}, {} ({}): {}</li>",
            escape(behind.line.case),
            escape(behind.line.label),
            escape(&behind.figures()),
            prose(behind.why.unwrap_or(UNEXPLAINED))
        );
    }
    body.push_str("</ul></div>\n");
}

fn seed(section: &Section<'_>, body: &mut String) {
    let Some(seed) = section.experiment.seed else {
        return;
    };
    let _ = writeln!(
        body,
        "<div class=\"seed\"><h3>The discussion’s own figures</h3>\n<p>{}</p>\n\
         <div class=\"scroll\"><table>\n<thead><tr>",
        escape(seed.source)
    );
    let cells = |row: &[&str], tag: &str| {
        let cells = row
            .iter()
            .map(|cell| format!("<{tag}>{}</{tag}>", escape(cell)));
        cells.collect::<String>()
    };
    body.push_str(&cells(seed.head, "th"));
    body.push_str("</tr></thead>\n<tbody>\n");
    for row in seed.rows {
        let _ = writeln!(body, "<tr>{}</tr>", cells(row, "td"));
    }
    body.push_str("</tbody></table></div></div>\n");
}

fn drawings(section: &Section<'_>, body: &mut String) {
    bar_chart(section, body);
    let figures = section.figures();
    let key = figures.first().map_or("", |figure| figure.key);
    for plot in section.experiment.plots {
        let mut figures = String::new();
        for (case, label) in measurements(&section.drawn) {
            let drawing = over_time(section, plot, (case, label), key);
            if !drawing.is_empty() {
                let caption = if case.contains(label) {
                    escape(case)
                } else {
                    format!("{}: {}", escape(case), escape(label))
                };
                let _ = writeln!(
                    figures,
                    "<figure><figcaption>{caption}</figcaption>{drawing}</figure>"
                );
            }
        }
        if !figures.is_empty() {
            let label = escape(plot.label);
            let _ = writeln!(
                body,
                "<h3>Over time: {label}</h3>\n<div class=\"plots\">\n{figures}</div>"
            );
        }
    }
}

/// One bar chart per figure that measurements are judged by.
fn bar_chart(section: &Section<'_>, body: &mut String) {
    let mut charts: Vec<(&Figure, Vec<Group>)> = Vec::new();
    for (case, label) in section.measurements() {
        let same = |l: &&Line<'_>| l.case == case && l.label == label;
        for line in section.lines.iter().filter(same) {
            let Some(figure) = section.judged_by(line) else {
                continue;
            };
            let Some(value) = line.median(figure.key) else {
                continue;
            };
            let name = if case.contains(label) {
                case.to_owned()
            } else {
                format!("{case}: {label}")
            };
            let at = charts.iter().position(|(known, _)| known.key == figure.key);
            let at = at.unwrap_or_else(|| {
                charts.push((figure, Vec::new()));
                charts.len() - 1
            });
            let Some((_, groups)) = charts.get_mut(at) else {
                continue;
            };
            let bar = (colour_of(section, line.subject), value);
            match groups.iter_mut().find(|group| group.label == name) {
                Some(group) => group.bars.push(bar),
                None => groups.push(Group {
                    label: name,
                    bars: vec![bar],
                }),
            }
        }
    }
    for (figure, groups) in charts {
        let drawing = bars(&heading(figure), &groups);
        let better = if figure.better == Better::More {
            "longer bars are better"
        } else {
            "shorter bars are better"
        };
        if !drawing.is_empty() {
            let head = escape(&heading(figure));
            let _ = writeln!(
                body,
                "<figure class=\"wide\"><figcaption>{head}: {better}</figcaption>{drawing}</figure>"
            );
        }
    }
}

fn over_time(section: &Section<'_>, plot: &Plot, place: (&str, &str), key: &str) -> String {
    let same = |l: &&Line<'_>| (l.case, l.label) == place;
    let drawn = section.drawn.iter().filter(same).filter_map(|line| {
        let points = line.typical(key)?.series.get(plot.key)?;
        Some(Curve {
            colour: colour_of(section, line.subject),
            points,
        })
    });
    let drawn: Vec<Curve<'_>> = drawn.collect();
    curves(&format!("{} ({})", plot.label, plot.unit), &drawn)
}

/// Settings, environment and command lines of one run of each subject and case.
fn how(section: &Section<'_>, body: &mut String) {
    body.push_str("<details><summary>Settings and command lines</summary>\n");
    let mut shown: Vec<(&str, &str)> = Vec::new();
    for record in &section.records {
        let key = (record.case.as_str(), record.subject.as_str());
        if record.commands.is_empty() || shown.contains(&key) {
            continue;
        }
        shown.push(key);
        run_details(record, body);
    }
    body.push_str("</details>\n");
}

fn run_details(record: &Record, body: &mut String) {
    let _ = writeln!(
        body,
        "<h4>{}, {}</h4>\n<p>{}{}</p>",
        escape(&record.case),
        escape(&record.subject),
        escape(&record.version),
        if record.build.is_empty() {
            String::new()
        } else {
            format!(" ({})", escape(&record.build))
        }
    );
    let settings: Vec<String> = record
        .settings
        .iter()
        .map(|(name, value)| format!("{name} = {value}"))
        .collect();
    let _ = writeln!(body, "<p>Settings: {}</p>", escape(&settings.join("; ")));
    if !record.missing.is_empty() {
        let names = escape(&record.missing.join(", "));
        let _ = writeln!(body, "<p>Not among its settings: {names}</p>");
    }
    if !record.environment.is_empty() {
        let text = escape(&record.environment.join("; "));
        let _ = writeln!(body, "<p>{text}</p>");
    }
    let _ = writeln!(body, "<pre>{}</pre>", escape(&record.commands.join("\n")));
}

fn machine(machines: &Machines, body: &mut String) {
    body.push_str("<section id=\"machine\"><h2>The machine</h2>\n");
    for (extent, facts) in machines {
        let facts: &BTreeMap<String, String> = facts;
        let _ = writeln!(
            body,
            "<h3>{} runs</h3>\n<div class=\"scroll\"><table><tbody>",
            extent.name()
        );
        for (name, value) in facts {
            let (name, value) = (escape(name), escape(value));
            let _ = writeln!(body, "<tr><th>{name}</th><td>{value}</td></tr>");
        }
        body.push_str("</tbody></table></div>\n");
    }
    let _ = writeln!(
        body,
        "<p>Written {}; {OURS}’s lab {}.</p></section>",
        crate::record::now(),
        env!("CARGO_PKG_VERSION")
    );
}

#[cfg(test)]
mod tests {
    use super::super::summary::sections;
    use super::super::summary::tests_support::flush_record;
    use super::*;

    #[test]
    fn the_page_is_self_contained_and_shows_holes_settings_and_commands() {
        let mut failed = flush_record(OURS, 1, 1.0);
        failed.case = "flushing off, -R 100".to_owned();
        failed.hole = Some("the slow disk: needs root <b>".to_owned());
        failed.rows.clear();
        let records = [
            flush_record("PostgreSQL 18", 1, 6.0),
            flush_record(OURS, 1, 2.0),
            failed,
        ];
        let page = page(&sections(&records), &Machines::new());
        assert!(page.contains("the slow disk: needs root &lt;b&gt;"));
        assert!(page.contains("pgbench -N &lt; 'x'"));
        assert!(page.contains("Not among its settings: autovacuum"));
        assert!(page.contains("prefers-color-scheme: dark"));
        assert!(page.contains("<svg") && page.contains("rate (transactions/s)"));
        assert!(page.contains("F. Coelho"));
        let links =
            page.matches("http").count() - page.matches("http://www.w3.org/2000/svg").count();
        assert_eq!(links, 0, "nothing is fetched");
    }
}
