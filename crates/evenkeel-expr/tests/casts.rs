//! Casts give what PostgreSQL 18 gave.

use evenkeel_expr::call::Session;
use evenkeel_expr::eval::{Env, NoSubplans};
use evenkeel_expr::program::{CastNode, Program};
use evenkeel_expr::{ExprResult, find_cast};
use evenkeel_types::{Datum, IntervalMod, NumericMod, SqlType, TimeZone, TypeContext, TypeError};

const RECORDED: &str = include_str!("casts.txt");

struct Alone(TypeContext);

impl Session for Alone {
    fn types(&self) -> &TypeContext {
        &self.0
    }

    fn statement_start(&self) -> i64 {
        0
    }

    fn reserve(&self, _: usize) -> ExprResult<()> {
        Ok(())
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

/// Times and intervals with modifiers.
fn with_digits() -> impl Iterator<Item = SqlType> {
    let digits = || [None, Some(0), Some(1), Some(2), Some(3)].into_iter();
    let times = digits().flat_map(|digits| [SqlType::Time(digits), SqlType::Timetz(digits)]);
    let intervals = (0..=IntervalMod::FULL)
        .flat_map(move |fields| digits().map(move |precision| IntervalMod { fields, precision }));
    let declared = intervals.filter(|modifier| modifier.words().is_some());
    times.chain(declared.map(|modifier| SqlType::Interval(Some(modifier))))
}

fn type_named(name: &str) -> SqlType {
    let numeric = |precision, scale| SqlType::Numeric(Some(NumericMod { precision, scale }));
    let all = SqlType::all().iter().copied().chain(SqlType::arrays());
    match name {
        "bpchar" => SqlType::Char(None),
        "character varying(3)" => SqlType::Varchar(Some(3)),
        "character(4)" => SqlType::Char(Some(4)),
        "numeric(5,2)" => numeric(5, 2),
        "numeric(4,-1)" => numeric(4, -1),
        "timestamp(1) without time zone" => SqlType::Timestamp(Some(1)),
        "timestamp(3) with time zone" => SqlType::Timestamptz(Some(3)),
        _ => all
            .into_iter()
            .find(|ty| ty.base_name() == name)
            .or_else(|| with_digits().find(|ty| ty.name() == name))
            .unwrap_or_else(|| panic!("{name}")),
    }
}

#[test]
fn casts_give_what_postgres_gives() {
    let session = Alone(TypeContext {
        time_zone: TimeZone::parse("Europe/Berlin").unwrap(),
        ..TypeContext::default()
    });
    let env = Env::new(&[], &session, &NoSubplans);
    let mut wrong = Vec::new();
    for line in RECORDED.lines().filter(|line| !line.starts_with('#')) {
        let [from, to, text, recorded] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let (from, to) = (type_named(from), type_named(to));
        let value = Datum::parse_text(from, text, &session.0).and_then(|value| {
            let node = CastNode {
                arg: Program::Const(value),
                from,
                to,
                explicit: true,
                at: u32::MAX,
            };
            env.eval(&Program::Cast(Box::new(node)), &[])
        });
        let shown = match value {
            Ok(Datum::Null) => "\\N".to_owned(),
            Ok(value) => value.to_text(to, &session.0),
            Err(error) => format!("!{}", error.sqlstate),
        };
        let same_number = || Some(shown.parse::<f64>().ok()? == recorded.parse::<f64>().ok()?);
        if shown != recorded && !(to == SqlType::Float8 && same_number() == Some(true)) {
            wrong.push(format!("{line}\n    {shown}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(find_cast(SqlType::Bool, SqlType::Date).is_none());
}
