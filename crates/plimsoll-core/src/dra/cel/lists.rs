//! Functions on lists.

use std::cmp::Ordering;

use super::eval::{EvalError, Evaluated, Evaluation};
use super::functions::mismatch;
use super::value::{Equality, Value};

/// Calls a function whose first argument is a list.
pub fn call(evaluation: &mut Evaluation<'_>, function: &str, args: &[Value]) -> Evaluated {
    use Value::{Bool, Int, List, String};
    if let ("lists.range", [Int(count)]) = (function, args) {
        let count = u64::try_from(*count).unwrap_or(0);
        evaluation.charge(count.saturating_add(10))?;
        return Ok(Value::list((0..count as i64).map(Int).collect()));
    }
    let Some(List(list)) = args.first() else {
        return Err(mismatch(function, args));
    };
    evaluation.charge(list.len() as u64)?;
    match (function, args.get(1..).unwrap_or_default()) {
        ("join", []) => join(evaluation, list, "").ok_or_else(|| mismatch(function, args))?,
        ("join", [String(separator)]) => join(evaluation, list, separator).ok_or_else(|| mismatch(function, args))?,
        ("indexOf", [item]) => {
            let found = list.iter().position(|element| element.equals(item) == Equality::Equal);
            Ok(Int(found.map_or(-1, |at| at as i64)))
        }
        ("lastIndexOf", [item]) => {
            let found = list.iter().rposition(|element| element.equals(item) == Equality::Equal);
            Ok(Int(found.map_or(-1, |at| at as i64)))
        }
        ("sum", []) => sum(list).ok_or_else(|| mismatch(function, args))?,
        ("min", []) => extreme(function, list, Ordering::Less),
        ("max", []) => extreme(function, list, Ordering::Greater),
        ("isSorted", []) => Ok(Bool(list.is_sorted_by(|a, b| a.compare(b) != Ok(Ordering::Greater)))),
        ("sort", []) => sort(evaluation, list),
        ("slice", [Int(start), Int(end)]) => slice(list, *start, *end),
        ("flatten", []) => Ok(Value::list(flatten(list, 1))),
        ("flatten", [Int(depth)]) if *depth < 0 => Err(EvalError::new("level must be non-negative")),
        ("flatten", [Int(depth)]) => Ok(Value::list(flatten(list, *depth))),
        ("reverse", []) => Ok(Value::list(list.iter().rev().cloned().collect())),
        ("distinct", []) => {
            evaluation.charge((list.len() * list.len()) as u64)?;
            let mut seen: Vec<Value> = Vec::new();
            for item in list.iter() {
                if !seen.iter().any(|before| before.equals(item) == Equality::Equal) {
                    seen.push(item.clone());
                }
            }
            Ok(Value::list(seen))
        }
        ("first", []) => Ok(list.first().cloned().map_or(Value::Optional(None), Value::some)),
        ("last", []) => Ok(list.last().cloned().map_or(Value::Optional(None), Value::some)),
        ("optional.unwrap" | "unwrapOpt", []) => {
            let inner = |item: &Value| match item {
                Value::Optional(inner) => Ok(inner.as_ref().map(|inner| (**inner).clone())),
                _ => Err(mismatch(function, args)),
            };
            let values: Result<Vec<_>, _> = list.iter().map(inner).collect();
            Ok(Value::list(values?.into_iter().flatten().collect()))
        }
        ("sets.contains", [List(other)]) => {
            evaluation.charge((list.len() * other.len()) as u64)?;
            Ok(Bool(contains_all(list, other)))
        }
        ("sets.equivalent", [List(other)]) => {
            evaluation.charge((list.len() * other.len()) as u64 * 2)?;
            Ok(Bool(contains_all(list, other) && contains_all(other, list)))
        }
        ("sets.intersects", [List(other)]) => {
            evaluation.charge((list.len() * other.len()) as u64)?;
            Ok(Bool(other.iter().any(|item| contains_all(list, std::slice::from_ref(item)))))
        }
        _ => Err(mismatch(function, args)),
    }
}

fn contains_all(list: &[Value], items: &[Value]) -> bool {
    items.iter().all(|item| list.iter().any(|element| element.equals(item) == Equality::Equal))
}

/// Nothing if an element is no text.
fn join(evaluation: &mut Evaluation<'_>, list: &[Value], separator: &str) -> Option<Evaluated> {
    let mut texts = Vec::with_capacity(list.len());
    for item in list {
        let Value::String(text) = item else {
            return None;
        };
        texts.push(&**text);
    }
    let joined = texts.join(separator);
    Some(evaluation.charge(joined.len() as u64 / 10).map(|()| joined.as_str().into()))
}

/// Nothing if the elements cannot be summed.
fn sum(list: &[Value]) -> Option<Evaluated> {
    let overflow = || EvalError::new("integer overflow");
    let mut total = match list.first()? {
        Value::Int(_) => Value::Int(0),
        Value::UInt(_) => Value::UInt(0),
        Value::Double(_) => Value::Double(0.0),
        _ => return None,
    };
    for item in list {
        let next = match (&total, item) {
            (Value::Int(a), Value::Int(b)) => a.checked_add(*b).map(Value::Int).ok_or_else(overflow),
            (Value::UInt(a), Value::UInt(b)) => {
                a.checked_add(*b).map(Value::UInt).ok_or_else(|| EvalError::new("unsigned integer overflow"))
            }
            (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a + b)),
            _ => Err(EvalError::no_such_overload()),
        };
        total = match next {
            Ok(next) => next,
            Err(error) => return Some(Err(error)),
        };
    }
    Some(Ok(total))
}

fn extreme(function: &str, list: &[Value], wanted: Ordering) -> Evaluated {
    let mut items = list.iter();
    let mut best = items.next().ok_or_else(|| EvalError::new(format!("{function} called on empty list")))?;
    for item in items {
        if item.compare(best) == Ok(wanted) {
            best = item;
        }
    }
    Ok(best.clone())
}

fn sort(evaluation: &mut Evaluation<'_>, list: &[Value]) -> Evaluated {
    evaluation.charge((list.len() * list.len()) as u64)?;
    if let Some(first) = list.first() {
        if list.iter().any(|item| item.type_name() != first.type_name()) {
            return Err(EvalError::new("list elements must have the same type"));
        }
        if first.compare(first).is_err() {
            return Err(EvalError::new("list elements must be comparable"));
        }
    }
    let mut sorted = list.to_vec();
    sorted.sort_by(|a, b| a.compare(b).unwrap_or(Ordering::Equal));
    Ok(Value::list(sorted))
}

fn slice(list: &[Value], start: i64, end: i64) -> Evaluated {
    let problem = if start < 0 || end < 0 {
        "negative indexes not supported".to_owned()
    } else if start > end {
        "start index must be less than or equal to end index".to_owned()
    } else if end > list.len() as i64 {
        format!("list is length {}", list.len())
    } else {
        let kept = list.iter().take(end as usize).skip(start as usize).cloned().collect();
        return Ok(Value::list(kept));
    };
    Err(EvalError::new(format!("cannot slice({start}, {end}), {problem}")))
}

/// Lists inside lists, opened up `depth` times. Literals bound how deep lists nest, and so the recursion.
fn flatten(list: &[Value], depth: i64) -> Vec<Value> {
    let mut flat = Vec::new();
    for item in list {
        match item {
            Value::List(inner) if depth > 0 => flat.extend(flatten(inner, depth - 1)),
            other => flat.push(other.clone()),
        }
    }
    flat
}
