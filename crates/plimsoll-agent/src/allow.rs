//! Whom the agent may talk to: networks and names of hosts. A name is resolved once, each address is checked, and the address that was
//! checked is the one connected to, so that a name that changes its address in between gains nothing.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;
use thiserror::Error;

/// How long a name may take to resolve; resolvers try again after five seconds, which is longer than a caller should wait.
const RESOLVE: Duration = Duration::from_secs(3);

/// Why a host is not talked to.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum Refused {
    /// No suffix of a name fits.
    #[error("{host} is not allowed: no entry of allow.hosts fits; add its name or a suffix such as \".example.com\"")]
    Host {
        /// The name.
        host: String,
    },
    /// The address is in no network.
    #[error("{host} is not allowed: its address {address} is in none of allow.networks; add a network that holds it")]
    Address {
        /// The name, or the address as it was given.
        host: String,
        /// What it resolved to.
        address: IpAddr,
    },
    /// There is no address.
    #[error("{host} cannot be resolved: {why}")]
    Unresolved {
        /// The name.
        host: String,
        /// What the resolver said.
        why: String,
    },
}

/// A network in CIDR notation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Network {
    address: IpAddr,
    prefix: u32,
}

impl Network {
    /// Whether an address is in it. An IPv4 address that is written as IPv6 counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let differ = network.to_bits() ^ address.to_bits();
                differ.checked_shr(Ipv4Addr::BITS - self.prefix).unwrap_or(0) == 0
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let differ = network.to_bits() ^ address.to_bits();
                differ.checked_shr(Ipv6Addr::BITS - self.prefix).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refuse = || format!("{text:?} is not a network; write it like 10.0.0.0/8 or fd00::/8");
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| refuse())?;
        let most = if address.is_ipv4() { Ipv4Addr::BITS } else { Ipv6Addr::BITS };
        let prefix = match prefix {
            Some(prefix) => prefix.parse().map_err(|_| refuse())?,
            None => most,
        };
        if prefix > most { Err(refuse()) } else { Ok(Self { address, prefix }) }
    }
}

impl TryFrom<String> for Network {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl From<Network> for String {
    fn from(network: Network) -> Self {
        network.to_string()
    }
}

/// Whom the agent may talk to; nobody beyond this machine unless told otherwise.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AllowList {
    /// Networks in CIDR notation; the address of a host must be in one of them, however the host was named.
    pub networks: Vec<Network>,
    /// Names: `host.example.com` is that name, `.example.com` every name below, `*` any name. Addresses need no name.
    pub hosts: Vec<String>,
}

impl Default for AllowList {
    fn default() -> Self {
        let loopback_v4 = Network { address: IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), prefix: 8 };
        let loopback_v6 = Network { address: IpAddr::V6(Ipv6Addr::LOCALHOST), prefix: 128 };
        Self { networks: vec![loopback_v4, loopback_v6], hosts: vec!["localhost".to_owned()] }
    }
}

impl AllowList {
    /// Whether a name may be resolved at all.
    fn permits_name(&self, host: &str) -> bool {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        self.hosts.iter().map(|entry| entry.to_ascii_lowercase()).any(|entry| {
            entry == "*"
                || entry == host
                || (entry.starts_with('.') && host.len() > entry.len() && host.ends_with(&entry))
        })
    }

