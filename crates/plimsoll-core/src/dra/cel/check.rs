//! Type-checks a selector, so that a mistake is found when it is compiled and not when a device happens to reach it.

use super::ast::{Expr, Kind, Macro};
use super::decls::{Overload, overloads};
use super::types::{Bindings, Type, most_general};
use super::value::Value;

/// A mistake and where it is, in characters from the start.
#[derive(Debug, Clone, PartialEq)]
pub struct Issue {
    pub pos: usize,
    pub message: String,
}

/// The mistakes found; beyond a number they are only counted.
#[derive(Debug, Clone, PartialEq)]
pub struct Issues {
    pub shown: Vec<Issue>,
    pub truncated: usize,
}

/// How many mistakes are described; as many as Kubernetes describes.
const MAX_ISSUES: usize = 100;

/// Finds the type of the expression; calls such as `sets.contains(...)` are rewritten to the function they name.
pub fn check(expr: &mut Expr) -> Result<Type, Issues> {
    let mut checker = Checker::default();
    let found = checker.check(expr);
    if checker.issues.is_empty() {
        checker.check_uniformity();
    }
    if checker.issues.is_empty() {
        return Ok(checker.bindings.resolve(&found, true));
    }
    checker.issues.sort_by_key(|issue| issue.pos);
    Err(Issues { shown: checker.issues, truncated: checker.truncated })
}

#[derive(Default)]
struct Checker {
    issues: Vec<Issue>,
    truncated: usize,
    scope: Vec<(String, Type)>,
    bindings: Bindings,
    /// What has to be of one type: the elements of each list literal, the keys and the values of each map literal.
    uniform: Vec<Vec<(usize, Type)>>,
}

fn type_named(name: &str) -> Option<Type> {
    let named = match name {
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::UInt,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "null_type" => Type::Null,
        "list" => Type::list(Type::Dyn),
        "map" => Type::Map(Box::new(Type::Dyn), Box::new(Type::Dyn)),
        "type" => Type::Meta(Box::new(Type::Dyn)),
        "optional_type" => Type::optional(Type::Dyn),
        _ => return None,
    };
    Some(Type::Meta(Box::new(named)))
}

impl Checker {
    fn report(&mut self, pos: usize, message: String) -> Type {
        if self.issues.len() < MAX_ISSUES {
            self.issues.push(Issue { pos, message });
        } else {
            self.truncated += 1;
        }
        Type::Error
    }

    fn mismatch(&mut self, pos: usize, expected: &Type, found: &Type) -> Type {
        let (expected, found) = (self.bindings.resolve(expected, false), self.bindings.resolve(found, false));
        self.report(pos, format!("expected type '{expected}' but found '{found}'"))
    }

    fn undeclared(&mut self, pos: usize, name: &str) -> Type {
        self.report(pos, format!("undeclared reference to '{name}' (in container '')"))
    }

    fn lookup(&self, name: &str) -> Option<Type> {
        let local = self.scope.iter().rev().find(|(known, _)| known == name).map(|(_, of)| of.clone());
        local.or_else(|| (name == "device").then_some(Type::Device)).or_else(|| type_named(name))
    }

