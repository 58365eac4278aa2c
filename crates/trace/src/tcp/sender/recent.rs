//! The last packets of a side, to which copies are compared: a copy follows closely.
//!
//! A packet that equals an earlier one in every field, including its IP identification, was copied
//! on the way. Identification 0 says nothing; then only a copy within 0.1 ms counts, and none of an ACK without
//! data, of which many are alike. Copies are looked for first: what a copy says has already been said.
//!
//! A capture merged from two points has every packet again, as late as the way between them takes, or the clocks are apart.
//! Time stamps show it (RFC 7323): whatever a host sends again carries the time of its new transmission.
//!
//! Most connections have no copies, and those of most others come at once: few packets are remembered. A side
//! with a repeated packet, copy or not, remembers more from then on, and one with late copies as many as fit into a way.

use super::super::fold::fold;
use super::super::segment::{FIN, RST, SYN, Segment};
use super::{Context, Sender, elapsed};

const FEW: usize = 8;
/// As many as a fast side sends while a copy takes its detour.
const MANY: usize = 1 << u8::BITS;
/// As many as are on a long way.
const LATE: usize = 1 << 14;
/// Ticks of a time-stamp clock that packets of one moment, captured in another order, are not apart.
const STALE_TICKS: i32 = 2;
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
    /// How many were added, as far as places go.
    at: u16,
    /// Behind the last one that was copied: copies come in the order of their originals.
    next: u16,
    /// The time stamp of what brought something new last.
    newest: Option<u32>,
    /// How late the last late copy was.
    late_ns: Option<u64>,
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
    pub fn add(&mut self, segment: &Segment<'_>, is_new: bool) {
        let marks = if self.many.is_empty() { &mut self.few[..] } else { &mut self.many[..] };
        // Their number is a power of two.
        let at = usize::from(self.at) & (marks.len() - 1);
        marks[at] = Mark::new(segment);
        self.at = self.at.wrapping_add(1);
        // Others send in a host's name, by clocks of their own: one such packet must not make old what follows.
        if is_new {
            self.newest = segment.timestamps().map(|(value, _)| value);
        }
    }

    /// Whether this is a packet that was seen just before.
    pub fn has(&self, segment: &Segment<'_>) -> bool {
        self.position(segment, false).is_some()
    }

    /// Where the packet is that this one is a copy of, however late.
    pub fn find(&self, segment: &Segment<'_>) -> Option<usize> {
        self.position(segment, self.is_old(segment))
    }

    fn position(&self, segment: &Segment<'_>, is_old: bool) -> Option<usize> {
        let mark = Mark::new(segment);
        let marks = if self.many.is_empty() { &self.few[..] } else { &self.many[..] };
        let is_like = |other: &Mark| {
            let behind_ns = elapsed(other.time_ns, mark.time_ns);
            let as_late = |late_ns: u64| behind_ns.abs_diff(late_ns) < late_ns / 2;
            other.fields == mark.fields
                && (is_old || is_soon(segment.ip_id, behind_ns) || self.late_ns.is_some_and(as_late))
        };
        let next = usize::from(self.next) & (marks.len() - 1);
        let found = marks[next..].iter().position(is_like).map(|at| next + at);
        found.or_else(|| marks[..next].iter().position(is_like))
    }

    /// The next copy is most likely one of what came behind the packet at this place.
    const fn expect_behind(&mut self, at: usize) {
        self.next = at as u16 + 1;
    }

    /// How much later than the one at this place the packet came, ns.
    fn behind_ns(&self, at: usize, segment: &Segment<'_>) -> u64 {
        let marks = if self.many.is_empty() { &self.few[..] } else { &self.many[..] };
        elapsed(marks[at].time_ns, segment.time_ns)
    }

    /// How far its time stamp is behind that of what its sender sent last for the first time; 0 or less if it is not.
    pub fn ticks_behind(&self, segment: &Segment<'_>) -> i32 {
        let behind = |((value, _), newest): (_, u32)| newest.wrapping_sub(value) as i32;
        segment.timestamps().zip(self.newest).map_or(0, behind)
    }

    /// Whether its sender had sent a newer time stamp before: then it was not sent again just now.
    pub fn is_behind(&self, segment: &Segment<'_>) -> bool {
        self.ticks_behind(segment) > 0
    }

    /// Whether a packet that is like another in its time stamp, too, is a copy of it, however late.
    ///
    /// A SYN is sent again after a second (RFC 6298), in which every clock ticks.
    fn is_old(&self, segment: &Segment<'_>) -> bool {
        let stamped = segment.timestamps().is_some();
        self.is_behind(segment) || (stamped && (segment.has(SYN) || segment.ip_id != 0))
    }

    /// How many it remembers beyond those of every side.
    pub fn more(&self) -> usize {
        self.many.len()
    }
}

