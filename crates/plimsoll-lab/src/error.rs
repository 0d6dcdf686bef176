//! What can go wrong with a lab, and what can be done about it.

use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why a lab could not be started, asked or ended.
#[derive(Debug, Error)]
pub enum LabError {
    /// The programs of the control plane are not there.
    #[error(
        "the control plane is not built: there is no {missing} (looked in {looked}); build it with `make lab`, or name the folder with \
         {variable}",
        variable = crate::BINARIES_VARIABLE
    )]
    NotBuilt {
        /// The program that was looked for.
        missing: String,
        /// Where it was looked for.
        looked: String,
    },
    /// Prometheus or the node exporter are not there.
    #[error(
        "there is no {missing} (looked in {looked}); fetch it with `make telemetry`, or name the folder with {variable}",
        variable = crate::TELEMETRY_VARIABLE
    )]
    NoTelemetry {
        /// The program that was looked for.
        missing: &'static str,
        /// Where it was looked for.
        looked: String,
    },
    /// A file or a process could not be handled.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// The folder cannot hold a lab.
    #[error("{} cannot hold a lab: {why}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Why, and what to do.
        why: String,
    },
    /// A lab is there already.
    #[error("a lab is already running in {}: end it with `plimsoll lab down`, or take another folder with --dir", .0.display())]
    AlreadyRunning(PathBuf),
    /// No lab is there.
    #[error("there is no lab in {}: start one with `plimsoll lab up`", .0.display())]
    NotThere(PathBuf),
    /// A state file cannot be understood.
    #[error("{} is not the state of a lab: {why}", file.display())]
    State {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A component ended that should be running.
    #[error("{component} ended ({status}); the end of {}:\n{tail}", log.display())]
    Died {
        /// Its name.
        component: String,
        /// Its exit status.
        status: String,
        /// Its log.
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
    },
    /// A component did not get ready.
    #[error("{component} was not ready after {seconds} s ({last}); the end of {}:\n{tail}", log.display())]
    NotReady {
        /// Its name.
        component: String,
        /// How long it was waited for.
        seconds: u64,
        /// What it answered last.
        last: String,
        /// Its log.
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
    },
    /// Nodes were created and did not become ready.
    #[error(
        "{ready} of {wanted} nodes were ready after {seconds} s; kwok.log and kube-controller-manager.log may say why"
    )]
    NodesNotReady {
        /// How many are ready.
        ready: usize,
        /// How many there should be.
        wanted: usize,
        /// How long it was waited for.
        seconds: u64,
    },
    /// A certificate could not be made.
    #[error("cannot make the certificate of {name}: {source}")]
    Certificate {
        /// Whose it is.
        name: String,
        /// Why it failed.
        source: rcgen::Error,
    },
    /// The API server refused, or could not be asked.
    #[error("cannot {what}: {source}")]
    Api {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: Box<kube::Error>,
    },
    /// A kubeconfig could not be used.
    #[error("cannot use {}: {why}", file.display())]
    Kubeconfig {
        /// The file.
        file: PathBuf,
        /// Why not.
        why: String,
    },
    /// A shape of nodes cannot be understood.
    #[error("the shape {shape:?} is not understood: {why}")]
    Shape {
        /// As it was given.
        shape: String,
        /// What is wrong with it.
        why: String,
    },
    /// More nodes than there are addresses for.
    #[error("{0} nodes are more than a lab has addresses for (65,536)")]
    TooManyNodes(usize),
    /// A scheduler was asked for that cannot be started.
    #[error("the scheduler {program} cannot be started: {why}; take --scheduler stock or --scheduler none")]
    NoScheduler {
        /// The program.
        program: String,
        /// Why not.
        why: String,
    },
    /// A component was asked for that this lab does not have.
    #[error("this lab has no component {name}; it has {known}")]
    NoComponent {
        /// As it was given.
        name: String,
        /// Those it has.
        known: String,
    },
}

impl LabError {
    /// For `map_err` on file and process operations.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    /// For `map_err` on calls of the API.
    pub(crate) fn api(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let what = what.into();
        move |source| Self::Api { what, source: Box::new(source) }
    }
}
