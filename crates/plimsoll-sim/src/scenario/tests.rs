use super::*;
use crate::workload::testing::file;

const WHOLE: &str = r#"
name = "all of it"
[workload.generate]
kind = "poisson"
hours = 2
[select]
window = "0s..1h"
[[pool]]
name = "n"
count = 3
cpu = "4500m"
memory = "16Gi"
idle_watts = 50
full_watts = 150
price = 0.5
region = "r"
zones = ["a"]
taints = ["k=v:NoSchedule"]
[[pool]]
name = "m"
count = 1
cpu = 8
memory = "8Gi"
watts = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
region = "r"
scaling = { min = 1, max = 5, boot_delay = "2m", idle_after = 600 }
[power]
sleep_after = "5m"
boot_delay = "90s"
[thermal]
limit = 0.9
[carbon.regions]
r = 120
[latency]
to_user = { a = [{ at = "0s", ms = 3 }, { at = "1h", ms = 9 }] }
[usage]
least = 0.1
most = 1
[run]
policies = ["default", "best-fit"]
seeds = [3, 4]
max_wait = "1h"
[[disruption]]
at = "30m"
pool = "n"
kind = "drain"
[failures]
every = "10d"
repair = "1h"
"#;

fn error(text: &str) -> String {
    let prepared = |scenario: Scenario| -> Result<(), String> {
        let fleet = scenario.fleet().map_err(|error| error.to_string())?;
        let trace = scenario.trace(&fleet).map_err(|error| error.to_string())?;
        scenario.prepare(&trace, 1).map(|_| ()).map_err(|error| error.to_string())
    };
    match Scenario::parse(text) {
        Err((line, problem)) => format!("line {}: {problem}", line.unwrap_or(0)),
        Ok(scenario) => prepared(scenario).expect_err("the scenario is wrong"),
    }
}

#[test]
fn a_scenario_says_all_that_a_run_needs() {
    let scenario = Scenario::parse(WHOLE).unwrap();
    let fleet = scenario.fleet().unwrap();
    let prepared = scenario.prepare(&scenario.trace(&fleet).unwrap(), 3).unwrap();
    assert_eq!((fleet.len(), fleet.pools[0].machine.cpu_milli, fleet.pools[1].machine.memory), (4, 4500, 8 << 30));
    assert_eq!(fleet.pools[1].scaling.unwrap().boot_delay.as_secs(), 120);
    assert_eq!(prepared.world.power.boot_delay().as_secs(), 90);
    assert!(prepared.world.price.is_some() && prepared.world.carbon.is_some() && prepared.world.thermal.is_some());
    assert_eq!(prepared.settings.max_wait.unwrap().as_secs(), 3600);
    assert!(prepared.workload.pods.iter().all(|pod| pod.arrival.as_secs() < 3600));
    let outcome = crate::simulation::run(
        prepared.setup(),
        plimsoll_core::policy::by_name("best-fit").unwrap(),
        &mut crate::simulation::Nobody,
    );
    assert!(outcome.unwrap().measures.placed > 0);
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let with = |from: &str, to: &str| error(&WHOLE.replace(from, to));
    for (from, to, expected) in [
        ("count = 3", "cuont = 3", "unknown field `cuont`"),
        ("cpu = \"4500m\"", "cpu = \"many\"", "many"),
        ("sleep_after = \"5m\"", "sleep_after = \"soon\"", "soon"),
        ("kind = \"drain\"", "kind = \"explode\"", "explode"),
        ("pool = \"n\"", "pool = \"x\"", "there is no pool \"x\"; there are n, m"),
        ("name = \"m\"", "name = \"n\"", "another pool of this name"),
        ("memory = \"8Gi\"", "", "memory is missing"),
        ("idle_watts = 50", "", "both idle_watts and full_watts"),
        ("taints = [\"k=v:NoSchedule\"]", "taints = [\"k\"]", "not of the form"),
        ("r = 120", "elsewhere = 120", "there is no region \"r\" in carbon.regions"),
        ("least = 0.1", "least = 5", "more than most"),
        ("limit = 0.9", "limit = -1", "thermal.limit"),
        ("\"best-fit\"", "\"guess\"", "there is no policy \"guess\""),
        ("hours = 2", "hours = -2", "hours is -2"),
        ("kind = \"poisson\"", "kind = \"weekly\"", "weekly"),
        ("[latency]\n", "[latency]\nrepeat = 0\n", "latency.repeat: 0 makes no sense"),
        ("[latency]\n", "[latency]\nrepeat = '1h'\n", "latency.to_user.a: a change after 3600 s never comes"),
    ] {
        let error = with(from, to);
        assert!(error.contains(expected), "{to}: {error}");
    }
    assert!(error("[workload]\nfile = 'absent.csv'").contains("pool: there is none"));
    assert!(with("[power]\n", "[power]\nspeed = 3\n").contains("line "));
}

