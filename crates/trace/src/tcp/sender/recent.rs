//! The last packets of a side, to which a copy is compared: it comes close behind.
//!
//! What was seen before in a packet that is the same in every field, its IP identification included, was copied
//! on the way. Identification 0 tells nothing; then only a copy within 0.1 ms counts, and none of an ACK without
//! data, of which there are many alike. It is looked for before anything else: what a copy says was said.

use super::super::segment::Segment;
use super::elapsed;

const RECENT: usize = 8;
/// A packet that went another way comes soon, or as long as its detour takes.
const SOON_NS: u64 = 50_000_000;
/// Without an identification nothing but the time tells a copy from a packet sent again.
const AT_ONCE_NS: u64 = 100_000;

/// Marks of the last packets, and where the next one goes.
#[derive(Debug, Default)]
pub struct Recent {
    marks: [Mark; RECENT],
    at: u8,
}

/// What tells a packet from another with the same data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mark {
    time_ns: i64,
    seq: u32,
    payload: u32,
    ack: u32,
    timestamps: (u32, u32),
    window: u16,
    ip_id: u16,
    flags: u8,
}

impl Mark {
    #[inline]
    fn new(segment: &Segment<'_>) -> Self {
        Self {
            time_ns: segment.time_ns,
            seq: segment.seq,
            payload: segment.payload,
            ack: segment.ack,
            timestamps: segment.timestamps().unwrap_or_default(),
            window: segment.window,
            ip_id: segment.ip_id,
            flags: segment.flags,
        }
    }
}

impl Recent {
    #[inline]
    pub fn add(&mut self, segment: &Segment<'_>) {
        self.marks[usize::from(self.at) % RECENT] = Mark::new(segment);
        self.at = (self.at + 1) % RECENT as u8;
    }

    /// Is this a packet that was seen just before?
    pub fn has(&self, segment: &Segment<'_>) -> bool {
        let mark = Mark::new(segment);
        self.marks.iter().any(|other| {
            Mark { time_ns: mark.time_ns, ..*other } == mark
                && is_soon(segment.ip_id, elapsed(other.time_ns, mark.time_ns))
        })
    }
}

/// May a packet with this identification, so long behind its like, be a copy of it?
pub fn is_soon(ip_id: u16, behind_ns: u64) -> bool {
    behind_ns < if ip_id == 0 { AT_ONCE_NS } else { SOON_NS }
}
