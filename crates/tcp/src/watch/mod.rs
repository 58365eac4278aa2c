//! Connections sampled at a fixed period, including those that do not exist yet.

mod filter;
mod finder;
mod place;
mod sampler;
mod watcher;

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hdrhistogram::Histogram;

pub use filter::{End, Filter};
pub use finder::{Begun, Found};
pub use sampler::{Sampling, keep_sampling};
pub use watcher::{Shared, Watcher};

use crate::Sample;
use crate::diag::{Diag, DiagError, Id};
use crate::process::{self, Process};

/// Most samples that are kept until they are taken.
pub const MOST_SAMPLES: usize = 1 << 16;

/// Most connections that are watched at once.
pub const MOST_CONNECTIONS: usize = 1024;

/// What is watched, and how often.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which connections.
    pub filter: Filter,
    /// Time between two samples of one connection.
    pub period_ns: u64,
    /// Wait for connections that do not exist yet, and also watch those that begin later.
    pub wait: bool,
}

/// A connection that is or was watched.
#[derive(Clone, Debug)]
pub struct Watched {
    /// This end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// Its number in `/proc/PID/fd`; 0 until it has been accepted.
    pub inode: u32,
    /// The process that owns it, if this user may see it.
    pub process: Option<Process>,
    /// Nothing more will become known about the process.
    pub is_named: bool,
    /// Its congestion control.
    pub congestion: String,
    /// When it was found, by `CLOCK_MONOTONIC`.
    pub found_ns: u64,
    /// When it no longer existed.
    pub ended_ns: Option<u64>,
    /// Samples taken.
    pub samples: u64,
    /// Samples that should have been taken but were not: the host was too late by a period or more, or there was
    /// no room.
    pub missed: u64,
    /// Samples that were due and not taken because nothing happened to the connection; 0 if every one is taken.
    pub idle: u64,
}

impl Watched {
    /// A connection that was found at this time, with its owner if that is known.
    #[must_use]
    pub fn found(id: &Id, inode: u32, congestion: String, owner: Option<&Process>, at_ns: u64) -> Self {
        Self {
            local: id.local,
            remote: id.remote,
            inode,
            process: owner.cloned(),
            is_named: owner.is_some(),
            congestion,
            found_ns: at_ns,
            ended_ns: None,
            samples: 0,
            missed: 0,
            idle: 0,
        }
    }

    /// Some process owns it, and it is not yet known which.
    const fn is_unnamed(&self) -> bool {
        !self.is_named && self.inode != 0
    }
}

/// One connection at one time.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its number among those watched.
    pub connection: u32,
    /// When the kernel was queried, by `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// The kernel's answer.
    pub sample: Sample,
}

/// How late samples were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// Rounds of samples.
    pub rounds: u64,
    /// Mean.
    pub mean_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Greatest.
    pub max_ns: u64,
}

impl Lateness {
    fn of(late_ns: &Histogram<u64>) -> Self {
        Self {
            rounds: late_ns.len(),
            mean_ns: late_ns.mean() as u64,
            p99_ns: late_ns.value_at_quantile(0.99),
            max_ns: late_ns.max(),
        }
    }
}

/// The progress of a watch.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Every connection so far, by number.
    pub connections: Vec<Watched>,
    /// Lateness of all rounds.
    pub lateness: Lateness,
    /// Samples that were not taken in time.
    pub lost: u64,
    /// Connections beyond [`MOST_CONNECTIONS`].
    pub left_out: u64,
    /// Nothing more will come.
    pub ended: bool,
    /// Why it ended early.
    pub failure: Option<String>,
}

impl Progress {
    /// A copy in which the process of each connection is named.
    ///
    /// For the thread that asks, not for the one that watches: all processes are examined, which takes time.
    #[must_use]
    pub fn named(progress: &Mutex<Self>) -> Self {
        if lock(progress).connections.iter().any(Watched::is_unnamed) {
            let owners = process::owners();
            for each in lock(progress).connections.iter_mut().filter(|each| each.is_unnamed()) {
                each.process = owners.get(&each.inode).cloned();
                each.is_named = true;
            }
        }
        lock(progress).clone()
    }
}

impl Watcher {
    /// Starts sampling, in the network namespace of the calling thread.
    ///
    /// # Errors
    /// [`DiagError`]; later errors are in [`Progress::failure`].
    pub fn start(options: Options) -> Result<Self, DiagError> {
        let mut sampler = sampler::Sampler::new(Diag::open()?, options.period_ns);
        let work = move |shared: &Shared| keep_sampling(&mut sampler, &options, shared);
        Self::run("watch", Shared::default(), work).map_err(DiagError::Open)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
