//! Label sets and selectors in interned form, with the matching rules of Kubernetes.

use super::intern::{Interner, Sym};
use super::validation::{aggregate, requirement_errors};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use std::collections::BTreeMap;

/// The labels of one object, sorted by key.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct LabelSet(Box<[(Sym, Sym)]>);

impl LabelSet {
    /// Interns the labels of an object.
    pub fn compile(labels: Option<&BTreeMap<String, String>>, strings: &mut Interner) -> Self {
        let mut pairs: Vec<_> =
            labels.into_iter().flatten().map(|(key, value)| (strings.intern(key), strings.intern(value))).collect();
        pairs.sort_unstable();
        Self(pairs.into())
    }

    /// The value of `key`, if the object has that label.
    pub fn get(&self, key: Sym) -> Option<Sym> {
        // Label sets are short: a scan of adjacent integers beats a binary search.
        self.0.iter().find(|pair| pair.0 == key).map(|pair| pair.1)
    }

    /// All labels, sorted by the key's symbol.
    pub fn iter(&self) -> impl Iterator<Item = (Sym, Sym)> + '_ {
        self.0.iter().copied()
    }

    /// True for an object without labels.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What a requirement asks of one label.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Operator {
    /// The label is there with one of these values.
    In(Box<[Sym]>),
    /// The label is absent or has another value.
    NotIn(Box<[Sym]>),
    /// The label is there.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// The label is an integer above this one.
    Gt(i64),
    /// The label is an integer below this one.
    Lt(i64),
}

/// One condition of a selector.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Requirement {
    /// The label looked at.
    pub key: Sym,
    /// What is asked of it.
    pub operator: Operator,
}

impl Requirement {
    /// Compiles a requirement that stands at `path`, with the checks `labels.NewRequirement` makes.
    pub fn compile(
        path: &str,
        key: &str,
        operator: &str,
        values: Option<&[String]>,
        strings: &mut Interner,
    ) -> Result<Self, Vec<String>> {
        let list = values.unwrap_or_default();
        let errors = requirement_errors(path, key, operator, values);
        if !errors.is_empty() {
            return Err(errors);
        }
        let mut interned = || {
            let mut symbols: Vec<_> = list.iter().map(|value| strings.intern(value)).collect();
            symbols.sort_unstable();
            symbols.dedup();
            symbols.into_boxed_slice()
        };
        let bound = || list.first().and_then(|value| value.parse().ok()).unwrap_or_default();
        let operator = match operator {
            "In" => Operator::In(interned()),
            "NotIn" => Operator::NotIn(interned()),
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            "Gt" => Operator::Gt(bound()),
            "Lt" => Operator::Lt(bound()),
            other => return Err(vec![format!("{other:?} is not a valid label selector operator")]),
        };
        Ok(Self { key: strings.intern(key), operator })
    }

    /// Asks for exactly this value.
    pub fn equals(key: Sym, value: Sym) -> Self {
        Self { key, operator: Operator::In(Box::new([value])) }
    }

    /// Whether a label's value (or its absence) satisfies the requirement.
    pub fn accepts(&self, value: Option<Sym>, strings: &Interner) -> bool {
        match (&self.operator, value) {
            (Operator::In(values), Some(value)) => values.contains(&value),
            (Operator::NotIn(values), Some(value)) => !values.contains(&value),
            (Operator::NotIn(_) | Operator::DoesNotExist, None) | (Operator::Exists, Some(_)) => true,
            (Operator::Gt(bound), Some(value)) => number(value, strings).is_some_and(|number| number > *bound),
            (Operator::Lt(bound), Some(value)) => number(value, strings).is_some_and(|number| number < *bound),
            _ => false,
        }
    }
}

fn number(value: Sym, strings: &Interner) -> Option<i64> {
    strings.resolve(value).parse().ok()
}

/// A label selector: a conjunction of requirements, or nothing at all.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Selector {
    /// Selects no object (an absent `LabelSelector`).
    Nothing,
    /// Selects what meets every requirement; with none, everything.
    All(Box<[Requirement]>),
}

impl Selector {
    /// A selector of these requirements, in canonical order so that equal selectors compare equal.
    pub fn all(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_unstable();
        requirements.dedup();
        Self::All(requirements.into())
    }

