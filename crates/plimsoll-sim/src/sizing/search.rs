//! The search over whole machines.
//!
//! It begins with the linear program's mixes, of all kinds and of some, each made larger until a simulation says that it keeps the
//! risk. From the best of them it goes on by removing machines and by swapping some of one kind for some of another, in steps that
//! get smaller. Where the workload is long, fleets are looked at around the peak first, and those that fail there, or are the worse
//! half, are dropped. Simulations of a batch run side by side; what is in a batch never depends on how fast they are.

use super::SizingError;
use super::bench::{Bench, Candidate, Figures, Part, PoolSize, allowance};
use super::catalogue::Kind;
use super::demand::Surely;
use super::lp::{Mix, Program};
use crate::bounds::demand::{RESOURCES, supplies};
use crate::simulation::Settings;
use crate::workload::select::Window;
use rayon::prelude::*;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Below so many pods a simulation takes a moment, and a look at a part of it is not worth its while.
const PODS_FOR_LOOKS: usize = 4000;
/// A look takes in this share of the time.
const LOOK: u32 = 5;
/// How many fleets are simulated side by side before their results are looked at.
pub const BATCH: usize = 8;
/// From how many starts the search goes on.
const DESCENTS: usize = 3;
/// A start whose bound is so much above the best fleet is not worth a simulation.
const HOPELESS: f64 = 1.3;
/// A fleet is better if it is by this share.
const BETTER: f64 = 1e-9;

/// Fleets that keep the risk, with what they come to.
pub type Found = Vec<(Candidate, Figures)>;
/// The fleets beside one, at a distance.
pub type Neighbours<'a> = &'a dyn Fn(&Candidate, usize) -> Vec<Candidate>;

/// The search, with all that it has found out.
pub struct Search<'a> {
    pub bench: &'a Bench<'a>,
    part: &'a Part<'a>,
    surely: &'a Surely,
    look: Option<Part<'static>>,
    known: BTreeMap<Candidate, Figures>,
    glanced: BTreeMap<Candidate, Figures>,
    /// After how many simulations it ends.
    most_runs: usize,
    /// How many simulations of the whole were made.
    pub runs: usize,
    /// How many of a part.
    pub looks: usize,
}

impl<'a> Search<'a> {
    pub fn new(bench: &'a Bench<'a>, part: &'a Part<'a>, surely: &'a Surely) -> Self {
        let look = (part.workload.pods.len() >= PODS_FOR_LOOKS).then(|| around_peak(part, surely));
        let most_runs = bench.question.most_runs;
        let (known, glanced) = (BTreeMap::new(), BTreeMap::new());
        Self { bench, part, surely, look, known, glanced, most_runs, runs: 0, looks: 0 }
    }

    /// Whether as many simulations were made as may be.
    pub fn is_cut_short(&self) -> bool {
        self.runs >= self.most_runs
    }

    /// Lets it make as many simulations once more.
    pub fn allow_more(&mut self) {
        self.most_runs = self.runs + self.bench.question.most_runs;
    }

    /// Fleets that stay as they are: all that were simulated and keep the risk.
    pub fn fixed(&mut self, program: &Program<'_>, mix: &Mix) -> Result<Found, SizingError> {
        let mut starts = Vec::new();
        self.grow(mix, &mut starts)?;
        for among in subsets(self.bench.kinds.len()) {
            // Some kinds alone may be too few: then they are no start.
            let Ok(mix) = program.solve(Some(&among)) else { continue };
            let best = starts.iter().map(|(_, figures)| self.value(figures)).fold(f64::INFINITY, f64::min);
            if mix.bound <= best * HOPELESS {
                self.grow(&mix, &mut starts)?;
            }
        }
        if starts.is_empty() {
            let all = Candidate::fixed(self.bench.kinds.iter().map(|kind| kind.most));
            self.run_all(vec![all.clone()])?;
            starts.extend(self.known_good(&all));
        }
        if starts.is_empty() {
            return Err(self.too_few());
        }
        let kinds = self.bench.kinds;
        let descend = |candidate: &Candidate, step: usize| beside(candidate, step, kinds);
        self.descend_from(starts, &descend)
    }

