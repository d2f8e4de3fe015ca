//! Every function's answers are those that PostgreSQL 18 gave.

use std::collections::HashSet;
use std::sync::Mutex;

use evenkeel_expr::call::{Call, Session};
use evenkeel_expr::proc::{ArgType, Proc, ProcKind, Volatility};
use evenkeel_expr::{ExprResult, RandomState, find_cast, proc_by_oid, procs_listed, procs_named};
use evenkeel_types::{
    Datum, Interval, Numeric, SqlState, SqlType, TimeZone, TypeContext, TypeError, without_blanks,
};

const RECORDED: &str = include_str!("answers.txt");
/// Calls by oid, with the text forms of arguments and answers.
const CALLS: &str = include_str!("calls.txt");
const SETS: &str = include_str!("sets.txt");

struct In(TypeContext, Mutex<RandomState>);

impl In {
    fn zone(name: &str) -> In {
        let types = TypeContext {
            time_zone: TimeZone::of_expression(name).unwrap(),
            ..TypeContext::default()
        };
        In(types, Mutex::default())
    }
}

impl Session for In {
    fn types(&self) -> &TypeContext {
        &self.0
    }

    fn statement_start(&self) -> i64 {
        0
    }

    fn reserve(&self, bytes: usize) -> ExprResult<()> {
        match bytes < 1 << 30 {
            true => Ok(()),
            false => Err(TypeError::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                "too large",
            )),
        }
    }

    fn random_state(&self) -> Option<&Mutex<RandomState>> {
        Some(&self.1)
    }

    fn hold(&self, _: usize) -> ExprResult<()> {
        Ok(())
    }

    fn release(&self, _: usize) {}

    fn check_cancel(&self) -> ExprResult<()> {
        Ok(())
    }

    fn system_call(&self, oid: u32, _: &[Datum]) -> ExprResult<Datum> {
        Err(TypeError::unsupported(format!("function {oid}")))
    }
}

fn type_of(name: &str) -> SqlType {
    match name {
        "Bool" => SqlType::Bool,
        "Int2" => SqlType::Int2,
        "Int4" => SqlType::Int4,
        "Int8" => SqlType::Int8,
        "Float4" => SqlType::Float4,
        "Float8" => SqlType::Float8,
        "Numeric" => SqlType::Numeric(None),
        "Text" | "Any" => SqlType::Text,
        "Bytea" => SqlType::Bytea,
        "Date" => SqlType::Date,
        "Time" => SqlType::Time(None),
        "Timestamp" => SqlType::Timestamp(None),
        "Timestamptz" => SqlType::Timestamptz(None),
        "Interval" => SqlType::Interval(None),
        "TextArray" => SqlType::TEXT_ARRAY,
        other => panic!("{other}"),
    }
}

fn unescaped(text: &str) -> String {
    text.replace("\\n", "\n").replace("\\t", "\t")
}

fn micros(text: &str) -> i64 {
    match text {
        "infinity" => i64::MAX,
        "-infinity" => i64::MIN,
        text => text.parse().unwrap(),
    }
}

fn value(ty: &str, text: &str) -> Datum {
    if text == "\\N" {
        return Datum::Null;
    }
    match ty {
        "Bool" => Datum::Bool(text == "true"),
        "Int2" => Datum::Int2(text.parse().unwrap()),
        "Int4" => Datum::Int4(text.parse().unwrap()),
        "Int8" => Datum::Int8(text.parse().unwrap()),
        "Float4" => Datum::Float4(text.parse().unwrap()),
        "Float8" => Datum::Float8(text.parse().unwrap()),
        "Numeric" => Datum::Numeric(Numeric::parse(text).unwrap()),
        "Bytea" => {
            let hex = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
            Datum::Bytea((0..text.len()).step_by(2).map(hex).collect())
        }
        "Date" => Datum::Date(match text {
            "infinity" => i32::MAX,
            "-infinity" => i32::MIN,
            text => text.parse().unwrap(),
        }),
        "Time" => Datum::Time(micros(text)),
        "Timestamp" => Datum::Timestamp(micros(text)),
        "Timestamptz" => Datum::Timestamptz(micros(text)),
        "Interval" => Datum::Interval(match text {
            "infinity" => Interval::INFINITY,
            "-infinity" => Interval::NEGATIVE_INFINITY,
            text => {
                let parts: Vec<i64> = text.split(' ').map(|part| part.parse().unwrap()).collect();
                Interval {
                    months: parts[0].try_into().unwrap(),
                    days: parts[1].try_into().unwrap(),
                    micros: parts[2],
                }
            }
        }),
        _ => Datum::Text(unescaped(text)),
    }
}

