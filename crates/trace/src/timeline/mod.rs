//! Captured packets of one direction as a timeline of their sender.
//!
//! The sender knows what it sent and what had been acknowledged *to it*. Away from the sender this is found by counting each
//! ACK later, by the round trip from the point of capture to the sender: 0 at the sender, the whole round trip at the
//! receiver. Two things are known only inside the sender and are inferred: the congestion window (no more than what was once
//! in flight), and whether data waited (a segment shorter than the MSS is the last of the available data; new data without an
//! ACK before it was not available earlier).

mod departures;
mod pacing;
mod rounds;
mod rtts;
mod sends;
pub mod stats;
mod timeouts;

use std::collections::BTreeMap;

use departures::{Departures, departures};
use rounds::Pieces;
pub use rtts::Rtts;
use sends::{Visibility, clocked, sends};
use timeouts::timeouts;
pub use timeouts::{BlackHole, SILENT_S, Timeouts};

/// Data that follows an ACK within this time was released by it. An idle host needs a tenth of it.
const AT_ONCE_S: f64 = 0.001;
/// Added to [`AT_ONCE_S`]: share of a round trip that had to be estimated; and the same if only the handshake's is known.
const AT_ONCE_RATIO: f64 = 0.05;
const AT_ONCE_UNSURE: f64 = 0.2;
const MOSTLY: f64 = 0.5;
/// Parts of a round trip.
const PARTS: i64 = 8;
/// Bytes (RFC 9293, 3.7.1): anything smaller is not a full segment.
const LEAST_MSS: i64 = 536;
/// Share of the bytes that come in whole segments, in a transfer that is not of small messages.
const WHOLE: f64 = 0.8;
/// Sizes that are tried as that of a full segment.
const MOST_SIZES: usize = 1000;
/// Round trips for which an application that ACKs release may do nothing.
const LATE_TRIPS: f64 = 2.0;
/// A window that is not known must not look full.
const OPEN_BYTES: f64 = (1_u64 << 40) as f64;
/// Times that the data in flight must reach a window that is not scaled, if the scale is not known.
const FILLED: usize = 8;
/// Share of the data that may leave beyond the window: probes, and data after ACKs that were missed.
const BEYOND: f64 = 0.05;
/// Share of the data that is acknowledged in a capture that has the ACKs, if nothing was sent again.
const SEEN: f64 = 0.5;
const SYN: u8 = 2;
const RST: u8 = 4;
const ECE: u8 = 0x40;

/// A packet of a connection, as in `segments` of `docs/trace.md`.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// Time, ns.
    pub time_ns: i64,
    /// First sequence number.
    pub seq: i64,
    /// Acknowledgement.
    pub ack: i64,
    /// Payload, bytes.
    pub payload_bytes: u32,
    /// Window, scaled, bytes.
    pub window_bytes: u32,
    /// Time stamp of its sender.
    pub tsval: Option<u32>,
    /// Byte 13 of the TCP header.
    pub flags: u8,
    /// Whether the sender of the data sent it.
    pub from_sender: bool,
    /// A retransmission, but not a probe that the receiver reported as needless.
    pub again: bool,
    /// A tail loss probe.
    pub probe: bool,
    /// Sent again after a time-out.
    pub timeout: bool,
}

impl Packet {
    const fn opens_or_resets(&self) -> bool {
        self.flags & (SYN | RST) != 0
    }

    const fn has_data(&self) -> bool {
        self.from_sender && self.payload_bytes > 0 && !self.opens_or_resets()
    }

    const fn is_ack(&self) -> bool {
        !self.from_sender && !self.opens_or_resets()
    }

    fn end(&self) -> i64 {
        self.seq + i64::from(self.payload_bytes)
    }
}

/// Where packets were captured, seen from the sender of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At the sender.
    Sender,
    /// Between sender and receiver.
    Between,
    /// At the receiver.
    Receiver,
}

