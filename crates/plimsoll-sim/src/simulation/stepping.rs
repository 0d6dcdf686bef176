//! A run stepped from outside: it stops where a node is to be chosen, and goes on when one was; or it stops at a time.

use super::{Decider, Simulation, SimulationError, pods};
use k8s_openapi::api::core::v1::Pod;
use plimsoll_core::engine::Engine;
use plimsoll_core::scheduler::{Decision, Scheduler};
use plimsoll_core::state::{ClusterState, NodeId, PodId};
use std::time::Duration;

/// A pod for which a node is to be chosen.
#[derive(Clone, Copy)]
pub struct Choice<'a> {
    /// The cluster as it is now.
    pub state: &'a ClusterState,
    /// The pod.
    pub pod: PodId,
    /// Its place in the workload.
    pub number: usize,
    /// The feasible nodes, by index.
    pub nodes: &'a [NodeId],
    /// The time.
    pub now: Duration,
}

impl Simulation<'_> {
    /// Goes on to the next choice; none when the time is over. A choice that is still open stays so.
    pub fn advance_to_choice(&mut self) -> Result<Option<Choice<'_>>, SimulationError> {
        if self.question.is_none() {
            self.go_on(Decider::Outside, self.end)?;
        }
        Ok(self.choice())
    }

    /// Has the policy go on to this time, but not beyond the end; a choice that is open stays so. Where a run stops on its way changes
    /// nothing but the last bits of sums.
    pub fn advance_to(&mut self, time: Duration) -> Result<(), SimulationError> {
        let until = time.min(self.end);
        if until < self.now || self.question.is_some() {
            return Ok(());
        }
        self.go_on(Decider::Policy, until)
    }

    /// The choice that is open.
    pub fn choice(&self) -> Option<Choice<'_>> {
        let question = self.question.as_ref()?;
        let number = pods::number(&question.pod.uid)?;
        let state = self.engine.state();
        Some(Choice { state, pod: question.pod.id, number, nodes: &question.nodes, now: self.now })
    }

    /// Chooses a node for the open choice. The pod starts there; time does not pass.
    pub fn choose(&mut self, node: NodeId) -> Result<(), SimulationError> {
        let question = self.question.take().ok_or(SimulationError::NoChoice)?;
        let attempt = self.engine.answer(self.now, question, node);
        self.carry_out(attempt)
    }

    /// What the policy would choose for the open choice; the choice stays open.
    pub fn policy_choice(&mut self) -> Result<NodeId, SimulationError> {
        let question = self.question.as_ref().ok_or(SimulationError::NoChoice)?;
        let (pod, name) = (question.pod.id, question.pod.name.clone());
        match self.engine.scheduler().decide(pod) {
            Ok(Decision::Place { node, .. }) => Ok(node),
            Ok(Decision::Wait { .. }) => {
                Err(SimulationError::Attempt { pod: name, problem: "no node is feasible".into() })
            }
            Err(error) => Err(SimulationError::Attempt { pod: name, problem: error.to_string() }),
        }
    }

    /// The decisions, for explanations.
    pub fn scheduler(&mut self) -> &mut Scheduler {
        self.engine.scheduler()
    }

    /// The engine, to be asked. Whoever tells it of an object has to take that back: the run does not know of it.
    pub fn engine(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// A pod of the workload as it came, by the UID that it has in this run.
    pub fn object(&self, uid: &str) -> Option<Pod> {
        let record = self.setup.workload.pods.get(pods::number(uid)?)?;
        Some(self.objects.pod(record, uid.to_owned()))
    }

    /// Pods that wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// When the time is over.
    pub fn end(&self) -> Duration {
        self.end
    }

    /// Whether the time is over.
    pub fn is_over(&self) -> bool {
        self.question.is_none() && self.now >= self.end
    }

    /// The cluster.
    pub fn state(&self) -> &ClusterState {
        self.engine.state()
    }

    /// The time.
    pub fn now(&self) -> Duration {
        self.now
    }
}
