//! Cases of `numeric`.

use super::random::{Random, section};

impl Random {
    fn number(&mut self) -> String {
        let sign = self.pick(&["", "", "-"]);
        let text = match self.below(20) {
            0 => return self.pick(&["NaN", "Infinity", "-Infinity"]).to_owned(),
            1 => self
                .pick(&["0", "0.00", "1", "1.0", "2", "10", "0.5"])
                .to_owned(),
            2 => self
                .pick(&["1e100", "1e-100", "1e400", "9.99e-300", "1e-20", "1e20"])
                .to_owned(),
            3 => self
                .pick(&["0.9999999999", "1.0000000001", "0.0001", "9999", "10000"])
                .to_owned(),
            4..=6 => format!(
                "0.{}{}",
                "0".repeat(self.below(12) as usize),
                self.digits(12)
            ),
            7..=10 => self.digits(6),
            11..=15 => format!("{}.{}", self.digits(6), self.digits(8)),
            16 => format!("{}.{}", self.digits(60), self.digits(60)),
            17 => format!("{}.{}", self.digits(20), self.digits(20)),
            18 => self.digits(40),
            _ => format!("{}e{}", self.digits(4), self.below(60) as i64 - 30),
        };
        format!("{sign}{text}")
    }

    fn small(&mut self) -> String {
        let sign = self.pick(&["", "", "-"]);
        match self.below(8) {
            0 => self
                .pick(&["NaN", "Infinity", "-Infinity", "0", "-1", "1", "2"])
                .to_owned(),
            1..=3 => format!("{sign}{}", self.below(40)),
            4 => format!("{sign}{}.0", self.below(12)),
            5 => format!("{sign}0.{}", self.digits(10)),
            _ => format!("{sign}{}.{}", self.below(30), self.digits(8)),
        }
    }
}

const BINARY: &[(&str, &str)] = &[
    ("add", "'$1'::numeric + '$2'::numeric"),
    ("sub", "'$1'::numeric - '$2'::numeric"),
    ("mul", "'$1'::numeric * '$2'::numeric"),
    ("div", "'$1'::numeric / '$2'::numeric"),
    ("rem", "'$1'::numeric % '$2'::numeric"),
    ("div_integer", "div('$1'::numeric, '$2'::numeric)"),
    ("log", "log('$1'::numeric, '$2'::numeric)"),
    ("gcd", "gcd('$1'::numeric, '$2'::numeric)"),
    ("lcm", "lcm('$1'::numeric, '$2'::numeric)"),
    ("cmp", "numeric_cmp('$1'::numeric, '$2'::numeric)"),
];
const UNARY: &[(&str, &str)] = &[
    ("in", "'$1'::numeric"),
    ("neg", "- '$1'::numeric"),
    ("abs", "abs('$1'::numeric)"),
    ("sign", "sign('$1'::numeric)"),
    ("ceil", "ceil('$1'::numeric)"),
    ("floor", "floor('$1'::numeric)"),
    ("sqrt", "sqrt('$1'::numeric)"),
    ("ln", "ln('$1'::numeric)"),
    ("scale", "scale('$1'::numeric)"),
    ("min_scale", "min_scale('$1'::numeric)"),
    ("trim_scale", "trim_scale('$1'::numeric)"),
    ("int2", "'$1'::numeric::int2"),
    ("int4", "'$1'::numeric::int4"),
    ("int8", "'$1'::numeric::int8"),
    ("float4", "'$1'::numeric::float4"),
    ("float8", "'$1'::numeric::float8"),
    ("from_float4", "'$1'::float4::numeric"),
    ("from_float8", "'$1'::float8::numeric"),
    ("send", "encode(numeric_send('$1'::numeric), 'hex')"),
];
/// Texts of which some are no numbers, and some beyond the format.
const TEXTS: &[&str] = &[
    "1_000.5",
    "1__0",
    "_1",
    "1_",
    "0x1F",
    "0X_ff",
    "0o17",
    "0b1011",
    "-0x10",
    "0x",
    "0xg",
    "0b2",
    "0x1_F",
    "0x1__F",
    "0x1F_",
    "1e5",
    "1E-5",
    "1e",
    "1e+",
    "1e_5",
    "1e1_0",
    ".5",
    "5.",
    ".",
    "-",
    "+1",
    "+-1",
    "nan",
    "-NaN",
    "inf",
    "+Infinity",
    "infinit",
    "1.5.2",
    "1e131071",
    "1e131072",
    "9e131072",
    "1e-16383",
    "1e-16384",
    "0e999999",
    "0e-16384",
    "1e1073741823",
    "1e1073741824",
    "1e99999999999999999999",
    "12345678901234567890123456789012345678901234567890",
    "0.1e-16383",
    "0x123456789abcdef0123456789abcdef0123456789abcdef",
    "1._5",
    "1_.5",
    "1.5_5",
    "00012.30",
];

