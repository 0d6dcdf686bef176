//! The cycle: from a pod to a node, top to bottom.

use crate::config::{Configuration, DefaultPreemptionArgs, PluginName, PluginSet, Profile};
use crate::dra::plugin::Release;
use crate::explain::{Explanation, NOT_IN_PRE_FILTER_RESULT, unavailable_message};
use crate::framework::{Code, Cycle, Refusal, Status};
use crate::plugins::{self, Preemption, PreemptionError, nobody_to_preempt, preempt};
use crate::policy::{self, Chosen, Policy, Ranking};
use crate::rng::Rng;
use crate::rules::{Recalled, Restriction, Rules};
use crate::sampling::Sampling;
use crate::state::{ClusterState, NodeId, PodId};
use std::collections::BTreeMap;

/// A profile at work.
struct ProfileAtWork {
    name: String,
    rules: Rules,
    policy: Box<dyn Policy>,
    preemption: Option<DefaultPreemptionArgs>,
    sampling: Option<Sampling>,
    /// Whether DynamicResources is asked after a failure; it has its own word in the message.
    releases_claims: bool,
    /// Whether anything is tried when no node is feasible.
    post_filters: bool,
}

/// The engine: the state of a cluster and the profiles that decide in it.
pub struct Scheduler {
    /// The cluster. Events are applied here.
    pub state: ClusterState,
    profiles: Vec<ProfileAtWork>,
    rng: Rng,
    scores: Vec<f64>,
    totals: Vec<i64>,
    failure: Option<Failure>,
    /// Which nodes the pod could go to that was considered last.
    restriction: Restriction,
}

/// What the last decision found against the pod, kept so that it is worded only when somebody asks.
struct Failure {
    profile: usize,
    pod: PodId,
    pre_filter: Option<Status>,
    restriction: Restriction,
    /// Why somebody else refused nodes that the rules allow.
    others: Vec<String>,
    preemption: Option<PreemptionError>,
    /// Whether preemption found a node.
    preempts: bool,
    keeps_nomination: bool,
}

/// What was decided for a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It goes to this node.
    Place {
        /// The node.
        node: NodeId,
        /// How many nodes were feasible.
        feasible: usize,
        /// How many of them were as good as the chosen one, itself included.
        ties: usize,
    },
    /// It fits nowhere now.
    Wait {
        /// The plugins that refused a node: events that concern none of them cannot help.
        plugins: PluginSet,
        /// A node that may be cleared for it.
        preemption: Option<Preemption>,
    },
}

/// What a policy says of nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct Advice {
    /// A score for each node; the highest is the best.
    pub scores: Vec<f64>,
    /// Whether a learned model gave them; otherwise a heuristic did.
    pub learned: bool,
    /// Whether each is the same whichever other nodes are asked about.
    pub apart: bool,
}

/// How far a pod's decision came by the rules alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Considered {
    /// The rules, or what is remembered, decided it.
    Decided(Decision),
    /// These nodes are feasible, by index: one of them is to be chosen.
    Choose(Vec<NodeId>),
}

/// Why nothing could be decided.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecisionError {
    /// The pod is not known.
    #[error("pod #{0}: not known; apply the pod before asking for a decision")]
    UnknownPod(usize),
    /// No profile has the pod's scheduler name.
    #[error("pod {pod}: no profile for schedulerName {name:?}; add a profile of that name to the configuration")]
    NoProfile {
        /// The pod.
        pod: String,
        /// The name it asks for.
        name: String,
    },
    /// There is no node.
    #[error("pod {0}: no nodes available to schedule pods")]
    NoNodes(String),
    /// A node was chosen that is not feasible.
    #[error(
        "pod {pod}: node {node:?} was chosen, but it is not among the {feasible} that are feasible; choose one of those"
    )]
    NotFeasible {
        /// The pod.
        pod: String,
        /// The node.
        node: String,
        /// How many are feasible.
        feasible: usize,
    },
    /// A rule failed.
    #[error("pod {pod}: {problem}")]
    Rule {
        /// The pod.
        pod: String,
        /// What failed.
        problem: String,
    },
}

