//! Learning while the scheduler runs. After every so many placements a candidate is trained on what was recorded, measured on the end of it, tried in shadow, promoted if
//! it is better, and taken back if the cluster gets worse.
//!
//! Training and measuring are processes of their own that have all else go first; the shadow is an engine of its own. Nothing of it is in the way of a decision.

mod pupil;
mod settings;
mod trial;
mod window;

pub use settings::{TrainingSection, TrainingSettings};

use crate::section::NodeSection;
use anyhow::Result;
use kube::Client;
use plimsoll_server::{Bridge, Candidate, Phase, Training};
use pupil::Judged;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use trial::Trial;
use window::Window;

/// How often it is looked whether enough pods were placed.
const LOOK: Duration = Duration::from_secs(1);

/// What models are called, before their number.
const LEARNED: &str = "learned-";

/// Who learns.
pub struct Apprentice {
    pub settings: TrainingSettings,
    pub client: Client,
    pub bridge: Arc<Bridge>,
    pub training: Arc<Training>,
    /// Where recordings, scenarios and candidates are.
    pub folder: PathBuf,
    /// The table of machines that `nodes` name.
    pub catalogue: Option<PathBuf>,
    /// What nodes are like.
    pub nodes: Vec<NodeSection>,
    /// Which of them stand for other clusters.
    pub clusters: plimsoll_kube::remote::Clusters,
    /// The weights in force.
    pub objectives: plimsoll_learn::reward::SharedObjectives,
}

/// What became of a candidate.
struct Fate {
    verdict: &'static str,
    reason: String,
    judged: Option<Judged>,
}

impl Fate {
    fn refused(reason: impl Into<String>) -> Self {
        Self { verdict: "refused", reason: reason.into(), judged: None }
    }
}

impl Apprentice {
    /// Learns until the program ends.
    pub async fn run(self) {
        let window = Window::follow(self.client.clone(), self.settings.window);
        self.training.write(|lesson| (lesson.stage, lesson.interval) = (Phase::Waiting, self.settings.interval));
        let mut learned_at = self.bridge.placed();
        let mut number = self.last_number();
        loop {
            self.wait_for_placements(learned_at).await;
            learned_at = self.bridge.placed();
            number += 1;
            if let Err(error) = self.learn(&window, number).await {
                tracing::warn!(error = format!("{error:#}"), "nothing was learned");
                self.training.write(|lesson| {
                    lesson.candidates.push_back(note(&name(number), &Fate::refused(format!("{error:#}"))));
                });
            }
            self.training.write(|lesson| {
                (lesson.stage, lesson.placements_since) = (Phase::Waiting, 0);
                lesson.lessons += 1;
            });
        }
    }

    /// The number of the last model of earlier runs of the program.
    fn last_number(&self) -> u64 {
        let entries = std::fs::read_dir(self.folder.join("models")).into_iter().flatten().flatten();
        let number = |name: &str| name.strip_prefix(LEARNED)?.parse::<u64>().ok();
        entries.filter_map(|entry| number(entry.file_name().to_str()?)).max().unwrap_or(0)
    }

