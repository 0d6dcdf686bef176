//! Processes that are started, known again and ended: by their start time as well as their number, so that a number given to
//! somebody else in the meantime never costs a stranger its life.

use crate::{Binaries, LabError, telemetry};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How much of a log is read to show its end.
const TAIL_BYTES: u64 = 16 * 1024;
/// How many lines of a log are shown.
const TAIL_LINES: usize = 15;
/// How long a killed process may take to vanish.
const VANISH: Duration = Duration::from_secs(10);

/// A process, told apart from a later one with the same number by when it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessId {
    /// Its number.
    pub pid: u32,
    /// When it started, in ticks since the machine did.
    pub started: u64,
}

impl ProcessId {
    /// The process that has this number now.
    pub fn of(pid: u32) -> Option<Self> {
        let stat = Stat::read(pid)?;
        Some(Self { pid, started: stat.started })
    }

    /// Whether it still runs. One that has ended and was not waited for does not.
    pub fn is_alive(self) -> bool {
        Stat::read(self.pid).is_some_and(|stat| stat.started == self.started && !matches!(stat.state, 'Z' | 'X'))
    }

    /// Sends a signal, if it still runs.
    pub fn signal(self, signal: Signal) {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return };
        // The handle is taken before the check: from then on it means this very process.
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return };
        if self.is_alive() {
            // One that has just ended needs no signal.
            let _ = pidfd_send_signal(&handle, signal);
        }
    }
}

/// What `/proc/PID/stat` says that matters here.
struct Stat {
    state: char,
    started: u64,
}

impl Stat {
    fn read(pid: u32) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name of the program stands in parentheses and may hold anything, so fields are counted after it.
        let (_, rest) = text.rsplit_once(')')?;
        let mut fields = rest.split_whitespace();
        let state = fields.next()?.chars().next()?;
        // The state is the third field of the file, the start time the twenty-second.
        let started = fields.nth(18)?.parse().ok()?;
        Some(Self { state, started })
    }
}

/// Kills them all and waits until they are gone.
pub fn kill_all(processes: &[ProcessId]) {
    for process in processes {
        // A stopped process is killed, too.
        process.signal(Signal::KILL);
    }
    let begin = Instant::now();
    while processes.iter().any(|process| process.is_alive()) && begin.elapsed() < VANISH {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The processes that work in a folder and are programs of a lab: those that a state file may not tell of.
pub fn lab_processes_in(folder: &Path) -> Vec<ProcessId> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let is_there = fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == folder);
        let is_program = || {
            let program = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
            // A program that was built anew since is called `kwok (deleted)`.
            let name = program.file_name()?.to_str()?.trim_end_matches(" (deleted)").to_string();
            Some(Binaries::is_program(&name) || telemetry::PROGRAMS.contains(&name.as_str()))
        };
        is_there && is_program().unwrap_or(false)
    })
    .filter_map(ProcessId::of)
    .collect()
}

/// How a component is started; it can be started again the same way.
#[derive(Debug, Clone)]
pub struct Invocation {
    /// The component's name.
    pub name: String,
    /// What is run.
    pub program: PathBuf,
    /// With which arguments.
    pub arguments: Vec<String>,
    /// Where it listens, if it does.
    pub port: Option<u16>,
}

/// A component that was started by this process.
#[derive(Debug)]
pub struct Running {
    /// How it was started.
    pub invocation: Invocation,
    /// What it is.
    pub id: ProcessId,
    /// What it says.
    pub log: PathBuf,
    child: Child,
}

