//! What a kilowatt-hour emits, by time and region.

use super::steps::Steps;
use crate::error::InputError;
use crate::workload::fields::{Cell, Fault, Reason};
use crate::workload::rows::{ReadOptions, Rows};
use k8s_openapi::jiff::{civil::DateTime, tz::TimeZone};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// The carbon intensity of electricity.
pub trait Carbon: Send + Sync {
    /// Grams of carbon dioxide for a kilowatt-hour; none if the region is not known.
    fn intensity(&self, region: &str, now: Duration) -> Option<f64>;

    /// When it changes next, after `now`.
    fn next_change(&self, now: Duration) -> Option<Duration>;
}

/// Intensity as recorded, region by region.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecordedIntensity {
    /// By region.
    pub regions: BTreeMap<String, Steps>,
}

impl Carbon for RecordedIntensity {
    fn intensity(&self, region: &str, now: Duration) -> Option<f64> {
        self.regions.get(region)?.at(now)
    }

    fn next_change(&self, now: Duration) -> Option<Duration> {
        self.regions.values().filter_map(|steps| steps.next_change(now)).min()
    }
}

/// Reads hourly intensity: columns `timestamp` (UTC) and `gco2_per_kwh`. `skip` is where in the record the simulation starts.
pub fn read(path: &Path, skip: Duration) -> Result<Steps, InputError> {
    let mut rows = Rows::open(path, ReadOptions::STRICT)?;
    let [timestamp, intensity] = rows.heading.columns(["timestamp", "gco2_per_kwh"])?;
    let mut entries = Vec::new();
    let mut start = None;
    while let Some((row, line)) = rows.next()? {
        let read = seconds(row.cell(timestamp)).and_then(|at| Ok((at, row.cell(intensity).number(MAX_GRAMS)?)));
        match read {
            Ok((at, grams)) => {
                let since = at - *start.get_or_insert(at) - skip.as_secs() as i64;
                match u64::try_from(since) {
                    Ok(since) => entries.push((Duration::from_secs(since), grams)),
                    // What holds before the simulation starts holds at its start.
                    Err(_) => entries = vec![(Duration::ZERO, grams)],
                }
            }
            Err(fault) => rows.faults.add(line, fault)?,
        }
    }
    rows.faults.ensure_some(entries.len())?;
    Ok(Steps::new(entries))
}

/// No electricity emits more than this, in grams a kilowatt-hour: coal alone is about a tenth of it.
const MAX_GRAMS: f64 = 1e4;

fn seconds(cell: Cell<'_>) -> Result<i64, Fault> {
    let text = cell.required()?.trim().trim_end_matches('Z');
    let read: Result<DateTime, _> = text.parse();
    read.ok()
        .and_then(|time| Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second()))
        .ok_or_else(|| cell.fault(Reason::NotANumber, format!("{text:?} is no time such as 2022-01-01T00:00:00")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::testing::file;

    const HEADING: &str = "timestamp,gco2_per_kwh\n";

    #[test]
    fn hours_count_from_the_start_of_the_record_or_later() {
        let text = "2021-12-31T23:00:00,100\n2022-01-01T00:00:00,200\n2022-01-01T01:00:00,300\n";
        let path = file("carbon.csv", format!("{HEADING}{text}"));
        let hour = |hours: u64| Duration::from_secs(hours * 3600);
        let steps = read(&path, Duration::ZERO).unwrap();
        assert_eq!([steps.at(hour(0)), steps.at(hour(1)), steps.at(hour(9))], [100.0, 200.0, 300.0].map(Some));
        let later = read(&path, hour(1) + Duration::from_secs(60)).unwrap();
        assert_eq!([later.at(hour(0)), later.at(hour(1))], [200.0, 300.0].map(Some));
    }

    #[test]
    fn a_bad_hour_is_named() {
        for (row, column) in [("yesterday,5", "timestamp"), ("2022-01-01T00:00:00,-5", "gco2_per_kwh")] {
            let error = read(&file("carbon-bad.csv", format!("{HEADING}{row}\n")), Duration::ZERO).unwrap_err();
            assert_eq!((error.line, error.column.as_deref()), (Some(2), Some(column)), "{error}");
        }
    }
}
