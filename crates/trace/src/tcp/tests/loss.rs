//! Data sent again, and what only looks like it.

use super::*;

const ISN: u32 = 1_000;

/// Sequence number of the nth segment.
fn nth(n: u32) -> u32 {
    (ISN + 1).wrapping_add(n * MSS)
}

/// Segments `from..to` of A, sent one µs after another.
fn sent(time_ns: i64, from: u32, to: u32) -> Vec<Made> {
    (from..to).map(|n| a(time_ns + i64::from(n - from) * 1_000, nth(n), MSS)).collect()
}

#[test]
fn a_segment_sent_again_after_three_duplicate_acks_is_fast() {
    let start = 30 * MS;
    let mut packets = sent(start, 0, 5);
    packets.push(b(start + RTT, nth(1)));
    packets.extend((1..4).map(|i| b(start + RTT + i * 1_000, nth(1))));
    packets.push(a(start + RTT + 4_000, nth(1), MSS));
    packets.push(b(start + 2 * RTT, nth(5)));
    let (connection, rows) = talk(ISN, &packets);
    assert_eq!(connection.sides[0].retransmissions.fast, 1);
    assert_eq!(connection.sides[0].retransmissions.bytes, u64::from(MSS));
    assert_eq!((connection.sides[1].duplicate_acks, connection.sides[0].unique_bytes), (3, 5_000));
    assert_eq!(meanings(&rows).last(), Some(&Meaning::Fast));
}

#[test]
fn one_sack_block_behind_the_segment_is_reason_enough() {
    let start = 30 * MS;
    let mut packets = sent(start, 0, 3);
    packets.push(b(start + RTT, nth(1)).sack(&[(nth(2), nth(3))]));
    packets.push(a(start + RTT + 5 * MS, nth(1), MSS));
    packets.push(b(start + 2 * RTT + 5 * MS, nth(3)));
    let (connection, rows) = talk(ISN, &packets);
    assert_eq!(connection.sides[0].retransmissions.fast, 1);
    assert_eq!((connection.sides[1].sack_blocks, connection.sides[1].dsacks), (1, 0));
    let row = rows.sacks[0];
    assert_eq!((row.from, row.left, row.right, row.duplicate), (From::B, 2_001, 3_001, false));
}

#[test]
fn the_first_segment_sent_again_after_silence_is_a_timeout_and_so_is_what_follows_it() {
    let start = 30 * MS;
    let mut packets = sent(start, 0, 3);
    packets.push(a(start + 300 * MS, nth(0), MSS));
    packets.push(b(start + 320 * MS, nth(1)));
    packets.extend(sent(start + 320 * MS + 1_000, 1, 3));
    packets.push(b(start + 341 * MS, nth(3)));
    let (connection, rows) = talk(ISN, &packets);
    assert_eq!(connection.sides[0].retransmissions.timeout, 3);
    let all = [Meaning::New, Meaning::New, Meaning::New];
    assert_eq!(meanings(&rows), [all, [Meaning::Timeout; 3]].concat());
}

#[test]
fn the_last_segment_sent_again_after_two_round_trips_probes_the_tail() {
    let start = 30 * MS;
    let mut packets = sent(start, 0, 3);
    packets.push(b(start + RTT, nth(1)));
    packets.push(a(start + RTT + 45 * MS, nth(2), MSS));
    let (connection, _) = talk(ISN, &packets);
    assert_eq!(connection.sides[0].retransmissions.tail_probe, 1);
}

#[test]
fn a_segment_sent_again_for_no_visible_reason_is_unexplained() {
    let start = 30 * MS;
    let packets = [sent(start, 0, 3), vec![a(start + MS, nth(1), MSS)]].concat();
    let (connection, _) = talk(ISN, &packets);
    assert_eq!(connection.sides[0].retransmissions.unexplained, 1);
}

