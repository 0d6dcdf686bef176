//! Reads a document as a `KubeSchedulerConfiguration`: each part with its defaults and its checks.

use std::time::Duration;

use super::decode::{Object, object};
use super::document::{Node, Value};
use super::error::{Path, Problems, not_one_of};
use super::merge::{self, Enabled, WrittenPlugins, WrittenSet};
use super::names::extended_resource_problem;
use super::plugin_name::{ExtensionPoint, PluginName};
use super::{
    API_VERSION, ClientConnection, Configuration, DEFAULT_SCHEDULER_NAME, Extender, ExtenderManagedResource,
    ExtenderTlsConfig, KIND, LeaderElection, PluginArgs, Profile, read_args,
};

/// Plugins that earlier versions had. To disable one of them still does nothing and harms nobody.
const REMOVED_PLUGINS: [&str; 4] = ["AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"];

/// An extender that is not heard of for so long has failed.
const DEFAULT_EXTENDER_TIMEOUT: Duration = Duration::from_secs(5);

/// A profile and what of its text later checks need.
struct ReadProfile {
    profile: Profile,
    written: WrittenPlugins,
    /// Whether `pluginConfig` mentions NodeResourcesFit.
    configures_fit: bool,
}

pub(super) fn configuration(document: &Node, problems: &Problems) -> Option<Configuration> {
    if !header(document, problems) {
        return None;
    }
    let defaults = Configuration::default();
    let configuration = object(document, Path::default(), problems, |o| {
        o.string("apiVersion");
        o.string("kind");
        let parallelism = positive(o, "parallelism");
        let leader_election = o.object_or_empty("leaderElection", leader_election);
        let client_connection = o.object_or_empty("clientConnection", client_connection);
        let enable_profiling = o.boolean("enableProfiling").unwrap_or(true);
        // Contention is profiled by default where profiling is.
        let enable_contention_profiling = o.boolean("enableContentionProfiling").unwrap_or(enable_profiling);
        let percentage_of_nodes_to_score = percentage(o).unwrap_or_default();
        let initial_backoff = o.int64("podInitialBackoffSeconds").unwrap_or(1);
        if initial_backoff <= 0 {
            o.report("podInitialBackoffSeconds", "must be greater than 0");
        }
        let max_backoff = o.int64("podMaxBackoffSeconds").unwrap_or(10);
        if max_backoff < initial_backoff {
            let message = format!("must not be less than podInitialBackoffSeconds, which is {initial_backoff}");
            o.report("podMaxBackoffSeconds", message);
        }
        let mut profiles = o.objects("profiles", profile);
        if profiles.is_empty() {
            profiles.push(object(&Node::NULL, o.path().field("profiles").index(0), problems, profile));
        }
        name_profiles(&mut profiles, o);
        check_queue_sort(&profiles, o);
        let extenders = extenders(o, &mut profiles);
        Configuration {
            parallelism: parallelism.unwrap_or(defaults.parallelism),
            leader_election,
            client_connection,
            enable_profiling,
            enable_contention_profiling,
            percentage_of_nodes_to_score,
            pod_initial_backoff_seconds: initial_backoff.unsigned_abs(),
            pod_max_backoff_seconds: max_backoff.unsigned_abs(),
            profiles: profiles.into_iter().map(|read| read.profile).collect(),
            extenders,
            delay_cache_until_active: o.boolean("delayCacheUntilActive").unwrap_or_default(),
        }
    });
    Some(configuration)
}

/// Whether the document is one of ours. If not, nothing else in it can be judged.
fn header(document: &Node, problems: &Problems) -> bool {
    let mut accepted = true;
    for (field, expected) in [("apiVersion", API_VERSION), ("kind", KIND)] {
        let found = match &document.value {
            Value::Object(entries) => entries.iter().find(|entry| entry.key == field).map(|entry| &entry.node.value),
            Value::Null => None,
            other => {
                problems.add(Path::default(), format!("expected a mapping, found {}", other.describe()));
                return false;
            }
        };
        let message = match found {
            Some(Value::String(found)) if found == expected => continue,
            None | Some(Value::Null) => format!("required; write {expected:?}"),
            Some(Value::String(found)) => format!("{found:?} is not accepted; write {expected:?}"),
            Some(found) => format!("{} is not accepted; write {expected:?}", found.describe()),
        };
        problems.add(Path::default().field(field), message);
        accepted = false;
    }
    accepted
}

