//! The numbered rules of the READMEs: each has an id (`BUF-7`) that code cites, and names the tests
//! and types that enforce it. Both directions are checked against the items of the sources, and so
//! are the names on the pages of `docs/design`.

use std::collections::{HashMap, HashSet};

/// A rule that nothing cites by name, but every third rule names as its test, is not enforced by
/// it: a failure would not tell which rule was broken.
const CATCH_ALL: usize = 6;

/// The items that the sources define, by what a rule may name.
#[derive(Default)]
pub struct Items {
    tests: HashSet<String>,
    types: HashSet<String>,
    /// Functions that are no tests, constants, statics, macros, variants.
    others: HashSet<String>,
    /// Fields, and values that a `match` spells: settings, and the words of a format.
    fields: HashSet<String>,
}

impl Items {
    /// Adds what one source file defines, in rustfmt's layout: one item a line.
    pub fn add(&mut self, text: &str) {
        let mut is_test = false;
        for line in text.lines().map(without_comment) {
            let code = line.trim();
            if code.starts_with("#[") {
                is_test |= code.starts_with("#[test]") || code.starts_with("#[tokio::test");
                continue;
            }
            let Some((keyword, name)) = definition(code) else {
                if !code.is_empty() {
                    is_test = false;
                }
                self.variant(line);
                self.field(code);
                continue;
            };
            let set = match keyword {
                "fn" if is_test => &mut self.tests,
                "struct" | "enum" | "trait" | "union" | "type" => &mut self.types,
                _ => &mut self.others,
            };
            set.insert(name.to_owned());
            is_test = false;
        }
    }

    /// Adds a file of recorded statements, which a rule names as its test.
    pub fn add_statements(&mut self, file: &str) {
        self.tests.insert(file.to_owned());
    }

    /// `    Name,`, `    Name {` and `    Name(…),`: a variant of an enum.
    fn variant(&mut self, line: &str) {
        let code = line.trim();
        let name = identifier(code);
        let rest = &code[name.len()..];
        if line.starts_with(' ')
            && name.starts_with(char::is_uppercase)
            && (rest == "," || rest == " {" || rest.starts_with('('))
        {
            self.others.insert(name.to_owned());
        }
    }

    /// `name: Type,`: a field. (So is a parameter, on a line of its own.) `"name" =>`: a value.
    fn field(&mut self, code: &str) {
        if let Some((value, _)) = code.strip_prefix('"').and_then(|c| c.split_once("\" =>")) {
            self.fields.insert(value.to_owned());
            return;
        }
        let code = code.strip_prefix("pub ").unwrap_or(code);
        let code = code.strip_prefix("pub(crate) ").unwrap_or(code);
        let code = code.strip_prefix("pub(super) ").unwrap_or(code);
        let name = identifier(code);
        if code[name.len()..].starts_with(": ") {
            self.fields.insert(name.to_owned());
        }
    }

    fn knows(&self, name: &str) -> bool {
        [&self.tests, &self.types, &self.others]
            .iter()
            .any(|set| set.contains(name))
    }

    /// Whether `path` (`a_test`, `Type`, `Type::method`) is a test or belongs to a type.
    fn enforces(&self, path: &str) -> bool {
        let first = path.split("::").next().unwrap_or(path);
        self.tests.contains(path) || self.types.contains(first)
    }
}

/// The rules of all READMEs.
#[derive(Default)]
pub struct Rules {
    /// Where each rule stands.
    at: HashMap<String, String>,
    prefixes: HashSet<String>,
    /// Which rules name a test.
    named: HashMap<String, Vec<String>>,
}

impl Rules {
    /// Reads the rules of one README: list items that begin `- **ID-N. `.
    pub fn add(&mut self, name: &str, text: &str, items: &Items, findings: &mut Vec<String>) {
        let mut rule: Option<(usize, String)> = None;
        for (i, line) in text.lines().chain(["# end"]).enumerate() {
            let continues = line.starts_with("  ") || line.trim().is_empty();
            match &mut rule {
                Some((_, so_far)) if continues => {
                    so_far.push('\n');
                    so_far.push_str(line);
                }
                _ => {
                    if let Some((at, whole)) = rule.take() {
                        self.rule(&format!("{name}:{at}"), &whole, items, findings);
                    }
                    let numbered = line
                        .split_once(". **")
                        .is_some_and(|(n, _)| n.parse::<u32>().is_ok());
                    if numbered {
                        findings.push(format!("{name}:{}: a rule without an id", i + 1));
                    }
                    rule = line.starts_with("- **").then(|| (i + 1, line.to_owned()));
                }
            }
        }
    }

