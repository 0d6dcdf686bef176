//! A real Kubernetes control plane on loopback: etcd, kube-apiserver, kube-controller-manager, a scheduler, and kwok, which plays the
//! kubelets of nodes that are not there. Everything is real but the containers: pods reach Running and Succeeded, leases are kept, RBAC
//! is on.
//!
//! [`Lab::start`] gives a lab that ends with the value that holds it, for tests; [`Lab::start_detached`] leaves one running that
//! [`down`] ends, for people. Each lab lives in a folder of its own, so that any number of them run side by side.
#![cfg(target_os = "linux")]

mod binaries;
mod component;
mod error;
mod folder;
mod kubeconfig;
mod lab;
mod nodes;
mod options;
mod pki;
mod process;
mod proxy;
mod rbac;
mod shape;
mod state;
mod telemetry;
mod wait;

pub use binaries::{BINARIES_VARIABLE, Binaries};
pub use error::LabError;
pub use folder::default_folder;
pub use kubeconfig::User;
pub use lab::{ComponentStatus, Lab, Status, down, status};
pub use nodes::{create_nodes, is_ready, wait_for_nodes};
pub use options::{Options, Scheduler};
pub use process::ProcessId;
pub use proxy::{Line, Proxy, Rates};
pub use shape::Shape;
pub use state::{Component, State};
pub use telemetry::{Exporters, TELEMETRY_VARIABLE};
