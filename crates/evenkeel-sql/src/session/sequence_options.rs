//! The options of a sequence, as PostgreSQL's `init_params` checks them.

use evenkeel_engine::sequence::Rule;
use evenkeel_planner::ast::{Pos, QualifiedName, SequenceOption, SequenceOptionKind, TypeName};

use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::SqlType;

/// Options as they were given, each at most once.
#[derive(Debug, Default)]
pub(super) struct Options<'a> {
    pub ty: Option<&'a TypeName>,
    increment: Option<&'a str>,
    min: Option<Option<&'a str>>,
    max: Option<Option<&'a str>>,
    start: Option<&'a str>,
    restart: Option<Option<&'a str>>,
    cache: Option<&'a str>,
    cycle: Option<bool>,
    pub owned_by: Option<&'a QualifiedName>,
    /// UNLOGGED
    pub unlogged: bool,
    /// `SEQUENCE NAME`, which only an identity has.
    pub name: Option<(&'a QualifiedName, Pos)>,
}

/// A sequence's definition, without its name and owner.
#[derive(Debug, Clone, Copy)]
pub(super) struct Definition {
    pub ty: SqlType,
    pub start: i64,
    pub rule: Rule,
}

/// The type of a `serial`, whose name is no type's.
pub(super) fn serial_type(ty: &TypeName) -> Option<SqlType> {
    let [name] = ty.name.parts.as_slice() else {
        return None;
    };
    Some(match name.text.as_str() {
        "smallserial" | "serial2" => SqlType::Int2,
        "serial" | "serial4" => SqlType::Int4,
        "bigserial" | "serial8" => SqlType::Int8,
        _ => return None,
    })
}

fn set<T>(slot: &mut Option<T>, value: T) -> Result<(), ()> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(()),
    }
}

impl<'a> Options<'a> {
    /// Reads a list. The error is the place of an option that was given before.
    pub fn of(list: &'a [SequenceOption]) -> Result<Options<'a>, Pos> {
        use SequenceOptionKind as Kind;
        let mut options = Options::default();
        for option in list {
            let new = match &option.kind {
                Kind::As(ty) => set(&mut options.ty, ty),
                Kind::Increment(n) => set(&mut options.increment, n),
                Kind::Min(n) => set(&mut options.min, n.as_deref()),
                Kind::Max(n) => set(&mut options.max, n.as_deref()),
                Kind::Start(n) => set(&mut options.start, n),
                Kind::Restart(n) => set(&mut options.restart, n.as_deref()),
                Kind::Cache(n) => set(&mut options.cache, n),
                Kind::Cycle(cycle) => set(&mut options.cycle, *cycle),
                Kind::OwnedBy(name) => set(&mut options.owned_by, name),
                Kind::Name(name) => set(&mut options.name, (name, option.at)),
                Kind::Logged(logged) => {
                    options.unlogged = !logged;
                    Ok(())
                }
            };
            new.map_err(|()| option.at)?;
        }
        Ok(options)
    }

    /// The definition that the options make of a type's defaults, or of a definition that there
    /// is, and the number that it begins again with.
    ///
    /// # Errors
    /// 22023, 22003, 22P02.
    pub fn define(
        &self,
        ty: SqlType,
        old: Option<(&Definition, i64)>,
    ) -> SqlResult<(Definition, Option<i64>)> {
        let increment = match self.increment {
            Some(text) => number(text)?,
            None => old.map_or(1, |(old, _)| old.rule.increment),
        };
        if increment == 0 {
            return Err(invalid("INCREMENT must not be zero"));
        }
        let (min, max) = self.bounds(ty, increment > 0, old.map(|(old, _)| old))?;
        let start = match (self.start, old) {
            (Some(text), _) => number(text)?,
            (None, Some((old, _))) => old.start,
            (None, None) if increment > 0 => min,
            (None, None) => max,
        };
        within("START", start, min, max)?;
        let restart = match self.restart {
            Some(Some(text)) => Some(number(text)?),
            Some(None) => Some(start),
            None => None,
        };
        let stands = restart.or(old.map(|(_, last)| last)).unwrap_or(start);
        within("RESTART", stands, min, max)?;
        let cache = match self.cache {
            Some(text) => number(text)?,
            None => old.map_or(1, |(old, _)| old.rule.cache),
        };
        if cache <= 0 {
            let message = format!("CACHE ({cache}) must be greater than zero");
            return Err(invalid(message));
        }
        let cycle = self
            .cycle
            .unwrap_or(old.is_some_and(|(old, _)| old.rule.cycle));
        let rule = Rule {
            increment,
            min,
            max,
            cache,
            cycle,
        };
        Ok((Definition { ty, start, rule }, restart))
    }

    /// MINVALUE and MAXVALUE. Bounds that were those of the old type become those of the new one.
    fn bounds(
        &self,
        ty: SqlType,
        ascending: bool,
        old: Option<&Definition>,
    ) -> SqlResult<(i64, i64)> {
        let (least, greatest) = (least_of(ty), greatest_of(ty));
        let max = match (self.max, old) {
            (Some(Some(text)), _) => number(text)?,
            (None, Some(old)) if old.rule.max != greatest_of(old.ty) => old.rule.max,
            (None, Some(_)) => greatest,
            _ if ascending => greatest,
            _ => -1,
        };
        if max > greatest || max < least {
            return Err(out_of_range("MAXVALUE", max, ty));
        }
        let min = match (self.min, old) {
            (Some(Some(text)), _) => number(text)?,
            (None, Some(old)) if old.rule.min != least_of(old.ty) => old.rule.min,
            (None, Some(_)) => least,
            _ if ascending => 1,
            _ => least,
        };
        if min > greatest || min < least {
            return Err(out_of_range("MINVALUE", min, ty));
        }
        if min >= max {
            let message = format!("MINVALUE ({min}) must be less than MAXVALUE ({max})");
            return Err(invalid(message));
        }
        Ok((min, max))
    }
}

fn least_of(ty: SqlType) -> i64 {
    match ty {
        SqlType::Int2 => i64::from(i16::MIN),
        SqlType::Int4 => i64::from(i32::MIN),
        _ => i64::MIN,
    }
}

fn greatest_of(ty: SqlType) -> i64 {
    match ty {
        SqlType::Int2 => i64::from(i16::MAX),
        SqlType::Int4 => i64::from(i32::MAX),
        _ => i64::MAX,
    }
}

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message.into())
}

fn out_of_range(what: &str, value: i64, ty: SqlType) -> SqlError {
    invalid(format!(
        "{what} ({value}) is out of range for sequence data type {}",
        ty.base_name()
    ))
}

fn within(what: &str, value: i64, min: i64, max: i64) -> SqlResult<()> {
    if value < min {
        let message = format!("{what} value ({value}) cannot be less than MINVALUE ({min})");
        return Err(invalid(message));
    }
    if value > max {
        let message = format!("{what} value ({value}) cannot be greater than MAXVALUE ({max})");
        return Err(invalid(message));
    }
    Ok(())
}

fn number(text: &str) -> SqlResult<i64> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let message = format!("value \"{text}\" is out of range for type bigint");
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
    }
    let message = format!("invalid input syntax for type bigint: \"{text}\"");
    Err(SqlError::new(
        SqlState::INVALID_TEXT_REPRESENTATION,
        message,
    ))
}
