//! What is measured and how: a target as people write it, taken apart and checked.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::Ipv6Addr;
use thiserror::Error;

/// The longest target: the longest name of a host, a port, and room for a path.
const LONGEST: usize = 512;

/// How a round trip is measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// From the first packet of a TCP connection until it stands.
    #[default]
    Tcp,
    /// From an HTTP request (HEAD, or GET where that is not known) until its answer begins; the connection stands before.
    Http,
    /// An ICMP echo and its reply.
    Icmp,
}

impl Method {
    /// Its name, as in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Http => "http",
            Self::Icmp => "icmp",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a target cannot be understood.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("the target {target:?} cannot be measured by {method}: {why}")]
pub struct Malformed {
    target: String,
    method: Method,
    why: &'static str,
}

/// A target taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// How it is measured.
    pub method: Method,
    /// A name or an address, without brackets.
    pub host: String,
    /// The port; 0 for ICMP.
    pub port: u16,
    /// The path of an HTTP request.
    pub path: String,
}

impl Endpoint {
    /// Takes a target apart: `host:port` for TCP, `http://host:port/path` for HTTP, `host` for ICMP.
    pub fn parse(method: Method, target: &str) -> Result<Self, Malformed> {
        let refuse = |why| Malformed { target: target.chars().take(LONGEST).collect(), method, why };
        if target.len() > LONGEST {
            return Err(refuse("it is longer than 512 characters"));
        }
        // Spaces and line ends would let a target write lines of its own into an HTTP request.
        if target.is_empty() || !target.chars().all(|c| c.is_ascii_graphic()) {
            return Err(refuse("it must be printable ASCII without spaces"));
        }
        let (authority, path) = match method {
            Method::Http => {
                if target.starts_with("https://") {
                    return Err(refuse("TLS is not spoken; measure host:443 by tcp"));
                }
                let rest = target.strip_prefix("http://").unwrap_or(target);
                rest.find('/').map_or((rest, "/"), |slash| rest.split_at(slash))
            }
            Method::Tcp | Method::Icmp => (target, ""),
        };
        let (host, port) = split(authority).ok_or_else(|| refuse("its host or its port is not one"))?;
        let port = match (method, port) {
            (Method::Tcp, None) => return Err(refuse("a port is needed, as in host:443")),
            (Method::Icmp, Some(_)) => return Err(refuse("an echo has no port; name the host alone")),
            (Method::Http, port) => port.unwrap_or(80),
            (_, port) => port.unwrap_or(0),
        };
        Ok(Self { method, host: host.to_owned(), port, path: path.to_owned() })
    }
}

/// The host without brackets, and the port if there is one.
fn split(authority: &str) -> Option<(&str, Option<u16>)> {
    let port = |text: &str| text.parse().ok().filter(|port| *port > 0);
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, after) = rest.split_once(']')?;
        host.parse::<Ipv6Addr>().ok()?;
        return match after.strip_prefix(':') {
            Some(text) => Some((host, Some(port(text)?))),
            None if after.is_empty() => Some((host, None)),
            None => None,
        };
    }
    if authority.parse::<Ipv6Addr>().is_ok() {
        return Some((authority, None));
    }
    let (host, port) = match authority.split_once(':') {
        Some((host, text)) => (host, Some(port(text)?)),
        None => (authority, None),
    };
    let is_name = host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
    (!host.is_empty() && is_name).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn targets_are_taken_apart() {
        let cases = [
            (Method::Tcp, "a.example:443", ("a.example", 443, "")),
            (Method::Tcp, "[::1]:80", ("::1", 80, "")),
            (Method::Http, "http://a.example/x?y=1", ("a.example", 80, "/x?y=1")),
            (Method::Http, "http://[fd00::1]:8080", ("fd00::1", 8080, "/")),
            (Method::Http, "127.0.0.1:81", ("127.0.0.1", 81, "/")),
            (Method::Icmp, "10.0.0.1", ("10.0.0.1", 0, "")),
            (Method::Icmp, "fd00::1", ("fd00::1", 0, "")),
        ];
        for (method, target, (host, port, path)) in cases {
            let expected = Endpoint { method, host: host.to_owned(), port, path: path.to_owned() };
            assert_eq!(Endpoint::parse(method, target), Ok(expected), "{method} {target}");
        }
    }

    #[test]
    fn what_is_no_target_is_refused() {
        let long = "a".repeat(LONGEST + 1);
        let cases = [
            (Method::Tcp, "a.example"),
            (Method::Tcp, "a.example:0"),
            (Method::Tcp, "a.example:65536"),
            (Method::Tcp, "user@a.example:80"),
            (Method::Tcp, ""),
            (Method::Tcp, "[::1:80"),
            (Method::Tcp, &long),
            (Method::Http, "https://a.example/"),
            (Method::Http, "http://a.example/\r\nX: y"),
            (Method::Http, "http:///x"),
            (Method::Icmp, "a.example:80"),
        ];
        for (method, target) in cases {
            assert!(Endpoint::parse(method, target).is_err(), "{method} took {target:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_taken_can_be_written_into_a_request(target in "(http://)?[a-z0-9.:\\[\\]/@ \r\n-]{0,30}|\\PC{0,40}") {
            for method in [Method::Tcp, Method::Http, Method::Icmp] {
                if let Ok(endpoint) = Endpoint::parse(method, &target) {
                    prop_assert!(!endpoint.host.is_empty());
                    prop_assert!(endpoint.host.chars().all(|c| c.is_ascii_graphic() && !"/@[]".contains(c)), "{endpoint:?}");
                    prop_assert!(endpoint.path.chars().all(|c| c.is_ascii_graphic()), "{endpoint:?}");
                    prop_assert_eq!(method == Method::Icmp, endpoint.port == 0);
                }
            }
        }
    }
}
