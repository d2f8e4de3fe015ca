//! Functions of arrays and sets answer what PostgreSQL 18 answered; `examples/record` asks it.

mod common;

use common::{Quiet, text, type_of, value};
use evenkeel_expr::call::Call;
use evenkeel_expr::proc::{ArgType, Proc, ProcKind};
use evenkeel_expr::set_returning::{JSON_SETS, SETS};
use evenkeel_expr::{operators_named, proc_by_oid, procs_listed, procs_named};
use evenkeel_types::{Datum, SqlType, TypeResult};

const RECORDED: &str = include_str!("sets.txt");

fn fits(proc: &Proc, types: &[SqlType]) -> bool {
    let takes = |(arg, ty): (&ArgType, &SqlType)| match arg {
        ArgType::Is(own) => own == ty,
        ArgType::AnyArray | ArgType::AnyCompatibleArray => ty.element().is_some(),
        ArgType::AnyElement => true,
        ArgType::AnyCompatible => ty.element().is_none(),
        _ => false,
    };
    proc.args.len() == types.len() && proc.args.iter().zip(types).all(takes)
}

/// The function or operator that a case is of.
fn find(name: &str, types: &[SqlType]) -> &'static Proc {
    let operators = operators_named(name).iter();
    let mut procs = operators
        .filter_map(|operator| proc_by_oid(operator.proc))
        .chain(procs_named(name).iter().copied());
    let found = procs.find(|proc| fits(proc, types));
    found.unwrap_or_else(|| panic!("no {name}({types:?})"))
}

fn result_of(proc: &Proc, types: &[SqlType]) -> SqlType {
    let array = types.iter().find(|ty| ty.element().is_some());
    match proc.result {
        ArgType::Is(ty) => ty,
        ArgType::Record => SqlType::Record,
        ArgType::AnyArray | ArgType::AnyCompatibleArray => {
            array.copied().or(types[0].array_of()).unwrap()
        }
        ArgType::AnyElement => array.unwrap().element().unwrap(),
        other => panic!("{other:?}"),
    }
}

/// The value, or the rows; at most so many, as a statement with LIMIT asks for.
fn answers(call: &Call<'_>, proc: &Proc, limit: usize) -> TypeResult<Vec<Datum>> {
    let null = proc.strict && call.args.iter().any(|arg| arg.is_null());
    match proc.kind {
        ProcKind::Scalar(_) if null => Ok(vec![Datum::Null]),
        ProcKind::Scalar(body) => Ok(vec![body(call)?]),
        ProcKind::Set(..) if null => Ok(Vec::new()),
        ProcKind::Set(begin, _) => {
            let (mut rows, mut row, mut out) = (begin(call)?, Vec::new(), Vec::new());
            while out.len() < limit && rows.next(call.session, &mut row)? {
                out.extend(row.iter().cloned());
            }
            Ok(out)
        }
        _ => panic!("{}", proc.name),
    }
}

fn answered(
    proc: &Proc,
    types: &[SqlType],
    args: &[Datum],
    limit: usize,
    session: &Quiet,
) -> TypeResult<Vec<Datum>> {
    let args: Vec<&Datum> = args.iter().collect();
    let call = Call {
        oid: proc.oid,
        args: &args,
        types,
        result: result_of(proc, types),
        session,
    };
    answers(&call, proc, limit)
}

/// A line's call, its arguments and the recorded answer.
fn case(line: &'static str) -> (&'static Proc, Vec<SqlType>, Vec<&'static str>, &'static str) {
    let [name, types, args, recorded] = line.split('\t').collect::<Vec<_>>()[..] else {
        panic!("{line}");
    };
    let types: Vec<SqlType> = types.split(',').map(type_of).collect();
    (
        find(name, &types),
        types,
        args.split('¦').collect(),
        recorded,
    )
}

fn lines() -> impl Iterator<Item = &'static str> {
    RECORDED.lines().filter(|line| !line.starts_with('#'))
}

