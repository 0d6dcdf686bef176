//! What holds in every run, whatever the scenario.

use super::*;
use crate::world::power::SleepWhenEmpty;
use crate::world::usage::Varied;
use plimsoll_core::policy::POLICIES;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Keeps its own account of a run from what can be seen of it.
#[derive(Default)]
struct Auditor {
    /// CPU and memory by node.
    nodes: BTreeMap<String, (i64, i64)>,
    /// CPU and memory of pods that wait, and of those that run, with their node.
    waiting: BTreeMap<String, (i64, i64)>,
    running: BTreeMap<String, (String, i64, i64)>,
    joules: f64,
    now: Duration,
    problems: Vec<String>,
}

impl Auditor {
    fn taken(&self, node: &str) -> (i64, i64) {
        let on = self.running.values().filter(|(at, ..)| at == node);
        on.fold((0, 0), |(cpu, memory), (_, c, m)| (cpu + c, memory + m))
    }

    /// Machines draw 100 W idle and 200 W full, and nothing when empty.
    fn watts(&self) -> f64 {
        let nodes = self.nodes.iter().map(|(name, (cpu, _))| (self.taken(name).0, *cpu));
        nodes.filter(|(taken, _)| *taken > 0).map(|(taken, cpu)| 100.0 + 100.0 * taken as f64 / cpu as f64).sum()
    }

    fn pass(&mut self, now: Duration) {
        self.joules += self.watts() * (now - self.now).as_secs_f64();
        self.now = now;
    }
}

fn amounts(list: Option<&BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>>) -> (i64, i64) {
    let amount = |name: &str| list.and_then(|list| list.get(name)).map(|quantity| quantity.0.clone());
    let cpu = amount("cpu").and_then(|text| text.strip_suffix('m')?.parse().ok()).unwrap_or(0);
    (cpu, amount("memory").and_then(|text| text.parse().ok()).unwrap_or(0))
}

impl Observer for Auditor {
    fn see(&mut self, now: Duration, seen: Seen<'_>) {
        self.pass(now);
        match seen {
            Seen::Node(node) => {
                let status = node.status.as_ref();
                let name = node.metadata.name.clone().unwrap_or_default();
                self.nodes.insert(name, amounts(status.and_then(|status| status.allocatable.as_ref())));
            }
            Seen::NodeGone(name) => {
                self.nodes.remove(name);
            }
            Seen::Pod(pod) => {
                let container = pod.spec.as_ref().and_then(|spec| spec.containers.first());
                let requests = container.and_then(|c| c.resources.as_ref()?.requests.as_ref());
                let uid = pod.metadata.uid.clone().unwrap_or_default();
                if self.waiting.insert(uid.clone(), amounts(requests)).is_some() {
                    self.problems.push(format!("pod {uid} came twice"));
                }
            }
            Seen::Place { uid, node, .. } => match self.waiting.remove(uid) {
                None => self.problems.push(format!("pod {uid} was placed without waiting")),
                Some((cpu, memory)) => {
                    self.running.insert(uid.to_owned(), (node.to_owned(), cpu, memory));
                    let (taken, has) = (self.taken(node), self.nodes.get(node).copied().unwrap_or_default());
                    if taken.0 > has.0 || taken.1 > has.1 {
                        self.problems.push(format!("node {node} has {has:?} and holds {taken:?}"));
                    }
                }
            },
            Seen::Wait { uid } => {
                if !self.waiting.contains_key(uid) {
                    self.problems.push(format!("pod {uid} waits without having come"));
                }
            }
            Seen::Preempt { victims, .. } => {
                let unknown = victims.iter().filter(|victim| !self.running.contains_key(**victim));
                self.problems.extend(unknown.map(|victim| format!("victim {victim} does not run")));
            }
            Seen::PodGone(uid) => {
                if self.running.remove(uid).is_none() && self.waiting.remove(uid).is_none() {
                    self.problems.push(format!("pod {uid} left without having been there"));
                }
            }
        }
    }
}