/// Round trips of a connection.
#[derive(Debug, Default)]
pub struct PathRtts {
    /// Of the whole path, from sender to receiver and back.
    pub trips: Rtts,
    /// From the point of capture to the sender: how much later each ACK counts. With time stamps only the least counts: data
    /// counts from when it left, not from when it arrived.
    pub behind: Rtts,
    /// The same as measured, pauses and queues included.
    pub echoes: Rtts,
}

/// Why a capture shows nothing of what limited a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// It does not have the receiver's ACKs.
    NoAcks,
    /// More was in flight than the window allowed.
    TooMuch,
}

/// What is known about the transfer before.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Where it was captured.
    pub place: Place,
    /// Payload of a full segment, bytes; 0 if the handshake was not seen.
    pub mss_bytes: i64,
    /// The least round trip, s; 0 if none is known.
    pub min_rtt_s: f64,
    /// Whether the scale of the windows is known; otherwise only a closed one is known, unless the data shows that they are not
    /// scaled.
    pub scaled: bool,
}

/// Packets in the order of the sender, with a value each.
pub(crate) struct Events {
    at_ns: Vec<f64>,
    data: Vec<bool>,
    acks: Vec<bool>,
    /// The greatest so far.
    sent: Vec<i64>,
    acked: Vec<i64>,
    payload_bytes: Vec<u32>,
}

impl Events {
    fn seconds(&self, at: usize) -> f64 {
        (self.at_ns[at] - self.at_ns[0]) / 1e9
    }

    /// Until the next event; 0 after the last.
    fn lasts_ns(&self, at: usize) -> f64 {
        self.at_ns.get(at + 1).map_or(0.0, |next| next - self.at_ns[at])
    }
}

/// Columns of one length, a value per piece of time; see `weirlab.diagnosis.timeline.Timeline`.
#[derive(Debug, Default)]
pub struct Timeline {
    /// When pieces begin, s, from 0.
    pub start_s: Vec<f64>,
    /// How long they are.
    pub lasts_s: Vec<f64>,
    /// Data in flight.
    pub flight_bytes: Vec<f64>,
    /// The receiver's window; NaN where it is not known.
    pub window_bytes: Vec<f64>,
    /// Round trips.
    pub rtt_s: Vec<f64>,
    /// Arrived so far.
    pub acked_bytes: Vec<f64>,
    /// Retransmissions so far.
    pub lost: Vec<f64>,
    /// Nothing waits in the sender.
    pub idle: Vec<bool>,
    /// A recovery lasts.
    pub recovery: Vec<bool>,
    /// Less than a segment waits.
    pub held_small: Vec<bool>,
    /// The flight no longer grows.
    pub flat: Vec<bool>,
    /// The sender paces itself.
    pub paced: Vec<bool>,
    /// Slow start.
    pub starting: Vec<bool>,
    /// The sender waits for a time-out.
    pub timing_out: Vec<bool>,
    /// ACKs with ECE so far; None without any.
    pub marks: Option<Vec<f64>>,
    /// When the first piece begins, by the clock of the capture.
    pub begun_ns: f64,
    /// Payload of a full segment.
    pub mss_bytes: i64,
    /// The least round trip, s.
    pub min_rtt_s: f64,
    /// Time-outs.
    pub timeouts: Option<Timeouts>,
    /// Why nothing is shown.
    pub flaw: Option<Flaw>,
}

