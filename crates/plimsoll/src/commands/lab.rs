//! `plimsoll lab`

use crate::Verdict;
use crate::output::{Output, table};
use anyhow::{Context, Result};
use clap::ValueEnum;
use plimsoll_lab::{Lab, LabError, Options, Scheduler, Shape, Status, default_folder, down, status};
use std::future::Future;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

/// Run a real Kubernetes control plane on this machine, with nodes that are not there
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Up(Up),
    /// Show how a lab is
    Status(Where),
    Down(Down),
}

/// Where a lab is.
#[derive(Debug, clap::Args)]
struct Where {
    /// The folder of the lab [default: one for each user, among the temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Where {
    fn folder(self) -> PathBuf {
        self.dir.unwrap_or_else(default_folder)
    }
}

/// Start a lab and leave it running
#[derive(Debug, clap::Args)]
struct Up {
    #[command(flatten)]
    place: Where,
    /// How many nodes it has
    #[arg(long, value_name = "N", default_value_t = 20)]
    nodes: usize,
    /// What nodes look like, as in cpu=32,memory=256Gi,pods=110,zones=3,nvidia.com/gpu=8,label:disk=ssd,taint:gpu=:NoSchedule; given
    /// several times, nodes take the shapes in turn
    #[arg(long, value_name = "SHAPE")]
    shape: Vec<Shape>,
    /// Who schedules
    #[arg(long, value_enum, default_value_t = Who::Stock)]
    scheduler: Who,
    /// A KubeSchedulerConfiguration for the stock scheduler
    #[arg(long, value_name = "FILE")]
    scheduler_config: Option<PathBuf>,
    /// A kube-scheduler of your own in the place of the stock one, such as one with our plugin
    #[arg(long, value_name = "PROGRAM")]
    scheduler_program: Option<PathBuf>,
    /// Start a Prometheus with a node exporter, too; it also reads what the nodes' pods use
    #[arg(long)]
    telemetry: bool,
    /// Features of Kubernetes, as in Name=true,Other=false
    #[arg(long, value_name = "GATES", value_delimiter = ',')]
    feature_gates: Vec<String>,
    /// API versions of Kubernetes, as in scheduling.k8s.io/v1alpha2=true
    #[arg(long, value_name = "VERSIONS", value_delimiter = ',')]
    runtime_config: Vec<String>,
}

/// End a lab and remove its files
#[derive(Debug, clap::Args)]
struct Down {
    #[command(flatten)]
    place: Where,
    /// Leave logs and other files where they are
    #[arg(long)]
    keep_files: bool,
}

/// Who schedules a lab's pods.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Who {
    /// kube-scheduler
    Stock,
    /// this program, by its command `run`
    Plimsoll,
    /// nobody: pods stay pending
    None,
}

/// Starts, shows or ends a lab.
pub fn run(args: Args, out: &mut Output) -> Result<Verdict> {
    match args.command {
        Command::Up(args) => up(args, out),
        Command::Status(place) => show(place, out),
        Command::Down(args) => end(args, out),
    }
}

fn up(args: Up, out: &mut Output) -> Result<Verdict> {
    let begin = Instant::now();
    let scheduler = match args.scheduler {
        Who::None => Scheduler::None,
        Who::Stock => Scheduler::Stock { config: args.scheduler_config, program: args.scheduler_program },
        Who::Plimsoll => Scheduler::Plimsoll {
            program: std::env::current_exe().context("cannot find this program")?,
            // Labs beside each other do not meet; the log says where it serves.
            arguments: ["--listen", "127.0.0.1:0"].map(str::to_owned).to_vec(),
        },
    };
    let options = Options {
        nodes: args.nodes,
        shapes: args.shape,
        scheduler,
        folder: Some(args.place.folder()),
        feature_gates: args.feature_gates,
        runtime_config: args.runtime_config,
        telemetry: args.telemetry,
        ..Options::default()
    };
    let lab = wait_for(async {
        tokio::select! {
            lab = Lab::start_detached(options) => lab.map(Some),
            // What was started so far ends with the start that is given up.
            _ = tokio::signal::ctrl_c() => Ok(None),
        }
    })?;
    let Some(lab) = lab else { anyhow::bail!("interrupted: what had been started is ended") };
    let nodes = args.nodes;
    let (seconds, kubeconfig) = (begin.elapsed().as_secs_f64(), lab.state().kubeconfig.display());
    writeln!(
        out,
        "a control plane with {nodes} nodes is ready after {seconds:.1} s; scheduler: {}",
        lab.state().scheduler
    )?;
    if let Some(url) = lab.prometheus() {
        writeln!(out, "Prometheus: {url}")?;
    }
    writeln!(out, "export KUBECONFIG={kubeconfig}")?;
    Ok(Verdict::Good)
}

fn show(place: Where, out: &mut Output) -> Result<Verdict> {
    let folder = place.folder();
    let status: Status = wait_for(status(&folder))?;
    let mut list = table(["COMPONENT", "STATE", "PID", "PORT", "LOG"], &[2, 3]);
    for one in &status.components {
        let component = &one.component;
        list.add_row([
            component.name.clone(),
            if one.alive { "running" } else { "ended" }.to_string(),
            component.process.pid.to_string(),
            component.port.map_or_else(|| "-".to_string(), |port| port.to_string()),
            component.log.display().to_string(),
        ]);
    }
    out.table("", &list)?;
    match &status.nodes {
        Ok((all, ready)) => writeln!(out, "{ready} of {all} nodes are ready")?,
        Err(why) => writeln!(out, "the API server does not answer: {why}")?,
    }
    writeln!(out, "export KUBECONFIG={}", status.state.kubeconfig.display())?;
    Ok(if status.is_well() { Verdict::Good } else { Verdict::Bad })
}

fn end(args: Down, out: &mut Output) -> Result<Verdict> {
    let folder = args.place.folder();
    match down(&folder, args.keep_files) {
        Ok(count) => writeln!(out, "ended {count} processes of the lab in {}", folder.display())?,
        // Whoever wants no lab has none.
        Err(LabError::NotThere(folder)) => writeln!(out, "there is no lab in {}", folder.display())?,
        Err(error) => return Err(error.into()),
    }
    Ok(Verdict::Good)
}

fn wait_for<T>(work: impl Future<Output = Result<T, LabError>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start threads")?;
    Ok(runtime.block_on(work)?)
}
