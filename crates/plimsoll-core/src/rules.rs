//! The rules of one profile: its plugins in their order, and the loops over nodes that ask them.

use crate::config::{PluginName, PluginSet};
use crate::dra::plugin::Release;
use crate::framework::{Candidates, Code, Cycle, Plugin, PreFilter, PreScore, Refusal, Status};
use crate::memo::{Cell, Memory, Remembered};
use crate::policy::{Chosen, Policy, Ranking, Scope};
use crate::rng::Rng;
use crate::state::{Node, NodeId, Pod, PodId};

/// The plugins of a profile. Lists hold places in `plugins`.
#[derive(Default)]
pub struct Rules {
    pub(crate) plugins: Vec<Box<dyn Plugin>>,
    pub(crate) pre_filter: Vec<usize>,
    pub(crate) filter: Vec<usize>,
    pub(crate) pre_score: Vec<usize>,
    pub(crate) score: Vec<(usize, i64)>,
    /// Plugins that said in pre-filter that they need not filter this pod.
    skip_filter: PluginSet,
    /// Plugins that said in pre-filter that only some nodes need a look.
    restricting: PluginSet,
    /// Plugins that said in pre-score that they need not score this pod.
    skip_score: PluginSet,
    memory: Memory,
    /// The shape whose remembered answers this decision uses.
    remembered: Option<u64>,
    candidates: Candidates,
    scratch: Vec<i64>,
    stale: Vec<NodeId>,
}

/// Which nodes need a look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Restriction {
    /// All.
    AllNodes,
    /// Only these, and who said so.
    Only {
        /// The nodes that exist of those named, by index.
        nodes: Vec<NodeId>,
        /// Who named them, sorted.
        plugins: Vec<PluginName>,
    },
    /// Only the node that was cleared for the pod.
    Nominated(NodeId),
}

/// What [`Rules::recall`] can say.
pub(crate) enum Recalled {
    /// Nothing: nodes have to be looked at.
    Nothing,
    /// The best node.
    Best {
        /// How many nodes are feasible.
        feasible: usize,
        /// The best of them.
        chosen: Chosen<NodeId>,
    },
    /// No node is feasible.
    Nowhere {
        /// The plugins that refuse nodes.
        plugins: PluginSet,
        /// How many nodes are refused, but not for good.
        resolvable: usize,
    },
}

impl Restriction {
    fn includes(&self, node: NodeId) -> bool {
        match self {
            Self::AllNodes => true,
            Self::Only { nodes, .. } => nodes.contains(&node),
            Self::Nominated(nominated) => *nominated == node,
        }
    }
}

impl Rules {
    fn plugin(&self, name: PluginName) -> Option<&dyn Plugin> {
        self.plugins.iter().find(|plugin| plugin.name() == name).map(|plugin| &**plugin)
    }

    /// Asks every plugin about the pod; a refusal is for all nodes.
    pub fn pre_filter(&mut self, cycle: &Cycle<'_>) -> Result<Restriction, Status> {
        self.skip_filter = PluginSet::EMPTY;
        self.restricting = PluginSet::EMPTY;
        self.remembered = None;
        let mut only: Option<Vec<String>> = None;
        let mut plugins = Vec::new();
        let mut refused = None;
        for &at in &self.pre_filter {
            let plugin = &mut self.plugins[at];
            match plugin.pre_filter(cycle) {
                PreFilter::Continue => {}
                PreFilter::Skip => self.skip_filter.insert(plugin.name()),
                // Removing pods might help, but a later plugin may say that it does not: ask on.
                PreFilter::Reject(status) if status.code == Code::Unschedulable => refused = Some(status),
                PreFilter::Reject(status) => return Err(status),
                PreFilter::Restrict(names) => {
                    plugins.push(plugin.name());
                    self.restricting.insert(plugin.name());
                    let left: Vec<String> = match only {
                        None => names,
                        Some(before) => before.into_iter().filter(|name| names.contains(name)).collect(),
                    };
                    if left.is_empty() {
                        return Err(no_node_left(plugins));
                    }
                    only = Some(left);
                }
            }
        }
        if let Some(status) = refused {
            return Err(status);
        }
        plugins.sort_by_key(|plugin| plugin.as_str());
        Ok(match only {
            None => Restriction::AllNodes,
            Some(names) => {
                let mut nodes: Vec<_> = names.iter().filter_map(|name| cycle.state.node_named(name)).collect();
                nodes.sort_unstable();
                nodes.dedup();
                Restriction::Only { nodes, plugins }
            }
        })
    }

