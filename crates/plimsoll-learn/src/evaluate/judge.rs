//! What the runs of an evaluation mean: means, differences with their intervals, and a verdict.

use super::{Contender, Role, Runs};
use crate::error::LearnError;
use crate::spec::Objective;
use plimsoll_sim::measures::Row;
use plimsoll_sim::report::catalogue::{self, Better};
use plimsoll_sim::report::statistics::{Paired, paired};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of evaluations as JSON; it changes when a field changes its meaning or goes.
const VERSION: &str = "plimsoll.dev/evaluation/v1";
/// Any will do; it is fixed so that an evaluation is the same each time.
const SEED: u64 = 20_260_101;
/// With so many windows or more, an interval is over windows: samples of one window met the same hours, and are not independent.
const LEAST_WINDOWS: usize = 5;
/// More pods left without a machine than with the other policy, as a share of those that arrived, are no slip.
const UNSERVED_TOLERANCE: f64 = 0.001;

/// What an evaluation found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Evaluation {
    /// The version of this JSON.
    pub version: String,
    /// The scenario's name.
    pub scenario: String,
    /// What was evaluated.
    pub model: String,
    /// A checksum of its weights; none for a policy without.
    pub fingerprint: Option<String>,
    /// The measure it is judged by.
    pub objective: Objective,
    /// How many windows, or other workloads, were measured.
    pub windows: usize,
    /// How many samples of each.
    pub samples: usize,
    /// What the intervals are over: `windows`, each the mean of its samples, or `cases`, each window with each sample.
    pub over: String,
    /// No policy that starts pods when they arrive can do better; none where no bound is known.
    pub bound: Option<f64>,
    /// Every policy, the model first.
    pub policies: Vec<Figures>,
    /// The model against each other policy.
    pub against: Vec<Against>,
    /// The baseline that is best by its mean; none without baselines.
    pub best_baseline: Option<String>,
    /// The policy from which the gap to the bound is counted.
    pub gap_from: String,
    /// The verdict against the best baseline.
    pub verdict: Verdict,
    /// The figures, case by case.
    pub cases: Vec<WindowFigures>,
    /// All measures of all runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<Row>,
}

/// A policy's figures, on average over cases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    /// The policy.
    pub policy: String,
    /// What it is.
    pub role: Role,
    /// The measure.
    pub mean: f64,
    /// Pods that arrived in a case.
    pub arrived: f64,
    /// Pods that gave up waiting.
    pub rejected: f64,
    /// Pods that still waited at the end.
    pub waiting: f64,
    /// Seconds from arrival to start.
    pub wait_mean_s: f64,
    /// The 95th percentile of these.
    pub wait_p95_s: f64,
}

/// The model against another policy; differences are the model minus the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Against {
    /// The other policy.
    pub policy: String,
    /// What it is.
    pub role: Role,
    /// The difference as a share of the other's mean; none where that is zero.
    pub relative: Option<f64>,
    /// Its 95 % interval, from bootstrap over windows or cases; none with a single one.
    pub interval: Option<(f64, f64)>,
    /// In how many windows or cases the model was better.
    pub better: usize,
    /// In how many it was worse.
    pub worse: usize,
    /// How much of the way from the other policy to the bound the model went, by their means; none without a bound.
    pub gap_closed: Option<f64>,
    /// Whether the model left more pods without a machine.
    pub serves_less: bool,
    /// What that means.
    pub verdict: Verdict,
}

/// What a difference means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Better, and the interval holds no zero.
    SignificantlyBetter,
    /// The interval holds zero, or there is none.
    NoDifference,
    /// Worse, and the interval holds no zero.
    SignificantlyWorse,
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::SignificantlyBetter => "significantly better",
            Self::NoDifference => "no difference",
            Self::SignificantlyWorse => "significantly worse",
        })
    }
}

/// The figures of one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WindowFigures {
    /// The window.
    pub window: String,
    /// The sample.
    pub sample: u64,
    /// The bound; none where no bound is known.
    pub bound: Option<f64>,
    /// The measure, by policy.
    pub figures: BTreeMap<String, f64>,
}

