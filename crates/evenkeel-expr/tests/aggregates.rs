//! Aggregates answer what PostgreSQL 18 answered; `examples/record` asks it.

mod common;

use common::{Quiet, text, type_of, value};
use evenkeel_expr::aggregate::AGGREGATES;
use evenkeel_expr::call::Session;
use evenkeel_expr::proc::{
    Accumulator, AggregateTypes, ArgType, OrderedColumn, OrderedInput, Proc, ProcKind,
};
use evenkeel_types::{Datum, RecordValue, SqlType, TypeResult};

const RECORDED: &str = include_str!("aggregates.txt");

fn aggregates() -> impl Iterator<Item = &'static Proc> {
    AGGREGATES.iter().flat_map(|procs| procs.iter())
}

/// A line of the file.
struct Case {
    name: &'static str,
    moving: bool,
    types: Vec<SqlType>,
    direct: Vec<(SqlType, &'static str)>,
    order: OrderedColumn,
    rows: Vec<Vec<&'static str>>,
    answer: &'static str,
}

fn cases() -> impl Iterator<Item = (&'static str, Case)> {
    let lines = RECORDED.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| {
        let fields: Vec<&'static str> = line.split('\t').collect();
        let [name, types, direct, order, rows, answer] = fields.as_slice() else {
            panic!("{line}");
        };
        let moved = name.strip_prefix("moving ");
        let split = |text: &'static str, by| text.split(by).filter(|part| !part.is_empty());
        let desc = order.starts_with("desc");
        let case = Case {
            name: moved.unwrap_or(name),
            moving: moved.is_some(),
            types: split(types, ',').map(type_of).collect(),
            direct: split(direct, '|')
                .map(|part| part.split_once(':').unwrap())
                .map(|(ty, text)| (type_of(ty), text))
                .collect(),
            order: OrderedColumn {
                desc,
                nulls_first: match *order {
                    "" | "desc" => desc,
                    order => order.ends_with("first"),
                },
            },
            // An empty list has no rows; a row may be an empty text.
            rows: match *rows {
                "" => Vec::new(),
                rows => rows
                    .split(';')
                    .map(|row| row.split('|').collect())
                    .collect(),
            },
            answer,
        };
        (line, case)
    })
}

fn takes(arg: ArgType, ty: SqlType) -> bool {
    match arg {
        ArgType::Is(own) => own == ty,
        ArgType::Any | ArgType::AnyElement => true,
        ArgType::AnyArray => ty.element().is_some(),
        ArgType::AnyNonArray => ty.element().is_none(),
        _ => false,
    }
}

/// The aggregate that a case is of.
fn find(case: &Case) -> &'static Proc {
    let fits = |proc: &&Proc| {
        let direct = match proc.kind {
            ProcKind::OrderedSet(_, direct) => direct,
            _ => 0,
        };
        let (direct, args) = proc.args.split_at(direct);
        let ordered = matches!(proc.kind, ProcKind::HypotheticalSet(_));
        let given = case.direct.iter().map(|(ty, _)| *ty);
        proc.name == case.name
            && (ordered || args.len() == case.types.len())
            && args
                .iter()
                .zip(&case.types)
                .all(|(arg, ty)| takes(*arg, *ty))
            && direct.iter().zip(given).all(|(arg, ty)| takes(*arg, ty))
    };
    aggregates()
        .find(fits)
        .unwrap_or_else(|| panic!("no {}", case.name))
}

fn result_of(proc: &Proc, case: &Case) -> SqlType {
    match proc.result {
        ArgType::Is(ty) => ty,
        ArgType::AnyArray => case.types[0].array_of().unwrap_or(case.types[0]),
        _ => case.types[0],
    }
}

