//! Watches: every kind of object that the rules need, as events for the engine.
//!
//! What a watch missed while it was cut is found by comparing what is listed anew with what was known: only names and UIDs are kept for that,
//! the objects themselves are in the engine, in its own form.

use crate::driver::{Inbox, Input};
use futures_util::{StreamExt, pin_mut};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use plimsoll_core::engine::{Event, Object};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt::Debug;

/// An object that is watched.
pub trait Watched:
    kube::Resource<DynamicType = ()> + Clone + Default + Debug + DeserializeOwned + Send + Into<Object> + 'static
{
}

impl<K> Watched for K where
    K: kube::Resource<DynamicType = ()> + Clone + Default + Debug + DeserializeOwned + Send + Into<Object> + 'static
{
}

/// Namespace and name.
type Key = (Box<str>, Box<str>);

/// What is known of a kind: the UIDs by name.
#[derive(Debug, Default)]
pub struct Known(BTreeMap<Key, Box<str>>);

impl Known {
    /// Takes note of an object; the stub of another that had its name before.
    fn apply<K: Watched>(&mut self, object: &K) -> Option<K> {
        let (key, uid) = identity(object);
        let before = self.0.insert(key.clone(), uid.clone())?;
        (before != uid).then(|| stub(&key, &before))
    }

    fn delete<K: Watched>(&mut self, object: &K) {
        self.0.remove(&identity(object).0);
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

/// Watches a kind until the inbox is closed.
pub async fn watch<K: Watched>(client: Client, fields: Option<&'static str>, inbox: Inbox) {
    let kind = K::kind(&()).into_owned();
    let mut config = watcher::Config::default().streaming_lists();
    if let Some(fields) = fields {
        config = config.fields(fields);
    }
    let events = watcher(Api::<K>::all(client), config).default_backoff();
    pin_mut!(events);
    let (mut known, mut listed) = (Known::default(), Known::default());
    let mut synced = false;
    while let Some(event) = events.next().await {
        let sent = match event {
            Ok(watcher::Event::Init) => {
                listed = Known::default();
                Ok(())
            }
            Ok(watcher::Event::InitApply(object)) => {
                listed.apply(&object);
                apply(&mut known, object, &inbox).await
            }
            Ok(watcher::Event::InitDone) => {
                let listed = std::mem::take(&mut listed);
                let mut sent = Ok(());
                for gone in known.without::<K>(&listed) {
                    sent = inbox.send(Input::Event(Event::delete(gone))).await;
                }
                known = listed;
                if !synced {
                    synced = true;
                    sent = inbox.send(Input::Synced).await;
                }
                sent
            }
            Ok(watcher::Event::Apply(object)) => apply(&mut known, object, &inbox).await,
            Ok(watcher::Event::Delete(object)) => {
                known.delete(&object);
                inbox.send(Input::Event(Event::delete(object))).await
            }
            Err(error) => {
                tracing::warn!(kind, %error, "a watch was cut; it is taken up again");
                Ok(())
            }
        };
        if sent.is_err() {
            return;
        }
    }
}

async fn apply<K: Watched>(known: &mut Known, mut object: K, inbox: &Inbox) -> Result<(), crate::driver::Closed> {
    // Nobody asks who wrote what, and it is most of a small object.
    object.meta_mut().managed_fields = None;
    if let Some(replaced) = known.apply(&object) {
        inbox.send(Input::Event(Event::delete(replaced))).await?;
    }
    inbox.send(Input::Event(Event::apply(object))).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;

    fn pod(name: &str, uid: &str) -> Pod {
        stub(&("default".into(), name.into()), uid)
    }

    #[test]
    fn who_takes_the_name_of_another_replaces_it() {
        let mut known = Known::default();
        assert!(known.apply(&pod("a", "1")).is_none());
        assert!(known.apply(&pod("a", "1")).is_none());
        let replaced = known.apply(&pod("a", "2")).unwrap();
        assert_eq!(replaced.metadata.uid.as_deref(), Some("1"));
        assert_eq!(replaced.metadata.namespace.as_deref(), Some("default"));
        known.delete(&pod("a", "2"));
        assert!(known.apply(&pod("a", "3")).is_none());
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
