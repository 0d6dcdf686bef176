use super::*;
use crate::workload::testing::{file, gzip, path, shared, truncated_gzip};
use crate::workload::{GpuRequest, alibaba, azure};
use k8s_openapi::api::core::v1::{PodSpec, Toleration};
use proptest::prelude::*;
use std::time::Duration;

const HEADING: &str = "name,namespace,app,owner,arrival_s,lifetime_s,lifetime_max_s,cpu_milli,memory_bytes,gpu_count,gpu_milli,\
                       gpu_models,priority,latency_soft_ms,latency_hard_ms,usage,spec\n";

fn read_text(name: &str, content: impl AsRef<[u8]>) -> Result<Workload, InputError> {
    read(&file(name, content), None, ReadOptions::STRICT).map(|read| read.0)
}

fn seconds() -> impl Strategy<Value = Duration> {
    (0..4_000_000_000u64, prop_oneof![Just(0), 0..1_000_000_000u32])
        .prop_map(|(secs, nanos)| Duration::new(secs, nanos))
}

fn spec() -> impl Strategy<Value = PodSpec> {
    ("[a-z/.]{1,9}", "[^|]{0,9}", any::<bool>()).prop_map(|(key, value, tolerates)| PodSpec {
        node_selector: Some([(key.clone(), value)].into()),
        scheduler_name: (!tolerates).then(|| "other".to_owned()),
        tolerations: tolerates.then(|| vec![Toleration { key: Some(key), ..Toleration::default() }]),
        ..PodSpec::default()
    })
}

pub fn template() -> impl Strategy<Value = Template> {
    let gpu = (1..9u32, 1..=1000u32, prop::collection::vec("[A-Z0-9]{1,5}", 0..3))
        .prop_map(|(count, milli, models)| GpuRequest { count, milli, models });
    let latency = (0.0..100.0f64, 0.0..100.0f64)
        .prop_map(|(soft, more)| LatencyConstraint { soft_ms: soft, hard_ms: soft + more });
    (
        ("\\PC{0,5}", prop::option::of("[a-z\",\n#]{1,8}")),
        (0..=MAX_CPU_MILLI, 0..=MAX_MEMORY, any::<i32>()),
        prop::option::of(gpu),
        prop::option::of(latency),
        prop::option::of(spec()),
    )
        .prop_map(|((namespace, app), (cpu_milli, memory, priority), gpu, latency, spec)| Template {
            namespace,
            app: app.filter(|app| !app.trim().is_empty()),
            cpu_milli,
            memory,
            gpu,
            priority,
            latency,
            spec: spec.map(Box::new),
        })
}

