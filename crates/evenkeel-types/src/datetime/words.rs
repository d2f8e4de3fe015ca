//! The words of dates and times.

/// The meaning of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// `at`, `on`: nothing.
    Filler,
    /// A month, from 1.
    Month(i64),
    /// A day of the week.
    Weekday,
    /// `am` (false) or `pm`.
    Half(bool),
    /// `ad` (false) or `bc`.
    Era(bool),
    /// `dst`
    Daylight,
    /// `j`, `jd`, `julian`: a Julian day follows.
    Julian,
    /// `t`: a time follows.
    Time,
    /// A unit that no date or time takes.
    Unit,
    /// `now`
    Now,
    /// `yesterday`, `today`, `tomorrow`: days from today.
    Day(i64),
    /// `allballs`: midnight UTC.
    Midnight,
    /// `epoch`
    Epoch,
    /// `infinity`
    Infinity,
    /// `-infinity`
    NegativeInfinity,
}

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// Finds a word in lower case.
pub fn find(word: &str) -> Option<Word> {
    let month = MONTHS.iter().position(|m| *m == word || m[..3] == *word);
    if let Some(month) = month {
        return Some(Word::Month(month as i64 + 1));
    }
    Some(match word {
        "sept" => Word::Month(9),
        "at" | "on" => Word::Filler,
        "sun" | "sunday" | "mon" | "monday" | "tue" | "tues" | "tuesday" | "wed" | "weds"
        | "wednesday" | "thu" | "thur" | "thurs" | "thursday" | "fri" | "friday" | "sat"
        | "saturday" => Word::Weekday,
        "am" => Word::Half(false),
        "pm" => Word::Half(true),
        "ad" => Word::Era(false),
        "bc" => Word::Era(true),
        "dst" => Word::Daylight,
        "j" | "jd" | "julian" => Word::Julian,
        "t" => Word::Time,
        "d" | "dow" | "doy" | "h" | "isodow" | "isoyear" | "m" | "mm" | "s" | "y" => Word::Unit,
        "now" => Word::Now,
        "yesterday" => Word::Day(-1),
        "today" => Word::Day(0),
        "tomorrow" => Word::Day(1),
        "allballs" => Word::Midnight,
        "epoch" => Word::Epoch,
        "infinity" | "+infinity" => Word::Infinity,
        "-infinity" => Word::NegativeInfinity,
        _ => return None,
    })
}
