//! Why there is no tap.

use std::io;

use thiserror::Error;

use crate::packet::port::PortError;
use crate::xdp::XdpError;

/// Why a bridge could not be built or taken away.
#[derive(Debug, Error)]
pub enum TapError {
    /// An interface cannot be used.
    #[error(transparent)]
    Port(#[from] PortError),
    /// Two of the three interfaces are the same.
    #[error("a tap needs different interfaces, but {interface} is given twice")]
    Same {
        /// Its name.
        interface: String,
    },
    /// Another program has the interface.
    #[error(
        "interface {interface} already has an XDP program, perhaps that of another tap: remove it first \
         (ip link set {interface} xdp off)"
    )]
    Taken {
        /// Its name.
        interface: String,
    },
    /// A value is invalid.
    #[error("{0}")]
    Option(String),
    /// The interface refused the program in each mode.
    #[error("XDP does not run on {interface}: {reasons}")]
    Refused {
        /// Its name.
        interface: String,
        /// One for each mode that was tried.
        reasons: String,
    },
    /// XDP does not work here.
    #[error(transparent)]
    Xdp(#[from] XdpError),
    /// A system call failed.
    #[error("cannot {action} {interface}{}: {source}", needs(source))]
    System {
        /// What was tried.
        action: &'static str,
        /// On which interface.
        interface: String,
        /// The kernel's reason.
        source: io::Error,
    },
}

fn needs(error: &io::Error) -> &'static str {
    if error.raw_os_error() == Some(libc::EPERM) { " (needs CAP_NET_RAW)" } else { "" }
}
