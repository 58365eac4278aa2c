//! The thread that samples the connections that another thread finds.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use super::finder::{Begun, Finder, Found};
use super::place::Place;
use super::{Options, Row, Shared};
use crate::diag::{Diag, DiagError, Id, State};
use weir_clock::{now_ns, sleep_until, wake_precisely};

/// Longest time for which a stop goes unnoticed.
const NAP_NS: u64 = 100_000_000;

/// A way to sample connections.
pub trait Sampling {
    /// Why it ended early.
    type Error: From<DiagError>;

    /// Samples these connections too; they are in [`super::Progress::connections`] under these numbers.
    ///
    /// # Errors
    /// The errors of this way of sampling.
    fn add(&mut self, found: Vec<(u32, Id)>) -> Result<(), Self::Error>;

    /// Counts the connections that begin, if this way can: then nothing looks for others while none begin.
    fn begun(&self) -> Option<Begun> {
        None
    }

    /// Whether there is nothing to sample.
    fn is_idle(&self) -> bool;

    /// Samples until all connections have ended, including those that `found` brings meanwhile, or until told to
    /// stop. Existing connections are sampled once in any case.
    ///
    /// # Errors
    /// The errors of this way of sampling, and of finding connections.
    fn sample(&mut self, found: Option<&Receiver<Found>>, shared: &Shared) -> Result<(), Self::Error>;

    /// Takes over what was found meanwhile.
    ///
    /// # Errors
    /// As for [`Self::sample`].
    fn take(&mut self, found: Option<&Receiver<Found>>) -> Result<(), Self::Error> {
        for fresh in found.into_iter().flat_map(Receiver::try_iter) {
            self.add(fresh?)?;
        }
        Ok(())
    }
}

/// Finds connections and samples them, until told to stop or until all have ended.
///
/// # Errors
/// The errors of `sampler`; the connections cannot be found.
pub fn keep_sampling<S: Sampling>(
    sampler: &mut S,
    options: &Options,
    shared: &Shared,
) -> Result<(), S::Error> {
    let mut finder = Finder::new(options, shared, sampler.begun())?;
    // However soon it is told to stop, existing connections are sampled once.
    sampler.add(finder.look()?)?;
    if !options.wait {
        return if sampler.is_idle() { Ok(()) } else { sampler.sample(None, shared) };
    }
    loop {
        let (looks, over) = (&mut finder, &AtomicBool::new(false));
        let (listener, found) = channel();
        thread::scope(|scope| {
            let looking = scope.spawn(move || looks.keep_looking(&listener, over));
            let done = wait_and_sample(sampler, &found, shared);
            over.store(true, SeqCst);
            looking.thread().unpark();
            done
        })?;
        // All have ended, but others may have begun since the last look.
        sampler.take(Some(&found))?;
        sampler.add(finder.look()?)?;
        if sampler.is_idle() || shared.is_stopped() {
            return Ok(());
        }
    }
}

fn wait_and_sample<S: Sampling>(
    sampler: &mut S,
    found: &Receiver<Found>,
    shared: &Shared,
) -> Result<(), S::Error> {
    // While there is nothing to sample, nothing is late.
    while sampler.is_idle() {
        if shared.is_stopped() {
            return Ok(());
        }
        match found.recv_timeout(Duration::from_nanos(NAP_NS)) {
            Ok(fresh) => sampler.add(fresh?)?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
    sampler.sample(Some(found), shared)
}

/// Samples by `INET_DIAG`.
pub struct Sampler {
    diag: Diag,
    period_ns: u64,
    alive: Vec<(u32, Id)>,
    place: Place,
}

impl Sampler {
    /// With nothing to sample yet.
    pub fn new(diag: Diag, period_ns: u64) -> Self {
        Self { diag, period_ns: period_ns.max(1), alive: Vec::new(), place: Place::new() }
    }

    /// Samples every existing connection.
    fn round(&mut self, late_ns: u64, missed: u64, shared: &Shared) -> Result<(), DiagError> {
        self.place.begin();
        let mut rows = Vec::with_capacity(self.alive.len());
        let mut gone = Vec::new();
        for &(connection, id) in &self.alive {
            let at_ns = now_ns();
            match self.diag.one(&id)? {
                // In TIME-WAIT nothing is left but the two ends, and the same cookie.
                Some(found) if found.state != State::TIME_WAIT => {
                    rows.push((found.inode, Row { connection, at_ns, sample: found.sample }));
                }
                _ => gone.push((connection, at_ns)),
            }
        }
        self.place.end(self.alive.len());
        shared.note_late(late_ns);
        let mut progress = shared.progress();
        for &(connection, _) in &self.alive {
            if let Some(each) = progress.connections.get_mut(connection as usize) {
                each.missed += missed;
            }
        }
        for (inode, row) in &rows {
            if let Some(each) = progress.connections.get_mut(row.connection as usize) {
                each.samples += 1;
                // When a connection ends, no process owns it any more.
                each.inode = if each.inode == 0 { *inode } else { each.inode };
            }
        }
        for &(connection, at_ns) in &gone {
            if let Some(each) = progress.connections.get_mut(connection as usize) {
                each.ended_ns = Some(at_ns);
            }
        }
        shared.keep(&mut progress, rows.into_iter().map(|(_, row)| row));
        self.alive.retain(|(connection, _)| gone.iter().all(|(ended, _)| ended != connection));
        Ok(())
    }
}

impl Sampling for Sampler {
    type Error = DiagError;

    fn add(&mut self, found: Vec<(u32, Id)>) -> Result<(), DiagError> {
        self.alive.extend(found);
        Ok(())
    }

    fn is_idle(&self) -> bool {
        self.alive.is_empty()
    }

    fn sample(&mut self, found: Option<&Receiver<Found>>, shared: &Shared) -> Result<(), DiagError> {
        // Not before: the thread that finds connections must not inherit it.
        wake_precisely();
        let mut due = now_ns();
        let mut sampled = false;
        while !sampled || !shared.is_stopped() {
            let now = now_ns();
            if now < due {
                sleep_until(due.min(now + NAP_NS));
                continue;
            }
            self.take(found)?;
            let late = now_ns().saturating_sub(due);
            let missed = late / self.period_ns;
            self.round(late, missed, shared)?;
            sampled = true;
            if self.alive.is_empty() {
                self.take(found)?;
            }
            if self.alive.is_empty() {
                return Ok(());
            }
            due += (missed + 1) * self.period_ns;
        }
        Ok(())
    }
}
