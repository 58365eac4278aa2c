//! Round trips and flight size, also where half of the traffic is missing.

use super::*;

const START: i64 = 30 * MS;

#[test]
fn an_ack_measures_the_last_segment_that_it_covers() {
    let packets = [a(START, 1_001, MSS), a(START + 5 * MS, 2_001, MSS), b(START + 25 * MS, 3_001)];
    let (connection, rows) = talk(1_000, &packets);
    let rtt = connection.sides[0].rtt;
    assert_eq!((rtt.count, rtt.min_ns, rtt.max_ns), (1, 20_000_000, 20_000_000));
    assert_eq!((rows.rtts[0].seq, rows.rtts[0].from), (2_001, From::A));
}

#[test]
fn repeated_data_measures_nothing() {
    let packets = [a(START, 1_001, MSS), a(START + 300 * MS, 1_001, MSS), b(START + 320 * MS, 2_001)];
    let (connection, _) = talk(1_000, &packets);
    assert_eq!(connection.sides[0].rtt.count, 0);
}

#[test]
fn an_ack_that_answers_a_fin_measures_nothing() {
    let fin = |time_ns, seq, payload| a(time_ns, seq, payload).flags(FIN | ACK);
    let sent = a(START, 1_001, MSS);
    // Behind data that was acknowledged before, that was not, and with data of its own.
    let first = [sent.clone(), fin(START + 3_000 * MS, 2_001, 0), b(START + 3_020 * MS, 2_002)];
    assert_eq!(talk(1_000, &first).0.sides[0].rtt.count, 0);
    // Nor do time stamps of a clock so slow that both have the same.
    let stamped = first.clone().map(|made| {
        let (value, echo) = if made.from == From::A { (100, 1) } else { (1, 100) };
        made.timestamps(value, echo)
    });
    assert_eq!(talk(1_000, &stamped).0.sides[0].rtt_timestamp.count, 0);
    let last = b(START + 3_020 * MS, 2_002);
    let after = [sent, b(START + RTT, 2_001), fin(START + 3_000 * MS, 2_001, 0), last];
    assert_eq!(talk(1_000, &after).0.sides[0].rtt.max_ns, RTT as u64);
    let with_data = [fin(START, 1_001, MSS), b(START + RTT, 2_002)];
    assert_eq!(talk(1_000, &with_data).0.sides[0].rtt.count, 1);
}

#[test]
fn an_ack_that_answers_data_not_captured_measures_nothing() {
    let packets = [a(START, 1_001, MSS), b(START + 500 * MS, 3_001), a(START + 501 * MS, 3_001, MSS)];
    assert_eq!(talk(1_000, &packets).0.sides[0].rtt.count, 0);
}

#[test]
fn an_ack_that_waited_for_a_repaired_loss_measures_nothing() {
    let packets = [
        a(START, 1_001, MSS),
        a(START + 1_000, 2_001, MSS),
        b(START + RTT, 1_001).sack(&[(2_001, 3_001)]),
        a(START + RTT + 1_000, 1_001, MSS),
        b(START + 2 * RTT, 3_001),
    ];
    let (connection, _) = talk(1_000, &packets);
    assert_eq!(connection.sides[0].rtt.count, 0);
}

#[test]
fn time_stamps_measure_each_tick_once() {
    let packets = [
        a(START, 1_001, MSS).timestamps(100, 1),
        a(START + 900_000, 2_001, MSS).timestamps(100, 1),
        a(START + MS, 3_001, MSS).timestamps(101, 1),
        b(START + 20 * MS, 2_001).timestamps(7, 100),
        b(START + 21 * MS, 3_001).timestamps(7, 100),
        b(START + 23 * MS, 4_001).timestamps(7, 101),
    ];
    let (connection, rows) = talk(1_000, &packets);
    let rtt = connection.sides[0].rtt_timestamp;
    let sent: Vec<_> =
        rows.segments.iter().filter(|row| row.payload_bytes > 0).map(|row| row.tsval).collect();
    assert_eq!(sent, [Some(100), Some(100), Some(101)]);
    assert_eq!((rtt.count, rtt.min_ns, rtt.max_ns), (2, 20_000_000, 22_000_000));
    assert!((rtt.mean_ns - 21e6).abs() < 1e-6 && (rtt.sd_ns - 1e6).abs() < 1e-6);
}

#[test]
fn where_data_is_received_the_echo_of_an_ack_measures_the_path() {
    let packets = [
        a(START, 1_001, MSS).timestamps(100, 1),
        b(START + 10_000, 2_001).timestamps(50, 100),
        b(START + 20_000, 2_001).timestamps(50, 100),
        // Acknowledges the first of the two; the second echo of the same value tells nothing new.
        a(START + 20 * MS, 2_001, MSS).timestamps(120, 50),
        a(START + 21 * MS, 3_001, MSS).timestamps(121, 50),
        // Data of its own is measured by its ACK.
        packet(START + 22 * MS, From::B, 5_001, 4_001, 10).timestamps(72, 121),
        a(START + 42 * MS, 4_001, MSS).timestamps(142, 72),
    ];
    let (_, rows) = talk(1_000, &packets);
    let echoes: Vec<_> = rows.rtts.iter().filter(|row| row.method == Method::Echo).collect();
    assert_eq!(echoes.len(), 1);
    assert_eq!((echoes[0].from, echoes[0].rtt_ns), (From::B, (20 * MS - 10_000) as u64));
}

