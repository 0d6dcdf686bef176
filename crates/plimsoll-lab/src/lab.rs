//! A lab: started, held, asked and ended.

use crate::component::{self, Files};
use crate::folder::{self, Folder};
use crate::process::{self, Invocation, Leash, ProcessId, Running};
use crate::state::{Component, State};
use crate::telemetry::{self, Exporters, listens};
use crate::wait::{Outcome, is_server_ready, until_ready};
use crate::{Binaries, LabError, Options, User, kubeconfig, nodes, rbac};
use k8s_openapi::api::core::v1::{Namespace, Node, ServiceAccount};
use kube::Client;
use kube::api::{Api, ListParams, PostParams};
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

/// How often a component is started anew because somebody else had its port first.
const PORT_ATTEMPTS: usize = 5;
/// How long the nodes may take to get ready, beside what each of them costs.
const NODES_PATIENCE: Duration = Duration::from_secs(60);
/// What a node may cost: more than ten times what it does.
const NODE_PATIENCE: Duration = Duration::from_millis(20);

/// A running control plane with its nodes. Dropped, it is gone: processes and folder, also after a panic. One that was started detached
/// stays.
#[derive(Debug)]
pub struct Lab {
    components: Vec<Running>,
    /// Components end with this process, however it ends.
    leash: Option<Leash>,
    state: State,
    folder: Folder,
    keep: bool,
}

impl Lab {
    /// Starts a lab that lives as long as the returned value, and returns when it is ready.
    pub async fn start(options: Options) -> Result<Self, LabError> {
        Self::start_held(options, Some(Leash::new()?)).await
    }

    /// Starts a lab that stays until [`down`], and returns when it is ready.
    pub async fn start_detached(options: Options) -> Result<Self, LabError> {
        let mut lab = Self::start_held(options, None).await?;
        lab.keep = true;
        Ok(lab)
    }

    async fn start_held(options: Options, leash: Option<Leash>) -> Result<Self, LabError> {
        component::check_scheduler(&options.scheduler)?;
        if options.telemetry {
            Exporters::find()?;
        }
        let binaries = match &options.binaries {
            Some(binaries) => binaries.clone(),
            None => Binaries::find()?,
        };
        let folder = Folder::take(options.folder.as_deref())?;
        let state = State {
            folder: folder.path().to_path_buf(),
            kubeconfig: User::Admin.file(folder.path()),
            scheduler: options.scheduler.name().to_string(),
            nodes: options.nodes,
            components: Vec::new(),
        };
        let mut lab = Self { components: Vec::new(), leash, state, folder, keep: false };
        // Whatever fails from here on ends what was started: the lab is dropped. Its logs are quoted in the error.
        lab.bring_up(&options, &binaries).await?;
        Ok(lab)
    }

    async fn bring_up(&mut self, options: &Options, binaries: &Binaries) -> Result<(), LabError> {
        let files = Files::write(&self.folder)?;
        self.launch(component::etcd(&self.folder, binaries))?;
        let socket = self.folder.etcd_socket();
        let connect = || async { tokio::net::UnixStream::connect(&socket).await.map(drop).map_err(|e| e.to_string()) };
        until_ready(self.running(component::ETCD)?, connect).await?;

        self.launch_apiserver(options, binaries, &files).await?;
        let admin = self.client(User::Admin).await?;
        // These do not wait for each other, and the nodes are created while they start.
        if !options.bare {
            self.launch(component::controller_manager(&self.folder, binaries, &files, options))?;
        }
        rbac::grant(&admin).await?;
        if !options.bare {
            let serves = options.telemetry.then(component::free_port);
            self.launch(component::kwok(&self.folder, binaries, options, serves)?)?;
            if let Some(kwok) = serves {
                self.launch_telemetry(kwok).await?;
            }
        }
        if let Some(invocation) = component::scheduler(&self.folder, binaries, &files, options, self.prometheus())? {
            self.launch(invocation)?;
        }
        nodes::create_nodes(&admin, 0, options.nodes, &options.shapes).await?;
        if !options.bare {
            let ask = || has_default_account(&admin, "default");
            until_ready(self.running(component::CONTROLLER_MANAGER)?, ask).await?;
        }
        self.await_scheduler(options, binaries, &files).await?;
        let patience = NODES_PATIENCE + NODE_PATIENCE * u32::try_from(options.nodes).unwrap_or(u32::MAX);
        if options.nodes > 0 {
            nodes::wait_for_nodes(&admin, options.nodes, patience).await?;
        }
        self.check_alive()
    }

