//! The module graph of each crate: no import cycles, and the picture in ARCHITECTURE.md.

mod graph;
mod paths;
mod picture;
mod source;

use crate::run;
use source::{Level, Modules};
use std::collections::BTreeMap;
use std::path::Path;

/// A crate's name and modules.
type Crate = (String, Modules);

/// Finds import cycles, and a picture in ARCHITECTURE.md that is out of date.
pub fn check(findings: &mut Vec<String>) -> Result<(), String> {
    let crates = crates()?;
    for (name, modules) in &crates {
        for level in [Level::TopLevel, Level::Files] {
            findings.extend(check_cycles(name, modules, level));
        }
    }
    let document = picture::read()?;
    if picture::replace(&document, &crates)? != document {
        findings.push("ARCHITECTURE.md: the modules have changed: `cargo xtask modules`".into());
    }
    Ok(())
}

/// Writes the picture, and prints every cycle.
pub fn write() -> Result<(), String> {
    let crates = crates()?;
    for (name, modules) in &crates {
        for level in [Level::TopLevel, Level::Files] {
            let graph = modules.graph(level);
            for cycle in graph.cycles() {
                let members: Vec<&str> = cycle.iter().map(|node| &*graph.names[*node]).collect();
                println!("{name}: {level} in one cycle: {}", members.join(", "));
            }
            if let Some(cycle) = graph.shortest_cycle() {
                println!("{name}: the shortest: {}", graph.describe(&cycle));
            }
        }
    }
    picture::write(&picture::replace(&picture::read()?, &crates)?)
}

/// A finding if modules are in cycles: their number, and the shortest cycle.
fn check_cycles(name: &str, modules: &Modules, level: Level) -> Option<String> {
    let graph = modules.graph(level);
    let cycle = graph.shortest_cycle()?;
    let count = graph.cycles().concat().len();
    Some(format!(
        "{name}: {count} {level} in import cycles (`cargo xtask modules` lists them): {}",
        graph.describe(&cycle)
    ))
}

/// The crates of the workspace, by name.
fn crates() -> Result<Vec<Crate>, String> {
    let dir = run::root().join("crates");
    let entries = std::fs::read_dir(&dir).map_err(|e| format!("listing {}: {e}", dir.display()))?;
    let mut out = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let mut files = BTreeMap::new();
        read(&entry.path().join("src"), "", &mut files)?;
        let modules = Modules::read(&format!("crates/{name}/src"), &files)?;
        out.push((name, modules));
    }
    out.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(out)
}

/// Adds the texts of the sources under `dir`, by path within it.
fn read(dir: &Path, prefix: &str, files: &mut BTreeMap<String, String>) -> Result<(), String> {
    let failed = |e| format!("reading {}: {e}", dir.display());
    for entry in std::fs::read_dir(dir).map_err(failed)?.flatten() {
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let path = entry.path();
        if path.is_dir() {
            read(&path, &format!("{name}/"), files)?;
        } else if name.ends_with(".rs") {
            files.insert(name, std::fs::read_to_string(&path).map_err(failed)?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A crate with a module `a` of this text, a `b` that imports it, and a `c` that both import.
    fn modules(a: &str) -> Modules {
        let files = [
            ("lib.rs", "mod a;\nmod b;\nmod c;"),
            ("a.rs", a),
            ("b.rs", "use super::{a::A, c::C};"),
            ("c.rs", ""),
        ];
        let owned = files.map(|(name, text)| (name.to_owned(), text.to_owned()));
        Modules::read("src", &owned.into()).expect("the sources parse")
    }

    #[test]
    fn a_cycle_is_a_finding() {
        for level in [Level::TopLevel, Level::Files] {
            let found = check_cycles("x", &modules("use crate::b::B;"), level).expect("a and b");
            assert_eq!(
                found,
                format!(
                    "x: 2 {level} in import cycles (`cargo xtask modules` lists them): \
                     a -> b -> a\n    src/a.rs:1: a -> b\n    src/b.rs:1: b -> a"
                )
            );
            assert_eq!(check_cycles("x", &modules("use crate::c::C;"), level), None);
        }
    }
}
