//! Events about pods: what waits, what takes room, and what is on its way from the one to the other.

use super::change::{Changed, PodView, pod_actions};
use super::{Engine, EngineError, QueueKey};
use crate::model::Sym;
use crate::queue::{self, ActionType, EventResource, PodFields};
use crate::state::{Phase, PodId, pod_key};
use k8s_openapi::api::core::v1::Pod;
use std::time::Duration;

impl Engine {
    pub(super) fn apply_pod(&mut self, now: Duration, object: &Pod) -> Result<(), EngineError> {
        let phase = object.status.as_ref().and_then(|status| status.phase.as_deref());
        if matches!(phase, Some("Succeeded" | "Failed")) {
            self.delete_pod(now, object);
            return Ok(());
        }
        let node = object.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        let is_bound = node.is_some_and(|name| !name.is_empty());
        let known = self.state().pod_id(&pod_key(&object.metadata));
        let old_phase = known.and_then(|id| self.state().pod(id)).map(|pod| pod.phase);
        match (known, old_phase) {
            // A binding is never undone: what says otherwise is older than it.
            (Some(_), Some(Phase::Bound)) if !is_bound => return Ok(()),
            (Some(id), Some(Phase::Assumed)) if !is_bound => return self.update_assumed(now, id, object),
            _ => {}
        }
        let old = known.and_then(|id| self.view(id));
        let nominated = known.and_then(|id| self.state().pod(id)).and_then(|pod| pod.nominated);
        let Some(id) = self.scheduler.state.apply_pod(object)? else { return Ok(()) };
        match old {
            Some(old) if is_bound && old_phase == Some(Phase::Bound) => self.update_bound(now, id, old),
            _ if is_bound => self.add_bound(now, id),
            Some(old) if self.keys.contains_key(&id) => self.update_pending(now, id, old),
            Some(old) if !self.is_ours(id) => self.update_of_others(now, id, old, nominated),
            _ => self.add_pending(now, id),
        }
        Ok(())
    }

    /// A pod left, or has ended.
    pub(super) fn delete_pod(&mut self, now: Duration, object: &Pod) {
        let uid = pod_key(&object.metadata);
        let Some(id) = self.state().pod_id(&uid) else { return };
        let Some(old) = self.view(id) else { return };
        self.take_from_queue(id);
        self.scheduler.state.delete_pod(&uid);
        if old.assigned {
            self.tell_left(now, old);
        } else if old.nominated {
            self.tell_nomination_ended(now, old);
        }
    }

    /// A bound pod is new, or a pod was bound: by us, or by somebody else.
    pub(super) fn add_bound(&mut self, now: Duration, id: PodId) {
        self.take_from_queue(id);
        let change = Changed::Pod { old: None, new: self.view(id) };
        self.tell(now, &queue::Event::new(EventResource::AssignedPod, ActionType::ADD, change));
    }

    fn update_bound(&mut self, now: Duration, id: PodId, old: PodView) {
        let Some(new) = self.view(id) else { return };
        for action in pod_actions(&old, &new) {
            let change = Changed::Pod { old: Some(old.clone()), new: Some(new.clone()) };
            self.tell(now, &queue::Event::new(EventResource::AssignedPod, action, change));
        }
    }

    /// Whether a pod is for one of our profiles to place.
    fn is_ours(&self, id: PodId) -> bool {
        self.state().pod(id).is_some_and(|pod| {
            let name = self.state().shape_of(pod).shape.scheduler_name;
            self.profiles.iter().any(|profile| profile.name == name)
        })
    }

    /// A pod that waits for another scheduler concerns others only as far as a node is kept for it.
    fn update_of_others(&mut self, now: Duration, id: PodId, old: PodView, nominated: Option<Sym>) {
        if nominated.is_some() && self.state().pod(id).is_some_and(|pod| pod.nominated != nominated) {
            self.tell_nomination_ended(now, old);
        }
    }