/// Whether what is remembered of a policy's ranking may decide.
#[derive(Clone, Copy)]
enum Remembered {
    Used,
    Ignored,
}

impl Scheduler {
    /// An engine with an empty cluster; equal seeds decide equally.
    pub fn new(configuration: &Configuration, seed: u64) -> Self {
        let mut state = ClusterState::default();
        let percentage = configuration.percentage_of_nodes_to_score;
        let profiles = configuration.profiles.iter().map(|profile| at_work(profile, percentage, &mut state)).collect();
        let (scores, totals, restriction) = (Vec::new(), Vec::new(), Restriction::AllNodes);
        Self { state, profiles, rng: Rng::new(seed), scores, totals, failure: None, restriction }
    }

    /// Lets a profile rank by another policy.
    pub fn set_policy(&mut self, scheduler_name: &str, policy: Box<dyn Policy>) -> bool {
        let profile = self.profiles.iter_mut().find(|profile| profile.name == scheduler_name);
        profile
            .map(|profile| {
                profile.policy = policy;
                profile.rules.forget_standings();
            })
            .is_some()
    }

    /// How many pods of the queue the policies look at.
    pub fn lookahead(&self) -> usize {
        self.profiles.iter().map(|profile| profile.policy.lookahead()).max().unwrap_or(1)
    }

    /// Whether a profile looks for pods to remove where a pod fits nowhere.
    pub fn preempts(&self, scheduler_name: &str) -> bool {
        let profile = self.profiles.iter().find(|profile| profile.name == scheduler_name);
        profile.is_some_and(|profile| profile.preemption.is_some())
    }

    /// Decides where a pending pod goes. Nothing is changed: the caller reserves, binds, or clears the node.
    pub fn decide(&mut self, pod: PodId) -> Result<Decision, DecisionError> {
        self.failure = None;
        let profile = self.prepare(pod)?;
        let nodes = match self.look(profile, pod, Remembered::Used)? {
            Considered::Decided(decision) => return Ok(decision),
            Considered::Choose(nodes) => nodes,
        };
        let ProfileAtWork { rules, policy, .. } = &mut self.profiles[profile];
        if let &[node] = nodes.as_slice() {
            rules.give_back(nodes);
            return Ok(Decision::Place { node, feasible: 1, ties: 1 });
        }
        let cycle = Cycle::new(&self.state, pod).ok_or(DecisionError::UnknownPod(pod.index()))?;
        let mut ranking = Ranking { cycle, rules, rng: &mut self.rng, totals: &mut self.totals };
        let chosen = rank(&mut **policy, &mut ranking, &nodes, &mut self.scores);
        let decision =
            chosen.map(|chosen| Decision::Place { node: nodes[chosen.of], feasible: nodes.len(), ties: chosen.ties });
        rules.give_back(nodes);
        decision.map_err(|problem| DecisionError::Rule { pod: cycle.state.pod_name(cycle.pod), problem })
    }

    /// As [`Self::decide`], but where nodes are feasible it is for the caller to choose one: no policy is asked.
    pub fn consider(&mut self, pod: PodId) -> Result<Considered, DecisionError> {
        self.failure = None;
        let profile = self.prepare(pod)?;
        self.look(profile, pod, Remembered::Ignored)
    }

