//! What has been seen of pods so far, by owner and by template, and what it makes of a pod in numbers.

use rustc_hash::FxHashMap;

/// How many numbers describe a pod to the predictor.
pub const FEATURES: usize = 14;

/// What the numbers are.
pub const FEATURE_NAMES: [&str; FEATURES] = [
    "cpu",
    "memory",
    "group",
    "hour-sin",
    "hour-cos",
    "owner-ended",
    "owner-ended-share",
    "owner-life",
    "owner-known",
    "template-ended",
    "template-life",
    "priority",
    "gpus",
    "owner-running",
];

/// What a scheduler sees of a pod, beside its history.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Seen {
    /// Thousandths of a core.
    pub cpu_milli: i64,
    /// Bytes.
    pub memory: i64,
    /// The priority.
    pub priority: i32,
    /// How many GPUs.
    pub gpus: u32,
    /// Who it belongs to.
    pub owner: Option<u64>,
    /// Its template.
    pub template: u64,
    /// How many pods of its owner there are, itself included.
    pub group: u32,
    /// When it came, in seconds on the clock of the cluster.
    pub arrived: f32,
}

/// How pods of one kind fared.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Fate {
    ended: u32,
    /// Sum over those that ended of the logarithm to base 2 of their lifetime in hours.
    life: f32,
}

impl Fate {
    fn mean(&self) -> f32 {
        if self.ended == 0 { 0.0 } else { self.life / self.ended as f32 }
    }
}

/// How pods fared so far.
#[derive(Debug, Clone, Default)]
pub struct History {
    owners: FxHashMap<u64, Fate>,
    templates: FxHashMap<u64, Fate>,
}

/// Templates forget, so that what was long ago weighs less: beyond so many pods, each new one takes the place of a mean one.
const TEMPLATE_MEMORY: u32 = 1000;

impl History {
    /// A pod ended after so many seconds.
    pub fn ended(&mut self, pod: &Seen, lifetime_seconds: f32) {
        // Half a minute more keeps the logarithm of the shortest in bounds.
        let life = ((lifetime_seconds.max(0.0) + 30.0) / 3600.0).log2();
        if let Some(owner) = pod.owner {
            let fate = self.owners.entry(owner).or_default();
            *fate = Fate { ended: fate.ended + 1, life: fate.life + life };
        }
        let fate = self.templates.entry(pod.template).or_default();
        if fate.ended < TEMPLATE_MEMORY {
            *fate = Fate { ended: fate.ended + 1, life: fate.life + life };
        } else {
            fate.life += life - fate.mean();
        }
    }

    /// Changes whenever the owner's past changed enough to look at its pods anew.
    pub fn chapter(&self, owner: Option<u64>) -> u32 {
        let ended = owner.and_then(|owner| self.owners.get(&owner)).map_or(0, |fate| fate.ended);
        // Every end at first, then every fifth doubling of them.
        (log2(1.0 + ended as f32) * 5.0) as u32
    }

    /// The pod in numbers, each within about -2 to 2.
    pub fn features(&self, pod: &Seen) -> [f32; FEATURES] {
        let owner = pod.owner.and_then(|owner| self.owners.get(&owner)).copied().unwrap_or_default();
        let template = self.templates.get(&pod.template).copied().unwrap_or_default();
        let group = pod.group.max(1) as f32;
        let day = pod.arrived / 86_400.0 * std::f32::consts::TAU;
        [
            log2(pod.cpu_milli.max(1) as f32 / 1000.0) / 4.0,
            log2(pod.memory.max(1) as f32 / (1_u64 << 30) as f32) / 4.0,
            log2(group) / 8.0,
            libm::sinf(day),
            libm::cosf(day),
            log2(1.0 + owner.ended as f32) / 8.0,
            owner.ended as f32 / (owner.ended as f32 + group),
            owner.mean() / 8.0,
            f32::from(u8::from(owner.ended > 0)),
            log2(1.0 + template.ended as f32) / 8.0,
            template.mean() / 8.0,
            f32::from(u8::from(pod.priority > 0)),
            log2(1.0 + pod.gpus as f32) / 4.0,
            log2(1.0 + group) / 8.0,
        ]
    }
}

/// The same on every machine.
fn log2(value: f32) -> f32 {
    libm::log2f(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_whose_pods_ended_soon_is_told_from_one_whose_did_not() {
        let mut history = History::default();
        let of = |owner| Seen { owner: Some(owner), cpu_milli: 1000, memory: 1 << 30, group: 3, ..Seen::default() };
        for _ in 0..3 {
            history.ended(&of(1), 600.0);
            history.ended(&of(2), 86_400.0);
        }
        let life = |owner| history.features(&of(owner))[7];
        assert!(life(1) < 0.0 && life(2) > 0.3, "{} {}", life(1), life(2));
        assert_eq!(history.features(&of(3))[8], 0.0);
        assert!(history.chapter(Some(1)) > history.chapter(Some(3)));
        assert!(history.features(&of(1)).iter().all(|value| value.is_finite() && value.abs() < 3.0));
    }
}
