//! The operators and functions of the selector language; texts and lists have files of their own.

use std::cmp::Ordering;
use std::sync::Arc;

use super::eval::{EvalError, Evaluated, Evaluation};
use super::semver::{Semver, go_quote};
use super::value::{Equality, Value};
use super::{lists, strings};
use crate::quantity::{Quantity, QuantityError};

/// Calls a function or operator; the receiver of a member call is the first argument.
pub fn call(evaluation: &mut Evaluation<'_>, function: &str, member: bool, args: &[Value]) -> Evaluated {
    use Value::{Bool, ComputedQuantity, Int};
    match (function, args) {
        ("_==_", [a, b]) => match a.equals(b) {
            Equality::Undefined => Err(EvalError::no_such_overload()),
            outcome => Ok(Bool(outcome == Equality::Equal)),
        },
        ("_!=_", [a, b]) => Ok(Bool(a.equals(b) != Equality::Equal)),
        ("_<_", [a, b]) => ordered(function, a, b, Ordering::is_lt),
        ("_<=_", [a, b]) => ordered(function, a, b, Ordering::is_le),
        ("_>_", [a, b]) => ordered(function, a, b, Ordering::is_gt),
        ("_>=_", [a, b]) => ordered(function, a, b, Ordering::is_ge),
        ("_+_" | "_-_" | "_*_" | "_/_" | "_%_", [a, b]) => arithmetic(evaluation, function, a, b),
        ("-_", [a]) => match a {
            Int(value) => value.checked_neg().map(Int).ok_or(EvalError::new("integer overflow")),
            Value::Double(value) => Ok(Value::Double(-value)),
            Bool(_) => Err(EvalError::no_such_overload()),
            other => Err(unsupported(function, other)),
        },
        ("!_", [Bool(value)]) => Ok(Bool(!value)),
        ("!_", [_]) => Err(EvalError::no_such_overload()),
        ("@in", [item, Value::List(list)]) => {
            evaluation.charge(list.len() as u64)?;
            Ok(Bool(list.iter().any(|element| item.equals(element) == Equality::Equal)))
        }
        ("@in", [key, Value::Map(map)]) => Ok(Bool(map.contains(key))),
        ("@in", _) => Err(EvalError::no_such_overload()),
        ("type", [value]) => Ok(Value::Type(value.type_name())),
        ("dyn", [value]) => Ok(value.clone()),
        ("bool" | "bytes" | "double" | "int" | "uint" | "string", [value]) if !member => convert(function, value),
        ("quantity" | "isQuantity" | "semver" | "isSemver", _) => parse(function, args),
        ("sign", [value]) => quantity(value).map(|q| Int(q.sign().into())).ok_or_else(|| mismatch(function, args)),
        ("isGreaterThan" | "isLessThan" | "compareTo", [a, b]) => {
            let order = match (a, b) {
                (Value::Semver(a), Value::Semver(b)) => Some(a.precedence(b)),
                _ => quantity(a).zip(quantity(b)).map(|(a, b)| a.cmp(b)),
            };
            let order = order.ok_or_else(|| mismatch(function, args))?;
            Ok(match function {
                "isGreaterThan" => Bool(order.is_gt()),
                "isLessThan" => Bool(order.is_lt()),
                _ => Int(order as i64),
            })
        }
        ("asApproximateFloat" | "asInteger" | "isInteger", [value]) => {
            let quantity = quantity(value).ok_or_else(|| mismatch(function, args))?;
            match function {
                "asApproximateFloat" => Ok(Value::Double(quantity.approximate_f64())),
                "isInteger" => Ok(Bool(quantity.as_i64().is_some())),
                _ => quantity.as_i64().map(Int).ok_or(EvalError::new("cannot convert value to integer")),
            }
        }
        ("add" | "sub", [a, b]) => {
            let operand = match b {
                Int(value) => Some(Quantity::from(*value)),
                other => quantity(other).cloned(),
            };
            let (a, b) = quantity(a).zip(operand).ok_or_else(|| mismatch(function, args))?;
            Ok(ComputedQuantity(Arc::new(if function == "add" { a.add(&b) } else { a.sub(&b) })))
        }
        ("major", [Value::Semver(v)]) => Ok(Int(v.major as i64)),
        ("minor", [Value::Semver(v)]) => Ok(Int(v.minor as i64)),
        ("patch", [Value::Semver(v)]) => Ok(Int(v.patch as i64)),
        ("optional.of", [value]) => Ok(Value::some(value.clone())),
        ("optional.ofNonZeroValue", [value]) if value.is_zero() => Ok(Value::Optional(None)),
        ("optional.ofNonZeroValue", [value]) => Ok(Value::some(value.clone())),
        ("optional.none", []) => Ok(Value::Optional(None)),
        ("hasValue", [Value::Optional(value)]) => Ok(Bool(value.is_some())),
        ("value", [Value::Optional(value)]) => match value {
            Some(value) => Ok((**value).clone()),
            None => Err(EvalError::new("optional.none() dereference")),
        },
        ("includes", [target, item]) => {
            let found = match target {
                Value::List(list) => list.iter().any(|element| element.equals(item) == Equality::Equal),
                other => other.equals(item) == Equality::Equal,
            };
            Ok(Bool(found))
        }
        ("size", [value]) => match value {
            Value::String(text) => Ok(Int(text.chars().count() as i64)),
            Value::Bytes(bytes) => Ok(Int(bytes.len() as i64)),
            Value::List(list) => Ok(Int(list.len() as i64)),
            Value::Map(map) => Ok(Int(map.len() as i64)),
            _ => Err(EvalError::new("no such overload: size")),
        },
        (_, [Value::String(_), ..]) => strings::call(evaluation, function, args),
        ("contains" | "startsWith" | "endsWith", _) => Err(EvalError::no_such_overload()),
        ("matches", [_, Value::String(text)]) if evaluation.pattern(text).is_some() => {
            Err(EvalError::no_such_overload())
        }
        ("matches", _) => Err(EvalError::new("no such overload: matches")),
        ("sort", [value]) if !matches!(value, Value::List(_)) => Err(EvalError::new("no such overload: sort")),
        _ => lists::call(evaluation, function, args),
    }
}

