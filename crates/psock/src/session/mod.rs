//! A session: two streams of bytes, one each way, over any number of connections that come and go.
//!
//! No I/O and no clock. The owner of the connections gives the session what they deliver ([`Session::input`])
//! and what is known about them ([`Session::set_stats`]), calls [`Session::drive`], and writes what is
//! [`pending`](Session::pending). Times are of any clock that never goes back.
//!
//! The bytes of each direction come out at the other end once, in order and complete, or both ends get an error.
//! Memory is bounded by [`Config`]: `receive_bytes` for bytes that wait for earlier ones or for the application,
//! `send_bytes` for unacknowledged bytes, and one block per stream.

mod config;
mod connections;
mod coupling;
mod driving;
mod incoming;
mod outcome;
mod outgoing;
mod plain;
mod ranges;
mod stream;

use std::collections::{BTreeMap, VecDeque};

use crate::schedule::{Path, Scheduler, StreamId};
use crate::wire::{Frame, MOST_BLOCK_BYTES};
pub use config::{Config, Timing};
use coupling::Coupling;
use incoming::Incoming;
pub use outcome::{Read, SessionError, Totals};
use outgoing::Outgoing;
pub use stream::StreamTotals;
use stream::{Part, Stream};

/// How the other end closed a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// By a FIN.
    End,
    /// By a reset.
    Reset,
}

/// A session.
#[derive(Debug)]
pub struct Session {
    config: Config,
    scheduler: Box<dyn Scheduler>,
    streams: BTreeMap<StreamId, Stream>,
    next_id: u32,
    outgoing: Outgoing,
    incoming: Incoming,
    /// What the other end has been told has arrived.
    ack: (u64, u64),
    ack_due_ns: Option<u64>,
    /// No stream has worked since then.
    alone_since_ns: Option<u64>,
    /// The other end has closed streams since one was last made: when the last one, and how long it may take to make
    /// another if there is none left.
    closed: Option<(u64, u64)>,
    /// A stream that worked has ended since [`Session::drive`] was last called.
    has_trusted_ended: bool,
    dead: VecDeque<StreamId>,
    failure: Option<SessionError>,
    resent: (u64, u64),
    /// `None`: each stream has the rate that its TCP gives it.
    coupling: Option<Coupling>,
    /// Kept to reuse its memory.
    paths: Vec<Path>,
}

impl Session {
    /// A session without streams.
    #[must_use]
    pub fn new(config: Config, scheduler: Box<dyn Scheduler>) -> Self {
        let mut config = Config { block_bytes: config.block_bytes.clamp(1, MOST_BLOCK_BYTES), ..config };
        // So that it is noticed in time if there is no answer.
        config.timing.ping_ns = config.timing.ping_ns.min(config.timing.lost_ns / 4).max(1);
        let mut incoming = Incoming::new(config.receive_bytes.max(1));
        Self {
            scheduler,
            streams: BTreeMap::new(),
            next_id: 0,
            outgoing: Outgoing::new(config.send_bytes.max(1)),
            ack: incoming.told(),
            incoming,
            ack_due_ns: None,
            alone_since_ns: None,
            closed: None,
            has_trusted_ended: false,
            dead: VecDeque::new(),
            failure: None,
            resent: (0, 0),
            coupling: config.is_fair.then(Coupling::default),
            paths: Vec::new(),
            config,
        }
    }

    /// Takes bytes to send, as many as there is memory for.
    ///
    /// # Errors
    /// The session has failed, or [`Session::finish`] was called.
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize, SessionError> {
        match self.failure {
            Some(failure) => Err(failure),
            None if self.outgoing.is_finished() => Err(SessionError::Finished),
            None => Ok(self.outgoing.write(bytes)),
        }
    }

    /// Nothing more will be written.
    pub fn finish(&mut self) {
        self.outgoing.finish();
    }

