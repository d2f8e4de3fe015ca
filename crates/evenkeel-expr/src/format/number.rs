//! `to_char` and `to_number` of numbers. The steps and their order are those of PostgreSQL's
//! `NUM_processor`, whose results depend on them.

use evenkeel_types::{Datum, Numeric};

use super::ordinal;
use super::roman;
use crate::call::Call;
use crate::error::{self, ExprResult};
use crate::pace::Pace;

/// Digits that a double has for certain.
const DOUBLE_DIGITS: usize = 15;
/// Width of a Roman numeral.
const ROMAN_WIDTH: usize = 15;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Nine,
    Zero,
    /// `.`
    Point,
    /// `D`
    LocalPoint,
    Comma,
    /// `G`
    Group,
    Currency,
    /// `MI`, `PL`, `SG`, by the character that marks them
    Minus,
    Plus,
    Sign,
    /// `TH` or `th`
    Ordinal {
        upper: bool,
    },
    Roman,
    /// A keyword that only says something about the whole.
    Mark,
    Literal(char),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    None,
    Before,
    After,
}

/// A pattern, and what its keywords say of the whole.
#[derive(Debug, Clone)]
struct Pattern {
    tokens: Vec<Token>,
    before: usize,
    after: usize,
    sign_place: Place,
    digits_before_sign: usize,
    multiplier: usize,
    zero_start: usize,
    zero_end: usize,
    decimal: bool,
    zero: bool,
    blank: bool,
    fill: bool,
    sign: bool,
    bracket: bool,
    minus: bool,
    plus: bool,
    roman: Option<bool>,
    multiplies: bool,
    scientific: bool,
}

const KEYWORDS: [&str; 26] = [
    "EEEE", "eeee", "FM", "fm", "MI", "mi", "PL", "pl", "PR", "pr", "RN", "rn", "SG", "sg", "TH",
    "th", "SP", "sp", "D", "d", "G", "g", "L", "l", "S", "s",
];

impl Pattern {
    /// Of a call's second argument.
    fn of(call: &Call<'_>) -> ExprResult<Pattern> {
        let text = call.text(1);
        call.room(text.len().saturating_mul(size_of::<Token>() * 2))?;
        let mut pace = call.pace();
        let mut pattern = Pattern {
            tokens: Vec::new(),
            before: 0,
            after: 0,
            sign_place: Place::None,
            digits_before_sign: 0,
            multiplier: 0,
            zero_start: 0,
            zero_end: 0,
            decimal: false,
            zero: false,
            blank: false,
            fill: false,
            sign: false,
            bracket: false,
            minus: false,
            plus: false,
            roman: None,
            multiplies: false,
            scientific: false,
        };
        let mut rest = text;
        while let Some(character) = rest.chars().next() {
            pace.step(KEYWORDS.len())?;
            if let Some(word) = KEYWORDS.iter().find(|word| rest.starts_with(**word)) {
                pattern.keyword(word)?;
                rest = &rest[word.len()..];
                continue;
            }
            rest = &rest[character.len_utf8()..];
            match character {
                '9' | '0' | '.' | ',' | 'B' | 'b' | 'V' | 'v' | 'C' | 'c' => {
                    pattern.character(character)?;
                }
                '"' => rest = pattern.quoted(rest),
                '\\' if rest.starts_with('"') => {
                    pattern.tokens.push(Token::Literal('"'));
                    rest = &rest[1..];
                }
                other => pattern.tokens.push(Token::Literal(other)),
            }
        }
        Ok(pattern)
    }

