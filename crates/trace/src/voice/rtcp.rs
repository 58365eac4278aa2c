//! RTCP (RFC 3550 section 6) and its extended reports (RFC 3611): what receivers say about streams, and round trips.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use super::track::Pauses;
use crate::packet::{u16_at, u32_at};

const SENDER_REPORT: u8 = 200;
const RECEIVER_REPORT: u8 = 201;
const EXTENDED_REPORT: u8 = 207;
const BLOCK_BYTES: usize = 24;
/// Block types of extended reports (RFC 3611 sections 4.4, 4.5, 4.7).
const RECEIVER_TIME: u8 = 4;
const DELAY_SINCE_RECEIVER_TIME: u8 = 5;
const VOIP_METRICS: u8 = 7;
const VOIP_METRICS_BYTES: usize = 32;
/// An unknown value in VoIP metrics.
const UNKNOWN: u8 = 127;

/// Most receivers of streams that are remembered, and the last times of sources.
const MAX_RECEIVERS: usize = 1 << 15;
const MAX_SOURCES: usize = 1 << 15;
const MAX_TIMES: usize = 16;
/// Numbers behind the last one in the capture that a report may name: the receiver had more than the capture.
const BEHIND: i64 = 1 << 13;
/// Numbers that a capture may have missed at its end.
const FEW_BEHIND: f64 = 20.0;
/// A receiver whose numbers go back has begun anew, or counts in 16 bits.
const MOST_COVERED: u32 = u32::MAX / 2;
/// Share of the numbers that reports cover which may be older than the capture, or newer.
const OUTSIDE: f64 = 0.1;
/// A longer round trip is a clock that jumped.
const LONGEST_TRIP_NS: i64 = 60_000_000_000;

/// VoIP metrics as the receiver has computed them; ratios from 0 to 1, and `None` for what it did not know.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claim {
    /// Lost in the network.
    pub loss_ratio: f64,
    /// Discarded by the jitter buffer.
    pub discard_ratio: f64,
    /// Round trip between the two, ms.
    pub round_trip_ms: u16,
    /// Within the receiver, ms.
    pub end_system_ms: u16,
    /// R factor.
    pub r: Option<u8>,
    /// MOS without and with the effects of delay.
    pub mos_lq: Option<f64>,
    /// The same for a conversation.
    pub mos_cq: Option<f64>,
}

/// A round trip between the capture and a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundTrips {
    /// How many are known.
    pub count: u64,
    /// Least, ns.
    pub least_ns: i64,
    /// Greatest.
    pub most_ns: i64,
    /// All together.
    pub sum_ns: i64,
}

impl RoundTrips {
    fn add(&mut self, trip_ns: i64) {
        // A reply may leave before the capture's clock has moved.
        if !(-1_000_000..LONGEST_TRIP_NS).contains(&trip_ns) {
            return;
        }
        let trip_ns = trip_ns.max(0);
        self.least_ns = if self.count == 0 { trip_ns } else { self.least_ns.min(trip_ns) };
        self.most_ns = self.most_ns.max(trip_ns);
        self.sum_ns += trip_ns;
        self.count += 1;
    }
}

/// What a receiver reported about a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reports {
    /// How many reports.
    pub count: u64,
    /// Sum of the shares lost since the report before, in 256ths.
    fraction_sum: u64,
    /// Cumulative losses and highest number of the first report and of the last.
    first: (i64, u32),
    last: (i64, u32),
    /// Greatest jitter, in ticks of the stream's clock.
    pub jitter_max: u32,
    /// Sum of all jitters, in ticks.
    pub jitter_sum: u64,
    /// Between the capture and the receiver.
    pub round_trips: RoundTrips,
    /// What it computed itself, the last time.
    pub claim: Option<Claim>,
}

/// The numbers of a stream that a capture has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CapturedNumbers {
    /// The first, 16 bits.
    pub first: u16,
    /// From the first to the last, with those that were not sent.
    pub count: u64,
    /// Those that were not sent: receivers count them as lost (RFC 3550 appendix A.3).
    pub pauses: Pauses,
}

