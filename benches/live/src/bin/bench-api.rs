//! `make bench-api`: what reading the API costs decisions. A simulated cluster is scheduled by `plimsoll demo`; rounds in which nobody reads take turns with rounds in which
//! clients read everything a dashboard does at a given rate. Written to `docs/benchmarks-api.md`.

use anyhow::{Context, Result, ensure};
use clap::Parser;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What is read, in turn.
const PATHS: [&str; 5] =
    ["/status", "/cluster/nodes?limit=20", "/v1/decisions?limit=10", "/v1/measures?minutes=1", "/v1/policies"];

/// What to measure.
#[derive(Debug, Parser)]
struct Arguments {
    #[arg(long, default_value = "target/release/plimsoll")]
    plimsoll: PathBuf,
    /// Reads a second
    #[arg(long, default_value_t = 2000.0)]
    rate: f64,
    /// Clients, each with a connection of its own
    #[arg(long, default_value_t = 8)]
    clients: usize,
    /// Rounds of each kind
    #[arg(long, default_value_t = 8)]
    rounds: usize,
    /// Seconds of a round
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Write no report
    #[arg(long)]
    dry: bool,
}

/// The program that is measured; it ends with the benchmark.
struct Program {
    child: Child,
    address: SocketAddr,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Program {
    fn start(arguments: &Arguments) -> Result<Self> {
        // The simulated day lasts as long as all rounds.
        let seconds = arguments.seconds * (2 * arguments.rounds + 2) as f64;
        let speed = (86_400.0 / seconds).floor().to_string();
        let mut child = Command::new(&arguments.plimsoll)
            .args(["demo", "--listen", "127.0.0.1:0", "--no-browser", "--speed", &speed])
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{} cannot be started", arguments.plimsoll.display()))?;
        let output = child.stdout.take().context("no standard output")?;
        let mut lines = BufReader::new(output).lines();
        let address = loop {
            let line = lines.next().context("it ended before it served")??;
            if let Some((_, rest)) = line.split_once("http://") {
                let text = rest.split(|c: char| c.is_whitespace() || c == '/').next().unwrap_or_default();
                break text.parse().with_context(|| format!("no address in {line:?}"))?;
            }
        };
        std::thread::spawn(move || lines.for_each(drop));
        Ok(Self { child, address })
    }

    /// Seconds of processor time so far.
    fn processor_seconds(&self) -> Result<f64> {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let fields: Vec<&str> = text.rsplit_once(')').context("no stat")?.1.split_whitespace().collect();
        let ticks: f64 = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
        Ok(ticks / 100.0)
    }
}

/// Reads a path over a connection that is kept; the body.
fn read(stream: &mut TcpStream, address: SocketAddr, path: &str) -> Result<Vec<u8>> {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n")?;
    let (mut head, mut byte) = (Vec::new(), [0_u8; 4096]);
    loop {
        let count = stream.read(&mut byte)?;
        ensure!(count > 0, "the connection was closed");
        head.extend_from_slice(&byte[..count]);
        let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let text = String::from_utf8_lossy(&head[..end]).to_lowercase();
        ensure!(text.starts_with("http/1.1 200"), "{path}: {text}");
        let length = text.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
        let mut body = head.split_off(end + 4);
        let missing = length.context("no length")?.saturating_sub(body.len());
        let at = body.len();
        body.resize(at + missing, 0);
        stream.read_exact(&mut body[at..])?;
        return Ok(body);
    }
}

fn connect(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// What came of a round.
#[derive(Debug, Clone, Default)]
struct Round {
    reads: f64,
    read_p99_ms: f64,
    cores: f64,
    decisions: usize,
    p50_ms: f64,
    p99_ms: f64,
    /// How long each decision took.
    took_ms: Vec<f64>,
}

fn percentile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values
        .get(((values.len() as f64 * share) as usize).min(values.len().saturating_sub(1)))
        .copied()
        .unwrap_or(f64::NAN)
}

/// Decisions since one, newest first; how long each took.
fn decisions(address: SocketAddr, since: u64) -> Result<(u64, Vec<f64>)> {
    let mut stream = connect(address)?;
    let (mut took, mut last, mut cursor) = (Vec::new(), since, String::new());
    loop {
        let body = read(&mut stream, address, &format!("/v1/decisions?limit=1000{cursor}"))?;
        let page: Value = serde_json::from_slice(&body)?;
        let items = page["items"].as_array().context("no decisions")?;
        for item in items {
            let id = item["id"].as_u64().context("no number")?;
            if id <= since {
                return Ok((last, took));
            }
            last = last.max(id);
            took.extend(item["milliseconds"].as_f64());
        }
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return Ok((last, took)),
        }
    }
}

