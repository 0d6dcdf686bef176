//! Watches: every kind of object that the rules need, as events for the engine.
//!
//! What a watch missed while it was cut is found by comparing what is listed anew with what was known: only names and UIDs are kept for that,
//! the objects themselves are in the engine, in its own form.

use crate::driver::{Closed, Inbox, Input};
use futures_util::{StreamExt, pin_mut};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::runtime::utils::Backoff;
use kube::runtime::{WatchStreamExt, watcher};
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

/// The pause before all objects are read anew because a watch could not be taken up again.
const PAUSE: Duration = Duration::from_secs(1);

/// The pauses after errors of a watch: a scheduler that hears nothing is not to wait long for a server that is back.
#[derive(Debug, Default)]
struct Pauses {
    errors: u32,
}

impl Pauses {
    const FIRST: Duration = Duration::from_millis(200);
    const LONGEST: Duration = Duration::from_secs(5);
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let pause = Self::FIRST.saturating_mul(1 << self.errors.min(16)).min(Self::LONGEST);
        self.errors = self.errors.saturating_add(1);
        Some(pause)
    }
}

impl Backoff for Pauses {
    fn reset(&mut self) {
        self.errors = 0;
    }
}

/// Namespace and name.
type Key = (Box<str>, Box<str>);

/// What is known of a kind: the UIDs by name.
#[derive(Debug, Default)]
pub struct Known(BTreeMap<Key, Box<str>>);

impl Known {
    /// Takes note of an object.
    fn apply<K: Watched>(&mut self, object: &K) {
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
        let ended = tokio::select! {
            ended = follow(&api, fields, &inbox, &mut known, &mut owed) => ended,
            Ok(()) = refresh.changed() => {
                owed += *refresh.borrow_and_update() - asked;
                asked = *refresh.borrow();
                Ok(())
            }
        };
        if ended.is_err() {
            return;
        }
    }
}

/// Follows a kind until its objects have to be read anew. It may be dropped at any time: what is known is noted once it was told.
async fn follow<K: Watched>(
    api: &Api<K>,
    fields: Option<&'static str>,
    inbox: &Inbox,
    known: &mut Known,
    owed: &mut u64,
) -> Result<(), Closed> {
    let kind = K::kind(&()).into_owned();
    // Lists are of the present. A streaming list may begin with what a server remembers, which may be older than what was bound before.
    let mut config = watcher::Config::default();
    if let Some(fields) = fields {
        config = config.fields(fields);
    }
    let events = watcher(api.clone(), config).backoff(Pauses::default());
    pin_mut!(events);
    let mut listed = Known::default();
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Init) => listed = Known::default(),
            Ok(watcher::Event::InitApply(object)) => {
                listed.apply(&object);
                apply(known, object, inbox).await?;
            }
            Ok(watcher::Event::InitDone) => {
                let listed = std::mem::take(&mut listed);
                for gone in known.without::<K>(&listed) {
                    inbox.send(Input::Event(Event::delete(gone))).await?;
                }
                *known = listed;
                for _ in 0..std::mem::take(owed) {
                    inbox.send(Input::Synced).await?;
                }
            }
            Ok(watcher::Event::Apply(object)) => apply(known, object, inbox).await?,
            Ok(watcher::Event::Delete(object)) => {
                let (key, _) = identity(&object);
                inbox.send(Input::Event(Event::delete(object))).await?;
                known.0.remove(&key);
            }
            // The watcher would ask for the same version again.
            Err(watcher::Error::WatchStartFailed(kube::Error::Api(status))) if status.code == 410 => {
                tracing::warn!(kind, "a watch cannot be taken up again; all objects are read anew");
                tokio::time::sleep(PAUSE).await;
                return Ok(());
            }
            Err(error) => tracing::warn!(kind, %error, "a watch was cut; it is taken up again"),
        }
    }
    Ok(())
}

async fn apply<K: Watched>(known: &mut Known, mut object: K, inbox: &Inbox) -> Result<(), Closed> {
    // Nobody asks who wrote what, and it is most of a small object.
    object.meta_mut().managed_fields = None;
    if let Some(replaced) = known.replaced_by(&object) {
        inbox.send(Input::Event(Event::delete(replaced))).await?;
    }
    let (key, uid) = identity(&object);
    inbox.send(Input::Event(Event::apply(object))).await?;
    known.0.insert(key, uid);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;

    fn pod(name: &str, uid: &str) -> Pod {
        stub(&("default".into(), name.into()), uid)
    }

    #[test]
    fn pauses_grow_up_to_a_limit_and_begin_anew() {
        let mut pauses = Pauses::default();
        let millis: Vec<_> = pauses.by_ref().take(7).map(|pause| pause.as_millis()).collect();
        assert_eq!(millis, [200, 400, 800, 1600, 3200, 5000, 5000]);
        pauses.reset();
        assert_eq!(pauses.next(), Some(Pauses::FIRST));
    }

    #[test]
    fn who_takes_the_name_of_another_replaces_it() {
        let mut known = Known::default();
        assert!(known.replaced_by(&pod("a", "1")).is_none());
        known.apply(&pod("a", "1"));
        assert!(known.replaced_by(&pod("a", "1")).is_none());
        let replaced = known.replaced_by(&pod("a", "2")).unwrap();
        assert_eq!(replaced.metadata.uid.as_deref(), Some("1"));
        assert_eq!(replaced.metadata.namespace.as_deref(), Some("default"));
    }

    #[test]
    fn what_is_no_longer_listed_is_gone() {
        let (mut known, mut listed) = (Known::default(), Known::default());
        for (name, uid) in [("a", "1"), ("b", "2"), ("c", "3")] {
            known.apply(&pod(name, uid));
        }
        listed.apply(&pod("b", "2"));
        listed.apply(&pod("c", "4"));
        let gone: Vec<_> = known.without::<Pod>(&listed).filter_map(|pod| pod.metadata.uid).collect();
        assert_eq!(gone, ["1", "3"]);
    }
}
