//! Models in a folder: what there is, what each is, and which of them is in use.
//!
//! A model is promoted for an objective by an evaluation on data that it has not seen, and only if its gain is significant: against
//! the model that is in use, or the best baseline where there is none. What earned it the place is kept beside the models.

use crate::agent::{Agent, blend};
use crate::error::LearnError;
use crate::evaluate::{Against, Evaluation, Verdict};
use crate::model::{self, CARD_FILE, CARD_SCHEMA, Card, ONNX_FILE, WEIGHTS_FILE, Weights};
use plimsoll_sim::checksum;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The version of the list of promoted models.
const PROMOTED_SCHEMA: &str = "plimsoll.dev/promoted/v1";
/// The list of promoted models, in the folder of models.
pub const PROMOTED_FILE: &str = "promoted.json";

/// A model that was found.
#[derive(Debug)]
pub struct Listed {
    /// The name of its folder.
    pub name: String,
    /// Its card, or why it cannot be used.
    pub card: Result<Card, LearnError>,
    /// The objectives it is promoted for.
    pub promoted_for: Vec<String>,
}

/// The models that are in use, by objective.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Promotions {
    schema: String,
    /// By the name of the measure.
    pub models: BTreeMap<String, Promotion>,
}

/// A model that is in use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Promotion {
    /// The name of its folder.
    pub model: String,
    /// A checksum of its weights.
    pub fingerprint: String,
    /// What it was promoted over.
    pub over: String,
    /// When, in RFC 3339; empty where nobody noted it.
    #[serde(default)]
    pub promoted_at: String,
    /// The evaluation that earned it the place.
    pub evaluation: Evaluation,
}

/// Stores a model.
pub fn save(folder: &Path, card: &Card, weights: &Weights) -> Result<(), LearnError> {
    model::write_whole(&folder.join(WEIGHTS_FILE), &model::weights_to_bytes(weights)?)?;
    write_json(&folder.join(CARD_FILE), card)
}

/// Reads a model's card.
pub fn read_card(folder: &Path) -> Result<Card, LearnError> {
    let path = folder.join(CARD_FILE);
    let text = std::fs::read(&path).map_err(|error| LearnError::File { path: path.clone(), error })?;
    let problem = |problem: String| LearnError::Model { path: folder.to_owned(), problem };
    let card: Card = serde_json::from_slice(&text).map_err(|error| problem(format!("{CARD_FILE}: {error}")))?;
    if card.schema != CARD_SCHEMA {
        return Err(problem(format!("its card is of version {:?}, not {CARD_SCHEMA:?}", card.schema)));
    }
    Ok(card)
}

/// A checksum of a model's weights: what is evaluated is what is promoted.
pub fn fingerprint(folder: &Path) -> Result<String, LearnError> {
    let mut sum = checksum::START;
    for file in [WEIGHTS_FILE, ONNX_FILE] {
        let path = folder.join(file);
        match std::fs::read(&path) {
            Ok(bytes) => sum = checksum::fold(sum, bytes),
            // Only networks from elsewhere have this file.
            Err(error) if file == ONNX_FILE && error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(LearnError::File { path, error }),
        }
    }
    Ok(format!("{sum:016x}"))
}

/// The name of a model: that of its folder.
pub fn name(folder: &Path) -> String {
    let whole = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    whole.file_name().map_or_else(|| folder.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// The models of a folder, by name.
pub fn list(folder: &Path) -> Result<Vec<Listed>, LearnError> {
    let failed = |error| LearnError::File { path: folder.to_owned(), error };
    let promotions = promotions(folder)?;
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.join(CARD_FILE).exists() {
            paths.push(path);
        }
    }
    paths.sort();
    let listed = paths.iter().map(|path| {
        let name = name(path);
        let uses = promotions.models.iter().filter(|(_, promotion)| promotion.model == name);
        Listed { card: read_card(path), promoted_for: uses.map(|(objective, _)| objective.clone()).collect(), name }
    });
    Ok(listed.collect())
}

/// The models of a folder that are in use; none where none was promoted.
pub fn promotions(folder: &Path) -> Result<Promotions, LearnError> {
    let path = folder.join(PROMOTED_FILE);
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Promotions { schema: PROMOTED_SCHEMA.into(), models: BTreeMap::new() });
        }
        Err(error) => return Err(LearnError::File { path, error }),
    };
    let problem = |problem: String| LearnError::Model { path: path.clone(), problem };
    let promotions: Promotions = serde_json::from_slice(&text).map_err(|error| problem(error.to_string()))?;
    if promotions.schema != PROMOTED_SCHEMA {
        return Err(problem(format!("it is of version {:?}, not {PROMOTED_SCHEMA:?}", promotions.schema)));
    }
    Ok(promotions)
}

/// The model in use for an objective that another one has to beat.
pub fn incumbent(folder: &Path, objective: &str, challenger: &str) -> Result<Option<String>, LearnError> {
    let promotions = promotions(folder)?;
    let model = promotions.models.get(objective).map(|promotion| promotion.model.clone());
    Ok(model.filter(|model| model != challenger))
}

/// The folder of the model in use for an objective; none where none was promoted. Refused if its weights are no longer those that were
/// promoted.
pub fn in_use(folder: &Path, objective: &str) -> Result<Option<PathBuf>, LearnError> {
    let promotions = promotions(folder)?;
    let Some(promotion) = promotions.models.get(objective) else { return Ok(None) };
    let path = folder.join(&promotion.model);
    let now = fingerprint(&path)?;
    if now != promotion.fingerprint {
        let problem = format!(
            "it was promoted for {objective} with the weights {}, and now has {now}; evaluate and promote it again",
            promotion.fingerprint
        );
        return Err(LearnError::Model { path, problem });
    }
    Ok(Some(path))
}

