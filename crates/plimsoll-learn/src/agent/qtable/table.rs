//! The table: from a state to what each choice is worth.

use crate::agent::chooser::{Chooser, Rule};
use crate::error::LearnError;
use crate::model::{Tensor, Weights};
use crate::observation::Observation;
use crate::policy::Scorer;
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The version of stored tables.
const SCHEMA: &str = "plimsoll.dev/qtable/v1";
/// How fast the average worth of states follows what is learned: over some hundreds of steps.
const AVERAGING: f64 = 0.005;
/// The bin of what is missing.
const MISSING: u8 = u8::MAX;

/// How states are told apart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TableSettings {
    /// Into how many bins numbers from 0 to 1 are cut.
    pub bins: u8,
    /// The features of nodes that count; all if empty.
    pub node_features: Vec<String>,
    /// The features of pods that count; all if empty.
    pub pod_features: Vec<String>,
    /// The rule that decides in states that were never visited.
    pub fallback: String,
}

impl Default for TableSettings {
    fn default() -> Self {
        Self { bins: 8, node_features: Vec::new(), pod_features: Vec::new(), fallback: "best-fit".into() }
    }
}

/// What the choices of a state are worth, by place among the sorted nodes; what was never tried is not known.
#[derive(Debug, Clone, Default, PartialEq)]
struct Entry {
    worth: Vec<Option<f64>>,
    visits: u64,
}

/// A choice in a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    key: Box<[u8]>,
    choice: usize,
}

/// What each choice is worth, for the states that were visited.
#[derive(Debug, Clone)]
pub struct QTable {
    settings: TableSettings,
    node_features: Vec<String>,
    pod_features: Vec<String>,
    node_columns: Vec<usize>,
    pod_columns: Vec<usize>,
    rule: Rule,
    /// Looked up only, never walked through in an order that matters.
    states: FxHashMap<Box<[u8]>, Entry>,
    /// What states are worth on average: what one that was never visited is taken to be worth. Nothing at all would frighten off from it.
    average: f64,
    fallbacks: u64,
}

/// A table as it is stored.
#[derive(Serialize, Deserialize)]
struct Stored {
    schema: String,
    settings: TableSettings,
    node_features: Vec<String>,
    pod_features: Vec<String>,
    average: f64,
    states: Vec<StoredState>,
}

#[derive(Serialize, Deserialize)]
struct StoredState {
    key: Vec<u8>,
    worth: Vec<Option<f64>>,
    visits: u64,
}

impl QTable {
    /// An empty table for observations with these features.
    pub fn new(settings: TableSettings, node_features: &[String], pod_features: &[String]) -> Result<Self, LearnError> {
        if !(2..MISSING).contains(&settings.bins) {
            let bins = settings.bins;
            return Err(LearnError::Invalid(format!("q-table: bins is {bins}; it must be from 2 to {}", MISSING - 1)));
        }
        Ok(Self {
            node_columns: columns("feature of nodes", &settings.node_features, node_features)?,
            pod_columns: columns("feature of pods", &settings.pod_features, pod_features)?,
            rule: Rule::by_name(&settings.fallback, node_features)?,
            settings,
            node_features: node_features.to_vec(),
            pod_features: pod_features.to_vec(),
            states: FxHashMap::default(),
            average: 0.0,
            fallbacks: 0,
        })
    }

    /// How many states were visited.
    pub fn len(&self) -> usize {
        self.states.len()
    }

    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// How many choices were left to the rule, the state or all of its choices being unknown.
    pub fn fallbacks(&self) -> u64 {
        self.fallbacks
    }

    fn bin(&self, value: f32) -> u8 {
        if value.is_nan() || value < 0.0 {
            return MISSING;
        }
        let bins = f32::from(self.settings.bins);
        ((value * bins) as u8).min(self.settings.bins - 1)
    }

    /// The state's key, and the rows of its nodes in the order of the key.
    fn key(&self, observation: &Observation) -> (Box<[u8]>, Vec<usize>) {
        let width = self.node_columns.len() + 1;
        let mut rows: Vec<u8> = Vec::with_capacity(observation.node_count() * width);
        for (row, allowed) in observation.mask.iter().enumerate() {
            let node = observation.node(row);
            rows.extend(self.node_columns.iter().map(|at| self.bin(node[*at])));
            rows.push(u8::from(*allowed));
        }
        let mut order: Vec<usize> = (0..observation.node_count()).collect();
        order.sort_by_key(|row| &rows[row * width..(row + 1) * width]);
        let mut key: Vec<u8> = self.pod_columns.iter().map(|at| self.bin(observation.pod[*at])).collect();
        order.iter().for_each(|row| key.extend_from_slice(&rows[row * width..(row + 1) * width]));
        (key.into(), order)
    }