impl Evaluation {
    /// Judges the runs of contenders, the first of which is the model.
    pub fn new(
        runs: &Runs,
        contenders: &[Contender<'_>],
        objective: Objective,
        gap_from: &str,
    ) -> Result<Self, LearnError> {
        let Some(model) = contenders.first() else {
            return Err(LearnError::Invalid("there is nothing to evaluate".into()));
        };
        let cases = cases(runs, contenders.len(), &objective)?;
        let windows = distinct(cases.iter().map(|case| case.window.as_str()));
        let samples = distinct(cases.iter().map(|case| case.sample));
        let over_windows = windows >= LEAST_WINDOWS;
        let bounds: Option<Vec<f64>> = cases.iter().map(|case| case.bound).collect();
        let bound = bounds.map(|bounds| mean(bounds.iter().copied()));
        let own = figures(runs, contenders, 0, &cases);
        let policies: Vec<Figures> = (0..contenders.len()).map(|at| figures(runs, contenders, at, &cases)).collect();
        let against = policies.iter().skip(1).map(|other| {
            let pairs = pairs(&cases, &model.name, &other.policy, over_windows);
            against(&own, other, paired(&pairs, SEED).as_ref(), objective.better, bound)
        });
        let best = policies.iter().filter(|other| other.role == Role::Baseline);
        let best = best.min_by(|a, b| match objective.better {
            Better::More => b.mean.total_cmp(&a.mean),
            Better::Less | Better::Neither => a.mean.total_cmp(&b.mean),
        });
        let best_baseline = best.map(|best| best.policy.clone());
        let against: Vec<Against> = against.collect();
        let verdict = against.iter().find(|other| Some(&other.policy) == best_baseline.as_ref());
        Ok(Self {
            version: VERSION.into(),
            scenario: runs.runs.first().map(|run| run.row.scenario.clone()).unwrap_or_default(),
            model: model.name.clone(),
            fingerprint: None,
            windows,
            samples,
            over: if over_windows { "windows" } else { "cases" }.into(),
            bound,
            verdict: verdict.map_or(Verdict::NoDifference, |against| against.verdict),
            policies,
            against,
            best_baseline,
            gap_from: gap_from.to_owned(),
            objective,
            cases,
            rows: runs.runs.iter().map(|run| run.row.clone()).collect(),
        })
    }

    /// The model against a policy.
    pub fn against(&self, policy: &str) -> Option<&Against> {
        self.against.iter().find(|against| against.policy == policy)
    }

    /// The same without the measures of every run.
    #[must_use]
    pub fn without_rows(mut self) -> Self {
        self.rows.clear();
        self
    }

    /// What was measured on, in words.
    pub fn extent(&self) -> String {
        let count = |number: usize, noun: &str| format!("{number} {noun}{}", if number == 1 { "" } else { "s" });
        match (self.windows, self.samples) {
            (1, samples) => count(samples, "sample"),
            (windows, 1) => count(windows, "window"),
            (windows, samples) => format!("{} of {} each", count(windows, "window"), count(samples, "sample")),
        }
    }

    /// What was found, in sentences.
    pub fn findings(&self) -> Vec<String> {
        let label = &self.objective.label;
        let mut findings = Vec::new();
        let mut tell = |against: &Against, what: &str| {
            let share = against.relative.map_or_else(|| "by an unknown share".into(), percent);
            let interval = against.interval.map_or_else(
                || "no interval, from a single case".into(),
                |(low, high)| format!("95 % interval {} to {}", percent(low), percent(high)),
            );
            let served = if against.serves_less { ", but it left more pods without a machine" } else { "" };
            findings.push(format!(
                "{label} against {} ({what}): {share} ({interval}): {}{served}.",
                against.policy, against.verdict
            ));
        };
        if let Some(best) = self.best_baseline.as_deref().and_then(|best| self.against(best)) {
            tell(best, "the best baseline");
        }
        for incumbent in self.against.iter().filter(|against| against.role == Role::Incumbent) {
            tell(incumbent, "the model in use");
        }
        let from = [Some(self.gap_from.as_str()), self.best_baseline.as_deref()];
        for (at, policy) in from.iter().flatten().enumerate() {
            if at > 0 && *policy == self.gap_from {
                continue;
            }
            if let Some(share) = self.against(policy).and_then(|against| against.gap_closed) {
                findings
                    .push(format!("It closes {:.0} % of the gap between {policy} and the lower bound.", share * 100.0));
            }
        }
        findings.push(format!(
            "Measured on {} that nothing was learned from; intervals are over {}.",
            self.extent(),
            self.over
        ));
        for told in self.policies.iter().filter(|figures| figures.role == Role::Reference) {
            findings.push(format!(
                "{} is told how long pods run, which no policy can know: it is no baseline.",
                told.policy
            ));
        }
        findings
    }
}

/// A share as a signed percentage.
fn percent(share: f64) -> String {
    format!("{:+.2} %", share * 100.0)
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len().max(1) as f64;
    values.sum::<f64>() / count
}

fn distinct<T: Ord>(values: impl Iterator<Item = T>) -> usize {
    values.collect::<std::collections::BTreeSet<_>>().len()
}

/// The figures of every case, in order.
fn cases(runs: &Runs, contenders: usize, objective: &Objective) -> Result<Vec<WindowFigures>, LearnError> {
    let entry: Vec<_> = catalogue::entry(&objective.measure).into_iter().collect();
    let case = |runs: &[plimsoll_sim::measures::Run]| {
        let mut figures = BTreeMap::new();
        for run in runs {
            let value = catalogue::values(&run.row, &entry).first().copied().flatten();
            let Some(value) = value else {
                return Err(LearnError::Invalid(format!(
                    "learn.objective: {} is not measured in scenario {:?}: it lacks what that needs, such as prices, carbon, \
                     latency or GPUs",
                    objective.measure, run.row.scenario
                )));
            };
            if figures.insert(run.row.policy.clone(), value).is_some() {
                let problem = format!("two policies are called {:?}; rename the model", run.row.policy);
                return Err(LearnError::Invalid(problem));
            }
        }
        let row = &runs[0].row;
        Ok(WindowFigures {
            window: row.window.clone(),
            sample: row.seed,
            bound: bound(row, &objective.measure),
            figures,
        })
    };
    runs.runs.chunks_exact(contenders).map(case).collect()
}

/// What no policy can beat in a case.
fn bound(row: &Row, measure: &str) -> Option<f64> {
    let (bounds, hours) = (&row.bounds, row.measures.hours);
    match measure {
        "active_nodes" => Some(bounds.active_nodes),
        "node_hours" => Some(bounds.active_nodes * hours),
        "mean_kw" => Some(bounds.mean_kw),
        "kwh" => Some(bounds.mean_kw * hours),
        "active_nodes_ratio" | "kw_ratio" => Some(1.0),
        _ => None,
    }
}

fn figures(runs: &Runs, contenders: &[Contender<'_>], at: usize, cases: &[WindowFigures]) -> Figures {
    let rows = || runs.runs.iter().skip(at).step_by(contenders.len()).map(|run| &run.row.measures);
    let of = |value: fn(&plimsoll_sim::measures::Measures) -> f64| mean(rows().map(value));
    let contender = &contenders[at];
    Figures {
        policy: contender.name.clone(),
        role: contender.role,
        mean: mean(cases.iter().map(|case| case.figures.get(&contender.name).copied().unwrap_or(f64::NAN))),
        arrived: of(|measures| measures.arrived as f64),
        rejected: of(|measures| measures.rejected as f64),
        waiting: of(|measures| measures.waiting as f64),
        wait_mean_s: of(|measures| measures.wait_mean_s),
        wait_p95_s: of(|measures| measures.wait_p95_s),
    }
}

/// The other policy's figures beside the model's: of each window, on average over its samples, or of each case.
fn pairs(cases: &[WindowFigures], model: &str, other: &str, over_windows: bool) -> Vec<(f64, f64)> {
    let pair = |case: &WindowFigures| Some((*case.figures.get(other)?, *case.figures.get(model)?));
    if !over_windows {
        return cases.iter().filter_map(pair).collect();
    }
    let mut windows: Vec<(&str, Vec<(f64, f64)>)> = Vec::new();
    for case in cases {
        let found = windows.iter_mut().find(|(window, _)| *window == case.window);
        match (found, pair(case)) {
            (Some((_, pairs)), Some(pair)) => pairs.push(pair),
            (None, Some(pair)) => windows.push((&case.window, vec![pair])),
            (_, None) => {}
        }
    }
    let windows = windows
        .iter()
        .map(|(_, pairs)| (mean(pairs.iter().map(|(other, _)| *other)), mean(pairs.iter().map(|(_, model)| *model))));
    windows.collect()
}

fn against(own: &Figures, other: &Figures, found: Option<&Paired>, better: Better, bound: Option<f64>) -> Against {
    let gained = |less: usize, more: usize| if better == Better::More { (more, less) } else { (less, more) };
    let interval = found.and_then(|found| found.relative_interval.or(found.interval));
    let verdict = match (interval, better) {
        (Some((low, _)), Better::More) if low > 0.0 => Verdict::SignificantlyBetter,
        (Some((_, high)), Better::More) if high < 0.0 => Verdict::SignificantlyWorse,
        (Some((_, high)), Better::Less) if high < 0.0 => Verdict::SignificantlyBetter,
        (Some((low, _)), Better::Less) if low > 0.0 => Verdict::SignificantlyWorse,
        _ => Verdict::NoDifference,
    };
    let (better, worse) = found.map_or((0, 0), |found| gained(found.less, found.more));
    let unserved = |figures: &Figures| figures.rejected + figures.waiting;
    Against {
        policy: other.policy.clone(),
        role: other.role,
        relative: found.and_then(|found| found.relative),
        interval: found.and_then(|found| found.relative_interval),
        better,
        worse,
        gap_closed: bound
            .filter(|bound| (other.mean - bound).abs() > f64::EPSILON * bound.abs())
            .map(|bound| (other.mean - own.mean) / (other.mean - bound)),
        serves_less: unserved(own) - unserved(other) > UNSERVED_TOLERANCE * own.arrived.max(1.0),
        verdict,
    }
}
