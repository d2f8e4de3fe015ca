//! Time zones.

use std::fmt;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone as Rules};

use crate::abbreviations::{self, Abbreviation};
use crate::calendar::{MICROS_PER_DAY, MICROS_PER_SECOND, civil_from_days};
use crate::error::{SqlState, TypeError, TypeResult};
use crate::posix;

/// A time zone by its IANA name or as a fixed offset.
#[derive(Clone)]
pub struct TimeZone {
    name: String,
    /// `None` is UTC, which needs no look-up.
    zone: Option<Rules>,
}

impl Default for TimeZone {
    fn default() -> TimeZone {
        TimeZone {
            name: "UTC".to_owned(),
            zone: None,
        }
    }
}

impl fmt::Debug for TimeZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TimeZone({})", self.name)
    }
}

impl PartialEq for TimeZone {
    fn eq(&self, other: &TimeZone) -> bool {
        self.name == other.name
    }
}

/// The zone at a plain number of hours east of UTC, by the name that PostgreSQL gives it; the inner
/// value is none for a number out of range.
fn by_hours(text: &str) -> Option<Option<TimeZone>> {
    if !text.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first)) {
        return None;
    }
    let hours = text.parse::<f64>().ok()?;
    let seconds = (hours * 3600.0).round() as i32;
    let Ok(offset) = Offset::from_seconds(seconds) else {
        return Some(None);
    };
    let written = |sign: char| {
        let all = seconds.unsigned_abs();
        let mut text = format!("{sign}{:02}", all / 3600);
        if !all.is_multiple_of(3600) {
            text.push_str(&format!(":{:02}", all / 60 % 60));
        }
        if !all.is_multiple_of(60) {
            text.push_str(&format!(":{:02}", all % 60));
        }
        text
    };
    let (east, west) = if seconds < 0 { ('-', '+') } else { ('+', '-') };
    Some(Some(TimeZone {
        name: format!("<{}>{}", written(east), written(west)),
        zone: Some(Rules::fixed(offset)),
    }))
}

