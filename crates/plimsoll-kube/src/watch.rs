//! Watches: every kind of object that the rules need, as events for the engine.
//!
//! What a watch missed while it was cut is found by comparing what is listed anew with what was known: only names and UIDs are kept for that,
//! the objects themselves are in the engine, in its own form.

use crate::api::said;
use crate::driver::{Closed, Inbox, Input};
use futures_util::{StreamExt, pin_mut};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::{ListParams, WatchEvent, WatchParams};
use plimsoll_core::engine::{Event, Object};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;
use tokio::sync::watch as channel;

/// An object that is watched.
pub trait Watched:
    kube::Resource<DynamicType = ()> + Clone + Default + Debug + DeserializeOwned + Send + Into<Object> + 'static
{
}

impl<K> Watched for K where
    K: kube::Resource<DynamicType = ()> + Clone + Default + Debug + DeserializeOwned + Send + Into<Object> + 'static
{
}

/// The pauses after errors of a watch: a scheduler that hears nothing is not to wait long for a server that is back.
#[derive(Debug, Default)]
struct Pauses {
    errors: u32,
}

impl Pauses {
    const FIRST: Duration = Duration::from_millis(200);
    const LONGEST: Duration = Duration::from_secs(5);

    fn next(&mut self) -> Duration {
        let pause = Self::FIRST.saturating_mul(1 << self.errors.min(16)).min(Self::LONGEST);
        self.errors = self.errors.saturating_add(1);
        pause
    }
}

/// Namespace and name.
type Key = (Box<str>, Box<str>);

/// What is known of a kind: the UIDs by name.
#[derive(Debug, Default)]
pub struct Known(BTreeMap<Key, Box<str>>);

impl Known {
    /// Takes note of an object.
    fn note<K: Watched>(&mut self, object: &K) {
        let (key, uid) = identity(object);
        self.0.insert(key, uid);
    }

    /// The stub of another object that has the name of this one.
    fn replaced_by<K: Watched>(&self, object: &K) -> Option<K> {
        let (key, uid) = identity(object);
        let before = self.0.get(&key)?;
        (*before != uid).then(|| stub(&key, before))
    }

    /// The stubs of what is in these, but not in others.
    fn without<'a, K: Watched>(&'a self, others: &'a Self) -> impl Iterator<Item = K> + 'a {
        let gone = self.0.iter().filter(|(key, uid)| others.0.get(*key) != Some(*uid));
        gone.map(|(key, uid)| stub(key, uid))
    }
}

fn identity<K: Watched>(object: &K) -> (Key, Box<str>) {
    let meta = object.meta();
    let text = |value: &Option<String>| value.as_deref().unwrap_or_default().into();
    ((text(&meta.namespace), text(&meta.name)), text(&meta.uid))
}

/// An object that has nothing but its identity, to say that it is gone.
fn stub<K: Watched>((namespace, name): &Key, uid: &str) -> K {
    let mut object = K::default();
    *object.meta_mut() = ObjectMeta {
        namespace: (!namespace.is_empty()).then(|| namespace.to_string()),
        name: Some(name.to_string()),
        uid: Some(uid.to_owned()),
        ..ObjectMeta::default()
    };
    object
}

/// Watches a kind until the inbox is closed, and says when all its objects are known: once, and once more for each time that `refresh` was
/// raised, when they were all read anew after that.
pub async fn watch<K: Watched>(
    api: Api<K>,
    fields: Option<&'static str>,
    inbox: Inbox,
    mut refresh: channel::Receiver<u64>,
) {
    let mut known = Known::default();
    // How often others wait to hear that all objects are known.
    let (mut owed, mut asked) = (1, *refresh.borrow_and_update());
    loop {
        tokio::select! {
            Closed = follow(&api, fields, &inbox, &mut known, &mut owed) => return,
            Ok(()) = refresh.changed() => {
                owed += *refresh.borrow_and_update() - asked;
                asked = *refresh.borrow();
            }
        }
    }
}

