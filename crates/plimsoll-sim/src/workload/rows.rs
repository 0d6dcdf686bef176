//! Reading a table row by row, plain or compressed, and dealing with rows that are bad.

use super::fields::{Cell, Fault, Reason};
use crate::error::InputError;
use csv::StringRecord;
use flate2::bufread::MultiGzDecoder;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// The two bytes every gzip stream begins with.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// Traces have millions of short lines: a larger buffer than the usual saves system calls.
const BUFFER: usize = 256 * 1024;
/// How many rows skipped for one reason are kept to be shown.
const EXAMPLES: usize = 3;

/// How to read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// Whether bad rows are skipped and counted; otherwise the first one is an error.
    pub lenient: bool,
}

impl ReadOptions {
    /// Bad rows are skipped and counted.
    pub const LENIENT: Self = Self { lenient: true };
    /// The first bad row is an error.
    pub const STRICT: Self = Self { lenient: false };
}

/// What was skipped, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skipped {
    /// By reason.
    pub reasons: BTreeMap<Reason, SkippedRows>,
}

/// What was skipped for one reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkippedRows {
    /// How often.
    pub count: u64,
    /// The first few.
    pub examples: Vec<InputError>,
}

impl Skipped {
    /// How often something was skipped.
    pub fn count(&self) -> u64 {
        self.reasons.values().map(|rows| rows.count).sum()
    }

    /// Whether nothing was.
    pub fn is_empty(&self) -> bool {
        self.reasons.is_empty()
    }

    /// Adds what was skipped elsewhere.
    pub fn join(&mut self, other: Self) {
        for (reason, rows) in other.reasons {
            let into = self.reasons.entry(reason).or_default();
            into.count += rows.count;
            let room = EXAMPLES.saturating_sub(into.examples.len());
            into.examples.extend(rows.examples.into_iter().take(room));
        }
    }

    fn add(&mut self, reason: Reason, error: InputError) {
        let rows = self.reasons.entry(reason).or_default();
        rows.count += 1;
        if rows.examples.len() < EXAMPLES {
            rows.examples.push(error);
        }
    }
}

/// As `{"count": 3, "reasons": {"negative": {"count": 3, "examples": ["trace.csv: line 2: …"]}}}`.
impl Serialize for Skipped {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Rows {
            count: u64,
            examples: Vec<String>,
        }
        #[derive(Serialize)]
        struct All<'a> {
            count: u64,
            reasons: BTreeMap<&'a Reason, Rows>,
        }
        let rows = |rows: &SkippedRows| Rows {
            count: rows.count,
            examples: rows.examples.iter().map(ToString::to_string).collect(),
        };
        let reasons = self.reasons.iter().map(|(reason, skipped)| (reason, rows(skipped))).collect();
        All { count: self.count(), reasons }.serialize(serializer)
    }
}

/// Where bad rows of a file go: into an error, or into the count of those skipped.
#[derive(Debug)]
pub struct Faults {
    path: PathBuf,
    options: ReadOptions,
    /// What was skipped so far.
    pub skipped: Skipped,
}

impl Faults {
    /// None yet.
    pub fn new(path: &Path, options: ReadOptions) -> Self {
        Self { path: path.to_owned(), options, skipped: Skipped::default() }
    }

    /// Deals with a bad row: an error unless bad rows are skipped.
    pub fn add(&mut self, line: u64, fault: Fault) -> Result<(), InputError> {
        let mut error = InputError::new(&self.path, fault.problem).at_line(line);
        error.column = fault.column;
        if !self.options.lenient {
            return Err(error);
        }
        self.skipped.add(fault.reason, error);
        Ok(())
    }

