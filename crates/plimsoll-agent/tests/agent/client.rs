//! A caller that speaks just enough HTTP.

use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// What came back.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: String,
    pub body: String,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The words of an error, which must be JSON.
    pub fn error(&self) -> String {
        self.json()["error"].as_str().unwrap_or_else(|| panic!("no error in {self:?}")).to_owned()
    }

    /// This reply, if it has the status that is expected.
    pub fn with(self, status: u16) -> Self {
        assert_eq!(self.status, status, "expected {status}, and got {self:?}");
        self
    }
}

/// Calls one server, with a token or without.
#[derive(Debug, Clone)]
pub struct Client {
    pub address: SocketAddr,
    pub token: Option<String>,
}

impl Client {
    pub fn new(address: SocketAddr) -> Self {
        Self { address, token: None }
    }

    pub fn get(&self, path: &str) -> Reply {
        self.send("GET", path, None)
    }

    pub fn delete(&self, path: &str) -> Reply {
        self.send("DELETE", path, None)
    }

    pub fn post(&self, path: &str, body: &Value) -> Reply {
        self.send("POST", path, Some(&body.to_string()))
    }

    pub fn put(&self, path: &str, body: &Value) -> Reply {
        self.send("PUT", path, Some(&body.to_string()))
    }

    pub fn send(&self, method: &str, path: &str, body: Option<&str>) -> Reply {
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n", self.address);
        if let Some(token) = &self.token {
            head += &format!("authorization: Bearer {token}\r\n");
        }
        if let Some(body) = body {
            head += &format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
        }
        self.raw(&format!("{head}\r\n{}", body.unwrap_or_default()))
    }

    /// Sends a text as it is.
    pub fn raw(&self, text: &str) -> Reply {
        let mut stream = TcpStream::connect(self.address).unwrap();
        // A server that refuses early may close before all is sent; its answer still counts.
        let _ = stream.write_all(text.as_bytes());
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let answer = String::from_utf8_lossy(&bytes);
        let (headers, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
        let status = headers.split(' ').nth(1).and_then(|status| status.parse().ok());
        Reply { status: status.expect("a status"), headers: headers.to_ascii_lowercase(), body: body.to_owned() }
    }
}
