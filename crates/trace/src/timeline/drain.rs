//! Whether data arrived as evenly as a full link delivers it, although segments were lost on the way.
//!
//! A loss costs a sender 30 % of its congestion window or more (RFC 9438 section 4.6, RFC 5681 section 3.1), and a window that
//! is smaller than what the path holds leaves a gap in each round trip. What arrives at one rate, without gaps, after each of
//! many losses, is not held back by them. A full link delivers so; it never delivers faster for a moment.
//!
//! At the sender, ACKs and SACK report what arrived. They come evenly behind a sender that paces itself, too. But if more was
//! sent for a while, as BBR does to probe the path, and no more arrived, a link was full.

use super::stats::median;
use super::{Packet, Place};

/// Round trips, and segments, in the parts of time whose rates are compared.
const PART_TRIPS: f64 = 0.5;
const PART_SEGMENTS: f64 = 16.0;
/// Parts that show a rate.
const LEAST_PARTS: usize = 24;
/// Share by which the rate of a part may differ from the usual one, and of the parts that may differ more.
const NEAR: f64 = 0.15;
const FEW: f64 = 0.1;
/// Parts in which lost segments came again.
const LEAST_LOSSY: usize = 4;
/// After such a silence, the sender begins anew.
const SILENT_S: f64 = 0.1;
const SILENT_TRIPS: f64 = 4.0;
/// Share of the usual time between two segments below which they came faster, and of the segments that may.
const FASTER: f64 = 0.5;
const RARELY: f64 = 0.1;
/// Ratio to the usual rate of arrivals above which more was sent in a part, the share of such parts that shows a full link, and
/// the share of them in which as much more may arrive.
const PROBING: f64 = 1.12;
const PROBED: f64 = 0.05;
const FOUND_MORE: f64 = 0.25;

/// What arrived evenly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drain {
    /// Bytes per second.
    pub rate: f64,
    /// When the first lost segment came again, and the last data, ns.
    pub from_ns: i64,
    /// See above.
    pub until_ns: i64,
    /// No segments came faster: a link was full, or something sent exactly as evenly.
    pub is_full: bool,
}

/// Time in ns, payload in bytes, and whether something had been sent again.
type Passage = (i64, f64, bool);
/// Passages without a silence.
type Stretch = [Passage];

/// What arrived evenly at the receiver, by the packets of one end in the order of the capture; None if losses slowed the sender
/// down, or too little shows that they did not.
pub(super) fn drain(packets: &[Packet], place: Place, mss: i64, least_s: f64) -> Option<Drain> {
    let data = packets.iter().filter(|packet| packet.has_data());
    let sent = data.map(|packet| (packet.time_ns, f64::from(packet.payload_bytes), packet.again));
    let sent: Vec<Passage> = sent.skip_while(|(.., again)| !again).collect();
    let reported = match place {
        Place::Receiver => None,
        Place::Sender => Some(reported(packets)),
        Place::Between => return None,
    };
    let arrivals = reported.as_deref().unwrap_or(&sent);
    let (&(from_ns, ..), &(until_ns, ..)) = (arrivals.first()?, arrivals.last()?);
    let silent_ns = (SILENT_S.max(SILENT_TRIPS * least_s) * 1e9) as i64;
    let stretches = without_silences(arrivals, silent_ns);
    let (lasted_ns, bytes) = stretches.iter().fold((0_i64, 0.0), |(ns, bytes), some| {
        (ns + some[some.len() - 1].0 - some[0].0, bytes + some[1..].iter().map(|each| each.1).sum::<f64>())
    });
    if least_s <= 0.0 || lasted_ns <= 0 {
        return None;
    }
    let rate = bytes / (lasted_ns as f64 / 1e9);
    let part_ns = ((PART_TRIPS * least_s).max(PART_SEGMENTS * mss as f64 / rate) * 1e9).max(1.0);
    let parts = all_parts(&stretches, part_ns);
    let usual = median(&mut parts.iter().map(|part| part.0).collect::<Vec<_>>());
    let uneven = parts.iter().filter(|part| (part.0 - usual).abs() > NEAR * usual).count();
    let lossy = parts.iter().filter(|part| part.1).count();
    if parts.len() < LEAST_PARTS || lossy < LEAST_LOSSY || uneven as f64 > FEW * parts.len() as f64 {
        return None;
    }
    let rate = usual / (part_ns / 1e9);
    let pairs = stretches.iter().flat_map(|some| some.windows(2));
    let faster = pairs.clone().filter(|pair| {
        let takes_ns = pair[1].1 / rate * 1e9;
        ((pair[1].0 - pair[0].0) as f64) < FASTER * takes_ns
    });
    let mut is_full = faster.count() as f64 <= RARELY * pairs.count() as f64;
    if reported.is_some() {
        let more = |parts: &[(f64, bool)]| {
            parts.iter().filter(|part| part.0 > PROBING * usual).count() as f64 / parts.len() as f64
        };
        let probed = more(&all_parts(&without_silences(&sent, silent_ns), part_ns));
        // An even pace alone shows neither a full link, nor that losses did not slow it down.
        is_full &= probed >= PROBED && more(&parts) <= FOUND_MORE * probed;
        if !is_full {
            return None;
        }
    }
    Some(Drain { rate, from_ns, until_ns, is_full })
}

