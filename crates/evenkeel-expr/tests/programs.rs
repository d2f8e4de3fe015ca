//! Programs mean what PostgreSQL's expressions mean; the answers are those of PostgreSQL 18.

use std::sync::Arc;

use evenkeel_expr::call::Session;
use evenkeel_expr::eval::{Env, NoSubplans};
use evenkeel_expr::proc::Proc;
use evenkeel_expr::program::{CallNode, CastNode, Program, RowCompareOp, RowPair};
use evenkeel_expr::{ExprResult, proc_by_oid};
use evenkeel_types::{Datum, RecordValue, SqlState, SqlType, TypeContext, TypeError};

const INT4_EQ: u32 = 65;
const INT4_LT: u32 = 66;
const INT4_PLUS: u32 = 177;
const INT4_DIV: u32 = 154;
const CONCAT: u32 = 3058;

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
        match oid {
            // regclassout
            2219 => Ok("pg_class".into()),
            // regclassin
            2218 => Ok(Datum::Oid(1259)),
            _ => Err(TypeError::unsupported(format!("function {oid}"))),
        }
    }
}

fn eval(program: &Program) -> ExprResult<Datum> {
    let session = Alone(TypeContext::default());
    let params = [Datum::Int4(7)];
    let row = [Datum::Int4(1), Datum::Null, Datum::from("text")];
    Env::new(&params, &session, &NoSubplans).eval(program, &row)
}

fn value(value: impl Into<Datum>) -> Program {
    Program::Const(value.into())
}

fn null() -> Program {
    Program::Const(Datum::Null)
}

fn proc(oid: u32) -> &'static Proc {
    proc_by_oid(oid).unwrap()
}

fn call(oid: u32, types: &[SqlType], args: Vec<Program>) -> Program {
    Program::Call(Box::new(CallNode {
        proc: proc(oid),
        args: args.into(),
        arg_types: types.into(),
        result: SqlType::Int4,
        variadic_array: false,
        at: u32::MAX,
    }))
}

fn int4(oid: u32, left: Program, right: Program) -> Program {
    call(oid, &[SqlType::Int4; 2], vec![left, right])
}

fn fails() -> Program {
    int4(INT4_EQ, int4(INT4_DIV, value(1), value(0)), value(1))
}

fn ints(values: &[Option<i32>]) -> Program {
    Program::Const(Datum::array(
        values.iter().map(|v| Datum::from(*v)).collect(),
    ))
}

#[test]
fn and_or_and_case_stop_where_the_answer_is_known() {
    let truth = |program| eval(&program).map_err(|error| error.sqlstate);
    let and = |args: Vec<Program>| truth(Program::And(args.into()));
    let or = |args: Vec<Program>| truth(Program::Or(args.into()));
    assert_eq!(and(vec![value(false), fails()]), Ok(Datum::Bool(false)));
    assert_eq!(and(vec![null(), value(false)]), Ok(Datum::Bool(false)));
    assert_eq!(and(vec![null(), value(true)]), Ok(Datum::Null));
    assert_eq!(
        and(vec![value(true), fails()]),
        Err(SqlState::DIVISION_BY_ZERO)
    );
    assert_eq!(or(vec![value(true), fails()]), Ok(Datum::Bool(true)));
    assert_eq!(or(vec![null(), value(false)]), Ok(Datum::Null));
    let case = |operand: Program| {
        truth(Program::Case {
            operand: Some(Box::new(operand)),
            branches: [
                (int4(INT4_EQ, Program::CaseOperand, value(1)), value("one")),
                (int4(INT4_EQ, Program::CaseOperand, value(2)), value("two")),
                (fails(), value("never")),
            ]
            .into(),
            otherwise: Box::new(value("other")),
        })
    };
    assert_eq!(case(Program::Slot(0)), Ok("one".into()));
    assert_eq!(case(value(2)), Ok("two".into()));
    assert_eq!(case(value(3)), Err(SqlState::DIVISION_BY_ZERO));
    let coalesce = vec![Program::Slot(1), Program::Param(0), fails()];
    assert_eq!(
        truth(Program::Coalesce(coalesce.into())),
        Ok(Datum::Int4(7))
    );
}

