//! The writes of a scheduler, each with an answer that can be relied on: done, refused, or not sent at all.
//!
//! A write whose answer was lost may have been carried out. It is sent again until the API server says what is true, and what was taken for
//! it stays taken meanwhile: this is what keeps nodes from being filled twice.

use crate::extender::Extender;
use crate::fence::Fence;
use http::{Method, Request, StatusCode};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::client::Body;
use plimsoll_core::reserve::Binding;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::time::Duration;

/// Why a write was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The API server refused it.
    #[error("{code}: {message}")]
    Refused {
        /// The status of the answer.
        code: u16,
        /// What the API server said.
        message: String,
    },
    /// It was not sent: this process does not lead, or is about to end.
    #[error("not sent: this scheduler does not lead")]
    NotLeading,
    /// It could not be sent, and was given up.
    #[error("{0}")]
    Unreachable(String),
    /// Somebody else has changed the object so that it would be wrong now.
    #[error("{0}")]
    Overtaken(String),
}

/// The first pause before a write is sent again; each is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often a server is asked where a pod is that refuses to say.
const REFUSALS: u32 = 100;

/// The API server, as far as a scheduler writes to it.
#[derive(Clone)]
pub struct Api {
    client: Client,
    fence: Fence,
}

/// A write.
#[derive(Debug, Clone)]
pub struct Write {
    /// The method.
    pub method: Method,
    /// The path.
    pub path: String,
    /// The kind of the body.
    pub content_type: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

/// A JSON document.
pub const JSON: &str = "application/json";
/// A patch whose lists of objects are merged by their keys.
pub const STRATEGIC_MERGE: &str = "application/strategic-merge-patch+json";
/// A patch whose lists are replaced.
pub const MERGE: &str = "application/merge-patch+json";

impl Write {
    /// A write of a JSON body.
    pub fn new(method: Method, path: String, content_type: &'static str, body: &Value) -> Self {
        Self { method, path, content_type, body: body.to_string().into_bytes() }
    }
}

/// What came of sending a write once.
enum Sent {
    Done(Vec<u8>),
    Refused {
        code: u16,
        message: String,
    },
    /// It may have been carried out, or may be if it is sent again.
    Unknown {
        problem: String,
        retry_after: Option<Duration>,
    },
}

impl Api {
    /// An API server that is written to only while the fence allows it.
    pub fn new(client: Client, fence: Fence) -> Self {
        Self { client, fence }
    }

    /// The client, for reading.
    pub fn client(&self) -> &Client {
        &self.client
    }

    async fn send_once(&self, write: &Write) -> Sent {
        let request = Request::builder()
            .method(write.method.clone())
            .uri(&write.path)
            .header(http::header::CONTENT_TYPE, write.content_type)
            .header(http::header::ACCEPT, JSON)
            // Under this name the API server notes who wrote what.
            .header(http::header::USER_AGENT, concat!("plimsoll/", env!("CARGO_PKG_VERSION")))
            .body(Body::from(write.body.clone()));
        let request = match request {
            Ok(request) => request,
            Err(error) => return Sent::Refused { code: 400, message: error.to_string() },
        };
        let answer = async {
            let response = self.client.send(request).await.map_err(|error| error.to_string())?;
            let status = response.status();
            let retry_after = response.headers().get(http::header::RETRY_AFTER).and_then(|value| value.to_str().ok());
            let retry_after = retry_after.and_then(|value| value.parse().ok()).map(Duration::from_secs);
            let body = response.into_body().collect_bytes().await.map_err(|error| error.to_string())?;
            Ok::<_, String>((status, retry_after, body.to_vec()))
        };
        // A write that hangs is broken off while this process still leads: it must not arrive when another does.
        let patience = PATIENCE.min(self.fence.left());
        let (status, retry_after, body) = match tokio::time::timeout(patience, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(problem)) => return Sent::Unknown { problem, retry_after: None },
            Err(_) => {
                let problem = format!("no answer in {:.0} seconds", patience.as_secs_f64());
                return Sent::Unknown { problem, retry_after: None };
            }
        };
        if status.is_success() {
            return Sent::Done(body);
        }
        let message = message(&body);
        if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() {
            return Sent::Unknown { problem: format!("{status}: {message}"), retry_after };
        }
        Sent::Refused { code: status.as_u16(), message }
    }

