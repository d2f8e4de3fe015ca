use proptest::prelude::*;

use super::*;
use crate::calendar::{civil_from_days, days_from_civil};
use crate::context::DateOrder;
use crate::zone::TimeZone;

fn cx(zone: &str) -> TypeContext {
    // 2026-11-21 20:00:00 UTC.
    TypeContext {
        time_zone: TimeZone::parse(zone).unwrap(),
        now_micros: 1_795_291_200_000_000,
        ..TypeContext::default()
    }
}

fn timestamp(text: &str) -> TypeResult<String> {
    let mut out = String::new();
    push_timestamp(
        &mut out,
        parse_timestamp(text, &cx("UTC"))?,
        None,
        &cx("UTC"),
    );
    Ok(out)
}

fn timestamptz(text: &str, zone: &str) -> TypeResult<String> {
    let cx = cx(zone);
    let mut out = String::new();
    push_timestamp(
        &mut out,
        parse_timestamptz(text, &cx)?,
        Some(&cx.time_zone),
        &cx,
    );
    Ok(out)
}

fn date(text: &str) -> TypeResult<String> {
    let mut out = String::new();
    push_date(&mut out, parse_date(text, &cx("UTC"))?, &cx("UTC"));
    Ok(out)
}

#[test]
fn every_date_style_is_written() {
    use crate::context::{DateOrder, DateStyle};
    let mut cx = cx("America/Los_Angeles");
    let micros = parse_timestamptz("2020-01-02 03:04:05.6+00", &cx).unwrap();
    let day = parse_date("0044-03-15 BC", &cx).unwrap();
    let expected = [
        (
            DateStyle::Iso,
            DateOrder::Dmy,
            "2020-01-01 19:04:05.6-08",
            "0044-03-15 BC",
        ),
        (
            DateStyle::Sql,
            DateOrder::Mdy,
            "01/01/2020 19:04:05.6 PST",
            "03/15/0044 BC",
        ),
        (
            DateStyle::Sql,
            DateOrder::Dmy,
            "01/01/2020 19:04:05.6 PST",
            "15/03/0044 BC",
        ),
        (
            DateStyle::German,
            DateOrder::Mdy,
            "01.01.2020 19:04:05.6 PST",
            "15.03.0044 BC",
        ),
        (
            DateStyle::Postgres,
            DateOrder::Mdy,
            "Wed Jan 01 19:04:05.6 2020 PST",
            "03-15-0044 BC",
        ),
        (
            DateStyle::Postgres,
            DateOrder::Dmy,
            "Wed 01 Jan 19:04:05.6 2020 PST",
            "15-03-0044 BC",
        ),
    ];
    for (style, order, moment, date) in expected {
        (cx.date_style, cx.date_order) = (style, order);
        let (mut written, mut day_written) = (String::new(), String::new());
        push_timestamp(&mut written, micros, Some(&cx.time_zone), &cx);
        push_date(&mut day_written, day, &cx);
        assert_eq!(
            (&*written, &*day_written),
            (moment, date),
            "{style:?} {order:?}"
        );
    }
}

#[test]
fn dates_are_read_in_postgres_forms() {
    for (text, expected) in [
        ("2024-02-29", "2024-02-29"),
        ("20240229", "2024-02-29"),
        ("1/8/1999", "1999-01-08"),
        ("January 8, 1999", "1999-01-08"),
        ("8 Jan 1999", "1999-01-08"),
        ("1999-Jan-08", "1999-01-08"),
        ("08-Jan-1999", "1999-01-08"),
        ("Jan-08-1999", "1999-01-08"),
        ("0044-03-15 BC", "0044-03-15 BC"),
        ("12345-01-01", "12345-01-01"),
        ("infinity", "infinity"),
        ("epoch", "1970-01-01"),
        ("today", "2026-11-21"),
        ("tomorrow", "2026-11-22"),
        ("2024-01-01 10:00:00", "2024-01-01"),
    ] {
        assert_eq!(date(text).unwrap(), expected, "{text}");
    }
}

#[test]
fn timestamps_print_without_zeros_at_the_end() {
    for (text, expected) in [
        ("2024-01-02 03:04:05", "2024-01-02 03:04:05"),
        ("2024-01-02T03:04:05.120", "2024-01-02 03:04:05.12"),
        ("2024-01-02 03:04", "2024-01-02 03:04:00"),
        ("2024-01-02 03:04:05.1234567", "2024-01-02 03:04:05.123457"),
        ("2024-01-02", "2024-01-02 00:00:00"),
        ("2024-01-02 24:00:00", "2024-01-03 00:00:00"),
        ("2024-01-02 03:04:05+05", "2024-01-02 03:04:05"),
        ("0001-01-01 00:00:00 BC", "0001-01-01 00:00:00 BC"),
        ("-infinity", "-infinity"),
        ("20240102 030405", "2024-01-02 03:04:05"),
        ("20240102", "2024-01-02 00:00:00"),
        ("20240102T030405", "2024-01-02 03:04:05"),
        ("20240102T030405.25", "2024-01-02 03:04:05.25"),
        ("20240102 030405.25", "2024-01-02 03:04:05.25"),
        ("2024-01-02T0304", "2024-01-02 03:04:00"),
        ("20240102T030405Z", "2024-01-02 03:04:05"),
        ("2024-01-02 03:04:05 AM", "2024-01-02 03:04:05"),
        ("2024-01-02 03:04:05 PM", "2024-01-02 15:04:05"),
        ("2024-01-02 03:04pm", "2024-01-02 15:04:00"),
        ("2024-01-02 12:04:05 AM", "2024-01-02 00:04:05"),
        ("2024-01-02 12:04:05 PM", "2024-01-02 12:04:05"),
        ("Jan 2 2024 3:04 PM", "2024-01-02 15:04:00"),
    ] {
        assert_eq!(timestamp(text).unwrap(), expected, "{text}");
    }
}

