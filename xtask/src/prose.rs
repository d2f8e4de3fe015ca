//! How the sentences of comments and documents begin.

/// Words that begin no sentence: they make its reader wait for the subject.
const OPENINGS: [&str; 5] = ["What", "Who", "Whatever", "Whoever", "Whose"];

/// Finds the sentences of a file's comments, or of a document, that begin with one of
/// [`OPENINGS`]. A capital is taken for the beginning of a sentence, wherever it stands; code and
/// quotations are not read.
pub fn check(name: &str, text: &str, findings: &mut Vec<String>) {
    let is_source = name.ends_with(".rs");
    let mut fenced = false;
    for (at, line) in text.lines().enumerate() {
        let prose = match is_source {
            true => comment(line),
            false => Some(line),
        };
        let Some(prose) = prose else {
            fenced = false;
            continue;
        };
        if prose.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced && let Some(word) = opening(prose) {
            findings.push(format!(
                "{name}:{}: a sentence begins with `{word}`: name its subject",
                at + 1
            ));
        }
    }
}

/// The comment of a line of Rust.
fn comment(line: &str) -> Option<&str> {
    let code = line.trim_start();
    if let Some(comment) = code.strip_prefix("//") {
        return Some(comment.strip_prefix(['/', '!']).unwrap_or(comment));
    }
    let (code, comment) = line.split_once(" // ")?;
    let quotes = code.matches('"').count() - code.matches("\\\"").count();
    quotes.is_multiple_of(2).then_some(comment)
}

fn opening(prose: &str) -> Option<&'static str> {
    let outside = |mark: char, text: &str| {
        let parts: Vec<&str> = text.split(mark).step_by(2).collect();
        parts.join(&mark.to_string())
    };
    let plain = outside('"', &outside('`', prose));
    let mut words = plain.split(|c: char| !c.is_alphanumeric() && !"_-/'’“".contains(c));
    words.find_map(|word| OPENINGS.into_iter().find(|opening| *opening == word))
}

#[cfg(test)]
mod tests {
    use super::check;

    fn found(name: &str, text: &str) -> usize {
        let mut findings = Vec::new();
        check(name, text, &mut findings);
        findings.len()
    }

    #[test]
    fn sentences_that_hide_their_subject_are_found() {
        for opening in ["What", "Who", "Whatever", "Whoever", "Whose"] {
            for source in [
                format!("/// {opening} is left."),
                format!("//! Begins well. {opening} is left."),
                format!("    // ({opening} is left.)"),
                format!("    let a = 1; // {opening} is left"),
                format!("let a = \"b\"; // {opening} is left"),
                format!("/// ```\n/// code\n/// ```\n/// {opening} is left."),
            ] {
                assert_eq!(found("a.rs", &source), 1, "{source}");
            }
            for document in [
                format!("## {opening} is left"),
                format!("- **A-1. {opening} is left.**"),
                format!("| a | {opening} is left |"),
                format!("`code`. {opening} is `left`."),
            ] {
                assert_eq!(found("a.md", &document), 1, "{document}");
            }
        }
    }

    #[test]
    fn code_and_quotations_may_begin_as_they_like() {
        for source in [
            "enum What {}",
            "let a = \"x // What is left\";",
            "/// The state, and what is left of it; who holds it.",
            "/// `What`, \"What\", `a What b`, Whatnot, Who_am_i",
            "/// ```\n/// // What is left.\n/// ```",
        ] {
            assert_eq!(found("a.rs", source), 0, "{source}");
        }
        assert_eq!(found("a.md", "```\nWhat is left\n```\nnothing"), 0);
    }
}