    /// The plugins that kept the last [`Self::pre_filter`] from looking at every node.
    pub fn restricting(&self) -> PluginSet {
        self.restricting
    }

    /// Finds the nodes that no plugin refuses; see [`Self::feasible`].
    pub fn filter(&mut self, cycle: &Cycle<'_>, restriction: &Restriction) {
        self.candidates.nodes.clear();
        self.candidates.refused.clear();
        let after_local = match restriction {
            // A pod that names its node differs from others of its shape.
            Restriction::AllNodes if cycle.pod.node_name.is_some() => {
                self.remembered = None;
                self.candidates.nodes.extend(cycle.state.nodes().map(|node| node.id));
                0
            }
            Restriction::AllNodes => {
                let known = self.refresh(cycle);
                self.candidates.nodes.extend_from_slice(self.memory.recall(known).feasible());
                self.local_filters().count()
            }
            Restriction::Only { nodes, .. } => {
                self.remembered = None;
                self.candidates.nodes.extend_from_slice(nodes);
                0
            }
            Restriction::Nominated(node) => {
                self.remembered = None;
                self.candidates.nodes.push(*node);
                0
            }
        };
        for &at in &self.filter[after_local..] {
            let plugin = &self.plugins[at];
            if !self.skip_filter.contains(plugin.name()) {
                plugin.filter_all(cycle, &mut self.candidates);
            }
        }
        self.filter_with_nominated(cycle, restriction);
    }

    /// The nodes that the last [`Self::filter`] left.
    pub fn feasible(&self) -> &[NodeId] {
        &self.candidates.nodes
    }

    /// Lends the list of feasible nodes to whoever ranks them; see [`Self::give_back`].
    pub(crate) fn take_feasible(&mut self) -> Vec<NodeId> {
        std::mem::take(&mut self.candidates.nodes)
    }

    /// Takes the list back, so that its memory is used again.
    pub(crate) fn give_back(&mut self, nodes: Vec<NodeId>) {
        self.candidates.nodes = nodes;
    }

