//! What is measured together, and where it is written.

use crate::case::{ADVISED, CASES, Case, LARGE};
use crate::contest::Contestant;

/// Cases, and who takes part in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Suite {
    /// Schedulers on the cases of scheduler_perf.
    Live,
    /// kube-scheduler by itself, and with our advice.
    Adviser,
    /// Schedulers on the largest cluster.
    Scale,
}

impl Suite {
    /// What is measured.
    pub fn cases(self) -> &'static [Case] {
        match self {
            Self::Live => &CASES,
            Self::Adviser => &ADVISED,
            Self::Scale => &LARGE,
        }
    }

    /// Who takes part.
    pub fn contestants(self) -> &'static [Contestant] {
        match self {
            Self::Live => &[Contestant::NullBinder, Contestant::Stock, Contestant::Plimsoll, Contestant::Model],
            Self::Adviser => &[Contestant::Stock, Contestant::Extender, Contestant::Plugin],
            Self::Scale => &[Contestant::Stock, Contestant::Plimsoll],
        }
    }

    /// The make target.
    pub fn target(self) -> &'static str {
        match self {
            Self::Live => "bench-live",
            Self::Adviser => "bench-adviser",
            Self::Scale => "bench-scale",
        }
    }

    /// The report.
    pub fn page(self) -> &'static str {
        match self {
            Self::Live => "docs/benchmarks-live.md",
            Self::Adviser => "docs/benchmarks-adviser.md",
            Self::Scale => "docs/benchmarks-scale.md",
        }
    }

    /// The figures.
    pub fn data(self) -> &'static str {
        match self {
            Self::Live => "target/bench/live.json",
            Self::Adviser => "target/bench/adviser.json",
            Self::Scale => "target/bench/scale.json",
        }
    }

    /// The head of the report.
    pub fn title(self) -> &'static str {
        match self {
            Self::Live => "Benchmarks of the live scheduler",
            Self::Adviser => "Benchmarks of the adviser",
            Self::Scale => "Very large clusters",
        }
    }

    /// Who the contestants are.
    pub fn who(self) -> &'static str {
        match self {
            Self::Live => {
                "The null binder (`lab/cmd/null-binder`, client-go with protobuf, 32 connections for bindings and 32 for events) binds pods to nodes in \
                 turn, without a thought. Plimsoll lets bindings go before events where both wait for the API server, which the null binder does \
                 not: compare them with events. Plimsoll's model is `models/packing`."
            }
            Self::Adviser => {
                "kube-scheduler by itself, with `plimsoll serve --policy models/packing` as an extender that gives points (`nodeCacheCapable`), and with our plugin, \
                 which asks the same server. What the server takes of the two cores is missing from kube-scheduler; its memory is not in the table."
            }
            Self::Scale => {
                "Each pod may go to one node alone, as those that a DaemonSet makes: two to each node. scheduler_perf has them all go to one node with room \
                 for them all."
            }
        }
    }
}
