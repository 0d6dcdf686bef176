//! Where it is served: on loopback to anybody, beyond it to whoever has a token, and better with TLS.

use axum::Router;
use axum_server::Handle;
use axum_server::tls_rustls::RustlsConfig;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

/// How long a client may take for the head of a request.
const HEAD: Duration = Duration::from_secs(10);
/// How long requests may take to end when the server does.
const LAST: Duration = Duration::from_secs(5);

/// The certificate of a server and its key, as PEM.
#[derive(Debug, Clone)]
pub struct Tls {
    /// The file of the certificate, with those that sign it.
    pub certificate: PathBuf,
    /// The file of its key.
    pub key: PathBuf,
}

/// Why nothing can be served.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address cannot be had.
    #[error("{0}: {1}")]
    Address(SocketAddr, std::io::Error),
    /// Anybody could ask.
    #[error("{0} can be reached by other machines: serve at 127.0.0.1 or ::1, or give --token-file")]
    Open(SocketAddr),
    /// The certificate or its key cannot be used.
    #[error("certificate {0} with key {1}: {2}")]
    Certificate(PathBuf, PathBuf, std::io::Error),
}

/// A place to serve at.
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    tls: Option<RustlsConfig>,
}

impl Listener {
    /// Takes an address. One that other machines can reach needs a token.
    pub async fn bind(address: SocketAddr, tls: Option<Tls>, has_token: bool) -> Result<Self, ListenError> {
        if !address.ip().is_loopback() && !has_token {
            return Err(ListenError::Open(address));
        }
        let failed = |error| ListenError::Address(address, error);
        let socket = TcpListener::bind(address).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        let tls = match tls {
            None => None,
            Some(tls) => {
                // Another part of the program may have said so before.
                let _ = rustls::crypto::ring::default_provider().install_default();
                let config = RustlsConfig::from_pem_file(&tls.certificate, &tls.key).await;
                Some(config.map_err(|error| ListenError::Certificate(tls.certificate, tls.key, error))?)
            }
        };
        Ok(Self { socket, address, tls })
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("{}://{}", if self.tls.is_some() { "https" } else { "http" }, self.address)
    }

    /// Serves until `stop` is done; then requests under way are answered.
    pub async fn serve(self, router: Router, stop: impl Future<Output = ()> + Send + 'static) -> std::io::Result<()> {
        let handle = Handle::new();
        let ending = handle.clone();
        tokio::spawn(async move {
            stop.await;
            ending.graceful_shutdown(Some(LAST));
        });
        let service = router.into_make_service_with_connect_info::<SocketAddr>();
        match self.tls {
            Some(tls) => {
                let mut server = axum_server::from_tcp_rustls(self.socket, tls)?.handle(handle);
                server.http_builder().http1().timer(hyper_util::rt::TokioTimer::new()).header_read_timeout(HEAD);
                server.serve(service).await
            }
            None => {
                let mut server = axum_server::from_tcp(self.socket)?.handle(handle);
                server.http_builder().http1().timer(hyper_util::rt::TokioTimer::new()).header_read_timeout(HEAD);
                server.serve(service).await
            }
        }
    }
}
