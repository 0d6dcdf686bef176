//! Node selectors and node affinity: which nodes a pod asks for and which it prefers.

use super::intern::{Interner, Sym};
use super::labels::{LabelSet, Requirement, Selector};
use super::validation::{aggregate, as_json};
use k8s_openapi::api::core::v1 as api;
use std::collections::BTreeMap;

/// One alternative of a node selector: all of its conditions must hold.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct NodeSelectorTerm {
    labels: Box<[Requirement]>,
    /// Conditions on `metadata.name`: the name, and whether it must be equal.
    names: Box<[(Sym, bool)]>,
    /// A condition on another field, which no node has: `In` can never hold.
    impossible: bool,
}

impl NodeSelectorTerm {
    /// Compiles a term that stands at `path`. `Ok(None)` is an empty term, which matches nothing and is left out.
    pub fn compile(
        path: &str,
        term: &api::NodeSelectorTerm,
        strings: &mut Interner,
    ) -> Result<Option<Self>, Vec<String>> {
        let expressions = term.match_expressions.as_deref().unwrap_or_default();
        let fields = term.match_fields.as_deref().unwrap_or_default();
        if expressions.is_empty() && fields.is_empty() {
            return Ok(None);
        }
        let mut errors = Vec::new();
        let mut labels = Vec::new();
        for (index, expression) in expressions.iter().enumerate() {
            let (path, operator) = (format!("{path}.matchExpressions[{index}]."), expression.operator.as_str());
            if !LABEL_OPERATORS.contains(&operator) {
                errors.push(unsupported(&path, operator, &LABEL_OPERATORS));
                continue;
            }
            match Requirement::compile(&path, &expression.key, operator, expression.values.as_deref(), strings) {
                Ok(requirement) => labels.push(requirement),
                Err(more) => errors.extend(more),
            }
        }
        let (mut names, mut impossible) = (Vec::new(), false);
        for (index, field) in fields.iter().enumerate() {
            let (path, operator) = (format!("{path}.matchFields[{index}]."), field.operator.as_str());
            if !FIELD_OPERATORS.contains(&operator) {
                errors.push(unsupported(&path, operator, &FIELD_OPERATORS));
                continue;
            }
            let equal = operator == "In";
            let [value] = field.values.as_deref().unwrap_or_default() else {
                let values = as_json(field.values.as_deref());
                errors.push(format!("{path}values: Invalid value: {values}: must have one element"));
                continue;
            };
            // Only the name is a known field; any other is always empty.
            if field.key == "metadata.name" {
                names.push((strings.intern(value), equal));
            } else if value.is_empty() != equal {
                impossible = true;
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        Ok(Some(Self { labels: labels.into(), names: names.into(), impossible }))
    }

    /// Whether a node with this name and these labels meets the term.
    pub fn matches(&self, name: Sym, labels: &LabelSet, strings: &Interner) -> bool {
        !self.impossible
            && self.labels.iter().all(|requirement| requirement.accepts(labels.get(requirement.key), strings))
            && self.names.iter().all(|&(wanted, equal)| (wanted == name) == equal)
    }
}

/// What a node selector can ask of a label.
const LABEL_OPERATORS: [&str; 6] = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];
/// What a node selector can ask of a field.
const FIELD_OPERATORS: [&str; 2] = ["In", "NotIn"];

fn unsupported(path: &str, operator: &str, supported: &[&str]) -> String {
    let supported = supported.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
    format!("{path}operator: Unsupported value: {operator:?}: supported values: {supported}")
}

/// A term with the weight it adds to the nodes that meet it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PreferredTerm {
    /// What the node must meet.
    pub term: NodeSelectorTerm,
    /// What that is worth.
    pub weight: i32,
}

/// Everything a pod says about nodes by label or name.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct NodeAffinity {
    /// `spec.nodeSelector`, if there is one.
    pub selector: Option<Selector>,
    /// Required alternatives; a term that cannot be read matches no node and is left out.
    pub required: Option<Box<[NodeSelectorTerm]>>,
    /// The nodes that the required terms name, when every term names some: no other node needs a look.
    pub named: Option<Box<[Sym]>>,
    /// Preferred terms, or why they cannot be read.
    pub preferred: Option<Result<Box<[PreferredTerm]>, String>>,
}