/// Whether two floats are the same but for the last digits of what a library of C computes.
fn close(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan() || {
        a.is_finite() && b.is_finite() && (a - b).abs() <= 1e-14 * a.abs().max(b.abs())
    }
}

fn agrees(result: &Result<Datum, TypeError>, ty: &str, recorded: &str) -> bool {
    match result {
        Err(error) => recorded.strip_prefix('!') == Some(error.sqlstate.as_str()),
        Ok(Datum::Array(array)) => {
            let items = array.elements().iter();
            let items: Vec<&str> = items.map(|item| item.as_str().unwrap_or("\\N")).collect();
            items.join("|") == unescaped(recorded)
        }
        Ok(Datum::Float8(number)) => {
            !recorded.starts_with(['!', '\\']) && close(*number, recorded.parse().unwrap())
        }
        Ok(result) => !recorded.starts_with('!') && *result == value(ty, recorded),
    }
}

/// Refused by name: this is less than PostgreSQL does, and says so.
fn is_refused(result: &Result<Datum, TypeError>) -> bool {
    matches!(result, Err(error) if error.sqlstate == SqlState::FEATURE_NOT_SUPPORTED)
}

/// The function of a name that takes these types, with implicit casts where it takes others.
fn resolve(name: &str, given: &[SqlType]) -> Option<&'static Proc> {
    let exact = |ty: SqlType, arg: &ArgType| match arg {
        ArgType::Is(wanted) => wanted.oid() == ty.oid(),
        ArgType::AnyElement | ArgType::Any => true,
        _ => false,
    };
    let fits = |ty: SqlType, arg: &ArgType| {
        let implicit = |wanted| {
            find_cast(ty, wanted)
                .is_some_and(|c| c.context == evenkeel_expr::proc::CastContext::Implicit)
        };
        exact(ty, arg) || matches!(arg, ArgType::Is(wanted) if implicit(*wanted))
    };
    let of = |fit: &dyn Fn(SqlType, &ArgType) -> bool| {
        procs_named(name).iter().copied().find(|proc| {
            let enough = match proc.variadic {
                true => given.len() >= proc.args.len(),
                false => given.len() == proc.args.len(),
            };
            enough && given.iter().zip(proc.args).all(|(ty, arg)| fit(*ty, arg))
        })
    };
    of(&exact).or_else(|| of(&fits))
}

/// Calls a function with values of these types.
fn answer(proc: &Proc, values: &[Datum], types: &[SqlType], session: &In) -> ExprResult<Datum> {
    let ProcKind::Scalar(body) = proc.kind else {
        panic!("{} is no function of one row", proc.name);
    };
    let mut args = values.to_vec();
    let mut arg_types = types.to_vec();
    for (at, arg) in proc.args.iter().enumerate() {
        if let ArgType::Is(wanted) = arg
            && types.get(at).is_some_and(|ty| ty.oid() != wanted.oid())
        {
            args[at] = args[at]
                .clone()
                .cast_explicit(types[at], *wanted, &session.0)?;
            arg_types[at] = *wanted;
        }
    }
    if proc.strict && args.contains(&Datum::Null) {
        return Ok(Datum::Null);
    }
    let result = match proc.result {
        ArgType::Is(ty) => ty,
        _ => arg_types.first().copied().unwrap_or(SqlType::Text),
    };
    let args: Vec<&Datum> = args.iter().collect();
    body(&Call {
        oid: proc.oid,
        args: &args,
        types: &arg_types,
        result,
        session,
    })
}

