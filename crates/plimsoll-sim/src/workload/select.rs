//! Taking a part of a workload, or more of it: window, split by time, sample of owners, scale.

use super::{Lifetime, PodRecord, Workload};
use plimsoll_core::rng::Rng;
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// No machine of today can hold the pods of a workload larger than this.
const MAX_PODS: f64 = 200_000_000.0;
/// Shares are taken in millionths, so that `train = 0.7` and `test = 0.3` meet at the same nanosecond.
const MILLION: f64 = 1e6;

/// What to take of a workload; done in the order of the fields.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Selection {
    /// Only pods that arrive in this window; times count from its start.
    pub window: Option<Window>,
    /// Whether pods that came before the window and still run enter at its start, with the rest of their lifetime.
    pub carry_over: bool,
    /// Only the part to train on: this share of the time, from the start.
    pub train: Option<f64>,
    /// Only the part to test on: this share of the time, up to the end.
    pub test: Option<f64>,
    /// Only this share of the owners, drawn by seed, each with all its pods.
    pub sample: Option<f64>,
    /// Multiplies the arrivals: owners are repeated under new names, or thinned out.
    pub scale: Option<f64>,
}

/// A selection that cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectError(String);

/// A span of time, `from` inclusive, `to` exclusive; written `1d..3d`, `90..`, `..36h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Window {
    /// Where it begins.
    pub from: Duration,
    /// Where it ends; without, it does not.
    pub to: Option<Duration>,
}

impl JsonSchema for Window {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Window".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "A span of time: FROM..TO, each in seconds or with one of the suffixes s, m, h, d; either may be left out.",
            "examples": ["1d..3d", "..36h"],
        })
    }
}

impl Selection {
    /// Takes the selection of a workload. What is random in it depends on the seed alone.
    pub fn apply(&self, mut workload: Workload, seed: u64) -> Result<Workload, SelectError> {
        let had = workload.pods.len();
        if let Some(window) = self.window {
            workload = window.of(workload, self.carry_over.then_some(seed));
        }
        match (self.train, self.test) {
            (None, None) => {}
            (Some(share), None) => workload = train(workload, share)?,
            (None, Some(share)) => workload = test(workload, share)?,
            (Some(_), Some(_)) => {
                return Err(SelectError("train and test are two parts: take one at a time".to_owned()));
            }
        }
        if let Some(share) = self.sample {
            workload = sample(workload, share, seed)?;
        }
        if let Some(factor) = self.scale {
            workload = scale(workload, factor, seed)?;
        }
        if workload.pods.is_empty() && had > 0 {
            return Err(SelectError(format!(
                "none of the {had} pods is selected; take a wider window or a larger sample"
            )));
        }
        Ok(workload)
    }
}

impl Window {
    /// The pods that arrive in the window, at times that count from its start.
    ///
    /// With a seed to carry over, pods that came before and still run enter at its start, as if each had started when it arrived.
    /// Where a lifetime is known as a range that the start falls into, whether the pod still runs is drawn.
    pub fn of(&self, mut workload: Workload, carry_over: Option<u64>) -> Workload {
        let mut rng = carry_over.map(Rng::new);
        workload.pods.retain_mut(|pod| {
            if self.to.is_some_and(|to| pod.arrival >= to) {
                return false;
            }
            match pod.arrival.checked_sub(self.from) {
                Some(arrival) => {
                    pod.arrival = arrival;
                    true
                }
                None => rng.as_mut().is_some_and(|rng| survives(pod, self.from, rng)),
            }
        });
        workload.renumber_templates();
        workload
    }
}

/// Moves a pod that came before `now` to the start, with what is left of its lifetime; not so if it is over.
fn survives(pod: &mut PodRecord, now: Duration, rng: &mut Rng) -> bool {
    let age = now.saturating_sub(pod.arrival);
    pod.arrival = Duration::ZERO;
    let Some(Lifetime { least, most }) = pod.lifetime else { return true };
    if most <= age {
        return false;
    }
    if least < age {
        // Uniform in its range: the part of it that is still ahead is the chance that the pod lives.
        let ahead = (most - age).as_secs_f64() / (most - least).as_secs_f64();
        if rng.unit() >= ahead {
            return false;
        }
    }
    pod.lifetime = Some(Lifetime { least: least.saturating_sub(age), most: most - age });
    true
}

/// The first `share` of the time, to train on.
pub fn train(workload: Workload, share: f64) -> Result<Workload, SelectError> {
    let millionths = in_millionths("train", share)?;
    if millionths == MILLION as u32 {
        return Ok(workload);
    }
    let to = part(workload.span(), millionths);
    Ok(Window { from: Duration::ZERO, to: Some(to) }.of(workload, None))
}

/// The last `share` of the time, to test on; times count from its start.
pub fn test(workload: Workload, share: f64) -> Result<Workload, SelectError> {
    let from = part(workload.span(), MILLION as u32 - in_millionths("test", share)?);
    Ok(Window { from, to: None }.of(workload, None))
}

/// Both parts of a workload split at a time: what arrives before it, and what arrives from then on.
pub fn split(workload: &Workload, at: Duration) -> (Workload, Workload) {
    let before = Window { from: Duration::ZERO, to: Some(at) };
    let after = Window { from: at, to: None };
    (before.of(workload.clone(), None), after.of(workload.clone(), None))
}

fn in_millionths(what: &str, share: f64) -> Result<u32, SelectError> {
    check_share(what, share)?;
    Ok((share * MILLION).round() as u32)
}

