//! Which flows of a capture an analysis follows, so that several of them follow all between them.

/// One of several shares of the flows. Every analysis reads every packet, and follows the flows of its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    number: u32,
    of: u32,
}

impl Share {
    /// All flows.
    pub const ALL: Self = Self { number: 0, of: 1 };

    /// Share `number`, from 0, of `of`; None if there is no such share.
    #[must_use]
    pub const fn new(number: u32, of: u32) -> Option<Self> {
        if number < of { Some(Self { number, of }) } else { None }
    }

    /// Whether it is not a share of several.
    #[inline]
    #[must_use]
    pub const fn is_all(self) -> bool {
        self.of == 1
    }

    /// Whether a flow is of this share; `hash`, asked only if there are several, is the same for
    /// all of its packets.
    #[inline]
    #[must_use]
    pub fn has(self, hash: impl FnOnce() -> u64) -> bool {
        self.is_all() || (hash() >> 32) % u64::from(self.of) == u64::from(self.number)
    }
}

impl Default for Share {
    fn default() -> Self {
        Self::ALL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flow_is_of_one_share() {
        let shares: Vec<_> = (0..3).map(|number| Share::new(number, 3).unwrap()).collect();
        for hash in (0..1_000_u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
            assert_eq!(shares.iter().filter(|share| share.has(|| hash)).count(), 1);
        }
        assert_eq!(Share::new(3, 3), None);
        assert!(Share::ALL.has(|| unreachable!("needs no hash")));
    }
}
