//! Large values are charged while they are held, and long calls end when the statement is to end.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use evenkeel_expr::call::Session;
use evenkeel_expr::eval::{Env, NoSubplans};
use evenkeel_expr::program::{CallNode, CastNode, Program};
use evenkeel_expr::{ExprResult, procs_named};
use evenkeel_types::{Datum, SqlState, SqlType, TypeContext, TypeError};

/// A session with so many bytes, that is cancelled after so many questions.
struct Counting {
    types: TypeContext,
    limit: usize,
    held: AtomicUsize,
    peak: AtomicUsize,
    questions: AtomicUsize,
}

impl Counting {
    fn new(limit: usize, questions: usize) -> Counting {
        Counting {
            types: TypeContext::default(),
            limit,
            held: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            questions: AtomicUsize::new(questions),
        }
    }

    fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    fn peak(&self) -> usize {
        self.peak.load(Ordering::Relaxed)
    }
}

fn out_of_memory() -> TypeError {
    TypeError::new(SqlState::OUT_OF_MEMORY, "out of memory")
}

impl Session for Counting {
    fn types(&self) -> &TypeContext {
        &self.types
    }

    fn statement_start(&self) -> i64 {
        0
    }

    fn reserve(&self, bytes: usize) -> ExprResult<()> {
        let needed = self.held() + bytes;
        self.peak.fetch_max(needed, Ordering::Relaxed);
        match needed <= self.limit {
            true => Ok(()),
            false => Err(out_of_memory()),
        }
    }

    fn hold(&self, bytes: usize) -> ExprResult<()> {
        self.reserve(bytes)?;
        self.held.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn release(&self, bytes: usize) {
        let before = self.held.fetch_sub(bytes, Ordering::Relaxed);
        assert!(bytes <= before, "more released than held");
    }

    fn check_cancel(&self) -> ExprResult<()> {
        let left = self
            .questions
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(1)
            });
        match left {
            Ok(_) => Ok(()),
            Err(_) => Err(TypeError::new(SqlState::QUERY_CANCELED, "canceled")),
        }
    }

    fn system_call(&self, _: u32, _: &[Datum]) -> ExprResult<Datum> {
        Ok(Datum::Null)
    }
}

fn eval(program: &Program, session: &Counting) -> ExprResult<Datum> {
    let value = Env::new(&[], session, &NoSubplans).eval(program, &[]);
    assert_eq!(session.held(), 0, "all is released");
    value
}

/// A function by its name, the types of its arguments and of its result.
fn call(name: &str, types: &[SqlType], result: SqlType, args: Vec<Program>) -> Program {
    let exact = |proc: &&evenkeel_expr::proc::Proc| {
        let same = proc.args.iter().zip(types).all(|(arg, ty)| match arg {
            evenkeel_expr::proc::ArgType::Is(is) => is.oid() == ty.oid(),
            _ => true,
        });
        same && (proc.args.len() == types.len() || proc.variadic)
    };
    let found = procs_named(name).iter().copied().find(exact);
    Program::Call(Box::new(CallNode {
        proc: found.unwrap_or_else(|| panic!("no function {name}")),
        args: args.into(),
        arg_types: types.into(),
        result,
        variadic_array: false,
        at: u32::MAX,
    }))
}

const TEXT: SqlType = SqlType::Text;
const INT4S: SqlType = SqlType::array(&SqlType::Int4);
const TEXTS: SqlType = SqlType::TEXT_ARRAY;
const NUMERIC: SqlType = SqlType::Numeric(None);

fn value(value: impl Into<Datum>) -> Program {
    Program::Const(value.into())
}

fn text(name: &str, args: Vec<Program>) -> Program {
    call(name, &vec![TEXT; args.len()], TEXT, args)
}

fn repeat(unit: &str, times: i32) -> Program {
    let args = vec![value(unit), value(Datum::Int4(times))];
    call("repeat", &[TEXT, SqlType::Int4], TEXT, args)
}

fn length(arg: Program) -> Program {
    call("length", &[TEXT], SqlType::Int4, vec![arg])
}

const MB: usize = 1 << 20;

