//! The thread that reads samples.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use weir_clock::{now_ns, ticks_per_s};
use weir_tcp::diag::{Diag, Id};
use weir_tcp::watch::{Begun, Found, Sampling, Shared};

use super::connections::{Answer, Connections};
use super::programs::Programs;
use super::record::Record;
use crate::error::EventsError;

/// Longest time that samples stay in the ring. Reading takes time from what is sampled, so it is not done often.
const LATEST_NS: u64 = 50_000_000;
/// Most samples that do: a quarter of those that the ring has room for.
const WAITING: u64 = 5_000;

/// Samples by the programs.
pub struct Sampler {
    programs: Programs,
    diag: Diag,
    period_ns: u64,
    hz: u32,
    connections: Connections,
}

impl Sampler {
    /// With nothing to sample yet.
    pub fn new(period_ns: u64) -> Result<Self, EventsError> {
        let period_ns = period_ns.max(1);
        Ok(Self {
            programs: Programs::attach(period_ns)?,
            diag: Diag::open()?,
            period_ns,
            hz: ticks_per_s(),
            connections: Connections::new(period_ns),
        })
    }

    /// Takes over what was sampled.
    fn read(&mut self, shared: &Shared) -> Result<(), EventsError> {
        // First the answers: events before them have been reported by then.
        let answers = self.ask()?;
        let mut records = Vec::new();
        self.programs.read(|bytes| records.extend(Record::parse(bytes, self.hz)));
        let mut progress = shared.progress();
        let news = self.connections.take(records, answers, &mut progress);
        shared.keep(&mut progress, news.rows.into_iter());
        drop(progress);
        news.late_ns.into_iter().for_each(|late_ns| shared.note_late(late_ns));
        news.ended.iter().try_for_each(|id| self.programs.leave(id.cookie))
    }

    /// Queries connections that report nothing by themselves. That takes their locks, but not for long.
    fn ask(&mut self) -> Result<Vec<Answer>, EventsError> {
        let mut answers = Vec::new();
        for (number, id) in self.connections.to_ask(now_ns()) {
            let asked_ns = now_ns();
            let found = self.diag.one(&id)?;
            let missed = self.programs.missed(id.cookie)?;
            answers.push(Answer { number, asked_ns, found, missed });
        }
        Ok(answers)
    }

    fn nap(&mut self, found: Option<&Receiver<Found>>) -> Result<(), EventsError> {
        let full_ns = self.period_ns.saturating_mul(WAITING) / self.connections.len().max(1) as u64;
        let nap = Duration::from_nanos(full_ns.min(LATEST_NS));
        match found.map(|found| found.recv_timeout(nap)) {
            Some(Ok(fresh)) => self.add(fresh?)?,
            Some(Err(RecvTimeoutError::Timeout)) => {}
            Some(Err(RecvTimeoutError::Disconnected)) | None => thread::sleep(nap),
        }
        Ok(())
    }
}

impl Sampling for Sampler {
    type Error = EventsError;

    fn add(&mut self, found: Vec<(u32, Id)>) -> Result<(), EventsError> {
        for (number, id) in found {
            let due_ns = now_ns();
            self.programs.enter(id.cookie, number, due_ns)?;
            self.connections.add(number, id, due_ns);
        }
        Ok(())
    }

    fn begun(&self) -> Option<Begun> {
        Some(self.programs.begun())
    }

    fn is_idle(&self) -> bool {
        self.connections.len() == 0
    }

    fn sample(&mut self, found: Option<&Receiver<Found>>, shared: &Shared) -> Result<(), EventsError> {
        loop {
            // Checked before: what happened until then is read.
            let is_stopped = shared.is_stopped();
            self.take(found)?;
            self.read(shared)?;
            if self.is_idle() {
                self.take(found)?;
            }
            if is_stopped || self.is_idle() {
                return Ok(());
            }
            self.nap(found)?;
        }
    }
}
