//! One end of a connection as a sender: what it sent, what of that was acknowledged, and what it advertised.

mod ack;
mod cause;
mod data;
mod missed;
mod ranges;
mod recent;
mod repeats;
mod rtt;
mod window;

use std::collections::VecDeque;

pub use ack::Acknowledged;
pub use data::Placed;
use missed::Missed;
pub use ranges::Ranges;
use recent::Recent;
pub use recent::is_soon;
use repeats::Repeats;
use rtt::{Path, Smoothed, Sums, Ticks};
pub use window::Advertised;

use super::facts::{From, Side};
use super::segment::{ACK, FIN, RST, SYN, Segment};
use super::settings::Counts;

/// Most segments of one direction that are remembered until they are acknowledged.
const MAX_QUEUE: usize = 1 << 16;
/// The same while the other direction has not been seen: perhaps nothing will ever be acknowledged.
const MAX_QUEUE_UNANSWERED: usize = 64;
/// Room that an empty queue keeps.
const KEPT_QUEUE: usize = 1 << 10;
/// Consecutive packets with rising IP identification that make it a counter.
const RISING: u8 = 3;
/// Larger than any window (RFC 7323 section 2.3).
const MAX_WINDOW: i64 = 1 << 30;
/// The same without the option.
const MAX_UNSCALED: i64 = 1 << 16;

/// Where findings go, and what is known about the current packet.
pub struct Context<'a, S> {
    pub sink: &'a mut S,
    pub counts: &'a mut Counts,
    /// Segments that all connections remember, and the limit.
    pub outstanding: &'a mut usize,
    pub max_outstanding: usize,
    pub connection: u32,
}

/// A segment with data in flight.
#[derive(Clone, Copy, Debug)]
struct Sent {
    start: i64,
    end: i64,
    /// Last time.
    time_ns: i64,
    repeated: bool,
}

/// What was sent after a gap when that was first seen.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Behind {
    time_ns: i64,
    ip_id: u16,
    timestamp: Option<u32>,
}

/// One end as a sender. Sequence numbers are carried on beyond 32 bits and counted from its SYN.
///
/// In the order of use: the fields that every packet touches lie together.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Sender {
    /// Sequence number that counts as 0.
    base: Option<u32>,
    /// Number of a later SYN that differs, until it turns out which of them counts.
    other_isn: Option<u32>,
    window: Option<u32>,
    /// After the last byte sent.
    next: i64,
    /// After the last byte that was seen; more may have been acknowledged.
    seen_end: i64,
    /// What the other end acknowledged; nothing before its first ACK.
    acked: Option<i64>,
    last_ns: Option<i64>,
    /// Up to where the other end's window lets it send.
    edge: Option<i64>,
    zero_since: Option<i64>,
    pub syn_seen: bool,
    pub fin_seen: bool,
    /// Whether a packet of it was seen that shows where it is.
    seen: bool,
    /// Whether data or FIN of it was seen.
    data_seen: bool,
    /// Shift of the window it advertises.
    pub shift: u8,
    /// The shift is known, even if it is 0.
    pub shift_known: bool,
    /// Consecutive packets whose IP identification rises by a few, up to the number that makes it a counter.
    rising_ids: u8,
    /// Consecutive impossible ACKs, and the last of them.
    strange: u8,
    strange_ack: u32,
    last_id: u16,
    /// Consecutive duplicate ACKs, and others that report a loss.
    duplicates: u32,
    last_data_ns: i64,
    /// When the first data after the other end's last packet was sent.
    unanswered_since_ns: i64,
    /// When it last sent a SYN or a keep-alive, which carry no data and want an answer.
    asked_ns: i64,
    /// When the other end last acknowledged or repeated itself.
    last_ack_ns: i64,
    queue: VecDeque<Sent>,
    pub side: Side,
    flight_sum: u128,
    flight_count: u64,
    /// End of a window probe's byte, which may be accepted or not.
    probe_end: i64,
    /// Bytes of probes that were accepted: they count with the next data.
    owed: u32,
    ticks: Ticks,
    recent: Recent,
    /// From the point of capture to the other end and back.
    pub smoothed: Smoothed,
    pub rtt: Sums,
    rtt_timestamp: Sums,
    /// What was skipped and may still come.
    holes: Ranges<Behind>,
    /// What was acknowledged a moment ago and not seen.
    missed: Missed,
    /// What SACK blocks reported, above `acked`.
    sacked: Ranges<()>,
    repeats: Repeats,
    /// End of what was sent when the last loss was noticed: by time-out, and by duplicate ACKs.
    timeout_until: i64,
    recovery_until: i64,
    /// Of its ACKs without data; kept for rows only.
    ack_ticks: Ticks,
}

