//! The values that come out of files that are right.

use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;

use super::{configuration, parse, profile};
use crate::config::*;

#[test]
fn an_empty_configuration_is_the_default() {
    assert_eq!(configuration(""), Configuration::default());
    assert_eq!(configuration("profiles: []\nextenders: null\n"), Configuration::default());
    let json = json!({"apiVersion": API_VERSION, "kind": KIND});
    assert_eq!(Configuration::from_value("memory", json), Ok(Configuration::default()));
}

#[test]
fn every_field_of_the_configuration_is_read() {
    let read = configuration(
        r#"
parallelism: 4
leaderElection:
  leaderElect: yes
  leaseDuration: 1m
  renewDeadline: 30s
  retryPeriod: 500ms
  resourceLock: leases
  resourceName: plimsoll
  resourceNamespace: scheduling
clientConnection:
  kubeconfig: /etc/kubeconfig
  acceptContentTypes: application/json
  contentType: application/json
  qps: 12.5
  burst: 25
enableProfiling: false
percentageOfNodesToScore: 30
podInitialBackoffSeconds: 2
podMaxBackoffSeconds: 20
delayCacheUntilActive: true
profiles:
- schedulerName: a
  percentageOfNodesToScore: 100
- schedulerName: b
"#,
    );
    let expected = Configuration {
        parallelism: 4,
        leader_election: LeaderElection {
            leader_elect: true,
            lease_duration: Duration::from_secs(60),
            renew_deadline: Duration::from_secs(30),
            retry_period: Duration::from_millis(500),
            resource_lock: "leases".into(),
            resource_name: "plimsoll".into(),
            resource_namespace: "scheduling".into(),
        },
        client_connection: ClientConnection {
            kubeconfig: "/etc/kubeconfig".into(),
            accept_content_types: "application/json".into(),
            content_type: "application/json".into(),
            qps: 12.5,
            burst: 25,
        },
        enable_profiling: false,
        enable_contention_profiling: false,
        percentage_of_nodes_to_score: 30,
        pod_initial_backoff_seconds: 2,
        pod_max_backoff_seconds: 20,
        profiles: vec![
            Profile { scheduler_name: "a".into(), percentage_of_nodes_to_score: Some(100), ..Profile::default() },
            Profile { scheduler_name: "b".into(), ..Profile::default() },
        ],
        extenders: vec![],
        delay_cache_until_active: true,
    };
    assert_eq!(read, expected);
    assert_eq!(read.profile("b"), Some(&read.profiles[1]));
    assert_eq!(read.profile("default-scheduler"), None);
}

#[test]
fn what_is_zero_or_empty_where_that_means_nothing_takes_the_default() {
    let body = "
leaderElection: {leaseDuration: 0s, resourceLock: '', resourceName: ''}
clientConnection: {qps: 0, burst: 0, contentType: ''}
";
    assert_eq!(configuration(body), Configuration::default());
}

#[test]
fn without_election_its_settings_are_not_judged() {
    let read = configuration("leaderElection: {leaderElect: no, renewDeadline: 1h, resourceLock: endpoints}");
    assert_eq!(read.leader_election.renew_deadline, Duration::from_secs(3600));
    assert_eq!(read.leader_election.resource_lock, "endpoints");
}

#[test]
fn extenders_that_may_fail_come_last_and_resources_they_manage_are_ignored_by_every_profile() {
    let read = configuration(
        r#"
extenders:
- urlPrefix: http://first
  ignorable: true
  managedResources:
  - name: example.com/gpu
    ignoredByScheduler: true
  - name: example.com/seen
- urlPrefix: http://second
  filterVerb: filter
  preemptVerb: preempt
  prioritizeVerb: prioritize
  weight: 3
  bindVerb: bind
  enableHTTPS: true
  httpTimeout: 250ms
  nodeCacheCapable: true
  tlsConfig: {insecure: true, serverName: x, certFile: c, keyFile: k, caFile: a, certData: Y2VydA==, keyData: a2V5, caData: Y2E=}
- urlPrefix: http://third
  httpTimeout: -1s
profiles:
- schedulerName: a
  pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [example.com/replaced]}}]
- schedulerName: b
"#,
    );
    let names: Vec<_> = read.extenders.iter().map(|extender| extender.url_prefix.as_str()).collect();
    assert_eq!(names, ["http://second", "http://third", "http://first"]);
    let expected = Extender {
        url_prefix: "http://second".into(),
        filter_verb: "filter".into(),
        preempt_verb: "preempt".into(),
        prioritize_verb: "prioritize".into(),
        weight: 3,
        bind_verb: "bind".into(),
        enable_https: true,
        tls_config: Some(ExtenderTlsConfig {
            insecure: true,
            server_name: "x".into(),
            cert_file: "c".into(),
            key_file: "k".into(),
            ca_file: "a".into(),
            cert_data: b"cert".into(),
            key_data: b"key".into(),
            ca_data: b"ca".into(),
        }),
        http_timeout: Some(Duration::from_millis(250)),
        node_cache_capable: true,
        managed_resources: vec![],
        ignorable: false,
    };
    assert_eq!(read.extenders[0], expected);
    assert_eq!(read.extenders[1].http_timeout, None, "a negative timeout is none");
    assert_eq!(read.extenders[2].http_timeout, Some(Duration::from_secs(5)));
    for profile in &read.profiles {
        assert_eq!(profile.args.node_resources_fit.ignored_resources, ["example.com/gpu"]);
    }
}

