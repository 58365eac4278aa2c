//! VLAN tags.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Up to two VLAN IDs, outermost first (IEEE 802.1Q; further ones are passed over).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Tags {
    ids: [u16; 2],
    count: u8,
}

impl Tags {
    /// Adds the tag control information of one more tag. ID 0 names no VLAN: the tag is there for its priority
    /// (IEEE 802.1Q clause 9.6), often in one direction only.
    pub fn push(&mut self, control: u16) {
        let vlan = control & 0x0fff;
        if vlan == 0 {
            return;
        }
        if let Some(id) = self.ids.get_mut(usize::from(self.count)) {
            *id = vlan;
            self.count += 1;
        }
    }

    /// All of it in 24 bits.
    #[inline]
    pub(crate) fn bits(self) -> u32 {
        u32::from(self.ids[0]) << 12 | u32::from(self.ids[1])
    }

    /// The IDs.
    #[must_use]
    pub fn ids(&self) -> &[u16] {
        &self.ids[..usize::from(self.count)]
    }
}

impl fmt::Display for Tags {
    /// `10.100`; nothing for an untagged packet.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, id) in self.ids().iter().enumerate() {
            write!(f, "{}{id}", if i == 0 { "" } else { "." })?;
        }
        Ok(())
    }
}