fn positive(o: &mut Object, name: &'static str) -> Option<u32> {
    let value = o.int32(name)?;
    if value <= 0 {
        o.report(name, "must be greater than 0");
    }
    u32::try_from(value).ok()
}

fn percentage(o: &mut Object) -> Option<u32> {
    let value = o.int32("percentageOfNodesToScore")?;
    if !(0..=100).contains(&value) {
        o.report("percentageOfNodesToScore", "must be between 0 and 100");
    }
    u32::try_from(value).ok()
}

fn leader_election(o: &mut Object) -> LeaderElection {
    let defaults = LeaderElection::default();
    let leader_elect = o.boolean("leaderElect").unwrap_or(defaults.leader_elect);
    let or = |value: Option<String>, default| value.filter(|value| !value.is_empty()).unwrap_or(default);
    let mut duration = |name, default| match o.duration(name) {
        None | Some(0) => default,
        Some(value) => {
            if leader_elect && value < 0 {
                o.report(name, "must be greater than 0");
            }
            Duration::from_nanos(u64::try_from(value).unwrap_or_default())
        }
    };
    let lease_duration = duration("leaseDuration", defaults.lease_duration);
    let renew_deadline = duration("renewDeadline", defaults.renew_deadline);
    let retry_period = duration("retryPeriod", defaults.retry_period);
    if leader_elect && lease_duration <= renew_deadline {
        let message = format!("must be greater than renewDeadline, which is {}s", renew_deadline.as_secs_f64());
        o.report("leaseDuration", message);
    }
    let resource_lock = or(o.string("resourceLock"), defaults.resource_lock);
    if leader_elect && resource_lock != "leases" {
        o.report("resourceLock", not_one_of("lock", &resource_lock, &["leases"]));
    }
    LeaderElection {
        leader_elect,
        lease_duration,
        renew_deadline,
        retry_period,
        resource_lock,
        resource_name: or(o.string("resourceName"), defaults.resource_name),
        resource_namespace: or(o.string("resourceNamespace"), defaults.resource_namespace),
    }
}

fn client_connection(o: &mut Object) -> ClientConnection {
    let defaults = ClientConnection::default();
    let burst = o.int32("burst").filter(|burst| *burst != 0);
    if burst.is_some_and(|burst| burst < 0) {
        o.report("burst", "must not be negative");
    }
    ClientConnection {
        kubeconfig: o.string("kubeconfig").unwrap_or_default(),
        accept_content_types: o.string("acceptContentTypes").unwrap_or_default(),
        content_type: o.string("contentType").filter(|value| !value.is_empty()).unwrap_or(defaults.content_type),
        qps: o.float32("qps").filter(|qps| *qps != 0.0).unwrap_or(defaults.qps),
        burst: burst.and_then(|burst| burst.try_into().ok()).unwrap_or(defaults.burst),
    }
}

fn profile(o: &mut Object) -> ReadProfile {
    let path = o.path().field("plugins");
    let scheduler_name = o.string("schedulerName");
    if scheduler_name.as_deref() == Some("") {
        o.report("schedulerName", "must not be empty");
    }
    let percentage_of_nodes_to_score = percentage(o);
    let written = o.object("plugins", plugins).unwrap_or_default();
    let plugins = merge::merge(&written, &path, o.problems());
    let mut args = PluginArgs::default();
    let mut configured: Vec<PluginName> = Vec::new();
    o.objects("pluginConfig", |o| {
        let all: Vec<_> = PluginName::ALL.iter().map(|plugin| plugin.as_str()).collect();
        let plugin = plugin_name(o, &all);
        let node = o.node("args").unwrap_or(&Node::NULL);
        let Some(plugin) = plugin else { return };
        if configured.contains(&plugin) {
            o.report("name", format!("the arguments of {plugin} are given more than once"));
        }
        configured.push(plugin);
        read_args::read(plugin, node, o.path().field("args"), o.problems(), &mut args);
    });
    ReadProfile {
        profile: Profile {
            scheduler_name: scheduler_name.unwrap_or_default(),
            percentage_of_nodes_to_score,
            plugins,
            args,
        },
        written,
        configures_fit: configured.contains(&PluginName::NodeResourcesFit),
    }
}

