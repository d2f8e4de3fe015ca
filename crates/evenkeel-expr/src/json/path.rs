//! Steps of a path.

/// The number that a step of a path is, as C reads one: blanks before it, a sign, digits.
pub(super) fn index_of(step: &str) -> Option<i32> {
    let blank = |c: char| c.is_ascii_whitespace() || c == '\x0b';
    let number = step.trim_start_matches(blank);
    let digits = number.strip_prefix(['+', '-']).unwrap_or(number);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    number.parse().ok()
}
