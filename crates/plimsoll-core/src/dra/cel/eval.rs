//! Evaluates a checked selector for one device.
//!
//! Errors are values that `&&` and `||` may absorb, as CEL has it; only running out of budget ends everything.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use regex::Regex;

use super::ast::{Element, Entry, Expr, Kind, Macro};
use super::functions;
use super::value::{Map, Value};

/// What an evaluation may cost, in the units of Kubernetes: about one for every step.
pub const COST_LIMIT: u64 = 1_000_000;

/// Why an expression has no value.
#[derive(Debug, Clone, PartialEq)]
pub struct EvalError {
    pub message: Cow<'static, str>,
    /// Whether the evaluation as a whole has to end.
    fatal: bool,
}

impl EvalError {
    pub fn new(message: impl Into<Cow<'static, str>>) -> Self {
        Self { message: message.into(), fatal: false }
    }

    /// An error whose text is known beforehand.
    pub const fn constant(message: &'static str) -> Self {
        Self { message: Cow::Borrowed(message), fatal: false }
    }

    /// An error nothing can absorb.
    fn fatal(message: impl Into<Cow<'static, str>>) -> Self {
        Self { message: message.into(), fatal: true }
    }

    /// The operands of an operator do not go together.
    pub fn no_such_overload() -> Self {
        Self::new("no such overload")
    }
}

pub type Evaluated = Result<Value, EvalError>;

/// Patterns that were known when the selector was compiled.
pub type Patterns = HashMap<String, Regex>;

/// The state of one evaluation.
pub struct Evaluation<'a> {
    device: &'a Value,
    patterns: &'a Patterns,
    locals: Vec<(&'a str, Evaluated)>,
    cost: u64,
}

impl<'a> Evaluation<'a> {
    pub fn new(device: &'a Value, patterns: &'a Patterns) -> Self {
        Self { device, patterns, locals: Vec::new(), cost: 0 }
    }

