//! `plimsoll run` on the real control plane: etcd, kube-apiserver, kube-controller-manager and kwok, with kube-scheduler beside it
//! where the two are compared. Where the control plane is not built (`make lab`), these tests say so and pass.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "the harness is test code, too")]

mod adviser;
mod beside;
mod cluster;
mod clusters;
mod devices;
mod filters;
mod input;
mod leaders;
mod learning;
mod outage;
mod pods;
mod preemption;
mod profiles;
mod scores;
mod sides;
mod tools;
mod volumes;
mod workloads;
