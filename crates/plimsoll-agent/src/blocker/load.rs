//! What occupies resources: one function a resource, each until it is stopped.

use super::limits::CpuKind;
use super::stop::{Pace, Stop};
use rustix::time::{ClockId, clock_gettime};
use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A MiB, in bytes.
pub const MIB: usize = 1 << 20;
/// A duty cycle: short enough for the load to look even in windows of 100 ms.
const PERIOD: Duration = Duration::from_millis(20);
/// How much a file grows before it is written anew from its start.
const FILE: u64 = 16 * MIB as u64;
/// What fits into an Ethernet frame beside its headers.
const DATAGRAM: usize = 1400;

/// What was done so far.
#[derive(Debug, Default)]
pub struct Done {
    /// Time that processors worked, in microseconds.
    pub cpu_us: AtomicU64,
    /// Bytes of memory that are held.
    pub memory: AtomicU64,
    /// Bytes written to disk.
    pub disk: AtomicU64,
    /// Bytes sent.
    pub network: AtomicU64,
}

fn add(counter: &AtomicU64, amount: usize) {
    counter.fetch_add(amount as u64, Ordering::Relaxed);
}

/// Keeps one core busy for a part of the time, as the kernel counts it: what others take away is made up for where there is room.
pub fn cpu(kind: CpuKind, duty: f64, stop: &Stop, done: &Done) -> io::Result<()> {
    let mut owed = Owed::new(duty);
    let rest = PERIOD.mul_f64(1.0 - owed.duty);
    let (mut last, mut counted) = (Instant::now(), thread_time());
    while !stop.sleep(rest) {
        let now = Instant::now();
        work(kind, now + owed.after(now - last));
        last = now;
        let worked = thread_time().saturating_sub(counted);
        counted += worked;
        owed.pay(worked);
        done.cpu_us.fetch_add(worked.as_micros() as u64, Ordering::Relaxed);
    }
    Ok(())
}

/// How much a core still has to work to have worked its part.
#[derive(Debug)]
struct Owed {
    duty: f64,
    seconds: f64,
}

impl Owed {
    fn new(duty: f64) -> Self {
        Self { duty: duty.clamp(0.0, 1.0), seconds: 0.0 }
    }

    /// So much time has passed: how long to work now. What could not be worked for long is not made up for, since a burst is no level.
    fn after(&mut self, passed: Duration) -> Duration {
        let longest = PERIOD.as_secs_f64();
        self.seconds = (self.seconds + self.duty * passed.as_secs_f64()).min(longest);
        Duration::from_secs_f64(self.seconds.max(0.0))
    }

    fn pay(&mut self, worked: Duration) {
        self.seconds -= worked.as_secs_f64();
    }
}

/// How long processors have worked for this thread.
pub fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Keeps the processor busy until a time.
pub fn work(kind: CpuKind, until: Instant) {
    while Instant::now() < until {
        match kind {
            CpuKind::Spin => (0..1000u32).for_each(|step| {
                black_box(step);
            }),
            CpuKind::Fibonacci => {
                black_box(fibonacci(black_box(16)));
            }
        }
    }
}

fn fibonacci(n: u32) -> u64 {
    if n < 2 { u64::from(n) } else { fibonacci(n - 1) + fibonacci(n - 2) }
}

/// Holds memory, every byte of it written, until stopped.
pub fn memory(mib: u64, stop: &Stop, done: &Done) -> io::Result<()> {
    let held = take_memory(mib, |step| {
        add(&done.memory, step);
        !stop.is_raised()
    })?;
    while !stop.sleep(Duration::from_secs(3600)) {}
    drop(black_box(held));
    done.memory.store(0, Ordering::Relaxed);
    Ok(())
}

/// Takes memory and writes to it, as long as `go_on` says so after each MiB.
pub fn take_memory(mib: u64, mut go_on: impl FnMut(usize) -> bool) -> io::Result<Vec<u8>> {
    let bytes = usize::try_from(mib).ok().and_then(|mib| mib.checked_mul(MIB)).ok_or(ErrorKind::OutOfMemory)?;
    let mut held = Vec::new();
    // In one piece, which goes back to the kernel as soon as it is dropped.
    held.try_reserve_exact(bytes).map_err(|_| ErrorKind::OutOfMemory)?;
    while held.len() < bytes {
        held.resize(held.len() + MIB, 0xa5);
        if !go_on(MIB) {
            break;
        }
    }
    Ok(held)
}

