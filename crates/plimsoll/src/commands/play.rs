//! `plimsoll play`

use crate::Verdict;
use crate::commands::demo::day;
use crate::commands::demo::speed;
use crate::commands::run::stop_signal;
use crate::connect::{self, ConnectArgs};
use crate::output::Output;
use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{Api, DeleteParams, PostParams};
use kube::{Client, Error};
use plimsoll_sim::scenario::Scenario;
use plimsoll_sim::simulation::{Objects, lifetimes};
use plimsoll_sim::workload::Workload;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// What the namespaces are called that are made for it: nobody else's is touched.
const PREFIX: &str = "play-";
/// Writes that may be under way.
const AT_A_TIME: usize = 64;
/// How often it is told how far it is.
const TELL: Duration = Duration::from_secs(5);

/// Play the pods of a scenario on a cluster, faster than time: each is created when it comes and deleted when it ends
///
/// The pods are in namespaces `play-…`, which are made for it and deleted when it ends, at Ctrl-C too. For clusters whose nodes are not there, as in
/// `plimsoll lab`, and for those that nobody needs.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A scenario file; the day of `plimsoll demo` if not given
    #[arg(value_name = "SCENARIO")]
    scenario: Option<PathBuf>,
    #[command(flatten)]
    connect: ConnectArgs,
    /// Seconds of the scenario for each real one
    #[arg(long, value_name = "N", default_value_t = 240.0, value_parser = speed)]
    speed: f64,
    /// The `schedulerName` of the pods
    #[arg(long, value_name = "NAME", default_value = "default-scheduler")]
    scheduler_name: String,
    /// The seed of the pods that come
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Plays.
pub fn run(args: Args, out: &mut Output) -> Result<Verdict> {
    let scenario = match &args.scenario {
        Some(path) => Scenario::read(path)?,
        None => day::scenario()?,
    };
    let trace = scenario.trace(&scenario.fleet()?)?;
    let workload = scenario.pods(&trace, args.seed)?;
    if workload.templates.iter().any(|template| template.gpus().is_some()) {
        bail!("pods of {} claim GPUs, which cannot be played", scenario.name);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(play(&args, workload, out));
    connect::leave(runtime);
    result
}

/// Something that is done to a pod at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Act {
    Delete,
    Create,
}

/// What is done when, in order: the number of the pod is its place in the workload.
fn script(workload: &Workload, seed: u64) -> Vec<(Duration, Act, usize)> {
    let ends = lifetimes(workload, seed);
    let mut script: Vec<_> = Vec::with_capacity(workload.pods.len() * 2);
    for (number, (pod, lifetime)) in workload.pods.iter().zip(ends).enumerate() {
        script.push((pod.arrival, Act::Create, number));
        script.extend(lifetime.map(|lifetime| (pod.arrival.saturating_add(lifetime), Act::Delete, number)));
    }
    script.sort_unstable();
    // What ends later than the last pod comes is left to the end.
    script.retain(|(at, ..)| *at <= workload.span());
    script
}

#[derive(Default)]
struct Counts {
    created: AtomicU64,
    deleted: AtomicU64,
    failed: AtomicU64,
}

async fn play(args: &Args, workload: Workload, out: &mut Output) -> Result<Verdict> {
    let client = connect::client(args.connect.config(None).await?).await?;
    let namespaces: BTreeSet<String> =
        workload.templates.iter().map(|template| format!("{PREFIX}{}", template.namespace())).collect();
    let mut stop = stop_signal()?;
    for name in &namespaces {
        make_namespace(&client, name).await?;
    }
    let (counts, slots) = (Arc::new(Counts::default()), Arc::new(Semaphore::new(AT_A_TIME)));
    let objects = Objects::new(&workload);
    let mut making = BTreeMap::new();
    let (begun, mut told, mut now) = (Instant::now(), Instant::now(), Duration::ZERO);
    for (at, act, number) in script(&workload, args.seed) {
        let due = begun + at.div_f64(args.speed);
        tokio::select! {
            () = tokio::time::sleep(due.saturating_duration_since(Instant::now())) => {}
            _ = stop.changed() => break,
        }
        now = at;
        let pod = pod(&objects, &workload, number, &args.scheduler_name);
        let api: Api<Pod> = Api::namespaced(client.clone(), pod.metadata.namespace.as_deref().unwrap_or_default());
        let slot = Arc::clone(&slots).acquire_owned().await?;
        let (counted, before) = (Arc::clone(&counts), making.remove(&number));
        let task = tokio::spawn(async move {
            // One that is still being created cannot be deleted yet.
            if let Some(before) = before {
                let _ = before.await;
            }
            write(&api, act, &pod, &counted).await;
            drop(slot);
        });
        if act == Act::Create {
            making.insert(number, task);
        }
        if told.elapsed() >= TELL {
            told = Instant::now();
            tell(at, &counts_of(&workload, &counts), out)?;
        }
    }
    // All writes are done once all slots are free.
    let _ = slots.acquire_many(AT_A_TIME as u32).await;
    tell(now, &counts_of(&workload, &counts), out)?;
    for name in &namespaces {
        let _ = Api::<Namespace>::all(client.clone()).delete(name, &DeleteParams::default()).await;
    }
    let failed = counts.failed.load(Ordering::Relaxed);
    Ok(if failed == 0 { Verdict::Good } else { Verdict::Bad })
}

