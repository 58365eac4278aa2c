//! Connections sampled at a fixed period, and waited for where they do not exist yet.

mod filter;
mod finder;
mod place;
mod sampler;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::{io, mem};

use hdrhistogram::Histogram;

pub use filter::{End, Filter};

use crate::Sample;
use crate::diag::{Diag, DiagError, Id};
use crate::process::{self, Process};

/// Samples that are kept until somebody takes them.
pub const MOST_SAMPLES: usize = 1 << 16;

/// Connections that are watched at once.
pub const MOST_CONNECTIONS: usize = 1024;

/// What is watched, and how often.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which connections.
    pub filter: Filter,
    /// Time between two samples of one connection.
    pub period_ns: u64,
    /// Wait for connections that do not exist yet, and watch those that come later, too.
    pub wait: bool,
}

/// A connection that is or was watched.
#[derive(Clone, Debug)]
pub struct Watched {
    /// This end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// Its number in `/proc/PID/fd`; 0 until somebody has accepted it.
    pub inode: u32,
    /// The process that has it, where this user may see it.
    pub process: Option<Process>,
    /// Nothing more will be known of the process.
    pub is_named: bool,
    /// Its congestion control.
    pub congestion: String,
    /// When it was found, by `CLOCK_MONOTONIC`.
    pub found_ns: u64,
    /// When it was no longer there.
    pub ended_ns: Option<u64>,
    /// Samples taken.
    pub samples: u64,
    /// Samples that should have been taken, and were not: the host was too late by a period or more.
    pub missed: u64,
}

impl Watched {
    /// A connection that was found at this time, with its owner where that is known.
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
        }
    }

    /// Some process has it, and nobody has looked which.
    const fn is_unnamed(&self) -> bool {
        !self.is_named && self.inode != 0
    }
}

/// One connection at one time.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its number among those watched.
    pub connection: u32,
    /// When the kernel was asked, by `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// What it said.
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

/// How far a watch is.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Every connection so far, by number.
    pub connections: Vec<Watched>,
    /// Of all rounds.
    pub lateness: Lateness,
    /// Samples that nobody took in time.
    pub lost: u64,
    /// Connections beyond [`MOST_CONNECTIONS`].
    pub left_out: u64,
    /// Nothing more will come.
    pub ended: bool,
    /// Why it broke off.
    pub failure: Option<String>,
}

impl Progress {
    /// A copy, in which the process of each connection is named.
    ///
    /// For whoever asks, not for the thread that watches: all processes are looked at, which takes its time.
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

#[derive(Debug, Default)]
struct Shared {
    rows: Mutex<Vec<Row>>,
    progress: Mutex<Progress>,
    /// None until something was sampled.
    lateness: Mutex<Option<Histogram<u64>>>,
    stop: AtomicBool,
}

/// A watch, in a thread of its own.
#[derive(Debug)]
pub struct Watcher {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Watcher {
    /// Begins, in the network namespace of the calling thread.
    ///
    /// # Errors
    /// [`DiagError`]; what goes wrong later is [`Progress::failure`].
    pub fn start(options: Options) -> Result<Self, DiagError> {
        let diag = Diag::open()?;
        let shared = Arc::new(Shared::default());
        let for_thread = Arc::clone(&shared);
        let work = move || sampler::run(diag, &options, &for_thread);
        let thread = thread::Builder::new().name("watch".to_owned()).spawn(work).map_err(open)?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// The samples since the last time, in the order of their times.
    #[must_use]
    pub fn take(&self) -> Vec<Row> {
        mem::take(&mut *lock(&self.shared.rows))
    }

    /// How far it is. What is said here of samples, [`Self::take`] has had or still has.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let lateness = lock(&self.shared.lateness).as_ref().map(Lateness::of).unwrap_or_default();
        Progress { lateness, ..Progress::named(&self.shared.progress) }
    }

    /// Ends it; the last samples can be taken afterwards.
    pub fn stop(&self) {
        self.shared.stop.store(true, SeqCst);
        if let Some(thread) = lock(&self.thread).take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.stop();
    }
}

fn open(error: io::Error) -> DiagError {
    DiagError::Open(error)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