impl CapturedNumbers {
    /// How many of them there are up to the highest one of a report; 0 or less if the report is older than all of them.
    ///
    /// Rounds of 16 bits are counted since the receiver began, not since the capture did: the number that is nearest to the
    /// last one counts.
    fn until(self, highest: u32) -> i64 {
        const ROUND: i64 = 1 << 16;
        let first = i64::from((highest as u16).wrapping_sub(self.first)) + 1;
        let most = i64::try_from(self.count).map_or(i64::MAX, |count| count.saturating_add(BEHIND));
        first + (most - first).div_euclid(ROUND) * ROUND
    }

    /// How many of the first `until` numbers were not sent; `None` if they end between two pauses.
    fn not_sent(self, until: i64) -> Option<i64> {
        let Pauses { count, skipped, from, until: resumed, .. } = self.pauses;
        let first = i64::from(self.first);
        if count == 0 || until <= from - first {
            return Some(0);
        }
        (until > resumed - first).then_some(skipped)
    }

    /// Whether many of the first `until` numbers came after those that were captured.
    fn lacks(self, until: i64) -> bool {
        until as f64 > self.count as f64 * (1.0 + OUTSIDE) + FEW_BEHIND
    }
}

impl Reports {
    /// Share of the numbers in the capture that the receiver missed, from 0 to 1; `None` if no report shows it.
    ///
    /// From the totals of the first report and of the last; if there is only one, from its total. A report is about all that
    /// came since the one before, and may be older than the capture: it says nothing if it covers other numbers.
    #[must_use]
    pub fn loss_ratio(&self, captured: CapturedNumbers) -> Option<f64> {
        let until = captured.until(self.last.1);
        if self.count == 0 || until <= 0 || captured.lacks(until) {
            return None;
        }
        let covered = self.covered();
        if self.count == 1 || covered == 0 {
            return self.of_one(until, captured.not_sent(until)?);
        }
        if covered > MOST_COVERED {
            // Some receivers do not count the rounds of 16 bits.
            let share = self.fraction_sum as f64 / 256.0 / self.count as f64;
            return (captured.pauses.skipped == 0).then_some(share);
        }
        let not_sent = captured.not_sent(until)? - captured.not_sent(until - i64::from(covered))?;
        let lost = (self.last.0 - self.first.0).max(0) - not_sent;
        let sent = i64::from(covered) - not_sent;
        // A receiver that misses fewer than were not sent has begun anew after the pause.
        (is_within(covered, until) && lost >= 0 && sent > 0).then(|| (lost as f64 / sent as f64).min(1.0))
    }

    /// Whether packets were lost by reports from which no loss among the numbers in the capture follows.
    #[must_use]
    pub fn lost_others(&self, captured: CapturedNumbers) -> bool {
        self.fraction_sum > 0 && self.loss_ratio(captured).is_none()
    }

    /// The same from one report, which covers `until` numbers of the capture, of which some were `not_sent`.
    fn of_one(&self, until: i64, not_sent: i64) -> Option<f64> {
        let fraction = self.fraction_sum as f64 / self.count as f64;
        if fraction <= 0.0 {
            return Some(0.0);
        }
        // As many as this were expected since the report before if nothing had been lost until then, fewer otherwise.
        let expected = self.last.0 as f64 * 256.0 / (fraction + 1.0);
        let (lost, sent) = (self.last.0 - not_sent, until - not_sent);
        (self.last.0 > 0 && lost >= 0 && sent > 0 && expected <= until as f64 * (1.0 + OUTSIDE))
            .then(|| (lost as f64 / sent as f64).min(1.0))
    }

    /// Numbers from the first report to the last.
    const fn covered(&self) -> u32 {
        self.last.1.wrapping_sub(self.first.1)
    }

