//! `KubeSchedulerConfiguration` (kubescheduler.config.k8s.io/v1) files, read exactly as kube-scheduler does:
//! decoded strictly, defaulted, merged with the default plugins and checked.
//!
//! What comes out, [`Configuration`], is what the engine works with: every default is filled in and the
//! plugins of each extension point stand in the order they run in. Where a file is wrong, [`ConfigErrors`]
//! names every mistake with its place.

mod args;
mod decode;
mod document;
mod error;
mod merge;
mod names;
mod plugin_name;
mod read;
mod read_args;
#[cfg(test)]
mod tests;
mod yaml;

use std::time::Duration;

pub use args::{
    DefaultPreemptionArgs, DefaultingType, DynamicResourcesArgs, InterPodAffinityArgs, NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs, NodeResourcesFitArgs, PluginArgs, PodTopologySpreadArgs, ResourceSpec,
    ScoringStrategy, ScoringStrategyType, UtilizationShapePoint, VolumeBindingArgs,
};
pub use error::{ConfigError, ConfigErrors, Position};
pub use plugin_name::{ExtensionPoint, PluginName, PluginSet, UnknownPlugin};

use document::{Node, SyntaxError};
use error::Problems;

/// The version of the configuration that is read.
pub const API_VERSION: &str = "kubescheduler.config.k8s.io/v1";
/// The kind of object that is read.
pub const KIND: &str = "KubeSchedulerConfiguration";
/// The scheduler of pods that name none.
pub const DEFAULT_SCHEDULER_NAME: &str = "default-scheduler";

/// How a scheduler works: everything a `KubeSchedulerConfiguration` says, with defaults filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct Configuration {
    /// How many nodes are looked at in parallel, at least 1.
    pub parallelism: u32,
    /// Who of several schedulers works.
    pub leader_election: LeaderElection,
    /// How the API server is reached.
    pub client_connection: ClientConnection,
    /// Whether profiling data are served.
    pub enable_profiling: bool,
    /// Whether lock contention is profiled.
    pub enable_contention_profiling: bool,
    /// Share of the nodes that is enough to find feasible, 0 to 100; 0 depends on the size of the cluster.
    /// A profile may have its own.
    pub percentage_of_nodes_to_score: u32,
    /// First wait of a pod that could not be scheduled.
    pub pod_initial_backoff_seconds: u64,
    /// Longest wait of a pod that could not be scheduled.
    pub pod_max_backoff_seconds: u64,
    /// The profiles, at least one, with different names.
    pub profiles: Vec<Profile>,
    /// The extenders in the order they are asked: those that may fail come last.
    pub extenders: Vec<Extender>,
    /// Whether a scheduler that is not the leader leaves its caches empty.
    pub delay_cache_until_active: bool,
}

/// Who of several schedulers works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderElection {
    /// Whether there is an election at all. If not, the rest is without meaning.
    pub leader_elect: bool,
    /// How long a leader that does not renew is still the leader.
    pub lease_duration: Duration,
    /// How long the leader tries to renew before it gives up.
    pub renew_deadline: Duration,
    /// How long to wait between two tries.
    pub retry_period: Duration,
    /// Kind of the lock object: `leases`.
    pub resource_lock: String,
    /// Name of the lock object.
    pub resource_name: String,
    /// Namespace of the lock object.
    pub resource_namespace: String,
}

/// How the API server is reached.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientConnection {
    /// Path of a kubeconfig; empty for the service account of the pod.
    pub kubeconfig: String,
    /// Content types asked for; empty for that of `content_type`.
    pub accept_content_types: String,
    /// Content type of requests.
    pub content_type: String,
    /// Requests a second; negative for no limit.
    pub qps: f32,
    /// Requests that may exceed the rate at once.
    pub burst: u32,
}

/// How the pods of one scheduler name are scheduled.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The `schedulerName` of its pods.
    pub scheduler_name: String,
    /// Overrides that of the configuration.
    pub percentage_of_nodes_to_score: Option<u32>,
    /// What runs, in order.
    pub plugins: EnabledPlugins,
    /// The arguments of the plugins.
    pub args: PluginArgs,
}