impl TimeZone {
    /// The zone called `name` (`Europe/Berlin`, `UTC`, `+02:00`); 22023 if there is none.
    pub fn parse(name: &str) -> TypeResult<TimeZone> {
        let trimmed = name.trim();
        if ["utc", "gmt", "zulu", "z", "default", "etc/utc"]
            .iter()
            .any(|utc| trimmed.eq_ignore_ascii_case(utc))
        {
            let kept = if trimmed.eq_ignore_ascii_case("default") {
                "UTC"
            } else {
                trimmed
            };
            return Ok(TimeZone {
                name: kept.to_owned(),
                zone: None,
            });
        }
        let unknown = || {
            TypeError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("invalid value for parameter \"TimeZone\": \"{name}\""),
            )
        };
        if trimmed.starts_with(['+', '-']) && trimmed.contains(':') {
            let offset = fixed_offset(trimmed).ok_or_else(unknown)?;
            return Ok(TimeZone {
                name: trimmed.to_owned(),
                zone: Some(Rules::fixed(offset)),
            });
        }
        if let Some(zone) = by_hours(trimmed) {
            return zone.ok_or_else(unknown);
        }
        if trimmed.starts_with('<') {
            return Ok(TimeZone {
                name: trimmed.to_owned(),
                zone: Some(posix::rules(trimmed).ok_or_else(unknown)?),
            });
        }
        let zone = Rules::get(trimmed).map_err(|_| unknown())?;
        Ok(TimeZone {
            name: zone.iana_name().unwrap_or(trimmed).to_owned(),
            zone: Some(zone),
        })
    }

    /// The zone at a fixed distance, in seconds east of UTC.
    pub fn fixed(seconds: i32) -> TimeZone {
        let offset = Offset::from_seconds(seconds).unwrap_or(Offset::UTC);
        let minutes = seconds.unsigned_abs() / 60;
        let sign = if seconds < 0 { '-' } else { '+' };
        TimeZone {
            name: format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60),
            zone: (seconds != 0).then(|| Rules::fixed(offset)),
        }
    }

    /// The zone that `AT TIME ZONE` means by a text: an abbreviation, a zone's name, or rules as
    /// POSIX writes them.
    ///
    /// # Errors
    /// 22023 when there is none.
    pub fn of_expression(name: &str) -> TypeResult<TimeZone> {
        match abbreviations::find(&name.to_ascii_lowercase()) {
            Some(Abbreviation::Fixed(seconds, _)) => return Ok(TimeZone::fixed(seconds)),
            Some(Abbreviation::Zone(zone)) => return TimeZone::parse(zone),
            None => {}
        }
        // A number is no name here: it counts hours to the west, for SET hours to the east.
        let number =
            name.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first));
        let named = match number || name.trim() != name {
            true => None,
            false => TimeZone::parse(name).ok(),
        };
        let by_rules = || {
            let rules = posix::rules(name)?;
            let fixed = rules.to_fixed_offset().ok().map(|offset| offset.seconds());
            Some(fixed.map_or_else(
                || TimeZone {
                    name: name.to_owned(),
                    zone: Some(rules),
                },
                TimeZone::fixed,
            ))
        };
        let found = named.or_else(by_rules);
        found.ok_or_else(|| {
            TypeError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("time zone \"{name}\" not recognized"),
            )
        })
    }

    /// The zone's abbreviation at an instant; `None` for an offset that has no name.
    pub fn abbreviation_at(&self, micros: i64) -> Option<String> {
        let Some(zone) = &self.zone else {
            return Some("UTC".to_owned());
        };
        if zone.iana_name().is_none() {
            let (named, _) = self.name.strip_prefix('<')?.split_once('>')?;
            return zone.to_fixed_offset().is_ok().then(|| named.to_owned());
        }
        let seconds = within_rules(micros).div_euclid(MICROS_PER_SECOND);
        let at = Timestamp::from_second(seconds).ok()?;
        Some(zone.to_offset_info(at).abbreviation().to_owned())
    }

    /// The name it was asked for by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Seconds east of UTC at an instant (microseconds since 1970 UTC).
    pub fn offset_at(&self, micros: i64) -> i32 {
        let Some(zone) = &self.zone else { return 0 };
        let seconds = within_rules(micros).div_euclid(MICROS_PER_SECOND);
        Timestamp::from_second(seconds).map_or(0, |at| zone.to_offset(at).seconds())
    }

    /// Seconds east of UTC at a local clock reading. A reading that occurs twice means the
    /// later (standard) one, one that is skipped is read with the offset before the gap, as
    /// PostgreSQL does.
    pub fn offset_of_local(&self, local_micros: i64) -> i32 {
        let Some(zone) = &self.zone else { return 0 };
        let Some(local) = civil(within_rules(local_micros)) else {
            return 0;
        };
        let offset = match zone.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset,
            AmbiguousOffset::Gap { before, .. } => before,
            AmbiguousOffset::Fold { after, .. } => after,
        };
        offset.seconds()
    }

    /// Whether the zone has one offset for all time.
    pub fn is_fixed(&self) -> bool {
        self.zone
            .as_ref()
            .is_none_or(|zone| zone.to_fixed_offset().is_ok())
    }

    /// As [`TimeZone::offset_of_local`], by the latest rule before that time which the zone calls
    /// by an abbreviation, else by the first such rule after it.
    pub fn offset_of_abbreviation(&self, local_micros: i64, abbreviation: &str) -> i32 {
        let usual = self.offset_of_local(local_micros);
        let Some(zone) = &self.zone else { return usual };
        let micros = within_rules(local_micros) - i64::from(usual) * MICROS_PER_SECOND;
        let Ok(at) = Timestamp::from_second(micros.div_euclid(MICROS_PER_SECOND)) else {
            return usual;
        };
        let now = zone.to_offset_info(at);
        if now.abbreviation() == abbreviation {
            return now.offset().seconds();
        }
        let before = zone
            .preceding(at)
            .find(|rule| rule.abbreviation() == abbreviation);
        // Rules repeat for ever: a few of them have every abbreviation that is still in use.
        let after = || {
            zone.following(at)
                .take(64)
                .find(|r| r.abbreviation() == abbreviation)
        };
        match before {
            Some(rule) => rule.offset().seconds(),
            None => after().map_or(usual, |rule| rule.offset().seconds()),
        }
    }
}

