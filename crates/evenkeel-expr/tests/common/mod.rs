//! A session and text forms of values, for tests of aggregates and sets.

use evenkeel_expr::ExprResult;
use evenkeel_expr::call::Session;
use evenkeel_types::{Datum, SqlState, SqlType, TimeZone, TypeContext, TypeError, without_blanks};

/// A session in New York that nobody cancels, with little memory.
pub struct Quiet(TypeContext);

impl Quiet {
    pub fn new() -> Quiet {
        Quiet(TypeContext {
            time_zone: TimeZone::parse("America/New_York").unwrap(),
            ..TypeContext::default()
        })
    }
}

impl Session for Quiet {
    fn types(&self) -> &TypeContext {
        &self.0
    }

    fn statement_start(&self) -> i64 {
        0
    }

    fn reserve(&self, bytes: usize) -> ExprResult<()> {
        match bytes < 1 << 30 {
            true => Ok(()),
            false => Err(TypeError::new(SqlState::OUT_OF_MEMORY, "out of memory")),
        }
    }

    fn hold(&self, _: usize) -> ExprResult<()> {
        Ok(())
    }

    fn release(&self, _: usize) {}

    fn check_cancel(&self) -> ExprResult<()> {
        Ok(())
    }

    fn system_call(&self, _oid: u32, _args: &[Datum]) -> ExprResult<Datum> {
        Ok(Datum::Null)
    }
}

/// The type of a `typname`.
pub fn type_of(name: &str) -> SqlType {
    let mut types = SqlType::all().iter().copied().chain(SqlType::arrays());
    let found = types.find(|ty| ty.type_name() == name);
    found.unwrap_or_else(|| panic!("no type {name}"))
}

/// A value of a type; `\N` is NULL.
pub fn value(ty: SqlType, text: &str, session: &Quiet) -> Datum {
    match text {
        r"\N" => Datum::Null,
        text => Datum::parse_text(ty, text, session.types()).unwrap(),
    }
}

/// A value's text, as a cast to `text` gives it.
pub fn text(value: &Datum, ty: SqlType, session: &Quiet) -> String {
    match value {
        Datum::Null => r"\N".to_owned(),
        Datum::Bool(value) => value.to_string(),
        Datum::Char(text) => without_blanks(text).to_owned(),
        value => value
            .to_text(ty, session.types())
            .replace('\n', "\\n")
            .replace('\t', "\\t"),
    }
}
