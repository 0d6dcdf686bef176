//! What pods are like for their users and their home: latency, and what it costs to be away.

use super::Simulation;
use plimsoll_core::telemetry::Away;

/// How a running pod is felt, as it was counted.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Felt {
    /// Latency to its users; none without a latency model.
    ms: Option<f64>,
    /// Whether it runs away from its home.
    is_away: bool,
    /// What its traffic costs, in millionths an hour.
    price: i64,
}

/// Pods away from their home, integrated over time. Sums are whole numbers, so that they stay exact.
#[derive(Debug, Default)]
pub struct AwayMeter {
    pods: i64,
    away: i64,
    price: i64,
    pod_hours: f64,
    away_hours: f64,
    cost: f64,
}

impl AwayMeter {
    /// Time passes.
    pub fn advance(&mut self, hours: f64) {
        self.pod_hours += self.pods as f64 * hours;
        self.away_hours += self.away as f64 * hours;
        self.cost += self.price as f64 * 1e-6 * hours;
    }

    /// A pod comes (1) or goes (-1).
    fn change(&mut self, felt: &Felt, by: i64) {
        self.pods += by;
        self.away += i64::from(felt.is_away) * by;
        self.price += felt.price * by;
    }

    /// The warm-up is over: what was integrated does not count.
    pub fn start_over(&mut self) {
        (self.pod_hours, self.away_hours, self.cost) = (0.0, 0.0, 0.0);
    }

    /// Hours for which pods ran.
    pub fn pod_hours(&self) -> f64 {
        self.pod_hours
    }

    /// Money for traffic between clusters.
    pub fn cost(&self) -> f64 {
        self.cost
    }

    /// The share of running pods that were away; none if no pod ran.
    pub fn share(&self) -> Option<f64> {
        (self.pod_hours > 0.0).then(|| self.away_hours / self.pod_hours)
    }
}

impl Simulation<'_> {
    /// What a pod pays for running on a machine; none at home.
    fn away(&self, pod: usize, machine: usize) -> Option<Away> {
        let all = self.setup.world.clusters.as_ref()?;
        let (home, at) = (self.homes[pod]?, all.place(&self.setup.fleet.pools[self.machines[machine].pool].cluster)?);
        (home != at).then(|| all.away(home, at, self.now))
    }

    /// A pod is felt by users from a machine.
    pub(super) fn feel(&mut self, pod: usize, machine: usize) {
        let away = self.away(pod, machine);
        let template = self.setup.workload.pods[pod].template as usize;
        let template = self.setup.workload.templates.get(template);
        let cores = template.map_or(0.0, |template| template.cpu_milli as f64 / 1000.0);
        let price = away.map_or(0.0, |away| away.price * cores);
        let ms = self.user_latency(machine).map(|here| here + away.map_or(0.0, |away| away.ms));
        let felt = Felt { ms, is_away: away.is_some(), price: (price * 1e6).round() as i64 };
        self.count_felt(pod, &felt, 1);
        self.pods[pod].felt = felt;
    }

    /// A pod is felt no longer.
    pub(super) fn feel_no_more(&mut self, pod: usize) {
        let felt = std::mem::take(&mut self.pods[pod].felt);
        self.count_felt(pod, &felt, -1);
    }

    fn count_felt(&mut self, pod: usize, felt: &Felt, by: i64) {
        self.away.change(felt, by);
        let Some(ms) = felt.ms else { return };
        let template = self.setup.workload.pods[pod].template as usize;
        let constraint = self.setup.workload.templates.get(template).and_then(|template| template.latency);
        self.latency.change(self.now, ms, constraint, by);
    }

    /// Latency from a machine to users at its cluster, as it was last told.
    fn user_latency(&self, machine: usize) -> Option<f64> {
        self.setup.world.latency.as_ref()?;
        let node = self.machines[machine].node?;
        self.engine.state().telemetry.node(node).latency_ms
    }

    /// Tells policies how far clusters are from each other, and whether that is new.
    pub(super) fn ways_change(&mut self) -> bool {
        let Some(all) = &self.setup.world.clusters else { return false };
        let told = all.told(self.now);
        let known = &mut self.engine.scheduler().state.telemetry.clusters;
        let is_new = *known != told;
        *known = told;
        is_new
    }

    /// The latency of a machine may have changed, or the ways from its cluster have.
    pub(super) fn latency_changes(&mut self, machine: usize, ways: bool) {
        let known = &self.machines[machine];
        let Some(node) = known.node else { return };
        let model = self.setup.world.latency.as_ref();
        let ms = model.map(|model| model.to_user(known.place(&self.setup.fleet.pools[known.pool]), self.now));
        if !ways && self.engine.state().telemetry.node(node).latency_ms == ms {
            return;
        }
        let running = known.running.clone();
        for &pod in &running {
            self.feel_no_more(pod as usize);
        }
        self.engine.scheduler().state.tell(node, |known| known.latency_ms = ms);
        for &pod in &running {
            self.feel(pod as usize, machine);
        }
    }

    /// Latency between pods of two machines.
    fn between(&self, a: usize, b: usize) -> f64 {
        let world = &self.setup.world;
        let (machines, pools) = ([&self.machines[a], &self.machines[b]], &self.setup.fleet.pools);
        if let Some(all) = &world.clusters
            && let [Some(from), Some(to)] = machines.map(|machine| all.place(&pools[machine.pool].cluster))
            && from != to
        {
            return all.away(from, to, self.now).ms;
        }
        let [from, to] = machines.map(|machine| machine.place(&pools[machine.pool]));
        world.latency.as_ref().map_or(0.0, |model| model.between(from, to, self.now))
    }

    /// Works out what calls between services take for a request, where there are any.
    pub(super) fn refresh_calls(&mut self) {
        let workload = &self.setup.workload;
        if workload.calls.is_empty() || self.setup.world.latency.is_none() {
            return;
        }
        let mut machines_of: std::collections::BTreeMap<&str, Vec<usize>> = std::collections::BTreeMap::new();
        for (index, machine) in self.machines.iter().enumerate() {
            for &pod in &machine.running {
                let template = workload.templates.get(workload.pods[pod as usize].template as usize);
                if let Some(app) = template.and_then(|template| template.app.as_deref()) {
                    machines_of.entry(app).or_default().push(index);
                }
            }
        }
        let latency = workload.calls.iter().filter_map(|call| {
            let (from, to) = (machines_of.get(call.from.as_str())?, machines_of.get(call.to.as_str())?);
            let pairs = from.iter().flat_map(|a| to.iter().map(move |b| (*a, *b)));
            let sum: f64 = pairs.map(|(a, b)| self.between(a, b)).sum();
            Some(call.per_request * sum / (from.len() * to.len()) as f64)
        });
        self.call_latency = latency.sum();
    }
}
