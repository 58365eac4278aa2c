//! Which stream carries which block; no I/O.
//!
//! A session asks its scheduler whenever there is something to send and a stream that can take it. Another
//! scheduler is a type that implements [`Scheduler`]: `name` and `choose`; `copies` and `repeats` are
//! optional.

mod blest;
mod earliest;
mod ecf;
mod poll_all;
mod redundant;
mod round_robin;

pub use blest::Blest;
pub use earliest::EarliestArrival;
pub use ecf::Ecf;
pub use poll_all::PollAll;
pub use redundant::Redundant;
pub use round_robin::RoundRobin;

/// The number of a stream in its session; numbers are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);

/// What is known about a stream's TCP connection; 0 if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathStats {
    /// Smoothed round-trip time.
    pub srtt_ns: u64,
    /// Least round-trip time: that of the path while its queues are empty.
    pub least_rtt_ns: u64,
    /// Mean deviation of the round-trip time.
    pub rttvar_ns: u64,
    /// Congestion window.
    pub cwnd_bytes: u64,
    /// Slow-start threshold: a smaller window doubles with each round trip. Larger than any window before the first
    /// loss.
    pub ssthresh_bytes: u64,
    /// Largest segment.
    pub mss_bytes: u64,
    /// Bytes that were written and that the other end's TCP has not acknowledged.
    pub unacked_bytes: u64,
    /// Those of them that have arrived after missing ones.
    pub sacked_bytes: u64,
    /// Those of them that were never sent.
    pub unsent_bytes: u64,
    /// Rate at which the other end acknowledges.
    pub rate_bytes_per_s: u64,
    /// The rate is limited because the application offered no more.
    pub is_rate_limited: bool,
    /// Bytes that were acknowledged since the start; when this grows, the path works.
    pub acked_bytes: u64,
    /// Segments that were sent again since the start; when this grows, one was lost.
    pub retransmitted_segments: u64,
}

/// A stream, as a scheduler sees it.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// Its number.
    pub id: StreamId,
    /// It can take a block now.
    pub is_ready: bool,
    /// What is known about it, including what it was given and its connection has not taken.
    pub stats: PathStats,
}

/// What is to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// The time.
    pub now_ns: u64,
    /// Bytes of the next block.
    pub block_bytes: u64,
    /// Bytes that no stream has, and that the receiver has room for; at least 1.
    pub sendable_bytes: u64,
    /// Room of the receiver beyond what it has acknowledged.
    pub window_bytes: u64,
    /// There is more, for which the receiver has no room yet.
    pub is_limited: bool,
    /// The block was sent before, and is needed at once.
    pub is_again: bool,
}

/// A scheduler's decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The stream; it is ready.
    pub stream: StreamId,
    /// The block begins after this many of the sendable bytes, which are left for other streams.
    pub skip_bytes: u64,
}

impl Choice {
    /// The next block.
    #[must_use]
    pub const fn next(stream: StreamId) -> Self {
        Self { stream, skip_bytes: 0 }
    }
}

/// Decides which stream carries which block.
pub trait Scheduler: Send + std::fmt::Debug {
    /// Its name, as users write it.
    fn name(&self) -> &'static str;

    /// Which stream takes the next block; `None` to wait for a stream that is not ready.
    ///
    /// `paths` are the streams that work, in the order in which they were attached; at least one is ready.
    fn choose(&mut self, work: &Work, paths: &[Path]) -> Option<Choice>;

    /// Every stream is to carry every block that has not arrived: a stream that can take one takes the first
    /// that it lacks, and the scheduler is called only for those that no stream has.
    fn copies(&self) -> bool {
        false
    }

    /// A block that others wait for, after a loss on its stream, goes by another stream as well.
    fn repeats(&self) -> bool {
        false
    }
}

/// Names of the schedulers that come with this crate.
pub const SCHEDULERS: [&str; 6] = ["earliest", "poll-all", "round-robin", "ecf", "blest", "redundant"];

/// The scheduler with this name.
#[must_use]
pub fn scheduler(name: &str) -> Option<Box<dyn Scheduler>> {
    Some(match name {
        "earliest" => Box::<EarliestArrival>::default(),
        "poll-all" => Box::<PollAll>::default(),
        "round-robin" => Box::<RoundRobin>::default(),
        "ecf" => Box::<Ecf>::default(),
        "blest" => Box::<Blest>::default(),
        "redundant" => Box::new(Redundant),
        _ => return None,
    })
}

/// The path with the shortest round-trip time, and of those that are ready the same.
fn fastest(paths: &[Path]) -> (Option<&Path>, Option<&Path>) {
    let by_rtt = |path: &&Path| (path.stats.srtt_ns, path.id);
    (paths.iter().min_by_key(by_rtt), paths.iter().filter(|path| path.is_ready).min_by_key(by_rtt))
}

#[cfg(test)]
mod testing {
    use super::*;

    pub const MS: u64 = 1_000_000;
    pub const BLOCK: u64 = 10_000;

    /// A path with a window that is full where it is not ready.
    pub fn path(id: u32, is_ready: bool, srtt_ns: u64, rate_bytes_per_s: u64) -> Path {
        let cwnd_bytes = rate_bytes_per_s * srtt_ns / 1_000_000_000;
        let stats = PathStats {
            srtt_ns,
            cwnd_bytes,
            mss_bytes: 1448,
            unacked_bytes: if is_ready { 0 } else { cwnd_bytes },
            rate_bytes_per_s,
            ..PathStats::default()
        };
        Path { id: StreamId(id), is_ready, stats }
    }

    pub fn work(sendable_bytes: u64) -> Work {
        Work {
            now_ns: 0,
            block_bytes: BLOCK,
            sendable_bytes,
            window_bytes: 4_000_000,
            is_limited: false,
            is_again: false,
        }
    }
}