    /// A file without a usable row is an error, however lenient one is.
    pub fn ensure_some(&self, rows: usize) -> Result<(), InputError> {
        if rows > 0 {
            return Ok(());
        }
        let problem = match self.skipped.count() {
            0 => "there are no rows below the heading".to_owned(),
            skipped => format!("none of its rows can be used: {skipped} skipped"),
        };
        let mut error = InputError::new(&self.path, problem);
        // One of the rows shows what is wrong with all of them.
        if let Some(example) = self.skipped.reasons.values().flat_map(|rows| &rows.examples).next() {
            error.problem =
                format!("{}, as the one in line {}: {}", error.problem, example.line.unwrap_or(0), example.problem);
        }
        Err(error)
    }
}

/// A column: its name and its place.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    name: &'static str,
    at: Option<usize>,
}

/// The heading of a table: which column is where.
#[derive(Debug)]
pub struct Heading {
    path: PathBuf,
    line: u64,
    names: Vec<String>,
}

impl Heading {
    /// A heading; every name may be there once.
    pub fn new<'a>(path: &Path, line: u64, names: impl IntoIterator<Item = &'a str>) -> Result<Self, InputError> {
        let names: Vec<String> = names.into_iter().map(|name| name.trim().to_owned()).collect();
        let heading = Self { path: path.to_owned(), line, names };
        if heading.names.iter().all(String::is_empty) {
            return Err(
                InputError::new(path, "the file is empty; a line with the columns' names is needed").at_line(line)
            );
        }
        for (at, name) in heading.names.iter().enumerate() {
            if heading.names.get(..at).is_some_and(|before| before.contains(name)) {
                return Err(heading.error(name, "the column is there twice"));
            }
        }
        Ok(heading)
    }

    /// The names of the columns, in their order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The line it stands in.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Columns that must be there.
    pub fn columns<const N: usize>(&self, names: [&'static str; N]) -> Result<[Column; N], InputError> {
        let columns = self.optional(names);
        match columns.iter().find(|column| column.at.is_none()) {
            None => Ok(columns),
            Some(missing) => {
                let has = self.names.join(", ");
                Err(self.error(
                    missing.name,
                    &format!("the column is missing; needed are {}; there are {has}", names.join(", ")),
                ))
            }
        }
    }

    /// Columns that may be missing: their cells are empty then.
    pub fn optional<const N: usize>(&self, names: [&'static str; N]) -> [Column; N] {
        names.map(|name| Column { name, at: self.names.iter().position(|known| known == name) })
    }

    fn error(&self, column: &str, problem: &str) -> InputError {
        InputError::new(&self.path, problem).at_line(self.line).in_column(column)
    }
}

/// A row of a table.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// The cells.
    pub record: &'a StringRecord,
}

impl<'a> Row<'a> {
    /// The cell of a column; empty where the column is missing.
    pub fn cell(self, column: Column) -> Cell<'a> {
        let text = column.at.and_then(|at| self.record.get(at)).unwrap_or_default();
        Cell { column: column.name, text }
    }
}

/// The rows of a CSV file, compressed with gzip or not.
pub struct Rows {
    reader: csv::Reader<Box<dyn BufRead>>,
    record: StringRecord,
    /// Lines that were read before the heading.
    offset: u64,
    /// Whether lines end in a carriage return and a line feed. The parser counts the feed to the record after it.
    crlf: bool,
    done: bool,
    /// Which column is where.
    pub heading: Heading,
    /// The bad rows.
    pub faults: Faults,
}

impl Rows {
    /// Opens a file and reads its heading.
    pub fn open(path: &Path, options: ReadOptions) -> Result<Self, InputError> {
        Self::of(open(path)?, path, options, 0)
    }

    /// The rows of a text whose first `offset` lines were read.
    pub fn of(
        mut source: Box<dyn BufRead>,
        path: &Path,
        options: ReadOptions,
        offset: u64,
    ) -> Result<Self, InputError> {
        let crlf = ends_in_crlf(&mut *source);
        // Lengths are checked here, so that the message can say which column is missing.
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(source);
        let line = offset + 1;
        let names = match reader.headers() {
            Ok(names) => names.clone(),
            Err(error) => return Err(InputError::new(path, broken(&error, &[]).problem).at_line(line)),
        };
        let heading = Heading::new(path, line, &names)?;
        let faults = Faults::new(path, options);
        Ok(Self { reader, record: StringRecord::new(), offset, crlf, done: false, heading, faults })
    }

