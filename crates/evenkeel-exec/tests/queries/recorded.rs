//! Recorded answers, and how an answer differs from them.

use std::fmt::Write as _;

use evenkeel_planner::ast::Statement;
use evenkeel_planner::parser::parse;

/// An answer: columns (type oid, modifier, name) and rows, or an error's SQLSTATE and message.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    pub columns: Vec<String>,
    pub rows: Vec<String>,
    pub error: Option<(String, String)>,
}

impl Answer {
    pub fn error(state: &str, message: &str) -> Answer {
        Answer {
            error: Some((state.to_owned(), message.to_owned())),
            ..Answer::default()
        }
    }

    /// Whether it is an error, and no failure of the executor.
    pub fn is_refused(&self) -> bool {
        let refused = |(state, _): &(String, String)| state != "panic" && state != "XX000";
        self.error.as_ref().is_some_and(refused)
    }
}

/// A statement with PostgreSQL's answer.
pub struct Recorded {
    pub text: String,
    answer: Answer,
    /// Whether the rows have an order. One that leaves ties open ends in `/* ties */`.
    ordered: bool,
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (character, character == '\\') {
            (_, true) => match characters.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some(other) => out.push(other),
                None => {}
            },
            (other, false) => out.push(other),
        }
    }
    out
}

fn is_ordered(text: &str) -> bool {
    if text.ends_with("/* ties */") {
        return false;
    }
    let Ok(parsed) = parse(text) else {
        return false;
    };
    match &parsed[0].statement {
        Statement::Query(query) => !query.order_by.is_empty(),
        _ => false,
    }
}

/// The statements of a file.
pub fn read(text: &str) -> Vec<Recorded> {
    let blocks = text.split_terminator("\n\n");
    blocks
        .map(|block| {
            let mut lines = block.lines();
            let text = lines.next().unwrap().strip_prefix("S ").unwrap().to_owned();
            let mut answer = Answer::default();
            for line in lines {
                let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
                match kind {
                    "C" => answer.columns.push(rest.to_owned()),
                    "R" => answer.rows.push(rest.to_owned()),
                    "E" => answer.error = Some((rest.to_owned(), String::new())),
                    _ => {
                        if let Some((_, message)) = &mut answer.error {
                            *message = unescape(rest);
                        }
                    }
                }
            }
            let ordered = is_ordered(&text);
            Recorded {
                text,
                answer,
                ordered,
            }
        })
        .collect()
}

/// A field as the file has it.
pub fn field(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('\n', "\\n");
    text.replace('\t', "\\t")
}

fn shown(out: &mut String, sign: char, rows: &[String]) {
    for row in rows.iter().take(12) {
        let _ = writeln!(out, "  {sign} {row}");
    }
    if rows.len() > 12 {
        let _ = writeln!(out, "  {sign} and {} rows", rows.len() - 12);
    }
}

/// A message without the value at its end, which is that of the row that is met first.
fn without_value(message: &str) -> &str {
    message.split_once(": \"").map_or(message, |(text, _)| text)
}

impl Recorded {
    /// As [`Recorded::difference`], of a way that may meet the rows in another order.
    pub fn difference_in_another_order(&self, found: &Answer) -> Option<String> {
        let alike = match (&self.answer.error, &found.error) {
            (Some(wanted), Some(found)) => {
                wanted.0 == found.0 && without_value(&wanted.1) == without_value(&found.1)
            }
            _ => false,
        };
        if alike { None } else { self.difference(found) }
    }

    /// How an answer differs from the recorded one.
    pub fn difference(&self, found: &Answer) -> Option<String> {
        let wanted = &self.answer;
        if wanted.error != found.error {
            let show = |answer: &Answer| match &answer.error {
                Some((state, message)) => format!("{state} {message}"),
                None => format!("{} rows {:?}", answer.rows.len(), answer.rows.first()),
            };
            return Some(format!(
                "\n  PostgreSQL: {}\n  found:      {}\n",
                show(wanted),
                show(found)
            ));
        }
        if wanted.columns != found.columns {
            return Some(format!(
                "\n  PostgreSQL: {:?}\n  found:      {:?}\n",
                wanted.columns, found.columns
            ));
        }
        let (mut left, mut right) = (wanted.rows.clone(), found.rows.clone());
        if left == right {
            return None;
        }
        left.sort();
        right.sort();
        if left == right {
            return self.ordered.then(|| {
                let mut out = String::from("the order\n");
                shown(&mut out, '-', &wanted.rows);
                shown(&mut out, '+', &found.rows);
                out
            });
        }
        let mut missing = Vec::new();
        for row in left {
            match right.iter().position(|other| *other == row) {
                Some(at) => drop(right.swap_remove(at)),
                None => missing.push(row),
            }
        }
        let mut out = format!("{} and {} rows\n", wanted.rows.len(), found.rows.len());
        shown(&mut out, '-', &missing);
        shown(&mut out, '+', &right);
        Some(out)
    }
}
