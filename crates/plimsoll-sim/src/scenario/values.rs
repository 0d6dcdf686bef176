//! Values as a person writes them: times, amounts.

use crate::workload::select::parse_time;
use plimsoll_core::quantity::Quantity;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::time::Duration;

/// A time, written in seconds or with a suffix: `90`, `"15m"`, `"2d"`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub Duration);

/// An amount of a resource, written as in Kubernetes: `48`, `"500m"`, `"384Gi"`.
#[derive(Debug, Clone, PartialEq)]
pub struct Amount(pub Quantity);

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Whole(i64),
    Number(f64),
    Text(String),
}

impl Written {
    fn text(self) -> String {
        match self {
            Self::Whole(number) => number.to_string(),
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text,
        }
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Written::deserialize(deserializer)?.text();
        parse_time(&text).map(Self).map_err(serde::de::Error::custom)
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0.as_secs_f64())
    }
}

impl JsonSchema for Time {
    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["number", "string"],
            "description": "A time: seconds, or a number with one of the suffixes s, m, h, d.",
            "examples": [90, "15m", "2d"],
        })
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Written::deserialize(deserializer)?.text();
        let quantity = Quantity::parse(&text).map_err(serde::de::Error::custom)?;
        if quantity.sign() < 0 {
            return Err(serde::de::Error::custom(format!("{text} is less than nothing")));
        }
        Ok(Self(quantity))
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl JsonSchema for Amount {
    fn schema_name() -> Cow<'static, str> {
        "Amount".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["number", "string"],
            "description": "An amount as Kubernetes writes it.",
            "examples": [48, "500m", "384Gi"],
        })
    }
}
