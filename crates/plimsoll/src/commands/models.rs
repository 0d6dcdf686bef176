//! `plimsoll models`

use crate::Verdict;
use crate::evaluation::{self, Subject};
use crate::output::{GOOD, HEADING, Output, table};
use anyhow::{Context, Result};
use k8s_openapi::jiff::Timestamp;
use plimsoll_learn::error::LearnError;
use plimsoll_learn::evaluate::Evaluation;
use plimsoll_learn::models::{self, Promotion};
use plimsoll_learn::spec::{LearnSpec, Objective};
use plimsoll_sim::report::catalogue::Better;
use plimsoll_sim::scenario::Scenario;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// List models, show what one is, and put one to use
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the models of a folder
    List {
        /// The folder of models
        #[arg(value_name = "DIR", default_value = "models")]
        folder: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what a model is, what it was trained on and what it reached
    Show {
        /// The folder of the model
        #[arg(value_name = "MODEL")]
        model: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Put a model to use, if it is significantly better than the one in use or, without one, the best baseline
    Promote {
        /// The folder of the model
        #[arg(value_name = "MODEL")]
        model: PathBuf,
        /// A scenario file with a [learn] section, to evaluate it on
        #[arg(value_name = "SCENARIO", required_unless_present = "evaluation")]
        scenario: Option<PathBuf>,
        /// The measure it is promoted for; the scenario's if not given
        #[arg(long, value_name = "MEASURE", conflicts_with = "evaluation")]
        objective: Option<String>,
        /// An evaluation that was made before, as `plimsoll evaluate --json` prints it
        #[arg(long, value_name = "FILE", conflicts_with = "scenario")]
        evaluation: Option<PathBuf>,
        /// Show no progress
        #[arg(long)]
        quiet: bool,
    },
    /// Say which model is in use for a measure
    Which {
        /// The measure
        #[arg(value_name = "MEASURE")]
        objective: String,
        /// The folder of models
        #[arg(value_name = "DIR", default_value = "models")]
        folder: PathBuf,
    },
    /// Make a model of a network in ONNX that was trained elsewhere
    #[cfg(feature = "onnx")]
    Import(Import),
}

#[cfg(feature = "onnx")]
#[derive(Debug, clap::Args)]
struct Import {
    /// The network
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The folder of the model
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// A model that sees the same features; without, the network sees the plain ones
    #[arg(long, value_name = "MODEL", conflicts_with_all = ["lookahead", "base"])]
    like: Option<PathBuf>,
    /// How many pending pods it sees, the one to be placed included
    #[arg(long, value_name = "N", default_value_t = 1)]
    lookahead: usize,
    /// The heuristic that stands in where the network has no answer
    #[arg(long, value_name = "NAME", default_value = "best-fit")]
    base: String,
    /// A model of ours with the same weights: refused unless both give the same scores
    #[arg(long, value_name = "MODEL")]
    same_as: Option<PathBuf>,
    /// What it is for
    #[arg(long, value_name = "TEXT", default_value = "trained elsewhere")]
    description: String,
}

/// Does what was asked for.
pub fn run(args: Args, out: &mut Output) -> Result<Verdict> {
    match args.command {
        Command::List { folder, json } => list(&folder, json, out),
        Command::Show { model, json } => show(&model, json, out),
        Command::Promote { model, scenario, objective, evaluation, quiet } => {
            let parent = parent(&model);
            let found = match (scenario, evaluation) {
                (_, Some(path)) => read(&path)?,
                (Some(path), None) => evaluate(&model, &parent, &path, objective, quiet, out)?,
                (None, None) => anyhow::bail!("name a scenario, or an evaluation with --evaluation FILE"),
            };
            promote(&parent, &model, &found, out)
        }
        Command::Which { objective, folder } => which(&folder, &objective, out),
        #[cfg(feature = "onnx")]
        Command::Import(args) => import(&args, out),
    }
}

fn which(folder: &Path, objective: &str, out: &mut Output) -> Result<Verdict> {
    let measure = Objective::new(objective, Some(Better::Less))?.measure;
    let Some(model) = models::in_use(folder, &measure)? else {
        out.error(&format!("{}: no model is in use for {measure}; promote one", folder.display()));
        return Ok(Verdict::Bad);
    };
    writeln!(out, "{}", model.display())?;
    Ok(Verdict::Good)
}

#[cfg(feature = "onnx")]
fn import(args: &Import, out: &mut Output) -> Result<Verdict> {
    use plimsoll_learn::import::{self, Sees};
    let sees = match &args.like {
        Some(model) => Sees::like(model)?,
        None => Sees::plain(args.lookahead, &args.base)?,
    };
    let difference = import::import(&args.file, &args.out, sees, &args.description, args.same_as.as_deref())?;
    writeln!(out, "{GOOD}{} is a model{GOOD:#}", args.out.display())?;
    if let (Some(difference), Some(other)) = (difference, &args.same_as) {
        writeln!(out, "its scores are those of {}: they differ by {difference:.1e} at most", other.display())?;
    }
    writeln!(out, "measure it with: plimsoll evaluate {} SCENARIO", args.out.display())?;
    Ok(Verdict::Good)
}

fn list(folder: &Path, json: bool, out: &mut Output) -> Result<Verdict> {
    let listed = models::list(folder)?;
    if json {
        let entries = listed.iter().map(|model| {
            let (card, problem) = match &model.card {
                Ok(card) => (Some(card), None),
                Err(error) => (None, Some(error.to_string())),
            };
            serde_json::json!({"name": model.name, "promotedFor": model.promoted_for, "card": card, "problem": problem})
        });
        out.json(&serde_json::json!({"version": "plimsoll.dev/models/v1", "models": entries.collect::<Vec<_>>()}))?;
        return Ok(Verdict::Good);
    }
    let mut list = table(["MODEL", "AGENT", "NETWORK", "SCENARIO", "STEPS", "IN USE FOR", "DESCRIPTION"], &[4]);
    for model in &listed {
        let used = if model.promoted_for.is_empty() { "-".to_owned() } else { model.promoted_for.join(", ") };
        let cells = match &model.card {
            Ok(card) => [
                model.name.clone(),
                card.training.agent.clone(),
                card.network.kind.clone(),
                card.training.scenario.clone(),
                card.training.steps.to_string(),
                used,
                card.description.clone(),
            ],
            Err(error) => {
                let dash = || "-".to_owned();
                [model.name.clone(), dash(), dash(), dash(), dash(), used, format!("cannot be used: {error}")]
            }
        };
        list.add_row(cells);
    }
    out.table("", &list)?;
    Ok(Verdict::Good)
}

fn show(folder: &Path, json: bool, out: &mut Output) -> Result<Verdict> {
    let card = models::read_card(folder)?;
    if json {
        out.json(&card)?;
        return Ok(Verdict::Good);
    }
    let name = models::name(folder);
    writeln!(out, "{HEADING}{name}{HEADING:#} {}", card.description)?;
    let sizes = card.network.sizes.iter().map(|(name, size)| format!(" {name} {size}")).collect::<String>();
    let training = &card.training;
    let promotions = models::promotions(&parent(folder))?;
    let uses = promotions.models.iter().filter(|(_, promotion)| promotion.model == name);
    let uses = uses.map(|(objective, promotion)| {
        let Promotion { over, promoted_at, .. } = promotion;
        let since = if promoted_at.is_empty() { String::new() } else { format!(", since {promoted_at}") };
        format!("{objective} (better than {over}{since})")
    });
    let mut list = table(["WHAT", "IS"], &[]);
    for (what, is) in [
        ("network", format!("{}{sizes}", card.network.kind)),
        ("node features", card.node_features.join(", ")),
        ("pod features", card.pod_features.join(", ")),
        ("builds on", format!("{}, trust {}", card.base, card.trust)),
        ("trained by", format!("{}, {} steps, seed {}", training.agent, training.steps, training.seed)),
        ("trained on", format!("{} ({}): {}", training.scenario, training.scenario_hash, training.windows.join(", "))),
        (
            "began with",
            training
                .parent
                .as_ref()
                .map_or_else(String::new, |parent| format!("{} ({})", parent.name, parent.fingerprint)),
        ),
        ("made by", format!("{} with Plimsoll {}", training.command, training.version)),
        ("weights", models::fingerprint(folder)?),
        ("in use for", uses.collect::<Vec<_>>().join(", ")),
    ] {
        list.add_row([what.to_owned(), if is.is_empty() { "-".to_owned() } else { is }]);
    }
    out.table("", &list)?;
    for (measure, figures) in &card.figures {
        let percent = |value: &serde_json::Value| {
            value.as_f64().map_or("?".to_owned(), |share| format!("{:+.2} %", share * 100.0))
        };
        writeln!(
            out,
            "{measure}: {} against {} ({} to {}) on {}, {}",
            percent(&figures["relativeToBest"]),
            figures["bestBaseline"].as_str().unwrap_or("?"),
            percent(&figures["interval"][0]),
            percent(&figures["interval"][1]),
            figures["scenario"].as_str().unwrap_or("?"),
            figures["measuredOn"].as_str().unwrap_or("?"),
        )?;
    }
    Ok(Verdict::Good)
}

/// The folder of models that a model is in.
fn parent(model: &Path) -> PathBuf {
    let whole = std::path::absolute(model).unwrap_or_else(|_| model.to_owned());
    whole.parent().map(Path::to_owned).unwrap_or_default()
}

fn read(path: &Path) -> Result<Evaluation> {
    let text = std::fs::read(path).with_context(|| format!("{}: cannot be read", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{}: not an evaluation", path.display()))
}

/// Evaluates a model against the baselines and the model that is in use.
fn evaluate(
    model: &Path,
    parent: &Path,
    scenario: &Path,
    objective: Option<String>,
    quiet: bool,
    out: &mut Output,
) -> Result<Evaluation> {
    let scenario = Scenario::read(scenario)?;
    let mut spec = LearnSpec::read(&scenario)?;
    if let Some(name) = objective.filter(|name| *name != spec.objective) {
        (spec.objective, spec.better) = (name, None);
    }
    let measure = spec.objective()?.measure;
    let incumbent = models::incumbent(parent, &measure, &models::name(model))?;
    let others: Vec<PathBuf> = incumbent.iter().map(|name| parent.join(name)).collect();
    let (found, _) = evaluation::make(&Subject::Model(model.to_owned()), &others, &scenario, &spec, quiet, out)?;
    evaluation::print(&found, out)?;
    Ok(found)
}

fn promote(parent: &Path, model: &Path, found: &Evaluation, out: &mut Output) -> Result<Verdict> {
    let measure = &found.objective.measure;
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now = Timestamp::from_second(since_1970.as_secs() as i64).map_or_else(|_| String::new(), |now| now.to_string());
    match models::promote(parent, &models::name(model), found, &now) {
        Ok(promotion) => {
            models::record(model, found)?;
            writeln!(
                out,
                "{GOOD}{} is in use for {measure}: it is better than {}{GOOD:#}",
                promotion.model, promotion.over
            )?;
            Ok(Verdict::Good)
        }
        Err(error @ LearnError::Refused { .. }) => {
            out.flush()?;
            out.error(&error.to_string());
            Ok(Verdict::Bad)
        }
        Err(error) => Err(error.into()),
    }
}