    /// The best of some of the nodes that [`Self::consider`] found feasible just now, by the pod's policy; `points` come on top of its
    /// scores, one entry a node.
    pub fn choose(&mut self, pod: PodId, nodes: &[NodeId], points: &[f64]) -> Result<Decision, DecisionError> {
        if let &[node] = nodes {
            return Ok(Decision::Place { node, feasible: 1, ties: 1 });
        }
        let profile = self.prepare(pod)?;
        let ProfileAtWork { rules, policy, .. } = &mut self.profiles[profile];
        let cycle = Cycle::new(&self.state, pod).ok_or(DecisionError::UnknownPod(pod.index()))?;
        let mut ranking = Ranking { cycle, rules, rng: &mut self.rng, totals: &mut self.totals };
        let mut better = Better { policy: &mut **policy, points };
        let chosen = rank(&mut better, &mut ranking, nodes, &mut self.scores)
            .map_err(|problem| DecisionError::Rule { pod: cycle.state.pod_name(cycle.pod), problem })?;
        Ok(Decision::Place { node: nodes[chosen.of], feasible: nodes.len(), ties: chosen.ties })
    }

    /// Somebody else refuses all nodes that [`Self::consider`] found feasible just now, each for a reason: the pod waits, or others are
    /// removed for it where the rules refused it.
    pub fn refuse(&mut self, pod: PodId, others: Vec<String>) -> Result<Decision, DecisionError> {
        let profile = self.prepare(pod)?;
        let ProfileAtWork { rules, preemption, post_filters, .. } = &mut self.profiles[profile];
        let cycle = Cycle::new(&self.state, pod).ok_or(DecisionError::UnknownPod(pod.index()))?;
        let refused = rules.refused();
        let outcome = try_preempt(rules, &cycle, preemption.as_ref(), &refused, &mut self.rng);
        let plugins = refused.iter().map(|(_, refusal)| refusal.plugin).chain(rules.restricting().iter()).collect();
        let restriction = std::mem::replace(&mut self.restriction, Restriction::AllNodes);
        let was_cleared = matches!(restriction, Restriction::Nominated(_));
        let mut failure = Failure::new(profile, pod, restriction);
        failure.others = others;
        let decision = failure.wait(&mut self.failure, plugins, outcome, *post_filters);
        // A node that was cleared for it, and is refused now, is not waited for.
        if let Some(failure) = self.failure.as_mut().filter(|_| was_cleared) {
            failure.keeps_nomination = false;
        }
        Ok(decision)
    }

    /// Goes as far as the rules go: to the feasible nodes, or to the pod having to wait.
    fn look(&mut self, profile: usize, pod: PodId, remembered: Remembered) -> Result<Considered, DecisionError> {
        let ProfileAtWork { rules, policy, preemption, sampling, post_filters, .. } = &mut self.profiles[profile];
        let post_filters = *post_filters;
        let cycle = Cycle::new(&self.state, pod).ok_or(DecisionError::UnknownPod(pod.index()))?;
        let failed = |problem| DecisionError::Rule { pod: cycle.state.pod_name(cycle.pod), problem };
        let decided = |decision| Ok(Considered::Decided(decision));
        let restriction = match rules.pre_filter(&cycle) {
            Ok(restriction) => restriction,
            Err(status) if status.code == Code::Error => return Err(failed(pre_filter_failure(&status))),
            Err(status) => {
                let refused = everywhere(&cycle, &status);
                let outcome = try_preempt(rules, &cycle, preemption.as_ref(), &refused, &mut self.rng);
                let plugins = status.plugin.into_iter().chain(rules.restricting().iter()).collect();
                let mut failure = Failure::new(profile, pod, Restriction::AllNodes);
                failure.pre_filter = Some(status);
                return decided(failure.wait(&mut self.failure, plugins, outcome, post_filters));
            }
        };
        if restriction == Restriction::AllNodes && sampling.is_none() {
            let policy: Option<&mut dyn Policy> = match remembered {
                Remembered::Used => Some(&mut **policy),
                Remembered::Ignored => None,
            };
            match rules.recall(&cycle, policy, &mut self.rng).map_err(failed)? {
                Recalled::Best { feasible, chosen } => {
                    return decided(Decision::Place { node: chosen.of, feasible, ties: chosen.ties });
                }
                Recalled::Nowhere { plugins, resolvable } => {
                    let nobody = preemption.as_ref().map(|_| nobody_to_preempt(&cycle, resolvable, &mut self.rng));
                    // Where somebody might be removed, nodes have to be looked at.
                    if nobody.as_ref().is_none_or(Option::is_some) {
                        let outcome = nobody.flatten().map(Err);
                        let failure = Failure::new(profile, pod, restriction);
                        return decided(failure.wait(&mut self.failure, plugins, outcome, post_filters));
                    }
                }
                Recalled::Nothing => {}
            }
        }
        filter(rules, &cycle, &restriction);
        if let Some(problem) = rules.filter_failure(&cycle) {
            return Err(failed(problem));
        }
        if matches!(remembered, Remembered::Ignored) {
            self.restriction.clone_from(&restriction);
        }
        match rules.feasible() {
            [] => {
                let refused = rules.refused();
                let outcome = try_preempt(rules, &cycle, preemption.as_ref(), &refused, &mut self.rng);
                let plugins =
                    refused.iter().map(|(_, refusal)| refusal.plugin).chain(rules.restricting().iter()).collect();
                let failure = Failure::new(profile, pod, restriction);
                decided(failure.wait(&mut self.failure, plugins, outcome, post_filters))
            }
            [_] => Ok(Considered::Choose(rules.take_feasible())),
            _ => {
                let mut nodes = rules.take_feasible();
                if let Some(sampling) = sampling {
                    sampling.cut(&self.state, &mut nodes);
                }
                Ok(Considered::Choose(nodes))
            }
        }
    }

