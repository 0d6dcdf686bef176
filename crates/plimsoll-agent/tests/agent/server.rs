//! A server on a port of its own, in this process or as the program itself.

use crate::client::Client;
use plimsoll_agent::app::{App, AppLimits};
use plimsoll_agent::config::Config;
use plimsoll_agent::energy::Sampler;
use plimsoll_agent::http::{Agent, Token, serve};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

/// A folder of its own, removed in the end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("plimsoll-agent-it-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Waits for something that must come; a minute without it is a test that would hang.
pub fn until<T>(mut found: impl FnMut() -> Option<T>) -> T {
    for _ in 0..6_000 {
        if let Some(found) = found() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("what was waited for did not come");
}

/// A server in this process.
pub struct Server {
    pub client: Client,
    pub folder: Folder,
    end: Option<oneshot::Sender<()>>,
    runtime: Option<Runtime>,
    _sampler: Option<Sampler>,
}

impl Server {
    /// The agent with a configuration, in which `FOLDER` stands for a folder of its own.
    pub fn agent(config: &str, token: Option<&str>) -> Self {
        let folder = Folder::new();
        let text = config.replace("FOLDER", &folder.0.display().to_string());
        let agent = Agent::new(&Config::parse(&text).unwrap()).unwrap();
        let sampler = Sampler::start(Arc::clone(&agent.energy)).unwrap();
        let read = token.map(|token| Token::read(&folder.write("token", token)).unwrap());
        let mut server = Self::start(agent.router(read), folder, Some(sampler));
        server.client.token = token.map(str::to_owned);
        let latency = Arc::clone(&agent.latency);
        server.runtime.as_ref().unwrap().spawn(latency.run());
        server
    }

    /// The service for experiments.
    pub fn app(limits: AppLimits) -> Self {
        let folder = Folder::new();
        let router = App::new(limits, folder.0.clone()).router();
        Self::start(router, folder, None)
    }

    fn start(router: axum::Router, folder: Folder, sampler: Option<Sampler>) -> Self {
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let client = Client::new(listener.local_addr().unwrap());
        let (end, ended) = oneshot::channel();
        runtime.spawn(async move {
            serve(listener, router, async { drop(ended.await) }).await;
        });
        Self { client, folder, end: Some(end), runtime: Some(runtime), _sampler: sampler }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The program itself; it is ended with the test.
pub struct Program(pub Child);

impl Program {
    /// Starts it, and returns where it listens.
    pub fn start(args: &[&str]) -> (Self, Client) {
        let mut child = command(args).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let program = Self(child);
        let address = lines.by_ref().map(Result::unwrap).find_map(|line| {
            let (_, address) = line.split_once("listening on ")?;
            Some(address.trim().parse().unwrap())
        });
        // A pipe that nobody reads would stop it in the end.
        std::thread::spawn(move || lines.for_each(drop));
        (program, Client::new(address.expect("the program ended before it listened")))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The program with arguments.
pub fn command(args: &[&str]) -> Command {
    let mut command = Command::new(Path::new(env!("CARGO_BIN_EXE_plimsoll-agent")));
    command.args(args).env_remove("RUST_LOG").stdout(Stdio::null());
    command
}