    /// Gives the application what has arrived in order. What had arrived before a failure can still be read.
    ///
    /// # Errors
    /// The session has failed, and nothing is left.
    pub fn read(&mut self, into: &mut [u8]) -> Result<Read, SessionError> {
        let found = self.peek(into);
        if let Ok(Read::Bytes(len)) = found {
            self.skip(len);
        }
        found
    }

    /// The application has these next bytes, which [`Session::peek`] gave.
    pub const fn skip(&mut self, len: usize) {
        self.incoming.skip(len);
    }

    /// As [`Session::read`], but what it gives can be read again.
    ///
    /// # Errors
    /// As [`Session::read`].
    pub fn peek(&self, into: &mut [u8]) -> Result<Read, SessionError> {
        match (self.incoming.peek(into), self.failure) {
            (0, _) if self.incoming.is_read() => Ok(Read::End),
            (0, Some(failure)) => Err(failure),
            (0, None) => Ok(Read::Nothing),
            (len, _) => Ok(Read::Bytes(len)),
        }
    }

    /// A call of [`Session::read`] would find something: bytes, the end, or an error.
    #[must_use]
    pub fn can_read(&self) -> bool {
        self.incoming.readable() > 0 || self.incoming.is_read() || self.failure.is_some()
    }

    /// Bytes that a call of [`Session::write`] would take.
    #[must_use]
    pub fn room(&self) -> usize {
        self.outgoing.room()
    }

    /// A call of [`Session::write`] would take something, or fail.
    #[must_use]
    pub fn can_write(&self) -> bool {
        self.outgoing.room() > 0 || self.failure.is_some() || self.outgoing.is_finished()
    }