    /// Compiles an API label selector; an absent one selects nothing.
    pub fn compile(selector: Option<&LabelSelector>, strings: &mut Interner) -> Result<Self, String> {
        let Some(selector) = selector else {
            return Ok(Self::Nothing);
        };
        let mut requirements = Vec::new();
        for (key, value) in selector.match_labels.iter().flatten() {
            let values = Some(std::slice::from_ref(value));
            requirements.push(Requirement::compile("", key, "In", values, strings).map_err(aggregate)?);
        }
        for expression in selector.match_expressions.iter().flatten() {
            let operator = expression.operator.as_str();
            if matches!(operator, "Gt" | "Lt") {
                return Err(format!("{operator:?} is not a valid label selector operator"));
            }
            // An empty list is copied on the way and so becomes an absent one.
            let values = expression.values.as_deref().filter(|values| !values.is_empty());
            let requirement = Requirement::compile("", &expression.key, operator, values, strings);
            requirements.push(requirement.map_err(aggregate)?);
        }
        Ok(Self::all(requirements))
    }

    /// A selector that asks for every one of these labels exactly.
    pub fn from_map(labels: Option<&BTreeMap<String, String>>, strings: &mut Interner) -> Self {
        Self::all(
            labels
                .into_iter()
                .flatten()
                .map(|(key, value)| Requirement::equals(strings.intern(key), strings.intern(value)))
                .collect(),
        )
    }

    /// The selector with further requirements; nothing stays nothing.
    pub fn and(&self, more: impl IntoIterator<Item = Requirement>) -> Self {
        match self {
            Self::Nothing => Self::Nothing,
            Self::All(requirements) => Self::all(requirements.iter().cloned().chain(more).collect()),
        }
    }

    /// True for the selector without requirements, which selects everything.
    pub fn is_everything(&self) -> bool {
        matches!(self, Self::All(requirements) if requirements.is_empty())
    }

    /// Whether an object with these labels is selected.
    pub fn matches(&self, labels: &LabelSet, strings: &Interner) -> bool {
        match self {
            Self::Nothing => false,
            Self::All(requirements) => {
                requirements.iter().all(|requirement| requirement.accepts(labels.get(requirement.key), strings))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(strings: &mut Interner, pairs: &[(&str, &str)]) -> LabelSet {
        let map = pairs.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect();
        LabelSet::compile(Some(&map), strings)
    }

    #[test]
    fn operators_match_as_in_kubernetes() {
        let mut strings = Interner::default();
        let node = labels(&mut strings, &[("disk", "ssd"), ("gen", "5"), ("odd", "x1")]);
        let table: &[(&str, &str, &[&str], bool)] = &[
            ("disk", "In", &["ssd", "hdd"], true),
            ("disk", "In", &["hdd"], false),
            ("none", "In", &["hdd"], false),
            ("disk", "NotIn", &["ssd"], false),
            ("none", "NotIn", &["ssd"], true),
            ("disk", "Exists", &[], true),
            ("none", "Exists", &[], false),
            ("disk", "DoesNotExist", &[], false),
            ("none", "DoesNotExist", &[], true),
            ("gen", "Gt", &["4"], true),
            ("gen", "Gt", &["5"], false),
            ("gen", "Lt", &["6"], true),
            ("odd", "Gt", &["0"], false),
            ("none", "Lt", &["9"], false),
        ];
        for (key, operator, values, expected) in table {
            let values: Vec<_> = values.iter().map(|v| (*v).to_owned()).collect();
            let requirement = Requirement::compile("", key, operator, Some(&values), &mut strings).unwrap();
            assert_eq!(
                requirement.accepts(node.get(requirement.key), &strings),
                *expected,
                "{key} {operator} {values:?}"
            );
        }
    }

    #[test]
    fn absent_selector_selects_nothing_and_empty_selector_everything() {
        let mut strings = Interner::default();
        let pod = labels(&mut strings, &[]);
        assert!(!Selector::compile(None, &mut strings).unwrap().matches(&pod, &strings));
        let empty = Selector::compile(Some(&LabelSelector::default()), &mut strings).unwrap();
        assert!(empty.is_everything() && empty.matches(&pod, &strings));
    }
}
