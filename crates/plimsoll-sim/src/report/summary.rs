//! The figures of a report: means over cases, and paired differences to the baseline.

use super::catalogue::{Entry, values};
use super::statistics::{Paired, paired};
use super::{Report, shortened};
use crate::measures::Row;
use serde_json::{Value, json};

/// Any will do; it is fixed so that a report is the same each time.
const SEED: u64 = 20_260_101;

/// Runs that met the same pods.
pub(super) struct Case<'a> {
    pub scenario: &'a str,
    pub window: &'a str,
    pub seed: u64,
    /// Hours of the series before measuring began, where they tell.
    pub measured_from: Option<f64>,
}

impl Case<'_> {
    pub fn is(&self, scenario: &str, window: &str, seed: u64) -> bool {
        self.scenario == scenario && self.window == window && self.seed == seed
    }

    pub fn is_of(&self, row: &Row) -> bool {
        self.is(&row.scenario, &row.window, row.seed)
    }
}

/// Everything a report says in numbers.
pub(super) struct Summary<'a> {
    pub policies: Vec<&'a str>,
    /// The baseline's place among the policies.
    pub baseline: usize,
    pub cases: Vec<Case<'a>>,
    pub scenarios: Vec<Scenario<'a>>,
}

/// One scenario: for each policy, in order, and each measure.
pub(super) struct Scenario<'a> {
    pub name: &'a str,
    /// How many cases.
    pub cases: usize,
    /// Bounds on average over cases: machines and kilowatts.
    pub bounds: (f64, f64),
    /// None for a policy that did not run here.
    pub policies: Vec<Option<Figures>>,
}

/// One entry a measure.
pub(super) struct Figures {
    pub runs: usize,
    pub means: Vec<Option<f64>>,
    pub against_baseline: Vec<Option<Paired>>,
}

impl<'a> Summary<'a> {
    pub fn new(report: &Report<'a>, entries: &[Entry]) -> Self {
        let mut policies: Vec<&str> = Vec::new();
        let mut cases: Vec<Case<'_>> = Vec::new();
        let mut names: Vec<&str> = Vec::new();
        for run in report.runs {
            let row = &run.row;
            if !policies.contains(&row.policy.as_str()) {
                policies.push(&row.policy);
            }
            if !names.contains(&row.scenario.as_str()) {
                names.push(&row.scenario);
            }
            if !cases.iter().any(|case| case.is_of(row)) {
                let end = run.series.hours.last().copied();
                let measured_from =
                    end.map(|end| end - row.measures.hours).filter(|from| from.is_finite() && *from > 0.0);
                cases.push(Case { scenario: &row.scenario, window: &row.window, seed: row.seed, measured_from });
            }
        }
        let baseline = report.baseline.and_then(|name| policies.iter().position(|policy| *policy == name)).unwrap_or(0);
        let scenarios = names.iter().map(|name| Scenario::new(name, report, &policies, baseline, entries)).collect();
        Self { policies, baseline, cases, scenarios }
    }

    pub fn policy(&self, name: &str) -> Option<usize> {
        self.policies.iter().position(|policy| *policy == name)
    }
}

impl<'a> Scenario<'a> {
    fn new(name: &'a str, report: &Report<'a>, policies: &[&str], baseline: usize, entries: &[Entry]) -> Self {
        let rows: Vec<(&Row, Vec<Option<f64>>)> = report
            .runs
            .iter()
            .filter(|run| run.row.scenario == name)
            .map(|run| (&run.row, values(&run.row, entries)))
            .collect();
        let of = |policy: usize| {
            let name = policies.get(policy).copied();
            rows.iter().filter(move |(row, _)| Some(row.policy.as_str()) == name)
        };
        let figures = |policy: usize| {
            let own: Vec<_> = of(policy).collect();
            if own.is_empty() {
                return None;
            }
            // Runs are paired once, by case: the baseline's values beside the policy's.
            let pairs: Vec<_> = own
                .iter()
                .filter_map(|(row, own)| {
                    let partner =
                        of(baseline).find(|(other, _)| other.window == row.window && other.seed == row.seed)?;
                    Some((&partner.1, own))
                })
                .collect();
            let compare = |measure: usize| {
                let both = pairs.iter().filter_map(|(base, own)| Some(((*base.get(measure)?)?, (*own.get(measure)?)?)));
                paired(&both.collect::<Vec<_>>(), SEED).filter(|_| policy != baseline)
            };
            let mean = |measure: usize| {
                let known: Vec<f64> = own.iter().filter_map(|(_, own)| *own.get(measure)?).collect();
                (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
            };
            Some(Figures {
                runs: own.len(),
                means: (0..entries.len()).map(mean).collect(),
                against_baseline: (0..entries.len()).map(compare).collect(),
            })
        };

        let mut seen: Vec<(&str, u64)> = Vec::new();
        let mut bounds = (0.0, 0.0);
        for (row, _) in &rows {
            if !seen.contains(&(row.window.as_str(), row.seed)) {
                seen.push((&row.window, row.seed));
                bounds.0 += row.bounds.active_nodes;
                bounds.1 += row.bounds.mean_kw;
            }
        }
        let cases = seen.len();
        let bounds = (bounds.0 / cases.max(1) as f64, bounds.1 / cases.max(1) as f64);
        Self { name, cases, bounds, policies: (0..policies.len()).map(figures).collect() }
    }

    /// Whether any policy has a value of a measure.
    pub fn knows(&self, measure: usize) -> bool {
        self.policies.iter().flatten().any(|figures| figures.means.get(measure).is_some_and(Option::is_some))
    }

    /// For each measure that is known, the difference of each policy to the baseline.
    pub fn differences(&self, summary: &Summary<'_>, entries: &[Entry]) -> Value {
        let known = (0..entries.len()).filter(|measure| self.knows(*measure));
        let rows = known.map(|measure| {
            let policies = (0..summary.policies.len()).map(|policy| {
                let found = self.policies.get(policy)?.as_ref()?.against_baseline.get(measure)?.as_ref()?;
                Some(json!({
                    "mean": shortened(found.mean),
                    "low": found.interval.map(|(low, _)| shortened(low)),
                    "high": found.interval.map(|(_, high)| shortened(high)),
                    "relative": found.relative.map(shortened),
                    "less": found.less,
                    "more": found.more,
                    "pairs": found.pairs,
                }))
            });
            json!({ "measure": measure, "policies": policies.collect::<Vec<_>>() })
        });
        Value::Array(rows.collect())
    }
}
