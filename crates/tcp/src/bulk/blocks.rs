//! Blocks in a stream of bytes; no I/O.
//!
//! A block begins with a header: magic (32 bits), length of the block with its header (32 bits), number (64 bits),
//! `CLOCK_MONOTONIC` of the sender when it began to write the block (64 bits); all little-endian. What follows
//! means nothing.

use thiserror::Error;

/// Bytes of a block's header.
pub const HEADER_BYTES: usize = 24;

const MAGIC: [u8; 4] = *b"WBLK";

/// A stream that does not carry blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("block {number} was expected, and something else came")]
pub struct Corrupt {
    /// Which one.
    pub number: u64,
}

/// The header of a block.
#[must_use]
pub fn header(len: usize, number: u64, sent_ns: u64) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4..8].copy_from_slice(&(len as u32).to_le_bytes());
    bytes[8..16].copy_from_slice(&number.to_le_bytes());
    bytes[16..].copy_from_slice(&sent_ns.to_le_bytes());
    bytes
}

/// How long each block is, so that they add up.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    block: u64,
    left: Option<u64>,
}

impl Plan {
    /// Blocks of `block` bytes that add up to `total`, or without end.
    #[must_use]
    pub const fn new(block: usize, total: Option<u64>) -> Self {
        Self { block: block as u64, left: total }
    }

    /// Longer than any block of this plan is.
    #[must_use]
    pub const fn most(&self) -> usize {
        self.block as usize + HEADER_BYTES
    }

    /// Bytes of the next block. The last one is smaller, or longer by less than a header.
    pub fn next_len(&mut self) -> Option<usize> {
        let Some(left) = &mut self.left else { return Some(self.block as usize) };
        let len = if *left < self.block + HEADER_BYTES as u64 { *left } else { self.block };
        *left -= len;
        if len == 0 { None } else { Some(len as usize) }
    }
}

/// Finds the blocks in what a receiver reads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Blocks {
    header: [u8; HEADER_BYTES],
    have: usize,
    left: usize,
    sent_ns: u64,
    number: u64,
}

impl Blocks {
    /// Takes the next bytes; `ended` gets the time stamp of every block whose last byte is among them.
    ///
    /// # Errors
    /// [`Corrupt`] where no block begins.
    pub fn push(&mut self, mut bytes: &[u8], mut ended: impl FnMut(u64)) -> Result<(), Corrupt> {
        while !bytes.is_empty() {
            if self.have < HEADER_BYTES {
                let take = bytes.len().min(HEADER_BYTES - self.have);
                self.header[self.have..self.have + take].copy_from_slice(&bytes[..take]);
                self.have += take;
                bytes = &bytes[take..];
                if self.have < HEADER_BYTES {
                    break;
                }
                self.begin()?;
            }
            let skip = bytes.len().min(self.left);
            self.left -= skip;
            bytes = &bytes[skip..];
            if self.left == 0 {
                ended(self.sent_ns);
                self.have = 0;
                self.number += 1;
            }
        }
        Ok(())
    }

    fn begin(&mut self) -> Result<(), Corrupt> {
        let corrupt = Corrupt { number: self.number };
        let word = |at: usize| self.header[at..].first_chunk::<8>().map_or(0, |b| u64::from_le_bytes(*b));
        let len = (word(0) >> 32) as usize;
        if self.header[..4] != MAGIC || word(8) != self.number || len < HEADER_BYTES {
            return Err(corrupt);
        }
        self.left = len - HEADER_BYTES;
        self.sent_ns = word(16);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn stream(block: usize, total: u64) -> (Vec<u8>, Vec<u64>) {
        let mut plan = Plan::new(block, Some(total));
        let (mut bytes, mut stamps) = (Vec::new(), Vec::new());
        while let Some(len) = plan.next_len() {
            let number = stamps.len() as u64;
            let mut made = header(len, number, 1000 + number).to_vec();
            made.resize(len, 0xaa);
            bytes.extend(made);
            stamps.push(1000 + number);
        }
        (bytes, stamps)
    }

    #[test]
    fn a_plan_without_end_has_none() {
        let mut plan = Plan::new(100, None);
        assert!((0..1000).all(|_| plan.next_len() == Some(100)));
    }

    #[test]
    fn something_else_is_told_with_the_block_that_was_expected() {
        let (mut bytes, _) = stream(100, 300);
        bytes[100] ^= 1;
        assert_eq!(Blocks::default().push(&bytes, |_| {}), Err(Corrupt { number: 1 }));
        let (bytes, _) = stream(100, 300);
        assert_eq!(Blocks::default().push(&bytes[100..], |_| {}), Err(Corrupt { number: 0 }));
    }

    proptest! {
        #[test]
        fn blocks_add_up_and_are_found_again(
            block in 24_usize..500, total in 24_u64..5000, portion in 1_usize..700
        ) {
            let (bytes, stamps) = stream(block, total);
            prop_assert_eq!(bytes.len() as u64, total);
            let (mut blocks, mut found) = (Blocks::default(), Vec::new());
            for part in bytes.chunks(portion) {
                blocks.push(part, |stamp| found.push(stamp)).unwrap();
            }
            prop_assert_eq!(found, stamps);
        }

        #[test]
        fn garbage_never_panics(bytes in vec(any::<u8>(), 0..200), at in 0_usize..100) {
            let (mut sent, _) = stream(50, 300);
            let at = at.min(sent.len());
            sent.splice(at..at, bytes);
            let _ = Blocks::default().push(&sent, |_| {});
        }
    }
}
