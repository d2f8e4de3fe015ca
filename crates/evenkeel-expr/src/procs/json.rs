//! `json` and `jsonb`.

use super::procs;
use super::types::{
    ANY, ANYARRAY, ANYELEMENT, BOOL, FLOAT4, FLOAT8, INT2, INT4, INT8, JSON, JSONB, NUMERIC,
    RECORD, TEXT, TEXTS,
};
use crate::proc::Default::{Bool, Text};
use crate::{casts, compare, json};

procs! {
    3153 stable array_to_json(ANYARRAY) -> JSON = json::array_to_json;
    3154 stable array_to_json(ANYARRAY, BOOL) -> JSON = json::array_to_json;
    3556 pure bool(JSONB) -> BOOL = casts::apply;
    3453 pure float4(JSONB) -> FLOAT4 = casts::apply;
    2580 pure float8(JSONB) -> FLOAT8 = casts::apply;
    3450 pure int2(JSONB) -> INT2 = casts::apply;
    3451 pure int4(JSONB) -> INT4 = casts::apply;
    3452 pure int8(JSONB) -> INT8 = casts::apply;
    3449 pure numeric(JSONB) -> NUMERIC = casts::apply;
    3949 pure json_array_element(JSON, INT4) -> JSON = json::json_element;
    3950 pure json_array_element_text(JSON, INT4) -> TEXT = json::json_element_text;
    3956 pure json_array_length(JSON) -> INT4 = json::json_array_length;
    3198 stable_lenient json_build_array(ANY) -> JSON = json::build_array => variadic(true);
    3199 stable_lenient json_build_array() -> JSON = json::build_array;
    3200 stable_lenient json_build_object(ANY) -> JSON = json::build_object => variadic(true);
    3201 stable_lenient json_build_object() -> JSON = json::build_object;
    3951 pure json_extract_path(JSON, TEXT) -> JSON = json::json_extract_path => variadic(true);
    3953 pure json_extract_path_text(JSON, TEXT) -> TEXT = json::json_extract_path_text
        => variadic(true);
    3202 pure json_object(TEXTS) -> JSON = json::object;
    3203 pure json_object(TEXTS, TEXTS) -> JSON = json::object_of_two;
    3947 pure json_object_field(JSON, TEXT) -> JSON = json::json_field;
    3948 pure json_object_field_text(JSON, TEXT) -> TEXT = json::json_field_text;
    3261 pure json_strip_nulls(JSON, BOOL) -> JSON = json::json_strip_nulls
        => defaults(&[Bool(false)]);
    3968 pure json_typeof(JSON) -> TEXT = json::json_type_of;
    3215 pure jsonb_array_element(JSONB, INT4) -> JSONB = json::element;
    3216 pure jsonb_array_element_text(JSONB, INT4) -> TEXT = json::element_text;
    3207 pure jsonb_array_length(JSONB) -> INT4 = json::array_length;
    3271 stable_lenient jsonb_build_array(ANY) -> JSONB = json::build_array => variadic(true);
    3272 stable_lenient jsonb_build_array() -> JSONB = json::build_array;
    3273 stable_lenient jsonb_build_object(ANY) -> JSONB = json::build_object => variadic(true);
    3274 stable_lenient jsonb_build_object() -> JSONB = json::build_object;
    4044 pure jsonb_cmp(JSONB, JSONB) -> INT4 = compare::same::cmp;
    3301 pure jsonb_concat(JSONB, JSONB) -> JSONB = json::concatenate;
    4050 pure jsonb_contained(JSONB, JSONB) -> BOOL = json::contained;
    4046 pure jsonb_contains(JSONB, JSONB) -> BOOL = json::contains;
    3302 pure jsonb_delete(JSONB, TEXT) -> JSONB = json::delete_key;
    3303 pure jsonb_delete(JSONB, INT4) -> JSONB = json::delete_index;
    3343 pure jsonb_delete(JSONB, TEXT) -> JSONB = json::delete_key => variadic(true);
    3304 pure jsonb_delete_path(JSONB, TEXTS) -> JSONB = json::delete_path;
    4043 pure jsonb_eq(JSONB, JSONB) -> BOOL = compare::same::eq;
    4047 pure jsonb_exists(JSONB, TEXT) -> BOOL = json::exists;
    4049 pure jsonb_exists_all(JSONB, TEXTS) -> BOOL = json::exists_all;
    4048 pure jsonb_exists_any(JSONB, TEXTS) -> BOOL = json::exists_any;
    3217 pure jsonb_extract_path(JSONB, TEXT) -> JSONB = json::extract_path => variadic(true);
    3940 pure jsonb_extract_path_text(JSONB, TEXT) -> TEXT = json::extract_path_text
        => variadic(true);
    4042 pure jsonb_ge(JSONB, JSONB) -> BOOL = compare::same::ge;
    4040 pure jsonb_gt(JSONB, JSONB) -> BOOL = compare::same::gt;
    3579 pure jsonb_insert(JSONB, TEXTS, JSONB, BOOL) -> JSONB = json::insert
        => defaults(&[Bool(false)]);
    4041 pure jsonb_le(JSONB, JSONB) -> BOOL = compare::same::le;
    4039 pure jsonb_lt(JSONB, JSONB) -> BOOL = compare::same::lt;
    4038 pure jsonb_ne(JSONB, JSONB) -> BOOL = compare::same::ne;
    3263 pure jsonb_object(TEXTS) -> JSONB = json::object;
    3264 pure jsonb_object(TEXTS, TEXTS) -> JSONB = json::object_of_two;
    3478 pure jsonb_object_field(JSONB, TEXT) -> JSONB = json::field;
    3214 pure jsonb_object_field_text(JSONB, TEXT) -> TEXT = json::field_text;
    3306 pure jsonb_pretty(JSONB) -> TEXT = json::pretty_text;
    3305 pure jsonb_set(JSONB, TEXTS, JSONB, BOOL) -> JSONB = json::set => defaults(&[Bool(true)]);
    5054 pure_lenient jsonb_set_lax(JSONB, TEXTS, JSONB, BOOL, TEXT) -> JSONB = json::set_lax
        => defaults(&[Bool(true), Text("use_json_null")]);
    3262 pure jsonb_strip_nulls(JSONB, BOOL) -> JSONB = json::strip_nulls
        => defaults(&[Bool(false)]);
    3210 pure jsonb_typeof(JSONB) -> TEXT = json::type_of;
    3155 stable row_to_json(RECORD) -> JSON = json::row_to_json;
    3156 stable row_to_json(RECORD, BOOL) -> JSON = json::row_to_json;
    3176 stable to_json(ANYELEMENT) -> JSON = json::to_json;
    3787 stable to_jsonb(ANYELEMENT) -> JSONB = json::to_jsonb;
}
