//! YAML as kube-scheduler reads it: YAML 1.1 scalars (`yes` and `off` are booleans), merge keys, anchors.
//!
//! Only the first document of a stream is configuration. kube-scheduler ignores the others without a word;
//! here they are an error, because nobody writes them to be ignored.

use rustc_hash::FxHashMap;
use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};

use super::document::{Entry, MAX_DEPTH, Node, SyntaxError, Value};
use super::error::Position;

/// Values that aliases may add to a document. Beyond this a file is an attack, not a configuration.
const MAX_ALIASED_VALUES: usize = 100_000;

pub(super) fn parse(text: &str) -> Result<Node, SyntaxError> {
    let mut documents = parse_all(text)?.into_iter();
    let first = documents.next().unwrap_or(Node::NULL);
    match documents.find(|document| document.value != Value::Null) {
        None => Ok(first),
        Some(second) => Err(SyntaxError {
            position: second.position,
            message: "a second document begins here; a configuration file holds exactly one".to_owned(),
        }),
    }
}

/// Every document of a stream, the empty ones too.
pub(super) fn parse_all(text: &str) -> Result<Vec<Node>, SyntaxError> {
    let mut builder = Builder { parser: Parser::new_from_str(text), anchors: FxHashMap::default(), aliased: 0 };
    let mut documents = Vec::new();
    loop {
        let (event, span) = builder.next()?;
        match event {
            Event::StreamEnd => return Ok(documents),
            Event::DocumentStart(_) => {
                let (event, span) = builder.next()?;
                documents.push(builder.node(event, span, 0)?);
            }
            Event::StreamStart | Event::DocumentEnd | Event::Nothing => {}
            _ => return Err(error(span, "expected a document")),
        }
    }
}

struct Builder<'a> {
    parser: Parser<'a, StrInput<'a>>,
    anchors: FxHashMap<usize, Node>,
    aliased: usize,
}

impl<'a> Builder<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Span), SyntaxError> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(scan)) => Err(SyntaxError::from(scan)),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Node, SyntaxError> {
        if depth > MAX_DEPTH {
            return Err(error(span, &format!("values are nested more than {MAX_DEPTH} deep")));
        }
        let (value, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                (scalar(&text, style, tag.as_deref()).map_err(|message| error(span, &message))?, anchor)
            }
            Event::SequenceStart(anchor, _) => (Value::List(self.list(depth)?), anchor),
            Event::MappingStart(anchor, _) => (Value::Object(self.object(depth)?), anchor),
            Event::Alias(anchor) => {
                let Some(node) = self.anchors.get(&anchor) else {
                    return Err(error(span, "an alias stands inside the value it refers to"));
                };
                self.aliased += count(node);
                if self.aliased > MAX_ALIASED_VALUES {
                    return Err(error(span, &format!("aliases add more than {MAX_ALIASED_VALUES} values")));
                }
                let node = node.clone();
                if depth + height(&node) > MAX_DEPTH {
                    return Err(error(span, &format!("values are nested more than {MAX_DEPTH} deep")));
                }
                return Ok(Node { position: position(span), ..node });
            }
            _ => return Err(error(span, "expected a value")),
        };
        let node = Node { value, position: position(span) };
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Node>, SyntaxError> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(items),
                (event, span) => items.push(self.node(event, span, depth + 1)?),
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Vec<Entry>, SyntaxError> {
        let mut entries = Vec::new();
        loop {
            let (event, span) = self.next()?;
            let key = match event {
                Event::MappingEnd => return Ok(entries),
                Event::Scalar(text, style, anchor, tag) => {
                    if anchor != 0 {
                        let value = Value::String(text.clone().into_owned());
                        self.anchors.insert(anchor, Node { value, position: position(span) });
                    }
                    let merges = style == ScalarStyle::Plain && tag.is_none() && text == "<<";
                    (!merges).then(|| text.into_owned())
                }
                _ => return Err(error(span, "a key must be a plain name")),
            };
            let (event, value_span) = self.next()?;
            let node = self.node(event, value_span, depth + 1)?;
            match key {
                Some(key) => entries.push(Entry { key, position: position(span), node }),
                None => merge(node, &mut entries).map_err(|message| error(value_span, message))?,
            }
        }
    }
}

