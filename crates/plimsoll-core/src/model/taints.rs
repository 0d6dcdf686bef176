//! Taints of nodes and tolerations of pods.

use super::intern::{Interner, Sym};
use k8s_openapi::api::core::v1 as api;

/// The taint that an unschedulable node is taken to carry.
pub const UNSCHEDULABLE_TAINT: &str = "node.kubernetes.io/unschedulable";

/// What a taint does to pods that do not tolerate it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Effect {
    /// They are not placed.
    NoSchedule,
    /// They are placed elsewhere if possible.
    PreferNoSchedule,
    /// They are not placed, and evicted if already there.
    NoExecute,
    /// An effect this version does not know: it repels nobody and no named toleration matches it.
    Unknown,
}

impl Effect {
    fn parse(text: &str) -> Self {
        match text {
            "NoSchedule" => Self::NoSchedule,
            "PreferNoSchedule" => Self::PreferNoSchedule,
            "NoExecute" => Self::NoExecute,
            _ => Self::Unknown,
        }
    }

    /// Whether an untolerated taint of this effect keeps pods away.
    pub fn forbids(self) -> bool {
        matches!(self, Self::NoSchedule | Self::NoExecute)
    }
}

/// A taint of a node.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Taint {
    /// Its key.
    pub key: Sym,
    /// Its value, empty if absent.
    pub value: Sym,
    /// What it does.
    pub effect: Effect,
}

impl Taint {
    /// Interns a taint.
    pub fn compile(taint: &api::Taint, strings: &mut Interner) -> Self {
        Self {
            key: strings.intern(&taint.key),
            value: strings.intern(taint.value.as_deref().unwrap_or_default()),
            effect: Effect::parse(&taint.effect),
        }
    }
}

/// A toleration of a pod.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Toleration {
    /// The taint's key; none tolerates every key.
    key: Option<Sym>,
    /// The taint's value to equal; none accepts every value.
    value: Option<Sym>,
    /// The taint's effect; none accepts every effect.
    effect: Option<Effect>,
}

impl Toleration {
    /// Interns a toleration; none if its operator is one that never matches.
    pub fn compile(toleration: &api::Toleration, strings: &mut Interner) -> Option<Self> {
        let some = |text: &Option<String>| text.as_deref().filter(|text| !text.is_empty()).map(str::to_owned);
        let value = match toleration.operator.as_deref().unwrap_or_default() {
            "" | "Equal" => Some(strings.intern(toleration.value.as_deref().unwrap_or_default())),
            "Exists" => None,
            // Gt and Lt are behind a gate that is off; anything else is unknown: neither tolerates a thing.
            _ => return None,
        };
        let effect = some(&toleration.effect).map(|text| Effect::parse(&text));
        if effect == Some(Effect::Unknown) {
            return None;
        }
        Some(Self { key: some(&toleration.key).map(|key| strings.intern(&key)), value, effect })
    }

    /// Whether the pod may live with this taint.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.effect.is_none_or(|effect| effect == taint.effect)
            && self.key.is_none_or(|key| key == taint.key)
            && self.value.is_none_or(|value| value == taint.value)
    }

    /// Whether the toleration is about taints that only discourage.
    pub fn covers_prefer_no_schedule(&self) -> bool {
        self.effect.is_none_or(|effect| effect == Effect::PreferNoSchedule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerations_match_key_value_and_effect() {
        let mut strings = Interner::default();
        let taint = Taint { key: strings.intern("gpu"), value: strings.intern("a"), effect: Effect::NoSchedule };
        let table: &[(&str, &str, &str, &str, bool)] = &[
            ("gpu", "Equal", "a", "NoSchedule", true),
            ("gpu", "", "a", "", true),
            ("gpu", "Equal", "b", "", false),
            ("gpu", "Exists", "", "NoExecute", false),
            ("", "Exists", "", "", true),
            ("", "Equal", "a", "", true),
            ("spot", "Exists", "", "", false),
            ("gpu", "Gt", "1", "", false),
        ];
        for (key, operator, value, effect, expected) in table {
            let toleration = Toleration::compile(
                &api::Toleration {
                    key: Some((*key).into()),
                    operator: Some((*operator).into()),
                    value: Some((*value).into()),
                    effect: Some((*effect).into()),
                    ..Default::default()
                },
                &mut strings,
            );
            let tolerated = toleration.is_some_and(|toleration| toleration.tolerates(&taint));
            assert_eq!(tolerated, *expected, "{key} {operator} {value} {effect}");
        }
    }
}
