//! PostgreSQL's advanced regular expressions in the syntax of the library that runs them.
//!
//! Classes of characters and case are those of the C locale.

use crate::error::{self, ExprResult};
use evenkeel_types::TypeError;

/// Deeper parentheses are refused.
const MAX_DEPTH: usize = 100;
/// PostgreSQL's largest bound.
const MAX_BOUND: u32 = 255;

/// Options, by flags or at the beginning of an expression.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Options {
    /// `i`
    pub insensitive: bool,
    /// `n`, `m`, `p`: points and complements leave out newlines.
    pub newline_stops: bool,
    /// `n`, `m`, `w`: lines have their own beginning and end.
    pub lines: bool,
    /// `x`
    pub expanded: bool,
    /// `q`
    pub literal: bool,
    /// `g`
    pub global: bool,
}

impl Options {
    /// Of a function's flags.
    ///
    /// # Errors
    /// 22023 for a letter that is none.
    pub fn of(flags: &str) -> ExprResult<Options> {
        let mut options = Options::default();
        for flag in flags.chars() {
            match flag {
                'g' => options.global = true,
                other if options.set(other) => {}
                other => {
                    let message = format!("invalid regular expression option: \"{other}\"");
                    return Err(error::parameter(message));
                }
            }
        }
        Ok(options)
    }

    fn set(&mut self, flag: char) -> bool {
        match flag {
            'i' => self.insensitive = true,
            'c' => self.insensitive = false,
            'n' | 'm' => (self.newline_stops, self.lines) = (true, true),
            's' => (self.newline_stops, self.lines) = (false, false),
            'p' => (self.newline_stops, self.lines) = (true, false),
            'w' => (self.newline_stops, self.lines) = (false, true),
            'x' => self.expanded = true,
            't' => self.expanded = false,
            'q' => self.literal = true,
            // Extended expressions are taken for advanced ones, of which they are a part.
            'e' => {}
            _ => return false,
        }
        true
    }
}

/// An expression in the library's syntax.
#[derive(Debug, PartialEq, Eq)]
pub struct Translated {
    /// The expression.
    pub text: String,
    /// Whether the longest match is wanted, and not the shortest.
    pub longest: bool,
}

fn invalid(why: &str) -> TypeError {
    error::regular_expression(format!("invalid regular expression: {why}"))
}

/// Translates an expression.
///
/// # Errors
/// 2201B; 0A000 for back references and for looking ahead or behind.
pub fn translate(pattern: &str, mut options: Options) -> ExprResult<Translated> {
    let mut text = pattern;
    if let Some(rest) = text.strip_prefix("***=") {
        (options.literal, text) = (true, rest);
    } else if let Some(rest) = text.strip_prefix("***:") {
        text = rest;
    } else if text.starts_with("***") {
        return Err(invalid("quantifier operand invalid"));
    }
    if !options.literal
        && let Some(rest) = text.strip_prefix("(?")
        && let Some((letters, rest)) = rest.split_once(')')
        && letters.starts_with(|c: char| c.is_ascii_alphabetic())
    {
        for letter in letters.chars() {
            if letter == 'b' {
                return Err(error::unsupported(
                    "basic regular expressions are not supported",
                ));
            }
            if !options.set(letter) {
                return Err(invalid("invalid embedded option"));
            }
        }
        text = rest;
    }
    let mut parser = Parser {
        rest: text,
        options,
        out: String::new(),
        depth: 0,
    };
    if options.literal {
        for character in text.chars() {
            parser.literal(character);
        }
        return Ok(Translated {
            text: parser.out,
            longest: true,
        });
    }
    let greed = parser.alternatives()?;
    if !parser.rest.is_empty() {
        return Err(invalid("parentheses () not balanced"));
    }
    Ok(Translated {
        text: parser.out,
        longest: greed != Some(false),
    })
}

struct Parser<'a> {
    rest: &'a str,
    options: Options,
    out: String,
    depth: usize,
}

/// Whether a part prefers the longest match; `None` without a preference.
type Greed = Option<bool>;

