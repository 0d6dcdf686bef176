//! Opens a page where there is somebody to see it.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

/// Opens a page in the browser of whoever sits here; whether there is one.
pub fn open(url: &str) -> bool {
    let Some(program) = program() else { return false };
    let quiet = Command::new(program).arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    quiet.is_ok()
}

/// What opens a page here; nothing where there is no screen.
fn program() -> Option<&'static str> {
    if cfg!(target_os = "macos") {
        return Some("open");
    }
    let has_screen =
        ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| env::var_os(name).is_some_and(|set| !set.is_empty()));
    (has_screen && is_there("xdg-open")).then_some("xdg-open")
}

fn is_there(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder: std::path::PathBuf| Path::new(&folder).join(program).is_file())
}
