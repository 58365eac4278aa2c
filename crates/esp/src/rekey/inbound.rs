//! The receiver's end: it follows the sender.

use std::collections::VecDeque;
use std::ops::Range;

use super::keys::{Chain, SECRET_LEN};
use crate::association::Association;
use crate::error::{AssociationError, DecapsulateError};
use crate::inbound::{Counts, Inbound};

/// Associations that are ready before the sender uses them. At least one packet of one of them must arrive, or
/// the receiver loses the sender: an overloaded link loses hundreds of packets in a row.
const AHEAD: usize = 64;

/// The receiver's ends of one association after another.
pub struct RekeyingInbound {
    /// The previous one, if there is one; the current one; those to come.
    associations: VecDeque<Inbound>,
    current: usize,
    chain: Chain,
    window: usize,
    counts: Counts,
    late: u64,
    rekeys: u64,
}

impl RekeyingInbound {
    /// Begins with `first`; `window` as of [`Inbound::new`], `secret` as of [`RekeyingOutbound::new`].
    ///
    /// Anyone who can send a packet that the suite lets through makes the receiver follow: without
    /// authentication, that is everyone.
    ///
    /// [`RekeyingOutbound::new`]: super::RekeyingOutbound::new
    ///
    /// # Errors
    ///
    /// The association is invalid.
    pub fn new(
        first: &Association<'_>,
        window: usize,
        secret: &[u8; SECRET_LEN],
    ) -> Result<Self, AssociationError> {
        let mut made = Self {
            associations: [Inbound::new(first, window)?].into(),
            current: 0,
            chain: Chain::new(first, secret),
            window,
            counts: Counts::default(),
            late: 0,
            rekeys: 0,
        };
        made.look_ahead();
        Ok(made)
    }

    /// What became of the packets so far, of all associations.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Packets let through by the association before the current one.
    #[must_use]
    pub const fn late(&self) -> u64 {
        self.late
    }

    /// Associations of the sender that followed the first one.
    #[must_use]
    pub const fn rekeys(&self) -> u64 {
        self.rekeys
    }

    /// Decapsulates an IP packet in place; see [`Inbound::decapsulate`].
    ///
    /// # Errors
    ///
    /// The packet is to be dropped, and is counted.
    pub fn decapsulate(&mut self, packet: &mut [u8]) -> Result<Range<usize>, DecapsulateError> {
        let result = self.opened(packet);
        self.counts.add(&result);
        result
    }

    fn opened(&mut self, packet: &mut [u8]) -> Result<Range<usize>, DecapsulateError> {
        let spi = match self.associations[self.current].opened(packet) {
            // The packet is unchanged.
            Err(DecapsulateError::WrongSpi(spi)) => spi,
            result => return result,
        };
        let found = self.associations.iter().position(|association| association.spi() == spi);
        let Some(at) = found else { return Err(DecapsulateError::WrongSpi(spi)) };
        let inside = self.associations[at].opened(packet)?;
        if at < self.current {
            self.late += 1;
        } else {
            self.follow(at);
        }
        Ok(inside)
    }

    /// Makes the association at `at` the current one. The previous one stays, and older ones go.
    fn follow(&mut self, at: usize) {
        self.rekeys += (at - self.current) as u64;
        self.associations.swap(0, self.current);
        self.associations.drain(1..at);
        self.current = 1;
        self.look_ahead();
    }

    fn look_ahead(&mut self) {
        let window = self.window;
        while self.associations.len() <= self.current + AHEAD {
            self.associations.push_back(self.chain.next(|association, _| {
                Inbound::new(association, window).expect("it differs from the first in SPI and keys alone")
            }));
        }
    }
}