#[test]
fn a_dsack_makes_one_packet_needless_and_no_packet_twice() {
    let start = 30 * MS;
    let mut packets = sent(start, 0, 2);
    packets.push(a(start + 300 * MS, nth(0), MSS));
    packets.push(b(start + 301 * MS, nth(2)));
    let dsack = |time_ns| b(time_ns, nth(2)).sack(&[(nth(0), nth(1))]);
    packets.extend([dsack(start + 320 * MS), dsack(start + 321 * MS)]);
    let (connection, rows) = talk(ISN, &packets);
    assert_eq!(
        (connection.sides[0].retransmissions.total, connection.sides[0].retransmissions.spurious),
        (1, 1)
    );
    assert_eq!(connection.sides[1].dsacks, 2);
    assert!(rows.sacks.iter().all(|row| row.duplicate));
}

#[test]
fn a_dsack_inside_the_block_that_follows_it_is_recognised() {
    let start = 30 * MS;
    let mut packets = sent(start, 0, 4);
    packets.push(b(start + RTT, nth(0)).sack(&[(nth(1), nth(4))]));
    packets.push(a(start + RTT + 1_000, nth(0), MSS));
    packets.push(a(start + RTT + 2_000, nth(1), MSS));
    packets.push(b(start + 2 * RTT, nth(0)).sack(&[(nth(1), nth(2)), (nth(1), nth(4))]));
    let (connection, _) = talk(ISN, &packets);
    assert_eq!(
        (connection.sides[0].retransmissions.total, connection.sides[0].retransmissions.spurious),
        (2, 1)
    );
    assert_eq!((connection.sides[1].sack_blocks, connection.sides[1].dsacks), (3, 1));
}

#[test]
fn a_range_sent_again_twice_and_reported_twice_was_needless_twice() {
    let start = 30 * MS;
    let mut packets = sent(start, 0, 1);
    packets.extend([a(start + 300 * MS, nth(0), MSS), a(start + 800 * MS, nth(0), MSS)]);
    packets.push(b(start + 810 * MS, nth(1)));
    packets.push(b(start + 811 * MS, nth(1)).sack(&[(nth(0), nth(1))]));
    packets.push(b(start + 812 * MS, nth(1)).sack(&[(nth(0), nth(1))]));
    let (connection, _) = talk(ISN, &packets);
    assert_eq!(
        (connection.sides[0].retransmissions.total, connection.sides[0].retransmissions.spurious),
        (2, 2)
    );
}

#[test]
fn a_gap_closed_at_once_was_reordering() {
    let start = 30 * MS;
    let packets = [a(start, nth(0), MSS), a(start + 1_000, nth(2), MSS), a(start + 2_000, nth(1), MSS)];
    let (connection, rows) = talk(ISN, &packets);
    assert_eq!((connection.sides[0].out_of_order, connection.sides[0].retransmissions.total), (1, 0));
    assert_eq!(connection.sides[0].unique_bytes, 3_000);
    assert_eq!(meanings(&rows), [Meaning::New, Meaning::New, Meaning::OutOfOrder]);
}

#[test]
fn a_gap_closed_after_a_round_trip_was_a_loss_before_the_point_of_capture() {
    let start = 30 * MS;
    let mut packets = vec![a(start, nth(0), MSS), a(start + 1_000, nth(2), MSS)];
    packets.push(b(start + 2_000, nth(1)).sack(&[(nth(2), nth(3))]));
    packets.push(a(start + RTT + 5 * MS, nth(1), MSS));
    let (connection, _) = talk(ISN, &packets);
    assert_eq!((connection.sides[0].out_of_order, connection.sides[0].retransmissions.fast), (0, 1));
    assert_eq!((connection.sides[0].unique_bytes, connection.sides[0].data_bytes), (3_000, 3_000));
}

#[test]
fn the_time_stamp_option_tells_a_late_packet_from_a_repaired_loss() {
    let start = 30 * MS;
    for (value, reordered) in [(99, 1), (101, 0)] {
        let late = if value == 99 { start + 40 * MS } else { start + 2_000 };
        let packets = [
            a(start, nth(0), MSS).timestamps(98, 0),
            a(start + 1_000, nth(2), MSS).timestamps(100, 0),
            a(late, nth(1), MSS).timestamps(value, 0),
        ];
        let (connection, _) = talk(ISN, &packets);
        let side = &connection.sides[0];
        assert_eq!((side.out_of_order, side.retransmissions.total), (reordered, 1 - reordered));
    }
}

