//! TCP connections of programs that do not know about parallel sockets, carried over them.
//!
//! ```text
//! program ── TCP over loopback ── Relay ══ session of several streams ══ Proxy ── TCP ── destination
//! ```
//!
//! - [`Rules`]: which destinations are selected; no I/O.
//! - [`wire`]: how a session names its destination (`docs/psock-run.md`); no I/O.
//! - [`Relay`]: takes the connections of programs, each into a session that carries no other at that time. They are
//!   redirected to it by BPF programs at a control group, or by a seccomp filter that the programs start with ([`Way`]).
//! - [`Proxy`]: makes the connections that sessions request.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]

mod far;
mod held;
mod house;
mod idle;
mod order;
mod packets;
mod proxy;
mod redirect;
mod relay;
mod rules;
mod seccomp;
mod splice;
mod turns;
mod way;
pub mod wire;

pub use house::{Ended, MOST_CONNECTIONS};
pub use proxy::{PORT, Proxy};
pub use redirect::RedirectError;
pub use relay::{Relay, RelayError, Settings};
pub use rules::{RuleError, Rules};
pub use seccomp::{SeccompError, Watched, connect_filter};
pub use way::Way;
