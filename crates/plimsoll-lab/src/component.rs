//! The components of a lab, one function each: with which arguments they run.

use crate::folder::Folder;
use crate::pki::{Authority, service_account_keys};
use crate::process::Invocation;
use crate::telemetry::USAGE;
use crate::{Binaries, LabError, Options, Scheduler, User};
use serde_json::{Value, json};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

pub const ETCD: &str = "etcd";
pub const API_SERVER: &str = "kube-apiserver";
pub const CONTROLLER_MANAGER: &str = "kube-controller-manager";
pub const KWOK: &str = "kwok";

/// kwok's configuration: which nodes and pods it plays, and how.
const KWOK_STAGES: &str = include_str!("kwok.yaml");
/// Requests a second that no client of the lab comes near: what is measured is never our own throttling.
const UNTHROTTLED: u32 = 10_000;
/// How much longer than its lease lasts a node may be silent before it counts as lost: kubelets have 40 s and 50 s.
const GRACE_SECONDS: u32 = 10;
/// How many changes kwok makes at a time.
const KWOK_PARALLELISM: u32 = 16;

/// The files that the components find in the lab's folder.
pub struct Files {
    authority: Authority,
    ca: String,
    front_proxy_ca: String,
    certificate: String,
    key: String,
    account_key: String,
    account_public_key: String,
}

impl Files {
    /// Makes the certificates and keys of a lab.
    pub fn write(folder: &Folder) -> Result<Self, LabError> {
        let authority = Authority::new()?;
        let server = authority.server()?;
        let (private, public) = service_account_keys()?;
        Ok(Self {
            ca: folder.write("pki/ca.crt", authority.pem())?,
            // Components that ask the API server whom to trust insist on this one. It signs nothing.
            front_proxy_ca: folder.write("pki/front-proxy-ca.crt", Authority::new()?.pem())?,
            certificate: folder.write("pki/server.crt", server.certificate)?,
            key: folder.write("pki/server.key", server.key)?,
            account_key: folder.write("pki/service-accounts.key", private)?,
            account_public_key: folder.write("pki/service-accounts.pub", public)?,
            authority,
        })
    }

    /// Writes the kubeconfig of every user, for an API server on this port.
    pub fn write_kubeconfigs(&self, folder: &Folder, port: u16) -> Result<(), LabError> {
        for user in User::ALL {
            let content = user.kubeconfig(&self.authority, port)?;
            let file = user.file(Path::new(""));
            folder.write(&file.display().to_string(), format!("{content:#}\n"))?;
        }
        Ok(())
    }
}

