//! Why a trial could not be carried out.

use std::io;

use thiserror::Error;

use crate::plan::PlanError;
use crate::xdp::XdpError;

/// Why a trial could not be carried out.
#[derive(Debug, Error)]
pub enum EngineError {
    /// The plan cannot be played.
    #[error("this traffic cannot be sent: {0}")]
    Plan(#[from] PlanError),
    /// A namespace cannot be entered.
    #[error("cannot enter {place}: {source}")]
    Netns {
        /// The namespace, in words.
        place: String,
        /// The kernel's reason.
        source: io::Error,
    },
    /// An interface does not exist.
    #[error("there is no interface '{interface}' in {place}")]
    Interface {
        /// Its name.
        interface: String,
        /// The namespace, in words.
        place: String,
    },
    /// The interface does not carry Ethernet frames.
    #[error(
        "interface {interface} is no Ethernet interface (its kind is ARPHRD {kind}): only Ethernet frames can be \
         recorded"
    )]
    NotEthernet {
        /// Its name.
        interface: String,
        /// Its kind, a number from `linux/if_arp.h`.
        kind: u16,
    },
    /// XDP does not work here.
    #[error(transparent)]
    Xdp(#[from] XdpError),
    /// Packet sockets do not work here.
    #[error("cannot use packet sockets on {interface} (needs CAP_NET_RAW): {source}")]
    Socket {
        /// The interface.
        interface: String,
        /// The kernel's reason.
        source: io::Error,
    },
    /// Only XDP answers.
    #[error("test packets are answered over XDP only, which is not in use here")]
    Unanswered,
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
}
