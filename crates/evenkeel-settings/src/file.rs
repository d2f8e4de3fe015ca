//! The text of a configuration file: `name = value` lines, as PostgreSQL reads them (the
//! equals sign may be missing, `#` begins a comment, a value with other characters than those
//! of words and numbers is quoted).

/// One line that sets something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// Counted from 1.
    pub number: u32,
    /// The name and the value, or the reason why there are none.
    pub content: Result<(String, String), &'static str>,
}

/// The lines of a file that are not empty.
pub(crate) fn lines(text: &str) -> Vec<Line> {
    let numbered = text.lines().zip(1u32..);
    let read = |(line, number)| {
        let content = line_of(line).transpose()?;
        Some(Line { number, content })
    };
    numbered.filter_map(read).collect()
}

fn line_of(line: &str) -> Result<Option<(String, String)>, &'static str> {
    const SYNTAX: &str = "syntax error";
    let line = line.trim_start();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$');
    let end = line.find(|c| !is_name(c)).unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(SYNTAX);
    }
    if matches!(name, "include" | "include_dir" | "include_if_exists") {
        return Err("a file cannot include others");
    }
    let rest = rest.trim_start();
    let rest = rest.strip_prefix('=').unwrap_or(rest).trim_start();
    let (value, rest) = match rest.strip_prefix('\'') {
        Some(quoted) => unquoted(quoted).ok_or(SYNTAX)?,
        None => {
            let end = rest.find(|c: char| c.is_whitespace() || c == '#');
            let (value, rest) = rest.split_at(end.unwrap_or(rest.len()));
            let is_plain = |c: char| is_name(c) || matches!(c, '-' | '+' | '/' | ':' | '%');
            if value.is_empty() || !value.chars().all(is_plain) {
                return Err(SYNTAX);
            }
            (value.to_owned(), rest)
        }
    };
    let rest = rest.trim_start();
    if !rest.is_empty() && !rest.starts_with('#') {
        return Err(SYNTAX);
    }
    Ok(Some((name.to_owned(), value)))
}

/// A text up to its closing quote, and what follows. A doubled quote stands for itself, as does
/// a character behind a backslash but for those of C.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' if text[at + 1..].starts_with('\'') => {
                chars.next();
                value.push('\'');
            }
            '\'' => return Some((value, &text[at + 1..])),
            '\\' => value.push(match chars.next()?.1 {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                'b' => '\u{8}',
                'f' => '\u{c}',
                other => other,
            }),
            other => value.push(other),
        }
    }
    None
}

/// A line that [`lines`] reads as this setting. Line ends cannot be written.
pub(crate) fn line(name: &str, value: &str) -> Option<String> {
    if value.contains(['\n', '\r']) {
        return None;
    }
    let value = value.replace('\\', "\\\\").replace('\'', "''");
    Some(format!("{name} = '{value}'\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Vec<(u32, Result<(String, String), &'static str>)> {
        let all = lines(text).into_iter();
        all.map(|line| (line.number, line.content)).collect()
    }

    #[test]
    fn lines_are_read_as_postgresql_reads_them() {
        let text = "# all\n\nwork_mem = 64MB # much\nport 5433\nsearch_path='a, ''b'' # c'\n  \
                    app.user\t=\tx\n";
        let pair = |name: &str, value: &str| Ok((name.to_owned(), value.to_owned()));
        assert_eq!(
            read(text),
            [
                (3, pair("work_mem", "64MB")),
                (4, pair("port", "5433")),
                (5, pair("search_path", "a, 'b' # c")),
                (6, pair("app.user", "x")),
            ]
        );
        for bad in [
            "= 5",
            "port",
            "port =",
            "port = 'a",
            "port = 5 6",
            "5 = 5",
            "port = a b",
        ] {
            assert!(read(bad)[0].1.is_err(), "{bad}");
        }
        assert!(read("include 'other.conf'")[0].1.is_err());
    }

    proptest! {
        #[test]
        fn a_written_line_is_read_as_what_it_was_made_of(value in "[^\n\r]{0,20}") {
            let text = line("search_path", &value).expect("no line end");
            let pair = Ok(("search_path".to_owned(), value));
            prop_assert_eq!(read(&text), vec![(1, pair)]);
        }

        #[test]
        fn no_text_is_too_strange(text in "\\PC{0,60}") {
            lines(&text);
        }
    }
}
