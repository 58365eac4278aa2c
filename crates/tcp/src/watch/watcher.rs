//! A watch in its own thread, whatever it records about connections.

use std::error::Error;
use std::io;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};

use hdrhistogram::Histogram;

use super::{Lateness, MOST_SAMPLES, Progress, Row, lock};
use crate::times::histogram;

/// What the thread of a watch records, and what it is told.
#[derive(Debug)]
pub struct Shared<R = Row> {
    rows: Mutex<Vec<R>>,
    progress: Mutex<Progress>,
    /// `None` until something was sampled.
    lateness: Mutex<Option<Histogram<u64>>>,
    stop: AtomicBool,
}

impl<R> Default for Shared<R> {
    fn default() -> Self {
        Self {
            rows: Mutex::default(),
            progress: Mutex::default(),
            lateness: Mutex::default(),
            stop: AtomicBool::new(false),
        }
    }
}

impl<R> Shared<R> {
    /// What was recorded and not yet taken.
    pub fn rows(&self) -> MutexGuard<'_, Vec<R>> {
        lock(&self.rows)
    }

    /// Its progress.
    pub fn progress(&self) -> MutexGuard<'_, Progress> {
        lock(&self.progress)
    }

    /// Records how late a round of samples was.
    pub fn note_late(&self, late_ns: u64) {
        lock(&self.lateness).get_or_insert_with(histogram).saturating_record(late_ns);
    }

    /// Keeps rows until they are taken, as long as there is room; counts the others.
    pub fn keep(&self, progress: &mut Progress, fresh: impl ExactSizeIterator<Item = R>) {
        let mut kept = self.rows();
        let room = MOST_SAMPLES.saturating_sub(kept.len());
        progress.lost += fresh.len().saturating_sub(room) as u64;
        kept.extend(fresh.take(room));
    }

    /// Whether the thread is to end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(SeqCst)
    }
}

/// A watch, in its own thread, that records one `R` at a time.
#[derive(Debug)]
pub struct Watcher<R = Row> {
    shared: Arc<Shared<R>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl<R: Send + 'static> Watcher<R> {
    /// Begins `work` in a thread of this name. Its error is [`Progress::failure`].
    ///
    /// # Errors
    /// No thread can be started.
    pub fn run<E: Error>(
        name: &str,
        shared: Shared<R>,
        work: impl FnOnce(&Shared<R>) -> Result<(), E> + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(shared);
        let for_thread = Arc::clone(&shared);
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            let done = work(&for_thread);
            let mut progress = for_thread.progress();
            progress.failure = done.err().map(|error| {
                let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
                format!("{error}{cause}")
            });
            progress.ended = true;
        })?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }
}

impl<R> Watcher<R> {
    /// What was recorded since the last call, in the order of its times.
    #[must_use]
    pub fn take(&self) -> Vec<R> {
        mem::take(&mut *self.shared.rows())
    }

    /// Its progress. What is counted here has been taken by [`Self::take`], or still can be.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let lateness = lock(&self.shared.lateness).as_ref().map(Lateness::of).unwrap_or_default();
        Progress { lateness, ..Progress::named(&self.shared.progress) }
    }

    /// Ends it; what was recorded last can be taken afterwards.
    pub fn stop(&self) {
        self.shared.stop.store(true, SeqCst);
        if let Some(thread) = lock(&self.thread).take() {
            let _ = thread.join();
        }
    }
}

impl<R> Drop for Watcher<R> {
    fn drop(&mut self) {
        self.stop();
    }
}
