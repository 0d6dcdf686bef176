//! Alibaba's GPU cluster of 2023 (openb): a list of pods, and a list of nodes.
//!
//! The trace has no owners; pods of one template are taken to belong together. A pod runs from `scheduled_time` to
//! `deletion_time`; one that never was scheduled is taken to run as long as it waited. `qos` and `pod_phase` say how the recorded
//! cluster treated the pod, which is for the simulation to find out: they are not used.

use super::build::Builder;
use super::fields::{Cell, Fault, GPU_MILLI, MAX_CPU_MILLI, MAX_GPUS, MAX_MEMORY, Reason};
use super::rows::{Column, ReadOptions, Row, Rows, Skipped};
use super::{GpuRequest, Lifetime, PodRecord, Template, Workload};
use crate::error::InputError;
use crate::fleet::{Fleet, Machine, Pool};
use crate::world::power::PowerCurve;
use rustc_hash::{FxHashMap, FxHashSet};
use std::path::Path;
use std::sync::Arc;

/// The columns of the list of pods.
pub const POD_COLUMNS: [&str; 11] = [
    "name",
    "cpu_milli",
    "memory_mib",
    "num_gpu",
    "gpu_milli",
    "gpu_spec",
    "qos",
    "pod_phase",
    "creation_time",
    "deletion_time",
    "scheduled_time",
];
/// The columns of the list of nodes.
pub const NODE_COLUMNS: [&str; 5] = ["sn", "cpu_milli", "memory_mib", "gpu", "model"];

const MIB: i64 = 1 << 20;
/// What the kubelet allows by default.
const PODS_A_NODE: i64 = 110;
/// The trace has no power: two-socket servers of its time draw about this for each thread, idle and at full load (SPECpower_ssj2008,
/// medians of results of 2017 to 2019, rounded).
const WATTS_A_THREAD: (f64, f64) = (0.6, 3.5);
/// An idle GPU draws about an eighth of its limit.
const IDLE_GPU_SHARE: f64 = 0.125;

/// A GPU's limit in watts, as its maker gives it; models that the trace made anonymous are taken to be like most of their time.
fn gpu_watts(model: &str) -> f64 {
    match model {
        "T4" => 70.0,
        "A10" => 150.0,
        "V100M16" | "V100M32" => 300.0,
        _ => 250.0,
    }
}

/// Reads the pods. Given a fleet, a pod that may only use GPUs of a model that no machine has is bad input.
pub fn read(path: &Path, fleet: Option<&Fleet>, options: ReadOptions) -> Result<(Workload, Skipped), InputError> {
    let mut rows = Rows::open(path, options)?;
    let columns = rows.heading.columns(POD_COLUMNS)?;
    let models = fleet.map(models_of);
    let mut reader = PodReader { columns, builder: Builder::new(), models };
    while let Some((row, line)) = rows.next()? {
        if let Err(fault) = reader.add(row) {
            rows.faults.add(line, fault)?;
        }
    }
    rows.faults.ensure_some(reader.builder.len())?;
    let mut workload = reader.builder.finish("alibaba", Vec::new());
    workload.start_at_first_arrival();
    for pod in &mut workload.pods {
        pod.owner = pod.template;
    }
    Ok((workload, rows.faults.skipped))
}

struct PodReader {
    columns: [Column; 11],
    builder: Builder,
    models: Option<Models>,
}