#[test]
fn arguments_are_read_and_the_rest_of_them_defaulted() {
    let args = profile(
        r#"
pluginConfig:
- name: DefaultPreemption
  args: {minCandidateNodesPercentage: 0, apiVersion: kubescheduler.config.k8s.io/v1, kind: DefaultPreemptionArgs}
- name: DynamicResources
  args: {filterTimeout: 0s}
- name: InterPodAffinity
  args: {ignorePreferredTermsOfExistingPods: true}
- name: NodeResourcesBalancedAllocation
  args: {resources: [{name: cpu}, {name: example.com/gpu, weight: 1}]}
- name: NodeResourcesFit
  args:
    ignoredResources: [example.com/foo]
    ignoredResourceGroups: [example.org]
    scoringStrategy:
      type: RequestedToCapacityRatio
      resources: [{name: cpu, weight: 0}, {name: memory, weight: 100}]
      requestedToCapacityRatio: {shape: [{utilization: 0, score: 10}, {utilization: 100, score: 0}]}
- name: PodTopologySpread
  args:
    defaultingType: List
    defaultConstraints:
    - {maxSkew: 2, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, minDomains: 3, nodeTaintsPolicy: Honor}
- name: VolumeBinding
  args: {bindTimeoutSeconds: 0}
- name: NodeName
"#,
    )
    .args;
    let resource = |name: &str, weight| ResourceSpec { name: name.into(), weight };
    let expected = PluginArgs {
        default_preemption: DefaultPreemptionArgs {
            min_candidate_nodes_percentage: 0,
            min_candidate_nodes_absolute: 100,
        },
        dynamic_resources: DynamicResourcesArgs { filter_timeout: None, binding_timeout: Duration::from_secs(600) },
        inter_pod_affinity: InterPodAffinityArgs {
            hard_pod_affinity_weight: 1,
            ignore_preferred_terms_of_existing_pods: true,
        },
        node_affinity: NodeAffinityArgs { added_affinity: None },
        node_resources_balanced_allocation: NodeResourcesBalancedAllocationArgs {
            resources: vec![resource("cpu", 1), resource("example.com/gpu", 1)],
        },
        node_resources_fit: NodeResourcesFitArgs {
            ignored_resources: vec!["example.com/foo".into()],
            ignored_resource_groups: vec!["example.org".into()],
            scoring_strategy: ScoringStrategy {
                kind: ScoringStrategyType::RequestedToCapacityRatio(vec![
                    UtilizationShapePoint { utilization: 0, score: 10 },
                    UtilizationShapePoint { utilization: 100, score: 0 },
                ]),
                resources: vec![resource("cpu", 1), resource("memory", 100)],
            },
        },
        pod_topology_spread: PodTopologySpreadArgs {
            default_constraints: vec![k8s_openapi::api::core::v1::TopologySpreadConstraint {
                max_skew: 2,
                topology_key: "zone".into(),
                when_unsatisfiable: "DoNotSchedule".into(),
                min_domains: Some(3),
                node_taints_policy: Some("Honor".into()),
                ..Default::default()
            }],
            defaulting_type: DefaultingType::List,
        },
        volume_binding: VolumeBindingArgs { bind_timeout: Duration::ZERO },
    };
    assert_eq!(args, expected);
}

#[test]
fn an_added_affinity_is_read_as_the_api_has_it() {
    let affinity = json!({
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd", "nvme"]}]},
            {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]},
        ]},
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 5, "preference": {"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["8"]}]}},
        ],
    });
    let value = json!({"apiVersion": API_VERSION, "kind": KIND, "profiles": [
        {"pluginConfig": [{"name": "NodeAffinity", "args": {"addedAffinity": affinity}}]},
    ]});
    let read = Configuration::from_value("memory", value).unwrap();
    let expected = serde_json::from_value(affinity).unwrap();
    assert_eq!(read.profiles[0].args.node_affinity.added_affinity, Some(expected));
}

#[test]
fn yaml_and_json_of_the_same_configuration_are_equal() {
    let yaml = configuration("parallelism: 0x10\nprofiles:\n- plugins:\n    score:\n      disabled: [{name: '*'}]\n");
    let json = r#"{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "parallelism": 16, "profiles": [{"plugins": {"score": {"disabled": [{"name": "*"}]}}}]}"#;
    assert_eq!(Configuration::parse("scheduler.json", json), Ok(yaml));
}