/// A new state for a case's rows.
fn begin(
    proc: &Proc,
    case: &Case,
    rows: &[Vec<Datum>],
    session: &Quiet,
) -> TypeResult<Box<dyn Accumulator>> {
    let types = AggregateTypes {
        args: &case.types,
        result: result_of(proc, case),
    };
    let direct = case.direct.iter();
    let direct: Vec<Datum> = direct.map(|(ty, text)| value(*ty, text, session)).collect();
    let input = OrderedInput {
        direct: &direct,
        rows: rows.len() as u64,
        order: &vec![case.order; case.types.len()],
    };
    match proc.kind {
        ProcKind::Aggregate(new) => Ok(new(&types)),
        ProcKind::OrderedSet(new, _) | ProcKind::HypotheticalSet(new) => new(&types, &input),
        _ => panic!("{} is no aggregate", proc.name),
    }
}

/// The rows as the executor hands them over: in order, and for ordered sets without NULLs.
fn prepared(proc: &Proc, case: &Case, session: &Quiet) -> Vec<Vec<Datum>> {
    let row = |row: &Vec<&str>| {
        let pairs = row.iter().zip(&case.types);
        pairs.map(|(text, ty)| value(*ty, text, session)).collect()
    };
    let mut rows: Vec<Vec<Datum>> = case.rows.iter().map(row).collect();
    if matches!(proc.kind, ProcKind::Aggregate(_)) {
        return rows;
    }
    if matches!(proc.kind, ProcKind::OrderedSet(..)) {
        rows.retain(|row| !row.iter().any(Datum::is_null));
    }
    rows.sort_by(|a, b| {
        let columns = a
            .iter()
            .zip(b)
            .map(|(a, b)| match (a.is_null(), b.is_null()) {
                (false, false) if case.order.desc => b.compare(a),
                (false, false) => a.compare(b),
                (a, b) if case.order.nulls_first => b.cmp(&a),
                (a, b) => a.cmp(&b),
            });
        columns.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
    });
    rows
}

fn answer(proc: &Proc, case: &Case, session: &Quiet) -> TypeResult<String> {
    let ty = result_of(proc, case);
    let rows = prepared(proc, case, session);
    let mut state = begin(proc, case, &rows, session)?;
    if !case.moving {
        for row in &rows {
            state.add(row, session)?;
        }
        let so_far = state.value(session)?;
        let finished = text(&state.finish(session)?, ty, session);
        assert_eq!(finished, text(&so_far, ty, session));
        return Ok(format!("{} {finished}", ty.base_name()));
    }
    let mut answers = Vec::new();
    for end in 0..rows.len() {
        if end >= 3 && !state.remove(&rows[end - 3], session)? {
            state = begin(proc, case, &rows, session)?;
            for row in &rows[end - 2..end] {
                state.add(row, session)?;
            }
        }
        state.add(&rows[end], session)?;
        answers.push(text(&state.value(session)?, ty, session));
    }
    Ok(answers.join(";"))
}

