//! A live scheduler, put together: clients, watches, the engine's thread, leadership, HTTP, and an orderly end.

use crate::api::Api;
use crate::driver::{Critic, Driver, IN_FLIGHT, Inbox, Input, Settings};
use crate::extender::Extenders;
use crate::fence::Fence;
use crate::flight::Patience;
use crate::lease::{Election, Elector};
use crate::metrics::Metrics;
use crate::outbox::Outbox;
use crate::record::Recorder;
use crate::shadow::Shadow;
use crate::survey::Ranked;
use crate::trace::Tracer;
use crate::watch::{Watched, watch};
use crate::world::{NodeKinds, World};
use futures_util::future::join_all;
use k8s_openapi::api::apps::v1::{ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{
    Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, ReplicationController, Service,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment};
use kube::Client;
use plimsoll_core::engine::Engine;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch as channel};
use tokio::task::JoinHandle;

/// What a live scheduler is made of.
pub struct Parts {
    /// The client for reads and writes.
    pub client: Client,
    /// The client for the lease alone.
    pub lease_client: Client,
    /// The engine, with its configuration and policies.
    pub engine: Engine,
    /// The name of the machine, under which events are reported.
    pub host: String,
    /// Whether it only answers questions, and places no pod.
    pub advises_only: bool,
    /// How it is elected; it leads at once if not given.
    pub election: Option<Election>,
    /// The figures.
    pub metrics: Arc<Metrics>,
    /// Where questions come in, from who serves more than that.
    pub mailbox: (Inbox, mpsc::Receiver<Input>),
    /// Becomes true once all objects are known.
    pub ready: Arc<AtomicBool>,
    /// What nodes are like, by their labels.
    pub kinds: NodeKinds,
    /// The policies of profiles, with what they count if they are models.
    pub policies: Vec<Ranked>,
    /// How many bindings may be written at a time.
    pub max_in_flight: usize,
    /// How long bindings wait for what others do, by profile.
    pub patience: Vec<(String, Patience)>,
    /// Where another scheduler does the work: the book into which what would be done is written.
    pub shadow: Option<Box<dyn Write + Send>>,
    /// Who else is asked about nodes.
    pub extenders: Option<Extenders>,
    /// Who collects traces, if anybody does.
    pub tracer: Option<Box<dyn Tracer>>,
    /// What a placement that was made is worth, if anybody wants to know.
    pub critic: Option<Critic>,
}

impl Parts {
    /// Who answers questions, and neither writes nor places a pod.
    pub fn adviser(
        client: Client,
        engine: Engine,
        mailbox: (Inbox, mpsc::Receiver<Input>),
        ready: Arc<AtomicBool>,
    ) -> Self {
        Self {
            lease_client: client.clone(),
            client,
            engine,
            host: String::new(),
            advises_only: true,
            election: None,
            metrics: Arc::new(Metrics::new()),
            mailbox,
            ready,
            kinds: NodeKinds::default(),
            policies: Vec::new(),
            max_in_flight: IN_FLIGHT,
            patience: Vec::new(),
            shadow: None,
            extenders: None,
            tracer: None,
            critic: None,
        }
    }
}

/// Why a scheduler ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The engine's thread broke off.
    #[error("the scheduler broke off: {0}")]
    Broken(String),
    /// Leadership was lost. Another scheduler has it; this process has to start anew, to know the cluster as it is.
    #[error("leadership was lost")]
    Deposed,
}

/// How long writes may take at the end where no lease ends them: less than a pod is given to end, unless it says otherwise.
const LAST_WRITES: Duration = Duration::from_secs(25);

/// How long events and conditions may take at the end.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Pods that have ended take no room and are not watched.
const LIVING: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// The watches, each a task.
pub(crate) struct Watches {
    client: Client,
    inbox: Inbox,
    tasks: Vec<JoinHandle<()>>,
    /// Raised to have kinds read anew.
    refresh: channel::Sender<u64>,
    /// How many kinds those are.
    refreshed: usize,
}