    /// Nodes that look alike are one choice: the first of them in the key.
    fn first_alike(&self, key: &[u8], place: usize) -> usize {
        let (width, start) = (self.node_columns.len() + 1, self.pod_columns.len());
        let row = |place: usize| &key[start + place * width..start + (place + 1) * width];
        (0..=place).find(|other| row(*other) == row(place)).unwrap_or(place)
    }

    /// Where what is learned of an action belongs.
    pub(super) fn place(&self, observation: &Observation, action: usize) -> Place {
        let (key, order) = self.key(observation);
        let place = order.iter().position(|row| *row == action).unwrap_or(0);
        Place { choice: self.first_alike(&key, place), key }
    }

    /// Moves what a choice is worth towards a target.
    pub(super) fn learn(&mut self, place: Place, target: f64, rate: f64) {
        let Place { key, choice } = place;
        let entry = self.states.entry(key).or_default();
        entry.visits += 1;
        if entry.worth.len() <= choice {
            entry.worth.resize(choice + 1, None);
        }
        // The first look at a choice is all that is known of it.
        let worth = entry.worth[choice].get_or_insert(target);
        *worth += rate * (target - *worth);
        self.average += AVERAGING * (target - self.average);
    }

    /// What the best known choice is worth; as states are on average where nothing is known.
    pub fn worth(&self, observation: &Observation) -> f64 {
        let (key, _) = self.key(observation);
        self.best(&key).map_or(self.average, |(_, worth)| worth)
    }

    fn best(&self, key: &[u8]) -> Option<(usize, f64)> {
        let known = self.states.get(key)?.worth.iter().enumerate();
        let known = known.filter_map(|(choice, worth)| Some((choice, (*worth)?)));
        known.reduce(|best, other| if other.1 > best.1 { other } else { best })
    }

    /// The table as JSON; equal tables give equal text.
    pub fn to_json(&self) -> Value {
        let mut states: Vec<_> = self.states.iter().collect();
        states.sort_by_key(|(key, _)| *key);
        let states = states.into_iter().map(|(key, entry)| StoredState {
            key: key.to_vec(),
            worth: entry.worth.clone(),
            visits: entry.visits,
        });
        let stored = Stored {
            schema: SCHEMA.into(),
            settings: self.settings.clone(),
            node_features: self.node_features.clone(),
            pod_features: self.pod_features.clone(),
            average: self.average,
            states: states.collect(),
        };
        json!(stored)
    }

    /// A table from JSON; one that cannot be is refused with what is wrong.
    pub fn from_json(value: &Value) -> Result<Self, LearnError> {
        let invalid = |problem: String| LearnError::Invalid(format!("q-table: {problem}"));
        let stored = Stored::deserialize(value).map_err(|error| invalid(format!("cannot be read: {error}")))?;
        if stored.schema != SCHEMA {
            return Err(invalid(format!("its schema is {:?}, not {SCHEMA:?}", stored.schema)));
        }
        let mut table = Self::new(stored.settings, &stored.node_features, &stored.pod_features)?;
        table.average = stored.average;
        for StoredState { key, worth, visits } in stored.states {
            let nodes = key.len().checked_sub(table.pod_columns.len());
            let nodes = nodes.filter(|rest| rest.is_multiple_of(table.node_columns.len() + 1));
            let nodes = nodes.map(|rest| rest / (table.node_columns.len() + 1));
            if nodes.is_none_or(|nodes| worth.len() > nodes) {
                return Err(invalid("a state does not fit the features it is described by".into()));
            }
            table.states.insert(key.into(), Entry { worth, visits });
        }
        Ok(table)
    }

    /// Whether another table tells states apart in the same way; what differs if not.
    pub fn ensure_like(&self, other: &Self) -> Result<(), LearnError> {
        if self.settings == other.settings
            && self.node_features == other.node_features
            && self.pod_features == other.pod_features
        {
            return Ok(());
        }
        Err(LearnError::Invalid(format!(
            "q-table: it is of {:?} over {:?} and {:?}, but {:?} over {:?} and {:?} is wanted",
            other.settings,
            other.node_features,
            other.pod_features,
            self.settings,
            self.node_features,
            self.pod_features
        )))
    }

