//! Figures integrated over simulated time.
//!
//! What machines contribute is kept in whole numbers, so that sums kept by difference stay exact however long a run is.

use super::Readings;
use crate::measures::Measures;
use std::time::Duration;

/// Utilisation, in millionths.
pub const MILLION: f64 = 1e6;

/// What one machine contributes to the figures of the cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Contribution {
    /// Whether it belongs to the cluster: 1 or 0, as all counts here.
    pub present: i64,
    /// Whether it runs a pod.
    pub active: i64,
    /// Whether it is awake.
    pub awake: i64,
    /// Thousandths of a core that are asked for, on an awake machine.
    pub cpu_taken: i64,
    /// Thousandths of a core that an awake machine has.
    pub cpu: i64,
    /// Memory that is asked for, in KiB, on an awake machine.
    pub memory_taken: i64,
    /// Memory that an awake machine has, in KiB.
    pub memory: i64,
    /// Share of CPU that is asked for, in millionths.
    pub cpu_share: i64,
    /// Share of memory that is asked for, in millionths.
    pub memory_share: i64,
    /// Free CPU that the mean pod cannot use, on an awake machine.
    pub cpu_stranded: i64,
    /// Thousandths of GPUs.
    pub gpu: i64,
    /// Thousandths of GPUs that are free.
    pub gpu_free: i64,
    /// Thousandths of GPUs that are free and that pods to come cannot use, times a million.
    pub gpu_stranded: i64,
    /// Microwatts.
    pub microwatts: i64,
    /// Millionths of money an hour.
    pub price: i64,
    /// Whether it is asked for more than it has.
    pub overloaded: i64,
    /// Whether it is too hot.
    pub hot: i64,
}

macro_rules! each_field {
    ($macro:ident) => {
        $macro!(
            present,
            active,
            awake,
            cpu_taken,
            cpu,
            memory_taken,
            memory,
            cpu_share,
            memory_share,
            cpu_stranded,
            gpu,
            gpu_free,
            gpu_stranded,
            microwatts,
            price,
            overloaded,
            hot
        )
    };
}

/// Sums over machines.
#[derive(Debug, Clone, Default)]
struct Sums {
    plain: Contribution,
    cpu_share_squared: i128,
    memory_share_squared: i128,
    microwatts_by_region: Vec<i64>,
}

impl Sums {
    fn change(&mut self, region: usize, by: &Contribution, sign: i64) {
        macro_rules! add {
            ($($field:ident),*) => { $(self.plain.$field += sign * by.$field;)* };
        }
        each_field!(add);
        let squared = |share: i64| i128::from(sign) * i128::from(share) * i128::from(share);
        self.cpu_share_squared += squared(by.cpu_share);
        self.memory_share_squared += squared(by.memory_share);
        if self.microwatts_by_region.len() <= region {
            self.microwatts_by_region.resize(region + 1, 0);
        }
        self.microwatts_by_region[region] += sign * by.microwatts;
    }

    /// The standard deviation of shares across machines.
    fn deviation(&self, sum: i64, squared: i128) -> f64 {
        let machines = self.plain.present as f64;
        if machines <= 0.0 {
            return 0.0;
        }
        let mean = sum as f64 / machines;
        (squared as f64 / machines - mean * mean).max(0.0).sqrt() / MILLION
    }
}

/// Integrals over time, in units times hours.
#[derive(Debug, Clone, Default)]
struct Integrals {
    hours: f64,
    active: f64,
    awake: f64,
    empty_share: f64,
    kwh: f64,
    co2_kg: f64,
    cost: f64,
    cpu_utilization: f64,
    memory_utilization: f64,
    cpu_spread: f64,
    memory_spread: f64,
    fragmentation: f64,
    gpu_fragmentation: f64,
    gpu_utilization: f64,
    overload: f64,
    hot: f64,
    stranded_cores: f64,
    stranded_gpus: f64,
}

/// The figures of the cluster, and their integrals.
#[derive(Debug, Default)]
pub struct Meter {
    now: Duration,
    sums: Sums,
    integrals: Integrals,
    /// Grams a kilowatt-hour, by region.
    intensity: Vec<f64>,
    has_carbon: bool,
    has_prices: bool,
    has_gpus: bool,
}

impl Meter {
    /// A meter at time zero.
    pub fn new(has_carbon: bool, has_prices: bool) -> Self {
        Self { has_carbon, has_prices, ..Self::default() }
    }