#[test]
fn timestamptz_reads_and_prints_zones() {
    for (text, zone, expected) in [
        ("2024-01-02 03:04:05", "UTC", "2024-01-02 03:04:05+00"),
        ("2024-01-02 03:04:05+02", "UTC", "2024-01-02 01:04:05+00"),
        (
            "2024-01-02 03:04:05Z",
            "Asia/Kolkata",
            "2024-01-02 08:34:05+05:30",
        ),
        (
            "2024-07-01 12:00:00",
            "Europe/Berlin",
            "2024-07-01 12:00:00+02",
        ),
        (
            "2024-01-01 12:00:00",
            "Europe/Berlin",
            "2024-01-01 12:00:00+01",
        ),
        (
            "2024-01-01 12:00 America/New_York",
            "UTC",
            "2024-01-01 17:00:00+00",
        ),
        ("2024-01-01T12:00:00-0330", "UTC", "2024-01-01 15:30:00+00"),
        ("20240101T120000-0330", "UTC", "2024-01-01 15:30:00+00"),
        ("20240101T120000.5+02", "UTC", "2024-01-01 10:00:00.5+00"),
        ("2024-01-01 03:00 PM +02", "UTC", "2024-01-01 13:00:00+00"),
        (
            "2024-03-31 02:30:00",
            "Europe/Berlin",
            "2024-03-31 03:30:00+02",
        ),
        (
            "2024-10-27 02:30:00",
            "Europe/Berlin",
            "2024-10-27 02:30:00+01",
        ),
        ("infinity", "UTC", "infinity"),
    ] {
        assert_eq!(
            timestamptz(text, zone).unwrap(),
            expected,
            "{text} in {zone}"
        );
    }
}

#[test]
fn impossible_dates_say_which_kind_of_error() {
    let state = |r: TypeResult<String>| r.unwrap_err().sqlstate;
    assert_eq!(state(date("hello")), SqlState::INVALID_DATETIME_FORMAT);
    assert_eq!(state(date("")), SqlState::INVALID_DATETIME_FORMAT);
    assert_eq!(state(date("2024-13-01")), SqlState::DATETIME_FIELD_OVERFLOW);
    assert_eq!(state(date("2023-02-29")), SqlState::DATETIME_FIELD_OVERFLOW);
    assert_eq!(
        state(timestamp("2024-01-01 25:00:00")),
        SqlState::DATETIME_FIELD_OVERFLOW
    );
    let overflow = state(timestamp("2024-01-01 13:00 PM"));
    assert_eq!(overflow, SqlState::DATETIME_FIELD_OVERFLOW);
    // Only a time with colons is checked.
    let next_day = timestamp("20240101T250000").unwrap();
    assert_eq!(next_day, "2024-01-02 01:00:00");
    for text in [
        "20240101T1",
        "20240101T12345",
        "2024-01-01 01:00 AM PM",
        "2024-01-01 2024-01-02",
    ] {
        let format = SqlState::INVALID_DATETIME_FORMAT;
        assert_eq!(state(timestamp(text)), format, "{text}");
    }
    assert_eq!(
        state(timestamp("2024-01-01 x")),
        SqlState::INVALID_DATETIME_FORMAT
    );
    assert_eq!(
        state(timestamp("300000-01-01")),
        SqlState::DATETIME_FIELD_OVERFLOW
    );
    assert_eq!(
        timestamptz("2024-01-01 00:00 Nowhere/City", "UTC")
            .unwrap_err()
            .sqlstate,
        SqlState::INVALID_PARAMETER_VALUE
    );
}

#[test]
fn numbers_of_a_date_are_in_the_order_of_date_style() {
    for (order, expected) in [
        (DateOrder::Mdy, "2003-01-02"),
        (DateOrder::Dmy, "2003-02-01"),
        (DateOrder::Ymd, "2001-02-03"),
    ] {
        let cx = TypeContext {
            date_order: order,
            ..cx("UTC")
        };
        let mut out = String::new();
        push_date(&mut out, parse_date("01/02/03", &cx).unwrap(), &cx);
        assert_eq!(out, expected);
    }
}

proptest! {
    #[test]
    fn calendar_round_trips(days in FIRST_DAY..LAST_DAY) {
        let (year, month, day) = civil_from_days(days);
        prop_assert_eq!(days_from_civil(year, month, day), days);
    }

    #[test]
    fn timestamptz_text_round_trips(
        micros in -200_000_000_000_000_000i64..9_000_000_000_000_000_000,
    ) {
        for zone in ["UTC", "Europe/Berlin", "America/St_Johns"] {
            let cx = cx(zone);
            let mut out = String::new();
            push_timestamp(&mut out, micros, Some(&cx.time_zone), &cx);
            prop_assert_eq!(parse_timestamptz(&out, &cx).unwrap(), micros, "{}", out);
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[0-9A-Za-z:+\\-/. ]{0,24}") {
        let _ = parse_timestamptz(&text, &cx("UTC"));
        let _ = parse_date(&text, &cx("UTC"));
        let _ = parse_time(&text, &cx("UTC"));
    }
}