    /// Numbers that the reports cover, and packets that the receiver had missed at the last one, since it began; `None` with
    /// fewer than two, or if they are about others than those in the capture.
    pub(super) fn totals(&self, captured: CapturedNumbers) -> Option<(u64, u64)> {
        let covered = self.covered();
        let until = captured.until(self.last.1);
        let not_sent = captured.not_sent(until)?;
        let sent = i64::from(covered) - (not_sent - captured.not_sent(until - i64::from(covered))?);
        (self.count >= 2 && covered <= MOST_COVERED && is_within(covered, until) && !captured.lacks(until))
            .then(|| (sent.max(0).unsigned_abs(), (self.last.0 - not_sent).max(0).unsigned_abs()))
    }
}

/// Whether of the numbers that reports cover, hardly any is older than the capture, of which they cover `until`.
fn is_within(covered: u32, until: i64) -> bool {
    until > 0 && (i64::from(covered) - until) as f64 <= OUTSIDE * f64::from(covered)
}

/// A stream and its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Receiver {
    source: u32,
    sender: IpAddr,
    receiver: IpAddr,
}

/// Everything that was reported.
#[derive(Debug, Default)]
pub struct Store {
    receivers: HashMap<Receiver, Reports>,
    /// The middle 32 bits of NTP times that sources sent, and when they were captured.
    times: HashMap<u32, VecDeque<(u32, i64)>>,
    /// Packets that are encrypted, or damaged.
    pub unreadable: u64,
}

impl Store {
    /// Takes a compound packet, of which `len` bytes were sent and `payload` was captured.
    pub fn put(&mut self, payload: &[u8], len: usize, now_ns: i64, src: IpAddr, dst: IpAddr) {
        // Lengths add up to that of the datagram; in SRTCP, a tag follows and what precedes it is encrypted.
        let Some(packets) = split(payload, len) else {
            self.unreadable += 1;
            return;
        };
        for packet in packets {
            let Some(sender) = u32_at(packet, 4) else { continue };
            let blocks = usize::from(packet[0] & 0x1f);
            match packet[1] {
                SENDER_REPORT => {
                    if let Some(time) = u32_at(packet, 10) {
                        self.remember(sender, time, now_ns);
                    }
                    self.report(packet.get(28..).unwrap_or_default(), blocks, now_ns, src, dst);
                }
                RECEIVER_REPORT => self.report(&packet[8..], blocks, now_ns, src, dst),
                EXTENDED_REPORT => self.extended(sender, &packet[8..], now_ns, src, dst),
                _ => {}
            }
        }
    }

    /// What the receiver of a stream reported.
    #[must_use]
    pub fn of(&self, source: u32, sender: IpAddr, receiver: IpAddr) -> Option<Reports> {
        self.receivers.get(&Receiver { source, sender, receiver }).copied()
    }

    fn remember(&mut self, source: u32, time: u32, now_ns: i64) {
        if self.times.len() >= MAX_SOURCES && !self.times.contains_key(&source) {
            return;
        }
        let times = self.times.entry(source).or_default();
        // The same packet may be seen twice.
        if times.back().is_some_and(|(last, _)| *last == time) {
            return;
        }
        if times.len() == MAX_TIMES {
            times.pop_front();
        }
        times.push_back((time, now_ns));
    }

    /// From when a source sent this time until now, less the delay at the other end.
    fn trip(&self, source: u32, time: u32, delay: u32, now_ns: i64) -> Option<i64> {
        let (_, sent_ns) = self.times.get(&source)?.iter().find(|(sent, _)| *sent == time)?;
        // Delays are in 65,536ths of a second.
        let delay_ns = i64::from(delay) * 1_000_000_000 / 65_536;
        Some(now_ns.saturating_sub(*sent_ns).saturating_sub(delay_ns))
    }

    fn receiver(&mut self, source: u32, src: IpAddr, dst: IpAddr) -> Option<&mut Reports> {
        let key = Receiver { source, sender: dst, receiver: src };
        (self.receivers.len() < MAX_RECEIVERS || self.receivers.contains_key(&key))
            .then(|| self.receivers.entry(key).or_default())
    }

