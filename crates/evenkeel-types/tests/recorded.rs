//! Answers of PostgreSQL 18, recorded by `examples/record.rs`, against ours.

use evenkeel_types::{
    Datum, Interval, IntervalMod, IntervalStyle, Numeric, NumericMod, SqlType, TimeZone,
    TypeContext, TypeError, TypeResult,
};

/// As the recorder shortens long answers.
fn shortened(answer: &str) -> String {
    if answer.len() <= 200 {
        return answer.to_owned();
    }
    let hash = answer.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    format!("{}… {} {hash:016x}", &answer[..40], answer.len())
}

fn failure(error: &TypeError) -> String {
    let detail = error.detail.as_deref().map(|detail| format!(" / {detail}"));
    let code = error.sqlstate.as_str();
    format!("!{code} {}{}", error.message, detail.unwrap_or_default())
}

/// Runs every case of a file and names those that differ.
fn check(text: &str, answer: impl Fn(&str, &[&str]) -> TypeResult<String>) {
    let mut section = "";
    let (mut cases, mut wrong) = (0, Vec::new());
    for line in text.lines() {
        if let Some(head) = line.strip_prefix("# ") {
            section = head.split(':').next().unwrap_or_default();
            continue;
        }
        let Some((case, expected)) = line.rsplit_once(" = ") else {
            continue;
        };
        let fields: Vec<&str> = case.split(' ').collect();
        let got = match answer(section, &fields) {
            Ok(answer) => shortened(&answer),
            Err(error) => shortened(&failure(&error)),
        };
        cases += 1;
        if got != expected {
            wrong.push(format!(
                "{section} {case}: {got}, PostgreSQL has {expected}"
            ));
        }
    }
    assert!(cases > 100, "only {cases} cases");
    let shown = &wrong[..wrong.len().min(40)];
    assert!(
        wrong.is_empty(),
        "{} of {cases}:\n{}",
        wrong.len(),
        shown.join("\n")
    );
}

fn number(text: &str) -> TypeResult<Numeric> {
    Numeric::parse(text)
}

fn integer(text: &str) -> i32 {
    text.parse().expect("an integer")
}

/// The result of a cast in text form.
fn cast(text: &str, from: SqlType, to: SqlType) -> TypeResult<String> {
    let cx = TypeContext::default();
    let value = Datum::parse_text(from, text, &cx)?.cast_explicit(from, to, &cx)?;
    Ok(value.to_text(to, &cx))
}

fn optional(value: Option<i32>) -> String {
    value.map_or("NULL".to_owned(), |value| value.to_string())
}

fn binary(operator: &str, a: &Numeric, b: &Numeric) -> TypeResult<String> {
    Ok(match operator {
        "add" => a.add(b)?,
        "sub" => a.sub(b)?,
        "mul" => a.mul(b)?,
        "div" => a.div(b)?,
        "rem" => a.rem(b)?,
        "div_integer" => a.div_integer(b)?,
        "log" => Numeric::log(a, b)?,
        "power" => a.power(b)?,
        "gcd" => a.gcd(b)?,
        "lcm" => a.lcm(b)?,
        "cmp" => Numeric::from(a.cmp(b) as i64),
        other => panic!("no operator {other}"),
    }
    .to_string())
}

fn unary(function: &str, n: &Numeric) -> TypeResult<String> {
    Ok(match function {
        "in" => n.clone(),
        "neg" => n.neg(),
        "abs" => n.abs(),
        "sign" => n.sign_value(),
        "ceil" => n.ceil()?,
        "floor" => n.floor()?,
        "sqrt" => n.sqrt()?,
        "exp" => n.exp()?,
        "ln" => n.ln()?,
        "trim_scale" => n.trim_scale(),
        "scale" => return Ok(optional(n.scale())),
        "min_scale" => return Ok(optional(n.min_scale())),
        "send" => {
            let mut bytes = Vec::new();
            Datum::Numeric(n.clone()).write_binary(SqlType::Numeric(None), &mut bytes);
            let again = Datum::parse_binary(SqlType::Numeric(None), &bytes)?;
            assert_eq!(
                again.to_text(SqlType::Numeric(None), &TypeContext::default()),
                n.to_string()
            );
            return Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect());
        }
        other => panic!("no function {other}"),
    }
    .to_string())
}

