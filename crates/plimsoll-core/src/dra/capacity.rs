//! Capacity of devices that several claims may share, and the counters that partitions of a device share.

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::{CapacityRequestPolicy, CapacityRequirements, DeviceCapacity};

use crate::quantity::{Quantity, QuantityError};

/// Amounts by name.
pub type Amounts = BTreeMap<String, Quantity>;

/// One capacity of a device.
#[derive(Debug, Clone)]
pub struct Capacity {
    /// All there is.
    pub value: Quantity,
    policy: Option<Policy>,
}

/// What a claim may ask for.
#[derive(Debug, Clone)]
struct Policy {
    default: Option<Quantity>,
    range: Option<Range>,
    values: Option<Vec<Quantity>>,
}

#[derive(Debug, Clone)]
struct Range {
    min: Option<Quantity>,
    max: Option<Quantity>,
    step: Option<Quantity>,
}

impl Capacity {
    /// Reads the quantities of a capacity.
    pub fn new(capacity: &DeviceCapacity) -> Result<Self, QuantityError> {
        let policy = capacity.request_policy.as_ref().map(Policy::new).transpose()?;
        Ok(Self { value: Quantity::try_from(&capacity.value)?, policy })
    }

    /// What a request takes of the device, rounded up to what the policy allows.
    pub fn consumed(&self, requested: Option<&Quantity>) -> Quantity {
        let Some(requested) = requested else {
            let default = self.policy.as_ref().and_then(|policy| policy.default.as_ref());
            return default.unwrap_or(&self.value).clone();
        };
        match &self.policy {
            Some(Policy { range: Some(range @ Range { min: Some(min), .. }), .. }) => range.round_up(requested, min),
            Some(Policy { values: Some(values), .. }) => {
                values.iter().find(|value| requested <= *value).unwrap_or(requested).clone()
            }
            _ => requested.clone(),
        }
    }

    /// Whether requests are restricted in any way.
    pub fn has_policy(&self) -> bool {
        self.policy.is_some()
    }

    fn has_default(&self) -> bool {
        self.policy.as_ref().is_some_and(|policy| policy.default.is_some())
    }

    fn violates_policy(&self, consumed: &Quantity) -> bool {
        let Some(policy) = &self.policy else {
            return false;
        };
        match (&policy.range, policy.values.as_deref().unwrap_or_default()) {
            (Some(range), _) => range.violated_by(consumed),
            (None, []) => false,
            (None, values) => !values.contains(consumed),
        }
    }
}

impl Policy {
    fn new(policy: &CapacityRequestPolicy) -> Result<Self, QuantityError> {
        let range = policy.valid_range.as_ref().map(|range| {
            Ok::<_, QuantityError>(Range {
                min: (!range.min.0.is_empty()).then(|| Quantity::try_from(&range.min)).transpose()?,
                max: range.max.as_ref().map(Quantity::try_from).transpose()?,
                step: range.step.as_ref().map(Quantity::try_from).transpose()?,
            })
        });
        let values = policy.valid_values.as_ref().map(|values| values.iter().map(Quantity::try_from).collect());
        Ok(Self {
            default: policy.default.as_ref().map(Quantity::try_from).transpose()?,
            range: range.transpose()?,
            values: values.transpose()?,
        })
    }
}

impl Range {
    fn round_up(&self, requested: &Quantity, min: &Quantity) -> Quantity {
        if requested < min {
            return min.clone();
        }
        let Some(step) = self.step.as_ref().map(Quantity::value).filter(|step| *step != 0) else {
            return requested.clone();
        };
        let added = requested.value().wrapping_sub(min.value());
        let steps = added.wrapping_div(step).wrapping_add(i64::from(added.wrapping_rem(step) != 0));
        Quantity::binary(min.value().wrapping_add(step.wrapping_mul(steps)))
    }

    fn violated_by(&self, consumed: &Quantity) -> bool {
        if self.max.as_ref().is_some_and(|max| consumed > max) {
            return true;
        }
        match (&self.step, &self.min) {
            (Some(step), Some(min)) if step.value() != 0 => {
                consumed.value().wrapping_sub(min.value()).wrapping_rem(step.value()) != 0
            }
            _ => false,
        }
    }
}

/// What a request asks of each capacity.
#[derive(Debug, Clone, Default)]
pub struct Requested(Amounts);