pub fn workload() -> impl Strategy<Value = Workload> {
    let lifetime =
        prop::option::of((seconds(), seconds()).prop_map(|(a, b)| Lifetime { least: a.min(b), most: a.max(b) }));
    let usage = prop::option::of(0.0..99.0f32);
    let pod = ("[\\PC\n\"]{1,9}", 0..4usize, any::<u32>(), seconds(), lifetime, usage);
    let call =
        ("[a-z]{1,4}", "\\PC{1,4}", 0.0..9.0f64).prop_map(|(from, to, per_request)| Call { from, to, per_request });
    (prop::collection::vec(template(), 4), prop::collection::vec(pod, 1..20), prop::collection::vec(call, 0..3))
        .prop_map(|(templates, pods, calls)| {
            let mut builder = Builder::new();
            for (name, template, owner, arrival, lifetime, usage) in pods {
                let template = builder.template(templates[template].clone());
                // A name that is taken is left out.
                let _ = builder.push(PodRecord { name: name.into(), template, owner, arrival, lifetime, usage });
            }
            builder.finish("round", calls)
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_workload_is_read_as_it_was_written(workload in workload()) {
        for name in ["round.csv", "round.csv.gz"] {
            let path = path(name);
            write(&workload, &path).unwrap();
            let (again, skipped) = read(&path, None, ReadOptions::STRICT).unwrap();
            prop_assert!(skipped.is_empty());
            prop_assert_eq!(&again, &workload);
        }
    }

    #[test]
    fn no_content_breaks_the_reader(content in prop::collection::vec(any::<u8>(), 0..200), heading in any::<bool>()) {
        let mut bytes = if heading { HEADING.as_bytes().to_vec() } else { Vec::new() };
        bytes.extend(content);
        let path = file("any.csv", bytes);
        let _ = read(&path, None, ReadOptions::STRICT);
        let _ = read(&path, None, ReadOptions::LENIENT);
        let _ = azure::read(&path, ReadOptions::LENIENT);
    }
}

#[test]
fn a_table_needs_only_the_columns_without_defaults() {
    let workload = read_text(
        "few.csv",
        "owner,name,cpu_milli,memory_bytes,lifetime_s,arrival_s\n7,b,250,64,,1.5\r\n7,a,250,64,60,0\r\n",
    )
    .unwrap();
    assert_eq!(workload.name, "few");
    assert_eq!(workload.templates, [Template { cpu_milli: 250, memory: 64, ..Template::default() }]);
    assert_eq!(workload.pods.iter().map(|pod| &*pod.name).collect::<Vec<_>>(), ["a", "b"], "by arrival");
    assert_eq!(workload.pods[1].lifetime, None);
    assert_eq!(workload.pods[0].lifetime, Some(Lifetime::exactly(Duration::from_secs(60))));
}

#[test]
fn a_bad_row_is_an_error_with_its_place_or_a_counted_skip() {
    let cases = [
        (",,,1,0,1,,1,1,,,,,,,,", "name", Reason::Missing),
        ("x,,,x,0,1,,1,1,,,,,,,,", "owner", Reason::NotANumber),
        ("x,,,4294967296,0,1,,1,1,,,,,,,,", "owner", Reason::OutOfRange),
        ("x,,,1,-5,1,,1,1,,,,,,,,", "arrival_s", Reason::Negative),
        ("x,,,1,0,5,4,1,1,,,,,,,,", "lifetime_max_s", Reason::DepartsBeforeArrival),
        ("x,,,1,0,,4,1,1,,,,,,,,", "lifetime_s", Reason::Missing),
        ("x,,,1,0,1,,1e99,1,,,,,,,,", "cpu_milli", Reason::OutOfRange),
        ("x,,,1,0,1,,1,NaN,,,,,,,,", "memory_bytes", Reason::NotANumber),
        ("x,,,1,0,1,,1,1,1,0,,,,,,", "gpu_milli", Reason::OutOfRange),
        ("x,,,1,0,1,,1,1,,,T4,,,,,", "gpu_models", Reason::OutOfRange),
        ("x,,,1,0,1,,1,1,,,,high,,,,", "priority", Reason::NotANumber),
        ("x,,,1,0,1,,1,1,,,,3000000000,,,,", "priority", Reason::OutOfRange),
        ("x,,,1,0,1,,1,1,,,,,20,,,", "latency_hard_ms", Reason::Missing),
        ("x,,,1,0,1,,1,1,,,,,30,20,,", "latency_hard_ms", Reason::OutOfRange),
        ("x,,,1,0,1,,1,1,,,,,,,-1,", "usage", Reason::Negative),
        ("x,,,1,0,1,,1,1,,,,,,,,{", "spec", Reason::OutOfRange),
        ("good,,,1,0,1,,1,1,,,,,,,,", "name", Reason::DuplicateName),
    ];
    for (row, column, reason) in cases {
        let path = file("bad-rows.csv", format!("{HEADING}good,,,1,0,1,,1,1,,,,,,,,\n{row}\n"));
        let error = read(&path, None, ReadOptions::STRICT).unwrap_err();
        assert_eq!((error.line, error.column.as_deref()), (Some(3), Some(column)), "{row}: {error}");
        let (workload, skipped) = read(&path, None, ReadOptions::LENIENT).unwrap();
        assert_eq!((workload.pods.len(), skipped.count()), (1, 1), "{row}");
        assert_eq!(skipped.reasons[&reason].examples, [error], "{row}");
    }
}

#[test]
fn a_column_that_is_not_known_is_not_dropped_in_silence() {
    let path = file("typo.csv", HEADING.replace("gpu_models", "gpu_model") + "a,,,1,0,1,,1,1,,,,,,,,\n");
    let error = read(&path, None, ReadOptions::STRICT).unwrap_err().to_string();
    assert!(error.contains("line 1: column gpu_model: there is no such column"), "{error}");
    let (_, skipped) = read(&path, None, ReadOptions::LENIENT).unwrap();
    assert_eq!(skipped.reasons[&Reason::UnknownColumn].count, 1);
}

#[test]
fn lines_are_counted_through_quotes_and_carriage_returns() {
    let rows = "\"a\nb\",,,1,0,1,,1,1,,,,,,,,\r\nc,,,1,0,1,,1,1,,,,,,,,\r\nd,,,1,no,1,,1,1,,,,,,,,\r\n";
    let error = read_text("lines.csv", HEADING.replace('\n', "\r\n") + rows).unwrap_err();
    assert_eq!(error.line, Some(5), "{error}");
    let calls = "#calls [{\"from\":\"a\",\"to\":\"b\",\"per_request\":2.0}]\n";
    let error = read_text("lines-calls.csv", format!("{calls}{HEADING}d,,,1,no,1,,1,1,,,,,,,,\n")).unwrap_err();
    assert_eq!(error.line, Some(3), "{error}");
}

#[test]
fn calls_that_are_not_right_are_named() {
    for line in ["#calls", "# made by hand", "#calls {}", "#calls [{\"from\":\"a\"}]"] {
        let error = read_text("calls.csv", format!("{line}\n{HEADING}a,,,1,0,1,,1,1,,,,,,,,\n")).unwrap_err();
        assert_eq!(error.line, Some(1), "{line}: {error}");
    }
}

#[test]
fn a_truncated_gzip_is_an_error_at_the_line_reached() {
    let rows: String =
        (0..4000).map(|at| format!("p{at},,,{at},{},1,,{},1,,,,,,,,\n", at * 7919 % 4001, at % 97)).collect();
    let error = read_text("cut.csv.gz", truncated_gzip(&format!("{HEADING}{rows}"))).unwrap_err();
    assert!(error.line.is_some_and(|line| line > 100) && error.problem.contains("truncated"), "{error}");
    let mut damaged = gzip(&format!("{HEADING}{rows}"));
    let middle = damaged.len() / 2;
    damaged[middle..middle + 8].fill(0xff);
    let error = read_text("damaged.csv.gz", damaged).unwrap_err();
    assert!(error.line.is_some(), "{error}");
    let error = read_text("stub.csv.gz", [0x1f, 0x8b, 8]).unwrap_err();
    assert!(error.problem.contains("truncated"), "{error}");
}

#[test]
fn what_could_not_be_read_again_is_not_written() {
    let mut builder = Builder::new();
    let gpu = GpuRequest { count: 1, milli: 1000, models: vec!["a|b".to_owned()] };
    let template = builder.template(Template { gpu: Some(gpu), ..Template::default() });
    let arrival = Duration::ZERO;
    builder.push(PodRecord { name: "a".into(), template, owner: 0, arrival, lifetime: None, usage: None }).unwrap();
    let error = write(&builder.finish("w", Vec::new()), &path("bar.csv")).unwrap_err();
    assert!(error.problem.contains("may not be called \"a|b\""), "{error}");
}

#[test]
fn the_shared_trace_survives_a_round_trip() {
    let Some(trace) = shared("traces/azure-v1-2017/azure_v1_dev.csv.gz") else { return };
    let (mut workload, _) = azure::read(&trace, ReadOptions::STRICT).unwrap();
    workload.name = "azure-again".to_owned();
    let path = path("azure-again.csv.gz");
    write(&workload, &path).unwrap();
    assert_eq!(read(&path, None, ReadOptions::STRICT).unwrap().0, workload);
}

#[test]
fn a_gpu_model_that_no_machine_has_is_bad_where_machines_are_given() {
    let nodes = file("table-nodes.csv", "sn,cpu_milli,memory_mib,gpu,model\nn0,96000,786432,8,T4\n");
    let (fleet, _) = alibaba::read_nodes(&nodes, ReadOptions::STRICT).unwrap();
    let path = file("models.csv", format!("{HEADING}a,,,1,0,1,,1,1,1,,T4,,,,,\nb,,,1,0,1,,1,1,1,,T4|H900,,,,,\n"));
    assert_eq!(read(&path, None, ReadOptions::STRICT).unwrap().0.pods.len(), 2);
    let error = read(&path, Some(&fleet), ReadOptions::STRICT).unwrap_err();
    assert_eq!((error.line, error.column.as_deref()), (Some(3), Some("gpu_models")), "{error}");
    let (workload, skipped) = read(&path, Some(&fleet), ReadOptions::LENIENT).unwrap();
    assert_eq!((workload.pods.len(), skipped.reasons[&Reason::UnknownMachine].count), (1, 1));
}