/// Names that are not functions of PostgreSQL: what its grammar makes of them.
fn asked(name: &str, values: &[Datum], types: &[SqlType], session: &In) -> ExprResult<Datum> {
    let named = |name: &str, types: &[SqlType]| {
        resolve(name, types).unwrap_or_else(|| panic!("no function {name}({types:?})"))
    };
    match name {
        "similar_to" => {
            let (values, rest) = values.split_at(1);
            let pattern = named("similar_to_escape", &types[1..]);
            let pattern = answer(pattern, rest, &types[1..], session)?;
            let values = [values[0].clone(), pattern];
            answer(
                named("textregexeq", &types[..2]),
                &values,
                &types[..2],
                session,
            )
        }
        "time_interval" => answer(named("interval", types), values, types, session),
        "interval_time" => answer(named("time", types), values, types, session),
        "byteapos" => answer(named("position", types), values, types, session),
        _ => answer(named(name, types), values, types, session),
    }
}

#[test]
fn answers_are_those_of_postgres() {
    let (mut wrong, mut count, mut refused) = (Vec::new(), 0, 0);
    for line in RECORDED.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        let [zone, name, types, result_type, rest @ ..] = fields.as_slice() else {
            panic!("{line}");
        };
        let (recorded, args) = rest.split_last().unwrap();
        let names: Vec<&str> = types.split(',').collect();
        let types: Vec<SqlType> = names.iter().map(|ty| type_of(ty)).collect();
        let values: Vec<Datum> = names
            .iter()
            .zip(args)
            .map(|(ty, text)| value(ty, text))
            .collect();
        let result = asked(name, &values, &types, &In::zone(zone));
        count += 1;
        if is_refused(&result) && !recorded.starts_with("!0A000") {
            refused += 1;
        } else if !agrees(&result, result_type, recorded) {
            wrong.push(format!("{line}\n    {result:?}"));
        }
    }
    println!("{count} asked, {refused} refused by name");
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(refused * 50 < count, "{refused} of {count} refused");
}

fn type_named(name: &str) -> SqlType {
    let all = SqlType::all().iter().copied().chain(SqlType::arrays());
    match name {
        "int4[]" => SqlType::array(&SqlType::Int4),
        "int4" => SqlType::Int4,
        "bool" => SqlType::Bool,
        "float8" => SqlType::Float8,
        "char(4)" => SqlType::Char(Some(4)),
        "bpchar" => SqlType::Char(None),
        "varchar" => SqlType::Varchar(None),
        "time" => SqlType::Time(None),
        "timetz" => SqlType::Timetz(None),
        "timestamp" => SqlType::Timestamp(None),
        "timestamptz" => SqlType::Timestamptz(None),
        _ => all
            .into_iter()
            .find(|ty| ty.base_name() == name)
            .unwrap_or_else(|| panic!("{name}")),
    }
}

/// As `value::text` prints it.
fn printed(value: &Datum, ty: SqlType, session: &In) -> String {
    match value {
        Datum::Null => "\\N".to_owned(),
        Datum::Bool(value) => value.to_string(),
        // Recorded as cast to text.
        Datum::Char(text) => without_blanks(text).to_owned(),
        value => {
            let text = value.to_text(ty, &session.0);
            text.replace('\n', "\\n").replace('\t', "\\t")
        }
    }
}

/// Whether answers are alike but for the last digits of floats.
fn alike(answer: &str, recorded: &str, result: SqlType) -> bool {
    let floats = || Some((answer.parse().ok()?, recorded.parse().ok()?));
    answer == recorded || result == SqlType::Float8 && floats().is_some_and(|(a, b)| close(a, b))
}

