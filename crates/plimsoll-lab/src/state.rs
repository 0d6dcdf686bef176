//! The state file of a lab: what runs where, for those who come later.

use crate::LabError;
use crate::process::ProcessId;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// One component of a running lab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Component {
    /// Its name.
    pub name: String,
    /// Its process.
    #[serde(flatten)]
    pub process: ProcessId,
    /// Where it listens on 127.0.0.1, if it does.
    pub port: Option<u16>,
    /// Its log.
    pub log: PathBuf,
}

/// What a lab's state file says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// The folder of the lab.
    pub folder: PathBuf,
    /// The kubeconfig that may do everything.
    pub kubeconfig: PathBuf,
    /// Who schedules.
    pub scheduler: String,
    /// How many nodes it was started with.
    pub nodes: usize,
    /// Its components, in the order in which they were started.
    pub components: Vec<Component>,
}

impl State {
    /// The state file of a lab in this folder.
    pub fn file(folder: &Path) -> PathBuf {
        folder.join("lab.json")
    }

    /// Reads the state of the lab in a folder.
    pub fn read(folder: &Path) -> Result<Self, LabError> {
        let file = Self::file(folder);
        let text = fs::read_to_string(&file).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => LabError::NotThere(folder.to_path_buf()),
            _ => LabError::Io { what: format!("read {}", file.display()), source },
        })?;
        serde_json::from_str(&text).map_err(|error| LabError::State { file, why: error.to_string() })
    }

    /// Writes it, so that a reader sees the old or the new and nothing between.
    pub(crate) fn write(&self) -> Result<(), LabError> {
        let file = Self::file(&self.folder);
        let draft = file.with_extension("json.new");
        let write = || -> io::Result<()> {
            fs::write(&draft, serde_json::to_vec_pretty(self)?)?;
            fs::rename(&draft, &file)
        };
        write().map_err(LabError::io(format!("write {}", file.display())))
    }

    /// Whether any of its components runs.
    pub(crate) fn is_running(&self) -> bool {
        self.components.iter().any(|component| component.process.is_alive())
    }
}
