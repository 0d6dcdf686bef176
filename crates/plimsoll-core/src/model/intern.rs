//! Strings become small integers once, when an object arrives, so that a decision compares integers only.

use rustc_hash::FxHashMap;
use std::sync::Arc;

/// An interned string: equal symbols are equal strings.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Sym(u32);

impl Sym {
    /// The empty string, interned in every [`Interner`].
    pub const EMPTY: Self = Self(0);
}

/// The table of interned strings.
///
/// Strings are kept for the life of the table: what is interned (label keys and values, namespaces, node and resource
/// names) is bounded by the variety of a cluster, not by the number of pods that pass through it.
#[derive(Debug)]
pub struct Interner {
    symbols: FxHashMap<Arc<str>, Sym>,
    strings: Vec<Arc<str>>,
}

impl Default for Interner {
    fn default() -> Self {
        let mut interner = Self { symbols: FxHashMap::default(), strings: Vec::new() };
        interner.intern("");
        interner
    }
}

impl Interner {
    /// The symbol of `text`, made if it is new.
    pub fn intern(&mut self, text: &str) -> Sym {
        if let Some(&symbol) = self.symbols.get(text) {
            return symbol;
        }
        let shared: Arc<str> = text.into();
        let symbol = Sym(u32::try_from(self.strings.len()).unwrap_or(u32::MAX));
        self.strings.push(Arc::clone(&shared));
        self.symbols.insert(shared, symbol);
        symbol
    }

    /// The symbol of `text` if some object already used it.
    pub fn get(&self, text: &str) -> Option<Sym> {
        self.symbols.get(text).copied()
    }

    /// The string behind a symbol.
    pub fn resolve(&self, symbol: Sym) -> &str {
        &self.strings[symbol.0 as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_strings_share_a_symbol() {
        let mut interner = Interner::default();
        let zone = interner.intern("zone");
        assert_eq!(interner.intern("zone"), zone);
        assert_eq!(interner.resolve(zone), "zone");
        assert_eq!(interner.get("region"), None);
        assert_eq!(interner.intern(""), Sym::EMPTY);
    }
}
