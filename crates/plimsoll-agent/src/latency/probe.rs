//! One round trip to an address that was checked before: by TCP, by HTTP, or by ICMP where the kernel lets everybody send echoes.

use super::endpoint::{Endpoint, Method};
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

/// How much of an answer is read in search of its first line.
const LONGEST_LINE: usize = 1024;

/// Why there was no round trip.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// Nothing came in time.
    #[error("no answer from {address} within {} ms", timeout.as_millis())]
    Timeout {
        /// Who was asked.
        address: SocketAddr,
        /// How long it was waited for.
        timeout: Duration,
    },
    /// The connection failed.
    #[error("cannot reach {address}: {source}")]
    Unreachable {
        /// Who was asked.
        address: SocketAddr,
        /// Why it failed.
        source: io::Error,
    },
    /// The answer is not HTTP.
    #[error("{address} does not answer in HTTP")]
    NotHttp {
        /// Who was asked.
        address: SocketAddr,
    },
    /// The kernel does not let this process send echoes.
    #[error(
        "ICMP echo is not permitted to this process: its group is outside net.ipv4.ping_group_range; widen that, or measure by tcp or http"
    )]
    NotPermitted,
}

/// Measures one round trip.
pub async fn probe(endpoint: &Endpoint, address: SocketAddr, timeout: Duration) -> Result<Duration, ProbeError> {
    let measured = async {
        match endpoint.method {
            Method::Tcp => tcp(address).await,
            Method::Http => http(endpoint, address).await,
            Method::Icmp => icmp(address).await,
        }
    };
    tokio::time::timeout(timeout, measured).await.unwrap_or(Err(ProbeError::Timeout { address, timeout }))
}

fn unreachable(address: SocketAddr) -> impl Fn(io::Error) -> ProbeError {
    move |source| ProbeError::Unreachable { address, source }
}

async fn tcp(address: SocketAddr) -> Result<Duration, ProbeError> {
    let start = Instant::now();
    TcpStream::connect(address).await.map_err(unreachable(address))?;
    Ok(start.elapsed())
}

async fn http(endpoint: &Endpoint, address: SocketAddr) -> Result<Duration, ProbeError> {
    let (status, took) = request("HEAD", endpoint, address).await?;
    match status {
        405 | 501 => Ok(request("GET", endpoint, address).await?.1),
        _ => Ok(took),
    }
}

/// Any status is an answer; redirects are not followed, for they may lead anywhere.
async fn request(verb: &str, endpoint: &Endpoint, address: SocketAddr) -> Result<(u16, Duration), ProbeError> {
    let mut stream = TcpStream::connect(address).await.map_err(unreachable(address))?;
    stream.set_nodelay(true).map_err(unreachable(address))?;
    let (path, port) = (&endpoint.path, endpoint.port);
    let host = if endpoint.host.contains(':') { format!("[{}]", endpoint.host) } else { endpoint.host.clone() };
    let text = format!(
        "{verb} {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUser-Agent: plimsoll-agent\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    );
    let start = Instant::now();
    stream.write_all(text.as_bytes()).await.map_err(unreachable(address))?;
    let mut line = Vec::new();
    let mut took = None;
    while line.len() < LONGEST_LINE && !line.contains(&b'\n') {
        let read = stream.read_buf(&mut line).await.map_err(unreachable(address))?;
        took.get_or_insert(start.elapsed());
        if read == 0 {
            break;
        }
    }
    let status = status(&line).ok_or(ProbeError::NotHttp { address })?;
    Ok((status, took.unwrap_or_else(|| start.elapsed())))
}

fn status(answer: &[u8]) -> Option<u16> {
    let line = std::str::from_utf8(answer.split(|b| *b == b'\n').next()?).ok()?;
    line.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.trim().parse().ok()
}

/// An echo over a datagram socket, which needs no privilege where `net.ipv4.ping_group_range` holds the process's group.
async fn icmp(address: SocketAddr) -> Result<Duration, ProbeError> {
    let open = || -> io::Result<UdpSocket> {
        let (domain, protocol) = match address {
            SocketAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4),
            SocketAddr::V6(_) => (Domain::IPV6, Protocol::ICMPV6),
        };
        let socket = Socket::new(domain, Type::DGRAM, Some(protocol))?;
        socket.set_nonblocking(true)?;
        UdpSocket::from_std(socket.into())
    };
    let socket = open().map_err(|source| match source.kind() {
        io::ErrorKind::PermissionDenied => ProbeError::NotPermitted,
        _ => ProbeError::Unreachable { address, source },
    })?;
    socket.connect(address).await.map_err(unreachable(address))?;
    let sent = echo(address.is_ipv6());
    let start = Instant::now();
    socket.send(&sent).await.map_err(unreachable(address))?;
    let mut received = [0; 64];
    loop {
        let length = socket.recv(&mut received).await.map_err(unreachable(address))?;
        if is_reply(&sent, &received[..length]) {
            return Ok(start.elapsed());
        }
    }
}

/// An echo request; the kernel fills in its checksum and its identifier, by which it finds the socket again.
fn echo(v6: bool) -> [u8; 16] {
    let kind = if v6 { 128 } else { 8 };
    let mut packet = [0; 16];
    packet[0] = kind;
    packet[7] = 1;
    packet[8..].copy_from_slice(b"plimsoll");
    packet
}

/// Whether a packet answers an echo: of the kind reply, with the same sequence number and payload.
fn is_reply(sent: &[u8; 16], received: &[u8]) -> bool {
    let kind = if sent[0] == 128 { 129 } else { 0 };
    received.first() == Some(&kind) && received.get(6..) == Some(&sent[6..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_has_the_sequence_and_payload_of_its_echo() {
        for (v6, kind) in [(false, 0), (true, 129)] {
            let sent = echo(v6);
            let mut reply = sent;
            reply[0] = kind;
            reply[2..6].copy_from_slice(&[1, 2, 3, 4]);
            assert!(is_reply(&sent, &reply));
            assert!(!is_reply(&sent, &sent), "an echo is not its own reply");
            reply[7] = 2;
            assert!(!is_reply(&sent, &reply), "the reply to another echo");
            assert!(!is_reply(&sent, &reply[..7]));
            assert!(!is_reply(&sent, &[]));
        }
    }

    #[test]
    fn the_status_is_read_from_the_first_line() {
        assert_eq!(status(b"HTTP/1.1 204 No Content\r\nX: y\r\n"), Some(204));
        assert_eq!(status(b"HTTP/1.0 405\r\n"), Some(405));
        for text in ["", "SSH-2.0-x\r\n", "HTTP/1.1\r\n", "HTTP/1.1 abc\r\n"] {
            assert_eq!(status(text.as_bytes()), None, "{text:?}");
        }
    }
}