    /// Judges nodes that another scheduler found feasible, by the policy of a profile, whatever profile the pod asks for. `nodes` are by index.
    pub fn advise(&mut self, profile: &str, pod: PodId, nodes: &[NodeId]) -> Result<Advice, DecisionError> {
        let profile = self.prepare_for(pod, Some(profile))?;
        let ProfileAtWork { rules, policy, .. } = &mut self.profiles[profile];
        let cycle = Cycle::new(&self.state, pod).ok_or(DecisionError::UnknownPod(pod.index()))?;
        // Scores rest on what it prepares; whether the pod fits is for the other scheduler to say.
        let _ = rules.pre_filter(&cycle);
        let counters = policy.counters();
        let fallbacks = || counters.as_ref().map_or(0, |counters| counters.fallbacks());
        let before = fallbacks();
        let mut scores = vec![0.0; nodes.len()];
        let mut ranking = Ranking { cycle, rules, rng: &mut self.rng, totals: &mut self.totals };
        let ranked = policy.rank(&mut ranking, nodes, &mut scores);
        ranked.map_err(|problem| DecisionError::Rule { pod: cycle.state.pod_name(cycle.pod), problem })?;
        let learned = counters.is_some() && fallbacks() == before;
        Ok(Advice { scores, learned, apart: policy.judges_apart() })
    }

    /// As [`Self::advise`], for somebody who only wants to know: it is not counted.
    pub fn preview(&mut self, profile: &str, pod: PodId, nodes: &[NodeId]) -> Result<Advice, DecisionError> {
        let at_work = self.profiles.iter().find(|known| known.name == profile);
        match at_work.and_then(|known| known.policy.counters()) {
            Some(counters) => counters.aside(|| self.advise(profile, pod, nodes)),
            None => self.advise(profile, pod, nodes),
        }
    }

    /// Whether the policy of a profile may be asked more often than it decides; see [`Policy::is_steady`].
    pub fn is_steady(&self, profile: &str) -> bool {
        self.profiles.iter().find(|known| known.name == profile).is_some_and(|known| known.policy.is_steady())
    }

    /// What the rules of a profile have against nodes, whatever profile the pod asks for.
    pub fn objections(&mut self, profile: &str, pod: PodId) -> Result<Vec<(NodeId, Status)>, DecisionError> {
        let profile = self.prepare_for(pod, Some(profile))?;
        let rules = &mut self.profiles[profile].rules;
        let cycle = Cycle::new(&self.state, pod).ok_or(DecisionError::UnknownPod(pod.index()))?;
        let restriction = match rules.pre_filter(&cycle) {
            Ok(restriction) => restriction,
            Err(status) => return Ok(cycle.state.nodes().map(|node| (node.id, status.clone())).collect()),
        };
        rules.filter(&cycle, &restriction);
        let refused = rules.refused();
        Ok(worded(rules, &cycle, &refused, &restriction))
    }

