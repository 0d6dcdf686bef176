//! What the cluster is by the events so far: a plain list of objects, with none of the engine's counts.

use super::engine::Engine;
use super::events::{Clearing, Event, Template};
use super::objects::{Kind, Object};
use super::universe::{NodeRecipe, PodKey, PodRecipe, Told, parse};
use k8s_openapi::api::core::v1 as api;
use plimsoll_core::reserve::Reservation;
use plimsoll_core::scheduler::Decision;
use plimsoll_core::state::Phase;
use serde_json::json;
use std::collections::BTreeMap;

/// Where a pod is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    Pending,
    Assumed(String),
    /// By the API server's word, or by our own binding that it has not told us of yet.
    Bound(String),
}

/// A pod that is known.
#[derive(Debug)]
pub struct KnownPod {
    key: PodKey,
    template: Template,
    told: Told,
    place: Place,
    nominated: Option<String>,
}

/// The cluster as events tell it.
#[derive(Debug)]
pub struct World {
    templates: Vec<PodRecipe>,
    nodes: BTreeMap<&'static str, NodeRecipe>,
    pub pods: BTreeMap<String, KnownPod>,
    objects: BTreeMap<(Kind, String), Object>,
    /// Bindings under way.
    reserved: Vec<(PodKey, Reservation)>,
}

impl World {
    /// An empty cluster whose pods are made from these templates.
    pub fn new(templates: Vec<PodRecipe>) -> Self {
        Self {
            templates,
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            objects: BTreeMap::new(),
            reserved: Vec::new(),
        }
    }

    /// Lets something happen, here and to the engine; the error is what the engine does wrong.
    pub fn happen(&mut self, event: &Event, engine: &mut Engine) -> Result<(), String> {
        match event {
            Event::Node(name, recipe) => {
                engine.scheduler.state.apply_node(&recipe.build(name)).map_err(|error| error.to_string())?;
                self.nodes.insert(name, recipe.clone());
            }
            Event::UnreadableNode(name) => {
                let node = parse(json!({"metadata": {"name": name}, "status": {"allocatable": {"cpu": "many"}}}));
                refused(engine.scheduler.state.apply_node(&node))?;
            }
            Event::NodeGone(name) => {
                let gone = engine.scheduler.state.delete_node(name);
                same("node is known", gone.is_some(), self.nodes.remove(name).is_some())?;
            }
            Event::Pod(key, template, told) => self.apply_pod(*key, *template, told, engine)?,
            Event::UnreadablePod(key, template, told) => {
                let mut pod = self.build(*key, *template, told);
                let overhead = [("cpu".to_owned(), parse(json!("some")))].into();
                pod.spec.get_or_insert_default().overhead = Some(overhead);
                refused(engine.apply_pod(&pod))?;
            }
            Event::PodEnded(key, template, told) => {
                let mut pod = self.build(*key, *template, told);
                pod.status.get_or_insert_default().phase = Some("Succeeded".into());
                same("pod that has ended", engine.apply_pod(&pod)?, None)?;
                self.pods.remove(&key.uid());
            }
            Event::PodGone(key) => {
                let gone = engine.scheduler.state.delete_pod(&key.uid());
                same("pod is known", gone.is_some(), self.pods.remove(&key.uid()).is_some())?;
            }
            Event::Schedule(key, clearing) => self.schedule(*key, *clearing, engine)?,
            Event::Assume(key, node) => self.assume(*key, node, engine)?,
            Event::Forget(key) => {
                let Some(id) = engine.pod(&key.uid()) else { return Ok(()) };
                let done = engine.scheduler.state.forget(id).is_ok();
                let Some(pod) = self.pods.get_mut(&key.uid()) else { return Err(format!("{key:?} is not gone")) };
                same("forgotten", done, matches!(pod.place, Place::Assumed(_)))?;
                if done {
                    pod.place = Place::Pending;
                }
            }
            Event::Confirm(key) => {
                let Some(id) = engine.pod(&key.uid()) else { return Ok(()) };
                let done = engine.scheduler.state.confirm(id).is_ok();
                let Some(pod) = self.pods.get_mut(&key.uid()) else { return Err(format!("{key:?} is not gone")) };
                let node = if let Place::Assumed(node) = &pod.place { Some(node.clone()) } else { None };
                same("confirmed", done, node.is_some())?;
                pod.place = node.map_or_else(|| pod.place.clone(), Place::Bound);
            }
            Event::Nominate(key, node) => self.nominate(*key, *node, engine),
            Event::Object(object) => {
                object.apply(&mut engine.scheduler.state);
                let known = self.objects.get(&object.key());
                if !known.is_some_and(|known| object.is_older_than(known)) {
                    self.objects.insert(object.key(), object.clone());
                }
            }
            Event::ObjectGone(object) => {
                object.delete(&mut engine.scheduler.state);
                self.objects.remove(&object.key());
            }
            Event::Look(template) => {
                let id = engine.apply_pod(&self.probe(*template))?.ok_or("the probe has ended")?;
                engine.decide(id)?.ok();
                engine.scheduler.state.delete_pod(&PodKey::PROBE.uid());
            }
            Event::Reserve(key, node) => self.reserve(*key, node, engine)?,
            // What is assumed of volumes and devices is not a matter of what is there, so nothing is compared with it.
            Event::BindingsFail | Event::Compare => self.fail_bindings(engine),
        }
        Ok(())
    }

