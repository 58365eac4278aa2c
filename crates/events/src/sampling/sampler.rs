//! The thread that reads samples.

use std::collections::BTreeMap;
use std::mem;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use weir_tcp::clock::{now_ns, ticks_per_s};
use weir_tcp::diag::{Diag, Id};
use weir_tcp::watch::{Found, Row, Sampling, Shared};

use super::programs::{Entered, Programs};
use super::record::Record;
use super::ticks::Ticks;
use crate::error::EventsError;

/// How long samples stay in the ring at most. Whoever reads takes time from what is sampled, so not often.
const LATEST_NS: u64 = 50_000_000;
/// How many of them do: a quarter of those that the ring has room for.
const WAITING: u64 = 5_000;
/// While a handshake is not over.
const SOON_NS: u64 = 1_000_000;
/// How often connections that nobody has accepted are asked whose they are.
const ASK_NS: u64 = 100_000_000;
/// Without a round for so long, and for so many periods, the timer's CPU was taken away.
const STILL_NS: u64 = 1_000_000_000;
const STILL_PERIODS: u64 = 10;

/// Samples by the programs.
pub struct Sampler {
    programs: Programs,
    diag: Diag,
    period_ns: u64,
    hz: u32,
    ticks: Ticks,
    /// When the timer was started, or ran last.
    ran_ns: u64,
    asked_ns: u64,
    /// Connections by number, with the last round that is known of each.
    alive: BTreeMap<u32, (Id, Option<u64>)>,
    /// Those whose handshake is not over.
    pending: Vec<(u32, Id)>,
    /// Those that were gone when they were to be entered.
    gone: Vec<u32>,
}

impl Sampler {
    /// With nothing to sample yet.
    pub fn new(period_ns: u64) -> Result<Self, EventsError> {
        let period_ns = period_ns.max(1);
        Ok(Self {
            programs: Programs::load(period_ns)?,
            diag: Diag::open()?,
            period_ns,
            hz: ticks_per_s(),
            ticks: Ticks::new(period_ns),
            ran_ns: 0,
            asked_ns: 0,
            alive: BTreeMap::new(),
            pending: Vec::new(),
            gone: Vec::new(),
        })
    }

    fn enter(&mut self, found: Vec<(u32, Id)>) -> Result<(), EventsError> {
        if found.is_empty() {
            return Ok(());
        }
        for (number, id) in found {
            match self.programs.enter(number, &id)? {
                Entered::Done => {
                    self.alive.insert(number, (id, None));
                }
                Entered::Soon => self.pending.push((number, id)),
                Entered::Gone => self.gone.push(number),
            }
        }
        self.narrow()?;
        if !self.alive.is_empty() && !self.programs.is_running() {
            self.programs.start()?;
            self.ran_ns = now_ns();
        }
        Ok(())
    }

    /// Tells the programs which numbers they need to look at.
    fn narrow(&mut self) -> Result<(), EventsError> {
        let first = self.alive.first_key_value().map_or(0, |(number, _)| *number);
        let end = self.alive.last_key_value().map_or(0, |(number, _)| *number + 1);
        self.programs.narrow(first, end)
    }

