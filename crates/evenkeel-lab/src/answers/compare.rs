//! Two answers to one statement: whether they agree and, if not, how.

use super::wire::{Outcome, Row};

/// A kind of difference, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Both answer, and not the same rows.
    Rows,
    /// An answer where PostgreSQL refuses.
    Accepts,
    /// The same rows with other types.
    Types,
    /// The same rows and types under other names.
    Names,
    /// An internal error, or the connection is lost.
    Breaks,
    /// A refusal that is not by name, where PostgreSQL answers.
    Fails,
    /// Both refuse, with different SQLSTATEs.
    State,
    /// Refused by name (0A000, 42883, 42704) where PostgreSQL answers.
    Lacks,
}

impl Kind {
    /// All, the worst first.
    pub const ALL: [Kind; 8] = [
        Kind::Rows,
        Kind::Accepts,
        Kind::Types,
        Kind::Names,
        Kind::Breaks,
        Kind::Fails,
        Kind::State,
        Kind::Lacks,
    ];

    /// Its name in reports and in the list of accepted differences.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Rows => "rows",
            Kind::Accepts => "accepts",
            Kind::Types => "types",
            Kind::Names => "names",
            Kind::Breaks => "breaks",
            Kind::Fails => "fails",
            Kind::State => "state",
            Kind::Lacks => "lacks",
        }
    }

    /// Whether a client takes a wrong answer for a right one.
    pub fn is_silent(self) -> bool {
        matches!(self, Kind::Rows | Kind::Accepts)
    }
}

/// States by which a server says that it does not have something.
const BY_NAME: [&str; 3] = ["0A000", "42883", "42704"];

/// How `subject` differs from `reference`; rows in any order are the same unless `ordered`.
pub fn difference(reference: &Outcome, subject: &Outcome, ordered: bool) -> Option<Kind> {
    match (reference, subject) {
        (Outcome::Lost(_), Outcome::Lost(_)) => None,
        (_, Outcome::Lost(_)) => Some(Kind::Breaks),
        (Outcome::Error { state: wanted, .. }, Outcome::Error { state, .. }) => {
            let kind = match state.starts_with("XX") {
                true => Kind::Breaks,
                false => Kind::State,
            };
            (wanted != state).then_some(kind)
        }
        (Outcome::Rows { .. }, Outcome::Error { state, .. }) => Some(match state.as_str() {
            state if state.starts_with("XX") => Kind::Breaks,
            state if BY_NAME.contains(&state) => Kind::Lacks,
            _ => Kind::Fails,
        }),
        (Outcome::Error { .. } | Outcome::Lost(_), Outcome::Rows { .. }) => Some(Kind::Accepts),
        (Outcome::Lost(_), Outcome::Error { .. }) => Some(Kind::State),
        (
            Outcome::Rows {
                columns: wanted,
                rows: wanted_rows,
            },
            Outcome::Rows { columns, rows },
        ) => {
            if columns.len() != wanted.len() || !same_rows(wanted_rows, rows, ordered) {
                return Some(Kind::Rows);
            }
            let pairs = || wanted.iter().zip(columns);
            if pairs().any(|(wanted, column)| wanted.oid != column.oid) {
                return Some(Kind::Types);
            }
            let names = pairs().any(|(wanted, column)| wanted.name != column.name);
            names.then_some(Kind::Names)
        }
    }
}

fn same_rows(wanted: &[Row], rows: &[Row], ordered: bool) -> bool {
    if ordered || wanted.len() < 2 {
        return wanted == rows;
    }
    let sorted = |rows: &[Row]| {
        let mut rows = rows.to_vec();
        rows.sort();
        rows
    };
    sorted(wanted) == sorted(rows)
}

