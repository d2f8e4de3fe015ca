//! Statements that are written out: each rule with its classic mistake.

const STATEMENTS: &str = include_str!("statements.sql");

/// One a line; comments begin with two dashes.
pub fn all() -> Vec<String> {
    let lines = STATEMENTS.lines().map(str::trim);
    let kept = lines.filter(|line| !line.is_empty() && !line.starts_with("--"));
    kept.map(str::to_owned).collect()
}
