//! What is said about files that are wrong.

use super::parse;
use crate::config::{API_VERSION, Configuration, KIND, Position};

/// Every message of `parse(body)` without the name of the file and the two lines of the header.
fn messages(body: &str) -> Vec<String> {
    let errors = parse(body).expect_err(body);
    assert!(errors.to_string().lines().all(|line| line.starts_with("scheduler.yaml")), "{errors}");
    let one = |error: &crate::config::ConfigError| match error.path.as_str() {
        "" => error.message.clone(),
        path => format!("{path}: {}", error.message),
    };
    errors.errors.iter().map(one).collect()
}

#[test]
fn an_error_names_the_file_the_place_the_path_and_what_is_allowed() {
    let body = "profiles:\n- pluginConfig:\n  - name: NodeResourcesFit\n    args:\n      scoringStrategy:\n        type: MostAlocated\n";
    let errors = parse(body).unwrap_err();
    assert_eq!(
        errors.to_string(),
        "scheduler.yaml:8:9: profiles[0].pluginConfig[0].args.scoringStrategy.type: unknown scoring strategy \
         \"MostAlocated\", did you mean \"MostAllocated\"? Allowed: LeastAllocated, MostAllocated, \
         RequestedToCapacityRatio"
    );
    assert_eq!(errors.errors[0].position, Some(Position { line: 8, column: 9 }));
}

#[test]
fn all_errors_are_reported_together_in_the_order_of_the_file() {
    let body =
        "parallelism: 0\nprofiles:\n- schedulerName: a\n  foo: 1\n- schedulerName: a\npodInitialBackoffSeconds: x\n";
    assert_eq!(
        messages(body),
        [
            "parallelism: must be greater than 0",
            "profiles[0].foo: unknown field \"foo\"; allowed: percentageOfNodesToScore, pluginConfig, plugins, \
             schedulerName",
            "profiles[1].schedulerName: \"a\" is already the name of profiles[0]",
            "podInitialBackoffSeconds: expected an integer, found the string \"x\"",
        ]
    );
}

#[test]
fn another_version_or_kind_says_what_is_accepted() {
    for (text, expected) in [
        (
            "apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration\nfoo: 1\n".to_owned(),
            "f:1:1: apiVersion: \"kubescheduler.config.k8s.io/v1beta3\" is not accepted; write \
             \"kubescheduler.config.k8s.io/v1\"",
        ),
        (
            format!("apiVersion: {API_VERSION}\nkind: Pod\n"),
            "f:2:1: kind: \"Pod\" is not accepted; write \"KubeSchedulerConfiguration\"",
        ),
        (
            format!("apiVersion: {API_VERSION}\nkind: [1]\n"),
            "f:2:1: kind: a list is not accepted; write \"KubeSchedulerConfiguration\"",
        ),
        (format!("kind: {KIND}\n"), "f:1:1: apiVersion: required; write \"kubescheduler.config.k8s.io/v1\""),
        (
            String::new(),
            "f: apiVersion: required; write \"kubescheduler.config.k8s.io/v1\"\n\
             f: kind: required; write \"KubeSchedulerConfiguration\"",
        ),
        ("- a\n".to_owned(), "f:1:1: expected a mapping, found a list"),
        (
            "{\"a\": 1,}".to_owned(),
            "f:1:9: invalid JSON: trailing comma (text that begins with '{' is read as JSON, not YAML)",
        ),
        ("a: [\n".to_owned(), "f:2:1: invalid YAML: while parsing a node, did not find expected node content"),
    ] {
        assert_eq!(Configuration::parse("f", &text).unwrap_err().to_string(), expected);
    }
}

#[test]
fn duplicate_keys_are_errors_in_yaml_and_json() {
    assert_eq!(
        parse("leaderElection:\n  leaderElect: true\n  leaderElect: true\n").unwrap_err().to_string(),
        "scheduler.yaml:5:3: leaderElection.leaderElect: the field is set more than once"
    );
    assert_eq!(
        messages("clientConnection: &c {qps: 1}\nleaderElection:\n  <<: {retryPeriod: 1s}\n  retryPeriod: 2s\n"),
        ["leaderElection.retryPeriod: the field is set more than once"]
    );
    let json =
        format!("{{\"apiVersion\": {API_VERSION:?}, \"kind\": {KIND:?}, \"parallelism\": 1, \"parallelism\": 2}}");
    assert_eq!(
        Configuration::parse("f", &json).unwrap_err().to_string(),
        "f: parallelism: the field is set more than once"
    );
}