/// Whether rows differ only in the last digits of floats.
pub fn differs_in_last_digits(reference: &Outcome, subject: &Outcome) -> bool {
    const RELATIVE: f64 = 1e-13;
    let (Outcome::Rows { rows: wanted, .. }, Outcome::Rows { rows, .. }) = (reference, subject)
    else {
        return false;
    };
    let number = |text: &Option<String>| text.as_ref().and_then(|text| text.parse::<f64>().ok());
    let close = |(wanted, value): (&Option<String>, &Option<String>)| {
        wanted == value
            || number(wanted)
                .zip(number(value))
                .is_some_and(|(a, b)| (a - b).abs() <= RELATIVE * a.abs().max(b.abs()))
    };
    let same_length = |(a, b): (&Row, &Row)| a.len() == b.len() && a.iter().zip(b).all(close);
    wanted.len() == rows.len() && wanted.iter().zip(rows).all(same_length)
}

/// A difference that is meant, or that cannot be helped.
#[derive(Debug)]
pub struct Accepted {
    kind: &'static str,
    /// The template or script.
    pub subject: &'static str,
    /// Why.
    pub reason: &'static str,
}

/// Reads the list of accepted differences: lines `KIND :: TEMPLATE :: REASON`, where the kind
/// `digits` is of rows that differ in the last digits of floats only.
///
/// # Errors
/// The line that makes no sense.
pub fn accepted(text: &'static str) -> Result<Vec<Accepted>, String> {
    let lines = text.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let mut parts = line.split(" :: ");
            match (parts.next(), parts.next(), parts.next()) {
                (Some(kind), Some(subject), Some(reason)) => Ok(Accepted {
                    kind,
                    subject,
                    reason,
                }),
                _ => Err(format!("not KIND :: TEMPLATE :: REASON: {line}")),
            }
        })
        .collect()
}

impl Accepted {
    /// Whether it covers a difference.
    pub fn covers(&self, template: &str, kind: Kind, digits: bool) -> bool {
        self.subject == template
            && (self.kind == kind.name() || self.kind == "digits" && digits && kind == Kind::Rows)
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::Column;
    use super::*;

    fn rows(oid: u32, values: &[&str]) -> Outcome {
        let name = "v".to_owned();
        let row = |value: &&str| vec![Some((*value).to_owned())];
        Outcome::Rows {
            columns: vec![Column { name, oid }],
            rows: values.iter().map(row).collect(),
        }
    }

    fn error(state: &str) -> Outcome {
        Outcome::Error {
            state: state.to_owned(),
            message: String::new(),
        }
    }

    #[test]
    fn differences_are_told_by_kind() {
        let kind = |a: &Outcome, b: &Outcome| difference(a, b, false);
        let one = rows(23, &["1", "2"]);
        assert_eq!(kind(&one, &rows(23, &["2", "1"])), None);
        assert_eq!(
            difference(&one, &rows(23, &["2", "1"]), true),
            Some(Kind::Rows)
        );
        assert_eq!(kind(&one, &rows(23, &["1"])), Some(Kind::Rows));
        assert_eq!(kind(&one, &rows(20, &["1", "2"])), Some(Kind::Types));
        assert_eq!(kind(&one, &error("0A000")), Some(Kind::Lacks));
        assert_eq!(kind(&one, &error("22003")), Some(Kind::Fails));
        assert_eq!(kind(&one, &error("XX000")), Some(Kind::Breaks));
        assert_eq!(kind(&error("22003"), &one), Some(Kind::Accepts));
        assert_eq!(kind(&error("22003"), &error("22012")), Some(Kind::State));
        assert_eq!(kind(&error("22003"), &error("22003")), None);
    }

    #[test]
    fn last_digits_are_of_numbers_only() {
        let close = |a: &str, b: &str| differs_in_last_digits(&rows(701, &[a]), &rows(701, &[b]));
        assert!(close("0.8414709848078965", "0.8414709848078966"));
        assert!(!close("0.84", "0.85"));
        assert!(!close("a", "b"));
    }

    #[test]
    fn an_accepted_difference_covers_its_kind_alone() {
        let list = accepted("digits :: sin({float8}) :: libm").unwrap();
        assert!(list[0].covers("sin({float8})", Kind::Rows, true));
        assert!(!list[0].covers("sin({float8})", Kind::Rows, false));
        assert!(!list[0].covers("cos({float8})", Kind::Rows, true));
        assert!(accepted("sin").is_err());
    }
}
