//! The picture of each crate's top-level modules in ARCHITECTURE.md, between two markers.

use super::Crate;
use super::graph::Entry;
use super::source::Level;
use crate::run;
use std::path::PathBuf;

const BEGIN: &str = "<!-- written by `cargo xtask modules` -->\n";
const END: &str = "<!-- end of what `cargo xtask modules` writes -->";
const COLUMNS: usize = 96;

fn path() -> PathBuf {
    run::root().join("ARCHITECTURE.md")
}

/// The text of ARCHITECTURE.md.
pub fn read() -> Result<String, String> {
    std::fs::read_to_string(path()).map_err(|e| format!("reading ARCHITECTURE.md: {e}"))
}

pub fn write(document: &str) -> Result<(), String> {
    std::fs::write(path(), document).map_err(|e| format!("writing ARCHITECTURE.md: {e}"))
}

/// `document` with a new picture between the markers.
pub fn replace(document: &str, crates: &[Crate]) -> Result<String, String> {
    let parts = document.split_once(BEGIN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some((before, after))
    });
    let (before, after) = parts.ok_or("ARCHITECTURE.md: the markers of the picture are gone")?;
    let picture = draw(crates);
    Ok(format!("{before}{BEGIN}{picture}{END}{after}"))
}

fn draw(crates: &[Crate]) -> String {
    let mut out = String::new();
    for (name, modules) in crates {
        let layers = modules.graph(Level::TopLevel).layers();
        if layers.len() > 1 {
            out.push_str(&format!("\n```text\n{name}\n"));
            draw_layers(&layers, &mut out);
            out.push_str("```\n");
        }
    }
    out.push('\n');
    out
}

fn draw_layers(layers: &[Vec<Entry>], out: &mut String) {
    let single = layers.iter().flatten().filter(|entry| !entry.is_cycle());
    let width = single.map(|entry| entry.name.len()).max().unwrap_or(0);
    for (i, layer) in layers.iter().enumerate() {
        let mut number = (layers.len() - i).to_string();
        for entry in layer {
            for line in entry_lines(entry, width) {
                out.push_str(format!("{number:>3}  {line}").trim_end());
                out.push('\n');
                number.clear();
            }
        }
    }
}

/// `name  → used, used`; the names of a cycle have lines of their own.
fn entry_lines(entry: &Entry, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut name = &*entry.name;
    if entry.is_cycle() {
        lines = wrap(name, COLUMNS - 5);
        name = "";
    }
    if entry.uses.is_empty() {
        lines.extend((!name.is_empty()).then(|| name.to_owned()));
        return lines;
    }
    let mut arrow = "→";
    for uses in wrap(&entry.uses.join(", "), COLUMNS - width - 9) {
        lines.push(format!("{name:<width$}  {arrow:1} {uses}"));
        (name, arrow) = ("", "");
    }
    lines
}

/// `text` in lines of at most `columns`, broken at blanks; at least one line.
fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last().map_or(0, |line| line.len());
        if line > 0 && line + 1 + word.len() > columns {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::source::Modules;
    use super::*;

    fn crates(files: &[(&str, &str)]) -> Vec<Crate> {
        let owned = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
        let files = files.iter().map(owned).collect();
        let modules = Modules::read("src", &files).expect("the sources parse");
        vec![("x".to_owned(), modules)]
    }

    #[test]
    fn the_picture_replaces_the_text_between_the_markers() {
        let crates = crates(&[
            ("lib.rs", "mod above;\nmod below;\nmod left;\nmod right;"),
            ("above.rs", "use crate::{below, left::L};"),
            ("left.rs", "use crate::right::R;"),
            ("right.rs", "use crate::{below::B, left::L};"),
            ("below.rs", ""),
        ]);
        let old = format!("before\n{BEGIN}old\n{END}\nafter\n");
        let new = replace(&old, &crates).expect("the markers are there");
        let picture = "\n```text\nx\n  3  above  → left + right\n  2  left + right\n            \
                       → below\n  1  below\n```\n\n";
        assert_eq!(new, format!("before\n{BEGIN}{picture}{END}\nafter\n"));
        assert_eq!(replace(&new, &crates), Ok(new));
        assert!(replace("no markers", &crates).is_err());
    }

    #[test]
    fn a_long_line_is_wrapped() {
        assert_eq!(wrap("a bb ccc d", 5), ["a bb", "ccc d"]);
        assert_eq!(wrap("", 5), [""]);
    }
}
