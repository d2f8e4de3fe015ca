//! Cases of `interval`.

use super::random::{Random, section};

const UNITS: &[&str] = &[
    "us",
    "msec",
    "microseconds",
    "milliseconds",
    "s",
    "sec",
    "seconds",
    "m",
    "min",
    "minutes",
    "h",
    "hours",
    "d",
    "day",
    "days",
    "w",
    "weeks",
    "mon",
    "months",
    "y",
    "year",
    "years",
    "decades",
    "c",
    "century",
    "millennium",
    "mils",
    "fortnights",
    "quarter",
    "dec",
    "yr",
];
/// Texts of every form, of which some are refused.
const TEXTS: &[&str] = &[
    "1-2",
    "-1-2",
    "1-12",
    "1-2~3",
    "1-2~3~4:05:06",
    "3~4:05:06.789",
    "-3~4:05",
    "-3~-4:05",
    "3~+4:05",
    "4:05",
    "04:05:06",
    "5:06.7",
    "100:00:00",
    "-4:05:06",
    "4:60",
    "4:05:61",
    "24:00:60",
    "1:2:3:4",
    "1:",
    ":1",
    "1.5",
    "-1.5",
    ".5",
    "-.5",
    "1.",
    "1~day",
    "1day",
    "1d2h",
    "1y2mon",
    "1year2mon",
    "1min2s",
    "@~1~day",
    "@~1~year~2~mons~-3~days~4~hours~5~mins~6.7~secs~ago",
    "1~day~ago",
    "ago",
    "1~ago~day",
    "day",
    "1~day~hour",
    "1~2~days",
    "1~day~2~days",
    "1~day~2:03",
    "2:03~1~day",
    "infinity",
    "-infinity",
    "+infinity",
    "inf",
    "infinity~ago",
    "1~infinity",
    "now",
    "epoch",
    "",
    "~",
    "P",
    "PT",
    "P1Y2M3DT4H5M6S",
    "P1Y2M3W4D",
    "P-1Y2M",
    "P1.5Y",
    "P1.5M",
    "P1.5W",
    "P1.5D",
    "PT1.5H",
    "PT1.5M",
    "PT1.5S",
    "P1S",
    "PT1Y",
    "P0001-02-03T04:05:06",
    "P0001-02",
    "P00010203T040506",
    "P00010203",
    "PT040506",
    "PT04:05:06",
    "PT04:05",
    "P1",
    "PT1",
    "P1YT",
    "P1Y1Y",
    "P1e2D",
    "P1e17D",
    "p1Y",
    "P1Y~",
    "PT-1S",
    "P-1-2-3",
    "178956970~years~7~mons",
    "178956970~years~8~mons",
    "-178956970~years~-8~mons",
    "2147483647~days",
    "2147483648~days",
    "-2147483648~days",
    "9223372036854775807~us",
    "9223372036854775808~us",
    "2562047788:00:54.775807",
    "2562047788:00:54.775808",
    "2562047789:00",
    "2147483647~mons~1~year",
    "1.5~years",
    "1.04~years",
    "0.5~mons",
    "0.33~mons",
    "1.75~weeks",
    "0.1~days",
    "1.123456789~s",
    "0.0000005~s",
    "1.5~decades",
    "0.05~century",
    "0.01~millennium",
    "1~Day",
    "1~DAYS",
    "1~microsecondsX",
    "1~xyz",
    "1~2",
    "1~+2",
    "1~-2",
    "1/2",
    "1-2-3",
    "1.2.3",
    "5~%~days",
    "5é",
    "1,2",
    "1~hour,2~min",
    "99999999999~years",
    "1-99999999999",
    "1~mon~-1~day",
    "-1~mon~+1~day",
    "0~years",
    "-0",
    "1:00~2:00",
    "1~sec~2~ms",
    "1.5~sec~2~ms",
    "3~days~-04:05:06",
    "-1~04:05:06",
    "-1~days~04:05:06",
    "- 5~days",
    "+~5~days",
    "--5",
    "5~days~-~3~hours",
    "60~minutes~60~seconds",
    "1~day~1.5",
    "1~1.5~min",
];