#[test]
fn fields_outside_profiles_are_checked() {
    const TOP: &str = "apiVersion, clientConnection, delayCacheUntilActive, enableContentionProfiling, \
        enableProfiling, extenders, kind, leaderElection, parallelism, percentageOfNodesToScore, \
        podInitialBackoffSeconds, podMaxBackoffSeconds, profiles";
    for (body, expected) in [
        ("paralelism: 3", format!("paralelism: unknown field \"paralelism\", did you mean \"parallelism\"? Allowed: {TOP}")),
        ("Parallelism: 3", format!("Parallelism: unknown field \"Parallelism\", did you mean \"parallelism\"? Allowed: {TOP}")),
        ("healthzBindAddress: 0.0.0.0", format!("healthzBindAddress: unknown field \"healthzBindAddress\"; allowed: {TOP}")),
        ("parallelism: -1", "parallelism: must be greater than 0".into()),
        ("parallelism: 2147483648", "parallelism: 2147483648 does not fit into 32 bits (-2147483648 to 2147483647)".into()),
        ("parallelism: 1.5", "parallelism: expected an integer, found the number 1.5".into()),
        ("parallelism: '3'", "parallelism: expected an integer, found the string \"3\"".into()),
        ("percentageOfNodesToScore: 101", "percentageOfNodesToScore: must be between 0 and 100".into()),
        ("percentageOfNodesToScore: -1", "percentageOfNodesToScore: must be between 0 and 100".into()),
        ("podInitialBackoffSeconds: 0", "podInitialBackoffSeconds: must be greater than 0".into()),
        ("podInitialBackoffSeconds: 11", "podMaxBackoffSeconds: must not be less than podInitialBackoffSeconds, which is 11".into()),
        ("podMaxBackoffSeconds: 18446744073709551615", "podMaxBackoffSeconds: 18446744073709551615 does not fit into 64 bits (-9223372036854775808 to 9223372036854775807)".into()),
        ("enableProfiling: 1", "enableProfiling: expected true or false, found the integer 1".into()),
        ("clientConnection: {burst: -1}", "clientConnection.burst: must not be negative".into()),
        ("clientConnection: {qps: .inf}", "clientConnection.qps: expected a number, found the number inf".into()),
        ("clientConnection: 5", "clientConnection: expected a mapping, found the integer 5".into()),
        ("leaderElection: {leaseDuration: 5}", "leaderElection.leaseDuration: expected a duration such as \"15s\" or \"1m30s\", found the integer 5".into()),
        ("leaderElection: {leaseDuration: null}", "leaderElection.leaseDuration: expected a duration such as \"15s\" or \"1m30s\", found null".into()),
        ("leaderElection: {retryPeriod: -1s}", "leaderElection.retryPeriod: must be greater than 0".into()),
        ("leaderElection: {renewDeadline: 15s}", "leaderElection.leaseDuration: must be greater than renewDeadline, which is 15s".into()),
        ("leaderElection: {resourceLock: endpoints}", "leaderElection.resourceLock: unknown lock \"endpoints\"; allowed: leases".into()),
        ("profiles: {}", "profiles: expected a list, found a mapping".into()),
    ] {
        assert_eq!(messages(body), [expected], "{body}");
    }
}

