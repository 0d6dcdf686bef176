//! Who may ask what is served: tokens and certificates.

use anyhow::{Context, Result, ensure};
use kube::Client;
use plimsoll_kube::review::Reviewer;
use plimsoll_kube::rights::{self, Right};
use plimsoll_server::{App, Listener, Tls, Token, router};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use tokio::sync::watch;

/// Threads that answer who asks.
const THREADS: usize = 2;
/// How far they step back for decisions.
#[cfg(target_os = "linux")]
const YIELD: i32 = 10;

/// Who may ask.
#[derive(Debug, clap::Args)]
pub struct Access {
    /// A file with a token that whoever asks must send; needed where other machines can reach the address
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// A file with a token for those who may read and ask for advice, but change nothing
    #[arg(long, value_name = "FILE")]
    viewer_token_file: Option<PathBuf>,
    /// Let in whose token the API server knows: they may read with the right to `get` the URL /plimsoll, and change things with that to `update` it
    #[arg(long)]
    token_review: bool,
    /// A certificate, with those that sign it, as PEM: it is served by TLS
    #[arg(long, value_name = "FILE", requires = "tls_key_file")]
    tls_cert_file: Option<PathBuf>,
    /// The key of the certificate, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_key_file: Option<PathBuf>,
}

impl Access {
    /// Takes an address; one that other machines can reach is refused where a token is needed and nobody has one.
    pub async fn listen(&self, address: SocketAddr, needs_token: bool) -> Result<Listener> {
        let tls = self.tls_cert_file.clone().zip(self.tls_key_file.clone());
        let tls = tls.map(|(certificate, key)| Tls { certificate, key });
        Ok(Listener::bind(address, tls, self.has_token() || !needs_token).await?)
    }

    /// What the API server has to allow for this.
    pub fn rights(&self) -> Vec<Right> {
        if self.token_review { rights::to_review() } else { Vec::new() }
    }

    /// Gives the tokens to what is served.
    pub fn guard(&self, app: &mut App, client: Option<&Client>) -> Result<()> {
        ensure!(
            client.is_some() || !self.token_review,
            "--token-review: there is no API server here that could be asked"
        );
        app.reviewer = client.filter(|_| self.token_review).cloned().map(Reviewer::new);
        app.token = token("--token-file", self.token_file.as_deref())?;
        app.viewer_token = token("--viewer-token-file", self.viewer_token_file.as_deref())?;
        Ok(())
    }

    fn has_token(&self) -> bool {
        self.token_file.is_some() || self.viewer_token_file.is_some() || self.token_review
    }

    /// Serves at an address until a signal; where. Where other machines can reach it and nobody has a token, health and metrics alone are served.
    pub async fn serve(
        &self,
        address: &str,
        mut app: App,
        client: Option<&Client>,
        mut stop: watch::Receiver<bool>,
    ) -> Result<String> {
        let address: SocketAddr =
            address.parse().with_context(|| format!("--listen {address}: not an address and port"))?;
        let listener = self.listen(address, false).await?;
        self.guard(&mut app, client)?;
        app.figures_only = !address.ip().is_loopback() && !self.has_token();
        let url = listener.url();
        let served = async move { listener.serve(router(app), async move { drop(stop.changed().await) }).await };
        beside(served).context("the API cannot be served")?;
        Ok(url)
    }
}

/// Runs a server on threads of its own, for which decisions need not wait: where both want a core, decisions have it.
fn beside(server: impl Future<Output = std::io::Result<()>> + Send + 'static) -> std::io::Result<()> {
    let yielding = || {
        // On Linux it is the thread that steps back. Where that is not allowed it is served as usual.
        #[cfg(target_os = "linux")]
        let _ = rustix::process::nice(YIELD);
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("api")
        .on_thread_start(yielding)
        .enable_all()
        .build()?;
    let work = std::thread::Builder::new().name("api-main".to_owned());
    work.spawn(move || {
        if let Err(error) = runtime.block_on(runtime.spawn(server)).map_err(std::io::Error::other).flatten() {
            tracing::error!(%error, "the API is not served any more");
        }
    })?;
    Ok(())
}

fn token(option: &str, file: Option<&Path>) -> Result<Option<Token>> {
    let read = |file: &Path| Token::read(file).with_context(|| format!("{option} {}", file.display()));
    file.map(read).transpose()
}