    /// Takes over what was sampled.
    fn read(&mut self, shared: &Shared) -> Result<(), EventsError> {
        let mut records = Vec::new();
        let hz = self.hz;
        self.programs.read(|bytes| records.extend(Record::parse(bytes, hz)));
        // A first sample may be interrupted by one that is due.
        records.sort_by_key(|record| record.at_ns);
        let mut ended: Vec<_> = mem::take(&mut self.gone).into_iter().map(|it| (it, now_ns())).collect();
        let mut rows = Vec::with_capacity(records.len());
        let mut progress = shared.progress();
        for Record { tick_ns, at_ns, number, sample } in records {
            let Some((_, last)) = self.alive.get_mut(&number) else { continue };
            let Some(each) = progress.connections.get_mut(number as usize) else { continue };
            if let Some(tick_ns) = tick_ns {
                self.ran_ns = tick_ns;
                let (round, late_ns) = self.ticks.at(tick_ns);
                if let Some(late_ns) = late_ns {
                    shared.note_late(late_ns);
                }
                // Late, without room in the ring, or without time for all: it is missed.
                each.missed += last.map_or(0, |last| round.saturating_sub(last + 1));
                *last = Some(round);
            }
            match sample {
                Some(sample) => {
                    each.samples += 1;
                    rows.push(Row { connection: number, at_ns, sample });
                }
                None => ended.push((number, at_ns)),
            }
        }
        for &(number, at_ns) in &ended {
            self.alive.remove(&number);
            if let Some(each) = progress.connections.get_mut(number as usize) {
                each.ended_ns = Some(at_ns);
            }
        }
        shared.keep(&mut progress, rows.into_iter());
        drop(progress);
        if !ended.is_empty() {
            self.narrow()?;
            if self.alive.is_empty() {
                self.rest();
            }
        }
        Ok(())
    }

    /// Asks whose the connections are that nobody had accepted. That takes their locks, so not often.
    fn ask(&mut self, shared: &Shared) -> Result<(), EventsError> {
        let now_ns = now_ns();
        if now_ns < self.asked_ns + ASK_NS {
            return Ok(());
        }
        self.asked_ns = now_ns;
        let unknown: Vec<_> = {
            let progress = shared.progress();
            let has_no_owner =
                |number: u32| progress.connections.get(number as usize).is_some_and(|each| each.inode == 0);
            let alive = self.alive.iter().filter(|(number, _)| has_no_owner(**number));
            alive.map(|(number, (id, _))| (*number, *id)).collect()
        };
        for (number, id) in unknown {
            let Some(found) = self.diag.one(&id)? else { continue };
            if let Some(each) = shared.progress().connections.get_mut(number as usize) {
                each.inode = found.inode;
            }
        }
        Ok(())
    }

    fn rest(&mut self) {
        self.programs.stop();
        self.ticks.rest();
    }

    /// Moves the timer where it stands still.
    fn revive(&mut self) -> Result<(), EventsError> {
        let still_ns = STILL_NS.max(self.period_ns.saturating_mul(STILL_PERIODS));
        if self.programs.is_running() && now_ns() > self.ran_ns.saturating_add(still_ns) {
            self.programs.start()?;
            self.ticks.restart();
            self.ran_ns = now_ns();
        }
        Ok(())
    }

    fn nap(&mut self, found: Option<&Receiver<Found>>) -> Result<(), EventsError> {
        let full_ns = self.period_ns.saturating_mul(WAITING) / self.alive.len().max(1) as u64;
        let longest_ns = if self.pending.is_empty() { LATEST_NS } else { SOON_NS };
        let nap = Duration::from_nanos(full_ns.min(longest_ns));
        match found.map(|found| found.recv_timeout(nap)) {
            Some(Ok(fresh)) => self.enter(fresh?)?,
            Some(Err(RecvTimeoutError::Timeout)) => {}
            Some(Err(RecvTimeoutError::Disconnected)) | None => thread::sleep(nap),
        }
        Ok(())
    }
}

impl Sampling for Sampler {
    type Error = EventsError;

    fn add(&mut self, found: Vec<(u32, Id)>) -> Result<(), EventsError> {
        self.enter(found)
    }

    fn is_idle(&self) -> bool {
        self.alive.is_empty() && self.pending.is_empty() && self.gone.is_empty()
    }

    fn sample(&mut self, found: Option<&Receiver<Found>>, shared: &Shared) -> Result<(), EventsError> {
        loop {
            // Asked before: what was entered until then was sampled, and is read.
            let is_stopped = shared.is_stopped();
            self.take(found)?;
            let pending = mem::take(&mut self.pending);
            self.enter(pending)?;
            self.read(shared)?;
            self.ask(shared)?;
            if self.is_idle() {
                self.take(found)?;
            }
            if is_stopped || self.is_idle() {
                self.rest();
                return Ok(());
            }
            self.revive()?;
            self.nap(found)?;
        }
    }
}
