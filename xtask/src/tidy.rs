//! Checks on the text of the sources that neither the compiler nor clippy makes.

use crate::run;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

const FILE_LINES_MAX: usize = 1_200;
const FUNCTION_LINES_MAX: usize = 70;
const COLUMNS_MAX: usize = 100;

/// What marks unfinished work. Spelled in two halves so that this list does not find itself.
const LEFTOVERS: [(&str, &str); 9] = [
    ("todo", "!("),
    ("unimplemented", "!("),
    ("dbg", "!("),
    ("#[ig", "nore"),
    ("TO", "DO"),
    ("FIX", "ME"),
    ("XX", "X:"),
    ("HA", "CK"),
    ("for n", "ow"),
];

/// Walks the sources and READMEs; an error lists every finding.
pub fn tidy() -> Result<(), String> {
    let mut files = Vec::new();
    for dir in ["bench", "crates", "xtask"] {
        collect(&run::root().join(dir), &mut files)?;
    }
    let mut findings = Vec::new();
    let mut words = HashSet::new();
    let mut readmes = Vec::new();
    for path in &files {
        let text = std::fs::read_to_string(path)
            .map_err(|e| format!("reading {}: {e}", path.display()))?;
        let name = path
            .strip_prefix(run::root())
            .unwrap_or(path)
            .display()
            .to_string();
        if name.ends_with(".rs") {
            source(&name, &text, &mut findings);
            let code = text.lines().map(without_comment);
            words.extend(code.flat_map(identifiers).map(str::to_owned));
        } else {
            readmes.push((name, text));
        }
    }
    for (name, text) in &readmes {
        rules(name, text, &words, &mut findings);
    }
    if findings.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{} findings\n{}",
        findings.len(),
        findings.join("\n")
    ))
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let entries = std::fs::read_dir(dir).map_err(|e| format!("listing {}: {e}", dir.display()))?;
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            // A package under `bench` builds in a directory of its own.
            if !path.ends_with("target") {
                collect(&path, files)?;
            }
        } else if path.extension().is_some_and(|e| e == "rs") || path.ends_with("README.md") {
            files.push(path);
        }
    }
    files.sort();
    Ok(())
}

fn source(name: &str, text: &str, findings: &mut Vec<String>) {
    let lines: Vec<&str> = text.lines().collect();
    if lines.len() > FILE_LINES_MAX {
        findings.push(format!(
            "{name}: {} lines, at most {FILE_LINES_MAX}",
            lines.len()
        ));
    }
    for (i, line) in lines.iter().enumerate() {
        let at = i + 1;
        if line.chars().count() > COLUMNS_MAX && !line.contains("://") && !line.contains('"') {
            findings.push(format!("{name}:{at}: more than {COLUMNS_MAX} columns"));
        }
        for (head, tail) in LEFTOVERS {
            if line.contains(&format!("{head}{tail}")) {
                findings.push(format!("{name}:{at}: leftover marker `{head}{tail}`"));
            }
        }
        if let Some(length) = function_length(&lines[i..])
            && length > FUNCTION_LINES_MAX
        {
            let what = line.trim();
            findings.push(format!("{name}:{at}: {length} lines in `{what}`"));
        }
    }
}

/// The lines of the function that starts on the first of `lines`, in rustfmt's layout: up to
/// the closing brace at the function's own indentation.
fn function_length(lines: &[&str]) -> Option<usize> {
    let first = lines.first()?;
    let code = first.trim_start();
    let is_function = code.split_whitespace().take(6).any(|word| word == "fn")
        && !code.starts_with("//")
        && !code.ends_with(';');
    if !is_function {
        return None;
    }
    let indent = &first[..first.len() - code.len()];
    let closing = format!("{indent}}}");
    let end = lines.iter().position(|line| *line == closing)?;
    let header_only = lines[..end]
        .iter()
        .any(|line| line.trim_end() == format!("{indent};"));
    (!header_only).then_some(end + 1)
}

/// A line up to its comment. (A `//` within a string ends it too.)
fn without_comment(line: &str) -> &str {
    line.split_once("//").map_or(line, |(code, _)| code)
}

fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| word.len() > 2)
}

/// Every numbered rule (`1. **…**`) names, in backticks, what enforces it.
fn rules(name: &str, text: &str, words: &HashSet<String>, findings: &mut Vec<String>) {
    let mut rule: Option<(usize, String)> = None;
    for (i, line) in text.lines().chain(["# end"]).enumerate() {
        let starts = line
            .split_once(". **")
            .is_some_and(|(n, _)| n.parse::<u32>().is_ok());
        let continues = line.starts_with("   ") || line.trim().is_empty();
        if let Some((at, rule_text)) = rule.take() {
            if continues {
                rule = Some((at, rule_text + "\n" + line));
            } else {
                enforced(name, at, &rule_text, words, findings);
            }
        }
        if starts {
            rule = Some((i + 1, line.to_owned()));
        }
    }
}

fn enforced(
    name: &str,
    at: usize,
    rule: &str,
    words: &HashSet<String>,
    findings: &mut Vec<String>,
) {
    let Some((_, by)) = rule.split_once("Enforced by:") else {
        findings.push(format!("{name}:{at}: a rule without `Enforced by:`"));
        return;
    };
    let mut named = by.split('`').skip(1).step_by(2).peekable();
    if named.peek().is_none() {
        findings.push(format!("{name}:{at}: a rule that names no type or test"));
    }
    for item in named {
        if let Some(missing) = identifiers(item).find(|word| !words.contains(*word)) {
            findings.push(format!(
                "{name}:{at}: `{item}`: no `{missing}` in the sources"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_not_enforced_by_a_comment() {
        let code = ["fn kept() {} // dropped", "/// `documented`"];
        let words = code.map(without_comment).into_iter().flat_map(identifiers);
        let words = words.map(str::to_owned).collect();
        let found = |item: &str| {
            let mut findings = Vec::new();
            let rule = format!("1. **It holds.** Enforced by: `{item}`.");
            rules("README.md", &rule, &words, &mut findings);
            findings.is_empty()
        };
        assert!(found("kept"));
        assert!(!found("dropped"));
        assert!(!found("documented"));
    }
}
