//! Reads the API server's history into a ledger: by a watch that goes on where it ended, and revision by revision where the API server was
//! restarted and no longer knows what a watch has not told yet.

use crate::ledger::Ledger;
use futures_util::TryStreamExt;
use http::Request;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, WatchEvent, WatchParams};
use kube::core::ObjectList;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;

/// A ledger that is kept up to date.
#[derive(Clone)]
pub struct History {
    ledger: Arc<Mutex<Ledger>>,
}

/// Why a watch ended.
enum Ended {
    /// It can go on where it was.
    Cut,
    /// The API server does not know any more what came after its revision.
    Gone,
}

impl History {
    /// Reads on, from a revision at which there was no pod, until the task is aborted.
    pub fn follow(client: Client, mut ledger: Ledger, revision: u64) -> (Self, JoinHandle<()>) {
        ledger.revision = revision;
        let history = Self { ledger: Arc::new(Mutex::new(ledger)) };
        let reader = history.clone();
        let task = tokio::spawn(async move {
            loop {
                let ended = reader.watch(&client).await;
                if matches!(ended, Ended::Gone) {
                    reader.fill(&client).await;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
        (history, task)
    }

    /// What is known.
    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn watch(&self, client: &Client) -> Ended {
        let api: Api<Pod> = Api::all(client.clone());
        let from = self.ledger().revision.to_string();
        let mut changes = match api.watch(&WatchParams::default(), &from).await {
            Ok(changes) => std::pin::pin!(changes),
            Err(kube::Error::Api(status)) if status.code == 410 => return Ended::Gone,
            Err(_) => return Ended::Cut,
        };
        loop {
            match changes.try_next().await {
                Ok(Some(WatchEvent::Added(pod) | WatchEvent::Modified(pod))) => self.ledger().apply(&pod),
                Ok(Some(WatchEvent::Deleted(pod))) => self.ledger().delete(&pod),
                Ok(Some(WatchEvent::Bookmark(mark))) => {
                    let revision = mark.metadata.resource_version.parse().unwrap_or(0);
                    let mut ledger = self.ledger();
                    ledger.revision = ledger.revision.max(revision);
                }
                Ok(Some(WatchEvent::Error(status))) if status.code == 410 => return Ended::Gone,
                Ok(Some(WatchEvent::Error(_)) | None) | Err(_) => return Ended::Cut,
            }
        }
    }

    /// Reads all pods at each revision from the last one known to the present one.
    async fn fill(&self, client: &Client) {
        let Some((_, last)) = pods_at(client, None).await else { return };
        let mut next = self.ledger().revision + 1;
        eprintln!("soak: reading revisions {next} to {last} one by one");
        while next <= last {
            match pods_at(client, Some(next)).await {
                Some((pods, _)) => {
                    self.ledger().apply_all(&pods, next);
                    next += 1;
                }
                None => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        }
    }
}

/// All pods, and at which revision: that one, or the latest.
async fn pods_at(client: &Client, revision: Option<u64>) -> Option<(Vec<Pod>, u64)> {
    let exactly = revision.map_or(String::new(), |at| format!("?resourceVersion={at}&resourceVersionMatch=Exact"));
    let request = Request::get(format!("/api/v1/pods{exactly}")).body(Vec::new()).ok()?;
    match client.request::<ObjectList<Pod>>(request).await {
        Ok(list) => {
            let at = list.metadata.resource_version?.parse().ok()?;
            Some((list.items, at))
        }
        Err(error) => {
            eprintln!("soak: pods at revision {revision:?} cannot be read: {error}");
            None
        }
    }
}

/// The revision of the present.
pub async fn revision(client: &Client) -> Option<u64> {
    pods_at(client, None).await.map(|(_, revision)| revision)
}