impl PodReader {
    fn add(&mut self, row: Row<'_>) -> Result<(), Fault> {
        let [name, cpu, memory, num_gpu, gpu_milli, gpu_spec, _, _, created, deleted, scheduled] =
            self.columns.map(|column| row.cell(column));
        let template = Template {
            cpu_milli: cpu.whole(MAX_CPU_MILLI)?,
            memory: memory.whole(MAX_MEMORY / MIB)? * MIB,
            gpu: gpu_request([num_gpu, gpu_milli, gpu_spec], self.models.as_ref())?,
            ..Template::default()
        };
        let arrival = created.seconds()?;
        let start = scheduled.given().map(Cell::seconds).transpose()?.unwrap_or(arrival);
        if start < arrival {
            let problem = format!("scheduled at {} but created at {} only", scheduled.text, created.text);
            return Err(scheduled.fault(Reason::DepartsBeforeArrival, problem));
        }
        let lifetime = match deleted.given() {
            None => None,
            Some(cell) => {
                let end = cell.seconds()?;
                if end < start {
                    let problem = format!("deleted at {} but began at {} only", deleted.text, start.as_secs_f64());
                    return Err(deleted.fault(Reason::DepartsBeforeArrival, problem));
                }
                Some(Lifetime::exactly(end - start))
            }
        };
        let text = name.required()?.trim();
        if self.builder.has(text) {
            return Err(name.fault(Reason::DuplicateName, format!("there is a pod {text} already")));
        }
        let template = self.builder.template(template);
        let pod = PodRecord { name: text.into(), template, owner: 0, arrival, lifetime, usage: None };
        self.builder.push(pod).map_err(|_| name.fault(Reason::DuplicateName, "the name is taken"))
    }
}

/// The GPU models that machines have.
pub(super) type Models = FxHashSet<String>;

/// The GPU models of a fleet.
pub(super) fn models_of(fleet: &Fleet) -> Models {
    fleet.gpu_models().map(str::to_owned).collect()
}

