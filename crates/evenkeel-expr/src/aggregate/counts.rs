//! `count`, `any_value`.

use evenkeel_types::{Datum, TypeError, TypeResult};

use super::integers::bigint_out_of_range;
use crate::call::Session;
use crate::proc::{Accumulator, ArgRows};

/// `count(*)`
#[derive(Debug, Default)]
pub(super) struct CountRows(i64);

impl Accumulator for CountRows {
    fn add(&mut self, _args: &[Datum], _session: &dyn Session) -> TypeResult<()> {
        self.0 = self.0.checked_add(1).ok_or_else(bigint_out_of_range)?;
        Ok(())
    }

    fn add_rows(&mut self, rows: &ArgRows<'_>, _session: &dyn Session) -> TypeResult<()> {
        let sum = self.0.checked_add_unsigned(rows.count() as u64);
        self.0 = sum.ok_or_else(bigint_out_of_range)?;
        Ok(())
    }

    fn remove(&mut self, _args: &[Datum], _session: &dyn Session) -> TypeResult<bool> {
        self.0 -= 1;
        Ok(true)
    }

    fn value(&self, _session: &dyn Session) -> TypeResult<Datum> {
        Ok(Datum::Int8(self.0))
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
    }
}

/// `count(any)`, and of several arguments the rows in which none is NULL (`regr_count`).
#[derive(Debug, Default)]
pub(super) struct Count(i64);

impl Accumulator for Count {
    #[inline]
    fn add(&mut self, args: &[Datum], _session: &dyn Session) -> TypeResult<()> {
        if !args.iter().any(Datum::is_null) {
            self.0 = self.0.checked_add(1).ok_or_else(bigint_out_of_range)?;
        }
        Ok(())
    }

    fn remove(&mut self, args: &[Datum], _session: &dyn Session) -> TypeResult<bool> {
        self.0 -= i64::from(!args.iter().any(Datum::is_null));
        Ok(true)
    }

    fn value(&self, _session: &dyn Session) -> TypeResult<Datum> {
        Ok(Datum::Int8(self.0))
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
    }
}

/// `any_value`: the first that is not NULL.
#[derive(Debug, Default)]
pub(super) struct AnyValue(Option<Datum>);

impl Accumulator for AnyValue {
    fn add(&mut self, args: &[Datum], _session: &dyn Session) -> TypeResult<()> {
        let [value] = args else {
            return Err(TypeError::internal("any_value has one argument"));
        };
        if self.0.is_none() && !value.is_null() {
            self.0 = Some(value.clone());
        }
        Ok(())
    }

    fn value(&self, _session: &dyn Session) -> TypeResult<Datum> {
        Ok(self.0.clone().unwrap_or(Datum::Null))
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.0.as_ref().map_or(0, heap_bytes)
    }
}

/// Bytes that a value holds on the heap.
pub(super) fn heap_bytes(value: &Datum) -> usize {
    match value {
        Datum::Text(text) | Datum::Char(text) => text.capacity(),
        Datum::Bytea(bytes) => bytes.capacity(),
        Datum::Numeric(number) => size_of_val(number.digits()),
        Datum::Jsonb(value) => value.bytes().len(),
        Datum::Array(array) => array.bytes(),
        Datum::Record(record) => size_of_val(record.fields()),
        _ => 0,
    }
}