/// After so many seconds the API server ends a watch, which is then taken up again.
const LONGEST_WATCH: u32 = 290;
/// A watch that has not ended so long after it should have is dead.
const GRACE: Duration = Duration::from_secs(30);
/// Objects on a page, where the server cannot stream them.
const PAGE: u32 = 500;
/// What the bookmark has that ends the objects with which a watch begins.
const ALL_SENT: &str = "k8s.io/initial-events-end";

/// Follows a kind until the inbox is closed. It may be dropped at any time: what is known is noted once it was told.
async fn follow<K: Watched>(
    api: &Api<K>,
    fields: Option<&'static str>,
    inbox: &Inbox,
    known: &mut Known,
    owed: &mut u64,
) -> Closed {
    let mut follower = Follower { api, fields, inbox, known, owed, version: None, listed: Known::default() };
    let mut pauses = Pauses::default();
    loop {
        let heard = match &follower.version {
            None => follower.begin().await,
            Some(version) => {
                let version = version.clone();
                follower.listen(&follower.params(), &version).await
            }
        };
        let kind = K::kind(&());
        match heard {
            Ok(()) => pauses = Pauses::default(),
            Err(Cut::Closed) => return Closed,
            Err(Cut::Expired) => {
                tracing::warn!(%kind, "a watch cannot be taken up again; all objects are read anew");
                tokio::time::sleep(pauses.next()).await;
                follower.version = None;
            }
            Err(Cut::Failed(error)) => {
                tracing::warn!(%kind, error, "a watch was cut; it is taken up again");
                tokio::time::sleep(pauses.next()).await;
            }
        }
    }
}

/// Why a watch ended before its time.
enum Cut {
    /// Nobody listens any more.
    Closed,
    /// The server no longer knows what happened since.
    Expired,
    /// Something else, which may pass.
    Failed(String),
}

impl From<Closed> for Cut {
    fn from(_: Closed) -> Self {
        Self::Closed
    }
}

impl From<kube::Error> for Cut {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if status.code == GONE => Self::Expired,
            error => Self::Failed(said(&error)),
        }
    }
}

const GONE: u16 = 410;

/// One kind, as it is followed.
struct Follower<'a, K> {
    api: &'a Api<K>,
    fields: Option<&'static str>,
    inbox: &'a Inbox,
    known: &'a mut Known,
    owed: &'a mut u64,
    /// The version up to which all is known; none while not all objects are.
    version: Option<String>,
    /// The objects that came since they are read anew.
    listed: Known,
}