impl Parser<'_> {
    fn next(&mut self) -> Option<char> {
        let character = self.rest.chars().next()?;
        self.rest = &self.rest[character.len_utf8()..];
        Some(character)
    }

    fn eat(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// A character that stands for itself.
    fn literal(&mut self, character: char) {
        if self.options.insensitive && character.is_ascii_alphabetic() {
            let (upper, lower) = (
                character.to_ascii_uppercase(),
                character.to_ascii_lowercase(),
            );
            self.out.push_str(&format!("[{upper}{lower}]"));
        } else if character.is_alphanumeric() {
            self.out.push(character);
        } else {
            self.out
                .push_str(&format!("\\x{{{:x}}}", u32::from(character)));
        }
    }

    fn alternatives(&mut self) -> ExprResult<Greed> {
        let mut greed = self.branch()?;
        while self.eat("|") {
            self.out.push('|');
            self.branch()?;
            greed = Some(true);
        }
        Ok(greed)
    }

    fn branch(&mut self) -> ExprResult<Greed> {
        let mut greed = None;
        loop {
            if self.options.expanded {
                self.skip_comments();
            }
            if self.rest.is_empty() || self.rest.starts_with(['|', ')']) {
                return Ok(greed);
            }
            greed = greed.or(self.piece()?);
        }
    }

    fn skip_comments(&mut self) {
        loop {
            let trimmed = self
                .rest
                .trim_start_matches(|c: char| c.is_ascii_whitespace());
            self.rest = match trimmed.strip_prefix('#') {
                Some(comment) => comment.split_once('\n').map_or("", |(_, rest)| rest),
                None => {
                    self.rest = trimmed;
                    return;
                }
            };
        }
    }

    /// An atom with its quantifier, or a constraint.
    fn piece(&mut self) -> ExprResult<Greed> {
        if self.rest.starts_with("(?#") {
            self.rest = self.rest.split_once(')').map_or("", |(_, rest)| rest);
            return Ok(None);
        }
        if self.constraint()? {
            if self.rest.starts_with(['*', '+', '?']) {
                return Err(invalid("quantifier operand invalid"));
            }
            return Ok(None);
        }
        let start = self.out.len();
        let inner = self.atom()?;
        if self.options.expanded {
            self.skip_comments();
        }
        self.quantifier(start, inner)
    }

    fn constraint(&mut self) -> ExprResult<bool> {
        let constraints = [
            ("^", if self.options.lines { "(?m:^)" } else { "\\A" }),
            ("$", if self.options.lines { "(?m:$)" } else { "\\z" }),
            ("\\A", "\\A"),
            ("\\Z", "\\z"),
            ("\\m", "(?-u:\\b{start})"),
            ("[[:<:]]", "(?-u:\\b{start})"),
            ("\\M", "(?-u:\\b{end})"),
            ("[[:>:]]", "(?-u:\\b{end})"),
            ("\\y", "(?-u:\\b)"),
        ];
        for (ours, theirs) in constraints {
            if self.eat(ours) {
                self.out.push_str(theirs);
                return Ok(true);
            }
        }
        if self.rest.starts_with("\\Y") {
            let message = "\\Y in a regular expression is not supported";
            return Err(error::unsupported(message));
        }
        Ok(false)
    }

    fn atom(&mut self) -> ExprResult<Greed> {
        let Some(character) = self.next() else {
            return Ok(None);
        };
        match character {
            '(' => return self.group(),
            '[' => self.bracket()?,
            '.' => self.out.push_str(match self.options.newline_stops {
                true => "[^\\n]",
                false => "(?s:.)",
            }),
            '\\' => self.escape()?,
            '*' | '+' | '?' => return Err(invalid("quantifier operand invalid")),
            '{' if self.rest.starts_with(|c: char| c.is_ascii_digit()) => {
                return Err(invalid("quantifier operand invalid"));
            }
            other => self.literal(other),
        }
        Ok(None)
    }

    fn group(&mut self) -> ExprResult<Greed> {
        for looking in ["?=", "?!", "?<=", "?<!"] {
            if self.rest.starts_with(looking) {
                let message = "lookahead and lookbehind in regular expressions are not supported";
                return Err(error::unsupported(message));
            }
        }
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(error::too_large("regular expression is too complex"));
        }
        let open = if self.eat("?:") { "(?:" } else { "(" };
        self.out.push_str(open);
        let greed = self.alternatives()?;
        if !self.eat(")") {
            return Err(invalid("parentheses () not balanced"));
        }
        self.out.push(')');
        self.depth -= 1;
        Ok(greed)
    }

    fn quantifier(&mut self, start: usize, inner: Greed) -> ExprResult<Greed> {
        let bound = match self.rest.chars().next() {
            Some(mark @ ('*' | '+' | '?')) => {
                self.next();
                mark.to_string()
            }
            Some('{') if self.rest[1..].starts_with(|c: char| c.is_ascii_digit()) => {
                self.bound()?
            }
            _ => return Ok(inner),
        };
        let lazy = self.eat("?");
        if self.rest.starts_with(['*', '+', '?'])
            || self.rest.starts_with('{')
                && self.rest[1..].starts_with(|c: char| c.is_ascii_digit())
        {
            return Err(invalid("quantifier operand invalid"));
        }
        // One atom may have become several characters.
        self.out.insert_str(start, "(?:");
        self.out.push(')');
        self.out.push_str(&bound);
        if lazy {
            self.out.push('?');
        }
        // A fixed number of repetitions has the atom's preference.
        match bound.starts_with('{') && !bound.contains(',') {
            true => Ok(inner),
            false => Ok(Some(!lazy)),
        }
    }

    fn bound(&mut self) -> ExprResult<String> {
        let (inside, rest) = self.rest[1..]
            .split_once('}')
            .ok_or_else(|| invalid("invalid repetition count(s)"))?;
        let number = |text: &str| {
            let number = text
                .parse::<u32>()
                .ok()
                .filter(|number| *number <= MAX_BOUND);
            number.ok_or_else(|| invalid("invalid repetition count(s)"))
        };
        let bound = match inside.split_once(',') {
            None => format!("{{{}}}", number(inside)?),
            Some((least, "")) => format!("{{{},}}", number(least)?),
            Some((least, most)) => {
                let (least, most) = (number(least)?, number(most)?);
                if least > most {
                    return Err(invalid("invalid repetition count(s)"));
                }
                format!("{{{least},{most}}}")
            }
        };
        self.rest = rest;
        Ok(bound)
    }

    fn escape(&mut self) -> ExprResult<()> {
        let Some(character) = self.rest.chars().next() else {
            return Err(invalid("invalid escape \\ sequence"));
        };
        let class = class_of_escape(character);
        if let Some((ranges, complement)) = class {
            self.next();
            let ranges = ranges_text(&ranges);
            self.out.push_str(&match complement {
                true => format!("[^{ranges}]"),
                false => format!("[{ranges}]"),
            });
            return Ok(());
        }
        if matches!(character, '1'..='9') {
            let message = "back references in regular expressions are not supported";
            return Err(error::unsupported(message));
        }
        let character = self.escaped()?;
        self.literal(character);
        Ok(())
    }

    /// The character that an escape stands for.
    fn escaped(&mut self) -> ExprResult<char> {
        let Some(character) = self.next() else {
            return Err(invalid("invalid escape \\ sequence"));
        };
        let code = |parser: &mut Self, least: usize, most: usize, radix: u32| {
            let digits = parser
                .rest
                .chars()
                .take(most)
                .take_while(|c| c.is_digit(radix))
                .count();
            let text = parser.rest.get(..digits).unwrap_or_default();
            let code = u32::from_str_radix(text, radix)
                .ok()
                .and_then(char::from_u32);
            parser.rest = parser.rest.get(digits..).unwrap_or_default();
            code.filter(|_| digits >= least)
                .ok_or_else(|| invalid("invalid escape \\ sequence"))
        };
        match character {
            'a' => Ok('\x07'),
            'b' => Ok('\x08'),
            'B' => Ok('\\'),
            'c' => {
                let control = self.next().map(|c| char::from(c as u8 & 0x1f));
                control.ok_or_else(|| invalid("invalid escape \\ sequence"))
            }
            'e' => Ok('\x1b'),
            'f' => Ok('\x0c'),
            'n' => Ok('\n'),
            'r' => Ok('\r'),
            't' => Ok('\t'),
            'v' => Ok('\x0b'),
            'u' => code(self, 4, 4, 16),
            'U' => code(self, 8, 8, 16),
            'x' => code(self, 1, 255, 16),
            '0' if !self.rest.starts_with(|c: char| c.is_digit(8)) => Ok('\0'),
            '0' => code(self, 1, 2, 8),
            other if other.is_ascii_alphanumeric() => Err(invalid("invalid escape \\ sequence")),
            other => Ok(other),
        }
    }

    fn bracket(&mut self) -> ExprResult<()> {
        let unbalanced = || invalid("brackets [] not balanced");
        let complement = self.eat("^");
        let mut ranges = Vec::new();
        let mut first = true;
        loop {
            if !first && self.eat("]") {
                break;
            }
            first = false;
            let Some(start) = self.element(&mut ranges)? else {
                continue;
            };
            let is_range = self.rest.starts_with('-') && !self.rest.starts_with("-]");
            if !is_range {
                ranges.push((start, start));
                continue;
            }
            self.next();
            let end = self.element(&mut Vec::new())?;
            let end = end.ok_or_else(|| invalid("invalid character range"))?;
            if end < start {
                return Err(invalid("invalid character range"));
            }
            ranges.push((start, end));
        }
        if ranges.is_empty() {
            return Err(unbalanced());
        }
        if self.options.insensitive {
            with_both_cases(&mut ranges);
        }
        if complement && self.options.newline_stops {
            ranges.push(('\n', '\n'));
        }
        let (not, ranges) = (if complement { "^" } else { "" }, ranges_text(&ranges));
        self.out.push_str(&format!("[{not}{ranges}]"));
        Ok(())
    }

    /// An element of a bracket expression; `None` when it was a class, which is added.
    fn element(&mut self, ranges: &mut Vec<(char, char)>) -> ExprResult<Option<char>> {
        let unbalanced = || invalid("brackets [] not balanced");
        for (open, close) in [("[:", ":]"), ("[.", ".]"), ("[=", "=]")] {
            if !self.eat(open) {
                continue;
            }
            let (name, rest) = self.rest.split_once(close).ok_or_else(unbalanced)?;
            self.rest = rest;
            if open == "[:" {
                let class = class(name).ok_or_else(|| invalid("invalid character class"))?;
                ranges.extend(class);
                return Ok(None);
            }
            let mut characters = name.chars();
            return match (characters.next(), characters.next()) {
                (Some(one), None) => Ok(Some(one)),
                _ => Err(invalid("invalid collating element")),
            };
        }
        match self.next() {
            None => Err(unbalanced()),
            Some('\\') => {
                let class = self.rest.chars().next().and_then(class_of_escape);
                match class {
                    Some((class, false)) => {
                        self.next();
                        ranges.extend(class);
                        Ok(None)
                    }
                    Some(_) => Err(invalid("invalid escape \\ sequence")),
                    None => self.escaped().map(Some),
                }
            }
            Some(character) => Ok(Some(character)),
        }
    }
}