/// The plugins that run at each extension point, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each field is an extension point, described there")]
pub struct EnabledPlugins {
    pub pre_enqueue: Vec<PluginName>,
    pub queue_sort: Vec<PluginName>,
    pub pre_filter: Vec<PluginName>,
    pub filter: Vec<PluginName>,
    pub post_filter: Vec<PluginName>,
    pub pre_score: Vec<PluginName>,
    pub score: Vec<WeightedPlugin>,
    pub reserve: Vec<PluginName>,
    pub permit: Vec<PluginName>,
    pub pre_bind: Vec<PluginName>,
    pub bind: Vec<PluginName>,
    pub post_bind: Vec<PluginName>,
    pub placement_generate: Vec<PluginName>,
    pub placement_score: Vec<WeightedPlugin>,
}

/// A plugin whose scores count `weight` times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the description of the type says it")]
pub struct WeightedPlugin {
    pub plugin: PluginName,
    pub weight: i32,
}

/// A service that is asked about nodes by HTTP. A verb that is empty is not supported by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extender {
    /// Where it is; verbs are appended.
    pub url_prefix: String,
    /// Which nodes are feasible.
    pub filter_verb: String,
    /// Which preemption is possible.
    pub preempt_verb: String,
    /// How good nodes are.
    pub prioritize_verb: String,
    /// Multiplies the scores it gives.
    pub weight: i64,
    /// Binds the pod in the scheduler's stead.
    pub bind_verb: String,
    /// Whether it is reached by HTTPS.
    pub enable_https: bool,
    /// How it is reached by HTTPS.
    pub tls_config: Option<ExtenderTlsConfig>,
    /// Longest wait for an answer; `None` for no limit.
    pub http_timeout: Option<Duration>,
    /// Whether it is sent names of nodes only.
    pub node_cache_capable: bool,
    /// If any, only pods that request one of them are sent to it.
    pub managed_resources: Vec<ExtenderManagedResource>,
    /// Whether scheduling goes on without it when it fails.
    pub ignorable: bool,
}

/// A resource that an extender manages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtenderManagedResource {
    /// The resource.
    pub name: String,
    /// Whether NodeResourcesFit leaves it to the extender.
    pub ignored_by_scheduler: bool,
}

/// How an extender is reached by HTTPS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtenderTlsConfig {
    /// Whether its certificate is not checked.
    pub insecure: bool,
    /// Name in its certificate; empty for that of the URL.
    pub server_name: String,
    /// Path of the client's certificate.
    pub cert_file: String,
    /// Path of the client's key.
    pub key_file: String,
    /// Path of the certificates trusted.
    pub ca_file: String,
    /// The client's certificate, before that of `cert_file`.
    pub cert_data: Vec<u8>,
    /// The client's key, before that of `key_file`.
    pub key_data: Vec<u8>,
    /// The certificates trusted, before those of `ca_file`.
    pub ca_data: Vec<u8>,
}

impl Configuration {
    /// Leaves out the extenders, for who does not ask them: the rules then check the resources that were left to them.
    pub fn leave_out_extenders(&mut self) {
        let managed = std::mem::take(&mut self.extenders).into_iter().flat_map(|extender| extender.managed_resources);
        let left: Vec<_> = managed.filter(|resource| resource.ignored_by_scheduler).map(|left| left.name).collect();
        for profile in &mut self.profiles {
            profile.args.node_resources_fit.ignored_resources.retain(|name| !left.contains(name));
        }
    }

    /// The plugins that profiles name and nothing is made of here, with the profile. They belong to features that are off by default.
    pub fn unfollowed(&self) -> Vec<(&str, PluginName)> {
        let mut found = Vec::new();
        for profile in &self.profiles {
            let named: PluginSet = ExtensionPoint::ALL.iter().flat_map(|point| profile.plugins.at(*point)).collect();
            let unfollowed = named.iter().filter(|plugin| plugin.is_unfollowed());
            found.extend(unfollowed.map(|plugin| (profile.scheduler_name.as_str(), plugin)));
        }
        found
    }

    /// Reads the text of a configuration file in YAML or JSON. `source_name` is the file in error messages.
    pub fn parse(source_name: &str, text: &str) -> Result<Self, ConfigErrors> {
        Self::from_document(source_name, Node::parse(text))
    }

    /// Reads a configuration that is already decoded. Duplicate keys cannot be found any more.
    pub fn from_value(source_name: &str, value: serde_json::Value) -> Result<Self, ConfigErrors> {
        Self::from_document(source_name, Node::from_json(value))
    }