    fn report(&mut self, blocks: &[u8], count: usize, now_ns: i64, src: IpAddr, dst: IpAddr) {
        for block in blocks.chunks_exact(BLOCK_BYTES).take(count) {
            let word = |at| u32_at(block, at).unwrap_or_default();
            let (source, losses, highest, jitter) = (word(0), word(4), word(8), word(12));
            let trip = Some((word(16), word(20)))
                .filter(|(time, _)| *time != 0)
                .and_then(|(time, delay)| self.trip(source, time, delay, now_ns));
            let Some(reports) = self.receiver(source, src, dst) else { continue };
            // Signed, 24 bits: copies may exceed losses.
            let lost = i64::from((losses << 8).cast_signed() >> 8);
            if reports.count == 0 {
                reports.first = (lost, highest);
            }
            reports.last = (lost, highest);
            reports.count += 1;
            reports.fraction_sum += u64::from(losses >> 24);
            reports.jitter_max = reports.jitter_max.max(jitter);
            reports.jitter_sum += u64::from(jitter);
            if let Some(trip_ns) = trip {
                reports.round_trips.add(trip_ns);
            }
        }
    }

    fn extended(&mut self, sender: u32, mut blocks: &[u8], now_ns: i64, src: IpAddr, dst: IpAddr) {
        while let (Some(&kind), Some(words)) = (blocks.first(), u16_at(blocks, 2)) {
            let bytes = usize::from(words) * 4;
            let Some(body) = blocks.get(4..4 + bytes) else { return };
            match kind {
                RECEIVER_TIME => {
                    if let Some(time) = u32_at(body, 2) {
                        self.remember(sender, time, now_ns);
                    }
                }
                // From the sender of a stream to those that only receive: the capture's round trip to the sender is
                // that of its own stream's receiver, which is the one that answers.
                DELAY_SINCE_RECEIVER_TIME => {
                    for item in body.chunks_exact(12) {
                        let word = |at| u32_at(item, at).unwrap_or_default();
                        let (source, time, delay) = (word(0), word(4), word(8));
                        let trip = self.trip(source, time, delay, now_ns);
                        if let (Some(trip_ns), Some(reports)) = (trip, self.receiver(source, src, dst)) {
                            reports.round_trips.add(trip_ns);
                        }
                    }
                }
                VOIP_METRICS if body.len() >= VOIP_METRICS_BYTES => {
                    let source = u32_at(body, 0).unwrap_or_default();
                    if let Some(reports) = self.receiver(source, src, dst) {
                        reports.claim = Some(claim(body));
                    }
                }
                _ => {}
            }
            blocks = &blocks[4 + bytes..];
        }
    }
}

fn claim(body: &[u8]) -> Claim {
    let known = |at: usize| Some(body[at]).filter(|value| *value != UNKNOWN);
    let mos = |at| known(at).map(|tenths| f64::from(tenths) / 10.0);
    Claim {
        loss_ratio: f64::from(body[4]) / 256.0,
        discard_ratio: f64::from(body[5]) / 256.0,
        round_trip_ms: u16_at(body, 12).unwrap_or_default(),
        end_system_ms: u16_at(body, 14).unwrap_or_default(),
        r: known(20),
        mos_lq: mos(22),
        mos_cq: mos(23),
    }
}

/// The packets of a compound packet; `None` if their lengths do not add up.
fn split(payload: &[u8], len: usize) -> Option<Vec<&[u8]>> {
    let (mut at, mut found) = (0, Vec::new());
    while at < len {
        if at >= payload.len() {
            // Cut off by the capture.
            return Some(found);
        }
        if payload[at] >> 6 != 2 {
            return None;
        }
        let end = at + (usize::from(u16_at(payload, at + 2)?) + 1) * 4;
        if end > len {
            return None;
        }
        if let Some(packet) = payload.get(at..end).filter(|packet| packet.len() >= 8) {
            found.push(packet);
        }
        at = end;
    }
    Some(found)
}

#[cfg(test)]
mod tests;
