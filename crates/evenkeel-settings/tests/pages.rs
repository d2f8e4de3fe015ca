//! The tables of settings in `README.md` and `docs/settings.md` are those of the registry (SET-9).
//! `cargo xtask settings` writes them.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use evenkeel_settings::{Context, Kind, Setting, all, find};

/// Set, the tables are written instead of compared.
const WRITE: &str = "EVENKEEL_WRITE_SETTINGS";
const BEGIN: &str = "<!-- settings:begin (rewritten by `cargo xtask settings`) -->\n";
const END: &str = "<!-- settings:end -->\n";

/// The settings that the README shows.
const SHOWN: [&str; 12] = [
    "port",
    "max_connections",
    "shared_buffers",
    "work_mem",
    "max_server_memory",
    "fsync",
    "synchronous_commit",
    "torn_page_protection",
    "max_wal_size",
    "checkpoint_timeout",
    "io_method",
    "autovacuum",
];

fn root() -> PathBuf {
    Path::new(&std::env::var("CARGO_MANIFEST_DIR").expect("cargo runs it")).join("../..")
}

/// Text in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn default(setting: &Setting) -> String {
    let shown = setting.shown(&setting.boot());
    if shown.is_empty() {
        "empty".to_owned()
    } else {
        format!("`{}`", cell(&shown))
    }
}

/// Type, range and unit.
fn values(setting: &Setting) -> String {
    if let Some(words) = setting.kind.choices() {
        return cell(&words.join(", "));
    }
    let shown = |value: &str| match setting.shown(value) {
        shown if shown.is_empty() => value.to_owned(),
        shown => shown,
    };
    match setting.kind {
        Kind::Bool => "on, off".to_owned(),
        Kind::Choice(words) => cell(&words.join(", ")),
        Kind::Text(_) => "text".to_owned(),
        Kind::Integer(..) | Kind::Real(..) => match setting.kind.range() {
            Some((low, high)) if low == high => shown(&low),
            Some((low, high)) => format!("{} to {}", shown(&low), shown(&high)),
            None => String::new(),
        },
    }
}

fn changes(setting: &Setting) -> &'static str {
    match setting.context {
        Context::Internal => "never",
        Context::Start => "at a start",
        Context::Reload => "at a reload",
        Context::Session if setting.is_configurable() => "in a session",
        Context::Session => "only in a session",
    }
}

fn readme_table() -> String {
    let mut text = "| setting | default | effect |\n| --- | --- | --- |\n".to_owned();
    for name in SHOWN {
        let setting = find(name).unwrap_or_else(|| panic!("no setting {name}"));
        let effect = cell(&setting.description());
        writeln!(text, "| `{name}` | {} | {effect} |", default(setting)).expect("a string");
    }
    text
}

fn whole_table() -> String {
    let mut text = String::new();
    let mut category = "";
    for setting in all() {
        if setting.category() != category {
            category = setting.category();
            let head = "| setting | values | default | can change | effect |\n\
                        | --- | --- | --- | --- | --- |";
            writeln!(text, "\n## {category}\n\n{head}").expect("a string");
        }
        writeln!(
            text,
            "| `{}` | {} | {} | {} | {} |",
            setting.name,
            values(setting),
            default(setting),
            changes(setting),
            cell(&setting.description())
        )
        .expect("a string");
    }
    text.push('\n');
    text
}

/// Compares the part of a page between the marks with `table`, or writes it.
fn agree(page: &str, table: &str) {
    let path = root().join(page);
    let text = std::fs::read_to_string(&path).expect("the page");
    let (head, rest) = text.split_once(BEGIN).expect("the mark of the beginning");
    let (now, tail) = rest.split_once(END).expect("the mark of the end");
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, format!("{head}{BEGIN}{table}{END}{tail}")).expect("written");
    } else {
        assert_eq!(now, table, "{page} differs: run `cargo xtask settings`");
    }
}

#[test]
fn the_pages_have_the_settings_of_the_registry() {
    agree("README.md", &readme_table());
    agree("docs/settings.md", &whole_table());
}
