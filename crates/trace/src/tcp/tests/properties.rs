//! Whatever comes, it must add up.

use proptest::prelude::*;

use super::*;
use crate::Share;

fn arbitrary_packet() -> impl Strategy<Value = Made> {
    let numbers = (0..40_u32, 0..40_u32, any::<bool>(), 0..3_u32);
    let flags = prop_oneof![8 => Just(ACK), 1 => any::<u8>(), 1 => Just(SYN), 1 => Just(FIN | ACK)];
    let shape = (flags, prop_oneof![Just(0_u16), Just(1_000), any::<u16>()], 0..3_000_u32);
    let furthest = crate::capture::MAX_TIME_NS;
    let time = prop_oneof![20 => (0..400_i64).prop_map(|ms| ms * MS), 1 => -furthest..furthest];
    let rest = (
        proptest::collection::vec(any::<u8>(), 0..10),
        proptest::collection::vec((0..40_u32, 0..40_u32), 0..4),
        0..5_u16,
        (0..3_u16, time, 0..3_u32, 0..3_u16),
    );
    (numbers, shape, rest).prop_map(|((seq, ack, by_a, off), (flags, window, payload), rest)| {
        let (noise, blocks, ip_id, (port, time_ns, interface, vlan)) = rest;
        let from = if by_a { From::A } else { From::B };
        // Numbers around the wrap, on a grid so that segments meet.
        let number = |n: u32| 0xffff_8000_u32.wrapping_add(n * 1_000 + off);
        let mut made = packet(time_ns, from, number(seq), number(ack), payload);
        (made.flags, made.interface, made.vlan) = (flags, interface / 2, vlan / 2);
        (made.window, made.ip_id, made.ports) = (window, ip_id, (port, 80));
        if !blocks.is_empty() {
            let blocks: Vec<_> = blocks.iter().map(|(l, r)| (number(*l), number(*r))).collect();
            made = made.sack(&blocks);
        }
        made.options.extend(noise);
        made.options.resize(made.options.len().min(40) / 4 * 4, 0);
        made
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_segments_never_panic_and_add_up(
        packets in proptest::collection::vec(arbitrary_packet(), 0..120),
    ) {
        let count = packets.len();
        let (rows, counts) = counted(Options::default(), &packets);
        assert_consistent(&rows);
        prop_assert_eq!((rows.segments.len(), counts.segments), (count, count as u64));
    }

    #[test]
    fn arbitrary_segments_stay_within_small_bounds(
        packets in proptest::collection::vec(arbitrary_packet(), 0..120),
    ) {
        let options = Options { max_connections: 2, max_states: 1, max_outstanding: 3, ..Options::default() };
        let (rows, _) = counted(options, &packets);
        assert_consistent(&rows);
        let packets_given: u64 = rows.connections.iter().flat_map(|c| &c.sides).map(|side| side.packets).sum();
        prop_assert_eq!(packets_given, packets.len() as u64);
    }

    /// Analyses that each follow a share of the connections find what one of all finds, if the clock does not jump
    /// back by more than the times after which connections are given up.
    #[test]
    fn shares_of_the_connections_add_up_to_all(
        mut packets in proptest::collection::vec(arbitrary_packet(), 0..120),
    ) {
        packets.sort_by_key(|packet| packet.time_ns);
        packets.iter_mut().for_each(|packet| packet.time_ns = packet.time_ns.saturating_mul(20));
        // Short ones, so that many are over at other packets than their own.
        let limits = Options { half_open_ns: 200 * MS, idle_ns: 900 * MS, closed_ns: 0, ..Options::default() };
        let whole = counted(limits, &packets).0.connections;
        let mut shared: Vec<_> = (0..3)
            .flat_map(|number| {
                let share = Share::new(number, 3).unwrap();
                counted(Options { share, ..limits }, &packets).0.connections
            })
            .collect();
        shared.sort_by_key(|connection| connection.id);
        for (connection, id) in shared.iter_mut().zip(0..) {
            connection.id = id;
        }
        let mut whole = whole;
        whole.sort_by_key(|connection| connection.id);
        prop_assert_eq!(shared, whole);
    }

    /// Without loss or reordering nothing is called repeated, wherever the numbers begin.
    #[test]
    fn an_orderly_transfer_has_no_anomalies(
        isn in any::<u32>(),
        sizes in proptest::collection::vec(1..3_000_u32, 1..60),
    ) {
        let mut packets = handshake(isn);
        let (mut seq, mut time_ns) = (isn.wrapping_add(1), 30 * MS);
        for size in &sizes {
            packets.push(a(time_ns, seq, *size));
            seq = seq.wrapping_add(*size);
            packets.push(b(time_ns + RTT, seq));
            time_ns += RTT + MS;
        }
        let rows = analysed(&packets);
        let side = &rows.connections[0].sides[0];
        prop_assert_eq!(side.unique_bytes, sizes.iter().map(|size| u64::from(*size)).sum::<u64>());
        prop_assert_eq!((side.retransmissions.total, side.out_of_order, side.unseen_bytes), (0, 0, 0));
        prop_assert_eq!((side.rtt.count, side.rtt.max_ns), (sizes.len() as u64, RTT as u64));
    }
}
