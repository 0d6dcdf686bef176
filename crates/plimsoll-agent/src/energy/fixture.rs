//! A tree of files as the kernel shows it, with counters that tests choose.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The tree; it is removed when this is dropped.
pub struct Fixture {
    root: PathBuf,
}

impl Fixture {
    /// An empty one, in a folder of its own.
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("plimsoll-agent-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let root = std::env::temp_dir().join(name);
        for folder in ["powercap", "proc", "cgroup"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        Self { root }
    }

    /// What stands for `/sys/class/powercap`.
    pub fn powercap(&self) -> PathBuf {
        self.root.join("powercap")
    }

    /// What stands for `/proc`.
    pub fn proc(&self) -> PathBuf {
        self.root.join("proc")
    }

    /// What stands for `/sys/fs/cgroup`.
    pub fn cgroups(&self) -> PathBuf {
        self.root.join("cgroup")
    }

    /// Writes a file, and the folders it is in.
    pub fn write(&self, path: impl AsRef<Path>, text: &str) {
        let path = self.root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// A zone of powercap.
    pub fn zone(&self, folder: &str, name: &str, range: u64, energy: u64) {
        self.write(format!("powercap/{folder}/name"), &format!("{name}\n"));
        self.write(format!("powercap/{folder}/max_energy_range_uj"), &format!("{range}\n"));
        self.energy(folder, energy);
    }

    /// The counter of a zone.
    pub fn energy(&self, folder: &str, energy: u64) {
        self.write(format!("powercap/{folder}/energy_uj"), &format!("{energy}\n"));
    }

    /// The time of all processors, in ticks.
    pub fn total(&self, busy: u64, idle: u64) {
        self.write("proc/stat", &format!("cpu  {busy} 0 0 {idle} 0 0 0 0 0 0\n"));
    }

    /// The time of a process, in ticks.
    pub fn process(&self, pid: u32, name: &str, user: u64, system: u64, started: u64) {
        let text = format!("{pid} ({name}) S 1 1 1 0 -1 4194560 1 2 3 4 {user} {system} 0 0 20 0 1 0 {started} 1 1\n");
        self.write(format!("proc/{pid}/stat"), &text);
    }

    /// What a cgroup used, in microseconds.
    pub fn cgroup(&self, path: &str, used: u64) {
        self.write(format!("cgroup/{path}/cpu.stat"), &format!("usage_usec {used}\nuser_usec 0\nsystem_usec 0\n"));
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}
