//! Connections sampled without their locks: a BPF program, run by a timer, copies what the kernel keeps of them.
//!
//! To ask the kernel for a connection's state (`SOCK_DIAG`, `TCP_INFO`), one waits for its lock, and so does the
//! connection afterwards. Here nobody waits for anybody. The price is that numbers of one sample may be from just
//! before and just after the segment that the kernel works on in this moment; each number is whole.
//!
//! # Minimum kernel version
//! 5.12, with BTF, for root or `CAP_BPF`, `CAP_PERFMON` and `CAP_NET_ADMIN`.

mod programs;
mod record;
mod sampler;
mod ticks;

use weir_tcp::watch::{Options, Shared, Watcher, keep_sampling};

use crate::error::EventsError;

/// Begins to sample, in the network namespace of the calling thread.
///
/// # Errors
/// [`EventsError`]; what goes wrong later is [`weir_tcp::watch::Progress::failure`].
pub fn sample(options: Options) -> Result<Watcher, EventsError> {
    let mut sampler = sampler::Sampler::new(options.period_ns)?;
    let work = move |shared: &Shared| keep_sampling(&mut sampler, &options, shared);
    Watcher::run("watch", Shared::default(), work)
        .map_err(|source| EventsError::System { action: "make a thread", source })
}
