//! `plimsoll demo`

mod browser;
pub mod day;
mod player;
mod screen;
mod shipped;

use crate::Verdict;
use crate::access::Access;
use crate::commands::run::stop_signal;
use crate::helm::{self, objectives};
use crate::output::{ACCENT, HEADING, Output};
use crate::section::Section;
use anyhow::{Context, Result};
use day::{DEFAULT, Day, Named};
use player::Player;
use plimsoll_core::config::Configuration;
use plimsoll_kube::driver::Inbox;
use plimsoll_kube::twin::Told;
use plimsoll_learn::policy::MULTI_OBJECTIVE;
use plimsoll_learn::reward::{Objectives, SharedObjectives};
use plimsoll_server::{App, Helm, Pace, Previewed, SPEEDS, Stage};
use plimsoll_telemetry::Store;
use screen::Screen;
use std::io::Write;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// How often it is looked whether the day is over.
const LOOK: Duration = Duration::from_millis(100);
/// Where it is served if that is free and nothing else is said.
const ADDRESS: &str = "127.0.0.1:10275";

/// Live through a simulated day under the default scheduler and under a learned policy side by side, in a browser and in the terminal
///
/// The same made-up pods come to two equal simulated clusters of 200 machines. No cluster is needed. In a terminal the dashboard is served until
/// Ctrl-C; elsewhere it ends with the day.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The policy on the right, or the folder of a model
    #[arg(long, value_name = "NAME", default_value = shipped::NAME)]
    policy: String,
    /// Seconds of the day for each real one: 480 is three minutes for a day
    #[arg(long, value_name = "N", default_value_t = 480.0, value_parser = speed)]
    speed: f64,
    /// The seed of the pods that come
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Where the dashboard is served; 127.0.0.1:10275 if not given, or any other port where that one is taken
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Open no browser
    #[arg(long)]
    no_browser: bool,
    #[command(flatten)]
    access: Access,
}

/// A speed that a day can go at.
pub fn speed(text: &str) -> Result<f64, String> {
    let wrong = || format!("it must be a number from {} to {}", SPEEDS.start(), SPEEDS.end());
    text.parse().ok().filter(|speed| SPEEDS.contains(speed)).ok_or_else(wrong)
}

/// Runs the demo.
pub fn run(args: Args, out: &mut Output) -> Result<Verdict> {
    let objectives = objectives()?;
    let named = |name: &str| {
        Ok::<_, anyhow::Error>(Named { name: name.to_owned(), policy: shipped::policy(name, &objectives, None)? })
    };
    let day = Day::new(args.seed, named(DEFAULT)?, named(&args.policy)?)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(show(&args, day, objectives, out));
    crate::connect::leave(runtime);
    result
}

async fn show(args: &Args, day: Day, objectives: SharedObjectives, out: &mut Output) -> Result<Verdict> {
    let stage = Arc::new(Stage::new(Pace { speed: args.speed, paused: false }));
    let left = Arc::default();
    let (inbox, receiver) = Inbox::new();
    let profile = day.right.profile().to_owned();
    let app = app(args, inbox, profile, &stage, Arc::clone(&left), objectives);
    let mut stop = stop_signal()?;
    let listen = args.listen.clone().unwrap_or_else(free_address);
    let url = args.access.serve(&listen, app, None, stop.clone()).await?;
    let screen = Screen::new();
    greet(args, &url, &screen, out)?;
    // It works as hard as it can for a moment at a time, which must not keep requests waiting.
    let player = Player::new(day, Arc::clone(&stage), left);
    let handle = tokio::runtime::Handle::current();
    let work = std::thread::Builder::new().name("demo".to_owned());
    let (ended, mut end) = tokio::sync::oneshot::channel();
    work.spawn(move || drop(ended.send(handle.block_on(player.play(receiver)))))?;
    let mut is_over = false;
    let mut told = Instant::now();
    screen.tell(&stage, out)?;
    while !is_over && !*stop.borrow() {
        tokio::select! {
            _ = tokio::time::sleep(LOOK) => {}
            _ = stop.changed() => {}
            // It ends before everybody else only where something went wrong.
            failed = &mut end => return failed.context("the day ended early")?.map(|()| Verdict::Good),
        }
        is_over = stage.is_over();
        if is_over || told.elapsed() >= screen.pause() {
            told = Instant::now();
            screen.tell(&stage, out)?;
        }
    }
    screen.leave_line(out)?;
    screen::print(&stage.day(false), out)?;
    if screen.is_terminal() && !*stop.borrow() {
        writeln!(out, "\nThe day is over. The dashboard stays at {ACCENT}{url}{ACCENT:#} until Ctrl-C.")?;
        out.flush()?;
        let _ = stop.changed().await;
    }
    Ok(Verdict::Good)
}

/// Lives through the day so far with both weights.
fn preview(seed: u64, weights: [Objectives; 2], clock: f64) -> Previewed {
    let live = move || {
        let named = |weights| Named { name: MULTI_OBJECTIVE.to_owned(), policy: helm::weighing(weights) };
        Day::previewed(seed, weights.map(named), Duration::from_secs_f64(clock)).map_err(|error| format!("{error:#}"))
    };
    Box::pin(async move { tokio::task::spawn_blocking(live).await.map_err(|error| error.to_string())? })
}

/// What is served: the cluster on the right, which can be looked into and steered, and the day.
fn app(
    args: &Args,
    inbox: Inbox,
    profile: String,
    stage: &Arc<Stage>,
    left: Arc<Told>,
    objectives: SharedObjectives,
) -> App {
    let (weights, choices) = (objectives.clone(), helm::Choices::new(std::slice::from_ref(&args.policy), None));
    let (seed, shown) = (args.seed, Arc::clone(stage));
    let helm = Helm {
        mode: "demo",
        config: helm::config(&Configuration::default(), &Section::default()),
        catalogue: Box::new(move || choices.list()),
        load: Box::new(move |name, trust| shipped::policy(name, &weights, trust).map_err(|error| format!("{error:#}"))),
        preview: Box::new(move |weights| Ok(preview(seed, weights, shown.day(false).clock))),
        twin: Some(left),
        objectives,
        demo: Some(Arc::clone(stage)),
        ..Helm::default()
    };
    App::new(inbox, Arc::new(AtomicBool::new(true)), vec![profile], Arc::new(Store::default()), helm)
}

/// The usual address, or one with any other port where that one is taken.
fn free_address() -> String {
    let is_free = TcpListener::bind(ADDRESS).is_ok();
    if is_free { ADDRESS.to_owned() } else { "127.0.0.1:0".to_owned() }
}

fn greet(args: &Args, url: &str, screen: &Screen, out: &mut Output) -> Result<()> {
    let minutes = 86_400.0 / args.speed / 60.0;
    writeln!(
        out,
        "{HEADING}One day, two schedulers{HEADING:#}: the same pods on two simulated clusters, {DEFAULT} and {}, in {minutes:.1} minutes",
        args.policy
    )?;
    let is_seen = screen.is_terminal() && !args.no_browser && browser::open(url);
    let how = if is_seen { "opened in your browser" } else { "open it in a browser" };
    writeln!(out, "Dashboard: {ACCENT}{url}{ACCENT:#} ({how})\n")?;
    out.flush()?;
    Ok(())
}
