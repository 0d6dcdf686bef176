//! How the latency of a node goes by the time of day, as the days before told, and what follows for the hours that a pod will run.

use std::time::Duration;

/// How many parts of a day are told apart: a quarter of an hour each.
pub const SLOTS: usize = 96;
/// How long each is, in seconds.
const SLOT: f64 = 86_400.0 / SLOTS as f64;
/// What the last day counts against all days before it.
const LAST_DAY: f32 = 0.5;

/// The share of a pod's time that falls into each part of the day; they add up to one.
pub type Presence = [f32; SLOTS];

/// When a pod will run, from the chance that it is still there after so many seconds. What lies beyond a day is spread evenly: `life_hours`
/// are the hours that it will run in all.
pub fn presence(now: Duration, life_hours: f32, alive: impl Fn(f32) -> f32) -> Presence {
    let hours = (SLOT / 3600.0) as f32;
    let mut presence = [0.0; SLOTS];
    for ahead in 0..SLOTS {
        let middle = (ahead as f64 + 0.5) * SLOT;
        presence[slot(now.as_secs_f64() + middle)] += alive(middle as f32) * hours;
    }
    let within_a_day: f32 = presence.iter().sum();
    let beyond = (life_hours - within_a_day).max(0.0) / SLOTS as f32;
    let all = (within_a_day + beyond * SLOTS as f32).max(1e-9);
    presence.map(|part| (part + beyond) / all)
}

/// The part of the day that it is.
pub fn part_of_day(now: Duration) -> usize {
    slot(now.as_secs_f64())
}

fn slot(seconds: f64) -> usize {
    (seconds / SLOT) as usize % SLOTS
}

/// See the description of the module.
#[derive(Debug, Clone, Default)]
pub struct Rhythm {
    /// Milliseconds in each part of the day; none where no day told. Empty before there is anything to tell.
    usual: Box<[Option<f32>]>,
    now_ms: Option<f32>,
    /// How far it was followed, in seconds.
    until: f64,
    /// Milliseconds times seconds, and seconds, of the part of the day that is under way.
    under_way: (f64, f64),
}

impl Rhythm {
    /// Goes on to a time, with the latency as it was, and from then on with this one.
    pub fn follow(&mut self, now: Duration, ms: Option<f64>) {
        self.go_on(now);
        self.now_ms = ms.map(|ms| ms as f32);
    }

    /// Goes on to a time with the latency as it is.
    pub fn go_on(&mut self, now: Duration) {
        let now = now.as_secs_f64();
        // Whoever was away for days has seen one day at most of what held meanwhile.
        let mut at = self.until.max(now - 86_400.0);
        while let Some(ms) = self.now_ms.filter(|_| at < now) {
            let end = ((at / SLOT).floor() + 1.0) * SLOT;
            let seconds = end.min(now) - at;
            self.under_way = (self.under_way.0 + f64::from(ms) * seconds, self.under_way.1 + seconds);
            if end <= now {
                self.close(slot(at));
            }
            at = end.min(now);
        }
        if self.now_ms.is_none() {
            self.under_way = (0.0, 0.0);
        }
        self.until = now;
    }

    /// A part of the day is over.
    fn close(&mut self, slot: usize) {
        let (sum, seconds) = std::mem::take(&mut self.under_way);
        // Of a part that was seen for less than half of its time little is known.
        if seconds < SLOT / 2.0 {
            return;
        }
        if self.usual.is_empty() {
            self.usual = vec![None; SLOTS].into();
        }
        let came = (sum / seconds) as f32;
        let usual = &mut self.usual[slot];
        *usual = Some(usual.map_or(came, |before| before + (came - before) * LAST_DAY));
    }