    fn quoted<'a>(&mut self, text: &'a str) -> &'a str {
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            match character {
                '"' => break,
                '\\' => self.tokens.extend(characters.next().map(Token::Literal)),
                other => self.tokens.push(Token::Literal(other)),
            }
        }
        characters.as_str()
    }

    fn last(&self) -> ExprResult<()> {
        match self.scientific {
            true => Err(error::syntax("\"EEEE\" must be the last pattern used")),
            false => Ok(()),
        }
    }

    fn character(&mut self, character: char) -> ExprResult<()> {
        self.last()?;
        match character {
            '9' => {
                self.before_bracket("9")?;
                if self.multiplies {
                    self.multiplier += 1;
                } else if self.decimal {
                    self.after += 1;
                } else {
                    self.before += 1;
                }
                self.tokens.push(Token::Nine);
            }
            '0' => {
                self.before_bracket("0")?;
                if !self.zero && !self.decimal {
                    self.zero = true;
                    self.zero_start = self.before + 1;
                }
                if self.decimal {
                    self.after += 1;
                } else {
                    self.before += 1;
                }
                self.zero_end = self.before + self.after;
                self.tokens.push(Token::Zero);
            }
            '.' => self.point(Token::Point)?,
            ',' => self.tokens.push(Token::Comma),
            'B' | 'b' => {
                if self.before == 0 && self.after == 0 && !self.zero {
                    self.blank = true;
                }
                self.tokens.push(Token::Mark);
            }
            'V' | 'v' => {
                if self.decimal {
                    let message = "cannot use \"V\" and decimal point together";
                    return Err(error::syntax(message));
                }
                self.multiplies = true;
                self.tokens.push(Token::Mark);
            }
            // PostgreSQL has C, and does nothing with it.
            _ => self.tokens.push(Token::Mark),
        }
        Ok(())
    }

    fn before_bracket(&self, word: &str) -> ExprResult<()> {
        match self.bracket {
            true => Err(error::syntax(format!("\"{word}\" must be ahead of \"PR\""))),
            false => Ok(()),
        }
    }

    fn point(&mut self, token: Token) -> ExprResult<()> {
        if self.decimal {
            return Err(error::syntax("multiple decimal points"));
        }
        if self.multiplies {
            let message = "cannot use \"V\" and decimal point together";
            return Err(error::syntax(message));
        }
        self.decimal = true;
        self.tokens.push(token);
        Ok(())
    }

    fn keyword(&mut self, word: &str) -> ExprResult<()> {
        self.last()?;
        let upper = word.chars().all(|c| c.is_ascii_uppercase());
        let refused = |condition: bool, message: &str| match condition {
            true => Err(error::syntax(message)),
            false => Ok(()),
        };
        let together = "cannot use \"S\" and \"PL\"/\"MI\"/\"SG\"/\"PR\" together";
        match word.to_ascii_uppercase().as_str() {
            "EEEE" => {
                let other = self.blank || self.fill || self.sign || self.bracket;
                let other = other || self.minus || self.plus || self.roman.is_some();
                refused(
                    other || self.multiplies,
                    "\"EEEE\" is incompatible with other formats",
                )?;
                self.scientific = true;
                self.tokens.push(Token::Mark);
            }
            "FM" => {
                self.fill = true;
                self.tokens.push(Token::Mark);
            }
            "D" => self.point(Token::LocalPoint)?,
            "G" => self.tokens.push(Token::Group),
            "L" => self.tokens.push(Token::Currency),
            "S" => {
                refused(self.sign, "cannot use \"S\" twice")?;
                refused(self.plus || self.minus || self.bracket, together)?;
                self.sign = true;
                match self.decimal {
                    false => {
                        self.sign_place = Place::Before;
                        self.digits_before_sign = self.before;
                    }
                    true => self.sign_place = Place::After,
                }
                self.tokens.push(Token::Mark);
            }
            "MI" => {
                refused(self.sign, "cannot use \"S\" and \"MI\" together")?;
                self.minus = true;
                self.tokens.push(Token::Minus);
            }
            "PL" => {
                refused(self.sign, "cannot use \"S\" and \"PL\" together")?;
                self.plus = true;
                self.tokens.push(Token::Plus);
            }
            "SG" => {
                refused(self.sign, "cannot use \"S\" and \"SG\" together")?;
                (self.minus, self.plus) = (true, true);
                self.tokens.push(Token::Sign);
            }
            "PR" => {
                let message = "cannot use \"PR\" and \"S\"/\"PL\"/\"MI\"/\"SG\" together";
                refused(self.sign || self.plus || self.minus, message)?;
                self.bracket = true;
                self.tokens.push(Token::Mark);
            }
            "RN" => {
                refused(self.roman.is_some(), "cannot use \"RN\" twice")?;
                self.roman = Some(upper);
                self.tokens.push(Token::Roman);
            }
            "TH" => self.tokens.push(Token::Ordinal { upper }),
            _ => self.tokens.push(Token::Mark),
        }
        Ok(())
    }
}

