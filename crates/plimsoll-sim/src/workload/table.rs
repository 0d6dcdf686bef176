//! Our own format: a CSV file with one row for each pod, compressed with gzip or not.
//!
//! Columns may stand in any order. Those of [`OPTIONAL`] may be missing, and any of their cells may be empty. Calls between
//! services, where there are any, stand as JSON in a line of their own above the heading, after `#calls `.

use super::alibaba::{Models, gpu_request, models_of};
use super::build::Builder;
use super::fields::{Cell, Fault, GPU_MILLI, MAX_CPU_MILLI, MAX_MEMORY, Reason, format_seconds};
use super::rows::{Column, Heading, ReadOptions, Row, Rows, Skipped, first_line, interrupted, open};
use super::{Call, LatencyConstraint, Lifetime, PodRecord, Template, Workload, spec};
use crate::error::InputError;
use crate::fleet::Fleet;
use flate2::Compression;
use flate2::write::GzEncoder;
use rustc_hash::FxHashMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, BufWriter, Write};
use std::path::Path;

/// The columns that must be there.
pub const REQUIRED: [&str; 6] = ["name", "owner", "arrival_s", "lifetime_s", "cpu_milli", "memory_bytes"];
/// The columns that may be missing.
pub const OPTIONAL: [&str; 11] = [
    "lifetime_max_s",
    "namespace",
    "app",
    "gpu_count",
    "gpu_milli",
    "gpu_models",
    "priority",
    "latency_soft_ms",
    "latency_hard_ms",
    "usage",
    "spec",
];
/// All columns, as they are written.
pub const COLUMNS: [&str; 17] = [
    "name",
    "namespace",
    "app",
    "owner",
    "arrival_s",
    "lifetime_s",
    "lifetime_max_s",
    "cpu_milli",
    "memory_bytes",
    "gpu_count",
    "gpu_milli",
    "gpu_models",
    "priority",
    "latency_soft_ms",
    "latency_hard_ms",
    "usage",
    "spec",
];

/// What the line with the calls begins with.
const CALLS: &[u8] = b"#calls ";
/// More calls than fit into this are no call graph of services.
const MAX_CALLS_LINE: u64 = 16 << 20;
/// An hour of waiting for an answer is no latency.
const MAX_LATENCY_MS: f64 = 3_600_000.0;
/// A pod that uses a hundred times what it asked for is a mistake in the file.
const MAX_USAGE: f64 = 100.0;

/// Reads a workload; it is called as the file is. Given a fleet, a pod that asks for a GPU model that no machine has is bad input.
pub fn read(path: &Path, fleet: Option<&Fleet>, options: ReadOptions) -> Result<(Workload, Skipped), InputError> {
    let mut source = open(path)?;
    let calls = read_calls(&mut source, path)?;
    let mut rows = Rows::of(source, path, options, u64::from(calls.is_some()))?;
    let mut parser = Parser::new(&rows.heading, fleet)?;
    for fault in unknown_columns(&rows.heading) {
        rows.faults.add(rows.heading.line(), fault)?;
    }
    while let Some((row, line)) = rows.next()? {
        if let Err(fault) = parser.add(row) {
            rows.faults.add(line, fault)?;
        }
    }
    rows.faults.ensure_some(parser.builder.len())?;
    Ok((parser.builder.finish(name_of(path), calls.unwrap_or_default()), rows.faults.skipped))
}

