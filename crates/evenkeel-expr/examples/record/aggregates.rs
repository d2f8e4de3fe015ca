//! Cases for every aggregate of the table.

use std::fmt::Write as _;

use evenkeel_expr::aggregate::AGGREGATES;
use evenkeel_expr::proc::{ArgType, Proc, ProcKind};
use evenkeel_types::SqlType;

use crate::Case;

/// Values from which the rows of a case are drawn, by `typname`; `\N` is NULL.
const VALUES: &[(&str, &str)] = &[
    ("bool", r"true;false;true;\N"),
    ("int2", r"0;1;-1;2;7;32767;-32768;\N;100;-3"),
    ("int4", r"0;1;-1;2;7;2147483647;-2147483648;\N;1000;-3"),
    (
        "int8",
        r"0;1;-1;2;7;9223372036854775807;-9223372036854775808;\N;5000000000;-3",
    ),
    (
        "float4",
        r"0;-0;1;0.1;-2.5;1e-30;3e38;NaN;\N;16777216;0.3;-1.25",
    ),
    (
        "float8",
        r"0;-0;1;0.1;-2.5;1e-300;1e308;\N;1e16;0.3;123456.789;-7;3;2;1e9;4.5",
    ),
    (
        "numeric",
        r"0;1;0.10;-2.50;12345678901234567890.123;1e-20;\N;3;0.000;99999.9999;-1;1e40;7.5",
    ),
    ("text", r"a;b;abc;;\N;B;zebra;a"),
    ("bpchar", r"a;b  ;abc;\N;B;zebra;a "),
    ("bytea", r"\x00;\x;\xff01;\N;\x61;\x6162"),
    (
        "date",
        r"2024-02-29;1999-12-31;\N;infinity;-infinity;0044-03-15 BC;2024-02-29",
    ),
    ("time", r"00:00;23:59:59.999999;\N;12:34:56;24:00"),
    (
        "timestamp",
        r"2024-02-29 12:00;1999-12-31 23:59:59.5;\N;infinity;-infinity",
    ),
    (
        "timestamptz",
        r"2024-02-29 12:00+00;1999-12-31 23:59:59.5+02;\N;infinity;-infinity",
    ),
    (
        "interval",
        r"1 day;24:00:00;1 mon;30 days;\N;-5 days 03:00:00.5;2 years 3 mons;00:00:01;7 days",
    ),
    (
        "_int4",
        r"{1,2};{};{1,2,3};\N;{{1,2},{3,4}};[0:1]={1,2};{NULL};{3,4};{2,1}",
    ),
    ("_float8", r"{0};{-0};{1.5,NULL};\N;{2}"),
    ("oid", r"0;1;4294967295;\N;26"),
    (
        "uuid",
        r"00000000-0000-0000-0000-000000000001;ffffffff-0000-0000-0000-000000000001;\N",
    ),
];

/// Values that are equal to others and print differently. Which of them an ordered set returns is
/// an accident of sorting.
const EQUAL_TO_OTHERS: &[&str] = &["-0", "0.000", "24:00:00", "30 days"];

/// Rows that random ones would hardly make: `typname`, rows.
const CHOSEN: &[(&str, &[&str])] = &[
    (
        "float4",
        &[
            "3e38;3e38",
            "Infinity;-Infinity",
            "Infinity;1;2",
            "-0",
            "NaN;1",
            "1;NaN",
        ],
    ),
    (
        "float8",
        &[
            "1e308;1e308",
            "1e308;-1e308;1e308",
            "Infinity;-Infinity",
            "Infinity",
            "NaN",
            "1;Infinity;2",
            "-0;-0",
            "1e200;-1e200",
            "1;1;1",
            "0.1;0.1;0.1",
            "1e-200;2e-200;3e-200",
            "100000003;100000006;100000009",
        ],
    ),
    (
        "numeric",
        &[
            "NaN",
            "NaN;1",
            "Infinity;1",
            "-Infinity;2",
            "Infinity;-Infinity",
            "Infinity;Infinity",
            "1.50;1.5;0.000",
            "0.1;0.2;0.30",
            "1e-200;1",
            "-0.5;0.5",
            "5;5;5",
            "Infinity",
            "NaN;Infinity",
            "1.0000000000000000000000000001;1",
            "1e1000;1;-1e1000",
            "4;13;16;10000;10001",
        ],
    ),
    (
        "interval",
        &[
            "infinity;1 day",
            "-infinity;infinity",
            "-infinity;1 mon",
            "178000000 years;178000000 years",
            "1 mon;1 mon;1 day",
            "1 mon;2 days;00:00:00.000001",
            "infinity;infinity",
        ],
    ),
    (
        "int8",
        &[
            "9223372036854775807;9223372036854775807;9223372036854775807",
            "-9223372036854775808;-9223372036854775808;9223372036854775807",
            "9223372036854775807;-9223372036854775808;3;4;4611686018427387904;-9223372036854775807",
        ],
    ),
    (
        "int4",
        &[
            "2147483647;2147483647;2147483647",
            "1;2;3;4;5;6;7;8;9;10",
            "5;5;5",
        ],
    ),
    ("int2", &["1;2;3;4;5;6;7;8;9;10", "32767;32767"]),
];

