//! Pod affinity and anti-affinity terms.

use super::intern::{Interner, Sym};
use super::labels::{LabelSet, Selector};
use k8s_openapi::api::core::v1 as api;

/// Which pods a term is about, and the topology in which it counts them.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct AffinityTerm {
    /// Which pods.
    pub pods: PodMatch,
    /// The node label that makes a domain.
    pub topology_key: Sym,
}

/// A set of pods: by namespace and by label.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct PodMatch {
    /// Namespaces by name, sorted.
    pub namespaces: Box<[Sym]>,
    /// Further namespaces, by their labels.
    pub namespace_selector: Selector,
    /// Labels of the pod.
    pub selector: Selector,
}

impl PodMatch {
    /// Whether a pod matches, seen from the pod that owns the term and is already placed.
    ///
    /// `namespace_labels` are those of the other pod's namespace; a namespace that is not known counts as one without
    /// labels.
    pub fn matches_incoming(
        &self,
        namespace: Sym,
        namespace_labels: &LabelSet,
        labels: &LabelSet,
        strings: &Interner,
    ) -> bool {
        (self.namespaces.contains(&namespace) || self.namespace_selector.matches(namespace_labels, strings))
            && self.selector.matches(labels, strings)
    }

    /// Whether a placed pod matches, seen from the incoming pod that owns the term.
    ///
    /// Here a namespace selector picks among the namespaces that exist; one that accepts a namespace without labels (the
    /// empty one, or one that only forbids labels) accepts every namespace: so Kubernetes has it.
    pub fn matches_existing(
        &self,
        namespace: Sym,
        namespace_labels: Option<&LabelSet>,
        labels: &LabelSet,
        strings: &Interner,
    ) -> bool {
        (self.namespaces.contains(&namespace)
            || self.namespace_selector.matches(&LabelSet::default(), strings)
            || namespace_labels.is_some_and(|known| self.namespace_selector.matches(known, strings)))
            && self.selector.matches(labels, strings)
    }

    /// Whether the set depends on the labels of namespaces.
    pub fn depends_on_namespace_labels(&self) -> bool {
        !matches!(self.namespace_selector, Selector::Nothing) && !self.namespace_selector.is_everything()
    }
}

/// A term with its weight.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct WeightedTerm {
    /// The term.
    pub term: AffinityTerm,
    /// What a match is worth.
    pub weight: i32,
}

/// What a pod says about the company of other pods.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct PodAffinity {
    /// Pods it must be with.
    pub required: Box<[AffinityTerm]>,
    /// Pods it must not be with.
    pub required_anti: Box<[AffinityTerm]>,
    /// Pods it would rather be with.
    pub preferred: Box<[WeightedTerm]>,
    /// Pods it would rather not be with.
    pub preferred_anti: Box<[WeightedTerm]>,
    /// Why some of it cannot be read; such a pod cannot be placed.
    pub error: Option<Box<str>>,
}

impl PodAffinity {
    /// Compiles the pod (anti-)affinity of a pod in `namespace`.
    pub fn compile(affinity: Option<&api::Affinity>, namespace: &str, strings: &mut Interner) -> Self {
        let with = affinity.and_then(|a| a.pod_affinity.as_ref());
        let without = affinity.and_then(|a| a.pod_anti_affinity.as_ref());
        let mut errors = Vec::new();
        let mut keep = |field: &str, error: String| errors.push(format!("{field}: {error}"));
        let affinity = Self {
            required: terms(
                with.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_deref()),
                namespace,
                strings,
            )
            .unwrap_or_else(|error| {
                keep("requiredAffinityTerms", error);
                Box::default()
            }),
            required_anti: terms(
                without.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_deref()),
                namespace,
                strings,
            )
            .unwrap_or_else(|error| {
                keep("requiredAntiAffinityTerms", error);
                Box::default()
            }),
            preferred: weighted(
                with.and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_deref()),
                namespace,
                strings,
            )
            .unwrap_or_else(|error| {
                keep("preferredAffinityTerms", error);
                Box::default()
            }),
            preferred_anti: weighted(
                without.and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_deref()),
                namespace,
                strings,
            )
            .unwrap_or_else(|error| {
                keep("preferredAntiAffinityTerms", error);
                Box::default()
            }),
            error: None,
        };
        let error = match errors.len() {
            0 => None,
            1 => errors.pop(),
            _ => Some(format!("[{}]", errors.join(", "))),
        };
        Self { error: error.map(Into::into), ..affinity }
    }

    /// True for a pod that does not care about company.
    pub fn is_empty(&self) -> bool {
        self.required.is_empty()
            && self.required_anti.is_empty()
            && self.preferred.is_empty()
            && self.preferred_anti.is_empty()
    }
}

fn term(term: &api::PodAffinityTerm, namespace: &str, strings: &mut Interner) -> Result<AffinityTerm, String> {
    let mut namespaces: Vec<_> = term.namespaces.iter().flatten().map(|name| strings.intern(name)).collect();
    if namespaces.is_empty() && term.namespace_selector.is_none() {
        namespaces.push(strings.intern(namespace));
    }
    namespaces.sort_unstable();
    namespaces.dedup();
    Ok(AffinityTerm {
        pods: PodMatch {
            namespaces: namespaces.into(),
            // Of two that cannot be read the pod's own selector is complained about.
            selector: Selector::compile(term.label_selector.as_ref(), strings)?,
            namespace_selector: Selector::compile(term.namespace_selector.as_ref(), strings)?,
        },
        topology_key: strings.intern(&term.topology_key),
    })
}

fn terms(
    list: Option<&[api::PodAffinityTerm]>,
    namespace: &str,
    strings: &mut Interner,
) -> Result<Box<[AffinityTerm]>, String> {
    list.unwrap_or_default().iter().map(|t| term(t, namespace, strings)).collect()
}

fn weighted(
    list: Option<&[api::WeightedPodAffinityTerm]>,
    namespace: &str,
    strings: &mut Interner,
) -> Result<Box<[WeightedTerm]>, String> {
    list.unwrap_or_default()
        .iter()
        .map(|w| Ok(WeightedTerm { term: term(&w.pod_affinity_term, namespace, strings)?, weight: w.weight }))
        .collect()
}
