//! Programs that a benchmark starts.

use anyhow::{Context, Result, bail};
use std::process::Command;

/// What a program prints; its complaint if it fails.
pub fn output(command: &mut Command) -> Result<String> {
    let result = command.output().with_context(|| format!("starting {command:?}"))?;
    if !result.status.success() {
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&result.stderr));
    }
    Ok(String::from_utf8(result.stdout)?)
}