fn any_pods() -> impl Strategy<Value = Vec<(u32, u64, u64)>> {
    prop::collection::vec((0..4_u32, 0..4000_u64, prop_oneof![1 => Just(0), 6 => 1..3000_u64]), 1..60).prop_map(
        |mut pods| {
            pods.sort_by_key(|(_, arrival, _)| *arrival);
            pods
        },
    )
}

fn any_disruptions() -> impl Strategy<Value = Vec<Disruption>> {
    const KINDS: [DisruptionKind; 4] =
        [DisruptionKind::Fail, DisruptionKind::Drain, DisruptionKind::Return, DisruptionKind::Join];
    let one = (0..5000_u64, 1..3_usize, prop::sample::select(&KINDS[..]), any::<bool>());
    prop::collection::vec(one, 0..6).prop_map(|list| {
        let disruption = |(at, count, kind, first): (u64, usize, DisruptionKind, bool)| Disruption {
            at: seconds(at),
            pool: if first { "n" } else { "m" }.into(),
            count,
            kind,
        };
        list.into_iter().map(disruption).collect()
    })
}

fn bench(pods: &[(u32, u64, u64)], disruptions: Vec<Disruption>, max_wait: Option<u64>, seed: u64) -> Bench {
    let important = Template { priority: 50, ..template(3000) };
    let templates = vec![template(500), template(1500), template(4000), important];
    let mut bench = Bench::new(workload(templates, pods), vec![pool("n", 3, 4, 4), pool("m", 1, 8, 4)], 6000);
    bench.settings.disruptions = disruptions;
    bench.settings.max_wait = max_wait.map(seconds);
    bench.settings.seed = seed;
    bench
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

    #[test]
    fn nothing_is_lost_and_no_machine_holds_more_than_it_has(
        pods in any_pods(),
        disruptions in any_disruptions(),
        max_wait in prop::option::of(1..2000_u64),
        policy in prop::sample::select(POLICIES),
        seed in 0..1000_u64,
    ) {
        let bench = bench(&pods, disruptions, max_wait, seed);
        let mut auditor = Auditor::default();
        let outcome = bench.watched(policy.0, &mut auditor);
        auditor.pass(seconds(6000));
        prop_assert!(auditor.problems.is_empty(), "{:?}", auditor.problems);
        let measures = outcome.measures;
        prop_assert_eq!(measures.arrived, pods.len() as u64);
        let accounted = measures.running + measures.waiting + measures.finished + measures.rejected;
        prop_assert_eq!(measures.arrived, accounted, "every arrival is somewhere");
        prop_assert_eq!(auditor.running.len() as u64, measures.running);
        prop_assert_eq!(auditor.waiting.len() as u64, measures.waiting);
        // Energy is the integral of power, whoever adds it up.
        let kwh = auditor.joules / 3.6e6;
        prop_assert!((measures.kwh - kwh).abs() <= kwh * 1e-6 + 1e-9, "{} kWh, audited {kwh}", measures.kwh);
    }

    #[test]
    fn runs_repeat_themselves_bit_for_bit(
        pods in any_pods(),
        disruptions in any_disruptions(),
        policy in prop::sample::select(POLICIES),
        seed in 0..1000_u64,
    ) {
        let mut bench = bench(&pods, disruptions, None, seed);
        bench.world.usage = Box::new(Varied { least: 0.3, most: 1.8, daily_swing: 0.4, contends: true, seed });
        let sleep = SleepWhenEmpty { after: seconds(60), sleep_watts: 3.0, boot_delay: seconds(30), boot_watts: None };
        bench.world.power = Box::new(sleep);
        bench.settings.failures = Some(Failures { every: seconds(3000), repair: seconds(500) });
        let (first, second) = (bench.run(policy.0), bench.run(policy.0));
        prop_assert_eq!(first.measures.kwh.to_bits(), second.measures.kwh.to_bits());
        prop_assert_eq!(first, second);
    }
}
