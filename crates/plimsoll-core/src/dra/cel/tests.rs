use super::*;

/// A device with an attribute of every kind.
fn device() -> DeviceValue {
    let device = serde_json::json!({
        "name": "d",
        "attributes": {
            "text": {"string": "fish"},
            "number": {"int": 5},
            "yes": {"bool": true},
            "no": {"bool": false},
            "version": {"version": "1.2.3-alpha.1+build"},
            "other.example.com/text": {"string": "hello World"},
        },
        "capacity": {"memory": {"value": "40Gi"}, "share": {"value": "100m"}},
        "allowMultipleAllocations": true,
    });
    DeviceValue::new("dra.example.com", &serde_json::from_value(device).unwrap())
}

fn outcome(expression: &str) -> Result<bool, String> {
    let expression = expression
        .replace("$A", "device.attributes[\"dra.example.com\"]")
        .replace("$C", "device.capacity[\"dra.example.com\"]");
    let selector = Selector::compile(&expression).map_err(|error| format!("compile: {error}"))?;
    selector.matches(&device()).map_err(|error| error.to_string())
}

#[track_caller]
fn matches(expressions: &[&str]) {
    for expression in expressions {
        assert_eq!(outcome(expression), Ok(true), "{expression}");
    }
}

#[track_caller]
fn fails(cases: &[(&str, &str)]) {
    for (expression, error) in cases {
        assert_eq!(outcome(expression), Err((*error).to_owned()), "{expression}");
    }
}

#[track_caller]
fn does_not_compile(cases: &[(&str, &str)]) {
    for (expression, part) in cases {
        match outcome(expression) {
            Err(error) if error.starts_with("compile: ") && error.contains(part) => {}
            other => panic!("{expression}: expected a compile error with {part:?}, came {other:?}"),
        }
    }
}

#[test]
fn attributes_are_found_in_the_domain_of_their_name_or_of_the_driver() {
    matches(&[
        "device.driver == 'dra.example.com'",
        "$A.text == 'fish'",
        "$A['text'] == 'fish'",
        "device.attributes['other.example.com'].text == 'hello World'",
        "$A.yes && !$A.no",
        "$A.number > 4 && $A.number < 5.5 && $A.number >= 5u",
        "device.allowMultipleAllocations",
        "cel.bind(own, $A, own.text == 'fish' && own.yes)",
    ]);
    fails(&[
        ("device.attributes['unknown'].text == 'fish'", "no such key: text"),
        ("$A.missing", "no such key: missing"),
        ("$A['missing'].isGreaterThan(quantity('0'))", "no such key: missing"),
    ]);
}

#[test]
fn a_missing_domain_is_empty_but_not_there() {
    matches(&[
        "!('unknown' in device.attributes)",
        "'dra.example.com' in device.attributes",
        "'text' in $A && !('missing' in $A)",
        "has($A.text) && !has($A.missing) && !has(device.attributes['unknown'].text)",
        "size(device.attributes['unknown']) == 0 && size(device.attributes) == 2",
        "has(device.attributes.unknown)",
    ]);
}

#[test]
fn attributes_that_may_be_missing_can_be_optional() {
    matches(&[
        "$A.?text.orValue('') == 'fish'",
        "$A.?missing.orValue('none') == 'none'",
        "device.attributes[?'unknown'].?text.hasValue() == false",
        "$A[?'number'].optMap(n, n + 1).value() == 6",
        "$A.?missing.or($A.?text).value() == 'fish'",
        "optional.none().hasValue() == false && optional.of(1).hasValue()",
        "[?$A.?text, ?optional.none()].size() == 1",
    ]);
    fails(&[("$A.?missing.value() == 1", "optional.none() dereference")]);
}