fn round(arguments: &Arguments, program: &Program, reads: bool, since: &mut u64) -> Result<Round> {
    let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let times: Arc<Mutex<Vec<f64>>> = Arc::default();
    let pause = Duration::from_secs_f64(arguments.clients as f64 / arguments.rate);
    (*since, _) = decisions(program.address, *since)?;
    let (begun, before) = (Instant::now(), program.processor_seconds()?);
    let clients: Vec<_> = (0..if reads { arguments.clients } else { 0 })
        .map(|client| {
            let (stop, count, times, address) =
                (Arc::clone(&stop), Arc::clone(&count), Arc::clone(&times), program.address);
            std::thread::spawn(move || -> Result<()> {
                // Clients are on other machines in life: what they take here is not to count.
                #[cfg(target_os = "linux")]
                rustix::process::nice(19)?;
                let mut stream = connect(address)?;
                let mut due = Instant::now() + pause.mul_f64(client as f64 / 8.0);
                let mut own = Vec::new();
                for at in client.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                    let asked = Instant::now();
                    read(&mut stream, address, PATHS[at % PATHS.len()])?;
                    own.push(asked.elapsed().as_secs_f64() * 1e3);
                    count.fetch_add(1, Ordering::Relaxed);
                    due += pause;
                }
                times.lock().unwrap_or_else(PoisonError::into_inner).extend(own);
                Ok(())
            })
        })
        .collect();
    std::thread::sleep(Duration::from_secs_f64(arguments.seconds));
    stop.store(true, Ordering::Relaxed);
    let (took, used) = (begun.elapsed().as_secs_f64(), program.processor_seconds()? - before);
    for client in clients {
        client.join().map_err(|_| anyhow::anyhow!("a client panicked"))??;
    }
    let (last, mut decided) = decisions(program.address, *since)?;
    *since = last;
    let mut times = times.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(Round {
        reads: count.load(Ordering::Relaxed) as f64 / took,
        read_p99_ms: percentile(&mut times, 0.99),
        cores: used / took,
        decisions: decided.len(),
        p50_ms: percentile(&mut decided, 0.5),
        p99_ms: percentile(&mut decided, 0.99),
        took_ms: decided,
    })
}

/// The p99 over the decisions of all rounds: that of one rests on a few.
fn pooled(rounds: &[Round]) -> f64 {
    percentile(&mut rounds.iter().flat_map(|round| round.took_ms.iter().copied()).collect::<Vec<_>>(), 0.99)
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let program = Program::start(&arguments)?;
    let mut since = 0;
    // The first round is for warming up.
    round(&arguments, &program, true, &mut since)?;
    let (mut quiet, mut read) = (Vec::new(), Vec::new());
    for _ in 0..arguments.rounds {
        quiet.push(round(&arguments, &program, false, &mut since)?);
        read.push(round(&arguments, &program, true, &mut since)?);
        for (name, rounds) in [("nobody reads", &quiet), ("read", &read)] {
            let Some(Round { reads, decisions, p50_ms, p99_ms, .. }) = rounds.last() else { continue };
            println!("{name:>12}: {reads:.0} reads/s, {decisions} decisions, p50 {p50_ms:.4} ms, p99 {p99_ms:.4} ms");
        }
    }
    let median =
        |rounds: &[Round], of: fn(&Round) -> f64| percentile(&mut rounds.iter().map(of).collect::<Vec<_>>(), 0.5);
    let row = |name: &str, rounds: &[Round]| {
        let cell = |of: fn(&Round) -> f64| median(rounds, of);
        let reads = cell(|round| round.reads);
        let p99 = if reads > 0.0 { format!("{:.2}", cell(|round| round.read_p99_ms)) } else { "-".to_owned() };
        let (cores, decided) = (cell(|round| round.cores), cell(|round| round.decisions as f64));
        let (p50, last) = (cell(|round| round.p50_ms), cell(|round| round.p99_ms));
        let all = pooled(rounds);
        format!("| {name} | {reads:.0} | {p99} | {cores:.2} | {decided:.0} | {p50:.4} | {last:.4} | {all:.4} |\n")
    };
    let change = pooled(&read) / pooled(&quiet) - 1.0;
    let report = format!(
        "# What reading the API costs\n\nWritten by `make bench-api`: `plimsoll demo` schedules a simulated cluster; rounds of {} s in which nobody reads take turns with rounds in which {} clients read \
         `{}` in turn, on {} cores that they share, the clients only where nobody else wants them. Figures are medians of {} rounds; the last column is over the decisions of all rounds of a kind. A decision is timed by the scheduler.\n\n\
         | | reads/s | p99 of a read, ms | cores in use | decisions | p50 of a decision, ms | p99, ms | p99 of all, ms |\n|---|---:|---:|---:|---:|---:|---:|---:|\n{}{}\nThe p99 of all decisions changes by {:+.1} %.\n",
        arguments.seconds,
        arguments.clients,
        PATHS.join("`, `"),
        std::thread::available_parallelism().map_or(0, usize::from),
        arguments.rounds,
        row("nobody reads", &quiet),
        row("everything is read", &read),
        change * 100.0,
    );
    print!("{report}");
    if !arguments.dry {
        std::fs::write("docs/benchmarks-api.md", report).context("docs/benchmarks-api.md")?;
    }
    Ok(())
}
