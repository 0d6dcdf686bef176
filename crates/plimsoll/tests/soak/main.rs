//! `plimsoll run` under faults, on a real control plane. Three schedulers contend for the lease; the lines to the API server are bad, servers
//! crash and stand still, schedulers are killed at any moment. Who judges reads the API server's own history: no pod is ever bound twice, no
//! node ever holds more than it can, and once the faults end every pod that fits is bound.
//!
//! `PLIMSOLL_SOAK_SECONDS` says how long faults come, `PLIMSOLL_SOAK_SEED` which, `PLIMSOLL_SOAK_PROGRAM` which build is tried. Where the control plane is not built (`make lab`), the test
//! says so and passes.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::print_stderr, missing_docs)]

mod history;
mod ledger;
mod load;
mod storm;

use history::History;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, ListParams, Patch, PatchParams};
use ledger::Ledger;
use plimsoll_lab::{Binaries, Lab, Line, Options, Proxy, Rates, Scheduler, User};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use storm::{Action, plan};

const SCHEDULERS: usize = 3;
const NODES: usize = 12;
/// Enough for the first round of all faults.
const SECONDS: u64 = 30;
/// Far longer than what is waited for takes on any machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A number from the environment.
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text}: not a number")))
}

/// The schedulers with their lines, and what was done to them.
struct Soak {
    lab: Lab,
    admin: Client,
    proxies: Vec<Proxy>,
    history: History,
    /// Schedulers that are to be started again, and when.
    down: BTreeMap<usize, Instant>,
    counts: BTreeMap<String, usize>,
    memory: Memory,
}

fn name(scheduler: usize) -> String {
    format!("plimsoll-{scheduler}")
}

/// How long the lease lasts.
fn lease(seed: u64) -> Duration {
    Duration::from_secs(if seed.is_multiple_of(2) { 15 } else { 5 })
}

/// The terms of the lease: those of Kubernetes for even seeds; for odd ones so short that leaders change all the time.
fn configuration(seed: u64) -> String {
    let (deadline, retry) = if seed.is_multiple_of(2) { ("10s", "2s") } else { ("3s", "500ms") };
    let duration = format!("{}s", lease(seed).as_secs());
    json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {
            "leaderElect": true, "leaseDuration": duration, "renewDeadline": deadline, "retryPeriod": retry,
            "resourceName": "soak", "resourceNamespace": "kube-system",
        },
    })
    .to_string()
}

impl Soak {
    async fn start(binaries: Binaries, seed: u64) -> Self {
        let shape = "cpu=4,memory=8Gi,pods=16".parse().unwrap();
        let options = Options {
            nodes: NODES,
            shapes: vec![shape],
            scheduler: Scheduler::None,
            binaries: Some(binaries),
            ..Options::default()
        };
        let mut lab = Lab::start(options).await.unwrap();
        let admin = lab.client(User::Admin).await.unwrap();
        load::create_classes(&admin).await.unwrap();
        let nodes = Api::<Node>::all(admin.clone()).list(&ListParams::default()).await.unwrap().items;
        let revision = history::revision(&admin).await.unwrap();
        let (history, _) = History::follow(admin.clone(), Ledger::new(&nodes), revision);
        let config = lab.folder().join("soak.json");
        std::fs::write(&config, configuration(seed)).unwrap();
        let mut proxies = Vec::new();
        for at in 0..SCHEDULERS {
            let upstream = lab.client(User::Plimsoll).await.unwrap();
            let proxy = Proxy::start(upstream, seed.wrapping_mul(31).wrapping_add(at as u64)).await.unwrap();
            let kubeconfig = lab.folder().join(format!("proxy-{at}.kubeconfig"));
            proxy.write_kubeconfig(&kubeconfig).unwrap();
            proxies.push(proxy);
            let argument = |path: &Path| path.display().to_string();
            let arguments =
                ["run", "--listen", "off", "--kubeconfig", &argument(&kubeconfig), "--config", &argument(&config)];
            let program = std::env::var_os("PLIMSOLL_SOAK_PROGRAM").unwrap_or(env!("CARGO_BIN_EXE_plimsoll").into());
            lab.start_program(&name(at), Path::new(&program), &arguments.map(str::to_owned)).unwrap();
        }
        let (down, counts) = (BTreeMap::new(), BTreeMap::new());
        Self { lab, admin, proxies, history, down, counts, memory: Memory::default() }
    }

