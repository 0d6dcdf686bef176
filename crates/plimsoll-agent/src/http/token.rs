//! The secret that callers must know where the agent listens to others than this machine.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use subtle::ConstantTimeEq;
use thiserror::Error;

/// Fewer characters can be guessed.
const SHORTEST: usize = 16;

/// Why the agent does not start to listen.
#[derive(Debug, Error)]
pub enum TokenError {
    /// The file cannot be read.
    #[error("cannot read the token file {}: {source}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The file holds no token.
    #[error(
        "the token file {} must hold one line of at least {SHORTEST} printable characters, as `openssl rand -hex 32` makes one",
        .0.display()
    )]
    Unfit(PathBuf),
    /// Others could reach it, and everybody could use it.
    #[error("{0} is not a loopback address: give --token-file, or listen on 127.0.0.1")]
    Missing(SocketAddr),
}

/// A bearer token; it is shown nowhere.
#[derive(Clone)]
pub struct Token(Vec<u8>);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// Reads a file of one line.
    pub fn read(file: &Path) -> Result<Self, TokenError> {
        let text =
            std::fs::read_to_string(file).map_err(|source| TokenError::Unreadable { file: file.to_owned(), source })?;
        let token = text.trim_end_matches(['\r', '\n']);
        let fits = token.len() >= SHORTEST && token.bytes().all(|b| b.is_ascii_graphic());
        if fits { Ok(Self(token.as_bytes().to_vec())) } else { Err(TokenError::Unfit(file.to_owned())) }
    }

    /// Whether the value of an `Authorization` header is this token; how long it takes says nothing of how near it is.
    pub fn accepts(&self, header: &[u8]) -> bool {
        let Some((scheme, given)) = header.split_at_checked("Bearer ".len()) else { return false };
        scheme.eq_ignore_ascii_case(b"Bearer ") && bool::from(given.ct_eq(&self.0))
    }
}

/// Whether the agent may listen there.
pub fn may_listen(address: SocketAddr, token: Option<&Token>) -> Result<(), TokenError> {
    if address.ip().to_canonical().is_loopback() || token.is_some() {
        Ok(())
    } else {
        Err(TokenError::Missing(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_is_accepted() {
        let token = Token(b"0123456789abcdef".to_vec());
        for (header, expected) in [
            ("Bearer 0123456789abcdef", true),
            ("bearer 0123456789abcdef", true),
            ("Bearer 0123456789abcdeX", false),
            ("Bearer 0123456789abcde", false),
            ("Bearer 0123456789abcdef0", false),
            ("Bearer ", false),
            ("Basic 0123456789abcdef", false),
            ("0123456789abcdef", false),
            ("", false),
        ] {
            assert_eq!(token.accepts(header.as_bytes()), expected, "{header:?}");
        }
    }

    #[test]
    fn a_token_is_never_shown() {
        assert_eq!(format!("{:?}", Token(b"0123456789abcdef".to_vec())), "Token");
    }

    #[test]
    fn beyond_loopback_a_token_is_required() {
        let token = Token(vec![b'x'; SHORTEST]);
        for (address, free) in [
            ("127.0.0.1:1", true),
            ("[::1]:1", true),
            ("[::ffff:127.0.0.1]:1", true),
            ("0.0.0.0:1", false),
            ("[::]:1", false),
        ] {
            let address = address.parse().unwrap();
            assert_eq!(may_listen(address, None).is_ok(), free, "{address}");
            assert!(may_listen(address, Some(&token)).is_ok());
        }
    }

    #[test]
    fn a_file_without_a_token_is_refused() {
        let file = std::env::temp_dir().join(format!("plimsoll-agent-token-{}", std::process::id()));
        for text in ["", "\n", "short\n", "has a space in it 123\n", "0123456789abcdef\n0123456789abcdef\n"] {
            std::fs::write(&file, text).unwrap();
            let error = Token::read(&file).unwrap_err();
            assert!(matches!(error, TokenError::Unfit(_)), "{text:?}");
            assert!(text.trim().is_empty() || !error.to_string().contains(text.trim()), "the error shows the token");
        }
        std::fs::write(&file, "0123456789abcdef\n").unwrap();
        assert!(Token::read(&file).unwrap().accepts(b"Bearer 0123456789abcdef"));
        std::fs::remove_file(&file).unwrap();
        assert!(matches!(Token::read(&file), Err(TokenError::Unreadable { .. })));
    }
}