/// SYNs sent again before anything else happened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Repetitions {
    pub count: u32,
    marks: u32,
    link_bytes: u64,
    last_ns: i64,
    idle_max_ns: u64,
}

impl Repetitions {
    /// One more; the first SYN came at `first_ns`.
    pub fn add(&mut self, first_ns: i64, segment: &Segment<'_>) {
        let last_ns = if self.count == 0 { first_ns } else { self.last_ns };
        self.idle_max_ns = self.idle_max_ns.max(elapsed(last_ns, segment.time_ns));
        self.last_ns = last_ns.max(segment.time_ns);
        self.count += 1;
        self.marks += u32::from(segment.marked);
        self.link_bytes += u64::from(segment.link_bytes);
    }
}

impl Sender {
    /// Counts SYNs that were not given one by one.
    pub fn add_syns(&mut self, syns: &Repetitions) {
        let (side, count) = (&mut self.side, u64::from(syns.count));
        side.packets += count;
        side.syns += count;
        side.link_bytes += syns.link_bytes;
        side.congestion_marks += u64::from(syns.marks);
        side.retransmissions.total += count;
        side.retransmissions.handshake += count;
        side.idle_max_ns = side.idle_max_ns.max(syns.idle_max_ns);
        self.last_ns = Some(syns.last_ns);
    }

    /// The initial sequence number, or the first one seen.
    pub fn base(&self) -> Option<u32> {
        self.base
    }

    /// Counts from `base`, close to `near`.
    #[inline]
    fn unwrapped(&self, near: i64, number: u32) -> i64 {
        let at = self.base.unwrap_or(number).wrapping_add(near as u32);
        near + i64::from(number.wrapping_sub(at) as i32)
    }

    /// Where an ACK of the other end belongs.
    pub fn position_of_ack(&self, segment: &Segment<'_>) -> i64 {
        if segment.has(ACK) { self.unwrapped(self.acked.unwrap_or(self.next), segment.ack) } else { 0 }
    }

    /// Where a segment's sequence number belongs.
    #[inline]
    pub fn position(&mut self, segment: &Segment<'_>) -> i64 {
        if self.other_isn.is_some() && !segment.has(SYN) {
            self.settle(segment.seq);
        }
        match self.base {
            Some(_) => {
                let start = self.unwrapped(self.next, segment.seq);
                // Nothing is sent again from so far back: it is the next round, and the capture has a gap.
                if start < self.next - MAX_WINDOW && self.seen { start + (1 << 32) } else { start }
            }
            // A RST may carry any number: it does not show where its sender is.
            None if segment.has(RST) => 0,
            None => {
                self.base = Some(segment.seq);
                0
            }
        }
    }

    /// Decides between SYNs of different numbers, of which a server without memory of the first may send several:
    /// by the first `number` of data or in an ACK. Before, the first one counts.
    #[cold]
    fn settle(&mut self, number: u32) {
        let isn = Some(number.wrapping_sub(1));
        if isn == self.other_isn && self.acked.is_none() {
            self.base = isn;
        }
        if isn == self.other_isn || isn == self.base {
            self.other_isn = None;
        }
    }

    /// Counts what every packet counts in.
    #[inline]
    pub fn count(&mut self, segment: &Segment<'_>) {
        let side = &mut self.side;
        side.packets += 1;
        side.link_bytes += u64::from(segment.link_bytes);
        side.congestion_marks += u64::from(segment.marked);
        side.pure_acks += u64::from(segment.is_pure_ack());
        if segment.flags & (SYN | FIN | RST) != 0 {
            side.syns += u64::from(segment.has(SYN));
            side.fins += u64::from(segment.has(FIN));
            side.resets += u64::from(segment.has(RST));
        }
        let time_ns = segment.time_ns;
        let last_ns = self.last_ns.unwrap_or(time_ns);
        side.idle_max_ns = side.idle_max_ns.max(elapsed(last_ns, time_ns));
        self.last_ns = Some(last_ns.max(time_ns));
        // A copy has the same.
        if self.rising_ids < RISING && segment.ip_id != self.last_id {
            let rises = segment.ip_id.wrapping_sub(self.last_id).wrapping_sub(1) < 16;
            self.rising_ids = if rises { self.rising_ids + 1 } else { 0 };
        }
        self.last_id = segment.ip_id;
    }

    /// The other end sent something.
    #[inline]
    pub fn answered(&mut self) {
        self.side.unanswered = 0;
    }

    /// Counts data that the other end, `peer`, has not answered yet.
    #[inline]
    pub fn wait_for_answer(&mut self, segment: &Segment<'_>, peer: &Self) {
        if segment.payload == 0 || segment.has(RST) {
            return;
        }
        let (side, now) = (&mut self.side, segment.time_ns);
        if side.unanswered == 0 {
            self.unanswered_since_ns = now;
            side.unanswered_after_ns = peer.last_ns.map_or(0, |last_ns| elapsed(last_ns, now));
        }
        side.unanswered += 1;
        side.unanswered_ns = elapsed(self.unanswered_since_ns, now);
    }

