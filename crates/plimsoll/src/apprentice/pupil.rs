//! Training and measuring, each in a process of its own that has all else go first.

use anyhow::{Context, Result, bail};
use plimsoll_server::{Bridge, Training, TrainingPoint};
use serde::Deserialize;
use std::path::Path;
use std::process::Stdio;
use std::time::SystemTime;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};

/// How a training says how far it is; see `plimsoll train --progress json`.
#[derive(Debug, Deserialize)]
struct Line {
    steps: u64,
    episodes: u64,
    #[serde(rename = "return")]
    mean_return: Option<f64>,
    #[serde(default)]
    loss: Option<f64>,
    #[serde(default)]
    epsilon: Option<f64>,
}

fn own_program() -> Result<Command> {
    let program = std::env::current_exe().context("the program does not know where it is")?;
    let mut command = Command::new(program);
    command.kill_on_drop(true).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

/// Trains a model as a scenario has it. It goes on from the one that was learned last in this process, if there is one.
pub async fn train(scenario: &Path, model: &Path, training: &Training, bridge: &Bridge) -> Result<()> {
    let mut command = own_program()?;
    command.arg("train");
    if let Some(last) = training.read(|lesson| lesson.last.clone()).filter(|last| Path::new(last).is_dir()) {
        command.args(["--from", &last]);
    }
    command.arg(scenario).arg("--out").arg(model).args(["--quiet", "--background", "--progress", "json"]);
    let mut child = command.spawn().context("training could not be started")?;
    let (steps, episodes) =
        training.read(|lesson| (lesson.points.back().map_or(0, |point| point.step), lesson.episodes));
    let lines = child.stdout.take().context("training has no output")?;
    let mut lines = BufReader::new(lines).lines();
    while let Some(line) = lines.next_line().await? {
        // What is no such line is for people.
        let Ok(line) = serde_json::from_str::<Line>(&line) else { continue };
        let point = TrainingPoint {
            step: steps + line.steps,
            at: SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64(),
            mean_return: line.mean_return,
            loss: line.loss,
            epsilon: line.epsilon,
        };
        training.write(|lesson| {
            lesson.points.push_back(point);
            lesson.episodes = episodes + line.episodes;
        });
        bridge.tell_training(&point);
    }
    finish(child, "training").await
}

async fn finish(mut child: Child, what: &str) -> Result<()> {
    let mut told = String::new();
    if let Some(mut errors) = child.stderr.take() {
        errors.read_to_string(&mut told).await?;
    }
    if child.wait().await?.success() {
        return Ok(());
    }
    bail!("{what} failed: {}", told.lines().last().unwrap_or("it said nothing"))
}

/// How a model does against the policy in force.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Judged {
    policy: String,
    /// The difference as a share of the other's; less than zero is less.
    pub relative: Option<f64>,
    /// Its 95 % interval.
    pub interval: Option<(f64, f64)>,
    serves_less: bool,
    verdict: String,
}

impl Judged {
    /// Better beyond doubt, leaving no more pods without a node.
    pub fn is_better(&self) -> bool {
        self.verdict == "significantly-better" && !self.serves_less
    }

    /// The same in words.
    pub fn words(&self, active: &str, measure: &str) -> String {
        let percent = |share: f64| format!("{:+.2} %", share * 100.0);
        let change = self.relative.map_or_else(|| "unknown".to_owned(), percent);
        let interval = self.interval.map_or_else(String::new, |(low, high)| {
            format!(", with 95 % confidence from {} to {}", percent(low), percent(high))
        });
        let served = if self.serves_less { "; it leaves more pods without a node" } else { "" };
        format!(
            "{} against {active} on the end of the recording: {measure} {change}{interval}{served}",
            self.verdict.replace('-', " ")
        )
    }
}

#[derive(Deserialize)]
struct Evaluated {
    against: Vec<Judged>,
}

/// Measures a model against the policy in force on what it was not trained on.
pub async fn evaluate(scenario: &Path, model: &Path, active: &str) -> Result<Judged> {
    let mut command = own_program()?;
    command.arg("evaluate").arg(model).arg(scenario).args(["--json", "--quiet", "--background"]);
    let rival = if Path::new(active).is_dir() {
        command.args(["--against", active, "--baselines", "default"]);
        plimsoll_learn::models::name(Path::new(active))
    } else {
        // Of those that are no baselines, kube-scheduler's stands in.
        let known = plimsoll_core::policy::by_name(active).is_some();
        let rival = if known { active } else { "default" };
        command.args(["--baselines", rival]);
        rival.to_owned()
    };
    let ended = command.output().await.context("measuring could not be started")?;
    if !ended.status.success() {
        let told = String::from_utf8_lossy(&ended.stderr);
        bail!("measuring failed: {}", told.lines().last().unwrap_or("it said nothing"));
    }
    let found: Evaluated = serde_json::from_slice(&ended.stdout).context("what was measured cannot be read")?;
    let judged = found.against.into_iter().find(|judged| judged.policy == rival);
    judged.with_context(|| format!("{rival} was not measured"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_better_beyond_doubt_and_serves_all_is_better() {
        let judged = |verdict: &str, serves_less| Judged {
            policy: "best-fit".to_owned(),
            relative: Some(-0.05),
            interval: Some((-0.08, -0.02)),
            serves_less,
            verdict: verdict.to_owned(),
        };
        assert!(judged("significantly-better", false).is_better());
        assert!(!judged("significantly-better", true).is_better());
        assert!(!judged("no-difference", false).is_better());
        let words = judged("significantly-better", false).words("best-fit", "kwh");
        assert!(words.contains("significantly better against best-fit") && words.contains("-5.00 %"), "{words}");
    }
}