impl Random {
    /// An interval of a few units.
    fn interval(&mut self) -> String {
        if self.below(25) == 0 {
            return self.pick(&["infinity", "-infinity"]).to_owned();
        }
        let mut parts = Vec::new();
        for unit in ["years", "mons", "days"] {
            if self.below(2) == 0 {
                let sign = self.pick(&["", "", "-"]);
                let bound = [5, 40, 400, 178_000_000][self.below(4) as usize];
                parts.push(format!("{sign}{}~{unit}", self.below(bound)));
            }
        }
        if parts.is_empty() || self.below(3) > 0 {
            let sign = self.pick(&["", "", "-"]);
            let bound = [24, 24, 100, 2_562_047_787][self.below(4) as usize];
            let hours = self.below(bound);
            let (minutes, seconds) = (self.below(60), self.below(60));
            let fraction = self.pick(&["", "", ".5", ".000001", ".123456", ".999999"]);
            parts.push(format!("{sign}{hours}:{minutes:02}:{seconds:02}{fraction}"));
        }
        parts.join("~")
    }

    /// Numbers and units put together, right or wrong.
    fn text(&mut self) -> String {
        let mut parts = Vec::new();
        for _ in 0..=self.below(3) {
            let sign = self.pick(&["", "", "", "-", "+"]);
            let bound = [10, 100, 100_000][self.below(3) as usize];
            let whole = self.below(bound);
            let fraction = self.pick(&["", "", ".5", ".25", ".1", ".999", ".0000001", "."]);
            let space = self.pick(&["~", "~", ""]);
            parts.push(format!(
                "{sign}{whole}{fraction}{space}{}",
                self.pick(UNITS)
            ));
        }
        if self.below(6) == 0 {
            parts.push("ago".to_owned());
        }
        parts.join("~")
    }

    fn factor(&mut self) -> String {
        self.pick(&[
            "0",
            "1",
            "-1",
            "2",
            "0.5",
            "-0.5",
            "1.5",
            "0.1",
            "0.3333333",
            "1e-7",
            "1e10",
            "1e300",
            "Infinity",
            "-Infinity",
            "NaN",
            "7",
            "30",
            "0.9999999",
            "12.75",
            "-3.1415926",
        ])
        .to_owned()
    }
}

/// All sections.
pub fn generate(seed: u64) -> String {
    let mut random = Random(seed);
    let mut out = String::new();
    let mut texts: Vec<_> = TEXTS.iter().map(|text| (*text).to_owned()).collect();
    texts.extend((0..600).map(|_| random.text()));
    section(&mut out, "in", "'$1'::interval", texts);
    for style in ["postgres", "postgres_verbose", "sql_standard", "iso_8601"] {
        let cases: Vec<_> = (0..150).map(|_| random.interval()).collect();
        let sql =
            format!("concat(set_config('IntervalStyle', '{style}', true), ' ', '$1'::interval)");
        section(&mut out, style, &sql, cases);
    }
    for (name, sql) in [
        ("neg", "- '$1'::interval"),
        ("justify_hours", "justify_hours('$1'::interval)"),
        ("justify_days", "justify_days('$1'::interval)"),
        ("justify_interval", "justify_interval('$1'::interval)"),
        ("send", "encode(interval_send('$1'::interval), 'hex')"),
    ] {
        let mut cases: Vec<_> = (0..150).map(|_| random.interval()).collect();
        cases.extend(["-2147483648~mons", "-2147483648~days"].map(String::from));
        section(&mut out, name, sql, cases);
    }
    for (name, sql) in [
        ("add", "'$1'::interval + '$2'::interval"),
        ("sub", "'$1'::interval - '$2'::interval"),
        ("cmp", "interval_cmp('$1'::interval, '$2'::interval)"),
    ] {
        let cases: Vec<_> = (0..250)
            .map(|_| format!("{} {}", random.interval(), random.interval()))
            .collect();
        section(&mut out, name, sql, cases);
    }
    for (name, sql) in [
        ("mul", "'$1'::interval * '$2'::float8"),
        ("div", "'$1'::interval / '$2'::float8"),
    ] {
        let cases: Vec<_> = (0..300)
            .map(|_| format!("{} {}", random.interval(), random.factor()))
            .collect();
        section(&mut out, name, sql, cases);
    }
    out
}