#[test]
fn extenders_are_checked() {
    const SYNTAX: &str = "is not an extended resource: one has a domain outside kubernetes.io, as in example.com/gpu, \
        and does not begin with \"requests.\"";
    for (body, expected) in [
        ("- {prioritizeVerb: p}", "extenders[0].weight: must be greater than 0 for an extender with prioritizeVerb".to_owned()),
        ("- {bindVerb: a}\n- {bindVerb: b}", "extenders[1].bindVerb: only one extender may bind; extenders[0] does".into()),
        ("- {managedResources: [{name: cpu}]}", format!("extenders[0].managedResources[0].name: \"cpu\" {SYNTAX}")),
        ("- {managedResources: [{name: a/b/c}]}", "extenders[0].managedResources[0].name: must be a name, or a DNS subdomain and a name with one '/' between them".into()),
        (
            "- {managedResources: [{name: example.com/a}]}\n- {managedResources: [{name: example.com/a}]}",
            "extenders[1].managedResources[0].name: \"example.com/a\" is managed by an extender already".into(),
        ),
        ("- {tlsConfig: {certData: '%'}}", "extenders[0].tlsConfig.certData: expected base64 with padding".into()),
        ("- {httpTimeout: 5}", "extenders[0].httpTimeout: expected a duration such as \"15s\" or \"1m30s\", found the integer 5".into()),
    ] {
        assert_eq!(messages(&format!("extenders:\n{body}\n")), [expected], "{body}");
    }
    assert_eq!(
        messages(
            "extenders: [{managedResources: [{name: example.com/a, ignoredByScheduler: true}]}]\n\
             profiles: [{plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}}]\n"
        ),
        ["extenders: profiles[0] is without NodeResourcesFit, which would have to ignore example.com/a"]
    );
}

#[test]
fn profiles_and_their_plugins_are_checked() {
    const SCORE: &str = "DynamicResources, ImageLocality, InterPodAffinity, NodeAffinity, \
        NodeResourcesBalancedAllocation, NodeResourcesFit, PodTopologySpread, TaintToleration, VolumeBinding";
    let all = crate::config::PluginName::ALL.map(|plugin| plugin.as_str()).join(", ");
    let plugins = |path: &str, message: &str| format!("profiles[0].plugins.{path}: {message}");
    for (body, expected) in [
        ("[{schedulerName: ''}]", "profiles[0].schedulerName: must not be empty".to_owned()),
        ("[{schedulerName: 5}]", "profiles[0].schedulerName: expected a string, found the integer 5".into()),
        ("[{schedulerName: a}, {}]", "profiles[1].schedulerName: required when there are several profiles".into()),
        ("[{percentageOfNodesToScore: 101}]", "profiles[0].percentageOfNodesToScore: must be between 0 and 100".into()),
        (
            "[{plugins: {score: {enabled: [{name: ImageLocallity}]}}}]",
            plugins(
                "score.enabled[0].name",
                &format!("unknown plugin \"ImageLocallity\", did you mean \"ImageLocality\"? Allowed: {SCORE}"),
            ),
        ),
        (
            "[{plugins: {multiPoint: {disabled: [{name: NodeNames}]}}}]",
            plugins(
                "multiPoint.disabled[0].name",
                &format!("unknown plugin \"NodeNames\", did you mean \"NodeName\"? Allowed: *, {all}"),
            ),
        ),
        (
            "[{plugins: {bind: {enabled: [{name: '*'}]}}}]",
            plugins("bind.enabled[0].name", "unknown plugin \"*\"; allowed: DefaultBinder"),
        ),
        (
            "[{plugins: {filter: {enabled: [{name: EBSLimits}]}}}]",
            plugins(
                "filter.enabled[0].name",
                "EBSLimits was removed from Kubernetes; NodeVolumeLimits checks the limits of all volumes",
            ),
        ),
        (
            "[{plugins: {filter: {enabled: [{name: NodeName}, {name: ImageLocality}]}}}]",
            plugins("filter.enabled[1].name", "ImageLocality does not implement filter; it implements: score"),
        ),
        (
            "[{plugins: {score: {enabled: [{name: ImageLocality}, {name: ImageLocality, weight: 2}]}}}]",
            plugins("score.enabled[1].name", "ImageLocality is enabled more than once"),
        ),
        (
            "[{plugins: {multiPoint: {enabled: [{name: NodeAffinity}, {name: NodeAffinity}]}}}]",
            plugins("multiPoint.enabled[0].name", "NodeAffinity is enabled more than once"),
        ),
        (
            "[{plugins: {score: {enabled: [{weight: 2}]}}}]",
            plugins("score.enabled[0].name", "required: the name of a plugin"),
        ),
        (
            "[{plugins: {score: {enabled: [{name: 2}]}}}]",
            plugins("score.enabled[0].name", "expected a string, found the integer 2"),
        ),
        (
            "[{plugins: {score: {disabled: [{name: ''}]}}}]",
            plugins("score.disabled[0].name", "required: the name of a plugin, or \"*\" for all"),
        ),
        (
            "[{plugins: {score: {enabled: [{name: ImageLocality, weight: 2147483648}]}}}]",
            plugins("score.enabled[0].weight", "2147483648 does not fit into 32 bits (-2147483648 to 2147483647)"),
        ),
        (
            "[{plugins: {score: {enabled: [{name: ImageLocality, weight: -2}]}}}]",
            plugins(
                "score",
                "the weights add up to a total score that overflows at TaintToleration; weights must be positive",
            ),
        ),
        (
            "[{plugins: {score: {enable: []}}}]",
            plugins("score.enable", "unknown field \"enable\", did you mean \"enabled\"? Allowed: disabled, enabled"),
        ),
        (
            "[{plugins: {queueSort: {disabled: [{name: '*'}]}}}]",
            plugins("queueSort", "exactly one plugin is required; enable PrioritySort"),
        ),
        (
            "[{plugins: {multiPoint: {disabled: [{name: DefaultBinder}]}}}]",
            plugins("bind", "at least one plugin is required; enable DefaultBinder"),
        ),
        (
            "[{schedulerName: a, plugins: {queueSort: {enabled: [{name: PrioritySort}]}}}, {schedulerName: b}]",
            "profiles[1].plugins.queueSort: must be the same in all profiles; it differs from that of profiles[0]"
                .into(),
        ),
        (
            "[{pluginConfig: [{name: NodeFit}]}]",
            format!("profiles[0].pluginConfig[0].name: unknown plugin \"NodeFit\"; allowed: {all}"),
        ),
        (
            "[{pluginConfig: [{name: NodeAffinity}, {name: NodeAffinity}]}]",
            "profiles[0].pluginConfig[1].name: the arguments of NodeAffinity are given more than once".into(),
        ),
        (
            "[{pluginConfig: [{name: NodeName, args: {a: 1}}]}]",
            "profiles[0].pluginConfig[0].args: NodeName takes no arguments".into(),
        ),
    ] {
        assert_eq!(messages(&format!("profiles: {body}\n")), [expected], "{body}");
    }
}