    /// Adds to the cost, which must stay below the limit.
    pub fn charge(&mut self, cost: u64) -> Result<(), EvalError> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > COST_LIMIT {
            return Err(EvalError::fatal("operation cancelled: actual cost limit exceeded"));
        }
        Ok(())
    }

    /// The pattern if it was compiled beforehand.
    pub fn pattern(&self, text: &str) -> Option<&'a Regex> {
        self.patterns.get(text)
    }

    pub fn eval(&mut self, expr: &'a Expr) -> Evaluated {
        match &expr.kind {
            Kind::Literal(value) => Ok(value.clone()),
            Kind::Ident(name) => {
                self.charge(1)?;
                self.ident(name)
            }
            Kind::Select { operand, field, optional } => {
                let operand = self.eval(operand)?;
                self.charge(1)?;
                self.qualify(operand, &field.as_str().into(), *optional)
            }
            Kind::Has { operand, field } => {
                let operand = self.eval(operand)?;
                let field = field.as_str().into();
                let present = match operand {
                    Value::Optional(None) => None,
                    Value::Optional(Some(inner)) => find(&inner, &field)?,
                    other => find(&other, &field)?,
                };
                Ok(Value::Bool(present.is_some()))
            }
            Kind::Index { operand, index, optional } => {
                let operand = self.eval(operand)?;
                let index = self.eval(index)?;
                self.charge(1)?;
                self.qualify(operand, &index, *optional)
            }
            Kind::And(terms) => self.logical(terms, false),
            Kind::Or(terms) => self.logical(terms, true),
            Kind::Ternary(parts) => {
                let [condition, then, otherwise] = &**parts;
                match self.eval(condition)? {
                    Value::Bool(true) => self.eval(then),
                    Value::Bool(false) => self.eval(otherwise),
                    _ => Err(EvalError::no_such_overload()),
                }
            }
            Kind::List(elements) => self.list(elements),
            Kind::Map(entries) => self.map(entries),
            Kind::Struct(_) => Err(EvalError::no_such_overload()),
            Kind::Call { target, function, args } => self.call(target.as_deref(), function, args),
            Kind::Macro { op, range, vars, args } => self.expand(*op, range, vars, args),
        }
    }

    fn call(&mut self, target: Option<&'a Expr>, function: &str, args: &'a [Expr]) -> Evaluated {
        if let ("@in", [_, Expr { kind: Kind::List(elements), .. }]) = (function, args)
            && elements.is_empty()
        {
            // Kubernetes knows the answer without looking at the item, even at one that fails.
            return Ok(Value::Bool(false));
        }
        let mut values = Vec::with_capacity(args.len() + 1);
        if let Some(target) = target {
            values.push(self.eval(target)?);
        }
        if let ("or" | "orValue", [first], [second]) = (function, values.as_slice(), args) {
            // The alternative is only looked at when it is needed, and what is not optional needs none.
            return match first {
                Value::Optional(None) => self.eval(second),
                Value::Optional(Some(value)) if function == "orValue" => Ok((**value).clone()),
                _ => Ok(values.swap_remove(0)),
            };
        }
        for arg in args {
            values.push(self.eval(arg)?);
        }
        self.charge(1)?;
        if let ("@in", [item @ (Value::Semver(_) | Value::Bytes(_)), _], [_, within]) =
            (function, values.as_slice(), args)
            && is_literal(within)
        {
            // Kubernetes makes a literal list a set, and fails to look these up in one.
            let name = go_type(item);
            return Err(EvalError::fatal(format!("internal error: runtime error: hash of unhashable type {name}")));
        }
        functions::call(self, function, target.is_some(), &values)
    }

    fn ident(&self, name: &str) -> Evaluated {
        if let Some((_, value)) = self.locals.iter().rev().find(|(known, _)| *known == name) {
            return value.clone();
        }
        if name == "device" {
            return Ok(self.device.clone());
        }
        let types =
            ["bool", "int", "uint", "double", "string", "bytes", "null_type", "list", "map", "type", "optional_type"];
        match types.into_iter().find(|known| *known == name) {
            Some(known) => Ok(Value::Type(known)),
            None => Err(EvalError::new(format!("no such attribute(s): {name}"))),
        }
    }

    /// `operand.key` or `operand[key]`; once something is optional, all that hangs on it is.
    fn qualify(&self, operand: Value, key: &Value, optional: bool) -> Evaluated {
        if !is_key(key) {
            return Err(EvalError::new(format!("invalid qualifier type: {}", go_type(key))));
        }
        let (inner, optional) = match &operand {
            Value::Optional(None) => return Ok(operand),
            Value::Optional(Some(inner)) => (&**inner, true),
            other => (other, optional),
        };
        match (find(inner, key)?, optional) {
            (Some(value), true) => Ok(Value::some(value)),
            (None, true) => Ok(Value::Optional(None)),
            (Some(value), false) => Ok(value),
            (None, false) => {
                let what = if matches!(inner, Value::List(_)) { "index out of bounds" } else { "no such key" };
                Err(EvalError::new(format!("{what}: {}", functions::display(key))))
            }
        }
    }

    /// A chain that ends at the first `decisive` term; errors count only when none is.
    fn logical(&mut self, terms: &'a [Expr], decisive: bool) -> Evaluated {
        let mut first_error = None;
        for term in terms {
            let error = match self.eval(term) {
                Ok(Value::Bool(value)) if value == decisive => return Ok(Value::Bool(decisive)),
                Ok(Value::Bool(_)) => continue,
                Ok(_) => EvalError::no_such_overload(),
                Err(error) if error.fatal => return Err(error),
                Err(error) => error,
            };
            first_error.get_or_insert(error);
        }
        first_error.map_or(Ok(Value::Bool(!decisive)), Err)
    }

    fn list(&mut self, elements: &'a [Element]) -> Evaluated {
        self.charge(if elements.iter().all(|element| is_literal(&element.value)) { 0 } else { 10 })?;
        let mut values = Vec::with_capacity(elements.len());
        for element in elements {
            let value = self.eval(&element.value)?;
            if element.optional {
                values.extend(self.unwrap_element(value, "list")?);
            } else {
                values.push(value);
            }
        }
        Ok(Value::list(values))
    }

    fn map(&mut self, entries: &'a [Entry]) -> Evaluated {
        let literal = |entry: &Entry| is_literal(&entry.key) && is_literal(&entry.value);
        self.charge(if entries.iter().all(literal) { 0 } else { 30 })?;
        let mut map = Map::default();
        for entry in entries {
            let key = self.eval(&entry.key)?;
            let value = self.eval(&entry.value)?;
            let value = if entry.optional {
                match self.unwrap_element(value, "map")? {
                    Some(value) => value,
                    None => continue,
                }
            } else {
                value
            };
            let name = key.type_name();
            if !map.insert(key, value) {
                return Err(EvalError::new(format!("unsupported key type: {name}")));
            }
        }
        Ok(Value::Map(Arc::new(map)))
    }

    fn unwrap_element(&self, value: Value, within: &str) -> Result<Option<Value>, EvalError> {
        match value {
            Value::Optional(inner) => Ok(inner.map(|inner| (*inner).clone())),
            other => {
                let name = other.type_name();
                Err(EvalError::new(format!(
                    "cannot initialize optional {within} element from non-optional value {name}"
                )))
            }
        }
    }

    fn with_locals(&mut self, vars: &'a [String], values: [Value; 2], body: &'a Expr) -> Evaluated {
        let outer = self.locals.len();
        self.locals.extend(vars.iter().map(String::as_str).zip(values.map(Ok)));
        let result = self.eval(body);
        self.locals.truncate(outer);
        result
    }

    fn expand(&mut self, op: Macro, range: &'a Expr, vars: &'a [String], args: &'a [Expr]) -> Evaluated {
        let (Some(first), Some(last)) = (args.first(), args.last()) else {
            return Err(EvalError::no_such_overload());
        };
        if op == Macro::Bind {
            // A value that is an error only matters where the variable is used.
            let value = match self.eval(range) {
                Err(error) if error.fatal => return Err(error),
                value => value,
            };
            let outer = self.locals.len();
            self.locals.extend(vars.first().map(|name| (name.as_str(), value)));
            let result = self.eval(last);
            self.locals.truncate(outer);
            return result;
        }
        let range = self.eval(range)?;
        if matches!(op, Macro::OptMap | Macro::OptFlatMap) {
            return match range {
                Value::Optional(None) => Ok(range),
                Value::Optional(Some(inner)) => {
                    let result = self.with_locals(vars, [(*inner).clone(), Value::Null], last)?;
                    Ok(if op == Macro::OptMap { Value::some(result) } else { result })
                }
                other => Err(EvalError::new(format!("no such overload: hasValue({})", other.type_name()))),
            };
        }
        let items = items(&range, vars.len())?;
        let condition = (args.len() > 1).then_some(first);
        match op {
            Macro::All | Macro::Exists => self.quantify(op == Macro::Exists, items, vars, last),
            Macro::ExistsOne => {
                let kept = self.filter(items, vars, Some(last))?;
                Ok(Value::Bool(kept.len() == 1))
            }
            Macro::Filter => {
                let kept = self.filter(items, vars, Some(last))?;
                Ok(Value::list(kept.into_iter().map(|[item, _]| item).collect()))
            }
            Macro::Map | Macro::TransformList => {
                let kept = self.filter(items, vars, condition)?;
                let mut results = Vec::with_capacity(kept.len());
                for item in kept {
                    self.charge(11)?;
                    results.push(self.with_locals(vars, item, last)?);
                }
                Ok(Value::list(results))
            }
            Macro::TransformMap | Macro::TransformMapEntry => {
                let kept = self.filter(items, vars, condition)?;
                self.transform_map(op, kept, vars, last)
            }
            Macro::SortBy => self.sort_by(items, vars, last),
            Macro::Bind | Macro::OptMap | Macro::OptFlatMap => Err(EvalError::no_such_overload()),
        }
    }

    fn quantify(&mut self, decisive: bool, items: Vec<[Value; 2]>, vars: &'a [String], body: &'a Expr) -> Evaluated {
        let mut first_error = None;
        for item in items {
            self.charge(2)?;
            let error = match self.with_locals(vars, item, body) {
                Ok(Value::Bool(value)) if value == decisive => return Ok(Value::Bool(decisive)),
                Ok(Value::Bool(_)) => continue,
                Ok(_) => EvalError::no_such_overload(),
                Err(error) if error.fatal => return Err(error),
                Err(error) => error,
            };
            first_error.get_or_insert(error);
        }
        first_error.map_or(Ok(Value::Bool(!decisive)), Err)
    }

    /// The items for which the condition holds. Of several errors the last counts: each one replaces the result so far.
    fn filter(
        &mut self,
        items: Vec<[Value; 2]>,
        vars: &'a [String],
        condition: Option<&'a Expr>,
    ) -> Result<Vec<[Value; 2]>, EvalError> {
        let Some(condition) = condition else {
            return Ok(items);
        };
        let mut kept = Vec::new();
        let mut last_error = None;
        for item in items {
            self.charge(2)?;
            match self.with_locals(vars, item.clone(), condition) {
                Ok(Value::Bool(true)) => kept.push(item),
                Ok(Value::Bool(false)) => {}
                Ok(_) => last_error = Some(EvalError::no_such_overload()),
                Err(error) if error.fatal => return Err(error),
                Err(error) => last_error = Some(error),
            }
        }
        last_error.map_or(Ok(kept), Err)
    }

    fn transform_map(&mut self, op: Macro, items: Vec<[Value; 2]>, vars: &'a [String], body: &'a Expr) -> Evaluated {
        let mut map = Map::default();
        for item in items {
            self.charge(2)?;
            let key = item[0].clone();
            let result = self.with_locals(vars, item, body)?;
            let entries = match (op, result) {
                (Macro::TransformMap, value) => vec![(key, value)],
                (_, Value::Map(entries)) => entries.iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
                _ => return Err(EvalError::no_such_overload()),
            };
            for (key, value) in entries {
                if map.contains(&key) {
                    return Err(EvalError::new(format!(
                        "insert failed: key {} already exists",
                        functions::display(&key)
                    )));
                }
                map.insert(key, value);
            }
        }
        Ok(Value::Map(Arc::new(map)))
    }

    fn sort_by(&mut self, items: Vec<[Value; 2]>, vars: &'a [String], body: &'a Expr) -> Evaluated {
        let mut keyed = Vec::with_capacity(items.len());
        for item in items {
            self.charge(11)?;
            let value = item[0].clone();
            keyed.push((self.with_locals(vars, item, body)?, value));
        }
        self.charge((keyed.len() * keyed.len()) as u64)?;
        if let Some((first, _)) = keyed.first() {
            let name = first.type_name();
            if keyed.iter().any(|(key, _)| key.type_name() != name || key.compare(first).is_err()) {
                return Err(EvalError::new("list elements must have the same type"));
            }
        }
        keyed.sort_by(|(a, _), (b, _)| a.compare(b).unwrap_or(Ordering::Equal));
        Ok(Value::list(keyed.into_iter().map(|(_, value)| value).collect()))
    }
}

