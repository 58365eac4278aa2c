//! Why there was no transfer.

use std::io;
use std::net::SocketAddr;

use thiserror::Error;

use crate::bulk::line::LineError;
use crate::option::OptionError;

/// Why there was no transfer, or why it ended early.
#[derive(Debug, Error)]
pub enum ClientError {
    /// No such host.
    #[error("the host {host} is not known")]
    Resolve {
        /// Its name.
        host: String,
        /// Why.
        source: io::Error,
    },
    /// Nothing answers.
    #[error("cannot connect to {to}")]
    Connect {
        /// The last address that was tried.
        to: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The local end cannot be used.
    #[error("the local end {local} cannot be used")]
    Local {
        /// The local end.
        local: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// A socket option.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// Something answers that is not a Weir server.
    #[error("{to} does not answer as a Weir server does")]
    NotWeir {
        /// Its address.
        to: SocketAddr,
        /// How it answers.
        source: LineError,
    },
    /// A token is needed, and none was given.
    #[error("the server wants a token, and none was given")]
    TokenNeeded,
    /// The server that is to be the client wants a token, and none was given.
    #[error("{host}, which is to be the client, wants a token, and none was given")]
    ViaTokenNeeded {
        /// Its name.
        host: String,
    },
    /// The server refuses, or no longer accepts.
    #[error("the server refuses: {0}")]
    Refused(String),
    /// The server that is to be the client refuses, or no longer accepts.
    #[error("{host}, which is to be the client, says: {why}")]
    ViaRefused {
        /// Its name.
        host: String,
        /// Why.
        why: String,
    },
    /// It is gone.
    #[error("the server went away after {:.1} s: {why}", *.after_ns as f64 / 1e9)]
    Lost {
        /// What was noticed.
        why: String,
        /// Since the start.
        after_ns: u64,
    },
    /// It sent what it must not send.
    #[error("the server breaks the protocol: {0}")]
    Protocol(String),
    /// A system error in this host.
    #[error("{what}")]
    System {
        /// What failed.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
}

pub(super) fn system(what: &'static str) -> impl FnOnce(io::Error) -> ClientError {
    move |source| ClientError::System { what, source }
}