fn plugins(o: &mut Object) -> WrittenPlugins {
    let multi_point = o.object("multiPoint", |o| plugin_set(o, None)).unwrap_or_default();
    let points =
        ExtensionPoint::ALL.map(|point| o.object(point.as_str(), |o| plugin_set(o, Some(point))).unwrap_or_default());
    WrittenPlugins { multi_point, points }
}

fn plugin_set(o: &mut Object, point: Option<ExtensionPoint>) -> WrittenSet {
    let allowed = PluginName::ALL.into_iter().filter(|plugin| point.is_none_or(|point| plugin.implements(point)));
    let allowed: Vec<_> = allowed.map(PluginName::as_str).collect();
    let mut index = 0;
    let enabled = o.objects("enabled", |o| {
        let plugin = plugin_name(o, &allowed);
        let weight = o.int32("weight").unwrap_or_default();
        index += 1;
        plugin.map(|plugin| Enabled { plugin, weight, index: index - 1 })
    });
    let mut set = WrittenSet { enabled: enabled.into_iter().flatten().collect(), ..WrittenSet::default() };
    o.objects("disabled", |o| {
        // Without meaning, but a field of every entry.
        o.int32("weight");
        let Some(name) = required_name(o, "required: the name of a plugin, or \"*\" for all") else { return };
        match name.parse() {
            Ok(plugin) => set.disabled.insert(plugin),
            Err(_) if name == "*" => set.all_disabled = true,
            Err(_) if REMOVED_PLUGINS.contains(&name.as_str()) => {}
            Err(_) => {
                let names: Vec<_> = std::iter::once("*").chain(PluginName::ALL.map(PluginName::as_str)).collect();
                o.report("name", not_one_of("plugin", &name, &names));
            }
        }
        set.disabled_names.push(name);
    });
    set
}

/// The plugin an entry is about. `allowed` are the names offered when it is none.
fn plugin_name(o: &mut Object, allowed: &[&str]) -> Option<PluginName> {
    let name = required_name(o, "required: the name of a plugin")?;
    let plugin = name.parse().ok();
    if plugin.is_none() {
        let message = if REMOVED_PLUGINS.contains(&name.as_str()) {
            format!("{name} was removed from Kubernetes; NodeVolumeLimits checks the limits of all volumes")
        } else {
            not_one_of("plugin", &name, allowed)
        };
        o.report("name", message);
    }
    plugin
}

fn required_name(o: &mut Object, message: &str) -> Option<String> {
    match o.string("name") {
        Some(name) if !name.is_empty() => Some(name),
        found => {
            // One of the wrong type was reported when it was read.
            if found.is_some() || !o.has("name") {
                o.report("name", message);
            }
            None
        }
    }
}

/// Gives a single profile without name the default one, and checks that all have different names.
fn name_profiles(profiles: &mut [ReadProfile], o: &Object) {
    let path = |index: usize| o.path().field("profiles").index(index).field("schedulerName");
    if let [only] = profiles
        && only.profile.scheduler_name.is_empty()
    {
        only.profile.scheduler_name = DEFAULT_SCHEDULER_NAME.to_owned();
        return;
    }
    for (index, ReadProfile { profile, .. }) in profiles.iter().enumerate() {
        let name = &profile.scheduler_name;
        if name.is_empty() {
            // One that is there and empty, or of the wrong type, has been reported.
            if !o.problems().any_under(&path(index)) {
                o.problems().add(path(index), "required when there are several profiles");
            }
        } else if let Some(first) = profiles.iter().take(index).position(|other| other.profile.scheduler_name == *name)
        {
            let message = format!("{name:?} is already the name of profiles[{first}]");
            o.problems().add(path(index), message);
        }
    }
}

