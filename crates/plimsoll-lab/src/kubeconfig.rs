//! Who talks to a lab's API server, and the kubeconfig files they do it with.

use crate::LabError;
use crate::pki::{Authority, Identity};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Someone a lab has a kubeconfig for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    /// May do everything.
    Admin,
    /// kube-controller-manager.
    ControllerManager,
    /// kube-scheduler, with exactly the rights that Kubernetes gives it.
    KubeScheduler,
    /// Plimsoll as a scheduler: what kube-scheduler may do, and its own leases.
    Plimsoll,
    /// kwok.
    Kwok,
}

impl User {
    pub(crate) const ALL: [Self; 5] =
        [Self::Admin, Self::ControllerManager, Self::KubeScheduler, Self::Plimsoll, Self::Kwok];

    /// As the API server knows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::ControllerManager => "system:kube-controller-manager",
            Self::KubeScheduler => "system:kube-scheduler",
            Self::Plimsoll => "plimsoll",
            Self::Kwok => "kwok",
        }
    }

    fn group(self) -> Option<&'static str> {
        (self == Self::Admin).then_some("system:masters")
    }

    /// Its kubeconfig in the folder of a lab.
    pub fn file(self, folder: &Path) -> PathBuf {
        folder.join(format!("{}.kubeconfig", self.name().trim_start_matches("system:")))
    }

    /// What its kubeconfig says.
    pub(crate) fn kubeconfig(self, authority: &Authority, port: u16) -> Result<Value, LabError> {
        let Identity { certificate, key } = authority.client(self.name(), self.group())?;
        Ok(json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "lab", "cluster": {
                "server": format!("https://127.0.0.1:{port}"),
                "certificate-authority-data": STANDARD.encode(authority.pem()),
            }}],
            "users": [{"name": self.name(), "user": {
                "client-certificate-data": STANDARD.encode(certificate),
                "client-key-data": STANDARD.encode(key),
            }}],
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": self.name()}}],
            "current-context": "lab",
        }))
    }
}

/// A kubeconfig for a server that asks nobody who they are.
pub fn without_identity(server: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "lab", "cluster": {"server": server}}],
        "users": [{"name": "anyone", "user": {}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "anyone"}}],
        "current-context": "lab",
    })
}

/// The settings of a client for the cluster of a kubeconfig file.
pub async fn config(file: &Path) -> Result<kube::Config, LabError> {
    let fail = |error: kube::config::KubeconfigError| LabError::Kubeconfig {
        file: file.to_path_buf(),
        why: error.to_string(),
    };
    let read = Kubeconfig::read_from(file).map_err(fail)?;
    kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.map_err(fail)
}

/// A client for the cluster of a kubeconfig file.
pub async fn client(file: &Path) -> Result<kube::Client, LabError> {
    client_of(config(file).await?, file)
}

/// A client that asks another server with the identity of a kubeconfig file.
pub async fn client_for_port(file: &Path, port: u16) -> Result<kube::Client, LabError> {
    let mut config = config(file).await?;
    config.cluster_url = format!("https://127.0.0.1:{port}").parse().map_err(|error: http::uri::InvalidUri| {
        LabError::Kubeconfig { file: file.to_path_buf(), why: error.to_string() }
    })?;
    client_of(config, file)
}

fn client_of(config: kube::Config, file: &Path) -> Result<kube::Client, LabError> {
    // Where several could do the cryptography, rustls leaves the choice to the program; one that was made before is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    kube::Client::try_from(config)
        .map_err(|error| LabError::Kubeconfig { file: file.to_path_buf(), why: error.to_string() })
}
