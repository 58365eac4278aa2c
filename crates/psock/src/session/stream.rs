//! One stream of a session: frames in, frames out, and whether it works.

use std::collections::BTreeSet;

use super::Timing;
use crate::schedule::{Path, PathStats, StreamId};
use crate::wire::{Frame, HEADER_BYTES, Violation};

/// Frames without data are not added beyond this, so that a stream which takes nothing needs no memory.
const CONTROL_ROOM: usize = 4 * HEADER_BYTES;

/// What a stream has carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamTotals {
    /// Bytes of blocks that it was given.
    pub sent_bytes: u64,
    /// Those of them that another stream had been given before.
    pub resent_bytes: u64,
    /// Bytes of blocks that came by it.
    pub received_bytes: u64,
}

/// What comes out of the bytes that a stream delivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// A frame, without its data.
    Frame(Frame),
    /// Data of the frame before.
    Data(u64, &'a [u8]),
}

#[derive(Debug)]
pub struct Stream {
    out: Vec<u8>,
    /// Bytes of `out` that the connection has taken.
    taken: usize,
    is_writable: bool,
    header: [u8; HEADER_BYTES],
    have: usize,
    /// Offset and length of the data that follow.
    body: (u64, u32),
    /// Offsets of the blocks that it carries.
    pub carried: BTreeSet<u64>,
    pub stats: PathStats,
    pub totals: StreamTotals,
    /// When bytes last came by it.
    heard_ns: u64,
    /// When the other end, or its TCP, was last heard from by it.
    worked_ns: u64,
    /// When it last worked, or had nothing to do.
    progress_ns: u64,
    is_suspect: bool,
    is_stalled: bool,
    ping: Option<u64>,
    pong: Option<u64>,
    told: Option<(u64, u64)>,
    is_end_told: bool,
}

impl Stream {
    pub fn new(now_ns: u64) -> Self {
        Self {
            out: Vec::new(),
            taken: 0,
            is_writable: true,
            header: [0; HEADER_BYTES],
            have: 0,
            body: (0, 0),
            carried: BTreeSet::new(),
            stats: PathStats::default(),
            totals: StreamTotals::default(),
            heard_ns: now_ns,
            worked_ns: now_ns,
            progress_ns: now_ns,
            is_suspect: false,
            is_stalled: false,
            ping: None,
            pong: None,
            told: None,
            is_end_told: false,
        }
    }

    /// What the connection is to take next.
    pub fn pending(&self) -> &[u8] {
        &self.out[self.taken..]
    }

    /// The connection has taken `len` bytes.
    pub fn sent(&mut self, len: usize) {
        self.taken = (self.taken + len).min(self.out.len());
        if self.taken == self.out.len() {
            self.out.clear();
            self.taken = 0;
        }
    }

    pub const fn set_writable(&mut self, is_writable: bool) {
        self.is_writable = is_writable;
    }

    pub const fn is_writable(&self) -> bool {
        self.is_writable
    }

    /// It can take a block.
    pub fn is_ready(&self) -> bool {
        self.is_writable && self.has_room()
    }

    fn has_room(&self) -> bool {
        self.pending().len() < CONTROL_ROOM
    }

    pub const fn is_suspect(&self) -> bool {
        self.is_suspect
    }

    /// It has been suspect for as long as it took to become so.
    pub const fn is_stalled(&self) -> bool {
        self.is_stalled
    }

    /// When the other end, or its TCP, was last heard from by it.
    pub const fn worked_ns(&self) -> u64 {
        self.worked_ns
    }

    pub fn update(&mut self, stats: PathStats, now_ns: u64) {
        if stats.acked_bytes > self.stats.acked_bytes {
            self.worked_ns = now_ns;
            self.trust(now_ns);
        }
        self.stats = stats;
    }

    const fn trust(&mut self, now_ns: u64) {
        self.progress_ns = now_ns;
        self.is_suspect = false;
        self.is_stalled = false;
    }

    /// A scheduler's view of it.
    pub fn path(&self, id: StreamId) -> Path {
        let pending = self.pending().len() as u64;
        let stats = PathStats {
            unsent_bytes: self.stats.unsent_bytes + pending,
            unacked_bytes: self.unacked_bytes(),
            ..self.stats
        };
        Path { id, is_ready: self.is_ready(), stats }
    }

