//! Connections sampled at their own events, by BPF programs.
//!
//! To read a connection's state (`SOCK_DIAG`, `TCP_INFO`), a thread is woken on time, waits for its lock,
//! and keeps the connection waiting. Here no thread is woken or waits: the state changes only when something
//! happens to the connection, and the first event at or after the time of a sample shows what the state was.
//! Connections without events are queried by `INET_DIAG`, ten times a second.
//!
//! # Minimum kernel version
//! 5.12, with BTF, for root or `CAP_BPF` and `CAP_PERFMON`.

mod connections;
mod due;
mod programs;
mod record;
mod sampler;

use weir_tcp::watch::{Options, Shared, Watcher, keep_sampling};

use crate::error::EventsError;

/// Starts sampling, in the network namespace of the calling thread.
///
/// # Errors
/// [`EventsError`]; later errors are in [`weir_tcp::watch::Progress::failure`].
pub fn sample(options: Options) -> Result<Watcher, EventsError> {
    let mut sampler = sampler::Sampler::new(options.period_ns)?;
    let work = move |shared: &Shared| keep_sampling(&mut sampler, &options, shared);
    Watcher::run("watch", Shared::default(), work)
        .map_err(|source| EventsError::System { action: "make a thread", source })
}
