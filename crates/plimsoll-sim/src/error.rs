//! What is wrong with input, and where.

use std::fmt;
use std::path::{Path, PathBuf};

/// Input that cannot be used: the file, the place in it, and what is wrong there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct InputError {
    /// The file.
    pub file: PathBuf,
    /// The line, counted from one, where one is to blame.
    pub line: Option<u64>,
    /// The column's name, where one is to blame.
    pub column: Option<String>,
    /// What is wrong, and what would be right.
    pub problem: String,
}

impl InputError {
    /// Something is wrong with a file as a whole.
    pub fn new(file: &Path, problem: impl fmt::Display) -> Self {
        Self { file: file.to_owned(), line: None, column: None, problem: problem.to_string() }
    }

    /// Something is wrong with a line.
    #[must_use]
    pub fn at_line(mut self, line: u64) -> Self {
        self.line = Some(line);
        self
    }

    /// Something is wrong with a column.
    #[must_use]
    pub fn in_column(mut self, column: &str) -> Self {
        self.column = Some(column.to_owned());
        self
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ": line {line}")?;
        }
        if let Some(column) = &self.column {
            write!(f, ": column {column}")?;
        }
        write!(f, ": {}", self.problem)
    }
}