    /// Goes on from the best of some fleets, and gives back all that keep the risk.
    pub fn descend_from(&mut self, mut starts: Found, beside: Neighbours<'_>) -> Result<Found, SizingError> {
        self.sort(&mut starts);
        starts.dedup_by(|a, b| a.0 == b.0);
        starts.truncate(DESCENTS);
        for start in starts {
            self.descend(start, beside)?;
        }
        Ok(self.known.iter().filter(|(_, figures)| self.keeps(figures)).map(|(c, f)| (c.clone(), f.clone())).collect())
    }

    /// The best of some fleets, and those after it that are no mere enlargement of a better one.
    pub fn best(&self, found: &Found, runners_up: usize) -> Found {
        let mut sorted = found.clone();
        self.sort(&mut sorted);
        let mut best: Found = Vec::new();
        for (candidate, figures) in sorted {
            let enlarges = |(other, _): &(Candidate, Figures)| {
                // Another length of idleness, or fewer machines that always stay, is another answer.
                let enlarges =
                    |(a, b): (&PoolSize, &PoolSize)| a.idle_after == b.idle_after && a.min >= b.min && a.max >= b.max;
                candidate.0.iter().zip(&other.0).all(enlarges)
            };
            if !best.iter().any(enlarges) {
                best.push((candidate, figures));
            }
            if best.len() > runners_up {
                break;
            }
        }
        best
    }

    fn value(&self, figures: &Figures) -> f64 {
        figures.value(self.bench.question.objective)
    }

    fn keeps(&self, figures: &Figures) -> bool {
        figures.keeps(self.bench.question.risk)
    }

    fn sort(&self, found: &mut Found) {
        found.sort_by(|(a, of_a), (b, of_b)| {
            let values = self.value(of_a).total_cmp(&self.value(of_b));
            values.then(a.machines().cmp(&b.machines())).then_with(|| a.cmp(b))
        });
    }

    pub fn known_good(&self, candidate: &Candidate) -> Option<(Candidate, Figures)> {
        let figures = self.known.get(candidate).filter(|figures| self.keeps(figures))?;
        Some((candidate.clone(), figures.clone()))
    }

    /// Makes a mix larger until it keeps the risk: first in leaps, then between the last two by halves.
    fn grow(&mut self, mix: &Mix, starts: &mut Found) -> Result<(), SizingError> {
        let sized = |factor: f64| {
            let count = |(count, kind): (&f64, &Kind)| {
                ((count * factor - 1e-6).ceil().max(0.0) as usize).clamp(kind.least, kind.most)
            };
            Candidate::fixed(mix.counts.iter().zip(self.bench.kinds).map(count).collect::<Vec<_>>())
        };
        let leaps: Vec<f64> = (0..12).map(|leap| 1.0 + 0.08 * f64::from(leap * (leap + 1)) / 2.0).collect();
        let mut tried: Vec<(f64, Candidate)> = Vec::new();
        for factor in leaps {
            let candidate = sized(factor);
            if tried.last().is_none_or(|(_, last)| *last != candidate) {
                tried.push((factor, candidate));
            }
        }
        let mut low = 0;
        for (at, (factor, candidate)) in tried.iter().enumerate() {
            if self.is_cut_short() {
                return Ok(());
            }
            self.run_all(vec![candidate.clone()])?;
            if let Some(good) = self.known_good(candidate) {
                starts.push(good);
                return if at == 0 { Ok(()) } else { self.halve(tried[low].0, *factor, &sized, starts) };
            }
            low = at;
        }
        Ok(())
    }

    fn halve(
        &mut self,
        mut low: f64,
        mut high: f64,
        sized: &dyn Fn(f64) -> Candidate,
        starts: &mut Found,
    ) -> Result<(), SizingError> {
        for _ in 0..4 {
            let middle = f64::midpoint(low, high);
            let candidate = sized(middle);
            if self.is_cut_short() || candidate == sized(high) || candidate == sized(low) {
                break;
            }
            self.run_all(vec![candidate.clone()])?;
            match self.known_good(&candidate) {
                Some(good) => {
                    starts.push(good);
                    high = middle;
                }
                None => low = middle,
            }
        }
        Ok(())
    }

