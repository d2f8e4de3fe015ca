//! Arithmetic of integers, whose widths may differ.

use evenkeel_types::{Datum, TypeError};

use crate::call::Call;
use crate::error::{self, ExprResult};

type Answer = ExprResult<Datum>;

#[cold]
fn range(name: &str) -> TypeError {
    error::out_of_range(format!("{name} out of range"))
}

/// A function for each pair of widths; the result has the wider one.
macro_rules! arithmetic {
    ($($(#[$doc:meta])*
        $name:ident: $left:ident $op:ident $right:ident -> $wide:ident $ty:ty,
        $type_name:literal;)*) => {
        $($(#[$doc])*
        pub fn $name(call: &Call<'_>) -> Answer {
            let [Datum::$left(a), Datum::$right(b)] = call.args else {
                return call.mismatch();
            };
            let value = <$ty>::from(*a).$op(<$ty>::from(*b));
            value.map(Datum::$wide).ok_or_else(|| range($type_name))
        })*
    };
}

/// As `arithmetic`, refusing zero on the right.
macro_rules! division {
    ($($(#[$doc:meta])*
        $name:ident: $left:ident $right:ident -> $wide:ident $ty:ty, $type_name:literal;)*) => {
        $($(#[$doc])*
        pub fn $name(call: &Call<'_>) -> Answer {
            let [Datum::$left(a), Datum::$right(b)] = call.args else {
                return call.mismatch();
            };
            if *b == 0 {
                return Err(error::division_by_zero());
            }
            let value = <$ty>::from(*a).checked_div(<$ty>::from(*b));
            value.map(Datum::$wide).ok_or_else(|| range($type_name))
        })*
    };
}

macro_rules! widths {
    ($($variant:ident $ty:ty, $type_name:literal, $bits:ty:
       $rem:ident $abs:ident $neg:ident $plus:ident
       $and:ident $or:ident $xor:ident $not:ident $shl:ident $shr:ident;)*) => {
        $(
        /// The remainder, with the sign of the dividend.
        pub fn $rem(call: &Call<'_>) -> Answer {
            let [Datum::$variant(a), Datum::$variant(b)] = call.args else {
                return call.mismatch();
            };
            match *b {
                0 => Err(error::division_by_zero()),
                b => Ok(Datum::$variant(a.wrapping_rem(b))),
            }
        }

        /// `abs`
        pub fn $abs(call: &Call<'_>) -> Answer {
            let [Datum::$variant(a)] = call.args else {
                return call.mismatch();
            };
            a.checked_abs().map(Datum::$variant).ok_or_else(|| range($type_name))
        }

        /// `-`
        pub fn $neg(call: &Call<'_>) -> Answer {
            let [Datum::$variant(a)] = call.args else {
                return call.mismatch();
            };
            a.checked_neg().map(Datum::$variant).ok_or_else(|| range($type_name))
        }

        /// `+`
        pub fn $plus(call: &Call<'_>) -> Answer {
            Ok(call.arg(0).clone())
        }

        /// `&`
        pub fn $and(call: &Call<'_>) -> Answer {
            let [Datum::$variant(a), Datum::$variant(b)] = call.args else {
                return call.mismatch();
            };
            Ok(Datum::$variant(a & b))
        }

        /// `|`
        pub fn $or(call: &Call<'_>) -> Answer {
            let [Datum::$variant(a), Datum::$variant(b)] = call.args else {
                return call.mismatch();
            };
            Ok(Datum::$variant(a | b))
        }

        /// `#`
        pub fn $xor(call: &Call<'_>) -> Answer {
            let [Datum::$variant(a), Datum::$variant(b)] = call.args else {
                return call.mismatch();
            };
            Ok(Datum::$variant(a ^ b))
        }

        /// `~`
        pub fn $not(call: &Call<'_>) -> Answer {
            let [Datum::$variant(a)] = call.args else {
                return call.mismatch();
            };
            Ok(Datum::$variant(!a))
        }

        /// `<<`; the distance counts modulo the bits of a machine word, as on PostgreSQL's
        /// hardware.
        pub fn $shl(call: &Call<'_>) -> Answer {
            let [Datum::$variant(a), Datum::Int4(by)] = call.args else {
                return call.mismatch();
            };
            let shifted = <$bits>::from(*a).wrapping_shl(by.cast_unsigned());
            Ok(Datum::$variant(shifted as $ty))
        }

        /// `>>`
        pub fn $shr(call: &Call<'_>) -> Answer {
            let [Datum::$variant(a), Datum::Int4(by)] = call.args else {
                return call.mismatch();
            };
            let shifted = <$bits>::from(*a).wrapping_shr(by.cast_unsigned());
            Ok(Datum::$variant(shifted as $ty))
        }
        )*
    };
}

widths! {
    Int2 i16, "smallint", i32: rem2 abs2 neg2 plus2 and2 or2 xor2 not2 shl2 shr2;
    Int4 i32, "integer", i32: rem4 abs4 neg4 plus4 and4 or4 xor4 not4 shl4 shr4;
    Int8 i64, "bigint", i64: rem8 abs8 neg8 plus8 and8 or8 xor8 not8 shl8 shr8;
}

arithmetic! {
    /// `smallint + smallint`
    add2: Int2 checked_add Int2 -> Int2 i16, "smallint";
    /// `integer + integer`
    add4: Int4 checked_add Int4 -> Int4 i32, "integer";
    /// `bigint + bigint`
    add8: Int8 checked_add Int8 -> Int8 i64, "bigint";
    /// `smallint + integer`
    add24: Int2 checked_add Int4 -> Int4 i32, "integer";
    /// `integer + smallint`
    add42: Int4 checked_add Int2 -> Int4 i32, "integer";
    /// `smallint + bigint`
    add28: Int2 checked_add Int8 -> Int8 i64, "bigint";
    /// `bigint + smallint`
    add82: Int8 checked_add Int2 -> Int8 i64, "bigint";
    /// `integer + bigint`
    add48: Int4 checked_add Int8 -> Int8 i64, "bigint";
    /// `bigint + integer`
    add84: Int8 checked_add Int4 -> Int8 i64, "bigint";
    /// `smallint - smallint`
    sub2: Int2 checked_sub Int2 -> Int2 i16, "smallint";
    /// `integer - integer`
    sub4: Int4 checked_sub Int4 -> Int4 i32, "integer";
    /// `bigint - bigint`
    sub8: Int8 checked_sub Int8 -> Int8 i64, "bigint";
    /// `smallint - integer`
    sub24: Int2 checked_sub Int4 -> Int4 i32, "integer";
    /// `integer - smallint`
    sub42: Int4 checked_sub Int2 -> Int4 i32, "integer";
    /// `smallint - bigint`
    sub28: Int2 checked_sub Int8 -> Int8 i64, "bigint";
    /// `bigint - smallint`
    sub82: Int8 checked_sub Int2 -> Int8 i64, "bigint";
    /// `integer - bigint`
    sub48: Int4 checked_sub Int8 -> Int8 i64, "bigint";
    /// `bigint - integer`
    sub84: Int8 checked_sub Int4 -> Int8 i64, "bigint";
    /// `smallint * smallint`
    mul2: Int2 checked_mul Int2 -> Int2 i16, "smallint";
    /// `integer * integer`
    mul4: Int4 checked_mul Int4 -> Int4 i32, "integer";
    /// `bigint * bigint`
    mul8: Int8 checked_mul Int8 -> Int8 i64, "bigint";
    /// `smallint * integer`
    mul24: Int2 checked_mul Int4 -> Int4 i32, "integer";
    /// `integer * smallint`
    mul42: Int4 checked_mul Int2 -> Int4 i32, "integer";
    /// `smallint * bigint`
    mul28: Int2 checked_mul Int8 -> Int8 i64, "bigint";
    /// `bigint * smallint`
    mul82: Int8 checked_mul Int2 -> Int8 i64, "bigint";
    /// `integer * bigint`
    mul48: Int4 checked_mul Int8 -> Int8 i64, "bigint";
    /// `bigint * integer`
    mul84: Int8 checked_mul Int4 -> Int8 i64, "bigint";
}

division! {
    /// `smallint / smallint`
    div2: Int2 Int2 -> Int2 i16, "smallint";
    /// `integer / integer`
    div4: Int4 Int4 -> Int4 i32, "integer";
    /// `bigint / bigint`
    div8: Int8 Int8 -> Int8 i64, "bigint";
    /// `smallint / integer`
    div24: Int2 Int4 -> Int4 i32, "integer";
    /// `integer / smallint`
    div42: Int4 Int2 -> Int4 i32, "integer";
    /// `smallint / bigint`
    div28: Int2 Int8 -> Int8 i64, "bigint";
    /// `bigint / smallint`
    div82: Int8 Int2 -> Int8 i64, "bigint";
    /// `integer / bigint`
    div48: Int4 Int8 -> Int8 i64, "bigint";
    /// `bigint / integer`
    div84: Int8 Int4 -> Int8 i64, "bigint";
}
