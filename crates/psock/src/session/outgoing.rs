//! What this end sends: bytes until they are acknowledged, and which of them are in flight.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::ranges::Ranges;
use crate::wire::{MOST_BLOCKS, Violation};

/// A part of the stream of bytes that was given to at least one connection.
#[derive(Clone, Copy, Debug)]
struct Block {
    len: u32,
    /// Connections that carry it and are not known to be gone.
    copies: u32,
}

/// One direction, at its sender.
#[derive(Debug)]
pub struct Outgoing {
    /// Bytes from `start`.
    buffer: VecDeque<u8>,
    start: u64,
    capacity: usize,
    /// Every byte below has arrived.
    next: u64,
    /// The receiver has room up to here.
    limit: u64,
    /// Written, and given to no connection.
    fresh: Ranges,
    blocks: BTreeMap<u64, Block>,
    /// Bytes of all blocks.
    blocks_bytes: u64,
    /// Blocks to be given to a connection once more.
    lost: BTreeSet<u64>,
    finished: bool,
    /// The end was given to a connection.
    end_told: bool,
    end_acknowledged: bool,
}

impl Outgoing {
    pub fn new(capacity: usize) -> Self {
        Self {
            buffer: VecDeque::new(),
            start: 0,
            capacity,
            next: 0,
            limit: 0,
            fresh: Ranges::default(),
            blocks: BTreeMap::new(),
            blocks_bytes: 0,
            lost: BTreeSet::new(),
            finished: false,
            end_told: false,
            end_acknowledged: false,
        }
    }