#[test]
fn quantities_compare_and_compute() {
    matches(&[
        "$C.memory == quantity('40960Mi')",
        "$C.memory.isGreaterThan(quantity('39Gi')) && $C.memory.isLessThan(quantity('41Gi'))",
        "$C.memory.compareTo(quantity('40Gi')) == 0 && sign($C.memory) == 1",
        "$C.memory.asInteger() == 42949672960 && $C.memory.isInteger() && !$C.share.isInteger()",
        "$C.share.asApproximateFloat() < 0.2",
        "$C.memory.add(quantity('1Gi')).compareTo(quantity('41Gi')) == 0",
        "$C.memory.add(1).sub(1) == quantity('40Gi')",
        "isQuantity('1Gi') && !isQuantity('one')",
    ]);
    fails(&[
        ("$C.missing == quantity('1')", "no such key: missing"),
        ("$C.share.asInteger() == 1", "cannot convert value to integer"),
        ("quantity($A.number) == quantity('5')", "no such overload: quantity(int)"),
        ("$A.text.isGreaterThan(quantity('1'))", "no such overload: isGreaterThan(string, kubernetes.Quantity)"),
        (
            "quantity('one') == quantity('1')",
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
    ]);
}

#[test]
fn versions_compare_by_precedence() {
    matches(&[
        "$A.version.isLessThan(semver('1.2.3')) && $A.version.isGreaterThan(semver('1.2.3-alpha'))",
        "$A.version == semver('1.2.3-alpha.1')",
        "$A.version.compareTo(semver('1.2.4')) == -1",
        "$A.version.major() == 1 && $A.version.minor() == 2 && $A.version.patch() == 3",
        "semver('v1.2', true) == semver('1.2.0')",
        "isSemver('1.0.0') && !isSemver('v1') && isSemver('v1', true)",
        "$A.version != 'anything'",
    ]);
    fails(&[
        ("$A.version == 'anything'", "no such overload"),
        ("semver('1') == $A.version", "No Major.Minor.Patch elements found"),
        ("$A.text.major() == 1", "no such overload: major(string)"),
    ]);
}

#[test]
fn logic_absorbs_errors_when_the_other_side_decides() {
    matches(&[
        "$A.missing || $A.yes",
        "$A.yes || $A.missing",
        "!($A.missing && $A.no)",
        "!($A.no && $A.missing)",
        "[1, 2].exists(x, x == 2 || $A.missing)",
        "!($A.number && false)",
        "$A.yes ? true : $A.missing",
    ]);
    fails(&[
        ("$A.missing || $A.no", "no such key: missing"),
        ("$A.yes && $A.missing", "no such key: missing"),
        ("$A.yes && $A.number", "no such overload"),
        ("$A.number ? true : false", "no such overload"),
        ("!$A.text", "no such overload"),
    ]);
}

#[test]
fn texts_and_lists_have_their_functions() {
    matches(&[
        "$A.text.startsWith('fi') && $A.text.endsWith('sh') && $A.text.contains('is')",
        "$A.text.matches('^f.*h$') && $A.text.find('[a-h]+') == 'f'",
        "'a1b22'.findAll('[0-9]+') == ['1', '22']",
        "'aXb'.lowerAscii() == 'axb' && 'aXb'.upperAscii() == 'AXB' && ' a '.trim() == 'a'",
        "'a,b'.split(',') == ['a', 'b'] && ['a', 'b'].join('-') == 'a-b'",
        "'héllo'.size() == 5 && 'héllo'.substring(1, 2) == 'é' && 'héllo'.charAt(4) == 'o'",
        "'abcabc'.indexOf('c') == 2 && 'abcabc'.lastIndexOf('c') == 5 && 'aaa'.replace('a', 'b', 2) == 'bba'",
        "$A.text in ['fish', 'bird'] && !($A.number in ['fish'])",
        "[3, 1, 2].sort() == [1, 2, 3] && [1, 2, 3].sum() == 6 && [1, 3].max() == 3 && [1, 2].isSorted()",
        "[1, 2, 3].map(x, x * 2).filter(x, x > 2) == [4, 6]",
        "[1, 2].all(x, x > 0) && [1, 2].exists_one(x, x == 1) && {'a': 1}.all(k, v, k == 'a' && v == 1)",
        "device.attributes.exists(domain, domain.startsWith('dra.'))",
        "sets.contains([1, 2], [2]) && !sets.intersects([1], [2]) && sets.equivalent([1, 2], [2, 1])",
        "{'a': {'b': 1}}.a.b == 1 && [1, 2][1] == 2",
        "int('12') == 12 && string(5) == '5' && double(1) == 1.0 && uint(3) == 3u && bool('true')",
        "5 / 2 == 2 && -5 % 3 == -2 && 1 + 2 * 3 == 7 && 7.0 / 2.0 == 3.5",
        "type($A.text) == string && type($A.number) == int",
        "'\\u00e9' == 'é' && r'\\d' == '\\\\d' && b'a' == bytes('a') && \"\"\"x\"\"\" == 'x' // a comment",
    ]);
    fails(&[
        ("[1, 2][5] == 1", "index out of bounds: 5"),
        ("1 / 0 == 1", "division by zero"),
        ("9223372036854775807 + 1 == 0", "integer overflow"),
        ("1u - 2u == 0u", "unsigned integer overflow"),
        ("$A.number.startsWith('f')", "no such overload"),
        ("$A.text > 1", "no such overload"),
        ("$A.text - 1 == 0", "no such overload"),
        ("$A.yes + 1 == 0", "no such overload: _+_"),
        ("'abc'.charAt(5) == ''", "index out of range: 5"),
    ]);
}

#[test]
fn mistakes_are_found_before_any_device_is_looked_at() {
    does_not_compile(&[
        ("device.driver == 1", "found no matching overload for '_==_' applied to '(string, int)'"),
        ("device.unknown", "undefined field 'unknown'"),
        ("true || unknown", "undeclared reference to 'unknown' (in container '')"),
        ("$A.text.unknown()", "undeclared reference to 'unknown'"),
        ("$C.memory == 5", "'(kubernetes.Quantity, int)'"),
        ("device.driver", "must evaluate to bool or the unknown type, not string"),
        ("1", "must evaluate to bool or the unknown type, not int"),
        ("[1, 'a'].size() == 2", "expected type 'int' but found 'string'"),
        ("$A.text.matches('(')", "invalid matches argument"),
        ("int('x') == 1", "program instantiation failed: type conversion error from 'string' to 'int'"),
        ("has(device)", "invalid argument to has() macro"),
        ("?!", "Syntax error"),
        ("", "Syntax error"),
        ("'unterminated", "Syntax error"),
        ("if == 1", "reserved identifier: if"),
        ("9223372036854775808 == 1", "invalid int literal"),
        ("5 - 9223372036854775808 == 1", "invalid int literal"),
    ]);
    matches(&["-9223372036854775808 < 0"]);
    let expected =
        "compile: compilation failed: ERROR: <input>:1:7: undefined field 'foo'\n | device.foo == 1\n | ......^";
    assert_eq!(outcome("device.foo == 1"), Err(expected.to_owned()));
}

#[test]
fn what_is_not_a_boolean_in_the_end_is_an_error() {
    fails(&[
        (
            "$A.text",
            "CEL result of type string could not be converted to bool: unsupported native conversion from string to 'bool'",
        ),
        (
            "$A.number",
            "CEL result of type int could not be converted to bool: unsupported type conversion from 'int' to bool",
        ),
    ]);
    matches(&["$A.yes"]);
}

#[test]
fn an_attribute_that_cannot_be_read_fails_every_selector() {
    let value = |attribute: serde_json::Value| {
        let device = serde_json::json!({"name": "d", "attributes": {"broken": attribute}});
        DeviceValue::new("dra.example.com", &serde_json::from_value(device).unwrap())
    };
    let selector = Selector::compile("true").unwrap();
    for (attribute, error) in [
        (serde_json::json!({"strings": ["a"]}), "attribute broken: unsupported attribute value"),
        (
            serde_json::json!({"version": "1"}),
            "attribute broken: parse semantic version: No Major.Minor.Patch elements found",
        ),
    ] {
        assert_eq!(selector.matches(&value(attribute)).unwrap_err().to_string(), error);
    }
}

#[test]
fn expressions_nested_too_deeply_are_refused_and_not_followed() {
    for depth in [251, 5_000, 40_000] {
        for expression in [
            "(".repeat(depth) + "true" + &")".repeat(depth),
            "[".repeat(depth) + &"]".repeat(depth),
            "!(".repeat(depth) + "true" + &")".repeat(depth),
            "true?true:".repeat(depth) + "true",
            "1".to_owned() + &"+1".repeat(depth) + " == 1",
            "device.attributes".to_owned() + &".a".repeat(depth),
            "[1]".to_owned() + &"[0]".repeat(depth),
            "{1:".repeat(depth) + "1" + &"}".repeat(depth),
            "size(".repeat(depth) + "'a'" + &")".repeat(depth),
            "(".repeat(depth),
        ] {
            assert!(Selector::compile(&expression).is_err(), "{}…", &expression[..20]);
        }
    }
    let wide = "true".to_owned() + &" && true".repeat(10_000);
    assert_eq!(Selector::compile(&wide).unwrap().matches(&device()), Ok(true));
    assert!(Selector::compile(&"a".repeat(100_001)).is_err());
    let deepest = "(".repeat(249) + "true" + &")".repeat(249);
    assert_eq!(Selector::compile(&deepest).unwrap().matches(&device()), Ok(true));
}

#[test]
fn long_expressions_take_time_in_proportion() {
    // Each of these takes minutes if some step is quadratic.
    for part in ["1 == 1 && ", "x || ", "size([]) == 0 && ", "[] == [] && ", "'a'.matches('\\\\Q\\\\E') && "] {
        let expression = part.repeat(99_000 / part.len()) + "true";
        let _ = Selector::compile(&expression);
    }
    let _ = Selector::compile(&("a".to_owned() + &".b".repeat(49_000)));
    let _ = Selector::compile(&format!("'a'.matches(r'{}')", "\\Q\\E".repeat(20_000)));
    let many = Selector::compile(&("x || ".repeat(1000) + "true")).unwrap_err().to_string();
    assert!(many.ends_with("900 more errors were truncated"), "{}", &many[many.len() - 80..]);
}

#[test]
fn an_evaluation_that_costs_too_much_is_cut_off() {
    let list = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]";
    let mut expression = "true".to_owned();
    for variable in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        expression = format!("{list}.all({variable}, {expression})");
    }
    let error = Selector::compile(&expression).unwrap().matches(&device()).unwrap_err();
    assert_eq!(error.to_string(), "operation cancelled: actual cost limit exceeded");
    // Nothing absorbs it.
    let error = Selector::compile(&format!("{expression} || true")).unwrap().matches(&device()).unwrap_err();
    assert_eq!(error.to_string(), "operation cancelled: actual cost limit exceeded");
    assert!(outcome("lists.range(1000000000).size() > 0").is_err());
    let doubling = "cel.bind(a, 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx', ".to_owned()
        + &(0..40)
            .map(|i| format!("cel.bind(a{i}, a{0} + a{0}, ", if i == 0 { String::new() } else { (i - 1).to_string() }))
            .collect::<String>()
        + "a39.size() > 0"
        + &")".repeat(41);
    assert_eq!(outcome(&doubling), Err("operation cancelled: actual cost limit exceeded".to_owned()));
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(2000))]

    #[test]
    fn no_text_makes_it_panic(expression in "\\PC{0,40}") {
        let _ = outcome(&expression);
    }

    #[test]
    fn no_sequence_of_tokens_makes_it_panic(tokens in proptest::collection::vec(proptest::sample::select(&[
        "device", ".", "attributes", "[", "]", "(", ")", "{", "}", "\"dra.example.com\"", "text", "number", "version", "$A", "$C",
        "memory", "==", "!=", "<", ">=", "in", "&&", "||", "!", "-", "+", "*", "/", "%", "?", ":", ",", "1", "0", "1.5", "3u", "'a'",
        "b'a'", "true", "null", "size(", ".size()", ".all(x,", ".map(x,", "x", "has(", "quantity(", "semver(", "'1.0.0'", "'1Gi'",
        ".isGreaterThan(", ".?", "[?", ".orValue(", "cel.bind(x,", "optional.of(", "9223372036854775807", "lists.range(", ".sort()",
        ".substring(", ".split(", ".matches(", "'['", "type(", "int(", "dyn(", ".flatten()", ".slice(", "sets.contains(",
    ][..]), 0..25)) {
        let _ = outcome(&tokens.concat());
        let _ = outcome(&tokens.join(" "));
    }
}

#[test]
fn nothing_is_in_an_empty_list_not_even_what_fails() {
    matches(&["!($A.absent in [])", "!($A.version in [])"]);
}
