//! Numbers with units, read and written as PostgreSQL does (`parse_int` and
//! `convert_int_from_base_unit` of its `guc.c`).

/// The unit that a setting's number counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// None.
    None,
    /// Kilobytes.
    Kilobytes,
    /// Pages of 8 kB.
    Pages,
    /// Megabytes.
    Megabytes,
    /// Milliseconds.
    Milliseconds,
    /// Seconds.
    Seconds,
}

const SIZES: &[(&str, f64)] = &[
    ("TB", 1_099_511_627_776.0),
    ("GB", 1_073_741_824.0),
    ("MB", 1_048_576.0),
    ("kB", 1_024.0),
    ("B", 1.0),
];
/// In microseconds.
const TIMES: &[(&str, f64)] = &[
    ("d", 86_400_000_000.0),
    ("h", 3_600_000_000.0),
    ("min", 60_000_000.0),
    ("s", 1_000_000.0),
    ("ms", 1_000.0),
    ("us", 1.0),
];

impl Unit {
    /// Its name in `pg_settings`.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        Some(match self {
            Unit::None => return None,
            Unit::Kilobytes => "kB",
            Unit::Pages => "8kB",
            Unit::Megabytes => "MB",
            Unit::Milliseconds => "ms",
            Unit::Seconds => "s",
        })
    }

    /// The units that a value may have, the largest first, and the size of this one in theirs.
    fn family(self) -> (&'static [(&'static str, f64)], f64) {
        match self {
            Unit::None => (&[], 1.0),
            Unit::Kilobytes => (SIZES, 1_024.0),
            Unit::Pages => (SIZES, 8_192.0),
            Unit::Megabytes => (SIZES, 1_048_576.0),
            Unit::Milliseconds => (TIMES, 1_000.0),
            Unit::Seconds => (TIMES, 1_000_000.0),
        }
    }

    /// The hint for a value that cannot be read.
    pub(crate) fn hint(self) -> Option<&'static str> {
        match self {
            Unit::None => None,
            Unit::Kilobytes | Unit::Pages | Unit::Megabytes => Some(
                "Valid units for this parameter are \"B\", \"kB\", \"MB\", \"GB\", and \"TB\".",
            ),
            Unit::Milliseconds | Unit::Seconds => Some(
                "Valid units for this parameter are \"us\", \"ms\", \"s\", \"min\", \"h\", \
                 and \"d\".",
            ),
        }
    }

    /// A number in this unit, from text with any unit of its family or none.
    pub(crate) fn read(self, text: &str) -> Option<f64> {
        let (number, rest) = number(text.trim_start())?;
        let (units, own) = self.family();
        match rest.trim() {
            "" => Some(number),
            suffix => {
                let (_, size) = units.iter().find(|(name, _)| *name == suffix)?;
                Some(number * size / own)
            }
        }
    }

    /// A number in this unit, in the largest unit that it is a whole number of.
    pub(crate) fn show(self, number: f64) -> String {
        let (units, own) = self.family();
        // Zero and below are special values of most settings, for which a unit says nothing.
        if units.is_empty() || number <= 0.0 {
            return number.to_string();
        }
        let whole = |(name, size): &(&str, f64)| {
            let units = number * own / size;
            ((units - units.round()).abs() < 1e-9 && units >= 1.0)
                .then(|| format!("{}{name}", units.round()))
        };
        let shown = units.iter().find_map(whole);
        shown.unwrap_or_else(|| format!("{number}{}", self.name().unwrap_or_default()))
    }
}

