//! `plimsoll train`, `evaluate`, `models` and `tune`, as a user runs them.

#![expect(clippy::unwrap_used, reason = "the harness is test code, too")]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const SCENARIO: &str = r#"
name = "quick"
[workload.generate]
kind = "poisson"
hours = 3
pods_per_hour = 60
[[pool]]
name = "n"
count = 30
cpu = 16
memory = "64Gi"
idle_watts = 50
full_watts = 150
[learn]
description = "for a test"
agent = { name = "blend", generations = GENERATIONS, candidates = 4, heuristics = ["best-fit", "worst-fit"] }
base = "worst-fit"
[learn.train]
samples = [1, 2]
steps = 100000000
[learn.evaluate]
baselines = ["worst-fit", "least-allocated", "lifetime-aware"]
[learn.checkpoint]
every = 0
[learn.tune]
configurations = 3
rounds = 2
[learn.tune.space]
"agent.spread" = { low = 0.1, high = 1, log = true }
"agent.generations" = [1, 2]
"#;

fn command(args: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(args.split_whitespace()).env("NO_COLOR", "1");
    command
}

fn good(args: &str) -> String {
    let Output { status, stdout, stderr } = command(args).output().unwrap();
    assert!(status.success(), "{args}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap() + &String::from_utf8_lossy(&stderr)
}

/// The same on so many threads.
fn on_threads(args: &str, threads: usize) {
    let Output { status, stderr, .. } = command(args).env("RAYON_NUM_THREADS", threads.to_string()).output().unwrap();
    assert!(status.success(), "{args}: {}", String::from_utf8_lossy(&stderr));
}

fn ends(args: &str, code: i32) -> String {
    let Output { status, stdout, stderr } = command(args).output().unwrap();
    let stderr = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(code), "{args}: {} {stderr}", String::from_utf8_lossy(&stdout));
    stderr
}