    async fn launch_apiserver(
        &mut self,
        options: &Options,
        binaries: &Binaries,
        files: &Files,
    ) -> Result<(), LabError> {
        for _ in 0..PORT_ATTEMPTS {
            let port = component::free_port();
            files.write_kubeconfigs(&self.folder, port)?;
            self.launch(component::apiserver(&self.folder, binaries, files, options, port))?;
            let client = self.client(User::Admin).await?;
            match until_ready(self.running(component::API_SERVER)?, || is_server_ready(&client)).await? {
                Outcome::Ready => return Ok(()),
                Outcome::PortTaken => self.forget(component::API_SERVER),
            }
        }
        Err(self.no_port(component::API_SERVER))
    }

    /// Starts Prometheus and what it reads, before the scheduler, which may want to ask it.
    async fn launch_telemetry(&mut self, kwok: u16) -> Result<(), LabError> {
        let exporters = Exporters::find()?;
        until_ready(self.running(component::KWOK)?, || listens(kwok)).await?;
        let exporter = self.launch_listening(exporters.node_exporter()).await?;
        self.launch_listening(exporters.prometheus(&self.folder, exporter, kwok)?).await.map(drop)
    }

    /// Starts what listens on a port, and waits until it does; the port.
    async fn launch_listening(&mut self, invocation: Invocation) -> Result<u16, LabError> {
        let (name, port) = (invocation.name.clone(), invocation.port.unwrap_or_default());
        self.launch(invocation)?;
        match until_ready(self.running(&name)?, || listens(port)).await? {
            Outcome::Ready => Ok(port),
            Outcome::PortTaken => Err(self.no_port(&name)),
        }
    }

    /// The URL of the lab's Prometheus, if it has one.
    pub fn prometheus(&self) -> Option<String> {
        let prometheus = self.state.components.iter().find(|component| component.name == telemetry::PROMETHEUS);
        prometheus.and_then(|component| component.port).map(|port| format!("http://127.0.0.1:{port}"))
    }

    /// Waits until the scheduler is ready. Only the stock one says so; ours is asked for its own readiness once it can be.
    async fn await_scheduler(&mut self, options: &Options, binaries: &Binaries, files: &Files) -> Result<(), LabError> {
        let name = options.scheduler.name();
        for _ in 0..PORT_ATTEMPTS {
            let Ok(running) = self.running(name) else { return Ok(()) };
            let Some(port) = running.invocation.port else { return Ok(()) };
            let client = kubeconfig::client_for_port(&self.kubeconfig(User::Admin), port).await?;
            match until_ready(self.running(name)?, || is_server_ready(&client)).await? {
                Outcome::Ready => return Ok(()),
                Outcome::PortTaken => {
                    self.forget(name);
                    if let Some(invocation) =
                        component::scheduler(&self.folder, binaries, files, options, self.prometheus())?
                    {
                        self.launch(invocation)?;
                    }
                }
            }
        }
        Err(self.no_port(name))
    }

    fn no_port(&self, name: &str) -> LabError {
        let why = format!("{name} found no free port in {PORT_ATTEMPTS} attempts; try again");
        LabError::Folder { folder: self.folder.path().to_path_buf(), why }
    }

    /// Starts a component and writes it down at once, so that it can be ended whatever happens.
    fn launch(&mut self, invocation: Invocation) -> Result<(), LabError> {
        let running = Running::start(invocation, self.folder.path(), self.leash.as_ref())?;
        self.components.push(running);
        self.write_state()
    }

    fn forget(&mut self, name: &str) {
        self.components.retain(|running| running.invocation.name != name);
    }

    fn write_state(&mut self) -> Result<(), LabError> {
        let components = self.components.iter().map(|running| Component {
            name: running.invocation.name.clone(),
            process: running.id,
            port: running.invocation.port,
            log: running.log.clone(),
        });
        self.state.components = components.collect();
        self.state.write()
    }

