//! What the allocator needs to know of a node, and node selectors over it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelector as ApiNodeSelector, NodeSelectorRequirement, NodeSelectorTerm};

/// A node as Dynamic Resource Allocation sees it; implemented by whatever form of node the caller keeps.
pub trait NodeView {
    /// The node's name.
    fn name(&self) -> &str;
    /// The value of a label.
    fn label(&self, key: &str) -> Option<&str>;
    /// How much of an extended resource the node offers; nothing if it does not know the resource.
    fn allocatable(&self, resource: &str) -> Option<i64>;
}

/// A node made of borrowed parts.
#[derive(Debug, Clone, Copy)]
pub struct PlainNode<'a> {
    /// The node's name.
    pub name: &'a str,
    /// Its labels.
    pub labels: &'a BTreeMap<String, String>,
    /// Its extended resources.
    pub allocatable: &'a BTreeMap<String, i64>,
}

impl NodeView for PlainNode<'_> {
    fn name(&self) -> &str {
        self.name
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(String::as_str)
    }

    fn allocatable(&self, resource: &str) -> Option<i64> {
        self.allocatable.get(resource).copied()
    }
}

/// A node selector that has been found valid.
#[derive(Debug, Clone)]
pub struct NodeSelector {
    terms: Vec<Term>,
}

#[derive(Debug, Clone)]
struct Term {
    labels: Vec<(String, Operator)>,
    /// Only the name of a node is a field: (wanted, value).
    fields: Vec<(bool, String, String)>,
}

#[derive(Debug, Clone)]
enum Operator {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
    Gt(i64),
    Lt(i64),
}

impl NodeSelector {
    /// Checks a selector; the error is the one Kubernetes gives for the first thing that is wrong.
    pub fn new(selector: &ApiNodeSelector) -> Result<Self, String> {
        let mut terms = Vec::new();
        let mut errors = Vec::new();
        for (i, term) in selector.node_selector_terms.iter().enumerate() {
            if is_empty(term) {
                continue;
            }
            let path = format!("nodeSelectorTerms[{i}]");
            let mut parsed = Term { labels: Vec::new(), fields: Vec::new() };
            for (j, requirement) in term.match_expressions.iter().flatten().enumerate() {
                match operator(&format!("{path}.matchExpressions[{j}]"), requirement) {
                    Ok(operator) => parsed.labels.push((requirement.key.clone(), operator)),
                    Err(error) => errors.push(error),
                }
            }
            for (j, requirement) in term.match_fields.iter().flatten().enumerate() {
                match field(&format!("{path}.matchFields[{j}]"), requirement) {
                    Ok(field) => parsed.fields.push(field),
                    Err(error) => errors.push(error),
                }
            }
            terms.push(parsed);
        }
        match errors.len() {
            0 => Ok(Self { terms }),
            1 => Err(errors.swap_remove(0)),
            _ => Err(format!("[{}]", errors.join(", "))),
        }
    }

    /// Whether one of the terms holds for the node.
    pub fn matches(&self, node: &dyn NodeView) -> bool {
        self.terms.iter().any(|term| {
            term.labels.iter().all(|(key, operator)| operator.holds(node.label(key)))
                && term.fields.iter().all(|(wanted, key, value)| {
                    let found = if key == "metadata.name" { node.name() } else { "" };
                    (found == value) == *wanted
                })
        })
    }

    /// The labels the outcome depends on.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.terms.iter().flat_map(|term| term.labels.iter().map(|(key, _)| key.as_str()))
    }
}

