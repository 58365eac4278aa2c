//! TCP connections of this host watched by BPF programs.
//!
//! Event by event: changes of state, segments that come, segments that are sent again. Programs at the kernel's
//! tracepoints tell each event with the connection's numbers at that moment; the kernel is not polled, so that
//! nothing happens between two looks. What finds no room is counted.
//!
//! - [`Event`]: one event, as the programs tell it.
//! - [`Table`]: which connection an event belongs to, and which connections are meant; no I/O.
//! - [`start`]: both, in a thread of its own.
//! - [`sampling`]: the same connections sampled at a fixed period, at what happens to them.
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
