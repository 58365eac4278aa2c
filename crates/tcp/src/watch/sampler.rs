//! The thread that finds connections and samples them.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering::SeqCst;

use hdrhistogram::Histogram;

use super::{Lateness, MOST_CONNECTIONS, MOST_SAMPLES, Options, Row, Shared, Watched, lock};
use crate::clock::{now_ns, sleep_until, wake_precisely};
use crate::diag::{Diag, DiagError, Id, State};
use crate::times::histogram;

/// How often connections are looked for: once some are there, and at most while there are none.
const LOOK_NS: u64 = 10_000_000;
const LOOK_SOONEST_NS: u64 = 1_000_000;
/// How long a stop may go unnoticed.
const NAP_NS: u64 = 100_000_000;

/// Watches until it is told to stop, or all connections have ended.
pub fn run(diag: Diag, options: Options, shared: &Shared) {
    wake_precisely();
    let mut sampler = Sampler {
        diag,
        options,
        shared,
        alive: Vec::new(),
        judged: HashSet::new(),
        lateness: histogram(),
        next_look_ns: 0,
    };
    let done = sampler.watch();
    let mut progress = lock(&shared.progress);
    progress.failure = done.err().map(|error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        format!("{error}{cause}")
    });
    progress.ended = true;
}

struct Sampler<'a> {
    diag: Diag,
    options: Options,
    shared: &'a Shared,
    alive: Vec<(u32, Id)>,
    /// Cookies of connections that were found, or are not meant.
    judged: HashSet<u64>,
    lateness: Histogram<u64>,
    next_look_ns: u64,
}

impl Sampler<'_> {
    fn watch(&mut self) -> Result<(), DiagError> {
        let period = self.options.period_ns.max(1);
        let mut due = now_ns();
        let (mut looked, mut seen) = (false, false);
        // However soon it is told to stop: what is there is sampled once.
        while !looked || !self.shared.stop.load(SeqCst) {
            let now = now_ns();
            if now < due {
                sleep_until(due.min(now + NAP_NS));
                continue;
            }
            if !seen || (self.options.wait && now >= self.next_look_ns) {
                self.look()?;
                looked = true;
                // While there is nothing to sample, nothing is late.
                if !seen {
                    due = now_ns();
                }
                seen |= !self.alive.is_empty();
                if !seen {
                    if !self.options.wait {
                        return Ok(());
                    }
                    due = now_ns() + period.clamp(LOOK_SOONEST_NS, LOOK_NS);
                    continue;
                }
            }
            let late = now_ns().saturating_sub(due);
            let missed = late / period;
            self.round(late, missed)?;
            if self.alive.is_empty() {
                return Ok(());
            }
            due += (missed + 1) * period;
        }
        Ok(())
    }

    /// Looks for connections that are not known yet.
    fn look(&mut self) -> Result<(), DiagError> {
        let filter = &self.options.filter;
        let mut fresh = filter.candidates(&mut self.diag)?;
        fresh.retain(|each| !self.judged.contains(&each.id.cookie));
        self.next_look_ns = now_ns() + LOOK_NS;
        if fresh.is_empty() {
            return Ok(());
        }
        let owners = if filter.has_process() { filter.owners() } else { HashMap::new() };
        let mut progress = lock(&self.shared.progress);
        for found in fresh {
            let owner = owners.get(&found.inode);
            if !filter.fits_owner(owner) {
                // A connection that waits to be accepted belongs to nobody yet.
                if found.inode != 0 {
                    self.judged.insert(found.id.cookie);
                }
                continue;
            }
            self.judged.insert(found.id.cookie);
            if progress.connections.len() >= MOST_CONNECTIONS {
                progress.left_out += 1;
                continue;
            }
            self.alive.push((progress.connections.len() as u32, found.id));
            let fresh = Watched::found(&found.id, found.inode, found.congestion, owner, now_ns());
            progress.connections.push(fresh);
        }
        Ok(())
    }

    /// Samples every connection that is there.
    fn round(&mut self, late_ns: u64, missed: u64) -> Result<(), DiagError> {
        self.lateness.saturating_record(late_ns);
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
        progress.lateness = Lateness {
            rounds: self.lateness.len(),
            mean_ns: self.lateness.mean() as u64,
            p99_ns: self.lateness.value_at_quantile(0.99),
            max_ns: self.lateness.max(),
        };
        self.alive.retain(|(connection, _)| gone.iter().all(|(ended, _)| ended != connection));
        Ok(())
    }
}
