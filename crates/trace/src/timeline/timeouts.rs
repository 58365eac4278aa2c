//! Retransmission time-outs (RFC 6298): how long a sender waited for them, and why nothing came sooner.

use super::{Events, Packet};

/// Shorter waits are those of fast retransmissions on a busy host.
const LEAST_WAIT_S: f64 = 0.02;
/// After such a silence a timer triggered the retransmission: no packet came that could have asked for it. Half of the least
/// time-out of Linux, as a silence begins up to a round trip later than the timer.
pub const SILENT_S: f64 = 0.1;
/// Duplicate ACKs that ask for a retransmission (RFC 5681, 3.2).
const DUPLICATES: u32 = 3;
/// Transmissions of large segments that must have failed before a path counts as a black hole.
const LEAST_TRIES: usize = 3;
/// Payload that every path carries: a packet of 1280 bytes (RFC 8200 section 5) without headers and their options. If less is lost
/// and nothing arrives later, the other end has gone.
const CARRIED_BYTES: u32 = 1280 - 80;

/// Segments of more than `passed_bytes` never arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlackHole {
    /// The largest payload that was acknowledged.
    pub passed_bytes: u32,
    /// The smallest payload that was not.
    pub lost_bytes: u32,
    /// Transmissions of larger payloads, all in vain.
    pub tries: usize,
    /// A small segment arrived that was sent after a larger one: the path was alive.
    pub later_passed: bool,
}

/// The time-outs of a sender.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timeouts {
    /// How many.
    pub number: usize,
    /// Nothing had been sent after the lost segment, so that no duplicate ACK could report it.
    pub tails: usize,
    /// Three or more duplicate ACKs had asked for the segment, but the sender waited.
    pub ignored: usize,
    /// The longest wait.
    pub longest_s: f64,
    /// Whether only small segments arrived.
    pub black_hole: Option<BlackHole>,
}

/// Where the sender waited for a time-out, by event until the next one; and what is known of these waits.
///
/// A wait begins with the last packet that changed what the sender could expect: data that it sent, or an ACK of new data; if
/// nothing had been sent after the lost segment, with that. It ends with the retransmission, or not at all if nothing more was
/// acknowledged after the last one.
pub(super) fn timeouts(
    events: &Events,
    packets: &[Packet],
    least_rtt_s: f64,
) -> (Vec<bool>, Option<Timeouts>) {
    let at_ns = &events.at_ns;
    let mut waits = vec![false; at_ns.len()];
    let mut found: Option<Timeouts> = None;
    let mut expired = Vec::new();
    let (mut last_data, mut last_advance) = (None, None);
    // Duplicate ACKs so far, and by the event of `last_data` and `last_advance`.
    let (mut duplicates, mut at_data, mut at_advance) = (0_u32, 0, 0);
    for at in 0..at_ns.len() {
        let silence_s = if at == 0 { 0.0 } else { (at_ns[at] - at_ns[at - 1]) / 1e9 };
        let packet = &packets[at];
        let is_data = events.data[at];
        let silent = is_data && packet.again && !packet.probe && silence_s >= SILENT_S.max(least_rtt_s);
        if silent || (is_data && packet.timeout) {
            let tail = packet.end() >= events.sent[at];
            let (before, asked) = if !tail && last_advance > last_data {
                (last_advance, duplicates - at_advance)
            } else {
                (last_data, duplicates - at_data)
            };
            if let Some(before) = before {
                let lasted_s = (at_ns[at] - at_ns[before]) / 1e9;
                if silent || lasted_s >= LEAST_WAIT_S.max(least_rtt_s) {
                    waits[before..at].fill(true);
                    let known = found.get_or_insert(Timeouts {
                        number: 0,
                        tails: 0,
                        ignored: 0,
                        longest_s: f64::NEG_INFINITY,
                        black_hole: None,
                    });
                    known.number += 1;
                    known.tails += usize::from(tail);
                    known.ignored += usize::from(asked >= DUPLICATES);
                    known.longest_s = known.longest_s.max(lasted_s);
                    expired.push(at);
                }
            }
        }
        let advanced = events.acks[at] && at > 0 && events.acked[at] > events.acked[at - 1];
        duplicates += u32::from(events.acks[at] && !advanced && events.payload_bytes[at] == 0);
        if events.data[at] {
            (last_data, at_data) = (Some(at), duplicates);
        }
        if advanced {
            (last_advance, at_advance) = (Some(at), duplicates);
        }
    }
    if let (Some(found), Some(&last)) = (&mut found, expired.last())
        && last_advance < Some(last)
        && events.sent.last() > events.acked.last()
    {
        waits[last..].fill(true);
        found.longest_s = found.longest_s.max((at_ns[at_ns.len() - 1] - at_ns[last]) / 1e9);
    }
    if let Some(found) = &mut found {
        found.black_hole = black_hole(events, packets, &expired);
    }
    (waits, found)
}

/// Whether only segments up to some size arrive (RFC 2923, 2.1).
fn black_hole(events: &Events, packets: &[Packet], expired: &[usize]) -> Option<BlackHole> {
    let data: Vec<usize> = (0..events.at_ns.len()).filter(|&at| events.data[at]).collect();
    let size = |at: usize| events.payload_bytes[at];
    let range = |at: usize| (packets[at].seq, packets[at].end());
    let acked = *events.acked.last()?;
    let repeated = Overlap::new(data.iter().filter(|&&at| packets[at].again).map(|&at| range(at)).collect());
    let passes = |at: usize| {
        let (seq, end) = range(at);
        !packets[at].again && end <= acked && !repeated.reaches_into(seq, end)
    };
    let passed_bytes = data.iter().copied().filter(|&at| passes(at)).map(size).max()?;
    let large: Vec<usize> = data.iter().copied().filter(|&at| size(at) > passed_bytes).collect();
    if large.len() < LEAST_TRIES || expired.iter().any(|&at| size(at) <= passed_bytes) {
        return None;
    }
    // What was acknowledged after all must have come in smaller pieces.
    for &at in large.iter().filter(|&&at| range(at).1 <= acked) {
        let first = range(at).0;
        let covers = |&&at: &&usize| range(at).0 <= first && range(at).1 > first;
        if data.iter().rev().find(covers).is_some_and(|&last| size(last) > passed_bytes) {
            return None;
        }
    }
    let lost_bytes = large.iter().map(|&at| size(at)).min()?;
    let later_passed = data.iter().any(|&at| at > large[0] && passes(at));
    (later_passed || lost_bytes >= CARRIED_BYTES).then_some(BlackHole {
        passed_bytes,
        lost_bytes,
        tries: large.len(),
        later_passed,
    })
}

/// Ranges in the order of their beginnings, each with the farthest end of all up to it.
struct Overlap(Vec<(i64, i64)>);

impl Overlap {
    fn new(mut ranges: Vec<(i64, i64)>) -> Self {
        ranges.sort_unstable();
        let mut farthest = i64::MIN;
        for (_, end) in &mut ranges {
            farthest = farthest.max(*end);
            *end = farthest;
        }
        Self(ranges)
    }

    fn reaches_into(&self, seq: i64, end: i64) -> bool {
        let before = self.0.partition_point(|&(first, _)| first < end);
        before > 0 && self.0[before - 1].1 > seq
    }
}
