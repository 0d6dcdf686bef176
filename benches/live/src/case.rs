//! The cases, as scheduler_perf has them: nodes, what is there already, and the pods that are measured.

use serde_json::{Value, json};

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Its name, after the test case of scheduler_perf.
    pub name: &'static str,
    /// How many nodes there are.
    pub nodes: usize,
    /// How many pods are on the nodes already, four to a node, all of little importance.
    pub running: usize,
    /// How many pods fit nowhere and wait.
    pub hopeless: usize,
    /// How many pods are measured.
    pub pods: usize,
    /// What they ask for.
    pub shape: Shape,
    /// Whether a binder that does not think could do it, too.
    pub null_binder: bool,
}

/// What pods ask for beside room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Nothing.
    Plain,
    /// No two of them on one node.
    AntiAffinity,
    /// Evenly over the zones.
    Spread,
    /// Near each other, if possible.
    PreferredAffinity,
    /// Each on a node that it names, as a DaemonSet has it.
    Daemon,
    /// More important than those that are there, and as large as a node.
    Preempting,
}

/// All cases. Nodes have 4 CPU, 32 GiB and room for 110 pods, as those of scheduler_perf.
pub const CASES: [Case; 6] = [
    Case {
        name: "SchedulingBasic",
        nodes: 5000,
        running: 0,
        hopeless: 0,
        pods: 10_000,
        shape: Shape::Plain,
        null_binder: true,
    },
    Case {
        name: "SchedulingPodAntiAffinity",
        nodes: 5000,
        running: 0,
        hopeless: 0,
        pods: 2000,
        shape: Shape::AntiAffinity,
        null_binder: false,
    },
    Case {
        name: "TopologySpreading",
        nodes: 5000,
        running: 0,
        hopeless: 0,
        pods: 5000,
        shape: Shape::Spread,
        null_binder: false,
    },
    Case {
        name: "SchedulingPreferredPodAffinity",
        nodes: 5000,
        running: 0,
        hopeless: 0,
        pods: 5000,
        shape: Shape::PreferredAffinity,
        null_binder: false,
    },
    Case {
        name: "PreemptionAsync",
        nodes: 500,
        running: 2000,
        hopeless: 0,
        pods: 500,
        shape: Shape::Preempting,
        null_binder: false,
    },
    Case {
        name: "Unschedulable",
        nodes: 5000,
        running: 0,
        hopeless: 1000,
        pods: 5000,
        shape: Shape::Plain,
        null_binder: false,
    },
];

/// What kube-scheduler is measured on with advice and without.
pub const ADVISED: [Case; 1] = [Case {
    name: "SchedulingBasic",
    nodes: 5000,
    running: 0,
    hopeless: 0,
    pods: 5000,
    shape: Shape::Plain,
    null_binder: false,
}];

/// The largest cluster that Kubernetes is said to support is a third of this.
pub const LARGE: [Case; 1] = [Case {
    name: "SchedulingDaemonset",
    nodes: 15_000,
    running: 0,
    hopeless: 0,
    pods: 30_000,
    shape: Shape::Daemon,
    null_binder: false,
}];

impl Case {
    /// With a part of its pods and nodes, to try the benchmark itself.
    pub fn scaled(mut self, part: f64) -> Self {
        let of = |count: usize| (count as f64 * part).round() as usize;
        (self.nodes, self.running, self.hopeless, self.pods) =
            (of(self.nodes), of(self.running), of(self.hopeless), of(self.pods));
        self
    }

    /// The pods that are there before, in the order in which they are created.
    pub fn before(&self) -> Vec<Value> {
        let running = (0..self.running).map(|at| {
            let mut pod = pod(&format!("running-{at}"), "900m", "500Mi");
            pod["spec"]["nodeName"] = json!(format!("node-{}", at / 4));
            pod
        });
        let hopeless = (0..self.hopeless).map(|at| pod(&format!("hopeless-{at}"), "100", "500Mi"));
        running.chain(hopeless).collect()
    }

    /// The pods that are measured.
    pub fn measured(&self) -> Vec<Value> {
        (0..self.pods).map(|at| measured(at, self.shape, self.nodes)).collect()
    }
}

/// What the names of measured pods begin with.
pub const MEASURED: &str = "measured-";

fn pod(name: &str, cpu: &str, memory: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            // No kubelet confirms that a pod has ended.
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "pause", "image": "registry.k8s.io/pause:3.10",
                "resources": {"requests": {"cpu": cpu, "memory": memory}},
            }],
        },
    })
}

fn measured(at: usize, shape: Shape, nodes: usize) -> Value {
    let mut pod = pod(&format!("{MEASURED}{at}"), "100m", "500Mi");
    let near = |key: &str| json!({"labelSelector": {"matchLabels": {"color": "green"}}, "topologyKey": key});
    pod["metadata"]["labels"] = json!({"color": "green"});
    match shape {
        Shape::Plain => pod["metadata"]["labels"] = Value::Null,
        Shape::AntiAffinity => {
            let terms = json!([near("kubernetes.io/hostname")]);
            pod["spec"]["affinity"] =
                json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
        }
        Shape::PreferredAffinity => {
            let terms = json!([{"weight": 1, "podAffinityTerm": near("kubernetes.io/hostname")}]);
            pod["spec"]["affinity"] =
                json!({"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}});
        }
        Shape::Spread => {
            pod["spec"]["topologySpreadConstraints"] = json!([{
                "maxSkew": 5, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"color": "green"}},
            }]);
        }
        Shape::Daemon => {
            let name = json!({"key": "metadata.name", "operator": "In", "values": [format!("node-{}", at % nodes)]});
            pod["spec"]["affinity"] = json!({"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [name]}]},
            }});
        }
        Shape::Preempting => {
            pod["spec"]["priorityClassName"] = json!("important");
            pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("3");
        }
    }
    pod
}