    fn build(&self, key: PodKey, template: Template, told: &Told) -> api::Pod {
        self.templates[template].build(key, told)
    }

    /// A pending pod that none of the events is about.
    pub fn probe(&self, template: Template) -> api::Pod {
        self.build(PodKey::PROBE, template, &Told::PENDING)
    }

    fn apply_pod(&mut self, key: PodKey, template: Template, news: &Told, engine: &mut Engine) -> Result<(), String> {
        engine.apply_pod(&self.build(key, template, news))?;
        let before = self.pods.remove(&key.uid());
        let place = match (news.node, before.as_ref().map(|before| &before.place)) {
            (Some(node), _) => Place::Bound(node.into()),
            // A pod never goes back from its node, so news without one is older than its placement.
            (None, Some(before)) => before.clone(),
            (None, None) => Place::Pending,
        };
        let told = news.nominated.map(str::to_owned);
        let nominated = match before {
            _ if place != Place::Pending => None,
            // The API server has not heard of a nomination of ours yet.
            Some(before) if before.told.nominated.is_none() && told.is_none() => before.nominated,
            _ => told,
        };
        self.pods.insert(key.uid(), KnownPod { key, template, told: news.clone(), place, nominated });
        Ok(())
    }

    fn assume(&mut self, key: PodKey, node: &str, engine: &mut Engine) -> Result<(), String> {
        let state = &mut engine.scheduler.state;
        let (Some(pod), Some(id)) = (self.pods.get_mut(&key.uid()), state.pod_id(&key.uid())) else { return Ok(()) };
        let Some(node_id) = state.node_named(node) else { return Ok(()) };
        let done = state.assume(id, node_id).is_ok();
        same("assumed", done, pod.place == Place::Pending)?;
        if done {
            (pod.place, pod.nominated) = (Place::Assumed(node.into()), None);
        }
        Ok(())
    }

    fn reserve(&mut self, key: PodKey, node: &str, engine: &mut Engine) -> Result<(), String> {
        let state = &engine.scheduler.state;
        let (Some(pod), Some(id)) = (self.pods.get_mut(&key.uid()), state.pod_id(&key.uid())) else { return Ok(()) };
        let Some(node_id) = state.node_named(node) else { return Ok(()) };
        // Volumes and devices may be the reason that it cannot be.
        if let Ok(reservation) = engine.scheduler.reserve(id, node_id) {
            same("reserved", Place::Pending, pod.place.clone())?;
            (pod.place, pod.nominated) = (Place::Assumed(node.into()), None);
            self.reserved.push((key, reservation));
        }
        Ok(())
    }

    /// Every binding under way fails; meanwhile its pod may have gone, or be bound by somebody else.
    fn fail_bindings(&mut self, engine: &mut Engine) {
        for (key, reservation) in std::mem::take(&mut self.reserved) {
            engine.scheduler.unreserve(reservation);
            if let Some(pod) = self.pods.get_mut(&key.uid())
                && let Place::Assumed(_) = pod.place
            {
                pod.place = Place::Pending;
            }
        }
    }

    fn nominate(&mut self, key: PodKey, node: Option<&str>, engine: &mut Engine) {
        let state = &mut engine.scheduler.state;
        let (Some(pod), Some(id)) = (self.pods.get_mut(&key.uid()), state.pod_id(&key.uid())) else { return };
        if pod.place == Place::Pending {
            let name = node.map(|name| state.strings.intern(name));
            state.nominate(id, name);
            pod.nominated = node.map(str::to_owned);
        }
    }