impl Watches {
    fn add<K: Watched>(&mut self, fields: Option<&'static str>) {
        // Nobody raises this one.
        self.start::<K>(fields, channel::channel(0).1);
    }

    /// Watches a kind that a leader reads anew: what other leaders have written of it decides what is taken.
    fn add_refreshed<K: Watched>(&mut self, fields: Option<&'static str>) {
        self.refreshed += 1;
        self.start::<K>(fields, self.refresh.subscribe());
    }

    fn start<K: Watched>(&mut self, fields: Option<&'static str>, refresh: channel::Receiver<u64>) {
        let api = kube::Api::<K>::all(self.client.clone());
        self.tasks.push(tokio::spawn(watch(api, fields, self.inbox.clone(), refresh)));
    }

    /// Has pods, claims and devices read anew: what another leader has bound and allocated is known before the first decision.
    async fn refresh(&self) {
        for _ in 0..self.refreshed {
            // The engine may have ended, which is seen elsewhere.
            let _ = self.inbox.send(Input::Unsynced).await;
        }
        self.refresh.send_modify(|times| *times += 1);
    }

    /// How many kinds of objects are watched.
    pub(crate) fn kinds(&self) -> usize {
        self.tasks.len()
    }

    pub(crate) fn all(client: Client, inbox: Inbox) -> Self {
        let refresh = channel::Sender::new(0);
        let mut watches = Self { client, inbox, tasks: Vec::new(), refresh, refreshed: 0 };
        watches.add_refreshed::<Pod>(Some(LIVING));
        watches.add::<Node>(None);
        watches.add::<Namespace>(None);
        watches.add::<Service>(None);
        watches.add::<ReplicationController>(None);
        watches.add::<ReplicaSet>(None);
        watches.add::<StatefulSet>(None);
        watches.add::<PodDisruptionBudget>(None);
        watches.add::<PersistentVolume>(None);
        watches.add::<PersistentVolumeClaim>(None);
        watches.add::<StorageClass>(None);
        watches.add::<CSINode>(None);
        watches.add::<CSIDriver>(None);
        watches.add::<CSIStorageCapacity>(None);
        watches.add::<VolumeAttachment>(None);
        watches.add_refreshed::<ResourceSlice>(None);
        watches.add_refreshed::<ResourceClaim>(None);
        watches.add::<DeviceClass>(None);
        watches
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Schedules until `stop` says so: then bindings under way end, the lease is given back, and all is well.
pub async fn run(parts: Parts, mut stop: channel::Receiver<bool>) -> Result<(), RunError> {
    let metrics = parts.metrics;
    // A shadow never writes, whatever happens: its fence stays closed.
    let is_alone = parts.election.is_none() && parts.shadow.is_none();
    let fence = if is_alone { Fence::open() } else { Fence::closed() };
    let api = Api::new(parts.client.clone(), fence.clone());
    let (inbox, receiver) = parts.mailbox;
    let (recorder, lanes) = Recorder::new(&api, &inbox, Arc::clone(&metrics), &parts.host);
    let outbox = Outbox::new(api, inbox.clone(), Handle::current(), recorder, Arc::clone(&metrics));
    let watches = Watches::all(parts.client, inbox.clone());
    let (tell_ready, hear_ready) = oneshot::channel();
    let shadow = parts.shadow.map(|book| Shadow::new(book, Arc::clone(&metrics)));
    let driver = Driver::new(
        parts.engine,
        outbox,
        Arc::clone(&metrics),
        Settings {
            kinds: watches.kinds(),
            max_in_flight: parts.max_in_flight,
            patience: parts.patience.into_iter().collect(),
            world: World::new(parts.kinds),
            policies: parts.policies,
            shadow,
            extenders: parts.extenders,
            tracer: parts.tracer,
            critic: parts.critic,
        },
        tell_ready,
    );
    // Who only answers does so where questions come in: on a busy machine, each change of threads costs more than the answer.
    let mut engine =
        if parts.advises_only { tokio::spawn(driver.run(receiver)) } else { on_own_thread(driver, receiver) };
    let ready = parts.ready;
    tokio::spawn(async move {
        if hear_ready.await.is_ok() {
            ready.store(true, Ordering::Release);
            tracing::info!("all objects of the cluster are known");
        }
    });
    let (tell_leads, mut leads) = channel::channel(parts.election.is_none() && !parts.advises_only);
    let elector = parts.election.map(|election| {
        let elector = Elector::new(parts.lease_client, election, fence.clone());
        let (tell_stop, stop) = channel::channel(false);
        (tokio::spawn(elector.run(tell_leads, stop)), tell_stop)
    });
    let mut led = *leads.borrow_and_update();
    // The engine may have ended; the select below sees that.
    let _ = inbox.send(Input::Leads(led)).await;
    let end = loop {
        tokio::select! {
            _ = stop.changed() => break Ok(()),
            broken = &mut engine => break Err(RunError::Broken(broken.err().map_or_else(|| "it ended".into(), |error| error.to_string()))),
            changed = leads.changed(), if elector.is_some() => {
                let now = changed.is_ok() && *leads.borrow_and_update();
                tracing::info!(leads = now, "leadership");
                if led && !now {
                    break Err(RunError::Deposed);
                }
                led = now;
                if now {
                    watches.refresh().await;
                }
                let _ = inbox.send(Input::Leads(now)).await;
            }
        }
    };
    if end.is_ok() {
        if is_alone {
            fence.allow_until(Instant::now() + LAST_WRITES);
        }
        let _ = inbox.send(Input::Stop).await;
        let _ = engine.await;
        // The engine has left its recorder with all that is to be said; only a leader may say it.
        let _ = tokio::time::timeout(LAST_WORDS, join_all(lanes)).await;
    }
    drop(watches);
    if let Some((task, tell_stop)) = elector {
        let _ = tell_stop.send(true);
        let _ = task.await;
    }
    end
}

/// Runs the engine where no other task waits for it; the handle ends with it.
fn on_own_thread(driver: Driver, receiver: mpsc::Receiver<Input>) -> JoinHandle<()> {
    let runtime = Handle::current();
    tokio::task::spawn_blocking(move || runtime.block_on(driver.run(receiver)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Answer, answering};
    use serde_json::json;
    use std::collections::BTreeMap;

    #[tokio::test(start_paused = true)]
    async fn a_new_leader_reads_anew_what_others_may_have_taken() {
        let (client, asked) = answering(|_, path, _| {
            if !path.contains("sendInitialEvents") {
                return Answer::Silence;
            }
            let metadata = json!({ "resourceVersion": "7", "annotations": { "k8s.io/initial-events-end": "true" } });
            let bookmark = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata });
            Answer::Given(200, format!("{}\n", json!({ "type": "BOOKMARK", "object": bookmark })))
        });
        let (inbox, mut receiver) = Inbox::new();
        let watches = Watches::all(client, inbox);
        let kinds = watches.kinds();
        let mut synced = 0;
        while synced < kinds {
            synced += usize::from(matches!(receiver.recv().await, Some(Input::Synced)));
        }
        watches.refresh().await;
        let (mut unsynced, mut again) = (0, 0);
        while again < 3 {
            match receiver.recv().await {
                Some(Input::Unsynced) => unsynced += 1,
                Some(Input::Synced) => again += 1,
                _ => panic!("there are no objects"),
            }
        }
        assert_eq!(unsynced, 3, "as many are waited for as are read anew");
        let mut lists: BTreeMap<String, u32> = BTreeMap::new();
        for asked in asked.lock().unwrap().iter().filter(|asked| asked.contains("sendInitialEvents")) {
            *lists.entry(asked.split('?').next().unwrap().rsplit('/').next().unwrap().to_owned()).or_default() += 1;
        }
        let twice: Vec<_> = lists.iter().filter(|(_, times)| **times == 2).map(|(kind, _)| kind.as_str()).collect();
        assert_eq!(twice, ["pods", "resourceclaims", "resourceslices"]);
    }
}