fn counts_of(workload: &Workload, counts: &Counts) -> String {
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (created, deleted, failed) = (read(&counts.created), read(&counts.deleted), read(&counts.failed));
    let all = workload.pods.len();
    format!("{created} of {all} pods created, {deleted} deleted, {failed} writes failed")
}

fn tell(at: Duration, what: &str, out: &mut Output) -> Result<()> {
    let minutes = at.as_secs() / 60;
    writeln!(out, "{:02}:{:02}  {what}", minutes / 60, minutes % 60)?;
    out.flush()?;
    Ok(())
}

/// A pod as it is created: in a namespace of ours, for a scheduler, and without a UID, which the API server gives.
fn pod(objects: &Objects, workload: &Workload, number: usize, scheduler: &str) -> Pod {
    let mut pod = objects.pod(&workload.pods[number], String::new());
    pod.metadata.uid = None;
    let namespace = pod.metadata.namespace.get_or_insert_default();
    *namespace = format!("{PREFIX}{namespace}");
    if let Some(spec) = &mut pod.spec {
        spec.scheduler_name = Some(scheduler.to_owned());
        // Without a class of this value the API server refuses a priority.
        spec.priority = spec.priority.filter(|priority| *priority != 0);
        for container in &mut spec.containers {
            container.image.get_or_insert_with(|| "none".to_owned());
        }
    }
    pod
}

async fn make_namespace(client: &Client, name: &str) -> Result<()> {
    let all: Api<Namespace> = Api::all(client.clone());
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(name.to_owned());
    match all.create(&PostParams::default(), &namespace).await {
        Ok(_) => Ok(()),
        Err(Error::Api(status)) if status.code == 409 => {
            bail!(
                "there is a namespace {name} already: another play goes on, or is being cleared away; delete it first"
            )
        }
        Err(error) => Err(error).with_context(|| format!("namespace {name} cannot be created")),
    }
}

async fn write(api: &Api<Pod>, act: Act, pod: &Pod, counts: &Counts) {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let (result, counter) = match act {
        Act::Create => (api.create(&PostParams::default(), pod).await.map(drop), &counts.created),
        Act::Delete => (api.delete(name, &DeleteParams::default().grace_period(0)).await.map(drop), &counts.deleted),
    };
    let counter = if result.is_ok() { counter } else { &counts.failed };
    counter.fetch_add(1, Ordering::Relaxed);
    if let Err(error) = result {
        tracing::warn!(pod = name, %error, "a pod could not be written");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_come_before_they_go_and_in_the_order_of_time() {
        let scenario = day::scenario().unwrap();
        let trace = scenario.trace(&scenario.fleet().unwrap()).unwrap();
        let workload = scenario.pods(&trace, 1).unwrap();
        let script = script(&workload, 1);
        assert!(script.is_sorted());
        let mut there = BTreeSet::new();
        for (_, act, number) in &script {
            match act {
                Act::Create => assert!(there.insert(*number)),
                Act::Delete => assert!(there.remove(number), "pod {number} goes before it came"),
            }
        }
        let created = script.iter().filter(|(_, act, _)| *act == Act::Create).count();
        assert_eq!(created, workload.pods.len());
        let pod = pod(&Objects::new(&workload), &workload, 0, "mine");
        assert!(pod.metadata.namespace.unwrap().starts_with(PREFIX));
        assert_eq!(pod.spec.unwrap().scheduler_name.as_deref(), Some("mine"));
    }
}