    /// Words why the last decision was to wait, as kube-scheduler does. Nothing may have changed since.
    pub fn failure_message(&mut self) -> Option<String> {
        let failure = self.failure.as_ref()?;
        let profile = self.profiles.get_mut(failure.profile)?;
        let (rules, releases_claims) = (&mut profile.rules, profile.releases_claims);
        let cycle = Cycle::new(&self.state, failure.pod)?;
        let nodes = self.state.node_count();
        let mut message = match &failure.pre_filter {
            Some(status) => format!("0/{nodes} nodes are available: {}.", status.message()),
            None => {
                let mut reasons = BTreeMap::new();
                let refused = rules.refused();
                for reason in &failure.others {
                    *reasons.entry(reason.clone()).or_default() += 1;
                }
                for &(node, refusal) in &refused {
                    for reason in rules.reasons(&cycle, node, refusal) {
                        *reasons.entry(reason).or_default() += 1;
                    }
                }
                if let Restriction::Only { plugins, .. } = &failure.restriction
                    && refused.len() + failure.others.len() < nodes
                {
                    let names = plugins.iter().map(|plugin| plugin.as_str()).collect::<Vec<_>>().join(" ");
                    *reasons.entry(format!("node(s) didn't satisfy plugin(s) [{names}]")).or_default() +=
                        nodes - refused.len() - failure.others.len();
                }
                unavailable_message(nodes, &reasons)
            }
        };
        // Where preemption found a node, nothing else that was tried is told.
        let claims = releases_claims && !failure.preempts;
        let claims = claims.then(|| rules.claims_message(&cycle));
        let preemption = failure.preemption.as_ref().map(|error| format!("preemption: {error}"));
        let tried: Vec<_> = claims.into_iter().chain(preemption).collect();
        if !tried.is_empty() {
            message.push_str(&format!(" {}", tried.join(", ")));
        }
        Some(message)
    }

    /// The claim to release for the pod that the last decision left waiting. Nothing may have changed since.
    pub fn claim_release(&self) -> Option<Release> {
        let failure = self.failure.as_ref()?;
        let profile = self.profiles.get(failure.profile).filter(|profile| profile.releases_claims)?;
        profile.rules.claim_release(&Cycle::new(&self.state, failure.pod)?)
    }

    /// Whether a pod that the last decision left waiting keeps the node it was nominated to.
    pub fn keeps_nomination(&self) -> bool {
        self.failure.as_ref().is_some_and(|failure| failure.keeps_nomination)
    }

    /// Lays a decision open: every node is looked at, and nothing is taken from memory or chosen by lot.
    pub fn explain(&mut self, pod: PodId) -> Result<Explanation, DecisionError> {
        let profile = self.prepare(pod)?;
        let ProfileAtWork { rules, preemption, releases_claims, .. } = &mut self.profiles[profile];
        let cycle = Cycle::new(&self.state, pod).ok_or(DecisionError::UnknownPod(pod.index()))?;
        let mut explanation = Explanation::default();
        let refused = match rules.pre_filter(&cycle) {
            Err(status) => {
                let refused = everywhere(&cycle, &status);
                explanation.pre_filter = Some(status);
                refused
            }
            Ok(restriction) => {
                let restriction = filter(rules, &cycle, &restriction);
                if let Restriction::Only { plugins, .. } = &restriction {
                    explanation.restricted_by.clone_from(plugins);
                }
                explanation.feasible = rules.feasible().to_vec();
                let refused = rules.refused();
                explanation.refused = worded(rules, &cycle, &refused, &restriction);
                explanation.refused.sort_unstable_by_key(|(node, _)| *node);
                refused
            }
        };
        if explanation.feasible.is_empty() {
            if *releases_claims {
                explanation.claims_message = Some(rules.claims_message(&cycle));
            }
            match try_preempt(rules, &cycle, preemption.as_ref(), &refused, &mut self.rng) {
                Some(Ok(found)) => explanation.preemption = Some(found),
                Some(Err(error)) => explanation.preemption_message = Some(error.to_string()),
                None => {}
            }
            return Ok(explanation);
        }
        let failed = |problem| DecisionError::Rule { pod: cycle.state.pod_name(cycle.pod), problem };
        explanation.scores = rules.scores(&cycle, &explanation.feasible).map_err(failed)?;
        explanation.totals = vec![0; explanation.feasible.len()];
        for (_, scores) in &explanation.scores {
            explanation.totals.iter_mut().zip(scores).for_each(|(total, score)| *total = total.wrapping_add(*score));
        }
        Ok(explanation)
    }

