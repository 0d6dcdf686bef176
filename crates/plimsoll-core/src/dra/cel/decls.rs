//! The functions a selector may call, with the types they take and give.
//!
//! This is the environment Kubernetes compiles device selectors in, less what cannot concern a device: times, addresses,
//! URLs, authorisation and text formatting. Each signature reads `receiver.(arguments) result`, capitals stand for any
//! type.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::types::Type;

/// One way to call a function.
#[derive(Debug, Clone)]
pub struct Overload {
    pub member: bool,
    /// The receiver, if any, comes first.
    pub params: Vec<Type>,
    pub result: Type,
    /// How many type variables the signature has; they are numbered from zero.
    pub variables: usize,
}

/// The ways to call a function; nothing if there is no such function.
pub fn overloads(function: &str) -> Option<&'static [Overload]> {
    FUNCTIONS.get(function).map(Vec::as_slice)
}

static FUNCTIONS: LazyLock<HashMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
    let mut functions: HashMap<&'static str, Vec<Overload>> = HashMap::new();
    for (names, signatures) in DECLARATIONS {
        for name in names.split(' ') {
            functions.entry(name).or_default().extend(signatures.split(';').filter_map(signature));
        }
    }
    functions
});

const DECLARATIONS: &[(&str, &str)] = &[
    ("_?_:_", "(bool, A, A) A"),
    ("!_", "(bool) bool"),
    ("-_", "(double) double; (int) int"),
    ("_==_ _!=_", "(A, A) bool"),
    ("_+_", "(bytes, bytes) bytes; (double, double) double; (int, int) int"),
    ("_+_", "(list<A>, list<A>) list<A>; (string, string) string; (uint, uint) uint"),
    ("_-_ _*_ _/_", "(double, double) double; (int, int) int; (uint, uint) uint"),
    ("_%_", "(int, int) int; (uint, uint) uint"),
    ("_<_ _<=_ _>_ _>=_", "(bool, bool) bool; (string, string) bool; (bytes, bytes) bool"),
    ("_<_ _<=_ _>_ _>=_", "(int, int) bool; (int, double) bool; (int, uint) bool"),
    ("_<_ _<=_ _>_ _>=_", "(uint, uint) bool; (uint, double) bool; (uint, int) bool"),
    ("_<_ _<=_ _>_ _>=_", "(double, double) bool; (double, int) bool; (double, uint) bool"),
    ("_[_]", "(list<A>, int) A; (map<A, B>, A) B"),
    ("_[_]", "(optional<list<A>>, int) optional<A>; (optional<map<A, B>>, A) optional<B>"),
    ("_[?_]", "(list<A>, int) optional<A>; (optional<list<A>>, int) optional<A>"),
    ("_[?_]", "(map<A, B>, A) optional<B>; (optional<map<A, B>>, A) optional<B>"),
    ("@in", "(A, list<A>) bool; (A, map<A, B>) bool"),
    ("size", "(bytes) int; (list<A>) int; (map<A, B>) int; (string) int"),
    ("size", "bytes.() int; list<A>.() int; map<A, B>.() int; string.() int"),
    ("type", "(A) type<A>"),
    ("dyn", "(A) dyn"),
    ("bool", "(bool) bool; (string) bool"),
    ("bytes", "(bytes) bytes; (string) bytes"),
    ("double", "(double) double; (int) double; (string) double; (uint) double"),
    ("int", "(int) int; (double) int; (string) int; (uint) int"),
    ("uint", "(uint) uint; (double) uint; (int) uint; (string) uint"),
    ("string", "(string) string; (bool) string; (bytes) string; (double) string; (int) string; (uint) string"),
    ("contains startsWith endsWith", "string.(string) bool"),
    ("matches", "(string, string) bool; string.(string) bool"),
    ("charAt", "string.(int) string"),
    ("indexOf lastIndexOf", "string.(string) int; string.(string, int) int; list<A>.(A) int"),
    ("lowerAscii upperAscii trim", "string.() string"),
    ("replace", "string.(string, string) string; string.(string, string, int) string"),
    ("split", "string.(string) list<string>; string.(string, int) list<string>"),
    ("substring", "string.(int) string; string.(int, int) string"),
    ("strings.quote", "(string) string"),
    ("join", "list<string>.() string; list<string>.(string) string"),
    ("find", "string.(string) string"),
    ("findAll", "string.(string) list<string>; string.(string, int) list<string>"),
    ("sum", "list<int>.() int; list<uint>.() uint; list<double>.() double"),
    ("min max", "list<int>.() int; list<uint>.() uint; list<double>.() double; list<bool>.() bool"),
    ("min max", "list<string>.() string; list<bytes>.() bytes"),
    ("isSorted", "list<int>.() bool; list<uint>.() bool; list<double>.() bool; list<bool>.() bool"),
    ("isSorted", "list<string>.() bool; list<bytes>.() bool"),
    ("sort", "list<int>.() list<int>; list<uint>.() list<uint>; list<double>.() list<double>"),
    ("sort", "list<bool>.() list<bool>; list<string>.() list<string>; list<bytes>.() list<bytes>"),
    ("slice", "list<A>.(int, int) list<A>"),
    ("flatten", "list<list<A>>.() list<A>; list<dyn>.(int) list<dyn>"),
    ("reverse distinct", "list<A>.() list<A>"),
    ("lists.range", "(int) list<int>"),
    ("first last", "list<A>.() optional<A>"),
    ("sets.contains sets.equivalent sets.intersects", "(list<A>, list<A>) bool"),
    ("quantity", "(string) quantity"),
    ("isQuantity", "(string) bool"),
    ("sign", "(quantity) int"),
    ("isGreaterThan isLessThan", "quantity.(quantity) bool; semver.(semver) bool"),
    ("compareTo", "quantity.(quantity) int; semver.(semver) int"),
    ("asApproximateFloat", "quantity.() double"),
    ("asInteger", "quantity.() int"),
    ("isInteger", "quantity.() bool"),
    ("add sub", "quantity.(quantity) quantity; quantity.(int) quantity"),
    ("semver", "(string) semver; (string, bool) semver"),
    ("isSemver", "(string) bool; (string, bool) bool"),
    ("major minor patch", "semver.() int"),
    ("optional.of optional.ofNonZeroValue", "(A) optional<A>"),
    ("optional.none", "() optional<A>"),
    ("optional.unwrap", "(list<optional<A>>) list<A>"),
    ("unwrapOpt", "list<optional<A>>.() list<A>"),
    ("value", "optional<A>.() A"),
    ("hasValue", "optional<A>.() bool"),
    ("or", "optional<A>.(optional<A>) optional<A>"),
    ("orValue", "optional<A>.(A) A"),
    ("includes", "dyn.(dyn) bool"),
];