fn with_both_cases(ranges: &mut Vec<(char, char)>) {
    let letters: Vec<char> = ('a'..='z').chain('A'..='Z').collect();
    let inside = |letter: char| {
        ranges
            .iter()
            .any(|(start, end)| (*start..=*end).contains(&letter))
    };
    let added: Vec<(char, char)> = letters
        .into_iter()
        .filter(|letter| inside(*letter))
        .map(|letter| match letter.is_ascii_lowercase() {
            true => letter.to_ascii_uppercase(),
            false => letter.to_ascii_lowercase(),
        })
        .map(|letter| (letter, letter))
        .collect();
    ranges.extend(added);
}

fn ranges_text(ranges: &[(char, char)]) -> String {
    let mut text = String::new();
    for (start, end) in ranges {
        text.push_str(&format!(
            "\\x{{{:x}}}-\\x{{{:x}}}",
            u32::from(*start),
            u32::from(*end)
        ));
    }
    text
}

const DIGITS: (char, char) = ('0', '9');
const LOWER: (char, char) = ('a', 'z');
const UPPER: (char, char) = ('A', 'Z');

fn class(name: &str) -> Option<Vec<(char, char)>> {
    Some(match name {
        "alnum" => vec![DIGITS, LOWER, UPPER],
        "alpha" => vec![LOWER, UPPER],
        "ascii" => vec![('\0', '\x7f')],
        "blank" => vec![(' ', ' '), ('\t', '\t')],
        "cntrl" => vec![('\0', '\x1f'), ('\x7f', '\x7f')],
        "digit" => vec![DIGITS],
        "graph" => vec![('!', '~')],
        "lower" => vec![LOWER],
        "print" => vec![(' ', '~')],
        "punct" => vec![('!', '/'), (':', '@'), ('[', '`'), ('{', '~')],
        "space" => vec![('\t', '\r'), (' ', ' ')],
        "upper" => vec![UPPER],
        "word" => vec![DIGITS, LOWER, UPPER, ('_', '_')],
        "xdigit" => vec![DIGITS, ('a', 'f'), ('A', 'F')],
        _ => return None,
    })
}