    /// Brings up to date what the decision reads, and finds the profile.
    fn prepare(&mut self, pod: PodId) -> Result<usize, DecisionError> {
        self.prepare_for(pod, None)
    }

    /// As [`Self::prepare`], with a profile that is not the pod's own.
    fn prepare_for(&mut self, pod: PodId, profile: Option<&str>) -> Result<usize, DecisionError> {
        let known = self.state.pod(pod).ok_or(DecisionError::UnknownPod(pod.index()))?;
        let (shape, entry) = (known.shape, self.state.shape_of(known));
        let name = profile.unwrap_or_else(|| self.state.strings.resolve(entry.shape.scheduler_name));
        let Some(profile) = self.profiles.iter().position(|profile| profile.name == name) else {
            return Err(DecisionError::NoProfile { pod: self.state.pod_name(known), name: name.to_owned() });
        };
        if self.state.node_count() == 0 {
            return Err(DecisionError::NoNodes(self.state.pod_name(known)));
        }
        self.state.prepare_default_spread(shape);
        Ok(profile)
    }
}

impl Failure {
    fn new(profile: usize, pod: PodId, restriction: Restriction) -> Self {
        let (pre_filter, preemption, others) = (None, None, Vec::new());
        Self { profile, pod, pre_filter, restriction, others, preemption, preempts: false, keeps_nomination: false }
    }

    /// The pod waits; why is kept in `kept`.
    fn wait(
        mut self,
        kept: &mut Option<Self>,
        plugins: PluginSet,
        outcome: Option<Result<Preemption, PreemptionError>>,
        post_filters: bool,
    ) -> Decision {
        let preemption = self.after_preemption(outcome, post_filters);
        *kept = Some(self);
        Decision::Wait { plugins, preemption }
    }

    /// Takes note of what preemption said. Only one that looked for a node and found none takes a nomination back.
    fn after_preemption(
        &mut self,
        outcome: Option<Result<Preemption, PreemptionError>>,
        post_filters: bool,
    ) -> Option<Preemption> {
        match outcome {
            None => {
                self.keeps_nomination = post_filters;
                None
            }
            Some(Ok(found)) => {
                self.preempts = true;
                Some(found)
            }
            Some(Err(error)) => {
                self.keeps_nomination = !matches!(error, PreemptionError::NotHelpful(_));
                self.preemption = Some(error);
                None
            }
        }
    }
}

fn at_work(profile: &Profile, percentage: u32, state: &mut ClusterState) -> ProfileAtWork {
    let preempts = profile.plugins.post_filter.contains(&PluginName::DefaultPreemption);
    ProfileAtWork {
        name: profile.scheduler_name.clone(),
        rules: plugins::build(profile, state),
        policy: Box::new(policy::WeightedSum),
        preemption: preempts.then(|| profile.args.default_preemption.clone()),
        sampling: Sampling::new(profile.percentage_of_nodes_to_score.unwrap_or(percentage)),
        releases_claims: profile.plugins.post_filter.contains(&PluginName::DynamicResources),
        post_filters: !profile.plugins.post_filter.is_empty(),
    }
}

