use super::fixture::Fixture;
use super::*;
use proptest::prelude::*;

const WINDOW: Duration = Duration::from_millis(100);
const UID: &str = "1b4e28ba-2fa1-11d2-883f-0016d3cca427";
const POD: &str = "kubepods.slice/kubepods-pod1b4e28ba_2fa1_11d2_883f_0016d3cca427.slice";

fn energy(fixture: &Fixture, curve: Option<Curve>) -> Energy {
    let config = EnergyConfig {
        powercap: fixture.powercap(),
        proc: fixture.proc(),
        cgroup: fixture.cgroups(),
        max_followed: 4,
        curve,
        ..EnergyConfig::default()
    };
    Energy::new(&config)
}

fn close(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= expected.abs() * 0.01 + 1e-9
}

/// Two packages with all kinds of parts, and two processes.
fn node() -> Fixture {
    let fixture = Fixture::new();
    for (folder, name) in [
        ("intel-rapl:0", "package-0"),
        ("intel-rapl:0/intel-rapl:0:0", "core"),
        ("intel-rapl:0/intel-rapl:0:1", "uncore"),
        ("intel-rapl:0/intel-rapl:0:2", "dram"),
        ("intel-rapl:1", "package-1"),
        ("intel-rapl:2", "psys"),
    ] {
        fixture.zone(folder, name, 10_000_000, 9_000_000);
    }
    fixture.total(0, 0);
    fixture.process(1, "one", 0, 0, 5);
    fixture.process(2, "two", 0, 0, 6);
    fixture
}

#[test]
fn parts_are_not_counted_twice_and_power_is_right_across_a_wrap() {
    let fixture = node();
    let energy = energy(&fixture, None);
    energy.sample(Duration::ZERO);
    // Each counter goes on by 2 J, and begins anew at 10 J on the way; the parts by what would be seen if they were added.
    for folder in ["intel-rapl:0", "intel-rapl:0/intel-rapl:0:0", "intel-rapl:1", "intel-rapl:2"] {
        fixture.energy(folder, 1_000_000);
    }
    fixture.energy("intel-rapl:0/intel-rapl:0:2", 9_500_000);
    fixture.total(10, 10);
    energy.sample(WINDOW);
    let report = energy.report();
    assert_eq!(report.source, Source::Rapl);
    assert!(close(report.joules.unwrap(), 4.5), "two packages of 2 J and 0.5 J of DRAM: {report:?}");
    assert!(close(report.watts.unwrap(), 45.0), "{report:?}");
    let counted: Vec<&str> = report.zones.iter().filter(|zone| zone.counted).map(|zone| zone.zone.as_str()).collect();
    assert_eq!(counted, ["package-0", "package-0/dram", "package-1"]);
    let psys = report.zones.iter().find(|zone| zone.zone == "psys").unwrap();
    assert!(close(psys.joules, 2.0), "psys is shown though it is not added");
}

#[test]
fn a_process_of_known_share_gets_that_share() {
    let fixture = node();
    let energy = energy(&fixture, None);
    energy.sample(Duration::ZERO);
    let (one, two) = (Subject::Process(1), Subject::Process(2));
    energy.follow(&one).unwrap();
    energy.follow(&two).unwrap();
    energy.sample(WINDOW);
    fixture.energy("intel-rapl:0", 500_000);
    fixture.total(8, 12);
    fixture.process(1, "one", 1, 1, 5);
    fixture.process(2, "two", 6, 0, 6);
    energy.sample(2 * WINDOW);
    let (one, two) = (energy.attributed(&one).unwrap(), energy.attributed(&two).unwrap());
    // 1.5 J in 100 ms are 15 W: a quarter and three quarters of it.
    assert!(close(one.milliwatts, 3750.0), "{one:?}");
    assert!(close(two.milliwatts, 11_250.0), "{two:?}");
    assert!(close(one.joules + two.joules, 1.5));
    assert!(close(one.cpu_share, 0.25));
}