#[test]
fn arrays_and_sets_answer_what_postgres_answers() {
    let session = Quiet::new();
    let mut wrong = Vec::new();
    for line in lines() {
        let (proc, types, args, recorded) = case(line);
        let pairs = args.iter().zip(&types);
        let args: Vec<Datum> = pairs.map(|(text, ty)| value(*ty, text, &session)).collect();
        let result = result_of(proc, &types);
        let found = match answered(proc, &types, &args, usize::MAX, &session) {
            Ok(rows) if rows.is_empty() => r"\N".to_owned(),
            Ok(rows) => {
                let rows: Vec<String> =
                    rows.iter().map(|row| text(row, result, &session)).collect();
                format!("{} {}", result.base_name(), rows.join(";"))
            }
            Err(error) => format!("!{} {}", error.sqlstate, error.message),
        };
        if found != recorded {
            wrong.push(format!("{line}\n    {found}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn every_set_has_recorded_answers() {
    for proc in SETS.iter().chain(&JSON_SETS) {
        let recorded = lines().any(|line| std::ptr::eq(case(line).0, proc));
        assert!(recorded, "{} ({})", proc.name, proc.oid);
    }
}

#[test]
fn every_function_of_arrays_has_recorded_answers() {
    // Comparisons are asked by their operators.
    let of_arrays = |proc: &&Proc| {
        let array = |arg: &ArgType| matches!(arg, ArgType::AnyArray | ArgType::AnyCompatibleArray);
        matches!(proc.kind, ProcKind::Scalar(_)) && proc.args.iter().any(array)
    };
    let compared = ["array_larger", "array_smaller", "btarraycmp", "hash_array"];
    for proc in procs_listed().filter(of_arrays) {
        let recorded = lines().any(|line| std::ptr::eq(case(line).0, proc));
        assert!(
            recorded || compared.contains(&proc.name),
            "{} ({})",
            proc.name,
            proc.oid
        );
    }
}

#[test]
fn a_set_is_made_as_it_is_asked_for() {
    let session = Quiet::new();
    let types = [SqlType::Int8; 2];
    let ends = [Datum::Int8(1), Datum::Int8(i64::MAX)];
    let proc = find("generate_series", &types);
    let rows = answered(proc, &types, &ends, 3, &session).unwrap();
    assert_eq!(rows, [Datum::Int8(1), Datum::Int8(2), Datum::Int8(3)]);
    let types = [
        SqlType::Timestamp(None),
        SqlType::Timestamp(None),
        SqlType::Interval(None),
    ];
    let parsed = ["2024-01-01", "infinity", "1 day"];
    let pairs = parsed.iter().zip(&types);
    let args: Vec<Datum> = pairs.map(|(text, ty)| value(*ty, text, &session)).collect();
    let proc = find("generate_series", &types);
    assert_eq!(answered(proc, &types, &args, 2, &session).unwrap().len(), 2);
}

#[test]
fn a_shuffled_array_has_the_same_elements() {
    let session = Quiet::new();
    let types = [SqlType::array(&SqlType::Int4), SqlType::Int4];
    let elements: Vec<Datum> = (0..100).map(Datum::Int4).collect();
    let args = [Datum::array(elements.clone()), Datum::Int4(30)];
    let sorted = |name, count: usize| {
        let proc = find(name, &types[..count]);
        let drawn = answered(proc, &types[..count], &args[..count], 1, &session).unwrap();
        let mut drawn = drawn[0].as_array().unwrap().elements().to_vec();
        assert_ne!(drawn, elements[..drawn.len()]);
        drawn.sort_by(Datum::compare);
        drawn
    };
    assert_eq!(sorted("array_shuffle", 1), elements);
    let mut sample = sorted("array_sample", 2);
    sample.dedup();
    assert_eq!(sample.len(), 30);
}

#[test]
fn arrays_of_any_size_are_asked_for_before_they_are_made() {
    let session = Quiet::new();
    let types = [SqlType::Int4, SqlType::array(&SqlType::Int4)];
    let args = [
        Datum::Int4(1),
        Datum::array(vec![Datum::Int4(10_000), Datum::Int4(10_000)]),
    ];
    let error = answered(find("array_fill", &types), &types, &args, 1, &session).unwrap_err();
    assert_eq!(error.sqlstate.as_str(), "53200");
}
