//! Who asks, as the API server knows them: it says whose token it is, and what they may do.
//!
//! What may be done here is a right like any other of the cluster: `get` of the URL [`PATH`] is to read, `update` to change things, too.

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use rustc_hash::FxHashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The URL that rights are about; nothing is there.
pub const PATH: &str = "/plimsoll";
/// How long an answer holds: so long a right that was taken away still counts.
const HOLDS: Duration = Duration::from_secs(30);
/// Tokens that are remembered.
const REMEMBERED: usize = 1000;

/// What somebody may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum May {
    /// Nothing.
    Nothing,
    /// Read.
    Read,
    /// Change things, too.
    Change,
}

/// Asks the API server.
pub struct Reviewer {
    client: Client,
    known: Mutex<FxHashMap<String, (Instant, May)>>,
}

impl Reviewer {
    /// One that asks through this client, which must be allowed to create token reviews and subject access reviews.
    pub fn new(client: Client) -> Self {
        Self { client, known: Mutex::default() }
    }

    /// What who has this token may do. Where the API server does not answer, nothing.
    pub async fn may(&self, token: &str) -> May {
        let known = |(since, may): &(Instant, May)| (since.elapsed() < HOLDS).then_some(*may);
        let found = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(token).and_then(known);
        if let Some(may) = found {
            return may;
        }
        let may = match self.ask(token).await {
            Ok(may) => may,
            Err(error) => {
                tracing::warn!(%error, "the API server does not say who asks");
                return May::Nothing;
            }
        };
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= REMEMBERED {
            all.retain(|_, entry| known(entry).is_some());
        }
        if all.len() < REMEMBERED {
            all.insert(token.to_owned(), (Instant::now(), may));
        }
        may
    }

    async fn ask(&self, token: &str) -> Result<May, kube::Error> {
        let reviews: Api<TokenReview> = Api::all(self.client.clone());
        let spec = TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() };
        let asked = TokenReview { spec, ..TokenReview::default() };
        let status = reviews.create(&PostParams::default(), &asked).await?.status.unwrap_or_default();
        let Some(user) = status.user.filter(|_| status.authenticated == Some(true)) else { return Ok(May::Nothing) };
        if self.is_allowed(&user, "update").await? {
            return Ok(May::Change);
        }
        Ok(if self.is_allowed(&user, "get").await? { May::Read } else { May::Nothing })
    }

    async fn is_allowed(&self, user: &UserInfo, verb: &str) -> Result<bool, kube::Error> {
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let about = NonResourceAttributes { path: Some(PATH.to_owned()), verb: Some(verb.to_owned()) };
        let asked = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: user.username.clone(),
                groups: user.groups.clone(),
                uid: user.uid.clone(),
                extra: user.extra.clone(),
                non_resource_attributes: Some(about),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        Ok(reviews.create(&PostParams::default(), &asked).await?.status.is_some_and(|status| status.allowed))
    }
}