impl NodeAffinity {
    /// Compiles the node selector and node affinity of a pod.
    pub fn compile(
        selector: Option<&BTreeMap<String, String>>,
        affinity: Option<&api::NodeAffinity>,
        strings: &mut Interner,
    ) -> Self {
        let required = affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
        let preferred = affinity.and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_deref());
        Self {
            selector: selector.map(|labels| Selector::from_map(Some(labels), strings)),
            required: required.map(|required| {
                required
                    .node_selector_terms
                    .iter()
                    .filter_map(|term| NodeSelectorTerm::compile("", term, strings).ok().flatten())
                    .collect()
            }),
            named: required.and_then(|required| named_nodes(&required.node_selector_terms, strings)),
            preferred: preferred.map(|terms| Self::compile_preferred(terms, strings)),
        }
    }

    /// Compiles weighted terms; those without weight or conditions count for nothing.
    pub fn compile_preferred(
        terms: &[api::PreferredSchedulingTerm],
        strings: &mut Interner,
    ) -> Result<Box<[PreferredTerm]>, String> {
        let (mut compiled, mut errors) = (Vec::new(), Vec::new());
        for (index, preferred) in terms.iter().enumerate().filter(|(_, term)| term.weight != 0) {
            match NodeSelectorTerm::compile(&format!("[{index}]"), &preferred.preference, strings) {
                Ok(term) => compiled.extend(term.map(|term| PreferredTerm { term, weight: preferred.weight })),
                Err(more) => errors.extend(more),
            }
        }
        if errors.is_empty() { Ok(compiled.into()) } else { Err(aggregate(errors)) }
    }

    /// Whether the pod says nothing that a node could fail.
    pub fn is_unconstrained(&self) -> bool {
        self.selector.is_none() && self.required.is_none()
    }

    /// Whether a node meets the node selector and the required affinity.
    pub fn accepts(&self, name: Sym, labels: &LabelSet, strings: &Interner) -> bool {
        self.selector.as_ref().is_none_or(|selector| selector.matches(labels, strings))
            && self.required.as_ref().is_none_or(|terms| terms.iter().any(|term| term.matches(name, labels, strings)))
    }
}

/// The nodes named by `metadata.name In`, when every term names some; a term may name several that contradict.
fn named_nodes(terms: &[api::NodeSelectorTerm], strings: &mut Interner) -> Option<Box<[Sym]>> {
    if terms.is_empty() {
        return None;
    }
    let mut named = Vec::new();
    for term in terms {
        let mut names: Option<Vec<&String>> = None;
        for field in term.match_fields.iter().flatten() {
            if field.key == "metadata.name" && field.operator == "In" {
                let values = field.values.iter().flatten();
                names = Some(match names {
                    None => values.collect(),
                    Some(before) => values.filter(|value| before.contains(value)).collect(),
                });
            }
        }
        named.extend(names?.into_iter().map(|name| strings.intern(name)));
    }
    named.sort_unstable();
    named.dedup();
    Some(named.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn compile(strings: &mut Interner, required: serde_json::Value) -> NodeAffinity {
        let affinity: api::NodeAffinity =
            serde_json::from_value(json!({"requiredDuringSchedulingIgnoredDuringExecution": required})).unwrap();
        NodeAffinity::compile(None, Some(&affinity), strings)
    }

    #[test]
    fn terms_are_alternatives_and_empty_terms_match_nothing() {
        let mut strings = Interner::default();
        let labels = LabelSet::compile(Some(&[("disk".to_owned(), "ssd".to_owned())].into()), &mut strings);
        let name = strings.intern("n1");
        let either = compile(
            &mut strings,
            json!({"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["hdd"]}]},
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}),
        );
        assert!(either.accepts(name, &labels, &strings));
        assert!(either.named.is_none(), "the first term names no node, so every node needs a look");
        let empty = compile(&mut strings, json!({"nodeSelectorTerms": [{}]}));
        assert!(!empty.accepts(name, &labels, &strings));
    }

    #[test]
    fn contradicting_names_leave_no_node() {
        let mut strings = Interner::default();
        let none = compile(
            &mut strings,
            json!({"nodeSelectorTerms": [{"matchFields": [
            {"key": "metadata.name", "operator": "In", "values": ["a"]},
            {"key": "metadata.name", "operator": "In", "values": ["b"]}]}]}),
        );
        assert_eq!(none.named.as_deref(), Some(&[][..]));
    }
}
