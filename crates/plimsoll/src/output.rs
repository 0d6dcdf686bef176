//! The one writer everything is printed through.
//!
//! Text may hold ANSI styles: they reach a terminal and are taken out everywhere else, as `NO_COLOR` and its kin have it.

use anstyle::{AnsiColor, Style};
use comfy_table::{Cell, CellAlignment, Table, presets};
use std::io::{self, BufWriter, Stdout, Write};

/// Headings.
pub const HEADING: Style = Style::new().bold();
/// What went well.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// What did not.
pub const BAD: Style = AnsiColor::Red.on_default().bold();
/// What stands out.
pub const ACCENT: Style = AnsiColor::Cyan.on_default();
/// What may be passed over.
pub const DIM: Style = Style::new().dimmed();

/// Standard output, buffered, and standard error for what went wrong.
pub struct Output(BufWriter<anstream::AutoStream<Stdout>>);

impl Output {
    /// The process's own.
    pub fn new() -> Self {
        Self(BufWriter::new(anstream::stdout()))
    }

    /// Tells of an error, on standard error.
    pub fn error(&self, message: &str) {
        self.complain("error", BAD, message);
    }

    /// Tells of something the user should know that is no error, on standard error.
    pub fn note(&self, message: &str) {
        self.complain("note", ACCENT, message);
    }

    fn complain(&self, label: &str, style: Style, message: &str) {
        // Where even this cannot be written there is nobody to tell.
        let _ = writeln!(anstream::stderr(), "{style}{label}:{style:#} {message}");
    }

    /// Prints a value as indented JSON.
    pub fn json(&mut self, value: &impl serde::Serialize) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *self, value)?;
        writeln!(self)
    }

    /// Prints a table, every line after `indent`, the heading in bold.
    pub fn table(&mut self, indent: &str, table: &Table) -> io::Result<()> {
        let mut heading_lines = table.header().map_or(0, |header| {
            header.cell_iter().map(|cell| cell.content().lines().count()).max().unwrap_or_default()
        });
        for line in table.lines() {
            let style = if heading_lines > 0 { HEADING } else { Style::new() };
            heading_lines = heading_lines.saturating_sub(1);
            writeln!(self, "{indent}{style}{}{style:#}", line.trim_end())?;
        }
        Ok(())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// A table without lines. Columns named in `right` are aligned to the right.
pub fn table<H: Into<String>>(header: impl IntoIterator<Item = H>, right: &[usize]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header.into_iter().map(|text| Cell::new(text.into())));
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if right.contains(&at) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// `1 pod`, `2 pods`.
pub fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