/// Arrays that have one shape, for `array_agg`.
const ARRAYS: (&str, &[&str]) = (
    "_int4",
    &[
        "{1,2};{3,4}",
        "{{1,2},{3,NULL}};{{5,6},{7,8}}",
        "{{{{{{1}}}}}}",
        "[2:3]={1,2};[2:3]={0,0}",
        "{1};{2};{3};{4};{5}",
        "{2,1};{};{1,2}",
    ],
);

/// Pairs for the aggregates of two floats.
const PAIRS: &[&str] = &[
    "1|1;2|2;3|3",
    "1|5;2|5;3|5",
    "5|1;5|2;5|3",
    r"1|\N;\N|2",
    "1|2",
    "1|1e308;2|-1e308;3|1e308",
    "1e200|1e200;-1e200|-1e200",
    "Infinity|1;2|2",
    "1|Infinity",
    "NaN|1;1|2",
    "0.1|1.3;0.2|7;0.35|-8.25",
    "1e-160|1e-160;2e-160|3e-160;5e-160|4e-160",
    "5|5;5|5",
    "0.09|1;0.09|2;0.09|3;0.09|4",
    "1e150|1e150;2e150|2e150;3e150|3.5e150",
    "1|0.1;1|0.2",
    "10|100000003;11|100000006;14|100000009",
];

/// The direct arguments of ordered sets.
const PERCENTILES: &[&str] = &[
    "0", "1", "0.5", "0.25", "0.9", "0.3333", r"\N", "1.5", "-0.1", "NaN", "1e-7",
];

/// The same of those that take arrays.
const PERCENTILE_ARRAYS: &[&str] = &[
    "{0.5}",
    "{1,0,0.5,0.25}",
    "{}",
    r"\N",
    "{{0.1,0.9},{NULL,0.5}}",
    "[0:1]={0.3,0.7}",
    "{0.5,2}",
    "{0.99,0.01,NULL}",
];

/// Orders of ordered sets.
const ORDERS: &[&str] = &["", "desc", "nulls first", "desc nulls last"];

/// A xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

/// Cases of every aggregate: name, types of the columns, direct arguments, order, rows.
pub fn cases(seed: u64) -> Vec<Case> {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut out = vec![Case {
        line: format!(
            "# Recorded from PostgreSQL 18, locale C, seed {seed}: aggregate, types of its columns, \
             direct arguments, order, rows, type and answer. `moving NAME` is the aggregate over \
             ROWS 2 PRECEDING, a value for each row."
        ),
        sql: None,
    }];
    // Rows of values have no type that a case could name.
    let named = |proc: &&Proc| proc.args != [ArgType::Record];
    for proc in AGGREGATES
        .iter()
        .flat_map(|procs| procs.iter())
        .filter(named)
    {
        for types in signatures(proc) {
            for rows in row_lists(proc, &types, &mut random) {
                push_cases(proc, &types, &rows, &mut random, &mut out);
            }
        }
    }
    out
}

/// The types that the aggregated columns have.
fn signatures(proc: &Proc) -> Vec<Vec<&'static str>> {
    let direct = match proc.kind {
        ProcKind::OrderedSet(_, direct) => direct,
        _ => 0,
    };
    let columns = &proc.args[direct..];
    match columns {
        [ArgType::AnyArray] => vec![vec!["_int4"], vec!["_float8"]],
        [ArgType::AnyElement | ArgType::AnyNonArray | ArgType::Any] => {
            let mut types = vec![vec!["int4"], vec!["text"], vec!["float8"], vec!["numeric"]];
            if matches!(proc.kind, ProcKind::HypotheticalSet(_)) {
                types.push(vec!["int4", "text"]);
            }
            types
        }
        columns => vec![columns.iter().filter_map(|ty| name_of(*ty)).collect()],
    }
}

fn name_of(ty: ArgType) -> Option<&'static str> {
    match ty {
        ArgType::Is(ty) => Some(SqlType::type_name(ty)),
        _ => None,
    }
}

fn values_of(ty: &str) -> Vec<&'static str> {
    let found = VALUES.iter().find(|(name, _)| *name == ty);
    found.map_or(Vec::new(), |(_, values)| values.split(';').collect())
}

fn row_lists(proc: &Proc, types: &[&str], random: &mut Random) -> Vec<String> {
    let mut lists = vec![String::new()];
    if types.is_empty() {
        // `count(*)`: rows of a column that it does not look at.
        return vec![String::new(), "1".to_owned(), r"1;\N;3;4".to_owned()];
    }
    if types == ["float8", "float8"] {
        lists.extend(PAIRS.iter().map(|rows| (*rows).to_owned()));
    }
    if let [ty] = types {
        let mut chosen = CHOSEN.iter().chain([&ARRAYS]);
        let chosen = chosen.find(|(name, _)| name == ty);
        lists.extend(
            chosen
                .iter()
                .flat_map(|(_, rows)| rows.iter())
                .map(|rows| (*rows).to_owned()),
        );
    }
    let random_lists = match proc.kind {
        ProcKind::Aggregate(_) => 6,
        _ => 10,
    };
    for at in 0..random_lists {
        let mut rows = String::new();
        for row in 0..=(at * 2) {
            if row > 0 {
                rows.push(';');
            }
            for (column, ty) in types.iter().enumerate() {
                let bar = if column > 0 { "|" } else { "" };
                let mut values = values_of(ty);
                if !matches!(proc.kind, ProcKind::Aggregate(_)) {
                    values.retain(|value| !EQUAL_TO_OTHERS.contains(value));
                }
                let _ = write!(rows, "{bar}{}", random.pick(&values));
            }
        }
        lists.push(rows);
    }
    lists
}