/// What a row asks of GPUs: how many, the share of each, the models allowed. A model that is not among the known ones is a fault.
pub(super) fn gpu_request(
    [count, milli, models]: [Cell<'_>; 3],
    known: Option<&Models>,
) -> Result<Option<GpuRequest>, Fault> {
    let number = count.given().map_or(Ok(0), |count| count.small(MAX_GPUS))?;
    let share = milli.given().map(|milli| milli.small(GPU_MILLI)).transpose()?;
    if number == 0 {
        return match (share, models.given()) {
            (None | Some(0), None) => Ok(None),
            (Some(1..), _) => Err(milli.fault(Reason::OutOfRange, "a share of a GPU, but no GPU is asked for")),
            (_, Some(_)) => Err(models.fault(Reason::OutOfRange, "models of GPUs, but no GPU is asked for")),
        };
    }
    let share = share.unwrap_or(GPU_MILLI);
    if share == 0 {
        return Err(milli.fault(Reason::OutOfRange, "a GPU is asked for, but nothing of it; 1 to 1000 is right"));
    }
    let names = || models.text.split('|').map(str::trim);
    if models.given().is_some() && names().any(str::is_empty) {
        return Err(models.fault(Reason::Missing, "the name of a model is missing; MODEL|MODEL is right"));
    }
    let wanted: Vec<String> = if models.given().is_some() { names().map(str::to_owned).collect() } else { Vec::new() };
    if let Some(model) = wanted.iter().find(|model| known.is_some_and(|known| !known.contains(*model))) {
        return Err(models.fault(Reason::UnknownMachine, format!("no machine of the fleet has a GPU {model}")));
    }
    Ok(Some(GpuRequest { count: number, milli: share, models: wanted }))
}

/// Reads the nodes as a fleet: one pool for each shape, in the order of their first machine.
///
/// Node names are lost, as the nodes of a pool are alike. Power is assumed: see the constants of this module.
pub fn read_nodes(path: &Path, options: ReadOptions) -> Result<(Fleet, Skipped), InputError> {
    let mut rows = Rows::open(path, options)?;
    let columns = rows.heading.columns(NODE_COLUMNS)?;
    let mut reader = NodeReader::new(columns);
    while let Some((row, line)) = rows.next()? {
        if let Err(fault) = reader.add(row) {
            rows.faults.add(line, fault)?;
        }
    }
    rows.faults.ensure_some(reader.fleet.len())?;
    Ok((reader.fleet, rows.faults.skipped))
}

/// CPU, memory, GPUs and their model.
type Shape = (i64, i64, u32, String);

struct NodeReader {
    columns: [Column; 5],
    names: FxHashSet<String>,
    pools: FxHashMap<Shape, usize>,
    fleet: Fleet,
}

impl NodeReader {
    fn new(columns: [Column; 5]) -> Self {
        Self { columns, names: FxHashSet::default(), pools: FxHashMap::default(), fleet: Fleet::default() }
    }

    fn add(&mut self, row: Row<'_>) -> Result<(), Fault> {
        let [name, cpu, memory, gpu, model] = self.columns.map(|column| row.cell(column));
        let text = name.required()?.trim();
        let shape = (
            cpu.whole(MAX_CPU_MILLI)?,
            memory.whole(MAX_MEMORY / MIB)? * MIB,
            gpu.small(MAX_GPUS)?,
            model.text.trim().to_owned(),
        );
        if shape.0 == 0 {
            return Err(cpu.fault(Reason::OutOfRange, "a machine without CPU runs nothing"));
        }
        match (shape.2, shape.3.is_empty()) {
            (0, false) => return Err(gpu.fault(Reason::OutOfRange, format!("a GPU model, {}, but no GPU", shape.3))),
            (1.., true) => return Err(model.fault(Reason::Missing, format!("{} GPUs of no model", shape.2))),
            _ => {}
        }
        if !self.names.insert(text.to_owned()) {
            return Err(name.fault(Reason::DuplicateName, format!("there is a node {text} already")));
        }
        let next = self.fleet.pools.len();
        let at = *self.pools.entry(shape.clone()).or_insert(next);
        match self.fleet.pools.get_mut(at) {
            Some(pool) => pool.count += 1,
            None => {
                let new = pool(&shape, &self.fleet.pools)
                    .ok_or_else(|| cpu.fault(Reason::OutOfRange, "no machine can draw so much power"))?;
                self.fleet.pools.push(new);
            }
        }
        Ok(())
    }
}

fn pool((cpu_milli, memory, gpus, model): &Shape, others: &[Pool]) -> Option<Pool> {
    let cores = *cpu_milli as f64 / 1000.0;
    let gib = (*memory as f64 / (1u64 << 30) as f64).round();
    let mut name = format!("c{}-m{gib}", cores.round());
    if *gpus > 0 {
        let model: String =
            model.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect();
        name = format!("{name}-{gpus}x{}", model.trim_matches('-'));
    }
    if others.iter().any(|pool| pool.name == name) {
        name = format!("{name}-{}", others.len());
    }
    let gpu_watts = f64::from(*gpus) * gpu_watts(model);
    let (idle, full) = (cores * WATTS_A_THREAD.0 + gpu_watts * IDLE_GPU_SHARE, cores * WATTS_A_THREAD.1 + gpu_watts);
    let power = PowerCurve::straight(idle, full)?;
    let machine = Machine {
        name: name.clone(),
        cpu_milli: *cpu_milli,
        memory: *memory,
        pods: PODS_A_NODE,
        gpus: (*gpus > 0).then(|| (*gpus, model.clone())),
        power: Arc::new(power),
        price: None,
    };
    Some(Pool {
        zones: vec!["zone-1".to_owned()],
        region: "region-1".to_owned(),
        cluster: "cluster-1".to_owned(),
        ..Pool::new(name, machine, 1)
    })
}

impl Fleet {
    /// The GPU models that its machines have.
    pub fn gpu_models(&self) -> impl Iterator<Item = &str> {
        self.pools.iter().filter_map(|pool| pool.machine.gpus.as_ref()).map(|(_, model)| model.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::testing::{assert_sound, file, gzip, shared, truncated_gzip};

    const PODS: &str = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n\
        p0,12000,16384,1,1000,,LS,Running,10,200,20\n\
        p1,6000,12288,2,460,T4|A10,LS,Running,30,100,30\n\
        p2,500,64,0,0,,BE,Pending,40,50,\n\
        p3,500,64,0,0,,BE,Running,40,,45\n";
    const NODES: &str = "sn,cpu_milli,memory_mib,gpu,model\n\
        n0,32000,262144,0,\nn1,96000,786432,8,A10\nn2,32000,262144,0,\nn3,96000,786432,2,T4\n";

    #[test]
    fn pods_keep_their_gpus_and_running_times() {
        let (workload, skipped) = read(&file("openb-good.gz", gzip(PODS)), None, ReadOptions::STRICT).unwrap();
        assert!(skipped.is_empty());
        assert_sound(&workload);
        let times: Vec<_> = workload
            .pods
            .iter()
            .map(|pod| (pod.arrival.as_secs(), pod.lifetime.map(|lifetime| lifetime.least.as_secs()), pod.owner))
            .collect();
        assert_eq!(times, [(0, Some(180), 0), (20, Some(70), 1), (30, Some(10), 2), (30, None, 2)]);
        let gpu = |at: usize| workload.templates[at].gpu.clone();
        assert_eq!(gpu(0), Some(GpuRequest { count: 1, milli: 1000, models: Vec::new() }));
        assert_eq!(gpu(1), Some(GpuRequest { count: 2, milli: 460, models: vec!["T4".into(), "A10".into()] }));
        assert_eq!(gpu(2), None);
        assert_eq!(workload.templates[2].memory, 64 << 20);
    }

    #[test]
    fn bad_pods_are_errors_with_their_place_or_counted_skips() {
        let cases = [
            ("p9,1,1,0,0,,LS,Running,100,99,", "deletion_time", Reason::DepartsBeforeArrival),
            ("p9,1,1,0,0,,LS,Running,100,300,99", "scheduled_time", Reason::DepartsBeforeArrival),
            ("p9,1,1,0,0,,LS,Running,100,120,130", "deletion_time", Reason::DepartsBeforeArrival),
            ("p9,1,1,0,0,,LS,Running,-1,99,", "creation_time", Reason::Negative),
            ("p9,-1,1,0,0,,LS,Running,1,99,", "cpu_milli", Reason::Negative),
            ("p9,1,1,1,0,,LS,Running,1,99,", "gpu_milli", Reason::OutOfRange),
            ("p9,1,1,1,1001,,LS,Running,1,99,", "gpu_milli", Reason::OutOfRange),
            ("p9,1,1,0,500,,LS,Running,1,99,", "gpu_milli", Reason::OutOfRange),
            ("p9,1,1,0,0,T4,LS,Running,1,99,", "gpu_spec", Reason::OutOfRange),
            ("p9,1,1,1,1000,T4||A10,LS,Running,1,99,", "gpu_spec", Reason::Missing),
            ("p9,1,1,1,1000,T4|H900,LS,Running,1,99,", "gpu_spec", Reason::UnknownMachine),
            ("p0,1,1,0,0,,LS,Running,1,99,", "name", Reason::DuplicateName),
        ];
        let (fleet, _) = read_nodes(&file("openb-fleet.csv", NODES), ReadOptions::STRICT).unwrap();
        for (row, column, reason) in cases {
            let path = file("openb-bad.csv", format!("{PODS}{row}\n"));
            let error = read(&path, Some(&fleet), ReadOptions::STRICT).unwrap_err();
            assert_eq!((error.line, error.column.as_deref()), (Some(6), Some(column)), "{row}: {error}");
            let (workload, skipped) = read(&path, Some(&fleet), ReadOptions::LENIENT).unwrap();
            assert_eq!((workload.pods.len(), skipped.count()), (4, 1), "{row}");
            assert_eq!(skipped.reasons[&reason].examples, [error]);
        }
        let path = file("openb-unknown.csv", format!("{PODS}p9,1,1,1,1000,H900,LS,Running,1,99,\n"));
        assert!(read(&path, None, ReadOptions::STRICT).is_ok(), "without a fleet every model may exist");
    }

    #[test]
    fn missing_columns_and_truncated_files_are_errors() {
        for missing in POD_COLUMNS {
            let path = file("openb-columns.csv", PODS.replacen(missing, "other", 1));
            let error = read(&path, None, ReadOptions::LENIENT).unwrap_err();
            assert_eq!(error.column.as_deref(), Some(missing), "{error}");
        }
        for missing in NODE_COLUMNS {
            let path = file("openb-node-columns.csv", NODES.replacen(missing, "other", 1));
            let error = read_nodes(&path, ReadOptions::LENIENT).unwrap_err();
            assert_eq!(error.column.as_deref(), Some(missing), "{error}");
        }
        let many: String = (0..3000).map(|at| format!("n{at},{},262144,0,\n", 1000 + at * 7919 % 997)).collect();
        let path = file("openb-cut.gz", truncated_gzip(&NODES.replace("n0,32000,262144,0,\n", &many)));
        let error = read_nodes(&path, ReadOptions::STRICT).unwrap_err();
        assert!(error.line.is_some() && error.problem.contains("truncated"), "{error}");
    }

    #[test]
    fn like_nodes_become_one_pool() {
        let (fleet, _) = read_nodes(&file("openb-nodes.csv", NODES), ReadOptions::STRICT).unwrap();
        let pools: Vec<_> = fleet.pools.iter().map(|pool| (pool.name.as_str(), pool.count)).collect();
        assert_eq!(pools, [("c32-m256", 2), ("c96-m768-8xa10", 1), ("c96-m768-2xt4", 1)]);
        assert_eq!(fleet.pools[1].machine.gpus, Some((8, "A10".to_owned())));
        let power = &fleet.pools[1].machine.power;
        assert!(power.idle() > 150.0 && power.full() > 8.0 * 150.0 && power.full() < 3000.0);
    }

    #[test]
    fn bad_nodes_are_errors_with_their_place() {
        let cases = [
            ("n9,1000,1024,8,", "model"),
            ("n9,1000,1024,0,T4", "gpu"),
            ("n9,0,1024,0,", "cpu_milli"),
            ("n9,1000,-3,0,", "memory_mib"),
            ("n1,1000,1024,0,", "sn"),
        ];
        for (row, column) in cases {
            let path = file("openb-bad-nodes.csv", format!("{NODES}{row}\n"));
            let error = read_nodes(&path, ReadOptions::STRICT).unwrap_err();
            assert_eq!((error.line, error.column.as_deref()), (Some(6), Some(column)), "{row}: {error}");
            let (fleet, skipped) = read_nodes(&path, ReadOptions::LENIENT).unwrap();
            assert_eq!((fleet.len(), skipped.count()), (4, 1));
        }
    }

    #[test]
    fn the_shared_cluster_is_read_whole() {
        let Some(nodes) = shared("traces/alibaba-openb-2023/openb_node_list_all_node.csv.gz") else { return };
        let Some(pods) = shared("traces/alibaba-openb-2023/openb_pod_list_default.csv.gz") else { return };
        let (fleet, _) = read_nodes(&nodes, ReadOptions::STRICT).unwrap();
        assert_eq!((fleet.len(), fleet.pools.len()), (1523, 27));
        let names: FxHashSet<_> = fleet.pools.iter().map(|pool| &pool.name).collect();
        assert_eq!(names.len(), 27, "{names:?}");
        let (workload, skipped) = read(&pods, Some(&fleet), ReadOptions::STRICT).unwrap();
        assert!(skipped.is_empty());
        assert_sound(&workload);
        assert_eq!(workload.pods.len(), 8152);
        assert_eq!(workload.span().as_secs(), 12_901_761);
        let fractional = |gpu: &GpuRequest| gpu.milli < GPU_MILLI;
        let shared = workload
            .pods
            .iter()
            .filter(|pod| workload.templates[pod.template as usize].gpu.as_ref().is_some_and(fractional));
        assert_eq!(shared.count(), 3078);
    }
}
