//! TCP connections of this host watched by BPF programs.
//!
//! Event by event: changes of state, segments that arrive, segments that are sent again. Programs at the kernel's
//! tracepoints report each event with the connection's numbers at that moment; the kernel is not polled, so
//! nothing is missed between two looks. Events that find no room are counted.
//!
//! - [`Event`]: one event, as the programs report it.
//! - [`Table`]: which connection an event belongs to, and which connections are selected; no I/O.
//! - [`start`]: both, in a new thread.
//! - [`sampling`]: the same connections sampled at a fixed period, by their own events.
//!
//! # Minimum kernel version
//! 5.12, with BTF, for root or `CAP_BPF` and `CAP_PERFMON`.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]

#[cfg(target_endian = "big")]
compile_error!("the kernel's structures are read as little-endian");

mod error;
mod event;
mod program;
pub mod sampling;
mod table;
mod watcher;

pub use error::EventsError;
pub use event::{Column, Event, Kind, columns};
pub use table::{Row, Table};
pub use watcher::{Options, start};
