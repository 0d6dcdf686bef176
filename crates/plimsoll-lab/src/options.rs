//! What a lab is made of.

use crate::{Binaries, Shape};
use std::path::PathBuf;

/// Who schedules the pods of a lab.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Scheduler {
    /// Nobody: pods stay pending until someone binds them.
    #[default]
    None,
    /// The stock kube-scheduler, with its own configuration or a `KubeSchedulerConfiguration` file.
    Stock {
        /// The file; its client connection and leader election are replaced by the lab's.
        config: Option<PathBuf>,
        /// Another build of kube-scheduler than the lab's, such as one with plugins of one's own.
        program: Option<PathBuf>,
    },
    /// `PROGRAM run --kubeconfig FILE ARGUMENTS`.
    Plimsoll {
        /// The `plimsoll` to run.
        program: PathBuf,
        /// What follows the kubeconfig.
        arguments: Vec<String>,
    },
}

impl Scheduler {
    /// The stock kube-scheduler as it comes.
    pub fn stock() -> Self {
        Self::Stock { config: None, program: None }
    }

    /// The name of the component in the lab's state and logs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Stock { .. } => "kube-scheduler",
            Self::Plimsoll { .. } => "plimsoll",
        }
    }
}

/// What a lab is to be made of. The default is a control plane without nodes and without scheduler.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// How many nodes are created.
    pub nodes: usize,
    /// What they look like, in turn; where there is none, [`Shape::default`].
    pub shapes: Vec<Shape>,
    /// Who schedules.
    pub scheduler: Scheduler,
    /// The folder of the lab; a new one in the folder for temporary files where there is none.
    pub folder: Option<PathBuf>,
    /// The programs of the control plane; searched for where there are none.
    pub binaries: Option<Binaries>,
    /// `Name=true` or `Name=false`, for every component of Kubernetes.
    pub feature_gates: Vec<String>,
    /// `group/version=true` and the like, for the API server.
    pub runtime_config: Vec<String>,
    /// More arguments of the API server, each with its dashes.
    pub apiserver_arguments: Vec<String>,
    /// Only etcd, the API server and the scheduler: nobody plays controllers and kubelets, nodes are ready and stay so, pods that are bound do
    /// not run. For measurements of schedulers, from which the others would take processor time.
    pub bare: bool,
    /// A Prometheus beside it, which reads what the nodes' exporters would tell; not with `bare`.
    pub telemetry: bool,
    /// How long a node's lease lasts, in seconds; where there is none, by the number of nodes.
    pub lease_seconds: Option<u32>,
}

impl Options {
    /// How long a node's lease lasts: 40 s as with kubelets, longer with many nodes, since each lease is written four times in that span
    /// and more than about a hundred writes a second would take the machine away from what is tested.
    pub(crate) fn lease_seconds(&self) -> u32 {
        const WRITES_PER_SECOND: usize = 100;
        const RENEWALS: usize = 4;
        let by_load = u32::try_from(self.nodes * RENEWALS / WRITES_PER_SECOND).unwrap_or(u32::MAX);
        self.lease_seconds.unwrap_or(by_load.max(40))
    }
}
