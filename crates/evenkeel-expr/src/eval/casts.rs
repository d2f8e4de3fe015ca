//! Casts in programs.

use evenkeel_types::{Datum, SqlType};

use super::Env;
use crate::casts;
use crate::error::ExprResult;
use crate::memory::{Charge, LARGE, nested_bytes, text_bytes};
use crate::program::CastNode;

/// Bytes that a value has as one of another type, at most.
fn converted_bytes(value: &Datum, to: SqlType) -> usize {
    match (value, to) {
        (Datum::Text(text), SqlType::Array(..)) => {
            let commas = memchr::memchr_iter(b',', text.as_bytes()).count();
            let elements = (commas + 1).saturating_mul(size_of::<Datum>());
            text.len().saturating_add(elements)
        }
        (Datum::Text(text) | Datum::Char(text), _) => text.len(),
        (value, to) if to.is_string() => text_bytes(value),
        (value, _) => nested_bytes(value),
    }
}

impl Env<'_> {
    pub(super) fn cast(&self, node: &CastNode, row: &[Datum]) -> ExprResult<Datum> {
        let value = self.eval(&node.arg, row)?;
        let mut charge = Charge::new(self.session);
        charge.add(&value)?;
        if value.is_null() {
            return Ok(Datum::Null);
        }
        // Their text forms are names, which the catalog knows.
        if node.to.is_named_oid() && matches!(value, Datum::Text(_)) {
            return self
                .session
                .system_call(casts::input_function(node.to), &[value]);
        }
        if node.from.is_named_oid() && node.to.is_string() {
            let name = self
                .session
                .system_call(casts::output_function(node.from), &[value])?;
            return casts::convert(name, SqlType::Text, node.to, node.explicit, self.session);
        }
        if let SqlType::Char(Some(length)) = node.to
            && length as usize > LARGE
        {
            self.session.reserve(length as usize)?;
        }
        if charge.is_charged() {
            self.session.reserve(converted_bytes(&value, node.to))?;
            self.session.check_cancel()?;
        }
        self.made(casts::convert(
            value,
            node.from,
            node.to,
            node.explicit,
            self.session,
        ))
    }
}