#[test]
fn calls_answer_what_postgres_answers() {
    let session = In::zone("Europe/Berlin");
    let (mut wrong, mut count, mut refused) = (Vec::new(), 0, 0);
    for line in CALLS.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        let [function, types, rest @ ..] = fields.as_slice() else {
            panic!("{line}");
        };
        let oid: u32 = function.split(' ').next().unwrap().parse().unwrap();
        let proc = proc_by_oid(oid).unwrap_or_else(|| panic!("no function: {line}"));
        let (recorded, args) = rest.split_last().unwrap();
        let names = types.split(',').filter(|name| !name.is_empty());
        let types: Vec<SqlType> = names.map(type_named).collect();
        let read = |(ty, text): (&SqlType, &&str)| match *text {
            "\\N" => Ok(Datum::Null),
            text => Datum::parse_text(*ty, &unescaped_only(text), &session.0),
        };
        let values: ExprResult<Vec<Datum>> = types.iter().zip(args).map(read).collect();
        let result = match proc.result {
            ArgType::Is(ty) => ty,
            ArgType::AnyElement if proc.args[0] == ArgType::AnyArray => types[0].element().unwrap(),
            _ => types[0],
        };
        let answer = values.and_then(|values| answer(proc, &values, &types, &session));
        count += 1;
        let shown = match &answer {
            Ok(value) => printed(value, result, &session),
            Err(error) => format!("!{}", error.sqlstate),
        };
        if shown == "!0A000" && *recorded != shown {
            refused += 1;
        } else if !alike(&shown, recorded, result) {
            wrong.push(format!("{line}\n    {shown}"));
        }
    }
    println!("{count} asked, {refused} refused by name");
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(refused * 50 < count, "{refused} of {count} refused");
}

/// Line ends and tabs, which the file cannot have.
fn unescaped_only(text: &str) -> String {
    text.replace("\\n", "\n").replace("\\t", "\t")
}

#[test]
fn every_function_has_an_answer() {
    /// Their answers are others at every call, or come from rows, which have no text form to read.
    const WITHOUT: &[&str] = &[
        "clock_timestamp",
        "gen_random_uuid",
        "now",
        "random",
        "random_normal",
        "setseed",
        "statement_timestamp",
        "timeofday",
        "transaction_timestamp",
        "uuidv4",
        "uuidv7",
        "btrecordcmp",
        "record_eq",
        "record_ge",
        "record_gt",
        "record_larger",
        "record_le",
        "record_lt",
        "record_ne",
        "record_smaller",
        "row_to_json",
        "pg_typeof",
    ];
    let recorded: HashSet<u32> = CALLS
        .lines()
        .filter_map(|line| line.split([' ', '\t']).next()?.parse().ok())
        .collect();
    let of_arrays: HashSet<&str> = SETS
        .lines()
        .filter_map(|line| line.split('\t').next())
        .collect();
    // PostgreSQL itself has no functions with oids from here on.
    const OWN: u32 = 16_000;
    for proc in procs_listed().filter(|proc| proc.oid < OWN) {
        let ProcKind::Scalar(body) = proc.kind else {
            continue;
        };
        let session = In::zone("UTC");
        let asks = |call: &Call<'_>| body(call) == call.system();
        // Functions that the session answers have their answers there.
        let system = asks(&Call {
            oid: proc.oid,
            args: &[],
            types: &[],
            result: SqlType::Text,
            session: &session,
        });
        let today = proc.name == "age" && proc.args.len() == 1;
        // Functions of arrays have theirs in `sets.txt`: by name, or as those of operators.
        let array = |arg: &ArgType| matches!(arg, ArgType::AnyArray | ArgType::AnyCompatibleArray);
        let of_arrays = proc.args.iter().any(array) || of_arrays.contains(proc.name);
        // Those of created types and of system columns are asked for through SQL.
        let asked = [
            ArgType::AnyEnum,
            ArgType::Is(SqlType::Tid),
            ArgType::Is(SqlType::Xid),
            ArgType::Is(SqlType::Cid),
            ArgType::Is(SqlType::Xid8),
        ];
        let through_sql = proc.args.iter().any(|arg| asked.contains(arg));
        let known = of_arrays || recorded.contains(&proc.oid) || WITHOUT.contains(&proc.name);
        let known = known || through_sql;
        assert!(known || system || today, "{} {}", proc.oid, proc.name);
    }
}

