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
                None => std::future::pending().await,
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