fn push_cases(
    proc: &Proc,
    types: &[&'static str],
    rows: &str,
    random: &mut Random,
    out: &mut Vec<Case>,
) {
    match proc.kind {
        ProcKind::Aggregate(_) => plain(proc.name, types, rows, out),
        ProcKind::OrderedSet(_, 0) => ordered(proc.name, types, &[], rows, random, out),
        ProcKind::OrderedSet(..) => {
            let direct = match proc.args[0] {
                ArgType::Is(SqlType::Array(..)) => ("_float8", random.pick(PERCENTILE_ARRAYS)),
                _ => ("float8", random.pick(PERCENTILES)),
            };
            let direct = [direct];
            ordered(proc.name, types, &direct, rows, random, out);
        }
        ProcKind::HypotheticalSet(_) => {
            let value = |ty: &&'static str| (*ty, random.pick(&values_of(ty)));
            let direct: Vec<(&str, &str)> = types.iter().map(value).collect();
            ordered(proc.name, types, &direct, rows, random, out);
        }
        _ => {}
    }
}

/// A case of the whole group, and one of a moving frame.
fn plain(name: &str, types: &[&str], rows: &str, out: &mut Vec<Case>) {
    let (typed, from) = (types.join(","), relation(types, rows));
    let call = match types {
        [] => format!("{name}(*)"),
        types => format!("{name}({})", columns(types)),
    };
    out.push(Case {
        line: format!("{name}\t{typed}\t\t\t{rows}"),
        sql: Some(typed_answer(&call, &from)),
    });
    if rows.contains(';') {
        let frame = "(ORDER BY n ROWS 2 PRECEDING)";
        out.push(Case {
            line: format!("moving {name}\t{typed}\t\t\t{rows}"),
            sql: Some(format!(
                "SELECT string_agg(coalesce(m::text, '\\N'), ';' ORDER BY n) \
                 FROM (SELECT n, {call} OVER {frame} AS m FROM {from}) s"
            )),
        });
    }
}

fn ordered(
    name: &str,
    types: &[&str],
    direct: &[(&str, &str)],
    rows: &str,
    random: &mut Random,
    out: &mut Vec<Case>,
) {
    let order = random.pick(ORDERS);
    let pairs = direct.iter().map(|(ty, value)| format!("{ty}:{value}"));
    let typed_direct: Vec<String> = pairs.collect();
    let literals = direct.iter().map(|(ty, value)| literal(ty, value));
    let literals: Vec<String> = literals.collect();
    let by: Vec<String> = (0..types.len())
        .map(|at| format!("c{at} {order}"))
        .collect();
    let call = format!(
        "{name}({}) WITHIN GROUP (ORDER BY {})",
        literals.join(", "),
        by.join(", ")
    );
    out.push(Case {
        line: format!(
            "{name}\t{}\t{}\t{order}\t{rows}",
            types.join(","),
            typed_direct.join("|")
        ),
        sql: Some(typed_answer(&call, &relation(types, rows))),
    });
}

fn typed_answer(call: &str, from: &str) -> String {
    format!("SELECT pg_typeof({call}) || ' ' || coalesce(({call})::text, '\\N') FROM {from}")
}

fn columns(types: &[&str]) -> String {
    let names: Vec<String> = (0..types.len()).map(|at| format!("c{at}")).collect();
    names.join(", ")
}

fn literal(ty: &str, value: &str) -> String {
    match value {
        r"\N" => format!("NULL::{ty}"),
        value => format!("'{value}'::{ty}"),
    }
}

/// The rows as a relation of `n`, which numbers them, and `c0`, `c1`, ….
fn relation(types: &[&str], rows: &str) -> String {
    let types = if types.is_empty() { &["int4"] } else { types };
    let names = columns(types);
    if rows.is_empty() {
        let nulls: Vec<String> = types.iter().map(|ty| literal(ty, r"\N")).collect();
        return format!("(SELECT 1, {} WHERE false) v(n, {names})", nulls.join(", "));
    }
    let tuples: Vec<String> = rows
        .split(';')
        .enumerate()
        .map(|(n, row)| {
            let values: Vec<String> = row
                .split('|')
                .zip(types)
                .map(|(value, ty)| literal(ty, value))
                .collect();
            format!("({n}, {})", values.join(", "))
        })
        .collect();
    format!("(VALUES {}) v(n, {names})", tuples.join(", "))
}