    /// The filters that are asked first and depend on a node alone, so that their answers are remembered.
    fn local_filters(&self) -> impl Iterator<Item = usize> + '_ {
        self.filter.iter().copied().take_while(|at| self.plugins[*at].is_local())
    }

    /// Asks node-local plugins about the nodes that changed; the rest is in memory, under the id that is returned.
    fn refresh(&mut self, cycle: &Cycle<'_>) -> u64 {
        let local_id = cycle.entry.local_id;
        self.remembered = Some(local_id);
        let mut stale = std::mem::take(&mut self.stale);
        let local: Vec<_> = self.local_filters().collect();
        let known = self.memory.recall(local_id);
        let normalizing = self.score.iter().filter(|(at, _)| is_remembered_raw(&*self.plugins[*at])).count();
        known.take_stale(cycle.state, normalizing, &mut stale);
        if !stale.is_empty() {
            let mut candidates = Candidates { nodes: std::mem::take(&mut stale), refused: Vec::new() };
            candidates.nodes.retain(|&id| {
                let exists = cycle.state.node(id).is_some();
                if !exists {
                    known.set_cell(id, Cell::Absent);
                }
                exists
            });
            for at in local {
                let plugin = &self.plugins[at];
                if !self.skip_filter.contains(plugin.name()) {
                    plugin.filter_all(cycle, &mut candidates);
                }
            }
            for (node, refusal) in candidates.refused.drain(..) {
                known.set_cell(node, Cell::Refused(refusal));
            }
            for &node in &candidates.nodes {
                known.set_cell(node, Cell::Feasible);
            }
            score_local(&mut self.plugins, &self.score, cycle, &candidates.nodes, known);
            stale = candidates.nodes;
        }
        self.stale = stale;
        local_id
    }

    /// What can be said without a look at every node, where only rules and scores have a say that depend on a node alone.
    /// To be asked after a pre-filter that restricts nothing. Without a policy only that no node is feasible can be said.
    pub(crate) fn recall(
        &mut self,
        cycle: &Cycle<'_>,
        policy: Option<&mut dyn Policy>,
        rng: &mut Rng,
    ) -> Result<Recalled, String> {
        let others_filter = self.filter[self.local_filters().count()..]
            .iter()
            .any(|at| !self.skip_filter.contains(self.plugins[*at].name()));
        if others_filter || cycle.pod.node_name.is_some() || cycle.state.has_nominations() {
            return Ok(Recalled::Nothing);
        }
        let local_id = self.refresh(cycle);
        let known = self.memory.recall(local_id);
        let feasible = known.feasible_count();
        if feasible == 0 {
            self.candidates.nodes.clear();
            self.candidates.refused.clear();
            let (plugins, resolvable) = known.refusing();
            return Ok(Recalled::Nowhere { plugins, resolvable });
        }
        let Some(policy) = policy else { return Ok(Recalled::Nothing) };
        let is_local = match policy.scope() {
            Scope::Node => true,
            // Pods of one template may come from several clusters.
            Scope::Home => cycle.state.telemetry.clusters.len() < 2,
            Scope::Totals => known.raw.iter().all(|column| column.nonzero == 0) && self.others_are_indifferent(cycle),
            Scope::Cluster => false,
        };
        if !is_local {
            return Ok(Recalled::Nothing);
        }
        let mut memory = std::mem::take(&mut self.memory);
        let mut stale = std::mem::take(&mut self.stale);
        let known = memory.recall(local_id);
        let standings = known.standings(cycle.state, &mut stale, |known, nodes| match policy.scope() {
            Scope::Totals => Ok(nodes.iter().map(|node| known.sums[node.index()] as f64).collect()),
            _ => {
                let mut scores = vec![0.0; nodes.len()];
                let mut ranking = Ranking { cycle: *cycle, rules: self, rng, totals: &mut Vec::new() };
                policy.rank(&mut ranking, nodes, &mut scores).map(|()| scores)
            }
        });
        let chosen = standings.map(|standings| standings.choose(rng));
        self.memory = memory;
        self.stale = stale;
        Ok(chosen?.map_or(Recalled::Nothing, |chosen| Recalled::Best { feasible, chosen }))
    }

    /// Whether nobody but node-local plugins would rank nodes differently for this pod.
    fn others_are_indifferent(&mut self, cycle: &Cycle<'_>) -> bool {
        let fails = self.pre_score.iter().any(|&at| {
            let plugin = &mut self.plugins[at];
            plugin.is_local() && matches!(plugin.pre_score(cycle, &[]), PreScore::Error(_))
        });
        !fails
            && self.score.iter().all(|(at, _)| {
                let plugin = &self.plugins[*at];
                plugin.is_local() || !plugin.has_preference(cycle)
            })
    }

    /// Nodes will be ranked by another policy.
    pub(crate) fn forget_standings(&mut self) {
        self.memory.forget_standings();
    }

    /// Nodes kept for other pods must be right with and without those pods.
    fn filter_with_nominated(&mut self, cycle: &Cycle<'_>, restriction: &Restriction) {
        let mut kept: Vec<_> = cycle.state.nominated_nodes().filter(|node| restriction.includes(*node)).collect();
        kept.sort_unstable();
        for id in kept {
            let Some(refusal) = self.with_nominated(cycle, id, |_, _, refusal| refusal) else { continue };
            if let Ok(at) = self.candidates.nodes.binary_search(&id) {
                self.candidates.nodes.remove(at);
            }
            self.candidates.refused.retain(|(node, _)| *node != id);
            self.candidates.refused.push((id, refusal));
        }
    }

    /// What is against a node once the more important pods it is kept for are on it; none if nothing, or nobody is.
    fn with_nominated<R>(
        &mut self,
        cycle: &Cycle<'_>,
        id: NodeId,
        each: impl FnOnce(&Self, &Node, Refusal) -> R,
    ) -> Option<R> {
        let node = cycle.state.node(id)?;
        let others: Vec<_> = self.nominated_before(cycle, node).collect();
        if others.is_empty() {
            return None;
        }
        let mut node = node.clone();
        for (pod_id, pod) in others {
            self.add_pod(cycle, &mut node, pod_id, pod);
        }
        let answer = self.check_node(cycle, &node).map(|refusal| each(self, &node, refusal));
        self.end_what_if();
        answer
    }

    fn nominated_before<'a>(&self, cycle: &Cycle<'a>, node: &Node) -> impl Iterator<Item = (PodId, &'a Pod)> + use<'a> {
        let cycle = *cycle;
        let nominated = cycle.state.nominated_on(node.spec.name);
        nominated.iter().filter_map(move |&id| Some((id, cycle.state.pod(id)?))).filter(move |(id, pod)| {
            *id != cycle.pod_id && cycle.state.shape_of(pod).shape.priority >= cycle.shape().priority
        })
    }

    /// What if a pod were on a node.
    pub(crate) fn add_pod(&mut self, cycle: &Cycle<'_>, node: &mut Node, id: PodId, pod: &Pod) {
        node.add_pod(id, &cycle.state.shape_of(pod).shape);
        self.each_filter(|plugin| plugin.add_pod(cycle, pod, node));
    }

    /// What if a pod were not on a node.
    pub(crate) fn remove_pod(&mut self, cycle: &Cycle<'_>, node: &mut Node, id: PodId, pod: &Pod) {
        node.remove_pod(id, &cycle.state.shape_of(pod).shape);
        self.each_filter(|plugin| plugin.remove_pod(cycle, pod, node));
    }

    /// Back to what is.
    pub(crate) fn end_what_if(&mut self) {
        self.each_filter(|plugin| plugin.end_what_if());
    }

    fn each_filter(&mut self, mut each: impl FnMut(&mut dyn Plugin)) {
        for &at in &self.pre_filter {
            if !self.skip_filter.contains(self.plugins[at].name()) {
                each(&mut *self.plugins[at]);
            }
        }
    }

    /// The first plugin that refuses a node, as it is given.
    pub(crate) fn check_node(&self, cycle: &Cycle<'_>, node: &Node) -> Option<Refusal> {
        let asked = self.filter.iter().map(|at| &self.plugins[*at]);
        asked.filter(|plugin| !self.skip_filter.contains(plugin.name())).find_map(|plugin| plugin.filter(cycle, node))
    }

    /// As [`Self::check_node`], with and without the more important pods the node is kept for. The node is a what-if
    /// already: pods were added or removed since the last [`Self::end_what_if`].
    pub(crate) fn check_what_if(&mut self, cycle: &Cycle<'_>, node: &Node) -> Option<Refusal> {
        let others: Vec<_> = self.nominated_before(cycle, node).collect();
        if !others.is_empty() {
            let mut with = node.clone();
            for &(id, pod) in &others {
                self.add_pod(cycle, &mut with, id, pod);
            }
            let refusal = self.check_node(cycle, &with);
            for &(id, pod) in &others {
                self.remove_pod(cycle, &mut with, id, pod);
            }
            if refusal.is_some() {
                return refusal;
            }
        }
        self.check_node(cycle, node)
    }

    /// Every node the last [`Self::filter`] refused, with the first plugin that did.
    pub fn refused(&mut self) -> Vec<(NodeId, Refusal)> {
        let mut refused = self.candidates.refused.clone();
        if let Some(local_id) = self.remembered {
            let known = self.memory.recall(local_id);
            let kept_for_others: Vec<_> = refused.iter().map(|(node, _)| *node).collect();
            refused.extend(known.cells.iter().zip(0..).filter_map(|(cell, index)| match cell {
                Cell::Refused(refusal) if !kept_for_others.contains(&NodeId::new(index)) => {
                    Some((NodeId::new(index), *refusal))
                }
                _ => None,
            }));
        }
        refused.sort_unstable_by_key(|(node, _)| *node);
        refused
    }

    /// What went wrong in the last [`Self::filter`], if it could not judge a node: that ends the attempt, whatever is
    /// found about other nodes. What is remembered of nodes is never a failure.
    pub fn filter_failure(&mut self, cycle: &Cycle<'_>) -> Option<String> {
        let failed = self.candidates.refused.iter().find(|(_, refusal)| refusal.code == Code::Error);
        let (node, refusal) = *failed?;
        let problem = self.reasons(cycle, node, refusal).join(", ");
        Some(format!("running {:?} filter plugin: {problem}", refusal.plugin.as_str()))
    }

    /// Words a refusal of the last [`Self::filter`].
    pub fn reasons(&mut self, cycle: &Cycle<'_>, id: NodeId, refusal: Refusal) -> Vec<String> {
        let kept = self.with_nominated(cycle, id, |rules, node, refusal| rules.reasons_at(cycle, node, refusal));
        match (kept, cycle.state.node(id)) {
            (Some(reasons), _) => reasons,
            (None, Some(node)) => self.reasons_at(cycle, node, refusal),
            (None, None) => Vec::new(),
        }
    }

    /// What DynamicResources says to a pod that fits nowhere.
    pub(crate) fn claims_message(&self, cycle: &Cycle<'_>) -> String {
        let said = self.plugin(PluginName::DynamicResources).and_then(|plugin| plugin.post_filter(cycle));
        said.map_or_else(|| "no new claims to deallocate".into(), |said| said.status.reason)
    }

    /// The claim that DynamicResources would release, so that another attempt goes better.
    pub(crate) fn claim_release(&self, cycle: &Cycle<'_>) -> Option<Release> {
        self.plugin(PluginName::DynamicResources)?.post_filter(cycle)?.release
    }

    /// Words the refusal of a what-if node.
    pub(crate) fn reasons_at(&self, cycle: &Cycle<'_>, node: &Node, refusal: Refusal) -> Vec<String> {
        self.plugin(refusal.plugin).map_or_else(Vec::new, |plugin| plugin.reasons(cycle, node, refusal))
    }

    /// The weighted sum of all plugins' scores for the feasible nodes `nodes`.
    pub fn totals(&mut self, cycle: &Cycle<'_>, nodes: &[NodeId], totals: &mut Vec<i64>) -> Result<(), String> {
        totals.clear();
        totals.resize(nodes.len(), 0);
        self.pre_score(cycle, nodes)?;
        let known = self.remembered.map(|id| &*self.memory.recall(id));
        if let Some(known) = known {
            for (total, node) in totals.iter_mut().zip(nodes) {
                *total = known.sums[node.index()];
            }
        }
        let mut raw = known.map(|known| known.raw.iter());
        for &(at, weight) in &self.score {
            let plugin = &self.plugins[at];
            let column = raw.as_mut().filter(|_| is_remembered_raw(&**plugin)).and_then(Iterator::next);
            if self.skip_score.contains(plugin.name()) || !plugin.has_preference(cycle) {
                continue;
            }
            match column {
                Some(column) if column.nonzero == 0 => {
                    // All raw scores are alike, so all normalised ones are.
                    let mut one = [0];
                    plugin.normalize(cycle, nodes.get(..1).unwrap_or_default(), &mut one);
                    totals.iter_mut().for_each(|total| *total = total.wrapping_add(one[0].wrapping_mul(weight)));
                    continue;
                }
                Some(column) => {
                    self.scratch.clear();
                    self.scratch.extend(nodes.iter().map(|node| column.by_node[node.index()]));
                }
                None if known.is_some() && plugin.is_local() => continue,
                None => {
                    self.scratch.clear();
                    self.scratch.resize(nodes.len(), 0);
                    plugin.score(cycle, nodes, &mut self.scratch);
                }
            }
            plugin.normalize(cycle, nodes, &mut self.scratch);
            for (total, score) in totals.iter_mut().zip(&self.scratch) {
                *total = total.wrapping_add(score.wrapping_mul(weight));
            }
        }
        Ok(())
    }

    /// Every plugin's weighted scores, one list a plugin that takes part; nothing is taken from memory.
    pub fn scores(&mut self, cycle: &Cycle<'_>, nodes: &[NodeId]) -> Result<Vec<(PluginName, Vec<i64>)>, String> {
        self.pre_score(cycle, nodes)?;
        let taking_part = self.score.iter().filter(|(at, _)| !self.skip_score.contains(self.plugins[*at].name()));
        Ok(taking_part
            .map(|&(at, weight)| {
                let plugin = &self.plugins[at];
                let mut scores = vec![0; nodes.len()];
                plugin.score(cycle, nodes, &mut scores);
                plugin.normalize(cycle, nodes, &mut scores);
                (plugin.name(), scores.into_iter().map(|score| score.wrapping_mul(weight)).collect())
            })
            .collect())
    }

    fn pre_score(&mut self, cycle: &Cycle<'_>, nodes: &[NodeId]) -> Result<(), String> {
        self.skip_score = PluginSet::EMPTY;
        for &at in &self.pre_score {
            let plugin = &mut self.plugins[at];
            match plugin.pre_score(cycle, nodes) {
                PreScore::Continue => {}
                PreScore::Skip => self.skip_score.insert(plugin.name()),
                PreScore::Error(error) => {
                    return Err(format!("running PreScore plugin \"{}\": {error}", plugin.name().as_str()));
                }
            }
        }
        Ok(())
    }
}

