//! The machines that can be had: a TOML file, with machines as a scenario's pools have them.

use super::{Objective, Question, SizingError};
use crate::error::InputError;
use crate::fleet::{Fleet, Pool};
use crate::scenario::{CarbonSpec, PoolSpec, PowerSpec, Scenario, Time, read_toml};
use crate::world::price::{ListPrices, Prices};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// From asking a cloud for a machine to its joining, where nothing is said.
const BOOT_DELAY: Duration = Duration::from_secs(120);
/// How long a server is used, where nothing is said: four years.
const SERVICE_LIFE: Duration = Duration::from_secs(4 * 365 * 86_400);

/// The machines that can be had, and the world they are in.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machines {
    /// A table of measured machines (SPECpower), where machines are named by their model.
    pub catalogue: Option<PathBuf>,
    /// The machines.
    #[serde(default)]
    pub machine: Vec<MachineSpec>,
    /// How empty machines sleep; without, they are always awake.
    pub power: Option<PowerSpec>,
    /// What electricity emits.
    pub carbon: Option<CarbonSpec>,
    /// The folder that file names are relative to.
    #[serde(skip)]
    folder: PathBuf,
}

/// A kind of machine: a pool without a size, with what matters to whoever buys it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "toml::Table")]
pub struct MachineSpec {
    /// What it is, as a scenario has it.
    pub pool: PoolSpec,
    /// At least so many are in every fleet.
    pub least: usize,
    /// At most so many can be had.
    pub most: usize,
    /// Carbon dioxide of making one, in kg.
    pub embodied_kg: f64,
    /// Over how long that is spread.
    pub service_life: Duration,
    /// From asking for one to its joining, where pools grow.
    pub boot_delay: Duration,
}

/// A kind of machine, ready to be put into fleets.
#[derive(Debug, Clone, PartialEq)]
pub struct Kind {
    pub pool: Pool,
    pub least: usize,
    pub most: usize,
    /// What a machine costs an hour; none if it has no price.
    pub price: Option<f64>,
    /// Kilograms of carbon dioxide of making it, an hour.
    pub embodied_kg_hourly: f64,
    pub boot_delay: Duration,
}

impl TryFrom<toml::Table> for MachineSpec {
    type Error = String;

    fn try_from(mut table: toml::Table) -> Result<Self, String> {
        let name = table.get("name").and_then(toml::Value::as_str).unwrap_or_default().to_owned();
        let error = |problem: String| format!("machine {name:?}: {problem}");
        if table.contains_key("count") || table.contains_key("scaling") {
            let problem = "a catalogue has no count and no scaling: say with `most` how many can be had";
            return Err(error(problem.to_owned()));
        }
        let most: usize = take(&mut table, "most")
            .map_err(error)?
            .ok_or_else(|| error("`most` is missing: say how many can be had, as in most = 100".to_owned()))?;
        let least = take(&mut table, "least").map_err(error)?.unwrap_or(0);
        if least > most {
            return Err(error(format!("least {least} is more than most {most}")));
        }
        let embodied_kg: f64 = take(&mut table, "embodied_kg").map_err(error)?.unwrap_or(0.0);
        if !(embodied_kg.is_finite() && embodied_kg >= 0.0) {
            return Err(error(format!("embodied_kg {embodied_kg} makes no sense; zero or more is right")));
        }
        let time = |table: &mut toml::Table, key: &str, default: Duration| -> Result<Duration, String> {
            Ok(take::<Time>(table, key).map_err(error)?.map_or(default, |time| time.0))
        };
        let service_life = time(&mut table, "service_life", SERVICE_LIFE)?;
        if service_life < Duration::from_secs(3600) {
            return Err(error("service_life is less than an hour".to_owned()));
        }
        let boot_delay = time(&mut table, "boot_delay", BOOT_DELAY)?;
        table.insert("count".to_owned(), toml::Value::Integer(i64::try_from(most).unwrap_or(i64::MAX)));
        let pool = PoolSpec::deserialize(table).map_err(|problem| error(problem.message().to_owned()))?;
        Ok(Self { pool, least, most, embodied_kg, service_life, boot_delay })
    }
}

fn take<T: serde::de::DeserializeOwned>(table: &mut toml::Table, key: &str) -> Result<Option<T>, String> {
    let value = table.remove(key).map(T::deserialize).transpose();
    value.map_err(|problem: toml::de::Error| format!("{key}: {}", problem.message()))
}

impl Machines {
    /// Reads a catalogue.
    pub fn read(path: &Path) -> Result<Self, InputError> {
        let mut machines: Self = read_toml(path)?;
        if machines.machine.is_empty() {
            return Err(InputError::new(path, "there is no machine in it; describe those there are with [[machine]]"));
        }
        machines.folder = path.parent().map(Path::to_owned).unwrap_or_default();
        Ok(machines)
    }

    /// A scenario with these machines, the most that can be had of each; the workload is the scenario's, its file being absolute.
    pub fn scenario(&self, scenario: Scenario) -> Scenario {
        Scenario {
            catalogue: self.catalogue.clone(),
            machines: None,
            pool: self.machine.iter().map(|machine| machine.pool.clone()).collect(),
            power: self.power.unwrap_or(PowerSpec { sleep: false, ..PowerSpec::default() }),
            carbon: self.carbon.clone(),
            folder: self.folder.clone(),
            ..scenario
        }
    }

    /// The kinds, with their pools as the scenario built them.
    pub(super) fn kinds(&self, fleet: &Fleet) -> Vec<Kind> {
        let kind = |(spec, pool): (&MachineSpec, &Pool)| Kind {
            pool: pool.clone(),
            least: spec.least,
            most: spec.most,
            price: pool.machine.price.map(|_| ListPrices.hourly(pool)),
            embodied_kg_hourly: spec.embodied_kg / (spec.service_life.as_secs_f64() / 3600.0),
            boot_delay: spec.boot_delay,
        };
        self.machine.iter().zip(&fleet.pools).map(kind).collect()
    }
}

impl Question {
    /// Whether it makes sense by itself.
    pub(super) fn check(&self) -> Result<(), SizingError> {
        if !(0.0..1.0).contains(&self.risk) {
            let problem = format!("a risk of {} is no share of pods; at least 0 and less than 1 is right", self.risk);
            return Err(SizingError::Question(problem));
        }
        if let Some(share) = self.holdout.filter(|share| !(*share > 0.0 && *share < 1.0)) {
            let problem = format!("{share} is no share of the time to hold out; more than 0 and less than 1 is right");
            return Err(SizingError::Question(problem));
        }
        if self.most_runs == 0 {
            return Err(SizingError::Question("without a simulation no fleet can be found".to_owned()));
        }
        Ok(())
    }

    /// Whether the catalogue knows what is to be least.
    pub(super) fn check_kinds(&self, kinds: &[Kind], has_carbon: bool) -> Result<(), SizingError> {
        let unpriced = kinds.iter().find(|kind| kind.price.is_none());
        match (self.objective, unpriced) {
            (Objective::Cost, Some(kind)) => Err(SizingError::Question(format!(
                "machine {:?} has no price, so that the least cost cannot be found; say `price` for an hour",
                kind.pool.name
            ))),
            (Objective::Carbon, _) if !has_carbon => Err(SizingError::Question(
                "the catalogue does not say what electricity emits, so that the least carbon cannot be found; \
                 say it under [carbon.regions]"
                    .to_owned(),
            )),
            _ => Ok(()),
        }
    }
}
