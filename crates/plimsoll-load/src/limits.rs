//! What a run may ask for at most, and whom it may load.

use crate::plan::Plan;
use plimsoll_agent::allow::{AllowList, Refused};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use thiserror::Error;
use url::Host;

/// Loopback and the networks that belong to whoever uses them; link-local addresses are not among them, since clouds hand out credentials there.
const PRIVATE: [&str; 6] = ["127.0.0.0/8", "::1", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"];

/// Why limits cannot be read, or a scenario is beyond them.
#[derive(Debug, Error)]
pub enum LimitsError {
    /// The file cannot be read.
    #[error("cannot read the limits {}: {source}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The file holds no limits.
    #[error("{} holds no limits of load: {why}", file.display())]
    Malformed {
        /// The file.
        file: PathBuf,
        /// What is wrong, and where.
        why: String,
    },
    /// There are too many users.
    #[error("{asked} users are too many: max_users is {most}; ask for fewer, or raise it in the file of --limits")]
    Users {
        /// How many are asked for.
        asked: u32,
        /// How many may be.
        most: u32,
    },
    /// It takes too long.
    #[error("{asked} seconds are too long: max_seconds is {most}; ask for fewer, or raise it in the file of --limits")]
    Seconds {
        /// How many are asked for.
        asked: u64,
        /// How many may be.
        most: u64,
    },
    /// The target is not allowed.
    #[error("target: {0}, in the file of --limits")]
    Target(Refused),
    /// The target has no address.
    #[error("target: {0}")]
    Unresolved(Refused),
}

/// What a run may ask for at most, and whom it may load.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// The most users at a time.
    pub max_users: u32,
    /// The longest run as planned.
    pub max_seconds: u64,
    /// Who may be loaded: any name, as long as its address is private.
    pub allow: AllowList,
}

impl Default for Limits {
    fn default() -> Self {
        let networks = PRIVATE.iter().filter_map(|network| network.parse().ok()).collect();
        // A thousand users and an hour are what one machine can do, and somebody can wait for.
        Self { max_users: 1000, max_seconds: 3600, allow: AllowList { networks, hosts: vec!["*".to_owned()] } }
    }
}

impl Limits {
    /// Reads a file of TOML.
    pub fn read(file: &Path) -> Result<Self, LimitsError> {
        let unreadable = |source| LimitsError::Unreadable { file: file.to_owned(), source };
        let text = std::fs::read_to_string(file).map_err(unreadable)?;
        toml::from_str(&text).map_err(|error| LimitsError::Malformed { file: file.to_owned(), why: error.to_string() })
    }

    /// The addresses of a plan's target, all of them allowed; users connect to these and to no other.
    pub(crate) async fn admit(&self, plan: &Plan) -> Result<Vec<SocketAddr>, LimitsError> {
        if plan.users() > self.max_users {
            return Err(LimitsError::Users { asked: plan.users(), most: self.max_users });
        }
        if plan.seconds() > self.max_seconds {
            return Err(LimitsError::Seconds { asked: plan.seconds(), most: self.max_seconds });
        }
        let host = match plan.target.host() {
            Some(Host::Domain(name)) => name.to_owned(),
            Some(Host::Ipv4(address)) => address.to_string(),
            Some(Host::Ipv6(address)) => address.to_string(),
            None => String::new(),
        };
        let port = plan.target.port_or_known_default().unwrap_or_default();
        self.allow.resolve(&host, port).await.map_err(|refused| match refused {
            Refused::Unresolved { .. } => LimitsError::Unresolved(refused),
            _ => LimitsError::Target(refused),
        })
    }
}
