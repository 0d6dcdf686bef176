//! A reward of one's own: as many idle nodes as possible, but none filled beyond nine tenths.
//!
//! ```sh
//! cargo run -p plimsoll-learn --example own_reward
//! ```

use plimsoll_learn::environment::{ClusterEnvironment, ClusterSettings, Environment, OfScenario};
use plimsoll_learn::error::LearnError;
use plimsoll_learn::observation::Plain;
use plimsoll_learn::reward::{Judge, Judgement, Known, Options, Placed, RewardSpec, Rewards};
use plimsoll_sim::scenario::Scenario;
use std::sync::Arc;

/// The reward: one function …
fn roomy(placed: &Placed<'_>, _: &Options) -> Judgement {
    let idle = placed.loads.pods.iter().filter(|pods| **pods == 0.0).count() as f64;
    let is_too_full = placed.loads.cpu[placed.chosen] > 0.9;
    (idle / placed.loads.len() as f64 - f64::from(u8::from(is_too_full))).into()
}

/// … and one line.
const OWN: &[Known] =
    &[Known { name: "roomy", description: "idle nodes, none too full", judge: Judge::Placement(roomy) }];

const SCENARIO: &str = "
[workload.generate]
kind = 'poisson'
hours = 6.0
[[pool]]
name = 'node'
count = 12
cpu = 16
memory = '64Gi'
idle_watts = 60
full_watts = 240
";

#[allow(clippy::print_stdout, reason = "an example shows what it found")]
fn main() -> Result<(), LearnError> {
    let invalid = |problem: String| LearnError::Invalid(problem);
    let scenario = Scenario::parse(SCENARIO).map_err(|(_, problem)| invalid(problem))?;
    let fleet = scenario.fleet().map_err(|error| invalid(error.to_string()))?;
    let trace = Arc::new(scenario.trace(&fleet).map_err(|error| invalid(error.to_string()))?);
    let spec = RewardSpec::Sum([("roomy".into(), plimsoll_learn::reward::Term::Weight(1.0))].into());
    for policy in ["default", "best-fit", "worst-fit", "random"] {
        let episodes = OfScenario { scenario: scenario.clone(), trace: Arc::clone(&trace), windows: Vec::new() };
        let rewards = Rewards::with_own(&spec, OWN, &|name| std::env::var(name).ok())?;
        let settings = ClusterSettings { policy: policy.into(), ..ClusterSettings::default() };
        let mut environment = ClusterEnvironment::new(episodes, Plain::default(), rewards, settings)?;
        environment.reset(1)?;
        let (mut sum, mut steps) = (0.0, 0);
        loop {
            let action = environment.policy_action()?;
            let step = environment.step(action)?;
            (sum, steps) = (sum + f64::from(step.reward), steps + 1);
            if step.is_last() {
                break;
            }
        }
        println!("{policy:<10} {:.3} a decision, over {steps}", sum / f64::from(steps));
    }
    Ok(())
}