#[test]
fn null_is_unknown_and_distinct() {
    assert_eq!(eval(&int4(INT4_PLUS, null(), value(1))), Ok(Datum::Null));
    let distinct = |left, right, negated| {
        eval(&Program::IsDistinct {
            equal: proc(INT4_EQ),
            args: Box::new([left, right]),
            negated,
        })
    };
    assert_eq!(distinct(null(), null(), false), Ok(Datum::Bool(false)));
    assert_eq!(distinct(null(), value(1), false), Ok(Datum::Bool(true)));
    assert_eq!(distinct(value(1), value(1), true), Ok(Datum::Bool(true)));
    let null_if = |left, right| {
        eval(&Program::NullIf {
            equal: proc(INT4_EQ),
            args: Box::new([left, right]),
        })
    };
    assert_eq!(null_if(value(1), value(1)), Ok(Datum::Null));
    assert_eq!(null_if(value(1), null()), Ok(Datum::Int4(1)));
    let extreme = |greatest| {
        let args = [value(2), null(), value(3), value(1)].into();
        eval(&Program::Extreme { greatest, args })
    };
    assert_eq!(extreme(true), Ok(Datum::Int4(3)));
    assert_eq!(extreme(false), Ok(Datum::Int4(1)));
    for (truth, is_true, is_unknown) in [(value(true), true, false), (null(), false, true)] {
        let is = |value| {
            let arg = Box::new(truth.clone());
            eval(&Program::IsBool {
                arg,
                value,
                negated: false,
            })
        };
        assert_eq!(is(Some(true)), Ok(Datum::Bool(is_true)));
        assert_eq!(is(None), Ok(Datum::Bool(is_unknown)));
    }
}

#[test]
fn any_and_all_know_null_and_the_empty_array() {
    let ask = |left: Program, array: Program, all: bool| {
        let args = Box::new([left, array]);
        eval(&Program::AnyAll {
            proc: proc(INT4_EQ),
            all,
            args,
        })
        .unwrap()
    };
    let array = ints(&[Some(1), None, Some(2)]);
    assert_eq!(ask(value(2), array.clone(), false), Datum::Bool(true));
    assert_eq!(ask(value(3), array.clone(), false), Datum::Null);
    assert_eq!(ask(value(3), array, true), Datum::Bool(false));
    assert_eq!(ask(value(1), ints(&[Some(1), None]), true), Datum::Null);
    assert_eq!(ask(null(), ints(&[]), false), Datum::Bool(false));
    assert_eq!(ask(null(), ints(&[]), true), Datum::Bool(true));
    assert_eq!(ask(value(1), null(), false), Datum::Null);
}

#[test]
fn arrays_are_made_subscripted_and_cut() {
    let array = |nested, items: Vec<Program>| Program::Array {
        element: SqlType::Int4,
        nested,
        items: items.into(),
    };
    let row = |a: i32, b: i32| array(false, vec![value(a), value(b)]);
    let matrix = array(true, vec![row(1, 2), row(3, 4)]);
    let print = |program: &Program| {
        let ty = SqlType::Int4.array_of().unwrap();
        eval(program).map(|value| value.to_text(ty, &TypeContext::default()))
    };
    assert_eq!(print(&matrix), Ok("{{1,2},{3,4}}".to_owned()));
    let uneven = array(true, vec![row(1, 2), array(false, vec![value(1)])]);
    assert_eq!(
        print(&uneven).unwrap_err().sqlstate,
        SqlState::ARRAY_SUBSCRIPT_ERROR
    );
    let at = |indexes: Vec<Program>| {
        let array = Box::new(matrix.clone());
        eval(&Program::Subscript {
            array,
            indexes: indexes.into(),
        })
    };
    assert_eq!(at(vec![value(2), value(1)]), Ok(Datum::Int4(3)));
    assert_eq!(at(vec![value(2)]), Ok(Datum::Null));
    assert_eq!(at(vec![value(2), null()]), Ok(Datum::Null));
    let slice = Program::Slice {
        array: Box::new(matrix.clone()),
        ranges: [(Some(value(2)), None), (None, Some(value(1)))].into(),
    };
    assert_eq!(print(&slice), Ok("{{3}}".to_owned()));
}

