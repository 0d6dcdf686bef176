//! The formats of workloads, and which one a file has.

use super::rows::{ReadOptions, Skipped, first_line, interrupted, open};
use super::{Workload, alibaba, azure, table};
use crate::error::InputError;
use crate::fleet::Fleet;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// The longest heading looked at: no format has more than a few hundred bytes.
const MAX_HEADING: u64 = 1 << 16;

/// A format of workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Azure's virtual machines, [`azure`].
    Azure,
    /// Alibaba's pods, [`alibaba`].
    Alibaba,
    /// Our own, [`table`]; Parquet where the file's content says so.
    Table,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 3] = [Self::Azure, Self::Alibaba, Self::Table];

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Azure => "azure",
            Self::Alibaba => "alibaba",
            Self::Table => "table",
        }
    }

    /// The format of a file, by its heading.
    pub fn detect(path: &Path) -> Result<Self, InputError> {
        let mut source = open(path)?;
        let mut line = || {
            first_line(&mut *source, MAX_HEADING).map_err(|error| InputError::new(path, interrupted(&error)).at_line(1))
        };
        let first = line()?;
        if first.is_empty() {
            return Err(InputError::new(path, "the file is empty; a line with the columns' names is needed").at_line(1));
        }
        if first.starts_with(b"#") || is_parquet(&first) {
            return Ok(Self::Table);
        }
        let heading = String::from_utf8_lossy(&first).into_owned();
        let names: Vec<&str> =
            heading.trim_start_matches('\u{feff}').split(',').map(|name| name.trim().trim_matches('"')).collect();
        // A heading with a column missing should still be told which one: the most of a format's own columns decide.
        let share = |columns: &[&str]| {
            columns.iter().filter(|column| names.contains(column)).count() as f64 / columns.len() as f64
        };
        let shares = [
            (share(&azure::COLUMNS), Self::Azure),
            (share(&alibaba::POD_COLUMNS), Self::Alibaba),
            (share(&table::REQUIRED), Self::Table),
        ];
        match shares.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)) {
            Some((share, format)) if share >= 0.5 => Ok(format),
            _ => {
                let problem = "the heading is that of no format; say which one it is: azure, alibaba or table";
                Err(InputError::new(path, problem).at_line(1))
            }
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|format| format.name() == text);
        found.ok_or_else(|| format!("there is no format {text:?}; there are azure, alibaba and table"))
    }
}

/// Reads a workload in a format. Given a fleet, a pod that asks for a GPU model that no machine has is bad input.
pub fn read(
    path: &Path,
    format: Format,
    fleet: Option<&Fleet>,
    options: ReadOptions,
) -> Result<(Workload, Skipped), InputError> {
    match format {
        Format::Azure => azure::read(path, options),
        Format::Alibaba => alibaba::read(path, fleet, options),
        Format::Table => {
            let mut start = open(path)?;
            let begins = start.fill_buf().is_ok_and(is_parquet);
            if begins { read_parquet(path, fleet, options) } else { table::read(path, fleet, options) }
        }
    }
}

/// Writes a workload in our own format: Parquet if the file is called so, CSV otherwise, compressed if it is called `.gz`.
pub fn write(workload: &Workload, path: &Path) -> Result<(), InputError> {
    if path.extension().is_some_and(|end| end == "parquet") {
        return write_parquet(workload, path);
    }
    table::write(workload, path)
}

fn is_parquet(start: &[u8]) -> bool {
    start.starts_with(b"PAR1")
}

#[cfg(feature = "parquet")]
use super::parquet::{read as read_parquet, write as write_parquet};

#[cfg(not(feature = "parquet"))]
const WITHOUT: &str = "this build has no Parquet; build with `--features parquet`, or use CSV";

#[cfg(not(feature = "parquet"))]
fn read_parquet(path: &Path, _: Option<&Fleet>, _: ReadOptions) -> Result<(Workload, Skipped), InputError> {
    Err(InputError::new(path, WITHOUT))
}

#[cfg(not(feature = "parquet"))]
fn write_parquet(_: &Workload, path: &Path) -> Result<(), InputError> {
    Err(InputError::new(path, WITHOUT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::testing::{file, gzip};

    #[test]
    fn a_format_is_known_by_its_heading() {
        let cases = [
            (azure::COLUMNS.join(","), Format::Azure),
            (alibaba::POD_COLUMNS.join(","), Format::Alibaba),
            (table::COLUMNS.join(","), Format::Table),
            (azure::COLUMNS.join(",").replace("vm,", ""), Format::Azure),
            ("#calls []".to_owned(), Format::Table),
        ];
        for (heading, format) in cases {
            assert_eq!(Format::detect(&file("detect.gz", gzip(&heading))), Ok(format), "{heading}");
        }
        for (text, problem) in [("", "is empty"), ("a,b\n", "that of no format")] {
            let error = Format::detect(&file("detect.csv", text)).unwrap_err();
            assert!(error.problem.contains(problem) && error.line == Some(1), "{error}");
        }
    }

    #[test]
    fn formats_are_called_by_name() {
        for format in Format::ALL {
            assert_eq!(format.name().parse(), Ok(format));
        }
        assert!("borg".parse::<Format>().unwrap_err().contains("azure, alibaba and table"));
    }

    #[cfg(not(feature = "parquet"))]
    #[test]
    fn parquet_is_refused_by_a_build_without_it() {
        let path = file("refused.parquet", "PAR1");
        let error = read(&path, Format::Table, None, ReadOptions::STRICT).unwrap_err();
        assert!(error.problem.contains("--features parquet"), "{error}");
        assert!(write(&Workload::default(), &path).is_err());
    }
}
