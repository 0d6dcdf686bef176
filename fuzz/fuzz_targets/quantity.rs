//! Quantities: whatever the text, reading ends in a value or an error, and values obey arithmetic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_core::quantity::Quantity;

fuzz_target!(|text: &str| {
    let (first, second) = text.split_once('\n').unwrap_or((text, "1"));
    let Ok(first) = Quantity::parse(first) else { return };
    let written = first.to_string();
    // Of what is out of range Kubernetes writes a text of another value, and so do we; of a negative fraction of a binary unit
    // it takes another amount than of the text it writes.
    if first.approximate_f64().abs() < 9e15 {
        let again = Quantity::parse(&written).unwrap_or_else(|error| panic!("{written} is not read: {error}"));
        assert_eq!(first, again, "{written} reads as another value");
        if first.sign() >= 0 {
            assert_eq!((first.value(), first.milli_value()), (again.value(), again.milli_value()), "{written}");
        }
    }
    let Ok(second) = Quantity::parse(second) else { return };
    assert_eq!(first.cmp(&second), second.cmp(&first).reverse());
    let sum = first.add(&second);
    assert_eq!(sum, second.add(&first));
    assert_eq!(sum.sub(&second).sign(), first.sign(), "{first} + {second} - {second}");
});
