//! Semantic versions, as attributes of a device have them and `semver()` makes them.

use std::cmp::Ordering;

/// A version; build metadata is kept for no purpose but to be allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Semver {
    pub major: u64,
    pub minor: u64,
    pub patch: u64,
    pre: Vec<Identifier>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Identifier {
    Number(u64),
    Text(String),
}

impl Semver {
    /// Reads a version in its strict form; the errors are those Kubernetes' users see.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let major = number("Major", major)?;
        let minor = number("Minor", minor)?;
        let (rest, build) = match rest.split_once('+') {
            Some((rest, build)) => (rest, Some(build)),
            None => (rest, None),
        };
        let (patch, pre) = match rest.split_once('-') {
            Some((patch, pre)) => (patch, Some(pre)),
            None => (rest, None),
        };
        let patch = number("Patch", patch)?;
        let pre = pre.map_or(Ok(Vec::new()), |pre| pre.split('.').map(identifier).collect::<Result<_, _>>())?;
        for part in build.iter().flat_map(|build| build.split('.')) {
            if part.is_empty() {
                return Err("Build meta data is empty".to_owned());
            }
            if !part.bytes().all(allowed) {
                return Err(format!("Invalid character(s) found in build meta data {}", go_quote(part)));
            }
        }
        Ok(Self { major, minor, patch, pre })
    }

    /// Reads a version after forgiving a `v` before it, leading zeros, and a missing minor or patch number.
    pub fn parse_tolerant(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(without_leading_zeros).collect();
        if parts.len() < 3 {
            if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
                return Err("short version cannot contain PreRelease/Build meta data".to_owned());
            }
            parts.resize(3, "0".to_owned());
        }
        Self::parse(&parts.join("."))
    }

    /// Whether neither version comes before the other.
    pub fn same_precedence(&self, other: &Self) -> bool {
        self.precedence(other) == Ordering::Equal
    }

    /// Which version comes first.
    pub fn precedence(&self, other: &Self) -> Ordering {
        let release = (self.major, self.minor, self.patch).cmp(&(other.major, other.minor, other.patch));
        release.then_with(|| match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => compare_identifiers(&self.pre, &other.pre),
        })
    }
}

fn compare_identifiers(a: &[Identifier], b: &[Identifier]) -> Ordering {
    for (a, b) in a.iter().zip(b) {
        let order = match (a, b) {
            (Identifier::Number(a), Identifier::Number(b)) => a.cmp(b),
            (Identifier::Number(_), Identifier::Text(_)) => Ordering::Less,
            (Identifier::Text(_), Identifier::Number(_)) => Ordering::Greater,
            (Identifier::Text(a), Identifier::Text(b)) => a.cmp(b),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    a.len().cmp(&b.len())
}

fn number(what: &str, text: &str) -> Result<u64, String> {
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("Invalid character(s) found in {} number {}", what.to_lowercase(), go_quote(text)));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!("{what} number must not contain leading zeroes {}", go_quote(text)));
    }
    text.parse().map_err(|_| {
        let reason = if text.is_empty() { "invalid syntax" } else { "value out of range" };
        format!("strconv.ParseUint: parsing {}: {reason}", go_quote(text))
    })
}

fn identifier(text: &str) -> Result<Identifier, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if text.bytes().all(|b| b.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            return Err(format!("Numeric PreRelease version must not contain leading zeroes {}", go_quote(text)));
        }
        let value = text.parse();
        return value
            .map(Identifier::Number)
            .map_err(|_| format!("strconv.ParseUint: parsing {}: value out of range", go_quote(text)));
    }
    if !text.bytes().all(allowed) {
        return Err(format!("Invalid character(s) found in prerelease {}", go_quote(text)));
    }
    Ok(Identifier::Text(text.to_owned()))
}

fn allowed(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'-'
}

fn without_leading_zeros(part: &str) -> String {
    if part.len() <= 1 {
        return part.to_owned();
    }
    let trimmed = part.trim_start_matches('0');
    if trimmed.starts_with(|c: char| c.is_ascii_digit()) { trimmed.to_owned() } else { format!("0{trimmed}") }
}

/// A text in quotes, as Go prints it.
pub fn go_quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => quoted.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Semver {
        Semver::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn versions_are_ordered_by_precedence() {
        let ascending = [
            "0.9.9",
            "1.0.0-1",
            "1.0.0-2",
            "1.0.0-10",
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-alpha.beta",
            "1.0.0-rc.1",
            "1.0.0",
            "1.0.1",
            "1.10.0",
            "2.0.0",
        ];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                assert_eq!(version(a).precedence(&version(b)), i.cmp(&j), "{a} against {b}");
            }
        }
        assert!(version("1.0.0+a").same_precedence(&version("1.0.0+b")));
    }

    #[test]
    fn what_is_no_version_is_refused() {
        for text in ["", "1", "1.2", "v1.2.3", "01.2.3", "1.2.3-", "1.2.3-01", "1.2.3+", "1.2.x", "1.2.3-a_b", "1..3"] {
            assert!(Semver::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn tolerance_fills_up_what_is_missing() {
        for (text, strict) in [("v1.0", "1.0.0"), ("01.02.03", "1.2.3"), ("1", "1.0.0"), ("v00.1", "0.1.0")] {
            assert_eq!(Semver::parse_tolerant(text), Ok(version(strict)), "{text}");
        }
        assert!(Semver::parse_tolerant("1.2-alpha").is_err());
    }
}
