//! The input function of arrays.

use smallvec::SmallVec;

use crate::context::TypeContext;
use crate::datum::{
    ArrayValue, Datum, Dimension, MAX_ARRAY_SIZE, MAX_DIMENSIONS, too_deep, too_many,
};
use crate::error::{SqlState, TypeError, TypeResult};
use crate::identity::SqlType;

/// C's `isspace`.
pub(super) fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

/// An array from text: `{1,NULL,"a b"}`, `{{1,2},{3,4}}`, `[2:3]={1,2}`.
///
/// # Errors
/// 22P02, 54000, 2202E, and those of the elements' input function.
pub fn parse(element: SqlType, text: &str, cx: &TypeContext) -> TypeResult<Datum> {
    let mut input = Input { text, at: 0 };
    let declared = input.declared_dimensions()?;
    if declared.is_empty() {
        if input.peek() != Some(b'{') {
            let detail = "Array value must start with \"{\" or dimension information.";
            return Err(input.malformed(detail));
        }
    } else {
        if input.peek() != Some(b'=') {
            return Err(input.malformed("Missing \"=\" after array dimensions."));
        }
        input.at += 1;
        input.skip_spaces();
        if input.peek() != Some(b'{') {
            return Err(input.malformed("Array contents must start with \"{\"."));
        }
    }
    let value = Contents::of(&declared).read(&mut input, element, cx)?;
    if !text.as_bytes()[input.at..]
        .iter()
        .all(|byte| is_space(*byte))
    {
        return Err(input.malformed("Junk after closing right brace."));
    }
    Ok(Datum::Array(value.into()))
}

struct Input<'a> {
    text: &'a str,
    at: usize,
}

enum Token {
    Open,
    Close,
    Comma,
    Element(String),
    Null,
}

impl Input<'_> {
    fn malformed(&self, detail: impl Into<String>) -> TypeError {
        TypeError::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            format!("malformed array literal: \"{}\"", self.text),
        )
        .detail(detail)
    }

    fn ended(&self) -> TypeError {
        self.malformed("Unexpected end of input.")
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_spaces(&mut self) {
        while self.peek().is_some_and(is_space) {
            self.at += 1;
        }
    }

    /// `[2:3][4]` before the contents; each `lower` and the length.
    fn declared_dimensions(&mut self) -> TypeResult<SmallVec<[Dimension; MAX_DIMENSIONS]>> {
        let mut dimensions = SmallVec::new();
        loop {
            self.skip_spaces();
            if self.peek() != Some(b'[') {
                return Ok(dimensions);
            }
            self.at += 1;
            if dimensions.len() >= MAX_DIMENSIONS {
                return Err(too_deep());
            }
            let detail = "\"[\" must introduce explicitly-specified array dimensions.";
            let first = self.bound(detail)?;
            let (lower, upper) = if self.peek() == Some(b':') {
                self.at += 1;
                (first, self.bound("Missing array dimension value.")?)
            } else {
                (1, first)
            };
            if self.peek() != Some(b']') {
                return Err(self.malformed("Missing \"]\" after array dimensions."));
            }
            self.at += 1;
            dimensions.push(dimension(lower, upper)?);
        }
    }

    fn bound(&mut self, missing: &str) -> TypeResult<i32> {
        let rest = &self.text[self.at..];
        let sign = usize::from(rest.starts_with(['+', '-']));
        let digits = rest[sign..].bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return Err(self.malformed(missing));
        }
        self.at += sign + digits;
        rest[..sign + digits].parse().map_err(|_| {
            let message = "array bound is out of integer range";
            TypeError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
        })
    }

    fn token(&mut self) -> TypeResult<Token> {
        self.skip_spaces();
        let token = match self.peek().ok_or_else(|| self.ended())? {
            b'{' => Token::Open,
            b'}' => Token::Close,
            b',' => Token::Comma,
            b'"' => return self.quoted(),
            _ => return self.unquoted(),
        };
        self.at += 1;
        Ok(token)
    }

    /// The character behind a backslash.
    fn escaped(&mut self) -> TypeResult<char> {
        self.at += 1;
        let escaped = self.text[self.at..].chars().next();
        let escaped = escaped.ok_or_else(|| self.ended())?;
        self.at += escaped.len_utf8();
        Ok(escaped)
    }

    fn quoted(&mut self) -> TypeResult<Token> {
        self.at += 1;
        let mut element = String::new();
        loop {
            match self.peek().ok_or_else(|| self.ended())? {
                b'\\' => element.push(self.escaped()?),
                b'"' => break,
                _ => element.push_str(self.run(|byte| byte != b'\\' && byte != b'"')),
            }
        }
        self.at += 1;
        self.skip_spaces();
        match self.peek() {
            Some(b',' | b'{' | b'}') => Ok(Token::Element(element)),
            Some(_) => Err(self.malformed("Incorrectly quoted array element.")),
            None => Err(self.ended()),
        }
    }

    /// The bytes up to the first ASCII one that `within` refuses.
    fn run(&mut self, within: impl Fn(u8) -> bool) -> &str {
        let start = self.at;
        while self.peek().is_some_and(&within) {
            self.at += 1;
        }
        &self.text[start..self.at]
    }

    fn unquoted(&mut self) -> TypeResult<Token> {
        let (mut element, mut kept, mut escapes) = (String::new(), 0, false);
        loop {
            match self.peek().ok_or_else(|| self.ended())? {
                b'{' => return Err(self.malformed("Unexpected \"{\" character.")),
                b'"' => return Err(self.malformed("Incorrectly quoted array element.")),
                b'\\' => {
                    element.push(self.escaped()?);
                    kept = element.len();
                    escapes = true;
                }
                b',' | b'}' => break,
                byte if is_space(byte) => {
                    element.push(char::from(byte));
                    self.at += 1;
                }
                _ => {
                    let plain = |byte: u8| !is_space(byte) && !b"{}\"\\,".contains(&byte);
                    element.push_str(self.run(plain));
                    kept = element.len();
                }
            }
        }
        element.truncate(kept);
        if !escapes && element.eq_ignore_ascii_case("null") {
            return Ok(Token::Null);
        }
        Ok(Token::Element(element))
    }
}

