//! A day that is lived through for show, under two schedulers side by side: what is seen of it, and how fast it goes. Whoever lives through it puts it here.

use crate::bridge::Totals;
use plimsoll_kube::survey::NodeView;
use serde::Serialize;
use std::sync::{Mutex, MutexGuard, PoisonError};
use utoipa::ToSchema;

/// The slowest and the fastest a day may go, in seconds of the day for each real one.
pub const SPEEDS: std::ops::RangeInclusive<f64> = 1.0..=100_000.0;
/// Seconds of the day between two moments that are kept: 288 of a day are enough for a plot.
const KEPT_EVERY: f64 = 300.0;

/// How fast the day goes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// Seconds of the day for each real one.
    pub speed: f64,
    /// Whether it stands still.
    pub paused: bool,
}

/// What a side came to so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, ToSchema)]
pub struct Figures {
    /// Energy.
    pub kwh: f64,
    /// Nodes with pods, on average over the day so far.
    pub mean_active_nodes: f64,
    /// Pods that wait now.
    pub pending: usize,
    /// Pods that were placed.
    pub placed: u64,
    /// Pods that gave up waiting.
    pub rejected: u64,
    /// Seconds that a pod waited, on average.
    pub mean_wait_s: f64,
}

/// One of the two sides, as it is put here.
pub struct Side<'a> {
    /// Who ranks.
    pub policy: &'a str,
    /// What it came to.
    pub figures: Figures,
    /// The nodes, in an order that both sides have.
    pub nodes: Vec<&'a NodeView>,
}

/// One of the two sides, as it is told.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub struct SideView {
    /// Who ranks.
    pub policy: String,
    /// What it came to.
    #[serde(flatten)]
    pub figures: Figures,
    /// Nodes that have pods now; the others sleep.
    pub active_nodes: usize,
    /// The standard deviation of the share of CPU that is asked for.
    balance: f64,
    /// Figures of its cluster.
    #[schema(value_type = Object)]
    pub totals: Totals,
    /// Thousandths of its CPU that are asked for, of each node, in one order for both sides.
    pub loads: Vec<u16>,
}

/// Nodes and energy of a side at a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, ToSchema)]
pub struct Reading {
    active_nodes: usize,
    kwh: f64,
}

/// How both sides stood at a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, ToSchema)]
pub struct Moment {
    /// Seconds of the day.
    clock: f64,
    left: Reading,
    right: Reading,
}

/// The day so far.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub struct Day {
    /// Seconds of the day.
    pub clock: f64,
    /// Seconds of the day for each real one.
    pub speed: f64,
    /// Whether it stands still.
    pub paused: bool,
    /// Whether it is over.
    pub over: bool,
    /// Under the default scheduler.
    pub left: SideView,
    /// Under the policy that is shown.
    pub right: SideView,
    /// The day every five minutes; not in events.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Moment>,
}

/// See the description of the module.
pub struct Stage {
    day: Mutex<Day>,
    pace: Mutex<Pace>,
}

impl Stage {
    /// A day that has not begun.
    pub fn new(pace: Pace) -> Self {
        Self { day: Mutex::default(), pace: Mutex::new(pace) }
    }

    /// How fast it is to go.
    pub fn pace(&self) -> Pace {
        *lock(&self.pace)
    }

    /// Has it go faster, slower, stand still or go on. A speed that is none is refused, and nothing changes then.
    pub fn set_pace(&self, speed: Option<f64>, paused: Option<bool>) -> Result<(), String> {
        if let Some(speed) = speed.filter(|speed| !SPEEDS.contains(speed)) {
            return Err(format!("speed is {speed}; it must be from {} to {}", SPEEDS.start(), SPEEDS.end()));
        }
        let mut pace = lock(&self.pace);
        pace.speed = speed.unwrap_or(pace.speed);
        pace.paused = paused.unwrap_or(pace.paused);
        Ok(())
    }

    /// Puts the day here as it is now.
    pub fn show(&self, clock: f64, over: bool, left: &Side<'_>, right: &Side<'_>) {
        let mut day = lock(&self.day);
        (day.clock, day.over) = (clock, over);
        (day.left, day.right) = (SideView::of(left), SideView::of(right));
        let last = day.history.last().map(|moment| moment.clock);
        if last.is_none_or(|last| clock - last >= KEPT_EVERY || (over && clock > last)) {
            let moment = Moment { clock, left: day.left.reading(), right: day.right.reading() };
            day.history.push(moment);
        }
    }

    /// The day so far, with or without how it came there.
    pub fn day(&self, with_history: bool) -> Day {
        let Pace { speed, paused } = self.pace();
        let day = lock(&self.day);
        let history = if with_history { day.history.clone() } else { Vec::new() };
        let Day { clock, over, left, right, .. } = &*day;
        Day { clock: *clock, speed, paused, over: *over, left: left.clone(), right: right.clone(), history }
    }

    /// What the right side has saved so far, in kWh.
    pub fn saved_kwh(&self) -> f64 {
        let day = lock(&self.day);
        day.left.figures.kwh - day.right.figures.kwh
    }

    /// Whether the day is over.
    pub fn is_over(&self) -> bool {
        lock(&self.day).over
    }

    /// What changes when anything does that is seen.
    pub(crate) fn mark(&self) -> (u64, u64, bool, bool) {
        let Pace { speed, paused } = self.pace();
        let day = lock(&self.day);
        (day.clock.to_bits(), speed.to_bits(), paused, day.over)
    }
}

impl SideView {
    fn of(side: &Side<'_>) -> Self {
        let totals = Totals::of(side.nodes.iter().copied(), None);
        let whole = totals.whole();
        let load = |node: &&NodeView| (node.cpu_m[0] * 1000 / node.cpu_m[1].max(1)).clamp(0, 1000) as u16;
        Self {
            policy: side.policy.to_owned(),
            figures: side.figures,
            active_nodes: whole.active_nodes,
            balance: whole.balance,
            totals,
            loads: side.nodes.iter().map(load).collect(),
        }
    }

    fn reading(&self) -> Reading {
        Reading { active_nodes: self.active_nodes, kwh: self.figures.kwh }
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
