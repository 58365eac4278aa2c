//! Whether a sender paced its segments, judged by when they left.
//!
//! A pacer sends a burst, waits for as long as the burst takes at its rate, and sends the next one, independently of ACKs.
//! Linux makes bursts of a millisecond, or of two segments (`tcp_tso_autosize`). An application that writes evenly hardly
//! ever writes whole segments, and so few; what ACKs release leaves right after them.

use super::Events;
use super::stats::median;

/// Least time between bursts.
const APART_S: f64 = 0.0002;
/// Bursts that are examined together.
const BURSTS: usize = 32;
/// A pacer's burst: the longer of the two, and the factor by which it may be larger.
const BURST_S: f64 = 0.001;
const BURST_SEGMENTS: f64 = 2.0;
const ROOMY: f64 = 1.5;
/// Share of the bursts that must consist of whole segments.
const MOSTLY: f64 = 0.9;
const NEAR: f64 = 0.3;
/// Share of the bursts whose time per byte must be within [`NEAR`] of the usual one.
const EVENLY: f64 = 0.6;
/// Share of the time that those must take: data that the path spreads is even, too, within each flight.
const LASTING: f64 = 0.5;
/// Share of the time between bursts: a burst this soon after an ACK may have been released by it.
const SOON: f64 = 0.15;
/// Factor by which the rate within a burst must exceed that of the bursts.
const FASTER: f64 = 1.5;
/// Share of the bursts that may have met a queue.
const FEW: f64 = 0.2;
/// Share of the bursts that may be of one segment: a slow interface in front of the capture makes such of anything, evenly.
const SINGLE: f64 = 0.5;
/// Share of the time near ACKs above which they come too often to show anything.
const MOST_CHANCE: f64 = 0.75;

#[derive(Clone, Copy)]
struct Burst {
    /// Its first event.
    begin: usize,
    at_s: f64,
    /// From its first event to the last one, and what was sent meanwhile.
    inner_s: f64,
    inner_bytes: f64,
    /// Bytes, and time until the next one.
    bytes: f64,
    gap_s: f64,
}

/// By event, what left evenly.
pub(super) struct Evenness {
    /// The sender paced itself.
    pub paced: Vec<bool>,
    /// One segment after the other: a pacer makes these at low rates only, a slow interface or host always.
    pub serial: Vec<bool>,
}

/// By event: whether the sender paced itself.
///
/// `waited_s`: by event, the time in queues before the point of capture; None at the sender. Only there can be seen whether
/// ACKs released segments. Elsewhere the segments must have met no queue, and the rate within bursts must be higher than
/// that of the bursts: otherwise the path has spread them.
pub(super) fn paced(events: &Events, mss: i64, waited_s: Option<&[f64]>) -> Evenness {
    let nothing = || vec![false; events.at_ns.len()];
    let mut found = Evenness { paced: nothing(), serial: nothing() };
    let bursts = bursts(events);
    let acks_s: Vec<f64> = match waited_s {
        None => (0..events.at_ns.len()).filter(|&at| events.acks[at]).map(|at| events.seconds(at)).collect(),
        Some(_) => Vec::new(),
    };
    // The size of the last burst, and the gap after it, are not known.
    let known = bursts.len().saturating_sub(1);
    for start in (0..(known + 1).saturating_sub(BURSTS)).step_by(BURSTS / 2) {
        let some = &bursts[start..start + BURSTS];
        if !is_even(some, mss as f64) {
            continue;
        }
        let alone = match waited_s {
            None => !follows(some, &acks_s),
            Some(waited_s) => {
                let sum = |value: fn(&Burst) -> f64| some.iter().map(value).sum::<f64>();
                let rate = sum(|burst| burst.bytes) / sum(|burst| burst.gap_s);
                let faster = sum(|burst| burst.inner_bytes) > FASTER * rate * sum(|burst| burst.inner_s);
                faster && share(some, |burst| waited_s[burst.begin] > 0.0) < FEW
            }
        };
        if alone {
            let is_serial = waited_s.is_none() && share(some, |burst| burst.bytes <= mss as f64) >= SINGLE;
            let column = if is_serial { &mut found.serial } else { &mut found.paced };
            column[bursts[start].begin..bursts[start + BURSTS].begin].fill(true);
        }
    }
    // Halves of windows that overlap: what may be serial is not paced for certain.
    for (paced, serial) in found.paced.iter_mut().zip(&found.serial) {
        *paced &= !serial;
    }
    found
}

fn share(some: &[Burst], holds: impl Fn(&Burst) -> bool) -> f64 {
    some.iter().filter(|burst| holds(burst)).count() as f64 / some.len() as f64
}