#[test]
fn a_width_is_asked_for_before_it_is_written() {
    let types = [SqlType::Text, SqlType::Text];
    let proc = resolve("format", &types).unwrap();
    let args = [Datum::from("%2000000000s"), Datum::from("x")];
    let error = answer(proc, &args, &types, &In::zone("UTC")).unwrap_err();
    assert_eq!(error.sqlstate, SqlState::PROGRAM_LIMIT_EXCEEDED);
}

#[test]
fn functions_of_zones_depend_on_the_session() {
    let instant = Datum::Timestamptz(1_710_054_000_000_000);
    let types = [SqlType::Text, SqlType::Timestamptz(None)];
    for proc in procs_listed().filter(|proc| proc.volatility == Volatility::Immutable) {
        if proc.args != types.map(ArgType::Is) {
            continue;
        }
        for text in ["day", "hour", "UTC"] {
            let args = [Datum::from(text), instant.clone()];
            let answers: Vec<_> = ["Asia/Kolkata", "America/New_York"]
                .iter()
                .map(|zone| answer(proc, &args, &types, &In::zone(zone)))
                .collect();
            assert_eq!(answers[0], answers[1], "{}", proc.name);
        }
    }
}

#[test]
fn a_seed_gives_the_numbers_that_postgres_draws() {
    let session = In::zone("UTC");
    let ask = |name: &str, values: &[Datum], types: &[SqlType]| {
        answer(resolve(name, types).unwrap(), values, types, &session)
    };
    let (int4, int8, float8) = (SqlType::Int4, SqlType::Int8, SqlType::Float8);
    ask("setseed", &[Datum::Float8(0.5)], &[float8]).unwrap();
    let float = ask("random", &[], &[]);
    assert_eq!(float, Ok(Datum::Float8(0.985_167_717_534_799_9)));
    let values = [Datum::Int4(1), Datum::Int4(100)];
    assert_eq!(ask("random", &values, &[int4; 2]), Ok(Datum::Int4(17)));
    let values = [Datum::Int8(-5), Datum::Int8(5)];
    assert_eq!(ask("random", &values, &[int8; 2]), Ok(Datum::Int8(-3)));
    for (mean, deviation, recorded) in [
        (0.0, 1.0, 0.973_545_117_400_958_5),
        (2.0, 3.0, 0.627_899_173_547_135_5),
    ] {
        let values = [Datum::Float8(mean), Datum::Float8(deviation)];
        let Ok(Datum::Float8(normal)) = ask("random_normal", &values, &[float8; 2]) else {
            panic!("no float");
        };
        assert!(close(normal, recorded), "{normal}");
    }
    assert!(ask("setseed", &[Datum::Float8(1.5)], &[float8]).is_err());
}

#[test]
fn identifiers_have_their_versions_and_ascend() {
    let session = In::zone("UTC");
    let ask = |name: &str, values: &[Datum]| {
        let types = vec![SqlType::Uuid; values.len()];
        answer(resolve(name, &types).unwrap(), values, &types, &session).unwrap()
    };
    for (name, version) in [("gen_random_uuid", 4), ("uuidv7", 7)] {
        let (first, second) = (ask(name, &[]), ask(name, &[]));
        assert_ne!(first, second);
        assert!(version == 4 || first.compare(&second).is_lt());
        assert_eq!(ask("uuid_extract_version", &[first]), Datum::Int2(version));
    }
    let shown = ask("uuid_extract_timestamp", &[ask("uuidv7", &[])]);
    let now = ask("clock_timestamp", &[]);
    let (Datum::Timestamptz(shown), Datum::Timestamptz(now)) = (shown, now) else {
        panic!("timestamps");
    };
    assert!((now - shown).abs() < 60_000_000, "{shown} {now}");
}
