//! The forms of settings' values.

use evenkeel_types::TimeZone;

use crate::error::SettingError;
use crate::units::{Unit, boolean};

/// Type and range of a setting's values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// On or off.
    Bool,
    /// Whole numbers from the first to the second.
    Integer(i64, i64, Unit),
    /// Numbers from the first to the second.
    Real(f64, f64, Unit),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A text of a form.
    Text(Form),
}

/// The form of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Any text.
    Any,
    /// `DateStyle`: how dates are written, and the order of their fields.
    DateStyle,
    /// A time zone.
    TimeZone,
    /// A name of UTF-8.
    Encoding,
    /// A list of `data` and `wal`.
    DirectIo,
}

impl Kind {
    /// `bool`, `integer`, `real`, `enum` or `string`.
    #[must_use]
    pub fn vartype(self) -> &'static str {
        match self {
            Kind::Bool => "bool",
            Kind::Integer(..) => "integer",
            Kind::Real(..) => "real",
            Kind::Choice(words) if words.iter().all(|word| boolean(word).is_some()) => "bool",
            Kind::Choice(_) => "enum",
            Kind::Text(_) => "string",
        }
    }

    /// The unit of its numbers.
    #[must_use]
    pub fn unit(self) -> Unit {
        match self {
            Kind::Integer(_, _, unit) | Kind::Real(_, _, unit) => unit,
            _ => Unit::None,
        }
    }

    /// The least and the most that its numbers can be.
    #[must_use]
    pub fn range(self) -> Option<(String, String)> {
        match self {
            Kind::Integer(low, high, _) => Some((low.to_string(), high.to_string())),
            Kind::Real(low, high, _) => Some((real(low), real(high))),
            _ => None,
        }
    }

    /// The words of an `enum`.
    #[must_use]
    pub fn choices(self) -> Option<&'static [&'static str]> {
        match self {
            Kind::Choice(words) if self.vartype() == "enum" => Some(words),
            _ => None,
        }
    }

    /// As [`canonical`](Self::canonical), where a value says only a part and the current one the
    /// rest.
    pub(crate) fn canonical_after(
        self,
        name: &'static str,
        value: &str,
        current: &str,
    ) -> Result<String, SettingError> {
        match self {
            Kind::Text(Form::DateStyle) => {
                date_style(value, current).ok_or_else(|| SettingError::Invalid {
                    name,
                    value: value.to_owned(),
                    hint: None,
                })
            }
            kind => kind.canonical(name, value),
        }
    }

    /// The value in its canonical form: numbers without their unit.
    pub(crate) fn canonical(self, name: &'static str, value: &str) -> Result<String, SettingError> {
        let invalid = |hint: Option<String>| SettingError::Invalid {
            name,
            value: value.to_owned(),
            hint,
        };
        match self {
            Kind::Bool => match boolean(value) {
                Some(on) => Ok(on_or_off(on).to_owned()),
                None => Err(SettingError::NotBoolean(name)),
            },
            Kind::Integer(low, high, unit) => {
                let number = unit.read(value).map(f64::round);
                let number = number.ok_or_else(|| invalid(unit.hint().map(str::to_owned)))?;
                if !(low as f64..=high as f64).contains(&number) {
                    let shown = |number: f64| with_unit(&number.to_string(), unit);
                    return Err(out_of_range(name, shown, [number, low as f64, high as f64]));
                }
                Ok((number as i64).to_string())
            }
            Kind::Real(low, high, unit) => {
                let number = unit.read(value);
                let number = number.ok_or_else(|| invalid(unit.hint().map(str::to_owned)))?;
                if !(low..=high).contains(&number) {
                    let shown = |number: f64| with_unit(&real(number), unit);
                    return Err(out_of_range(name, shown, [number, low, high]));
                }
                Ok(number.to_string())
            }
            Kind::Choice(words) => {
                let hint = || format!("Available values: {}.", words.join(", "));
                let word = word_of(words, value);
                word.map(str::to_owned).ok_or_else(|| invalid(Some(hint())))
            }
            Kind::Text(form) => form.canonical(value).ok_or_else(|| invalid(None)),
        }
    }

    /// A canonical value as SHOW writes it.
    pub(crate) fn shown(self, value: &str) -> String {
        match (self.unit(), value.parse::<f64>()) {
            (Unit::None, _) | (_, Err(_)) => value.to_owned(),
            (unit, Ok(number)) => unit.show(number),
        }
    }
}

