//! The syntax of label keys, label values and resource names, as the API server checks it.

/// The longest name part of a qualified name, and the longest label value.
const MAX_NAME: usize = 63;
/// The longest DNS subdomain, and so the longest prefix of a qualified name.
const MAX_SUBDOMAIN: usize = 253;

const NAME_RULE: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

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
    !text.is_empty()
        && text.len() <= MAX_SUBDOMAIN
        && text.split('.').all(|part| {
            let bytes = part.as_bytes();
            let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
            edge(bytes.first())
                && edge(bytes.last())
                && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
        })
}

/// Why `key` is not a label key (a qualified name), if it is not.
pub fn label_key_error(key: &str) -> Option<&'static str> {
    let name = match key.split_once('/') {
        Some((prefix, name)) => {
            if !is_subdomain(prefix) {
                return Some("prefix part must be a lowercase RFC 1123 subdomain");
            }
            name
        }
        None => key,
    };
    if name.is_empty() {
        Some("name part must be non-empty")
    } else if name.len() > MAX_NAME {
        Some("name part must be no more than 63 bytes")
    } else if !is_name(name) {
        Some(NAME_RULE)
    } else {
        None
    }
}

/// Why `value` is not a label value, if it is not.
pub fn label_value_error(value: &str) -> Option<&'static str> {
    if value.len() > MAX_NAME {
        Some("must be no more than 63 bytes")
    } else if value.is_empty() || is_name(value) {
        None
    } else {
        Some(VALUE_RULE)
    }
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
        && label_key_error(&format!("requests.{name}")).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qualified_names() {
        for good in ["app", "example.com/app", "a_b.c-d", "topology.kubernetes.io/zone"] {
            assert_eq!(label_key_error(good), None, "{good}");
        }
        for bad in ["", "a b", "-a", "Example.com/a", "example.com/", "/a", "a/b/c"] {
            assert!(label_key_error(bad).is_some(), "{bad}");
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