    /// Fails with the end of its log where a component has ended that was not killed.
    pub fn check_alive(&mut self) -> Result<(), LabError> {
        for running in &mut self.components {
            if let Some(status) = running.exit() {
                return Err(running.death(status));
            }
        }
        Ok(())
    }

    fn running(&mut self, name: &str) -> Result<&mut Running, LabError> {
        let known = || self.components.iter().map(|running| running.invocation.name.as_str()).collect::<Vec<_>>();
        match self.components.iter().position(|running| running.invocation.name == name) {
            Some(at) => Ok(&mut self.components[at]),
            None => Err(LabError::NoComponent { name: name.to_string(), known: known().join(", ") }),
        }
    }

    /// What runs where.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The folder of the lab, with logs, certificates and kubeconfigs.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The kubeconfig file of a user.
    pub fn kubeconfig(&self, user: User) -> PathBuf {
        user.file(self.folder.path())
    }

    /// A client that is a user.
    pub async fn client(&self, user: User) -> Result<Client, LabError> {
        kubeconfig::client(&self.kubeconfig(user)).await
    }

    /// A client for a component that serves on a port of its own, such as the metrics of kube-scheduler, with all rights.
    pub async fn client_of_component(&self, name: &str) -> Result<Client, LabError> {
        let components = &self.state.components;
        let port = components.iter().find(|component| component.name == name).and_then(|component| component.port);
        match port {
            Some(port) => kubeconfig::client_for_port(&self.kubeconfig(User::Admin), port).await,
            None => {
                let known = components.iter().filter(|c| c.port.is_some()).map(|c| c.name.as_str()).collect::<Vec<_>>();
                Err(LabError::NoComponent { name: format!("{name} with a port"), known: known.join(", ") })
            }
        }
    }

    /// Creates a namespace and waits until pods can be created in it.
    pub async fn create_namespace(&mut self, name: &str) -> Result<(), LabError> {
        let admin = self.client(User::Admin).await?;
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.to_string());
        let api: Api<Namespace> = Api::all(admin.clone());
        let create = api.create(&PostParams::default(), &namespace).await;
        create.map_err(LabError::api(format!("create namespace {name}")))?;
        let ask = || has_default_account(&admin, name);
        until_ready(self.running(component::CONTROLLER_MANAGER)?, ask).await.map(drop)
    }

    /// Starts a further program under a name of its own, such as one more scheduler. It ends with the lab, and what is done to components
    /// can be done to it.
    pub fn start_program(&mut self, name: &str, program: &Path, arguments: &[String]) -> Result<(), LabError> {
        self.forget(name);
        let (program, arguments) = (program.to_path_buf(), arguments.to_vec());
        self.launch(Invocation { name: name.to_string(), program, arguments, port: None })
    }

    /// Asks a component to end (SIGTERM).
    pub fn terminate(&mut self, component: &str) -> Result<(), LabError> {
        self.running(component)?.id.signal(Signal::TERM);
        Ok(())
    }

    /// How a component ended, if it did.
    pub fn exit_status(&mut self, component: &str) -> Result<Option<ExitStatus>, LabError> {
        Ok(self.running(component)?.exit())
    }

    /// What a component has said so far.
    pub fn log(&mut self, component: &str) -> Result<String, LabError> {
        let log = self.running(component)?.log.clone();
        std::fs::read_to_string(&log).map_err(LabError::io(format!("read {}", log.display())))
    }

    /// The process of a component.
    pub fn process(&mut self, component: &str) -> Result<ProcessId, LabError> {
        Ok(self.running(component)?.id)
    }

    /// Kills a component with SIGKILL, as a crash would end it.
    pub fn kill(&mut self, component: &str) -> Result<(), LabError> {
        self.running(component)?.kill();
        Ok(())
    }

    /// Stops a component without ending it (SIGSTOP): it neither works nor answers until [`Lab::resume`].
    pub fn pause(&mut self, component: &str) -> Result<(), LabError> {
        self.running(component)?.id.signal(Signal::STOP);
        Ok(())
    }

    /// Lets a paused component go on.
    pub fn resume(&mut self, component: &str) -> Result<(), LabError> {
        self.running(component)?.id.signal(Signal::CONT);
        Ok(())
    }

    /// Starts a component again as it was started first, after killing it where it still runs. It does not wait until it is ready.
    pub fn restart(&mut self, component: &str) -> Result<(), LabError> {
        self.running(component)?.kill();
        let at = self.components.iter().position(|running| running.invocation.name == component);
        if let Some(at) = at {
            let invocation = self.components[at].invocation.clone();
            self.components[at] = Running::start(invocation, self.folder.path(), self.leash.as_ref())?;
        }
        self.write_state()
    }

    /// Waits until the API server says that it is ready.
    pub async fn wait_for_apiserver(&mut self) -> Result<(), LabError> {
        let client = self.client(User::Admin).await?;
        until_ready(self.running(component::API_SERVER)?, || is_server_ready(&client)).await.map(drop)
    }

    /// Keeps the folder with its logs when the lab ends, for a look at what went wrong.
    pub fn end_and_keep_folder(mut self) -> PathBuf {
        self.end();
        self.keep = true;
        self.folder.path().to_path_buf()
    }

    fn end(&mut self) {
        // The last one first: a scheduler does not get to complain about a missing API server.
        for running in self.components.iter_mut().rev() {
            running.kill();
        }
        self.leash = None;
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if self.keep {
            return;
        }
        self.end();
        // There is nobody to tell; the folder is one for temporary files, or the user's.
        let _ = folder::remove(self.folder.path());
    }
}