fn on_or_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

fn out_of_range(
    name: &'static str,
    shown: impl Fn(f64) -> String,
    [value, low, high]: [f64; 3],
) -> SettingError {
    SettingError::OutOfRange {
        name,
        value: shown(value),
        low: shown(low),
        high: shown(high),
    }
}

fn with_unit(number: &str, unit: Unit) -> String {
    match unit.name() {
        Some(name) => format!("{number} {name}"),
        None => number.to_owned(),
    }
}

/// As C's `%g` writes the numbers that bound settings.
fn real(number: f64) -> String {
    if number == f64::MAX {
        return "1.79769e+308".to_owned();
    }
    number.to_string()
}

/// A word of the list. A list that has `on` or `off` takes the other spellings of those.
fn word_of(words: &'static [&'static str], value: &str) -> Option<&'static str> {
    let find = |wanted: &str| {
        let found = words.iter().find(|word| word.eq_ignore_ascii_case(wanted));
        found.copied()
    };
    find(value).or_else(|| find(on_or_off(boolean(value)?)))
}

impl Form {
    fn canonical(self, value: &str) -> Option<String> {
        match self {
            Form::Any => Some(value.to_owned()),
            Form::DateStyle => date_style(value, "ISO, MDY"),
            Form::TimeZone => Some(TimeZone::parse(value).ok()?.name().to_owned()),
            Form::Encoding => {
                // PostgreSQL looks at nothing but letters and digits; asyncpg sends 'utf-8' quoted.
                let mut name = value.to_ascii_lowercase();
                name.retain(|c| c.is_ascii_alphanumeric());
                matches!(&*name, "utf8" | "unicode").then(|| "UTF8".to_owned())
            }
            Form::DirectIo => {
                let parts = value.split(',').map(str::trim);
                let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
                let known = parts.iter().all(|part| matches!(*part, "data" | "wal"));
                known.then(|| parts.join(", "))
            }
        }
    }
}

/// The style and the order that a list of words asks for; the current ones stay where no word names
/// them. None for an unknown word, or for two words that contradict each other.
fn date_style(value: &str, current: &str) -> Option<String> {
    let (mut style, mut order) = (None, None);
    let mut by_german = false;
    let give = |kept: &mut Option<&'static str>, word: &'static str| {
        let agrees = kept.is_none_or(|before| before == word);
        *kept = Some(word);
        agrees
    };
    for word in value.split(',').map(str::trim) {
        let word = word.trim_matches('"').to_ascii_lowercase();
        let agrees = match word.as_str() {
            "iso" => give(&mut style, "ISO"),
            "sql" => give(&mut style, "SQL"),
            "german" => {
                by_german = true;
                give(&mut style, "German")
            }
            word if word.starts_with("postgres") => give(&mut style, "Postgres"),
            "ymd" => give(&mut order, "YMD"),
            "dmy" => give(&mut order, "DMY"),
            word if word.starts_with("euro") => give(&mut order, "DMY"),
            "mdy" | "us" => give(&mut order, "MDY"),
            word if word.starts_with("noneuro") => give(&mut order, "MDY"),
            "default" => {
                style.get_or_insert("ISO");
                order.get_or_insert("MDY");
                true
            }
            _ => return None,
        };
        if !agrees {
            return None;
        }
    }
    let (current_style, current_order) = current.split_once(", ").unwrap_or(("ISO", "MDY"));
    let order = match by_german {
        true => order.or(Some("DMY")),
        false => order,
    };
    Some(format!(
        "{}, {}",
        style.unwrap_or(current_style),
        order.unwrap_or(current_order)
    ))
}
