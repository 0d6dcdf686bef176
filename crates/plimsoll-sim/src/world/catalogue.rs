//! Machines that were measured: SPECpower_ssj2008 results, one row a machine.

use super::power::{POINTS, PowerCurve};
use crate::error::InputError;
use crate::fleet::Machine;
use crate::workload::fields::{Cell, Fault, Reason};
use crate::workload::rows::{Column, ReadOptions, Row, Rows};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Columns with watts: idle, and every tenth up to full load.
const WATTS: [&str; POINTS] =
    ["w_idle", "w_10", "w_20", "w_30", "w_40", "w_50", "w_60", "w_70", "w_80", "w_90", "w_100"];
/// No machine draws more, in watts.
const MAX_WATTS: f64 = 1e6;
/// What a kubelet runs at most unless told otherwise.
pub const DEFAULT_PODS: i64 = 110;

/// Machines by their measurements.
#[derive(Debug, Clone, PartialEq)]
pub struct Catalogue {
    file: PathBuf,
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq)]
struct Entry {
    model: String,
    cpu: String,
    machine: Machine,
}

impl Catalogue {
    /// Reads a table of SPECpower results.
    pub fn read(path: &Path) -> Result<Self, InputError> {
        let mut rows = Rows::open(path, ReadOptions::STRICT)?;
        let columns = rows.heading.columns(["model", "cpu", "threads", "mem_gb"])?;
        let watts = rows.heading.columns(WATTS)?;
        let mut entries = Vec::new();
        while let Some((row, line)) = rows.next()? {
            match entry(row, columns, watts) {
                Ok(entry) => entries.push(entry),
                Err(fault) => rows.faults.add(line, fault)?,
            }
        }
        rows.faults.ensure_some(entries.len())?;
        Ok(Self { file: path.to_owned(), entries })
    }

    /// The machine whose model has all words of the name, whatever their case; of several the one with the fewest other
    /// letters, and of those the first.
    pub fn find(&self, name: &str) -> Result<&Machine, InputError> {
        let words: Vec<_> = name.split_whitespace().map(str::to_lowercase).collect();
        let found = self.entries.iter().filter(|entry| {
            let text = format!("{} {}", entry.model, entry.cpu).to_lowercase();
            !words.is_empty() && words.iter().all(|word| text.contains(word.as_str()))
        });
        found.min_by_key(|entry| entry.model.len()).map(|entry| &entry.machine).ok_or_else(|| {
            let problem = format!("there is no machine {name:?}; there are {}", self.some_names(&words));
            InputError::new(&self.file, problem)
        })
    }

    /// A few names for an error: those that share a word first.
    fn some_names(&self, words: &[String]) -> String {
        let close = |entry: &&Entry| words.iter().any(|word| entry.model.to_lowercase().contains(word.as_str()));
        let mut names: Vec<_> = self.entries.iter().filter(close).map(|entry| entry.model.as_str()).collect();
        if names.is_empty() {
            names = self.entries.iter().map(|entry| entry.model.as_str()).collect();
        }
        let rest = names.len().saturating_sub(8);
        names.truncate(8);
        let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
        format!("{}{more}", names.join(", "))
    }
}

fn entry(row: Row<'_>, columns: [Column; 4], watts: [Column; POINTS]) -> Result<Entry, Fault> {
    let [model, cpu, threads, memory] = columns.map(|column| row.cell(column));
    let mut points = [0.0; POINTS];
    for (point, column) in points.iter_mut().zip(watts) {
        *point = row.cell(column).number(MAX_WATTS)?;
    }
    let power = PowerCurve::new(points).ok_or_else(|| bad_curve(row.cell(watts[0])))?;
    let name = model.required()?.trim().to_owned();
    Ok(Entry {
        cpu: cpu.text.trim().to_owned(),
        machine: Machine {
            name: name.clone(),
            cpu_milli: threads.whole(1_000_000)? * 1000,
            memory: memory.whole(1_000_000)? << 30,
            pods: DEFAULT_PODS,
            gpus: None,
            power: Arc::new(power),
            price: None,
        },
        model: name,
    })
}

fn bad_curve(cell: Cell<'_>) -> Fault {
    cell.fault(Reason::OutOfRange, "the watts make no curve")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::testing::{file, shared};

    #[test]
    fn machines_are_found_by_words_of_their_model_or_processor() {
        let watts = "10,11,12,13,14,15,16,17,18,19,20";
        let heading = format!("model,cpu,threads,mem_gb,{}", WATTS.join(","));
        let path = file(
            "catalogue.csv",
            format!("{heading}\nBig Box 9 Plus,Fast 1,64,256,{watts}\nBig Box 9,Fast 2,32,128,{watts}\n"),
        );
        let catalogue = Catalogue::read(&path).unwrap();
        assert_eq!(catalogue.find("box 9").unwrap().cpu_milli, 32_000);
        assert_eq!(catalogue.find("PLUS").unwrap().memory, 256 << 30);
        assert_eq!(catalogue.find("fast 1").unwrap().power.full(), 20.0);
        let error = catalogue.find("small").unwrap_err().to_string();
        assert!(error.contains("no machine \"small\"") && error.contains("Big Box 9 Plus"), "{error}");
    }

    #[test]
    fn measured_machines_can_all_be_read() {
        for name in ["curated.csv", "specpower_ssj2008_curves.csv"] {
            let Some(path) = shared(&format!("traces/power-curves/{name}")) else { return };
            let catalogue = Catalogue::read(&path).unwrap();
            assert!(catalogue.entries.len() > 10, "{name}");
            for entry in &catalogue.entries {
                assert!(entry.machine.power.full() > entry.machine.power.idle(), "{}", entry.model);
            }
        }
    }
}
