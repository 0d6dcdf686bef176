//! The load generator against a real service: what is counted, how it ends, what is refused, and its REST.

#![expect(clippy::unwrap_used, reason = "the harness is test code, too")]

mod rest;
mod runs;
mod scenarios;
mod shop;

use plimsoll_load::{Limits, Live, Report, RunError, Scenario, run};
use std::net::SocketAddr;
use tokio::sync::{Mutex, MutexGuard, watch};

/// There is one run at a time in a process, and tests of one process run side by side.
async fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::const_new(());
    ONE.lock().await
}

/// A scenario of one transaction with these requests.
fn scenario(target: SocketAddr, head: &str, requests: &str) -> Scenario {
    let text = format!(
        "name = 'test'\ntarget = 'http://{target}'\n{head}\n[[transactions]]\nname = 'all'\nrequests = [{requests}]\n"
    );
    Scenario::parse("test.toml", &text).unwrap()
}

async fn finished(scenario: &Scenario) -> Result<Report, RunError> {
    let (_keep, stop) = watch::channel(false);
    run(scenario, &Limits::default(), &Live::new(), stop).await
}