/// A number as `strtol` or `strtod` read it, and the text behind it.
fn number(text: &str) -> Option<(f64, &str)> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let sign = if negative { -1.0 } else { 1.0 };
    let split =
        |text: &'_ str, is: fn(&char) -> bool| text.find(|c: char| !is(&c)).unwrap_or(text.len());
    if let Some(hex) = digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        let end = split(hex, |c| c.is_ascii_hexdigit());
        let value = u32::from_str_radix(&hex[..end], 16).ok()?;
        return Some((sign * f64::from(value), &hex[end..]));
    }
    let mut end = split(digits, char::is_ascii_digit);
    let octal = end > 1 && digits.starts_with('0');
    if let Some(fraction) = digits[end..].strip_prefix('.') {
        end += 1 + split(fraction, char::is_ascii_digit);
    } else if octal {
        let value = u32::from_str_radix(&digits[..end], 8).ok()?;
        return Some((sign * f64::from(value), &digits[end..]));
    }
    let exponent = digits[end..].strip_prefix(['e', 'E']);
    if let Some(power) = exponent {
        let signed = usize::from(power.starts_with(['-', '+']));
        let length = split(&power[signed..], char::is_ascii_digit);
        end += if length > 0 { 1 + signed + length } else { 0 };
    }
    let value: f64 = digits[..end].parse().ok()?;
    value.is_finite().then_some((sign * value, &digits[end..]))
}

/// Reads PostgreSQL's spellings of a Boolean: any beginning of them that is unambiguous.
#[must_use]
pub fn boolean(text: &str) -> Option<bool> {
    let lower = text.trim().to_ascii_lowercase();
    let begins = |word: &str, least: usize| lower.len() >= least && word.starts_with(&lower);
    if begins("true", 1) || begins("yes", 1) || lower == "on" || lower == "1" {
        return Some(true);
    }
    (begins("false", 1) || begins("no", 1) || begins("off", 2) || lower == "0").then_some(false)
}

/// An amount of memory in bytes, of a number in `unit` unless it says otherwise.
#[must_use]
pub fn parse_size(text: &str, unit: Unit) -> Option<u64> {
    let (_, own) = unit.family();
    let bytes = unit.read(text)? * own;
    (0.0..=9e18).contains(&bytes).then_some(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_postgresql_reads_them() {
        let millis = |text: &str| Unit::Milliseconds.read(text);
        assert_eq!(millis("2min"), Some(120_000.0));
        assert_eq!(millis(" 1.5 s "), Some(1_500.0));
        assert_eq!(millis("500us"), Some(0.5));
        assert_eq!(millis("0x10"), Some(16.0));
        assert_eq!(millis("010"), Some(8.0));
        assert_eq!(millis("1e3ms"), Some(1_000.0));
        assert_eq!(millis("-1"), Some(-1.0));
        for bad in ["", "ms", "1 parsec", "1kB", "1e400", "--1", "1,5"] {
            assert_eq!(millis(bad), None, "{bad}");
        }
        assert_eq!(Unit::Pages.read("1MB"), Some(128.0));
        assert_eq!(Unit::Megabytes.read("2048"), Some(2_048.0));
        assert_eq!(parse_size("2MB", Unit::Kilobytes), Some(2 << 20));
        assert_eq!(parse_size("-1", Unit::Kilobytes), None);
    }

    #[test]
    fn numbers_are_shown_in_the_largest_unit_that_fits() {
        assert_eq!(Unit::Kilobytes.show(65_536.0), "64MB");
        assert_eq!(Unit::Kilobytes.show(65_537.0), "65537kB");
        assert_eq!(Unit::Pages.show(16_384.0), "128MB");
        assert_eq!(Unit::Pages.show(3.0), "24kB");
        assert_eq!(Unit::Seconds.show(300.0), "5min");
        assert_eq!(Unit::Milliseconds.show(1.5), "1500us");
        assert_eq!(Unit::Milliseconds.show(0.0), "0");
        assert_eq!(Unit::Kilobytes.show(-1.0), "-1");
        assert_eq!(Unit::None.show(0.25), "0.25");
    }

    #[test]
    fn booleans_may_be_shortened() {
        for yes in ["on", "TRUE", "t", "yes", "y", "1", "tr"] {
            assert_eq!(boolean(yes), Some(true), "{yes}");
        }
        for no in ["off", "of", "False", "f", "no", "n", "0"] {
            assert_eq!(boolean(no), Some(false), "{no}");
        }
        for bad in ["", "o", "maybe", "onn", "2"] {
            assert_eq!(boolean(bad), None, "{bad}");
        }
    }
}
