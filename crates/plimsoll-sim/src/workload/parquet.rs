//! Our own format as Parquet: the columns of [`super::table`], read and written in batches.
//!
//! Times are decimals with nine digits, so that nothing is lost; other programs may write them as any kind of number. Calls
//! between services stand in the file's metadata under `plimsoll.calls`.

use super::rows::{Faults, Heading, ReadOptions, Row, Skipped};
use super::table::{COLUMNS, Parser, TemplateCells, name_of, parse_calls, unknown_columns, written_templates};
use super::{PodRecord, Template, Workload};
use crate::error::InputError;
use crate::fleet::Fleet;
use ::parquet::arrow::ArrowWriter;
use ::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use ::parquet::basic::Compression;
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::WriterProperties;
use arrow_array::builder::{
    Decimal128Builder, Float32Builder, Float64Builder, Int32Builder, Int64Builder, StringBuilder,
};
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use csv::StringRecord;
use std::fmt::Display;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Rows held in memory at a time.
const BATCH: usize = 65_536;
/// Under which key the calls stand.
const CALLS: &str = "plimsoll.calls";
/// Ten digits of seconds and nine of their parts.
const SECONDS: DataType = DataType::Decimal128(19, 9);

/// Reads a workload. A row is counted as the line it would be in a CSV file.
pub fn read(path: &Path, fleet: Option<&Fleet>, options: ReadOptions) -> Result<(Workload, Skipped), InputError> {
    let cannot = |error: &dyn Display| InputError::new(path, format!("cannot be read as Parquet: {error}"));
    let file = File::open(path).map_err(|error| cannot(&error))?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| cannot(&error))?;
    let metadata = builder.metadata().file_metadata().key_value_metadata();
    let calls = metadata.into_iter().flatten().find(|pair| pair.key == CALLS).and_then(|pair| pair.value.clone());
    let calls = calls.map_or(Ok(Vec::new()), |text| parse_calls(text.as_bytes()));
    let calls = calls.map_err(|problem| InputError::new(path, problem))?;
    let schema = builder.schema().clone();
    let heading = Heading::new(path, 1, schema.fields().iter().map(|field| field.name().as_str()))?;
    let mut faults = Faults::new(path, options);
    let mut parser = Parser::new(&heading, fleet)?;
    for fault in unknown_columns(&heading) {
        faults.add(heading.line(), fault)?;
    }
    let mut line = heading.line();
    let mut record = StringRecord::new();
    for batch in builder.with_batch_size(BATCH).build().map_err(|error| cannot(&error))? {
        let batch = batch.map_err(|error| cannot(&error).at_line(line + 1))?;
        let columns: Vec<ArrayRef> = batch
            .columns()
            .iter()
            .map(|column| arrow_cast::cast(column, &DataType::Utf8))
            .collect::<Result<_, _>>()
            .map_err(|error| cannot(&error).at_line(line + 1))?;
        let texts: Vec<&StringArray> = columns.iter().filter_map(|column| column.as_any().downcast_ref()).collect();
        for row in 0..batch.num_rows() {
            line += 1;
            record.clear();
            for text in &texts {
                record.push_field(if text.is_valid(row) { text.value(row) } else { "" });
            }
            if let Err(fault) = parser.add(Row { record: &record }) {
                faults.add(line, fault)?;
            }
        }
    }
    faults.ensure_some(parser.builder.len())?;
    Ok((parser.builder.finish(name_of(path), calls), faults.skipped))
}