/// One queue holds the pods of all profiles, so that all must order it in the same way.
fn check_queue_sort(profiles: &[ReadProfile], o: &Object) {
    let Some((first, others)) = profiles.split_first() else { return };
    for (index, other) in others.iter().enumerate() {
        if other.written.at(ExtensionPoint::QueueSort) != first.written.at(ExtensionPoint::QueueSort) {
            let path = o.path().field("profiles").index(index + 1).field("plugins").field("queueSort");
            o.problems().add(path, "must be the same in all profiles; it differs from that of profiles[0]");
        }
    }
}

fn extenders(o: &mut Object, profiles: &mut [ReadProfile]) -> Vec<Extender> {
    let mut binder = None;
    let mut managed: Vec<String> = Vec::new();
    let mut ignored: Vec<String> = Vec::new();
    let mut index = 0;
    let mut extenders = o.objects("extenders", |o| {
        let extender = extender(o, &mut managed);
        let ignored_here = extender.managed_resources.iter().filter(|resource| resource.ignored_by_scheduler);
        ignored.extend(ignored_here.map(|resource| resource.name.clone()));
        if !extender.bind_verb.is_empty() {
            match binder {
                None => binder = Some(index),
                Some(first) => o.report("bindVerb", format!("only one extender may bind; extenders[{first}] does")),
            }
        }
        index += 1;
        extender
    });
    // What extenders take upon themselves replaces what the profiles say, as in Kubernetes.
    if !ignored.is_empty() {
        for (index, read) in profiles.iter_mut().enumerate() {
            if !read.configures_fit && !merge::mentions(&read.written, PluginName::NodeResourcesFit) {
                let message = format!(
                    "profiles[{index}] is without NodeResourcesFit, which would have to ignore {}",
                    ignored.join(", ")
                );
                o.report("extenders", message);
            }
            read.profile.args.node_resources_fit.ignored_resources.clone_from(&ignored);
        }
    }
    extenders.sort_by_key(|extender| extender.ignorable);
    extenders
}

fn extender(o: &mut Object, managed: &mut Vec<String>) -> Extender {
    let prioritize_verb = o.string("prioritizeVerb").unwrap_or_default();
    let weight = o.int64("weight").unwrap_or_default();
    if !prioritize_verb.is_empty() && weight <= 0 {
        o.report("weight", "must be greater than 0 for an extender with prioritizeVerb");
    }
    let managed_resources = o.objects("managedResources", |o| {
        let name = o.string("name").unwrap_or_default();
        if let Some(problem) = extended_resource_problem(&name) {
            o.report("name", problem);
        } else if managed.contains(&name) {
            o.report("name", format!("{name:?} is managed by an extender already"));
        }
        managed.push(name.clone());
        ExtenderManagedResource { name, ignored_by_scheduler: o.boolean("ignoredByScheduler").unwrap_or_default() }
    });
    let http_timeout = match o.duration("httpTimeout") {
        None | Some(0) => Some(DEFAULT_EXTENDER_TIMEOUT),
        // A negative one is no limit, as for Go's HTTP client.
        Some(value) => u64::try_from(value).ok().map(Duration::from_nanos),
    };
    Extender {
        url_prefix: o.string("urlPrefix").unwrap_or_default(),
        filter_verb: o.string("filterVerb").unwrap_or_default(),
        preempt_verb: o.string("preemptVerb").unwrap_or_default(),
        prioritize_verb,
        weight,
        bind_verb: o.string("bindVerb").unwrap_or_default(),
        enable_https: o.boolean("enableHTTPS").unwrap_or_default(),
        tls_config: o.object("tlsConfig", |o| ExtenderTlsConfig {
            insecure: o.boolean("insecure").unwrap_or_default(),
            server_name: o.string("serverName").unwrap_or_default(),
            cert_file: o.string("certFile").unwrap_or_default(),
            key_file: o.string("keyFile").unwrap_or_default(),
            ca_file: o.string("caFile").unwrap_or_default(),
            cert_data: o.bytes("certData").unwrap_or_default(),
            key_data: o.bytes("keyData").unwrap_or_default(),
            ca_data: o.bytes("caData").unwrap_or_default(),
        }),
        http_timeout,
        node_cache_capable: o.boolean("nodeCacheCapable").unwrap_or_default(),
        managed_resources,
        ignorable: o.boolean("ignorable").unwrap_or_default(),
    }
}
