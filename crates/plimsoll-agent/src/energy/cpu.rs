//! How long processors were busy: all together, for a process, for a cgroup; and where the cgroups of pods are.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// How deep below the root the cgroup of a pod can be: `kubelet/kubepods/burstable/pod…`, and one to spare.
const DEPTH: usize = 5;

/// Time of all processors together since the machine started, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// Spent for somebody.
    pub busy: u64,
    /// Spent waiting.
    pub idle: u64,
}

/// Time of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessTime {
    /// Spent by all its threads, in microseconds.
    pub used: u64,
    /// When it started, in ticks since the machine did: another number is another process.
    pub started: u64,
}

/// Reads times below a proc file system.
#[derive(Debug, Clone)]
pub struct Clock {
    proc: PathBuf,
    tick_us: u64,
}

fn invalid(file: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{} is not as the kernel writes it", file.display()))
}

impl Clock {
    /// With the length of a tick of this machine.
    pub fn new(proc: &Path) -> Self {
        let per_second = rustix::param::clock_ticks_per_second().max(1);
        Self { proc: proc.to_owned(), tick_us: 1_000_000 / per_second }
    }

    /// The first line of `stat`. Time of guests is in that of users already, and stolen time was another machine's.
    pub fn total(&self) -> io::Result<CpuTime> {
        let file = self.proc.join("stat");
        let text = std::fs::read_to_string(&file)?;
        let line = text.lines().find_map(|line| line.strip_prefix("cpu ")).ok_or_else(|| invalid(&file))?;
        let ticks: Vec<u64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
        let [user, nice, system, idle, rest @ ..] = ticks.as_slice() else { return Err(invalid(&file)) };
        let of = |index: usize| rest.get(index).copied().unwrap_or(0);
        let (iowait, irq, softirq) = (of(0), of(1), of(2));
        Ok(CpuTime { busy: self.us(&[*user, *nice, *system, irq, softirq]), idle: self.us(&[*idle, iowait]) })
    }

    fn us(&self, ticks: &[u64]) -> u64 {
        ticks.iter().fold(0u64, |sum, ticks| sum.saturating_add(*ticks)).saturating_mul(self.tick_us)
    }

    /// A process's own time, without that of children.
    pub fn process(&self, pid: u32) -> io::Result<ProcessTime> {
        let file = self.proc.join(pid.to_string()).join("stat");
        let text = std::fs::read_to_string(&file)?;
        // The name may hold spaces and brackets; the last bracket ends it.
        let (_, rest) = text.rsplit_once(')').ok_or_else(|| invalid(&file))?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        // Counted from the state, which is the third field of proc_pid_stat(5).
        let field = |number: usize| -> io::Result<u64> {
            fields.get(number - 3).and_then(|text| text.parse().ok()).ok_or_else(|| invalid(&file))
        };
        Ok(ProcessTime { used: self.us(&[field(14)?, field(15)?]), started: field(22)? })
    }
}

/// What a cgroup used so far, in microseconds.
pub fn cgroup(folder: &Path) -> io::Result<u64> {
    let file = folder.join("cpu.stat");
    let text = std::fs::read_to_string(&file)?;
    let used = text.lines().find_map(|line| line.strip_prefix("usage_usec "));
    used.and_then(|text| text.trim().parse().ok()).ok_or_else(|| invalid(&file))
}

/// The cgroups of pods by UID, at most so many.
pub fn pods(root: &Path, most: usize) -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    walk(root, DEPTH, most, &mut found);
    found
}

fn walk(folder: &Path, depth: usize, most: usize, found: &mut BTreeMap<String, PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let folders = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    for entry in folders {
        let Ok(name) = entry.file_name().into_string() else { continue };
        if let Some(uid) = pod_uid(&name) {
            if found.len() < most {
                found.insert(uid, entry.path());
            }
        } else if depth > 1 && is_above_pods(&name) {
            walk(&entry.path(), depth - 1, most, found);
        }
    }
}

/// Whether the cgroups of pods may be below, so that the rest of the tree is not read.
fn is_above_pods(name: &str) -> bool {
    name.contains("kubepods") || name.contains("kubelet") || name == "burstable" || name == "besteffort"
}

