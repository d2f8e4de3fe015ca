//! Dates, times and intervals.

use super::procs;
use super::types::{
    BOOL, DATE, FLOAT8, INT4, INTERVAL, NUMERIC, TEXT, TIME, TIMESTAMP, TIMESTAMPTZ, TIMETZ,
};
use crate::proc::Default;
use crate::{clock, datetime, fields, interval, timetz};

procs! {
    1199 pure age(TIMESTAMPTZ, TIMESTAMPTZ) -> INTERVAL = datetime::age_in_zone;
    1386 stable age(TIMESTAMPTZ) -> INTERVAL = datetime::age_today_in_zone;
    2058 pure age(TIMESTAMP, TIMESTAMP) -> INTERVAL = datetime::age;
    2059 stable age(TIMESTAMP) -> INTERVAL = datetime::age_today;
    2649 volatile clock_timestamp() -> TIMESTAMPTZ = clock::current_time;
    6221 stable date_add(TIMESTAMPTZ, INTERVAL) -> TIMESTAMPTZ = datetime::timestamptz_plus;
    6222 pure date_add(TIMESTAMPTZ, INTERVAL, TEXT) -> TIMESTAMPTZ = datetime::add_in_zone;
    6177 pure date_bin(INTERVAL, TIMESTAMP, TIMESTAMP) -> TIMESTAMP = datetime::bin_timestamp;
    6178 pure date_bin(INTERVAL, TIMESTAMPTZ, TIMESTAMPTZ) -> TIMESTAMPTZ =
        datetime::bin_timestamptz;
    1140 pure date_mi(DATE, DATE) -> INT4 = datetime::date_minus_date;
    2072 pure date_mi_interval(DATE, INTERVAL) -> TIMESTAMP = datetime::date_minus;
    1142 pure date_mii(DATE, INT4) -> DATE = datetime::date_minus_days;
    1171 stable date_part(TEXT, TIMESTAMPTZ) -> FLOAT8 = fields::part_timestamptz;
    1172 pure date_part(TEXT, INTERVAL) -> FLOAT8 = fields::part_interval;
    1384 pure date_part(TEXT, DATE) -> FLOAT8 = fields::part_date;
    1273 pure date_part(TEXT, TIMETZ) -> FLOAT8 = fields::part_timetz;
    1385 pure date_part(TEXT, TIME) -> FLOAT8 = fields::part_time;
    2021 pure date_part(TEXT, TIMESTAMP) -> FLOAT8 = fields::part_timestamp;
    2071 pure date_pl_interval(DATE, INTERVAL) -> TIMESTAMP = datetime::date_plus;
    1141 pure date_pli(DATE, INT4) -> DATE = datetime::date_plus_days;
    6223 stable date_subtract(TIMESTAMPTZ, INTERVAL) -> TIMESTAMPTZ = datetime::timestamptz_minus;
    6273 pure date_subtract(TIMESTAMPTZ, INTERVAL, TEXT) -> TIMESTAMPTZ =
        datetime::subtract_in_zone;
    1217 stable date_trunc(TEXT, TIMESTAMPTZ) -> TIMESTAMPTZ = fields::trunc_timestamptz;
    1218 pure date_trunc(TEXT, INTERVAL) -> INTERVAL = fields::trunc_interval;
    1284 pure date_trunc(TEXT, TIMESTAMPTZ, TEXT) -> TIMESTAMPTZ = fields::trunc_in_zone;
    2020 pure date_trunc(TEXT, TIMESTAMP) -> TIMESTAMP = fields::trunc_timestamp;
    1272 pure datetime_pl(DATE, TIME) -> TIMESTAMP = datetime::date_plus_time;
    1297 pure datetimetz_pl(DATE, TIMETZ) -> TIMESTAMPTZ = timetz::date_plus;
    6199 pure extract(TEXT, DATE) -> NUMERIC = fields::extract_date;
    6200 pure extract(TEXT, TIME) -> NUMERIC = fields::extract_time;
    6201 pure extract(TEXT, TIMETZ) -> NUMERIC = fields::extract_timetz;
    6202 pure extract(TEXT, TIMESTAMP) -> NUMERIC = fields::extract_timestamp;
    6203 stable extract(TEXT, TIMESTAMPTZ) -> NUMERIC = fields::extract_timestamptz;
    6204 pure extract(TEXT, INTERVAL) -> NUMERIC = fields::extract_interval;
    2550 pure integer_pl_date(INT4, DATE) -> DATE = datetime::days_plus_date;
    1326 pure interval_div(INTERVAL, FLOAT8) -> INTERVAL = interval::divide;
    1170 pure interval_mi(INTERVAL, INTERVAL) -> INTERVAL = interval::subtract;
    1618 pure interval_mul(INTERVAL, FLOAT8) -> INTERVAL = interval::multiply;
    1169 pure interval_pl(INTERVAL, INTERVAL) -> INTERVAL = interval::add;
    2546 pure interval_pl_date(INTERVAL, DATE) -> TIMESTAMP = datetime::plus_date;
    1848 pure interval_pl_time(INTERVAL, TIME) -> TIME = datetime::plus_time;
    2548 pure interval_pl_timestamp(INTERVAL, TIMESTAMP) -> TIMESTAMP = datetime::plus_timestamp;
    2549 stable interval_pl_timestamptz(INTERVAL, TIMESTAMPTZ) -> TIMESTAMPTZ =
        datetime::plus_timestamptz;
    2547 pure interval_pl_timetz(INTERVAL, TIMETZ) -> TIMETZ = timetz::plus_timetz;
    1168 pure interval_um(INTERVAL) -> INTERVAL = interval::negate;
    1373 pure isfinite(DATE) -> BOOL = datetime::finite_date;
    1389 pure isfinite(TIMESTAMPTZ) -> BOOL = datetime::timestamp_is_finite;
    1390 pure isfinite(INTERVAL) -> BOOL = datetime::finite_interval;
    2048 pure isfinite(TIMESTAMP) -> BOOL = datetime::timestamp_is_finite;
    1295 pure justify_days(INTERVAL) -> INTERVAL = interval::justify_days;
    1175 pure justify_hours(INTERVAL) -> INTERVAL = interval::justify_hours;
    2711 pure justify_interval(INTERVAL) -> INTERVAL = interval::justify_interval;
    3846 pure make_date(INT4, INT4, INT4) -> DATE = datetime::make_date;
    3464 pure make_interval(INT4, INT4, INT4, INT4, INT4, INT4, FLOAT8) -> INTERVAL =
        interval::make => defaults(&[
            Default::Int4(0), Default::Int4(0), Default::Int4(0), Default::Int4(0),
            Default::Int4(0), Default::Int4(0), Default::Float8(0.0),
        ]);
    3847 pure make_time(INT4, INT4, FLOAT8) -> TIME = datetime::make_time;
    3461 pure make_timestamp(INT4, INT4, INT4, INT4, INT4, FLOAT8) -> TIMESTAMP =
        datetime::make_timestamp;
    3462 stable make_timestamptz(INT4, INT4, INT4, INT4, INT4, FLOAT8) -> TIMESTAMPTZ =
        datetime::make_timestamptz;
    3463 stable make_timestamptz(INT4, INT4, INT4, INT4, INT4, FLOAT8, TEXT) -> TIMESTAMPTZ =
        datetime::make_in_zone;
    1624 pure mul_d_interval(FLOAT8, INTERVAL) -> INTERVAL = interval::multiplied;
    1299 stable now() -> TIMESTAMPTZ = clock::now;
    1304 pure_lenient overlaps(TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ) -> BOOL =
        clock::overlaps;
    1305 stable_lenient overlaps(TIMESTAMPTZ, INTERVAL, TIMESTAMPTZ, INTERVAL) -> BOOL =
        clock::overlaps;
    1306 stable_lenient overlaps(TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, INTERVAL) -> BOOL =
        clock::overlaps;
    1307 stable_lenient overlaps(TIMESTAMPTZ, INTERVAL, TIMESTAMPTZ, TIMESTAMPTZ) -> BOOL =
        clock::overlaps;
    1271 pure_lenient overlaps(TIMETZ, TIMETZ, TIMETZ, TIMETZ) -> BOOL = clock::overlaps;
    1308 pure_lenient overlaps(TIME, TIME, TIME, TIME) -> BOOL = clock::overlaps;
    1309 pure_lenient overlaps(TIME, INTERVAL, TIME, INTERVAL) -> BOOL = clock::overlaps;
    1310 pure_lenient overlaps(TIME, TIME, TIME, INTERVAL) -> BOOL = clock::overlaps;
    1311 pure_lenient overlaps(TIME, INTERVAL, TIME, TIME) -> BOOL = clock::overlaps;
    2041 pure_lenient overlaps(TIMESTAMP, TIMESTAMP, TIMESTAMP, TIMESTAMP) -> BOOL =
        clock::overlaps;
    2042 pure_lenient overlaps(TIMESTAMP, INTERVAL, TIMESTAMP, INTERVAL) -> BOOL = clock::overlaps;
    2043 pure_lenient overlaps(TIMESTAMP, TIMESTAMP, TIMESTAMP, INTERVAL) -> BOOL = clock::overlaps;
    2044 pure_lenient overlaps(TIMESTAMP, INTERVAL, TIMESTAMP, TIMESTAMP) -> BOOL = clock::overlaps;
    2648 stable statement_timestamp() -> TIMESTAMPTZ = clock::statement;
    1748 pure time_mi_interval(TIME, INTERVAL) -> TIME = datetime::time_minus;
    1690 pure time_mi_time(TIME, TIME) -> INTERVAL = datetime::time_difference;
    1747 pure time_pl_interval(TIME, INTERVAL) -> TIME = datetime::time_plus;
    1296 pure timedate_pl(TIME, DATE) -> TIMESTAMP = datetime::time_plus_date;
    274 volatile timeofday() -> TEXT = clock::time_of_day;
    2025 pure timestamp(DATE, TIME) -> TIMESTAMP = datetime::date_plus_time;
    2031 pure timestamp_mi(TIMESTAMP, TIMESTAMP) -> INTERVAL = datetime::difference;
    2033 pure timestamp_mi_interval(TIMESTAMP, INTERVAL) -> TIMESTAMP = datetime::timestamp_minus;
    2032 pure timestamp_pl_interval(TIMESTAMP, INTERVAL) -> TIMESTAMP = datetime::timestamp_plus;
    1359 pure timestamptz(DATE, TIMETZ) -> TIMESTAMPTZ = timetz::date_plus;
    1176 stable timestamptz(DATE, TIME) -> TIMESTAMPTZ = datetime::instant_of_date_and_time;
    1188 pure timestamptz_mi(TIMESTAMPTZ, TIMESTAMPTZ) -> INTERVAL = datetime::difference;
    1190 stable timestamptz_mi_interval(TIMESTAMPTZ, INTERVAL) -> TIMESTAMPTZ =
        datetime::timestamptz_minus;
    1189 stable timestamptz_pl_interval(TIMESTAMPTZ, INTERVAL) -> TIMESTAMPTZ =
        datetime::timestamptz_plus;
    1750 pure timetz_mi_interval(TIMETZ, INTERVAL) -> TIMETZ = timetz::minus;
    1749 pure timetz_pl_interval(TIMETZ, INTERVAL) -> TIMETZ = timetz::plus;
    1298 pure timetzdate_pl(TIMETZ, DATE) -> TIMESTAMPTZ = timetz::plus_date;
    1026 pure timezone(INTERVAL, TIMESTAMPTZ) -> TIMESTAMP = datetime::to_interval_zone;
    1159 pure timezone(TEXT, TIMESTAMPTZ) -> TIMESTAMP = datetime::to_zone;
    2069 pure timezone(TEXT, TIMESTAMP) -> TIMESTAMPTZ = datetime::from_zone;
    2070 pure timezone(INTERVAL, TIMESTAMP) -> TIMESTAMPTZ = datetime::from_interval_zone;
    2037 stable timezone(TEXT, TIMETZ) -> TIMETZ = timetz::at_zone;
    2038 pure timezone(INTERVAL, TIMETZ) -> TIMETZ = timetz::at_interval;
    6336 stable timezone(TIMETZ) -> TIMETZ = timetz::at_local;
    6334 stable timezone(TIMESTAMPTZ) -> TIMESTAMP = datetime::to_local;
    6335 stable timezone(TIMESTAMP) -> TIMESTAMPTZ = datetime::from_local;
    1158 pure to_timestamp(FLOAT8) -> TIMESTAMPTZ = datetime::of_epoch;
    2647 stable transaction_timestamp() -> TIMESTAMPTZ = clock::now;
}
