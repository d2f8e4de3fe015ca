//! The patterns of dates and times, taken apart.

use crate::call::Call;
use crate::error::ExprResult;

/// A keyword of a pattern. `Upper`, `Capital` and `Lower` say how names are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// `A.D.` or `B.C.`, with points or without, upper or lower
    Era {
        points: bool,
        upper: bool,
    },
    /// `A.M.` or `P.M.`
    HalfDay {
        points: bool,
        upper: bool,
    },
    Century,
    DayName(Case),
    DayAbbreviation(Case),
    DayOfYear,
    DayOfMonth,
    DayOfWeek,
    /// `FF1` to `FF6`
    Fraction(u8),
    Hour24,
    Hour12,
    IsoDayOfYear,
    IsoDayOfWeek,
    IsoWeek,
    /// `I` to `IYYY`, by the number of digits
    IsoYear(u8),
    Julian,
    Minute,
    Month,
    MonthName(Case),
    MonthAbbreviation(Case),
    Millisecond,
    Offset,
    Quarter,
    RomanMonth {
        upper: bool,
    },
    SecondOfDay,
    Second,
    ZoneHour,
    ZoneMinute,
    Zone {
        upper: bool,
    },
    Microsecond,
    WeekOfYear,
    WeekOfMonth,
    /// `Y,YYY`
    YearWithComma,
    /// `Y` to `YYYY`
    Year(u8),
}

/// How a name is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    Upper,
    Capital,
    Lower,
}

/// A part of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// A field.
    Field {
        key: Key,
        /// `FM`
        fill: bool,
        /// `TH` or `th`
        ordinal: Option<Case>,
        /// The keyword as written, for messages.
        word: &'static str,
    },
    /// A character that stands for itself.
    Literal(char),
    /// A blank.
    Space(char),
    /// Punctuation.
    Separator(char),
}

/// A pattern.
#[derive(Debug)]
pub struct Pattern {
    pub nodes: Vec<Node>,
    /// `FX`: input must have exactly this form.
    pub exact: bool,
}

/// Longer before shorter that they begin with.
const KEYS: &[(&str, Key)] = {
    use Case::{Capital, Lower, Upper};
    &[
        (
            "A.D.",
            Key::Era {
                points: true,
                upper: true,
            },
        ),
        (
            "A.M.",
            Key::HalfDay {
                points: true,
                upper: true,
            },
        ),
        (
            "AD",
            Key::Era {
                points: false,
                upper: true,
            },
        ),
        (
            "AM",
            Key::HalfDay {
                points: false,
                upper: true,
            },
        ),
        (
            "B.C.",
            Key::Era {
                points: true,
                upper: true,
            },
        ),
        (
            "BC",
            Key::Era {
                points: false,
                upper: true,
            },
        ),
        ("CC", Key::Century),
        ("DAY", Key::DayName(Upper)),
        ("DDD", Key::DayOfYear),
        ("DD", Key::DayOfMonth),
        ("DY", Key::DayAbbreviation(Upper)),
        ("Day", Key::DayName(Capital)),
        ("Dy", Key::DayAbbreviation(Capital)),
        ("D", Key::DayOfWeek),
        ("FF1", Key::Fraction(1)),
        ("FF2", Key::Fraction(2)),
        ("FF3", Key::Fraction(3)),
        ("FF4", Key::Fraction(4)),
        ("FF5", Key::Fraction(5)),
        ("FF6", Key::Fraction(6)),
        ("HH24", Key::Hour24),
        ("HH12", Key::Hour12),
        ("HH", Key::Hour12),
        ("IDDD", Key::IsoDayOfYear),
        ("ID", Key::IsoDayOfWeek),
        ("IW", Key::IsoWeek),
        ("IYYY", Key::IsoYear(4)),
        ("IYY", Key::IsoYear(3)),
        ("IY", Key::IsoYear(2)),
        ("I", Key::IsoYear(1)),
        ("J", Key::Julian),
        ("MI", Key::Minute),
        ("MM", Key::Month),
        ("MONTH", Key::MonthName(Upper)),
        ("MON", Key::MonthAbbreviation(Upper)),
        ("MS", Key::Millisecond),
        ("Month", Key::MonthName(Capital)),
        ("Mon", Key::MonthAbbreviation(Capital)),
        ("OF", Key::Offset),
        (
            "P.M.",
            Key::HalfDay {
                points: true,
                upper: true,
            },
        ),
        (
            "PM",
            Key::HalfDay {
                points: false,
                upper: true,
            },
        ),
        ("Q", Key::Quarter),
        ("RM", Key::RomanMonth { upper: true }),
        ("SSSSS", Key::SecondOfDay),
        ("SSSS", Key::SecondOfDay),
        ("SS", Key::Second),
        ("TZH", Key::ZoneHour),
        ("TZM", Key::ZoneMinute),
        ("TZ", Key::Zone { upper: true }),
        ("US", Key::Microsecond),
        ("WW", Key::WeekOfYear),
        ("W", Key::WeekOfMonth),
        ("Y,YYY", Key::YearWithComma),
        ("YYYY", Key::Year(4)),
        ("YYY", Key::Year(3)),
        ("YY", Key::Year(2)),
        ("Y", Key::Year(1)),
        (
            "a.d.",
            Key::Era {
                points: true,
                upper: false,
            },
        ),
        (
            "a.m.",
            Key::HalfDay {
                points: true,
                upper: false,
            },
        ),
        (
            "ad",
            Key::Era {
                points: false,
                upper: false,
            },
        ),
        (
            "am",
            Key::HalfDay {
                points: false,
                upper: false,
            },
        ),
        (
            "b.c.",
            Key::Era {
                points: true,
                upper: false,
            },
        ),
        (
            "bc",
            Key::Era {
                points: false,
                upper: false,
            },
        ),
        ("cc", Key::Century),
        ("day", Key::DayName(Lower)),
        ("ddd", Key::DayOfYear),
        ("dd", Key::DayOfMonth),
        ("dy", Key::DayAbbreviation(Lower)),
        ("d", Key::DayOfWeek),
        ("ff1", Key::Fraction(1)),
        ("ff2", Key::Fraction(2)),
        ("ff3", Key::Fraction(3)),
        ("ff4", Key::Fraction(4)),
        ("ff5", Key::Fraction(5)),
        ("ff6", Key::Fraction(6)),
        ("hh24", Key::Hour24),
        ("hh12", Key::Hour12),
        ("hh", Key::Hour12),
        ("iddd", Key::IsoDayOfYear),
        ("id", Key::IsoDayOfWeek),
        ("iw", Key::IsoWeek),
        ("iyyy", Key::IsoYear(4)),
        ("iyy", Key::IsoYear(3)),
        ("iy", Key::IsoYear(2)),
        ("i", Key::IsoYear(1)),
        ("j", Key::Julian),
        ("mi", Key::Minute),
        ("mm", Key::Month),
        ("month", Key::MonthName(Lower)),
        ("mon", Key::MonthAbbreviation(Lower)),
        ("ms", Key::Millisecond),
        ("of", Key::Offset),
        (
            "p.m.",
            Key::HalfDay {
                points: true,
                upper: false,
            },
        ),
        (
            "pm",
            Key::HalfDay {
                points: false,
                upper: false,
            },
        ),
        ("q", Key::Quarter),
        ("rm", Key::RomanMonth { upper: false }),
        ("sssss", Key::SecondOfDay),
        ("ssss", Key::SecondOfDay),
        ("ss", Key::Second),
        ("tzh", Key::ZoneHour),
        ("tzm", Key::ZoneMinute),
        ("tz", Key::Zone { upper: false }),
        ("us", Key::Microsecond),
        ("ww", Key::WeekOfYear),
        ("w", Key::WeekOfMonth),
        ("y,yyy", Key::YearWithComma),
        ("yyyy", Key::Year(4)),
        ("yyy", Key::Year(3)),
        ("yy", Key::Year(2)),
        ("y", Key::Year(1)),
    ]
};

