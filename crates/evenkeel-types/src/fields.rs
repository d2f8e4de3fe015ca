//! Splits the text of a date, time or interval into fields, as PostgreSQL's `ParseDateTime` does.

/// Most fields of a text.
const MAX_FIELDS: usize = 25;

/// The looks of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Digits, perhaps with one point.
    Number,
    /// Parts joined by `-`, `/` or `.`.
    Date,
    /// `HH:MM…`
    Time,
    /// A sign and a number.
    Signed,
    /// Letters.
    Word,
    /// A sign and letters.
    Special,
}

/// A field, in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its looks.
    pub kind: Kind,
    /// Its characters.
    pub text: String,
}

/// The words of dates: digits that follow one directly begin a field of their own.
const DATE_WORDS: &[&str] = &[
    "ad",
    "allballs",
    "am",
    "apr",
    "april",
    "at",
    "aug",
    "august",
    "bc",
    "d",
    "dec",
    "december",
    "dow",
    "doy",
    "dst",
    "epoch",
    "feb",
    "february",
    "fri",
    "friday",
    "h",
    "infinity",
    "isodow",
    "isoyear",
    "j",
    "jan",
    "january",
    "jd",
    "jul",
    "julian",
    "july",
    "jun",
    "june",
    "m",
    "mar",
    "march",
    "may",
    "mm",
    "mon",
    "monday",
    "nov",
    "november",
    "now",
    "oct",
    "october",
    "on",
    "pm",
    "s",
    "sat",
    "saturday",
    "sep",
    "sept",
    "september",
    "sun",
    "sunday",
    "t",
    "thu",
    "thur",
    "thurs",
    "thursday",
    "today",
    "tomorrow",
    "tue",
    "tues",
    "tuesday",
    "wed",
    "wednesday",
    "weds",
    "y",
    "yesterday",
];

fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

/// The fields of a text; `None` for one that has none of these forms.
pub fn split(text: &str) -> Option<Vec<Field>> {
    let mut splitter = Splitter { text, at: 0 };
    let mut fields = Vec::new();
    while let Some(first) = splitter.peek() {
        let start = splitter.at;
        let kind = match first {
            _ if is_space(first) => {
                splitter.at += 1;
                continue;
            }
            b'0'..=b'9' => splitter.number(),
            b'.' => {
                splitter.at += 1;
                splitter.run(|b| b.is_ascii_digit());
                Kind::Number
            }
            b'a'..=b'z' | b'A'..=b'Z' => splitter.word(),
            b'+' | b'-' => {
                fields.push(splitter.signed(char::from(first))?);
                continue;
            }
            _ if first.is_ascii_punctuation() => {
                splitter.at += 1;
                continue;
            }
            _ => return None,
        };
        fields.push(Field {
            kind,
            text: text[start..splitter.at].to_ascii_lowercase(),
        });
        if fields.len() > MAX_FIELDS {
            return None;
        }
    }
    Some(fields)
}

struct Splitter<'a> {
    text: &'a str,
    at: usize,
}

impl Splitter<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn run(&mut self, test: impl Fn(u8) -> bool) {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().take_while(|byte| test(**byte)).count();
    }

    fn number(&mut self) -> Kind {
        self.run(|b| b.is_ascii_digit());
        match self.peek() {
            Some(b':') => {
                self.run(|b| b.is_ascii_digit() || b == b':' || b == b'.');
                Kind::Time
            }
            Some(mark @ (b'-' | b'/' | b'.')) => {
                self.at += 1;
                if !self.peek().is_some_and(|b| b.is_ascii_digit()) {
                    self.run(|b| b.is_ascii_alphanumeric() || b == mark);
                    return Kind::Date;
                }
                self.run(|b| b.is_ascii_digit());
                if self.peek() == Some(mark) {
                    self.run(|b| b.is_ascii_digit() || b == mark);
                    return Kind::Date;
                }
                if mark == b'.' {
                    Kind::Number
                } else {
                    Kind::Date
                }
            }
            _ => Kind::Number,
        }
    }

    /// Letters; a date or the name of a zone when others follow.
    fn word(&mut self) -> Kind {
        let start = self.at;
        self.run(|b| b.is_ascii_alphabetic());
        let joins = match self.peek() {
            Some(b'-' | b'/' | b'.') => true,
            Some(b'+' | b'0'..=b'9') => {
                let word = self.text[start..self.at].to_ascii_lowercase();
                !DATE_WORDS.contains(&&*word)
            }
            _ => false,
        };
        if joins {
            self.run(|b| b.is_ascii_alphanumeric() || b"+-/_.:".contains(&b));
            Kind::Date
        } else {
            Kind::Word
        }
    }

    /// A sign, which may stand apart from what it is the sign of.
    fn signed(&mut self, sign: char) -> Option<Field> {
        self.at += 1;
        self.run(is_space);
        let start = self.at;
        let kind = match self.peek()? {
            b'0'..=b'9' | b'.' => {
                self.run(|b| b.is_ascii_digit() || b":.-".contains(&b));
                Kind::Signed
            }
            b'a'..=b'z' | b'A'..=b'Z' => {
                self.run(|b| b.is_ascii_alphabetic());
                Kind::Special
            }
            _ => return None,
        };
        let body = self.text[start..self.at].to_ascii_lowercase();
        Some(Field {
            kind,
            text: format!("{sign}{body}"),
        })
    }
}