/// What ACKs and SACK report, from the first retransmission.
fn reported(packets: &[Packet]) -> Vec<Passage> {
    let mut found: Vec<Passage> = Vec::new();
    let (mut came, mut again) = (i64::MIN, false);
    for packet in packets {
        again |= packet.has_data() && packet.again;
        let so_far = packet.ack + i64::from(packet.sacked_bytes);
        if !packet.is_ack() || so_far <= came {
            continue;
        }
        if again || !found.is_empty() {
            found.push((packet.time_ns, if came == i64::MIN { 0.0 } else { (so_far - came) as f64 }, again));
        }
        (came, again) = (so_far, false);
    }
    found
}

/// What is between silences.
fn without_silences(some: &[Passage], silent_ns: i64) -> Vec<&Stretch> {
    // Where the clock of a capture was set back, less time would have passed than the other stretches took.
    let counts = |some: &&Stretch| some.len() > 1 && some[some.len() - 1].0 >= some[0].0;
    some.chunk_by(|one, other| other.0 - one.0 < silent_ns).filter(counts).collect()
}

fn all_parts(stretches: &[&Stretch], part_ns: f64) -> Vec<(f64, bool)> {
    stretches.iter().flat_map(|some| parts(some, part_ns)).collect()
}

/// The bytes of each whole part of a stretch, and whether something lost came again in it.
fn parts(some: &Stretch, part_ns: f64) -> Vec<(f64, bool)> {
    let whole = ((some[some.len() - 1].0 - some[0].0) as f64 / part_ns).floor() as usize;
    let mut found = vec![(0.0, false); whole];
    for &(at_ns, bytes, again) in some {
        if let Some(part) = found.get_mut(((at_ns - some[0].0) as f64 / part_ns) as usize) {
            *part = (part.0 + bytes, part.1 | again);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: i64 = 1_000;
    const TRIP_S: f64 = 0.04;

    fn at_receiver(packets: &[Packet], mss: i64, least_s: f64) -> Option<Drain> {
        drain(packets, Place::Receiver, mss, least_s)
    }

    /// A segment after each of these gaps, in µs; every `lossy`-th is one that was lost.
    fn arrived(gaps_us: impl Iterator<Item = f64>, lossy: usize) -> Vec<Packet> {
        let mut now = 0.0;
        gaps_us
            .enumerate()
            .map(|(number, gap_us)| {
                now += gap_us * 1e3;
                Packet {
                    time_ns: now as i64,
                    seq: number as i64 * MSS,
                    ack: 1,
                    sacked_bytes: 0,
                    payload_bytes: MSS as u32,
                    window_bytes: 1 << 20,
                    tsval: None,
                    flags: 16,
                    from_sender: true,
                    again: number % lossy == lossy / 2,
                    probe: false,
                    timeout: false,
                }
            })
            .collect()
    }

    #[test]
    fn a_full_link_delivers_evenly_whatever_is_lost_before_it() {
        for lossy in [4, 20, 90] {
            // 1 MB/s; hosts look at their interface now and then only.
            let found =
                at_receiver(&arrived((0..800).map(|n| [700.0, 1_300.0][n % 2]), lossy), MSS, TRIP_S).unwrap();
            assert!((found.rate / 1e6 - 1.0).abs() < 0.03, "{found:?}");
            assert!(found.is_full);
        }
        // Time-outs in between.
        let stops = (0..900).map(|n| if n % 300 == 299 { 400_000.0 } else { 1_000.0 });
        assert!(at_receiver(&arrived(stops, 20), MSS, TRIP_S).is_some_and(|found| found.is_full));
    }

    #[test]
    fn a_clock_that_was_set_back_changes_nothing_before_it() {
        let mut packets = arrived((0..800).map(|_| 1_000.0), 20);
        let alone = at_receiver(&packets, MSS, TRIP_S / 40.0);
        assert!(alone.is_some_and(|found| (found.rate / 1e6 - 1.0).abs() < 0.03), "{alone:?}");
        let last = *packets.last().unwrap();
        for later_ns in [1_000_000_000, 212_000_000] {
            packets.push(Packet { time_ns: last.time_ns + later_ns, ..last });
        }
        assert_eq!(
            at_receiver(&packets, MSS, TRIP_S / 40.0).map(|found| found.rate),
            alone.map(|found| found.rate)
        );
    }

    #[test]
    fn bursts_that_come_evenly_show_that_the_link_carries_more() {
        let bursts = (0..1_200).map(|n| if n % 4 == 0 { 3_700.0 } else { 100.0 });
        let found = at_receiver(&arrived(bursts, 20), MSS, TRIP_S).unwrap();
        assert!(!found.is_full);
    }

    #[test]
    fn a_window_that_losses_halve_or_that_leaves_gaps_is_no_full_link() {
        // Twenty to forty segments a round trip, in a burst.
        let saw = (0..40).flat_map(|trip| {
            let size = 20 + trip % 10 * 2;
            (0..size).map(move |n| if n == 0 { 40_000.0 - 100.0 * f64::from(size) } else { 100.0 })
        });
        assert_eq!(at_receiver(&arrived(saw, 30), MSS, TRIP_S), None);
        // The same, spread over the round trip.
        let paced = (0..40).flat_map(|trip| {
            let size = 20 + trip % 10 * 2;
            (0..size).map(move |_| 40_000.0 / f64::from(size))
        });
        assert_eq!(at_receiver(&arrived(paced, 30), MSS, TRIP_S), None);
    }

    #[test]
    fn a_few_losses_or_little_time_show_nothing() {
        let even = |number: usize| (0..number).map(|_| 1_000.0);
        assert_eq!(at_receiver(&arrived(even(300), 40), MSS, TRIP_S), None);
        assert_eq!(at_receiver(&arrived(even(2_000), 1_500), MSS, TRIP_S), None);
        assert_eq!(at_receiver(&arrived(even(2_000), 5_000), MSS, TRIP_S), None);
        assert_eq!(at_receiver(&arrived(even(2_000), 20), MSS, 0.0), None);
    }

    /// At the sender: 1,000 B/ms get through, and what is lost comes again a round trip later. Every tenth round trip, a quarter
    /// more is sent, which arrives as well if the path `carries_more`.
    fn probing(carries_more: bool) -> Vec<Packet> {
        let mut packets = arrived((0..2_000).map(|n| if n / 40 % 10 == 9 { 800.0 } else { 1_000.0 }), 50);
        let acks: Vec<Packet> = (0..2_000_i64)
            .map(|number| {
                let sent = packets[number as usize];
                let came_ns = if carries_more { sent.time_ns } else { (number + 1) * 975_000 };
                // What SACK reports beyond a gap.
                let lacks = i64::from(number % 50 > 10) * 20 * MSS;
                let time_ns = came_ns + 40_000_000;
                let ack = sent.end() - lacks;
                Packet {
                    time_ns,
                    ack,
                    sacked_bytes: lacks as u32,
                    payload_bytes: 0,
                    from_sender: false,
                    again: false,
                    ..sent
                }
            })
            .collect();
        packets.extend(acks);
        packets.sort_by_key(|packet| packet.time_ns);
        packets
    }

    #[test]
    fn at_the_sender_a_link_is_full_if_no_more_arrives_when_more_is_sent() {
        for (carries_more, is_full) in [(false, true), (true, false)] {
            let found = drain(&probing(carries_more), Place::Sender, MSS, TRIP_S);
            assert_eq!(found.is_some(), is_full);
            assert!(found.is_none_or(|found| (found.rate / 1e6 - 1.0).abs() < 0.06), "{found:?}");
        }
    }
}