#[test]
fn the_examples_load_and_do_what_they_say() {
    let load = |name: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/config").join(name);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Configuration::parse(name, &text).unwrap_or_else(|errors| panic!("{errors}"))
    };
    let packing = load("bin-packing.yaml");
    let strategy = &packing.profiles[0].args.node_resources_fit.scoring_strategy;
    assert_eq!(strategy.kind, ScoringStrategyType::MostAllocated);
    let balanced = |weighted: &WeightedPlugin| weighted.plugin == PluginName::NodeResourcesBalancedAllocation;
    assert!(!packing.profiles[0].plugins.score.iter().any(balanced));

    let ratio = load("requested-to-capacity-ratio.yaml");
    let strategy = &ratio.profiles[0].args.node_resources_fit.scoring_strategy;
    assert!(matches!(&strategy.kind, ScoringStrategyType::RequestedToCapacityRatio(shape) if shape.len() == 3));

    let two = load("two-profiles.yaml");
    let names: Vec<_> = two.profiles.iter().map(|profile| profile.scheduler_name.as_str()).collect();
    assert_eq!(names, ["default-scheduler", "batch"]);
    assert_ne!(two.profiles[0].plugins.score, two.profiles[1].plugins.score);

    let spread = load("default-spread-constraints.yaml");
    let args = &spread.profiles[0].args.pod_topology_spread;
    assert_eq!((args.defaulting_type, args.default_constraints.len()), (DefaultingType::List, 2));
}

/// Values shaped so that random choices often hit real fields.
fn arbitrary_json() -> impl Strategy<Value = serde_json::Value> {
    let words = "apiVersion|kind|parallelism|profiles|plugins|score|multiPoint|enabled|disabled|name|weight|args|\
                 pluginConfig|schedulerName|NodeResourcesFit|NodeAffinity|PodTopologySpread|scoringStrategy|type|shape|\
                 resources|addedAffinity|defaultConstraints|extenders|managedResources|leaderElection|leaseDuration|\
                 15s|\\*|[a-z\u{0}\u{e4}.\\[\\]]{0,4}";
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        words.prop_map(Into::into),
    ];
    leaf.prop_recursive(8, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
            prop::collection::vec((words, inner), 0..6)
                .prop_map(|fields| serde_json::Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_value_makes_the_reader_panic(fields in prop::collection::vec(("profiles|extenders|leaderElection|[a-z]{3}", arbitrary_json()), 0..4)) {
        let mut object: serde_json::Map<_, _> = fields.into_iter().collect();
        object.insert("apiVersion".into(), API_VERSION.into());
        object.insert("kind".into(), KIND.into());
        let value = serde_json::Value::Object(object);
        let text = serde_json::to_string(&value).unwrap();
        let from_text = Configuration::parse("f", &text);
        // The same text as a YAML document, whose flow style JSON is.
        let from_yaml = Configuration::parse("f", &format!("--- {text}"));
        prop_assert_eq!(from_text.is_ok(), from_yaml.is_ok());
        prop_assert_eq!(from_text.is_ok(), Configuration::from_value("f", value).is_ok());
        if let Err(errors) = from_text {
            prop_assert!(!errors.errors.is_empty() && !errors.to_string().is_empty());
        }
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in ".*") {
        let _ = Configuration::parse("f", &text);
        let _ = parse(&text);
    }

    #[test]
    fn no_text_of_yaml_signs_makes_the_reader_panic(
        signs in prop::collection::vec(
            prop::sample::select(vec!["a", "1", ":", " ", "\n", "-", "?", "|", ">", "&a", "*a", "!", "!!int", "[", "]",
                "{", "}", ",", "'", "\"", "#", "\t", "%", "@", "---", "...", "<<", "\\", "~", "\r", "\u{feff}"]),
            0..40,
        ),
    ) {
        let _ = Configuration::parse("f", &signs.concat());
    }
}

#[test]
fn who_asks_no_extender_has_the_rules_check_what_was_left_to_it() {
    let text = "\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders:
- urlPrefix: http://127.0.0.1:1
  filterVerb: filter
  managedResources:
  - {name: example.com/gpu, ignoredByScheduler: true}
";
    let mut configuration = Configuration::parse("test", text).unwrap();
    let ignored =
        |configuration: &Configuration| configuration.profiles[0].args.node_resources_fit.ignored_resources.clone();
    assert_eq!(ignored(&configuration), ["example.com/gpu"]);
    configuration.leave_out_extenders();
    assert_eq!(ignored(&configuration), [""; 0]);
    assert_eq!(configuration.extenders, []);
}

#[test]
fn plugins_that_nothing_is_made_of_are_found() {
    let text = "\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: gangs
  plugins: {permit: {enabled: [{name: GangScheduling}]}}
";
    let configuration = Configuration::parse("test", text).unwrap();
    assert_eq!(configuration.unfollowed(), [("gangs", PluginName::GangScheduling)]);
    assert_eq!(Configuration::default().unfollowed(), []);
}
