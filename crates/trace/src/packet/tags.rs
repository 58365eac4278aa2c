//! VLAN tags.

use std::fmt;

/// Up to two VLAN IDs, outermost first (IEEE 802.1Q; further ones are passed over).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tags {
    ids: [u16; 2],
    count: u8,
}

impl Tags {
    /// Adds the tag control information of one more tag.
    pub fn push(&mut self, control: u16) {
        if let Some(id) = self.ids.get_mut(usize::from(self.count)) {
            *id = control & 0x0fff;
            self.count += 1;
        }
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
