//! Recordings that are started and ended while the scheduler runs.

use crate::recording::{Recording as Kept, pods, save};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use plimsoll_server::{Recorder, Recording};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// What a trace is called after its name.
const SUFFIX: &str = ".csv.gz";
/// How often a trace is written: no more than that is lost, whatever happens.
const EVERY: Duration = Duration::from_secs(30);

/// Recordings in a folder.
pub struct Recordings {
    client: Client,
    folder: PathBuf,
    running: Mutex<BTreeMap<String, Running>>,
}

struct Running {
    begun: Instant,
    pods: Arc<AtomicUsize>,
    /// Ends it when it is dropped.
    _stop: oneshot::Sender<()>,
}

impl Recordings {
    /// Recordings of a cluster's pods, in a folder.
    pub fn new(client: Client, folder: PathBuf) -> Self {
        Self { client, folder, running: Mutex::default() }
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<String, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}{SUFFIX}"))
    }

    fn shown(&self, name: &str, running: Option<&Running>) -> Recording {
        Recording {
            name: name.to_owned(),
            state: if running.is_some() { "recording" } else { "done" },
            pods: running.map(|running| running.pods.load(Ordering::Relaxed)),
            seconds: running.map(|running| running.begun.elapsed().as_secs_f64()),
            path: self.path(name).display().to_string(),
        }
    }
}

impl Recorder for Recordings {
    fn list(&self) -> Vec<Recording> {
        let running = self.running();
        let files = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let files = files.filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(SUFFIX)?.to_owned()));
        let mut names: Vec<String> = files.filter(|name| !name.starts_with('.')).collect();
        names.extend(running.keys().cloned());
        names.sort_unstable();
        names.dedup();
        names.iter().map(|name| self.shown(name, running.get(name))).collect()
    }

    fn start(&self, name: &str) -> Result<Recording, String> {
        let path = self.path(name);
        let mut running = self.running();
        if path.exists() || running.contains_key(name) {
            return Err(format!("there is a recording {name:?}; take another name"));
        }
        let kept = Kept::since(Timestamp::now());
        // What cannot be written is told now, not at the end.
        std::fs::create_dir_all(&self.folder).map_err(|error| format!("{}: {error}", self.folder.display()))?;
        save(&kept, &path).map_err(|error| format!("{error:#}"))?;
        let (stop, stopped) = oneshot::channel();
        let pods = Arc::new(AtomicUsize::new(0));
        tokio::spawn(record(self.client.clone(), kept, path, Arc::clone(&pods), stopped));
        running.insert(name.to_owned(), Running { begun: Instant::now(), pods, _stop: stop });
        Ok(self.shown(name, running.get(name)))
    }

    fn stop(&self, name: &str) -> Result<Recording, String> {
        let mut running = self.running();
        let Some(ended) = running.remove(name) else { return Err(format!("there is no recording {name:?} under way")) };
        Ok(Recording { state: "done", ..self.shown(name, Some(&ended)) })
    }
}

/// Records until it is stopped, or the program ends.
async fn record(
    client: Client,
    mut kept: Kept,
    path: PathBuf,
    count: Arc<AtomicUsize>,
    mut stopped: oneshot::Receiver<()>,
) {
    let mut events = pods(client, None);
    let mut rewrite = tokio::time::interval(EVERY);
    loop {
        let ends = tokio::select! {
            event = events.recv() => match event {
                Some(event) => {
                    kept.take(&event, Timestamp::now());
                    count.store(kept.len(), Ordering::Relaxed);
                    continue;
                }
                None => true,
            },
            _ = rewrite.tick() => false,
            _ = &mut stopped => true,
        };
        if let Err(error) = save(&kept, &path) {
            tracing::error!(error = format!("{error:#}"), "a recording cannot be written");
        }
        if ends {
            return;
        }
    }
}