    /// All data of both directions has arrived.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.outgoing.is_done() && self.incoming.is_complete()
    }

    /// All data written here has arrived, and the end with it.
    #[must_use]
    pub const fn is_delivered(&self) -> bool {
        self.outgoing.is_done()
    }

    /// When the other end, or its TCP, was last heard from by a stream; `None`: there is none.
    #[must_use]
    pub fn worked_ns(&self) -> Option<u64> {
        self.streams.values().map(Stream::worked_ns).max()
    }

    /// Why it failed, if it did.
    #[must_use]
    pub const fn failure(&self) -> Option<SessionError> {
        self.failure
    }

    /// Aborts the session; the other end is told, if it can be reached.
    pub fn abort(&mut self) {
        if !self.is_finished() {
            self.fail(SessionError::Closed);
        }
    }

    /// The other end no longer has such a session.
    pub fn forget(&mut self) {
        if !self.is_finished() {
            self.fail(SessionError::Forgotten);
        }
    }

    /// The other end has closed the last streams, and takes no more.
    pub fn part(&mut self) {
        if self.closed.is_some() && self.streams.is_empty() && !self.is_finished() {
            self.fail(SessionError::Gone);
        }
    }

    /// The other end is to be told at once what was read: [`Session::drive`] does it.
    #[must_use]
    pub fn has_urgent_news(&self) -> bool {
        self.failure.is_none() && self.incoming.is_due(self.config.block_bytes.into())
    }

    /// There is something that a stream could carry, were it writable.
    #[must_use]
    pub fn wants_to_send(&self) -> bool {
        let lacks = |stream: &Stream| self.outgoing.first_without(&stream.carried).is_some();
        self.failure.is_none()
            && (self.outgoing.first_lost().is_some()
                || self.outgoing.sendable() > 0
                || self.scheduler.copies() && self.streams.values().any(lacks)
                || self.late().is_some())
    }

    /// Takes bytes that a connection delivered.
    ///
    /// # Errors
    /// [`SessionError::Violation`], [`SessionError::Aborted`]: the session has failed.
    pub fn input(&mut self, id: StreamId, mut bytes: &[u8], now_ns: u64) -> Result<(), SessionError> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(()) };
        if !bytes.is_empty() {
            stream.hear(now_ns);
        }
        let mut needed = None;
        let taken = loop {
            let part = match stream.split(&mut bytes) {
                Ok(Some(part)) => part,
                Ok(None) => break Ok(()),
                Err(violation) => break Err(violation.into()),
            };
            let done = match part {
                Part::Data(offset, data) => {
                    stream.totals.received_bytes += data.len() as u64;
                    self.incoming.take(offset, data).map(|_| ())
                }
                Part::Frame(Frame::Data { offset, len }) => self.incoming.check(offset, len),
                Part::Frame(Frame::Ack { next, limit }) => {
                    self.outgoing.acknowledge(next, limit).map(|start| needed = Some(start))
                }
                Part::Frame(Frame::End { total }) => self.incoming.end(total),
                Part::Frame(Frame::Ping { number }) => {
                    stream.pinged(number);
                    Ok(())
                }
                Part::Frame(Frame::Pong { number }) => stream.ponged(number),
                Part::Frame(Frame::Abort { reason }) => break Err(SessionError::Aborted(reason)),
            };
            if let Err(violation) = done {
                break Err(violation.into());
            }
        };
        if let Some(start) = needed {
            self.streams.values_mut().for_each(|stream| stream.arrived(start));
        }
        if let Err(failure) = taken {
            self.fail(failure);
            return Err(failure);
        }
        Ok(())
    }

    /// Does everything that is due; to be called after any other call, and at [`Session::deadline_ns`].
    pub fn drive(&mut self, now_ns: u64) {
        if self.failure.is_some() {
            return;
        }
        self.judge(now_ns);
        if self.gone_ns().is_some_and(|due_ns| now_ns >= due_ns) {
            self.fail(SessionError::Gone);
            return;
        }
        if let Some(alone_ns) = self.alone_ns(now_ns)
            && alone_ns >= self.config.timing.lost_ns
        {
            self.fail(SessionError::Lost(alone_ns));
            return;
        }
        self.acknowledge(now_ns);
        self.control();
        while self.give(now_ns) {}
        // The end may follow the last block at once.
        self.control();
    }

    /// When [`Session::drive`] is to be called at the latest; `u64::MAX`: at no particular time.
    #[must_use]
    pub fn deadline_ns(&self) -> u64 {
        if self.failure.is_some() {
            return u64::MAX;
        }
        let timing = &self.config.timing;
        let streams = self.streams.values().map(|stream| stream.deadline_ns(timing));
        let lost = self.alone_since_ns.filter(|_| !self.is_finished());
        let lost = lost.map(|since| since.saturating_add(timing.lost_ns));
        streams.chain(self.ack_due_ns).chain(lost).chain(self.gone_ns()).min().unwrap_or(u64::MAX)
    }

    /// When the other end is gone, unless it makes another stream.
    fn gone_ns(&self) -> Option<u64> {
        let (since_ns, patience_ns) = self.closed?;
        (self.streams.is_empty() && !self.is_finished()).then(|| since_ns.saturating_add(patience_ns))
    }

    /// The session's progress.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let (reorder_bytes, reorder_peak_bytes, duplicate_bytes) = self.incoming.memory();
        Totals {
            written_bytes: self.outgoing.end(),
            acknowledged_bytes: self.outgoing.acknowledged(),
            received_bytes: self.incoming.arrived(),
            reorder_bytes,
            reorder_peak_bytes,
            duplicate_bytes,
            resent_bytes: self.resent.0,
            resent_blocks: self.resent.1,
        }
    }

    /// The scheduler's name.
    #[must_use]
    pub fn scheduler(&self) -> &'static str {
        self.scheduler.name()
    }

    fn fail(&mut self, failure: SessionError) {
        if self.failure.is_some() {
            return;
        }
        if let Some(reason) = failure.reason() {
            self.streams.values_mut().for_each(|stream| stream.put(Frame::Abort { reason }));
        }
        self.failure = Some(failure);
    }
}

#[cfg(test)]
mod tests;