impl<K: Watched> Follower<'_, K> {
    fn params(&self) -> WatchParams {
        let params = WatchParams::default().timeout(LONGEST_WATCH);
        match self.fields {
            Some(fields) => params.fields(fields),
            None => params,
        }
    }

    /// Reads all objects, in a stream if the server can, and goes on with what happens to them.
    async fn begin(&mut self) -> Result<(), Cut> {
        self.listed = Known::default();
        // Without a version the stream is of the present. With "0" it might begin with what a server remembers, which may be older than
        // what was bound before.
        match self.listen(&self.params().initial_events(), "").await {
            Err(Cut::Failed(error)) if error.contains("sendInitialEvents") => self.list().await,
            Ok(()) if self.version.is_none() => Err(Cut::Failed("it ended before all objects were sent".to_owned())),
            heard => heard,
        }
    }

    /// Reads all objects page by page.
    async fn list(&mut self) -> Result<(), Cut> {
        let mut params = ListParams::default().limit(PAGE);
        params.field_selector = self.fields.map(str::to_owned);
        loop {
            let page = self.api.list(&params).await?;
            for object in page.items {
                self.apply(object).await?;
            }
            params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                return self.all_sent(page.metadata.resource_version.unwrap_or_default()).await;
            }
        }
    }

    /// Hears a watch to its end.
    async fn listen(&mut self, params: &WatchParams, version: &str) -> Result<(), Cut> {
        let dead = || Cut::Failed("it was silent for too long".to_owned());
        let end = tokio::time::Instant::now() + Duration::from_secs(LONGEST_WATCH.into()) + GRACE;
        let events = tokio::time::timeout_at(end, self.api.watch(params, version)).await.map_err(|_| dead())??;
        pin_mut!(events);
        while let Some(event) = tokio::time::timeout_at(end, events.next()).await.map_err(|_| dead())? {
            self.hear(event?).await?;
        }
        Ok(())
    }

    async fn hear(&mut self, event: WatchEvent<K>) -> Result<(), Cut> {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                let version = object.meta().resource_version.clone();
                self.apply(object).await?;
                self.reached(version);
            }
            WatchEvent::Deleted(object) => {
                let version = object.meta().resource_version.clone();
                let (key, _) = identity(&object);
                self.inbox.send(Input::Event(Event::delete(object))).await?;
                self.known.0.remove(&key);
                self.listed.0.remove(&key);
                self.reached(version);
            }
            WatchEvent::Bookmark(bookmark) => {
                let version = bookmark.metadata.resource_version;
                if bookmark.metadata.annotations.contains_key(ALL_SENT) {
                    self.all_sent(version).await?;
                } else {
                    self.reached(Some(version));
                }
            }
            WatchEvent::Error(status) if status.code == GONE => return Err(Cut::Expired),
            WatchEvent::Error(status) => return Err(Cut::Failed(status.message)),
        }
        Ok(())
    }

    /// All is known up to a version, if all objects are.
    fn reached(&mut self, version: Option<String>) {
        if self.version.is_some() && version.is_some() {
            self.version = version;
        }
    }

    async fn apply(&mut self, mut object: K) -> Result<(), Cut> {
        // Nobody asks who wrote what, and it is most of a small object.
        object.meta_mut().managed_fields = None;
        if self.version.is_none() {
            self.listed.note(&object);
        }
        if let Some(replaced) = self.known.replaced_by(&object) {
            self.inbox.send(Input::Event(Event::delete(replaced))).await?;
        }
        let (key, uid) = identity(&object);
        self.inbox.send(Input::Event(Event::apply(object))).await?;
        self.known.0.insert(key, uid);
        Ok(())
    }

    /// All objects have come: those that did not are gone.
    async fn all_sent(&mut self, version: String) -> Result<(), Cut> {
        let listed = std::mem::take(&mut self.listed);
        for gone in self.known.without::<K>(&listed) {
            self.inbox.send(Input::Event(Event::delete(gone))).await?;
        }
        *self.known = listed;
        self.version = Some(version);
        // Counted down one by one: this may be dropped between two.
        while *self.owed > 0 {
            self.inbox.send(Input::Synced).await?;
            *self.owed -= 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Answer, scripted};
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    fn pod(name: &str, uid: &str) -> Pod {
        stub(&("default".into(), name.into()), uid)
    }

    #[test]
    fn pauses_grow_up_to_a_limit() {
        let mut pauses = Pauses::default();
        let millis: Vec<_> = (0..7).map(|_| pauses.next().as_millis()).collect();
        assert_eq!(millis, [200, 400, 800, 1600, 3200, 5000, 5000]);
    }

    #[test]
    fn who_takes_the_name_of_another_replaces_it() {
        let mut known = Known::default();
        assert!(known.replaced_by(&pod("a", "1")).is_none());
        known.note(&pod("a", "1"));
        assert!(known.replaced_by(&pod("a", "1")).is_none());
        let replaced = known.replaced_by(&pod("a", "2")).unwrap();
        assert_eq!(replaced.metadata.uid.as_deref(), Some("1"));
        assert_eq!(replaced.metadata.namespace.as_deref(), Some("default"));
    }

    #[test]
    fn what_is_no_longer_listed_is_gone() {
        let (mut known, mut listed) = (Known::default(), Known::default());
        for (name, uid) in [("a", "1"), ("b", "2"), ("c", "3")] {
            known.note(&pod(name, uid));
        }
        listed.note(&pod("b", "2"));
        listed.note(&pod("c", "4"));
        let gone: Vec<_> = known.without::<Pod>(&listed).filter_map(|pod| pod.metadata.uid).collect();
        assert_eq!(gone, ["1", "3"]);
    }

    fn event(kind: &str, name: &str, version: u32) -> String {
        let object = json!({ "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "namespace": "default", "uid": name, "resourceVersion": version.to_string() } });
        format!("{}\n", json!({ "type": kind, "object": object }))
    }

    fn all_sent(version: u32) -> String {
        let metadata =
            json!({ "resourceVersion": version.to_string(), "annotations": { "k8s.io/initial-events-end": "true" } });
        format!(
            "{}\n",
            json!({ "type": "BOOKMARK", "object": { "apiVersion": "v1", "kind": "Pod", "metadata": metadata } })
        )
    }

    fn refusal(code: u16, message: &str) -> (u16, String) {
        let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": "Expired", "code": code });
        (code, status.to_string())
    }

    /// What comes of answers: so many inputs, and what was asked for them.
    async fn heard(answers: Vec<(u16, String)>, inputs: usize) -> (Vec<String>, Vec<String>) {
        let answers = answers.into_iter().map(|(status, body)| Answer::Given(status, body));
        let (client, asked) = scripted(answers.collect());
        let (inbox, mut receiver) = Inbox::new();
        let watching = tokio::spawn(watch::<Pod>(Api::all(client), None, inbox, channel::channel(0).1));
        let mut heard = Vec::new();
        while heard.len() < inputs {
            heard.push(match receiver.recv().await.unwrap() {
                Input::Event(Event::Apply(Object::Pod(pod))) => format!("+{}", pod.metadata.name.unwrap()),
                Input::Event(Event::Delete(Object::Pod(pod))) => format!("-{}", pod.metadata.name.unwrap()),
                Input::Synced => "synced".to_owned(),
                _ => "else".to_owned(),
            });
        }
        watching.abort();
        let asked = asked.lock().unwrap().clone();
        (heard, asked)
    }

    #[tokio::test(start_paused = true)]
    async fn all_objects_are_streamed_as_they_are_now_and_what_was_missed_is_found() {
        let answers = vec![
            (200, event("ADDED", "a", 5) + &event("ADDED", "b", 4) + &all_sent(7) + &event("MODIFIED", "a", 8)),
            refusal(500, "for a moment"),
            (200, event("DELETED", "b", 9)),
            refusal(410, "too old resource version"),
            (200, event("ADDED", "c", 12) + &all_sent(12)),
        ];
        let (heard, asked) = heard(answers, 7).await;
        assert_eq!(heard, ["+a", "+b", "synced", "+a", "-b", "+c", "-a"]);
        let version = |query: &String| {
            let part = |key: &str| query.split('&').find_map(|part| part.strip_prefix(key)).map(str::to_owned);
            (part("resourceVersion=").unwrap(), part("sendInitialEvents=").is_some())
        };
        let versions: Vec<_> = asked.iter().take(5).map(version).collect();
        let expected = [("", true), ("8", false), ("8", false), ("9", false), ("", true)];
        assert_eq!(versions, expected.map(|(version, all)| (version.to_owned(), all)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_ends_before_all_was_sent_begins_anew() {
        let answers = vec![(200, event("ADDED", "a", 5)), (200, event("ADDED", "b", 6) + &all_sent(7))];
        let (heard, _) = heard(answers, 4).await;
        assert_eq!(heard, ["+a", "+b", "-a", "synced"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_streams_no_lists_is_asked_page_by_page() {
        let page = |name: &str, token: &str| {
            let item = json!({ "metadata": { "name": name, "namespace": "default", "uid": name } });
            let meta = json!({ "resourceVersion": "9", "continue": token });
            (200, json!({ "kind": "PodList", "apiVersion": "v1", "metadata": meta, "items": [item] }).to_string())
        };
        let answers = vec![
            refusal(422, "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"),
            page("a", "more"),
            page("b", ""),
            (200, event("ADDED", "c", 10)),
        ];
        let (heard, asked) = heard(answers, 4).await;
        assert_eq!(heard, ["+a", "+b", "synced", "+c"]);
        assert!(asked[2].contains("continue=more") && asked[3].contains("resourceVersion=9"), "{asked:?}");
    }
}