/// A timeline from the packets of a connection; None if hardly any data was captured.
#[must_use]
pub fn timeline(packets: Vec<Packet>, known: Known, mut rtts: PathRtts) -> Option<Timeline> {
    if packets.iter().filter(|packet| packet.has_data()).count() < 3
        || packets.iter().filter(|packet| packet.is_ack()).count() < 2
    {
        return None;
    }
    let at_sender = known.place == Place::Sender;
    let mss = if known.mss_bytes > 0 { known.mss_bytes } else { usual_segment(&packets) };
    let mut least_s = known.min_rtt_s;
    let mut close_s = AT_ONCE_S;
    let mut left = None;
    if !at_sender {
        let ours = packets.iter().filter(|packet| packet.from_sender);
        let (came_ns, tsval): (Vec<_>, Vec<_>) = ours.map(|packet| (packet.time_ns, packet.tsval)).unzip();
        left = departures(&came_ns, &tsval);
        if let Some(left) = &left {
            close_s += left.tick_ns / 1e9;
            let back_ns = back_ns(&came_ns, left, &rtts);
            rtts.behind = Rtts { time_ns: vec![packets[0].time_ns], rtt_ns: vec![back_ns] };
            if known.place == Place::Receiver {
                least_s = back_ns as f64 / 1e9;
                rtts.trips = queued_trips(&came_ns, left, least_s);
            }
        } else {
            let is_measured = rtts.behind.time_ns.len() > 1;
            close_s += least_s * if is_measured { AT_ONCE_RATIO } else { AT_ONCE_UNSURE };
        }
    }
    let mut flaw = (known.scaled && is_beyond(&packets, mss)).then_some(Flaw::TooMuch);
    // Data does not come before the ACK that released it, however its round trip was rounded.
    let early_s = if at_sender { 0.0 } else { close_s / 2.0 };
    let (packets, waited_s) = as_sent(packets, &rtts.behind, early_s, left.as_ref());
    let count = packets.len();

    let first_seq = packets.iter().find(|packet| packet.has_data())?.seq;
    let last_data = packets.iter().rposition(Packet::has_data)?;
    let mut events = Events {
        at_ns: packets.iter().map(|packet| packet.time_ns as f64).collect(),
        data: packets.iter().map(Packet::has_data).collect(),
        acks: packets.iter().map(Packet::is_ack).collect(),
        sent: Vec::with_capacity(count),
        acked: Vec::with_capacity(count),
        payload_bytes: packets.iter().map(|packet| packet.payload_bytes).collect(),
    };
    let (mut sent, mut acked, mut edge, mut lost, mut marks) = (first_seq, first_seq, -1, 0.0, 0.0);
    let mut first_known = None;
    let mut window: Vec<f64> = Vec::with_capacity(count);
    let mut lost_so_far = Vec::with_capacity(count);
    let mut marks_so_far = Vec::new();
    let has_marks = packets.iter().any(|packet| packet.is_ack() && packet.flags & ECE != 0);
    let mut has_data = false;
    for (at, packet) in packets.iter().enumerate() {
        if packet.has_data() {
            sent = sent.max(packet.end());
            lost += f64::from(u8::from(packet.again));
            has_data = true;
        } else if packet.is_ack() {
            acked = acked.max(packet.ack);
            // A window before that of the peer's first byte is none.
            let behind = packet.ack + i64::from(packet.window_bytes);
            edge = if behind >= 0 { behind } else { edge };
            marks += f64::from(u8::from(packet.flags & ECE != 0));
        }
        if first_known.is_none() && has_data && edge >= 0 {
            first_known = Some(at);
        }
        events.sent.push(sent);
        events.acked.push(acked);
        window.push((edge - acked).max(0) as f64);
        lost_so_far.push(lost);
        if has_marks {
            marks_so_far.push(marks);
        }
    }
    let kept = first_known.filter(|&first| first <= last_data)?..last_data + 1;
    if ((acked - first_seq) as f64) < SEEN * (sent - first_seq) as f64 && lost == 0.0 {
        flaw = Some(Flaw::NoAcks);
    }
    let again: Vec<bool> = packets.iter().map(|packet| packet.has_data() && packet.again).collect();
    let (timing_out, timeouts) = timeouts(&events, &packets, least_s);
    drop(packets);
    let recovery = recoveries(&again, &events);
    drop(again);
    let flight: Vec<f64> =
        events.sent.iter().zip(&events.acked).map(|(sent, acked)| (sent - acked).max(0) as f64).collect();
    let unseen = known.place == Place::Receiver && rtts.trips.time_ns.len() <= 1;
    let room = mss as f64;
    let sends_known = |at: &usize| events.data[*at] && *at >= kept.start;
    // If more seems to be in flight than the window allows, round trips are shorter than the handshake's.
    let is_measured = if known.scaled {
        let beyond = (0..count).filter(sends_known).filter(|&at| flight[at] > window[at] + room).count();
        !unseen || beyond as f64 <= BEYOND * events.data.iter().filter(|&&data| data).count() as f64
    } else {
        // Whether a window of unknown scale limits the data in flight as it stands.
        let mut reached = 0;
        let mut beyond = false;
        for at in (0..count).filter(sends_known) {
            reached += usize::from(flight[at] + room >= window[at] && window[at] > room);
            beyond |= flight[at] - room >= window[at];
        }
        reached >= FILLED && !beyond
    };
    if !is_measured {
        window.iter_mut().filter(|window| **window > 0.0).for_each(|window| *window = OPEN_BYTES);
    }
    let most_window = window.iter().copied().fold(0.0, f64::max);
    // A sender does not send less than a segment into a window, unless it is half of the largest (RFC 9293, 3.8.6.2.1).
    let least_room = room.min(most_window / 2.0);
    let tight: Vec<bool> =
        window.iter().zip(&flight).map(|(window, flight)| window - flight < least_room).collect();
    // What SACK has reported in a recovery is no longer in flight.
    let anew: Vec<bool> = recovery.iter().zip(&tight).map(|(one, other)| *one || *other).collect();
    // The handshake alone does not show how long ACKs take later.
    let sight = Visibility { close_s, least_s, timed: !unseen };
    let mut found = sends(&events, &anew, mss, sight);
    drop(anew);
    let round_s = least_s.max(AT_ONCE_S);
    let mut limited = Vec::with_capacity(count);
    let mut tight_until = f64::NEG_INFINITY;
    for at in 0..count {
        let at_ns = events.at_ns[at];
        if tight[at] {
            tight_until = tight_until.max(at_ns + events.lasts_ns(at));
        }
        // Away from the sender an ACK seems to make room a moment before the data that used it.
        let is_near = at_ns - tight_until <= 2.0 * close_s * 1e9;
        // Without any round trip, changes from one to the next are not known, nor what is small.
        limited
            .push(least_s <= 0.0 || tight[at] || recovery[at] || timing_out[at] || found.held[at] || is_near);
    }
    if least_s <= 0.0 {
        lost_so_far.fill(0.0);
    }
    let since_s: Vec<f64> = (0..count).map(|at| events.seconds(at)).collect();
    let pieces = Pieces { start_s: &since_s, flight: &flight, lost: &lost_so_far, round_s };
    // If the flight stays the same, that may be due to a full window, too, or to a queue that would not be seen.
    let (mut flat, level) = if most_window >= OPEN_BYTES || unseen {
        (vec![false; count], vec![false; count])
    } else {
        (pieces.flat(room), pieces.level(room))
    };
    let mut even = vec![false; count];
    if at_sender || left.is_some() {
        even = pacing::paced(&events, mss, if at_sender { None } else { Some(&waited_s) });
        let (mut even_ns, mut all_ns) = (0.0, 0.0);
        for at in 0..count {
            even[at] &= !limited[at];
            all_ns += events.lasts_ns(at);
            even_ns += if even[at] { events.lasts_ns(at) } else { 0.0 };
        }
        // Away from the sender, only if it applies to most of the transfer: a path spreads some bursts, too.
        if !at_sender && even_ns < MOSTLY * all_ns {
            even.fill(false);
        }
    }
    let mut stretch = level;
    for at in 0..count {
        flat[at] &= !limited[at];
        stretch[at] = flat[at] || (stretch[at] && !limited[at]);
    }
    let steady = clocked(&events, &found.gaps, &stretch, mss, close_s);
    drop(stretch);
    found.gaps = Vec::new();
    let grows_s = pieces.growing_until();
    let late_s = sight.late_s();
    let outlasted = Outlasted::new(&events, &waited_s, close_s);
    for at in 0..count {
        let lasts_s = events.lasts_ns(at) / 1e9;
        let steady = steady[at] && !even[at];
        // With nothing in flight and an open window, only the application can hold a sender back. One that ACKs wake may be
        // late for a moment.
        let limit_s = if steady { LATE_TRIPS * round_s } else { close_s };
        let mut empty = flight[at] <= 0.0 && !tight[at] && !even[at] && lasts_s > limit_s;
        if unseen || least_s <= 0.0 {
            empty &= found.requested[at] || lasts_s > late_s;
        }
        // Between whole segments, a congestion window that grows leaves gaps.
        let growing = since_s[at] < grows_s && !found.ended[at] && !found.requested[at];
        let pauses = found.idle[at] && !limited[at] && !steady && !even[at] && !outlasted.is(at) && !growing;
        found.idle[at] = empty || pauses;
        found.held[at] &= !tight[at] && !recovery[at] && !empty;
        flat[at] = steady || (flat[at] && !found.idle[at] && !even[at]);
    }
    drop((tight, since_s));

    // After the last data there is only its way to the receiver and back, which nothing limits.
    let begun_ns = events.at_ns[kept.start];
    // At the receiver, data counts when it arrives, not when the gaps before it are filled.
    let mut arrived = 0_i64;
    let acked_bytes: Vec<f64> = if known.place == Place::Receiver && left.is_none() {
        let all = events.data.iter().zip(&events.payload_bytes).map(|(&data, &bytes)| {
            arrived += if data { i64::from(bytes) } else { 0 };
            arrived as f64
        });
        all.skip(kept.start).take(kept.len()).collect()
    } else {
        events.acked[kept.clone()].iter().map(|acked| (acked - first_seq) as f64).collect()
    };
    for window in &mut window {
        *window = if *window < OPEN_BYTES { *window } else { f64::NAN };
    }
    rtts.trips.sort();
    let mut made = Timeline {
        start_s: kept.clone().map(|at| (events.at_ns[at] - begun_ns) / 1e9).collect(),
        lasts_s: kept.clone().map(|at| events.lasts_ns(at) / 1e9).collect(),
        rtt_s: rtts.trips.at(&events.at_ns[kept.clone()]).collect(),
        acked_bytes,
        flight_bytes: cut(flight, &kept),
        window_bytes: cut(window, &kept),
        lost: cut(lost_so_far, &kept),
        recovery: cut(recovery, &kept),
        held_small: kept.clone().map(|at| found.held[at]).collect(),
        flat: cut(flat, &kept),
        paced: cut(even, &kept),
        timing_out: cut(timing_out, &kept),
        marks: has_marks.then(|| cut(marks_so_far, &kept)),
        begun_ns,
        mss_bytes: mss,
        min_rtt_s: least_s,
        timeouts,
        flaw,
        ..Timeline::default()
    };
    let pieces = Pieces { start_s: &made.start_s, flight: &made.flight_bytes, lost: &made.lost, round_s };
    let sent: Vec<f64> = events.sent[kept.clone()].iter().map(|sent| (sent - first_seq) as f64).collect();
    let (grown, until) = (pieces.growing_until(), pieces.starting_until(&sent, &made.rtt_s));
    for (at, piece) in kept.clone().zip(0..) {
        let is_free = !found.idle[at] && !limited[at];
        made.starting.push(is_free && made.start_s[piece] < until);
        made.flat[piece] &= !(is_free && made.start_s[piece] < grown);
        // What waits as less than a segment is something.
        made.idle.push(found.idle[at] && !found.held[at]);
    }
    Some(made)
}

