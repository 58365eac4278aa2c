//! An emulated link between two interfaces: frames that come in by one leave by the other, as and when
//! [`weir_link`](weir_link) says.
//!
//! One thread does this over packet sockets. A frame counts from the moment at which the kernel saw it, so a
//! thread that is held up sends late, which it measures, but emulates the same link. Frames that it cannot
//! keep are counted apart from those that the emulated link drops ([`Overload`]).

mod crossing;
mod lead;
mod pool;
mod port;
mod progress;
mod pump;
mod way;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use thiserror::Error;
use weir_link::{Behaviour, BehaviourError, PathSpec, SpecError};

pub use progress::{Direction, Late, Overload, Paced, Progress};

use crate::engine::Endpoint;
use crate::packet::port::PortError;
use port::Port;
use pump::Pump;

/// What to emulate, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// The two ends.
    pub ends: [Endpoint; 2],
    /// From the first end to the second, and back.
    pub paths: [PathSpec; 2],
    /// A device that both directions pass before their paths.
    pub device: Option<Crossed>,
    /// Time after which it ends by itself.
    pub duration: Option<Duration>,
    /// CPU of its thread.
    pub cpu: Option<usize>,
    /// Whether the thread never sleeps.
    pub busy: bool,
    /// How late frames may leave to spare the host: the thread sleeps meanwhile, and then sends all that
    /// are due. Zero: each is sent as soon as it is due.
    pub slack: Duration,
    /// Whether the thread runs ahead of ordinary work (SCHED_FIFO), to which it leaves a few percent. Ignored
    /// with `busy`: the kernel stops a real-time thread that never sleeps, for 50 ms at a time.
    pub real_time: bool,
    /// Most memory for frames that are on the link.
    pub memory_bytes: u64,
}

/// A measured device that frames cross.
#[derive(Clone, Debug)]
pub struct Crossed {
    /// What it does.
    pub behaviour: Behaviour,
    /// Matching position of all frames.
    pub position: f64,
    /// Seed of its delays.
    pub seed: u64,
}

/// Why a link cannot be emulated.
#[derive(Debug, Error)]
pub enum EmulatorError {
    /// A path is invalid.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The behaviour of the device is none.
    #[error(transparent)]
    Device(#[from] BehaviourError),
    /// Both ends are the same interface.
    #[error("a link has two ends, but {interface} is given twice")]
    Same {
        /// Its name.
        interface: String,
    },
    /// An interface cannot be used.
    #[error(transparent)]
    Port(#[from] PortError),
    /// No thread can be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

/// An emulated link, which exists until this value is dropped, it is stopped, or its time is over.
pub struct Emulator {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread and its owner share.
struct Shared {
    stop: AtomicBool,
    /// Set with `changes`.
    has_changes: AtomicBool,
    changes: Mutex<[Option<PathSpec>; 2]>,
    progress: Mutex<Progress>,
}

impl Emulator {
    /// Starts it; frames are carried once this returns.
    ///
    /// # Minimum kernel version
    /// 4.20, where frames sent here are not read back; on older kernels they are left out one by one.
    ///
    /// # Errors
    /// [`EmulatorError`]; nothing is left in place then.
    pub fn start(options: Options) -> Result<Self, EmulatorError> {
        options.paths.iter().try_for_each(PathSpec::check)?;
        options.device.iter().try_for_each(|device| device.behaviour.check())?;
        let [a, b] = &options.ends;
        if a.interface == b.interface && a.netns == b.netns {
            return Err(EmulatorError::Same { interface: a.interface.clone() });
        }
        let ports = [Port::open(a)?, Port::open(b)?];
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            has_changes: AtomicBool::new(false),
            changes: Mutex::default(),
            progress: Mutex::new(Progress::new()),
        });
        let seen = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("weir-link".into())
            .spawn(move || Pump::new(ports, &options).run(&seen))
            .map_err(EmulatorError::Thread)?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// What became of frames; at most a tenth of a second old.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let mut progress = lock(&self.shared.progress).clone();
        if !progress.ended && self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
            progress.ended = true;
            progress.failure = "the emulator's thread failed".into();
        }
        progress
    }

    /// Changes one direction (0: from the first end to the second), as [`weir_link::Path::change`] does.
    ///
    /// # Errors
    /// [`SpecError`]; then nothing changes.
    pub fn change(&self, direction: usize, spec: PathSpec) -> Result<(), SpecError> {
        spec.check()?;
        lock(&self.shared.changes)[direction] = Some(spec);
        self.shared.has_changes.store(true, Ordering::Release);
        Ok(())
    }

    /// Stops it: frames still on the link are lost. May be called again.
    pub fn stop(&mut self) -> Progress {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            let mut progress = lock(&self.shared.progress);
            progress.ended = true;
            progress.failure = "the emulator's thread failed".into();
        }
        self.progress()
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.stop();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
