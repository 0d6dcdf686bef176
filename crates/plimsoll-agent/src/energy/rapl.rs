//! Intel's running average power limit (RAPL) as the kernel's powercap shows it; AMD's processors appear there, too.
//!
//! Zones overlap. A package holds its cores and its uncore; DRAM is beside the package though its folder is inside; psys is the whole
//! platform. The node's power is that of packages and DRAM, and of nothing else.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// How the folder of a zone begins. `intel-rapl-mmio:0` is package 0 once more, by another way.
const PREFIX: &str = "intel-rapl:";

/// Why there is no RAPL.
#[derive(Debug, Error)]
pub enum NoRapl {
    /// The kernel shows no package.
    #[error("there is no RAPL: {} holds no package ({PREFIX}0 and so on), as is usual in virtual machines", .0.display())]
    Absent(PathBuf),
    /// A counter cannot be read.
    #[error("there is RAPL, but {} cannot be read: {source}; kernels since 5.10 show it to root alone", file.display())]
    Unreadable {
        /// The counter.
        file: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// What a zone measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A processor with all that is in it.
    Package,
    /// Memory, beside the package.
    Dram,
    /// Part of something that is counted already, or all of the platform.
    Overlapping,
}

/// A zone of powercap.
#[derive(Debug, Clone)]
pub struct Zone {
    /// Its name with that of the zone it is in: `package-0`, `package-0/dram`.
    pub label: String,
    /// What it measures.
    pub kind: Kind,
    counter: PathBuf,
    range: u64,
}

impl Zone {
    /// The counter, in microjoules.
    pub fn read(&self) -> io::Result<u64> {
        number(&self.counter)
    }

    /// Microjoules between two readings; a counter that fell has begun anew once.
    pub fn between(&self, before: u64, now: u64) -> u64 {
        match now.checked_sub(before) {
            Some(difference) => difference,
            // Without a range nothing is known of what was used until the counter began anew.
            None if self.range == 0 => 0,
            None => self.range.saturating_sub(before).saturating_add(now),
        }
    }
}

/// All zones below a folder, each package followed by its parts.
pub fn discover(root: &Path) -> Result<Vec<Zone>, NoRapl> {
    let mut zones = Vec::new();
    for id in ids(root, 1) {
        let folder = root.join(format!("{PREFIX}{id}"));
        let Some(zone) = zone(&folder, None) else { continue };
        let parent = zone.label.clone();
        zones.push(zone);
        // The class folder links parts beside their package, the device folder has them inside only.
        let parts: BTreeSet<String> = ids(&folder, 2).into_iter().chain(ids(root, 2)).collect();
        for part in parts.iter().filter(|part| part.split(':').next() == Some(&id)) {
            let inside = folder.join(format!("{PREFIX}{part}"));
            let folder = if inside.exists() { inside } else { root.join(format!("{PREFIX}{part}")) };
            zones.extend(self::zone(&folder, Some(&parent)));
        }
    }
    if !zones.iter().any(|zone| zone.kind == Kind::Package) {
        return Err(NoRapl::Absent(root.to_owned()));
    }
    for zone in &zones {
        zone.read().map_err(|source| NoRapl::Unreadable { file: zone.counter.clone(), source })?;
    }
    Ok(zones)
}

/// The numbers of the zones in a folder that have so many parts: `0` has one, `0:1` two.
fn ids(folder: &Path, parts: usize) -> BTreeSet<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return BTreeSet::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let ids = names.filter_map(|name| name.strip_prefix(PREFIX).map(str::to_owned));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    ids.filter(|id| id.split(':').count() == parts && id.split(':').all(is_number)).collect()
}

