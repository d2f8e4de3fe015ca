//! Checks on the text of the sources that neither the compiler nor clippy makes.

use crate::modules;
use crate::prose;
use crate::rules::{Items, Rules, check_items, check_names};
use crate::run;
use std::path::{Path, PathBuf};

const FILE_LINES_MAX: usize = 1_200;
const FUNCTION_LINES_MAX: usize = 70;
const COLUMNS_MAX: usize = 100;
/// The pages that describe formats and protocols, and name the tests that show them.
const DESIGN: &str = "docs/design";
/// The documents at the root.
const DOCUMENTS: [&str; 5] = [
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "GLOSSARY.md",
    "README.md",
];

/// Documents that name items of the sources.
const NAMING: [&str; 2] = ["ARCHITECTURE.md", "GLOSSARY.md"];

/// Marks of unfinished work. Spelled in two halves so that this list does not find itself.
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
    for dir in ["bench", "crates", DESIGN, "fuzz", "xtask"] {
        collect(&run::root().join(dir), &mut files)?;
    }
    let mut findings = Vec::new();
    let mut items = Items::default();
    let mut texts = Vec::new();
    for path in &files {
        if path.extension().is_some_and(|e| e == "slt") {
            let file = path.file_name().unwrap_or_default();
            items.add_statements(&file.to_string_lossy());
            continue;
        }
        let text = std::fs::read_to_string(path)
            .map_err(|e| format!("reading {}: {e}", path.display()))?;
        let name = path
            .strip_prefix(run::root())
            .unwrap_or(path)
            .display()
            .to_string();
        if name.ends_with(".rs") {
            source(&name, &text, &mut findings);
            items.add(&text);
        }
        prose::check(&name, &text, &mut findings);
        texts.push((name, text));
    }
    for name in DOCUMENTS {
        let text = std::fs::read_to_string(run::root().join(name))
            .map_err(|e| format!("reading {name}: {e}"))?;
        prose::check(name, &text, &mut findings);
        if NAMING.contains(&name) {
            check_items(name, &text, &items, &mut findings);
        }
    }
    let mut rules = Rules::default();
    for (name, text) in texts.iter().filter(|(name, _)| name.ends_with(".md")) {
        if name.starts_with(DESIGN) {
            check_names(name, text, &items, &mut findings);
            check_items(name, text, &items, &mut findings);
        } else {
            rules.add(name, text, &items, &mut findings);
        }
    }
    for (name, text) in texts.iter().filter(|(name, _)| !name.starts_with("xtask")) {
        rules.check_citations(name, text, &mut findings);
    }
    rules.check_catch_alls(&mut findings);
    modules::check(&mut findings)?;
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
        } else if path.extension().is_some_and(|e| e == "rs" || e == "slt")
            || path.ends_with("README.md")
            || path.starts_with(run::root().join(DESIGN))
        {
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
        && !code.ends_with([';', '}']);
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
