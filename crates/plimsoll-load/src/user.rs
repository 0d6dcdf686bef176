//! What a user does: one transaction after the other, chosen by weight, thinking in between.
//!
//! To goose a user has one task, which chooses by itself. goose would deal out all transactions in a fixed order that is the same for every
//! user, so that users who start together ask for the same at the same time, and a short run sees only the head of the list; and it thinks
//! without a seed. Here each user draws from numbers of its own that a seed repeats. All users start at once, too, and wait for their time: the
//! plans that goose has for users who come and go take whole seconds, and print to standard output, where our report belongs.

use crate::figures::Outcome;
use crate::live::Live;
use crate::plan::{Plan, Prepared};
use goose::goose::{
    GooseMethod, GooseRequest, GooseUser, Transaction, TransactionFunction, TransactionResult, goose_method_from_method,
};
use rand::SeedableRng;
use rand::rngs::StdRng;
use reqwest::redirect::{Attempt, Policy};
use reqwest::{Client, ClientBuilder, Response};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How long a user waits that could not connect: refusals at full speed would burn a processor and say nothing.
const AFTER_REFUSAL: Duration = Duration::from_millis(100);
/// How long a user waits that has nothing to do, until goose lets it go.
const IDLE: Duration = Duration::from_millis(50);
/// How many redirects of the same host are followed, as browsers do.
const REDIRECTS: usize = 10;

/// What all users share.
pub(crate) struct Shared {
    pub plan: Plan,
    pub live: Live,
    /// What sends requests: one for all, or one for each user where they keep cookies.
    pub clients: Vec<Client>,
    /// When it began.
    pub begun: Instant,
    /// Whether the time is over.
    pub over: watch::Receiver<bool>,
}

/// A user's own random numbers.
#[derive(Clone)]
struct Person(StdRng);

/// What sends the requests of a plan's users: made beforehand, since a thousand that are made under load would be measured as latency.
pub(crate) fn clients(plan: &Plan, addresses: &[SocketAddr]) -> Result<Vec<Client>, reqwest::Error> {
    let count = if plan.cookies { plan.users() } else { 1 };
    (0..count).map(|_| client(plan, addresses).build()).collect()
}

/// A client that talks to the target and to nobody else: names, proxies and redirects lead nowhere else.
fn client(plan: &Plan, addresses: &[SocketAddr]) -> ClientBuilder {
    let builder = Client::builder()
        .user_agent(concat!("plimsoll-load/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::custom(|attempt: Attempt<'_>| {
            let within = attempt.previous().first().is_some_and(|first| first.origin() == attempt.url().origin());
            if within && attempt.previous().len() <= REDIRECTS { attempt.follow() } else { attempt.stop() }
        }))
        .no_proxy()
        .no_gzip()
        .cookie_store(plan.cookies)
        .resolve_to_addrs(plan.target.host_str().unwrap_or_default(), addresses);
    match plan.target.scheme() {
        "https" => builder,
        // The certificates of this machine take milliseconds to read, and nobody asks for them.
        _ => builder.tls_certs_only([]),
    }
}

/// What goose calls when a user starts, and then again and again.
pub(crate) fn tasks(shared: &Arc<Shared>) -> [Transaction; 2] {
    let (first, further) = (Arc::clone(shared), Arc::clone(shared));
    let begin: TransactionFunction = Arc::new(move |user| {
        let shared = Arc::clone(&first);
        Box::pin(async move {
            shared.begin(user);
            Ok(())
        })
    });
    let act: TransactionFunction = Arc::new(move |user| {
        let shared = Arc::clone(&further);
        Box::pin(async move { shared.act(user).await })
    });
    [Transaction::new(begin).set_on_start(), Transaction::new(act)]
}

impl Shared {
    fn begin(&self, user: &mut GooseUser) {
        let number = user.weighted_users_index;
        user.client = self.clients[number % self.clients.len()].clone();
        // Far apart, so that users with neighbouring numbers draw nothing alike.
        let own = self.plan.seed ^ (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        user.set_session_data(Person(StdRng::seed_from_u64(own)));
    }

    async fn act(&self, user: &mut GooseUser) -> TransactionResult {
        let now = self.begun.elapsed();
        match self.plan.joins(user.weighted_users_index, now) {
            Some(join) if join <= now => self.transact(user).await,
            // Timers are in milliseconds, and one that is over at once would be asked for again and again.
            Some(join) => self.pause((join - now).max(Duration::from_millis(1))).await,
            None => self.pause(Duration::MAX).await,
        }
        if *self.over.borrow() {
            // goose calls again at once, and a loop that never waits would keep others from ending.
            tokio::time::sleep(IDLE).await;
        }
        Ok(())
    }

    async fn transact(&self, user: &mut GooseUser) {
        let chosen = user.get_session_data_mut::<Person>().and_then(|Person(random)| self.plan.choose(random));
        let begun = Instant::now();
        for request in chosen.iter().flat_map(|transaction| &transaction.requests) {
            if *self.over.borrow() {
                break;
            }
            let Some(outcome) = send(user, request, &self.plan).await else { break };
            self.live.record(request.name, outcome);
            let thinks = user.get_session_data_mut::<Person>().map(|Person(random)| self.plan.thinks(random));
            let least = if outcome == Outcome::Connection { AFTER_REFUSAL } else { Duration::ZERO };
            self.pause(thinks.unwrap_or_default().max(least)).await;
        }
        self.pause(chosen.map_or(IDLE, |transaction| transaction.every.saturating_sub(begun.elapsed()))).await;
    }

    /// Waits, but not longer than the run takes.
    async fn pause(&self, duration: Duration) {
        if duration.is_zero() {
            return;
        }
        let mut over = self.over.clone();
        // Whoever can no longer say that it is over has ended.
        let _ = tokio::time::timeout(duration, over.wait_for(|over| *over)).await;
    }
}

/// What became of a request; nothing if goose did not send it because the run ends.
async fn send(user: &mut GooseUser, request: &Prepared, plan: &Plan) -> Option<Outcome> {
    let mut builder = user.client.request(request.method.clone(), request.url.clone());
    builder = builder.headers(request.headers.clone()).timeout(request.timeout);
    if let Some(body) = &request.body {
        builder = builder.body(body.clone());
    }
    let method = goose_method_from_method(request.method.clone()).unwrap_or(GooseMethod::Get);
    let named = GooseRequest::builder().method(method).name(&*plan.names[request.name]).set_request_builder(builder);
    let answer = user.request(named.build()).await.ok()?;
    // goose has timed it until the head of the answer, without the time that it held the request back to keep to the allowed rate.
    let head = Duration::from_micros(answer.request.response_time_micros());
    let rest = Instant::now();
    Some(match answer.response {
        Err(error) => kind(&error),
        Ok(response) => {
            let status = response.status();
            let is_expected = match request.expect.is_empty() {
                true => status.is_success(),
                false => request.expect.contains(&status.as_u16()),
            };
            match drain(response).await {
                Err(error) => kind(&error),
                Ok(()) if is_expected => Outcome::Good(head + rest.elapsed()),
                Ok(()) => Outcome::Status(status.as_u16()),
            }
        }
    })
}

/// Reads an answer to its end, and keeps nothing of it.
async fn drain(mut response: Response) -> Result<(), reqwest::Error> {
    while response.chunk().await?.is_some() {}
    Ok(())
}

fn kind(error: &reqwest::Error) -> Outcome {
    match error {
        error if error.is_timeout() => Outcome::Timeout,
        error if error.is_connect() => Outcome::Connection,
        error if error.is_body() || error.is_decode() => Outcome::Body,
        _ => Outcome::Other,
    }
}