fn part(span: Duration, millionths: u32) -> Duration {
    let nanos = span.as_nanos() * u128::from(millionths) / MILLION as u128;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

fn check_share(what: &str, share: f64) -> Result<(), SelectError> {
    if share > 0.0 && share <= 1.0 {
        return Ok(());
    }
    Err(SelectError(format!("{what} is {share}; it must be above 0 and at most 1")))
}

/// A share of the owners, each with all its pods: owners come, live and die alike, which pods drawn one by one would hide.
///
/// A smaller share of the same seed is a part of a larger one.
pub fn sample(mut workload: Workload, share: f64, seed: u64) -> Result<Workload, SelectError> {
    check_share("sample", share)?;
    let ranks = Ranks::of(&workload, seed);
    let kept = ((ranks.0.len() as f64 * share).round() as usize).max(1);
    workload.pods.retain(|pod| ranks.rank(pod.owner) < kept);
    workload.renumber_templates();
    Ok(workload)
}

/// Multiplies the arrivals by a factor, in the same time: owners are repeated under new names, at the times of the first, and a
/// part of a repetition is a sample of the owners.
pub fn scale(mut workload: Workload, factor: f64, seed: u64) -> Result<Workload, SelectError> {
    if !(factor.is_finite() && factor > 0.0) {
        return Err(SelectError(format!("scale is {factor}; it must be a number above 0")));
    }
    let pods = workload.pods.len() as f64 * factor;
    if pods > MAX_PODS {
        return Err(SelectError(format!("scale {factor} makes {pods:.0} pods; at most {MAX_PODS:.0} can be run")));
    }
    if factor < 1.0 {
        return sample(workload, factor, seed);
    }
    let ranks = Ranks::of(&workload, seed);
    let owners = ranks.0.len();
    let (whole, more) = (factor.floor() as usize, (factor.fract() * owners as f64).round() as usize);
    let next_owner = workload.pods.iter().map(|pod| pod.owner).max().map_or(0, |owner| u64::from(owner) + 1);
    if next_owner + (whole * owners) as u64 > u64::from(u32::MAX) {
        return Err(SelectError(format!("scale {factor} makes more owners than can be numbered")));
    }
    let mark = mark(&workload);
    let mut pods = Vec::with_capacity((workload.pods.len() * whole).min(MAX_PODS as usize));
    for pod in std::mem::take(&mut workload.pods) {
        let rank = ranks.rank(pod.owner);
        let copies = whole + usize::from(rank < more);
        for copy in 1..copies {
            let owner = next_owner + ((copy - 1) * owners + rank) as u64;
            let owner = u32::try_from(owner).unwrap_or(u32::MAX);
            pods.push(PodRecord { name: format!("{}{mark}{copy}", pod.name).into(), owner, ..pod.clone() });
        }
        pods.push(pod);
    }
    workload.pods = pods;
    workload.renumber_templates();
    Ok(workload)
}

/// Owners in an order that the seed alone decides, by their place in it.
struct Ranks(FxHashMap<u32, usize>);

impl Ranks {
    fn of(workload: &Workload, seed: u64) -> Self {
        let mut owners: Vec<u32> = workload.pods.iter().map(|pod| pod.owner).collect();
        owners.sort_unstable();
        owners.dedup();
        // Seeds next to each other must not give orders that are alike, so the seed goes through the generator first.
        let salt = Rng::new(seed).next_u64();
        owners.sort_by_cached_key(|owner| (Rng::new(salt ^ u64::from(*owner)).next_u64(), *owner));
        Self(owners.into_iter().enumerate().map(|(rank, owner)| (owner, rank)).collect())
    }

    fn rank(&self, owner: u32) -> usize {
        self.0.get(&owner).copied().unwrap_or(usize::MAX)
    }
}

/// What goes between a name and the number of its copy so that no copy has the name of another pod.
fn mark(workload: &Workload) -> String {
    let mut mark = "-x".to_owned();
    let ends_so = |name: &str, mark: &str| name.trim_end_matches(|c: char| c.is_ascii_digit()).ends_with(mark);
    while workload.pods.iter().any(|pod| ends_so(&pod.name, &mark)) {
        mark.push('x');
    }
    mark
}

impl FromStr for Window {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((from, to)) = text.split_once("..") else {
            return Err(format!("{text:?} is not a window; FROM..TO is one, as in 1d..3d"));
        };
        let from = if from.trim().is_empty() { Duration::ZERO } else { parse_time(from)? };
        let to = if to.trim().is_empty() { None } else { Some(parse_time(to)?) };
        if to.is_some_and(|to| to <= from) {
            return Err(format!("the window {text} ends before it begins"));
        }
        Ok(Self { from, to })
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = super::fields::format_seconds;
        write!(f, "{}..{}", seconds(self.from), self.to.map(seconds).unwrap_or_default())
    }
}

impl From<Window> for String {
    fn from(window: Window) -> Self {
        window.to_string()
    }
}

impl TryFrom<String> for Window {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// A time: seconds, or a number with the suffix s, m, h or d.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let (number, unit) = match text.chars().last() {
        Some('s') => (text.strip_suffix('s'), 1),
        Some('m') => (text.strip_suffix('m'), 60),
        Some('h') => (text.strip_suffix('h'), 3600),
        Some('d') => (text.strip_suffix('d'), 86_400),
        _ => (Some(text), 1),
    };
    let cell = super::fields::Cell { column: "time", text: number.unwrap_or(text) };
    let time = cell.seconds().map_err(|fault| format!("{text:?} is no time: {}", fault.problem))?;
    let most = Duration::from_secs(super::fields::MAX_SECONDS);
    time.checked_mul(unit).filter(|time| *time <= most).ok_or_else(|| format!("{text} is too long a time"))
}

#[cfg(test)]
mod tests;
