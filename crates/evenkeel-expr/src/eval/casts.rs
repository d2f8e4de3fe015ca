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
        let of_strings =
            |ty: SqlType| ty.is_string() || ty.element().is_some_and(SqlType::is_string);
        if node.to.has_names() && of_strings(node.from) {
            return casts::of_names(value, node.to, self.session);
        }
        if node.from.has_names() && of_strings(node.to) {
            let names = casts::as_names(value, node.from, self.session)?;
            let from = match node.from.is_named_oid() {
                true => SqlType::Text,
                false => SqlType::TEXT_ARRAY,
            };
            return casts::convert(names, from, node.to, node.explicit, self.session);
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