    /// Counts the data of a packet.
    #[inline]
    pub fn count_data(&mut self, segment: &Segment<'_>) {
        if segment.payload > 0 && !segment.has(RST) {
            let (side, time) = (&mut self.side, segment.time_ns);
            side.data_packets += 1;
            side.data_bytes += u64::from(segment.payload);
            side.payload_max = side.payload_max.max(segment.payload);
            side.data_ns = Some(side.data_ns.map_or((time, time), |(a, b)| (a.min(time), b.max(time))));
        }
    }

    /// Data sent and not yet acknowledged; 0 before the other end acknowledged anything, and after a gap of the
    /// capture that no window spans.
    #[inline]
    pub fn flight(&self) -> u64 {
        let flight = self.acked.map_or(0, |acked| self.next - acked);
        if flight > MAX_WINDOW { 0 } else { flight.unsigned_abs() }
    }

    /// After the last byte sent.
    #[inline]
    pub fn next(&self) -> i64 {
        self.next
    }

    /// Whether `number` lies where this end may be, as far as that is known.
    pub fn is_near(&self, number: u32) -> bool {
        (self.next - MAX_WINDOW..=self.next + MAX_WINDOW).contains(&self.unwrapped(self.next, number))
    }

    /// Whether `number` lies nearer to where this end is if `shift` is taken off.
    pub fn is_nearer_without(&self, number: u32, shift: u32) -> bool {
        let far = |number| self.unwrapped(self.next, number).abs_diff(self.next);
        self.base.is_some() && far(number.wrapping_sub(shift)) < far(number)
    }

    /// Whether this SYN of the other end can answer that of this one.
    pub fn accepts(&self, segment: &Segment<'_>) -> bool {
        !self.syn_seen || !segment.has(ACK) || self.awaits(self.unwrapped(self.next, segment.ack))
    }

    /// Whether `at` can answer its SYN. While it waits for the other end's SYN, it believes nothing else and no RST
    /// (RFC 9293 section 3.10.7.3).
    pub fn awaits(&self, at: i64) -> bool {
        (1..=self.next).contains(&at)
    }

    /// Whether the other end, `peer`, believes a RST at `start` (RFC 5961 section 3).
    pub fn may_reset_at(&self, start: i64, peer: &Self) -> bool {
        let acked = match self.acked {
            Some(acked) if self.seen => acked,
            None if self.syn_seen => 0,
            _ => return true,
        };
        // No window is scaled before the handshake is over.
        let is_opening = self.acked.is_none() || (peer.syn_seen && peer.side.window.is_none());
        let window = match peer.side.window {
            _ if is_opening => MAX_UNSCALED,
            Some((_, window)) if peer.shift_known => i64::from(window).max(MAX_UNSCALED),
            _ => MAX_WINDOW,
        };
        (acked - 2 * window..=self.next + 2 * window).contains(&start)
    }

    /// What it sent, at the end; `last_ns` is the last packet of the connection.
    #[expect(clippy::cast_precision_loss, reason = "a mean has no more than 53 bits to tell")]
    pub fn into_side(mut self, last_ns: i64) -> Side {
        if self.side.unanswered == 0 {
            (self.side.unanswered_ns, self.side.unanswered_after_ns) = (0, 0);
        }
        if let Some(since) = self.zero_since {
            self.side.shut_ns = elapsed(since, last_ns);
            self.side.zero_window_ns = self.side.zero_window_ns.saturating_add(self.side.shut_ns);
        }
        self.side.rtt = self.rtt.summary();
        self.side.rtt_timestamp = self.rtt_timestamp.summary();
        if self.flight_count > 0 {
            self.side.flight_mean = self.flight_sum as f64 / self.flight_count as f64;
        }
        self.side
    }

    /// Segments, and marks of packets, that it remembers.
    pub fn outstanding(&self) -> usize {
        self.queue.len() + self.recent.more()
    }
}

/// From `then` to `now`; 0 if the clock went backwards.
#[inline]
pub fn elapsed(then: i64, now: i64) -> u64 {
    u64::try_from(now.saturating_sub(then)).unwrap_or(0)
}

/// The other end of `from`.
#[inline]
pub const fn other(from: From) -> From {
    match from {
        From::A => From::B,
        From::B => From::A,
    }
}

/// Whether an acknowledgement is in a segment.
#[inline]
fn acknowledges(segment: &Segment<'_>) -> bool {
    segment.flags & (ACK | RST) == ACK
}

impl<S> Context<'_, S> {
    fn forget(&mut self) {
        self.counts.forgotten += 1;
    }
}