/// The error of a function that has no overload for these arguments.
pub fn mismatch(function: &str, args: &[Value]) -> EvalError {
    let types: Vec<_> = args.iter().map(Value::type_name).collect();
    EvalError::new(format!("no such overload: {function}({})", types.join(", ")))
}

/// The error of an operator whose first operand does not know it.
fn unsupported(function: &str, operand: &Value) -> EvalError {
    match operand {
        Value::String(_) => EvalError::no_such_overload(),
        _ => EvalError::new(format!("no such overload: {function}")),
    }
}

fn quantity(value: &Value) -> Option<&Quantity> {
    match value {
        Value::Quantity(quantity) | Value::ComputedQuantity(quantity) => Some(quantity),
        _ => None,
    }
}

fn ordered(function: &str, a: &Value, b: &Value, holds: fn(Ordering) -> bool) -> Evaluated {
    use Value::{Bool, Bytes, Double, Int, String, UInt};
    if !matches!(a, Bool(_) | Int(_) | UInt(_) | Double(_) | String(_) | Bytes(_)) {
        return Err(unsupported(function, a));
    }
    a.compare(b).map(|order| Bool(holds(order))).map_err(EvalError::new)
}

fn arithmetic(evaluation: &mut Evaluation<'_>, function: &str, a: &Value, b: &Value) -> Evaluated {
    use Value::{Bytes, Double, Int, List, String, UInt};
    const OVERFLOW: EvalError = EvalError::constant("integer overflow");
    const UNSIGNED_OVERFLOW: EvalError = EvalError::constant("unsigned integer overflow");
    const BY_ZERO: EvalError = EvalError::constant("division by zero");
    const MODULO_ZERO: EvalError = EvalError::constant("modulus by zero");
    match (function, a, b) {
        ("_+_", Int(a), Int(b)) => a.checked_add(*b).map(Int).ok_or(OVERFLOW),
        ("_-_", Int(a), Int(b)) => a.checked_sub(*b).map(Int).ok_or(OVERFLOW),
        ("_*_", Int(a), Int(b)) => a.checked_mul(*b).map(Int).ok_or(OVERFLOW),
        ("_/_", Int(_), Int(0)) | ("_/_", UInt(_), UInt(0)) => Err(BY_ZERO),
        ("_%_", Int(_), Int(0)) | ("_%_", UInt(_), UInt(0)) => Err(MODULO_ZERO),
        ("_/_", Int(a), Int(b)) => a.checked_div(*b).map(Int).ok_or(OVERFLOW),
        ("_%_", Int(a), Int(b)) => a.checked_rem(*b).map(Int).ok_or(OVERFLOW),
        ("_+_", UInt(a), UInt(b)) => a.checked_add(*b).map(UInt).ok_or(UNSIGNED_OVERFLOW),
        ("_-_", UInt(a), UInt(b)) => a.checked_sub(*b).map(UInt).ok_or(UNSIGNED_OVERFLOW),
        ("_*_", UInt(a), UInt(b)) => a.checked_mul(*b).map(UInt).ok_or(UNSIGNED_OVERFLOW),
        ("_/_", UInt(a), UInt(b)) => a.checked_div(*b).map(UInt).ok_or(BY_ZERO),
        ("_%_", UInt(a), UInt(b)) => a.checked_rem(*b).map(UInt).ok_or(MODULO_ZERO),
        ("_+_", Double(a), Double(b)) => Ok(Double(a + b)),
        ("_-_", Double(a), Double(b)) => Ok(Double(a - b)),
        ("_*_", Double(a), Double(b)) => Ok(Double(a * b)),
        ("_/_", Double(a), Double(b)) => Ok(Double(a / b)),
        ("_+_", String(a), String(b)) => {
            evaluation.charge((a.len() + b.len()) as u64 / 10)?;
            Ok(String([a.as_ref(), b.as_ref()].concat().into()))
        }
        ("_+_", Bytes(a), Bytes(b)) => {
            evaluation.charge((a.len() + b.len()) as u64 / 10)?;
            Ok(Bytes([a.as_ref(), b.as_ref()].concat().into()))
        }
        ("_+_", List(a), List(b)) => {
            evaluation.charge((a.len() + b.len()) as u64)?;
            Ok(Value::list(a.iter().chain(b.iter()).cloned().collect()))
        }
        ("_+_", Int(_) | UInt(_) | Double(_) | String(_) | Bytes(_) | List(_), _)
        | ("_-_" | "_*_" | "_/_", Int(_) | UInt(_) | Double(_), _)
        | ("_%_", Int(_) | UInt(_), _) => Err(EvalError::no_such_overload()),
        _ => Err(unsupported(function, a)),
    }
}

