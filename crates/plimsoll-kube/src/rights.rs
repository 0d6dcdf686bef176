//! What a scheduler must be allowed to do, and what of it the API server does not grant.

use futures_util::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use std::fmt;

/// One thing that a scheduler has to be allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Right {
    verb: &'static str,
    group: &'static str,
    /// With the subresource, as in `pods/binding`.
    resource: &'static str,
    /// In one namespace, or in all.
    namespace: Option<String>,
    /// Of one object, or of all.
    name: Option<String>,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        if let Some(name) = &self.name {
            write!(f, " {name}")?;
        }
        match &self.namespace {
            Some(namespace) => write!(f, " in namespace {namespace}"),
            None => Ok(()),
        }
    }
}

/// What is watched: by group, each in its version `v1`.
pub const WATCHED: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "pods",
            "nodes",
            "namespaces",
            "services",
            "replicationcontrollers",
            "persistentvolumes",
            "persistentvolumeclaims",
        ],
    ),
    ("apps", &["replicasets", "statefulsets"]),
    ("policy", &["poddisruptionbudgets"]),
    ("storage.k8s.io", &["storageclasses", "csinodes", "csidrivers", "csistoragecapacities", "volumeattachments"]),
    ("resource.k8s.io", &["resourceslices", "resourceclaims", "deviceclasses"]),
];

/// What is written.
const WRITE: &[(&str, &str, &[&str])] = &[
    ("", "pods/binding", &["create"]),
    ("", "pods/status", &["patch"]),
    ("", "pods", &["get", "delete"]),
    ("", "persistentvolumes", &["patch"]),
    ("", "persistentvolumeclaims", &["patch"]),
    ("events.k8s.io", "events", &["create", "patch"]),
    ("resource.k8s.io", "resourceclaims", &["update", "patch"]),
    ("resource.k8s.io", "resourceclaims/status", &["update", "patch"]),
];

/// The minor version of Kubernetes 1 from which on pods have devices by extended resources, and `resourceclaims/binding` is asked for.
const EXTENDED: u32 = 36;

/// What is written for extended resources. From that version on `system:kube-scheduler` grants it.
const WRITE_EXTENDED: (&str, &str, &[&str]) = ("resource.k8s.io", "resourceclaims", &["create", "delete"]);

/// No endpoint: from that version on it is asked for when a status allocates or reserves.
const WRITE_BINDING: (&str, &str, &[&str]) = ("resource.k8s.io", "resourceclaims/binding", &["update", "patch"]);

/// What one who only watches has to be allowed.
pub fn to_read() -> Vec<Right> {
    let each = |group: &'static str, resource: &'static str, verb| everywhere(verb, group, resource);
    let pairs = WATCHED.iter().flat_map(|(group, resources)| resources.iter().map(move |resource| (*group, *resource)));
    pairs.flat_map(|(group, resource)| ["list", "watch"].map(|verb| each(group, resource, verb))).collect()
}

/// What one who watches, and binds where another says, has to be allowed.
pub fn to_bind() -> Vec<Right> {
    let bind = [("pods/binding", "create"), ("pods", "get")];
    let bind = bind.map(|(resource, verb)| everywhere(verb, "", resource));
    to_read().into_iter().chain(bind).collect()
}

/// What one who asks the API server who asks has to be allowed.
pub fn to_review() -> Vec<Right> {
    vec![
        everywhere("create", "authentication.k8s.io", "tokenreviews"),
        everywhere("create", "authorization.k8s.io", "subjectaccessreviews"),
    ]
}

fn everywhere(verb: &'static str, group: &'static str, resource: &'static str) -> Right {
    Right { verb, group, resource, namespace: None, name: None }
}

/// What is of use to one who schedules, and older servers do not grant with their roles.
pub fn of_use(minor: u32) -> Vec<Right> {
    let (group, resource, verbs) = WRITE_EXTENDED;
    let wanted = verbs.iter().filter(|_| minor < EXTENDED);
    wanted.map(|verb| everywhere(verb, group, resource)).collect()
}

