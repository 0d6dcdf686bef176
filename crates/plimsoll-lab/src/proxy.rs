//! A proxy in front of a lab's API server that does to its client what networks and busy servers do: it refuses, delays, loses requests and
//! answers, cuts watches, and goes silent. What goes wrong is drawn from a seed; requests of several tasks come in any order, so that a seed
//! gives the same mixture of faults and not the same run.

use crate::LabError;
use crate::kubeconfig;
use futures::{Stream, StreamExt};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::client::Body;
use plimsoll_core::rng::Rng;
use serde_json::json;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What goes wrong: of a thousand requests, how many. Nothing by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rates {
    /// Writes that are refused with 409 and not carried out.
    pub conflict: u32,
    /// Lists and watches that are refused with 410, half of the watches after they began.
    pub gone: u32,
    /// Refused with 429 and told to come back in a second.
    pub too_many: u32,
    /// Refused with 500 and not carried out.
    pub error: u32,
    /// Lost on their way to the API server.
    pub lost_request: u32,
    /// Carried out, the answer lost.
    pub lost_answer: u32,
    /// Held back before they are carried out.
    pub late_request: u32,
    /// Carried out, the answer held back.
    pub late_answer: u32,
    /// Watches that are cut after a while, in the middle of a line or at its end.
    pub cut: u32,
}

impl Rates {
    /// As bad as each of these in turn.
    pub fn worse(self, other: Self) -> Self {
        Self {
            conflict: self.conflict.max(other.conflict),
            gone: self.gone.max(other.gone),
            too_many: self.too_many.max(other.too_many),
            error: self.error.max(other.error),
            lost_request: self.lost_request.max(other.lost_request),
            lost_answer: self.lost_answer.max(other.lost_answer),
            late_request: self.late_request.max(other.late_request),
            late_answer: self.late_answer.max(other.late_answer),
            cut: self.cut.max(other.cut),
        }
    }
}

/// The longest that a request or an answer is held back. A leader has to be done with its writes within the time between the end of its own
/// trust in its lease and the end of the lease, so this is shorter.
const LATEST: Duration = Duration::from_millis(900);
/// The longest that a watch lives which is to be cut.
const LONGEST_WATCH: Duration = Duration::from_secs(4);

/// How the line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Line {
    /// What is asked is answered, but for the rates.
    #[default]
    Clear,
    /// Watches tell nothing; what they have to tell comes when the line is clear again. All else is answered.
    Stale,
    /// Nothing goes through. What is asked meanwhile is lost, and watches are cut when they are heard again.
    Silent,
}

/// Ends the connection without an answer.
#[derive(Debug, thiserror::Error)]
#[error("the proxy lost it")]
struct Lost;

type Answer = Response<UnsyncBoxBody<Bytes, Lost>>;

/// What is to happen to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Pass,
    Refuse(StatusCode),
    LoseRequest,
    LoseAnswer,
    DelayRequest(Duration),
    DelayAnswer(Duration),
    /// A watch is cut after this time, with the error that its history is gone or without.
    Cut(Duration, bool),
}

impl Fate {
    /// Under which name it is counted.
    fn name(self) -> &'static str {
        match self {
            Self::Pass => "passed",
            Self::Refuse(StatusCode::CONFLICT) => "409",
            Self::Refuse(StatusCode::GONE) | Self::Cut(_, true) => "410",
            Self::Refuse(StatusCode::TOO_MANY_REQUESTS) => "429",
            Self::Refuse(_) => "500",
            Self::LoseRequest => "request lost",
            Self::LoseAnswer => "answer lost",
            Self::DelayRequest(_) => "request late",
            Self::DelayAnswer(_) => "answer late",
            Self::Cut(_, false) => "watch cut",
        }
    }
}

/// What kind of request it is, as far as faults differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Watch,
    Read,
    Write,
}

fn kind_of<B>(request: &Request<B>) -> Kind {
    let watches = |query: &str| query.split('&').any(|part| part == "watch=true" || part == "watch=1");
    match *request.method() {
        Method::GET if request.uri().query().is_some_and(watches) => Kind::Watch,
        Method::GET => Kind::Read,
        _ => Kind::Write,
    }
}

