//! Label requirements as they appear in PersistentVolume node affinity, StorageClass topologies, CSIStorageCapacity
//! topologies and claim selectors.

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector as ApiLabelSelector;

use crate::model::validation::{aggregate, requirement_errors};

/// One condition on a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    key: Box<str>,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    In(Box<[Box<str>]>),
    NotIn(Box<[Box<str>]>),
    Exists,
    DoesNotExist,
    Gt(i64),
    Lt(i64),
}

impl Requirement {
    /// Compiles a requirement; the error is worded as Kubernetes does where a user would see it.
    pub fn new(key: &str, operator: &str, values: &[String]) -> Result<Self, String> {
        let problems = requirement_errors("", key, operator, Some(values).filter(|values| !values.is_empty()));
        if !problems.is_empty() {
            return Err(aggregate(problems));
        }
        let list = || values.iter().map(|value| value.as_str().into()).collect();
        let bound = || values.first().and_then(|value| value.parse().ok()).unwrap_or_default();
        let test = match operator {
            "In" => Test::In(list()),
            "NotIn" => Test::NotIn(list()),
            "Exists" => Test::Exists,
            "DoesNotExist" => Test::DoesNotExist,
            "Gt" => Test::Gt(bound()),
            "Lt" => Test::Lt(bound()),
            other => return Err(format!("{other:?} is not a valid label selector operator")),
        };
        Ok(Self { key: key.into(), test })
    }

    /// Whether the labels that `label` looks up satisfy the requirement.
    pub fn matches<'a>(&self, label: &impl Fn(&str) -> Option<&'a str>) -> bool {
        let value = label(&self.key);
        match &self.test {
            Test::In(values) => value.is_some_and(|value| values.iter().any(|v| **v == *value)),
            Test::NotIn(values) => value.is_none_or(|value| values.iter().all(|v| **v != *value)),
            Test::Exists => value.is_some(),
            Test::DoesNotExist => value.is_none(),
            Test::Gt(bound) => integer(value).is_some_and(|value| value > *bound),
            Test::Lt(bound) => integer(value).is_some_and(|value| value < *bound),
        }
    }
}

fn integer(value: Option<&str>) -> Option<i64> {
    value?.parse().ok()
}

/// A node selector: terms joined by OR. Terms that are empty or malformed match no node and are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSelector {
    terms: Box<[Box<[Requirement]>]>,
}

impl NodeSelector {
    /// Compiles a volume's required node affinity.
    ///
    /// A volume is matched against labels alone, so `matchFields` only has to be well formed: it restricts nothing.
    pub fn compile(selector: &core::NodeSelector) -> Self {
        Self { terms: selector.node_selector_terms.iter().filter_map(compile_term).collect() }
    }

    /// Whether a node with these labels is selected.
    pub fn matches<'a>(&self, label: &impl Fn(&str) -> Option<&'a str>) -> bool {
        self.terms.iter().any(|term| term.iter().all(|requirement| requirement.matches(label)))
    }

    /// A label and the values one of which a node must have to be selected, if the selector is of that kind.
    ///
    /// The shortest list wins: a local volume is found by its host name even when it also names its zone.
    pub fn anchor(&self) -> Option<(&str, &[Box<str>])> {
        let [term] = &*self.terms else { return None };
        term.iter()
            .filter_map(|requirement| match &requirement.test {
                Test::In(values) => Some((&*requirement.key, &**values)),
                _ => None,
            })
            .min_by_key(|(_, values)| values.len())
    }
}

fn compile_term(term: &core::NodeSelectorTerm) -> Option<Box<[Requirement]>> {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    if expressions.is_empty() && fields.is_empty() {
        return None;
    }
    let fields_well_formed = fields.iter().all(|field| {
        matches!(field.operator.as_str(), "In" | "NotIn") && field.values.as_ref().is_some_and(|v| v.len() == 1)
    });
    if !fields_well_formed {
        return None;
    }
    expressions
        .iter()
        .map(|e| Requirement::new(&e.key, &e.operator, e.values.as_deref().unwrap_or_default()).ok())
        .collect()
}

/// A label selector: requirements joined by AND; without any it selects everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Box<[Requirement]>,
}

