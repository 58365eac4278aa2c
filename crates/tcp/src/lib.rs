//! TCP on this host: what the kernel reports about connections, and bulk transfers for measuring.
//!
//! - [`fields`]: every quantity that the kernel reports about a connection, with its unit, in one table.
//! - [`diag`]: the connections of this network namespace, of any program, by `SOCK_DIAG`.
//! - [`watch`]: connections sampled at a fixed period.
//! - [`control`]: what client and server of a bulk transfer send each other; no I/O.
//! - [`bulk`]: the transfer.
//! - [`strangers`]: connections that have not identified themselves, limited.
//! - [`interface`]: where a connection leaves this host.
//!
//! Nothing here needs privileges.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]

#[cfg(target_endian = "big")]
compile_error!("the kernel's structures are read as little-endian");

pub mod bulk;
pub mod control;
pub mod diag;
pub mod fields;
pub mod interface;
pub mod option;
pub mod process;
mod queues;
mod sample;
pub mod strangers;
mod times;
pub mod watch;

pub use queues::{Queues, this_thread};
pub use sample::{Congestion, Info, Sample};