    fn permits(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(address))
    }

    /// Whether a host may be talked to as far as can be said without resolving it.
    pub fn check(&self, host: &str) -> Result<(), Refused> {
        match host.parse::<IpAddr>() {
            Ok(address) if self.permits(address) => Ok(()),
            Ok(address) => Err(Refused::Address { host: host.to_owned(), address }),
            Err(_) if self.permits_name(host) => Ok(()),
            Err(_) => Err(Refused::Host { host: host.to_owned() }),
        }
    }

    /// Those of a host's addresses that are allowed, at least one; connect to these and to no other.
    pub async fn resolve(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, Refused> {
        self.check(host)?;
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        let unresolved = |why: String| Refused::Unresolved { host: host.to_owned(), why };
        let found = tokio::time::timeout(RESOLVE, tokio::net::lookup_host((host, port))).await;
        let found = found.map_err(|_| unresolved(format!("no answer within {} s", RESOLVE.as_secs())))?;
        self.choose(host, found.map_err(|error| unresolved(error.to_string()))?)
    }

    fn choose(&self, host: &str, found: impl Iterator<Item = SocketAddr>) -> Result<Vec<SocketAddr>, Refused> {
        let (allowed, others): (Vec<_>, Vec<_>) = found.partition(|address| self.permits(address.ip()));
        match others.first() {
            _ if !allowed.is_empty() => Ok(allowed),
            Some(address) => Err(Refused::Address { host: host.to_owned(), address: address.ip() }),
            None => Err(Refused::Unresolved { host: host.to_owned(), why: "it has no address".to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn allow(networks: &[&str], hosts: &[&str]) -> AllowList {
        AllowList {
            networks: networks.iter().map(|network| network.parse().unwrap()).collect(),
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
        }
    }

    #[test]
    fn networks_hold_their_addresses_and_no_others() {
        let cases = [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("192.168.1.0/24", "192.168.1.255", true),
            ("192.168.1.0/24", "192.168.2.0", false),
            ("192.168.1.7", "192.168.1.7", true),
            ("192.168.1.7", "192.168.1.6", false),
            ("0.0.0.0/0", "8.8.8.8", true),
            ("0.0.0.0/0", "::1", false),
            ("10.0.0.0/8", "::ffff:10.0.0.1", true),
            ("::/0", "::ffff:10.0.0.1", false),
            ("fd00::/8", "fd12::1", true),
            ("fd00::/8", "fe80::1", false),
        ];
        for (network, address, expected) in cases {
            let network: Network = network.parse().unwrap();
            assert_eq!(network.contains(address.parse().unwrap()), expected, "{network} holds {address}");
        }
    }

    #[test]
    fn what_is_not_a_network_is_refused() {
        for text in ["", "10.0.0.0/33", "::/129", "10.0.0/8", "host/8", "10.0.0.0/-1", "10.0.0.0/"] {
            assert!(text.parse::<Network>().is_err(), "{text:?} was taken for a network");
        }
    }

    #[test]
    fn a_suffix_counts_only_at_a_dot() {
        let list = allow(&[], &[".example.com", "only.test"]);
        for (host, expected) in [
            ("a.example.com", true),
            ("A.Example.COM.", true),
            ("example.com", false),
            ("evilexample.com", false),
            ("a.example.com.evil.net", false),
            ("only.test", true),
            ("not.only.test", false),
        ] {
            assert_eq!(list.permits_name(host), expected, "{host}");
        }
    }

    #[test]
    fn an_allowed_name_with_an_address_elsewhere_is_refused() {
        let list = allow(&["10.0.0.0/8"], &[".example.com"]);
        let metadata: SocketAddr = "169.254.169.254:80".parse().unwrap();
        let error = list.choose("a.example.com", [metadata].into_iter()).unwrap_err();
        assert_eq!(error, Refused::Address { host: "a.example.com".to_owned(), address: metadata.ip() });
        let inside: SocketAddr = "10.1.2.3:80".parse().unwrap();
        assert_eq!(list.choose("a.example.com", [metadata, inside].into_iter()), Ok(vec![inside]));
    }

    #[test]
    fn without_configuration_only_loopback_is_allowed() {
        let list = AllowList::default();
        for host in ["127.0.0.1", "127.9.9.9", "::1", "localhost"] {
            assert_eq!(list.check(host), Ok(()), "{host}");
        }
        for host in ["10.0.0.1", "169.254.169.254", "example.com", "0.0.0.0"] {
            assert!(list.check(host).is_err(), "{host} was allowed");
        }
    }

    proptest! {
        #[test]
        fn a_network_is_written_as_it_is_read(text in "[0-9a-f.:/]{0,24}") {
            if let Ok(network) = text.parse::<Network>() {
                prop_assert_eq!(network.to_string().parse(), Ok(network));
                prop_assert!(network.contains(network.address) || network.address != network.address.to_canonical());
            }
        }

        #[test]
        fn an_address_is_in_a_network_if_its_first_bits_are(network: u32, address: u32, prefix in 0..=32u32) {
            let first = |bits: u32| (0..prefix).map(|bit| bits >> (31 - bit) & 1).collect::<Vec<_>>();
            let found = Network { address: Ipv4Addr::from_bits(network).into(), prefix };
            let expected = first(network) == first(address);
            prop_assert_eq!(found.contains(Ipv4Addr::from_bits(address).into()), expected);
            let near = (network & !(u32::MAX.checked_shr(prefix).unwrap_or(0))) | (address & u32::MAX.checked_shr(prefix).unwrap_or(0));
            prop_assert!(found.contains(Ipv4Addr::from_bits(near).into()));
        }
    }
}