impl Running {
    /// Starts a component in a folder, in a process group of its own or in that of a [`Leash`].
    pub fn start(invocation: Invocation, folder: &Path, leash: Option<&Leash>) -> Result<Self, LabError> {
        let name = &invocation.name;
        let log = folder.join("logs").join(format!("{name}.log"));
        let open = || OpenOptions::new().create(true).append(true).open(&log);
        let out = open().map_err(LabError::io(format!("write {}", log.display())))?;
        let err = out.try_clone().map_err(LabError::io(format!("write {}", log.display())))?;
        let mut command = Command::new(&invocation.program);
        command.args(&invocation.arguments).current_dir(folder).stdin(Stdio::null()).stdout(out).stderr(err);
        // No component is to find the settings of whoever starts the lab.
        command.env("HOME", folder).env_remove("KUBECONFIG");
        command.process_group(leash.map_or(0, Leash::group));
        let child = command.spawn().map_err(LabError::io(format!("start {name}")))?;
        let pid = child.id();
        // It cannot vanish before it is waited for, so its start time can always be read.
        let id = ProcessId::of(pid).unwrap_or(ProcessId { pid, started: 0 });
        Ok(Self { invocation, id, log, child })
    }

    /// The exit status, if it has ended.
    pub fn exit(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// The error to give when it has ended by itself, with the end of its log.
    pub fn death(&self, status: ExitStatus) -> LabError {
        LabError::Died {
            component: self.invocation.name.clone(),
            status: status.to_string(),
            log: self.log.clone(),
            tail: tail(&self.log),
        }
    }

    /// Whether it ended because somebody else had its port first.
    pub fn lost_its_port(&self) -> bool {
        self.invocation.port.is_some() && tail(&self.log).contains("address already in use")
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        // Errors mean that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The last lines of a log.
pub fn tail(log: &Path) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    match read() {
        Err(error) => format!("(cannot be read: {error})"),
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            let lines: Vec<&str> = text.lines().collect();
            lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
        }
    }
}

/// What makes the components of a lab end with the process that started them, even where that is killed: a shell that leads their process
/// group and kills the group as soon as the pipe to its holder is closed.
#[derive(Debug)]
pub struct Leash(Child);

impl Leash {
    /// A new one, without components.
    pub fn new() -> Result<Self, LabError> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "read -r _; kill -KILL 0"]).stdin(Stdio::piped()).stdout(Stdio::null());
        command.stderr(Stdio::null()).process_group(0);
        command.spawn().map(Self).map_err(LabError::io("start /bin/sh"))
    }

    fn group(&self) -> i32 {
        i32::try_from(self.0.id()).unwrap_or(0)
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // An error means that it has ended already.
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper() -> (Child, ProcessId) {
        let child = Command::new("sleep").arg("600").spawn().unwrap();
        let id = ProcessId::of(child.id()).unwrap();
        (child, id)
    }

    #[test]
    fn a_process_with_another_start_time_is_a_stranger_and_is_left_alone() {
        let (mut child, id) = sleeper();
        let stranger = ProcessId { started: id.started + 1, ..id };
        assert!(!stranger.is_alive());
        kill_all(&[stranger]);
        assert!(id.is_alive(), "a process of another start time was killed");
        kill_all(&[id]);
        assert!(!id.is_alive());
        child.wait().unwrap();
    }

    #[test]
    fn a_leash_ends_what_was_started_on_it() {
        let folder = std::env::temp_dir().join(format!("plimsoll-leash-{}", std::process::id()));
        fs::create_dir_all(folder.join("logs")).unwrap();
        let leash = Leash::new().unwrap();
        let invocation =
            Invocation { name: "sleep".into(), program: "sleep".into(), arguments: vec!["600".into()], port: None };
        let mut running = Running::start(invocation, &folder, Some(&leash)).unwrap();
        assert!(running.id.is_alive());
        drop(leash);
        let status = running.child.wait().unwrap();
        assert!(!status.success(), "it should have been killed, and ended with {status}");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_tail_of_a_log_is_its_last_lines() {
        let log = std::env::temp_dir().join(format!("plimsoll-tail-{}", std::process::id()));
        let lines: Vec<String> = (0..10_000).map(|n| format!("line {n}")).collect();
        fs::write(&log, lines.join("\n")).unwrap();
        assert_eq!(tail(&log), lines[10_000 - TAIL_LINES..].join("\n"));
        fs::remove_file(log).unwrap();
    }
}
