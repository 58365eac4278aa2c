//! Whether a token bucket explains what was lost: a policer passes what it has tokens for, and drops the rest at once.
//!
//! After Flach et al., "An Internet-Wide Analysis of Traffic Policing", ACM SIGCOMM 2016, 3.1: the bucket is empty at the first
//! loss and is filled at the rate that got through until the last one. Then what was lost met an empty bucket, and what passed
//! did not. Losses by chance, and those of a sender that backs off, meet it at any level.

use std::collections::HashMap;

use super::Packet;

/// Fewer losses can follow any pattern.
const LEAST_LOSSES: usize = 30;
/// Round trips between the first of them and the last.
const LEAST_TRIPS: f64 = 20.0;
/// These round trips with a loss, and their share: a sender that backs off pauses for longer. BBR probes one in eight, and none
/// for 48 once it believes in a policer.
const LEAST_LOSSY: usize = 10;
const OFTEN: f64 = 0.1;
/// What passed at the wrong level, as a share: the path's jitter, and segments of other sizes.
const WRONG_PASSED: f64 = 0.1;
/// What was lost at the wrong level: a bucket that had time to fill up ends with a level of its own.
const WRONG_LOST: f64 = 0.3;
/// How far from empty a level is still right: segments that leave together, and the time by which a path scatters them.
const NEAR_SEGMENTS: f64 = 4.0;
const NEAR_S: f64 = 0.002;
/// Chance that a lost segment met a lower level than one that passed (Mann and Whitney); 0.5 if levels do not matter.
const LOWER: f64 = 0.9;

/// A token bucket as the sender's packets show it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policer {
    /// What it passes, bytes per second.
    pub rate: f64,
    /// First and last loss, ns.
    pub from_ns: i64,
    /// See above.
    pub until_ns: i64,
    /// Segments lost between them.
    pub lost: usize,
    /// Segments sent between them, lost ones included.
    pub sent: usize,
}

/// A segment on the wire.
#[derive(Clone, Copy)]
struct Unit {
    time_ns: i64,
    bytes: f64,
    lost: bool,
}

/// The policer in front of which these packets of a capture at the sender were lost; None if they do not show one.
pub(super) fn policer(packets: &[Packet], mss: i64, least_s: f64) -> Option<Policer> {
    let again = packets.iter().filter(|packet| packet.has_data() && packet.again).count();
    if again < LEAST_LOSSES || least_s <= 0.0 {
        return None;
    }
    let units = units(packets, mss);
    let first = units.iter().position(|unit| unit.lost)?;
    let last = units.iter().rposition(|unit| unit.lost)?;
    let inside = &units[first..=last];
    let (from_ns, until_ns) = (units[first].time_ns, units[last].time_ns);
    let lasted_s = (until_ns - from_ns) as f64 / 1e9;
    let lost = inside.iter().filter(|unit| unit.lost).count();
    if lost < LEAST_LOSSES || lasted_s < LEAST_TRIPS * least_s || rare(inside, least_s) {
        return None;
    }
    let passed: f64 = inside.iter().filter(|unit| !unit.lost).map(|unit| unit.bytes).sum();
    let rate = passed / lasted_s;
    let near = (NEAR_SEGMENTS * mss as f64).max(NEAR_S * rate);
    is_bucket(inside, rate, near).then_some(Policer { rate, from_ns, until_ns, lost, sent: inside.len() })
}

/// Segments as they leave, those of a burst one by one; lost is what was sent again later.
fn units(packets: &[Packet], mss: i64) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    let mut latest: HashMap<i64, usize> = HashMap::new();
    for packet in packets.iter().filter(|packet| packet.has_data()) {
        let mut start = packet.seq;
        while start < packet.end() {
            let bytes = (packet.end() - start).min(mss.max(1));
            if let Some(before) = latest.insert(start, units.len())
                && packet.again
            {
                units[before].lost = true;
            }
            units.push(Unit { time_ns: packet.time_ns, bytes: bytes as f64, lost: false });
            start += bytes;
        }
    }
    units
}

/// Whether most round trips pass without a loss.
fn rare(inside: &[Unit], least_s: f64) -> bool {
    let round = |unit: &Unit| ((unit.time_ns - inside[0].time_ns) as f64 / 1e9 / least_s) as i64;
    let rounds = inside.last().map_or(0, round) + 1;
    let mut lossy: Vec<i64> = inside.iter().filter(|unit| unit.lost).map(round).collect();
    lossy.dedup();
    lossy.len() < LEAST_LOSSY || (lossy.len() as f64) < OFTEN * rounds as f64
}

