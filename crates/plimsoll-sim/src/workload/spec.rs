//! The part of a pod's spec that a table holds, as JSON.

use k8s_openapi::api::core::v1::PodSpec;
use serde_json::Value;

/// The spec in a text; a field that Kubernetes does not have is a mistake, as it would be lost without a word.
pub fn parse(text: &str) -> Result<Box<PodSpec>, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    if !value.is_object() {
        return Err("not a JSON object; {\"nodeSelector\": {…}} would be one".to_owned());
    }
    let spec: PodSpec = serde_json::from_value(value.clone()).map_err(|error| format!("not a pod's spec: {error}"))?;
    let understood = serde_json::to_value(&spec).map_err(|error| format!("not a pod's spec: {error}"))?;
    match lost(&value, &understood) {
        Some(path) => Err(format!("a pod's spec has no field {path}")),
        None => Ok(Box::new(spec)),
    }
}

/// The spec as text, without containers where there are none.
pub fn format(spec: &PodSpec) -> Result<String, String> {
    let mut value = serde_json::to_value(spec).map_err(|error| error.to_string())?;
    if spec.containers.is_empty()
        && let Some(fields) = value.as_object_mut()
    {
        fields.remove("containers");
    }
    Ok(value.to_string())
}

/// The first field that is given but was not understood.
fn lost(given: &Value, understood: &Value) -> Option<String> {
    match (given, understood) {
        (Value::Object(given), Value::Object(understood)) => given.iter().find_map(|(name, value)| {
            if value.is_null() {
                return None;
            }
            let Some(inner) = understood.get(name) else { return Some(name.clone()) };
            lost(value, inner).map(|path| format!("{name}.{path}"))
        }),
        (Value::Array(given), Value::Array(understood)) => given
            .iter()
            .zip(understood)
            .enumerate()
            .find_map(|(at, (value, inner))| lost(value, inner).map(|path| format!("{at}.{path}"))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_spec_is_named() {
        let cases = [
            ("{", "not JSON"),
            ("[]", "not a JSON object"),
            (r#"{"nodeSelector": 7}"#, "not a pod's spec"),
            (r#"{"nodeselector": {"a": "b"}}"#, "no field nodeselector"),
            (r#"{"tolerations": [{"key": "a"}, {"kee": "b"}]}"#, "no field tolerations.1.kee"),
        ];
        for (text, problem) in cases {
            let error = parse(text).unwrap_err();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }

    #[test]
    fn a_spec_is_read_as_it_was_written() {
        let text = r#"{"nodeSelector":{"disk":"ssd"},"schedulerName":"other","tolerations":[{"key":"a","operator":"Exists"}]}"#;
        let spec = parse(text).unwrap();
        assert_eq!(format(&spec).unwrap(), text);
    }
}