/// Puts a model of a folder to use for the objective of an evaluation, if that shows a significant gain; `now` is noted as the time.
pub fn promote(folder: &Path, model: &str, evaluation: &Evaluation, now: &str) -> Result<Promotion, LearnError> {
    let path = folder.join(model);
    let refused = |problem: String| LearnError::Model { path: path.clone(), problem };
    let own = fingerprint(&path)?;
    if evaluation.fingerprint.as_ref() != Some(&own) {
        let other = evaluation.fingerprint.as_deref().unwrap_or("no weights");
        return Err(refused(format!(
            "it was not evaluated as it is: its weights are {own}, those of the evaluation {other}"
        )));
    }
    let measure = &evaluation.objective.measure;
    let rival = match incumbent(folder, measure, model)? {
        Some(incumbent) => evaluation.against(&incumbent).ok_or_else(|| {
            refused(format!("{incumbent} is in use for {measure}, and the evaluation is not against it"))
        })?,
        None => {
            let best = evaluation.best_baseline.as_deref().and_then(|best| evaluation.against(best));
            best.ok_or_else(|| refused("it was evaluated against no baseline".into()))?
        }
    };
    check(rival, evaluation).map_err(|problem| LearnError::Refused {
        path: path.clone(),
        problem: format!("it is not promoted for {measure}: {problem}"),
    })?;
    let promotion = Promotion {
        model: model.to_owned(),
        fingerprint: own,
        over: rival.policy.clone(),
        promoted_at: now.to_owned(),
        evaluation: evaluation.clone().without_rows(),
    };
    let mut promotions = promotions(folder)?;
    promotions.models.insert(measure.clone(), promotion.clone());
    write_json(&folder.join(PROMOTED_FILE), &promotions)?;
    Ok(promotion)
}

fn check(rival: &Against, evaluation: &Evaluation) -> Result<(), String> {
    if rival.serves_less {
        return Err(format!("it leaves more pods without a machine than {}", rival.policy));
    }
    if rival.verdict == Verdict::SignificantlyBetter {
        return Ok(());
    }
    let percent = |share: f64| format!("{:+.2} %", share * 100.0);
    let interval = match rival.interval {
        Some((low, high)) => format!("with a 95 % interval from {} to {}", percent(low), percent(high)),
        None => "and a single case gives no interval".to_owned(),
    };
    Err(format!(
        "against {} the difference is {}, {interval}, on {}: {}",
        rival.policy,
        rival.relative.map_or_else(|| "unknown".to_owned(), percent),
        evaluation.extent(),
        rival.verdict
    ))
}

/// Has an agent go on from the model in a folder, which must be of the same network and features as its own, and mean the same by its scores: both
/// decide alone, or both add to the same heuristic with the same trust.
pub fn go_on_from(folder: &Path, own: &Card, agent: &mut dyn Agent) -> Result<(), LearnError> {
    let other = read_card(folder)?;
    let refused = |problem: String| LearnError::Model { path: folder.to_owned(), problem };
    let differs = [
        ("network", serde_json::json!(other.network), serde_json::json!(own.network)),
        ("features of nodes", serde_json::json!(other.node_features), serde_json::json!(own.node_features)),
        ("features of pods", serde_json::json!(other.pod_features), serde_json::json!(own.pod_features)),
    ];
    if let Some((what, theirs, ours)) = differs.iter().find(|(_, theirs, ours)| theirs != ours) {
        return Err(refused(format!(
            "it cannot be gone on from: its {what} are {theirs}, and the scenario asks for {ours}"
        )));
    }
    let (theirs, ours) = (meaning(&other), meaning(own));
    if theirs != ours {
        return Err(refused(format!("it cannot be gone on from: it {theirs}, and what the scenario asks for {ours}")));
    }
    let weights = model::read_weights(&folder.join(model::WEIGHTS_FILE))?;
    agent.begin_with(&weights).map_err(|error| refused(error.to_string()))
}

/// What a model's scores are, in words.
fn meaning(card: &Card) -> String {
    if card.alone || card.network.kind == blend::KIND {
        return "decides alone".into();
    }
    format!("adds to the scores of {:?} with trust {}", card.base, card.trust)
}

/// Notes in a model's card what an evaluation found.
pub fn record(folder: &Path, evaluation: &Evaluation) -> Result<(), LearnError> {
    let mut card = read_card(folder)?;
    let best = evaluation.best_baseline.as_deref().and_then(|best| evaluation.against(best));
    let gap = evaluation.against(&evaluation.gap_from).and_then(|against| against.gap_closed);
    let figures = serde_json::json!({
        "scenario": evaluation.scenario,
        "measuredOn": evaluation.extent(),
        "mean": evaluation.policies.first().map(|figures| figures.mean),
        "unit": evaluation.objective.unit,
        "bound": evaluation.bound,
        "against": evaluation.against,
        "bestBaseline": evaluation.best_baseline,
        "relativeToBest": best.and_then(|best| best.relative),
        "interval": best.and_then(|best| best.interval),
        "gapFrom": evaluation.gap_from,
        "gapClosed": gap,
        "verdict": evaluation.verdict,
    });
    card.figures.insert(evaluation.objective.measure.clone(), figures);
    write_json(&folder.join(CARD_FILE), &card)
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<(), LearnError> {
    let mut bytes = serde_json::to_vec_pretty(value)
        .map_err(|error| LearnError::Invalid(format!("{} cannot be written: {error}", path.display())))?;
    bytes.push(b'\n');
    model::write_whole(path, &bytes)
}

#[cfg(test)]
mod tests;
