//! Where the programs of the control plane are.

use crate::LabError;
use std::env;
use std::path::{Path, PathBuf};

/// The environment variable that names the folder of the control plane's programs.
pub const BINARIES_VARIABLE: &str = "PLIMSOLL_LAB_BIN";

/// All programs a lab is made of, as `make lab` builds them.
const PROGRAMS: [&str; 5] = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"];

/// The folder that a variable of the environment names, or else the first of this name in the working folder, in one above it, or in one
/// above this program.
pub(crate) fn find_folder(variable: &str, name: &str) -> Option<PathBuf> {
    if let Some(named) = env::var_os(variable) {
        return Some(named.into());
    }
    let starts = [env::current_dir().ok(), env::current_exe().ok()];
    let mut above = starts.iter().flatten().flat_map(|start| start.ancestors()).map(|folder| folder.join(name));
    above.find(|folder| folder.is_dir())
}

/// A folder that holds the programs of a control plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binaries(PathBuf);

impl Binaries {
    /// Those of a folder, if all of them are there.
    pub fn at(folder: &Path) -> Result<Self, LabError> {
        match PROGRAMS.iter().find(|program| !folder.join(program).is_file()) {
            None => Ok(Self(std::path::absolute(folder).map_err(LabError::io(format!("find {}", folder.display())))?)),
            Some(missing) => {
                Err(LabError::NotBuilt { missing: (*missing).to_string(), looked: folder.display().to_string() })
            }
        }
    }

    /// Those named by the environment, or else those in `bin/lab` of the working folder, of one above it, or of one above this program.
    pub fn find() -> Result<Self, LabError> {
        match find_folder(BINARIES_VARIABLE, "bin/lab") {
            Some(folder) => Self::at(&folder),
            None => Err(LabError::NotBuilt {
                missing: "bin/lab".to_string(),
                looked: "the working folder, those above it, and those above this program".to_string(),
            }),
        }
    }

    /// The path of a program.
    pub fn program(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Whether a program of this name is part of a lab.
    pub(crate) fn is_program(name: &str) -> bool {
        PROGRAMS.contains(&name)
    }
}
