//! Putting a workload together, pod by pod.

use super::{Call, PodRecord, Template, Workload};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use std::hash::{Hash, Hasher};

/// Gathers pods: equal templates are kept once, a name is taken once.
#[derive(Debug, Default)]
pub struct Builder {
    templates: Vec<Template>,
    known: FxHashMap<TemplateKey, u32>,
    pods: Vec<PodRecord>,
    names: Names,
}

/// A template as something that can be hashed: a spec as its JSON, numbers by their bits.
type TemplateKey =
    (String, Option<String>, [i64; 3], Option<(u32, u32, Vec<String>)>, Option<[u64; 2]>, Option<String>);

/// The names taken, without a second copy of each: by hash, the pod that came first with it.
#[derive(Debug, Default)]
struct Names {
    by_hash: FxHashMap<u64, u32>,
    /// Names whose hash was taken by another name.
    colliding: FxHashSet<Box<str>>,
}

impl Builder {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of a template, for [`PodRecord::template`]; equal templates have one number.
    pub fn template(&mut self, mut template: Template) -> u32 {
        // What means the same is the same: no GPU of any kind is no GPU, no name is none.
        template.gpu = template.gpu.filter(|gpu| gpu.count > 0);
        template.app = template.app.filter(|app| !app.is_empty());
        let number = u32::try_from(self.templates.len()).unwrap_or(u32::MAX);
        let found = *self.known.entry(key(&template)).or_insert(number);
        if found == number {
            self.templates.push(template);
        }
        found
    }

    /// Whether a pod of this name was added.
    pub fn has(&self, name: &str) -> bool {
        match self.names.by_hash.get(&hash(name)).and_then(|first| self.pods.get(*first as usize)) {
            None => false,
            Some(first) => *first.name == *name || self.names.colliding.contains(name),
        }
    }

    /// Adds a pod. One whose name is taken is given back.
    pub fn push(&mut self, pod: PodRecord) -> Result<(), PodRecord> {
        if self.has(&pod.name) {
            return Err(pod);
        }
        let number = u32::try_from(self.pods.len()).unwrap_or(u32::MAX);
        if *self.names.by_hash.entry(hash(&pod.name)).or_insert(number) != number {
            self.names.colliding.insert(pod.name.clone());
        }
        self.pods.push(pod);
        Ok(())
    }

    /// How many pods there are.
    pub fn len(&self) -> usize {
        self.pods.len()
    }

    /// Whether there is no pod.
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// The workload: pods by arrival, templates by their first use; a template without pods is left out.
    pub fn finish(self, name: impl Into<String>, calls: Vec<Call>) -> Workload {
        let mut workload = Workload { name: name.into(), templates: self.templates, pods: self.pods, calls };
        workload.pods.sort_by_key(|pod| pod.arrival);
        workload.renumber_templates();
        workload
    }
}

impl Workload {
    /// Orders templates by their first use and leaves out those without pods, so that equal workloads are equal as values.
    pub(super) fn renumber_templates(&mut self) {
        const UNUSED: u32 = u32::MAX;
        let mut new = vec![UNUSED; self.templates.len()];
        let mut order: Vec<usize> = Vec::new();
        self.pods.retain_mut(|pod| {
            let old = pod.template as usize;
            let Some(number) = new.get_mut(old) else { return false };
            if *number == UNUSED {
                *number = order.len() as u32;
                order.push(old);
            }
            pod.template = *number;
            true
        });
        let mut old: Vec<Option<Template>> = std::mem::take(&mut self.templates).into_iter().map(Some).collect();
        self.templates = order.into_iter().filter_map(|at| old.get_mut(at).and_then(Option::take)).collect();
    }
}

fn hash(name: &str) -> u64 {
    let mut hasher = FxHasher::default();
    name.hash(&mut hasher);
    hasher.finish()
}

fn key(template: &Template) -> TemplateKey {
    let Template { namespace, app, cpu_milli, memory, gpu, priority, latency, spec } = template;
    (
        namespace.clone(),
        app.clone(),
        [*cpu_milli, *memory, i64::from(*priority)],
        gpu.as_ref().map(|gpu| (gpu.count, gpu.milli, gpu.models.clone())),
        latency.map(|latency| [latency.soft_ms.to_bits(), latency.hard_ms.to_bits()]),
        // A spec that is no JSON cannot be: its fields are all plain data.
        spec.as_ref().map(|spec| serde_json::to_string(spec).unwrap_or_default()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::GpuRequest;
    use std::time::Duration;

    fn pod(name: &str, template: u32, arrival: u64) -> PodRecord {
        let arrival = Duration::from_secs(arrival);
        PodRecord { name: name.into(), template, owner: 0, arrival, lifetime: None, usage: None }
    }

    #[test]
    fn equal_templates_are_kept_once_and_unused_ones_not_at_all() {
        let mut builder = Builder::new();
        let small = Template { cpu_milli: 100, ..Template::default() };
        let unused = builder.template(Template { cpu_milli: 7, ..Template::default() });
        let large = builder.template(Template { cpu_milli: 900, ..Template::default() });
        let first = builder.template(small.clone());
        let no_gpu = Template { gpu: Some(GpuRequest::default()), app: Some(String::new()), ..small.clone() };
        assert_eq!(builder.template(no_gpu), first);
        assert_ne!(unused, first);
        builder.push(pod("late", large, 9)).unwrap();
        builder.push(pod("early", first, 1)).unwrap();
        let workload = builder.finish("w", Vec::new());
        let cpu: Vec<i64> = workload.templates.iter().map(|template| template.cpu_milli).collect();
        assert_eq!(cpu, [100, 900], "by first use after sorting");
        assert_eq!(workload.pods.iter().map(|pod| pod.template).collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn a_name_is_taken_once() {
        let mut builder = Builder::new();
        let template = builder.template(Template::default());
        builder.push(pod("a", template, 1)).unwrap();
        builder.push(pod("b", template, 1)).unwrap();
        assert!(builder.push(pod("a", template, 2)).is_err());
        assert!(builder.has("b") && !builder.has("c"));
        assert_eq!(builder.len(), 2);
    }

    #[test]
    fn names_of_one_hash_are_told_apart() {
        let mut builder = Builder::new();
        let template = builder.template(Template::default());
        builder.push(pod("a", template, 1)).unwrap();
        // As if the hashes of `a` and `b` were equal.
        builder.names.by_hash.insert(hash("b"), 0);
        assert!(!builder.has("b"));
        builder.push(pod("b", template, 1)).unwrap();
        assert!(builder.push(pod("b", template, 1)).is_err());
    }
}