    fn check(&mut self, expr: &mut Expr) -> Type {
        let pos = expr.pos;
        match &mut expr.kind {
            Kind::Literal(value) => literal_type(value),
            Kind::Ident(name) => match self.lookup(name) {
                Some(found) => found,
                None => {
                    let name = name.clone();
                    self.undeclared(pos, &name)
                }
            },
            Kind::Select { operand, field, optional } => {
                let operand = self.check(operand);
                self.field(pos, &operand, field, *optional)
            }
            Kind::Has { operand, field } => {
                let operand = self.check(operand);
                self.field(pos, &operand, field, false);
                Type::Bool
            }
            Kind::Index { operand, index, optional } => {
                let function = if *optional { "_[?_]" } else { "_[_]" };
                let args = vec![self.check(operand), self.check(index)];
                self.resolve_call(pos, function, args, false)
            }
            Kind::And(terms) | Kind::Or(terms) => {
                let types: Vec<_> = terms.iter_mut().map(|term| (term.pos, self.check(term))).collect();
                let mut result = Type::Bool;
                for (pos, found) in types {
                    if !self.bindings.assignable(&found, &Type::Bool) {
                        result = self.mismatch(pos, &Type::Bool, &found);
                    }
                }
                result
            }
            Kind::Ternary(parts) => {
                let args = parts.iter_mut().map(|part| self.check(part)).collect();
                self.resolve_call(pos, "_?_:_", args, false)
            }
            Kind::List(elements) => {
                let mut types = Vec::with_capacity(elements.len());
                for element in elements {
                    let of = self.check(&mut element.value);
                    let of = if element.optional { self.unwrapped(element.value.pos, of) } else { of };
                    types.push((element.value.pos, of));
                }
                Type::list(self.join(types))
            }
            Kind::Map(entries) => {
                let (mut keys, mut values) = (Vec::new(), Vec::new());
                for entry in entries {
                    keys.push((entry.key.pos, self.check(&mut entry.key)));
                    let value = self.check(&mut entry.value);
                    let value = if entry.optional { self.unwrapped(entry.value.pos, value) } else { value };
                    values.push((entry.value.pos, value));
                }
                Type::Map(Box::new(self.join(keys)), Box::new(self.join(values)))
            }
            Kind::Struct(name) => match self.lookup(name) {
                None => {
                    let name = name.clone();
                    self.undeclared(pos, &name)
                }
                Some(Type::Meta(of)) => self.report(pos, format!("'{of}' is not a message type")),
                Some(of) => self.report(pos, format!("'{of}' is not a type")),
            },
            Kind::Call { .. } => self.call(expr),
            Kind::Macro { .. } => self.expand(expr),
        }
    }

    fn field(&mut self, pos: usize, operand: &Type, field: &str, optional: bool) -> Type {
        let operand = self.bindings.resolve(operand, false);
        let (target, was_optional) = match operand {
            Type::Optional(inner) => (*inner, true),
            other => (other, false),
        };
        let result = match &target {
            Type::Map(_, value) => (**value).clone(),
            Type::Device => match field {
                "driver" => Type::String,
                "allowMultipleAllocations" => Type::Bool,
                "attributes" => domains(Type::Any),
                "capacity" => domains(Type::Quantity),
                _ => self.report(pos, format!("undefined field '{field}'")),
            },
            Type::Quantity | Type::Semver => self.report(pos, format!("unexpected failed resolution of '{target}'")),
            Type::Var(_) => {
                self.bindings.assignable(&Type::Dyn, &target);
                Type::Dyn
            }
            Type::Dyn | Type::Any | Type::Error => Type::Dyn,
            _ => {
                self.report(pos, format!("type '{target}' does not support field selection"));
                Type::Dyn
            }
        };
        if optional || was_optional { Type::optional(result) } else { result }
    }

    /// The type inside an element marked with `?`, which has to be optional.
    fn unwrapped(&mut self, pos: usize, of: Type) -> Type {
        match self.bindings.resolve(&of, false) {
            Type::Optional(inner) => *inner,
            wild @ (Type::Dyn | Type::Any) => wild,
            other => self.mismatch(pos, &Type::optional(other.clone()), &other),
        }
    }

    /// The common type of the elements of a literal. That they differ is a mistake too, but one that is only looked for
    /// when there is no other.
    fn join(&mut self, types: Vec<(usize, Type)>) -> Type {
        let mut joined: Option<Type> = None;
        for (_, current) in &types {
            joined = Some(match joined {
                None => current.clone(),
                Some(before) if self.bindings.assignable(&before, current) => most_general(before, current.clone()),
                Some(_) => Type::Dyn,
            });
        }
        self.uniform.push(types);
        joined.unwrap_or_else(|| self.bindings.fresh())
    }

