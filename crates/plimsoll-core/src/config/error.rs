//! What is wrong with a configuration file, said so that its author can find and repair it.
//!
//! Reading goes on after a mistake, so that all of them are reported at once.

use std::cell::RefCell;
use std::fmt;

/// Where in the text something begins, counted from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

/// One mistake in a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The field, as in `profiles[0].plugins.score.enabled[1].name`; empty for the file as a whole.
    pub path: String,
    /// Where the field, or what should contain it, stands in the text. Unknown for JSON.
    pub position: Option<Position>,
    /// What is wrong and what is allowed.
    pub message: String,
}

/// All mistakes of one configuration file, in the order of the text they stand in where that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors {
    /// The file, as the caller named it.
    pub source: String,
    /// The mistakes, at least one.
    pub errors: Vec<ConfigError>,
}

impl std::error::Error for ConfigErrors {}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.errors.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            f.write_str(&self.source)?;
            if let Some(Position { line, column }) = error.position {
                write!(f, ":{line}:{column}")?;
            }
            if !error.path.is_empty() {
                write!(f, ": {}", error.path)?;
            }
            write!(f, ": {}", error.message)?;
        }
        Ok(())
    }
}

/// One step from an object or a list to what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Field(String),
    Index(usize),
}

/// The way from the top of a file to a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Path(pub Vec<Step>);

impl Path {
    pub fn field(&self, name: &str) -> Self {
        self.then(Step::Field(name.to_owned()))
    }

    pub fn index(&self, index: usize) -> Self {
        self.then(Step::Index(index))
    }

    fn then(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (depth, step) in self.0.iter().enumerate() {
            match step {
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Field(name) if depth == 0 => f.write_str(name)?,
                Step::Field(name) => write!(f, ".{name}")?,
            }
        }
        Ok(())
    }
}

/// The mistakes found so far; shared by everything that reads or checks the file.
#[derive(Debug, Default)]
pub(super) struct Problems(RefCell<Vec<(Path, String)>>);

impl Problems {
    pub fn add(&self, path: Path, message: impl Into<String>) {
        self.0.borrow_mut().push((path, message.into()));
    }

    /// Whether anything at or below `path` is wrong.
    pub fn any_under(&self, path: &Path) -> bool {
        self.0.borrow().iter().any(|(wrong, _)| wrong.0.starts_with(&path.0))
    }

    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    pub fn into_inner(self) -> Vec<(Path, String)> {
        self.0.into_inner()
    }
}

/// Says that `found` is not one of `allowed`, and which of them was probably meant.
pub(super) fn not_one_of(what: &str, found: &str, allowed: &[&str]) -> String {
    let allowed_names = allowed.join(", ");
    match nearest(found, allowed) {
        Some(near) => format!("unknown {what} {found:?}, did you mean {near:?}? Allowed: {allowed_names}"),
        None => format!("unknown {what} {found:?}; allowed: {allowed_names}"),
    }
}

/// The name in `allowed` that `found` looks like a slip of the pen of.
fn nearest<'a>(found: &str, allowed: &[&'a str]) -> Option<&'a str> {
    // A third of the letters may differ: enough for a forgotten syllable, too little for another word.
    let limit = (found.chars().count() / 3).max(1);
    allowed
        .iter()
        .map(|name| (distance(&found.to_lowercase(), &name.to_lowercase()), *name))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, name)| name)
}

/// Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    // No name is this long, and the work grows with the product.
    if a.len() > 64 {
        return usize::MAX;
    }
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let substituted = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = substituted.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before_last[j - 2] + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_pen_is_recognised() {
        for (found, allowed, near) in [
            ("paralelism", vec!["profiles", "parallelism"], Some("parallelism")),
            ("schedulername", vec!["schedulerName"], Some("schedulerName")),
            ("NodeReosurcesFit", vec!["NodeResourcesFit", "NodeResourcesBalancedAllocation"], Some("NodeResourcesFit")),
            ("foo", vec!["enabled", "disabled"], None),
            ("", vec!["ab"], None),
            ("MostAlocated", vec!["LeastAllocated", "MostAllocated"], Some("MostAllocated")),
        ] {
            assert_eq!(nearest(found, &allowed), near, "{found}");
        }
        assert_eq!(nearest(&"x".repeat(100_000), &["parallelism"]), None);
    }

    #[test]
    fn a_path_reads_as_in_the_file() {
        let path = Path::default().field("profiles").index(0).field("plugins").field("score");
        assert_eq!(path.to_string(), "profiles[0].plugins.score");
        assert_eq!(Path::default().to_string(), "");
    }
}