/// Draws the fate of a request.
fn draw(rates: &Rates, kind: Kind, rng: &mut Rng) -> Fate {
    let span = |rng: &mut Rng, longest: Duration| longest.mul_f64(rng.unit());
    let hit = |rng: &mut Rng, rate: u32| rng.below(1000) < rate as usize;
    let applies = |fate: bool| u32::from(fate);
    let refusals = [
        (StatusCode::CONFLICT, rates.conflict * applies(kind == Kind::Write)),
        (StatusCode::GONE, rates.gone * applies(kind != Kind::Write)),
        (StatusCode::TOO_MANY_REQUESTS, rates.too_many),
        (StatusCode::INTERNAL_SERVER_ERROR, rates.error),
    ];
    for (code, rate) in refusals {
        if hit(rng, rate) {
            let begins = kind == Kind::Watch && code == StatusCode::GONE && rng.below(2) == 0;
            return if begins { Fate::Cut(span(rng, LONGEST_WATCH), true) } else { Fate::Refuse(code) };
        }
    }
    if hit(rng, rates.lost_request) {
        return Fate::LoseRequest;
    }
    if kind == Kind::Watch {
        let cut = hit(rng, rates.cut);
        return if cut { Fate::Cut(span(rng, LONGEST_WATCH), false) } else { Fate::Pass };
    }
    if hit(rng, rates.lost_answer) {
        return Fate::LoseAnswer;
    }
    if hit(rng, rates.late_request) {
        return Fate::DelayRequest(span(rng, LATEST));
    }
    if hit(rng, rates.late_answer) {
        return Fate::DelayAnswer(span(rng, LATEST));
    }
    Fate::Pass
}

/// What the connections share.
struct Shared {
    upstream: Client,
    drawn: Mutex<Drawn>,
    line: watch::Sender<Line>,
}

struct Drawn {
    rates: Rates,
    rng: Rng,
    counts: BTreeMap<&'static str, usize>,
}

impl Shared {
    fn drawn(&self) -> MutexGuard<'_, Drawn> {
        self.drawn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fate(&self, kind: Kind) -> Fate {
        let Drawn { rates, rng, counts } = &mut *self.drawn();
        let fate = draw(rates, kind, rng);
        *counts.entry(fate.name()).or_default() += 1;
        fate
    }

    /// What comes while the line is silent is lost when it comes back, as if the network had dropped it.
    async fn if_heard(&self) -> Result<(), Lost> {
        let mut line = self.line.subscribe();
        if *line.borrow_and_update() != Line::Silent {
            return Ok(());
        }
        // The sender lives as long as this.
        let _ = line.wait_for(|line| *line != Line::Silent).await;
        Err(Lost)
    }

    async fn forward(&self, request: Request<Incoming>) -> Result<Answer, Lost> {
        self.if_heard().await?;
        let kind = kind_of(&request);
        let fate = self.fate(kind);
        match fate {
            Fate::Refuse(code) => return Ok(refusal(code)),
            Fate::LoseRequest => return Err(Lost),
            Fate::DelayRequest(pause) => tokio::time::sleep(pause).await,
            _ => {}
        }
        let answer = self.ask(request).await?;
        match fate {
            Fate::LoseAnswer => {
                let _ = answer.into_body().collect().await;
                return Err(Lost);
            }
            Fate::DelayAnswer(pause) => tokio::time::sleep(pause).await,
            _ => {}
        }
        self.if_heard().await?;
        let cut = if let Fate::Cut(after, gone) = fate { Some((after, gone)) } else { None };
        Ok(self.guard(answer, kind, cut))
    }

    /// Asks the API server itself.
    async fn ask(&self, request: Request<Incoming>) -> Result<Response<Body>, Lost> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(|_| Lost)?.to_bytes();
        let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
        let mut asked = Request::builder().method(parts.method).uri(target);
        for name in [header::ACCEPT, header::CONTENT_TYPE, header::ACCEPT_ENCODING] {
            if let Some(value) = parts.headers.get(&name) {
                asked = asked.header(name, value);
            }
        }
        let asked = asked.body(Body::from(body.to_vec())).map_err(|_| Lost)?;
        self.upstream.send(asked).await.map_err(|_| Lost)
    }

    /// An answer that is cut after a while, or where the line goes silent.
    fn guard(&self, answer: Response<Body>, kind: Kind, cut: Option<(Duration, bool)>) -> Answer {
        let (mut parts, body) = answer.into_parts();
        // Hyper frames it anew.
        parts.headers.remove(header::TRANSFER_ENCODING);
        parts.headers.remove(header::CONNECTION);
        let data = body.into_data_stream().map(|part| part.map_err(|_| Lost));
        let stream = as_heard(data, kind, self.line.subscribe());
        let frames = |stream: futures::stream::BoxStream<'static, Result<Bytes, Lost>>| {
            StreamBody::new(stream.map(|part| part.map(Frame::data))).boxed_unsync()
        };
        let body = match cut {
            None => frames(stream.boxed()),
            Some((after, gone)) => {
                let end = if gone { Ok(Bytes::from(format!("{}\n", gone_event()))) } else { Err(Lost) };
                let cut = stream.take_until(tokio::time::sleep(after));
                frames(cut.chain(futures::stream::iter([end])).boxed())
            }
        };
        Response::from_parts(parts, body)
    }
}