/// Writes a workload.
pub fn write(workload: &Workload, path: &Path) -> Result<(), InputError> {
    let cannot = |error: &dyn Display| InputError::new(path, format!("cannot be written as Parquet: {error}"));
    let templates = written_templates(workload, path)?;
    let schema = Arc::new(Schema::new(COLUMNS.map(|name| Field::new(name, kind(name), nullable(name))).to_vec()));
    let calls = serde_json::to_string(&workload.calls).map_err(|error| cannot(&error))?;
    let metadata = (!workload.calls.is_empty()).then(|| vec![KeyValue::new(CALLS.to_owned(), calls)]);
    let properties =
        WriterProperties::builder().set_compression(Compression::SNAPPY).set_key_value_metadata(metadata).build();
    let file = File::create(path).map_err(|error| cannot(&error))?;
    let mut writer = ArrowWriter::try_new(file, schema.clone(), Some(properties)).map_err(|error| cannot(&error))?;
    for pods in workload.pods.chunks(BATCH) {
        let mut batch = Batch::default();
        for pod in pods {
            let at = pod.template as usize;
            let (Some(template), Some(cells)) = (workload.templates.get(at), templates.get(at)) else {
                return Err(cannot(&format!("pod {} has no template", pod.name)));
            };
            batch.add(pod, template, cells);
        }
        let batch = RecordBatch::try_new(schema.clone(), batch.finish());
        writer.write(&batch.map_err(|error| cannot(&error))?).map_err(|error| cannot(&error))?;
    }
    writer.close().map(|_| ()).map_err(|error| cannot(&error))
}

fn kind(column: &str) -> DataType {
    match column {
        "owner" | "cpu_milli" | "memory_bytes" | "gpu_count" | "gpu_milli" => DataType::Int64,
        "arrival_s" | "lifetime_s" | "lifetime_max_s" => SECONDS,
        "priority" => DataType::Int32,
        "latency_soft_ms" | "latency_hard_ms" => DataType::Float64,
        "usage" => DataType::Float32,
        _ => DataType::Utf8,
    }
}

fn nullable(column: &str) -> bool {
    !matches!(column, "name" | "owner" | "arrival_s" | "cpu_milli" | "memory_bytes")
}

/// The columns of some rows.
struct Batch {
    text: [StringBuilder; 5],
    whole: [Int64Builder; 5],
    times: [Decimal128Builder; 3],
    priority: Int32Builder,
    latency: [Float64Builder; 2],
    usage: Float32Builder,
}

impl Default for Batch {
    fn default() -> Self {
        Self {
            text: Default::default(),
            whole: Default::default(),
            times: std::array::from_fn(|_| Decimal128Builder::new().with_data_type(SECONDS)),
            priority: Int32Builder::new(),
            latency: Default::default(),
            usage: Float32Builder::new(),
        }
    }
}

impl Batch {
    fn add(&mut self, pod: &PodRecord, template: &Template, cells: &TemplateCells) {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let texts = [
            Some(pod.name.to_string()),
            given(&template.namespace),
            template.app.clone(),
            given(&cells.gpu[2]),
            given(&cells.spec),
        ];
        for (column, text) in self.text.iter_mut().zip(texts) {
            column.append_option(text);
        }
        let gpu = template.gpu.as_ref();
        let whole = [
            Some(i64::from(pod.owner)),
            Some(template.cpu_milli),
            Some(template.memory),
            gpu.map(|gpu| i64::from(gpu.count)),
            gpu.map(|gpu| i64::from(gpu.milli)),
        ];
        for (column, number) in self.whole.iter_mut().zip(whole) {
            column.append_option(number);
        }
        let nanos = |time: Duration| i128::try_from(time.as_nanos()).unwrap_or(i128::MAX);
        let lifetime = pod.lifetime;
        let most = lifetime.filter(|lifetime| lifetime.least != lifetime.most).map(|lifetime| lifetime.most);
        let times = [Some(pod.arrival), lifetime.map(|lifetime| lifetime.least), most];
        for (column, time) in self.times.iter_mut().zip(times) {
            column.append_option(time.map(nanos));
        }
        self.priority.append_value(template.priority);
        let latency = template.latency;
        let [soft, hard] = &mut self.latency;
        soft.append_option(latency.map(|latency| latency.soft_ms));
        hard.append_option(latency.map(|latency| latency.hard_ms));
        self.usage.append_option(pod.usage);
    }

