//! `to_char`, `to_date`, `to_timestamp`, `to_number`.

use super::procs;
use super::types::{
    DATE, FLOAT4, FLOAT8, INT4, INT8, INTERVAL, NUMERIC, TEXT, TIMESTAMP, TIMESTAMPTZ,
};
use crate::format;

procs! {
    1768 stable to_char(INTERVAL, TEXT) -> TEXT = format::interval_to_char;
    1770 stable to_char(TIMESTAMPTZ, TEXT) -> TEXT = format::timestamptz_to_char;
    1772 stable to_char(NUMERIC, TEXT) -> TEXT = format::numeric_to_char;
    1773 stable to_char(INT4, TEXT) -> TEXT = format::int4_to_char;
    1774 stable to_char(INT8, TEXT) -> TEXT = format::int8_to_char;
    1775 stable to_char(FLOAT4, TEXT) -> TEXT = format::float4_to_char;
    1776 stable to_char(FLOAT8, TEXT) -> TEXT = format::float8_to_char;
    2049 stable to_char(TIMESTAMP, TEXT) -> TEXT = format::timestamp_to_char;
    1780 stable to_date(TEXT, TEXT) -> DATE = format::to_date;
    1777 stable to_number(TEXT, TEXT) -> NUMERIC = format::to_number;
    1778 stable to_timestamp(TEXT, TEXT) -> TIMESTAMPTZ = format::to_timestamp;
}
