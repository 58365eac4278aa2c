//! The thread that reads events.

use std::collections::HashMap;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use weir_tcp::clock::now_ns;
use weir_tcp::diag::{Diag, Id, State};
use weir_tcp::watch::{Filter, Progress};

use crate::error::EventsError;
use crate::program::Programs;
use crate::table::{Row, Table};

/// How long events stay in the ring, which has room for 100,000 of them.
const READ_EVERY: Duration = Duration::from_millis(10);

/// What is watched.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which connections.
    pub filter: Filter,
    /// Wait for connections that do not exist yet, and watch those that come later, too.
    pub wait: bool,
}

#[derive(Debug, Default)]
struct Shared {
    rows: Mutex<Vec<Row>>,
    progress: Mutex<Progress>,
    stop: AtomicBool,
}

/// A watch by events, in a thread of its own.
#[derive(Debug)]
pub struct Watcher {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Watcher {
    /// Begins, in the network namespace of the calling thread. From then on nothing is missed.
    ///
    /// # Errors
    /// [`EventsError`]; what goes wrong later is [`Progress::failure`].
    pub fn start(options: Options) -> Result<Self, EventsError> {
        let Options { filter, wait } = options;
        // First the programs, then what exists: what begins in between is in both, and known by its cookie.
        let programs = Programs::attach(filter.ends)?;
        let mut diag = Diag::open()?;
        let found = filter.candidates(&mut diag)?;
        let owners = if filter.has_process() { filter.owners() } else { HashMap::new() };
        let mut table = Table::new(filter.clone(), wait);
        let shared = Arc::new(Shared::default());
        for each in &found {
            table.enter(each, &owners, &mut lock(&shared.progress), now_ns());
        }
        let reader = Reader { programs, diag, filter, wait, table, lost: 0, shared: Arc::clone(&shared) };
        let thread = thread::Builder::new()
            .name("events".to_owned())
            .spawn(move || reader.run())
            .map_err(|source| EventsError::System { action: "make a thread", source })?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// The events since the last time, in the order of their times.
    #[must_use]
    pub fn take(&self) -> Vec<Row> {
        mem::take(&mut *lock(&self.shared.rows))
    }

    /// How far it is. What is said here of events, [`Self::take`] has had or still has.
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress::named(&self.shared.progress)
    }

    /// Ends it; the last events can be taken afterwards.
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

struct Reader {
    programs: Programs,
    diag: Diag,
    filter: Filter,
    wait: bool,
    table: Table,
    /// By the programs, as far as it is noted.
    lost: u64,
    shared: Arc<Shared>,
}

impl Reader {
    /// Reads until it is told to stop, or all connections have ended.
    fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let done = loop {
            // Asked before: what happened until then is read.
            let is_stopped = shared.stop.load(SeqCst);
            if let Err(error) = self.read() {
                break Err(error);
            }
            let is_over = {
                let progress = lock(&shared.progress);
                // Whoever waits for a server sees attempts that it refuses.
                let is_waiting = self.wait && !self.table.was_connected();
                !is_waiting && progress.connections.iter().all(|each| each.ended_ns.is_some())
            };
            if is_stopped || is_over {
                break Ok(());
            }
            thread::sleep(READ_EVERY);
        };
        let mut progress = lock(&shared.progress);
        progress.failure = done.err().map(|error| {
            let cause =
                std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
            format!("{error}{cause}")
        });
        progress.ended = true;
    }

    fn read(&mut self) -> Result<(), EventsError> {
        let mut events = Vec::new();
        self.programs.read(|event| events.push(event));
        // Each CPU writes its own in order, and reserves room a moment after it looked at the clock.
        events.sort_by_key(|event| event.at_ns);
        let lost = self.programs.lost()?;
        let mut progress = lock(&self.shared.progress);
        let mut rows = lock(&self.shared.rows);
        // Once for all that are new: their sockets were there before their events were read.
        let mut owners = None;
        let mut owner = |inode| owners.get_or_insert_with(|| self.filter.owners()).get(&inode).cloned();
        self.table.take(events, &mut owner, &mut progress, &mut rows);
        if lost > self.lost {
            progress.lost += lost - self.lost;
            self.lost = lost;
            // Among them may be the end of a connection.
            let alive: Vec<_> = self.table.alive().collect();
            for (cookie, number) in alive {
                let Some(each) = progress.connections.get(number as usize) else { continue };
                let id = Id { local: each.local, remote: each.remote, interface: 0, cookie };
                if self.diag.one(&id)?.is_none_or(|found| found.state == State::TIME_WAIT) {
                    self.table.is_gone(cookie, &mut progress, now_ns());
                }
            }
        }
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
