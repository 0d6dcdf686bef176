//! Device selectors: CEL expressions over one device, compiled once and evaluated for many devices.
//!
//! The language, its limits and the texts of its errors are those of Kubernetes, because both what a selector matches
//! and what it fails with decide where a pod goes. The parser and evaluator are our own: they bound nesting and cost, so
//! that no expression, however hostile, can take the scheduler down.

mod ast;
mod check;
mod decls;
mod device;
mod eval;
mod functions;
mod lexer;
mod lists;
mod parser;
mod semver;
mod strings;
#[cfg(test)]
mod tests;
mod types;
mod value;

use ast::{Expr, Kind};
pub use device::DeviceValue;
use eval::{Evaluation, Patterns};
use parser::ParseError;
use types::Type;
use value::Value;

/// A compiled device selector.
#[derive(Debug, Clone)]
pub struct Selector {
    expr: Expr,
    patterns: Patterns,
}

/// Why an expression is no selector; the text is the one Kubernetes would give.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CompileError(String);

/// Why a selector could not decide about a device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MatchError(String);

impl Selector {
    /// Parses and checks an expression, which has to give a boolean.
    pub fn compile(expression: &str) -> Result<Self, CompileError> {
        let source: Vec<char> = expression.chars().collect();
        let mut expr = parser::parse(&source).map_err(|error| {
            CompileError(match error {
                ParseError::Syntax(error) => failed(&source, &[(error.pos, error.message)]),
                ParseError::Limit(message) => format!("compilation failed: ERROR: <input>:-1:0: {message}"),
            })
        })?;
        let found = check::check(&mut expr).map_err(|issues| {
            let shown: Vec<_> = issues.shown.into_iter().map(|issue| (issue.pos, issue.message)).collect();
            let mut text = failed(&source, &shown);
            if issues.truncated > 0 {
                text += &format!("\n{} more errors were truncated", issues.truncated);
            }
            CompileError(text)
        })?;
        let mut prepared = Prepared::default();
        prepared.visit(&expr);
        if !prepared.issues.is_empty() {
            return Err(CompileError(failed(&source, &prepared.issues)));
        }
        if !matches!(found, Type::Bool | Type::Any) {
            return Err(CompileError(format!("must evaluate to bool or the unknown type, not {}", named(&found))));
        }
        match prepared.failure {
            Some(failure) => Err(CompileError(format!("program instantiation failed: {failure}"))),
            None => Ok(Self { expr, patterns: prepared.patterns }),
        }
    }

    /// Whether the device is one the selector asks for.
    pub fn matches(&self, device: &DeviceValue) -> Result<bool, MatchError> {
        let device = device.value().map_err(|message| MatchError(message.to_owned()))?;
        match Evaluation::new(device, &self.patterns).eval(&self.expr) {
            Ok(Value::Bool(matches)) => Ok(matches),
            Ok(other) => Err(MatchError(format!(
                "CEL result of type {} could not be converted to bool: {}",
                other.type_name(),
                not_a_bool(&other)
            ))),
            Err(error) => Err(MatchError(error.message.into_owned())),
        }
    }
}

/// The name of a type in the one message that uses the long names.
fn named(of: &Type) -> String {
    match of {
        Type::Null => "null_type".to_owned(),
        Type::Any => "google.protobuf.Any".to_owned(),
        Type::List(element) => format!("list({})", named(element)),
        Type::Map(key, value) => format!("map({}, {})", named(key), named(value)),
        Type::Optional(value) => format!("optional_type({})", named(value)),
        Type::Meta(value) => format!("type({})", named(value)),
        other => other.to_string(),
    }
}

fn not_a_bool(value: &Value) -> String {
    match value {
        Value::String(_) => "unsupported native conversion from string to 'bool'".to_owned(),
        Value::Int(_) | Value::UInt(_) | Value::Double(_) => {
            format!("unsupported type conversion from '{}' to bool", value.type_name())
        }
        Value::Semver(_) => "type conversion error from 'Semver' to 'bool'".to_owned(),
        Value::Quantity(_) | Value::ComputedQuantity(_) => "type conversion error from 'Quantity' to 'bool'".to_owned(),
        other => format!("type conversion error from '{}' to 'bool'", other.type_name()),
    }
}

