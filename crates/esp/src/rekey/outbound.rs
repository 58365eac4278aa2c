//! The sender's end: it decides when to change over.

use std::num::NonZeroU64;

use super::keys::{Chain, SECRET_LEN};
use crate::association::Association;
use crate::error::AssociationError;
use crate::outbound::{Outbound, Slot};

/// The sender's ends of one association after another.
pub struct RekeyingOutbound {
    current: Outbound,
    chain: Chain,
    most_packets: Option<NonZeroU64>,
    rekeys: u64,
}

impl RekeyingOutbound {
    /// Begins with `first`; `iv_key` as for [`Outbound::new`]. Later associations are derived from `secret`:
    /// random bytes that only the two ends know. No association sends more than `most_packets`.
    ///
    /// # Errors
    ///
    /// The association is invalid.
    pub fn new(
        first: &Association<'_>,
        iv_key: &[u8; 16],
        secret: &[u8; SECRET_LEN],
        most_packets: Option<NonZeroU64>,
    ) -> Result<Self, AssociationError> {
        let current = Outbound::new(first, iv_key)?;
        Ok(Self { current, chain: Chain::new(first, secret), most_packets, rekeys: 0 })
    }

    /// Sends what comes next with another SPI and other keys. An association that has sent nothing is kept: it
    /// has nothing to protect, and the receiver does not have to follow.
    pub fn rekey(&mut self) {
        if self.current.sent() > 0 {
            self.current = self.chain.next(|association, iv_key| {
                Outbound::new(association, iv_key).expect("it differs from the first in SPI and keys alone")
            });
            self.rekeys += 1;
        }
    }

    /// Associations that followed the first one.
    #[must_use]
    pub const fn rekeys(&self) -> u64 {
        self.rekeys
    }

    /// Packets sent with the current association.
    #[must_use]
    pub const fn sent(&self) -> u64 {
        self.current.sent()
    }

    /// As for [`Outbound::headroom`], for all associations.
    #[must_use]
    pub const fn headroom(&self) -> usize {
        self.current.headroom()
    }

    /// As for [`Outbound::tailroom`], for all associations.
    #[must_use]
    pub const fn tailroom(&self) -> usize {
        self.current.tailroom()
    }

    /// Encapsulates many packets, see [`Outbound::encapsulate_each`], and changes over in between once an
    /// association has sent as many as it may.
    pub fn encapsulate_each(&mut self, mut slots: &mut [Slot<'_>]) {
        while !slots.is_empty() {
            let mut room = slots.len();
            if let Some(most) = self.most_packets {
                if self.current.sent() >= most.get() {
                    self.rekey();
                }
                let left = most.get() - self.current.sent();
                room = usize::try_from(left).map_or(room, |left| room.min(left));
            }
            let (now, later) = slots.split_at_mut(room);
            self.current.encapsulate_each(now);
            slots = later;
        }
    }
}