fn parse(function: &str, args: &[Value]) -> Evaluated {
    let (text, tolerant) = match args {
        [Value::String(text)] => (text, false),
        [Value::String(text), Value::Bool(tolerant)] => (text, *tolerant),
        _ => return Err(mismatch(function, args)),
    };
    let version = || if tolerant { Semver::parse_tolerant(text) } else { Semver::parse(text) };
    match function {
        "quantity" => match Quantity::parse(text) {
            Ok(quantity) => Ok(Value::Quantity(Arc::new(quantity))),
            Err(QuantityError { problem, .. }) => Err(EvalError::new(problem.to_string())),
        },
        "isQuantity" => Ok(Value::Bool(Quantity::parse(text).is_ok())),
        "semver" => version().map(|version| Value::Semver(Arc::new(version))).map_err(EvalError::new),
        _ => Ok(Value::Bool(version().is_ok())),
    }
}

/// Converts to the type the function is named after.
pub fn convert(function: &str, value: &Value) -> Evaluated {
    use Value::{Bool, Bytes, Double, Int, String, UInt};
    const OVERFLOW: EvalError = EvalError::constant("integer overflow");
    const UNSIGNED_OVERFLOW: EvalError = EvalError::constant("unsigned integer overflow");
    let unreadable = || EvalError::new(format!("type conversion error from 'string' to '{function}'"));
    match (function, value) {
        ("bool", Bool(_)) | ("int", Int(_)) | ("uint", UInt(_)) | ("double", Double(_)) | ("string", String(_)) => {
            Ok(value.clone())
        }
        ("bytes", Bytes(_)) => Ok(value.clone()),
        ("bool", String(text)) => match text.as_ref() {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Bool(false)),
            _ => Err(unreadable()),
        },
        ("bytes", String(text)) => Ok(Bytes(text.as_bytes().into())),
        ("int", UInt(u)) => i64::try_from(*u).map(Int).map_err(|_| OVERFLOW),
        // The bounds themselves are out of range, because a double cannot tell them from their neighbours.
        ("int", Double(d)) if *d > i64::MIN as f64 && *d < i64::MAX as f64 => Ok(Int(*d as i64)),
        ("int", Double(_)) => Err(OVERFLOW),
        ("int", String(text)) => text.parse().map(Int).map_err(|_| unreadable()),
        ("uint", Int(i)) => u64::try_from(*i).map(UInt).map_err(|_| UNSIGNED_OVERFLOW),
        ("uint", Double(d)) if *d >= 0.0 && *d < u64::MAX as f64 => Ok(UInt(*d as u64)),
        ("uint", Double(_)) => Err(UNSIGNED_OVERFLOW),
        ("uint", String(text)) if !text.starts_with('+') => text.parse().map(UInt).map_err(|_| unreadable()),
        ("uint", String(_)) => Err(unreadable()),
        ("double", Int(i)) => Ok(Double(*i as f64)),
        ("double", UInt(u)) => Ok(Double(*u as f64)),
        ("double", String(text)) => text.parse().map(Double).map_err(|_| unreadable()),
        ("string", Bool(_) | Int(_) | UInt(_) | Double(_)) => Ok(display(value).as_str().into()),
        ("string", Bytes(bytes)) => std::str::from_utf8(bytes)
            .map(Value::from)
            .map_err(|_| EvalError::new("invalid UTF-8 in bytes, cannot convert to string")),
        _ => Err(mismatch(function, std::slice::from_ref(value))),
    }
}

/// The index a value stands for in a list.
pub fn list_index(value: &Value) -> Result<i64, EvalError> {
    match value {
        Value::Int(i) => Ok(*i),
        Value::UInt(u) if i64::try_from(*u).is_ok() => Ok(*u as i64),
        Value::Double(d) if d.fract() == 0.0 && d.abs() < i64::MAX as f64 => Ok(*d as i64),
        Value::UInt(_) | Value::Double(_) => {
            Err(EvalError::new(format!("unsupported index value {} in list", display(value))))
        }
        other => Err(EvalError::new(format!("unsupported index type '{}' in list", other.type_name()))),
    }
}

/// A simple value as text.
pub fn display(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Int(i) => i.to_string(),
        Value::UInt(u) => u.to_string(),
        Value::Double(d) => display_double(*d),
        Value::String(s) => s.to_string(),
        Value::Type(name) => (*name).to_owned(),
        other => go_quote(other.type_name()),
    }
}

/// A double as Go writes it: the shortest digits, with an exponent from a million on and below a ten-thousandth.
fn display_double(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        return value.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}