fn cut<T>(mut column: Vec<T>, kept: &std::ops::Range<usize>) -> Vec<T> {
    column.truncate(kept.end);
    column.drain(..kept.start);
    column
}

/// Whether data met a queue: the time before it cost nothing, as the bottleneck was busy meanwhile.
struct Outlasted(Vec<bool>);

impl Outlasted {
    fn new(events: &Events, waited_s: &[f64], close_s: f64) -> Self {
        if waited_s.is_empty() {
            return Self(Vec::new());
        }
        let mut found = vec![false; events.data.len()];
        let last = events.data.iter().rposition(|&data| data);
        let mut next = last.is_some_and(|last| waited_s[last] > close_s);
        for at in (0..found.len()).rev() {
            found[at] = next;
            if events.data[at] {
                next = waited_s[at] > close_s;
            }
        }
        Self(found)
    }

    fn is(&self, at: usize) -> bool {
        self.0.get(at).is_some_and(|&is| is)
    }
}

/// Whether much of the data was captured before any ACK that allowed it.
fn is_beyond(packets: &[Packet], mss: i64) -> bool {
    let (mut edge, mut beyond, mut all) = (-1, 0_u64, 0_u64);
    for packet in packets {
        if packet.is_ack() {
            edge = edge.max(packet.ack + i64::from(packet.window_bytes));
        } else if packet.has_data() {
            all += u64::from(packet.payload_bytes);
            if edge >= 0 && packet.end() > edge + mss {
                beyond += u64::from(packet.payload_bytes);
            }
        }
    }
    beyond as f64 > BEYOND * all as f64
}