#[test]
fn data_reported_by_sack_is_still_in_flight() {
    let mut packets: Vec<_> = (0..4).map(|n| a(START + i64::from(n), 1_001 + n * MSS, MSS)).collect();
    packets.push(b(START + RTT, 1_001).sack(&[(2_001, 5_001)]));
    packets.push(a(START + RTT + 1, 5_001, MSS));
    let (connection, rows) = talk(1_000, &packets);
    assert_eq!(connection.sides[0].flight_max, 5_000);
    assert_eq!(rows.segments.last().unwrap().flight_bytes, 5_000);
    assert!((connection.sides[0].flight_mean - 3_000.0).abs() < 1e-9);
}

#[test]
fn a_single_direction_has_no_round_trips_and_no_flight() {
    let packets: Vec<_> = (0..50).map(|n| a(i64::from(n) * MS, 1_001 + n * MSS, MSS)).collect();
    let rows = analysed(&packets);
    assert_consistent(&rows);
    let connection = &rows.connections[0];
    let side = &connection.sides[0];
    assert_eq!((side.rtt.count, side.flight_max, side.unique_bytes), (0, 0, 50_000));
    assert_eq!((connection.begin, connection.place), (Begin::Middle, Place::Unknown));
}

#[test]
fn acks_alone_tell_what_the_capture_missed() {
    let packets: Vec<_> = (0..5).map(|n| b(i64::from(n) * MS, 1_001 + n * MSS)).collect();
    let rows = analysed(&packets);
    assert_consistent(&rows);
    // Whoever is seen first is A.
    let [acks, data] = &rows.connections[0].sides;
    assert_eq!((acks.pure_acks, acks.duplicate_acks), (5, 0));
    assert_eq!((data.packets, data.unseen_bytes, data.flight_max), (0, 4_000, 0));
}

#[test]
fn acknowledged_data_that_was_not_captured_is_unseen_and_nothing_else() {
    let packets = [
        a(START, 1_001, MSS),
        a(START + 1_000, 3_001, MSS),
        b(START + RTT, 4_001),
        b(START + RTT + 1_000, 6_001),
        a(START + RTT + 2_000, 6_001, MSS),
    ];
    let (connection, _) = talk(1_000, &packets);
    let side = &connection.sides[0];
    assert_eq!((side.unseen_bytes, side.out_of_order, side.retransmissions.total), (3_000, 0, 0));
    assert_eq!(side.unique_bytes, 3_000);
}

#[test]
fn a_capture_that_begins_in_the_middle_misses_nothing_before_it() {
    let packets =
        [packet(0, From::B, 5_001, 1_001, 0), a(MS, 9_001, MSS), b(5 * MS, 4_001), b(RTT + MS, 10_001)];
    let rows = analysed(&packets);
    let connection = &rows.connections[0];
    let data = &connection.sides[1];
    assert_eq!((connection.begin, data.unseen_bytes, data.unique_bytes), (Begin::Middle, 0, 1_000));
    assert_eq!((data.rtt.count, data.rtt.min_ns), (1, 20_000_000));
}

#[test]
fn over_long_packets_of_a_segmenting_card_are_taken_whole() {
    let packets = [a(START, 1_001, 40 * MSS), b(START + RTT, 21_001), b(START + RTT + 1_000, 41_001)];
    let (connection, _) = talk(1_000, &packets);
    let side = &connection.sides[0];
    assert_eq!((side.unique_bytes, side.payload_max, side.flight_max), (40_000, 40_000, 40_000));
    assert_eq!((side.rtt.count, connection.place), (1, Place::AtA));
}

#[test]
fn a_clock_that_goes_backwards_is_counted_and_makes_no_huge_times() {
    let packets = [a(START, 1_001, MSS), b(10 * MS, 2_001), a(START + MS, 2_001, MSS)];
    let all = [&handshake(1_000)[..], &packets].concat();
    let (rows, counts) = counted(Options::default(), &all);
    assert_consistent(&rows);
    let connection = &rows.connections[0];
    assert_eq!(counts.backwards, 1);
    assert_eq!((connection.first_ns, connection.last_ns), (0, START + MS));
    assert_eq!((connection.sides[0].rtt.max_ns, connection.idle_max_ns), (0, 20_000_000));
}

#[test]
fn the_place_follows_from_who_answers_at_once() {
    for (to_b, to_a, place) in
        [(RTT, 20_000, Place::AtA), (20_000, RTT, Place::AtB), (RTT, RTT, Place::Between)]
    {
        let packets = [
            packet(0, From::A, 1_000, 0, 0).flags(SYN),
            packet(to_b, From::B, 5_000, 1_001, 0).flags(SYN | ACK),
            packet(to_b + to_a, From::A, 1_001, 5_001, 0),
        ];
        assert_eq!(analysed(&packets).connections[0].place, place);
    }
}