    fn rule(&mut self, at: &str, rule: &str, items: &Items, findings: &mut Vec<String>) {
        let Some(id) = citations(rule).next().filter(|id| {
            rule.strip_prefix("- **")
                .is_some_and(|rest| rest.starts_with(&format!("{id}. ")))
        }) else {
            return; // An ordinary list item.
        };
        if let Some(other) = self.at.insert(id.to_owned(), at.to_owned()) {
            findings.push(format!("{at}: {id} is also at {other}"));
        }
        let prefix = id.split_once('-').map_or(id, |(prefix, _)| prefix);
        self.prefixes.insert(prefix.to_owned());
        let Some((_, by)) = rule.split_once("Enforced by:") else {
            findings.push(format!("{at}: {id} without `Enforced by:`"));
            return;
        };
        let named: Vec<&str> = by.split('`').skip(1).step_by(2).collect();
        for path in &named {
            if let Some(missing) = path.split("::").find(|part| !items.knows(part)) {
                findings.push(format!("{at}: {id}: `{path}`: no item `{missing}`"));
            }
            if items.tests.contains(*path) {
                let rules = self.named.entry((*path).to_owned()).or_default();
                rules.push(id.to_owned());
            }
        }
        if !named.iter().any(|path| items.enforces(path)) {
            findings.push(format!("{at}: {id} names neither a test nor a type"));
        }
    }

    /// Checks that every rule that `text` cites exists.
    pub fn check_citations(&self, name: &str, text: &str, findings: &mut Vec<String>) {
        for (i, line) in text.lines().enumerate() {
            for id in citations(line) {
                let prefix = id.split_once('-').map_or(id, |(prefix, _)| prefix);
                if self.prefixes.contains(prefix) && !self.at.contains_key(id) {
                    findings.push(format!("{name}:{}: no rule {id}", i + 1));
                }
            }
            if is_cited_by_number(line) {
                findings.push(format!("{name}:{}: a rule cited without its id", i + 1));
            }
        }
    }

    /// A test that many rules name is a catch-all.
    pub fn check_catch_alls(&self, findings: &mut Vec<String>) {
        for (test, rules) in &self.named {
            if rules.len() > CATCH_ALL {
                let rules = rules.join(", ");
                findings.push(format!(
                    "`{test}` is named by more than {CATCH_ALL} rules: {rules}"
                ));
            }
        }
    }
}

/// Checks that the tests, functions and settings that a page of the design names exist: all that
/// is between backticks and reads like one, words joined by underscores.
pub fn check_names(name: &str, text: &str, items: &Items, findings: &mut Vec<String>) {
    for (i, line) in text.lines().enumerate() {
        let names = line.split('`').skip(1).step_by(2).filter(|word| {
            let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            word.contains('_') && word.chars().all(is_part)
        });
        for word in names.filter(|word| !items.knows(word) && !items.fields.contains(*word)) {
            findings.push(format!("{name}:{}: no item `{word}`", i + 1));
        }
    }
}

/// Items of the standard library and of dependencies that pages name.
const FOREIGN: [&str; 2] = ["Send", "crc_fast::crc32_iscsi"];

/// Checks that the items that a page names exist: all that is between backticks and reads like
/// `Type`, `Type::method` or `module::function`.
pub fn check_items(name: &str, text: &str, items: &Items, findings: &mut Vec<String>) {
    let mut fenced = false;
    for (i, line) in text.lines().enumerate() {
        fenced ^= line.starts_with("```");
        if fenced {
            continue;
        }
        for path in line.split('`').skip(1).step_by(2) {
            let is_camel = |part: &str| {
                part.starts_with(char::is_uppercase) && part.contains(char::is_lowercase)
            };
            let is_item = |part: &str| !part.is_empty() && identifier(part) == part;
            let parts: Vec<&str> = path.split("::").collect();
            let reads_so = !FOREIGN.contains(&path)
                && parts.iter().all(|part| is_item(part))
                && (parts.len() > 1 || is_camel(path));
            let known = |part: &str| items.knows(part) || items.fields.contains(part);
            if reads_so && let Some(missing) = parts.iter().find(|part| !known(part)) {
                findings.push(format!("{name}:{}: `{path}`: no item `{missing}`", i + 1));
            }
        }
    }
}

/// `buffer rule 7`, the form that ids replace.
fn is_cited_by_number(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    words.windows(2).any(|pair| {
        let number = pair[1].trim_end_matches(|c: char| !c.is_ascii_digit());
        (pair[0].eq_ignore_ascii_case("rule") || pair[0] == "rules")
            && !number.is_empty()
            && number.bytes().all(|b| b.is_ascii_digit())
    })
}

/// Words that look like the id of a rule: capitals, a hyphen, a number.
fn citations(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-')
        .filter(|word| {
            word.split_once('-').is_some_and(|(prefix, number)| {
                prefix.len() > 1
                    && prefix.bytes().all(|b| b.is_ascii_uppercase())
                    && !number.is_empty()
                    && number.bytes().all(|b| b.is_ascii_digit())
            })
        })
}

