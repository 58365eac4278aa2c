//! A session: two streams of bytes, one each way, over any number of connections that come and go.
//!
//! No I/O and no clock. Whoever has connections gives the session what they deliver ([`Session::input`]) and what
//! is known of them ([`Session::set_stats`]), calls [`Session::drive`], and writes what is
//! [`pending`](Session::pending). Times are of any clock that never goes back.
//!
//! The bytes of each direction come out at the other end once, in order and complete, or both ends get an error.
//! Memory is bounded by [`Config`]: `receive_bytes` for what waits for bytes before it or for the application,
//! `send_bytes` for what was not acknowledged, and one block per stream.

mod incoming;
mod outgoing;
mod ranges;
mod stream;

use std::collections::{BTreeMap, VecDeque};

use thiserror::Error;

use crate::schedule::{Path, PathStats, Scheduler, StreamId, Work};
use crate::wire::{Frame, MOST_BLOCK_BYTES, MOST_STREAMS, Reason, Violation};
use incoming::Incoming;
use outgoing::Outgoing;
pub use stream::StreamTotals;
use stream::{Part, Stream};

/// How long what may last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// A stream that has made no progress for this time, and for four round trips, gets no blocks; those that it
    /// carries go by other streams as well.
    pub suspect_ns: u64,
    /// A stream that has made no progress for this time is given up.
    pub dead_ns: u64,
    /// A stream by which nothing came for this time is asked whether it works.
    pub ping_ns: u64,
    /// The session fails when it has had no stream for this time.
    pub lost_ns: u64,
    /// What has arrived is acknowledged after this time at the latest.
    pub ack_ns: u64,
}

const MS: u64 = 1_000_000;

impl Default for Timing {
    fn default() -> Self {
        Self {
            suspect_ns: 300 * MS,
            dead_ns: 10_000 * MS,
            ping_ns: 3_000 * MS,
            lost_ns: 15_000 * MS,
            ack_ns: 5 * MS,
        }
    }
}

/// Memory and times of one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// For bytes that have arrived and that the application has not read, in order or not; at least 1.
    pub receive_bytes: usize,
    /// For bytes that were written and not acknowledged; at least 1.
    pub send_bytes: usize,
    /// Largest block that is sent, 1 to 65536.
    pub block_bytes: u32,
    /// Times.
    pub timing: Timing,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            receive_bytes: 4 << 20,
            send_bytes: 4 << 20,
            block_bytes: 32 * 1024,
            timing: Timing::default(),
        }
    }
}

/// Why a session failed; it stays so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SessionError {
    /// All connections are gone, and none has come back.
    #[error("no connection was left for {:.1} s", *.0 as f64 / 1e9)]
    Lost(u64),
    /// The other end does not keep to the protocol.
    #[error("the other end breaks the protocol: {0}")]
    Violation(#[from] Violation),
    /// The other end broke the session off.
    #[error("the other end broke the session off: {}", match .0 {
        Reason::Closed => "it was closed before all data had been exchanged",
        Reason::Violation => "it says that this end breaks the protocol",
        Reason::Lost => "it had no connection for too long",
    })]
    Aborted(Reason),
    /// This end broke it off.
    #[error("the session was closed before all data had been exchanged")]
    Closed,
    /// The other end has no such session any more.
    #[error("the other end has ended the session")]
    Forgotten,
    /// Bytes were written after the end.
    #[error("nothing can be written after the end")]
    Finished,
}

/// What [`Session::read`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// So many bytes.
    Bytes(usize),
    /// Nothing yet.
    Nothing,
    /// The end: everything has been read.
    End,
}

/// Where a session is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Bytes that the application wrote.
    pub written_bytes: u64,
    /// Those of them that have arrived in order.
    pub acknowledged_bytes: u64,
    /// Bytes that have arrived here in order.
    pub received_bytes: u64,
    /// Bytes that wait for others before them.
    pub reorder_bytes: u64,
    /// Most of them at one time.
    pub reorder_peak_bytes: u64,
    /// Bytes that came more than once.
    pub duplicate_bytes: u64,
    /// Bytes of blocks that were given to a second stream.
    pub resent_bytes: u64,
    /// Blocks that were given to a second stream.
    pub resent_blocks: u64,
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
    /// What the other end is told has arrived.
    ack: (u64, u64),
    ack_due_ns: Option<u64>,
    alone_since_ns: Option<u64>,
    dead: VecDeque<StreamId>,
    failure: Option<SessionError>,
    resent: (u64, u64),
    /// Kept for its memory.
    paths: Vec<Path>,
}

