//! What may be held at most, and whether a request stays within it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// How long a block is held without a sign of its owner, unless the owner says otherwise.
const TTL_SECONDS: f64 = 30.0;

/// How processors are kept busy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CpuKind {
    /// A loop that does nothing.
    #[default]
    Spin,
    /// Fibonacci numbers by recursion: calls, branches and additions.
    Fibonacci,
}

/// What is to be held.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct BlockRequest {
    /// Cores; a fraction is busy for that part of the time.
    pub cpu: f64,
    /// How they are kept busy.
    pub cpu_kind: CpuKind,
    /// Memory in MiB, written to.
    pub memory_mib: u64,
    /// Writes to disk, in MiB a second.
    pub disk_mib_per_s: f64,
    /// Datagrams, in MiB a second.
    pub network_mib_per_s: f64,
    /// Where datagrams go, as `host:port`; to this machine itself if absent.
    pub network_target: Option<String>,
    /// How long it is held.
    pub seconds: f64,
    /// How long it is held without a heartbeat; 30 if absent.
    pub ttl_seconds: Option<f64>,
}

impl BlockRequest {
    /// How long it is held without a heartbeat.
    pub fn ttl(&self) -> f64 {
        self.ttl_seconds.unwrap_or(TTL_SECONDS)
    }
}

/// The most that all blocks may hold together.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Cores.
    pub cpu: f64,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Writes to disk, in MiB a second.
    pub disk_mib_per_s: f64,
    /// Datagrams, in MiB a second.
    pub network_mib_per_s: f64,
    /// How long one block may be held.
    pub seconds: f64,
    /// The longest time without a heartbeat that one may ask for.
    pub ttl_seconds: f64,
    /// How many blocks there may be.
    pub blocks: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // Enough to be seen on any node, too little to harm one.
            cpu: 1.0,
            memory_mib: 256,
            disk_mib_per_s: 10.0,
            network_mib_per_s: 10.0,
            seconds: 3600.0,
            ttl_seconds: 300.0,
            blocks: 16,
        }
    }
}

/// Why nothing is held.
#[derive(Debug, Error, PartialEq)]
pub enum OverLimit {
    /// A value is not one.
    #[error("{field} is {asked}: it must be a number, and not negative")]
    NotANumber {
        /// Which.
        field: &'static str,
        /// As it was given.
        asked: f64,
    },
    /// A time is none.
    #[error("{field} is {asked}: it must be more than 0")]
    NoTime {
        /// Which.
        field: &'static str,
        /// As it was given.
        asked: f64,
    },
    /// There is nothing to hold.
    #[error("nothing is asked for: give cpu, memoryMib, diskMibPerS or networkMibPerS")]
    Nothing,
    /// Together with what is held it would be too much.
    #[error("{field} of {asked} with {held} held already is over the limit: blocker.limits.{limit} is {most}")]
    Over {
        /// Which.
        field: &'static str,
        /// As it was given.
        asked: f64,
        /// What the others hold.
        held: f64,
        /// Its name in the configuration.
        limit: &'static str,
        /// The limit.
        most: f64,
    },
}

impl Limits {
    /// Says what is wrong with them.
    pub fn check(&self) -> Result<(), String> {
        let year = 31_536_000.0;
        let values = [
            // Each core is a thread.
            ("cpu", self.cpu, 4096.0),
            ("memory_mib", self.memory_mib as f64, 67_108_864.0),
            ("disk_mib_per_s", self.disk_mib_per_s, 1e6),
            ("network_mib_per_s", self.network_mib_per_s, 1e6),
            ("seconds", self.seconds, year),
            ("ttl_seconds", self.ttl_seconds, year),
        ];
        for (name, value, most) in values {
            if !(0.0..=most).contains(&value) {
                return Err(format!("{name} is {value}: it must be 0 to {most}"));
            }
        }
        Ok(())
    }

