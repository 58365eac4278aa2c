//! Parallel sockets: one ordered stream of bytes each way over several TCP connections.
//!
//! - [`wire`]: what crosses the network (`docs/psock-protocol.md`); no I/O.
//! - [`session`]: streams of bytes taken apart and put together; no I/O, and the time is an argument.
//! - [`schedule`]: which connection carries which bytes; no I/O.
//! - [`redial`]: when a client makes streams again; no I/O, and the time is an argument.
//! - [`io`]: sessions over TCP sockets of this host, with blocking calls and a descriptor to poll.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]

pub mod io;
pub mod redial;
pub mod schedule;
pub mod session;
pub mod wire;