/// A number about to be written: its digits without sign, and the blanks before them.
struct Number {
    negative: bool,
    digits: String,
    blanks: usize,
}

impl Number {
    /// Of a decimal text, rounded to the pattern's digits.
    fn of(text: &str, pattern: &Pattern) -> Number {
        let (negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text),
        };
        let whole = digits.find('.').unwrap_or(digits.len());
        if whole > pattern.before {
            let (before, after) = ("#".repeat(pattern.before), "#".repeat(pattern.after));
            let digits = format!("{before}.{after}");
            return Number {
                negative,
                digits,
                blanks: 0,
            };
        }
        Number {
            negative,
            digits: digits.to_owned(),
            blanks: pattern.before - whole,
        }
    }
}

/// The place of the last digit after the point that is not a zero, or of the point.
fn last_relevant(digits: &str) -> Option<usize> {
    let point = digits.find('.')?;
    let after = digits[point + 1..].rfind(|digit| digit != '0');
    Some(after.map_or(point, |at| point + 1 + at))
}

/// A number being written.
struct Writer<'a> {
    pattern: &'a Pattern,
    number: &'a Number,
    out: String,
    /// The place in the digits.
    at: usize,
    /// The number of the digit of the pattern.
    current: usize,
    count: usize,
    sign_written: bool,
    inside: bool,
    last_relevant: Option<usize>,
    zero_start: usize,
    sign_place: Place,
    bracket: bool,
}

