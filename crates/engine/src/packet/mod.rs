//! The fallback over packet sockets (AF_PACKET), for interfaces and kernels without XDP.
//! Needs CAP_NET_RAW only; slower, and its time stamps are the kernel's and the sender's.
//!
//! Also what carries frames between interfaces: an interface with a ring ([`port`]).

pub(crate) mod port;
mod receiver;
pub(crate) mod ring;
mod sender;
pub(crate) mod socket;

pub use receiver::{Progress, Receiver};
pub use sender::Sender;