#[test]
fn a_pod_is_found_by_its_uid_and_gets_its_share() {
    let fixture = node();
    fixture.cgroup("", 1_000);
    fixture.cgroup(POD, 500);
    let energy = energy(&fixture, None);
    energy.sample(Duration::ZERO);
    fixture.energy("intel-rapl:0", 0);
    fixture.total(10, 10);
    fixture.cgroup("", 101_000);
    fixture.cgroup(POD, 40_500);
    energy.sample(WINDOW);
    let report = energy.attributed(&Subject::Pod(UID.to_owned())).unwrap();
    assert!(close(report.milliwatts, 4000.0), "40 % of 10 W: {report:?}");
    let cgroup = Subject::Cgroup(POD.into());
    energy.follow(&cgroup).unwrap();
    energy.sample(2 * WINDOW);
    fixture.energy("intel-rapl:0", 1_000_000);
    fixture.total(20, 20);
    fixture.cgroup("", 201_000);
    fixture.cgroup(POD, 90_500);
    energy.sample(3 * WINDOW);
    assert!(close(energy.attributed(&cgroup).unwrap().milliwatts, 5000.0), "the same by its path");
    assert_eq!(energy.report().pods.len(), 1);
}

#[test]
fn a_pod_that_is_gone_is_followed_no_more() {
    let fixture = node();
    fixture.cgroup(POD, 500);
    let energy = energy(&fixture, None);
    energy.sample(Duration::ZERO);
    assert_eq!(energy.report().pods.len(), 1);
    std::fs::remove_dir_all(fixture.cgroups().join(POD)).unwrap();
    energy.sample(WINDOW);
    assert_eq!(energy.report().pods.len(), 0);
    let error = energy.follow(&Subject::Pod(UID.to_owned())).unwrap_err();
    assert!(matches!(error, EnergyError::NoPod { .. }), "{error}");
}

#[test]
fn another_process_with_the_same_number_is_another() {
    let fixture = node();
    let energy = energy(&fixture, None);
    energy.follow(&Subject::Process(1)).unwrap();
    energy.sample(Duration::ZERO);
    fixture.process(1, "other", 50, 0, 77);
    fixture.total(100, 0);
    energy.sample(WINDOW);
    assert!(energy.attributed(&Subject::Process(1)).is_none(), "the account ended with its process");
}

#[test]
fn who_is_not_there_is_named() {
    let fixture = node();
    let energy = energy(&fixture, None);
    let cases = [
        (Subject::Process(99), "process 99"),
        (Subject::Cgroup("no/such".into()), "no/such"),
        (Subject::Cgroup("../proc".into()), "../proc"),
        (Subject::Cgroup("/etc".into()), "/etc"),
        (Subject::Pod("no-such-uid".to_owned()), "no-such-uid"),
        (Subject::Pod("../..".to_owned()), "../.."),
    ];
    for (subject, expected) in cases {
        let error = energy.follow(&subject).unwrap_err().to_string();
        assert!(error.contains(expected), "expected {expected:?} in {error:?}");
    }
}

#[test]
fn only_so_many_are_followed_and_not_forever() {
    let fixture = node();
    let energy = energy(&fixture, None);
    for pid in 1..=5 {
        fixture.process(pid, "x", 0, 0, 1);
    }
    energy.sample(Duration::ZERO);
    (1..=4).for_each(|pid| energy.follow(&Subject::Process(pid)).unwrap());
    assert!(matches!(energy.follow(&Subject::Process(5)), Err(EnergyError::TooMany(4))));
    energy.follow(&Subject::Process(1)).unwrap();
    energy.sample(FORGET);
    energy.follow(&Subject::Process(5)).unwrap();
}

#[test]
fn without_rapl_the_curve_estimates_and_says_so() {
    let fixture = Fixture::new();
    fixture.total(0, 0);
    fixture.process(1, "one", 0, 0, 5);
    let curve = Curve { idle_watts: Some(40.0), full_watts: Some(140.0), points: vec![] };
    let energy = energy(&fixture, Some(curve));
    energy.follow(&Subject::Process(1)).unwrap();
    energy.sample(Duration::ZERO);
    fixture.total(5, 15);
    fixture.process(1, "one", 5, 0, 5);
    energy.sample(WINDOW);
    let report = energy.report();
    assert_eq!(report.source, Source::Estimate);
    assert!(report.note.unwrap().contains("there is no RAPL"));
    assert!(close(report.watts.unwrap(), 65.0));
    assert!(close(energy.attributed(&Subject::Process(1)).unwrap().milliwatts, 65_000.0));
}