impl<'a> Writer<'a> {
    fn new(pattern: &'a Pattern, number: &'a Number) -> Writer<'a> {
        let mut writer = Writer {
            pattern,
            number,
            out: String::new(),
            at: 0,
            current: 0,
            count: (pattern.before + pattern.after).wrapping_sub(1),
            sign_written: false,
            inside: false,
            last_relevant: None,
            zero_start: pattern.zero_start.saturating_sub(1),
            sign_place: pattern.sign_place,
            bracket: pattern.bracket,
        };
        if pattern.plus || pattern.minus {
            writer.sign_written = !pattern.plus || pattern.minus;
        } else {
            if !number.negative && pattern.fill {
                writer.bracket = false;
            }
            writer.sign_written = !number.negative && pattern.fill && !pattern.sign;
            if pattern.sign_place == Place::Before && pattern.before == pattern.digits_before_sign {
                writer.sign_place = Place::After;
            }
        }
        if pattern.fill && pattern.decimal {
            writer.last_relevant = last_relevant(&number.digits);
            if let Some(last) = writer.last_relevant
                && pattern.zero_end > number.blanks
            {
                let zero = (number.digits.len() - 1).min(pattern.zero_end - number.blanks);
                writer.last_relevant = Some(last.max(zero));
            }
        }
        if !writer.sign_written && number.blanks == 0 {
            writer.count = writer.count.wrapping_add(1);
        }
        writer
    }

    fn digit(&self) -> Option<u8> {
        self.number.digits.as_bytes().get(self.at).copied()
    }

    fn last_is_point(&self) -> bool {
        let last = self.last_relevant;
        last.is_some_and(|at| self.number.digits.as_bytes().get(at) == Some(&b'.'))
    }

    /// Whether the zero before a point is not written: `9.9` makes ` .1`.
    fn hides_zero(&self) -> bool {
        let digits = &self.number.digits;
        !self.pattern.zero && self.at == 0 && digits.starts_with('0') && self.pattern.after != 0
    }

    fn sign(&self) -> char {
        if self.number.negative { '-' } else { '+' }
    }

    fn unless_filled(&mut self) {
        if !self.pattern.fill {
            self.out.push(' ');
        }
    }

    fn number_part(&mut self, zero: bool) {
        self.inside = false;
        let begins = self.current >= self.number.blanks
            || (self.pattern.zero && self.zero_start == self.current);
        if !self.sign_written && begins && (!self.hides_zero() || self.last_is_point()) {
            self.write_sign();
        }
        if self.current < self.number.blanks
            && (self.zero_start > self.current || !self.pattern.zero)
        {
            self.unless_filled();
        } else if self.pattern.zero && self.current < self.number.blanks {
            self.out.push('0');
            self.inside = true;
        } else {
            self.write_digit(zero);
        }
        let mut end = self.count.wrapping_add(usize::from(self.number.blanks > 0));
        end = end.wrapping_add(usize::from(self.pattern.decimal));
        if self.last_relevant == Some(self.at) {
            end = self.current;
        }
        if self.current + 1 == end {
            if self.sign_written && self.bracket {
                self.out.push(if self.number.negative { '>' } else { ' ' });
            } else if self.pattern.sign && self.sign_place == Place::After {
                self.out.push(self.sign());
            }
        }
        self.current += 1;
    }

    fn write_sign(&mut self) {
        if self.pattern.sign {
            if self.sign_place == Place::Before {
                self.out.push(self.sign());
                self.sign_written = true;
            }
        } else if self.bracket {
            self.out.push(if self.number.negative { '<' } else { ' ' });
            self.sign_written = true;
        } else if self.number.negative {
            self.out.push('-');
            self.sign_written = true;
        } else {
            self.unless_filled();
            self.sign_written = true;
        }
    }

    fn write_digit(&mut self, zero: bool) {
        let Some(digit) = self.digit() else {
            return;
        };
        if digit == b'.' {
            if !self.last_is_point() || self.pattern.fill {
                self.out.push('.');
            }
        } else if self.last_relevant.is_some_and(|last| self.at > last) && !zero {
        } else if self.hides_zero() {
            if !self.pattern.fill {
                self.out.push(' ');
            } else if self.last_is_point() {
                self.out.push('0');
            }
        } else {
            self.out.push(char::from(digit));
            self.inside = true;
        }
        self.at += 1;
    }

    fn separator(&mut self) {
        match self.inside {
            true => self.out.push(','),
            false => self.unless_filled(),
        }
    }

    fn write(mut self, pace: &mut Pace<'_>) -> ExprResult<String> {
        for token in &self.pattern.tokens {
            pace.step(TOKEN_STEPS)?;
            match token {
                Token::Nine | Token::Point | Token::LocalPoint => self.number_part(false),
                Token::Zero => self.number_part(true),
                Token::Comma | Token::Group => self.separator(),
                Token::Currency => self.out.push(' '),
                Token::Minus if self.number.negative => self.out.push('-'),
                Token::Plus if !self.number.negative => self.out.push('+'),
                Token::Minus | Token::Plus => self.unless_filled(),
                Token::Sign => self.out.push(self.sign()),
                Token::Ordinal { upper } => {
                    let digits = &self.number.digits;
                    if !self.number.negative && !self.pattern.decimal && !digits.starts_with('#') {
                        let ending = ordinal(digits);
                        match upper {
                            true => self.out.push_str(&ending.to_ascii_uppercase()),
                            false => self.out.push_str(ending),
                        }
                    }
                }
                Token::Literal(character) => self.out.push(*character),
                Token::Roman | Token::Mark => {}
            }
        }
        Ok(self.out)
    }
}

/// A token that is written, as steps of a loop.
const TOKEN_STEPS: usize = 8;

fn write(call: &Call<'_>, text: &str, pattern: &Pattern) -> ExprResult<Datum> {
    let number = Number::of(text, pattern);
    let written = Writer::new(pattern, &number).write(&mut call.pace())?;
    Ok(written.into())
}

fn write_roman(number: Option<i64>, pattern: &Pattern, upper: bool) -> String {
    let numeral = number
        .and_then(roman::roman)
        .unwrap_or_else(|| "#".repeat(ROMAN_WIDTH));
    let numeral = if upper {
        numeral
    } else {
        numeral.to_ascii_lowercase()
    };
    match pattern.fill {
        true => numeral,
        false => format!("{numeral:>ROMAN_WIDTH$}"),
    }
}

/// A decimal text rounded half away from zero to `scale` digits after the point.
fn rounded(text: &str, scale: usize) -> String {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut all: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
    let wanted = whole.len() + scale;
    let up = all.get(wanted).is_some_and(|digit| *digit >= b'5');
    all.resize(wanted, b'0');
    let mut carry = up;
    for digit in all.iter_mut().rev() {
        if !carry {
            break;
        }
        carry = *digit == b'9';
        *digit = if carry { b'0' } else { *digit + 1 };
    }
    if carry {
        all.insert(0, b'1');
    }
    let zero = all.iter().all(|digit| *digit == b'0');
    let text = String::from_utf8(all).unwrap_or_default();
    let (whole, fraction) = text.split_at(text.len() - scale);
    let sign = if negative && !zero { "-" } else { "" };
    let point = if scale > 0 { "." } else { "" };
    format!("{sign}{whole}{point}{fraction}")
}