    /// Goes from a fleet to the best beside it for as long as there is a better one, in steps that get smaller.
    fn descend(&mut self, start: (Candidate, Figures), beside: Neighbours<'_>) -> Result<(), SizingError> {
        let mut here = start;
        let mut step = (here.0.machines() / 8).max(1).next_power_of_two();
        while step > 0 && !self.is_cut_short() {
            let candidates = self.worth_a_run(&here, beside(&here.0, step))?;
            let mut better = None;
            for batch in candidates.chunks(BATCH) {
                self.run_all(batch.to_vec())?;
                let mut good: Found = batch.iter().filter_map(|candidate| self.known_good(candidate)).collect();
                good.retain(|(_, figures)| self.value(figures) < self.value(&here.1) * (1.0 - BETTER));
                self.sort(&mut good);
                better = good.into_iter().next();
                if better.is_some() || self.is_cut_short() {
                    break;
                }
            }
            match better {
                Some(found) => here = found,
                None => step /= 2,
            }
        }
        Ok(())
    }

    /// Of the fleets beside one, those that may be better, the most promising first.
    fn worth_a_run(
        &mut self,
        here: &(Candidate, Figures),
        mut beside: Vec<Candidate>,
    ) -> Result<Vec<Candidate>, SizingError> {
        beside.sort();
        beside.dedup();
        let value = self.value(&here.1);
        let promise = |candidate: &Candidate| self.bench.known_value(candidate, self.part.hours());
        beside.retain(|candidate| {
            let is_new = self.known.get(candidate).is_none_or(|known| self.keeps(known) && self.value(known) < value);
            is_new
                && self.bears_peaks(candidate)
                && promise(candidate).is_none_or(|promise| promise < value * (1.0 - BETTER))
        });
        beside.sort_by(|a, b| {
            let [a, b] = [a, b].map(|candidate| promise(candidate).unwrap_or(0.0));
            a.total_cmp(&b)
        });
        let Some(look) = self.look.take() else { return Ok(beside) };
        let glanced = self.glance(&look, beside);
        self.look = Some(look);
        glanced
    }

    /// Looks at fleets around the peak: who lets more pods wait there than may wait at all is out, and so is, where the worth is not
    /// known beforehand, the worse half.
    fn glance(&mut self, look: &Part<'_>, beside: Vec<Candidate>) -> Result<Vec<Candidate>, SizingError> {
        let unseen: Vec<_> = beside.iter().filter(|candidate| !self.glanced.contains_key(candidate)).cloned().collect();
        let results: Vec<_> = unseen.par_iter().map(|candidate| self.bench.run(look, candidate)).collect();
        self.looks += results.len();
        for (candidate, figures) in unseen.into_iter().zip(results) {
            self.glanced.insert(candidate, figures?);
        }
        let may_wait = allowance(self.bench.question.risk, self.part.workload.pods.len());
        let seen = beside.into_iter().filter_map(|candidate| Some((self.glanced.get(&candidate)?.clone(), candidate)));
        let mut left: Vec<_> = seen.filter(|(figures, _)| figures.late <= may_wait).collect();
        let is_known = left.first().is_some_and(|(_, candidate)| self.bench.known_value(candidate, 1.0).is_some());
        if !is_known {
            left.sort_by(|(a, of_a), (b, of_b)| self.value(a).total_cmp(&self.value(b)).then_with(|| of_a.cmp(of_b)));
            left.truncate(left.len().div_ceil(2));
        }
        Ok(left.into_iter().map(|(_, candidate)| candidate).collect())
    }

    /// Whether a fleet has what surely runs at the peaks: if not, no policy can keep the risk with it.
    fn bears_peaks(&self, candidate: &Candidate) -> bool {
        self.surely.peaks.iter().all(|peak| {
            (0..RESOURCES).all(|r| {
                let kinds =
                    self.bench.kinds.iter().zip(candidate.counts()).zip(&peak.kinds).filter(|(_, among)| **among);
                let has: f64 =
                    kinds.map(|((kind, count), _)| supplies(&kind.pool.machine)[r] as f64 * count as f64).sum();
                has >= peak.amounts[r]
            })
        })
    }

    /// Simulates the whole for fleets that are not known yet, side by side.
    pub fn run_all(&mut self, candidates: Vec<Candidate>) -> Result<(), SizingError> {
        let mut unknown: Vec<_> =
            candidates.into_iter().filter(|candidate| !self.known.contains_key(candidate)).collect();
        unknown.sort();
        unknown.dedup();
        let results: Vec<_> = unknown.par_iter().map(|candidate| self.bench.run(self.part, candidate)).collect();
        self.runs += results.len();
        for (candidate, figures) in unknown.into_iter().zip(results) {
            self.known.insert(candidate, figures?);
        }
        Ok(())
    }