    async fn wait_for_placements(&self, since: u64) {
        loop {
            let placements = self.bridge.placed().saturating_sub(since);
            self.training.write(|lesson| lesson.placements_since = placements);
            if placements >= self.settings.interval {
                return;
            }
            tokio::select! {
                () = self.training.triggered() => return,
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    /// One round: from what was recorded to a candidate and its fate.
    async fn learn(&self, window: &Window, number: u64) -> Result<()> {
        let lesson = self.folder.join("lessons").join(name(number));
        let scenario = window.write(self, &lesson).await?;
        let model = self.folder.join("models").join(name(number));
        self.stage(Phase::Training);
        pupil::train(&scenario, &model, &self.training, &self.bridge).await?;
        let candidate = model.display().to_string();
        self.training.write(|lesson| lesson.last = Some(candidate.clone()));
        self.stage(Phase::Judging);
        let fate = self.judge(&scenario, &model).await?;
        tracing::info!(candidate, verdict = fate.verdict, reason = fate.reason, "a candidate was learned");
        self.training.write(|lesson| lesson.candidates.push_back(note(&candidate, &fate)));
        if fate.verdict == "shadow" {
            self.try_out(&candidate).await;
        }
        // The scenario and the trace of what was learned from stay with the last lesson alone.
        forget_others(&lesson);
        Ok(())
    }

    /// Whether a candidate is better than the policy in force on what it was not trained on.
    async fn judge(&self, scenario: &Path, model: &Path) -> Result<Fate> {
        let active = self.active();
        let judged = pupil::evaluate(scenario, model, &active).await?;
        let reason = judged.words(&active, &self.settings.objective_label());
        let verdict = if judged.is_better() { "shadow" } else { "refused" };
        Ok(Fate { verdict, reason, judged: Some(judged) })
    }

    fn active(&self) -> String {
        let profile = self.bridge.first_profile().unwrap_or_default();
        self.bridge.policy_of(&profile)
    }

    /// Has a candidate place pods in thought; if that does well it ranks, and the policy before it is the shadow that it has to stay ahead of.
    async fn try_out(&self, candidate: &str) {
        self.stage(Phase::Shadowing);
        let before = self.active();
        let trial = Trial { bridge: &self.bridge, settings: &self.settings };
        match trial.run(candidate, false).await {
            Ok(compared) if compared.shadow_is_no_worse(self.settings.tolerance) => {
                if let Err(refused) = self.bridge.switch(candidate, self.bridge.first_profile().as_deref()).await {
                    return self.decide(candidate, "refused", &refused.to_string());
                }
                self.decide(candidate, "promoted", &compared.words());
            }
            Ok(compared) => return self.decide(candidate, "refused", &compared.words()),
            Err(why) => return self.decide(candidate, "refused", &why),
        }
        match trial.run(&before, true).await {
            Ok(compared) if compared.live_is_no_worse(self.settings.tolerance) => {}
            // Somebody may have chosen another policy meanwhile: that is for them to say.
            Ok(_) | Err(_) if self.active() != candidate => {}
            Ok(compared) => match self.bridge.back().await {
                Ok(()) => self.decide(candidate, "rolled-back", &compared.words()),
                Err(refused) => tracing::error!(%refused, candidate, "the policy before could not be had back"),
            },
            Err(why) => tracing::warn!(why, candidate, "what was promoted could not be watched"),
        }
    }

    fn decide(&self, candidate: &str, verdict: &'static str, reason: &str) {
        tracing::info!(candidate, verdict, reason, "what becomes of a candidate");
        self.training.write(|lesson| {
            if let Some(known) = lesson.candidates.iter_mut().rev().find(|known| known.version == candidate) {
                (known.verdict, known.reason) = (verdict, reason.to_owned());
            }
        });
    }

    fn stage(&self, stage: Phase) {
        self.training.write(|lesson| lesson.stage = stage);
    }
}

fn name(number: u64) -> String {
    format!("{LEARNED}{number:04}")
}

fn note(version: &str, fate: &Fate) -> Candidate {
    let judged = fate.judged.as_ref();
    let per_cent = |share: f64| share * 100.0;
    Candidate {
        version: version.to_owned(),
        at: SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64(),
        verdict: fate.verdict,
        reason: fate.reason.clone(),
        change_percent: judged.and_then(|judged| judged.relative).map(per_cent),
        low: judged.and_then(|judged| judged.interval).map(|(low, _)| per_cent(low)),
        high: judged.and_then(|judged| judged.interval).map(|(_, high)| per_cent(high)),
    }
}

fn forget_others(lesson: &Path) {
    for entry in lesson.parent().and_then(|folder| std::fs::read_dir(folder).ok()).into_iter().flatten().flatten() {
        if entry.path() != lesson {
            // What cannot be removed is in nobody's way.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}
