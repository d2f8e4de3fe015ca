//! The functions of casts.

use super::procs;
use super::types::{
    BOOL, BPCHAR, BYTEA, CHAR, DATE, FLOAT4, FLOAT8, INT2, INT4, INT8, INTERVAL, NAME, NUMERIC,
    OID, TEXT, TIME, TIMESTAMP, TIMESTAMPTZ, TIMETZ, VARCHAR, XID, XID8,
};
use crate::casts;

procs! {
    2557 pure bool(INT4) -> BOOL = casts::apply;
    408 pure bpchar(NAME) -> BPCHAR = casts::apply;
    860 pure bpchar(CHAR) -> BPCHAR = casts::apply;
    6367 pure bytea(INT2) -> BYTEA = casts::apply;
    6368 pure bytea(INT4) -> BYTEA = casts::apply;
    6369 pure bytea(INT8) -> BYTEA = casts::apply;
    78 pure char(INT4) -> CHAR = casts::apply;
    944 pure char(TEXT) -> CHAR = casts::apply;
    1178 stable date(TIMESTAMPTZ) -> DATE = casts::apply;
    2029 pure date(TIMESTAMP) -> DATE = casts::apply;
    236 pure float4(INT2) -> FLOAT4 = casts::apply;
    312 pure float4(FLOAT8) -> FLOAT4 = casts::apply;
    318 pure float4(INT4) -> FLOAT4 = casts::apply;
    652 pure float4(INT8) -> FLOAT4 = casts::apply;
    1745 pure float4(NUMERIC) -> FLOAT4 = casts::apply;
    235 pure float8(INT2) -> FLOAT8 = casts::apply;
    311 pure float8(FLOAT4) -> FLOAT8 = casts::apply;
    316 pure float8(INT4) -> FLOAT8 = casts::apply;
    482 pure float8(INT8) -> FLOAT8 = casts::apply;
    1746 pure float8(NUMERIC) -> FLOAT8 = casts::apply;
    237 pure int2(FLOAT8) -> INT2 = casts::apply;
    238 pure int2(FLOAT4) -> INT2 = casts::apply;
    314 pure int2(INT4) -> INT2 = casts::apply;
    714 pure int2(INT8) -> INT2 = casts::apply;
    1783 pure int2(NUMERIC) -> INT2 = casts::apply;
    6370 pure int2(BYTEA) -> INT2 = casts::apply;
    77 pure int4(CHAR) -> INT4 = casts::apply;
    313 pure int4(INT2) -> INT4 = casts::apply;
    317 pure int4(FLOAT8) -> INT4 = casts::apply;
    319 pure int4(FLOAT4) -> INT4 = casts::apply;
    480 pure int4(INT8) -> INT4 = casts::apply;
    1744 pure int4(NUMERIC) -> INT4 = casts::apply;
    2558 pure int4(BOOL) -> INT4 = casts::apply;
    6371 pure int4(BYTEA) -> INT4 = casts::apply;
    481 pure int8(INT4) -> INT8 = casts::apply;
    483 pure int8(FLOAT8) -> INT8 = casts::apply;
    653 pure int8(FLOAT4) -> INT8 = casts::apply;
    754 pure int8(INT2) -> INT8 = casts::apply;
    1288 pure int8(OID) -> INT8 = casts::apply;
    1779 pure int8(NUMERIC) -> INT8 = casts::apply;
    6372 pure int8(BYTEA) -> INT8 = casts::apply;
    1370 pure interval(TIME) -> INTERVAL = casts::apply;
    407 pure name(TEXT) -> NAME = casts::apply;
    409 pure name(BPCHAR) -> NAME = casts::apply;
    1400 pure name(VARCHAR) -> NAME = casts::apply;
    1740 pure numeric(INT4) -> NUMERIC = casts::apply;
    1742 pure numeric(FLOAT4) -> NUMERIC = casts::apply;
    1743 pure numeric(FLOAT8) -> NUMERIC = casts::apply;
    1781 pure numeric(INT8) -> NUMERIC = casts::apply;
    1782 pure numeric(INT2) -> NUMERIC = casts::apply;
    1287 pure oid(INT8) -> OID = casts::apply;
    401 pure text(BPCHAR) -> TEXT = casts::apply;
    406 pure text(NAME) -> TEXT = casts::apply;
    946 pure text(CHAR) -> TEXT = casts::apply;
    2971 pure text(BOOL) -> TEXT = casts::apply;
    1316 pure time(TIMESTAMP) -> TIME = casts::apply;
    1419 pure time(INTERVAL) -> TIME = casts::apply;
    2019 stable time(TIMESTAMPTZ) -> TIME = casts::apply;
    2046 pure time(TIMETZ) -> TIME = casts::apply;
    2024 pure timestamp(DATE) -> TIMESTAMP = casts::apply;
    2027 stable timestamp(TIMESTAMPTZ) -> TIMESTAMP = casts::apply;
    1174 stable timestamptz(DATE) -> TIMESTAMPTZ = casts::apply;
    2028 stable timestamptz(TIMESTAMP) -> TIMESTAMPTZ = casts::apply;
    1388 stable timetz(TIMESTAMPTZ) -> TIMETZ = casts::apply;
    2047 stable timetz(TIME) -> TIMETZ = casts::apply;
    1401 pure varchar(NAME) -> VARCHAR = casts::apply;
    5071 pure xid(XID8) -> XID = casts::apply;
}