    fn count(&mut self, what: impl Into<String>) {
        *self.counts.entry(what.into()).or_default() += 1;
    }

    async fn act(&mut self, action: Action) {
        let what = format!("{action:?}");
        self.count(what.split('(').next().unwrap_or_default());
        match action {
            Action::Kill(at) => {
                self.lab.kill(&name(at)).unwrap();
                // Half of them come back at once, the others when somebody else may have taken over.
                let pause = if at.is_multiple_of(2) { 0 } else { 2000 };
                self.down.insert(at, Instant::now() + Duration::from_millis(pause));
            }
            Action::Pause(at) => self.lab.pause(&name(at)).unwrap(),
            Action::Resume(at) => self.lab.resume(&name(at)).unwrap(),
            Action::Line(at, line) => self.proxies[at].set_line(line),
            Action::CrashApi => self.lab.restart("kube-apiserver").unwrap(),
            Action::PauseEtcd => self.lab.pause("etcd").unwrap(),
            Action::ResumeEtcd => self.lab.resume("etcd").unwrap(),
            Action::Lines(rates) => self.proxies.iter().for_each(|proxy| proxy.set(rates)),
            Action::Usurp(offset) => self.usurp(offset),
        }
    }

    /// Somebody else takes the lease. It is not waited for: the API server may be away.
    fn usurp(&self, offset: i64) {
        let leases: Api<Lease> = Api::namespaced(self.admin.clone(), "kube-system");
        let now = Timestamp::from_second(Timestamp::now().as_second() + offset).unwrap_or_default();
        let now = now.strftime("%Y-%m-%dT%H:%M:%S.000000Z").to_string();
        let spec =
            json!({"holderIdentity": "usurper", "leaseDurationSeconds": 4, "renewTime": now, "acquireTime": now});
        tokio::spawn(async move {
            let _ = leases.patch("soak", &PatchParams::default(), &Patch::Merge(json!({"spec": spec}))).await;
        });
    }

    /// Starts again what has ended, as a kubelet does it, and looks at the memory of what runs.
    fn tend(&mut self) {
        // It ends where the store does not answer while it starts.
        if self.lab.exit_status("kube-apiserver").unwrap().is_some() {
            self.count("API server ended by itself");
            self.lab.restart("kube-apiserver").unwrap();
        }
        for at in 0..SCHEDULERS {
            if let Some(when) = self.down.get(&at) {
                if Instant::now() >= *when {
                    self.down.remove(&at);
                    self.lab.restart(&name(at)).unwrap();
                }
            } else if let Some(status) = self.lab.exit_status(&name(at)).unwrap() {
                self.count(format!("scheduler ended by itself ({status})"));
                self.down.insert(at, Instant::now() + Duration::from_millis(300));
            } else {
                self.memory.look(self.lab.process(&name(at)).unwrap().pid);
            }
        }
    }