impl LabelSelector {
    /// Compiles a label selector, or says what is wrong with it.
    pub fn compile(selector: &ApiLabelSelector) -> Result<Self, String> {
        let labels = selector.match_labels.iter().flatten();
        let expressions = selector.match_expressions.iter().flatten();
        let requirements = labels
            .map(|(key, value)| Requirement::new(key, "In", std::slice::from_ref(value)))
            .chain(expressions.map(|e| match e.operator.as_str() {
                // Node selectors may compare numbers, label selectors may not.
                "Gt" | "Lt" => Err(format!("{:?} is not a valid label selector operator", e.operator)),
                operator => Requirement::new(&e.key, operator, e.values.as_deref().unwrap_or_default()),
            }))
            .collect::<Result<_, _>>()?;
        Ok(Self { requirements })
    }

    /// Whether labels are selected.
    pub fn matches<'a>(&self, label: &impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|requirement| requirement.matches(label))
    }
}

/// One alternative of a StorageClass' `allowedTopologies`, kept as written because its changes are compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopologyTerm {
    /// Label keys and the values each may have.
    expressions: Vec<(Box<str>, Vec<Box<str>>)>,
    valid: bool,
}

impl TopologyTerm {
    /// Compiles one term.
    pub fn compile(term: &core::TopologySelectorTerm) -> Self {
        let expressions = term.match_label_expressions.as_deref().unwrap_or_default();
        Self {
            valid: expressions.iter().all(|e| Requirement::new(&e.key, "In", &e.values).is_ok()),
            expressions: expressions
                .iter()
                .map(|e| (e.key.as_str().into(), e.values.iter().map(|v| v.as_str().into()).collect()))
                .collect(),
        }
    }

    /// Whether a node with these labels is in the topology; an empty or malformed term holds no node.
    pub fn matches<'a>(&self, label: &impl Fn(&str) -> Option<&'a str>) -> bool {
        self.valid
            && !self.expressions.is_empty()
            && self
                .expressions
                .iter()
                .all(|(key, values)| label(key).is_some_and(|value| values.iter().any(|v| **v == *value)))
    }
}