fn is_remembered_raw(plugin: &dyn Plugin) -> bool {
    plugin.is_local() && plugin.normalizes()
}

fn score_local(
    plugins: &mut [Box<dyn Plugin>],
    order: &[(usize, i64)],
    cycle: &Cycle<'_>,
    nodes: &[NodeId],
    known: &mut Remembered,
) {
    let mut sums = vec![0_i64; nodes.len()];
    let mut raw = Vec::new();
    let mut scores = vec![0; nodes.len()];
    for &(at, weight) in order {
        let plugin = &mut plugins[at];
        if !plugin.is_local() {
            continue;
        }
        scores.fill(0);
        // Whether a local plugin skips depends on the shape alone, so that what it says now holds for all its pods.
        if plugin.pre_score(cycle, nodes) == PreScore::Continue {
            plugin.score(cycle, nodes, &mut scores);
        }
        if is_remembered_raw(&**plugin) {
            raw.push(scores.clone());
        } else {
            sums.iter_mut().zip(&scores).for_each(|(sum, score)| *sum = sum.wrapping_add(score.wrapping_mul(weight)));
        }
    }
    for (at, &node) in nodes.iter().enumerate() {
        known.set_scores(node, sums[at], raw.iter().map(|scores| scores[at]));
    }
}

fn no_node_left(mut plugins: Vec<PluginName>) -> Status {
    plugins.sort_by_key(|plugin| plugin.as_str());
    let names = plugins.iter().map(|plugin| plugin.as_str()).collect::<Vec<_>>().join(" ");
    let reason = match plugins.len() {
        1 => format!("node(s) didn't satisfy plugin {names}"),
        _ => format!("node(s) didn't satisfy plugin(s) [{names}] simultaneously"),
    };
    Status { code: Code::UnschedulableAndUnresolvable, plugin: None, reasons: vec![reason] }
}
