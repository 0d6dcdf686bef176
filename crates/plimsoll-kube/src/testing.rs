//! An API server for tests that says what it is told to say.

use kube::Client;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// What comes of a request.
pub enum Answer {
    /// A status and a body.
    Given(u16, String),
    /// The connection breaks.
    Lost,
    /// Nothing, ever.
    Silence,
}

/// An API server that gives these answers, one after the other, and notes the query of what it was asked; then it is silent.
pub fn scripted(answers: Vec<Answer>) -> (Client, Arc<Mutex<Vec<String>>>) {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let answers = Arc::new(Mutex::new(VecDeque::from(answers)));
    let notes = Arc::clone(&asked);
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        notes.lock().unwrap().push(request.uri().query().unwrap_or_default().to_owned());
        let answer = answers.lock().unwrap().pop_front();
        async move {
            match answer {
                None | Some(Answer::Silence) => std::future::pending().await,
                Some(Answer::Lost) => Err(std::io::Error::other("the connection broke")),
                Some(Answer::Given(status, body)) => {
                    let body = kube::client::Body::from(body.into_bytes());
                    http::Response::builder().status(status).body(body).map_err(std::io::Error::other)
                }
            }
        }
    });
    (Client::new(service, "default"), asked)
}

/// An API server that answers by method, path with query, and body, and notes what it was asked.
pub fn answering(
    answer: impl Fn(&str, &str, &serde_json::Value) -> Answer + Send + Sync + 'static,
) -> (Client, Arc<Mutex<Vec<String>>>) {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let (answer, notes) = (Arc::new(answer), Arc::clone(&asked));
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (answer, notes) = (Arc::clone(&answer), Arc::clone(&notes));
        async move {
            let path = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
            let method = request.method().to_string();
            let body = request.into_body().collect_bytes().await.map_err(std::io::Error::other)?;
            let body = serde_json::from_slice(&body).unwrap_or_default();
            notes.lock().unwrap().push(format!("{method} {path}"));
            match answer(&method, &path, &body) {
                Answer::Silence => std::future::pending().await,
                Answer::Lost => Err(std::io::Error::other("the connection broke")),
                Answer::Given(status, body) => {
                    let body = kube::client::Body::from(body.into_bytes());
                    http::Response::builder().status(status).body(body).map_err(std::io::Error::other)
                }
            }
        }
    });
    (Client::new(service, "default"), asked)
}
