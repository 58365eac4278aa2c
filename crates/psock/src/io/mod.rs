//! Sessions over TCP sockets of this host.
//!
//! A session has its own thread that does all input and output; calls of the application only copy. A
//! [`ParallelSocket`] is made by [`ParallelSocket::connect`], by an [`Opening`] or by a [`Listener`].

mod dial;
mod dialer;
mod forwarder;
mod greet;
mod listener;
mod observed;
mod opening;
mod plain;
mod signal;
mod socket;
mod worker;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use thiserror::Error;
use weir_tcp::control::LEAST_TOKEN_BYTES;
use weir_tcp::option::{OptionError, Setting};

pub use forwarder::Forwarder;
pub use listener::{Listener, Stranger};
pub use opening::Opening;
pub use signal::Signal;
pub use socket::{ParallelSocket, Report, SocketError, StreamReport};

use crate::schedule;
use crate::session::Config;
use crate::wire::{GreetingError, MOST_STREAMS};

/// Default TCP port of a listener.
pub const PORT: u16 = 29_101;

/// Default `TCP_NOTSENT_LOWAT` of each stream.
pub const UNSENT_BYTES: u32 = 64 * 1024;

/// Least memory for what is received, and for what is sent.
pub const LEAST_MEMORY_BYTES: usize = 4096;

/// Most memory for what is received, and for what is sent.
pub const MOST_MEMORY_BYTES: usize = 1 << 30;

/// Deadline of a greeting.
const GREETING: Duration = Duration::from_secs(5);

/// How long a session that is open waits for its other routes, where [`Options::waits_for_routes`] says so.
pub const JOINING: Duration = Duration::from_secs(5);

/// A way to the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Address of this end; without one the system chooses it.
    pub local: Option<IpAddr>,
    /// Address and port of the listener.
    pub remote: SocketAddr,
}

/// How a session is carried.
#[derive(Clone, Debug)]
pub struct Options {
    /// What both ends know; empty for none, in which case anybody can open a session. A listener refuses one of less
    /// than 16 bytes.
    pub token: Vec<u8>,
    /// Memory and time limits.
    pub config: Config,
    /// One of [`schedule::SCHEDULERS`].
    pub scheduler: String,
    /// `TCP_NOTSENT_LOWAT`: what a stream holds that was not sent yet; 0 leaves it to the system.
    pub unsent_bytes: u32,
    /// Set on every stream before it is made.
    pub settings: Vec<Setting>,
    /// Most streams at one time of a session that a listener has accepted; 1 to [`MOST_STREAMS`].
    pub most_streams: usize,
    /// If the peer does not speak the protocol, a client uses plain TCP. Not with a token: plain
    /// TCP proves nothing.
    pub is_fallback: bool,
    /// A client's session is not given to the application until each route has a stream or has failed, or
    /// [`JOINING`] has passed.
    pub waits_for_routes: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            token: Vec::new(),
            config: Config::default(),
            scheduler: schedule::SCHEDULERS[0].to_owned(),
            unsent_bytes: UNSENT_BYTES,
            settings: Vec::new(),
            most_streams: MOST_STREAMS,
            is_fallback: false,
            waits_for_routes: false,
        }
    }
}

/// Why there is no session, or no listener.
#[derive(Debug, Error)]
pub enum OpenError {
    /// No such scheduler.
    #[error("there is no scheduler {0:?}; there are {known}", known = schedule::SCHEDULERS.join(", "))]
    Scheduler(String),
    /// Too little memory, or too much.
    #[error(
        "{0} bytes of memory: {LEAST_MEMORY_BYTES} to {MOST_MEMORY_BYTES} are possible in each direction"
    )]
    Memory(usize),
    /// Blocks of an impossible size.
    #[error("blocks of {0} bytes: 1 to {most} are possible", most = crate::wire::MOST_BLOCK_BYTES)]
    Block(u32),
    /// No address at all, or too many.
    #[error("{0} addresses: 1 to {most} are possible", most = MOST_STREAMS)]
    Addresses(usize),
    /// Another number of streams.
    #[error("{0} streams: 1 to {MOST_STREAMS} are possible")]
    Streams(usize),
    /// Two options that exclude each other.
    #[error("a token and the fallback to plain TCP exclude each other: plain TCP does not prove the token")]
    TokenAndFallback,
    /// A listener that anybody could use.
    #[error("listening on {0}, which others can reach, needs a token")]
    TokenNeeded(IpAddr),
    /// A token that whoever hears a greeting could find by trying.
    #[error("a token of {0} bytes can be guessed; it must have {LEAST_TOKEN_BYTES} or more")]
    TokenShort(usize),
    /// The address cannot be used.
    #[error("cannot listen on {at}")]
    Listen {
        /// Which address.
        at: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// Nothing answers.
    #[error("cannot connect to {to}")]
    Connect {
        /// Which address.
        to: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// This end's address cannot be used.
    #[error("the local address {local} cannot be used for a connection to {to}")]
    Local {
        /// The address.
        local: IpAddr,
        /// The other end.
        to: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The other end answers, but the greeting fails.
    #[error("no session with {to}")]
    Greeting {
        /// Its address.
        to: SocketAddr,
        /// Why.
        source: GreetingError,
    },
    /// The other end accepts connections, but says nothing or closes them.
    #[error("{to} accepts connections, but does not answer as a parallel socket: {why}")]
    Silent {
        /// Its address.
        to: SocketAddr,
        /// What it does.
        why: String,
    },
    /// A socket option.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// A system error in this host.
    #[error("{what}")]
    System {
        /// What failed.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
}

fn system(what: &'static str) -> impl FnOnce(io::Error) -> OpenError {
    move |source| OpenError::System { what, source }
}

impl Options {
    fn check(&self) -> Result<(), OpenError> {
        if schedule::scheduler(&self.scheduler).is_none() {
            return Err(OpenError::Scheduler(self.scheduler.clone()));
        }
        for bytes in [self.config.receive_bytes, self.config.send_bytes] {
            if !(LEAST_MEMORY_BYTES..=MOST_MEMORY_BYTES).contains(&bytes) {
                return Err(OpenError::Memory(bytes));
            }
        }
        if !(1..=crate::wire::MOST_BLOCK_BYTES).contains(&self.config.block_bytes) {
            return Err(OpenError::Block(self.config.block_bytes));
        }
        if !(1..=MOST_STREAMS).contains(&self.most_streams) {
            return Err(OpenError::Streams(self.most_streams));
        }
        if self.is_fallback && !self.token.is_empty() {
            return Err(OpenError::TokenAndFallback);
        }
        Ok(())
    }
}

/// Bytes that cannot be predicted.
fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    // SAFETY: the kernel writes at most N bytes; up to 256 come at once (getrandom(2)).
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), N, 0) };
    if got == N as isize { Ok(bytes) } else { Err(io::Error::last_os_error()) }
}
