//! Statements that PostgreSQL 18 takes and refuses, with its error and position.

use evenkeel_planner::PlanError;
use evenkeel_planner::parser::parse;

/// Undoes the escapes of a recorded field.
fn unescape(field: &str) -> String {
    let mut text = String::with_capacity(field.len());
    let mut characters = field.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => text.extend(
                characters
                    .next()
                    .map(|next| if next == 'n' { '\n' } else { next }),
            ),
            _ => text.push(character),
        }
    }
    text
}

/// The fields of an error as the corpus has them; PostgreSQL counts characters from 1.
fn shown(text: &str, error: &PlanError) -> String {
    let place = error.at.map_or("-".to_owned(), |at| {
        (text[..at.0 as usize].chars().count() + 1).to_string()
    });
    let hint = error.hint.as_deref().unwrap_or("-");
    format!("{} {place} {} {hint}", error.state.0, error.message)
}

#[test]
fn statements_are_taken_and_refused_as_postgresql_does() {
    compare("tests/syntax.txt", 1_000);
}

#[test]
fn commands_are_taken_and_refused_as_postgresql_does() {
    compare("tests/commands.txt", 500);
}

fn compare(path: &str, least: usize) {
    let corpus = std::fs::read_to_string(path).unwrap();
    let mut differences = Vec::new();
    let mut count = 0;
    for line in corpus.lines().filter(|line| !line.starts_with("--")) {
        let fields: Vec<&str> = line.split('\t').collect();
        let statement = unescape(fields[fields.len() - 1]);
        let wanted = match fields[..] {
            [_, _] => "ok".to_owned(),
            [state, place, message, hint, _] => {
                format!("{state} {place} {} {}", unescape(message), unescape(hint))
            }
            _ => panic!("{line}"),
        };
        let found = match parse(&statement) {
            Ok(_) => "ok".to_owned(),
            Err(error) => shown(&statement, &error),
        };
        count += 1;
        if found != wanted {
            differences.push(format!(
                "{statement}\n  PostgreSQL: {wanted}\n  found:      {found}"
            ));
        }
    }
    assert!(count > least, "{count} statements");
    assert!(
        differences.is_empty(),
        "{} of {count} statements:\n{}",
        differences.len(),
        differences.join("\n")
    );
}