    fn check_uniformity(&mut self) {
        for types in std::mem::take(&mut self.uniform) {
            let resolved = |of: &Type| self.bindings.resolve(of, true);
            let first = types.first().map(|(_, of)| resolved(of));
            let other = types.iter().map(|(pos, of)| (*pos, resolved(of))).find(|(_, of)| Some(of) != first.as_ref());
            if let (Some(first), Some((pos, other))) = (first, other) {
                self.mismatch(pos, &first, &other);
            }
        }
    }

    fn call(&mut self, expr: &mut Expr) -> Type {
        let pos = expr.pos;
        let Kind::Call { target, function, args } = &mut expr.kind else {
            return Type::Error;
        };
        let mut types: Vec<_> = args.iter_mut().map(|arg| self.check(arg)).collect();
        let qualified = target.as_ref().and_then(|target| target.qualified_name());
        if let Some(name) = qualified.map(|prefix| format!("{prefix}.{function}"))
            && overloads(&name).is_some()
        {
            *target = None;
            *function = name;
        }
        let function = function.clone();
        let member = target.is_some();
        if let Some(target) = target {
            types.insert(0, self.check(target));
        }
        self.resolve_call(pos, &function, types, member)
    }

    fn resolve_call(&mut self, pos: usize, function: &str, args: Vec<Type>, member: bool) -> Type {
        let Some(overloads) = overloads(function) else {
            return self.undeclared(pos, function);
        };
        let mut result: Option<Type> = None;
        for overload in overloads.iter().filter(|overload| overload.member == member) {
            if let Some(found) = self.matches(overload, &args) {
                result = Some(match result {
                    Some(before) if !matches!(before, Type::Dyn | Type::Any) && before != found => Type::Dyn,
                    Some(before) => before,
                    None => found,
                });
            }
        }
        if let Some(result) = result {
            return result;
        }
        let names: Vec<_> = args.iter().map(|arg| self.bindings.resolve(arg, true).to_string()).collect();
        let signature = match names.split_first() {
            Some((receiver, rest)) if member => format!("{receiver}.({})", rest.join(", ")),
            _ => format!("({})", names.join(", ")),
        };
        self.report(pos, format!("found no matching overload for '{function}' applied to '{signature}'"))
    }

    /// The result of the overload if the arguments fit it.
    fn matches(&mut self, overload: &Overload, args: &[Type]) -> Option<Type> {
        if overload.params.len() != args.len() {
            return None;
        }
        let fresh: Vec<_> = (0..overload.variables).map(|_| self.bindings.fresh()).collect();
        let params: Vec<_> = overload.params.iter().map(|param| instantiate(param, &fresh)).collect();
        let pairs: Vec<_> = args.iter().zip(&params).collect();
        self.bindings.all_assignable(&pairs).then(|| {
            let result = instantiate(&overload.result, &fresh);
            self.bindings.resolve(&result, false)
        })
    }

