//! Azure's virtual machines of 2017 (AzurePublicDataset V1), one row a machine, in tenants' batches.
//!
//! A batch is an owner. Lifetimes are known as ranges. A machine that still ran when the recording ended (`censored`) has the
//! lifetime seen until then: a lower bound, taken as it is.

use super::build::Builder;
use super::fields::{Fault, MAX_CPU_MILLI, MAX_MEMORY, Reason};
use super::rows::{Column, ReadOptions, Row, Rows, Skipped};
use super::{Lifetime, PodRecord, Template, Workload};
use crate::error::InputError;
use rustc_hash::FxHashMap;
use std::path::Path;
use std::time::Duration;

/// The columns.
pub const COLUMNS: [&str; 8] =
    ["vm", "batch", "arrival_s", "vcpu", "mem_gib", "duration_lo_s", "duration_hi_s", "censored"];

const GIB: f64 = (1u64 << 30) as f64;

/// Reads the machines. Times are shifted so that the first one comes at 0.
pub fn read(path: &Path, options: ReadOptions) -> Result<(Workload, Skipped), InputError> {
    let mut rows = Rows::open(path, options)?;
    let columns = rows.heading.columns(COLUMNS)?;
    let mut reader = Reader { columns, builder: Builder::new(), batches: FxHashMap::default() };
    while let Some((row, line)) = rows.next()? {
        if let Err(fault) = reader.add(row) {
            rows.faults.add(line, fault)?;
        }
    }
    rows.faults.ensure_some(reader.builder.len())?;
    let mut workload = reader.builder.finish("azure", Vec::new());
    workload.start_at_first_arrival();
    Ok((workload, rows.faults.skipped))
}

struct Reader {
    columns: [Column; 8],
    builder: Builder,
    /// Batches by their name in the trace, numbered as they appear.
    batches: FxHashMap<String, u32>,
}

impl Reader {
    fn add(&mut self, row: Row<'_>) -> Result<(), Fault> {
        let [vm, batch, arrival, vcpu, mem_gib, least, most, censored] = self.columns.map(|column| row.cell(column));
        let name = format!("vm-{}", vm.required()?.trim());
        let batch = batch.required()?.trim();
        let arrival = arrival.seconds()?;
        let template = Template {
            cpu_milli: (vcpu.number(MAX_CPU_MILLI as f64 / 1000.0)? * 1000.0).round() as i64,
            memory: (mem_gib.number(MAX_MEMORY as f64 / GIB)? * GIB).round() as i64,
            ..Template::default()
        };
        let lifetime = Lifetime { least: least.seconds()?, most: most.seconds()? };
        if lifetime.most < lifetime.least {
            let problem = format!("the machine lives at most {} s but at least {} s", most.text, least.text);
            return Err(most.fault(Reason::DepartsBeforeArrival, problem));
        }
        censored.small(1)?;
        if self.builder.has(&name) {
            return Err(vm.fault(Reason::DuplicateName, format!("there is a machine {} already", vm.text)));
        }
        let template = self.builder.template(template);
        let number = u32::try_from(self.batches.len()).unwrap_or(u32::MAX);
        let owner = match self.batches.get(batch) {
            Some(owner) => *owner,
            None => *self.batches.entry(batch.to_owned()).or_insert(number),
        };
        let pod = PodRecord { name: name.into(), template, owner, arrival, lifetime: Some(lifetime), usage: None };
        self.builder.push(pod).map_err(|_| vm.fault(Reason::DuplicateName, "the name is taken"))
    }
}