    fn too_few(&self) -> SizingError {
        let question = self.bench.question;
        let least = self.known.values().min_by(|a, b| a.late_share.total_cmp(&b.late_share));
        let (share, never) = least.map_or((1.0, 0), |figures| (figures.late_share, figures.never_placed));
        SizingError::TooFew(format!(
            "with policy {} even the best of the fleets tried, up to all machines that can be had, lets {:.3} % of the pods \
             wait longer than {} s ({never} never placed), and {:.3} % may",
            question.policy,
            share * 100.0,
            question.wait.as_secs_f64(),
            question.risk * 100.0,
        ))
    }
}

/// A part of the time around the peak, with the pods that run at its start.
fn around_peak(part: &Part<'_>, surely: &Surely) -> Part<'static> {
    let (_, end) = part.measured();
    let long = end / LOOK;
    // The way up to the peak matters more than what comes after.
    let from = surely.peak_at.saturating_sub(long.mul_f64(0.6)).min(end - long);
    let window = Window { from, to: Some(from + long) };
    let workload = window.of(part.workload.clone().into_owned(), Some(part.settings.seed));
    let settings = Settings { warmup: 0.0, horizon: Some(long), ..part.settings.clone() };
    Part { workload: Cow::Owned(workload), settings }
}

/// Sets of kinds to begin with: each kind alone, each pair, and all but one.
fn subsets(kinds: usize) -> Vec<Vec<bool>> {
    let mut sets: Vec<Vec<bool>> = Vec::new();
    for first in 0..kinds {
        sets.push((0..kinds).map(|kind| kind == first).collect());
        sets.push((0..kinds).map(|kind| kind != first).collect());
        sets.extend((0..first).map(|second| (0..kinds).map(|kind| kind == first || kind == second).collect()));
    }
    sets.retain(|set| set.contains(&true) && set.contains(&false));
    sets.sort();
    sets.dedup();
    sets
}

/// Fleets that have some machines less, or more, or some of one kind for some of another.
fn beside(candidate: &Candidate, step: usize, kinds: &[Kind]) -> Vec<Candidate> {
    let counts: Vec<usize> = candidate.counts().collect();
    let mut beside = Vec::new();
    let mut offer = |changes: &[(usize, isize)]| {
        let mut counts = counts.clone();
        for (kind, by) in changes {
            let Some(count) = counts[*kind].checked_add_signed(*by) else { return };
            if count < kinds[*kind].least || count > kinds[*kind].most {
                return;
            }
            counts[*kind] = count;
        }
        beside.push(Candidate::fixed(counts));
    };
    let signed = |number: usize| isize::try_from(number).unwrap_or(isize::MAX);
    for (less, from) in kinds.iter().enumerate() {
        offer(&[(less, signed(step))]);
        // The last few go together.
        let step = step.min(counts[less].saturating_sub(from.least));
        if step == 0 {
            continue;
        }
        offer(&[(less, -signed(step))]);
        for (more, to) in kinds.iter().enumerate().filter(|(more, _)| *more != less) {
            for added in worth(from, to, step) {
                offer(&[(less, -signed(step)), (more, signed(added))]);
            }
        }
    }
    beside
}

/// How many machines of one kind may stand in for some of another: as many as have the same of some resource, and as many as are
/// still cheaper.
fn worth(from: &Kind, to: &Kind, step: usize) -> Vec<usize> {
    let (had, has) = (supplies(&from.pool.machine), supplies(&to.pool.machine));
    let mut numbers = Vec::new();
    for r in (0..3).filter(|r| had[*r] > 0 && has[*r] > 0) {
        let exact = had[r] as f64 * step as f64 / has[r] as f64;
        numbers.extend([exact.floor() as usize, exact.ceil() as usize]);
    }
    if let (Some(was), Some(is)) = (from.price, to.price)
        && is > 0.0
    {
        numbers.push(((was * step as f64 / is).ceil() as usize).saturating_sub(1));
    }
    numbers.retain(|number| *number > 0);
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}
