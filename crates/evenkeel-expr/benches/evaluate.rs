//! The time of evaluating small programs. `cargo bench -p evenkeel-expr`.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use evenkeel_expr::call::Session;
use evenkeel_expr::eval::{Env, NoSubplans};
use evenkeel_expr::program::{CallNode, Program};
use evenkeel_expr::{ExprResult, proc_by_oid};
use evenkeel_types::{Datum, Numeric, SqlType, TypeContext, TypeError};

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

fn call(oid: u32, result: SqlType, types: &[SqlType], args: Vec<Program>) -> Option<Program> {
    Some(Program::Call(Box::new(CallNode {
        proc: proc_by_oid(oid)?,
        args: args.into(),
        arg_types: types.into(),
        result,
        variadic_array: false,
        at: u32::MAX,
    })))
}

fn constant(value: impl Into<Datum>) -> Program {
    Program::Const(value.into())
}

/// The programs: PostgreSQL's oids of the functions.
fn programs() -> Option<Vec<(&'static str, Program)>> {
    let int4 = [SqlType::Int4; 2];
    let text = [SqlType::Text; 2];
    let numeric = [SqlType::Numeric(None); 2];
    let equal = || {
        call(
            65,
            SqlType::Bool,
            &int4,
            vec![Program::Slot(0), constant(42)],
        )
    };
    let like = vec![Program::Slot(1), constant("%keel%")];
    let product = vec![Program::Slot(2), constant(Numeric::from(3i64))];
    Some(vec![
        ("int4 = const", equal()?),
        (
            "int4 + const",
            call(
                177,
                SqlType::Int4,
                &int4,
                vec![Program::Slot(0), constant(1)],
            )?,
        ),
        ("and of two", Program::And([equal()?, equal()?].into())),
        (
            "text = const",
            call(
                67,
                SqlType::Bool,
                &text,
                vec![Program::Slot(1), constant("x")],
            )?,
        ),
        ("text like '%keel%'", call(850, SqlType::Bool, &text, like)?),
        (
            "numeric * const",
            call(1726, SqlType::Numeric(None), &numeric, product)?,
        ),
    ])
}

fn evaluate(c: &mut Criterion) {
    let session = Alone(TypeContext::default());
    let env = Env::new(&[], &session, &NoSubplans);
    let row = [
        Datum::Int4(42),
        Datum::from("an even keel is steady"),
        Datum::Numeric(Numeric::from(12_345i64)),
    ];
    let mut group = c.benchmark_group("evaluate");
    for (name, program) in programs().expect("functions of PostgreSQL") {
        group.bench_function(name, |b| {
            b.iter(|| env.eval(black_box(&program), black_box(&row)));
        });
    }
    group.finish();
}

criterion_group!(benches, evaluate);
criterion_main!(benches);