impl Workload {
    /// Shifts all times so that the first pod comes at 0.
    pub(super) fn start_at_first_arrival(&mut self) {
        let first = self.pods.first().map_or(Duration::ZERO, |pod| pod.arrival);
        for pod in &mut self.pods {
            pod.arrival = pod.arrival.saturating_sub(first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::testing::{file, gzip, shared, truncated_gzip};

    const HEADING: &str = "vm,batch,arrival_s,vcpu,mem_gib,duration_lo_s,duration_hi_s,censored\n";
    const GOOD: &str = "0,b7,1800000,8,14.0,300,300,0\n1,b2,1800300,1,0.75,3900,7200,1\n2,b7,1800600,8,14,0,0,0\n";

    fn strict(name: &str, content: impl AsRef<[u8]>) -> Result<Workload, String> {
        read(&file(name, content), ReadOptions::STRICT).map(|read| read.0).map_err(|error| error.to_string())
    }

    #[test]
    fn machines_become_pods_of_their_batch() {
        for content in [format!("{HEADING}{GOOD}").into_bytes(), gzip(&format!("\u{feff}{HEADING}{GOOD}"))] {
            let workload = strict("azure-good", content).unwrap();
            assert_eq!(workload.name, "azure");
            let pods: Vec<_> =
                workload.pods.iter().map(|pod| (&*pod.name, pod.owner, pod.template, pod.arrival.as_secs())).collect();
            assert_eq!(pods, [("vm-0", 0, 0, 0), ("vm-1", 1, 1, 300), ("vm-2", 0, 0, 600)]);
            let template = &workload.templates[1];
            assert_eq!((template.cpu_milli, template.memory), (1000, 3 << 28));
            let lifetime = workload.pods[1].lifetime.unwrap();
            assert_eq!((lifetime.least.as_secs(), lifetime.most.as_secs()), (3900, 7200));
        }
    }

    #[test]
    fn a_bad_row_is_an_error_with_its_place_or_a_counted_skip() {
        let cases = [
            ("3,b,-1,1,1,0,0,0", "arrival_s", Reason::Negative),
            ("3,b,NaN,1,1,0,0,0", "arrival_s", Reason::NotANumber),
            ("3,b,1e300,1,1,0,0,0", "arrival_s", Reason::OutOfRange),
            ("3,b,5,many,1,0,0,0", "vcpu", Reason::NotANumber),
            ("3,b,5,1,inf,0,0,0", "mem_gib", Reason::OutOfRange),
            ("3,b,5,1,1,600,300,0", "duration_hi_s", Reason::DepartsBeforeArrival),
            ("3,b,5,1,1,-600,300,0", "duration_lo_s", Reason::Negative),
            ("3,b,5,1,1,0,0,2", "censored", Reason::OutOfRange),
            ("3,,5,1,1,0,0,0", "batch", Reason::Missing),
            ("1,b,5,1,1,0,0,0", "vm", Reason::DuplicateName),
        ];
        for (row, column, reason) in cases {
            let path = file("azure-bad.csv", format!("{HEADING}{GOOD}{row}\n3,b9,1900000,1,1,0,0,0\n"));
            let error = read(&path, ReadOptions::STRICT).unwrap_err();
            assert_eq!((error.line, error.column.as_deref()), (Some(5), Some(column)), "{row}: {error}");
            assert_eq!(error.file, path);
            let (workload, skipped) = read(&path, ReadOptions::LENIENT).unwrap();
            assert_eq!(workload.pods.len(), 4, "{row}");
            assert_eq!(skipped.count(), 1, "{row}");
            assert_eq!(skipped.reasons[&reason].examples, [error], "{row}");
        }
    }

    #[test]
    fn rows_that_are_too_short_or_no_text_are_named() {
        let error = strict("azure-short.csv", format!("{HEADING}{GOOD}3,b,5\n")).unwrap_err();
        assert!(error.contains("line 5: column vcpu: the row has 3 cells"), "{error}");
        let mut bytes = format!("{HEADING}{GOOD}").into_bytes();
        bytes.extend(b"\xff,b,1800000,8,14.0,300,300,0\n4,b,1800000,8,14.0,300,300,0\n");
        let path = file("azure-latin.csv", bytes);
        let error = read(&path, ReadOptions::STRICT).unwrap_err().to_string();
        assert!(error.contains("line 5: column vm: cell 1 is not UTF-8"), "{error}");
        let (workload, skipped) = read(&path, ReadOptions::LENIENT).unwrap();
        assert_eq!((workload.pods.len(), skipped.reasons[&Reason::NotText].count), (4, 1));
    }

    #[test]
    fn every_missing_column_is_named() {
        for missing in COLUMNS {
            let heading = COLUMNS.map(|name| if name == missing { "other" } else { name }).join(",");
            let path = file("azure-columns.csv", format!("{heading}\n{GOOD}"));
            for options in [ReadOptions::STRICT, ReadOptions::LENIENT] {
                let error = read(&path, options).unwrap_err();
                assert_eq!((error.line, error.column.as_deref()), (Some(1), Some(missing)), "{error}");
            }
        }
        let twice = strict("azure-twice.csv", "vm,vm\n").unwrap_err();
        assert!(twice.contains("column vm: the column is there twice"), "{twice}");
    }

    #[test]
    fn files_without_rows_are_errors() {
        assert!(strict("azure-empty.csv", "").unwrap_err().contains("is empty"));
        assert!(strict("azure-heading.csv", HEADING).unwrap_err().contains("no rows"));
        let path = file("azure-all-bad.csv", format!("{HEADING}0,b,x,1,1,0,0,0\n"));
        let error = read(&path, ReadOptions::LENIENT).unwrap_err().to_string();
        assert!(error.contains("none of its rows can be used: 1 skipped, as the one in line 2"), "{error}");
        assert!(strict("azure-absent/none.csv", "").is_err());
    }

    #[test]
    fn a_truncated_gzip_is_an_error_at_the_line_reached_or_a_counted_skip() {
        let rows: String = (0..5000).map(|vm| format!("{vm},{vm},{},1,1.75,{vm},{vm},0\n", vm * 7919 % 3001)).collect();
        let path = file("azure-cut.csv.gz", truncated_gzip(&format!("{HEADING}{rows}")));
        let error = read(&path, ReadOptions::STRICT).unwrap_err();
        assert!(error.line.is_some_and(|line| line > 1000), "{error}");
        assert!(error.problem.contains("truncated"), "{error}");
        let (workload, skipped) = read(&path, ReadOptions::LENIENT).unwrap();
        assert_eq!(skipped.reasons[&Reason::Truncated].count, 1);
        assert!(workload.pods.len() > 1000 && workload.pods.len() < 5000);
    }

    #[test]
    fn the_shared_trace_is_read_whole() {
        let Some(path) = shared("traces/azure-v1-2017/azure_v1_dev.csv.gz") else { return };
        let (workload, skipped) = read(&path, ReadOptions::STRICT).unwrap();
        assert!(skipped.is_empty());
        assert_eq!((workload.pods.len(), workload.templates.len()), (259_159, 16));
        assert_eq!(workload.pods.iter().map(|pod| pod.owner).max(), Some(53_108));
        assert_eq!((workload.pods[0].arrival.as_secs(), workload.span().as_secs()), (0, 299_700));
    }
}