fn zone(folder: &Path, parent: Option<&str>) -> Option<Zone> {
    let name = std::fs::read_to_string(folder.join("name")).ok()?.trim().to_owned();
    let kind = match (name.as_str(), parent) {
        ("dram", Some(parent)) if parent.starts_with("package-") => Kind::Dram,
        (name, None) if name.starts_with("package-") => Kind::Package,
        _ => Kind::Overlapping,
    };
    let label = parent.map_or_else(|| name.clone(), |parent| format!("{parent}/{name}"));
    let range = number(&folder.join("max_energy_range_uj")).unwrap_or(0);
    Some(Zone { label, kind, counter: folder.join("energy_uj"), range })
}

fn number(file: &Path) -> io::Result<u64> {
    std::fs::read_to_string(file)?.trim().parse().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy::fixture::Fixture;

    fn labels(zones: &[Zone]) -> Vec<(&str, Kind)> {
        zones.iter().map(|zone| (zone.label.as_str(), zone.kind)).collect()
    }

    #[test]
    fn parts_and_the_platform_are_known_for_what_they_are() {
        let fixture = Fixture::new();
        fixture.zone("intel-rapl:0", "package-0", 1000, 5);
        fixture.zone("intel-rapl:0/intel-rapl:0:0", "core", 1000, 5);
        fixture.zone("intel-rapl:0/intel-rapl:0:1", "dram", 1000, 5);
        fixture.zone("intel-rapl:1", "package-1", 1000, 5);
        // As in the class folder: beside the package.
        fixture.zone("intel-rapl:1:0", "dram", 1000, 5);
        fixture.zone("intel-rapl:2", "psys", 1000, 5);
        fixture.zone("intel-rapl-mmio:0", "package-0", 1000, 5);
        let zones = discover(&fixture.powercap()).unwrap();
        let expected = [
            ("package-0", Kind::Package),
            ("package-0/core", Kind::Overlapping),
            ("package-0/dram", Kind::Dram),
            ("package-1", Kind::Package),
            ("package-1/dram", Kind::Dram),
            ("psys", Kind::Overlapping),
        ];
        assert_eq!(labels(&zones), expected);
    }

    #[test]
    fn a_part_that_is_linked_beside_its_package_is_found_once() {
        let fixture = Fixture::new();
        fixture.zone("intel-rapl:0", "package-0", 1000, 5);
        fixture.zone("intel-rapl:0/intel-rapl:0:0", "dram", 1000, 5);
        let link = fixture.powercap().join("intel-rapl:0:0");
        std::os::unix::fs::symlink(fixture.powercap().join("intel-rapl:0/intel-rapl:0:0"), link).unwrap();
        assert_eq!(discover(&fixture.powercap()).unwrap().len(), 2);
    }

    #[test]
    fn no_package_is_no_rapl() {
        let fixture = Fixture::new();
        assert!(matches!(discover(&fixture.powercap()), Err(NoRapl::Absent(_))));
        fixture.zone("intel-rapl:0", "psys", 1000, 5);
        assert!(matches!(discover(&fixture.powercap()), Err(NoRapl::Absent(_))));
    }

    #[test]
    fn a_counter_that_cannot_be_read_is_named() {
        let fixture = Fixture::new();
        fixture.zone("intel-rapl:0", "package-0", 1000, 5);
        std::fs::remove_file(fixture.powercap().join("intel-rapl:0/energy_uj")).unwrap();
        let error = discover(&fixture.powercap()).unwrap_err().to_string();
        assert!(error.contains("intel-rapl:0/energy_uj"), "{error}");
    }

    #[test]
    fn a_counter_that_fell_has_begun_anew() {
        let fixture = Fixture::new();
        fixture.zone("intel-rapl:0", "package-0", 1000, 5);
        let zone = discover(&fixture.powercap()).unwrap().remove(0);
        for (before, now, expected) in [(10, 30, 20), (990, 15, 25), (1000, 0, 0), (7, 7, 0)] {
            assert_eq!(zone.between(before, now), expected, "from {before} to {now}");
        }
        let without_range = Zone { range: 0, ..zone };
        assert_eq!(without_range.between(10, 5), 0);
    }
}