    fn expand(&mut self, expr: &mut Expr) -> Type {
        let pos = expr.pos;
        let Kind::Macro { op, range, vars, args } = &mut expr.kind else {
            return Type::Error;
        };
        let op = *op;
        let range_pos = range.pos;
        let range_type = self.check(range);
        let range_type = self.bindings.resolve(&range_type, false);
        let outer = self.scope.len();
        match op {
            Macro::Bind => self.scope.extend(vars.first().map(|name| (name.clone(), range_type.clone()))),
            Macro::OptMap | Macro::OptFlatMap => {
                self.resolve_call(pos, "hasValue", vec![range_type.clone()], true);
                let value = self.resolve_call(pos, "value", vec![range_type.clone()], true);
                self.scope.extend(vars.first().map(|name| (name.clone(), value)));
            }
            _ => {
                let types = self.variable_types(range_pos, &range_type, vars.len());
                self.scope.extend(vars.iter().cloned().zip(types));
            }
        }
        let types: Vec<_> = args.iter_mut().map(|arg| (arg.pos, self.check(arg))).collect();
        self.scope.truncate(outer);
        let (last_pos, last) = types.last().cloned().unwrap_or((pos, Type::Error));
        let condition = if types.len() > 1 { types.first().cloned() } else { None };
        let body = match op {
            Macro::All | Macro::Exists => {
                if !self.bindings.assignable(&last, &Type::Bool) {
                    self.mismatch(last_pos, &Type::Bool, &last);
                }
                return Type::Bool;
            }
            Macro::ExistsOne => {
                self.resolve_call(pos, "_?_:_", vec![last, Type::Int, Type::Int], false);
                return Type::Bool;
            }
            Macro::Filter => {
                let element = match &range_type {
                    Type::List(element) => (**element).clone(),
                    Type::Map(key, _) => (**key).clone(),
                    Type::Dyn | Type::Var(_) => Type::Dyn,
                    _ => Type::Error,
                };
                let list = Type::list(element);
                return self.resolve_call(pos, "_?_:_", vec![last, list.clone(), list], false);
            }
            Macro::Map | Macro::TransformList => Type::list(last),
            Macro::TransformMap => {
                let key = match &range_type {
                    Type::Map(key, _) => (**key).clone(),
                    Type::List(_) => Type::Int,
                    _ => Type::Dyn,
                };
                Type::Map(Box::new(key), Box::new(last))
            }
            Macro::TransformMapEntry => match self.bindings.resolve(&last, false) {
                found @ (Type::Map(..) | Type::Dyn | Type::Any | Type::Error) => found,
                found => {
                    let any = Type::Map(Box::new(Type::Dyn), Box::new(Type::Dyn));
                    self.mismatch(last_pos, &any, &found)
                }
            },
            Macro::SortBy => {
                let keys = vec![Type::list(last)];
                self.resolve_call(pos, "sort", keys, true);
                return range_type;
            }
            Macro::OptMap => return Type::optional(last),
            Macro::OptFlatMap => {
                let none = Type::optional(self.bindings.fresh());
                return self.resolve_call(pos, "_?_:_", vec![Type::Bool, last, none], false);
            }
            Macro::Bind => return last,
        };
        match condition {
            Some((_, condition)) => self.resolve_call(pos, "_?_:_", vec![condition, body.clone(), body], false),
            None => body,
        }
    }

    /// What iterating over the range gives to one variable or two.
    fn variable_types(&mut self, pos: usize, range: &Type, count: usize) -> Vec<Type> {
        match range {
            Type::List(element) if count == 2 => vec![Type::Int, (**element).clone()],
            Type::List(element) => vec![(**element).clone()],
            Type::Map(key, value) => vec![(**key).clone(), (**value).clone()],
            Type::Dyn | Type::Error | Type::Var(_) => {
                self.bindings.assignable(&Type::Dyn, range);
                vec![Type::Dyn; 2]
            }
            _ => {
                self.report(
                    pos,
                    format!(
                        "expression of type '{range}' cannot be range of a comprehension (must be list, map, or dynamic)"
                    ),
                );
                vec![Type::Error; 2]
            }
        }
    }
}

fn domains(value: Type) -> Type {
    let names = Type::Map(Box::new(Type::String), Box::new(value));
    Type::Map(Box::new(Type::String), Box::new(names))
}

fn instantiate(of: &Type, fresh: &[Type]) -> Type {
    let inner = |inner: &Type| Box::new(instantiate(inner, fresh));
    match of {
        Type::Var(id) => fresh.get(*id).cloned().unwrap_or(Type::Dyn),
        Type::List(a) => Type::List(inner(a)),
        Type::Map(a, b) => Type::Map(inner(a), inner(b)),
        Type::Optional(a) => Type::Optional(inner(a)),
        Type::Meta(a) => Type::Meta(inner(a)),
        _ => of.clone(),
    }
}

fn literal_type(value: &Value) -> Type {
    match value {
        Value::Bool(_) => Type::Bool,
        Value::Int(_) => Type::Int,
        Value::UInt(_) => Type::UInt,
        Value::Double(_) => Type::Double,
        Value::String(_) => Type::String,
        Value::Bytes(_) => Type::Bytes,
        _ => Type::Null,
    }
}