    /// The latency that a pod will have here on average, in milliseconds; none if none is known. What is unusual now is taken to last: without days
    /// before, that is the latency as it is.
    pub fn ahead(&self, now: Duration, presence: &Presence) -> Option<f32> {
        let now_ms = self.now_ms?;
        let Some(usual_now) = self.usual.get(part_of_day(now)) else { return Some(now_ms) };
        let usual_now = usual_now.unwrap_or(now_ms);
        let change = |(usual, share): (&Option<f32>, &f32)| usual.map_or(0.0, |usual| (usual - usual_now) * share);
        let change: f32 = self.usual.iter().zip(presence).map(change).sum();
        Some((now_ms + change).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3600;

    fn hours(hours: f64) -> Duration {
        Duration::from_secs_f64(hours * HOUR as f64)
    }

    /// For so long from now, surely.
    fn for_hours(now: f64, life: f32) -> Presence {
        presence(hours(now), life, |seconds| if seconds < life * HOUR as f32 { 1.0 } else { 0.0 })
    }

    /// 10 ms by day, from 8 to 16 o'clock, and 30 ms by night, for a day.
    fn of_a_day() -> Rhythm {
        let mut rhythm = Rhythm::default();
        for (at, ms) in [(0.0, 30.0), (8.0, 10.0), (16.0, 30.0)] {
            rhythm.follow(hours(at), Some(ms));
        }
        rhythm.go_on(hours(24.0));
        rhythm
    }

    fn near(came: Option<f32>, expected: f32) {
        assert!(came.is_some_and(|came| (came - expected).abs() < 0.01), "{came:?} is not {expected}");
    }

    #[test]
    fn what_a_day_told_is_expected_of_the_next() {
        let mut rhythm = of_a_day();
        near(rhythm.ahead(hours(24.0), &for_hours(24.0, 2.0)), 30.0);
        rhythm.go_on(hours(31.0));
        // An hour before it changes: half of two hours, and a quarter of four.
        near(rhythm.ahead(hours(31.0), &for_hours(31.0, 2.0)), 20.0);
        near(rhythm.ahead(hours(31.0), &for_hours(31.0, 4.0)), 15.0);
        // A pod that stays for days sees all hours.
        near(rhythm.ahead(hours(31.0), &for_hours(31.0, 2400.0)), (8.0 * 10.0 + 16.0 * 30.0) / 24.0);
    }

    #[test]
    fn without_days_before_the_latency_is_what_it_is() {
        let mut rhythm = Rhythm::default();
        assert_eq!(rhythm.ahead(hours(1.0), &for_hours(1.0, 2.0)), None);
        rhythm.follow(hours(1.0), Some(25.0));
        near(rhythm.ahead(hours(1.0), &for_hours(1.0, 2.0)), 25.0);
        rhythm.go_on(hours(9.0));
        near(rhythm.ahead(hours(9.0), &for_hours(9.0, 8.0)), 25.0);
    }

    #[test]
    fn what_is_unusual_now_is_taken_to_last_and_what_is_lost_from_view_is_not_known() {
        let mut rhythm = of_a_day();
        rhythm.follow(hours(26.0), Some(80.0));
        near(rhythm.ahead(hours(26.0), &for_hours(26.0, 1.0)), 80.0);
        rhythm.follow(hours(27.0), None);
        assert_eq!(rhythm.ahead(hours(27.0), &for_hours(27.0, 1.0)), None);
        rhythm.follow(hours(28.0), Some(30.0));
        near(rhythm.ahead(hours(28.0), &for_hours(28.0, 1.0)), 30.0);
        // The hour of 80 ms was seen, and the next day counts as much as it.
        rhythm.go_on(hours(49.0));
        near(rhythm.ahead(hours(49.0), &for_hours(50.0, 1.0)), 30.0 + (80.0 - 30.0) / 2.0);
    }

    #[test]
    fn presence_adds_up_to_one_at_any_time_of_day() {
        for (now, life) in [(0.0, 0.01), (23.9, 1.0), (12.3, 30.0), (1e6, 1e4)] {
            let sum: f32 = for_hours(now, life).iter().sum();
            assert!((sum - 1.0).abs() < 1e-4, "{now} {life}: {sum}");
        }
    }
}
