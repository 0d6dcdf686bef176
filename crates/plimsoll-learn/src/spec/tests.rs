use super::*;

fn scenario(workload: &str, learn: &str) -> Scenario {
    Scenario::parse(&format!(
        "{workload}\n[[pool]]\nname='n'\ncount=2\ncpu=4\nmemory='8Gi'\nidle_watts=1\nfull_watts=2\n{learn}"
    ))
    .unwrap()
}

const MADE_UP: &str = "[workload.generate]\nkind='poisson'";
const RECORDED: &str = "[workload]\nfile='t.csv'";

fn read(workload: &str, learn: &str) -> Result<LearnSpec, String> {
    LearnSpec::read(&scenario(workload, learn)).map_err(|error| error.to_string())
}

#[test]
fn all_has_a_default() {
    let spec = read(MADE_UP, "[learn]").unwrap();
    assert_eq!(spec, LearnSpec::default());
    let cases = spec.held_out(&scenario(MADE_UP, "[learn]")).unwrap();
    assert_eq!(cases.iter().map(|case| case.sample).collect::<Vec<_>>(), (1001..=1010).collect::<Vec<_>>());
    assert_eq!(cases[0].label(), "all");
}

#[test]
fn options_are_passed_on_with_the_name_taken_out() {
    let spec = read(
        MADE_UP,
        "[learn.agent]\nname='ppo'\nclip=0.2\n[learn.reward]\nenergy=1\n[learn.network]\nname='deepsets'",
    )
    .unwrap();
    assert_eq!((spec.agent.name.as_str(), spec.network.name.as_str()), ("ppo", "deepsets"));
    assert_eq!(spec.agent.options["clip"].as_float(), Some(0.2));
    assert_eq!(spec.reward.unwrap()["energy"].as_integer(), Some(1));
}

#[test]
fn what_is_wrong_is_named_with_what_would_be_right() {
    let cases = [
        ("[learn]\nagent='sarsa'", "learn.agent: agent \"sarsa\" is not known; there are qtable, dqn"),
        ("[learn]\nnetwork='x'", "learn.network: network \"x\" is not known; there are factored"),
        ("[learn]\nbase='x'", "learn.base: policy \"x\" is not known; there are expected-hours, expected-energy"),
        ("[learn]\nobjective='joy'", "measure \"joy\" is not known; there are active_nodes_ratio"),
        ("[learn]\nobjective='cpu-spread'", "say learn.better = \"less\" or \"more\""),
        ("[learn]\nbetter='more'", "learn.better: the other way round is better of kwh"),
        ("[learn]\nsteps=1", "learn: unknown field `steps`, expected one of"),
        ("[learn.agent]\nclip=1", "learn.agent: name is missing"),
        ("[learn.evaluate]\nbaselines=['x']", "learn.evaluate.baselines: policy \"x\" is not known"),
        ("[learn.evaluate]\nrun_up='soon'", "learn.evaluate.run_up: \"soon\" is no time"),
        ("[learn.evaluate]\nsamples=[1, 7]", "learn.evaluate.samples: 1 is trained on, too"),
        ("[learn.evaluate]\nfrom='1d'", "learn.evaluate: from and to go together"),
        ("[learn.evaluate]\nwindows=['1d..']", "learn.evaluate.windows: 86400.. has no end"),
        (
            "[learn.train]\nwindow='..1d'\n[learn.evaluate]\nwindows=['1d..3d','2d..4d']",
            "86400..259200 and 172800..345600 overlap",
        ),
        ("[learn.evaluate]\nfrom='2d'\nto='1d'", "learn.evaluate: it ends at 1d, before it begins at 2d"),
        (
            "[learn.tune.space]\n'agent.rate'={low=0,high=1,log=true}",
            "learn.tune.space.agent.rate: a log range begins above zero",
        ),
        ("[learn.tune.space]\n'agent.rate'=[]", "there is nothing to choose from"),
        ("[learn.tune]\nvalidation=1.5", "learn.tune.validation: 1.5 is no share"),
    ];
    for (learn, expected) in cases {
        let error = read(MADE_UP, learn).unwrap_err();
        assert!(error.contains(expected), "{learn}\nexpected {expected}\ncame     {error}");
    }
    let error = LearnSpec::read(&scenario(MADE_UP, "")).unwrap_err().to_string();
    assert!(error.contains("has no [learn] section"), "{error}");
}