/// The name of a file without what says its format.
pub(super) fn name_of(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    let name = [".csv", ".parquet"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    name.to_owned()
}

fn read_calls(source: &mut Box<dyn BufRead>, path: &Path) -> Result<Option<Vec<Call>>, InputError> {
    let bad = |problem: String| InputError::new(path, problem).at_line(1);
    let first = source.fill_buf().map_err(|error| bad(interrupted(&error)))?;
    if !first.starts_with(b"#") {
        return Ok(None);
    }
    let line = first_line(source, MAX_CALLS_LINE).map_err(|error| bad(interrupted(&error)))?;
    let Some(text) = line.strip_prefix(CALLS) else {
        return Err(bad(
            "a line that begins with # must be `#calls [{\"from\": …, \"to\": …, \"per_request\": …}]`".to_owned()
        ));
    };
    parse_calls(text).map(Some).map_err(bad)
}

/// The calls in a text.
pub(super) fn parse_calls(text: &[u8]) -> Result<Vec<Call>, String> {
    let calls: Vec<Call> = serde_json::from_slice(text).map_err(|error| format!("the calls are not right: {error}"))?;
    match calls.iter().find(|call| !(call.per_request.is_finite() && call.per_request >= 0.0)) {
        Some(call) => {
            Err(format!("the calls from {} to {} are {} for a request", call.from, call.to, call.per_request))
        }
        None => Ok(calls),
    }
}

/// Columns that would be lost.
pub(super) fn unknown_columns(heading: &Heading) -> Vec<Fault> {
    let unknown = heading.names().iter().filter(|name| !COLUMNS.contains(&name.as_str()));
    let fault = |name: &String| {
        let problem = format!("there is no such column in this format; there are {}", COLUMNS.join(", "));
        Fault::new(Reason::UnknownColumn, name, problem)
    };
    unknown.map(fault).collect()
}

/// Makes pods of rows.
pub(super) struct Parser {
    required: [Column; 6],
    optional: [Column; 11],
    /// Templates by the text of their cells: rows of one template look alike, and their specs are parsed once.
    templates: FxHashMap<String, u32>,
    models: Option<Models>,
    /// The text of the cells at hand.
    key: String,
    pub(super) builder: Builder,
}

impl Parser {
    pub(super) fn new(heading: &Heading, fleet: Option<&Fleet>) -> Result<Self, InputError> {
        let required = heading.columns(REQUIRED)?;
        let optional = heading.optional(OPTIONAL);
        Ok(Self {
            required,
            optional,
            templates: FxHashMap::default(),
            models: fleet.map(models_of),
            key: String::new(),
            builder: Builder::new(),
        })
    }

    pub(super) fn add(&mut self, row: Row<'_>) -> Result<(), Fault> {
        let [name, owner, arrival, least, ..] = self.required.map(|column| row.cell(column));
        let [most, _, _, _, _, _, _, _, _, usage, _] = self.optional.map(|column| row.cell(column));
        let text = name.required()?;
        let owner = owner.small(u32::MAX)?;
        let arrival = arrival.seconds()?;
        let lifetime = lifetime(least, most)?;
        let usage = usage.given().map(|usage| usage.number(MAX_USAGE)).transpose()?.map(|usage| usage as f32);
        if self.builder.has(text) {
            return Err(name.fault(Reason::DuplicateName, format!("there is a pod {text} already")));
        }
        let template = self.template(row)?;
        let pod = PodRecord { name: text.into(), template, owner, arrival, lifetime, usage };
        self.builder.push(pod).map_err(|_| name.fault(Reason::DuplicateName, "the name is taken"))
    }

    fn template(&mut self, row: Row<'_>) -> Result<u32, Fault> {
        let [.., cpu, memory] = self.required.map(|column| row.cell(column));
        let [_, namespace, app, gpus, gpu_milli, models, priority, soft, hard, _, spec] =
            self.optional.map(|column| row.cell(column));
        let cells = [cpu, memory, namespace, app, gpus, gpu_milli, models, priority, soft, hard, spec];
        // Lengths keep apart what would read the same when joined.
        self.key.clear();
        for cell in cells {
            // Writing to a string cannot fail.
            let _ = write!(self.key, "{}:{}", cell.text.len(), cell.text);
        }
        if let Some(template) = self.templates.get(&self.key) {
            return Ok(*template);
        }
        let template = self.builder.template(Template {
            namespace: namespace.text.to_owned(),
            app: app.given().map(|app| app.text.to_owned()),
            cpu_milli: cpu.whole(MAX_CPU_MILLI)?,
            memory: memory.whole(MAX_MEMORY)?,
            gpu: gpu_request([gpus, gpu_milli, models], self.models.as_ref())?,
            priority: priority.given().map_or(Ok(0), integer)?,
            latency: latency(soft, hard)?,
            spec: spec
                .given()
                .map(|cell| spec::parse(cell.text).map_err(|problem| cell.fault(Reason::OutOfRange, problem)))
                .transpose()?,
        });
        self.templates.insert(self.key.clone(), template);
        Ok(template)
    }
}

fn lifetime(least: Cell<'_>, most: Cell<'_>) -> Result<Option<Lifetime>, Fault> {
    let longest = most.given().map(Cell::seconds).transpose()?;
    let Some(given) = least.given() else {
        return match longest {
            None => Ok(None),
            Some(_) => Err(least.fault(Reason::Missing, "lifetime_max_s is given, so lifetime_s is needed")),
        };
    };
    let shortest = given.seconds()?;
    let longest = longest.unwrap_or(shortest);
    if longest < shortest {
        let problem = format!("the pod lives at most {} s but at least {} s", most.text, least.text);
        return Err(most.fault(Reason::DepartsBeforeArrival, problem));
    }
    Ok(Some(Lifetime { least: shortest, most: longest }))
}

fn latency(soft: Cell<'_>, hard: Cell<'_>) -> Result<Option<LatencyConstraint>, Fault> {
    let constraint = match (soft.given(), hard.given()) {
        (None, None) => return Ok(None),
        (Some(_), None) => return Err(hard.fault(Reason::Missing, "latency_soft_ms is given, so this is needed")),
        (None, Some(_)) => return Err(soft.fault(Reason::Missing, "latency_hard_ms is given, so this is needed")),
        (Some(soft), Some(hard)) => {
            LatencyConstraint { soft_ms: soft.number(MAX_LATENCY_MS)?, hard_ms: hard.number(MAX_LATENCY_MS)? }
        }
    };
    if constraint.hard_ms < constraint.soft_ms {
        return Err(hard.fault(Reason::OutOfRange, format!("{} is below latency_soft_ms, {}", hard.text, soft.text)));
    }
    Ok(Some(constraint))
}

fn integer(cell: Cell<'_>) -> Result<i32, Fault> {
    let text = cell.text.trim();
    text.parse().map_err(|_| match text.parse::<f64>() {
        Ok(number) if number.fract() == 0.0 => {
            cell.fault(Reason::OutOfRange, format!("{text} is no priority: {} to {}", i32::MIN, i32::MAX))
        }
        _ => cell.fault(Reason::NotANumber, format!("{text:?} is not a whole number")),
    })
}

/// Writes a workload, compressed with gzip if the file's name ends in `.gz`.
pub fn write(workload: &Workload, path: &Path) -> Result<(), InputError> {
    let cannot = |error: io::Error| InputError::new(path, format!("cannot be written: {error}"));
    let templates = written_templates(workload, path)?;
    let file = BufWriter::new(File::create(path).map_err(cannot)?);
    if path.extension().is_some_and(|end| end == "gz") {
        let mut gzip = GzEncoder::new(file, Compression::default());
        write_rows(workload, &templates, &mut gzip).map_err(cannot)?;
        gzip.finish().and_then(|mut file| file.flush()).map_err(cannot)
    } else {
        let mut file = file;
        write_rows(workload, &templates, &mut file).and_then(|()| file.flush()).map_err(cannot)
    }
}

/// The cells of a template, as text.
#[derive(Default, Clone)]
pub(super) struct TemplateCells {
    pub(super) cpu_milli: String,
    pub(super) memory: String,
    pub(super) gpu: [String; 3],
    pub(super) priority: String,
    pub(super) latency: [String; 2],
    pub(super) spec: String,
}

/// The cells of all templates; one that could not be read again is an error.
pub(super) fn written_templates(workload: &Workload, path: &Path) -> Result<Vec<TemplateCells>, InputError> {
    let cells = |template: &Template| {
        let gpu = match &template.gpu {
            None => Default::default(),
            Some(gpu) => {
                if let Some(model) = gpu.models.iter().find(|model| model.trim().is_empty() || model.contains('|')) {
                    return Err(format!("a GPU model may not be called {model:?}"));
                }
                let milli = if gpu.milli == GPU_MILLI { String::new() } else { gpu.milli.to_string() };
                [gpu.count.to_string(), milli, gpu.models.join("|")]
            }
        };
        let priority = if template.priority == 0 { String::new() } else { template.priority.to_string() };
        Ok(TemplateCells {
            cpu_milli: template.cpu_milli.to_string(),
            memory: template.memory.to_string(),
            gpu,
            priority,
            latency: template
                .latency
                .map_or_else(Default::default, |bounds| [bounds.soft_ms, bounds.hard_ms].map(|ms| ms.to_string())),
            spec: template.spec.as_deref().map_or_else(|| Ok(String::new()), spec::format)?,
        })
    };
    workload
        .templates
        .iter()
        .map(cells)
        .collect::<Result<_, String>>()
        .map_err(|problem| InputError::new(path, problem))
}

fn write_rows(workload: &Workload, templates: &[TemplateCells], to: &mut dyn Write) -> io::Result<()> {
    if !workload.calls.is_empty() {
        to.write_all(CALLS)?;
        serde_json::to_writer(&mut *to, &workload.calls)?;
        to.write_all(b"\n")?;
    }
    let mut writer = csv::Writer::from_writer(to);
    writer.write_record(COLUMNS)?;
    for pod in &workload.pods {
        let at = pod.template as usize;
        let (Some(template), Some(cells)) = (workload.templates.get(at), templates.get(at)) else {
            return Err(io::Error::other(format!("pod {} has no template", pod.name)));
        };
        let (least, most) = written_lifetime(pod);
        writer.write_record([
            &*pod.name,
            &template.namespace,
            template.app.as_deref().unwrap_or_default(),
            &pod.owner.to_string(),
            &format_seconds(pod.arrival),
            &least,
            &most,
            &cells.cpu_milli,
            &cells.memory,
            &cells.gpu[0],
            &cells.gpu[1],
            &cells.gpu[2],
            &cells.priority,
            &cells.latency[0],
            &cells.latency[1],
            &pod.usage.map(|usage| usage.to_string()).unwrap_or_default(),
            &cells.spec,
        ])?;
    }
    writer.flush()
}

/// The cells of a lifetime: the second is empty where it is known.
fn written_lifetime(pod: &PodRecord) -> (String, String) {
    match pod.lifetime {
        None => Default::default(),
        Some(Lifetime { least, most }) if least == most => (format_seconds(least), String::new()),
        Some(Lifetime { least, most }) => (format_seconds(least), format_seconds(most)),
    }
}

#[cfg(test)]
pub(super) mod tests;