/// A port on loopback that nobody listens on. It lies below those the kernel gives to outgoing connections, and where somebody takes it
/// before its component does, another one is tried.
pub fn free_port() -> u16 {
    const FIRST: u32 = 20_000;
    const COUNT: u32 = 12_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Labs of other processes begin elsewhere, so that they rarely try the same port.
    let offset = std::process::id().wrapping_mul(97);
    loop {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = u16::try_from(FIRST + offset.wrapping_add(step) % COUNT).unwrap_or(u16::MAX);
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}

fn invocation(binaries: &Binaries, name: &str, port: Option<u16>, arguments: Vec<String>) -> Invocation {
    Invocation { name: name.to_string(), program: binaries.program(name), arguments, port }
}

/// The store: on a socket in the lab's folder, so that no other lab's API server ever reaches it.
pub fn etcd(folder: &Folder, binaries: &Binaries) -> Invocation {
    let arguments = vec![
        "--name=lab".to_string(),
        format!("--data-dir={}", folder.join("etcd")),
        format!("--listen-client-urls=unix://{}", folder.etcd_socket().display()),
        // It takes no socket here; nobody asks for it.
        "--advertise-client-urls=http://127.0.0.1:0".to_string(),
        // There are no peers.
        "--listen-peer-urls=http://127.0.0.1:0".to_string(),
        // What a lab holds need not survive a power cut.
        "--unsafe-no-fsync".to_string(),
        // A single member need not wait long for others to stand for election.
        "--heartbeat-interval=10".to_string(),
        "--election-timeout=100".to_string(),
        "--quota-backend-bytes=8589934592".to_string(),
        "--log-level=warn".to_string(),
    ];
    invocation(binaries, ETCD, None, arguments)
}

/// The API server.
pub fn apiserver(folder: &Folder, binaries: &Binaries, files: &Files, options: &Options, port: u16) -> Invocation {
    let mut arguments = vec![
        format!("--etcd-servers=unix://{}", folder.etcd_socket().display()),
        "--bind-address=127.0.0.1".to_string(),
        format!("--secure-port={port}"),
        // Endpoints may not be on loopback, and nothing in a lab reaches the API server through its service.
        "--advertise-address=127.0.0.1".to_string(),
        "--endpoint-reconciler-type=none".to_string(),
        format!("--client-ca-file={}", files.ca),
        format!("--requestheader-client-ca-file={}", files.front_proxy_ca),
        "--requestheader-username-headers=X-Remote-User".to_string(),
        "--requestheader-group-headers=X-Remote-Group".to_string(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_string(),
        format!("--tls-cert-file={}", files.certificate),
        format!("--tls-private-key-file={}", files.key),
        "--authorization-mode=Node,RBAC".to_string(),
        "--service-account-issuer=https://kubernetes.default.svc".to_string(),
        format!("--service-account-signing-key-file={}", files.account_key),
        format!("--service-account-key-file={}", files.account_public_key),
        // Apart from the addresses of nodes and pods.
        "--service-cluster-ip-range=192.168.0.0/16".to_string(),
        "--allow-privileged=true".to_string(),
        // All clients are treated alike, whatever their name.
        "--enable-priority-and-fairness=false".to_string(),
        format!("--max-requests-inflight={UNTHROTTLED}"),
        format!("--max-mutating-requests-inflight={UNTHROTTLED}"),
    ];
    if options.bare {
        // Nobody makes the accounts that pods need, or takes away the taint that new nodes get.
        arguments.push("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition".to_string());
    }
    arguments.extend(feature_gates(options));
    if !options.runtime_config.is_empty() {
        arguments.push(format!("--runtime-config={}", options.runtime_config.join(",")));
    }
    arguments.extend(options.apiserver_arguments.iter().cloned());
    invocation(binaries, API_SERVER, Some(port), arguments)
}

/// The controllers: deployments, jobs, node lifecycle and all the others.
pub fn controller_manager(folder: &Folder, binaries: &Binaries, files: &Files, options: &Options) -> Invocation {
    let mut arguments = vec![
        format!("--kubeconfig={}", User::ControllerManager.file(folder.path()).display()),
        // It serves nobody, so that it needs no port.
        "--secure-port=0".to_string(),
        "--leader-elect=false".to_string(),
        // With RBAC, each controller has its own account and its own rights.
        "--use-service-account-credentials=true".to_string(),
        format!("--service-account-private-key-file={}", files.account_key),
        format!("--root-ca-file={}", files.ca),
        format!("--kube-api-qps={UNTHROTTLED}"),
        format!("--kube-api-burst={UNTHROTTLED}"),
        // It would write to every node whenever their number passes a mark, for kubelets that are not there.
        "--controllers=*,-ttl-controller".to_string(),
        "--concurrent-deployment-syncs=16".to_string(),
        "--concurrent-replicaset-syncs=16".to_string(),
        "--concurrent-job-syncs=16".to_string(),
        format!("--node-monitor-grace-period={}s", options.lease_seconds() + GRACE_SECONDS),
    ];
    arguments.extend(feature_gates(options));
    invocation(binaries, CONTROLLER_MANAGER, None, arguments)
}

/// The kubelets of all nodes.
pub fn kwok(
    folder: &Folder,
    binaries: &Binaries,
    options: &Options,
    serves: Option<u16>,
) -> Result<Invocation, LabError> {
    let settings = json!({
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokConfiguration",
        "options": {
            "manageAllNodes": true,
            "nodeLeaseDurationSeconds": options.lease_seconds(),
            "nodeLeaseParallelism": KWOK_PARALLELISM,
            "nodePlayStageParallelism": KWOK_PARALLELISM,
            "podPlayStageParallelism": KWOK_PARALLELISM,
        },
    });
    let usage = serves.map(|_| format!("---\n{USAGE}")).unwrap_or_default();
    let config = folder.write("kwok.yaml", format!("{settings}\n---\n{KWOK_STAGES}{usage}"))?;
    let mut arguments = vec![
        format!("--kubeconfig={}", User::Kwok.file(folder.path()).display()),
        format!("--config={config}"),
        "--manage-all-nodes=true".to_string(),
    ];
    arguments.extend(serves.map(|port| format!("--server-address=127.0.0.1:{port}")));
    Ok(invocation(binaries, KWOK, serves, arguments))
}

/// The scheduler, if there is to be one.
pub fn scheduler(
    folder: &Folder,
    binaries: &Binaries,
    files: &Files,
    options: &Options,
    prometheus: Option<String>,
) -> Result<Option<Invocation>, LabError> {
    match &options.scheduler {
        Scheduler::None => Ok(None),
        Scheduler::Stock { config, program } => {
            let port = free_port();
            let config = folder.write("scheduler.json", stock_config(folder, config.as_deref())?.to_string())?;
            let kubeconfig = User::KubeScheduler.file(folder.path()).display().to_string();
            let mut arguments = vec![
                format!("--config={config}"),
                "--bind-address=127.0.0.1".to_string(),
                format!("--secure-port={port}"),
                format!("--tls-cert-file={}", files.certificate),
                format!("--tls-private-key-file={}", files.key),
                format!("--authentication-kubeconfig={kubeconfig}"),
                format!("--authorization-kubeconfig={kubeconfig}"),
            ];
            arguments.extend(feature_gates(options));
            let name = options.scheduler.name();
            let program = program.clone().unwrap_or_else(|| binaries.program(name));
            Ok(Some(Invocation { name: name.to_string(), program, arguments, port: Some(port) }))
        }
        Scheduler::Plimsoll { program, arguments } => {
            check_runs(program)?;
            let kubeconfig = User::Plimsoll.file(folder.path()).display().to_string();
            let mut all = vec!["run".to_string(), "--kubeconfig".to_string(), kubeconfig];
            all.extend(prometheus.into_iter().flat_map(|url| ["--prometheus".to_string(), url]));
            all.extend(arguments.iter().cloned());
            let name = options.scheduler.name().to_string();
            Ok(Some(Invocation { name, program: program.clone(), arguments: all, port: None }))
        }
    }
}

/// The stock scheduler's configuration: the given one, connected to this lab and without throttling.
fn stock_config(folder: &Folder, given: Option<&Path>) -> Result<Value, LabError> {
    let mut config = match given {
        None => json!({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}),
        Some(file) => {
            let text = std::fs::read_to_string(file).map_err(LabError::io(format!("read {}", file.display())))?;
            serde_saphyr::from_str::<Value>(&text).map_err(|error| LabError::NoScheduler {
                program: "kube-scheduler".to_string(),
                why: format!("{} is not a configuration: {error}", file.display()),
            })?
        }
    };
    config["clientConnection"] = json!({
        "kubeconfig": User::KubeScheduler.file(folder.path()).display().to_string(),
        "qps": UNTHROTTLED,
        "burst": UNTHROTTLED,
    });
    config["leaderElection"] = json!({"leaderElect": false});
    Ok(config)
}

/// Whether this program can schedule at all, before anything is started.
pub fn check_scheduler(scheduler: &Scheduler) -> Result<(), LabError> {
    match scheduler {
        Scheduler::Plimsoll { program, .. } => check_runs(program),
        Scheduler::Stock { program: Some(program), .. } if !program.is_file() => Err(LabError::NoScheduler {
            program: program.display().to_string(),
            why: "there is no such program; `make plugin` builds one".to_string(),
        }),
        Scheduler::None | Scheduler::Stock { .. } => Ok(()),
    }
}

fn check_runs(program: &Path) -> Result<(), LabError> {
    let refuse = |why: String| LabError::NoScheduler { program: program.display().to_string(), why };
    let output = Command::new(program).args(["run", "--help"]).output().map_err(|error| refuse(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(refuse("this build of plimsoll has no command `run`".to_string()))
}

fn feature_gates(options: &Options) -> Option<String> {
    let gates = &options.feature_gates;
    (!gates.is_empty()).then(|| format!("--feature-gates={}", gates.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_given_once() {
        let ports: Vec<u16> = (0..20).map(|_| free_port()).collect();
        let mut distinct = ports.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), ports.len(), "{ports:?}");
    }

    #[test]
    fn a_program_that_has_no_run_is_refused_with_a_word_about_it() {
        let scheduler = Scheduler::Plimsoll { program: "/bin/false".into(), arguments: Vec::new() };
        let error = check_scheduler(&scheduler).unwrap_err().to_string();
        assert!(error.contains("no command `run`"), "{error}");
    }
}
