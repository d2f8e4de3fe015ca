//! Functions of enumerated types.

use super::procs;
use super::types::{ANYARRAY, ANYENUM, BOOL, INT4};
use crate::{compare, enums};

procs! {
    3514 pure enum_cmp(ANYENUM, ANYENUM) -> INT4 = compare::same::cmp;
    3508 pure enum_eq(ANYENUM, ANYENUM) -> BOOL = compare::same::eq;
    3528 stable_lenient enum_first(ANYENUM) -> ANYENUM = enums::first;
    3513 pure enum_ge(ANYENUM, ANYENUM) -> BOOL = compare::same::ge;
    3511 pure enum_gt(ANYENUM, ANYENUM) -> BOOL = compare::same::gt;
    3525 pure enum_larger(ANYENUM, ANYENUM) -> ANYENUM = compare::larger;
    3529 stable_lenient enum_last(ANYENUM) -> ANYENUM = enums::last;
    3512 pure enum_le(ANYENUM, ANYENUM) -> BOOL = compare::same::le;
    3510 pure enum_lt(ANYENUM, ANYENUM) -> BOOL = compare::same::lt;
    3509 pure enum_ne(ANYENUM, ANYENUM) -> BOOL = compare::same::ne;
    3530 stable_lenient enum_range(ANYENUM, ANYENUM) -> ANYARRAY = enums::range;
    3531 stable_lenient enum_range(ANYENUM) -> ANYARRAY = enums::range_all;
    3524 pure enum_smaller(ANYENUM, ANYENUM) -> ANYENUM = compare::smaller;
}