    /// The columns in the order of [`COLUMNS`].
    fn finish(mut self) -> Vec<ArrayRef> {
        let [name, namespace, app, models, spec] =
            self.text.each_mut().map(|column| Arc::new(column.finish()) as ArrayRef);
        let [owner, cpu, memory, gpus, gpu_milli] =
            self.whole.each_mut().map(|column| Arc::new(column.finish()) as ArrayRef);
        let [arrival, least, most] = self.times.each_mut().map(|column| Arc::new(column.finish()) as ArrayRef);
        let [soft, hard] = self.latency.each_mut().map(|column| Arc::new(column.finish()) as ArrayRef);
        let (priority, usage) = (Arc::new(self.priority.finish()), Arc::new(self.usage.finish()));
        vec![
            name, namespace, app, owner, arrival, least, most, cpu, memory, gpus, gpu_milli, models, priority, soft,
            hard, usage, spec,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::fields::Reason;
    use crate::workload::generate::Generator;
    use crate::workload::table;
    use crate::workload::testing::{file, path};
    use crate::workload::{Format, read as read_any, write as write_any};
    use arrow_array::{Float64Array, Int32Array};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_workload_is_read_as_it_was_written(workload in table::tests::workload()) {
            let path = path("round.parquet");
            write(&workload, &path).unwrap();
            let (again, skipped) = read(&path, None, ReadOptions::STRICT).unwrap();
            prop_assert!(skipped.is_empty());
            prop_assert_eq!(again, workload);
        }
    }

    #[test]
    fn files_are_told_apart_by_their_content() {
        let none: [&str; 0] = [];
        let workload = Generator::parse("shop", &none).unwrap().generate(1).unwrap();
        let path = path("shop.parquet");
        write_any(&workload, &path).unwrap();
        assert_eq!(Format::detect(&path), Ok(Format::Table));
        assert_eq!(read_any(&path, Format::Table, None, ReadOptions::STRICT).unwrap().0, workload);
    }

    /// As another program would write it: times as doubles, sizes as 32-bit numbers.
    fn foreign(name: &str, arrivals: Vec<f64>) -> std::path::PathBuf {
        let rows = arrivals.len();
        let numbers = |value: i32| Arc::new(Int32Array::from(vec![value; rows])) as ArrayRef;
        let names: Vec<String> = (0..rows).map(|at| format!("p{at}")).collect();
        let batch = RecordBatch::try_from_iter([
            ("name", Arc::new(StringArray::from(names)) as ArrayRef),
            ("owner", numbers(1)),
            ("arrival_s", Arc::new(Float64Array::from(arrivals))),
            ("lifetime_s", Arc::new(Float64Array::from(vec![1e-3; rows]))),
            ("cpu_milli", numbers(250)),
            ("memory_bytes", numbers(1 << 20)),
        ])
        .unwrap();
        let path = path(name);
        let mut writer = ArrowWriter::try_new(File::create(&path).unwrap(), batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        path
    }

    #[test]
    fn numbers_of_any_kind_are_taken() {
        let (workload, _) = read(&foreign("foreign.parquet", vec![0.5, 1e6]), None, ReadOptions::STRICT).unwrap();
        assert_eq!(workload.pods[1].arrival, Duration::from_secs(1_000_000));
        assert_eq!(workload.pods[0].lifetime.unwrap().most, Duration::from_millis(1));
    }

    #[test]
    fn bad_rows_and_files_are_errors_with_their_place() {
        let path = foreign("bad.parquet", vec![0.5, -3.0, f64::NAN]);
        let error = read(&path, None, ReadOptions::STRICT).unwrap_err();
        assert_eq!((error.line, error.column.as_deref()), (Some(3), Some("arrival_s")), "{error}");
        let (workload, skipped) = read(&path, None, ReadOptions::LENIENT).unwrap();
        assert_eq!((workload.pods.len(), skipped.reasons[&Reason::Negative].count), (1, 1));
        assert_eq!(skipped.count(), 2);
        let whole = std::fs::read(&path).unwrap();
        let cut = file("cut.parquet", &whole[..whole.len() / 2]);
        assert!(read(&cut, None, ReadOptions::LENIENT).unwrap_err().problem.contains("Parquet"));
        assert!(read(&file("none.parquet", ""), None, ReadOptions::STRICT).is_err());
    }
}