/// The entries of a merge key's value. A key that is set twice by it is a duplicate like any other.
fn merge(node: Node, entries: &mut Vec<Entry>) -> Result<(), &'static str> {
    match node.value {
        Value::Object(merged) => entries.extend(merged),
        Value::List(items) => {
            for item in items {
                match item.value {
                    Value::Object(merged) => entries.extend(merged),
                    _ => return Err("a merge key (<<) takes mappings only"),
                }
            }
        }
        _ => return Err("a merge key (<<) takes a mapping or a list of mappings"),
    }
    Ok(())
}

fn count(node: &Node) -> usize {
    1 + match &node.value {
        Value::List(items) => items.iter().map(count).sum(),
        Value::Object(entries) => entries.iter().map(|entry| count(&entry.node)).sum::<usize>(),
        _ => 0,
    }
}

fn height(node: &Node) -> usize {
    match &node.value {
        Value::List(items) => 1 + items.iter().map(height).max().unwrap_or(0),
        Value::Object(entries) => 1 + entries.iter().map(|entry| height(&entry.node)).max().unwrap_or(0),
        _ => 0,
    }
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, String> {
    let Some(tag) = tag else {
        return Ok(match style {
            ScalarStyle::Plain => resolve(text),
            _ => Value::String(text.to_owned()),
        });
    };
    if !tag.is_yaml_core_schema() {
        return match (tag.handle.as_str(), tag.suffix.as_str()) {
            ("", "!") => Ok(Value::String(text.to_owned())),
            (handle, suffix) => Err(format!("the tag {handle}{suffix} is not supported")),
        };
    }
    let value = resolve(text);
    match (tag.suffix.as_str(), value) {
        ("str", _) => Ok(Value::String(text.to_owned())),
        ("null", value @ Value::Null) | ("bool", value @ Value::Bool(_)) | ("int", value @ Value::Integer(_)) => {
            Ok(value)
        }
        ("float", value @ (Value::Integer(_) | Value::Float(_))) => Ok(value),
        ("null" | "bool" | "int" | "float", _) => Err(format!("{text:?} is not of the type !!{}", tag.suffix)),
        (other, _) => Err(format!("the tag !!{other} is not supported")),
    }
}

/// What an unquoted scalar means in YAML 1.1 as the Go library behind Kubernetes reads it.
fn resolve(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => return Value::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Value::Bool(false);
        }
        ".nan" | ".NaN" | ".NAN" => return Value::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Value::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Value::Float(f64::NEG_INFINITY),
        _ => {}
    }
    let number = match text.bytes().next() {
        Some(b'0'..=b'9' | b'+' | b'-') => {
            let plain = text.replace('_', "");
            integer(&plain).map(Value::Integer).or_else(|| decimal(&plain))
        }
        Some(b'.') => decimal(text),
        _ => None,
    };
    number.unwrap_or_else(|| Value::String(text.to_owned()))
}

/// An integer of 64 bits, with or without sign, in any of the bases Go's literals have.
fn integer(text: &str) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix(['+', '-']) {
        Some(digits) => (text.starts_with('-'), digits),
        None => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = if let Some(digits) = lower.strip_prefix("0x") {
        (16, digits)
    } else if let Some(digits) = lower.strip_prefix("0b") {
        (2, digits)
    } else if let Some(digits) = lower.strip_prefix("0o") {
        (8, digits)
    } else if lower.len() > 1 && lower.starts_with('0') {
        (8, &lower[1..])
    } else {
        (10, lower.as_str())
    };
    // `from_str_radix` would take a second sign.
    if !digits.starts_with(|c: char| c.is_digit(radix)) {
        return None;
    }
    let value = i128::from_str_radix(digits, radix).ok()?;
    let value = if negative { -value } else { value };
    // Without a sign the range is that of an unsigned word.
    let most = if text.starts_with(['+', '-']) { i64::MAX.into() } else { i128::from(u64::MAX) };
    (i128::from(i64::MIN)..=most).contains(&value).then_some(value)
}

/// A decimal fraction. One without a fractional part is an integer: it passes through JSON on its way into
/// kube-scheduler, where `16.0` is written `16`.
fn decimal(text: &str) -> Option<Value> {
    let mantissa = text.strip_prefix(['+', '-']).unwrap_or(text);
    if !mantissa.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let value: f64 = text.parse().ok().filter(|value: &f64| value.is_finite())?;
    // Go writes numbers from here on with an exponent, which no integer field takes.
    const FIRST_WITH_EXPONENT: f64 = 1e21;
    if value.fract() == 0.0 && value.abs() < FIRST_WITH_EXPONENT {
        return Some(Value::Integer(value as i128));
    }
    Some(Value::Float(value))
}