    /// Time passes.
    pub fn advance(&mut self, to: Duration) {
        let passed = to.saturating_sub(self.now);
        self.now = to;
        if passed.is_zero() {
            return;
        }
        let hours = passed.as_secs_f64() / 3600.0;
        let (sums, total) = (&self.sums, &mut self.integrals);
        let plain = &sums.plain;
        let share = |part: i64, whole: i64| if whole > 0 { part as f64 / whole as f64 } else { 0.0 };
        total.hours += hours;
        total.active += plain.active as f64 * hours;
        total.awake += plain.awake as f64 * hours;
        total.empty_share += share(plain.present - plain.active, plain.present) * hours;
        total.kwh += plain.microwatts as f64 * 1e-9 * hours;
        if self.has_carbon {
            let grams = |(microwatts, intensity): (&i64, &f64)| *microwatts as f64 * 1e-9 * intensity;
            let grams: f64 = sums.microwatts_by_region.iter().zip(&self.intensity).map(grams).sum();
            total.co2_kg += grams * 1e-3 * hours;
        }
        total.cost += plain.price as f64 * 1e-6 * hours;
        total.cpu_utilization += share(plain.cpu_taken, plain.cpu) * hours;
        total.memory_utilization += share(plain.memory_taken, plain.memory) * hours;
        total.cpu_spread += sums.deviation(plain.cpu_share, sums.cpu_share_squared) * hours;
        total.memory_spread += sums.deviation(plain.memory_share, sums.memory_share_squared) * hours;
        total.fragmentation += share(plain.cpu_stranded, plain.cpu - plain.cpu_taken) * hours;
        total.gpu_fragmentation += share(plain.gpu_stranded, plain.gpu_free) / MILLION * hours;
        total.gpu_utilization += share(plain.gpu - plain.gpu_free, plain.gpu) * hours;
        total.overload += plain.overloaded as f64 * hours;
        total.hot += plain.hot as f64 * hours;
        total.stranded_cores += plain.cpu_stranded as f64 * 1e-3 * hours;
        total.stranded_gpus += plain.gpu_stranded as f64 * 1e-9 * hours;
    }

    /// A machine contributes something else than before.
    pub fn replace(&mut self, region: usize, before: &Contribution, after: &Contribution) {
        if before != after {
            self.sums.change(region, before, -1);
            self.sums.change(region, after, 1);
            self.has_gpus |= after.gpu > 0;
        }
    }

    /// The carbon intensity of a region changes.
    pub fn set_intensity(&mut self, region: usize, grams: f64) {
        if self.intensity.len() <= region {
            self.intensity.resize(region + 1, 0.0);
        }
        self.intensity[region] = grams;
    }

    /// The warm-up is over: what was integrated does not count.
    pub fn start_over(&mut self) {
        self.integrals = Integrals::default();
    }

    /// Machines that run a pod.
    pub fn active(&self) -> i64 {
        self.sums.plain.active
    }

    /// Kilowatts.
    pub fn kilowatts(&self) -> f64 {
        self.sums.plain.microwatts as f64 * 1e-9
    }

    /// Writes what accrued.
    pub fn accrued(&self, readings: &mut Readings) {
        let total = &self.integrals;
        readings.hours = total.hours;
        readings.node_hours = total.awake;
        readings.active_node_hours = total.active;
        readings.kwh = total.kwh;
        readings.co2_kg = total.co2_kg;
        readings.cost = total.cost;
        readings.stranded_core_hours = total.stranded_cores;
        readings.stranded_gpu_hours = total.stranded_gpus;
        readings.cpu_spread_hours = total.cpu_spread;
        readings.overload_hours = total.overload;
        readings.thermal_hours = total.hot;
    }

    /// Writes the means and sums.
    pub fn read(&self, measures: &mut Measures) {
        let total = &self.integrals;
        let mean = |integral: f64| if total.hours > 0.0 { integral / total.hours } else { 0.0 };
        measures.hours = total.hours;
        measures.active_nodes = mean(total.active);
        measures.node_hours = total.awake;
        measures.empty_node_share = mean(total.empty_share);
        measures.kwh = total.kwh;
        measures.mean_kw = mean(total.kwh);
        measures.co2_kg = self.has_carbon.then_some(total.co2_kg);
        measures.cost = self.has_prices.then_some(total.cost);
        measures.cpu_utilization = mean(total.cpu_utilization);
        measures.memory_utilization = mean(total.memory_utilization);
        measures.cpu_spread = mean(total.cpu_spread);
        measures.memory_spread = mean(total.memory_spread);
        measures.fragmentation = mean(total.fragmentation);
        if self.has_gpus {
            measures.gpu_fragmentation = Some(mean(total.gpu_fragmentation));
            measures.gpu_utilization = Some(mean(total.gpu_utilization));
        }
        measures.overload_minutes = total.overload * 60.0;
        measures.thermal_minutes = total.hot * 60.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_integrated_between_changes() {
        let mut meter = Meter::new(true, true);
        let hour = Duration::from_secs(3600);
        meter.set_intensity(0, 500.0);
        let idle = Contribution { present: 1, awake: 1, cpu: 1000, microwatts: 100_000_000, ..Contribution::default() };
        let busy = Contribution { active: 1, cpu_taken: 500, cpu_share: 500_000, price: 2_000_000, ..idle };
        meter.replace(0, &Contribution::default(), &idle);
        meter.replace(0, &Contribution::default(), &idle);
        meter.advance(hour);
        meter.replace(0, &idle, &busy);
        meter.advance(2 * hour);
        let mut measures = Measures::default();
        meter.read(&mut measures);
        assert_eq!((measures.hours, measures.active_nodes, measures.node_hours), (2.0, 0.5, 4.0));
        assert!((measures.kwh - 0.4).abs() < 1e-12);
        assert!((measures.co2_kg.unwrap() - 0.2).abs() < 1e-12);
        assert_eq!(measures.cost, Some(2.0));
        assert_eq!(measures.cpu_utilization, 0.125);
        assert_eq!(measures.cpu_spread, 0.125);
        assert_eq!(measures.empty_node_share, 0.75);
    }
}
