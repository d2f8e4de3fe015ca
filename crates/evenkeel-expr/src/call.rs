//! A call of a function.

use std::borrow::Cow;
use std::sync::LazyLock;

use evenkeel_types::{
    ArrayValue, Datum, Interval, Numeric, SqlType, TimeTz, TimeZone, without_blanks,
};

use crate::error::{self, ExprResult};
use crate::memory::{LARGE, MAX_VALUE, large_bytes, text_bytes, too_long};
use crate::pace::Pace;
pub use crate::session::Session;

/// One call. Arguments are borrowed where the row or the program has them, so that a call copies
/// none.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// The oid of the function.
    pub oid: u32,
    /// The arguments, of the signature's types.
    pub args: &'a [&'a Datum],
    /// The types of the arguments, with their modifiers.
    pub types: &'a [SqlType],
    /// The type of the result.
    pub result: SqlType,
    /// The session.
    pub session: &'a dyn Session,
}

const ZERO_INTERVAL: Interval = Interval {
    months: 0,
    days: 0,
    micros: 0,
};

impl<'a> Call<'a> {
    /// An argument; NULL where there is none.
    #[inline]
    pub fn arg(&self, at: usize) -> &'a Datum {
        self.args.get(at).copied().unwrap_or(&Datum::Null)
    }

    /// The type of an argument.
    pub fn type_of(&self, at: usize) -> SqlType {
        self.types.get(at).copied().unwrap_or(SqlType::Unknown)
    }

    /// Whether an argument is absent or NULL.
    pub fn is_null(&self, at: usize) -> bool {
        self.arg(at).is_null()
    }

    /// A text, a `character(n)` with its blanks; empty for an argument of another type.
    pub fn text(&self, at: usize) -> &'a str {
        self.arg(at).as_str().unwrap_or_default()
    }

    /// The text form of an argument of any type, a `char(n)` with its blanks.
    ///
    /// # Errors
    /// 53200, 54000.
    pub fn text_form(&self, at: usize) -> ExprResult<Cow<'a, str>> {
        match (self.arg(at), self.type_of(at)) {
            (Datum::Char(text), _) => Ok(Cow::Borrowed(text)),
            (Datum::Text(text), ty) if ty != SqlType::InternalChar => Ok(Cow::Borrowed(text)),
            (value, ty) => {
                if large_bytes(value) != 0 {
                    self.session.reserve(text_bytes(value))?;
                    self.session.check_cancel()?;
                }
                Ok(Cow::Owned(value.to_text(ty, self.session.types())))
            }
        }
    }

    /// An argument of any type cast to text, as a function written in SQL casts it.
    ///
    /// # Errors
    /// 53200, 54000.
    pub fn text_cast(&self, at: usize) -> ExprResult<Cow<'a, str>> {
        match self.arg(at) {
            Datum::Bool(value) => Ok(Cow::Borrowed(if *value { "true" } else { "false" })),
            Datum::Text(text) if self.type_of(at) != SqlType::InternalChar => {
                Ok(Cow::Borrowed(text))
            }
            Datum::Char(text) => Ok(Cow::Borrowed(without_blanks(text))),
            _ => self.text_form(at),
        }
    }

    /// Bytes.
    pub fn bytes(&self, at: usize) -> &'a [u8] {
        match self.arg(at) {
            Datum::Bytea(bytes) => bytes,
            _ => &[],
        }
    }

    /// An integer of any width, or what a date or time counts.
    #[inline]
    pub fn int(&self, at: usize) -> i64 {
        match self.arg(at) {
            Datum::Int2(value) => i64::from(*value),
            Datum::Int4(value) | Datum::Date(value) => i64::from(*value),
            Datum::Oid(value) => i64::from(*value),
            Datum::Int8(value)
            | Datum::Time(value)
            | Datum::Timestamp(value)
            | Datum::Timestamptz(value) => *value,
            _ => 0,
        }
    }

    /// An `integer`.
    ///
    /// # Errors
    /// 22003 when it is wider than its signature says.
    pub fn int4(&self, at: usize) -> ExprResult<i32> {
        i32::try_from(self.int(at)).map_err(|_| error::out_of_range("integer out of range"))
    }

    /// A float.
    pub fn float(&self, at: usize) -> f64 {
        match self.arg(at) {
            Datum::Float8(value) => *value,
            Datum::Float4(value) => f64::from(*value),
            _ => 0.0,
        }
    }

    /// A `numeric`.
    pub fn numeric(&self, at: usize) -> &'a Numeric {
        static ZERO: LazyLock<Numeric> = LazyLock::new(Numeric::zero);
        match self.arg(at) {
            Datum::Numeric(value) => value,
            _ => &ZERO,
        }
    }

    /// A date.
    pub fn date(&self, at: usize) -> i32 {
        match self.arg(at) {
            Datum::Date(days) => *days,
            _ => 0,
        }
    }

    /// A time with its zone.
    pub fn timetz(&self, at: usize) -> TimeTz {
        match self.arg(at) {
            Datum::Timetz(time) => *time,
            _ => TimeTz { micros: 0, west: 0 },
        }
    }

    /// An interval.
    pub fn interval(&self, at: usize) -> Interval {
        match self.arg(at) {
            Datum::Interval(interval) => *interval,
            _ => ZERO_INTERVAL,
        }
    }

    /// A boolean.
    pub fn flag(&self, at: usize) -> bool {
        matches!(self.arg(at), Datum::Bool(true))
    }

    /// An array; the empty one for an argument of another type.
    pub fn array(&self, at: usize) -> &'a ArrayValue {
        static EMPTY: LazyLock<ArrayValue> = LazyLock::new(ArrayValue::default);
        self.arg(at).as_array().unwrap_or(&EMPTY)
    }

    /// Asks for the memory of a result before it is made, unless it is small.
    ///
    /// # Errors
    /// 54000 for a text or `bytea` beyond the largest, and those of [`Session::reserve`].
    #[inline]
    pub(crate) fn room(&self, bytes: usize) -> ExprResult<()> {
        if bytes <= LARGE {
            return Ok(());
        }
        if bytes > MAX_VALUE {
            return Err(too_long());
        }
        self.session.reserve(bytes)
    }

    /// Asks for the memory of as many values, and of `bytes` that they hold.
    ///
    /// # Errors
    /// Those of [`Session::reserve`].
    pub(crate) fn room_of_values(&self, count: usize, bytes: usize) -> ExprResult<()> {
        let bytes = count
            .saturating_mul(size_of::<Datum>())
            .saturating_add(bytes);
        if bytes <= LARGE {
            return Ok(());
        }
        self.session.reserve(bytes)
    }

    /// Counts the steps of the call's work.
    #[inline]
    pub(crate) fn pace(&self) -> Pace<'a> {
        Pace::new(self.session)
    }

    /// The session's zone.
    pub fn zone(&self) -> &'a TimeZone {
        &self.session.types().time_zone
    }

    /// The start of the transaction.
    pub fn now(&self) -> i64 {
        self.session.types().now_micros
    }

    /// Hands the call over to the session.
    ///
    /// # Errors
    /// Those of the function.
    pub fn system(&self) -> ExprResult<Datum> {
        let args: Vec<Datum> = self.args.iter().map(|arg| (*arg).clone()).collect();
        self.session.system_call(self.oid, &args)
    }

    /// XX000 for a call with arguments of other types than its signature has.
    pub(crate) fn mismatch<T>(&self) -> ExprResult<T> {
        let message = format!(
            "function {} was called with values of other types",
            self.oid
        );
        Err(error::internal(message))
    }
}
