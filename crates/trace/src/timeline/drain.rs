//! Whether data arrived as evenly as a full link delivers it, although segments were lost on the way.
//!
//! A loss costs a sender 30 % of its congestion window or more (RFC 9438 section 4.6, RFC 5681 section 3.1), and a window that
//! is smaller than what the path holds leaves a gap in each round trip. What arrives at one rate, without gaps, after each of
//! many losses, is not held back by them. A full link delivers so; it never delivers faster for a moment.

use super::Packet;
use super::stats::median;

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

/// A stretch of arrivals without a silence: times in ns, and payload in bytes.
type Stretch = [(i64, f64, bool)];

/// What arrived evenly at the receiver, by its packets in the order of the capture; None if losses slowed the sender down, or too
/// little shows that they did not.
pub(super) fn drain(packets: &[Packet], mss: i64, least_s: f64) -> Option<Drain> {
    let data = packets.iter().filter(|packet| packet.has_data());
    let arrivals: Vec<(i64, f64, bool)> = data
        .map(|packet| (packet.time_ns, f64::from(packet.payload_bytes), packet.again))
        .skip_while(|(.., again)| !again)
        .collect();
    let (&(from_ns, ..), &(until_ns, ..)) = (arrivals.first()?, arrivals.last()?);
    let silent_ns = (SILENT_S.max(SILENT_TRIPS * least_s) * 1e9) as i64;
    // Where the clock of a capture was set back, less time would have passed than the other stretches took.
    let counts = |some: &&Stretch| some.len() > 1 && some[some.len() - 1].0 >= some[0].0;
    let stretches: Vec<&Stretch> =
        arrivals.chunk_by(|one, other| other.0 - one.0 < silent_ns).filter(counts).collect();
    let (lasted_ns, bytes) = stretches.iter().fold((0_i64, 0.0), |(ns, bytes), some| {
        (ns + some[some.len() - 1].0 - some[0].0, bytes + some[1..].iter().map(|each| each.1).sum::<f64>())
    });
    if least_s <= 0.0 || lasted_ns <= 0 {
        return None;
    }
    let rate = bytes / (lasted_ns as f64 / 1e9);
    let part_ns = ((PART_TRIPS * least_s).max(PART_SEGMENTS * mss as f64 / rate) * 1e9).max(1.0);
    let parts: Vec<(f64, bool)> = stretches.iter().flat_map(|some| parts(some, part_ns)).collect();
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
    let is_full = faster.count() as f64 <= RARELY * pairs.count() as f64;
    Some(Drain { rate, from_ns, until_ns, is_full })
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
                drain(&arrived((0..800).map(|n| [700.0, 1_300.0][n % 2]), lossy), MSS, TRIP_S).unwrap();
            assert!((found.rate / 1e6 - 1.0).abs() < 0.03, "{found:?}");
            assert!(found.is_full);
        }
        // Time-outs in between.
        let stops = (0..900).map(|n| if n % 300 == 299 { 400_000.0 } else { 1_000.0 });
        assert!(drain(&arrived(stops, 20), MSS, TRIP_S).is_some_and(|found| found.is_full));
    }

    #[test]
    fn a_clock_that_was_set_back_changes_nothing_before_it() {
        let mut packets = arrived((0..800).map(|_| 1_000.0), 20);
        let alone = drain(&packets, MSS, TRIP_S / 40.0);
        assert!(alone.is_some_and(|found| (found.rate / 1e6 - 1.0).abs() < 0.03), "{alone:?}");
        let last = *packets.last().unwrap();
        for later_ns in [1_000_000_000, 212_000_000] {
            packets.push(Packet { time_ns: last.time_ns + later_ns, ..last });
        }
        assert_eq!(
            drain(&packets, MSS, TRIP_S / 40.0).map(|found| found.rate),
            alone.map(|found| found.rate)
        );
    }

    #[test]
    fn bursts_that_come_evenly_show_that_the_link_carries_more() {
        let bursts = (0..1_200).map(|n| if n % 4 == 0 { 3_700.0 } else { 100.0 });
        let found = drain(&arrived(bursts, 20), MSS, TRIP_S).unwrap();
        assert!(!found.is_full);
    }

    #[test]
    fn a_window_that_losses_halve_or_that_leaves_gaps_is_no_full_link() {
        // Twenty to forty segments a round trip, in a burst.
        let saw = (0..40).flat_map(|trip| {
            let size = 20 + trip % 10 * 2;
            (0..size).map(move |n| if n == 0 { 40_000.0 - 100.0 * f64::from(size) } else { 100.0 })
        });
        assert_eq!(drain(&arrived(saw, 30), MSS, TRIP_S), None);
        // The same, spread over the round trip.
        let paced = (0..40).flat_map(|trip| {
            let size = 20 + trip % 10 * 2;
            (0..size).map(move |_| 40_000.0 / f64::from(size))
        });
        assert_eq!(drain(&arrived(paced, 30), MSS, TRIP_S), None);
    }

    #[test]
    fn a_few_losses_or_little_time_show_nothing() {
        let even = |number: usize| (0..number).map(|_| 1_000.0);
        assert_eq!(drain(&arrived(even(300), 40), MSS, TRIP_S), None);
        assert_eq!(drain(&arrived(even(2_000), 1_500), MSS, TRIP_S), None);
        assert_eq!(drain(&arrived(even(2_000), 5_000), MSS, TRIP_S), None);
        assert_eq!(drain(&arrived(even(2_000), 20), MSS, 0.0), None);
    }
}
