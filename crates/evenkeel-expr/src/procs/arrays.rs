//! Arrays.

use super::procs;
use super::types::{
    ANYARRAY, ANYCOMPATIBLE, ANYCOMPATIBLEARRAY, ANYELEMENT, BOOL, INT4, INT4S, TEXT, TEXTS,
};
use crate::arrays;

procs! {
    378 pure_lenient array_append(ANYCOMPATIBLEARRAY, ANYCOMPATIBLE) -> ANYCOMPATIBLEARRAY =
        arrays::append;
    383 pure_lenient array_cat(ANYCOMPATIBLEARRAY, ANYCOMPATIBLEARRAY) -> ANYCOMPATIBLEARRAY =
        arrays::concatenate;
    747 pure array_dims(ANYARRAY) -> TEXT = arrays::dims;
    1193 pure_lenient array_fill(ANYELEMENT, INT4S) -> ANYARRAY = arrays::fill;
    1286 pure_lenient array_fill(ANYELEMENT, INT4S, INT4S) -> ANYARRAY = arrays::fill;
    2176 pure array_length(ANYARRAY, INT4) -> INT4 = arrays::length;
    2091 pure array_lower(ANYARRAY, INT4) -> INT4 = arrays::lower;
    748 pure array_ndims(ANYARRAY) -> INT4 = arrays::ndims;
    3277 pure_lenient array_position(ANYCOMPATIBLEARRAY, ANYCOMPATIBLE) -> INT4 = arrays::position;
    3278 pure_lenient array_position(ANYCOMPATIBLEARRAY, ANYCOMPATIBLE, INT4) -> INT4 =
        arrays::position;
    3279 pure_lenient array_positions(ANYCOMPATIBLEARRAY, ANYCOMPATIBLE) -> INT4S =
        arrays::positions;
    379 pure_lenient array_prepend(ANYCOMPATIBLE, ANYCOMPATIBLEARRAY) -> ANYCOMPATIBLEARRAY =
        arrays::prepend;
    3167 pure_lenient array_remove(ANYCOMPATIBLEARRAY, ANYCOMPATIBLE) -> ANYCOMPATIBLEARRAY =
        arrays::remove;
    3168 pure_lenient array_replace(ANYCOMPATIBLEARRAY, ANYCOMPATIBLE, ANYCOMPATIBLE)
        -> ANYCOMPATIBLEARRAY = arrays::replace;
    6381 pure array_reverse(ANYARRAY) -> ANYARRAY = arrays::reverse;
    6216 volatile array_sample(ANYARRAY, INT4) -> ANYARRAY = arrays::sample;
    6215 volatile array_shuffle(ANYARRAY) -> ANYARRAY = arrays::shuffle;
    6388 pure array_sort(ANYARRAY) -> ANYARRAY = arrays::sort;
    6389 pure array_sort(ANYARRAY, BOOL) -> ANYARRAY = arrays::sort;
    6390 pure array_sort(ANYARRAY, BOOL, BOOL) -> ANYARRAY = arrays::sort;
    384 stable_lenient array_to_string(ANYARRAY, TEXT, TEXT) -> TEXT = arrays::to_text;
    395 stable array_to_string(ANYARRAY, TEXT) -> TEXT = arrays::to_text;
    2092 pure array_upper(ANYARRAY, INT4) -> INT4 = arrays::upper;
    2749 pure arraycontained(ANYARRAY, ANYARRAY) -> BOOL = arrays::contained;
    2748 pure arraycontains(ANYARRAY, ANYARRAY) -> BOOL = arrays::contains;
    2747 pure arrayoverlap(ANYARRAY, ANYARRAY) -> BOOL = arrays::overlap;
    3179 pure cardinality(ANYARRAY) -> INT4 = arrays::cardinality;
    376 pure_lenient string_to_array(TEXT, TEXT, TEXT) -> TEXTS = arrays::from_text;
    394 pure_lenient string_to_array(TEXT, TEXT) -> TEXTS = arrays::from_text;
    6172 pure trim_array(ANYARRAY, INT4) -> ANYARRAY = arrays::trim;
    3218 pure width_bucket(ANYCOMPATIBLE, ANYCOMPATIBLEARRAY) -> INT4 = arrays::width_bucket;
}