    /// Works through the plan.
    async fn rage(&mut self, plan: &[(Duration, Action)], length: Duration) {
        let begin = Instant::now();
        let mut plan = plan.iter().peekable();
        while begin.elapsed() < length || plan.peek().is_some() {
            while let Some((_, action)) = plan.next_if(|(when, _)| *when <= begin.elapsed()) {
                eprintln!("soak: {:5.1} s {action:?}", begin.elapsed().as_secs_f64());
                self.act(*action).await;
            }
            self.tend();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Ends all faults and waits until nobody waits who fits; what is left over otherwise.
    async fn settle(&mut self) -> Vec<String> {
        for (at, proxy) in self.proxies.iter().enumerate() {
            proxy.set(Rates::default());
            proxy.set_line(Line::Clear);
            self.lab.resume(&name(at)).unwrap();
        }
        self.lab.resume("etcd").unwrap();
        self.lab.wait_for_apiserver().await.unwrap();
        let begin = Instant::now();
        let mut calm = 0;
        loop {
            self.tend();
            let latest = history::revision(&self.admin).await;
            let stranded = self.history.ledger().stranded();
            let known = self.history.ledger().revision;
            // The history may lag behind: what it does not know yet may be that they are bound.
            calm = if stranded.is_empty() && latest.is_some_and(|latest| latest <= known + 20) { calm + 1 } else { 0 };
            if calm >= 10 {
                eprintln!("soak: settled {:.1} s after the faults", begin.elapsed().as_secs_f64());
                return Vec::new();
            }
            if begin.elapsed() > PATIENCE {
                return stranded;
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    }

    /// What the schedulers said that no fault explains.
    fn panics(&self) -> Vec<String> {
        let logs = (0..SCHEDULERS).map(|at| self.lab.folder().join("logs").join(format!("{}.log", name(at))));
        let text = logs.flat_map(|log| std::fs::read_to_string(log).ok());
        text.flat_map(|text| {
            text.lines().filter(|line| line.contains("panicked")).map(str::to_owned).collect::<Vec<_>>()
        })
        .collect()
    }

    fn report(&self) {
        let (ever, now, waiting) = self.history.ledger().counts();
        let deleted = self.history.ledger().deleted;
        eprintln!("soak: {ever} pods were bound, {deleted} deleted; {now} are bound now, {waiting} wait");
        for (what, count) in &self.counts {
            eprintln!("soak: {count:5} {what}");
        }
        let mut faults = BTreeMap::<&str, usize>::new();
        for (what, count) in self.proxies.iter().flat_map(Proxy::counts) {
            *faults.entry(what).or_default() += count;
        }
        eprintln!("soak: requests by what became of them: {faults:?}");
        eprintln!("soak: memory of the scheduler that ran longest: {}", self.memory.longest());
    }
}

/// The resident memory of every scheduler that ran, over time.
#[derive(Default)]
struct Memory {
    seen: BTreeMap<u32, Vec<(Instant, u64)>>,
}

impl Memory {
    fn look(&mut self, pid: u32) {
        let seen = self.seen.entry(pid).or_default();
        if seen.last().is_some_and(|(when, _)| when.elapsed() < Duration::from_secs(1)) {
            return;
        }
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        if let Some(kilobytes) = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()) {
            seen.push((Instant::now(), kilobytes));
        }
    }

    /// The scheduler that ran longest: after how many seconds it had how much, at a third of its time and at the end.
    fn of_longest(&self) -> Option<[(f64, u64); 2]> {
        let seen = self.seen.values().max_by_key(|seen| seen.len())?;
        let begin = seen.first()?.0;
        let at = |index: usize| seen.get(index).map(|(when, rss)| ((*when - begin).as_secs_f64(), *rss));
        Some([at(seen.len() / 3)?, at(seen.len() - 1)?])
    }

    fn longest(&self) -> String {
        self.of_longest().map_or_else(
            || "none was seen".to_owned(),
            |[third, end]| format!("{} kB after {:.0} s, {} kB after {:.0} s", third.1, third.0, end.1, end.0),
        )
    }

    /// Whether the one that ran longest grew by more than a quarter and some megabytes, which a cluster of one size does not need.
    fn grows(&self) -> bool {
        self.of_longest().is_some_and(|[third, end]| end.1 > third.1 + third.1 / 4 + 8 * 1024)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn under_faults_no_pod_is_bound_twice_no_node_is_overfull_and_nobody_is_forgotten() {
    let binaries = match Binaries::find() {
        Ok(binaries) => binaries,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    let (seed, seconds) = (setting("PLIMSOLL_SOAK_SEED", 1), setting("PLIMSOLL_SOAK_SECONDS", SECONDS));
    let length = Duration::from_secs(seconds);
    let again =
        format!("again: PLIMSOLL_SOAK_SEED={seed} PLIMSOLL_SOAK_SECONDS={seconds} cargo test -p plimsoll --test soak");
    eprintln!("soak: {again}");
    let mut soak = Soak::start(binaries, seed).await;
    let load = tokio::spawn(load::run(soak.admin.clone(), soak.history.clone(), seed));
    soak.rage(&plan(seed, length, SCHEDULERS, lease(seed)), length).await;
    load.abort();
    let stranded = soak.settle().await;
    soak.report();
    let violations = soak.history.ledger().violations.clone();
    let (panics, grows, bound) = (soak.panics(), soak.memory.grows(), soak.history.ledger().counts().0);
    if !(violations.is_empty() && stranded.is_empty() && panics.is_empty()) || grows {
        let folder = soak.lab.end_and_keep_folder();
        panic!(
            "violations: {violations:#?}\nwaiting although they fit: {stranded:#?}\npanics: {panics:#?}\nmemory grows: {grows}\n\
             logs: {}\n{again}",
            folder.display()
        );
    }
    assert!(bound > 50, "only {bound} pods were bound: the load did not come through; {again}");
}
