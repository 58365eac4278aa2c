//! The thread that samples the connections that another one finds.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use super::finder::{Finder, Found};
use super::place::Place;
use super::{MOST_SAMPLES, Options, Row, Shared, lock};
use crate::clock::{now_ns, sleep_until, wake_precisely};
use crate::diag::{Diag, DiagError, Id, State};
use crate::times::histogram;

/// How long a stop may go unnoticed.
const NAP_NS: u64 = 100_000_000;

/// Watches until it is told to stop, or all connections have ended.
pub fn watch(diag: Diag, options: &Options, shared: &Shared) -> Result<(), DiagError> {
    let mut finder = Finder::new(options, shared)?;
    // However soon it is told to stop: what is there is sampled once.
    let alive = finder.look()?;
    let mut sampler = Sampler { diag, options, shared, alive, place: Place::new() };
    if !options.wait {
        wake_precisely();
        return sampler.watch(None);
    }
    loop {
        let (looks, over) = (&mut finder, &AtomicBool::new(false));
        let (listener, found) = channel();
        thread::scope(|scope| {
            let looking = scope.spawn(move || looks.keep_looking(&listener, over));
            // After the other thread has begun, which is not to inherit it.
            wake_precisely();
            let done = sampler.watch(Some(&found));
            over.store(true, SeqCst);
            looking.thread().unpark();
            done
        })?;
        // All have ended, but others may have begun since the last look.
        sampler.take(Some(&found))?;
        sampler.alive.extend(finder.look()?);
        if sampler.alive.is_empty() || shared.stop.load(SeqCst) {
            return Ok(());
        }
    }
}

struct Sampler<'a> {
    diag: Diag,
    options: &'a Options,
    shared: &'a Shared,
    alive: Vec<(u32, Id)>,
    place: Place,
}

impl Sampler<'_> {
    fn watch(&mut self, found: Option<&Receiver<Found>>) -> Result<(), DiagError> {
        let period = self.options.period_ns.max(1);
        // While there is nothing to sample, nothing is late.
        while self.alive.is_empty() {
            let Some(found) = found else { return Ok(()) };
            if self.shared.stop.load(SeqCst) {
                return Ok(());
            }
            match found.recv_timeout(Duration::from_nanos(NAP_NS)) {
                Ok(fresh) => self.alive.extend(fresh?),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
        let mut due = now_ns();
        let mut sampled = false;
        while !sampled || !self.shared.stop.load(SeqCst) {
            let now = now_ns();
            if now < due {
                sleep_until(due.min(now + NAP_NS));
                continue;
            }
            self.take(found)?;
            let late = now_ns().saturating_sub(due);
            let missed = late / period;
            self.round(late, missed)?;
            sampled = true;
            if self.alive.is_empty() {
                self.take(found)?;
            }
            if self.alive.is_empty() {
                return Ok(());
            }
            due += (missed + 1) * period;
        }
        Ok(())
    }

    /// Takes over what was found meanwhile.
    fn take(&mut self, found: Option<&Receiver<Found>>) -> Result<(), DiagError> {
        for fresh in found.into_iter().flat_map(Receiver::try_iter) {
            self.alive.extend(fresh?);
        }
        Ok(())
    }

    /// Samples every connection that is there.
    fn round(&mut self, late_ns: u64, missed: u64) -> Result<(), DiagError> {
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
        lock(&self.shared.lateness).get_or_insert_with(histogram).saturating_record(late_ns);
        let mut progress = lock(&self.shared.progress);
        for &(connection, _) in &self.alive {
            if let Some(each) = progress.connections.get_mut(connection as usize) {
                each.missed += missed;
            }
        }
        for (inode, row) in &rows {
            if let Some(each) = progress.connections.get_mut(row.connection as usize) {
                each.samples += 1;
                // When a connection ends it belongs to nobody again.
                each.inode = if each.inode == 0 { *inode } else { each.inode };
            }
        }
        for &(connection, at_ns) in &gone {
            if let Some(each) = progress.connections.get_mut(connection as usize) {
                each.ended_ns = Some(at_ns);
            }
        }
        let mut kept = lock(&self.shared.rows);
        let room = MOST_SAMPLES.saturating_sub(kept.len());
        progress.lost += rows.len().saturating_sub(room) as u64;
        kept.extend(rows.into_iter().map(|(_, row)| row).take(room));
        self.alive.retain(|(connection, _)| gone.iter().all(|(ended, _)| ended != connection));
        Ok(())
    }
}
