//! The start-up parameter `options` (PGOPTIONS): settings as on a command line.

use evenkeel_sql::{SqlError, SqlState};

/// The settings in `text`: `-c name=value`, `-cname=value` or `--name=value`, separated by white
/// space; a backslash keeps the character behind it.
///
/// # Errors
/// 42601 for anything else.
pub(crate) fn settings(text: &str) -> Result<Vec<(String, String)>, SqlError> {
    let mut found = Vec::new();
    let mut words = split(text).into_iter();
    while let Some(word) = words.next() {
        let setting = if word == "-c" {
            words.next()
        } else if let Some(long) = word.strip_prefix("--") {
            Some(long.to_owned())
        } else {
            word.strip_prefix("-c").map(str::to_owned)
        };
        let pair = setting.as_deref().and_then(|s| s.split_once('='));
        let Some((name, value)) = pair.filter(|(name, _)| !name.is_empty()) else {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!("invalid command-line argument for server process: {word}"),
            )
            .hint("A connection's options are of the form -c name=value."));
        };
        found.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(found)
}

fn split(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            c if c.is_ascii_whitespace() => words.extend(word.take()),
            '\\' => word.get_or_insert_default().extend(chars.next()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_settings_as_on_a_command_line() {
        let pairs = settings(r" -c a=1 -cb=x\ y  --lock-timeout=5s ").unwrap();
        let expected = [("a", "1"), ("b", "x y"), ("lock_timeout", "5s")];
        assert_eq!(pairs, expected.map(|(n, v)| (n.to_owned(), v.to_owned())));
        assert!(settings("").unwrap().is_empty());
        for bad in ["-c", "-c a", "-x", "a=1", "-c =1"] {
            assert_eq!(
                settings(bad).unwrap_err().sqlstate.as_str(),
                "42601",
                "{bad}"
            );
        }
    }
}
