//! Functions on texts; positions are counted in characters.

use std::borrow::Cow;

use regex::{Regex, RegexBuilder};

use super::eval::{EvalError, Evaluated, Evaluation};
use super::functions::mismatch;
use super::semver::go_quote;
use super::value::Value;

/// What a compiled pattern may take; keeps a hostile pattern from taking all memory.
const PATTERN_BYTES: usize = 1 << 20;

/// Calls a function whose first argument is a text.
pub fn call(evaluation: &mut Evaluation<'_>, function: &str, args: &[Value]) -> Evaluated {
    use Value::{Bool, Int, String};
    let Some(String(text)) = args.first() else {
        return Err(mismatch(function, args));
    };
    evaluation.charge(text.len() as u64 / 10)?;
    let rest = args.get(1..).unwrap_or_default();
    match (function, rest) {
        ("contains", [String(part)]) => Ok(Bool(text.contains(&**part))),
        ("startsWith", [String(part)]) => Ok(Bool(text.starts_with(&**part))),
        ("endsWith", [String(part)]) => Ok(Bool(text.ends_with(&**part))),
        ("contains" | "startsWith" | "endsWith", _) => Err(EvalError::no_such_overload()),
        ("matches", [String(pattern)]) => with_pattern(evaluation, pattern, |regex| Bool(regex.is_match(text))),
        ("matches", _) => Err(EvalError::no_such_overload()),
        ("find", [String(pattern)]) => {
            with_pattern(evaluation, pattern, |regex| regex.find(text).map_or("", |found| found.as_str()).into())
        }
        ("findAll", [String(pattern)]) => find_all(evaluation, text, pattern, -1),
        ("findAll", [String(pattern), Int(limit)]) => find_all(evaluation, text, pattern, *limit),
        ("lowerAscii", []) => Ok(text.to_ascii_lowercase().as_str().into()),
        ("upperAscii", []) => Ok(text.to_ascii_uppercase().as_str().into()),
        ("trim", []) => Ok(text.trim().into()),
        ("strings.quote", []) => Ok(go_quote(text).as_str().into()),
        ("charAt", [Int(at)]) => {
            let chars: Vec<char> = text.chars().collect();
            let found = usize::try_from(*at).ok().filter(|at| *at <= chars.len());
            let at = found.ok_or_else(|| out_of_range(*at))?;
            Ok(chars.get(at).map(char::to_string).unwrap_or_default().as_str().into())
        }
        ("substring", [Int(start)]) => substring(text, *start, None),
        ("substring", [Int(start), Int(end)]) => substring(text, *start, Some(*end)),
        ("indexOf", [String(part)]) => index_of(text, part, 0),
        ("indexOf", [String(part), Int(from)]) => index_of(text, part, *from),
        ("lastIndexOf", [String(part)]) if text.len() < part.len() => Ok(Int(-1)),
        ("lastIndexOf", [String(part)]) => {
            let length = text.chars().count() as i64;
            last_index_of(text, part, if part.is_empty() { length } else { length - 1 })
        }
        ("lastIndexOf", [String(part), Int(from)]) => last_index_of(text, part, *from),
        ("replace", [String(from), String(to)]) => replace(evaluation, text, from, to, -1),
        ("replace", [String(from), String(to), Int(limit)]) => replace(evaluation, text, from, to, *limit),
        ("split", [String(separator)]) => split(evaluation, text, separator, -1),
        ("split", [String(separator), Int(limit)]) => split(evaluation, text, separator, *limit),
        _ => Err(mismatch(function, args)),
    }
}

fn out_of_range(at: i64) -> EvalError {
    EvalError::new(format!("index out of range: {at}"))
}

fn substring(text: &str, start: i64, end: Option<i64>) -> Evaluated {
    let chars: Vec<char> = text.chars().collect();
    if let Some(end) = end.filter(|end| start > *end) {
        return Err(EvalError::new(format!("invalid substring range. start: {start}, end: {end}")));
    }
    let position = |at: i64| usize::try_from(at).ok().filter(|at| *at <= chars.len()).ok_or_else(|| out_of_range(at));
    let (from, to) = (position(start)?, position(end.unwrap_or(chars.len() as i64))?);
    Ok(chars.iter().take(to).skip(from).collect::<String>().as_str().into())
}

fn index_of(text: &str, part: &str, from: i64) -> Evaluated {
    if part.is_empty() {
        return Ok(Value::Int(from));
    }
    let from = usize::try_from(from).map_err(|_| out_of_range(from))?;
    let (text, part): (Vec<char>, Vec<char>) = (text.chars().collect(), part.chars().collect());
    let found = text.windows(part.len()).enumerate().skip(from).find(|(_, window)| *window == part);
    Ok(Value::Int(found.map_or(-1, |(at, _)| at as i64)))
}

fn last_index_of(text: &str, part: &str, from: i64) -> Evaluated {
    if part.is_empty() {
        return Ok(Value::Int(from));
    }
    let from = usize::try_from(from).map_err(|_| out_of_range(from))?;
    let (text, part): (Vec<char>, Vec<char>) = (text.chars().collect(), part.chars().collect());
    if from >= text.len() {
        return Ok(Value::Int(-1));
    }
    let found = text.windows(part.len()).enumerate().take(from + 1).rfind(|(_, window)| *window == part);
    Ok(Value::Int(found.map_or(-1, |(at, _)| at as i64)))
}