/// Finds the feasible nodes. A node that was cleared for the pod is taken if it is right, without a look at the others.
fn filter(rules: &mut Rules, cycle: &Cycle<'_>, restriction: &Restriction) -> Restriction {
    if let Some(node) = cycle.pod.nominated.and_then(|name| cycle.state.node_id(name)) {
        let nominated = Restriction::Nominated(node);
        rules.filter(cycle, &nominated);
        if rules.feasible() == [node] {
            return nominated;
        }
    }
    rules.filter(cycle, restriction);
    restriction.clone()
}

/// A policy with points of somebody else on top.
struct Better<'a> {
    policy: &'a mut dyn Policy,
    points: &'a [f64],
}

impl Policy for Better<'_> {
    fn name(&self) -> &'static str {
        self.policy.name()
    }

    fn rank(&mut self, ranking: &mut Ranking<'_>, nodes: &[NodeId], scores: &mut [f64]) -> Result<(), String> {
        self.policy.rank(ranking, nodes, scores)?;
        scores.iter_mut().zip(self.points).for_each(|(score, points)| *score += points);
        Ok(())
    }
}

/// The best of the feasible nodes, by place in the list.
fn rank(
    policy: &mut dyn Policy,
    ranking: &mut Ranking<'_>,
    nodes: &[NodeId],
    scores: &mut Vec<f64>,
) -> Result<Chosen<usize>, String> {
    scores.clear();
    scores.resize(nodes.len(), 0.0);
    policy.rank(ranking, nodes, scores)?;
    policy::choose(scores, ranking.rng).ok_or_else(|| format!("policy {} gave no node a score", policy.name()))
}

/// A failure before nodes are looked at, as kube-scheduler words it.
fn pre_filter_failure(status: &Status) -> String {
    let plugin = status.plugin.map_or("", |plugin| plugin.as_str());
    format!("running PreFilter plugin {plugin:?}: {}", status.message())
}

/// A refusal for the pod as a whole, as one of every node.
fn everywhere(cycle: &Cycle<'_>, status: &Status) -> Vec<(NodeId, Refusal)> {
    let plugin = status.plugin.unwrap_or(PluginName::NodeAffinity);
    cycle.state.nodes().map(|node| (node.id, Refusal::new(plugin, status.code, 0))).collect()
}

fn try_preempt(
    rules: &mut Rules,
    cycle: &Cycle<'_>,
    args: Option<&DefaultPreemptionArgs>,
    refused: &[(NodeId, Refusal)],
    rng: &mut Rng,
) -> Option<Result<Preemption, PreemptionError>> {
    args.map(|args| preempt(rules, cycle, args, refused, rng))
}

fn status_of(rules: &mut Rules, cycle: &Cycle<'_>, node: NodeId, refusal: Refusal) -> Status {
    let reasons = rules.reasons(cycle, node, refusal);
    Status { code: refusal.code, plugin: Some(refusal.plugin), reasons }
}

/// All nodes that may not be used, and why.
fn worded(
    rules: &mut Rules,
    cycle: &Cycle<'_>,
    refused: &[(NodeId, Refusal)],
    restriction: &Restriction,
) -> Vec<(NodeId, Status)> {
    let refused = refused.iter().map(|&(node, refusal)| (node, status_of(rules, cycle, node, refusal)));
    refused.chain(left_out(cycle, restriction)).collect()
}

fn left_out(cycle: &Cycle<'_>, restriction: &Restriction) -> Vec<(NodeId, Status)> {
    let Restriction::Only { nodes, .. } = restriction else { return Vec::new() };
    let status = Status {
        code: Code::UnschedulableAndUnresolvable,
        plugin: None,
        reasons: vec![NOT_IN_PRE_FILTER_RESULT.into()],
    };
    let others = cycle.state.nodes().filter(|node| !nodes.contains(&node.id));
    others.map(|node| (node.id, status.clone())).collect()
}
