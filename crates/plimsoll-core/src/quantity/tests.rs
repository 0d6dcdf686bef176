use super::*;

fn quantity(text: &str) -> Quantity {
    Quantity::parse(text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn values_are_rounded_away_from_zero() {
    for (text, value, milli) in [
        ("0", 0, 0),
        ("100m", 1, 100),
        ("1", 1, 1000),
        ("+2", 2, 2000),
        ("-1.5", -2, -1500),
        ("1.5e3", 1500, 1_500_000),
        ("12E6", 12_000_000, 12_000_000_000),
        ("1Ki", 1024, 1_024_000),
        ("0.5Gi", 1 << 29, (1 << 29) * 1000),
        ("1n", 1, 1),
        ("0.1n", 1, 1),
        ("-0.1n", 1, 1),
        (".", 0, 0),
        ("-", 0, 0),
        ("Mi", 0, 0),
    ] {
        let q = quantity(text);
        assert_eq!((q.value(), q.milli_value()), (value, milli), "{text}");
    }
}

#[test]
fn values_beyond_64_bits_are_what_kubernetes_makes_of_them() {
    for (text, value, milli) in [
        ("9223372036854775807", i64::MAX, -1000),
        ("9223372036854775808", i64::MIN, 0),
        ("8Ei", i64::MAX, -1000),
        ("9000Ei", i64::MAX, -1000),
        ("10E", 0, 0),
        ("1e20", 0, 0),
        ("999999999999999999", 999_999_999_999_999_999, 3_875_820_019_684_211_736),
        ("015017800000003012G", -7_945_053_187_032_963_072, 0),
    ] {
        let q = quantity(text);
        assert_eq!((q.value(), q.milli_value()), (value, milli), "{text}");
    }
}

#[test]
fn order_is_by_value_whatever_the_notation() {
    let ascending =
        ["-1e30", "-1Ei", "-1", "-1m", "0", "1n", "100m", "0.5", "1", "1023", "1Ki", "1e19", "1e40", "1e500"];
    for (i, a) in ascending.iter().enumerate() {
        for (j, b) in ascending.iter().enumerate() {
            assert_eq!(quantity(a).cmp(&quantity(b)), i.cmp(&j), "{a} against {b}");
        }
    }
    assert_eq!(quantity("1000m"), quantity("1"));
    assert_eq!(quantity("9223372036854775807000m"), quantity("9223372036854775807"));
}

#[test]
fn sums_and_differences_are_exact_and_keep_the_notation() {
    for (a, b, sum, difference) in [
        ("1", "100m", "1100m", "900m"),
        ("1Gi", "1Mi", "1025Mi", "1023Mi"),
        ("0", "2Ki", "2Ki", "-2Ki"),
        ("900000000000000000k", "900000000000000000k", "1800E", "0"),
        ("12345678901234567890", "1", "12345678901234567891", "12345678901234567889"),
    ] {
        assert_eq!(quantity(a).add(&quantity(b)).to_string(), sum, "{a} + {b}");
        assert_eq!(quantity(a).sub(&quantity(b)).to_string(), difference, "{a} - {b}");
    }
}

#[test]
fn the_canonical_form_has_no_fraction_and_the_largest_suffix() {
    for (text, canonical) in [
        ("1.5", "1500m"),
        ("1.5Gi", "1536Mi"),
        ("1023Ki", "1023Ki"),
        ("1023", "1023"),
        ("2048", "2048"),
        ("0.5Ki", "512"),
        ("1e3", "1e3"),
        ("1000e3", "1e6"),
        ("100000", "100k"),
        ("1000E", "1"),
        ("-1.5", "-1500m"),
    ] {
        assert_eq!(quantity(text).to_string(), canonical, "{text}");
    }
}

#[test]
fn only_what_was_written_as_an_integer_is_one() {
    for (text, integer) in [("5", Some(5)), ("5k", Some(5000)), ("1Ki", Some(1024)), ("5000m", None), ("1e30", None)] {
        assert_eq!(quantity(text).as_i64(), integer, "{text}");
    }
}

#[test]
fn a_text_that_is_no_quantity_is_named_in_the_error() {
    for (text, problem) in [
        ("", QuantityProblem::Format),
        ("abc", QuantityProblem::Format),
        ("1 ", QuantityProblem::Format),
        ("1.2.3", QuantityProblem::Format),
        ("1é", QuantityProblem::Format),
        ("1+5", QuantityProblem::Suffix),
        ("1ki", QuantityProblem::Suffix),
        ("1e", QuantityProblem::Suffix),
        ("Ei", QuantityProblem::Numeric),
        ("1e99999", QuantityProblem::TooLong),
    ] {
        let error = Quantity::parse(text).unwrap_err();
        assert_eq!((error.text.as_str(), error.problem), (text, problem));
        assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
    }
    assert_eq!(Quantity::parse(&"9".repeat(20_000)).unwrap_err().problem, QuantityProblem::TooLong);
}

proptest::proptest! {
    #[test]
    fn no_text_makes_it_panic(a in "[-+0-9.eEinumkKMGTPé ]{0,30}", b in "[-+]?[0-9]{0,25}(\\.[0-9]{0,12})?([eE][-+]?[0-9]{1,9}|[KMGTPE]i|[numkMGTPE])?") {
        if let (Ok(a), Ok(b)) = (Quantity::parse(&a), Quantity::parse(&b)) {
            let sum = a.add(&b);
            proptest::prop_assert_eq!(&sum.sub(&b), &a);
            let _ = (sum.value(), sum.milli_value(), sum.to_string(), sum.approximate_f64(), sum.as_i64());
        }
    }
}
