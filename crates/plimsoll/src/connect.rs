//! How a cluster is reached.

use anyhow::{Context, Result, bail};
use k8s_openapi::apimachinery::pkg::version::Info;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use plimsoll_kube::api::said;
use plimsoll_kube::rights::{self, Right};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The oldest minor version of Kubernetes 1 that is supported: the first with `resource.k8s.io/v1`.
const OLDEST: u32 = 34;
/// The newest one whose rules are known.
const NEWEST: u32 = 36;

/// Which cluster.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ConnectArgs {
    /// How to reach the cluster; KUBECONFIG, ~/.kube/config or the service account if not given
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

impl ConnectArgs {
    /// How to reach it; `otherwise` is a kubeconfig that is used where none is given.
    pub async fn config(&self, otherwise: Option<&Path>) -> Result<Config> {
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let mut config = match self.kubeconfig.as_deref().or(otherwise) {
            Some(path) => {
                let unusable = || {
                    format!(
                        "kubeconfig {}: it cannot be used; check the file, its contexts and certificates",
                        path.display()
                    )
                };
                let read = Kubeconfig::read_from(path).with_context(unusable)?;
                Config::from_custom_kubeconfig(read, &options).await.with_context(unusable)?
            }
            None if self.context.is_some() => {
                Config::from_kubeconfig(&options).await.context("no cluster is known; give --kubeconfig")?
            }
            None => Config::infer().await.context("no cluster is known; give --kubeconfig")?,
        };
        // Watches are quiet for minutes; the API server ends them.
        config.read_timeout = None;
        Ok(config)
    }
}

/// Chooses who does the cryptography of TLS: where several could, rustls leaves it to the program.
pub fn choose_cryptography() {
    // One that was chosen before is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// A client, whose API server answers and is of a version that is supported.
pub async fn client(config: Config) -> Result<kube::Client> {
    let url = config.cluster_url.clone();
    let client = kube::Client::try_from(config).with_context(|| format!("no client can be made for {url}"))?;
    let version = version_of(&client).await.with_context(|| format!("the API server at {url} does not answer"))?;
    match minor(&version) {
        Some(minor) if minor > NEWEST => {
            tracing::warn!(server = version.git_version, "newer than 1.{NEWEST}, whose rules are followed here");
        }
        Some(minor) if minor >= OLDEST => tracing::info!(server = version.git_version, "connected"),
        _ => bail!(
            "the API server at {url} is {}; 1.{OLDEST} to 1.{NEWEST} are supported: older ones do not serve resource.k8s.io/v1",
            version.git_version
        ),
    }
    Ok(client)
}

/// The minor version of a Kubernetes 1.
fn minor(version: &Info) -> Option<u32> {
    let number = |text: &str| text.trim_end_matches(|c: char| !c.is_ascii_digit()).parse::<u32>().ok();
    number(&version.minor).filter(|_| number(&version.major) == Some(1))
}

/// The minor version of an API server that answered before; the newest that is known if it does not say.
pub async fn minor_of(client: &kube::Client) -> u32 {
    version_of(client).await.ok().as_ref().and_then(minor).unwrap_or(NEWEST)
}

/// How often the API server is asked before it counts as unreachable.
const FIRST_TRIES: u32 = 5;

/// The version of the API server. One that has just started, or is busy, is asked again.
async fn version_of(client: &kube::Client) -> Result<Info, kube::Error> {
    let mut tries = 1;
    loop {
        match client.apiserver_version().await {
            Err(error) if tries < FIRST_TRIES => {
                tracing::warn!(error = said(&error), "the API server does not answer; it is asked again");
                tokio::time::sleep(Duration::from_secs(1)).await;
                tries += 1;
            }
            answered => return answered,
        }
    }
}

/// Leaves what still runs in the background to the end of the process: it has nothing left to do, and a runtime that is taken down under it
/// makes it panic.
pub fn leave(runtime: tokio::runtime::Runtime) {
    std::mem::forget(runtime);
}

/// Says what the API server would refuse before anything is tried.
pub async fn check_rights(client: &kube::Client, needed: Vec<Right>) -> Result<()> {
    match rights::missing(client, needed).await {
        Ok(missing) if missing.is_empty() => Ok(()),
        Ok(missing) => {
            let missing: Vec<_> = missing.iter().map(ToString::to_string).collect();
            bail!(
                "the API server does not allow what a scheduler must do: {}; bind its user to the cluster roles system:kube-scheduler and \
                 system:volume-scheduler, or grant these",
                missing.join(", ")
            )
        }
        Err(error) => {
            let error = said(&error);
            tracing::warn!(
                error,
                "the API server does not say what this user may do; what it refuses will be told as it happens"
            );
            Ok(())
        }
    }
}

/// Says what the API server would refuse that not every scheduler needs.
pub async fn warn_of_missing(client: &kube::Client, of_use: Vec<Right>) {
    // One that does not say was told of before.
    let missing = rights::missing(client, of_use).await.unwrap_or_default();
    if !missing.is_empty() {
        let missing: Vec<_> = missing.iter().map(ToString::to_string).collect();
        tracing::warn!(
            missing = missing.join(", "),
            "pods cannot have devices by extended resources: the API server does not allow what that takes"
        );
    }
}

/// What is logged unless PLIMSOLL_LOG says otherwise: failures of requests are told by who made them.
const DEFAULT_LOGS: &str = "info,kube_client=off";

/// Logs go to standard error; PLIMSOLL_LOG says which, PLIMSOLL_LOG_FORMAT=json makes each a JSON object.
pub fn start_logs() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("PLIMSOLL_LOG").unwrap_or_else(|_| DEFAULT_LOGS.into());
    let is_terminal = std::io::stderr().is_terminal();
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(is_terminal);
    // Somebody may have set up logs before.
    let _ = match std::env::var("PLIMSOLL_LOG_FORMAT").as_deref() {
        Ok("json") => logs.json().try_init(),
        _ => logs.try_init(),
    };
}