/// Reads `receiver.(argument, argument) result`.
fn signature(text: &str) -> Option<Overload> {
    let mut variables = 0;
    let (receiver, rest) = text.trim().split_once('(')?;
    let (arguments, result) = rest.split_once(')')?;
    let receiver = receiver.strip_suffix('.');
    let mut params = Vec::new();
    for param in receiver.into_iter().chain(split_arguments(arguments)) {
        params.push(parse_type(param.trim(), &mut variables)?);
    }
    let result = parse_type(result.trim(), &mut variables)?;
    Some(Overload { member: receiver.is_some(), params, result, variables })
}

/// Splits at the commas that are not inside angle brackets.
fn split_arguments(text: &str) -> Vec<&str> {
    let mut depth = 0;
    let mut parts = text.split(|c| {
        depth += i32::from(c == '<') - i32::from(c == '>');
        c == ',' && depth == 0
    });
    if text.is_empty() { Vec::new() } else { parts.by_ref().collect() }
}

fn parse_type(text: &str, variables: &mut usize) -> Option<Type> {
    if let Some((name, rest)) = text.split_once('<') {
        let mut params = Vec::new();
        for param in split_arguments(rest.strip_suffix('>')?) {
            params.push(Box::new(parse_type(param.trim(), variables)?));
        }
        let mut params = params.into_iter();
        return match name {
            "list" => Some(Type::List(params.next()?)),
            "map" => Some(Type::Map(params.next()?, params.next()?)),
            "optional" => Some(Type::Optional(params.next()?)),
            "type" => Some(Type::Meta(params.next()?)),
            _ => None,
        };
    }
    let named = match text {
        "A" | "B" => {
            let id = usize::from(text == "B");
            *variables = (*variables).max(id + 1);
            Type::Var(id)
        }
        "dyn" => Type::Dyn,
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::UInt,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "quantity" => Type::Quantity,
        "semver" => Type::Semver,
        _ => return None,
    };
    Some(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_declaration_is_readable() {
        for (names, signatures) in DECLARATIONS {
            for text in signatures.split(';') {
                assert!(signature(text).is_some(), "{names}: {text}");
            }
        }
        let map = overloads("_[_]").and_then(|all| all.get(1)).map(|one| (one.params.len(), one.variables));
        assert_eq!(map, Some((2, 2)));
    }
}