/// What one who schedules has to be allowed by an API server of this minor version; with the namespace and the name of its lease, if there
/// is one.
pub fn to_schedule(lease: Option<(&str, &str)>, minor: u32) -> Vec<Right> {
    let mut rights = to_read();
    let newer = [WRITE_EXTENDED, WRITE_BINDING];
    for (group, resource, verbs) in WRITE.iter().chain(newer.iter().filter(|_| minor >= EXTENDED)) {
        rights.extend(verbs.iter().map(|verb| everywhere(verb, group, resource)));
    }
    if let Some((namespace, name)) = lease {
        rights.extend(["get", "create", "update"].map(|verb| Right {
            namespace: Some(namespace.to_owned()),
            // What is created has no name yet, as far as rights go.
            name: (verb != "create").then(|| name.to_owned()),
            ..everywhere(verb, "coordination.k8s.io", "leases")
        }));
    }
    rights
}

/// Questions that are asked at a time.
const AT_A_TIME: usize = 16;

/// Those of the rights that the API server does not grant, in their order.
pub async fn missing(client: &Client, rights: Vec<Right>) -> Result<Vec<Right>, kube::Error> {
    let api: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let answers = stream::iter(rights).map(|right| {
        let api = &api;
        async move {
            let asked = SelfSubjectAccessReview { spec: question(&right), ..SelfSubjectAccessReview::default() };
            let answer = api.create(&PostParams::default(), &asked).await?;
            let allowed = answer.status.is_some_and(|status| status.allowed);
            Ok::<_, kube::Error>((!allowed).then_some(right))
        }
    });
    let answers: Vec<_> = answers.buffered(AT_A_TIME).try_collect().await?;
    Ok(answers.into_iter().flatten().collect())
}

fn question(right: &Right) -> SelfSubjectAccessReviewSpec {
    let (resource, subresource) = match right.resource.split_once('/') {
        Some((resource, sub)) => (resource, Some(sub.to_owned())),
        None => (right.resource, None),
    };
    SelfSubjectAccessReviewSpec {
        resource_attributes: Some(ResourceAttributes {
            verb: Some(right.verb.to_owned()),
            group: Some(right.group.to_owned()),
            resource: Some(resource.to_owned()),
            subresource,
            namespace: right.namespace.clone(),
            name: right.name.clone(),
            ..ResourceAttributes::default()
        }),
        ..SelfSubjectAccessReviewSpec::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_read_as_kubectl_would_have_them() {
        let words: Vec<_> =
            to_schedule(Some(("kube-system", "plimsoll")), 36).iter().map(ToString::to_string).collect();
        for right in [
            "watch pods",
            "create pods/binding",
            "list csinodes.storage.k8s.io",
            "create leases.coordination.k8s.io in namespace kube-system",
            "update leases.coordination.k8s.io plimsoll in namespace kube-system",
        ] {
            assert!(words.iter().any(|word| word == right), "{right} is not among {words:?}");
        }
        let older: Vec<_> = to_schedule(None, 35).iter().map(ToString::to_string).collect();
        for (right, minor) in [
            ("create resourceclaims.resource.k8s.io", 36),
            ("delete resourceclaims.resource.k8s.io", 36),
            ("patch resourceclaims/binding.resource.k8s.io", 36),
            ("patch resourceclaims/status.resource.k8s.io", 34),
        ] {
            assert!(words.iter().any(|word| word == right), "{right} is not among {words:?}");
            assert_eq!(older.iter().any(|word| word == right), minor < 36, "{right} on 1.35");
        }
        assert_eq!((of_use(34).len(), of_use(36).len()), (2, 0));
        assert!(to_read().iter().all(|right| ["list", "watch"].contains(&right.verb)));
    }
}
