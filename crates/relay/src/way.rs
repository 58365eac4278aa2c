//! The two ways in which connections of programs are redirected to the relay.

use std::os::fd::{BorrowedFd, RawFd};

use crate::held::Held;
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

/// Redirects connections to the relay, where they are held.
pub enum Redirecting {
    Bpf(Box<Redirect>),
    Seccomp(Supervisor),
}

impl Redirecting {
    /// The next connection that is held.
    pub fn next(&mut self) -> Option<Held> {
        match self {
            Self::Bpf(redirect) => redirect.next(),
            Self::Seccomp(supervisor) => supervisor.next(),
        }
    }

    /// The descriptor to poll.
    pub fn fd(&self) -> RawFd {
        match self {
            Self::Bpf(redirect) => redirect.fd(),
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