    /// A pod to be placed is new; of one that waits for another scheduler, the state knows whether a node is kept for it.
    fn add_pending(&mut self, now: Duration, id: PodId) {
        if let Some(fields) = self.fields(id).filter(|_| self.is_ours(id)) {
            self.next_serial += 1;
            let key = QueueKey { serial: self.next_serial, pod: id };
            self.keys.insert(id, key);
            let (queue, hints) = self.parts();
            queue.add(now, key, fields, &hints);
        }
        self.follow_nomination(id);
    }

    fn update_pending(&mut self, now: Duration, id: PodId, mut old: PodView) {
        let (Some(&key), Some(fields), Some(new)) = (self.keys.get(&id), self.fields(id), self.view(id)) else {
            return;
        };
        // What the queue does not know is not nominated as far as the API server told.
        let told_before = self.queue.get(key).and_then(|queued| queued.fields.nominated_node);
        old.nominated = told_before.is_some();
        let events: Vec<_> = pod_actions(&old, &new)
            .into_iter()
            .map(|action| {
                let change = Changed::Pod { old: Some(old.clone()), new: Some(new.clone()) };
                queue::Event::new(EventResource::UnschedulablePod, action, change)
            })
            .collect();
        let (queue, hints) = self.parts();
        queue.update(now, key, fields, &events, &hints);
        self.follow_nomination(id);
        if old.nominated && told_before != fields.nominated_node {
            self.tell_nomination_ended(now, old);
        }
    }

    /// News of a pod that is being bound. All but its removal is older than our decision, or does not matter to it.
    fn update_assumed(&mut self, now: Duration, id: PodId, object: &Pod) -> Result<(), EngineError> {
        let was_leaving = self.state().pod(id).is_some_and(|pod| pod.terminating);
        let old = self.view(id).filter(|_| object.metadata.deletion_timestamp.is_some() && !was_leaving);
        self.scheduler.state.apply_pod(object)?;
        if let Some(old) = old {
            // The binding will fail, but nobody needs to wait for that.
            self.scheduler.state.forget(id)?;
            self.tell_left(now, old);
        }
        Ok(())
    }

    /// Ends all that the queue knows of a pod; false if that is nothing.
    fn take_from_queue(&mut self, id: PodId) -> bool {
        let Some(key) = self.keys.remove(&id) else { return false };
        self.queue.delete(key);
        self.messages.remove(&key);
        self.victims.remove(&key);
        self.preemptors.remove(&key);
        true
    }

    /// A pod takes no room any more.
    pub(super) fn tell_left(&mut self, now: Duration, old: PodView) {
        let change = Changed::Pod { old: Some(old), new: None };
        self.tell(now, &queue::Event::new(EventResource::AssignedPod, ActionType::DELETE, change));
    }

    /// A node is no longer kept for a pod. Only pods that are no more important had to leave it alone.
    fn tell_nomination_ended(&mut self, now: Duration, old: PodView) {
        let priority = old.shape.priority;
        let change = Changed::Pod { old: Some(old), new: None };
        let event = queue::Event::new(EventResource::AssignedPod, ActionType::DELETE, change);
        let (queue, hints) = self.parts();
        queue.move_if(now, &event, &hints, |_, queued| queued.fields.priority <= priority);
    }

    /// What the queue needs of a pod, as the API server tells it. Asked right after the event.
    fn fields(&self, id: PodId) -> Option<PodFields<Sym>> {
        let pod = self.state().pod(id)?;
        Some(PodFields { priority: self.state().shape_of(pod).shape.priority, nominated_node: pod.nominated })
    }

    /// Has the state keep nodes for the pods that the queue says: it knows of nominations that are not written yet. Of pods of other
    /// schedulers what their status says holds.
    pub(super) fn follow_nomination(&mut self, id: PodId) {
        if let Some(key) = self.keys.get(&id) {
            let nominated = self.queue.nominated_node(*key);
            self.scheduler.state.nominate(id, nominated);
        }
    }
}