type Alive = (&'static str, Program, usize);

fn x() -> Program {
    repeat("x", 10 * MB as i32)
}

fn parts() -> Program {
    let args = vec![repeat("x,", MB as i32), value(",")];
    call("string_to_array", &[TEXT, TEXT], TEXTS, args)
}

fn cast(arg: Program, from: SqlType, to: SqlType) -> Program {
    Program::Cast(Box::new(CastNode {
        arg,
        from,
        to,
        explicit: true,
        at: u32::MAX,
    }))
}

fn large_texts() -> Vec<Alive> {
    vec![
        (
            "upper",
            length(text("upper", vec![text("lower", vec![x()])])),
            20 * MB,
        ),
        (
            "concat",
            length(text("concat", vec![x(), x(), x()])),
            60 * MB,
        ),
        ("||", length(text("textcat", vec![x(), x()])), 40 * MB),
        (
            "replace",
            length(text("replace", vec![x(), value("x"), value("yyy")])),
            40 * MB,
        ),
        (
            "translate",
            length(text("translate", vec![x(), value("x"), value("é")])),
            30 * MB,
        ),
        (
            "lpad",
            length(call(
                "lpad",
                &[TEXT, SqlType::Int4, TEXT],
                TEXT,
                vec![value("x"), value(Datum::Int4(10 * MB as i32)), value("é")],
            )),
            20 * MB - 1,
        ),
        (
            "regexp_replace",
            length(call(
                "regexp_replace",
                &[TEXT, TEXT, TEXT, TEXT],
                TEXT,
                vec![
                    repeat("ab", MB as i32),
                    value("b"),
                    value("[\\&]"),
                    value("g"),
                ],
            )),
            6 * MB,
        ),
        ("md5", text("md5", vec![text("upper", vec![x()])]), 20 * MB),
    ]
}

fn large_arrays() -> Vec<Alive> {
    vec![
        ("string_to_array", parts(), 2 * MB + MB * size_of::<Datum>()),
        (
            "array_cat",
            call("array_cat", &[TEXTS, TEXTS], TEXTS, vec![parts(), parts()]),
            4 * MB * size_of::<Datum>(),
        ),
        (
            "cast to an array",
            cast(
                text(
                    "concat",
                    vec![value("{"), repeat("1,", MB as i32), value("1}")],
                ),
                TEXT,
                INT4S,
            ),
            2 * MB + MB * size_of::<Datum>(),
        ),
        (
            "cast from an array",
            cast(parts(), TEXTS, TEXT),
            MB * size_of::<Datum>() + 2 * MB,
        ),
    ]
}

fn large_forms() -> Vec<Alive> {
    vec![
        (
            "row",
            Program::Row {
                names: std::sync::Arc::from([]),
                types: vec![TEXT; 4].into(),
                fields: vec![x(), x(), x(), x()].into(),
            },
            40 * MB,
        ),
        (
            "array",
            Program::Array {
                element: TEXT,
                nested: false,
                items: vec![x(), x(), x()].into(),
            },
            30 * MB,
        ),
        (
            "coalesce",
            length(Program::Coalesce(vec![value(Datum::Null), x()].into())),
            10 * MB,
        ),
        (
            "greatest",
            Program::Extreme {
                greatest: true,
                args: vec![x(), x(), x()].into(),
            },
            10 * MB,
        ),
    ]
}

/// Expressions, and the bytes of the values that are alive at once.
fn large_expressions() -> Vec<Alive> {
    let groups = [large_texts(), large_arrays(), large_forms()];
    groups.into_iter().flatten().collect()
}

#[test]
fn what_is_alive_is_charged() {
    for (name, program, alive) in large_expressions() {
        let session = Counting::new(usize::MAX, usize::MAX);
        eval(&program, &session).unwrap();
        let peak = session.peak();
        assert!(peak >= alive, "{name}: {peak} of {alive} bytes");
        assert!(peak <= alive * 3, "{name}: {peak} for {alive} bytes");
    }
}

#[test]
fn a_session_with_less_memory_is_refused() {
    for (name, program, alive) in large_expressions() {
        let session = Counting::new(alive - MB / 2, usize::MAX);
        let error = eval(&program, &session).unwrap_err();
        assert_eq!(error.sqlstate, SqlState::OUT_OF_MEMORY, "{name}");
    }
}

#[test]
fn nothing_is_charged_for_small_values() {
    let session = Counting::new(0, 0);
    let program = text(
        "upper",
        vec![text("concat", vec![repeat("x", 1000), value("y")])],
    );
    assert!(eval(&program, &session).is_ok());
}

#[test]
fn no_value_is_larger_than_postgres_has_it() {
    let session = Counting::new(usize::MAX, 3);
    let program = repeat("xy", 1 << 29);
    let error = eval(&program, &session).unwrap_err();
    assert_eq!(error.sqlstate, SqlState::PROGRAM_LIMIT_EXCEEDED);
    assert_eq!(&*error.message, "requested length too large");
}

fn numeric_value(digits: &str) -> Program {
    value(Datum::parse_text(NUMERIC, digits, &TypeContext::default()).unwrap())
}

type Named = (&'static str, Program);

fn big(unit: &str) -> Program {
    value(unit.repeat((32 << 20) / unit.len()))
}

fn number(digits: usize) -> Program {
    numeric_value(&"7".repeat(digits))
}

fn boolean(name: &str, args: Vec<Program>) -> Program {
    call(name, &vec![TEXT; args.len()], SqlType::Bool, args)
}

fn numeric(name: &str, args: Vec<Program>) -> Program {
    call(name, &vec![NUMERIC; args.len()], NUMERIC, args)
}

fn bytes() -> Program {
    value(Datum::Bytea(vec![7; 32 << 20]))
}

fn of_bytes(name: &str) -> Program {
    call(name, &[SqlType::Bytea], SqlType::Bytea, vec![bytes()])
}

fn array(name: &str, types: &[SqlType], args: Vec<Program>) -> Program {
    call(name, types, INT4S, args)
}

fn huge() -> Datum {
    Datum::array((0..4 << 20).map(Datum::Int4).collect())
}

fn int4(number: i32) -> Program {
    value(Datum::Int4(number))
}

fn long_texts() -> Vec<Named> {
    vec![
        ("upper", text("upper", vec![big("x")])),
        ("initcap", text("initcap", vec![big("x")])),
        ("reverse", text("reverse", vec![big("x")])),
        ("length", length(big("é"))),
        (
            "replace",
            text("replace", vec![big("xy"), value("x"), value("zz")]),
        ),
        (
            "replace of nothing",
            text("replace", vec![big("xy"), value("xx"), value("zz")]),
        ),
    ]
}

fn long_parts() -> Vec<Named> {
    vec![
        (
            "translate",
            text("translate", vec![big("x"), value("x"), value("y")]),
        ),
        ("repeat", repeat("x", 200 << 20)),
        ("btrim", text("btrim", vec![big(" x"), value(" x")])),
        (
            "strpos",
            call(
                "strpos",
                &[TEXT, TEXT],
                SqlType::Int4,
                vec![big("ab"), value("bb")],
            ),
        ),
        (
            "split_part",
            call(
                "split_part",
                &[TEXT, TEXT, SqlType::Int4],
                TEXT,
                vec![big("a,"), value(","), int4(-1)],
            ),
        ),
        ("quote_literal", text("quote_literal", vec![big("'")])),
    ]
}

fn long_searches() -> Vec<Named> {
    vec![
        (
            "like",
            boolean(
                "like",
                vec![big("a"), value(format!("%{}b", "a".repeat(5000)))],
            ),
        ),
        (
            "ilike",
            boolean("texticlike", vec![big("a"), value("%ab%ab%")]),
        ),
        (
            "~",
            boolean("textregexeq", vec![big("a"), value("(a|aa)+b")]),
        ),
        (
            "regexp_replace",
            text("regexp_replace", vec![big("ab"), value("b*c"), value("")]),
        ),
        (
            "regexp_count",
            call(
                "regexp_count",
                &[TEXT, TEXT],
                SqlType::Int4,
                vec![big("ab"), value("b")],
            ),
        ),
        (
            "string_to_array",
            call(
                "string_to_array",
                &[TEXT, TEXT],
                TEXTS,
                vec![big("a,"), value(",")],
            ),
        ),
    ]
}

fn long_bytes_calls() -> Vec<Named> {
    vec![
        ("md5", text("md5", vec![big("x")])),
        ("sha512", of_bytes("sha512")),
        (
            "crc32",
            call("crc32", &[SqlType::Bytea], SqlType::Int8, vec![bytes()]),
        ),
        (
            "encode",
            call(
                "encode",
                &[SqlType::Bytea, TEXT],
                TEXT,
                vec![bytes(), value("base64")],
            ),
        ),
        (
            "decode",
            call(
                "decode",
                &[TEXT, TEXT],
                SqlType::Bytea,
                vec![big("61"), value("hex")],
            ),
        ),
        ("normalize", text("normalize", vec![big("é"), value("NFD")])),
        ("format", text("format", vec![big("%%")])),
    ]
}

fn long_arrays() -> Vec<Named> {
    vec![
        (
            "array_positions",
            array(
                "array_positions",
                &[INT4S, SqlType::Int4],
                vec![value(huge()), int4(7)],
            ),
        ),
        (
            "array_remove",
            array(
                "array_remove",
                &[INT4S, SqlType::Int4],
                vec![value(huge()), int4(7)],
            ),
        ),
        (
            "array_append",
            array(
                "array_append",
                &[INT4S, SqlType::Int4],
                vec![value(huge()), int4(7)],
            ),
        ),
        (
            "array_fill",
            array(
                "array_fill",
                &[SqlType::Int4, INT4S],
                vec![int4(7), value(Datum::array(vec![Datum::Int4(50_000_000)]))],
            ),
        ),
        (
            "array_sort",
            array("array_sort", &[INT4S], vec![value(huge())]),
        ),
        (
            "array_eq",
            array(
                "array_eq",
                &[INT4S, INT4S],
                vec![value(huge()), value(huge())],
            ),
        ),
        (
            "@>",
            array(
                "arraycontains",
                &[INT4S, INT4S],
                vec![value(huge()), value(huge())],
            ),
        ),
    ]
}

fn long_numbers() -> Vec<Named> {
    vec![
        (
            "*",
            numeric("numeric_mul", vec![number(60_000), number(60_000)]),
        ),
        (
            "/",
            numeric("numeric_div", vec![number(120_000), number(60_000)]),
        ),
        (
            "%",
            numeric("numeric_mod", vec![number(120_000), number(60_000)]),
        ),
        ("sqrt", numeric("sqrt", vec![number(130_000)])),
        (
            "exp",
            numeric(
                "exp",
                vec![value(
                    Datum::parse_text(NUMERIC, "5999.123456789", &TypeContext::default()).unwrap(),
                )],
            ),
        ),
        ("power", numeric("power", vec![number(5), number(4)])),
        (
            "gcd",
            numeric(
                "gcd",
                vec![number(60_000), numeric_value(&("31".repeat(29_999) + "3"))],
            ),
        ),
        (
            "factorial",
            call(
                "factorial",
                &[SqlType::Int8],
                NUMERIC,
                vec![value(Datum::Int8(32_000))],
            ),
        ),
        (
            "to_char",
            call(
                "to_char",
                &[SqlType::Timestamp(None), TEXT],
                TEXT,
                vec![value(Datum::Timestamp(0)), value("yyyy ".repeat(1 << 20))],
            ),
        ),
    ]
}

/// Calls that take seconds each, or at least a tenth of one.
fn long_calls() -> Vec<Named> {
    let groups = [
        long_texts(),
        long_parts(),
        long_searches(),
        long_bytes_calls(),
        long_arrays(),
        long_numbers(),
    ];
    groups.into_iter().flatten().collect()
}

#[test]
fn long_calls_end_when_the_statement_does() {
    for (name, program) in long_calls() {
        let session = Counting::new(usize::MAX, 3);
        let begun = Instant::now();
        let error = eval(&program, &session).expect_err(name);
        let took = begun.elapsed();
        assert_eq!(
            error.sqlstate,
            SqlState::QUERY_CANCELED,
            "{name}: {}",
            error.message
        );
        assert!(took < Duration::from_millis(100), "{name}: {took:?}");
    }
}

#[test]
fn patterns_of_any_width_are_printed() {
    let pattern = |text: String| {
        let args = vec![value(Datum::Float8(1.5)), value(text)];
        call("to_char", &[SqlType::Float8, TEXT], TEXT, args)
    };
    let session = Counting::new(usize::MAX, usize::MAX);
    let scientific = pattern(format!("9.{}EEEE", "9".repeat(70_000)));
    let shown = eval(&scientific, &session).unwrap();
    let shown = shown.as_str().unwrap();
    assert!(shown.starts_with(" 1.5000") && shown.ends_with("000e+00"));
    assert_eq!(shown.len(), 3 + 70_000 + 4);
}