    /// The table as arrays: which features count, keys, worths (0 where unknown), and which of them are known.
    pub fn to_weights(&self) -> Weights {
        let mut states: Vec<_> = self.states.iter().collect();
        states.sort_by_key(|(key, _)| *key);
        let widest = states.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
        let most = states.iter().map(|(_, entry)| entry.worth.len()).max().unwrap_or(0);
        let (mut keys, mut worths, mut known) = (Vec::new(), Vec::new(), Vec::new());
        for (key, entry) in &states {
            keys.extend((0..widest).map(|at| key.get(at).map_or(-1.0, |bin| f32::from(*bin))));
            let worth = |at: usize| entry.worth.get(at).copied().flatten();
            worths.extend((0..most).map(|at| worth(at).unwrap_or(0.0) as f32));
            known.extend((0..most).map(|at| f32::from(u8::from(worth(at).is_some()))));
        }
        let tensor = |width: usize, data: Vec<f32>| Tensor { shape: vec![states.len(), width], data };
        let columns = |columns: &[usize]| {
            let data: Vec<f32> = columns.iter().map(|at| *at as f32).collect();
            Tensor { shape: vec![data.len()], data }
        };
        Weights::from([
            ("columns.nodes".to_owned(), columns(&self.node_columns)),
            ("columns.pods".to_owned(), columns(&self.pod_columns)),
            ("keys".to_owned(), tensor(widest, keys)),
            ("worth".to_owned(), tensor(most, worths)),
            ("known".to_owned(), tensor(most, known)),
        ])
    }
}

impl QTable {
    /// A table from arrays, over observations with these features; one that does not fit is refused with what is wrong.
    pub fn from_weights(
        bins: usize,
        node_features: &[String],
        pod_features: &[String],
        weights: &Weights,
    ) -> Result<Self, LearnError> {
        let invalid = |problem: String| LearnError::Invalid(format!("q-table: {problem}"));
        let take = |name: &str| weights.get(name).ok_or_else(|| invalid(format!("tensor {name:?} is missing")));
        let names = |name: &str, features: &[String]| {
            let name_of = |at: &f32| features.get(*at as usize).cloned();
            let found: Option<Vec<String>> = take(name)?.data.iter().map(name_of).collect();
            found.ok_or_else(|| {
                invalid(format!("tensor {name:?} names more features than the card's {}", features.len()))
            })
        };
        let settings = TableSettings {
            bins: u8::try_from(bins).unwrap_or(u8::MAX),
            node_features: names("columns.nodes", node_features)?,
            pod_features: names("columns.pods", pod_features)?,
            ..TableSettings::default()
        };
        let mut table = Self::new(settings, node_features, pod_features)?;
        let [keys, worths, known] = [take("keys")?, take("worth")?, take("known")?];
        let width = |tensor: &Tensor| tensor.shape.get(1).copied().unwrap_or(0);
        if worths.shape != known.shape || keys.shape.first() != worths.shape.first() {
            return Err(invalid("keys, worth and known are of different lengths".into()));
        }
        for (at, key) in keys.data.chunks_exact(width(keys).max(1)).enumerate() {
            let key: Box<[u8]> = key.iter().take_while(|bin| **bin >= 0.0).map(|bin| *bin as u8).collect();
            let row = at * width(worths)..(at + 1) * width(worths);
            let known = known.data[row.clone()].iter().map(|known| *known > 0.0);
            let worth = worths.data[row].iter().zip(known).map(|(worth, known)| known.then_some(f64::from(*worth)));
            table.states.insert(key, Entry { worth: worth.collect(), visits: 0 });
        }
        Ok(table)
    }

    /// The row of the best known choice that is allowed; none in a state that was not visited.
    pub fn known_best(&self, observation: &Observation) -> Option<usize> {
        let (key, order) = self.key(observation);
        let best = self.best(&key).and_then(|(choice, _)| order.get(choice).copied());
        best.filter(|row| observation.mask[*row])
    }
}

impl Scorer for QTable {
    /// The best known choice before all others.
    fn score(&mut self, observation: &Observation) -> Result<Option<Vec<f32>>, LearnError> {
        let Some(best) = self.known_best(observation) else { return Ok(None) };
        let mut scores = vec![0.0; observation.node_count()];
        scores[best] = 1.0;
        Ok(Some(scores))
    }
}

impl Chooser for QTable {
    fn choose(&mut self, observation: &Observation) -> Result<usize, LearnError> {
        match self.known_best(observation) {
            Some(row) => Ok(row),
            None => {
                self.fallbacks += 1;
                self.rule.choose(observation)
            }
        }
    }
}

fn columns(what: &'static str, wanted: &[String], known: &[String]) -> Result<Vec<usize>, LearnError> {
    if wanted.is_empty() {
        return Ok((0..known.len()).collect());
    }
    let find = |name: &String| {
        let at = known.iter().position(|other| other == name);
        at.ok_or_else(|| LearnError::unknown(what, name, known.iter().map(String::as_str)))
    };
    wanted.iter().map(find).collect()
}
