//! Captured packets of one direction as a timeline of their sender.
//!
//! The sender knows what it sent and what had been acknowledged *to it*. Away from the sender this is found by counting each
//! ACK later, by the round trip from the point of capture to the sender: 0 at the sender, the whole round trip at the
//! receiver. Two things are known only inside the sender and are inferred: the congestion window (no more than what was once
//! in flight), and whether data waited (a segment shorter than the MSS is the last of the available data; new data without an
//! ACK before it was not available earlier).

mod departures;
mod drain;
mod input;
mod order;
mod pacing;
mod policer;
mod recovery;
mod rounds;
mod rtts;
mod sends;
mod sizes;
pub mod stats;
mod timeouts;

use departures::departures;
pub use drain::Drain;
use drain::drain;
use input::report;
pub use input::{Flaw, Known, Packet, PathRtts, Place, SackBlock};
use order::{Outlasted, as_sent, back_ns, delivered, goes_back, queued_trips};
pub use policer::Policer;
use policer::policer;
use recovery::recoveries;
use rounds::Pieces;
pub use rtts::Rtts;
use sends::{Visibility, clocked, sends};
use sizes::{BEYOND, carried, is_beyond, is_of_messages, jumps, usual_segment};
use timeouts::timeouts;
pub use timeouts::{BlackHole, SILENT_S, Timeouts};

/// Data that follows an ACK within this time was released by it. An idle host needs a tenth of it.
const AT_ONCE_S: f64 = 0.001;
/// Added to [`AT_ONCE_S`]: share of a round trip that had to be estimated; and the same if only the handshake's is known.
const AT_ONCE_RATIO: f64 = 0.05;
const AT_ONCE_UNSURE: f64 = 0.2;
const MOSTLY: f64 = 0.5;
/// Round trips by which ACKs may take longer than the fastest.
const LATE_ACKS: f64 = 0.5;
/// Round trips for which an application that ACKs release may do nothing.
const LATE_TRIPS: f64 = 2.0;
/// A window that is not known must not look full.
const OPEN_BYTES: f64 = (1_u64 << 40) as f64;
/// Times that the data in flight must reach a window that is not scaled, if the scale is not known.
const FILLED: usize = 8;
/// Share of the data that is acknowledged in a capture that has the ACKs, if nothing was sent again.
const SEEN: f64 = 0.5;
const ECE: u8 = 0x40;

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
    /// Arrived so far, as ACKs and SACK report it.
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
    /// How exactly it is known when ACKs reached the sender, s; 0 at the sender.
    pub blur_s: f64,
    /// Time-outs.
    pub timeouts: Option<Timeouts>,
    /// What dropped segments, as far as the sender's packets show it.
    pub policer: Option<Policer>,
    /// What arrived evenly at the receiver although segments were lost.
    pub drain: Option<Drain>,
    /// Why nothing is shown.
    pub flaw: Option<Flaw>,
}