impl Requested {
    /// Reads the quantities of a request.
    pub fn new(requirements: Option<&CapacityRequirements>) -> Result<Self, QuantityError> {
        let requests = requirements.and_then(|requirements| requirements.requests.as_ref());
        let amounts = requests.into_iter().flatten();
        amounts
            .map(|(name, amount)| Ok((name.clone(), Quantity::try_from(amount)?)))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Whether no capacity is asked for.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What the request takes of a device with these capacities.
    pub fn consumed(&self, capacity: &BTreeMap<String, Capacity>) -> Amounts {
        capacity.iter().map(|(name, capacity)| (name.clone(), capacity.consumed(self.0.get(name)))).collect()
    }

    /// Whether the request fits beside what is already taken.
    pub fn fits(&self, capacity: &BTreeMap<String, Capacity>, taken: [Option<&Amounts>; 2]) -> bool {
        if self.0.keys().any(|name| !capacity.contains_key(name)) {
            return false;
        }
        capacity.iter().all(|(name, capacity)| {
            let requested = self.0.get(name);
            let consumed = capacity.consumed(requested);
            // The default is allowed whatever the policy says, but only to those who do not ask.
            if (requested.is_some() || !capacity.has_default()) && capacity.violates_policy(&consumed) {
                return false;
            }
            let taken = taken.iter().flatten().filter_map(|amounts| amounts.get(name));
            taken.fold(consumed, |sum, amount| sum.add(amount)) <= capacity.value
        })
    }
}

/// Adds amounts to others.
pub fn add_amounts(to: &mut Amounts, amounts: &Amounts) {
    for (name, amount) in amounts {
        to.entry(name.clone()).and_modify(|sum| *sum = sum.add(amount)).or_insert_with(|| amount.clone());
    }
}

/// Takes amounts from others; what is not there stays away.
pub fn subtract_amounts(from: &mut Amounts, amounts: &Amounts) {
    for (name, amount) in amounts {
        if let Some(sum) = from.get_mut(name) {
            *sum = sum.sub(amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capacity(json: serde_json::Value) -> Capacity {
        Capacity::new(&serde_json::from_value(json).unwrap()).unwrap()
    }

    fn quantity(text: &str) -> Quantity {
        Quantity::parse(text).unwrap()
    }

    #[test]
    fn a_request_is_rounded_up_to_what_the_policy_allows() {
        let range = capacity(serde_json::json!({"value": "10Gi", "requestPolicy": {
            "default": "1Gi", "validRange": {"min": "2Gi", "max": "8Gi", "step": "2Gi"}}}));
        let values = capacity(serde_json::json!({"value": "10", "requestPolicy": {
            "default": "1", "validValues": ["1", "4", "8"]}}));
        let free = capacity(serde_json::json!({"value": "10"}));
        for (capacity, requested, consumed) in [
            (&range, None, "1Gi"),
            (&range, Some("1Gi"), "2Gi"),
            (&range, Some("3Gi"), "4Gi"),
            (&range, Some("4Gi"), "4Gi"),
            (&values, None, "1"),
            (&values, Some("2"), "4"),
            (&values, Some("9"), "9"),
            (&free, None, "10"),
            (&free, Some("3"), "3"),
        ] {
            let requested = requested.map(quantity);
            assert_eq!(capacity.consumed(requested.as_ref()), quantity(consumed), "{requested:?}");
        }
        assert!(range.violates_policy(&quantity("9Gi")));
        assert!(range.violates_policy(&quantity("3Gi")));
        assert!(values.violates_policy(&quantity("9")));
    }

    #[test]
    fn a_request_fits_beside_what_is_taken() {
        let device = BTreeMap::from([("memory".to_owned(), capacity(serde_json::json!({"value": "10Gi"})))]);
        let request = |amount: &str| Requested(BTreeMap::from([("memory".to_owned(), quantity(amount))]));
        let taken = BTreeMap::from([("memory".to_owned(), quantity("4Gi"))]);
        assert!(request("6Gi").fits(&device, [Some(&taken), None]));
        assert!(!request("7Gi").fits(&device, [Some(&taken), None]));
        assert!(!request("6Gi").fits(&device, [Some(&taken), Some(&taken)]));
        assert!(!Requested::default().fits(&device, [Some(&taken), None]), "no request takes everything");
        let unknown = Requested(BTreeMap::from([("cores".to_owned(), quantity("1"))]));
        assert!(!unknown.fits(&device, [None, None]));
    }

    #[test]
    fn the_default_is_allowed_to_those_who_do_not_ask() {
        let device = BTreeMap::from([(
            "memory".to_owned(),
            capacity(serde_json::json!({"value": "10Gi", "requestPolicy": {
                "default": "1Gi", "validRange": {"min": "2Gi", "max": "3Gi", "step": "2Gi"}}})),
        )]);
        assert!(Requested::default().fits(&device, [None, None]));
        let three = Requested(BTreeMap::from([("memory".to_owned(), quantity("3Gi"))]));
        assert!(!three.fits(&device, [None, None]), "rounded up to 4Gi it is beyond the maximum");
    }

    #[test]
    fn a_step_of_nothing_is_no_step() {
        let odd =
            capacity(serde_json::json!({"value": "10", "requestPolicy": {"validRange": {"min": "1", "step": "0"}}}));
        assert_eq!(odd.consumed(Some(&quantity("3"))), quantity("3"));
        assert!(!odd.violates_policy(&quantity("3")));
    }
}
