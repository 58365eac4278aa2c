//! The last packets of a side, to which copies are compared: a copy follows closely.
//!
//! A packet that equals an earlier one in every field, including its IP identification, was copied
//! on the way. Identification 0 says nothing; then only a copy within 0.1 ms counts, and none of an ACK without
//! data, of which many are alike. Copies are looked for first: what a copy says has already been said.
//!
//! Most connections have no copies, and those of most others come at once: few packets are remembered. A side
//! with a repeated packet, copy or not, remembers more from then on.

use super::super::fold::fold;
use super::super::segment::Segment;
use super::{Context, Sender, elapsed};

const FEW: usize = 8;
/// As many as a fast side sends while a copy takes its detour.
const MANY: usize = 1 << u8::BITS;
/// A packet that went another way comes soon, or as long as its detour takes.
const SOON_NS: u64 = 50_000_000;
/// Without an identification only the time distinguishes a copy from a packet sent again.
const AT_ONCE_NS: u64 = 100_000;

/// Marks of the last packets, and where the next one goes.
#[derive(Debug, Default)]
pub struct Recent {
    few: [Mark; FEW],
    /// Used instead of these once there was reason.
    many: Vec<Mark>,
    at: u8,
}

/// What distinguishes a packet from another with the same data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mark {
    time_ns: i64,
    /// Hash of all that a copy shares with its original; collisions have a chance of one in 2^64.
    fields: u64,
}

impl Mark {
    #[inline]
    fn new(segment: &Segment<'_>) -> Self {
        let (value, echo) = segment.timestamps().unwrap_or_default();
        let rest = u64::from(segment.window) << 24 | u64::from(segment.ip_id) << 8 | u64::from(segment.flags);
        let words = [
            u64::from(segment.seq) << 32 | u64::from(segment.ack),
            u64::from(value) << 32 | u64::from(echo),
            u64::from(segment.payload) << 40 | rest,
        ];
        Self { time_ns: segment.time_ns, fields: words.into_iter().fold(0, |sum, word| fold(sum ^ word)) }
    }
}

impl Recent {
    #[inline]
    pub fn add(&mut self, segment: &Segment<'_>) {
        let marks = if self.many.is_empty() { &mut self.few[..] } else { &mut self.many[..] };
        // Their number is a power of two.
        let at = usize::from(self.at) & (marks.len() - 1);
        marks[at] = Mark::new(segment);
        self.at = self.at.wrapping_add(1);
    }

    /// Whether this is a packet that was seen just before.
    pub fn has(&self, segment: &Segment<'_>) -> bool {
        let mark = Mark::new(segment);
        let marks = if self.many.is_empty() { &self.few[..] } else { &self.many[..] };
        marks.iter().any(|other| {
            other.fields == mark.fields && is_soon(segment.ip_id, elapsed(other.time_ns, mark.time_ns))
        })
    }

    /// How many it remembers beyond those of every side.
    pub fn more(&self) -> usize {
        self.many.len()
    }
}

impl Sender {
    /// Remembers more packets from now on, unless all connections together remember too much: they count like
    /// outstanding segments.
    #[cold]
    pub fn remember_more<S>(&mut self, cx: &mut Context<'_, S>) {
        let recent = &mut self.recent;
        if recent.many.is_empty() && *cx.outstanding + MANY <= cx.max_outstanding / 2 {
            *cx.outstanding += MANY;
            recent.many = vec![Mark::default(); MANY];
            recent.many[..FEW].copy_from_slice(&recent.few);
            recent.at = FEW as u8;
        }
    }
}

/// Whether a packet with this identification, this long after its like, may be a copy of it.
pub fn is_soon(ip_id: u16, behind_ns: u64) -> bool {
    behind_ns < if ip_id == 0 { AT_ONCE_NS } else { SOON_NS }
}
