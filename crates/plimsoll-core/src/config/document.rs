//! The text of a configuration file as a tree that keeps what typed decoding would lose: duplicate keys,
//! their order, and where each value stands.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::error::{Path, Position, Step};
use super::yaml;

/// Deeper than any configuration, shallow enough that recursion over it is safe on every stack.
pub(super) const MAX_DEPTH: usize = 100;

/// A value and where it begins.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub value: Value,
    pub position: Option<Position>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    String(String),
    List(Vec<Node>),
    Object(Vec<Entry>),
}

/// A key of an object, as often as the text has it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub key: String,
    pub position: Option<Position>,
    pub node: Node,
}

/// Text that is neither YAML nor JSON.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SyntaxError {
    pub position: Option<Position>,
    pub message: String,
}

impl SyntaxError {
    fn json(error: &serde_json::Error) -> Self {
        let position = Position { line: error.line(), column: error.column() };
        let reason = error.to_string();
        let reason = reason.split(" at line ").next().unwrap_or(&reason);
        Self {
            position: (position.line > 0).then_some(position),
            message: format!("invalid JSON: {reason} (text that begins with '{{' is read as JSON, not YAML)"),
        }
    }
}

/// Every value of a text that may hold several, one YAML document or JSON value after the other; empty documents are
/// left out.
pub(super) fn parse_all(text: &str) -> Result<Vec<serde_json::Value>, SyntaxError> {
    let values = if text.trim_start().starts_with('{') {
        let values = serde_json::Deserializer::from_str(text).into_iter();
        values.collect::<Result<Vec<_>, _>>().map_err(|error| SyntaxError::json(&error))?
    } else {
        yaml::parse_all(text)?.into_iter().map(Node::into_json).collect::<Result<_, _>>()?
    };
    Ok(values.into_iter().filter(|value| !value.is_null()).collect())
}

impl Node {
    pub const NULL: Self = Self { value: Value::Null, position: None };

    /// Reads `text`. As in Kubernetes, what begins with `{` is JSON and everything else is YAML.
    pub fn parse(text: &str) -> Result<Self, SyntaxError> {
        if !text.trim_start().starts_with('{') {
            return yaml::parse(text);
        }
        serde_json::from_str(text).map_err(|error| SyntaxError::json(&error))
    }

    /// The value without positions; a key that comes twice in a mapping is an error.
    pub fn into_json(self) -> Result<serde_json::Value, SyntaxError> {
        Ok(match self.value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(value) => value.into(),
            Value::Integer(value) => match serde_json::Number::from_i128(value) {
                Some(number) => number.into(),
                None => (value as f64).into(),
            },
            Value::Float(value) => value.into(),
            Value::String(text) => text.into(),
            Value::List(items) => items.into_iter().map(Self::into_json).collect::<Result<Vec<_>, _>>()?.into(),
            Value::Object(entries) => {
                let mut fields = serde_json::Map::with_capacity(entries.len());
                for Entry { key, position, node } in entries {
                    if fields.contains_key(&key) {
                        return Err(SyntaxError { position, message: format!("the key {key:?} comes twice") });
                    }
                    fields.insert(key, node.into_json()?);
                }
                fields.into()
            }
        })
    }

    /// Takes over an already decoded value.
    pub fn from_json(value: serde_json::Value) -> Result<Self, SyntaxError> {
        Self::from_json_at(value, 0)
    }

    fn from_json_at(value: serde_json::Value, depth: usize) -> Result<Self, SyntaxError> {
        if depth > MAX_DEPTH {
            return Err(SyntaxError {
                position: None,
                message: format!("values are nested more than {MAX_DEPTH} deep"),
            });
        }
        let value = match value {
            serde_json::Value::Null => Value::Null,
            serde_json::Value::Bool(value) => Value::Bool(value),
            serde_json::Value::Number(number) => match number.as_i128() {
                Some(integer) => Value::Integer(integer),
                None => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
            serde_json::Value::String(text) => Value::String(text),
            serde_json::Value::Array(items) => Value::List(
                items.into_iter().map(|item| Self::from_json_at(item, depth + 1)).collect::<Result<_, _>>()?,
            ),
            serde_json::Value::Object(fields) => Value::Object(
                fields
                    .into_iter()
                    .map(|(key, value)| Ok(Entry { key, position: None, node: Self::from_json_at(value, depth + 1)? }))
                    .collect::<Result<_, SyntaxError>>()?,
            ),
        };
        Ok(Self { value, position: None })
    }

    /// Where `path` stands, or else the last of its steps that exists.
    pub fn locate(&self, path: &Path) -> Option<Position> {
        let mut node = self;
        let mut position = self.position;
        for step in &path.0 {
            node = match (step, &node.value) {
                (Step::Field(name), Value::Object(entries)) => {
                    // The last of several is the one that is too many.
                    let Some(entry) = entries.iter().rfind(|entry| entry.key == *name) else { break };
                    position = entry.position.or(position);
                    &entry.node
                }
                (Step::Index(index), Value::List(items)) => {
                    let Some(item) = items.get(*index) else { break };
                    position = item.position.or(position);
                    item
                }
                _ => break,
            };
        }
        position
    }
}

impl Value {
    /// The value in the words of an error message.
    pub fn describe(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool(value) => format!("the boolean {value}"),
            Self::Integer(value) => format!("the integer {value}"),
            Self::Float(value) => format!("the number {value}"),
            Self::String(value) => format!("the string {value:?}"),
            Self::List(_) => "a list".to_owned(),
            Self::Object(_) => "a mapping".to_owned(),
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = deserializer.deserialize_any(ValueVisitor)?;
        Ok(Self { value, position: None })
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Integer(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Integer(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, node)) = fields.next_entry()? {
            entries.push(Entry { key, position: None, node });
        }
        Ok(Value::Object(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn several_documents_are_read_one_after_the_other() {
        let yaml = "a: 1\n---\n# nothing\n---\n- yes\n- 1.5\n- x\n";
        assert_eq!(parse_all(yaml).unwrap(), [json!({"a": 1}), json!([true, 1.5, "x"])]);
        assert_eq!(parse_all("{\"a\": 1}\n{\"b\": 2}\n").unwrap(), [json!({"a": 1}), json!({"b": 2})]);
        assert_eq!(parse_all("").unwrap(), [] as [serde_json::Value; 0]);
    }

    #[test]
    fn a_mistake_in_a_later_document_is_named_with_its_place() {
        for (text, line, message) in [
            ("a: 1\n---\nb: 2\nb: 3\n", 4, "the key \"b\" comes twice"),
            ("a: 1\n---\nb: [\n", 4, "invalid YAML: "),
            ("{\"a\": 1}\n{\"b\": }\n", 2, "invalid JSON: expected value"),
        ] {
            let error = parse_all(text).unwrap_err();
            assert!(error.message.starts_with(message), "{error:?}");
            assert_eq!(error.position.map(|at| at.line), Some(line), "{error:?}");
        }
    }
}