/// A stream as it is heard at the other end of the line.
fn as_heard(
    data: impl Stream<Item = Result<Bytes, Lost>> + Send + 'static,
    kind: Kind,
    mut line: watch::Receiver<Line>,
) -> impl Stream<Item = Result<Bytes, Lost>> + Send {
    let heard = line.clone();
    let healed = async move {
        let _ = line.wait_for(|line| *line == Line::Silent).await;
        let _ = line.wait_for(|line| *line != Line::Silent).await;
    };
    data.take_until(healed).then(move |part| {
        let mut line = heard.clone();
        async move {
            if kind == Kind::Watch {
                let _ = line.wait_for(|line| *line != Line::Stale).await;
            }
            if *line.borrow() != Line::Silent {
                return part;
            }
            let _ = line.wait_for(|line| *line != Line::Silent).await;
            Err(Lost)
        }
    })
}

fn refusal(code: StatusCode) -> Answer {
    let reason = match code {
        StatusCode::CONFLICT => "Conflict",
        StatusCode::GONE => "Expired",
        StatusCode::TOO_MANY_REQUESTS => "TooManyRequests",
        _ => "InternalError",
    };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "refused by the lab's proxy", "reason": reason, "code": code.as_u16(),
    });
    let body = Full::new(Bytes::from(status.to_string())).map_err(|never| match never {}).boxed_unsync();
    let mut answer = Response::new(body);
    *answer.status_mut() = code;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    if code == StatusCode::TOO_MANY_REQUESTS {
        headers.insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
    }
    answer
}

/// What a watch says whose history is gone.
fn gone_event() -> serde_json::Value {
    json!({"type": "ERROR", "object": {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "too old resource version (the lab's proxy)", "reason": "Expired", "code": 410,
    }})
}

/// A proxy in front of an API server; it ends with this value.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Listens on a port of loopback, without TLS, and forwards with the identity of a client. Nothing goes wrong before [`Proxy::set`].
    pub async fn start(upstream: Client, seed: u64) -> Result<Self, LabError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(LabError::io("listen on loopback"))?;
        let address = listener.local_addr().map_err(LabError::io("listen on loopback"))?;
        let drawn = Drawn { rates: Rates::default(), rng: Rng::new(seed), counts: BTreeMap::new() };
        let shared = Arc::new(Shared { upstream, drawn: Mutex::new(drawn), line: watch::Sender::new(Line::Clear) });
        let task = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { address, shared, task })
    }

    /// What goes wrong from now on.
    pub fn set(&self, rates: Rates) {
        self.shared.drawn().rates = rates;
    }

    /// How the line is from now on.
    pub fn set_line(&self, line: Line) {
        self.shared.line.send_replace(line);
    }

    /// How often each fault came, by name.
    pub fn counts(&self) -> BTreeMap<&'static str, usize> {
        self.shared.drawn().counts.clone()
    }

    /// Writes a kubeconfig for this proxy. Whoever uses it is the client that the proxy forwards with.
    pub fn write_kubeconfig(&self, file: &Path) -> Result<(), LabError> {
        let content = kubeconfig::without_identity(&format!("http://{}", self.address));
        std::fs::write(file, content.to_string()).map_err(LabError::io(format!("write {}", file.display())))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = tokio::task::JoinSet::new();
    // An error means that a client was gone before it was accepted.
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            connections.spawn(serve(stream, Arc::clone(&shared)));
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let service = service_fn(|request| {
        let shared = Arc::clone(&shared);
        async move { shared.forward(request).await }
    });
    // Errors are what the proxy is for. A client that goes away takes its request with it.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_come_as_often_as_asked_and_only_where_they_can() {
        let rates = Rates { conflict: 100, gone: 100, cut: 500, lost_answer: 100, ..Rates::default() };
        let mut rng = Rng::new(1);
        let mut count = |kind| {
            let mut counts = BTreeMap::<_, usize>::new();
            for _ in 0..10_000 {
                *counts.entry(draw(&rates, kind, &mut rng).name()).or_default() += 1;
            }
            counts
        };
        let (writes, reads, watches) = (count(Kind::Write), count(Kind::Read), count(Kind::Watch));
        let about = |count: usize, expected: usize| count.abs_diff(expected) < expected / 4;
        assert!(about(writes["409"], 1000) && about(writes["answer lost"], 900), "{writes:?}");
        assert!(about(reads["410"], 1000) && !reads.contains_key("409"), "{reads:?}");
        assert!(about(watches["410"], 1000) && about(watches["watch cut"], 4500), "{watches:?}");
        assert!(!writes.contains_key("410") && !watches.contains_key("answer lost"), "{writes:?} {watches:?}");
    }

    #[test]
    fn a_request_is_a_watch_if_it_says_so() {
        let of = |method: &str, uri: &str| kind_of(&Request::builder().method(method).uri(uri).body(()).unwrap());
        assert_eq!(of("GET", "/api/v1/pods?&watch=true&timeoutSeconds=290"), Kind::Watch);
        assert_eq!(of("GET", "/api/v1/pods?limit=500"), Kind::Read);
        assert_eq!(of("POST", "/api/v1/namespaces/a/pods/b/binding"), Kind::Write);
    }
}
