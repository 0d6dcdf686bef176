//! The OpenAPI document: one table of operations, with schemas that are derived from the types themselves.

use crate::blocker::{BlockReport, BlockRequest, BlocksReport};
use crate::energy::{EnergyReport, SubjectReport};
use crate::latency::{LatencyReport, MeasureRequest, TargetReport, TargetsRequest};
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};

/// How a schema is made: once the types are known, their names suffice.
type Schema = fn(&mut SchemaGenerator) -> Value;

struct Operation {
    path: &'static str,
    method: &'static str,
    summary: &'static str,
    request: Option<Schema>,
    status: &'static str,
    response: Option<Schema>,
    errors: &'static [&'static str],
}

fn of<T: schemars::JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    generator.subschema_for::<T>().to_value()
}

fn operations() -> Vec<Operation> {
    let read = |path, summary, response: Option<Schema>, errors| Operation {
        path,
        method: "get",
        summary,
        request: None,
        status: "200",
        response,
        errors,
    };
    let write = |path, method, summary, request: Option<Schema>, response: Schema, errors| Operation {
        path,
        method,
        summary,
        request,
        status: "200",
        response: Some(response),
        errors,
    };
    let unfit: &[&str] = &["400", "413", "415", "422"];
    vec![
        read("/healthz", "Whether the agent answers", None, &[]),
        read("/metrics", "All figures, as Prometheus reads them", None, &[]),
        read("/openapi.json", "This document", None, &[]),
        read("/v1/latency", "What is known of all targets", Some(of::<LatencyReport>), &[]),
        write("/v1/latency", "post", "Measure a target now", Some(of::<MeasureRequest>), of::<TargetReport>, unfit),
        write(
            "/v1/latency/targets",
            "put",
            "Replace the targets that are measured beside those of the configuration",
            Some(of::<TargetsRequest>),
            of::<LatencyReport>,
            unfit,
        ),
        read("/v1/energy", "What the node takes", Some(of::<EnergyReport>), &[]),
        read(
            "/v1/energy/process/{pid}",
            "The part of a process",
            Some(of::<SubjectReport>),
            &["400", "404", "422", "503"],
        ),
        read("/v1/energy/pod/{uid}", "The part of a pod", Some(of::<SubjectReport>), &["404", "422", "503"]),
        read("/v1/energy/cgroup", "The part of a cgroup", Some(of::<SubjectReport>), &["400", "404", "422", "503"]),
        read("/v1/blocks", "What is held", Some(of::<BlocksReport>), &[]),
        Operation {
            status: "201",
            ..write("/v1/blocks", "post", "Hold resources", Some(of::<BlockRequest>), of::<BlockReport>, unfit)
        },
        read("/v1/blocks/{id}", "One block", Some(of::<BlockReport>), &["404"]),
        write("/v1/blocks/{id}", "delete", "Release a block", None, of::<BlockReport>, &["404"]),
        write("/v1/blocks/{id}/heartbeat", "post", "The owner is still there", None, of::<BlockReport>, &["404"]),
    ]
}

/// The document, in OpenAPI 3.1.
pub fn document() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut generator = settings.into_generator();
    let mut paths: Map<String, Value> = Map::new();
    for operation in operations() {
        let described = describe(&operation, &mut generator);
        let methods = paths.entry(operation.path).or_insert_with(|| json!({}));
        methods[operation.method] = described;
    }
    let mut schemas = generator.take_definitions(true);
    schemas.insert(
        "Error".to_owned(),
        json!({
            "type": "object",
            "required": ["error"],
            "properties": { "error": { "type": "string", "description": "What is wrong, and what can be done" } },
        }),
    );
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Plimsoll node agent",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "Apache 2.0", "identifier": "Apache-2.0" },
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
        "security": [{ "token": [] }, {}],
    })
}

fn describe(operation: &Operation, generator: &mut SchemaGenerator) -> Value {
    let content = |schema: Value| json!({ "application/json": { "schema": schema } });
    let mut answer = json!({ "description": operation.summary });
    match operation.response {
        Some(schema) => answer["content"] = content(schema(generator)),
        None if operation.path != "/openapi.json" => {
            answer["content"] = json!({ "text/plain": { "schema": { "type": "string" } } });
        }
        None => answer["content"] = content(json!({ "type": "object" })),
    }
    let mut responses = json!({ operation.status: answer });
    for status in ["401"].iter().chain(operation.errors) {
        let schema = json!({ "$ref": "#/components/schemas/Error" });
        responses[*status] = json!({ "description": "It was refused", "content": content(schema) });
    }
    let mut described = json!({ "summary": operation.summary, "responses": responses });
    if let Some(schema) = operation.request {
        described["requestBody"] = json!({ "required": true, "content": content(schema(generator)) });
    }
    let parameters = parameters(operation.path);
    if !parameters.is_empty() {
        described["parameters"] = Value::Array(parameters);
    }
    described
}

fn parameters(path: &str) -> Vec<Value> {
    let named = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let mut found: Vec<Value> = named
        .map(|name| {
            let schema =
                if name == "pid" { json!({ "type": "integer", "minimum": 0 }) } else { json!({ "type": "string" }) };
            json!({ "name": name, "in": "path", "required": true, "schema": schema })
        })
        .collect();
    if path.ends_with("/cgroup") {
        found.push(json!({ "name": "path", "in": "query", "required": true, "schema": { "type": "string" } }));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                if let Some(Value::String(reference)) = fields.get("$ref") {
                    found.push(reference.clone());
                }
                fields.values().for_each(|value| references(value, found));
            }
            Value::Array(values) => values.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let document = document();
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > 20, "only {} references", found.len());
        for reference in found {
            let pointer =
                reference.strip_prefix('#').unwrap_or_else(|| panic!("{reference} leads out of the document"));
            assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
        }
    }
}
