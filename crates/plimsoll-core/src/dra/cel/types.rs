//! CEL's static types and their unification.

use std::fmt;

/// The type of an expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Type {
    /// Known only at run time.
    Dyn,
    /// The type of every attribute: known only at run time too, but nothing that can be iterated over.
    Any,
    /// Already reported; fits everything so that one mistake is one message.
    Error,
    Null,
    Bool,
    Int,
    UInt,
    Double,
    String,
    Bytes,
    List(Box<Type>),
    Map(Box<Type>, Box<Type>),
    Optional(Box<Type>),
    Meta(Box<Type>),
    Quantity,
    Semver,
    Device,
    /// A type still to be found out.
    Var(usize),
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Dyn => f.write_str("dyn"),
            Type::Any => f.write_str("any"),
            Type::Error => f.write_str("!error!"),
            Type::Null => f.write_str("null"),
            Type::Bool => f.write_str("bool"),
            Type::Int => f.write_str("int"),
            Type::UInt => f.write_str("uint"),
            Type::Double => f.write_str("double"),
            Type::String => f.write_str("string"),
            Type::Bytes => f.write_str("bytes"),
            Type::List(element) => write!(f, "list({element})"),
            Type::Map(key, value) => write!(f, "map({key}, {value})"),
            Type::Optional(value) => write!(f, "optional_type({value})"),
            Type::Meta(value) => write!(f, "type({value})"),
            Type::Quantity => f.write_str("kubernetes.Quantity"),
            Type::Semver => f.write_str("kubernetes.Semver"),
            Type::Device => f.write_str("kubernetes.DRADevice"),
            Type::Var(id) => write!(f, "_var{id}"),
        }
    }
}

impl Type {
    pub fn list(element: Type) -> Self {
        Type::List(Box::new(element))
    }

    pub fn optional(value: Type) -> Self {
        Type::Optional(Box::new(value))
    }

    fn is_wild(&self) -> bool {
        matches!(self, Type::Dyn | Type::Any | Type::Error)
    }

    fn is_nullable(&self) -> bool {
        matches!(self, Type::Null | Type::Optional(_) | Type::Quantity | Type::Semver | Type::Device)
    }

    fn params(&self) -> Vec<&Type> {
        match self {
            Type::List(a) | Type::Optional(a) | Type::Meta(a) => vec![a],
            Type::Map(a, b) => vec![a, b],
            _ => Vec::new(),
        }
    }
}

/// What the variables of an expression's types turned out to be.
#[derive(Debug, Default)]
pub struct Bindings {
    types: Vec<Option<Type>>,
    /// What was replaced since the last attempt to unify began, to be put back if it fails.
    replaced: Vec<(usize, Option<Type>)>,
}

impl Bindings {
    /// A type not known yet.
    pub fn fresh(&mut self) -> Type {
        self.types.push(None);
        Type::Var(self.types.len() - 1)
    }

    fn get(&self, id: usize) -> Option<&Type> {
        self.types.get(id).and_then(Option::as_ref)
    }

    fn set(&mut self, id: usize, bound: Type) {
        if let Some(slot) = self.types.get_mut(id) {
            self.replaced.push((id, slot.replace(bound)));
        }
    }

    /// The type with every known variable replaced, and with `to_dyn` the unknown ones too.
    pub fn resolve(&self, of: &Type, to_dyn: bool) -> Type {
        let inner = |inner: &Type| Box::new(self.resolve(inner, to_dyn));
        match of {
            Type::Var(id) => match self.get(*id) {
                Some(bound) => self.resolve(bound, to_dyn),
                None if to_dyn => Type::Dyn,
                None => of.clone(),
            },
            Type::List(a) => Type::List(inner(a)),
            Type::Map(a, b) => Type::Map(inner(a), inner(b)),
            Type::Optional(a) => Type::Optional(inner(a)),
            Type::Meta(a) => Type::Meta(inner(a)),
            _ => of.clone(),
        }
    }

    /// Whether a value of the first type may stand where the second is wanted; only then variables become bound.
    pub fn assignable(&mut self, from: &Type, to: &Type) -> bool {
        self.all_assignable(&[(from, to)])
    }

    /// [`Self::assignable`] for all pairs or none.
    pub fn all_assignable(&mut self, pairs: &[(&Type, &Type)]) -> bool {
        self.replaced.clear();
        let fits = pairs.iter().all(|(from, to)| self.unify(from, to));
        if !fits {
            while let Some((id, before)) = self.replaced.pop() {
                self.types[id] = before;
            }
        }
        fits
    }

    fn unify(&mut self, a: &Type, b: &Type) -> bool {
        if let Type::Var(id) = b {
            match self.substitutes(a, *id) {
                (true, _) => return true,
                (false, true) => return false,
                (false, false) => {}
            }
        }
        if let Type::Var(id) = a {
            return self.substitutes(b, *id).0;
        }
        if a.is_wild() || b.is_wild() {
            return true;
        }
        match (a, b) {
            (Type::Null, other) | (other, Type::Null) => other.is_nullable(),
            (Type::Meta(_), Type::Meta(_)) => true,
            (Type::List(x), Type::List(y)) | (Type::Optional(x), Type::Optional(y)) => self.unify(x, y),
            (Type::Map(k, v), Type::Map(l, w)) => self.unify(k, l) && self.unify(v, w),
            _ => a == b,
        }
    }

    /// Whether the variable can stand for the type, and whether it already stood for one.
    fn substitutes(&mut self, of: &Type, id: usize) -> (bool, bool) {
        if *of == Type::Var(id) {
            return (true, true);
        }
        if let Some(bound) = self.get(id).cloned() {
            if *of == bound {
                return (true, true);
            }
            if !self.unify(of, &bound) {
                return (false, true);
            }
            let general = if less_specific(of, &bound) { of.clone() } else { bound };
            if !self.occurs(id, &general) {
                self.set(id, general);
            }
            return (true, true);
        }
        if self.occurs(id, of) {
            return (false, false);
        }
        self.set(id, of.clone());
        (true, false)
    }

    fn occurs(&self, id: usize, within: &Type) -> bool {
        match within {
            Type::Var(other) => *other == id || self.get(*other).is_some_and(|bound| self.occurs(id, bound)),
            _ => within.params().into_iter().any(|param| self.occurs(id, param)),
        }
    }
}

/// The more general of two types that unify.
pub fn most_general(a: Type, b: Type) -> Type {
    if less_specific(&a, &b) { a } else { b }
}

fn less_specific(a: &Type, b: &Type) -> bool {
    match (a, b) {
        (Type::Dyn | Type::Any | Type::Var(_), _) => true,
        (_, Type::Dyn | Type::Any | Type::Var(_)) => false,
        (Type::Meta(_), Type::Meta(_)) => true,
        (Type::List(x), Type::List(y)) | (Type::Optional(x), Type::Optional(y)) => less_specific(x, y),
        (Type::Map(k, v), Type::Map(l, w)) => less_specific(k, l) && less_specific(v, w),
        _ => a == b,
    }
}
