//! The syntax of label keys, label values, label requirements and resource names, with what Kubernetes says when it is
//! broken: users see these words in events, so they are its own.

/// The longest name part of a qualified name, and the longest label value.
const MAX_NAME: usize = 63;
/// The longest DNS subdomain, and so the longest prefix of a qualified name.
const MAX_SUBDOMAIN: usize = 253;

const NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
    '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex \
    used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
    or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let inner = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => {
            first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric() && bytes.iter().all(inner)
        }
        _ => false,
    }
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(|part| {
        let bytes = part.as_bytes();
        let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        edge(bytes.first())
            && edge(bytes.last())
            && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
    })
}

/// Why `key` is not a label key (a qualified name); nothing if it is one.
pub fn label_key_errors(key: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let name = match key.split('/').collect::<Vec<_>>()[..] {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                if prefix.len() > MAX_SUBDOMAIN {
                    errors.push(format!("prefix part must be no more than {MAX_SUBDOMAIN} bytes"));
                }
                if !is_subdomain(prefix) {
                    errors.push(format!("prefix part {SUBDOMAIN_RULE}"));
                }
            }
            name
        }
        _ => {
            let hint = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a valid label key {NAME_RULE} {hint}")];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > MAX_NAME {
        errors.push(format!("name part must be no more than {MAX_NAME} bytes"));
    }
    if !is_name(name) {
        errors.push(format!("name part {NAME_RULE}"));
    }
    errors
}

/// Why `value` is not a label value; nothing if it is one.
pub fn label_value_errors(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > MAX_NAME {
        errors.push(format!("must be no more than {MAX_NAME} bytes"));
    }
    if !value.is_empty() && !is_name(value) {
        errors.push(VALUE_RULE.to_owned());
    }
    errors
}

/// What `labels.NewRequirement` has against a requirement that stands at `path` (empty or ending in a dot) and whose
/// operator is known; nothing if it is right. Absent values print differently from an empty list.
pub fn requirement_errors(path: &str, key: &str, operator: &str, values: Option<&[String]>) -> Vec<String> {
    let list = values.unwrap_or_default();
    let mut errors = Vec::new();
    let mut invalid = |field: &str, value: String, why: &str| {
        let error = format!("{path}{field}: Invalid value: {value}: {why}");
        if !errors.contains(&error) {
            errors.push(error);
        }
    };
    let key_errors = label_key_errors(key);
    if !key_errors.is_empty() {
        invalid("key", quoted(key), &key_errors.join("; "));
    }
    match operator {
        "In" | "NotIn" if list.is_empty() => {
            invalid("values", as_json(values), "for 'in', 'notin' operators, values set can't be empty");
        }
        "Exists" | "DoesNotExist" if !list.is_empty() => {
            invalid("values", as_json(values), "values set must be empty for exists and does not exist");
        }
        "Gt" | "Lt" => {
            if list.len() != 1 {
                invalid("values", as_json(values), "for 'Gt', 'Lt' operators, exactly one value is required");
            }
            for (index, value) in list.iter().enumerate().filter(|(_, value)| value.parse::<i64>().is_err()) {
                let why = "for 'Gt', 'Lt' operators, the value must be an integer";
                invalid(&format!("values[{index}]"), quoted(value), why);
            }
        }
        _ => {}
    }
    for (index, value) in list.iter().enumerate() {
        let value_errors = label_value_errors(value);
        if !value_errors.is_empty() {
            invalid(&format!("values[{index}][{key}]"), quoted(value), &value_errors.join("; "));
        }
    }
    errors
}

/// Several errors in one line, as Kubernetes joins them: each once, in brackets if there are several.
pub fn aggregate(mut errors: Vec<String>) -> String {
    let mut seen = Vec::new();
    errors.retain(|error| {
        let is_new = !seen.contains(error);
        if is_new {
            seen.push(error.clone());
        }
        is_new
    });
    if errors.len() == 1 { errors.remove(0) } else { format!("[{}]", errors.join(", ")) }
}