impl Pattern {
    /// Takes a pattern apart, which is an argument of a call.
    ///
    /// # Errors
    /// 53200, 57014.
    pub fn of(call: &Call<'_>, text: &str) -> ExprResult<Pattern> {
        let (mut nodes, mut exact, mut rest) = (Vec::new(), false, text);
        call.room(text.len().saturating_mul(size_of::<Node>() * 2))?;
        let mut pace = call.pace();
        while !rest.is_empty() {
            pace.step(KEYS.len())?;
            if let Some(after) = rest.strip_prefix('"') {
                rest = quoted(after, &mut nodes);
                continue;
            }
            if let Some(after) = rest.strip_prefix("FX").or_else(|| rest.strip_prefix("fx")) {
                (exact, rest) = (true, after);
                continue;
            }
            if let Some((node, after)) = field(rest) {
                nodes.push(node);
                rest = after;
                continue;
            }
            // A modifier of a field has no effect where none follows.
            let modifiers = ["FM", "fm", "TM", "tm"];
            if let Some(after) = modifiers.iter().find_map(|of| rest.strip_prefix(of)) {
                rest = after;
                continue;
            }
            // A backslash hides a quote.
            let text = match rest.strip_prefix('\\') {
                Some(after) if after.starts_with('"') => after,
                _ => rest,
            };
            let mut characters = text.chars();
            nodes.extend(characters.next().map(literal));
            rest = characters.as_str();
        }
        Ok(Pattern { nodes, exact })
    }
}

fn literal(character: char) -> Node {
    if character.is_ascii_whitespace() {
        Node::Space(character)
    } else if character.is_ascii_graphic() && !character.is_ascii_alphanumeric() {
        Node::Separator(character)
    } else {
        Node::Literal(character)
    }
}

/// Text between quotes, in which a backslash hides any character.
fn quoted<'a>(text: &'a str, nodes: &mut Vec<Node>) -> &'a str {
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => break,
            '\\' => nodes.extend(characters.next().map(Node::Literal)),
            other => nodes.push(Node::Literal(other)),
        }
    }
    characters.as_str()
}

fn field(text: &str) -> Option<(Node, &str)> {
    let stripped = ["FM", "fm"].iter().find_map(|fm| text.strip_prefix(fm));
    let (mut fill, mut rest) = (stripped.is_some(), stripped.unwrap_or(text));
    // TM, for names in another language, is of no effect in the language that there is.
    if let Some(after) = rest.strip_prefix("TM").or_else(|| rest.strip_prefix("tm")) {
        (fill, rest) = (true, after);
    }
    let (word, key) = KEYS.iter().find(|(word, _)| rest.starts_with(word))?;
    let after = &rest[word.len()..];
    let (ordinal, after) = match after.get(..2) {
        Some("TH") => (Some(Case::Upper), &after[2..]),
        Some("th") => (Some(Case::Lower), &after[2..]),
        _ => (None, after),
    };
    let node = Node::Field {
        key: *key,
        fill,
        ordinal,
        word,
    };
    Some((node, after))
}