#[test]
fn rows_compare_by_the_first_pair_that_differs() {
    let pair = |left: Program, right: Program| RowPair {
        left,
        right,
        equal: proc(INT4_EQ),
        less: proc(INT4_LT),
    };
    let compare = |op, pairs: Vec<RowPair>| {
        let program = Program::RowCompare {
            op,
            pairs: pairs.into(),
        };
        eval(&program).unwrap()
    };
    let equal = || pair(value(1), value(1));
    let differs = || pair(value(1), value(2));
    assert_eq!(
        compare(RowCompareOp::Less, vec![equal(), differs()]),
        true.into()
    );
    assert_eq!(
        compare(RowCompareOp::GreaterEqual, vec![differs()]),
        false.into()
    );
    assert_eq!(
        compare(RowCompareOp::LessEqual, vec![equal(), equal()]),
        true.into()
    );
    assert_eq!(compare(RowCompareOp::Less, vec![equal()]), false.into());
    let unknown = pair(null(), value(2));
    assert_eq!(
        compare(RowCompareOp::Less, vec![equal(), unknown]),
        Datum::Null
    );
    let record = |fields: Vec<Program>| Program::Row {
        names: Arc::from([]),
        types: vec![SqlType::Int4; fields.len()].into(),
        fields: fields.into(),
    };
    let is_null = |fields, negated| {
        let arg = Box::new(record(fields));
        eval(&Program::RowIsNull { arg, negated }).unwrap()
    };
    assert_eq!(is_null(vec![null(), null()], false), true.into());
    assert_eq!(is_null(vec![null(), value(1)], false), false.into());
    assert_eq!(is_null(vec![null(), value(1)], true), false.into());
    assert_eq!(is_null(vec![value(1)], true), true.into());
    let row = Box::new(record(vec![value(4), value(5)]));
    assert_eq!(eval(&Program::Field { row, field: 1 }), Ok(Datum::Int4(5)));
    let types = [SqlType::Int4].into();
    let made = RecordValue::new(types, [Datum::Int4(4)].into());
    assert_eq!(
        eval(&record(vec![value(4)])),
        Ok(Datum::Record(Arc::new(made)))
    );
}

#[test]
fn a_variadic_array_stands_for_its_elements() {
    let array = Datum::array(vec!["a".into(), Datum::Null, "b".into()]);
    let node = |variadic_array, array: Datum| {
        Program::Call(Box::new(CallNode {
            proc: proc(CONCAT),
            args: [Program::Const(array)].into(),
            arg_types: [SqlType::TEXT_ARRAY].into(),
            result: SqlType::Text,
            variadic_array,
            at: u32::MAX,
        }))
    };
    assert_eq!(eval(&node(true, array.clone())), Ok("ab".into()));
    assert_eq!(eval(&node(false, array)), Ok("{a,NULL,b}".into()));
    assert_eq!(eval(&node(true, Datum::Null)), Ok(Datum::Null));
}

#[test]
fn names_of_relations_are_read_and_printed_by_the_catalog() {
    let cast = |arg: Program, from, to| {
        let node = CastNode {
            arg,
            from,
            to,
            explicit: true,
            at: u32::MAX,
        };
        eval(&Program::Cast(Box::new(node)))
    };
    let oid = Datum::Oid(1259);
    assert_eq!(
        cast(value("pg_class"), SqlType::Text, SqlType::Regclass),
        Ok(oid.clone())
    );
    let printed = cast(Program::Const(oid), SqlType::Regclass, SqlType::Text);
    assert_eq!(printed, Ok("pg_class".into()));
}

#[test]
fn deep_programs_do_not_end_the_thread() {
    let mut program = value(0);
    for _ in 0..100_000 {
        program = int4(INT4_PLUS, program, value(1));
    }
    let deep = std::thread::Builder::new()
        .stack_size(64 << 20)
        .spawn(move || {
            let small = std::thread::scope(|scope| {
                let thread = std::thread::Builder::new().stack_size(1 << 20);
                thread
                    .spawn_scoped(scope, || eval(&program))
                    .unwrap()
                    .join()
                    .unwrap()
            });
            // Ended here, where dropping it has room.
            drop(program);
            small
        });
    assert_eq!(deep.unwrap().join().unwrap(), Ok(Datum::Int4(100_000)));
}