/// A string as Go's `%q` prints it.
fn quoted(text: &str) -> String {
    format!("{text:?}")
}

/// A list of strings as Go's JSON has it, where an absent list is null and characters of HTML are escaped.
pub(crate) fn as_json(values: Option<&[String]>) -> String {
    let Some(values) = values else { return "null".to_owned() };
    let json = serde_json::to_string(values).unwrap_or_default();
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// Whether the scheduler accounts for this resource beside cpu, memory, ephemeral storage and pods.
pub fn is_scalar_resource(name: &str) -> bool {
    is_extended_resource(name)
        || name.starts_with("hugepages-")
        || name.contains("kubernetes.io/")
        || name.starts_with("attachable-volumes-")
}

/// Whether the name is an extended resource, such as `example.com/gpu`.
pub fn is_extended_resource(name: &str) -> bool {
    name.contains('/')
        && !name.contains("kubernetes.io/")
        && !name.starts_with("requests.")
        && label_key_errors(&format!("requests.{name}")).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qualified_names() {
        for good in ["app", "example.com/app", "a_b.c-d", "topology.kubernetes.io/zone"] {
            assert!(label_key_errors(good).is_empty(), "{good}");
        }
        for bad in ["", "a b", "-a", "Example.com/a", "example.com/", "/a", "a/b/c"] {
            assert!(!label_key_errors(bad).is_empty(), "{bad}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_requirement_is_said_as_kubernetes_says_it() {
        let list = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>();
        let long = "x".repeat(64);
        let name_rule = format!("name part {NAME_RULE}");
        type Row<'a> = (&'a str, &'a str, Option<&'a [&'a str]>, &'a [&'a str]);
        let table: &[Row<'_>] = &[
            ("a", "In", Some(&["x"]), &[]),
            (
                "a",
                "In",
                None,
                &["p.values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"],
            ),
            (
                "a",
                "NotIn",
                Some(&[]),
                &["p.values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"],
            ),
            (
                "a",
                "Exists",
                Some(&["x", "y"]),
                &[r#"p.values: Invalid value: ["x","y"]: values set must be empty for exists and does not exist"#],
            ),
            (
                "a",
                "Gt",
                Some(&["1", "z"]),
                &[
                    r#"p.values: Invalid value: ["1","z"]: for 'Gt', 'Lt' operators, exactly one value is required"#,
                    r#"p.values[1]: Invalid value: "z": for 'Gt', 'Lt' operators, the value must be an integer"#,
                ],
            ),
            ("a b", "Exists", None, &[&format!(r#"p.key: Invalid value: "a b": {name_rule}"#)]),
            ("/a", "Exists", None, &[r#"p.key: Invalid value: "/a": prefix part must be non-empty"#]),
            ("", "Exists", None, &[&format!(r#"p.key: Invalid value: "": name part must be non-empty; {name_rule}"#)]),
            (
                "a",
                "In",
                Some(&[&long]),
                &[&format!(r#"p.values[0][a]: Invalid value: "{long}": must be no more than 63 bytes"#)],
            ),
            ("a", "In", Some(&["<"]), &[&format!(r#"p.values[0][a]: Invalid value: "<": {VALUE_RULE}"#)]),
        ];
        for (key, operator, values, expected) in table {
            let values = values.map(list);
            let got = requirement_errors("p.", key, operator, values.as_deref());
            assert_eq!(got, *expected, "{key} {operator} {values:?}");
        }
    }

    #[test]
    fn resources_the_scheduler_accounts_for() {
        for scalar in ["example.com/gpu", "hugepages-2Mi", "kubernetes.io/foo", "attachable-volumes-csi-x"] {
            assert!(is_scalar_resource(scalar), "{scalar}");
        }
        for other in ["cpu", "storage", "requests.example.com/gpu", "Bad Name/x"] {
            assert!(!is_scalar_resource(other), "{other}");
        }
        assert!(!is_extended_resource("hugepages-2Mi"));
    }
}
