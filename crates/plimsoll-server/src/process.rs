//! What this process takes of the machine, under the names that every Prometheus client has for it.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Ticks in a second, as Linux tells them to programs, whatever it uses itself.
const TICKS: f64 = 100.0;

/// Read from `/proc` when somebody asks; what is not there is not told.
#[derive(Debug)]
pub struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let stat = read("/proc/self/stat");
        let mut gauge = |name: &str, words: &str, value: Option<f64>| match value {
            Some(value) => {
                ConstGauge::new(value).encode(encoder.encode_descriptor(name, words, None, MetricType::Gauge)?)
            }
            None => Ok(()),
        };
        let memory = resident_bytes(&read("/proc/self/status"));
        gauge("process_resident_memory_bytes", "Resident memory size in bytes", memory)?;
        let started = field(&stat, 22).zip(boot_second(&read("/proc/stat"))).map(|(ticks, boot)| boot + ticks / TICKS);
        gauge("process_start_time_seconds", "Start time of the process since unix epoch in seconds", started)?;
        let files = std::fs::read_dir("/proc/self/fd").ok().map(|files| files.count() as f64);
        gauge("process_open_fds", "Number of open file descriptors", files)?;
        let Some((user, system)) = field(&stat, 14).zip(field(&stat, 15)) else { return Ok(()) };
        let words = "Total user and system CPU time spent in seconds";
        let metric = encoder.encode_descriptor("process_cpu_seconds", words, None, MetricType::Counter)?;
        ConstCounter::new((user + system) / TICKS).encode(metric)
    }
}

/// A field of `/proc/self/stat`, counted from one. The second is a name that may have spaces and brackets in it.
fn field(stat: &str, number: usize) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(number - 3)?.parse().ok()
}

fn resident_bytes(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0)
}

fn boot_second(stat: &str) -> Option<f64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_whatever_the_name_of_the_program() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 4 0 1234 5 6";
        assert_eq!([14, 15, 22].map(|number| field(stat, number)), [Some(250.0), Some(50.0), Some(1234.0)]);
        assert_eq!(field("", 14), None);
        assert_eq!(resident_bytes("Name:\ta\nVmRSS:\t    2048 kB\n"), Some(2_097_152.0));
        assert_eq!(boot_second("cpu 1 2\nbtime 1700000000\n"), Some(1_700_000_000.0));
    }
}
