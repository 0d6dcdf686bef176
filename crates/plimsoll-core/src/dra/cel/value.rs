//! What a selector computes with.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::semver::Semver;
use crate::quantity::Quantity;

/// A value at run time.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i64),
    UInt(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
    List(Arc<Vec<Value>>),
    Map(Arc<Map>),
    Quantity(Arc<Quantity>),
    /// The result of `add` or `sub`; Kubernetes cannot compare another quantity *to* it, and neither can we.
    ComputedQuantity(Arc<Quantity>),
    Semver(Arc<Semver>),
    Optional(Option<Arc<Value>>),
    /// A type, by its name.
    Type(&'static str),
}

/// A map; the keys of one are numbers, strings or booleans.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Map {
    entries: BTreeMap<Key, (Value, Value)>,
    /// Whether a missing key gives an empty map instead of an error, as domains of attributes do.
    defaults: bool,
}

/// Numbers that are equal are the same key, whatever their type.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Bool(bool),
    Integer(i128),
    /// The bits of a double that is no integer.
    Fraction(u64),
    String(Arc<str>),
}

/// The outcome of comparing two values for equality.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Equality {
    Equal,
    Different,
    /// The types cannot be compared.
    Undefined,
}

impl From<bool> for Equality {
    fn from(equal: bool) -> Self {
        if equal { Self::Equal } else { Self::Different }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::String(text.into())
    }
}

impl Map {
    /// A map in which every key that is missing leads to an empty map.
    pub fn with_default() -> Self {
        Self { defaults: true, ..Self::default() }
    }

    /// Adds an entry; false if the key cannot be one.
    pub fn insert(&mut self, key: Value, value: Value) -> bool {
        let Some(index) = Key::of(&key) else {
            return false;
        };
        self.entries.insert(index, (key, value));
        true
    }

    /// The value of the key, or the default.
    pub fn find(&self, key: &Value) -> Option<Value> {
        let found = Key::of(key).and_then(|key| self.entries.get(&key)).map(|(_, value)| value.clone());
        found.or_else(|| self.defaults.then(|| Value::Map(Arc::default())))
    }

    /// Whether the key itself is there.
    pub fn contains(&self, key: &Value) -> bool {
        Key::of(key).is_some_and(|key| self.entries.contains_key(&key))
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Value, &Value)> {
        self.entries.values().map(|(key, value)| (key, value))
    }

    /// The entry of a name, to be filled while the map is built.
    pub fn domain(&mut self, name: &str) -> &mut Value {
        let entry = self.entries.entry(Key::String(name.into()));
        &mut entry.or_insert_with(|| (name.into(), Value::Map(Arc::default()))).1
    }
}

impl Key {
    fn of(value: &Value) -> Option<Key> {
        match value {
            Value::Bool(b) => Some(Key::Bool(*b)),
            Value::Int(i) => Some(Key::Integer((*i).into())),
            Value::UInt(u) => Some(Key::Integer((*u).into())),
            Value::Double(d) if d.fract() == 0.0 && d.abs() < 1e20 => Some(Key::Integer(*d as i128)),
            Value::Double(d) if !d.is_nan() => Some(Key::Fraction(d.to_bits())),
            Value::String(s) => Some(Key::String(s.clone())),
            _ => None,
        }
    }
}

impl Value {
    /// An optional that has a value.
    pub fn some(value: Value) -> Self {
        Value::Optional(Some(Arc::new(value)))
    }

    /// A list of the values.
    pub fn list(values: Vec<Value>) -> Self {
        Value::List(Arc::new(values))
    }