fn dimension(lower: i32, upper: i32) -> TypeResult<Dimension> {
    if upper < lower {
        let message = "upper bound cannot be less than lower bound";
        return Err(TypeError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message));
    }
    if upper == i32::MAX {
        let message = format!("array upper bound is too large: {upper}");
        return Err(TypeError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
    }
    let length = upper
        .checked_sub(lower)
        .and_then(|length| length.checked_add(1));
    length
        .map(|length| Dimension { length, lower })
        .ok_or_else(too_many)
}

/// The braces, and how many elements each level has had so far.
struct Contents {
    declared: bool,
    dimensions: usize,
    /// Per level: the length that its first group had or that was declared.
    lengths: [Option<i32>; MAX_DIMENSIONS],
    lowers: [i32; MAX_DIMENSIONS],
    counts: [i32; MAX_DIMENSIONS],
    level: usize,
    /// No deeper level may come: an element was there, or the dimensions were declared.
    frozen: bool,
    comma_due: bool,
    elements: Vec<Datum>,
}

impl Contents {
    fn of(declared: &[Dimension]) -> Contents {
        let mut contents = Contents {
            declared: !declared.is_empty(),
            dimensions: declared.len(),
            lengths: [None; MAX_DIMENSIONS],
            lowers: [1; MAX_DIMENSIONS],
            counts: [0; MAX_DIMENSIONS],
            level: 0,
            frozen: !declared.is_empty(),
            comma_due: false,
            elements: Vec::new(),
        };
        for (at, dimension) in declared.iter().enumerate() {
            contents.lengths[at] = Some(dimension.length);
            contents.lowers[at] = dimension.lower;
        }
        contents
    }

    fn read(
        mut self,
        input: &mut Input<'_>,
        element: SqlType,
        cx: &TypeContext,
    ) -> TypeResult<ArrayValue> {
        loop {
            match input.token()? {
                Token::Open => self.open(input)?,
                Token::Close => self.close(input)?,
                Token::Comma => {
                    if !self.comma_due {
                        return Err(input.malformed("Unexpected \",\" character."));
                    }
                    self.comma_due = false;
                }
                Token::Null => self.element(input, |_| Ok(Datum::Null))?,
                Token::Element(text) => {
                    self.element(input, |_| Datum::parse_text(element, &text, cx))?;
                }
            }
            if self.level == 0 {
                break;
            }
        }
        let dimension = |at: usize| Dimension {
            length: self.lengths[at].unwrap_or(0),
            lower: self.lowers[at],
        };
        let dimensions: SmallVec<[Dimension; MAX_DIMENSIONS]> =
            (0..self.dimensions).map(dimension).collect();
        ArrayValue::new(&dimensions, self.elements)
    }

    fn wrong_shape(&self, input: &Input<'_>) -> TypeError {
        input.malformed(if self.declared {
            "Specified array dimensions do not match array contents."
        } else {
            "Multidimensional arrays must have sub-arrays with matching dimensions."
        })
    }

    fn open(&mut self, input: &Input<'_>) -> TypeResult<()> {
        if self.comma_due {
            return Err(input.malformed("Unexpected \"{\" character."));
        }
        if self.level >= MAX_DIMENSIONS {
            return Err(too_deep());
        }
        self.counts[self.level] = 0;
        self.level += 1;
        if self.level > self.dimensions {
            if self.frozen {
                return Err(self.wrong_shape(input));
            }
            self.dimensions = self.level;
        }
        Ok(())
    }

    fn close(&mut self, input: &Input<'_>) -> TypeResult<()> {
        // The first token is the opening brace, so the level is at least one here.
        self.level -= 1;
        if self.counts[self.level] > 0 && !self.comma_due {
            return Err(input.malformed("Unexpected \"}\" character."));
        }
        if self.level > 0 {
            self.counts[self.level - 1] += 1;
        }
        let count = self.counts[self.level];
        match self.lengths[self.level] {
            None => self.lengths[self.level] = Some(count),
            Some(length) if length != count => return Err(self.wrong_shape(input)),
            Some(_) => {}
        }
        self.comma_due = true;
        Ok(())
    }

    fn element(
        &mut self,
        input: &Input<'_>,
        value: impl FnOnce(&Input<'_>) -> TypeResult<Datum>,
    ) -> TypeResult<()> {
        if self.comma_due {
            return Err(input.malformed("Unexpected array element."));
        }
        if self.elements.len() >= MAX_ARRAY_SIZE {
            return Err(too_many());
        }
        self.elements.push(value(input)?);
        self.frozen = true;
        if self.level != self.dimensions {
            return Err(self.wrong_shape(input));
        }
        self.counts[self.level - 1] += 1;
        self.comma_due = true;
        Ok(())
    }
}
