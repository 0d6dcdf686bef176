//! Services and controllers, whose selectors make the default spread constraints.

use crate::model::{ControllerKind, Interner, PodShape, Requirement, Selector, Sym};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Services by namespace, and controllers by namespace and name.
#[derive(Debug, Default)]
pub struct Controllers {
    /// Service selectors; an ordered map, since labels of later services override earlier ones.
    services: FxHashMap<Sym, BTreeMap<Box<str>, Option<Selector>>>,
    selectors: FxHashMap<(ControllerKind, Sym, Sym), Selector>,
    version: u64,
}

impl Controllers {
    /// Changes whenever a selector does.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// A service came or changed (its labels to select by, none for a service without selector).
    pub fn set_service(&mut self, namespace: Sym, name: &str, selector: Option<Selector>) {
        self.version += 1;
        self.services.entry(namespace).or_default().insert(name.into(), selector);
    }

    /// A service left.
    pub fn remove_service(&mut self, namespace: Sym, name: &str) {
        self.version += 1;
        if let Some(services) = self.services.get_mut(&namespace) {
            services.remove(name);
        }
    }

    /// A controller came or changed.
    pub fn set_controller(&mut self, kind: ControllerKind, namespace: Sym, name: Sym, selector: Selector) {
        self.version += 1;
        self.selectors.insert((kind, namespace, name), selector);
    }

    /// A controller left.
    pub fn remove_controller(&mut self, kind: ControllerKind, namespace: Sym, name: Sym) {
        self.version += 1;
        self.selectors.remove(&(kind, namespace, name));
    }

    /// The selector of a pod's services and controller together; everything if it has neither.
    pub fn default_selector(&self, shape: &PodShape, strings: &Interner) -> Selector {
        let mut labels: BTreeMap<Sym, Requirement> = BTreeMap::new();
        let mut merge = |selector: &Selector| {
            if let Selector::All(requirements) = selector {
                labels.extend(requirements.iter().map(|requirement| (requirement.key, requirement.clone())));
            }
        };
        for selector in self.services.get(&shape.namespace).into_iter().flat_map(BTreeMap::values).flatten() {
            if selector.matches(&shape.labels, strings) {
                merge(selector);
            }
        }
        let owner = shape.controller.as_ref();
        let owned = owner.and_then(|owner| self.selectors.get(&(owner.kind, shape.namespace, owner.name)));
        if let (Some(ControllerKind::ReplicationController), Some(selector)) = (owner.map(|o| o.kind), owned) {
            merge(selector);
            return Selector::all(labels.into_values().collect());
        }
        let services = Selector::all(labels.into_values().collect());
        match owned {
            Some(Selector::All(requirements)) => services.and(requirements.iter().cloned()),
            _ => services,
        }
    }
}
