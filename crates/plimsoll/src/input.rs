//! Files to read: by path, or `-` for standard input; compressed with gzip or not.

use anyhow::{Context, Result};
use flate2::bufread::MultiGzDecoder;
use plimsoll_core::config::Configuration;
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::path::{Path, PathBuf};

/// The two bytes every gzip stream begins with.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// Cases are tens of kilobytes long: a larger buffer than the usual saves system calls.
const BUFFER: usize = 256 * 1024;

/// Something to read, and what to call it in messages.
pub struct Input {
    /// Its name.
    pub name: String,
    /// Its text, uncompressed.
    pub reader: Box<dyn BufRead>,
}

/// Opens a file, or standard input for `-`.
pub fn open(path: &Path) -> Result<Input> {
    let (name, source): (String, Box<dyn Read>) = if path == Path::new("-") {
        ("<stdin>".to_owned(), Box::new(io::stdin()))
    } else {
        let name = path.display().to_string();
        let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
        // Opening a folder succeeds; only reading it fails, with a message that does not say which.
        anyhow::ensure!(!file.metadata().is_ok_and(|data| data.is_dir()), "{name} is a folder; name a file");
        (name, Box::new(file))
    };
    let mut reader = BufReader::with_capacity(BUFFER, source);
    let is_gzip = reader.fill_buf().with_context(|| format!("cannot read {name}"))?.starts_with(&GZIP_MAGIC);
    let reader: Box<dyn BufRead> = if is_gzip {
        Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(reader)))
    } else {
        Box::new(reader)
    };
    Ok(Input { name, reader })
}

/// The whole text of a file, and its name for messages.
pub fn read_text(path: &Path) -> Result<(String, String)> {
    let Input { name, mut reader } = open(path)?;
    let mut text = String::new();
    reader.read_to_string(&mut text).with_context(|| format!("cannot read {name}"))?;
    Ok((name, text))
}

/// A token in a file that an option names; blank space around it does not count.
pub fn read_token(option: &str, file: Option<&Path>) -> Result<Option<String>> {
    let Some(file) = file else { return Ok(None) };
    let text = std::fs::read_to_string(file).with_context(|| format!("{option} {}: cannot be read", file.display()))?;
    Ok(Some(text.trim().to_owned()))
}

/// The configuration in a file, or the defaults if none is named. Extenders are left out: who reads it this way asks none.
pub fn read_configuration(path: Option<&PathBuf>) -> Result<Configuration> {
    let Some(path) = path else { return Ok(Configuration::default()) };
    let (name, text) = read_text(path)?;
    let read = Configuration::parse(&name, &text);
    let mut configuration = read.with_context(|| format!("{name} is not a valid configuration"))?;
    configuration.leave_out_extenders();
    Ok(configuration)
}

/// Whether standard input is somebody's keyboard.
pub fn stdin_is_terminal() -> bool {
    io::stdin().is_terminal()
}