#[test]
fn nothing_is_measured_on_what_was_learned_from() {
    let evaluate = "[learn.evaluate]\nfrom='20d'\nto='30d'";
    let error = read(RECORDED, &format!("[learn.train]\nwindow='..21d'\n{evaluate}")).unwrap_err();
    assert!(error.contains("begins at 20d, before training ends at 21d"), "{error}");
    let error = read(RECORDED, evaluate).unwrap_err();
    assert!(error.contains("before training ends at the end of the workload"), "{error}");
    let spec = read(RECORDED, &format!("[learn.train]\nwindow='..20d'\n{evaluate}")).unwrap();
    let cases = spec.held_out(&scenario(RECORDED, "")).unwrap();
    assert_eq!(cases.len(), 10);
    assert_eq!((cases[0].label().as_str(), cases[9].label().as_str()), ("1728000..1814400", "2505600..2592000"));
    let error = read(RECORDED, "[learn]").unwrap().held_out(&scenario(RECORDED, "")).unwrap_err().to_string();
    assert!(error.contains("learn.evaluate: a recorded workload is measured on windows"), "{error}");
}

#[test]
fn a_run_starts_with_its_run_up_and_measures_its_window_alone() {
    let learn = |more: &str| format!("[learn.train]\nwindow='..6h'\n[learn.evaluate]\nwindows=['6h..8h']\n{more}");
    let held_out = |more: &str| {
        let scenario = scenario(MADE_UP, &learn(more));
        LearnSpec::read(&scenario).unwrap().held_out(&scenario).unwrap()[0].scenario(&scenario)
    };
    let whole = held_out("");
    assert_eq!(whole.select.window.unwrap().to_string(), "0..28800");
    assert_eq!((whole.run.horizon, whole.run.warmup), (Some(Time(Duration::from_secs(28_800))), 0.75));
    assert!(!whole.select.carry_over);
    let short = held_out("run_up='2h'");
    assert_eq!(short.select.window.unwrap().to_string(), "14400..28800");
    assert_eq!((short.run.warmup, short.select.carry_over), (0.5, true));
}

#[test]
fn a_window_beyond_the_last_arrival_is_refused() {
    let own = scenario(RECORDED, "[learn.train]\nwindow='..1d'\n[learn.evaluate]\nwindows=['1d..2d']");
    let case = LearnSpec::read(&own).unwrap().held_out(&own).unwrap()[0];
    let hours = |hours: u64| Duration::from_secs(hours * 3600);
    assert!(case.check_span(hours(48)).is_ok() && case.check_span(hours(46)).is_ok());
    let error = case.check_span(hours(36)).unwrap_err().to_string();
    assert!(error.contains("86400..172800 ends at 2d, but the last pod arrives at 36h"), "{error}");
}

#[test]
fn a_search_is_judged_on_the_end_of_the_training_data() {
    let own = scenario(RECORDED, "[learn.train]\nwindow='..10d'\n[learn.evaluate]\nfrom='10d'\nto='20d'");
    let (first, cases) = LearnSpec::read(&own).unwrap().split(&own).unwrap();
    assert_eq!(first.train.window.unwrap().to_string(), "0..691200");
    assert_eq!((cases.len(), cases[0].label().as_str()), (10, "691200..708480"));
    let own = scenario(MADE_UP, "[learn.train]\nsamples=[1,2,3]");
    let (first, cases) = LearnSpec::read(&own).unwrap().split(&own).unwrap();
    assert_eq!(first.train.samples, [1, 2]);
    assert_eq!(cases.iter().map(|case| case.sample).collect::<Vec<_>>(), [3]);
    let own = scenario(MADE_UP, "[learn]");
    let error = LearnSpec::read(&own).unwrap().split(&own).unwrap_err().to_string();
    assert!(error.contains("learn.train.samples: 1 cannot be split"), "{error}");
}

#[test]
fn the_fingerprint_is_of_what_training_depends_on() {
    let hash = |learn: &str| fingerprint(&scenario(MADE_UP, learn)).unwrap();
    let plain = hash("[learn]\nagent='dqn'");
    assert_eq!(
        plain,
        hash("[learn]\nagent='dqn'\nseed=4\n[learn.evaluate]\nsamples=[9]\n[learn.checkpoint]\nevery='1s'")
    );
    assert_ne!(plain, hash("[learn]\nagent='ppo'"));
    let error = fingerprint(&scenario(RECORDED, "[learn]")).unwrap_err().to_string();
    assert!(error.contains("t.csv"), "{error}");
}

#[test]
fn every_field_is_in_the_schema_with_its_meaning() {
    let schema = LearnSpec::schema();
    for (name, field) in schema["properties"].as_object().unwrap() {
        assert!(field["description"].is_string(), "{name} has no description: {field}");
    }
}