/// The keyword and the name that a line defines.
fn definition(code: &str) -> Option<(&'static str, &str)> {
    const KEYWORDS: [&str; 9] = [
        "fn", "struct", "enum", "trait", "union", "type", "const", "static", "mod",
    ];
    if let Some(rest) = code.strip_prefix("macro_rules! ") {
        return Some(("macro", identifier(rest)));
    }
    let mut rest = code;
    for _ in 0..6 {
        let (word, behind) = rest.split_once(' ')?;
        if let Some(keyword) = KEYWORDS.iter().find(|keyword| **keyword == word) {
            let name = identifier(behind.trim_start_matches("mut "));
            // `const fn`: the function's name follows.
            if *keyword == "const" && name == "fn" {
                rest = behind;
                continue;
            }
            return (!name.is_empty()).then_some((*keyword, name));
        }
        let is_modifier = word.starts_with("pub")
            || ["async", "unsafe", "extern", "default", "crate)", "super)"].contains(&word)
            || word.starts_with('"');
        if !is_modifier {
            return None;
        }
        rest = behind;
    }
    None
}

fn identifier(text: &str) -> &str {
    let end = text
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(text.len());
    &text[..end]
}

/// A line up to its comment. (A `//` within a string ends it too.)
fn without_comment(line: &str) -> &str {
    line.split_once("//").map_or(line, |(code, _)| code)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "\
/// `documented`
struct Kept; // dropped
impl Kept {
    pub(crate) const fn held(&self) {}
}
fn helper() { word(); }
#[test]
fn it_holds() {}
";

    fn findings(rule: &str) -> Vec<String> {
        let mut items = Items::default();
        items.add(SOURCE);
        let (mut rules, mut findings) = (Rules::default(), Vec::new());
        rules.add("README.md", rule, &items, &mut findings);
        findings
    }

    #[test]
    fn a_rule_is_enforced_by_an_item_and_not_by_a_word() {
        let found = |by: &str| findings(&format!("- **AB-1. It holds.** Enforced by: {by}."));
        for good in ["`it_holds`", "`Kept`", "`Kept::held`", "`helper`, `Kept`"] {
            assert_eq!(found(good), [""; 0], "{good}");
        }
        for bad in [
            "`dropped`",
            "`documented`",
            "`word`",
            "`helper`",
            "care",
            "`Kept::gone`",
        ] {
            assert_eq!(found(bad).len().min(1), 1, "{bad}");
        }
    }

    #[test]
    fn a_rule_has_an_id_of_its_own() {
        let rule = "- **AB-1. It holds.** Enforced by: `it_holds`.\n";
        assert_eq!(findings(&format!("{rule}{rule}")).len(), 1);
        assert_eq!(
            findings("1. **It holds.** Enforced by: `it_holds`.").len(),
            1
        );
        assert_eq!(findings("- **AB-1. It holds.** Always.").len(), 1);
        assert_eq!(findings("- **Note.** No rule."), [""; 0]);
    }

    #[test]
    fn a_citation_names_a_rule_that_exists() {
        let mut items = Items::default();
        items.add(SOURCE);
        let (mut rules, mut found) = (Rules::default(), Vec::new());
        let text = "- **AB-1. It holds.**\n  Enforced by: `it_holds`.\n";
        rules.add("README.md", text, &items, &mut found);
        rules.check_citations("a.rs", "// See AB-1, UTF-8 and SHA-256.", &mut found);
        assert_eq!(found, [""; 0]);
        rules.check_citations("a.rs", "// See AB-2.", &mut found);
        rules.check_citations("a.rs", "// (buffer rule 7).", &mut found);
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn a_page_of_the_design_names_what_exists() {
        let mut items = Items::default();
        items.add(SOURCE);
        items.add("struct Options {\n    pub(crate) full_writes: bool,\n}\n");
        items.add("    \"full_pages\" => Options::FULL,\n");
        let mut found = Vec::new();
        let good =
            "| 1 | lost | `it_holds`; with `full_writes`, `full_pages` | `kept == 2` | `Kept` |";
        check_names("log.md", good, &items, &mut found);
        assert_eq!(found, [""; 0]);
        check_names("log.md", "\n`it_held`, `half_writes`", &items, &mut found);
        let expected = ["it_held", "half_writes"].map(|name| format!("log.md:2: no item `{name}`"));
        assert_eq!(found, expected);
    }

    #[test]
    fn a_test_that_many_rules_name_is_a_catch_all() {
        let mut items = Items::default();
        items.add(SOURCE);
        let (mut rules, mut found) = (Rules::default(), Vec::new());
        let text: String = (0..=CATCH_ALL)
            .map(|n| format!("- **AB-{n}. It holds.** Enforced by: `it_holds`.\n"))
            .collect();
        rules.add("README.md", &text, &items, &mut found);
        rules.check_catch_alls(&mut found);
        assert_eq!(found.len(), 1, "{found:?}");
    }
}