/// A file that has no name: it is gone with its last user, however that ends.
pub fn nameless_file(folder: &Path) -> io::Result<File> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = format!(".plimsoll-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let path = folder.join(name);
    let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

/// Writes to a file in a folder and has it written to disk.
pub fn disk(folder: &Path, mib_per_second: f64, stop: &Stop, done: &Done) -> io::Result<()> {
    let rate = mib_per_second * MIB as f64;
    // Ten writes a second, of a size that disks like.
    let chunk = vec![0xa5; ((rate / 10.0) as usize).clamp(4096, MIB)];
    let mut file = nameless_file(folder)?;
    let mut pace = Pace::new(rate, Instant::now());
    let mut written = 0;
    while !stop.is_raised() {
        file.write_all(&chunk)?;
        file.sync_data()?;
        add(&done.disk, chunk.len());
        written += chunk.len() as u64;
        if written >= FILE {
            file.seek(SeekFrom::Start(0))?;
            written = 0;
        }
        stop.sleep(pace.wait_after(chunk.len(), Instant::now()));
    }
    Ok(())
}

/// Sends datagrams to an address, or to this machine itself.
pub fn network(target: Option<SocketAddr>, mib_per_second: f64, stop: &Stop, done: &Done) -> io::Result<()> {
    let sink = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    sink.set_nonblocking(true)?;
    let target = match target {
        Some(target) => target,
        None => sink.local_addr()?,
    };
    let socket = match target {
        SocketAddr::V4(_) => UdpSocket::bind("0.0.0.0:0")?,
        SocketAddr::V6(_) => UdpSocket::bind("[::]:0")?,
    };
    socket.connect(target)?;
    let (datagram, mut read) = ([0xa5; DATAGRAM], [0; DATAGRAM]);
    let mut pace = Pace::new(mib_per_second * MIB as f64, Instant::now());
    while !stop.is_raised() {
        match socket.send(&datagram) {
            Ok(_) => add(&done.network, DATAGRAM),
            // Nobody need listen there, and a full queue is load enough.
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::WouldBlock) => {}
            Err(error) => return Err(error),
        }
        while sink.recv(&mut read).is_ok() {}
        let wait = pace.wait_after(DATAGRAM, Instant::now());
        // Sleeps are not finer than this; what is sent early is waited for later.
        if wait > Duration::from_millis(1) {
            stop.sleep(wait);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fibonacci_numbers_are_right() {
        assert_eq!((0..10).map(fibonacci).collect::<Vec<_>>(), [0, 1, 1, 2, 3, 5, 8, 13, 21, 34]);
    }

    /// The part of the time that is worked, where every so often somebody else takes the processor away.
    fn reached(duty: f64, taken: impl Fn(u32) -> Duration) -> f64 {
        let (mut owed, mut passed, mut total, mut worked) =
            (Owed::new(duty), Duration::ZERO, Duration::ZERO, Duration::ZERO);
        for cycle in 0..10_000 {
            let work = owed.after(passed);
            let got = work.saturating_sub(taken(cycle));
            owed.pay(got);
            worked += got;
            passed = work + PERIOD.mul_f64(1.0 - duty);
            total += passed;
        }
        worked.as_secs_f64() / total.as_secs_f64()
    }

    #[test]
    fn a_core_works_its_part_of_the_time() {
        for duty in [0.05, 0.3, 0.5, 0.9] {
            let found = reached(duty, |_| Duration::ZERO);
            assert!((found - duty).abs() < 0.01, "expected {duty}, and got {found}");
            let found =
                reached(duty, |cycle| if cycle % 10 == 0 { Duration::from_micros(500) } else { Duration::ZERO });
            assert!((found - duty).abs() < 0.01, "expected {duty} beside others, and got {found}");
        }
    }

    #[test]
    fn a_core_that_was_kept_away_does_not_work_in_a_burst() {
        let mut owed = Owed::new(0.5);
        assert_eq!(owed.after(Duration::from_secs(100)), PERIOD);
        owed.pay(Duration::from_secs(1));
        assert_eq!(owed.after(Duration::ZERO), Duration::ZERO, "what was worked ahead is rested");
    }

    #[test]
    fn memory_is_written_to_and_stops_when_told() {
        let held = take_memory(4, |_| true).unwrap();
        assert_eq!(held.len(), 4 * MIB);
        assert!(held.iter().all(|byte| *byte == 0xa5));
        let mut steps = 0;
        let held = take_memory(100, |_| {
            steps += 1;
            steps < 3
        });
        assert_eq!(held.unwrap().len(), 3 * MIB);
        assert_eq!(take_memory(u64::MAX, |_| true).unwrap_err().kind(), ErrorKind::OutOfMemory);
    }

    #[test]
    fn a_file_for_load_has_no_name() {
        let folder = std::env::temp_dir().join(format!("plimsoll-agent-nameless-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut file = nameless_file(&folder).unwrap();
        file.write_all(b"x").unwrap();
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