#[test]
fn arguments_are_checked() {
    const SUBDOMAIN_OR_NAME: &str =
        "must be at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends; found";
    let ratio = |shape: &str| {
        format!("{{scoringStrategy: {{type: RequestedToCapacityRatio, requestedToCapacityRatio: {{shape: {shape}}}}}}}")
    };
    let required = |requirement: &str| {
        let terms = format!("nodeSelectorTerms: [{{matchExpressions: [{requirement}]}}]");
        format!("{{addedAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{{terms}}}}}}}")
    };
    let required_path =
        "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0]";
    let constraint = |constraint: &str| format!("{{defaultingType: List, defaultConstraints: [{constraint}]}}");
    for (plugin, args, expected) in [
        ("DefaultPreemption", "{minCandidateNodesPercentage: 101}".to_owned(), "minCandidateNodesPercentage: must be between 0 and 100".to_owned()),
        ("DefaultPreemption", "{minCandidateNodesAbsolute: -1}".into(), "minCandidateNodesAbsolute: must not be negative".into()),
        (
            "DefaultPreemption",
            "{minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 0}".into(),
            "minCandidateNodesPercentage: must not be 0 while minCandidateNodesAbsolute is 0".into(),
        ),
        ("DefaultPreemption", "{apiVersion: v1}".into(), "apiVersion: \"v1\" is not accepted; leave it out or write \"kubescheduler.config.k8s.io/v1\"".into()),
        ("DefaultPreemption", "{kind: NodeAffinityArgs}".into(), "kind: \"NodeAffinityArgs\" is not accepted; leave it out or write \"DefaultPreemptionArgs\"".into()),
        ("DynamicResources", "{filterTimeout: -1s}".into(), "filterTimeout: must not be negative; 0 is no limit".into()),
        ("DynamicResources", "{bindingTimeout: 999ms}".into(), "bindingTimeout: must be at least 1s".into()),
        ("InterPodAffinity", "{hardPodAffinityWeight: 101}".into(), "hardPodAffinityWeight: must be between 0 and 100".into()),
        ("InterPodAffinity", "{hardPodAffinityWeigth: 1}".into(), "hardPodAffinityWeigth: unknown field \"hardPodAffinityWeigth\", did you mean \"hardPodAffinityWeight\"? Allowed: apiVersion, hardPodAffinityWeight, ignorePreferredTermsOfExistingPods, kind".into()),
        ("NodeResourcesBalancedAllocation", "{resources: [{name: cpu, weight: 2}]}".into(), "resources[0].weight: must be 1: the balance of resources knows no weights".into()),
        ("NodeResourcesBalancedAllocation", "{resources: [{name: cpu}, {name: cpu}]}".into(), "resources[1].name: resource \"cpu\" is listed more than once".into()),
        ("NodeResourcesFit", "{ignoredResources: ['a b']}".into(), format!("ignoredResources[0]: {SUBDOMAIN_OR_NAME} \"a b\"")),
        ("NodeResourcesFit", "{ignoredResourceGroups: [a/b]}".into(), "ignoredResourceGroups[0]: a resource group has no '/'".into()),
        ("NodeResourcesFit", "{scoringStrategy: {}}".into(), "scoringStrategy.type: required; allowed: LeastAllocated, MostAllocated, RequestedToCapacityRatio".into()),
        ("NodeResourcesFit", "{scoringStrategy: {type: 5}}".into(), "scoringStrategy.type: expected a string, found the integer 5".into()),
        ("NodeResourcesFit", "{scoringStrategy: {type: LeastAllocated, resources: [{name: cpu, weight: 101}]}}".into(), "scoringStrategy.resources[0].weight: must be between 1 and 100".into()),
        ("NodeResourcesFit", "{scoringStrategy: {type: RequestedToCapacityRatio}}".into(), "scoringStrategy.requestedToCapacityRatio: required by the type RequestedToCapacityRatio".into()),
        ("NodeResourcesFit", "{scoringStrategy: {type: MostAllocated, requestedToCapacityRatio: {}}}".into(), "scoringStrategy.requestedToCapacityRatio: allowed only with the type RequestedToCapacityRatio".into()),
        ("NodeResourcesFit", ratio("[]"), "scoringStrategy.requestedToCapacityRatio.shape: at least one point is required".into()),
        ("NodeResourcesFit", ratio("[{utilization: 50, score: 1}, {utilization: 50, score: 2}]"), "scoringStrategy.requestedToCapacityRatio.shape[1].utilization: must be greater than that of the point before".into()),
        ("NodeResourcesFit", ratio("[{utilization: 101, score: 1}]"), "scoringStrategy.requestedToCapacityRatio.shape[0].utilization: must be between 0 and 100".into()),
        ("NodeResourcesFit", ratio("[{utilization: 1, score: 11}]"), "scoringStrategy.requestedToCapacityRatio.shape[0].score: must be between 0 and 10".into()),
        ("PodTopologySpread", "{defaultingType: Lists}".into(), "defaultingType: unknown defaulting type \"Lists\", did you mean \"List\"? Allowed: System, List".into()),
        ("PodTopologySpread", "{defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]}".into(), "defaultingType: must be \"List\" when there are defaultConstraints".into()),
        ("PodTopologySpread", constraint("{topologyKey: zone, whenUnsatisfiable: DoNotSchedule}"), "defaultConstraints[0].maxSkew: must be greater than 0".into()),
        ("PodTopologySpread", constraint("{maxSkew: 1, whenUnsatisfiable: DoNotSchedule}"), "defaultConstraints[0].topologyKey: required".into()),
        ("PodTopologySpread", constraint("{maxSkew: 1, topologyKey: Zone_, whenUnsatisfiable: DoNotSchedule}"), format!("defaultConstraints[0].topologyKey: {SUBDOMAIN_OR_NAME} \"Zone_\"")),
        ("PodTopologySpread", constraint("{maxSkew: 1, topologyKey: zone}"), "defaultConstraints[0].whenUnsatisfiable: required; allowed: DoNotSchedule, ScheduleAnyway".into()),
        ("PodTopologySpread", constraint("{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: Schedule}"), "defaultConstraints[0].whenUnsatisfiable: unknown action \"Schedule\"; allowed: DoNotSchedule, ScheduleAnyway".into()),
        ("PodTopologySpread", constraint("{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}"), "defaultConstraints[0].labelSelector: not allowed: the selector of each pod is deduced from what owns it".into()),
        ("PodTopologySpread", constraint("{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, nodeTaintsPolicy: Honour}"), "defaultConstraints[0].nodeTaintsPolicy: unknown policy \"Honour\", did you mean \"Honor\"? Allowed: Honor, Ignore".into()),
        (
            "PodTopologySpread",
            constraint("{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}, {maxSkew: 2, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}"),
            "defaultConstraints[1]: a constraint for \"zone\" with \"DoNotSchedule\" is already there".into(),
        ),
        ("VolumeBinding", "{bindTimeoutSeconds: -1}".into(), "bindTimeoutSeconds: must not be negative".into()),
        ("VolumeBinding", "{shape: []}".into(), "shape: not available: it belongs to the feature StorageCapacityScoring, which is off by default".into()),
        ("NodeAffinity", required("{key: disk, operator: in, values: [a]}"), format!("{required_path}.operator: unknown operator \"in\", did you mean \"In\"? Allowed: In, NotIn, Exists, DoesNotExist, Gt, Lt")),
        ("NodeAffinity", required("{key: '', operator: Exists}"), format!("{required_path}.key: the name must not be empty")),
        ("NodeAffinity", required("{key: disk, operator: In}"), format!("{required_path}.values: at least one value is required by In and NotIn")),
        ("NodeAffinity", required("{key: disk, operator: Exists, values: [a]}"), format!("{required_path}.values: Exists and DoesNotExist take no values")),
        ("NodeAffinity", required("{key: disk, operator: Gt, values: ['1', '2']}"), format!("{required_path}.values: Gt and Lt take exactly one value")),
        ("NodeAffinity", required("{key: disk, operator: Lt, values: [many]}"), format!("{required_path}.values[0]: Gt and Lt compare integers; found \"many\"")),
        ("NodeAffinity", required("{key: disk, operator: In, values: ['a b']}"), format!("{required_path}.values[0]: {SUBDOMAIN_OR_NAME} \"a b\"")),
        ("NodeAffinity", required("{key: disk, operator: In, values: [5]}"), format!("{required_path}.values[0]: expected a string, found the integer 5")),
        (
            "NodeAffinity",
            "{addedAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchFields: [{key: metadata.name, operator: Exists}]}}]}}".into(),
            "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchFields[0].operator: unknown operator for a field \"Exists\"; allowed: In, NotIn".into(),
        ),
        (
            "NodeAffinity",
            "{addedAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchFields: [{key: metadata.name, operator: In, values: [a, b]}]}}]}}".into(),
            "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchFields[0].values: a field is compared with exactly one value".into(),
        ),
    ] {
        let body = format!("profiles: [{{pluginConfig: [{{name: {plugin}, args: {args}}}]}}]\n");
        assert_eq!(messages(&body), [format!("profiles[0].pluginConfig[0].args.{expected}")], "{body}");
    }
}

#[test]
fn a_preference_without_weight_is_not_looked_at() {
    let terms = "[{weight: 0, preference: {matchExpressions: [{key: '', operator: Bogus}]}}]";
    let args = format!("{{addedAffinity: {{preferredDuringSchedulingIgnoredDuringExecution: {terms}}}}}");
    super::configuration(&format!("profiles: [{{pluginConfig: [{{name: NodeAffinity, args: {args}}}]}}]\n"));
}