fn bursts(events: &Events) -> Vec<Burst> {
    let mut bursts: Vec<Burst> = Vec::new();
    let mut before = None;
    let mut sent = i64::MIN;
    for at in 0..events.at_ns.len() {
        let new = events.data[at] && events.sent[at] > sent;
        sent = events.sent[at];
        if !new {
            continue;
        }
        let first_bytes = (sent - i64::from(events.payload_bytes[at])) as f64;
        let goes_on =
            before.is_some_and(|before: usize| (events.at_ns[at] - events.at_ns[before]) / 1e9 <= APART_S);
        before = Some(at);
        match bursts.last_mut() {
            Some(last) if goes_on => {
                last.inner_s = (events.at_ns[at] - events.at_ns[last.begin]) / 1e9;
                last.inner_bytes = (sent - events.sent[last.begin]) as f64;
            }
            last => {
                let at_s = events.seconds(at);
                if let Some(last) = last {
                    // What it begins with is still in `bytes`.
                    last.bytes = first_bytes - last.bytes;
                    last.gap_s = at_s - last.at_s;
                }
                bursts.push(Burst {
                    begin: at,
                    at_s,
                    inner_s: 0.0,
                    inner_bytes: 0.0,
                    bytes: first_bytes,
                    gap_s: 0.0,
                });
            }
        }
    }
    bursts
}

/// Whether these are small bursts of whole segments, with gaps in proportion to their sizes.
fn is_even(some: &[Burst], mss: f64) -> bool {
    if share(some, |burst| burst.bytes % mss == 0.0) < MOSTLY || some.iter().any(|burst| burst.bytes <= 0.0) {
        return false;
    }
    let gaps_s: f64 = some.iter().map(|burst| burst.gap_s).sum();
    let rate = some.iter().map(|burst| burst.bytes).sum::<f64>() / gaps_s;
    let mut sizes: Vec<f64> = some.iter().map(|burst| burst.bytes).collect();
    if median(&mut sizes) > ROOMY * (BURST_SEGMENTS * mss).max(rate * BURST_S) {
        return false;
    }
    let per_byte = |burst: &Burst| burst.gap_s / burst.bytes;
    let usual = median(&mut some.iter().map(per_byte).collect::<Vec<_>>());
    let near = |burst: &Burst| (per_byte(burst) - usual).abs() <= NEAR * usual;
    let near_s: f64 = some.iter().filter(|burst| near(burst)).map(|burst| burst.gap_s).sum();
    share(some, near) >= EVENLY && near_s >= LASTING * gaps_s
}

/// Whether ACKs may have released the bursts: many more follow one closely than would by chance.
fn follows(some: &[Burst], acks_s: &[f64]) -> bool {
    let soon = SOON * median(&mut some.iter().map(|burst| burst.gap_s).collect::<Vec<_>>());
    let (first, last) = (some[0].at_s, some[some.len() - 1].at_s);
    let from = acks_s.partition_point(|&ack| ack < first);
    let within = &acks_s[from..from + acks_s[from..].partition_point(|&ack| ack <= last)];
    let near: f64 = within.windows(2).map(|pair| (pair[1] - pair[0]).min(soon)).sum();
    let near = if within.is_empty() { 0.0 } else { near + soon };
    let chance = near / (last - first).max(1e-9);
    let followed = |burst: &Burst| {
        let count = acks_s.partition_point(|&ack| ack <= burst.at_s);
        count > 0 && burst.at_s - acks_s[count - 1] <= soon
    };
    chance > MOST_CHANCE || share(some, followed) > f64::midpoint(1.0, chance)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: i64 = 1448;

    /// One by one, with these gaps in µs; no ACKs.
    fn segments(gaps_us: &[f64]) -> Events {
        let mut at_ns = vec![0.0];
        for gap in gaps_us {
            at_ns.push(at_ns[at_ns.len() - 1] + gap * 1_000.0);
        }
        let count = at_ns.len();
        Events {
            at_ns,
            data: vec![true; count],
            acks: vec![false; count],
            sent: (1..=count as i64).map(|number| number * MSS).collect(),
            acked: vec![0; count],
            payload_bytes: vec![MSS as u32; count],
        }
    }

    #[test]
    fn a_flight_that_the_path_has_spread_is_no_pace() {
        for spread_us in [242.0, 260.0] {
            // Eight segments per round trip of 100 ms, some of which came closer: as at 50 Mbit/s.
            let flight = [&[40.0][..], &[spread_us; 6], &[100_000.0]].concat();
            let events = segments(&flight.repeat(40));
            assert!(!paced(&events, MSS, Some(&[0.0; 8 * 40 + 1])).paced.contains(&true));
        }
    }

    #[test]
    fn single_segments_at_the_rate_of_an_interface_are_no_pace_for_certain() {
        // A frame of 1,514 B each 1.82 ms.
        let found = paced(&segments(&[1_820.0; 200]), MSS, None);
        assert!(!found.paced.contains(&true));
        assert!(found.serial.iter().filter(|&&serial| serial).count() > 150);
        let bursts = paced(&segments(&[10.0, 3_630.0].repeat(100)), MSS, None);
        assert!(bursts.paced.iter().filter(|&&paced| paced).count() > 150);
    }

    #[test]
    fn a_pace_is_found_although_the_host_stalls_at_times() {
        // Two segments right behind each other, 3 ms apart; every twentieth time 10 ms.
        let mut gaps = [10.0, 3_000.0].repeat(200);
        gaps.iter_mut().skip(1).step_by(40).for_each(|gap| *gap = 10_000.0);
        let found = paced(&segments(&gaps), MSS, Some(&[0.0; 401])).paced;
        assert!(found.iter().filter(|&&paced| paced).count() > 401 * 9 / 10);
    }
}
