//! Leadership by a Lease: one of several schedulers works, the others stand by.
//!
//! A leader may write only until its lease could be taken by another, and stops some time before: a process that was paused, or cannot reach
//! the API server, writes nothing late. Other clocks are never compared with ours: a lease of another counts as ended when it has not
//! changed for its whole duration, as seen from here.

use crate::api::said;
use crate::fence::Fence;
use crate::record::micros;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, PostParams};
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How leadership goes; the defaults are those of `leaderElection` in a KubeSchedulerConfiguration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Election {
    /// The namespace of the lease.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Who we are: a name of this process alone.
    pub identity: String,
    /// How long a lease holds that is not renewed.
    pub duration: Duration,
    /// How long a leader goes on trying to renew; then it stops to lead.
    pub renew_deadline: Duration,
    /// The pause between tries.
    pub retry: Duration,
}

/// What is known of the lease.
struct Seen {
    lease: Lease,
    /// When it was first seen as it is.
    since: Instant,
}

/// Takes the lease and keeps it.
pub struct Elector {
    api: Api<Lease>,
    election: Election,
    fence: Fence,
    seen: Option<Seen>,
}

/// Why a round did not end with the lease in our hands.
enum Missed {
    /// Another has it.
    Held(String),
    /// Another wrote it between our look and our write. Whether it leads is seen at the next look.
    Raced,
    /// The API server did not do as asked.
    Failed(kube::Error),
}

impl From<kube::Error> for Missed {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if status.code == CONFLICT => Self::Raced,
            error => Self::Failed(error),
        }
    }
}

/// The status of an answer that says that another was quicker.
const CONFLICT: u16 = 409;

impl Elector {
    /// An elector that opens and closes a fence. Its client should be its own, so that nothing delays renewals.
    pub fn new(client: kube::Client, election: Election, fence: Fence) -> Self {
        let api = Api::namespaced(client, &election.namespace);
        Self { api, election, fence, seen: None }
    }

    /// Works until `stop` says so, telling whether we lead; then gives the lease back.
    pub async fn run(mut self, leads: watch::Sender<bool>, mut stop: watch::Receiver<bool>) {
        let mut renewed: Option<Instant> = None;
        while !*stop.borrow() {
            let asked = Instant::now();
            // A leader has the rest of its term, not a whole one: writes stopped at its end, and what became of them nobody here knows.
            let term = self.election.renew_deadline;
            let left = renewed.map_or(term, |renewed| term.saturating_sub(renewed.elapsed()));
            let round = tokio::time::timeout(left, self.round()).await;
            let lapsed = renewed.is_some_and(|renewed| renewed.elapsed() >= term);
            match round {
                Ok(Ok(())) if !lapsed => {
                    renewed = Some(asked);
                    // From the time before the request: the API server counts from a later one.
                    self.fence.allow_until(asked + self.election.renew_deadline);
                    leads.send_if_modified(|leads| !std::mem::replace(leads, true));
                }
                Ok(Err(Missed::Held(other))) => {
                    if renewed.take().is_some() {
                        tracing::warn!(leader = other, "another scheduler leads now");
                    }
                    self.step_down(&leads);
                }
                Ok(Err(Missed::Raced)) => tracing::debug!("another was quicker to write the lease"),
                Ok(Err(Missed::Failed(error))) => tracing::warn!(error = said(&error), "the lease was not renewed"),
                Ok(Ok(())) | Err(_) => tracing::warn!("the lease was not renewed in time"),
            }
            if renewed.is_some_and(|renewed| renewed.elapsed() >= term) {
                renewed = None;
                self.step_down(&leads);
            }
            tokio::select! {
                () = tokio::time::sleep(self.election.retry) => {}
                _ = stop.changed() => {}
            }
        }
        self.fence.close();
        if renewed.is_some() {
            self.give_back().await;
        }
    }

    fn step_down(&self, leads: &watch::Sender<bool>) {
        self.fence.close();
        leads.send_if_modified(|leads| std::mem::replace(leads, false));
    }

