//! The TCP connections of this network namespace, of any program, by `SOCK_DIAG` (sock_diag(7)).

mod message;
mod socket;

use std::net::{IpAddr, SocketAddr};

pub use message::{Malformed, Replies, Reply, request_all, request_one};
pub use socket::{Diag, DiagError};

use crate::Sample;

/// State of a connection, as the kernel numbers it (`include/net/tcp_states.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct State(pub u8);

impl State {
    /// `ESTABLISHED`.
    pub const ESTABLISHED: Self = Self(1);

    /// `SYN_SENT`.
    pub const SYN_SENT: Self = Self(2);

    /// `SYN_RECV`.
    pub const SYN_RECV: Self = Self(3);

    /// `TIME_WAIT`.
    pub const TIME_WAIT: Self = Self(6);

    /// `CLOSE`.
    pub const CLOSE: Self = Self(7);

    /// `LISTEN`.
    pub const LISTEN: Self = Self(10);

    /// Names by number, those of ss(8).
    pub const NAMES: [&'static str; 14] = [
        "unknown",
        "established",
        "syn-sent",
        "syn-recv",
        "fin-wait-1",
        "fin-wait-2",
        "time-wait",
        "close",
        "close-wait",
        "last-ack",
        "listen",
        "closing",
        "new-syn-recv",
        "bound-inactive",
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES.get(usize::from(self.0)).copied().unwrap_or("unknown")
    }
}

/// One exact connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id {
    /// This end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// The interface that it is bound to, or 0.
    pub interface: u32,
    /// Distinguishes it from a later one between the same ends.
    pub cookie: u64,
}

impl Id {
    /// Any cookie.
    pub const ANY_COOKIE: u64 = u64::MAX;

    /// An end in its usual form: an IPv4 address mapped into IPv6 is shown as IPv4.
    #[must_use]
    pub fn plain(end: SocketAddr) -> (IpAddr, u16) {
        (end.ip().to_canonical(), end.port())
    }
}

/// A connection, as the kernel describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Which one.
    pub id: Id,
    /// Its state.
    pub state: State,
    /// The user that owns it.
    pub uid: u32,
    /// Its number in `/proc/PID/fd`; 0 if no process has it.
    pub inode: u32,
    /// The congestion control; empty if the kernel does not report it.
    pub congestion: String,
    /// All numbers.
    pub sample: Sample,
}