/// How many times something is done; a negative number sets no limit.
fn times(limit: i64) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

fn replace(evaluation: &mut Evaluation<'_>, text: &str, from: &str, to: &str, limit: i64) -> Evaluated {
    let replaced = text.replacen(from, to, times(limit));
    evaluation.charge(replaced.len() as u64 / 10)?;
    Ok(replaced.as_str().into())
}

fn split(evaluation: &mut Evaluation<'_>, text: &str, separator: &str, limit: i64) -> Evaluated {
    let limit = times(limit);
    let parts: Vec<Value> = if limit == 0 {
        Vec::new()
    } else if separator.is_empty() {
        let mut chars = text.chars();
        let mut parts: Vec<Value> =
            chars.by_ref().take(limit - 1).map(|c| Value::from(&*c.encode_utf8(&mut [0; 4]))).collect();
        if !chars.as_str().is_empty() {
            parts.push(chars.as_str().into());
        }
        parts
    } else {
        text.splitn(limit, separator).map(Value::from).collect()
    };
    evaluation.charge(parts.len() as u64)?;
    Ok(Value::list(parts))
}

fn find_all(evaluation: &mut Evaluation<'_>, text: &str, pattern: &str, limit: i64) -> Evaluated {
    with_pattern(evaluation, pattern, |regex| {
        Value::list(regex.find_iter(text).take(times(limit)).map(|found| found.as_str().into()).collect())
    })
}

fn with_pattern(evaluation: &mut Evaluation<'_>, pattern: &str, act: impl FnOnce(&Regex) -> Value) -> Evaluated {
    if let Some(regex) = evaluation.pattern(pattern) {
        return Ok(act(regex));
    }
    // Compiling is what costs; a pattern that is not a literal is compiled anew for every device.
    evaluation.charge(pattern.len() as u64)?;
    compile_pattern(pattern).map(|regex| act(&regex)).map_err(EvalError::new)
}

/// Compiles a pattern written for Go's regular expressions.
pub fn compile_pattern(pattern: &str) -> Result<Regex, String> {
    let translated = translate_pattern(pattern);
    RegexBuilder::new(&translated)
        .size_limit(PATTERN_BYTES)
        .nest_limit(250)
        .build()
        .map_err(|_| format!("error parsing regexp: `{pattern}`"))
}

/// Rewrites what Go reads differently: its classes such as `\d` are ASCII only, and inside brackets `[`, `&`, `~` and
/// a second `-` are plain characters.
fn translate_pattern(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut chars = pattern.chars().peekable();
    let mut class_at: Option<usize> = None;
    while let Some(c) = chars.next() {
        match (c, class_at) {
            ('\\', _) => {
                let Some(escaped) = chars.next() else {
                    out.push('\\');
                    break;
                };
                let ascii: Cow<'_, str> = match escaped {
                    'd' => "[0-9]".into(),
                    'D' => "[^0-9]".into(),
                    'w' => "[0-9A-Za-z_]".into(),
                    'W' => "[^0-9A-Za-z_]".into(),
                    's' => r"[\t\n\x0c\r ]".into(),
                    'S' => r"[^\t\n\x0c\r ]".into(),
                    'b' if class_at.is_none() => r"(?-u:\b)".into(),
                    'B' if class_at.is_none() => r"(?-u:\B)".into(),
                    'Q' => {
                        // Everything up to \E is meant literally.
                        let mut literal = String::new();
                        while let Some(c) = chars.next() {
                            if c == '\\' && chars.next_if_eq(&'E').is_some() {
                                break;
                            }
                            literal.push(c);
                        }
                        regex::escape(&literal).into()
                    }
                    other => format!("\\{other}").into(),
                };
                out.push_str(&ascii);
            }
            ('[', None) => {
                out.push('[');
                if chars.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
                class_at = Some(out.len());
            }
            (']', Some(start)) if out.len() > start => {
                out.push(']');
                class_at = None;
            }
            ('[', Some(_)) if chars.peek() == Some(&':') => {
                // A named class, which both know.
                out.push('[');
                for c in chars.by_ref() {
                    out.push(c);
                    if c == ']' {
                        break;
                    }
                }
            }
            ('[' | ']' | '&' | '~', Some(_)) => {
                out.push('\\');
                out.push(c);
            }
            ('-', Some(_)) if chars.peek() == Some(&'-') => out.push_str("\\-"),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_in_go() {
        for (pattern, text, matches) in [
            (r"^\d+$", "123", true),
            (r"^\d+$", "١٢٣", false),
            (r"^\w$", "é", false),
            (r"^[\d_]+$", "1_2", true),
            (r"^[^\d]$", "1", false),
            (r"[[]", "[", true),
            (r"^[a&&b]+$", "a&b", true),
            (r"^[]a]+$", "]a", true),
            (r"^\Qa.b\E$", "a.b", true),
            (r"^\Qa.b\E$", "axb", false),
            (r"[[:alpha:]]+", "abc", true),
            (r"\bfoo\b", "a foo b", true),
        ] {
            let regex = compile_pattern(pattern).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(regex.is_match(text), matches, "{pattern} on {text}");
        }
        assert!(compile_pattern("(").is_err());
        assert!(compile_pattern(&"(".repeat(5000)).is_err());
        assert!(compile_pattern("(((a{1000}){1000}){1000})").is_err());
    }
}
