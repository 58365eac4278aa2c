//! The two ways in which connections of programs are redirected to the relay.

use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, RawFd};

use crate::redirect::Redirect;
use crate::seccomp::{Supervisor, Watched};

/// Whose connections are redirected, and how.
#[derive(Debug)]
pub enum Way<'a> {
    /// Of the programs in this control group, by BPF programs.
    Bpf(BorrowedFd<'a>),
    /// Of the programs under this seccomp filter.
    Seccomp(Watched),
}

/// Redirects connections, and knows their original destinations.
pub enum Redirecting {
    Bpf(Redirect),
    Seccomp(Supervisor),
}

impl Redirecting {
    /// The original destination of the connection that comes from `from`; once. `None`: it was not redirected.
    pub fn take(&mut self, from: SocketAddr) -> Option<SocketAddr> {
        match self {
            Self::Bpf(redirect) => redirect.take(from),
            Self::Seccomp(supervisor) => supervisor.take(from),
        }
    }

    /// The descriptor to poll; -1: none.
    pub fn fd(&self) -> RawFd {
        match self {
            Self::Bpf(_) => -1,
            Self::Seccomp(supervisor) => supervisor.fd(),
        }
    }

    /// Handles what poll() reported; false if it is no longer to be polled.
    pub fn serve(&mut self, events: libc::c_short) -> bool {
        match self {
            Self::Seccomp(supervisor) if events & libc::POLLIN != 0 => supervisor.answer(),
            _ => return events & (libc::POLLHUP | libc::POLLNVAL) == 0,
        }
        true
    }
}