/// A folder with the scenario in it.
fn folder(name: &str, generations: u32) -> (PathBuf, String) {
    let folder = std::env::temp_dir().join(format!("plimsoll-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let scenario = folder.join("quick.toml");
    std::fs::write(&scenario, SCENARIO.replace("GENERATIONS", &generations.to_string())).unwrap();
    let scenario = scenario.display().to_string();
    (folder, scenario)
}

fn weights(model: &Path) -> Vec<u8> {
    std::fs::read(model.join("model.safetensors")).unwrap()
}

#[test]
fn a_model_is_trained_measured_promoted_and_shown() {
    let (folder, scenario) = folder("learn", 8);
    let model = folder.join("models").join("first");
    let told = good(&format!("train {scenario} --out {} --quiet", model.display()));
    assert!(told.contains("is trained") && told.contains("plimsoll evaluate"), "{told}");
    assert!(!model.join("training").join("checkpoint-000008").exists(), "checkpoints are left");
    let card: Value = serde_json::from_str(&std::fs::read_to_string(model.join("card.json")).unwrap()).unwrap();
    assert_eq!((&card["name"], &card["training"]["agent"]), (&"first".into(), &"blend".into()));
    assert_eq!(card["training"]["windows"][1], "all sample 2");

    let html = folder.join("report.html");
    let args = format!("evaluate {} {scenario} --quiet", model.display());
    let table = good(&format!("{args} --record --html {}", html.display()));
    assert!(table.contains(": significantly better"), "{table}");
    assert!(table.contains("lifetime-aware (told lifetimes)") && table.contains("lower bound"), "{table}");
    assert!(std::fs::read_to_string(html).unwrap().contains("Findings"));
    let found: Value = serde_json::from_str(&good(&format!("{args} --json"))).unwrap();
    assert_eq!((&found["version"], &found["windows"]), (&"plimsoll.dev/evaluation/v1".into(), &1.into()));
    assert_eq!(found["cases"].as_array().unwrap().len(), 10);

    let models = folder.join("models");
    let promoted = good(&format!("models promote {} {scenario} --quiet", model.display()));
    assert!(promoted.contains("first is in use for kwh"), "{promoted}");
    let list = good(&format!("models list {}", models.display()));
    assert!(list.contains("first") && list.contains("kwh") && list.contains("for a test"), "{list}");
    let shown = good(&format!("models show {}", model.display()));
    assert!(shown.contains("best-fit, worst-fit") && shown.contains("kwh:"), "{shown}");
    assert!(shown.contains("kwh (better than ") && shown.contains(", since 2"), "{shown}");
    assert_eq!(good(&format!("models which kwh {}", models.display())).trim(), model.display().to_string());
    let none = ends(&format!("models which node-hours {}", models.display()), 1);
    assert!(none.contains("no model is in use for node_hours"), "{none}");
    // The same once more is no better than the one in use.
    let second = models.join("second");
    good(&format!("train {scenario} --out {} --quiet", second.display()));
    assert_eq!(weights(&model), weights(&second));
    let refused = ends(&format!("models promote {} {scenario} --quiet", second.display()), 1);
    assert!(refused.contains("it is not promoted for kwh: against first"), "{refused}");
}

/// Starts a training and kills it once a file is there.
fn kill(args: &str, file: &Path) {
    let mut child = command(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !file.exists() {
        assert!(child.try_wait().unwrap().is_none(), "training ended before it could be killed");
        std::thread::sleep(Duration::from_millis(1));
    }
    // On Unix this is SIGKILL: nothing is tidied up.
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success());
}

#[test]
fn a_training_that_is_killed_goes_on_and_ends_with_the_same_model() {
    let (folder, scenario) = folder("killed", 40);
    let (whole, killed) = (folder.join("whole"), folder.join("killed"));
    good(&format!("train {scenario} --out {} --quiet", whole.display()));
    let args = format!("train {scenario} --out {} --quiet", killed.display());
    kill(&args, &killed.join("training").join("checkpoint-000003"));
    assert!(!killed.join("model.safetensors").exists());
    let refused = ends(&args, 2);
    assert!(refused.contains("go on with --resume"), "{refused}");
    let other = ends(&format!("{args} --resume --seed 9"), 2);
    assert!(other.contains("it is of another training: seed is \"1\", not \"9\""), "{other}");
    let told = good(&format!("{args} --resume"));
    assert!(told.contains("training goes on from step"), "{told}");
    assert_eq!(weights(&killed), weights(&whole));
    assert!(good(&format!("{args} --resume")).contains("there is nothing to resume"));
}

#[test]
fn a_search_tells_every_trial_and_the_best() {
    let (_, scenario) = folder("tune", 2);
    let told = good(&format!("tune {scenario} --quiet"));
    assert!(told.contains("best: configuration") && told.contains("as the scenario has it"), "{told}");
    let json: Value = serde_json::from_str(&good(&format!("tune {scenario} --quiet --json"))).unwrap();
    assert_eq!(json["trials"].as_array().unwrap().len(), 3 + 1, "{json}");
}

#[test]
fn a_policy_is_measured_like_a_model_and_what_cannot_be_is_said() {
    let (folder, scenario) = folder("said", 1);
    let told = good(&format!("evaluate best-fit {scenario} --quiet --objective node-hours"));
    assert!(told.contains("Machine-hours") && told.contains("best-fit (the model)"), "{told}");
    assert!(ends(&format!("evaluate models/absent {scenario}"), 2).contains("models/absent/card.json"));
    assert!(ends(&format!("evaluate best-fit {scenario} --objective joy"), 2).contains("measure \"joy\" is not known"));
    assert!(
        ends(&format!("evaluate best-fit {scenario} --objective cost --quiet"), 2).contains("cost is not measured")
    );
    let text = std::fs::read_to_string(&scenario).unwrap();
    std::fs::write(folder.join("wrong.toml"), text.replace("[1, 2]", "[1, 1001]")).unwrap();
    let wrong = folder.join("wrong.toml").display().to_string();
    assert!(ends(&format!("scenario check {wrong}"), 2).contains("1001 is trained on, too"));
    let schema: Value = serde_json::from_str(&good("scenario schema")).unwrap();
    assert!(schema["properties"]["learn"]["properties"]["agent"].is_object());
}

/// Six like nodes, and pods that fit on one.
const STEPWISE: &str = r#"
name = "stepwise"
[workload.generate]
kind = "thesis-1"
rounds = 3
pods = 20
[[pool]]
name = "n"
count = 6
cpu = 8
memory = "16Gi"
idle_watts = 60
full_watts = 180
[learn]
agent = { name = "dqn", preset = "thesis", learning_starts = 64, batch = 32 }
network = { name = "deepsets", first = 16, second = 12 }
observation = "plain"
reward = { ee = { load = "cpu" } }
base = "random"
[learn.train]
samples = [1, 2]
steps = 600
[learn.evaluate]
samples = [1001, 1002, 1003]
baselines = ["worst-fit", "random"]
"#;

#[test]
fn a_network_is_trained_step_by_step_decides_and_is_the_same_each_time() {
    let (folder, _) = folder("stepwise", 1);
    let scenario = folder.join("stepwise.toml");
    std::fs::write(&scenario, STEPWISE).unwrap();
    let scenario = scenario.display().to_string();
    let (first, again, other) = (folder.join("first"), folder.join("again"), folder.join("other"));
    let told = good(&format!("train {scenario} --out {} --quiet", first.display()));
    assert!(told.contains("loss") && told.contains("600"), "{told}");
    on_threads(&format!("train {scenario} --out {} --quiet", again.display()), 1);
    good(&format!("train {scenario} --out {} --quiet --seed 2", other.display()));
    assert_eq!(weights(&first), weights(&again));
    assert_ne!(weights(&first), weights(&other));
    let card: Value = serde_json::from_str(&std::fs::read_to_string(first.join("card.json")).unwrap()).unwrap();
    assert_eq!((&card["network"]["kind"], &card["network"]["sizes"]["first"]), (&"deepsets".into(), &16.into()));
    assert_eq!((&card["alone"], &card["node_features"][0]), (&true.into(), &"cpu-free".into()));
    let found: Value =
        serde_json::from_str(&good(&format!("evaluate {} {scenario} --quiet --json", first.display()))).unwrap();
    let mean = |policy: &str| {
        let policies = found["policies"].as_array().unwrap();
        policies.iter().find(|figures| figures["policy"] == policy).unwrap()["mean"].as_f64().unwrap()
    };
    // Where the heuristic stood in for it, chance would have decided, and in the same way.
    assert_ne!(mean("first"), mean("random"), "{found}");
    let said = ends(&format!("train {scenario} --out {} --device abacus", folder.join("none").display()), 2);
    assert!(said.contains("device \"abacus\" is not known") && said.contains("cuda:0"), "{said}");
    let wrong = folder.join("wrong.toml");
    std::fs::write(&wrong, STEPWISE.replace("learning_starts", "lerning_starts")).unwrap();
    let said = ends(&format!("train {} --out {}", wrong.display(), folder.join("wrong").display()), 2);
    assert!(said.contains("learn.agent: unknown field `lerning_starts`, expected one of `steps`"), "{said}");
}

#[test]
fn what_a_training_began_with_is_told_after_an_interruption_too() {
    let (folder, scenario) = folder("parent", 40);
    let (first, second) = (folder.join("first"), folder.join("second"));
    good(&format!("train {scenario} --out {} --quiet", first.display()));
    let args = format!("train {scenario} --out {} --quiet", second.display());
    kill(&format!("{args} --from {}", first.display()), &second.join("training").join("checkpoint-000003"));
    assert!(ends(&args, 2).contains("go on with --resume"));
    good(&format!("{args} --resume"));
    let card: Value = serde_json::from_str(&std::fs::read_to_string(second.join("card.json")).unwrap()).unwrap();
    assert_eq!(card["training"]["parent"]["name"], "first", "{card}");
    assert!(card["training"]["command"].as_str().unwrap().contains("--from"), "{card}");
    // What is trained anew in the same place begins with nothing.
    good(&format!("{args} --replace"));
    let card: Value = serde_json::from_str(&std::fs::read_to_string(second.join("card.json")).unwrap()).unwrap();
    assert!(card["training"]["parent"].is_null(), "{card}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_check_finds_what_training_would_refuse() {
    let (folder, scenario) = folder("checked", 1);
    good(&format!("scenario check {scenario}"));
    let checked = |text: &str| {
        let file = folder.join("wrong.toml");
        std::fs::write(&file, text).unwrap();
        ends(&format!("scenario check {}", file.display()), 2)
    };
    let reward = "reward = { ee = { load = \"cpu\" } }";
    for (from, to, said) in [
        (reward, "reward = \"enrgy\"", "reward \"enrgy\" is not known; there are balance, compress"),
        (reward, "objective = \"placed\"", "no reward counts the objective \"placed\""),
        ("\"plain\"", "\"plane\"", "observation \"plane\" is not known; there are plain, exported"),
        ("\"plain\"", "{ pods = [\"joy\"] }", "feature \"joy\" is not known; there are cpu, memory"),
    ] {
        let text = STEPWISE.replace(from, to);
        assert_ne!(text, STEPWISE, "{from}");
        let found = checked(&text);
        assert!(found.contains(said), "{to}: {found}");
    }
    let text = std::fs::read_to_string(&scenario).unwrap();
    let found = checked(&text.replace("base = ", "reward = \"enrgy\"\nbase = "));
    assert!(found.contains("reward \"enrgy\" is not known"), "{found}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_model_that_is_there_is_replaced_only_if_that_is_said() {
    let (folder, scenario) = folder("replaced", 40);
    let out = folder.join("model");
    let args = format!("train {scenario} --out {} --quiet", out.display());
    good(&args);
    let before = weights(&out);
    let refused = ends(&format!("{args} --seed 9"), 2);
    assert!(refused.contains("there is a model already") && refused.contains("--replace"), "{refused}");
    let refused = ends(&format!("{args} --seed 9 --resume"), 2);
    assert!(refused.contains("of another training (seed is \"1\", not \"9\")"), "{refused}");
    assert_eq!(weights(&out), before);
    good(&format!("{args} --seed 9 --replace"));
    let card: Value = serde_json::from_str(&std::fs::read_to_string(out.join("card.json")).unwrap()).unwrap();
    assert_eq!(card["training"]["seed"], 9);
    // A training that was under way gives way, too.
    kill(&format!("{args} --seed 5 --replace"), &out.join("training").join("checkpoint-000003"));
    good(&format!("{args} --replace"));
    assert_eq!(weights(&out), before);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn variables_count_more_than_the_scenario() {
    let (folder, _) = folder("variables", 1);
    let scenario = folder.join("stepwise.toml");
    std::fs::write(&scenario, STEPWISE.replace("{ ee = { load = \"cpu\" } }", "\"multi-objective\"")).unwrap();
    let train = |name: &str, set: &[(&str, &str)]| {
        let out = folder.join(name);
        let args = format!("train {} --out {} --quiet", scenario.display(), out.display());
        let Output { status, stderr, .. } = command(&args).envs(set.iter().copied()).output().unwrap();
        (status.success(), String::from_utf8_lossy(&stderr).into_owned(), out)
    };
    let (plain, ..) = train("plain", &[]);
    let (energy, ..) = train("energy", &[("REWARD_ENERGY", "5"), ("REWARD_LOAD_BALANCE", "0")]);
    let (rate, ..) = train("rate", &[("LEARNING_RATE", "0.01"), ("EPSILON_DECAY", "0.9")]);
    assert!(plain && energy && rate);
    let made = |name: &str| weights(&folder.join(name));
    assert!(made("energy") != made("plain") && made("rate") != made("plain"));
    let (done, said, _) = train("wrong", &[("REWARD_ENERGY", "much")]);
    assert!(!done && said.contains("REWARD_ENERGY is \"much\""), "{said}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn evolution_gives_the_same_model_each_time_on_any_number_of_threads_and_after_being_killed() {
    let (folder, scenario) = folder("evolution", 1);
    let agent = r#"{ name = "evolution", predictor = { epochs = 1 }, search = { generations = 12, pairs = 3, validate_every = 2 } }"#;
    let text = std::fs::read_to_string(&scenario).unwrap();
    let text: Vec<_> = text.lines().filter(|line| !line.starts_with("steps")).collect();
    let text = text
        .into_iter()
        .map(|line| if line.starts_with("agent") { format!("agent = {agent}") } else { line.to_owned() });
    std::fs::write(&scenario, text.collect::<Vec<_>>().join("\n")).unwrap();
    let model = |name: &str| folder.join(name);
    let args = |name: &str| format!("train {scenario} --out {} --quiet", model(name).display());
    on_threads(&args("one"), 1);
    on_threads(&args("many"), 4);
    kill(&args("killed"), &model("killed").join("training").join("checkpoint-000003"));
    assert!(!model("killed").join("model.safetensors").exists());
    good(&format!("{} --resume", args("killed")));
    good(&format!("{} --seed 2", args("other")));
    let card = |name: &str| -> Value {
        serde_json::from_str(&std::fs::read_to_string(model(name).join("card.json")).unwrap()).unwrap()
    };
    for name in ["many", "killed"] {
        assert_eq!(weights(&model("one")), weights(&model(name)), "{name}");
        for field in ["ranges", "figures"] {
            assert_eq!(card("one")[field], card(name)[field], "{name}: {field}");
        }
    }
    assert_ne!(weights(&model("one")), weights(&model("other")));
}

#[test]
fn training_begins_with_another_model_of_the_same_make() {
    let (folder, scenario) = folder("from", 3);
    let (first, second) = (folder.join("first"), folder.join("second"));
    good(&format!("train {scenario} --out {} --quiet", first.display()));
    let told = good(&format!("train {scenario} --out {} --from {} --quiet", second.display(), first.display()));
    assert!(told.contains(&format!("beginning with {}", first.display())), "{told}");
    let card: Value = serde_json::from_str(&std::fs::read_to_string(second.join("card.json")).unwrap()).unwrap();
    assert!(card["training"]["command"].as_str().unwrap().contains("--from"), "{card}");
    assert_eq!(card["training"]["parent"]["name"], "first");
    let shown = good(&format!("models show {}", first.display()));
    let parent = card["training"]["parent"]["fingerprint"].as_str().unwrap();
    assert!(shown.contains(parent), "{shown}");
    assert!(good(&format!("models show {}", second.display())).contains(&format!("first ({parent})")));
    // Models of another make are refused, with what differs.
    let other =
        std::fs::read_to_string(&scenario).unwrap().replace(r#""best-fit", "worst-fit""#, r#""best-fit", "random""#);
    std::fs::write(folder.join("other.toml"), other.replace("base = \"worst-fit\"", "base = \"best-fit\"")).unwrap();
    let other = folder.join("other.toml");
    let told = ends(
        &format!(
            "train {} --out {} --from {} --quiet",
            other.display(),
            folder.join("third").display(),
            first.display()
        ),
        2,
    );
    assert!(told.contains("features of nodes") && told.contains("worst-fit"), "{told}");
    // Programs are told how far it is.
    let lines =
        good(&format!("train {scenario} --out {} --quiet --progress json --background", folder.join("told").display()));
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert!(first["steps"].as_u64().unwrap() > 0 && first["progress"].as_f64().unwrap() > 0.0, "{first}");
    std::fs::remove_dir_all(&folder).unwrap();
}
