//! Waiting until a component answers, with an error that shows its log where it never does.

use crate::LabError;
use crate::process::{Running, tail};
use http::Request;
use kube::Client;
use std::future::Future;
use std::time::{Duration, Instant};

/// How long a component may take to get ready; some seconds where the machine has nothing else to do.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often it is asked.
const PAUSE: Duration = Duration::from_millis(50);
/// How long one answer may take.
const ANSWER: Duration = Duration::from_secs(5);

/// How waiting for a component that listens ended.
pub enum Outcome {
    /// It is ready.
    Ready,
    /// Somebody else had its port first: it can be started with another one.
    PortTaken,
}

/// Asks until the answer is `Ok`, or the component ends, or patience does.
pub async fn until_ready<F, Fut>(running: &mut Running, mut ask: F) -> Result<Outcome, LabError>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<(), String>>,
{
    let begin = Instant::now();
    loop {
        let answer = match tokio::time::timeout(ANSWER, ask()).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("no answer within {} s", ANSWER.as_secs())),
        };
        // It is asked whether it lives after it has answered: another one on its port may have answered in its place.
        if let Some(status) = running.exit() {
            return if running.lost_its_port() { Ok(Outcome::PortTaken) } else { Err(running.death(status)) };
        }
        match answer {
            Ok(()) => return Ok(Outcome::Ready),
            Err(last) if begin.elapsed() > PATIENCE => {
                return Err(LabError::NotReady {
                    component: running.invocation.name.clone(),
                    seconds: PATIENCE.as_secs(),
                    last,
                    log: running.log.clone(),
                    tail: tail(&running.log),
                });
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Whether a server says of itself that it is ready.
pub async fn is_server_ready(client: &Client) -> Result<(), String> {
    let request = Request::get("/readyz").body(Vec::new()).map_err(|error| error.to_string())?;
    client.request_text(request).await.map(drop).map_err(|error| error.to_string())
}