impl Sender {
    /// Whether this packet was copied on the way, and where the packet is of which it is the copy, if that is remembered.
    /// `start` is its place.
    #[inline]
    pub fn copied(
        &self,
        start: i64,
        segment: &Segment<'_>,
        is_first_syn: bool,
        peer: &Self,
    ) -> Option<Option<usize>> {
        // A packet that brings something new is not a copy, and need not be looked for.
        let again = if segment.has(RST) {
            false
        } else if segment.has(SYN) {
            !is_first_syn
        } else if segment.payload > 0 || segment.has(FIN) {
            start < self.next.max(self.probe_end)
        } else {
            // Real duplicate ACKs differ only in their identification, and come close together.
            (segment.ip_id != 0 || self.recent.is_behind(segment)) && peer.has_acknowledged(segment.ack)
        };
        if !again {
            return None;
        }
        let found = self.recent.find(segment);
        (found.is_some() || self.is_stale(start, segment)).then_some(found)
    }

    /// Whether this data passed before, and left before what passed since: whoever sends it again stamps it anew.
    #[cold]
    fn is_stale(&self, start: i64, segment: &Segment<'_>) -> bool {
        let end = start + i64::from(segment.payload);
        let is_known = segment.has(SYN) || (segment.payload > 0 && end <= self.next);
        let is_whole = self.holes.first_in(start, end).is_none() && !self.missed.overlaps(start, end);
        is_known && is_whole && self.recent.ticks_behind(segment) >= STALE_TICKS
    }

    /// Whether this ACK of the other end, or a later one, was seen before.
    #[inline]
    fn has_acknowledged(&self, ack: u32) -> bool {
        self.acked.is_some_and(|acked| self.unwrapped(acked, ack) <= acked)
    }

    /// Keeps what distinguishes this packet from a copy of it. `is_new`: it shows what time it is by the sender's clock.
    #[inline]
    pub fn passed(&mut self, segment: &Segment<'_>, is_new: bool) {
        self.recent.add(segment, is_new);
    }

    /// Whether this very packet passed just before.
    pub fn has_passed(&self, segment: &Segment<'_>) -> bool {
        self.recent.has(segment)
    }

    /// Remembers more packets from now on, unless all connections together remember too much: they count like
    /// outstanding segments.
    #[cold]
    pub fn remember_more<S>(&mut self, cx: &mut Context<'_, S>) {
        self.remember(MANY, cx);
    }

    /// Notes a copy of the packet at this place, if it is remembered. After a late one, as many are as are on a long way.
    #[cold]
    pub fn note_copy<S>(&mut self, at: Option<usize>, segment: &Segment<'_>, cx: &mut Context<'_, S>) {
        let behind_ns = at.map(|at| self.recent.behind_ns(at, segment));
        let is_late = behind_ns.is_none_or(|behind_ns| behind_ns >= SOON_NS);
        if let Some(at) = at {
            self.recent.expect_behind(at);
            self.recent.late_ns = behind_ns.filter(|_| is_late).or(self.recent.late_ns);
        }
        self.remember(if is_late { LATE } else { MANY }, cx);
    }

    fn remember<S>(&mut self, number: usize, cx: &mut Context<'_, S>) {
        let recent = &mut self.recent;
        let more = number.saturating_sub(recent.many.len());
        if more == 0 || *cx.outstanding + more > cx.max_outstanding / 2 {
            return;
        }
        *cx.outstanding += more;
        let old = if recent.many.is_empty() { recent.few.to_vec() } else { std::mem::take(&mut recent.many) };
        // The oldest first.
        let at = usize::from(recent.at) & (old.len() - 1);
        recent.many = [&old[at..], &old[..at]].concat();
        recent.many.resize(number, Mark::default());
        let next = usize::from(recent.next).wrapping_sub(at) & (old.len() - 1);
        (recent.at, recent.next) = (old.len() as u16, next as u16);
    }
}

/// Whether a packet with this identification, this long after its like, may be a copy of it.
pub fn is_soon(ip_id: u16, behind_ns: u64) -> bool {
    behind_ns < if ip_id == 0 { AT_ONCE_NS } else { SOON_NS }
}
