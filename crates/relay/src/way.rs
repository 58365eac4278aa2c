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

/// What redirects connections, and knows where they were to go.
pub enum Redirecting {
    Bpf(Redirect),
    Seccomp(Supervisor),
}

impl Redirecting {
    /// Where the connection that comes from `from` was to go; once. `None`: it was not redirected.
    pub fn take(&mut self, from: SocketAddr) -> Option<SocketAddr> {
        match self {
            Self::Bpf(redirect) => redirect.take(from),
            Self::Seccomp(supervisor) => supervisor.take(from),
        }
    }

    /// To poll; -1: nothing.
    pub fn fd(&self) -> RawFd {
        match self {
            Self::Bpf(_) => -1,
            Self::Seccomp(supervisor) => supervisor.fd(),
        }
    }

    /// Does what poll() calls for; false where it is not to be polled any more.
    pub fn serve(&mut self, events: libc::c_short) -> bool {
        match self {
            Self::Seccomp(supervisor) if events & libc::POLLIN != 0 => supervisor.answer(),
            _ => return events & (libc::POLLHUP | libc::POLLNVAL) == 0,
        }
        true
    }
}
