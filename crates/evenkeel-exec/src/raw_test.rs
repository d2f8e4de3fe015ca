//! Comparisons with a constant, made on a row's stored bytes: what they leave out is neither copied
//! nor decoded.

use std::cmp::Ordering;

use evenkeel_expr::program::Program;
use evenkeel_types::row::RowLayout;
use evenkeel_types::{Datum, SqlType};

/// How a stored integer is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    I16,
    I32,
    I64,
}

/// A comparison of a column with a constant, both integers or both numbers of days or microseconds.
/// It cannot fail, and it is made under a page lock.
#[derive(Debug, Clone)]
pub(crate) struct RawTest {
    offset: usize,
    form: Form,
    /// The orders of column and constant with which it holds.
    less: bool,
    equal: bool,
    greater: bool,
    value: i64,
}

impl RawTest {
    /// The test that a program is for the columns of rows that are simple, if it is one. `columns`:
    /// the column of each slot.
    pub fn of(
        program: &Program,
        layout: &RowLayout,
        columns: &[usize],
        params: &[Datum],
    ) -> Option<RawTest> {
        let Program::Call(call) = program else {
            return None;
        };
        let (slot, other, turned) = match &*call.args {
            [Program::Slot(slot), other] => (*slot, other, false),
            [other, Program::Slot(slot)] => (*slot, other, true),
            _ => return None,
        };
        let value = match other {
            Program::Const(value) => value,
            Program::Param(number) => params.get(*number)?,
            _ => return None,
        };
        let (offset, width, ty) = layout.fixed_slot(*columns.get(slot)?)?;
        let (form, value) = comparable(ty, width, value)?;
        let (mut less, equal, mut greater) = operator(call.proc.name)?;
        if turned {
            (less, greater) = (greater, less);
        }
        Some(RawTest {
            offset,
            form,
            less,
            equal,
            greater,
            value,
        })
    }

    /// Whether a simple row passes; a shorter one than its layout says does.
    #[inline]
    pub fn holds(&self, row: &[u8]) -> bool {
        let stored = match self.form {
            Form::I16 => at(row, self.offset).map(|bytes| i64::from(i16::from_le_bytes(bytes))),
            Form::I32 => at(row, self.offset).map(|bytes| i64::from(i32::from_le_bytes(bytes))),
            Form::I64 => at(row, self.offset).map(i64::from_le_bytes),
        };
        match stored.map(|stored| stored.cmp(&self.value)) {
            Some(Ordering::Less) => self.less,
            Some(Ordering::Equal) => self.equal,
            Some(Ordering::Greater) => self.greater,
            None => true,
        }
    }
}

#[inline]
fn at<const N: usize>(row: &[u8], offset: usize) -> Option<[u8; N]> {
    row.get(offset..)?.first_chunk().copied()
}

/// The constant as an integer that is ordered as the column's values are.
fn comparable(ty: SqlType, width: usize, value: &Datum) -> Option<(Form, i64)> {
    let form = match width {
        2 => Form::I16,
        4 => Form::I32,
        8 => Form::I64,
        _ => return None,
    };
    let value = match (ty, value) {
        (SqlType::Int2 | SqlType::Int4 | SqlType::Int8, Datum::Int2(v)) => i64::from(*v),
        (SqlType::Int2 | SqlType::Int4 | SqlType::Int8, Datum::Int4(v))
        | (SqlType::Date, Datum::Date(v)) => i64::from(*v),
        (SqlType::Int2 | SqlType::Int4 | SqlType::Int8, Datum::Int8(v))
        | (SqlType::Timestamp(_), Datum::Timestamp(v))
        | (SqlType::Timestamptz(_), Datum::Timestamptz(v)) => *v,
        _ => return None,
    };
    Some((form, value))
}

/// The orders with which an operator's function holds: its name is the types' and then the
/// operator's.
fn operator(name: &str) -> Option<(bool, bool, bool)> {
    const TYPES: [&str; 12] = [
        "int2",
        "int4",
        "int8",
        "int24",
        "int28",
        "int42",
        "int48",
        "int82",
        "int84",
        "date_",
        "timestamp_",
        "timestamptz_",
    ];
    let operator = &name[name.len().checked_sub(2)?..];
    if !TYPES.contains(&&name[..name.len() - 2]) {
        return None;
    }
    Some(match operator {
        "lt" => (true, false, false),
        "le" => (true, true, false),
        "eq" => (false, true, false),
        "ne" => (true, false, true),
        "ge" => (false, true, true),
        "gt" => (false, false, true),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_is_known_by_its_functions_name() {
        assert_eq!(operator("int4lt"), Some((true, false, false)));
        assert_eq!(operator("int84ge"), Some((false, true, true)));
        assert_eq!(operator("timestamptz_ne"), Some((true, false, true)));
        for name in [
            "int4pl",
            "date_lt_timestamp",
            "float8lt",
            "lt",
            "x",
            "textlt",
        ] {
            assert_eq!(operator(name), None, "{name}");
        }
    }
}