    /// Whether a request can be held beside those that are.
    pub fn admit<'a>(
        &self,
        asked: &BlockRequest,
        held: impl Iterator<Item = &'a BlockRequest>,
    ) -> Result<(), OverLimit> {
        let held: Vec<&BlockRequest> = held.collect();
        let sum = |of: fn(&BlockRequest) -> f64| held.iter().fold(0.0, |sum, request| sum + of(request));
        let memory = |request: &BlockRequest| request.memory_mib as f64;
        let rows = [
            ("cpu", asked.cpu, sum(|r| r.cpu), "cpu", self.cpu),
            ("memoryMib", memory(asked), sum(memory), "memory_mib", self.memory_mib as f64),
            ("diskMibPerS", asked.disk_mib_per_s, sum(|r| r.disk_mib_per_s), "disk_mib_per_s", self.disk_mib_per_s),
            (
                "networkMibPerS",
                asked.network_mib_per_s,
                sum(|r| r.network_mib_per_s),
                "network_mib_per_s",
                self.network_mib_per_s,
            ),
            ("seconds", asked.seconds, 0.0, "seconds", self.seconds),
            ("ttlSeconds", asked.ttl(), 0.0, "ttl_seconds", self.ttl_seconds),
            ("blocks", 1.0, held.len() as f64, "blocks", self.blocks as f64),
        ];
        for (field, asked, held, limit, most) in rows {
            if !(asked.is_finite() && asked >= 0.0) {
                return Err(OverLimit::NotANumber { field, asked });
            }
            // Sums of fractions may miss a limit by a rounding error.
            if held + asked > most + 1e-9 {
                return Err(OverLimit::Over { field, asked, held, limit, most });
            }
        }
        for (field, asked) in [("seconds", asked.seconds), ("ttlSeconds", asked.ttl())] {
            if asked == 0.0 {
                return Err(OverLimit::NoTime { field, asked });
            }
        }
        let is_nothing = rows[..4].iter().all(|(_, asked, ..)| *asked == 0.0);
        if is_nothing { Err(OverLimit::Nothing) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request(cpu: f64, memory_mib: u64) -> BlockRequest {
        BlockRequest { cpu, memory_mib, seconds: 10.0, ..BlockRequest::default() }
    }

    #[test]
    fn refusals_name_the_field_and_the_limit() {
        let base = request(0.5, 1);
        let cases = [
            (BlockRequest { cpu: 1.5, ..base.clone() }, "blocker.limits.cpu is 1"),
            (BlockRequest { memory_mib: 257, ..base.clone() }, "blocker.limits.memory_mib is 256"),
            (BlockRequest { disk_mib_per_s: 11.0, ..base.clone() }, "blocker.limits.disk_mib_per_s is 10"),
            (BlockRequest { network_mib_per_s: 11.0, ..base.clone() }, "blocker.limits.network_mib_per_s is 10"),
            (BlockRequest { seconds: 3601.0, ..base.clone() }, "blocker.limits.seconds is 3600"),
            (BlockRequest { ttl_seconds: Some(301.0), ..base.clone() }, "blocker.limits.ttl_seconds is 300"),
            (BlockRequest { cpu: f64::NAN, ..base.clone() }, "cpu is NaN"),
            (BlockRequest { cpu: -1.0, ..base.clone() }, "cpu is -1"),
            (BlockRequest { seconds: f64::INFINITY, ..base.clone() }, "seconds is inf"),
            (BlockRequest { seconds: 0.0, ..base.clone() }, "seconds is 0"),
            (BlockRequest { ttl_seconds: Some(0.0), ..base.clone() }, "ttlSeconds is 0"),
            (request(0.0, 0), "nothing is asked for"),
        ];
        for (request, expected) in cases {
            let error = Limits::default().admit(&request, std::iter::empty()).unwrap_err().to_string();
            assert!(error.contains(expected), "expected {expected:?} in {error:?}");
        }
        assert_eq!(Limits::default().admit(&base, std::iter::empty()), Ok(()));
    }

    #[test]
    fn there_are_only_so_many_blocks() {
        let limits = Limits { blocks: 1, ..Limits::default() };
        let error = limits.admit(&request(0.1, 0), [&request(0.1, 0)].into_iter()).unwrap_err().to_string();
        assert!(error.contains("blocks of 1 with 1 held already"), "{error}");
        assert!(error.contains("blocker.limits.blocks is 1"), "{error}");
    }

    proptest! {
        #[test]
        fn all_together_never_hold_more_than_the_limits(asked in prop::collection::vec((0.0..2.0f64, 0..300u64), 1..40)) {
            let limits = Limits::default();
            let mut held: Vec<BlockRequest> = Vec::new();
            for (cpu, memory) in asked {
                let request = request(cpu, memory);
                if limits.admit(&request, held.iter()).is_ok() {
                    held.push(request);
                }
            }
            prop_assert!(held.iter().map(|r| r.cpu).sum::<f64>() <= limits.cpu + 1e-6);
            prop_assert!(held.iter().map(|r| r.memory_mib).sum::<u64>() <= limits.memory_mib);
            prop_assert!(held.len() <= limits.blocks);
        }
    }
}
