//! What is remembered between decisions because it only depends on objects that have not changed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use super::cel::{CompileError, MatchError, Selector};
use super::pools::Pool;
use super::slices::Device;

/// Expressions kept compiled; more than a cluster has device classes and claim templates.
const MAX_SELECTORS: usize = 4096;
/// Verdicts kept; at 12 bytes each some tens of megabytes.
const MAX_VERDICTS: usize = 1 << 21;

/// A cache that is empty again in a copy.
#[derive(Debug, Default)]
pub(super) struct Memo(Mutex<Memory>);

#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) selectors: Selectors,
    pub(super) pools: FxHashMap<String, NodePools>,
}

/// The pools of a node and the values of the labels they depend on.
#[derive(Debug, Clone)]
pub(super) struct NodePools {
    pub(super) labels: Vec<Option<String>>,
    pub(super) pools: Arc<Vec<Pool>>,
}

impl Clone for Memo {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Memo {
    pub(super) fn lock(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get_mut(&mut self) -> &mut Memory {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Compiled selectors and what they said about each device.
#[derive(Debug, Default)]
pub(super) struct Selectors {
    compiled: HashMap<String, CompiledSelector>,
    next: u32,
    verdicts: FxHashMap<(u32, u32), bool>,
}

/// A selector ready to be asked.
#[derive(Debug, Clone)]
pub(super) struct CompiledSelector {
    id: u32,
    selector: Arc<Result<Selector, CompileError>>,
}

/// Why a selector gives no verdict.
pub(super) enum SelectorError<'a> {
    Compile(&'a CompileError),
    Match(MatchError),
}

impl Selectors {
    pub(super) fn compile(&mut self, expression: &str) -> CompiledSelector {
        if let Some(known) = self.compiled.get(expression) {
            return known.clone();
        }
        if self.compiled.len() >= MAX_SELECTORS {
            self.compiled.clear();
            self.verdicts.clear();
        }
        let compiled = CompiledSelector { id: self.next, selector: Arc::new(Selector::compile(expression)) };
        self.next = self.next.wrapping_add(1);
        self.compiled.insert(expression.to_owned(), compiled.clone());
        compiled
    }

    /// Whether the selector wants the device.
    pub(super) fn matches<'a>(
        &mut self,
        selector: &'a CompiledSelector,
        device: &Device,
    ) -> Result<bool, SelectorError<'a>> {
        let question = (selector.id, device.serial);
        if let Some(verdict) = self.verdicts.get(&question) {
            return Ok(*verdict);
        }
        let compiled = selector.selector.as_ref().as_ref().map_err(SelectorError::Compile)?;
        let verdict = compiled.matches(&device.details.value).map_err(SelectorError::Match)?;
        if self.verdicts.len() >= MAX_VERDICTS {
            self.verdicts.clear();
        }
        self.verdicts.insert(question, verdict);
        Ok(verdict)
    }
}