/// Whether terms joined by OR hold a node; no terms at all hold every node.
pub fn topology_matches<'a>(terms: &[TopologyTerm], label: &impl Fn(&str) -> Option<&'a str>) -> bool {
    terms.is_empty() || terms.iter().any(|term| term.matches(label))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn labels<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<&'a str> {
        move |key| pairs.iter().find(|(k, _)| *k == key).map(|(_, v)| *v)
    }

    fn node_selector(terms: serde_json::Value) -> NodeSelector {
        let api: core::NodeSelector = serde_json::from_value(json!({ "nodeSelectorTerms": terms })).unwrap();
        NodeSelector::compile(&api)
    }

    #[test]
    fn operators_follow_kubernetes_on_present_and_missing_labels() {
        let cases = [
            ("In", vec!["a", "b"], Some("a"), true),
            ("In", vec!["a", "b"], Some("c"), false),
            ("In", vec!["a"], None, false),
            ("NotIn", vec!["a"], Some("b"), true),
            ("NotIn", vec!["a"], Some("a"), false),
            ("NotIn", vec!["a"], None, true),
            ("Exists", vec![], Some(""), true),
            ("Exists", vec![], None, false),
            ("DoesNotExist", vec![], None, true),
            ("DoesNotExist", vec![], Some("x"), false),
            ("Gt", vec!["5"], Some("6"), true),
            ("Gt", vec!["5"], Some("5"), false),
            ("Gt", vec!["5"], Some("six"), false),
            ("Gt", vec!["5"], None, false),
            ("Lt", vec!["5"], Some("-2"), true),
            ("Lt", vec!["5"], Some("5"), false),
        ];
        for (operator, values, label, expected) in cases {
            let values: Vec<String> = values.into_iter().map(str::to_owned).collect();
            let requirement = Requirement::new("k", operator, &values).unwrap();
            let got = requirement.matches(&|_| label);
            assert_eq!(got, expected, "{operator} {values:?} on {label:?}");
        }
    }

    #[test]
    fn malformed_requirements_are_refused() {
        for (key, operator, values) in [
            ("k", "In", vec![]),
            ("k", "Exists", vec!["a"]),
            ("k", "Gt", vec!["a"]),
            ("k", "Gt", vec!["1", "2"]),
            ("k", "Gt", vec!["-1"]),
            ("k", "Like", vec!["a"]),
            ("", "Exists", vec![]),
            ("-k", "Exists", vec![]),
            ("a/b/c", "Exists", vec![]),
            ("Upper.case/k", "Exists", vec![]),
            ("k", "In", vec!["not a value"]),
        ] {
            let values: Vec<String> = values.into_iter().map(str::to_owned).collect();
            assert!(Requirement::new(key, operator, &values).is_err(), "{key:?} {operator} {values:?}");
        }
        assert!(Requirement::new("example.com/k_1", "In", &[String::new()]).is_ok());
    }

    #[test]
    fn node_selector_ignores_empty_and_malformed_terms_but_uses_the_others() {
        let zone_a = json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]});
        let malformed = json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": []}]});
        let in_a = [("zone", "a")];
        let in_b = [("zone", "b")];
        let selector = node_selector(json!([{}, malformed, zone_a]));
        assert!(selector.matches(&labels(&in_a)));
        assert!(!selector.matches(&labels(&in_b)));
        assert!(!node_selector(json!([{}])).matches(&labels(&in_a)));
        assert!(!node_selector(json!([])).matches(&labels(&in_a)));
    }

    #[test]
    fn match_fields_restrict_nothing_when_well_formed() {
        let by_name = json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]);
        assert!(node_selector(by_name).matches(&labels(&[])));
        let two = json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1", "n2"]}]}]);
        assert!(!node_selector(two).matches(&labels(&[])));
    }

    #[test]
    fn anchor_is_the_narrowest_list_of_a_single_term() {
        let host = json!({"key": "host", "operator": "In", "values": ["h1"]});
        let zones = json!({"key": "zone", "operator": "In", "values": ["a", "b"]});
        let selector = node_selector(json!([{"matchExpressions": [zones, host]}]));
        assert_eq!(selector.anchor(), Some(("host", &["h1".into()][..])));
        let two_terms = json!([{"matchExpressions": [zones]}, {"matchExpressions": [host]}]);
        assert_eq!(node_selector(two_terms).anchor(), None);
    }

    #[test]
    fn label_selector_without_requirements_selects_everything() {
        let everything = LabelSelector::compile(&ApiLabelSelector::default()).unwrap();
        assert!(everything.matches(&labels(&[])));
        let api: ApiLabelSelector = serde_json::from_value(
            json!({"matchLabels": {"tier": "gold"}, "matchExpressions": [{"key": "old", "operator": "DoesNotExist"}]}),
        )
        .unwrap();
        let gold = LabelSelector::compile(&api).unwrap();
        assert!(gold.matches(&labels(&[("tier", "gold")])));
        assert!(!gold.matches(&labels(&[("tier", "gold"), ("old", "")])));
        assert!(!gold.matches(&labels(&[])));
    }

    #[test]
    fn label_selector_with_an_unknown_operator_says_so() {
        for operator in ["Gt", "Near"] {
            let api: ApiLabelSelector = serde_json::from_value(
                json!({"matchExpressions": [{"key": "k", "operator": operator, "values": ["1"]}]}),
            )
            .unwrap();
            assert_eq!(
                LabelSelector::compile(&api),
                Err(format!("\"{operator}\" is not a valid label selector operator"))
            );
        }
    }

    #[test]
    fn topology_terms_are_alternatives_and_none_allows_all() {
        let term = |value: serde_json::Value| TopologyTerm::compile(&serde_json::from_value(value).unwrap());
        let zone = |z: &str| term(json!({"matchLabelExpressions": [{"key": "zone", "values": [z]}]}));
        let in_b = [("zone", "b")];
        assert!(topology_matches(&[], &labels(&in_b)));
        assert!(topology_matches(&[zone("a"), zone("b")], &labels(&in_b)));
        assert!(!topology_matches(&[zone("a")], &labels(&in_b)));
        assert!(!topology_matches(&[term(json!({}))], &labels(&in_b)));
        assert!(!topology_matches(&[zone("a")], &labels(&[])));
    }
}