#[test]
fn a_counted_ip_identification_tells_them_apart_within_one_tick() {
    let start = 30 * MS;
    for (id, reordered) in [(110, 1), (112, 0)] {
        let mut packets: Vec<_> =
            (0..10_u32).map(|n| a(start + i64::from(n), nth(n), MSS).ip_id(100 + n as u16)).collect();
        packets.push(a(start + 100, nth(11), MSS).ip_id(111));
        packets.push(a(start + 200, nth(10), MSS).ip_id(id));
        let (connection, _) = talk(ISN, &packets);
        let side = &connection.sides[0];
        assert_eq!((side.out_of_order, side.retransmissions.total), (reordered, 1 - reordered), "{id}");
    }
}

#[test]
fn a_packet_sent_again_after_a_time_out_is_no_disorder_though_its_identification_wrapped() {
    let start = 30 * MS;
    let mut packets: Vec<_> =
        (0..10_u32).map(|n| a(start + i64::from(n), nth(n), MSS).ip_id(0x7470 + n as u16)).collect();
    packets.push(a(start + 100, nth(11), MSS).ip_id(0x747b));
    packets.push(a(start + 1_500 * MS, nth(10), MSS).ip_id(0x028c));
    let (connection, _) = talk(ISN, &packets);
    let side = &connection.sides[0];
    assert_eq!((side.out_of_order, side.retransmissions.total), (0, 1));
}

#[test]
fn the_same_packet_seen_twice_is_a_copy_and_no_retransmission() {
    let start = 30 * MS;
    let packets = [a(start, nth(0), MSS).ip_id(7), a(start + 20_000, nth(0), MSS).ip_id(7)];
    let (connection, _) = talk(ISN, &packets);
    let side = &connection.sides[0];
    assert_eq!((side.copies, side.retransmissions.total, side.unique_bytes), (1, 0, 1_000));
    assert_eq!(side.data_bytes, 2_000);
}

#[test]
fn sequence_numbers_go_on_behind_the_wrap() {
    let isn = u32::MAX - 2_500;
    let at = |n: u32| isn.wrapping_add(1 + n * MSS);
    let start = 30 * MS;
    let mut packets: Vec<_> = (0..5).map(|n| a(start + i64::from(n), at(n), MSS)).collect();
    packets.push(b(start + RTT, at(2)).sack(&[(at(3), at(5))]));
    packets.push(a(start + RTT + 1_000, at(2), MSS));
    packets.push(b(start + 2 * RTT, at(5)));
    let (connection, rows) = talk(isn, &packets);
    let side = &connection.sides[0];
    assert_eq!((side.unique_bytes, side.flight_max, side.retransmissions.fast), (5_000, 5_000, 1));
    let seqs: Vec<_> = rows.segments.iter().filter(|row| row.payload_bytes > 0).map(|row| row.seq).collect();
    assert_eq!(seqs, [1, 1_001, 2_001, 3_001, 4_001, 2_001]);
    assert_eq!((rows.sacks[0].left, rows.sacks[0].right), (3_001, 5_001));
}

#[test]
fn a_packet_with_old_and_new_data_counts_the_new_bytes_once() {
    let start = 30 * MS;
    let packets = [a(start, nth(0), MSS), a(start + 300 * MS, nth(0), 3 * MSS)];
    let (connection, _) = talk(ISN, &packets);
    let side = &connection.sides[0];
    assert_eq!((side.unique_bytes, side.data_bytes, side.retransmissions.total), (3_000, 4_000, 1));
}

#[test]
fn a_fin_sent_again_is_no_data() {
    let start = 30 * MS;
    let fin = |time_ns| a(time_ns, nth(1), 0).flags(ACK | FIN);
    let packets = [a(start, nth(0), MSS), fin(start + 1_000), fin(start + 400 * MS)];
    let (connection, _) = talk(ISN, &packets);
    let side = &connection.sides[0];
    let again = &side.retransmissions;
    assert_eq!((again.total, again.fins, again.bytes, side.fins), (1, 1, 0, 2));
    assert_eq!((side.unique_bytes, connection.end), (1_000, End::HalfClosed));
}