    /// The next row that can be read, and its line.
    pub fn next(&mut self) -> Result<Option<(Row<'_>, u64)>, InputError> {
        while !self.done {
            let problem = match self.reader.read_record(&mut self.record) {
                Ok(false) => {
                    self.done = true;
                    continue;
                }
                Ok(true) if self.record.len() == self.heading.names.len() => break,
                Ok(true) => wrong_length(&self.record, &self.heading),
                Err(error) => {
                    self.done = matches!(error.kind(), csv::ErrorKind::Io(_));
                    broken(&error, &self.heading.names)
                }
            };
            // A file that breaks off has no record there: the line is the one reached.
            let line = if self.done { self.reader.position().line() } else { self.line() };
            self.faults.add(self.offset + line, problem)?;
        }
        if self.done {
            return Ok(None);
        }
        let line = self.offset + self.line();
        Ok(Some((Row { record: &self.record }, line)))
    }

    fn line(&self) -> u64 {
        self.record.position().map_or(0, csv::Position::line) + u64::from(self.crlf)
    }
}

/// Opens a file, compressed with gzip or not.
pub fn open(path: &Path) -> Result<Box<dyn BufRead>, InputError> {
    let cannot = |error: io::Error| InputError::new(path, format!("cannot be read: {error}"));
    let file = File::open(path).map_err(cannot)?;
    // Opening a folder succeeds; only reading it fails, with a message that does not say so.
    if file.metadata().is_ok_and(|data| data.is_dir()) {
        return Err(InputError::new(path, "is a folder; name a file"));
    }
    let mut reader = BufReader::with_capacity(BUFFER, file);
    let is_gzip = reader.fill_buf().map_err(cannot)?.starts_with(&GZIP_MAGIC);
    if is_gzip {
        return Ok(Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(reader))));
    }
    Ok(Box::new(reader))
}

/// The first line of a text without its end, at most `most` bytes of it.
pub fn first_line(reader: &mut dyn BufRead, most: u64) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    reader.take(most).read_until(b'\n', &mut line)?;
    while line.last().is_some_and(|end| matches!(end, b'\n' | b'\r')) {
        line.pop();
    }
    Ok(line)
}

/// Whether the heading does; where it cannot be read, that is found out in a moment.
fn ends_in_crlf(source: &mut dyn BufRead) -> bool {
    let start = source.fill_buf().unwrap_or_default();
    start.split_inclusive(|byte| *byte == b'\n').next().is_some_and(|line| line.ends_with(b"\r\n"))
}

fn wrong_length(record: &StringRecord, heading: &Heading) -> Fault {
    let (is, should) = (record.len(), heading.names.len());
    let problem = format!("the row has {is} cells where there are {should} columns");
    // The first that is missing; one too many has no name.
    Fault { reason: Reason::WrongLength, column: heading.names.get(is).cloned(), problem }
}

/// What is wrong where the text itself cannot be read.
fn broken(error: &csv::Error, columns: &[String]) -> Fault {
    let (reason, column, problem) = match error.kind() {
        csv::ErrorKind::Utf8 { err, .. } => {
            (Reason::NotText, columns.get(err.field()).cloned(), format!("cell {} is not UTF-8 text", err.field() + 1))
        }
        csv::ErrorKind::Io(error) => (Reason::Truncated, None, interrupted(error)),
        _ => (Reason::NotText, None, error.to_string()),
    };
    Fault { reason, column, problem }
}

/// What is wrong where a file cannot be read on.
pub fn interrupted(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            "the compressed file breaks off here: it is truncated; copy it again".to_owned()
        }
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
            format!("the compressed file is damaged here ({error}); copy it again")
        }
        _ => format!("cannot be read on: {error}"),
    }
}