#[test]
fn aggregates_answer_what_postgres_answers() {
    let session = Quiet::new();
    let (mut wrong, mut asked) = (Vec::new(), 0);
    for (line, case) in cases() {
        asked += 1;
        let found = match answer(find(&case), &case, &session) {
            Ok(answer) => answer,
            Err(error) => format!("!{} {}", error.sqlstate, error.message),
        };
        if found != case.answer {
            wrong.push(format!("{line}\n    {found}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {asked} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn every_aggregate_has_recorded_answers() {
    // Rows of values and created types have no type that a case could name: those are asked for by
    // `rows_compare_field_by_field` and through SQL, as are the types of system columns.
    let elsewhere = [
        [ArgType::Record],
        [ArgType::AnyEnum],
        [ArgType::Is(SqlType::Tid)],
        [ArgType::Is(SqlType::Xid8)],
    ];
    let named = |proc: &&Proc| !elsewhere.iter().any(|of| proc.args == of);
    for proc in aggregates().filter(named) {
        let recorded = cases().any(|(_, case)| std::ptr::eq(find(&case), proc));
        assert!(recorded, "{} ({})", proc.name, proc.oid);
    }
}

#[test]
fn a_row_taken_out_again_was_never_there() {
    let session = Quiet::new();
    let (mut removed, mut refused) = (0, 0);
    for (line, case) in cases().filter(|(_, case)| !case.moving) {
        let proc = find(&case);
        let rows = prepared(proc, &case, &session);
        if !matches!(proc.kind, ProcKind::Aggregate(_)) || rows.is_empty() {
            continue;
        }
        let of = |first: usize, rows: &[Vec<Datum>]| -> TypeResult<Option<String>> {
            let mut state = begin(proc, &case, rows, &session)?;
            for row in rows {
                state.add(row, &session)?;
            }
            for row in &rows[..first] {
                if !state.remove(row, &session)? {
                    return Ok(None);
                }
            }
            let value = state.value(&session)?;
            Ok(Some(text(&value, result_of(proc, &case), &session)))
        };
        for first in 1..=rows.len() {
            let (Ok(without), Ok(never)) = (of(first, &rows), of(0, &rows[first..])) else {
                continue;
            };
            match without {
                Some(_) => {
                    assert_eq!(without, never, "{first} of {line}");
                    removed += 1;
                }
                None => refused += 1,
            }
        }
    }
    assert!(removed > 1_000, "{removed} removed, {refused} refused");
}

#[test]
fn no_oid_is_there_twice() {
    let mut oids: Vec<u32> = aggregates().map(|proc| proc.oid).collect();
    oids.sort_unstable();
    let all = oids.len();
    oids.dedup();
    assert_eq!(oids.len(), all);
}

#[test]
fn rows_compare_field_by_field() {
    let session = Quiet::new();
    let row = |types: [SqlType; 2], fields: [Datum; 2]| {
        [Datum::Record(
            RecordValue::new(types.into(), fields.into()).into(),
        )]
    };
    let pair = [SqlType::Int4, SqlType::Text];
    let one = row(pair, [Datum::Int4(1), Datum::Null]);
    let two = row(pair, [Datum::Int4(1), Datum::from("x")]);
    let other = row(
        [SqlType::Int8, SqlType::Text],
        [Datum::Int8(1), Datum::Null],
    );
    // SELECT max(r), min(r) FROM (VALUES (ROW(1, NULL)), (ROW(1, 'x'))) v(r)
    for (name, greatest) in [("max", &one), ("min", &two)] {
        let find = |proc: &&Proc| proc.name == name && proc.args == [ArgType::Record];
        let ProcKind::Aggregate(new) = aggregates().find(find).unwrap().kind else {
            panic!("{name}");
        };
        let mut state = new(&AggregateTypes {
            args: &[SqlType::Record],
            result: SqlType::Record,
        });
        for row in [&one, &two] {
            state.add(row, &session).unwrap();
        }
        assert_eq!(state.value(&session).unwrap(), greatest[0]);
        let error = state.add(&other, &session).unwrap_err();
        assert_eq!(
            &*error.message,
            "cannot compare dissimilar column types integer and bigint at record column 1"
        );
    }
}

#[test]
fn states_tell_what_they_hold() {
    let session = Quiet::new();
    let long = Datum::Text("x".repeat(10_000));
    for name in ["string_agg", "max", "any_value"] {
        let proc = aggregates()
            .find(|proc| proc.name == name && takes(proc.args[0], SqlType::Text))
            .unwrap();
        let ProcKind::Aggregate(new) = proc.kind else {
            panic!("{name}");
        };
        let mut state = new(&AggregateTypes {
            args: &[SqlType::Text],
            result: SqlType::Text,
        });
        let row = [long.clone(), Datum::Null];
        state
            .add(&row[..proc.args.len()], &session as &dyn Session)
            .unwrap();
        assert!(state.bytes() >= 10_000, "{name}");
    }
}