/// Whether the level of a bucket that is filled at `rate` decides, to `near` bytes, what passes.
fn is_bucket(inside: &[Unit], rate: f64, near: f64) -> bool {
    let mut level = 0.0;
    let mut before_ns = inside[0].time_ns;
    let (mut levels, mut wrong) = (Vec::with_capacity(inside.len()), [0_usize; 2]);
    for unit in &inside[1..] {
        level += rate * (unit.time_ns - before_ns) as f64 / 1e9;
        before_ns = unit.time_ns;
        levels.push((level, unit.lost));
        if unit.lost {
            wrong[1] += usize::from(level > near);
        } else {
            level -= unit.bytes;
            wrong[0] += usize::from(level < -near);
        }
    }
    let lost = levels.iter().filter(|(_, lost)| *lost).count();
    let few = |wrong: usize, of: usize, most: f64| wrong as f64 <= most * of as f64;
    let fits = few(wrong[0], levels.len() - lost, WRONG_PASSED) && few(wrong[1], lost, WRONG_LOST);
    fits && chance_lower(levels) >= LOWER
}

/// The chance that the level of a loss is below that of a passage.
fn chance_lower(mut levels: Vec<(f64, bool)>) -> f64 {
    levels.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (mut losses, mut below) = (0.0, 0.0);
    for &(_, lost) in &levels {
        if lost {
            losses += 1.0;
        } else {
            below += losses;
        }
    }
    below / (losses * (levels.len() as f64 - losses)).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: i64 = 1_000;
    const TRIP_NS: i64 = 40_000_000;

    const BOLD: [f64; 8] = [1.25, 0.9, 1.1, 1.1, 1.1, 1.1, 1.1, 1.1];
    const SHY: [f64; 8] = [1.3, 0.75, 0.96, 0.96, 0.96, 0.96, 0.96, 0.96];

    /// A sender that does not back off: round trips at these multiples of 1 MB/s, in turn, and what is lost again one round
    /// trip later. `passes`: time of a segment.
    fn sent(mut passes: impl FnMut(i64) -> bool, number: i64, gains: [f64; 8]) -> Vec<Packet> {
        let (mut packets, mut due): (Vec<Packet>, Vec<(i64, i64)>) = (Vec::new(), Vec::new());
        let (mut now, mut next) = (0_i64, 0_i64);
        while next < number {
            let again = due.first().copied().filter(|&(at, _)| at <= now);
            let seq = again.map_or(next, |(_, seq)| seq);
            if again.is_some() {
                due.remove(0);
            } else {
                next += 1;
            }
            if !passes(now) {
                due.push((now + TRIP_NS, seq));
            }
            packets.push(Packet {
                time_ns: now,
                seq: seq * MSS,
                ack: 1,
                sacked_bytes: 0,
                payload_bytes: MSS as u32,
                window_bytes: 1 << 20,
                tsval: None,
                flags: 16,
                from_sender: true,
                again: again.is_some(),
                probe: false,
                timeout: false,
            });
            let gain = gains[(now / TRIP_NS) as usize % gains.len()];
            now += (MSS as f64 / 1e6 / gain * 1e9) as i64;
        }
        packets
    }

    fn bucket(rate: f64, most: f64) -> impl FnMut(i64) -> bool {
        let (mut level, mut before) = (most, 0);
        move |now| {
            level = (level + rate * (now - before) as f64 / 1e9).min(most);
            before = now;
            let passes = level >= MSS as f64;
            level -= if passes { MSS as f64 } else { 0.0 };
            passes
        }
    }

    #[test]
    fn a_token_bucket_is_found_with_its_rate() {
        for (rate, most) in [(1e6, 10_000.0), (0.9e6, 60_000.0), (0.7e6, 20_000.0)] {
            let found = policer(&sent(bucket(rate, most), 4_000, BOLD), MSS, TRIP_NS as f64 / 1e9).unwrap();
            assert!((found.rate / rate - 1.0).abs() < 0.02, "{found:?} of {rate}");
            assert!(found.lost >= LEAST_LOSSES && found.lost < found.sent);
        }
    }

    #[test]
    fn a_sender_that_probes_in_one_round_trip_of_eight_shows_it_as_well() {
        let found = policer(&sent(bucket(0.98e6, 6_000.0), 6_000, SHY), MSS, TRIP_NS as f64 / 1e9).unwrap();
        assert!((found.rate / 0.98e6 - 1.0).abs() < 0.04, "{found:?}");
    }

    #[test]
    fn losses_in_bursts_at_any_rate_are_no_policer() {
        for every in [3_i64, 5, 8] {
            let bursts = |now: i64| (now / (TRIP_NS / 4)) % (4 * every) != 1;
            for gains in [BOLD, SHY] {
                assert_eq!(policer(&sent(bursts, 6_000, gains), MSS, TRIP_NS as f64 / 1e9), None, "{every}");
            }
        }
    }

    #[test]
    fn losses_by_chance_are_no_policer() {
        for (seed, share) in [(1_u64, 0.02), (2, 0.05), (3, 0.1), (4, 0.2)] {
            let mut state = seed;
            let chance = |_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) as f64 / f64::from(1_u32 << 31) >= share
            };
            assert_eq!(policer(&sent(chance, 4_000, BOLD), MSS, TRIP_NS as f64 / 1e9), None, "{share}");
        }
    }
}