/// An instant of the years 1 to 9599 at which the same rules hold: those after the last rule
/// change repeat with the calendar, every 400 years; before the first there is one offset.
fn within_rules(micros: i64) -> i64 {
    const FIRST: i64 = -62_135_596_800 * MICROS_PER_SECOND;
    const CYCLE: i64 = 146_097 * MICROS_PER_DAY;
    /// 9200-01-01.
    const LATE: i64 = 228_156_739_200 * MICROS_PER_SECOND;
    if micros >= LATE {
        LATE + (micros - LATE) % CYCLE
    } else {
        micros.max(FIRST)
    }
}

/// A clock reading as the library has it, to the second.
fn civil(local_micros: i64) -> Option<DateTime> {
    let (year, month, day) = civil_from_days(local_micros.div_euclid(MICROS_PER_DAY));
    let second = local_micros.rem_euclid(MICROS_PER_DAY) / MICROS_PER_SECOND;
    let small = |value: i64| i8::try_from(value).ok();
    DateTime::new(
        i16::try_from(year).ok()?,
        small(month)?,
        small(day)?,
        small(second / 3600)?,
        small(second / 60 % 60)?,
        small(second % 60)?,
        0,
    )
    .ok()
}

/// `+HH`, `+HHMM` or `+HH:MM`, east of UTC.
fn fixed_offset(text: &str) -> Option<Offset> {
    let digits: String = text
        .strip_prefix(['+', '-'])?
        .chars()
        .filter(|c| *c != ':')
        .collect();
    if !digits.is_ascii() || !matches!(digits.len(), 2 | 4) {
        return None;
    }
    let hours: i32 = digits[..2].parse().ok()?;
    let minutes: i32 = digits
        .get(2..)
        .filter(|m| !m.is_empty())
        .map_or(Ok(0), str::parse)
        .ok()?;
    let seconds = hours * 3600 + minutes * 60;
    let signed = if text.starts_with('-') {
        -seconds
    } else {
        seconds
    };
    (minutes < 60).then(|| Offset::from_seconds(signed).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_of_expressions_count_west_and_know_abbreviations() {
        let winter = 1_705_312_800_000_000;
        let offset = |name: &str| {
            let zone = TimeZone::of_expression(name);
            zone.map(|zone| zone.offset_at(winter))
                .map_err(|e| e.message.into_string())
        };
        assert_eq!(offset("+02"), Ok(-7200));
        assert_eq!(offset("-05:30"), Ok(19_800));
        assert_eq!(offset("UTC+3"), Ok(-10_800));
        assert_eq!(offset("est"), Ok(-18_000));
        // As PostgreSQL 18 has answered them.
        assert_eq!(offset("5"), Ok(-18_000));
        assert_eq!(offset("-5"), Ok(18_000));
        assert_eq!(offset("05:30:15"), Ok(-19_815));
        assert_eq!(offset("5.5"), Ok(-18_000));
        assert_eq!(offset("1e1"), Ok(-3600));
        assert_eq!(offset("5 "), Ok(-18_000));
        assert_eq!(offset(" 5"), Ok(-18_000));
        assert_eq!(offset("<+03>-3"), Ok(10_800));
        assert_eq!(offset("ABC5DEF,M3.2.0,M11.1.0"), Ok(-18_000));
        let summer = winter + 15_552_000_000_000;
        let zone = TimeZone::of_expression("ABC5DEF").unwrap();
        assert_eq!(zone.offset_at(summer), -14_400);
        for wrong in ["168", "0530", "123456", "5:", "5:30:", "+", ""] {
            let error = Err(format!("time zone \"{wrong}\" not recognized"));
            assert_eq!(offset(wrong), error);
        }
        assert_eq!(offset("Europe/Berlin"), Ok(3600));
        assert_eq!(
            offset("Mars"),
            Err("time zone \"Mars\" not recognized".to_owned())
        );
    }
}
