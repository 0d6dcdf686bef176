//! The scenario that a command is about: a file, flags, or a file with flags that count more.

use crate::output::Output;
use crate::workload_args::{self, WorkloadArgs};
use anyhow::{Context, Result, bail};
use plimsoll_sim::fleet::Fleet;
use plimsoll_sim::scenario::{Amount, PoolSpec, Scenario, Time, Trace};
use plimsoll_sim::workload::select::parse_time;
use std::path::PathBuf;

/// Watts a thread that are assumed of machines given by flags alone: idle, and at full load.
const ASSUMED_WATTS: (f64, f64) = (1.5, 5.0);

/// A scenario.
#[derive(Debug, Clone, clap::Args)]
pub struct ScenarioArgs {
    /// A scenario file; flags count more than what it says
    #[arg(value_name = "SCENARIO")]
    file: Option<PathBuf>,
    #[command(flatten)]
    workload: WorkloadArgs,
    /// Run on this many like machines
    #[arg(long, value_name = "N")]
    nodes: Option<usize>,
    /// CPU of each machine, in threads; as the catalogue has it, or 48
    #[arg(long, value_name = "AMOUNT", requires = "nodes")]
    cpu: Option<String>,
    /// Memory of each machine; as the catalogue has it, or 384Gi
    #[arg(long, value_name = "AMOUNT", requires = "nodes")]
    memory: Option<String>,
    /// The machine, by words of its model in the catalogue: its threads, memory and watts are known then
    #[arg(long, value_name = "MODEL", requires = "catalogue", requires = "nodes")]
    machine: Option<String>,
    /// A table of measured machines (SPECpower)
    #[arg(long, value_name = "FILE")]
    catalogue: Option<PathBuf>,
    /// A list of machines, in the columns of Alibaba's trace
    #[arg(long, value_name = "FILE", conflicts_with = "nodes")]
    machines: Option<PathBuf>,
    /// Let empty machines stay awake
    #[arg(long)]
    no_sleep: bool,
    /// The share of the time that is not measured
    #[arg(long, value_name = "SHARE")]
    warmup: Option<f64>,
    /// How long pods wait before they give up, as in `1h`; for ever if not given
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    max_wait: Option<std::time::Duration>,
}

impl ScenarioArgs {
    /// The scenario.
    pub fn scenario(&self) -> Result<Scenario> {
        let mut scenario = match &self.file {
            Some(file) => Scenario::read(file)?,
            None => Scenario { name: "flags".into(), ..Scenario::default() },
        };
        self.workload.apply(&mut scenario)?;
        if scenario.workload.file.is_none() && scenario.workload.generate.is_none() {
            bail!("name a workload: a scenario file, --trace FILE or --generate KIND");
        }
        if let Some(catalogue) = &self.catalogue {
            scenario.catalogue = Some(absolute(catalogue)?);
        }
        if let Some(machines) = &self.machines {
            (scenario.machines, scenario.pool) = (Some(absolute(machines)?), Vec::new());
        }
        if let Some(nodes) = self.nodes {
            scenario.machines = None;
            scenario.pool = vec![self.pool(nodes)?];
        }
        if self.no_sleep {
            scenario.power.sleep = false;
        }
        if let Some(warmup) = self.warmup {
            scenario.run.warmup = warmup;
        }
        if let Some(max_wait) = self.max_wait {
            scenario.run.max_wait = Some(Time(max_wait));
        }
        Ok(scenario)
    }

    fn pool(&self, nodes: usize) -> Result<PoolSpec> {
        let amount = |text: &str, flag: &str| -> Result<Amount> {
            serde_json::from_value(text.into()).with_context(|| format!("--{flag} {text}"))
        };
        let assumed = self.machine.is_none();
        let given = |flag: &Option<String>, name: &str, default: &str| -> Result<Option<Amount>> {
            match flag {
                Some(text) => amount(text, name).map(Some),
                None if assumed => amount(default, name).map(Some),
                None => Ok(None),
            }
        };
        let cpu = given(&self.cpu, "cpu", "48")?;
        let threads = cpu.as_ref().map_or(0.0, |cpu| cpu.0.approximate_f64());
        let watts = |each: f64| assumed.then_some(each * threads);
        let pool = PoolSpec {
            name: "node".into(),
            count: nodes,
            machine: self.machine.clone(),
            memory: given(&self.memory, "memory", "384Gi")?,
            // A machine with many threads runs more small pods than a kubelet allows unless told.
            pods: Some((threads.ceil() as i64 * 4).max(500)),
            idle_watts: watts(ASSUMED_WATTS.0),
            full_watts: watts(ASSUMED_WATTS.1),
            zones: vec!["a".into()],
            region: "region".into(),
            cpu,
            ..PoolSpec::default()
        };
        Ok(pool)
    }
}

/// Reads the recorded workload, and tells what was skipped of it.
pub fn trace(scenario: &Scenario, fleet: &Fleet, out: &Output) -> Result<Trace> {
    let trace = scenario.trace(fleet)?;
    workload_args::tell(&trace.skipped, out);
    Ok(trace)
}

/// A file that is named from here, wherever the scenario is.
pub fn absolute(path: &std::path::Path) -> Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("{}: cannot be made absolute", path.display()))
}
