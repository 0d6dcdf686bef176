//! The syntax of label keys, label values and resource names.

/// What is wrong with `key` as a label key, which is also the syntax of resource names; `None` if nothing.
pub(super) fn label_key_problem(key: &str) -> Option<String> {
    let (prefix, name) = match key.split('/').collect::<Vec<_>>()[..] {
        [name] => (None, name),
        [prefix, name] => (Some(prefix), name),
        _ => return Some("must be a name, or a DNS subdomain and a name with one '/' between them".to_owned()),
    };
    match prefix {
        Some("") => return Some("the part before '/' must not be empty".to_owned()),
        Some(prefix) if !is_dns_subdomain(prefix) => {
            return Some(format!(
                "the part before '/' must be a DNS subdomain: at most 253 lower case letters, digits, '-' and '.', \
                 with a letter or digit at both ends of every label; found {prefix:?}"
            ));
        }
        _ => {}
    }
    if name.is_empty() {
        return Some("the name must not be empty".to_owned());
    }
    label_value_problem(name)
}

/// What is wrong with `value` as a label value; `None` if nothing.
pub(super) fn label_value_problem(value: &str) -> Option<String> {
    let ends_are_alphanumeric = value.bytes().next().is_none_or(|first| first.is_ascii_alphanumeric())
        && value.bytes().last().is_none_or(|last| last.is_ascii_alphanumeric());
    let inside_is_allowed =
        value.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
    (value.len() > 63 || !ends_are_alphanumeric || !inside_is_allowed).then(|| {
        format!(
            "must be at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends; found {value:?}"
        )
    })
}

/// What is wrong with `name` as the name of an extended resource; `None` if nothing.
pub(super) fn extended_resource_problem(name: &str) -> Option<String> {
    if let Some(problem) = label_key_problem(name) {
        return Some(problem);
    }
    let native = !name.contains('/') || name.contains("kubernetes.io/");
    // Quotas prefix the name, and it must still be one.
    let fits_quota = !name.starts_with("requests.") && label_key_problem(&format!("requests.{name}")).is_none();
    (native || !fits_quota).then(|| {
        format!(
            "{name:?} is not an extended resource: one has a domain outside kubernetes.io, as in example.com/gpu, \
             and does not begin with \"requests.\""
        )
    })
}

fn is_dns_subdomain(text: &str) -> bool {
    let is_label = |label: &str| {
        label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            && !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_keys_follow_the_syntax_of_kubernetes() {
        for valid in ["a", "A_b.c-1", "example.com/gpu", "topology.kubernetes.io/zone", &"x".repeat(63)] {
            assert_eq!(label_key_problem(valid), None, "{valid}");
        }
        for invalid in
            ["", "/a", "a/", "a/b/c", "-a", "a-", "a b", "Example.com/x", "a..b/x", "-a.b/x", "ä", &"x".repeat(64)]
        {
            assert!(label_key_problem(invalid).is_some(), "{invalid}");
        }
    }

    #[test]
    fn label_values_may_be_empty() {
        assert_eq!(label_value_problem(""), None);
        assert!(label_value_problem("a/b").is_some());
    }

    #[test]
    fn extended_resources_have_a_foreign_domain() {
        assert_eq!(extended_resource_problem("example.com/gpu"), None);
        let long_domain = format!("{}/x", "a.".repeat(122) + "abcdefgh");
        for invalid in ["cpu", "kubernetes.io/x", "my.kubernetes.io/x", "requests.example.com/x", &long_domain] {
            assert!(extended_resource_problem(invalid).is_some(), "{invalid}");
        }
    }
}
