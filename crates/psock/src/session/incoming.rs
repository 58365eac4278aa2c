//! What this end receives: bytes put in order, in memory of a fixed size.

use super::ranges::Ranges;
use crate::wire::{MOST_BLOCKS, Violation};

/// One direction, at its receiver. Bytes that wait for others before them and bytes that the application has
/// not read share the same memory.
#[derive(Debug)]
pub struct Incoming {
    /// The byte at offset `o` is at `o % ring.len()`.
    ring: Box<[u8]>,
    /// The application has read everything below.
    read: u64,
    /// Everything below has arrived.
    next: u64,
    /// What has arrived beyond `next`.
    beyond: Ranges,
    beyond_bytes: u64,
    peak_bytes: u64,
    duplicate_bytes: u64,
    total: Option<u64>,
    /// What the other end was last allowed to send.
    limit: u64,
    /// What was last acknowledged.
    acknowledged: u64,
}

impl Incoming {
    pub fn new(capacity: usize) -> Self {
        Self {
            // Zeros come from the system page by page, as they are written to.
            ring: vec![0; capacity].into_boxed_slice(),
            read: 0,
            next: 0,
            beyond: Ranges::default(),
            beyond_bytes: 0,
            peak_bytes: 0,
            duplicate_bytes: 0,
            total: None,
            limit: 0,
            acknowledged: 0,
        }
    }

    /// A block is announced.
    pub fn check(&self, offset: u64, len: u32) -> Result<(), Violation> {
        let end = offset + u64::from(len);
        if end > self.limit {
            return Err(Violation::Window { end, limit: self.limit });
        }
        match self.total {
            Some(total) if end > total => Err(Violation::BeyondEnd { end, total }),
            _ => Ok(()),
        }
    }

    /// Bytes of a block that was announced; how many of them are new.
    pub fn take(&mut self, offset: u64, bytes: &[u8]) -> Result<u64, Violation> {
        let end = offset + bytes.len() as u64;
        let from = offset.max(self.next);
        if from >= end {
            self.duplicate_bytes += bytes.len() as u64;
            return Ok(0);
        }
        self.store(from, &bytes[(from - offset) as usize..]);
        let new = if from == self.next && self.beyond.is_empty() {
            self.next = end;
            end - from
        } else {
            let new = self.beyond.insert(from, end);
            self.beyond_bytes += new;
            if let Some((start, to)) = self.beyond.first()
                && start <= self.next
            {
                self.beyond.remove(start, to);
                self.beyond_bytes -= to - start;
                self.next = to;
            }
            new
        };
        if self.beyond.len() > MOST_BLOCKS {
            return Err(Violation::Gaps);
        }
        self.peak_bytes = self.peak_bytes.max(self.beyond_bytes);
        self.duplicate_bytes += bytes.len() as u64 - new;
        Ok(new)
    }

    fn store(&mut self, offset: u64, bytes: &[u8]) {
        let at = (offset % self.ring.len() as u64) as usize;
        let first = bytes.len().min(self.ring.len() - at);
        self.ring[at..at + first].copy_from_slice(&bytes[..first]);
        self.ring[..bytes.len() - first].copy_from_slice(&bytes[first..]);
    }

    /// The other end says how much it has sent in all.
    pub fn end(&mut self, total: u64) -> Result<(), Violation> {
        let most = self.beyond.end().unwrap_or(self.next);
        if total < most || self.total.is_some_and(|known| known != total) {
            return Err(Violation::End { total });
        }
        self.total = Some(total);
        Ok(())
    }

    /// Copies the next bytes; 0 if there are none.
    pub fn peek(&self, into: &mut [u8]) -> usize {
        let len = into.len().min(self.readable());
        let at = (self.read % self.ring.len() as u64) as usize;
        let first = len.min(self.ring.len() - at);
        into[..first].copy_from_slice(&self.ring[at..at + first]);
        into[first..len].copy_from_slice(&self.ring[..len - first]);
        len
    }

    /// The application has these next bytes, which can be read.
    pub const fn skip(&mut self, len: usize) {
        self.read += len as u64;
    }

    /// Bytes that the application can read now.
    pub const fn readable(&self) -> usize {
        (self.next - self.read) as usize
    }

    /// Bytes that there is memory for after those that can be read.
    pub const fn room(&self) -> usize {
        self.ring.len() - self.readable()
    }

    /// All data has arrived.
    pub fn is_complete(&self) -> bool {
        self.total == Some(self.next)
    }