    /// Takes or renews the lease.
    async fn round(&mut self) -> Result<(), Missed> {
        let Some(found) = self.api.get_opt(&self.election.name).await? else {
            let created = self.api.create(&PostParams::default(), &self.wanted(None)).await?;
            self.see(created);
            return Ok(());
        };
        self.see(found);
        let Some(seen) = &self.seen else { return Err(Missed::Held(String::new())) };
        let spec = seen.lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.unwrap_or_default();
        let holds = Duration::from_secs(spec.lease_duration_seconds.unwrap_or(0).max(0) as u64);
        if !holder.is_empty() && holder != self.election.identity && seen.since.elapsed() < holds {
            return Err(Missed::Held(holder));
        }
        let wanted = self.wanted(Some(&seen.lease));
        let name = self.election.name.clone();
        // The version is a precondition: of two that ask, one is refused.
        let taken = self.api.replace(&name, &PostParams::default(), &wanted).await?;
        self.see(taken);
        Ok(())
    }

    fn see(&mut self, lease: Lease) {
        let version = |lease: &Lease| lease.metadata.resource_version.clone();
        if self.seen.as_ref().is_none_or(|seen| version(&seen.lease) != version(&lease)) {
            self.seen = Some(Seen { lease, since: Instant::now() });
        }
    }

    /// The lease as we want it.
    fn wanted(&self, before: Option<&Lease>) -> Lease {
        let Election { namespace, name, identity, duration, .. } = &self.election;
        let spec = before.and_then(|lease| lease.spec.clone()).unwrap_or_default();
        let ours = spec.holder_identity.as_deref() == Some(identity);
        let now = micros(Timestamp::now());
        let acquired = spec.acquire_time.as_ref().filter(|_| ours).map_or_else(|| now.clone(), |time| micros(time.0));
        let transitions = spec.lease_transitions.unwrap_or(0) + i32::from(!ours && before.is_some());
        let metadata = match before {
            Some(lease) => json!(lease.metadata),
            None => json!({ "namespace": namespace, "name": name }),
        };
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": metadata,
            "spec": {
                "holderIdentity": identity,
                "leaseDurationSeconds": duration.as_secs(),
                "acquireTime": acquired,
                "renewTime": now,
                "leaseTransitions": transitions,
            },
        });
        // It is made of what a lease is made of.
        serde_json::from_value(lease).unwrap_or_default()
    }

    /// Lets another take over at once.
    async fn give_back(&self) {
        let Some(seen) = &self.seen else { return };
        let mut lease = seen.lease.clone();
        if let Some(spec) = &mut lease.spec {
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
        }
        let options = PostParams::default();
        let replace = self.api.replace(&self.election.name, &options, &lease);
        // Nobody waits for it longer than for the lease to end by itself.
        match tokio::time::timeout(self.election.renew_deadline, replace).await {
            Ok(Ok(_)) => tracing::info!("the lease is given back"),
            Ok(Err(error)) => tracing::warn!(error = said(&error), "the lease was not given back; it ends by itself"),
            Err(_) => tracing::warn!("the lease was not given back in time; it ends by itself"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Answer, answering};
    use std::sync::Mutex;

    #[tokio::test(start_paused = true)]
    async fn who_is_overtaken_at_the_lease_looks_again_and_goes_on_to_lead() {
        let election = Election {
            namespace: "s".into(),
            name: "l".into(),
            identity: "me".into(),
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        };
        let (kept, writes) = (Mutex::new(serde_json::Value::Null), Mutex::new(0));
        let (client, _) = answering(move |method, _, body| {
            let (mut kept, mut writes) = (kept.lock().unwrap(), writes.lock().unwrap());
            let status = |code: u16| {
                let reason = if code == 404 { "NotFound" } else { "Conflict" };
                json!({ "kind": "Status", "status": "Failure", "message": "no", "reason": reason, "code": code })
            };
            if method == "GET" {
                return if kept.is_null() {
                    Answer::Given(404, status(404).to_string())
                } else {
                    Answer::Given(200, kept.to_string())
                };
            }
            *writes += 1;
            // The second write finds that somebody else has written.
            if *writes == 2 {
                return Answer::Given(409, status(409).to_string());
            }
            *kept = body.clone();
            kept["metadata"]["resourceVersion"] = json!(writes.to_string());
            Answer::Given(200, kept.to_string())
        });
        let fence = Fence::closed();
        let mut elector = Elector::new(client, election, fence);
        assert!(elector.round().await.is_ok());
        assert!(matches!(elector.round().await, Err(Missed::Raced)));
        assert!(elector.round().await.is_ok(), "it is ours all the same");
    }
}
