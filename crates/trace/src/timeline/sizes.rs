//! What the sizes of segments show.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{Events, Packet};

/// Bytes (RFC 9293, 3.7.1): anything smaller is not a full segment.
const LEAST_MSS: i64 = 536;
/// A payload beyond the largest Ethernet frames in use.
const JUMBO_BYTES: i64 = 9_000;
/// Share of the bytes that come in whole segments, in a transfer that is not of small messages.
const WHOLE: f64 = 0.8;
/// Sizes that are tried as that of a full segment.
const MOST_SIZES: usize = 1000;
/// Share of the data that may leave beyond the window: probes, and data after ACKs that were missed.
pub const BEYOND: f64 = 0.05;

/// Share of the MSS that a path carries at least: 1280 of 1500 bytes, without headers.
const LITTLE_LESS: f64 = 0.84;

/// Bytes that cannot be in flight beyond all that was captured: more than the buffers of hosts hold.
const BEYOND_BUFFERS: i64 = 1 << 24;
/// Share of the segments from which on short ones are messages of an application, which a congestion window in use would join.
const MESSAGES: f64 = 1.0 / 3.0;

/// Whether a sequence number is far beyond all data that was captured; `flight`: never acknowledged, bytes.
pub fn jumps(packets: &[Packet], flight: i64) -> bool {
    let data = packets.iter().filter(|packet| packet.has_data());
    flight > data.map(|packet| i64::from(packet.payload_bytes)).sum::<i64>() + BEYOND_BUFFERS
}

/// Whether many of the segments among these events are shorter than a full one, of `mss` at most.
pub fn is_of_messages(events: &Events, among: Range<usize>, mss: i64) -> bool {
    let sizes: Vec<i64> =
        among.filter(|&at| events.data[at]).map(|at| i64::from(events.payload_bytes[at])).collect();
    let Some(full) = sizes.iter().max().map(|&most| most.min(mss)) else { return false };
    let short = sizes.iter().filter(|&&bytes| bytes % full != 0).count();
    short as f64 >= MESSAGES * sizes.len() as f64
}

/// Whether much of the data was captured before any ACK that allowed it.
pub fn is_beyond(packets: &[Packet], mss: i64) -> bool {
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

/// What a full segment carries: `mss`, unless nothing larger than most segments was sent, which is a little less. Then the path
/// carries no more (RFC 8201), and no such segment ends a message.
pub fn carried(packets: &[Packet], mss: i64) -> i64 {
    let sizes =
        || packets.iter().filter(|packet| packet.has_data()).map(|packet| i64::from(packet.payload_bytes));
    let most = sizes().max().unwrap_or(mss);
    let whole = sizes().filter(|&bytes| bytes == most).count() as f64;
    if most < mss && most as f64 >= LITTLE_LESS * mss as f64 && whole >= WHOLE * sizes().count() as f64 {
        most
    } else {
        mss
    }
}

/// The most common payload: what a full segment carries.
pub fn usual_segment(packets: &[Packet]) -> i64 {
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
    let found = found.unwrap_or(most.0.max(LEAST_MSS));
    if found > JUMBO_BYTES { acknowledged(packets, found) } else { found }
}

/// What a full segment carries, if it is at most `bytes`: the common divisor with what most ACKs acknowledge. A network card
/// may cut all that a host sends. ACKs of two segments each show twice that, unless what is sent has odd numbers of them.
fn acknowledged(packets: &[Packet], bytes: i64) -> i64 {
    let acks = || packets.iter().filter(|packet| packet.is_ack()).map(|packet| packet.ack);
    let grown = acks().zip(acks().skip(1)).map(|(one, other)| other - one).filter(|grown| *grown > 0);
    let sent =
        packets.iter().filter(|packet| packet.from_sender).map(|packet| i64::from(packet.payload_bytes));
    let found = usual_divisor(bytes, grown);
    usual_divisor(found, sent.filter(|size| *size > 0))
}

/// The common divisor of `bytes` and the values that make up most of their sum; `bytes` if it is no full segment.
fn usual_divisor(bytes: i64, values: impl Iterator<Item = i64>) -> i64 {
    let mut counts: BTreeMap<i64, i64> = BTreeMap::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    let mut usual: Vec<(i64, i64)> =
        counts.into_iter().map(|(value, count)| (count * value, value)).collect();
    usual.sort_unstable_by(|one, other| other.cmp(one));
    let mut rest = WHOLE * usual.iter().map(|(all, _)| all).sum::<i64>() as f64;
    let mut found = bytes;
    for (all, value) in usual {
        if rest > 0.0 {
            found = common_divisor(found, value);
        }
        rest -= all as f64;
    }
    if found < LEAST_MSS { bytes } else { found }
}

fn common_divisor(one: i64, other: i64) -> i64 {
    if other == 0 { one } else { common_divisor(other, one % other) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(payload_bytes: u32) -> Packet {
        Packet {
            time_ns: 0,
            seq: 1,
            ack: 1,
            sacked_bytes: 0,
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
    fn segments_that_a_card_cuts_later_are_no_larger_mss() {
        for segments in [1, 2, 17, 44] {
            let sizes = [vec![1448 * segments; 20], vec![1448 * 3; 10], vec![1448, 600]].concat();
            let packets: Vec<Packet> = sizes.into_iter().map(data).collect();
            assert_eq!(usual_segment(&packets), 1448);
        }
    }

    #[test]
    fn acks_show_the_segments_of_a_card_that_cuts_all_that_is_sent() {
        let of = |bytes: u32, each: i64| {
            let mut packets: Vec<Packet> = vec![data(bytes); 20];
            packets.extend((0..200).map(|at| Packet { from_sender: false, ack: 1 + at * each, ..data(0) }));
            usual_segment(&packets)
        };
        assert_eq!((of(29 * 1448, 2 * 1448), of(44 * 1448, 3 * 1448)), (1448, 1448));
        // Two segments an ACK, and mostly even numbers of them at a time.
        let mut packets: Vec<Packet> = vec![data(20 * 1448); 20];
        packets.extend(vec![data(19 * 1448); 10]);
        packets.extend((0..300).map(|at| Packet { from_sender: false, ack: 1 + at * 2896, ..data(0) }));
        assert_eq!(usual_segment(&packets), 1448);
        // On loopback segments are that long; and ACKs of all sizes show none.
        assert_eq!((of(65_483, 65_483), of(29 * 1448, 777)), (65_483, 29 * 1448));
    }

    #[test]
    fn what_a_path_carries_may_be_a_little_less_than_the_mss_that_was_offered() {
        let of = |size: u32, others: &[u32]| {
            let packets = [&vec![size; 20][..], others].concat();
            carried(&packets.into_iter().map(data).collect::<Vec<_>>(), 1398)
        };
        assert_eq!(of(1208, &[225]), 1208);
        // Larger ones passed; messages of one size; many of all sizes.
        assert_eq!((of(1208, &[1398]), of(512, &[]), of(1208, &[1000; 9])), (1398, 1398, 1398));
    }

    #[test]
    fn of_small_messages_none_is_a_full_segment() {
        assert_eq!(usual_segment(&vec![data(300); 30]), LEAST_MSS);
    }
}
