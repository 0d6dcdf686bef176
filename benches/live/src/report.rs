//! What was measured, as a page and as JSON.

use crate::Row;
use crate::contest::{Contestant, Figures};
use crate::simulated::{self, Simulated};
use crate::suite::Suite;
use anyhow::Result;
use serde_json::json;
use std::fmt::Write;

/// A run on one line.
pub fn line(figures: &Figures) -> String {
    let Figures {
        rate,
        told_rate,
        first_s,
        p50_s,
        p99_s,
        all_s,
        cpu_us,
        memory_mib,
        api_server_us,
        etcd_us,
        adviser_us,
    } = figures;
    let told = told_rate.map_or(String::new(), |rate| format!(" ({rate:.0} with their events)"));
    let adviser = adviser_us.map_or(String::new(), |us| format!(", adviser {us:.0}"));
    format!(
        "{rate:8.0} pods/s{told}, first after {first_s:.2} s, half after {p50_s:.2} s, 99 % after {p99_s:.2} s, all {all_s:.2} s after the start, {cpu_us:.0} us CPU a pod \
         (kube-apiserver {api_server_us:.0}, etcd {etcd_us:.0}{adviser}), {memory_mib:.0} MiB"
    )
}

fn median(rounds: &[Figures], of: impl Fn(&Figures) -> f64) -> f64 {
    let mut values: Vec<f64> = rounds.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => values[count / 2],
        count => (values[count / 2 - 1] + values[count / 2]) / 2.0,
    }
}

fn medians(row: &Row) -> Figures {
    let of = |pick: fn(&Figures) -> f64| median(&row.rounds, pick);
    Figures {
        rate: of(|figures| figures.rate),
        told_rate: row
            .rounds
            .iter()
            .all(|figures| figures.told_rate.is_some())
            .then(|| of(|figures| figures.told_rate.unwrap_or_default())),
        first_s: of(|figures| figures.first_s),
        p50_s: of(|figures| figures.p50_s),
        p99_s: of(|figures| figures.p99_s),
        all_s: of(|figures| figures.all_s),
        cpu_us: of(|figures| figures.cpu_us),
        memory_mib: of(|figures| figures.memory_mib),
        api_server_us: of(|figures| figures.api_server_us),
        etcd_us: of(|figures| figures.etcd_us),
        adviser_us: row
            .rounds
            .iter()
            .all(|figures| figures.adviser_us.is_some())
            .then(|| of(|figures| figures.adviser_us.unwrap_or_default())),
    }
}

/// Writes the page and the data.
pub fn write(rows: &[Row], simulated: &[Simulated], suite: Suite) -> Result<()> {
    let (file, data_file) = (suite.page(), suite.data());
    let mut page = page(rows, suite);
    simulated::section(&mut page, simulated);
    std::fs::write(file, page)?;
    let data = rows.iter().map(|row| {
        json!({
            "case": row.case.name, "nodes": row.case.nodes, "pods": row.case.pods,
            "contestant": row.contestant.name(), "rounds": row.rounds,
        })
    });
    std::fs::create_dir_all("target/bench")?;
    std::fs::write(data_file, format!("{:#}\n", json!(data.collect::<Vec<_>>())))?;
    println!("wrote {file} and {data_file}");
    Ok(())
}

fn page(rows: &[Row], suite: Suite) -> String {
    let rounds = rows.iter().map(|row| row.rounds.len()).max().unwrap_or(0);
    let (title, target, who) = (suite.title(), suite.target(), suite.who());
    let mut page = format!(
        "# {title}\n\n\
         Written by `make {target}`: a real etcd and kube-apiserver (Kubernetes v1.36.3, [lab.md](lab.md)), nodes that are ready and do nothing, \
         pods that are there before the scheduler starts. Each contestant has a control plane of its own, one after the other, on {} cores that \
         it shares with the control plane and with the watch that measures. Nobody is throttled. Figures are medians of {rounds} rounds, \
         interleaved.\n\n\
         {who} The rate is \
         that from the first binding to the last, as another client's watch sees them; half and 99 % are the times from the first binding to \
         those of so many pods; all is the time from the start of the program to the last binding, which is what counts where pods that are in the \
         way have to go first. \"With events\" is the rate until an event tells of each binding: events may be written later than bindings. \
         Processor time and memory are of the whole run of the program, its start included.\n",
        std::thread::available_parallelism().map_or(1, usize::from)
    );
    let mut names: Vec<_> = rows.iter().map(|row| row.case.name).collect();
    names.dedup();
    for name in names {
        let of_case: Vec<&Row> = rows.iter().filter(|row| row.case.name == name).collect();
        section(&mut page, name, &of_case);
        if suite != Suite::Live {
            processor_time(&mut page, &of_case);
        }
    }
    page
}

fn section(page: &mut String, name: &str, rows: &[&Row]) {
    let Some(case) = rows.first().map(|row| row.case) else { return };
    let mut about = format!("{} nodes, {} pods", case.nodes, case.pods);
    if case.running > 0 {
        let _ = write!(about, ", {} less important pods are there", case.running);
    }
    if case.hopeless > 0 {
        let _ = write!(about, ", {} more fit nowhere", case.hopeless);
    }
    let _ = write!(
        page,
        "\n## {name}\n\n{about}.\n\n| | pods/s | with events | against kube-scheduler | of the null binder | first | half | 99 % | all | CPU a pod | memory |\n\
         |---|---|---|---|---|---|---|---|---|---|---|\n"
    );
    let rate_of = |who| rows.iter().find(|row| row.contestant == who).map(|row| medians(row).rate);
    let (stock, null) = (rate_of(Contestant::Stock), rate_of(Contestant::NullBinder));
    for row in rows {
        if let Some(failed) = row.failed.as_ref().filter(|_| row.rounds.is_empty()) {
            let _ = writeln!(page, "| {} | {failed} | | | | | | | | | |", row.contestant.name());
            continue;
        }
        let Figures { rate, told_rate, first_s, p50_s, p99_s, all_s, cpu_us, memory_mib, .. } = medians(row);
        let told = told_rate.map_or("-".into(), |rate| format!("{rate:.0}"));
        let against = stock.map_or("-".into(), |stock| format!("{:.2} x", rate / stock));
        let share = null.map_or("-".into(), |null| format!("{:.0} %", 100.0 * rate / null));
        let _ = writeln!(
            page,
            "| {} | {rate:.0} | {told} | {against} | {share} | {first_s:.2} s | {p50_s:.2} s | {p99_s:.2} s | {all_s:.1} s | {:.2} ms | {memory_mib:.0} MiB |",
            row.contestant.name(),
            cpu_us / 1000.0
        );
    }
}

/// Who has the processor how long.
fn processor_time(page: &mut String, rows: &[&Row]) {
    page.push_str(
        "\nProcessor time a pod, by program:\n\n| | scheduler | kube-apiserver | etcd | adviser |\n|---|---|---|---|---|\n",
    );
    for row in rows.iter().filter(|row| !row.rounds.is_empty()) {
        let Figures { cpu_us, api_server_us, etcd_us, adviser_us, .. } = medians(row);
        let cell = |microseconds: f64| format!("{:.2} ms", microseconds / 1000.0);
        let [own, api_server, etcd] = [cpu_us, api_server_us, etcd_us].map(cell);
        let adviser = adviser_us.map_or("-".into(), cell);
        let _ = writeln!(page, "| {} | {own} | {api_server} | {etcd} | {adviser} |", row.contestant.name());
    }
}