/// The class of an escape, and whether what is not of it is meant.
fn class_of_escape(character: char) -> Option<(Vec<(char, char)>, bool)> {
    let name = match character.to_ascii_lowercase() {
        'd' => "digit",
        's' => "space",
        'w' => "word",
        _ => return None,
    };
    class(name).map(|class| (class, character.is_ascii_uppercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(pattern: &str) -> Translated {
        translate(pattern, Options::default()).unwrap()
    }

    #[test]
    fn the_first_quantified_atom_decides_how_long_a_match_is() {
        assert!(translated("a*b*?").longest);
        assert!(!translated("a*?b*").longest);
        assert!(!translated("x(a*?)b*").longest);
        assert!(translated("a*?|b").longest);
        assert!(translated("abc").longest);
    }

    #[test]
    fn what_does_not_parse_is_refused() {
        for pattern in [
            "(",
            ")",
            "a**",
            "*a",
            "[a",
            "a{2,1}",
            "a{256}",
            "\\q",
            "[[:foo:]]",
            "***x",
        ] {
            let error = translate(pattern, Options::default()).unwrap_err();
            assert_eq!(error.sqlstate.as_str(), "2201B", "{pattern}");
        }
        for pattern in ["(a)\\1", "a(?=b)", "(?<!a)b"] {
            let error = translate(pattern, Options::default()).unwrap_err();
            assert_eq!(error.sqlstate.as_str(), "0A000", "{pattern}");
        }
    }
}
