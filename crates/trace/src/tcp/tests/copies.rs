//! Copies made on the way, probes, and what must not be taken for either.

use super::*;

const START: i64 = 30 * MS;

/// Every packet twice, as a port that mirrors both directions gives them.
fn mirrored(packets: &[Made]) -> Vec<Made> {
    let twice = |made: &Made| [made.clone(), Made { time_ns: made.time_ns + 1_000, ..made.clone() }];
    packets.iter().flat_map(twice).collect()
}

#[test]
fn copies_of_the_handshake_leave_its_times_alone() {
    for ip_id in [0, 7] {
        let mut packets: Vec<_> = handshake(1_000).into_iter().map(|made| made.ip_id(ip_id)).collect();
        if ip_id == 0 {
            // Without an identification an ACK cannot be told from the next one.
            packets = [mirrored(&packets[..2]), packets[2..].to_vec()].concat();
        } else {
            packets = mirrored(&packets);
        }
        let rows = analysed(&packets);
        assert_consistent(&rows);
        let connection = &rows.connections[0];
        assert_eq!(connection.handshake_ns, (Some(20_000_000), Some(10_000)), "{ip_id}");
        let copies = connection.sides.iter().map(|side| side.copies).sum::<u64>();
        assert_eq!(copies, packets.len() as u64 - 3, "{ip_id}");
        assert!(connection.sides.iter().all(|side| side.retransmissions.total == 0), "{ip_id}");
    }
}

#[test]
fn copies_of_duplicate_acks_ask_for_nothing_and_do_not_hide_a_counter() {
    let mut packets: Vec<_> = (0..20_u16)
        .map(|n| a(START + i64::from(n), 1_001 + u32::from(n) * MSS, MSS).ip_id(100 + n))
        .collect();
    let last = START + 20 * MS;
    packets.push(b(last, 21_001).ip_id(1));
    // Two packets overtake one, and each makes a duplicate ACK.
    packets.push(a(last + MS, 22_001, MSS).ip_id(121));
    packets.push(b(last + MS + 1_000_000, 21_001).ip_id(2));
    packets.push(a(last + 3 * MS, 23_001, MSS).ip_id(122));
    packets.push(b(last + 4 * MS, 21_001).ip_id(3));
    packets.push(a(last + 5 * MS, 21_001, MSS).ip_id(120));
    let (connection, _) = talk(1_000, &mirrored(&packets));
    let [a, b] = &connection.sides;
    assert_eq!((a.out_of_order, a.retransmissions.total, a.unique_bytes), (1, 0, 23_000));
    assert_eq!((b.duplicate_acks, b.copies), (2, 3));
}

#[test]
fn copies_that_come_behind_many_other_packets_are_copies() {
    let mut packets = Vec::new();
    for burst in 0..5_u32 {
        let at = |n: u32| START + i64::from(burst) * 10 * MS + i64::from(n) * 1_000;
        let made = |n: u32, time_ns| {
            let sent = 200 * burst + n;
            a(time_ns, 1_001 + sent * 100, 100).ip_id(1 + sent as u16)
        };
        packets.extend((0..200).map(|n| made(n, at(n))));
        // From the second on they come when 100 others have passed.
        let delay = if burst == 0 { 1 } else { 100 };
        packets.extend((0..200).map(|n| made(n, at(n + delay) + 500)));
    }
    packets.sort_by_key(|made| made.time_ns);
    let (connection, _) = talk(1_000, &packets);
    let side = &connection.sides[0];
    assert_eq!((side.copies, side.retransmissions.total, side.unique_bytes), (1_000, 0, 100_000));
}

#[test]
fn where_there_is_too_little_room_few_packets_are_remembered() {
    // A packet that came again, in as many connections as may be remembered twice.
    let of = |port: u16, n: u32| Made { ports: (port, 80), ..a(i64::from(n), 1_001 + n % 2 * 100, 100) };
    let packets: Vec<_> = (0..40).flat_map(|port| (0..4).map(move |n| of(port, n).ip_id(9))).collect();
    let options = Options { max_outstanding: 2_000, ..Options::default() };
    let (rows, counts) = counted(options, &packets);
    assert_eq!((rows.connections.len(), counts.forgotten), (40, 0));
    assert!(rows.connections.iter().all(|c| c.sides[0].copies == 2));
}