    fn from_document(source_name: &str, document: Result<Node, SyntaxError>) -> Result<Self, ConfigErrors> {
        let fail = |errors| Err(ConfigErrors { source: source_name.to_owned(), errors });
        let document = match document {
            Ok(document) => document,
            Err(SyntaxError { position, message }) => {
                return fail(vec![ConfigError { path: String::new(), position, message }]);
            }
        };
        let problems = Problems::default();
        let configuration = read::configuration(&document, &problems);
        match configuration {
            Some(configuration) if problems.is_empty() => Ok(configuration),
            _ => {
                let located = |(path, message): (error::Path, String)| ConfigError {
                    position: document.locate(&path),
                    path: path.to_string(),
                    message,
                };
                let mut errors: Vec<_> = problems.into_inner().into_iter().map(located).collect();
                errors.sort_by_key(|error| error.position.map(|at| (at.line, at.column)));
                fail(errors)
            }
        }
    }

    /// The profile of pods with this scheduler name.
    pub fn profile(&self, scheduler_name: &str) -> Option<&Profile> {
        self.profiles.iter().find(|profile| profile.scheduler_name == scheduler_name)
    }
}

/// The objects of a text that may hold several: YAML documents or JSON values, one after the other. YAML means what it
/// means in a configuration file. `source_name` is the file in error messages.
pub fn parse_objects(source_name: &str, text: &str) -> Result<Vec<serde_json::Value>, ConfigErrors> {
    document::parse_all(text).map_err(|SyntaxError { position, message }| ConfigErrors {
        source: source_name.to_owned(),
        errors: vec![ConfigError { path: String::new(), position, message }],
    })
}

impl Default for Configuration {
    /// What kube-scheduler does without a configuration file.
    fn default() -> Self {
        Self {
            parallelism: 16,
            leader_election: LeaderElection::default(),
            client_connection: ClientConnection::default(),
            enable_profiling: true,
            enable_contention_profiling: true,
            percentage_of_nodes_to_score: 0,
            pod_initial_backoff_seconds: 1,
            pod_max_backoff_seconds: 10,
            profiles: vec![Profile::default()],
            extenders: Vec::new(),
            delay_cache_until_active: false,
        }
    }
}

impl Default for LeaderElection {
    fn default() -> Self {
        Self {
            leader_elect: true,
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            resource_lock: "leases".to_owned(),
            resource_name: "kube-scheduler".to_owned(),
            resource_namespace: "kube-system".to_owned(),
        }
    }
}

impl Default for ClientConnection {
    fn default() -> Self {
        Self {
            kubeconfig: String::new(),
            accept_content_types: String::new(),
            content_type: "application/vnd.kubernetes.protobuf".to_owned(),
            qps: 50.0,
            burst: 100,
        }
    }
}

impl Default for Profile {
    /// The profile `default-scheduler` with the default plugins.
    fn default() -> Self {
        Self {
            scheduler_name: DEFAULT_SCHEDULER_NAME.to_owned(),
            percentage_of_nodes_to_score: None,
            plugins: EnabledPlugins::default(),
            args: PluginArgs::default(),
        }
    }
}

impl Default for EnabledPlugins {
    fn default() -> Self {
        merge::merge(&merge::WrittenPlugins::default(), &error::Path::default(), &Problems::default())
    }
}

impl EnabledPlugins {
    /// The plugins of `point`, in order.
    pub fn at(&self, point: ExtensionPoint) -> Vec<PluginName> {
        let names = |weighted: &[WeightedPlugin]| weighted.iter().map(|weighted| weighted.plugin).collect();
        match point {
            ExtensionPoint::PreEnqueue => self.pre_enqueue.clone(),
            ExtensionPoint::QueueSort => self.queue_sort.clone(),
            ExtensionPoint::PreFilter => self.pre_filter.clone(),
            ExtensionPoint::Filter => self.filter.clone(),
            ExtensionPoint::PostFilter => self.post_filter.clone(),
            ExtensionPoint::PreScore => self.pre_score.clone(),
            ExtensionPoint::Score => names(&self.score),
            ExtensionPoint::Reserve => self.reserve.clone(),
            ExtensionPoint::Permit => self.permit.clone(),
            ExtensionPoint::PreBind => self.pre_bind.clone(),
            ExtensionPoint::Bind => self.bind.clone(),
            ExtensionPoint::PostBind => self.post_bind.clone(),
            ExtensionPoint::PlacementGenerate => self.placement_generate.clone(),
            ExtensionPoint::PlacementScore => names(&self.placement_score),
        }
    }

    /// Every plugin that runs somewhere.
    pub fn all(&self) -> PluginSet {
        ExtensionPoint::ALL.into_iter().flat_map(|point| self.at(point)).collect()
    }
}
