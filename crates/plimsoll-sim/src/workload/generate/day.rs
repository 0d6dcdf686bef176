//! A day of a company: services whose replicas follow the hours of their users, and batch jobs that come by night more than by day.

use super::draw::{exponential, geometric, log_normal, uniform};
use super::lifetime::{known, time};
use super::{add, few_enough, positive, share, short_enough};
use crate::workload::{Builder, PodRecord, Template, Workload};
use plimsoll_core::rng::Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::f64::consts::TAU;

/// Settings of such days.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Day {
    /// How many services there are.
    pub services: u32,
    /// Replicas of a service when most users are there, on average over services.
    pub replicas: f64,
    /// The share of them that is left when fewest are.
    pub by_night: f64,
    /// The hour, of which the workload begins at 0, at which most users are there.
    pub peak_hour: f64,
    /// Batch jobs an hour, on average over a day.
    pub jobs_per_hour: f64,
    /// Pods of a job, on average.
    pub pods_per_job: f64,
    /// Half of the pods of jobs run shorter, in seconds.
    pub job_median_s: f64,
    /// By what share of the average more jobs come twelve hours after the peak, and fewer at the peak.
    pub job_amplitude: f64,
    /// How long all that goes on.
    pub hours: f64,
}

impl Default for Day {
    fn default() -> Self {
        Self {
            services: 60,
            replicas: 20.0,
            by_night: 0.3,
            peak_hour: 14.0,
            jobs_per_hour: 140.0,
            pods_per_job: 4.0,
            job_median_s: 1200.0,
            job_amplitude: 0.5,
            hours: 24.0,
        }
    }
}

/// Whose services and jobs they are: a namespace each.
const TEAMS: [&str; 6] = ["shop", "news", "travel", "games", "maps", "bank"];
/// What services are called, cores and GiB of a replica.
const SERVICES: [(&str, i64, i64); 10] = [
    ("web", 1, 2),
    ("api", 2, 4),
    ("search", 4, 8),
    ("login", 1, 2),
    ("feed", 2, 4),
    ("media", 4, 8),
    ("chat", 1, 2),
    ("billing", 1, 2),
    ("cache", 2, 8),
    ("recommend", 4, 8),
];
/// What jobs are called, cores and GiB of a pod.
const JOBS: [(&str, i64, i64); 5] =
    [("report", 2, 4), ("encode", 8, 14), ("index", 4, 7), ("backup", 1, 2), ("train", 8, 14)];
/// How often a service is scaled, in hours: every five minutes.
const SCALED: f64 = 1.0 / 12.0;
/// By how many hours the users of a service come earlier or later than those of others.
const SHIFT: f64 = 2.0;
/// The spread of the logarithm of what jobs take.
const JOB_SIGMA: f64 = 1.0;
/// Within so many seconds a service is started or scaled: its pods do not come at one moment.
const STAGGER_S: f64 = 240.0;

impl Day {
    pub(super) fn generate(&self, seed: u64) -> Result<Workload, String> {
        self.check()?;
        let (mut rng, mut builder) = (Rng::new(seed), Builder::new());
        for service in 0..self.services {
            self.service(service, &mut rng, &mut builder);
        }
        self.jobs(&mut rng, &mut builder);
        Ok(builder.finish("", Vec::new()))
    }

    fn check(&self) -> Result<(), String> {
        positive("replicas", self.replicas)?;
        share("by_night", self.by_night)?;
        share("job_amplitude", self.job_amplitude)?;
        positive("jobs_per_hour", self.jobs_per_hour)?;
        positive("job_median_s", self.job_median_s)?;
        short_enough("hours", self.hours)?;
        if !self.peak_hour.is_finite() {
            return Err(format!("peak_hour is {}; it must be a number", self.peak_hour));
        }
        if !(1.0..=1000.0).contains(&self.pods_per_job) {
            return Err(format!("pods_per_job is {}; it must be from 1 to 1000", self.pods_per_job));
        }
        let days = 1.0 + self.hours / 24.0;
        let jobs = self.jobs_per_hour * self.hours * (1.0 + self.job_amplitude) * self.pods_per_job;
        few_enough(f64::from(self.services) * self.replicas * 2.0 * days + jobs)
    }

