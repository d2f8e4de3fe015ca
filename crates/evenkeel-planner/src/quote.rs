//! Names as they must be written in SQL.

/// A name, quoted where it would not be read as it is.
pub fn identifier(name: &str) -> String {
    let mut bytes = name.bytes();
    let first = bytes.next();
    let plain = first.is_some_and(|first| first.is_ascii_lowercase() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    match plain {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}