/// Whether a namespace has the account without which no pod is admitted.
async fn has_default_account(client: &Client, namespace: &str) -> Result<(), String> {
    let api: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    match api.get_opt("default").await {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(format!("namespace {namespace} has no service account yet")),
        Err(error) => Err(error.to_string()),
    }
}

/// How a component is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComponentStatus {
    /// What the state file says.
    pub component: Component,
    /// Whether it runs.
    pub alive: bool,
}

/// How a lab is.
#[derive(Debug)]
pub struct Status {
    /// What the state file says.
    pub state: State,
    /// Its components, in the order in which they were started.
    pub components: Vec<ComponentStatus>,
    /// How many nodes there are and how many of them are ready, or why the API server did not say.
    pub nodes: Result<(usize, usize), String>,
}

impl Status {
    /// Whether everything runs and every node is ready.
    pub fn is_well(&self) -> bool {
        self.components.iter().all(|component| component.alive)
            && self.nodes.as_ref().is_ok_and(|(all, ready)| all == ready)
    }
}

/// Says how the lab in a folder is.
pub async fn status(folder: &Path) -> Result<Status, LabError> {
    let state = State::read(folder)?;
    let components = state
        .components
        .iter()
        .map(|component| ComponentStatus { component: component.clone(), alive: component.process.is_alive() });
    let nodes = tokio::time::timeout(Duration::from_secs(10), count_nodes(&state.kubeconfig));
    let nodes = nodes.await.unwrap_or_else(|_| Err("no answer within 10 s".to_string()));
    Ok(Status { components: components.collect(), nodes, state })
}

async fn count_nodes(file: &Path) -> Result<(usize, usize), String> {
    let client = kubeconfig::client(file).await.map_err(|error| error.to_string())?;
    let list = Api::<Node>::all(client).list(&ListParams::default()).await.map_err(|error| error.to_string())?;
    Ok((list.items.len(), list.items.iter().filter(|node| nodes::is_ready(node)).count()))
}

/// Ends the lab in a folder, also one whose components have partly ended or whose start was cut short, and removes its files unless they are
/// to be kept. Returns how many processes were ended.
pub fn down(folder: &Path, keep_files: bool) -> Result<usize, LabError> {
    let folder = folder.canonicalize().map_err(|_| LabError::NotThere(folder.to_path_buf()))?;
    let known = State::read(&folder);
    let mut processes: Vec<ProcessId> = process::lab_processes_in(&folder);
    let components = known.as_ref().map(|state| state.components.as_slice()).unwrap_or_default();
    processes.extend(components.iter().map(|component| component.process).filter(|process| process.is_alive()));
    processes.sort_unstable_by_key(|process| process.pid);
    processes.dedup();
    if processes.is_empty()
        && let Err(error) = known
    {
        return Err(error);
    }
    process::kill_all(&processes);
    if !keep_files {
        folder::remove(&folder)?;
    }
    Ok(processes.len())
}
