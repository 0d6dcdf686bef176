//! The folder of a lab: certificates, kubeconfigs, data, logs and state, all in one place.

use crate::state::State;
use crate::{LabError, process};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The longest path of a Unix socket on Linux, without its end mark.
const LONGEST_SOCKET: usize = 107;
/// The socket of etcd.
const ETCD_SOCKET: &str = "etcd.sock";
/// Held while a lab is started in the folder.
const LOCK: &str = "lock";

/// Where `plimsoll lab` keeps its lab unless told otherwise: one for each user of the machine.
pub fn default_folder() -> PathBuf {
    std::env::temp_dir().join(format!("plimsoll-lab-{}", rustix::process::getuid().as_raw()))
}

/// A folder that belongs to one lab.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Nobody else starts a lab in this folder as long as this is held.
    _lock: File,
}

impl Folder {
    /// Takes a folder for a new lab: the one that is named, made if necessary and cleared of an earlier lab that no longer runs, or a new one.
    pub fn take(named: Option<&Path>) -> Result<Self, LabError> {
        let path = match named {
            Some(path) => std::path::absolute(path).map_err(LabError::io(format!("find {}", path.display())))?,
            None => fresh_path(),
        };
        let refuse = |why: &str| LabError::Folder { folder: path.clone(), why: why.to_string() };
        if path.join(ETCD_SOCKET).as_os_str().len() > LONGEST_SOCKET {
            return Err(refuse("its path is too long for a Unix socket; take a shorter one with --dir"));
        }
        let was_lab = State::file(&path).exists() || path.join(LOCK).exists();
        if !was_lab && fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(refuse("it holds other files; take an empty folder, or one that does not exist yet"));
        }
        let make = DirBuilder::new().recursive(true).mode(0o700).create(&path);
        make.map_err(LabError::io(format!("make the folder {}", path.display())))?;
        // Links are resolved once, so that the folder is found again as the working folder of its processes.
        let path = path.canonicalize().map_err(LabError::io(format!("find {}", path.display())))?;
        let lock = File::create(path.join(LOCK)).map_err(LabError::io(format!("write into {}", path.display())))?;
        if lock.try_lock().is_err() {
            return Err(LabError::AlreadyRunning(path));
        }
        if !process::lab_processes_in(&path).is_empty() || State::read(&path).is_ok_and(|state| state.is_running()) {
            return Err(LabError::AlreadyRunning(path));
        }
        clear(&path)?;
        let folder = Self { path, _lock: lock };
        for part in ["logs", "pki", "etcd"] {
            let part = folder.path.join(part);
            let make = DirBuilder::new().mode(0o700).create(&part);
            make.map_err(LabError::io(format!("make the folder {}", part.display())))?;
        }
        Ok(folder)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of something in it, as an argument.
    pub fn join(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }

    /// Where etcd listens.
    pub fn etcd_socket(&self) -> PathBuf {
        self.path.join(ETCD_SOCKET)
    }

    /// Writes a file that only the owner can read, and returns its path.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> Result<String, LabError> {
        let path = self.path.join(name);
        let write = || -> std::io::Result<()> {
            let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
            file.write_all(content.as_ref())
        };
        write().map_err(LabError::io(format!("write {}", path.display())))?;
        Ok(path.display().to_string())
    }
}

/// Removes what a lab has left in its folder; anything else stays.
fn clear(folder: &Path) -> Result<(), LabError> {
    let fail = |path: &Path| LabError::io(format!("remove {}", path.display()));
    for part in ["logs", "pki", "etcd"] {
        let part = folder.join(part);
        if part.exists() {
            fs::remove_dir_all(&part).map_err(fail(&part))?;
        }
    }
    let entries = fs::read_dir(folder).map_err(fail(folder))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_ours = name.ends_with(".kubeconfig") || ["kwok.yaml", "scheduler.json", ETCD_SOCKET].contains(&name);
        if is_ours || path == State::file(folder) {
            fs::remove_file(&path).map_err(fail(&path))?;
        }
    }
    Ok(())
}

/// Removes a lab's files, and the folder where nothing else is in it.
pub fn remove(folder: &Path) -> Result<(), LabError> {
    clear(folder)?;
    let lock = folder.join(LOCK);
    if lock.exists() {
        fs::remove_file(&lock).map_err(LabError::io(format!("remove {}", lock.display())))?;
    }
    // A folder with files of others stays.
    let _ = fs::remove_dir(folder);
    Ok(())
}

/// A path that no other lab has: by process, and counted within it.
fn fresh_path() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let temporary = std::env::temp_dir();
    loop {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = temporary.join(format!("plimsoll-lab-{}-{count}", std::process::id()));
        if !path.exists() {
            return path;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_other_files_is_refused_and_left_alone() {
        let path = fresh_path();
        fs::create_dir(&path).unwrap();
        fs::write(path.join("thesis.tex"), "years of work").unwrap();
        let error = Folder::take(Some(&path)).unwrap_err().to_string();
        assert!(error.contains("holds other files"), "{error}");
        assert!(path.join("thesis.tex").exists());
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn a_folder_is_taken_once_and_again_when_it_is_free() {
        let path = fresh_path();
        let taken = Folder::take(Some(&path)).unwrap();
        assert!(matches!(Folder::take(Some(&path)), Err(LabError::AlreadyRunning(_))));
        taken.write("admin.kubeconfig", "old").unwrap();
        drop(taken);
        let again = Folder::take(Some(&path)).unwrap();
        assert!(!path.join("admin.kubeconfig").exists(), "an earlier lab's kubeconfig is still there");
        remove(again.path()).unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn a_path_too_long_for_a_socket_is_refused() {
        let error = Folder::take(Some(&std::env::temp_dir().join("x".repeat(120)))).unwrap_err().to_string();
        assert!(error.contains("too long"), "{error}");
    }
}