/// All sections.
pub fn generate(seed: u64) -> String {
    let mut random = Random(seed);
    let mut out = String::new();
    for (name, sql) in BINARY {
        let cases: Vec<_> = (0..220)
            .map(|_| format!("{} {}", random.number(), random.number()))
            .collect();
        section(&mut out, name, sql, cases);
    }
    for (name, sql) in UNARY {
        let mut cases: Vec<_> = (0..120).map(|_| random.number()).collect();
        if *name == "in" {
            cases.extend(TEXTS.iter().map(|text| (*text).to_owned()));
        }
        if name.contains("int") {
            cases.extend(["32767.4", "32767.5", "-32768.5", "-32768.4"].map(String::from));
            cases.extend(["2147483647.4", "2147483647.5", "-2147483648.5"].map(String::from));
            cases.extend(["9223372036854775807.4", "9223372036854775807.5"].map(String::from));
        }
        section(&mut out, name, sql, cases);
    }
    let exponents: Vec<_> = (0..160).map(|_| random.small()).collect();
    let big = ["6000", "5999.9", "-6000", "-5999", "1000.5", "4000"].map(String::from);
    section(
        &mut out,
        "exp",
        "exp('$1'::numeric)",
        exponents.into_iter().chain(big),
    );
    powers(&mut random, &mut out);
    roundings(&mut random, &mut out);
    buckets(&mut random, &mut out);
    let factorials = (-1..30)
        .map(|n| n.to_string())
        .chain([100, 1000, 32178].map(|n| n.to_string()));
    section(&mut out, "factorial", "factorial($1)", factorials);
    out
}

fn powers(random: &mut Random, out: &mut String) {
    let mut powers: Vec<_> = (0..400)
        .map(|_| format!("{} {}", random.small(), random.small()))
        .collect();
    powers.extend((0..200).map(|_| format!("{} {}", random.number(), random.small())));
    let far = [
        "10 131071",
        "10 131072",
        "0.5 4000",
        "1.0001 123456",
        "2 -4000",
    ];
    powers.extend(far.map(String::from));
    powers.extend(["-2 2147483648", "1e-1000 2", "7.123 1234.5", "0 0.5"].map(String::from));
    section(out, "power", "'$1'::numeric ^ '$2'::numeric", powers);
}

fn roundings(random: &mut Random, out: &mut String) {
    for (name, sql) in [
        ("round", "round('$1'::numeric, $2)"),
        ("trunc", "trunc('$1'::numeric, $2)"),
    ] {
        let cases: Vec<_> = (0..160)
            .map(|_| format!("{} {}", random.number(), random.below(60) as i64 - 25))
            .collect();
        let far = ["1.5 20000", "1.5 -200000", "9e131071 -131072"].map(String::from);
        section(out, name, sql, cases.into_iter().chain(far));
    }
    let typmods: Vec<_> = (0..160)
        .map(|_| {
            let (precision, scale) = (1 + random.below(30), random.below(25) as i64 - 8);
            format!("{} {precision} {scale}", random.number())
        })
        .collect();
    section(out, "typmod", "'$1'::numeric::numeric($2,$3)", typmods);
}

fn buckets(random: &mut Random, out: &mut String) {
    let buckets: Vec<_> = (0..160)
        .map(|_| {
            let count = random.pick(&["1", "5", "10", "1000", "0", "-1", "2147483647"]);
            format!(
                "{} {} {} {count}",
                random.small(),
                random.small(),
                random.small()
            )
        })
        .collect();
    let sql = "width_bucket('$1'::numeric, '$2'::numeric, '$3'::numeric, $4)";
    section(out, "width_bucket", sql, buckets);
}