    /// Takes as many bytes as there is room for.
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(self.room());
        let end = self.end();
        self.buffer.extend(&bytes[..taken]);
        self.fresh.insert(end, end + taken as u64);
        taken
    }

    pub fn room(&self) -> usize {
        if self.finished { 0 } else { self.capacity - self.buffer.len() }
    }

    pub fn finish(&mut self) {
        self.finished = true;
    }

    pub const fn is_finished(&self) -> bool {
        self.finished
    }

    /// Bytes that were written.
    pub fn end(&self) -> u64 {
        self.start + self.buffer.len() as u64
    }

    /// Every byte below has arrived.
    pub fn acknowledged(&self) -> u64 {
        self.next.min(self.end())
    }

    pub const fn is_done(&self) -> bool {
        self.end_acknowledged
    }

    /// The total, once every byte has been given to a connection: the end may be sent.
    pub fn total(&self) -> Option<u64> {
        (self.finished && self.fresh.is_empty()).then(|| self.end())
    }

    pub const fn end_told(&mut self) {
        self.end_told = true;
    }

    /// Bytes that no connection has, and that the window allows.
    pub fn sendable(&self) -> u64 {
        let part = |(start, end): (u64, u64)| end.min(self.limit).saturating_sub(start);
        self.fresh.iter().map(part).take_while(|bytes| *bytes > 0).sum()
    }

    /// The window ends before the data do.
    pub fn is_limited(&self) -> bool {
        self.fresh.end().is_some_and(|end| end > self.limit)
    }

    /// Room of the receiver beyond what it has acknowledged.
    pub fn window(&self) -> u64 {
        self.limit.saturating_sub(self.next)
    }

    pub fn blocks_under_way(&self) -> usize {
        self.blocks.len()
    }

    /// Bytes that connections were given and that are not known to have arrived with everything before them.
    pub const fn bytes_under_way(&self) -> u64 {
        self.blocks_bytes
    }

    /// Where the first block that has not arrived begins.
    pub fn first_under_way(&self) -> Option<u64> {
        self.blocks.first_key_value().map(|(offset, _)| *offset)
    }

    /// The block at `offset`, if a single connection carries it.
    pub fn carried_once(&self, offset: u64) -> Option<(u64, u32)> {
        self.blocks.get(&offset).filter(|block| block.copies == 1).map(|block| (offset, block.len))
    }

    /// The first block to be sent again.
    pub fn first_lost(&self) -> Option<(u64, u32)> {
        let offset = *self.lost.first()?;
        self.blocks.get(&offset).map(|block| (offset, block.len))
    }

    /// A connection takes a block that was lost; false if it has arrived meanwhile.
    pub fn send_again(&mut self, offset: u64) {
        self.lost.remove(&offset);
        if let Some(block) = self.blocks.get_mut(&offset) {
            block.copies += 1;
        }
    }

    /// No other connection could carry a block that was to be sent again, and at least one still carries it.
    pub fn leave(&mut self, offset: u64) {
        self.lost.remove(&offset);
    }

    /// A connection takes a block of at most `most` bytes, beyond `skip` of the sendable ones.
    pub fn take(&mut self, skip: u64, most: u32) -> Option<(u64, u32)> {
        if self.blocks.len() >= MOST_BLOCKS {
            return None;
        }
        let mut left = skip;
        let mut found = None;
        for (start, end) in self.fresh.iter() {
            let bytes = end.min(self.limit).saturating_sub(start);
            if left < bytes {
                found = Some((start + left, u64::from(most).min(bytes - left) as u32));
                break;
            }
            left -= bytes;
        }
        let (offset, len) = found?;
        self.fresh.remove(offset, offset + u64::from(len));
        self.blocks.insert(offset, Block { len, copies: 1 });
        self.blocks_bytes += u64::from(len);
        Some((offset, len))
    }

    /// Appends bytes of a block.
    pub fn copy(&self, offset: u64, len: u32, to: &mut Vec<u8>) {
        let from = (offset - self.start) as usize;
        let (first, second) = self.buffer.as_slices();
        let end = from + len as usize;
        if from < first.len() {
            to.extend_from_slice(&first[from..end.min(first.len())]);
        }
        if end > first.len() {
            to.extend_from_slice(&second[from.max(first.len()) - first.len()..end - first.len()]);
        }
    }

    /// A connection that carried the block at `offset` is gone: another one must carry it, unless one that
    /// works does so already.
    pub fn lose(&mut self, offset: u64) {
        if let Some(block) = self.blocks.get_mut(&offset) {
            block.copies = block.copies.saturating_sub(1);
            self.lost.insert(offset);
        }
    }

    /// A connection that carries the block at `offset` makes no progress: another one must carry it too,
    /// unless one that works does so already.
    pub fn doubt(&mut self, offset: u64) {
        if self.blocks.contains_key(&offset) {
            self.lost.insert(offset);
        }
    }

    /// The first block that a connection does not carry, of those given to any and not yet arrived.
    pub fn first_without(&self, carried: &BTreeSet<u64>) -> Option<(u64, u32)> {
        if carried.len() >= self.blocks.len() {
            return None;
        }
        let lacks = |(offset, _): &(&u64, &Block)| !carried.contains(offset);
        self.blocks.iter().find(lacks).map(|(offset, block)| (*offset, block.len))
    }

    /// Whether any connection carries the block at `offset`.
    pub fn is_carried(&self, offset: u64) -> bool {
        self.blocks.get(&offset).is_some_and(|block| block.copies > 0)
    }

    /// Takes an acknowledgement; returns the lowest offset of a block that is still needed.
    ///
    /// An older one, which came by a slower connection, changes nothing.
    pub fn acknowledge(&mut self, next: u64, limit: u64) -> Result<u64, Violation> {
        let given = self.fresh.first().map_or_else(|| self.end(), |(start, _)| start);
        let sent = if self.end_told { self.end() + 1 } else { given };
        if next > sent {
            return Err(Violation::Unsent { next, sent });
        }
        self.limit = self.limit.max(limit);
        if next > self.next {
            self.next = next;
            self.end_acknowledged = self.end_told && next > self.end();
            let arrived = self.acknowledged();
            while let Some((&offset, block)) = self.blocks.first_key_value()
                && offset + u64::from(block.len) <= arrived
            {
                self.blocks_bytes -= u64::from(block.len);
                self.blocks.pop_first();
                self.lost.remove(&offset);
            }
            // A block of which a part has arrived may have to be sent again as a whole.
            let needed = self.blocks.first_key_value().map_or(arrived, |(offset, _)| arrived.min(*offset));
            self.buffer.drain(..(needed - self.start) as usize);
            self.start = needed;
        }
        Ok(self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(bytes: &[u8]) -> Outgoing {
        let mut out = Outgoing::new(100);
        assert_eq!(out.write(bytes), bytes.len().min(100));
        out.acknowledge(0, 1000).unwrap();
        out
    }

    #[test]
    fn it_takes_what_there_is_room_for_and_frees_what_has_arrived() {
        let mut out = written(&[1; 150]);
        assert_eq!((out.room(), out.end()), (0, 100));
        assert_eq!(out.take(0, 60), Some((0, 60)));
        out.acknowledge(30, 1000).unwrap();
        assert_eq!(out.room(), 0, "the block may have to be sent again");
        out.acknowledge(60, 1000).unwrap();
        assert_eq!(out.room(), 60);
        assert_eq!(out.write(&[2; 70]), 60);
        let mut copy = Vec::new();
        assert_eq!(out.take(0, 1000), Some((60, 100)));
        out.copy(60, 100, &mut copy);
        assert_eq!(copy, [&[1; 40][..], &[2; 60]].concat());
    }

    #[test]
    fn blocks_are_taken_ahead_and_the_gap_afterwards() {
        let mut out = written(&[0; 100]);
        assert_eq!(out.take(40, 20), Some((40, 20)));
        assert_eq!(out.sendable(), 80);
        assert_eq!(out.take(0, 64), Some((0, 40)));
        assert_eq!(out.take(0, 64), Some((60, 40)));
        assert_eq!(out.take(0, 64), None);
    }

    #[test]
    fn nothing_is_sent_beyond_the_window() {
        let mut out = Outgoing::new(100);
        out.write(&[0; 100]);
        assert_eq!((out.sendable(), out.take(0, 10)), (0, None));
        out.acknowledge(0, 25).unwrap();
        assert!(out.is_limited());
        assert_eq!((out.take(0, 20), out.take(0, 20), out.take(0, 20)), (Some((0, 20)), Some((20, 5)), None));
        out.acknowledge(0, 10).unwrap();
        assert_eq!(out.window(), 25, "an older acknowledgement takes no room back");
    }

    #[test]
    fn a_block_is_to_be_sent_again_whenever_one_that_carries_it_fails() {
        let mut out = written(&[0; 100]);
        assert_eq!(out.take(0, 50), Some((0, 50)));
        out.doubt(0);
        assert_eq!(out.first_lost(), Some((0, 50)));
        out.send_again(0);
        assert_eq!(out.first_lost(), None);
        out.doubt(0);
        assert_eq!(out.first_lost(), Some((0, 50)), "of two copies");
        // The other one works.
        out.leave(0);
        assert_eq!((out.first_lost(), out.is_carried(0)), (None, true));
        out.lose(0);
        assert_eq!((out.first_lost(), out.is_carried(0)), (Some((0, 50)), true));
        out.leave(0);
        out.lose(0);
        assert_eq!((out.first_lost(), out.is_carried(0)), (Some((0, 50)), false));
        out.acknowledge(50, 1000).unwrap();
        assert_eq!(out.first_lost(), None);
        out.lose(0);
        out.doubt(0);
        assert_eq!(out.first_lost(), None, "it has arrived");
    }

    #[test]
    fn a_lie_about_what_has_arrived_is_noticed() {
        let mut out = written(&[0; 100]);
        out.take(40, 20).unwrap();
        assert_eq!(out.acknowledge(1, 1000), Err(Violation::Unsent { next: 1, sent: 0 }));
        out.take(0, 40).unwrap();
        assert_eq!(out.acknowledge(61, 1000), Err(Violation::Unsent { next: 61, sent: 60 }));
        assert_eq!(out.acknowledge(60, 1000), Ok(60));
    }

    #[test]
    fn the_end_counts_as_a_byte() {
        let mut out = written(&[0; 100]);
        out.finish();
        assert_eq!((out.write(&[1]), out.total()), (0, None));
        out.take(0, 100).unwrap();
        assert_eq!(out.total(), Some(100));
        assert!(out.acknowledge(101, 1000).is_err(), "nobody has been told of the end");
        out.end_told();
        out.acknowledge(100, 1000).unwrap();
        assert!(!out.is_done());
        out.acknowledge(101, 1000).unwrap();
        assert!(out.is_done());
        assert_eq!(out.acknowledged(), 100);
    }
}