#[test]
fn numeric_answers_are_those_of_postgres() {
    const NUMERIC: SqlType = SqlType::Numeric(None);
    check(
        include_str!("recorded/numeric.txt"),
        |section, fields| match (section, fields) {
            ("int2", [n]) => cast(n, NUMERIC, SqlType::Int2),
            ("int4", [n]) => cast(n, NUMERIC, SqlType::Int4),
            ("int8", [n]) => cast(n, NUMERIC, SqlType::Int8),
            ("float4", [n]) => cast(n, NUMERIC, SqlType::Float4),
            ("float8", [n]) => cast(n, NUMERIC, SqlType::Float8),
            ("from_float4", [n]) => cast(n, SqlType::Float4, NUMERIC),
            ("from_float8", [n]) => cast(n, SqlType::Float8, NUMERIC),
            ("factorial", [n]) => Ok(Numeric::factorial(integer(n).into())?.to_string()),
            ("round", [n, scale]) => Ok(number(n)?.round(integer(scale))?.to_string()),
            ("trunc", [n, scale]) => Ok(number(n)?.truncate(integer(scale)).to_string()),
            ("typmod", [n, precision, scale]) => {
                let modifier = NumericMod {
                    precision: integer(precision) as u16,
                    scale: integer(scale) as i16,
                };
                Ok(number(n)?.apply_modifier(Some(modifier))?.to_string())
            }
            ("width_bucket", [n, low, high, count]) => {
                let bucket =
                    number(n)?.width_bucket(&number(low)?, &number(high)?, integer(count))?;
                Ok(bucket.to_string())
            }
            (operator, [a, b]) => binary(operator, &number(a)?, &number(b)?),
            (function, [n]) => unary(function, &number(n)?),
            other => panic!("no case of this form: {other:?}"),
        },
    );
}

fn interval(text: &str) -> TypeResult<Interval> {
    Interval::parse(&text.replace('~', " "), false, None)
}

/// The type `interval` with fields or digits as declared.
fn interval_type(declared: &str) -> SqlType {
    let digits = [None, Some(0), Some(1), Some(2), Some(3), Some(4)];
    let all = (0..=IntervalMod::FULL)
        .flat_map(|fields| digits.map(|precision| IntervalMod { fields, precision }));
    let found = all.filter(|modifier| modifier.words().is_some());
    found
        .map(|modifier| SqlType::Interval(Some(modifier)))
        .find(|ty| ty.name().strip_prefix("interval").map(str::trim_start) == Some(declared))
        .unwrap_or_else(|| panic!("no fields: {declared}"))
}

fn shown(interval: Interval) -> String {
    let mut out = String::new();
    interval.write(IntervalStyle::Postgres, &mut out);
    out
}

#[test]
fn interval_answers_are_those_of_postgres() {
    check(include_str!("recorded/interval.txt"), |section, fields| {
        if let ("fields", [text, declared]) = (section, fields) {
            let ty = interval_type(&declared.replace('~', " "));
            let cx = TypeContext::default();
            let value = Datum::parse_text(ty, &text.replace('~', " "), &cx)?;
            return Ok(value.to_text(ty, &cx));
        }
        let first = interval(fields[0])?;
        if let Some(style) = IntervalStyle::parse(section) {
            let mut out = format!("{section} ");
            first.write(style, &mut out);
            return Ok(out);
        }
        let result = match (section, fields) {
            ("in", _) => first,
            ("neg", _) => first.checked_neg()?,
            ("justify_hours", _) => first.justify_hours()?,
            ("justify_days", _) => first.justify_days()?,
            ("justify_interval", _) => first.justify_interval()?,
            ("add", [_, b]) => first.checked_add(interval(b)?)?,
            ("sub", [_, b]) => first.checked_sub(interval(b)?)?,
            ("mul", [_, b]) => first.checked_mul(b.parse().expect("a float"))?,
            ("div", [_, b]) => first.checked_div(b.parse().expect("a float"))?,
            ("cmp", [_, b]) => {
                let order = first
                    .comparison_micros()
                    .cmp(&interval(b)?.comparison_micros());
                return Ok((order as i32).to_string());
            }
            ("send", _) => {
                let mut bytes = Vec::new();
                Datum::Interval(first).write_binary(SqlType::Interval(None), &mut bytes);
                let again = Datum::parse_binary(SqlType::Interval(None), &bytes)?;
                assert_eq!(again, Datum::Interval(first));
                return Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect());
            }
            other => panic!("no case of this form: {other:?}"),
        };
        Ok(shown(result))
    });
}

#[test]
fn dates_and_times_are_read_as_postgres_reads_them() {
    let cx = TypeContext {
        time_zone: TimeZone::parse("America/New_York").expect("a zone"),
        ..TypeContext::default()
    };
    check(include_str!("recorded/datetime.txt"), |section, fields| {
        let ty = match section {
            "date" => SqlType::Date,
            "time" => SqlType::Time(None),
            "timetz" => SqlType::Timetz(None),
            "timestamp" => SqlType::Timestamp(None),
            _ => SqlType::Timestamptz(None),
        };
        let text = fields[0].replace('~', " ");
        Ok(Datum::parse_text(ty, &text, &cx)?.to_text(ty, &cx))
    });
}

#[test]
fn floats_print_as_postgres_prints_them() {
    let cx = TypeContext::default();
    check(include_str!("recorded/float.txt"), |section, fields| {
        let ty = match section {
            "real" => SqlType::Float4,
            _ => SqlType::Float8,
        };
        Ok(Datum::parse_text(ty, fields[0], &cx)?.to_text(ty, &cx))
    });
}