/// The UID in the name of a pod's cgroup: `pod<uid>`, or `kubepods-burstable-pod<uid>.slice` with underscores where systemd names it.
fn pod_uid(name: &str) -> Option<String> {
    let name = name.strip_suffix(".slice").unwrap_or(name);
    let uid = name.strip_prefix("pod").or_else(|| Some(name.rsplit_once("-pod")?.1))?;
    let uid = uid.replace('_', "-");
    is_uid(&uid).then_some(uid)
}

/// Whether this can be the UID of a pod; those of static pods have no dashes.
pub fn is_uid(text: &str) -> bool {
    (8..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy::fixture::Fixture;
    use proptest::prelude::*;

    #[test]
    fn uids_are_found_in_the_names_of_both_drivers() {
        let uid = "1b4e28ba-2fa1-11d2-883f-0016d3cca427";
        let underscored = uid.replace('-', "_");
        for (name, expected) in [
            (format!("pod{uid}"), Some(uid)),
            (format!("kubepods-burstable-pod{underscored}.slice"), Some(uid)),
            (format!("kubepods-pod{underscored}.slice"), Some(uid)),
            (format!("kubelet-kubepods-besteffort-pod{underscored}.slice"), Some(uid)),
            ("kubepods".to_owned(), None),
            ("kubepods-burstable.slice".to_owned(), None),
            ("podman".to_owned(), None),
            ("pod../../../../etc".to_owned(), None),
        ] {
            assert_eq!(pod_uid(&name).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn pods_are_found_below_the_kubelet_and_nowhere_else() {
        let fixture = Fixture::new();
        let paths = [
            "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podaaaaaaaa_1.slice",
            "kubelet/kubepods/besteffort/podbbbbbbbb-2",
            "kubepods/podcccccccc-3",
            "user.slice/poddddddddd-4",
        ];
        for path in paths {
            fixture.cgroup(path, 1);
        }
        let found = pods(&fixture.cgroups(), 10);
        assert_eq!(found.keys().collect::<Vec<_>>(), ["aaaaaaaa-1", "bbbbbbbb-2", "cccccccc-3"]);
        assert_eq!(pods(&fixture.cgroups(), 2).len(), 2);
    }

    #[test]
    fn a_process_may_be_called_anything() {
        let fixture = Fixture::new();
        fixture.process(7, "a) R (b", 12, 30, 99);
        let clock = Clock::new(&fixture.proc());
        let time = clock.process(7).unwrap();
        assert_eq!(time, ProcessTime { used: 42 * clock.tick_us, started: 99 });
    }

    #[test]
    fn files_that_are_not_as_expected_are_errors() {
        let fixture = Fixture::new();
        let clock = Clock::new(&fixture.proc());
        for text in ["", "cpu", "cpu 1 2\n", "intr 5\n"] {
            fixture.write("proc/stat", text);
            assert!(clock.total().is_err(), "{text:?}");
        }
        for text in ["", "7 (x", "7 (x) R 1 2 3"] {
            fixture.write("proc/7/stat", text);
            assert!(clock.process(7).is_err(), "{text:?}");
        }
        fixture.write("cgroup/x/cpu.stat", "nr_periods 5\n");
        assert!(cgroup(&fixture.cgroups().join("x")).is_err());
    }

    #[test]
    fn stolen_and_guest_time_is_not_busy() {
        let fixture = Fixture::new();
        fixture.write("proc/stat", "cpu  10 20 30 400 50 6 7 1000 10000 10000\ncpu0 1 1 1 1\n");
        let clock = Clock::new(&fixture.proc());
        let expected = CpuTime { busy: 73 * clock.tick_us, idle: 450 * clock.tick_us };
        assert_eq!(clock.total().unwrap(), expected);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn whatever_is_in_the_files_nothing_panics(text in "(cpu |usage_usec |1 \\(x\\) S )?[0-9 ()\n-]{0,120}|\\PC{0,60}") {
            let fixture = Fixture::new();
            fixture.write("proc/stat", &text);
            fixture.write("proc/1/stat", &text);
            fixture.write("cgroup/cpu.stat", &text);
            let clock = Clock::new(&fixture.proc());
            let _ = (clock.total(), clock.process(1), cgroup(&fixture.cgroups()));
        }
    }
}