    fn schedule(&mut self, key: PodKey, clearing: Clearing, engine: &mut Engine) -> Result<(), String> {
        let (Some(pod), Some(id)) = (self.pods.get(&key.uid()), engine.pod(&key.uid())) else { return Ok(()) };
        if pod.place != Place::Pending {
            return Ok(());
        }
        match engine.decide(id)? {
            Ok(Decision::Place { node, .. }) => {
                let name = engine.scheduler.state.node_name(node).to_owned();
                self.assume(key, &name, engine)
            }
            Ok(Decision::Wait { preemption: Some(found), .. }) => {
                let state = &engine.scheduler.state;
                let name = state.node_name(found.node).to_owned();
                let victims = found.victims.iter().filter_map(|id| state.pod(*id)).map(|pod| pod.uid.to_string());
                let victims: Vec<_> = victims.filter_map(|uid| self.pods.get(&uid)).collect();
                let victims: Vec<_> =
                    victims.into_iter().map(|pod| (pod.key, pod.template, pod.told.clone())).collect();
                self.nominate(key, Some(&name), engine);
                for (victim, template, told) in victims {
                    let event = match clearing {
                        Clearing::AtOnce => Event::PodGone(victim),
                        Clearing::Graceful => Event::Pod(victim, template, told.preempted()),
                    };
                    self.happen(&event, engine)?;
                }
                Ok(())
            }
            Ok(Decision::Wait { preemption: None, .. }) | Err(_) => Ok(()),
        }
    }

    /// An engine that is told nothing but what is there now; `pods_first` brings pods before their nodes.
    pub fn rebuild(&self, pods_first: bool) -> Result<Engine, String> {
        let mut engine = Engine::new();
        self.objects.values().for_each(|object| object.apply(&mut engine.scheduler.state));
        let told = |pod: &KnownPod| pod.told.node.is_some();
        for first in [true, false] {
            if first == pods_first {
                for pod in self.pods.values().filter(|pod| told(pod)) {
                    engine.apply_pod(&self.build(pod.key, pod.template, &pod.told))?;
                }
            } else {
                for (name, recipe) in &self.nodes {
                    engine.scheduler.state.apply_node(&recipe.build(name)).map_err(|error| error.to_string())?;
                }
            }
        }
        for pod in self.pods.values().filter(|pod| !told(pod)) {
            engine.apply_pod(&self.build(pod.key, pod.template, &pod.told))?;
            self.put(pod, &mut engine)?;
        }
        Ok(engine)
    }

    /// Brings a pod that the API server does not know to be bound where it is.
    fn put(&self, pod: &KnownPod, engine: &mut Engine) -> Result<(), String> {
        let state = &mut engine.scheduler.state;
        let id = state.pod_id(&pod.key.uid()).ok_or("the pod was not taken in")?;
        let (node, bound) = match &pod.place {
            Place::Pending => {
                let name = pod.nominated.as_ref().map(|name| state.strings.intern(name));
                state.nominate(id, name);
                return Ok(());
            }
            Place::Assumed(node) => (node, false),
            Place::Bound(node) => (node, true),
        };
        let exists = state.node_named(node).is_some();
        if !exists {
            let gone: api::Node = parse(json!({"metadata": {"name": node}}));
            state.apply_node(&gone).map_err(|error| error.to_string())?;
        }
        let node_id = state.node_named(node).ok_or("the node was not taken in")?;
        state.assume(id, node_id).map_err(|error| error.to_string())?;
        if bound {
            state.confirm(id).map_err(|error| error.to_string())?;
        }
        if !exists {
            state.delete_node(node);
        }
        Ok(())
    }
}

impl KnownPod {
    pub fn uid(&self) -> String {
        self.key.uid()
    }

    pub fn is_pending(&self) -> bool {
        self.place == Place::Pending
    }

    pub fn phase(&self) -> Phase {
        match self.place {
            Place::Pending => Phase::Pending,
            Place::Assumed(_) => Phase::Assumed,
            Place::Bound(_) => Phase::Bound,
        }
    }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, engine: T, expected: T) -> Result<(), String> {
    if engine == expected { Ok(()) } else { Err(format!("{what}: expected {expected:?}, the engine says {engine:?}")) }
}

fn refused<T, E>(result: Result<T, E>) -> Result<(), String> {
    if result.is_err() { Ok(()) } else { Err("an object that cannot be read was taken in".into()) }
}
