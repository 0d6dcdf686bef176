//! Strict, typed reading of a document. Every field asked for is known, every other field is an error; a
//! value of the wrong type is reported and read as if it were absent, so that one mistake hides no other.
//!
//! As in Kubernetes, `null` is the same as an absent field, except for durations that have no "unset" state.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::document::{Entry, Node, Value};
use super::error::{Path, Problems, not_one_of};

/// The fields of one object.
pub(super) struct Object<'a> {
    entries: &'a [Entry],
    path: Path,
    problems: &'a Problems,
    known: Vec<&'static str>,
}

/// Reads an object with `read`, then reports the fields `read` did not ask for and those that came twice.
pub(super) fn object<'a, T>(
    node: &'a Node,
    path: Path,
    problems: &'a Problems,
    read: impl FnOnce(&mut Object<'a>) -> T,
) -> T {
    let entries: &[Entry] = match &node.value {
        Value::Object(entries) => entries,
        Value::Null => &[],
        other => {
            problems.add(path.clone(), format!("expected a mapping, found {}", other.describe()));
            &[]
        }
    };
    let mut object = Object { entries, path, problems, known: Vec::new() };
    let value = read(&mut object);
    object.finish();
    value
}

impl<'a> Object<'a> {
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn problems(&self) -> &'a Problems {
        self.problems
    }

    /// Whether the field is there with a value.
    pub fn has(&mut self, name: &'static str) -> bool {
        self.get(name).is_some()
    }

    pub fn string(&mut self, name: &'static str) -> Option<String> {
        self.typed(name, "a string", |value| match value {
            Value::String(text) => Some(text.clone()),
            _ => None,
        })
    }

    pub fn boolean(&mut self, name: &'static str) -> Option<bool> {
        self.typed(name, "true or false", |value| match value {
            Value::Bool(value) => Some(*value),
            _ => None,
        })
    }

    pub fn int32(&mut self, name: &'static str) -> Option<i32> {
        let value = self.integer(name)?;
        let checked = i32::try_from(value).ok();
        if checked.is_none() {
            self.report(name, format!("{value} does not fit into 32 bits ({} to {})", i32::MIN, i32::MAX));
        }
        checked
    }

    pub fn int64(&mut self, name: &'static str) -> Option<i64> {
        let value = self.integer(name)?;
        let checked = i64::try_from(value).ok();
        if checked.is_none() {
            self.report(name, format!("{value} does not fit into 64 bits ({} to {})", i64::MIN, i64::MAX));
        }
        checked
    }

    fn integer(&mut self, name: &'static str) -> Option<i128> {
        self.typed(name, "an integer", |value| match value {
            Value::Integer(value) => Some(*value),
            _ => None,
        })
    }

    pub fn float32(&mut self, name: &'static str) -> Option<f32> {
        self.typed(name, "a number", |value| match value {
            Value::Integer(value) => Some(*value as f32),
            Value::Float(value) => Some(*value as f32).filter(|value| value.is_finite()),
            _ => None,
        })
    }

    /// A duration as Go writes them, in nanoseconds. `null` is an error, as it is for kube-scheduler.
    pub fn duration(&mut self, name: &'static str) -> Option<i64> {
        if self.find(name).is_some_and(|node| node.value == Value::Null) {
            self.report(name, EXPECTED_DURATION.replace("{}", "null"));
            return None;
        }
        self.optional_duration(name)
    }

    /// A duration that may be `null`.
    pub fn optional_duration(&mut self, name: &'static str) -> Option<i64> {
        let node = self.get(name)?;
        let parsed = match &node.value {
            Value::String(text) => parse_duration(text),
            _ => None,
        };
        if parsed.is_none() {
            self.report(name, EXPECTED_DURATION.replace("{}", &node.value.describe()));
        }
        parsed
    }

    pub fn bytes(&mut self, name: &'static str) -> Option<Vec<u8>> {
        let text = self.string(name)?;
        // Go ignores line breaks in base64, and people wrap long values.
        let joined: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
        let decoded = STANDARD.decode(joined).ok();
        if decoded.is_none() {
            self.report(name, "expected base64 with padding".to_owned());
        }
        decoded
    }

    /// A list of strings, in which `null` is the empty string.
    pub fn strings(&mut self, name: &'static str) -> Vec<String> {
        let items = self.list(name);
        let path = self.path.field(name);
        let read = |(index, node): (usize, &Node)| match &node.value {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => {
                let message = format!("expected a string, found {}", other.describe());
                self.problems.add(path.index(index), message);
                String::new()
            }
        };
        items.iter().enumerate().map(read).collect()
    }

    pub fn objects<T>(&mut self, name: &'static str, mut read: impl FnMut(&mut Object<'a>) -> T) -> Vec<T> {
        let items = self.list(name);
        let path = self.path.field(name);
        items
            .iter()
            .enumerate()
            .map(|(index, node)| object(node, path.index(index), self.problems, &mut read))
            .collect()
    }

    pub fn object<T>(&mut self, name: &'static str, read: impl FnOnce(&mut Object<'a>) -> T) -> Option<T> {
        let node = self.get(name)?;
        Some(object(node, self.path.field(name), self.problems, read))
    }

    /// Like [`Object::object`], with an absent object read as an empty one.
    pub fn object_or_empty<T>(&mut self, name: &'static str, read: impl FnOnce(&mut Object<'a>) -> T) -> T {
        let node = self.get(name).unwrap_or(&Node::NULL);
        object(node, self.path.field(name), self.problems, read)
    }

    pub fn node(&mut self, name: &'static str) -> Option<&'a Node> {
        self.get(name)
    }

    pub fn report(&self, name: &str, message: impl Into<String>) {
        self.problems.add(self.path.field(name), message);
    }

    fn list(&mut self, name: &'static str) -> &'a [Node] {
        match self.get(name).map(|node| &node.value) {
            None => &[],
            Some(Value::List(items)) => items,
            Some(other) => {
                self.report(name, format!("expected a list, found {}", other.describe()));
                &[]
            }
        }
    }

    fn typed<T>(&mut self, name: &'static str, expected: &str, read: impl FnOnce(&Value) -> Option<T>) -> Option<T> {
        let node = self.get(name)?;
        let value = read(&node.value);
        if value.is_none() {
            self.report(name, format!("expected {expected}, found {}", node.value.describe()));
        }
        value
    }

    fn get(&mut self, name: &'static str) -> Option<&'a Node> {
        self.find(name).filter(|node| node.value != Value::Null)
    }

    fn find(&mut self, name: &'static str) -> Option<&'a Node> {
        if !self.known.contains(&name) {
            self.known.push(name);
        }
        self.entries.iter().find(|entry| entry.key == name).map(|entry| &entry.node)
    }

    fn finish(mut self) {
        self.known.sort_unstable();
        for (index, Entry { key, .. }) in self.entries.iter().enumerate() {
            let earlier = self.entries.iter().take(index);
            if earlier.clone().any(|earlier| earlier.key == *key) {
                // Three of a kind are one mistake.
                if earlier.filter(|earlier| earlier.key == *key).count() == 1 {
                    self.report(key, "the field is set more than once");
                }
            } else if !self.known.contains(&key.as_str()) {
                self.report(key, not_one_of("field", key, &self.known));
            }
        }
    }
}

const EXPECTED_DURATION: &str = "expected a duration such as \"15s\" or \"1m30s\", found {}";

/// Reads a duration as Go's `time.ParseDuration` does, in nanoseconds.
fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix(['+', '-']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (whole, after) = take_digits(rest);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => take_digits(after),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let unit_end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let scale: u64 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        total = total.checked_add(whole.checked_mul(scale)?)?;
        // What the fraction adds is cut, never rounded, to whole nanoseconds; digits beyond that are void.
        let digits: String = fraction.chars().take(18).collect();
        if !digits.is_empty() {
            let numerator = u128::from(digits.parse::<u64>().ok()?) * u128::from(scale);
            let added = numerator / 10u128.pow(digits.len() as u32);
            total = total.checked_add(u64::try_from(added).ok()?)?;
        }
        rest = after;
    }
    if negative { 0i64.checked_sub_unsigned(total) } else { i64::try_from(total).ok() }
}

fn take_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_go() {
        for (text, expected) in [
            ("15s", Some(15_000_000_000)),
            ("1m30s", Some(90_000_000_000)),
            ("1.5h", Some(5_400_000_000_000)),
            ("-1s", Some(-1_000_000_000)),
            ("+5ms", Some(5_000_000)),
            (".5s", Some(500_000_000)),
            ("1.s", Some(1_000_000_000)),
            ("2us3ns", Some(2_003)),
            ("7µs", Some(7_000)),
            ("0", Some(0)),
            ("-0", Some(0)),
            ("9223372036854775807ns", Some(i64::MAX)),
            ("9223372036854775808ns", None),
            ("-9223372036854775808ns", Some(i64::MIN)),
            ("3000000h", None),
            ("", None),
            ("-", None),
            (".s", None),
            ("15", None),
            ("s", None),
            ("1d", None),
            ("1 s", None),
            ("one", None),
        ] {
            assert_eq!(parse_duration(text), expected, "{text:?}");
        }
    }
}