/// A decimal text times a power of ten.
fn multiplied(text: &str, power: usize) -> String {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let padded = fraction.to_owned() + &"0".repeat(power.saturating_sub(fraction.len()));
    let (more, rest) = padded.split_at(power);
    let all = format!("{whole}{more}");
    let all = all.trim_start_matches('0');
    let whole = if all.is_empty() { "0" } else { all };
    let point = if rest.is_empty() { "" } else { "." };
    format!("{sign}{whole}{point}{rest}")
}

/// A decimal text in scientific form, with so many digits after the point.
fn scientific(text: &str, scale: usize) -> String {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => (" ", text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{fraction}");
    let first = all.find(|digit| digit != '0');
    let mut exponent = match first {
        Some(first) => whole.len() as i64 - 1 - first as i64,
        None => 0,
    };
    let significant = first.map_or("0", |first| &all[first..]);
    let (head, tail) = significant.split_at(1);
    let mut mantissa = rounded(&format!("{head}.{tail}0"), scale);
    if mantissa.starts_with("10") {
        exponent += 1;
        mantissa.remove(1);
        let moved = mantissa.replace('.', "");
        let point = if scale > 0 { "." } else { "" };
        mantissa = format!("{}{point}{}", &moved[..1], &moved[1..=scale]);
    }
    let exponent_sign = if exponent < 0 { '-' } else { '+' };
    format!("{sign}{mantissa}e{exponent_sign}{:02}", exponent.abs())
}

/// Text of a number that has no digits.
fn hashes(pattern: &Pattern) -> String {
    let (before, after) = ("#".repeat(pattern.before), "#".repeat(pattern.after + 4));
    format!(" {before}.{after}")
}

fn decimal(call: &Call<'_>, text: &str) -> ExprResult<Datum> {
    if call.text(1).is_empty() {
        return Ok(String::new().into());
    }
    let mut pattern = Pattern::of(call)?;
    let special = text.ends_with(['N', 'y']);
    if let Some(upper) = pattern.roman {
        let number = (!special)
            .then(|| rounded(text, 0))
            .and_then(|text| text.parse().ok());
        return Ok(write_roman(number, &pattern, upper).into());
    }
    if pattern.scientific {
        return Ok(match special {
            true => hashes(&pattern),
            false => scientific(text, pattern.after),
        }
        .into());
    }
    if special {
        return write(call, text, &pattern);
    }
    let mut text = text.to_owned();
    if pattern.multiplies {
        text = multiplied(&text, pattern.multiplier);
        pattern.before += pattern.multiplier;
    }
    write(call, &rounded(&text, pattern.after), &pattern)
}

/// `to_char(integer, text)`
pub fn int4_to_char(call: &Call<'_>) -> ExprResult<Datum> {
    int_to_char(call, i64::from(i32::MAX), "integer out of range")
}

/// `to_char(bigint, text)`
pub fn int8_to_char(call: &Call<'_>) -> ExprResult<Datum> {
    int_to_char(call, i64::MAX, "bigint out of range")
}

/// The product of `V` must be of the type too.
fn int_to_char(call: &Call<'_>, most: i64, message: &str) -> ExprResult<Datum> {
    let value = call.int(0);
    let power = u32::try_from(Pattern::of(call)?.multiplier).unwrap_or(u32::MAX);
    let product = 10_i64
        .checked_pow(power)
        .and_then(|factor| value.checked_mul(factor));
    if product.is_none_or(|product| product > most || product < -most - 1) {
        return Err(error::out_of_range(message));
    }
    decimal(call, &value.to_string())
}

/// `to_char(numeric, text)`
pub fn numeric_to_char(call: &Call<'_>) -> ExprResult<Datum> {
    decimal(call, &call.numeric(0).to_string())
}

fn float(call: &Call<'_>, digits: usize) -> ExprResult<Datum> {
    let value = call.float(0);
    if call.text(1).is_empty() {
        return Ok(String::new().into());
    }
    let parsed = Pattern::of(call)?;
    if !value.is_finite() {
        return not_finite(call, value, parsed, digits);
    }
    if parsed.scientific {
        return Ok(scientific_float(value, parsed.after).into());
    }
    if parsed.roman.is_some() {
        return decimal(call, &format!("{:.0}", value.round_ties_even()));
    }
    let mut shown = parsed.clone();
    let value = match parsed.multiplies {
        true => value * 10_f64.powi(i32::try_from(parsed.multiplier).unwrap_or(i32::MAX)),
        false => value,
    };
    if !value.is_finite() {
        return Err(error::out_of_range("value out of range: overflow"));
    }
    shown.before += parsed.multiplier;
    // No more digits than the type has.
    let whole = format!("{:.0}", value.abs()).len();
    if whole >= digits {
        shown.after = 0;
    } else if whole + shown.after > digits {
        shown.after = digits - whole;
    }
    let after = shown.after;
    write(call, &format!("{value:.after$}"), &shown)
}

fn not_finite(
    call: &Call<'_>,
    value: f64,
    mut pattern: Pattern,
    digits: usize,
) -> ExprResult<Datum> {
    let text = match (value.is_nan(), value < 0.0) {
        (true, _) => "NaN",
        (_, true) => "-Infinity",
        _ => "Infinity",
    };
    if let Some(upper) = pattern.roman {
        return Ok(write_roman(None, &pattern, upper).into());
    }
    if pattern.scientific {
        return Ok(hashes(&pattern).into());
    }
    pattern.before += pattern.multiplier;
    let whole = text.trim_start_matches('-').len();
    pattern.after = pattern.after.min(digits.saturating_sub(whole));
    write(call, text, &pattern)
}

fn scientific_float(value: f64, after: usize) -> String {
    // No double has more digits than this; the rest are zeros.
    let exact = after.min(EXACT_DIGITS);
    let text = format!("{value:.exact$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let zeros = "0".repeat(after - exact);
    let exponent: i64 = exponent.parse().unwrap_or(0);
    let sign = if mantissa.starts_with('-') { "" } else { " " };
    let exponent_sign = if exponent < 0 { '-' } else { '+' };
    format!(
        "{sign}{mantissa}{zeros}e{exponent_sign}{:02}",
        exponent.abs()
    )
}

/// More than the decimal digits of any double.
const EXACT_DIGITS: usize = 1100;

/// `to_char(double precision, text)`
pub fn float8_to_char(call: &Call<'_>) -> ExprResult<Datum> {
    float(call, DOUBLE_DIGITS)
}

/// `to_char(real, text)`
pub fn float4_to_char(call: &Call<'_>) -> ExprResult<Datum> {
    const REAL_DIGITS: usize = 6;
    float(call, REAL_DIGITS)
}

/// `to_number(text, text)`
pub fn to_number(call: &Call<'_>) -> ExprResult<Datum> {
    let (text, format) = (call.text(0), call.text(1));
    if format.is_empty() {
        return Ok(Datum::Null);
    }
    let pattern = Pattern::of(call)?;
    if pattern.scientific {
        return Err(error::unsupported("\"EEEE\" not supported for input"));
    }
    if pattern.roman.is_some() {
        let numeral = text.trim_start();
        let (number, length) = roman::read(numeral)
            .ok_or_else(|| error::text_representation("invalid Roman numeral"))?;
        let _ = length;
        return Ok(Datum::Numeric(Numeric::from(number)));
    }
    let mut reader = Reader {
        rest: text,
        pattern: &pattern,
        sign: None,
        digits: String::new(),
        before: 0,
        after: 0,
        point: false,
    };
    let mut pace = call.pace();
    for token in &pattern.tokens {
        if reader.rest.is_empty() {
            break;
        }
        pace.step(TOKEN_STEPS)?;
        reader.take(*token);
    }
    reader.finish()
}

/// A number being read. The steps are those of PostgreSQL's `NUM_processor`: a digit's place
/// takes one character, whatever it is.
struct Reader<'a> {
    rest: &'a str,
    pattern: &'a Pattern,
    sign: Option<char>,
    digits: String,
    before: usize,
    after: usize,
    point: bool,
}

impl Reader<'_> {
    fn next(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn skip(&mut self) {
        let mut characters = self.rest.chars();
        characters.next();
        self.rest = characters.as_str();
    }

    /// Skips characters that are of no number.
    fn skip_other(&mut self, count: usize) {
        for _ in 0..count {
            if self
                .next()
                .is_none_or(|c| c.is_ascii_digit() || ".,+-".contains(c))
            {
                break;
            }
            self.skip();
        }
    }

    fn take(&mut self, token: Token) {
        match token {
            Token::Nine | Token::Zero => {
                self.place(true);
                self.skip();
            }
            Token::Point | Token::LocalPoint => {
                self.place(false);
                self.skip();
            }
            Token::Comma | Token::Group => {
                if self.next() == Some(',') {
                    self.skip();
                }
            }
            Token::Minus | Token::Plus | Token::Sign => self.mark(token),
            Token::Currency | Token::Literal(_) => self.skip_other(1),
            Token::Ordinal { .. } => self.skip_other(2),
            Token::Roman | Token::Mark => {}
        }
    }

    /// The sign where the pattern has one of its own.
    fn mark(&mut self, token: Token) {
        let wanted = match token {
            Token::Minus => "-",
            Token::Plus => "+",
            _ => "+-",
        };
        match self.next().filter(|sign| wanted.contains(*sign)) {
            Some(sign) => {
                self.sign = Some(sign);
                self.skip();
            }
            None => self.skip_other(1),
        }
    }

    /// One digit or the point; the character itself is skipped by the caller.
    fn place(&mut self, of_digit: bool) {
        if self.next() == Some(' ') {
            self.skip();
        }
        if of_digit && self.sign.is_none() && self.before + self.after == 0 {
            match self.next() {
                Some('-') => self.sign = Some('-'),
                Some('<') if self.pattern.bracket => self.sign = Some('-'),
                Some('+') => self.sign = Some('+'),
                _ => {}
            }
            if self.sign.is_some() {
                self.skip();
            }
        }
        let read = match self.next() {
            Some(digit) if digit.is_ascii_digit() => {
                if self.point && self.after == self.pattern.after {
                    return;
                }
                self.digits.push(digit);
                match self.point {
                    true => self.after += 1,
                    false => self.before += 1,
                }
                true
            }
            Some('.') if self.pattern.decimal && !self.point => {
                self.point = true;
                self.digits.push('.');
                true
            }
            _ => false,
        };
        // A sign behind the last digit.
        let behind = self.pattern.sign && read && self.sign.is_none();
        let mut ahead = self.rest.chars().skip(1);
        if behind
            && self.before + self.after > 0
            && let Some(sign @ ('-' | '+')) = ahead.next()
        {
            self.sign = Some(sign);
            self.skip();
        }
    }

    fn finish(self) -> ExprResult<Datum> {
        if self.before + self.after == 0 {
            return Err(error::text_representation(
                "invalid input syntax for type numeric: \" \"",
            ));
        }
        let digits = self.digits.trim_end_matches('.');
        let whole = digits.split('.').next().unwrap_or_default();
        if whole.trim_start_matches('0').len() > self.pattern.before {
            return Err(error::out_of_range("numeric field overflow"));
        }
        let sign = if self.sign == Some('-') { "-" } else { "" };
        let zero = if digits.starts_with('.') { "0" } else { "" };
        let number = format!("{sign}{zero}{digits}");
        let number = match self.pattern.multiplies {
            true => divided(&number, self.pattern.multiplier),
            false => number,
        };
        Numeric::parse(&without_zeros(&number)).map(Datum::Numeric)
    }
}

/// A decimal text divided by a power of ten.
fn divided(text: &str, power: usize) -> String {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text),
    };
    let padded = format!("{digits:0>width$}", width = power + 1);
    let (whole, fraction) = padded.split_at(padded.len() - power);
    let point = if power > 0 { "." } else { "" };
    format!("{sign}{whole}{point}{fraction}")
}

/// A decimal text without leading zeros.
fn without_zeros(text: &str) -> String {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text),
    };
    let trimmed = digits.trim_start_matches('0');
    let zero = if trimmed.is_empty() || trimmed.starts_with('.') {
        "0"
    } else {
        ""
    };
    format!("{sign}{zero}{trimmed}")
}