/// The least round trip from the point of capture to the sender, without the time that data waited.
fn back_ns(came_ns: &[i64], left: &Departures, rtts: &PathRtts) -> i64 {
    let last = came_ns.len() - 1;
    let echoed = rtts.echoes.time_ns.iter().zip(&rtts.echoes.rtt_ns).map(|(&time, &rtt)| {
        let at = came_ns.partition_point(|&came| came < time).min(last);
        rtt - (came_ns[at] - left.left_ns[at]).max(0)
    });
    let least = rtts.behind.rtt_ns.iter().copied().min();
    least.into_iter().chain(echoed.min().map(|least| least.max(0))).min().unwrap_or(0)
}

/// Round trips of the whole path, from the time that the sender's packets waited on their way.
fn queued_trips(came_ns: &[i64], left: &Departures, least_s: f64) -> Rtts {
    let least_ns = (least_s * 1e9).round_ties_even() as i64;
    let half_ns = (left.tick_ns / 2.0).round_ties_even() as i64;
    let mut trips: Vec<(i64, i64)> = came_ns
        .iter()
        .zip(&left.left_ns)
        .map(|(came, &left)| {
            let waited = (came - left).max(0);
            // A packet left at any time within its tick, not only at its end.
            (left, least_ns + if waited > 0 { waited + half_ns } else { 0 })
        })
        .collect();
    trips.sort_by_key(|&(left, _)| left);
    let (time_ns, rtt_ns) = trips.into_iter().unzip();
    let mut found = Rtts { time_ns, rtt_ns };
    // No ACK was delayed here, but a busy host may deliver late.
    found.rtt_ns = found.least(least_ns / PARTS);
    found
}

