//! Values of the `[learn]` section as a person writes them: a name with its options, and choices to search.

use plimsoll_core::rng::Rng;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;

/// Something by name, with options that only it understands: `"dqn"`, or a table with `name` and the options.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Named {
    /// The name.
    pub name: String,
    /// The options, without the name.
    pub options: toml::Table,
}

impl Named {
    /// By name alone.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), options: toml::Table::new() }
    }
}

impl<'de> Deserialize<'de> for Named {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match toml::Value::deserialize(deserializer)? {
            toml::Value::String(name) => Ok(Self::new(name)),
            toml::Value::Table(mut options) => match options.remove("name") {
                Some(toml::Value::String(name)) => Ok(Self { name, options }),
                Some(other) => Err(D::Error::custom(format!("name is {other}, which is no text"))),
                None => Err(D::Error::custom("name is missing; a table says which with name = \"…\"")),
            },
            other => Err(D::Error::custom(format!("{other} is neither a name nor a table with a name"))),
        }
    }
}

impl Serialize for Named {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.options.is_empty() {
            return serializer.serialize_str(&self.name);
        }
        let mut table = self.options.clone();
        table.insert("name".into(), toml::Value::String(self.name.clone()));
        table.serialize(serializer)
    }
}

impl JsonSchema for Named {
    fn schema_name() -> Cow<'static, str> {
        "Named".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A name, or a table with a name and further options.",
            "anyOf": [
                { "type": "string" },
                { "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"] },
            ],
        })
    }
}

/// What a field may be when it is searched.
#[derive(Debug, Clone, PartialEq)]
pub enum Choices {
    /// One of these.
    List(Vec<toml::Value>),
    /// A number of a range.
    Range(Range),
}

/// A range of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// The least.
    pub low: f64,
    /// The greatest.
    pub high: f64,
    /// Whether each factor is as likely as the next, as is right for learning rates.
    #[serde(default)]
    pub log: bool,
    /// Whether only whole numbers are drawn.
    #[serde(default)]
    pub whole: bool,
}

impl Choices {
    /// Draws a value.
    pub fn draw(&self, rng: &mut Rng) -> toml::Value {
        match self {
            Self::List(values) => {
                let at = (rng.unit() * values.len() as f64) as usize;
                values[at.min(values.len() - 1)].clone()
            }
            Self::Range(range) => {
                let part = rng.unit();
                let value = if range.log {
                    libm::exp(libm::log(range.low) + part * (libm::log(range.high) - libm::log(range.low)))
                } else {
                    range.low + part * (range.high - range.low)
                };
                let value = value.clamp(range.low, range.high);
                if range.whole { toml::Value::Integer(value.round() as i64) } else { toml::Value::Float(value) }
            }
        }
    }
}

impl<'de> Deserialize<'de> for Choices {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match toml::Value::deserialize(deserializer)? {
            toml::Value::Array(values) if values.is_empty() => Err(D::Error::custom("there is nothing to choose from")),
            toml::Value::Array(values) => Ok(Self::List(values)),
            toml::Value::Table(table) => {
                let range: Range =
                    table.try_into().map_err(|error: toml::de::Error| D::Error::custom(error.message()))?;
                if !(range.low.is_finite() && range.high.is_finite() && range.low < range.high) {
                    return Err(D::Error::custom(format!("{} to {} is no range", range.low, range.high)));
                }
                if range.log && range.low <= 0.0 {
                    return Err(D::Error::custom(format!("a log range begins above zero, not at {}", range.low)));
                }
                Ok(Self::Range(range))
            }
            other => Err(D::Error::custom(format!("{other} is neither a list nor a range {{ low, high }}"))),
        }
    }
}

impl Serialize for Choices {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::List(values) => values.serialize(serializer),
            Self::Range(range) => range.serialize(serializer),
        }
    }
}

impl JsonSchema for Choices {
    fn schema_name() -> Cow<'static, str> {
        "Choices".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let range = generator.subschema_for::<Range>();
        json_schema!({
            "description": "What a field may be: one of a list, or a number of a range.",
            "anyOf": [{ "type": "array", "minItems": 1 }, range],
        })
    }
}