    /// The name of the value's type, as `type()` and errors give it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Null => "null_type",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::UInt(_) => "uint",
            Value::Double(_) => "double",
            Value::String(_) => "string",
            Value::Bytes(_) => "bytes",
            Value::List(_) => "list",
            Value::Map(_) => "map",
            Value::Quantity(_) | Value::ComputedQuantity(_) => "kubernetes.Quantity",
            Value::Semver(_) => "kubernetes.Semver",
            Value::Optional(_) => "optional_type",
            Value::Type(_) => "type",
        }
    }

    /// CEL's `==`, as the left operand sees it.
    pub fn equals(&self, other: &Value) -> Equality {
        use Value::{Bool, Bytes, ComputedQuantity, List, Map, Null, Optional, Quantity, Semver, String, Type};
        match (self, other) {
            (Null, _) | (_, Null) => (matches!(self, Null) && matches!(other, Null)).into(),
            (Bool(a), Bool(b)) => (a == b).into(),
            (String(a), String(b)) => (a == b).into(),
            (Bytes(a), Bytes(b)) => (a == b).into(),
            (Type(a), Type(b)) => (a == b).into(),
            (Value::Int(_) | Value::UInt(_) | Value::Double(_), _) => {
                (self.compare(other) == Ok(Ordering::Equal)).into()
            }
            // A pair that cannot be compared does not make lists or maps differ: only an inequality does.
            (List(a), List(b)) => {
                (a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| a.equals(b) != Equality::Different)).into()
            }
            (Map(a), Map(b)) => {
                let same = |(key, value): (&Value, &Value)| {
                    b.find(key).is_some_and(|other| value.equals(&other) != Equality::Different)
                };
                (a.len() == b.len() && a.iter().all(same)).into()
            }
            (Quantity(a) | ComputedQuantity(a), Quantity(b)) => (a == b).into(),
            (Semver(a), Semver(b)) => a.same_precedence(b).into(),
            (Quantity(_) | ComputedQuantity(_) | Semver(_), _) => Equality::Undefined,
            (Optional(Some(a)), Optional(Some(b))) => a.equals(b),
            (Optional(a), Optional(b)) => (a.is_none() && b.is_none()).into(),
            _ => Equality::Different,
        }
    }

    /// CEL's order; an error says why there is none.
    pub fn compare(&self, other: &Value) -> Result<Ordering, &'static str> {
        use Value::{Bool, Bytes, Double, Int, String, UInt};
        const NAN: &str = "NaN values cannot be ordered";
        let order = match (self, other) {
            (Bool(a), Bool(b)) => a.cmp(b),
            (String(a), String(b)) => a.cmp(b),
            (Bytes(a), Bytes(b)) => a.cmp(b),
            (Int(a), Int(b)) => a.cmp(b),
            (UInt(a), UInt(b)) => a.cmp(b),
            (Int(a), UInt(b)) => i128::from(*a).cmp(&i128::from(*b)),
            (UInt(a), Int(b)) => i128::from(*a).cmp(&i128::from(*b)),
            (Double(a), Double(b)) => a.partial_cmp(b).ok_or(NAN)?,
            (Double(a), Int(b)) => double_int(*a, *b).ok_or(NAN)?,
            (Int(a), Double(b)) => double_int(*b, *a).ok_or(NAN)?.reverse(),
            (Double(a), UInt(b)) => double_uint(*a, *b).ok_or(NAN)?,
            (UInt(a), Double(b)) => double_uint(*b, *a).ok_or(NAN)?.reverse(),
            _ => return Err("no such overload"),
        };
        Ok(order)
    }

    /// Whether this is what a type has before anything is put into it.
    pub fn is_zero(&self) -> bool {
        match self {
            Value::Null => true,
            Value::Bool(b) => !b,
            Value::Int(i) => *i == 0,
            Value::UInt(u) => *u == 0,
            Value::Double(d) => *d == 0.0,
            Value::String(s) => s.is_empty(),
            Value::Bytes(b) => b.is_empty(),
            Value::List(list) => list.is_empty(),
            Value::Map(map) => map.len() == 0,
            Value::Optional(value) => value.is_none(),
            _ => false,
        }
    }
}

fn double_int(a: f64, b: i64) -> Option<Ordering> {
    if a < i64::MIN as f64 {
        return Some(Ordering::Less);
    }
    if a > i64::MAX as f64 {
        return Some(Ordering::Greater);
    }
    a.partial_cmp(&(b as f64))
}

fn double_uint(a: f64, b: u64) -> Option<Ordering> {
    if a < 0.0 {
        return Some(Ordering::Less);
    }
    if a > u64::MAX as f64 {
        return Some(Ordering::Greater);
    }
    a.partial_cmp(&(b as f64))
}