/// The packets in the order in which the sender knew of them, ACKs rather `early_s` too early; and the wait of each in queues
/// before the point of capture, in s (empty if it is not known).
fn as_sent(
    mut packets: Vec<Packet>,
    behind: &Rtts,
    early_s: f64,
    left: Option<&Departures>,
) -> (Vec<Packet>, Vec<f64>) {
    if left.is_none() && behind.time_ns.is_empty() && packets.is_sorted_by_key(|packet| packet.time_ns) {
        // At the sender they are in its order already.
        return (packets, Vec::new());
    }
    let mut latest = i64::MIN;
    {
        let theirs: Vec<i64> = packets.iter().filter(|p| !p.from_sender).map(|p| p.time_ns).collect();
        let mut late_s: Box<dyn Iterator<Item = f64>> = match left {
            None => Box::new(behind.until(theirs.into_iter())),
            Some(_) => Box::new(std::iter::repeat(behind.rtt_ns[0] as f64 / 1e9)),
        };
        for packet in packets.iter_mut().filter(|packet| !packet.from_sender) {
            let late_s = (late_s.next().unwrap_or(0.0) - early_s).max(0.0);
            // One after the other, as they were sent.
            latest = latest.max(packet.time_ns + (late_s * 1e9) as i64);
            packet.time_ns = latest;
        }
    }
    let Some(left) = left else {
        packets.sort_by_key(|packet| packet.time_ns);
        return (packets, Vec::new());
    };
    let mut left_ns = left.left_ns.iter();
    let mut pairs: Vec<(Packet, f64)> = Vec::with_capacity(packets.len());
    for mut packet in packets {
        let mut waited_s = 0.0;
        if packet.from_sender
            && let Some(&left_ns) = left_ns.next()
        {
            waited_s = (packet.time_ns - left_ns).max(0) as f64 / 1e9;
            packet.time_ns = left_ns;
        }
        pairs.push((packet, waited_s));
    }
    pairs.sort_by_key(|(packet, _)| packet.time_ns);
    pairs.into_iter().unzip()
}