fn position(span: Span) -> Option<Position> {
    Some(Position { line: span.start.line(), column: span.start.col() + 1 })
}

fn error(span: Span, message: &str) -> SyntaxError {
    SyntaxError { position: position(span), message: message.to_owned() }
}

impl From<ScanError> for SyntaxError {
    fn from(scan: ScanError) -> Self {
        let position = Position { line: scan.marker().line(), column: scan.marker().col() + 1 };
        Self { position: Some(position), message: format!("invalid YAML: {}", scan.info()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_mean_what_they_mean_to_kube_scheduler() {
        for (text, expected) in [
            ("", Value::Null),
            ("~", Value::Null),
            ("yes", Value::Bool(true)),
            ("Off", Value::Bool(false)),
            ("16", Value::Integer(16)),
            ("+16", Value::Integer(16)),
            ("-16", Value::Integer(-16)),
            ("1_000", Value::Integer(1000)),
            ("0x1F", Value::Integer(31)),
            ("0o17", Value::Integer(15)),
            ("017", Value::Integer(15)),
            ("08", Value::Integer(8)),
            ("0b101", Value::Integer(5)),
            ("16.0", Value::Integer(16)),
            ("1e3", Value::Integer(1000)),
            ("1.5", Value::Float(1.5)),
            (".5", Value::Float(0.5)),
            ("18446744073709551615", Value::Integer(u64::MAX.into())),
            ("--5", Value::String("--5".into())),
            ("-+5", Value::String("-+5".into())),
            ("0x", Value::String("0x".into())),
            ("15s", Value::String("15s".into())),
            ("2020-01-01", Value::String("2020-01-01".into())),
            ("infinity", Value::String("infinity".into())),
            ("-inf", Value::String("-inf".into())),
            (".", Value::String(".".into())),
        ] {
            assert_eq!(resolve(text), expected, "{text:?}");
        }
    }

    #[test]
    fn merge_keys_add_the_entries_of_an_alias() {
        let node = parse("a: &x {k: 1}\nb:\n  <<: *x\n  l: 2\nc:\n  <<: [*x, {m: 3}]\n").unwrap();
        let Value::Object(entries) = node.value else { panic!("{node:?}") };
        let keys = |index: usize| match &entries[index].node.value {
            Value::Object(entries) => entries.iter().map(|entry| entry.key.as_str()).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
        assert_eq!(keys(1), ["k", "l"]);
        assert_eq!(keys(2), ["k", "m"]);
    }

    #[test]
    fn what_is_not_a_single_document_is_an_error_with_its_place() {
        let deep = "[".repeat(200) + &"]".repeat(200);
        let bomb = (1..9).fold(format!("- &a0 [{}]\n", "1,".repeat(20)), |text, i| {
            text + &format!("- &a{i} [{}]\n", format!("*a{},", i - 1).repeat(20))
        });
        for (text, line, message) in [
            ("a: 1\n---\nb: 2\n", 3, "a second document begins here; a configuration file holds exactly one"),
            ("a: &x [*x]\n", 1, "an alias stands inside the value it refers to"),
            ("<<: 3\n", 1, "a merge key (<<) takes a mapping or a list of mappings"),
            ("? [1]\n: 2\n", 1, "a key must be a plain name"),
            ("a: !!int x\n", 1, "\"x\" is not of the type !!int"),
            ("a: !foo x\n", 1, "the tag !foo is not supported"),
            (deep.as_str(), 1, "values are nested more than 100 deep"),
            (bomb.as_str(), 4, "aliases add more than 100000 values"),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!((error.message.as_str(), error.position.map(|at| at.line)), (message, Some(line)));
        }
        assert!(parse("a: [").unwrap_err().message.starts_with("invalid YAML: "));
    }

    #[test]
    fn empty_documents_after_the_first_do_not_matter() {
        assert_eq!(parse("").unwrap().value, Value::Null);
        assert!(matches!(parse("---\na: 1\n---\n").unwrap().value, Value::Object(_)));
        assert!(matches!(parse("a: 1\n...\n").unwrap().value, Value::Object(_)));
    }
}