    /// The pods of a service: as many at a time as its users need, the youngest leaving first.
    fn service(&self, number: u32, rng: &mut Rng, builder: &mut Builder) {
        let at = number as usize;
        let team = TEAMS[at / SERVICES.len() % TEAMS.len()];
        let (what, cores, gib) = SERVICES[at % SERVICES.len()];
        // There are more services than names for them at some number of services.
        let again = at / (SERVICES.len() * TEAMS.len());
        let name = if again == 0 { what.to_owned() } else { format!("{what}-{again}") };
        let template = builder.template(template(team, &name, cores, gib));
        let most = self.replicas * uniform(rng, 0.5, 1.5);
        let peak = self.peak_hour + uniform(rng, -SHIFT, SHIFT);
        let wanted = |hour: f64| {
            let day = 0.5 + 0.5 * libm::cos(TAU * (hour - peak) / 24.0);
            (most * (self.by_night + (1.0 - self.by_night) * day)).round().max(1.0) as usize
        };
        let (mut alive, mut made): (Vec<(u32, f64)>, u32) = (Vec::new(), 0);
        let mut pod = |(replica, from): (u32, f64), to: Option<f64>| {
            let name = format!("{team}-{name}-{replica}").into();
            let lifetime = known(to.map(|to| (to - from).max(1.0)));
            add(builder, PodRecord { name, template, owner: number, arrival: time(from), lifetime, usage: None });
        };
        let mut step = 0_u32;
        while f64::from(step) * SCALED < self.hours {
            let hour = f64::from(step) * SCALED;
            let wanted = wanted(hour);
            while alive.len() < wanted {
                alive.push((made, hour * 3600.0 + rng.unit() * STAGGER_S));
                made += 1;
            }
            while alive.len() > wanted
                && let Some(youngest) = alive.pop()
            {
                pod(youngest, Some(hour * 3600.0 + rng.unit() * STAGGER_S));
            }
            step += 1;
        }
        for left in alive {
            pod(left, None);
        }
    }

    fn jobs(&self, rng: &mut Rng, builder: &mut Builder) {
        let highest = 1.0 + self.job_amplitude;
        let gap = 1.0 / (self.jobs_per_hour * highest);
        let (mut hour, mut job) = (exponential(rng, gap), 0_u32);
        while hour < self.hours {
            let rate = 1.0 - self.job_amplitude * libm::cos(TAU * (hour - self.peak_hour) / 24.0);
            if rng.unit() * highest < rate {
                let team = TEAMS[rng.below(TEAMS.len())];
                let (what, cores, gib) = JOBS[rng.below(JOBS.len())];
                let template = builder.template(template(team, what, cores, gib));
                // The pods of a job have equal parts of its work.
                let takes = log_normal(rng, self.job_median_s, JOB_SIGMA);
                for part in 0..geometric(rng, self.pods_per_job) {
                    let pod = PodRecord {
                        name: format!("{team}-{what}-{job}-{part}").into(),
                        template,
                        owner: self.services + job,
                        arrival: time(hour * 3600.0),
                        lifetime: known(Some(takes * uniform(rng, 0.8, 1.2))),
                        usage: None,
                    };
                    add(builder, pod);
                }
                job += 1;
            }
            hour += exponential(rng, gap);
        }
    }
}

fn template(team: &str, app: &str, cores: i64, gib: i64) -> Template {
    Template {
        namespace: team.to_owned(),
        app: Some(app.to_owned()),
        cpu_milli: cores * 1000,
        memory: gib << 30,
        ..Template::default()
    }
}