/// Whether a recovery lasts: from a retransmission until all sent by then is acknowledged.
fn recoveries(again: &[bool], events: &Events) -> Vec<bool> {
    let mut inside = vec![false; again.len()];
    let mut until = 0;
    for at in 0..again.len() {
        if again[at] && at >= until {
            until = events.acked.partition_point(|&acked| acked < events.sent[at]);
            inside[at..until.max(at)].fill(true);
        }
    }
    inside
}

/// The most common payload: what a full segment carries.
fn usual_segment(packets: &[Packet]) -> i64 {
    let mut counts: BTreeMap<i64, i64> = BTreeMap::new();
    for packet in packets.iter().filter(|packet| packet.has_data()) {
        *counts.entry(i64::from(packet.payload_bytes)).or_default() += 1;
    }
    let mut most = (0, 0);
    for (&value, &count) in &counts {
        if count * value > most.1 {
            most = (value, count * value);
        }
    }
    // Segments that a network card splits later, or has joined, carry several full ones.
    let total: i64 = counts.iter().map(|(value, count)| value * count).sum();
    let is_whole = |one: i64| {
        let whole: i64 =
            counts.iter().filter(|(value, _)| **value % one == 0).map(|(value, count)| value * count).sum();
        whole as f64 >= WHOLE * total as f64
    };
    let found = counts
        .keys()
        .copied()
        .filter(|value| (LEAST_MSS..=most.0).contains(value))
        // Each looks at all others: where every write has a size of its own, that would take long.
        .take(MOST_SIZES)
        .find(|&one| is_whole(one));
    found.unwrap_or(most.0.max(LEAST_MSS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(payload_bytes: u32) -> Packet {
        Packet {
            time_ns: 0,
            seq: 1,
            ack: 1,
            payload_bytes,
            window_bytes: 0,
            tsval: None,
            flags: 16,
            from_sender: true,
            again: false,
            probe: false,
            timeout: false,
        }
    }

    #[test]
    fn a_recovery_lasts_until_what_had_been_sent_is_acknowledged() {
        let events = Events {
            at_ns: vec![0.0; 6],
            data: vec![true; 6],
            acks: vec![false; 6],
            sent: vec![10, 20, 30, 40, 40, 50],
            acked: vec![0, 0, 0, 30, 30, 40],
            payload_bytes: vec![10; 6],
        };
        let again = [false, false, true, false, true, false];
        assert_eq!(recoveries(&again, &events), again);
    }

    #[test]
    fn segments_that_a_card_cuts_later_are_no_larger_mss() {
        for segments in [1, 2, 17, 44] {
            let sizes = [vec![1448 * segments; 20], vec![1448 * 3; 10], vec![1448, 600]].concat();
            let packets: Vec<Packet> = sizes.into_iter().map(data).collect();
            assert_eq!(usual_segment(&packets), 1448);
        }
    }

    #[test]
    fn of_small_messages_none_is_a_full_segment() {
        assert_eq!(usual_segment(&vec![data(300); 30]), LEAST_MSS);
    }
}