#[test]
fn a_report_of_what_came_twice_does_not_ask_for_anything() {
    // DSACKs alone, behind a lost segment at the end of a flight.
    let mut packets = vec![a(START, 1_001, MSS), b(START + RTT, 2_001), a(START + 21 * MS, 2_001, MSS)];
    packets.extend((0..3).map(|n| b(START + (22 + n) * MS, 2_001).sack(&[(1_001, 2_001)])));
    packets.push(a(START + 300 * MS, 2_001, MSS));
    let (connection, _) = talk(1_000, &packets);
    assert_eq!((connection.sides[1].dsacks, connection.sides[0].retransmissions.fast), (3, 0));
}

#[test]
fn a_byte_sent_again_for_a_lost_ack_is_no_keep_alive() {
    let packets = [
        a(START, 1_001, 1),
        b(START + RTT, 1_002),
        a(START + 300 * MS, 1_001, 1),
        b(START + 320 * MS, 1_002).sack(&[(1_001, 1_002)]),
    ];
    let (connection, _) = talk(1_000, &packets);
    let side = &connection.sides[0];
    assert_eq!((side.keep_alives, side.retransmissions.total, side.retransmissions.spurious), (0, 1, 1));
}

#[test]
fn the_report_of_a_keep_alive_is_about_nothing_else() {
    let packets = [
        a(START, 1_001, MSS),
        a(START + 300 * MS, 1_001, MSS),
        b(START + 320 * MS, 2_001),
        a(START + 60_000 * MS, 2_000, 1),
        b(START + 60_020 * MS, 2_001).sack(&[(2_000, 2_001)]),
    ];
    let (connection, _) = talk(1_000, &packets);
    let side = &connection.sides[0];
    assert_eq!((side.keep_alives, side.retransmissions.total, side.retransmissions.spurious), (1, 1, 0));
}

#[test]
fn keep_alives_without_data_are_told_from_the_middle_on_and_before_any_data() {
    let asked = |time_s: i64| [a(time_s * 1_000 * MS, 1_000, 0), b(time_s * 1_000 * MS + RTT, 1_001)];
    let packets: Vec<_> = (1..=10).flat_map(|n| asked(60 * n)).collect();
    let rows = analysed(&packets);
    assert_consistent(&rows);
    // The first one may as well be an ACK.
    assert_eq!((rows.connections[0].sides[0].keep_alives, rows.connections[0].sides[0].unseen_bytes), (9, 0));
    let (connection, _) = talk(1_000, &packets);
    assert_eq!((connection.sides[0].keep_alives, connection.sides[0].unseen_bytes), (10, 0));
}

#[test]
fn a_copied_keep_alive_is_one() {
    let ask = a(START + 60_000 * MS, 2_000, 1).ip_id(9);
    let again = Made { time_ns: ask.time_ns + 1_000, ..ask.clone() };
    let (connection, _) = talk(1_000, &[a(START, 1_001, MSS), b(START + RTT, 2_001), ask, again]);
    assert_eq!((connection.sides[0].keep_alives, connection.sides[0].copies), (1, 1));
}

#[test]
fn the_byte_of_a_probe_counts_with_the_data_behind_it() {
    let packets = [
        a(START, 1_001, MSS),
        b(START + RTT, 2_001).window(0),
        a(START + 300 * MS, 2_001, 1),
        b(START + 320 * MS, 2_002),
        a(START + 321 * MS, 2_002, 500),
    ];
    let (connection, rows) = talk(1_000, &packets);
    let new: Vec<_> = rows.segments.iter().map(|row| row.new_bytes).filter(|bytes| *bytes > 0).collect();
    assert_eq!((new, connection.sides[0].unique_bytes), (vec![1_000, 501], 1_501));
    assert_eq!((connection.sides[0].data_packets, connection.sides[0].data_bytes), (2, 1_501));
}

