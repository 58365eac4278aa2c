//! Anti-replay (RFC 4303, 3.4.3): which sequence numbers were received, as a ring of bits (RFC 6479).

use crate::error::AssociationError;

/// The widest replay window.
pub const MAX_WINDOW: usize = 1 << 20;

const BITS: u64 = 64;

/// Why a number is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Left of the window, or 0, which is never sent.
    TooOld,
    /// It was received before.
    Replayed,
}

/// Remembers the last `size` sequence numbers up to the highest.
///
/// Moving ahead by any number costs at most as many words as the window has; usually none or one.
#[derive(Clone, Debug)]
pub struct Window {
    size: u64,
    highest: u64,
    /// One bit per number at its remainder. One word more than the window, so that the words of the lowest
    /// and the highest number are never the same.
    ring: Box<[u64]>,
}

impl Window {
    /// A window of `size` numbers; 0 lets everything through.
    ///
    /// # Errors
    ///
    /// It is wider than [`MAX_WINDOW`].
    pub fn new(size: usize) -> Result<Self, AssociationError> {
        if size > MAX_WINDOW {
            return Err(AssociationError::Window(size));
        }
        let words = (size.div_ceil(BITS as usize) + 1).next_power_of_two();
        Ok(Self { size: size as u64, highest: 0, ring: vec![0; words].into_boxed_slice() })
    }

    /// The highest number that was marked; 0 before the first one.
    #[must_use]
    pub const fn highest(&self) -> u64 {
        self.highest
    }

    /// Width in numbers; 0: nothing is refused.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Whether `number` is acceptable. Only a packet that passed its integrity check may then be
    /// [marked](Self::mark).
    ///
    /// # Errors
    ///
    /// It was received before, or is too old to tell.
    pub fn check(&self, number: u64) -> Result<(), Refusal> {
        if self.size == 0 || number > self.highest {
            return Ok(());
        }
        if number == 0 || self.highest - number >= self.size {
            return Err(Refusal::TooOld);
        }
        let (word, bit) = self.place(number);
        if self.ring[word] & bit == 0 { Ok(()) } else { Err(Refusal::Replayed) }
    }

    /// Notes that `number` was received. One that [`check`](Self::check) refuses must not be marked.
    pub fn mark(&mut self, number: u64) {
        if number > self.highest {
            let (from, to) = (self.highest / BITS, number / BITS);
            let crossed = (to - from).min(self.ring.len() as u64);
            for word in to - crossed + 1..=to {
                let at = self.slot(word);
                self.ring[at] = 0;
            }
            self.highest = number;
        }
        let (word, bit) = self.place(number);
        self.ring[word] |= bit;
    }

    /// A 64-bit number from the 32 bits that are sent (RFC 4303, appendix A2.2), which lie near the window;
    /// `None` for one from before the first packet.
    #[must_use]
    pub fn extended(&self, low: u32) -> Option<u64> {
        // If nothing is refused, late packets still have to be told from those after a wrap.
        let width = self.size.max(BITS);
        let (high, top) = (self.highest >> 32, self.highest as u32);
        let bottom = top.wrapping_sub((width - 1) as u32);
        let high = if u64::from(top) >= width - 1 {
            // The window lies within one round of 2³².
            if low >= bottom { high } else { high.checked_add(1).filter(|high| *high <= u32::MAX.into())? }
        } else if low >= bottom {
            high.checked_sub(1)?
        } else {
            high
        };
        Some(high << 32 | u64::from(low))
    }

    fn place(&self, number: u64) -> (usize, u64) {
        (self.slot(number / BITS), 1 << (number % BITS))
    }

    const fn slot(&self, word: u64) -> usize {
        // The ring's length is a power of two.
        word as usize & (self.ring.len() - 1)
    }
}