/// Looks the key up: nothing if it is not there, an error if it cannot be a key of this value.
fn find(operand: &Value, key: &Value) -> Result<Option<Value>, EvalError> {
    match operand {
        Value::Map(map) => Ok(map.find(key)),
        Value::List(list) => {
            let index = functions::list_index(key)?;
            Ok(usize::try_from(index).ok().and_then(|index| list.get(index)).cloned())
        }
        _ => Ok(None),
    }
}

/// What a comprehension goes through: values, or with two variables keys and values.
fn items(range: &Value, vars: usize) -> Result<Vec<[Value; 2]>, EvalError> {
    match range {
        Value::List(list) if vars == 2 => {
            Ok(list.iter().enumerate().map(|(i, value)| [Value::Int(i as i64), value.clone()]).collect())
        }
        Value::List(list) => Ok(list.iter().map(|value| [value.clone(), Value::Null]).collect()),
        Value::Map(map) => Ok(map.iter().map(|(key, value)| [key.clone(), value.clone()]).collect()),
        other => {
            let name = go_type(other);
            let message = if vars == 2 {
                format!("unsupported comprehension range type: {name}")
            } else {
                format!("got '{name}', expected iterable type")
            };
            Err(EvalError::new(message))
        }
    }
}

/// The name of the type the value has inside Kubernetes, which some of its errors show.
pub fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "types.Null",
        Value::Bool(_) => "types.Bool",
        Value::Int(_) => "types.Int",
        Value::UInt(_) => "types.Uint",
        Value::Double(_) => "types.Double",
        Value::String(_) => "types.String",
        Value::Bytes(_) => "types.Bytes",
        Value::List(_) => "*types.baseList",
        Value::Map(_) => "*types.baseMap",
        Value::Semver(_) => "cel.Semver",
        Value::Quantity(_) => "cel.Quantity",
        Value::ComputedQuantity(_) => "*cel.Quantity",
        Value::Optional(_) => "*types.Optional",
        Value::Type(_) => "*types.Type",
    }
}

/// Whether the value can select an element.
pub fn is_key(value: &Value) -> bool {
    matches!(value, Value::Bool(_) | Value::Int(_) | Value::UInt(_) | Value::Double(_) | Value::String(_))
}

/// Whether the value is written out in the expression.
pub fn is_literal(expr: &Expr) -> bool {
    match &expr.kind {
        Kind::Literal(_) => true,
        Kind::List(elements) => elements.iter().all(|element| !element.optional && is_literal(&element.value)),
        _ => false,
    }
}
