//! Selectors: the two compiled forms, of pods and of volumes, agree on what is wrong and on what matches.
#![no_main]

use k8s_openapi::api::core::v1 as api;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use plimsoll_core::model::{Interner, LabelSet, NodeAffinity, Selector};
use plimsoll_core::storage::selector as volumes;
use std::collections::BTreeMap;

#[derive(Arbitrary, Debug)]
struct Input {
    labels: BTreeMap<String, String>,
    match_labels: BTreeMap<String, String>,
    expressions: Vec<Expression>,
    terms: Vec<Term>,
    name: String,
}

#[derive(Arbitrary, Debug)]
struct Expression {
    key: String,
    operator: Operator,
    values: Option<Vec<String>>,
}

#[derive(Arbitrary, Debug)]
struct Term {
    expressions: Vec<Expression>,
    fields: Vec<Expression>,
}

#[derive(Arbitrary, Debug)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    Gt,
    Lt,
    Other(String),
}

impl Operator {
    fn text(&self) -> String {
        match self {
            Self::Other(text) => text.clone(),
            known => format!("{known:?}"),
        }
    }
}

impl Expression {
    fn of_node(&self) -> api::NodeSelectorRequirement {
        api::NodeSelectorRequirement {
            key: self.key.clone(),
            operator: self.operator.text(),
            values: self.values.clone(),
        }
    }
}

fuzz_target!(|input: Input| {
    let mut strings = Interner::default();
    let labels = LabelSet::compile(Some(&input.labels), &mut strings);
    let look_up = |key: &str| input.labels.get(key).map(String::as_str);

    let expressions = input.expressions.iter().map(|expression| LabelSelectorRequirement {
        key: expression.key.clone(),
        operator: expression.operator.text(),
        values: expression.values.clone(),
    });
    let selector = LabelSelector {
        match_labels: Some(input.match_labels.clone()),
        match_expressions: Some(expressions.collect()),
    };
    match (Selector::compile(Some(&selector), &mut strings), volumes::LabelSelector::compile(&selector)) {
        (Ok(pods), Ok(volumes)) => assert_eq!(pods.matches(&labels, &strings), volumes.matches(&look_up)),
        (pods, volumes) => assert_eq!(pods.err(), volumes.err()),
    }

    let terms = input.terms.iter().map(|term| api::NodeSelectorTerm {
        match_expressions: Some(term.expressions.iter().map(Expression::of_node).collect()),
        match_fields: Some(term.fields.iter().map(Expression::of_node).collect()),
    });
    let selector = api::NodeSelector { node_selector_terms: terms.collect() };
    let affinity = api::NodeAffinity {
        required_during_scheduling_ignored_during_execution: Some(selector.clone()),
        preferred_during_scheduling_ignored_during_execution: Some(
            selector
                .node_selector_terms
                .iter()
                .map(|term| api::PreferredSchedulingTerm { preference: term.clone(), weight: 1 })
                .collect(),
        ),
    };
    let affinity = NodeAffinity::compile(Some(&input.match_labels), Some(&affinity), &mut strings);
    let name = strings.intern(&input.name);
    let accepted = affinity.accepts(name, &labels, &strings);
    let labelled = input.match_labels.iter().all(|(key, value)| input.labels.get(key) == Some(value));
    let without_fields = input.terms.iter().all(|term| term.fields.is_empty());
    if without_fields {
        let volumes = volumes::NodeSelector::compile(&selector);
        assert_eq!(accepted, labelled && volumes.matches(&look_up));
    }
});