    /// The first frame, or part of data, of `bytes`, and what follows it; `None` until more bytes have come.
    pub fn split<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Option<Part<'a>>, Violation> {
        let (offset, left) = self.body;
        if left > 0 {
            if bytes.is_empty() {
                return Ok(None);
            }
            let (data, rest) = bytes.split_at(bytes.len().min(left as usize));
            *bytes = rest;
            self.body = (offset + data.len() as u64, left - data.len() as u32);
            return Ok(Some(Part::Data(offset, data)));
        }
        let (head, rest) = bytes.split_at(bytes.len().min(HEADER_BYTES - self.have));
        *bytes = rest;
        self.header[self.have..self.have + head.len()].copy_from_slice(head);
        self.have += head.len();
        if self.have < HEADER_BYTES {
            return Ok(None);
        }
        self.have = 0;
        let frame = Frame::parse(&self.header)?;
        if let Frame::Data { offset, len } = frame {
            self.body = (offset, len);
        }
        Ok(Some(Part::Frame(frame)))
    }

    pub const fn hear(&mut self, now_ns: u64) {
        self.heard_ns = now_ns;
        self.worked_ns = now_ns;
        self.trust(now_ns);
    }

    pub const fn pinged(&mut self, number: u64) {
        // Only the last one is answered: no peer has more than one in flight.
        self.pong = Some(number);
    }

    pub fn ponged(&mut self, number: u64) -> Result<(), Violation> {
        if self.ping.take() == Some(number) { Ok(()) } else { Err(Violation::Pong) }
    }

    fn is_waiting(&self) -> bool {
        self.unacked_bytes() > 0 || self.ping.is_some()
    }

    /// What it was given and the other end's TCP has not acknowledged.
    pub fn unacked_bytes(&self) -> u64 {
        self.stats.unacked_bytes + self.pending().len() as u64
    }

    /// Judges by what has come since; true if it has just stopped making progress.
    pub fn judge(&mut self, now_ns: u64, timing: &Timing) -> bool {
        if !self.is_waiting() {
            self.trust(now_ns);
        }
        let was = self.is_suspect;
        let idle_ns = now_ns.saturating_sub(self.progress_ns);
        self.is_suspect |= idle_ns >= self.patience_ns(timing);
        self.is_stalled |= idle_ns >= 2 * self.patience_ns(timing);
        if self.ping.is_none() && self.has_room() && now_ns.saturating_sub(self.heard_ns) >= timing.ping_ns {
            self.ping = Some(now_ns);
            self.put(Frame::Ping { number: now_ns });
        }
        self.is_suspect && !was
    }

    pub const fn is_dead(&self, now_ns: u64, timing: &Timing) -> bool {
        now_ns.saturating_sub(self.progress_ns) >= timing.dead_ns
    }

    /// A busy path is given four round trips.
    fn patience_ns(&self, timing: &Timing) -> u64 {
        timing.suspect_ns.max(4 * self.stats.srtt_ns.saturating_add(self.stats.rttvar_ns))
    }

    /// When to judge it again.
    pub fn deadline_ns(&self, timing: &Timing) -> u64 {
        let mut next = u64::MAX;
        if self.is_waiting() {
            let after = match (self.is_suspect, self.is_stalled) {
                (false, _) => self.patience_ns(timing),
                (true, false) => 2 * self.patience_ns(timing),
                (true, true) => timing.dead_ns,
            };
            next = self.progress_ns.saturating_add(after.min(timing.dead_ns));
        }
        if self.ping.is_none() && self.has_room() {
            next = next.min(self.heard_ns.saturating_add(timing.ping_ns));
        }
        next
    }

    /// Adds the frames that are due and have no data.
    pub fn control(&mut self, ack: (u64, u64), end: Option<u64>) -> bool {
        if !self.has_room() {
            return false;
        }
        if let Some(number) = self.pong.take() {
            self.put(Frame::Pong { number });
        }
        if self.told != Some(ack) {
            self.told = Some(ack);
            self.put(Frame::Ack { next: ack.0, limit: ack.1 });
        }
        let Some(total) = end.filter(|_| !self.is_end_told) else { return false };
        self.is_end_told = true;
        self.put(Frame::End { total });
        true
    }

    pub fn put(&mut self, frame: Frame) {
        self.out.extend_from_slice(&frame.emit());
    }

    /// Adds a block, whose bytes `copy` appends.
    pub fn put_block(&mut self, offset: u64, len: u32, is_again: bool, copy: impl FnOnce(&mut Vec<u8>)) {
        self.put(Frame::Data { offset, len });
        copy(&mut self.out);
        self.carried.insert(offset);
        // One at a time, so that little is committed early.
        self.is_writable = false;
        self.totals.sent_bytes += u64::from(len);
        if is_again {
            self.totals.resent_bytes += u64::from(len);
        }
    }

    /// Forgets blocks below `offset`: they have arrived.
    pub fn arrived(&mut self, offset: u64) {
        while self.carried.first().is_some_and(|carried| *carried < offset) {
            self.carried.pop_first();
        }
    }
}