/// What is worked out once for all devices: constant conversions are tried, literal patterns are compiled.
#[derive(Default)]
struct Prepared {
    patterns: Patterns,
    issues: Vec<(usize, String)>,
    failure: Option<String>,
}

impl Prepared {
    fn visit(&mut self, expr: &Expr) {
        match &expr.kind {
            Kind::Literal(_) | Kind::Ident(_) | Kind::Struct(_) => {}
            Kind::Select { operand, .. } | Kind::Has { operand, .. } => self.visit(operand),
            Kind::Index { operand, index, .. } => {
                self.visit(operand);
                self.visit(index);
                let key = match &index.kind {
                    Kind::Literal(value) => Some(value.clone()),
                    Kind::List(_) if eval::is_literal(index) => Some(Value::list(Vec::new())),
                    _ => None,
                };
                if let Some(key) = key.filter(|key| !eval::is_key(key)) {
                    self.failure.get_or_insert(format!("invalid qualifier type: {}", eval::go_type(&key)));
                }
            }
            Kind::And(terms) | Kind::Or(terms) => terms.iter().for_each(|term| self.visit(term)),
            Kind::Ternary(parts) => parts.iter().for_each(|part| self.visit(part)),
            Kind::List(elements) => elements.iter().for_each(|element| self.visit(&element.value)),
            Kind::Map(entries) => {
                for entry in entries {
                    self.visit(&entry.key);
                    self.visit(&entry.value);
                }
            }
            Kind::Macro { range, args, .. } => {
                self.visit(range);
                args.iter().for_each(|arg| self.visit(arg));
            }
            Kind::Call { target, function, args } => {
                target.iter().for_each(|target| self.visit(target));
                args.iter().for_each(|arg| self.visit(arg));
                self.call(function, target.is_some(), args);
            }
        }
    }

    fn call(&mut self, function: &str, member: bool, args: &[Expr]) {
        match (function, member, args) {
            ("bool" | "bytes" | "double" | "int" | "uint" | "string", false, [arg]) => {
                if let Kind::Literal(value) = &arg.kind
                    && let Err(error) = functions::convert(function, value)
                {
                    self.failure.get_or_insert(error.message.into_owned());
                }
            }
            ("matches" | "find" | "findAll", true, [pattern, ..]) | ("matches", false, [_, pattern]) => {
                let Kind::Literal(Value::String(text)) = &pattern.kind else {
                    return;
                };
                match strings::compile_pattern(text) {
                    Ok(regex) => {
                        self.patterns.insert(text.to_string(), regex);
                    }
                    Err(_) if function == "matches" => {
                        self.issues.push((pattern.pos, "invalid matches argument".to_owned()));
                    }
                    Err(error) => {
                        self.failure.get_or_insert(error);
                    }
                }
            }
            _ => {}
        }
    }
}

/// The mistakes with the lines they are in and an arrow under each.
fn failed(source: &[char], issues: &[(usize, String)]) -> String {
    let mut text = String::from("compilation failed: ");
    for (i, (pos, message)) in issues.iter().enumerate() {
        let before = source.get(..*pos).unwrap_or(source);
        let line = before.iter().filter(|c| **c == '\n').count();
        let start = before.iter().rposition(|c| *c == '\n').map_or(0, |at| at + 1);
        let column = before.len() - start;
        let shown: String = source.iter().skip(start).take_while(|c| **c != '\n').collect();
        if i > 0 {
            text.push('\n');
        }
        text += &format!("ERROR: <input>:{}:{}: {message}\n | ", line + 1, column + 1);
        text += &shown.replace('\t', " ");
        text += &format!("\n | {}^", ".".repeat(column));
    }
    text
}