impl Operator {
    fn holds(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match self {
            Operator::In(values) => value.is_some_and(|value| values.iter().any(|wanted| wanted == value)),
            Operator::NotIn(values) => value.is_none_or(|value| values.iter().all(|other| other != value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Gt(bound) => number().is_some_and(|value| value > *bound),
            Operator::Lt(bound) => number().is_some_and(|value| value < *bound),
        }
    }
}

fn is_empty(term: &NodeSelectorTerm) -> bool {
    term.match_expressions.iter().flatten().next().is_none() && term.match_fields.iter().flatten().next().is_none()
}

fn operator(path: &str, requirement: &NodeSelectorRequirement) -> Result<Operator, String> {
    let values = requirement.values.clone().unwrap_or_default();
    let invalid = |problem: &str| Err(format!("{path}.values: Invalid value: {}: {problem}", quoted(&values)));
    let number = || match values.as_slice() {
        [value] => value.parse::<i64>().map_err(|_| {
            let problem = "for 'Gt', 'Lt' operators, the value must be an integer";
            format!("{path}.values[0]: Invalid value: {value:?}: {problem}")
        }),
        _ => Err(format!(
            "{path}.values: Invalid value: {}: for 'Gt', 'Lt' operators, exactly one value is required",
            quoted(&values)
        )),
    };
    match requirement.operator.as_str() {
        "In" | "NotIn" if values.is_empty() => invalid("for 'in', 'notin' operators, values set can't be empty"),
        "In" => Ok(Operator::In(values)),
        "NotIn" => Ok(Operator::NotIn(values)),
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            invalid("values set must be empty for exists and does not exist")
        }
        "Exists" => Ok(Operator::Exists),
        "DoesNotExist" => Ok(Operator::DoesNotExist),
        "Gt" => number().map(Operator::Gt),
        "Lt" => number().map(Operator::Lt),
        other => Err(format!(
            "{path}.operator: Unsupported value: {other:?}: supported values: \"DoesNotExist\", \"Exists\", \"Gt\", \"In\", \
             \"Lt\", \"NotIn\""
        )),
    }
}

fn field(path: &str, requirement: &NodeSelectorRequirement) -> Result<(bool, String, String), String> {
    let wanted = match requirement.operator.as_str() {
        "In" => true,
        "NotIn" => false,
        other => {
            return Err(format!("{path}.operator: Unsupported value: {other:?}: supported values: \"In\", \"NotIn\""));
        }
    };
    match requirement.values.as_deref().unwrap_or_default() {
        [value] => Ok((wanted, requirement.key.clone(), value.clone())),
        values => Err(format!("{path}.values: Invalid value: {}: must have one element", quoted(values))),
    }
}

fn quoted(values: &[String]) -> String {
    format!("[{}]", values.iter().map(|value| format!("{value:?}")).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(json: serde_json::Value) -> Result<NodeSelector, String> {
        NodeSelector::new(&serde_json::from_value(json).unwrap())
    }

    #[test]
    fn terms_are_alternatives_and_requirements_add_up() {
        let labels = BTreeMap::from([("zone".to_owned(), "a".to_owned()), ("size".to_owned(), "4".to_owned())]);
        let node = PlainNode { name: "n1", labels: &labels, allocatable: &BTreeMap::new() };
        let requirement = |key: &str, operator: &str, values: &[&str]| serde_json::json!({"key": key, "operator": operator, "values": values});
        for (expressions, matches) in [
            (vec![requirement("zone", "In", &["a", "b"])], true),
            (vec![requirement("zone", "In", &["b"])], false),
            (vec![requirement("zone", "NotIn", &["b"]), requirement("rack", "NotIn", &["x"])], true),
            (vec![requirement("zone", "Exists", &[]), requirement("rack", "DoesNotExist", &[])], true),
            (vec![requirement("size", "Gt", &["3"]), requirement("size", "Lt", &["5"])], true),
            (vec![requirement("size", "Gt", &["4"])], false),
            (vec![requirement("zone", "Gt", &["0"])], false),
            (vec![], false),
        ] {
            let terms = serde_json::json!({"nodeSelectorTerms": [{"matchExpressions": expressions}]});
            assert_eq!(selector(terms.clone()).unwrap().matches(&node), matches, "{terms}");
        }
        let by_name = serde_json::json!({"nodeSelectorTerms": [
            {"matchFields": [requirement("metadata.name", "In", &["n2"])]},
            {"matchFields": [requirement("metadata.name", "In", &["n1"])]},
        ]});
        assert!(selector(by_name).unwrap().matches(&node));
        assert!(!selector(serde_json::json!({"nodeSelectorTerms": []})).unwrap().matches(&node));
    }

    #[test]
    fn a_selector_that_cannot_be_meant_is_an_error() {
        for (key, operator, values) in
            [("a", "In", vec![]), ("a", "Exists", vec!["x"]), ("a", "Gt", vec!["x"]), ("a", "Is", vec!["x"])]
        {
            let terms = serde_json::json!({"nodeSelectorTerms": [
                {"matchExpressions": [{"key": key, "operator": operator, "values": values}]}
            ]});
            assert!(selector(terms).is_err(), "{operator}");
        }
    }
}
