//! Cases of calls: name or operator, types of the arguments, arguments between broken bars.

use crate::Case;

/// The cases of a file, without their answers.
pub fn cases(text: &str) -> Vec<Case> {
    text.lines().map(case).collect()
}

fn case(line: &str) -> Case {
    let fields: Vec<&str> = line.split('\t').collect();
    let [name, types, args, ..] = fields.as_slice() else {
        return Case {
            line: line.to_owned(),
            sql: None,
        };
    };
    let literals: Vec<String> = types
        .split(',')
        .zip(args.split('¦'))
        .filter(|(ty, _)| !ty.is_empty())
        .map(|(ty, value)| match value {
            r"\N" => format!("NULL::{ty}"),
            value => format!("'{}'::{ty}", value.replace('\'', "''")),
        })
        .collect();
    let source = match literals.as_slice() {
        [left, right] if !name.starts_with(|c: char| c.is_alphabetic()) => {
            format!("(SELECT {left} {name} {right}, 1) s(r, n)")
        }
        literals => format!("{name}({}) WITH ORDINALITY s(r, n)", literals.join(", ")),
    };
    Case {
        line: format!("{name}\t{types}\t{args}"),
        sql: Some(format!(
            "SELECT min(pg_typeof(r)::text) || ' ' || \
             string_agg(coalesce(r::text, '\\N'), ';' ORDER BY n) FROM {source}"
        )),
    }
}
