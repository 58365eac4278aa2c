//! What a recorder reports while it runs, without holding it up.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::chunk::Counts;

/// What became of the frames of an interface.
///
/// Once stopped, `seen` = `filtered` + `written` + `not_written`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceProgress {
    /// Its name.
    pub name: String,
    /// Frames that came out of the source.
    pub seen: u64,
    /// Frames that the source lost; they do not count as seen.
    pub lost: u64,
    /// Frames that the filter left out.
    pub filtered: u64,
    /// Frames in files.
    pub written: u64,
    /// Frames left out because the disk refused them, or at the limit ([`super::Options::most_bytes`]).
    pub not_written: u64,
}

/// How far a recorder has got.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// By interface.
    pub interfaces: Vec<InterfaceProgress>,
    /// Bytes written, before compression.
    pub bytes: u64,
    /// The file being written, or written last.
    pub file: PathBuf,
    /// What went wrong, as a sentence; empty if nothing.
    pub failure: String,
    /// Whether it ended by itself: its source, or one of its threads, failed.
    pub ended: bool,
}

/// Shared by the threads and those who ask for progress.
pub struct Board {
    names: Vec<String>,
    interfaces: Vec<Counters>,
    pub bytes: AtomicU64,
    pub stop: AtomicBool,
    ended: AtomicBool,
    standstill: AtomicBool,
    texts: Mutex<Texts>,
}

#[derive(Default)]
struct Counters {
    seen: AtomicU64,
    lost: AtomicU64,
    filtered: AtomicU64,
    written: AtomicU64,
    not_written: AtomicU64,
}

#[derive(Default)]
struct Texts {
    file: PathBuf,
    failure: String,
}

impl Board {
    pub fn new(names: Vec<String>) -> Self {
        Self {
            interfaces: names.iter().map(|_| Counters::default()).collect(),
            names,
            bytes: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            standstill: AtomicBool::new(false),
            texts: Mutex::default(),
        }
    }

    pub fn publish(&self, counts: &[Counts]) {
        for (counters, counts) in self.interfaces.iter().zip(counts) {
            counters.seen.store(counts.seen, Ordering::Relaxed);
            counters.lost.store(counts.lost, Ordering::Relaxed);
            counters.filtered.store(counts.filtered, Ordering::Relaxed);
        }
    }

    pub fn written(&self, interface: usize, frames: u64) {
        self.interfaces[interface].written.fetch_add(frames, Ordering::Relaxed);
    }

    pub fn not_written(&self, interface: usize, frames: u64) {
        self.interfaces[interface].not_written.fetch_add(frames, Ordering::Relaxed);
    }

    pub fn set_file(&self, path: PathBuf) {
        self.texts().file = path;
    }

    pub fn set_failure(&self, failure: String) {
        self.texts().failure = failure;
    }

    /// Whether the disk has taken nothing for some time.
    pub fn set_standstill(&self, stands_still: bool) {
        self.standstill.store(stands_still, Ordering::Relaxed);
    }

    pub fn progress(&self) -> Progress {
        let interfaces = self.names.iter().zip(&self.interfaces).map(|(name, counters)| InterfaceProgress {
            name: name.clone(),
            seen: counters.seen.load(Ordering::Relaxed),
            lost: counters.lost.load(Ordering::Relaxed),
            filtered: counters.filtered.load(Ordering::Relaxed),
            written: counters.written.load(Ordering::Relaxed),
            not_written: counters.not_written.load(Ordering::Relaxed),
        });
        let stands_still = self.standstill.load(Ordering::Relaxed);
        let texts = self.texts();
        let standstill = stands_still.then_some("the disk has stalled; frames wait in the ring");
        let failures = [texts.failure.as_str()].into_iter().chain(standstill);
        Progress {
            interfaces: interfaces.collect(),
            bytes: self.bytes.load(Ordering::Relaxed),
            file: texts.file.clone(),
            failure: failures.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("; "),
            ended: self.ended.load(Ordering::Relaxed),
        }
    }

    fn texts(&self) -> MutexGuard<'_, Texts> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Held by a thread: if the thread ends before it is told to, for whatever reason, the board shows it.
pub struct Mark(pub Arc<Board>);

impl Drop for Mark {
    fn drop(&mut self) {
        if !self.0.stop.load(Ordering::Relaxed) {
            self.0.ended.store(true, Ordering::Relaxed);
        }
    }
}