#[test]
fn files_are_found_beside_the_scenario() {
    let trace = "vm,batch,arrival_s,vcpu,mem_gib,duration_lo_s,duration_hi_s,censored\n0,0,5,1,1,10,20,0\n";
    file("scenario-trace.csv", trace);
    let text = "[workload]\nfile = 'scenario-trace.csv'\npace = 2.0\n[[pool]]\nname = 'n'\ncount = 1\ncpu = 2\nmemory = '4Gi'\nidle_watts = 1\nfull_watts = 2\n";
    let scenario = Scenario::read(&file("scenario.toml", text)).unwrap();
    let trace = scenario.trace(&scenario.fleet().unwrap()).unwrap();
    assert_eq!(scenario.pods(&trace, 1).unwrap().pods.len(), 1);
    let missing = Scenario::read(&file("no.toml", text.replace("scenario-trace", "absent"))).unwrap();
    let error = missing.trace(&missing.fleet().unwrap()).unwrap_err().to_string();
    assert!(error.contains("absent.csv") && error.contains("cannot be read"), "{error}");
}

#[test]
fn the_schema_knows_every_field() {
    let schema = Scenario::schema().to_string();
    for field in ["workload", "sleep_watts", "max_wait", "to_user", "gco2", "spot_price", "carry_over"] {
        assert!(schema.contains(field), "{field}");
    }
}

#[test]
#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
fn examples_are_right() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/scenarios");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let scenario = Scenario::read(&path).unwrap_or_else(|error| panic!("{error}"));
        if scenario.files().iter().any(|file| !file.exists()) {
            eprintln!("skipped: {} names files that are not here", path.display());
            continue;
        }
        let fleet = scenario.fleet().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let trace = scenario.trace(&fleet).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        scenario.prepare(&trace, 1).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        seen += 1;
    }
    assert!(seen >= 2, "{seen} examples were checked");
}

const CLUSTERS: &str = r#"
[workload.generate]
kind = "poisson"
hours = 1
[[cluster]]
name = "a"
traffic = 0.5
[[cluster]]
name = "b"
namespaces = ["batch"]
[[link]]
between = ["b", "a"]
ms = 12
price = 0.1
[[pool]]
name = "n"
count = 3
cpu = 8
memory = "16Gi"
idle_watts = 50
full_watts = 150
cluster = "a"
[[pool]]
name = "m"
count = 3
cpu = 8
memory = "16Gi"
idle_watts = 50
full_watts = 150
cluster = "b"
"#;

#[test]
fn a_scenario_says_which_clusters_there_are_and_how_far_they_are() {
    let scenario = Scenario::parse(CLUSTERS).unwrap();
    let fleet = scenario.fleet().unwrap();
    let prepared = scenario.prepare(&scenario.trace(&fleet).unwrap(), 3).unwrap();
    let all = prepared.world.clusters.as_ref().unwrap();
    let away = all.away(0, 1, std::time::Duration::ZERO);
    assert_eq!((away.ms, away.price), (12.0, 0.05));
    // Nobody is of the namespace that comes from b.
    let homes = prepared.workload.pods.iter().map(|pod| all.home(prepared.workload.templates.first(), pod));
    assert!(homes.into_iter().all(|home| home == Some(0)));
    let policy = plimsoll_core::policy::by_name("home-first").unwrap();
    let outcome = crate::simulation::run(prepared.setup(), policy, &mut crate::simulation::Nobody).unwrap();
    let measures = outcome.measures;
    assert!(measures.away_share.is_some() && measures.transfer_cost.is_some() && measures.latency_mean_ms.is_some());
    assert_eq!(measures.cost, measures.transfer_cost);
}

#[test]
fn clusters_that_make_no_sense_are_refused_with_what_would() {
    let without = |line: &str| CLUSTERS.replace(line, "");
    let cases = [
        (CLUSTERS.replace("cluster = \"b\"", ""), "pool m: there is no cluster \"\"; there are a, b"),
        (CLUSTERS.replace("cluster = \"b\"", "cluster = \"c\""), "pool m: there is no cluster \"c\"; there are a, b"),
        (CLUSTERS.replace("[\"b\", \"a\"]", "[\"b\", \"c\"]"), "link between b and c: there is no cluster \"c\""),
        (CLUSTERS.replace("[\"b\", \"a\"]", "[\"b\", \"b\"]"), "link between b and b: say once"),
        (CLUSTERS.replace("= \"b\"", "= \"a\""), "cluster a: every cluster needs a name of its own"),
        (CLUSTERS.replace("ms = 12", "ms = -1"), "link between b and a: ms: -1 makes no sense"),
        (CLUSTERS.replace("traffic = 0.5", "traffic = -2"), "cluster a: traffic: -2 makes no sense"),
        (
            without("[[link]]\nbetween = [\"b\", \"a\"]\nms = 12\nprice = 0.1\n"),
            "link: there is none between \"a\" and \"b\"",
        ),
    ];
    for (text, expected) in cases {
        let came = error(&text);
        assert!(came.contains(expected), "expected {expected:?}, came {came:?}");
    }
}
