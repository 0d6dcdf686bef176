//! Answers that are not the wanted ones, as RFC 9457 has them; `error` says the same as `detail`, for those who look for that.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{self, FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt::Display;
use std::ops::RangeInclusive;
use utoipa::ToSchema;

/// What is wrong.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Problem {
    /// What is wrong, and what can be done.
    pub error: String,
}

/// A request that is not carried out.
#[derive(Debug, Clone)]
pub struct Refused {
    pub status: StatusCode,
    pub problem: Problem,
    /// Seconds after which it may be asked again.
    pub retry_after: Option<u32>,
}

impl Refused {
    /// A refusal with what is wrong.
    pub fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self { status, problem: Problem { error: error.into() }, retry_after: None }
    }

    /// What is asked for cannot be.
    pub fn unprocessable(error: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, error)
    }

    /// It may be asked again in a second.
    pub fn busy(error: impl Into<String>) -> Self {
        Self { retry_after: Some(1), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, error) }
    }

    /// The engine has ended, or is about to.
    pub fn ended() -> Self {
        Self::busy("the engine has ended; this server is about to")
    }
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.problem.error)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let told = self.problem.error;
        let problem = serde_json::json!({
            "type": "about:blank",
            "title": self.status.canonical_reason().unwrap_or("Refused"),
            "status": self.status.as_u16(),
            "detail": told,
            "error": told,
        });
        let kind = [(header::CONTENT_TYPE, "application/problem+json")];
        let mut response = (self.status, kind, problem.to_string()).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// What stands behind the question mark; what cannot be read is refused in our words.
pub struct Query<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let read = extract::Query::<T>::from_request_parts(parts, state).await;
        read.map(|extract::Query(query)| Self(query)).map_err(|no| Refused::new(no.status(), no.body_text()))
    }
}

/// What stands in the path; what cannot be read is refused in our words.
pub struct Path<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let read = extract::Path::<T>::from_request_parts(parts, state).await;
        read.map(|extract::Path(path)| Self(path)).map_err(|no| Refused::new(no.status(), no.body_text()))
    }
}

/// A number of a query that has to lie in a range.
pub fn within<'de, D, T>(from: D, range: RangeInclusive<T>) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + PartialOrd + Display,
{
    let number = T::deserialize(from)?;
    if range.contains(&number) {
        return Ok(Some(number));
    }
    Err(serde::de::Error::custom(format!("{number} is not within {} and {}", range.start(), range.end())))
}

/// Which part of a list.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Page {
    /// At most so many; 100 if not given.
    #[param(minimum = 1, maximum = 1000)]
    #[serde(default, deserialize_with = "limit")]
    limit: Option<usize>,
    /// What `next` was in the answer before.
    cursor: Option<String>,
}

fn limit<'de, D: Deserializer<'de>>(from: D) -> Result<Option<usize>, D::Error> {
    within(from, 1..=1000)
}

impl Page {
    /// The part of a list whose keys grow with their place.
    pub fn of<T: Serialize>(&self, all: Vec<T>, key: impl Fn(&T) -> String) -> serde_json::Value {
        let limit = self.limit.unwrap_or(100);
        let after = |item: &T| self.cursor.as_ref().is_none_or(|cursor| key(item) > *cursor);
        let mut part: Vec<T> = all.into_iter().filter(after).take(limit + 1).collect();
        let has_more = part.len() > limit;
        part.truncate(limit);
        let next = part.last().filter(|_| has_more).map(key);
        serde_json::json!({ "items": part, "next": next })
    }
}

/// A whole number, also where it is written with a decimal point: to JSON, 5.0 is 5.
pub fn whole<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let number = Option::<serde_json::Number>::deserialize(from)?;
    let as_whole = |number: serde_json::Number| {
        let float = number.as_f64().filter(|float| float.fract() == 0.0 && (0.0..=9e15).contains(float));
        number
            .as_u64()
            .or(float.map(|float| float as u64))
            .ok_or_else(|| serde::de::Error::custom(format!("{number} is no whole number from 0 up")))
    };
    number.map(as_whole).transpose()
}

/// A body of JSON; one that cannot be read is refused in our words.
pub struct Body<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Refused;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refused> {
        match Json::<T>::from_request(request, state).await {
            Ok(Json(body)) => Ok(Self(body)),
            // What JSON means is told by 422, what is no JSON by 400, what is too long by 413, and another kind of body by 415.
            Err(JsonRejection::JsonSyntaxError(error)) => Err(Refused::new(StatusCode::BAD_REQUEST, error.body_text())),
            Err(rejection) => Err(Refused::new(rejection.status(), rejection.body_text())),
        }
    }
}