    /// All data has been read.
    pub fn is_read(&self) -> bool {
        self.total == Some(self.read)
    }

    /// What to tell the other end: everything below has arrived, and what it may send.
    pub fn state(&self) -> (u64, u64) {
        (self.next + u64::from(self.is_complete()), self.read + self.ring.len() as u64)
    }

    /// Something has changed that the other end has not been told.
    pub fn is_news(&self) -> bool {
        (self.acknowledged, self.limit) != self.state()
    }

    /// The change is large enough to report at once.
    pub fn is_due(&self, block_bytes: u64) -> bool {
        let (next, limit) = self.state();
        let eighth = self.ring.len() as u64 / 8;
        let data = next - self.acknowledged;
        data > 0 && (self.is_complete() || data >= (2 * block_bytes).min(eighth))
            || limit - self.limit >= 2 * eighth.max(1)
    }

    /// The other end is told, and held to it.
    pub fn told(&mut self) -> (u64, u64) {
        let state = self.state();
        (self.acknowledged, self.limit) = state;
        state
    }

    /// Bytes that have arrived in order.
    pub const fn arrived(&self) -> u64 {
        self.next
    }

    /// Bytes that wait for others before them: now, at most so far; and bytes that came more than once.
    pub const fn memory(&self) -> (u64, u64, u64) {
        (self.beyond_bytes, self.peak_bytes, self.duplicate_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receiver(capacity: usize) -> Incoming {
        let mut incoming = Incoming::new(capacity);
        assert_eq!(incoming.told(), (0, capacity as u64));
        incoming
    }

    fn read(incoming: &mut Incoming) -> Vec<u8> {
        let mut bytes = vec![0; 100];
        let len = incoming.peek(&mut bytes);
        incoming.skip(len);
        bytes.truncate(len);
        bytes
    }

    #[test]
    fn bytes_come_out_in_order_and_once() {
        let mut incoming = receiver(8);
        assert_eq!(incoming.take(3, b"def"), Ok(3));
        assert_eq!((read(&mut incoming), incoming.memory()), (vec![], (3, 3, 0)));
        assert_eq!(incoming.take(0, b"abcd"), Ok(3));
        assert_eq!(read(&mut incoming), b"abcdef");
        assert_eq!(incoming.take(2, b"cdef"), Ok(0));
        assert_eq!((read(&mut incoming), incoming.memory()), (vec![], (0, 3, 5)));
        // Around the end of the ring.
        assert_eq!(incoming.take(6, b"ghijklmn"), Ok(8));
        assert_eq!(read(&mut incoming), b"ghijklmn");
    }

    #[test]
    fn the_window_is_what_was_told() {
        let mut incoming = receiver(8);
        assert_eq!(incoming.check(0, 8), Ok(()));
        assert_eq!(incoming.check(1, 8), Err(Violation::Window { end: 9, limit: 8 }));
        incoming.take(0, b"abc").unwrap();
        read(&mut incoming);
        assert_eq!(incoming.check(1, 8), Err(Violation::Window { end: 9, limit: 8 }));
        assert_eq!(incoming.told(), (3, 11));
        assert_eq!(incoming.check(1, 8), Ok(()));
    }

    #[test]
    fn the_end_is_the_end() {
        let mut incoming = receiver(8);
        incoming.take(0, b"abc").unwrap();
        incoming.take(4, b"e").unwrap();
        assert_eq!(incoming.end(4), Err(Violation::End { total: 4 }));
        incoming.end(5).unwrap();
        assert_eq!(incoming.end(6), Err(Violation::End { total: 6 }));
        assert_eq!(incoming.check(5, 1), Err(Violation::BeyondEnd { end: 6, total: 5 }));
        assert!(!incoming.is_complete());
        incoming.take(3, b"d").unwrap();
        assert!(incoming.is_complete() && !incoming.is_read());
        assert_eq!(incoming.told(), (6, 8));
        read(&mut incoming);
        assert!(incoming.is_read());
    }

    #[test]
    fn a_peer_that_sends_crumbs_cannot_use_up_memory() {
        let mut incoming = receiver(4 * MOST_BLOCKS);
        let crumbs = (0..).map(|crumb| incoming.take(1 + 2 * crumb, b"x"));
        let refused = crumbs.take(MOST_BLOCKS + 1).last();
        assert_eq!(refused, Some(Err(Violation::Gaps)));
    }
}
