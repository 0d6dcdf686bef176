//! A run, from a scenario to a report.
//!
//! goose is driven as a library, in this process. What it holds for the whole process is three things, and each is dealt with here: a switch
//! that stops whatever runs, so there is one run at a time ([`RunError::Busy`]); a handler of Ctrl-C that would end the process, which is not
//! set where another one is ([`keep_interrupts`]); and a logger that prints, which is not set where another one is either. Its users run
//! on threads of their own, which end with the run, so that none is left behind whatever it waits for. Its own figures are off: ours are
//! there while it runs, and include the body of an answer.

use crate::limits::{Limits, LimitsError};
use crate::live::Live;
use crate::plan::Plan;
use crate::report::{Ended, Report};
use crate::scenario::{Scenario, ScenarioError};
use crate::user::{self, Shared};
use goose::config::GooseConfiguration;
use goose::goose::Scenario as GooseScenario;
use goose::metrics::GooseMetrics;
use goose::{GooseAttack, GooseError, client::GooseClientBuilder, trigger_killswitch};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use thiserror::Error;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinError;

/// How long answers that are under way are waited for at the end.
const GRACE: Duration = Duration::from_secs(5);
/// How often goose is told to stop: what it was told before it has started is forgotten.
const REMIND: Duration = Duration::from_millis(50);

/// Users a second that goose starts: all, since they wait for their time themselves.
const AT_ONCE: &str = "1000000";

/// Why there is no report.
#[derive(Debug, Error)]
pub enum RunError {
    /// The scenario is not one.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The scenario is beyond the limits.
    #[error(transparent)]
    Limits(#[from] LimitsError),
    /// Another run is under way.
    #[error("another run is under way in this process: wait for its end, or stop it")]
    Busy,
    /// Threads or a client cannot be had.
    #[error("cannot start users: {0}")]
    Start(String),
    /// goose gave up.
    #[error("the users ended before their time: {0}")]
    Ended(String),
}

/// Keeps goose from taking Ctrl-C. Call it before handlers of SIGINT are set, as those of tokio: they are then called, and this one does nothing.
/// A run calls it, too, and would otherwise take the place of handlers that are already there.
pub fn keep_interrupts() {
    // It fails where it was called before.
    let _ = ctrlc::set_handler(|| {});
}

/// Nobody reads what goose logs, a line for each request that fails: the report counts them.
struct Quiet;

impl log::Log for Quiet {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        false
    }

    fn log(&self, _: &log::Record<'_>) {}

    fn flush(&self) {}
}

/// The one place for a run.
struct Place;

static TAKEN: AtomicBool = AtomicBool::new(false);

impl Place {
    fn take() -> Option<Self> {
        (!TAKEN.swap(true, Ordering::AcqRel)).then_some(Self)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        TAKEN.store(false, Ordering::Release);
    }
}

/// The threads of users, which end without being waited for.
struct Threads(Option<Runtime>);

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Runs a scenario to its end, or until `stop` is true or nobody can say so any more. `live` tells what is measured meanwhile.
pub async fn run(
    scenario: &Scenario,
    limits: &Limits,
    live: &Live,
    stop: watch::Receiver<bool>,
) -> Result<Report, RunError> {
    Admitted::new(scenario, limits).await?.run(live, stop).await
}

/// A scenario that may be run.
pub(crate) struct Admitted {
    name: String,
    pub plan: Plan,
    addresses: Vec<SocketAddr>,
}

impl Admitted {
    pub async fn new(scenario: &Scenario, limits: &Limits) -> Result<Self, RunError> {
        let plan = Plan::of(scenario)?;
        let addresses = limits.admit(&plan).await?;
        Ok(Self { name: scenario.name.clone(), plan, addresses })
    }

    pub async fn run(self, live: &Live, mut stop: watch::Receiver<bool>) -> Result<Report, RunError> {
        let Self { name, plan, addresses } = self;
        let _place = Place::take().ok_or(RunError::Busy)?;
        keep_interrupts();
        // It fails where somebody wants to see logs.
        let _ = log::set_logger(&Quiet);
        let making = tokio::task::spawn_blocking(move || (user::clients(&plan, &addresses), plan));
        let (clients, plan) = making.await.map_err(|error| RunError::Start(error.to_string()))?;
        let clients = clients.map_err(|error| RunError::Start(error.to_string()))?;
        let (tell, over) = watch::channel(false);
        let (target, planned) = (plan.target.clone(), Duration::from_secs(plan.seconds()));
        let shared = Arc::new(Shared { plan, live: live.clone(), clients, begun: Instant::now(), over });
        let attack = attack(&shared).map_err(|error| RunError::Start(error.to_string()))?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("load").build();
        let runtime = runtime.map_err(|error| RunError::Start(error.to_string()))?;
        live.begin(&shared.plan.names);
        let mut users = runtime.spawn(attack.execute());
        let _threads = Threads(Some(runtime));
        let ended = tokio::select! {
            done = &mut users => {
                live.end();
                failure(done)?;
                return Ok(Report::of(&name, target.as_str(), Ended::Finished, live));
            }
            () = tokio::time::sleep(planned) => Ended::Finished,
            _ = stop.wait_for(|stop| *stop) => Ended::Stopped,
        };
        live.close();
        tell.send_replace(true);
        let wound_up = tokio::time::timeout(GRACE, async {
            loop {
                trigger_killswitch("the run is over");
                if let Ok(done) = tokio::time::timeout(REMIND, &mut users).await {
                    break failure(done);
                }
            }
        });
        let wound_up = wound_up.await;
        live.end();
        // Users who still wait for an answer are left to end with their threads.
        wound_up.unwrap_or(Ok(()))?;
        Ok(Report::of(&name, target.as_str(), ended, live))
    }
}

fn failure(done: Result<Result<GooseMetrics, GooseError>, JoinError>) -> Result<(), RunError> {
    match done {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(RunError::Ended(error.to_string())),
        Err(error) => Err(RunError::Ended(error.to_string())),
    }
}

/// What goose is to do.
fn attack(shared: &Arc<Shared>) -> Result<GooseAttack, GooseError> {
    let plan = &shared.plan;
    let (host, users) = (plan.target.to_string(), plan.users().to_string());
    let mut arguments = vec!["--host", &host, "--users", &users, "--increase-rate", AT_ONCE];
    arguments.extend(["--no-metrics", "--no-telnet", "--quiet"]);
    let rate = plan.max_requests_per_second.map(|rate| rate.to_string());
    if let Some(rate) = &rate {
        arguments.extend(["--throttle-requests", rate]);
    }
    let configuration = GooseConfiguration::parse_args_default(&arguments)?;
    let [begin, act] = user::tasks(shared);
    let scenario = GooseScenario::new("users").register_transaction(begin).register_transaction(act);
    // goose would otherwise build a client for each user, which ours take the place of.
    GooseAttack::initialize_with_config(configuration)?
        .set_client_builder_without_cookies(GooseClientBuilder::new().without_cookies())
        .map(|attack| attack.register_scenario(scenario))
}