#[test]
fn without_rapl_and_without_a_curve_nothing_is_made_up() {
    let fixture = Fixture::new();
    fixture.total(0, 0);
    fixture.process(1, "one", 0, 0, 5);
    let energy = energy(&fixture, None);
    energy.sample(Duration::ZERO);
    fixture.total(5, 15);
    energy.sample(WINDOW);
    let report = energy.report();
    assert_eq!((report.source, report.watts, report.joules), (Source::None, None, None));
    let error = energy.follow(&Subject::Process(1)).unwrap_err().to_string();
    assert!(error.contains("energy.curve"), "{error}");
}

#[test]
fn a_zone_that_fails_for_a_while_loses_nothing() {
    let fixture = node();
    let energy = energy(&fixture, None);
    energy.sample(Duration::ZERO);
    fixture.write("powercap/intel-rapl:0/energy_uj", "");
    energy.sample(WINDOW);
    fixture.energy("intel-rapl:0", 9_700_000);
    energy.sample(2 * WINDOW);
    assert!(close(energy.report().joules.unwrap(), 0.7));
}

/// What happens in one window: microjoules of two packages, ticks of two processes, and of nobody.
fn windows() -> impl Strategy<Value = Vec<(u64, u64, u64, u64, u64)>> {
    prop::collection::vec((0..1_000_000u64, 0..1_000_000u64, 0..20u64, 0..20u64, 0..20u64), 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn two_processes_add_up_to_the_packages(range in 1_000_000..5_000_000u64, start in 0..1_000_000u64, windows in windows()) {
        let fixture = Fixture::new();
        let (mut first, mut second) = (start, start / 2);
        fixture.zone("intel-rapl:0", "package-0", range, first);
        fixture.zone("intel-rapl:1", "package-1", range, second);
        fixture.zone("intel-rapl:1/intel-rapl:1:0", "core", range, 0);
        let (mut one, mut two, mut idle) = (0, 0, 0);
        fixture.total(0, 0);
        fixture.process(1, "one", 0, 0, 1);
        fixture.process(2, "two", 0, 0, 1);
        let energy = energy(&fixture, None);
        let subjects = [Subject::Process(1), Subject::Process(2)];
        subjects.iter().for_each(|subject| energy.follow(subject).unwrap());
        energy.sample(Duration::ZERO);
        let (mut all, mut busy_joules, mut of_one) = (0.0, 0.0, 0.0);
        for (index, (a, b, ticks_one, ticks_two, ticks_idle)) in windows.iter().enumerate() {
            (first, second) = ((first + a) % range, (second + b) % range);
            fixture.energy("intel-rapl:0", first);
            fixture.energy("intel-rapl:1", second);
            (one, two, idle) = (one + ticks_one, two + ticks_two, idle + ticks_idle);
            fixture.total(one + two, idle);
            fixture.process(1, "one", one, 0, 1);
            fixture.process(2, "two", 0, two, 1);
            energy.sample(WINDOW * (index as u32 + 1));
            let joules = (a + b) as f64 / 1e6;
            all += joules;
            if ticks_one + ticks_two > 0 {
                busy_joules += joules;
                of_one += joules * *ticks_one as f64 / (ticks_one + ticks_two) as f64;
            }
        }
        let node = energy.report().joules.unwrap();
        prop_assert!(close(node, all), "the node: expected {all} J, and got {node}");
        let [found_one, found_two] = subjects.each_ref().map(|subject| energy.attributed(subject).unwrap().joules);
        prop_assert!(close(found_one, of_one), "one: expected {of_one} J, and got {found_one}");
        prop_assert!(close(found_one + found_two, busy_joules), "both: expected {busy_joules} J, and got {}", found_one + found_two);
    }
}