impl Session {
    /// A session without streams.
    #[must_use]
    pub fn new(config: Config, scheduler: Box<dyn Scheduler>) -> Self {
        let config = Config { block_bytes: config.block_bytes.clamp(1, MOST_BLOCK_BYTES), ..config };
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
            dead: VecDeque::new(),
            failure: None,
            resent: (0, 0),
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
        match (self.incoming.read(into), self.failure) {
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

    /// A call of [`Session::write`] would take something, or fail.
    #[must_use]
    pub fn can_write(&self) -> bool {
        self.outgoing.room() > 0 || self.failure.is_some() || self.outgoing.is_finished()
    }

    /// All data of both directions have arrived.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.outgoing.is_done() && self.incoming.is_complete()
    }

    /// All data that were written here have arrived, and the end with them.
    #[must_use]
    pub const fn is_delivered(&self) -> bool {
        self.outgoing.is_done()
    }

    /// Why it failed, if it did.
    #[must_use]
    pub const fn failure(&self) -> Option<SessionError> {
        self.failure
    }

    /// Breaks the session off; the other end is told so, if it can be reached.
    pub fn abort(&mut self) {
        if !self.is_finished() {
            self.fail(SessionError::Closed);
        }
    }

    /// The other end has no such session any more.
    pub fn forget(&mut self) {
        if !self.is_finished() {
            self.fail(SessionError::Forgotten);
        }
    }

    /// A connection has been greeted.
    ///
    /// `None`: there are [`MOST_STREAMS`] already.
    pub fn attach(&mut self, now_ns: u64) -> Option<StreamId> {
        if self.streams.len() >= MOST_STREAMS {
            return None;
        }
        let id = StreamId(self.next_id);
        self.next_id += 1;
        self.streams.insert(id, Stream::new(now_ns));
        self.alone_since_ns = None;
        // It may carry what others hold up.
        for stream in self.streams.values().filter(|stream| stream.is_suspect()) {
            stream.carried.iter().for_each(|offset| self.outgoing.doubt(*offset));
        }
        Some(id)
    }

    /// A connection has ended, in whatever way: what it carried and is not known to have arrived goes by others.
    pub fn detach(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.remove(&id) {
            for offset in stream.carried {
                self.outgoing.lose(offset);
            }
        }
    }

    /// A stream that was given up; its connection is to be closed.
    pub fn take_dead(&mut self) -> Option<StreamId> {
        self.dead.pop_front()
    }

    /// Streams, in the order in which they were attached.
    pub fn streams(&self) -> impl Iterator<Item = StreamId> {
        self.streams.keys().copied()
    }

    /// What is known of a stream's connection.
    pub fn set_stats(&mut self, id: StreamId, stats: PathStats, now_ns: u64) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.update(stats, now_ns);
        }
    }

    /// The connection can take more; it is asked anew for each block.
    pub fn set_writable(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.set_writable(true);
        }
    }

    /// The other end is to be told at once what was read: [`Session::drive`] does it.
    #[must_use]
    pub fn has_urgent_news(&self) -> bool {
        self.failure.is_none() && self.incoming.is_due(self.config.block_bytes.into())
    }

    /// The stream's connection is not known to be full: [`Session::set_writable`] would change nothing.
    #[must_use]
    pub fn is_writable(&self, id: StreamId) -> bool {
        self.streams.get(&id).is_some_and(Stream::is_writable)
    }

    /// There is something that a stream could carry, were it writable.
    #[must_use]
    pub fn wants_to_send(&self) -> bool {
        self.failure.is_none() && (self.outgoing.first_lost().is_some() || self.outgoing.sendable() > 0)
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

    /// What the connection of a stream is to take next; empty where nothing is.
    #[must_use]
    pub fn pending(&self, id: StreamId) -> &[u8] {
        self.streams.get(&id).map_or(&[], Stream::pending)
    }

    /// The connection of a stream has taken `len` of the pending bytes.
    pub fn sent(&mut self, id: StreamId, len: usize) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.sent(len);
        }
    }

    /// Does everything that is due; to be called after anything else was, and at [`Session::deadline_ns`].
    pub fn drive(&mut self, now_ns: u64) {
        if self.failure.is_some() {
            return;
        }
        self.judge(now_ns);
        if self.streams.is_empty() && !self.is_finished() {
            let since = *self.alone_since_ns.get_or_insert(now_ns);
            let alone_ns = now_ns.saturating_sub(since);
            if alone_ns >= self.config.timing.lost_ns {
                self.fail(SessionError::Lost(alone_ns));
                return;
            }
        }
        self.acknowledge(now_ns);
        self.control();
        while self.give(now_ns) {}
        // The end may follow the last block at once.
        self.control();
    }

    /// When [`Session::drive`] is to be called at the latest; `u64::MAX`: no time in particular.
    #[must_use]
    pub fn deadline_ns(&self) -> u64 {
        if self.failure.is_some() {
            return u64::MAX;
        }
        let timing = &self.config.timing;
        let streams = self.streams.values().map(|stream| stream.deadline_ns(timing));
        let lost = self.alone_since_ns.filter(|_| !self.is_finished());
        let lost = lost.map(|since| since.saturating_add(timing.lost_ns));
        streams.chain(self.ack_due_ns).chain(lost).min().unwrap_or(u64::MAX)
    }

    /// Where it is.
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

    /// What a stream has carried, while it is attached.
    #[must_use]
    pub fn stream_totals(&self, id: StreamId) -> Option<StreamTotals> {
        self.streams.get(&id).map(|stream| stream.totals)
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
        let reason = match failure {
            SessionError::Aborted(_) | SessionError::Forgotten | SessionError::Finished => None,
            SessionError::Closed => Some(Reason::Closed),
            SessionError::Violation(_) => Some(Reason::Violation),
            SessionError::Lost(_) => Some(Reason::Lost),
        };
        if let Some(reason) = reason {
            self.streams.values_mut().for_each(|stream| stream.put(Frame::Abort { reason }));
        }
        self.failure = Some(failure);
    }

    fn judge(&mut self, now_ns: u64) {
        let timing = self.config.timing;
        let mut dead = Vec::new();
        for (id, stream) in &mut self.streams {
            if stream.judge(now_ns, &timing) {
                stream.carried.iter().for_each(|offset| self.outgoing.doubt(*offset));
            }
            if stream.is_dead(now_ns, &timing) {
                dead.push(*id);
            }
        }
        for id in dead {
            self.detach(id);
            self.dead.push_back(id);
        }
    }

    fn acknowledge(&mut self, now_ns: u64) {
        if !self.incoming.is_news() {
            return;
        }
        let due_ns = *self.ack_due_ns.get_or_insert(now_ns.saturating_add(self.config.timing.ack_ns));
        if now_ns >= due_ns || self.incoming.is_due(self.config.block_bytes.into()) {
            self.ack = self.incoming.told();
            self.ack_due_ns = None;
        }
    }

    fn control(&mut self) {
        // On every stream: the first to arrive counts, and a stream that fails takes nothing with it.
        let end = self.outgoing.total().filter(|_| !self.outgoing.is_done());
        for stream in self.streams.values_mut() {
            if stream.control(self.ack, end) {
                self.outgoing.end_told();
            }
        }
    }

    /// Gives one block to one stream, if there are both.
    fn give(&mut self, now_ns: u64) -> bool {
        let again = self.outgoing.first_lost();
        let sendable_bytes = self.outgoing.sendable();
        let is_limited = self.outgoing.is_limited();
        let most = self.config.block_bytes;
        let block_bytes = match again {
            Some((_, len)) => u64::from(len),
            None => sendable_bytes.min(most.into()),
        };
        // A window that opens by a little is not filled by blocks as little (RFC 9293, 3.8.6.2).
        let is_silly = block_bytes < u64::from(most) && is_limited && self.outgoing.blocks_under_way() > 0;
        if block_bytes == 0 || again.is_none() && is_silly {
            return false;
        }
        // Where every stream is suspect, any of them may be the first to work again.
        let has_trusted = self.streams.values().any(|stream| !stream.is_suspect());
        let offset = again.map(|(offset, _)| offset);
        self.paths.clear();
        self.paths.extend(
            self.streams
                .iter()
                .filter(|(_, stream)| !(has_trusted && stream.is_suspect()))
                .filter(|(_, stream)| offset.is_none_or(|offset| !stream.carried.contains(&offset)))
                .map(|(id, stream)| Path { id: *id, is_ready: stream.is_ready(), stats: stream.stats }),
        );
        if let Some(offset) = offset {
            let carries = |stream: &Stream| !stream.is_suspect() && stream.carried.contains(&offset);
            let is_under_way = self.streams.values().any(carries);
            // Either its stream works again, or all that could carry it do so already.
            if is_under_way || self.paths.is_empty() && self.outgoing.is_carried(offset) {
                self.outgoing.leave(offset);
                return true;
            }
        }
        if !self.paths.iter().any(|path| path.is_ready) {
            return false;
        }
        let work = Work {
            now_ns,
            block_bytes,
            sendable_bytes: sendable_bytes.max(1),
            window_bytes: self.outgoing.window(),
            is_limited,
            is_again: again.is_some(),
        };
        let Some(choice) = self.scheduler.choose(&work, &self.paths) else { return false };
        let Some(stream) = self.streams.get_mut(&choice.stream).filter(|stream| stream.is_ready()) else {
            return false;
        };
        let (offset, len) = match again {
            Some((offset, len)) => {
                self.outgoing.send_again(offset);
                self.resent.0 += u64::from(len);
                self.resent.1 += 1;
                (offset, len)
            }
            None => match self.outgoing.take(choice.skip_bytes, most) {
                Some(block) => block,
                None => return false,
            },
        };
        stream.put_block(offset, len, again.is_some(), |to| self.outgoing.copy(offset, len, to));
        true
    }
}

#[cfg(test)]
mod tests;