/// A timeline from the packets of a connection, and the receiver's SACK blocks; None if hardly any data was captured.
#[must_use]
pub fn timeline(
    mut packets: Vec<Packet>,
    blocks: &[SackBlock],
    known: Known,
    mut rtts: PathRtts,
) -> Option<Timeline> {
    if packets.iter().filter(|packet| packet.has_data()).count() < 3
        || packets.iter().filter(|packet| packet.is_ack()).count() < 2
    {
        return None;
    }
    let at_sender = known.place == Place::Sender;
    report(&mut packets, blocks);
    let mss = if known.mss_bytes > 0 { carried(&packets, known.mss_bytes) } else { usual_segment(&packets) };
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
    let backwards = goes_back(&packets).then_some(Flaw::Clock);
    let mut flaw = (known.scaled && is_beyond(&packets, mss)).then_some(Flaw::TooMuch);
    let drain = drain(&packets, known.place, mss, least_s);
    // Data does not come before the ACK that released it, however its round trip was rounded.
    let (early_s, blur_s) = if at_sender { (0.0, 0.0) } else { (close_s / 2.0, close_s) };
    // The way of the ACKs back to the sender is not seen: its delay may vary.
    close_s += if left.is_some() { least_s * AT_ONCE_RATIO } else { 0.0 };
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
    let mut is_open = false;
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
            is_open = packet.window_bytes > 0;
            marks += f64::from(u8::from(packet.flags & ECE != 0));
        }
        if first_known.is_none() && has_data && edge >= 0 {
            first_known = Some(at);
        }
        events.sent.push(sent);
        events.acked.push(acked);
        // With a scale that is not known, a window may seem to end before the first data.
        let least = i64::from(!known.scaled && is_open);
        window.push((edge - acked).max(least) as f64);
        lost_so_far.push(lost);
        if has_marks {
            marks_so_far.push(marks);
        }
    }
    let kept = first_known.filter(|&first| first <= last_data)?..last_data + 1;
    if ((acked - first_seq) as f64) < SEEN * (sent - first_seq) as f64 && lost == 0.0 {
        flaw = Some(Flaw::NoAcks);
    }
    if jumps(&packets, sent - acked) {
        flaw = Some(Flaw::Jump);
    }
    flaw = backwards.or(flaw);
    let again: Vec<bool> = packets.iter().map(|packet| packet.has_data() && packet.again).collect();
    let (timing_out, timeouts) = timeouts(&events, &packets, least_s);
    let policer = if at_sender { policer(&packets, mss, least_s) } else { None };
    // At the receiver, data counts when it arrives, not when the gaps before it are filled.
    let delivered = delivered(&packets, first_seq, known.place == Place::Receiver && left.is_none());
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
    let mut most_window = 0.0_f64;
    // A sender does not send less than a segment into a window, unless it is half of the largest one that it has seen
    // (RFC 9293, 3.8.6.2.1).
    let is_tight = |(&window, &flight): (&f64, &f64)| {
        most_window = most_window.max(window);
        window - flight < room.min(most_window / 2.0)
    };
    let tight: Vec<bool> = window.iter().zip(&flight).map(is_tight).collect();
    // What SACK has reported in a recovery is no longer in flight.
    let anew: Vec<bool> = recovery.iter().zip(&tight).map(|(one, other)| *one || *other).collect();
    // The handshake alone does not show how long ACKs take later.
    let sight = Visibility { close_s, least_s, timed: !unseen, away: !at_sender };
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
        let found = pacing::paced(&events, mss, if at_sender { None } else { Some(&waited_s) });
        even = found.paced;
        for (limited, serial) in limited.iter_mut().zip(found.serial) {
            *limited |= serial;
        }
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
        if !at_sender && !found.ended[at] && !found.requested[at] {
            empty &= lasts_s > limit_s + LATE_ACKS * least_s && !found.hidden[at];
        }
        let pauses = found.idle[at] && !limited[at] && !steady && !even[at] && !outlasted.is(at) && !growing;
        found.idle[at] = empty || pauses;
        found.held[at] &= !tight[at] && !recovery[at] && !empty;
        flat[at] = steady || (flat[at] && !found.idle[at] && !even[at]);
    }
    drop((tight, since_s));

    // After the last data there is only its way to the receiver and back, which nothing limits.
    let begun_ns = events.at_ns[kept.start];
    for window in &mut window {
        *window = if *window < OPEN_BYTES { *window } else { f64::NAN };
    }
    rtts.trips.sort();
    let mut made = Timeline {
        start_s: kept.clone().map(|at| (events.at_ns[at] - begun_ns) / 1e9).collect(),
        lasts_s: kept.clone().map(|at| events.lasts_ns(at) / 1e9).collect(),
        rtt_s: rtts.trips.at(&events.at_ns[kept.clone()]).collect(),
        acked_bytes: cut(delivered, &kept),
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
        blur_s,
        timeouts,
        policer,
        drain,
        flaw,
        ..Timeline::default()
    };
    let pieces = Pieces { start_s: &made.start_s, flight: &made.flight_bytes, lost: &made.lost, round_s };
    let sent: Vec<f64> = events.sent[kept.clone()].iter().map(|sent| (sent - first_seq) as f64).collect();
    let (grown, until) = (pieces.growing_until(), pieces.starting_until(&sent, &made.rtt_s));
    let starting = made.start_s.partition_point(|&start_s| start_s < until);
    let until = if is_of_messages(&events, kept.start..kept.start + starting, mss) { 0.0 } else { until };
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