/// Two recordings of the same packets in one file, that of the receiver `late_ns` behind that of A.
fn merged(packets: &[Made], late_ns: i64) -> Vec<Made> {
    let again = packets.iter().map(|made| Made { time_ns: made.time_ns + late_ns, ..made.clone() });
    let mut all: Vec<_> = packets.iter().cloned().chain(again).collect();
    all.sort_by_key(|made| made.time_ns);
    all
}

/// A download of A to B: a flight of 40 segments per round trip, each packet with the time stamp of its sender.
fn stamped_download(identified: bool) -> Vec<Made> {
    let mut packets = handshake(1_000);
    for round in 0..30_u32 {
        let at = |n: u32| START + i64::from(round) * RTT + i64::from(n) * 10_000;
        for n in 0..40 {
            packets.push(a(at(n), 1_001 + (round * 40 + n) * MSS, MSS));
        }
        packets.push(b(at(40), 1_001 + (round + 1) * 40 * MSS));
    }
    for (number, made) in packets.iter_mut().enumerate() {
        if made.flags & SYN != 0 {
            // Nothing behind "end of options" is read.
            made.options = vec![2, 4, 3, 232, 4, 2, 3, 3, 0, 1, 1, 1];
        }
        let value = 7_000_000 + (made.time_ns / MS) as u32;
        *made = made.clone().timestamps(value, 1).ip_id(if identified { 1 + number as u16 } else { 0 });
    }
    packets
}

#[test]
fn a_capture_merged_from_two_points_has_every_packet_once() {
    for identified in [false, true] {
        let packets = stamped_download(identified);
        for late_ns in [60 * MS, 300 * MS] {
            let rows = analysed(&merged(&packets, late_ns));
            assert_eq!(rows.connections.len(), 1);
            let [a, b] = &rows.connections[0].sides;
            assert_eq!((a.retransmissions.total, a.unique_bytes), (0, 1_200_000), "{identified} {late_ns}");
            // Before the first late copy, few packets without data are remembered.
            assert!((1_200..=1_202).contains(&a.copies), "{identified} {late_ns} {}", a.copies);
            assert!(b.duplicate_acks <= 15, "{identified} {late_ns} {}", b.duplicate_acks);
        }
    }
}

#[test]
fn data_sent_again_with_a_new_time_stamp_is_no_late_copy() {
    let first = a(START, 1_001, MSS).timestamps(100, 1).ip_id(7);
    let next = a(START + MS, 2_001, MSS).timestamps(101, 1).ip_id(8);
    let again = a(START + 300 * MS, 1_001, MSS).timestamps(400, 1).ip_id(9);
    let (connection, _) = talk(1_000, &[first, next, again]);
    let side = &connection.sides[0];
    assert_eq!((side.copies, side.retransmissions.total), (0, 1));
}

#[test]
fn a_router_that_sends_again_with_the_same_identification_makes_no_copies() {
    let sent = |at, id: u16| a(START + at * MS, 2_001 + u32::from(id) * 3, 3).ip_id(100 + id);
    let packets =
        [a(START, 1_001, MSS).ip_id(99), sent(100, 0), sent(200, 1), sent(3_300, 1), sent(9_700, 1)];
    let (connection, _) = talk(1_000, &packets);
    let side = &connection.sides[0];
    assert_eq!((side.copies, side.retransmissions.total), (0, 2));
}

#[test]
fn a_packet_with_the_clock_of_another_host_hides_no_retransmission() {
    // A firewall that asks in the name of A, by its own clock.
    let asked = a(START + MS, 2_001, 0).timestamps(9_000_000, 1).ip_id(7);
    let sent = |at, seq, value, id| a(START + at * MS, seq, MSS).timestamps(value, 1).ip_id(id);
    let packets = [sent(0, 1_001, 100, 8), asked, sent(2, 2_001, 102, 9), sent(300, 1_001, 400, 10)];
    let (connection, _) = talk(1_000, &packets);
    let side = &connection.sides[0];
    assert_eq!((side.copies, side.retransmissions.total), (0, 1));
}