    /// Sends a write until it is answered. `attempts` bounds how often, for writes that may be given up.
    pub async fn send(&self, write: &Write, attempts: Option<u32>) -> Result<Vec<u8>, WriteError> {
        let mut pause = FIRST_PAUSE;
        let mut sent = 0;
        loop {
            if !self.fence.allows() {
                return Err(WriteError::NotLeading);
            }
            match self.send_once(write).await {
                Sent::Done(body) => return Ok(body),
                Sent::Refused { code, message } => return Err(WriteError::Refused { code, message }),
                Sent::Unknown { problem, retry_after } => {
                    sent += 1;
                    if attempts.is_some_and(|attempts| sent >= attempts) {
                        return Err(WriteError::Unreachable(problem));
                    }
                    tracing::debug!(path = write.path, problem, "a write is sent again");
                    // A server that says when to come back is taken at its word, within reason.
                    tokio::time::sleep(retry_after.unwrap_or(pause).min(PATIENCE)).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    /// Sends a write and reads the object that it answers with.
    pub async fn send_for<T: DeserializeOwned>(&self, write: &Write, attempts: Option<u32>) -> Result<T, WriteError> {
        let body = self.send(write, attempts).await?;
        serde_json::from_slice(&body)
            .map_err(|error| WriteError::Unreachable(format!("the answer is not readable: {error}")))
    }

    /// Reads an object.
    pub async fn get<T: DeserializeOwned>(&self, path: &str, attempts: Option<u32>) -> Result<T, WriteError> {
        let read = Write { method: Method::GET, path: path.to_owned(), content_type: JSON, body: Vec::new() };
        self.send_for(&read, attempts).await
    }

    /// Binds a pod. An error means that the pod is not bound by this call, and will not be.
    pub async fn bind(&self, binding: &Binding) -> Result<(), WriteError> {
        let Binding { namespace, name, uid, node, .. } = binding;
        let body = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": { "namespace": namespace, "name": name, "uid": uid },
            "target": { "kind": "Node", "name": node },
        });
        let path = format!("{}/binding", pod_path(namespace, name));
        match self.send(&Write::new(Method::POST, path, JSON, &body), None).await {
            Ok(_) => Ok(()),
            // Whatever the last answer says: an earlier sending of this very write, whose answer was lost, may have bound the pod.
            Err(WriteError::Refused { code, message }) => match self.pod_as_it_is(namespace, name).await? {
                Some(pod) if is_bound_to(&pod, uid, node) => Ok(()),
                _ => Err(WriteError::Refused { code, message }),
            },
            Err(error) => Err(error),
        }
    }

    /// Has an extender bind a pod. An error means that the pod is not bound, as far as anybody knows.
    pub async fn bind_by(&self, extender: &Extender, binding: &Binding) -> Result<(), WriteError> {
        if !self.fence.allows() {
            return Err(WriteError::NotLeading);
        }
        let Err(problem) = extender.bind(binding).await else { return Ok(()) };
        if extender.is_ignorable() {
            tracing::warn!(problem, "a pod is bound without its extender");
            return self.bind(binding).await;
        }
        // Its answer may have been lost.
        match self.pod_as_it_is(&binding.namespace, &binding.name).await? {
            Some(pod) if is_bound_to(&pod, &binding.uid, &binding.node) => Ok(()),
            _ => Err(WriteError::Unreachable(problem)),
        }
    }

    /// A pod as it is now; none if it is gone. A server that refuses to say is asked again, for minutes if need be.
    async fn pod_as_it_is(&self, namespace: &str, name: &str) -> Result<Option<Pod>, WriteError> {
        let mut pause = FIRST_PAUSE;
        for _ in 0..REFUSALS {
            match self.pod(namespace, name).await {
                Err(WriteError::Refused { .. }) => tokio::time::sleep(pause).await,
                answered => return answered,
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        self.pod(namespace, name).await
    }

    /// A pod as it is now; none if it is gone.
    pub async fn pod(&self, namespace: &str, name: &str) -> Result<Option<Pod>, WriteError> {
        match self.get(&pod_path(namespace, name), None).await {
            Ok(pod) => Ok(Some(pod)),
            Err(WriteError::Refused { code: 404, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn is_bound_to(pod: &Pod, uid: &str, node: &str) -> bool {
    pod.metadata.uid.as_deref() == Some(uid)
        && pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(node)
}

/// The path of a pod.
pub fn pod_path(namespace: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods/{name}")
}

/// What an error says to people: of an answer of the API server, its message alone.
pub fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        error => error.to_string(),
    }
}

/// What an answer says: the message of a Status, or the text itself.
fn message(body: &[u8]) -> String {
    let status: Option<Value> = serde_json::from_slice(body).ok();
    let said = status.as_ref().and_then(|status| status.get("message")).and_then(Value::as_str);
    said.map_or_else(|| String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Answer, scripted};

    fn binding() -> Binding {
        let text = str::to_owned;
        Binding {
            namespace: text("d"),
            name: text("p"),
            uid: text("u"),
            generation: 1,
            scheduler: text("s"),
            node: text("n"),
        }
    }

    fn pod(node: Option<&str>) -> Answer {
        let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p", "namespace": "d", "uid": "u" }, "spec": { "nodeName": node, "containers": [] } });
        Answer::Given(200, pod.to_string())
    }

    fn refusal(code: u16) -> Answer {
        Answer::Given(code, json!({ "kind": "Status", "message": "no", "code": code }).to_string())
    }

    async fn bind(answers: Vec<Answer>) -> Result<(), WriteError> {
        Api::new(scripted(answers).0, Fence::open()).bind(&binding()).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_is_bound_if_an_answer_was_lost_and_the_next_is_a_refusal() {
        for code in [409, 410, 403, 400] {
            assert_eq!(bind(vec![Answer::Lost, refusal(code), pod(Some("n"))]).await, Ok(()), "{code}");
            let elsewhere = bind(vec![Answer::Lost, refusal(code), pod(Some("m"))]).await;
            assert!(matches!(elsewhere, Err(WriteError::Refused { code: said, .. }) if said == code));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_say_where_a_pod_is_is_asked_again() {
        let answers = vec![refusal(410), refusal(410), Answer::Lost, refusal(429), pod(Some("n"))];
        assert_eq!(bind(answers).await, Ok(()));
        assert!(bind(vec![refusal(410), refusal(404)]).await.is_err(), "it is gone");
    }

    #[test]
    fn of_an_answer_its_message_is_told() {
        let status =
            json!({ "kind": "Status", "status": "Failure", "message": "it is late", "reason": "Timeout", "code": 504 });
        let error = kube::Error::Api(Box::new(serde_json::from_value(status).unwrap()));
        assert_eq!(said(&error), "it is late");
    }
}
