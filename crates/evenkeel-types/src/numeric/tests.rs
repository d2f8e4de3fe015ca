use proptest::prelude::*;

use super::*;

fn n(text: &str) -> Numeric {
    Numeric::parse(text).unwrap()
}

#[test]
fn text_forms_keep_the_scale() {
    for text in [
        "0",
        "0.00",
        "1",
        "-1",
        "10000",
        "9999",
        "1.50",
        "0.0001",
        "-0.00010",
        "123456789.987654",
        "100000000000000000000000000000000000000000.1",
        "NaN",
        "Infinity",
        "-Infinity",
    ] {
        assert_eq!(n(text).to_string(), text);
    }
    assert_eq!(n(" +1.5e3 ").to_string(), "1500");
    assert_eq!(n("1.5e-3").to_string(), "0.0015");
    assert_eq!(n("-0").to_string(), "0");
    assert_eq!(n(".5").to_string(), "0.5");
    assert_eq!(n("5.").to_string(), "5");
    assert_eq!(n("00012.30").to_string(), "12.30");
}

#[test]
fn bad_text_is_refused() {
    for text in ["", ".", "abc", "1e", "1.2.3", "--1", "1 2", "e5", "1e+"] {
        let error = Numeric::parse(text).unwrap_err();
        assert_eq!(
            error.sqlstate,
            SqlState::INVALID_TEXT_REPRESENTATION,
            "{text}"
        );
    }
    assert_eq!(
        Numeric::parse("1e999999").unwrap_err().sqlstate,
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE
    );
}

#[test]
fn rounding_is_half_away_from_zero() {
    for (text, scale, expected) in [
        ("1.5", 0, "2"),
        ("2.5", 0, "3"),
        ("-2.5", 0, "-3"),
        ("0.5", 0, "1"),
        ("0.49", 0, "0"),
        ("99999.995", 2, "100000.00"),
        ("9999.5", 0, "10000"),
        ("1234567.891", -3, "1235000"),
        ("0.00005", 4, "0.0001"),
        ("0.00004", 4, "0.0000"),
        ("12", 2, "12.00"),
        ("44", -2, "0"),
        ("50", -2, "100"),
        ("5000", -4, "10000"),
        ("123", -9, "0"),
    ] {
        assert_eq!(
            n(text).round(scale).unwrap().to_string(),
            expected,
            "{text} to {scale}"
        );
    }
    assert_eq!(n("1.99").truncate(1).to_string(), "1.9");
    assert_eq!(n("-1.99").truncate(0).to_string(), "-1");
}

#[test]
fn declared_precision_is_checked() {
    let modifier = Some(NumericMod {
        precision: 4,
        scale: 2,
    });
    assert_eq!(
        n("12.345").apply_modifier(modifier).unwrap().to_string(),
        "12.35"
    );
    assert_eq!(
        n("99.99").apply_modifier(modifier).unwrap().to_string(),
        "99.99"
    );
    let error = n("99.995").apply_modifier(modifier).unwrap_err();
    assert_eq!(error.sqlstate, SqlState::NUMERIC_VALUE_OUT_OF_RANGE);
    assert_eq!(
        error.detail.as_deref(),
        Some("A field with precision 4, scale 2 must round to an absolute value less than 10^2.")
    );
    assert!(n("NaN").apply_modifier(modifier).is_ok());
    assert!(n("Infinity").apply_modifier(modifier).is_err());
}

#[test]
fn floats_convert_by_their_significant_digits() {
    assert_eq!(Numeric::from_float(0.1, 15).to_string(), "0.1");
    assert_eq!(
        Numeric::from_float(1e20, 15).to_string(),
        "100000000000000000000"
    );
    assert_eq!(Numeric::from_float(f64::from(0.1f32), 6).to_string(), "0.1");
    assert_eq!(Numeric::from_float(f64::NAN, 15).to_string(), "NaN");
}

#[test]
fn order_is_that_of_numbers() {
    let ordered = [
        "-Infinity",
        "-10000.5",
        "-10000",
        "-1.5",
        "-0.0001",
        "0",
        "0.0001",
        "1",
        "1.00001",
        "2",
        "9999",
        "10000",
        "10000.1",
        "1e100",
        "Infinity",
        "NaN",
    ];
    for pair in ordered.windows(2) {
        assert!(n(pair[0]) < n(pair[1]), "{pair:?}");
    }
    assert_eq!(n("1.0"), n("1.000"));
}

proptest! {
    #[test]
    fn decimals_of_128_bits_round_trip(unscaled: i128, scale in 0i8..38) {
        let value = Numeric::from_i128(unscaled, scale);
        prop_assert_eq!(value.to_i128(scale), Some(unscaled));
        prop_assert_eq!(Numeric::parse(&value.to_string()).unwrap(), value);
    }

    #[test]
    fn order_agrees_with_integers(a: i64, b: i64) {
        prop_assert_eq!(Numeric::from(a).cmp(&Numeric::from(b)), a.cmp(&b));
    }

    #[test]
    fn text_round_trips(text in "-?[0-9]{1,30}(\\.[0-9]{1,30})?") {
        let value = n(&text);
        let again = n(&value.to_string());
        prop_assert_eq!(&again, &value);
        prop_assert_eq!(again.dscale(), value.dscale());
    }
}
