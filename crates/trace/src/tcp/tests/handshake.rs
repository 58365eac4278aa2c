//! How connections begin and end.

use super::*;

#[test]
fn the_handshake_tells_options_times_and_place() {
    let packets = [packet(31 * MS, From::A, 1_001, 5_001, 100)];
    let (connection, rows) = talk(1_000, &packets);
    assert_eq!((connection.begin, connection.end), (Begin::Handshake, End::Open));
    assert_eq!(connection.handshake_ns, (Some(20_000_000), Some(10_000)));
    assert_eq!(connection.place, Place::AtA);
    let options = SynOptions { mss: Some(1_000), window_scale: Some(0), sack: true, timestamps: false };
    assert_eq!([connection.sides[0].options, connection.sides[1].options], [Some(options); 2]);
    let numbers: Vec<_> = rows.segments.iter().map(|row| (row.seq, row.ack)).collect();
    assert_eq!(numbers, [(0, 0), (0, 1), (1, 1), (1, 1)]);
}

#[test]
fn windows_are_scaled_if_both_ends_offer_it() {
    let scale = [3, 3, 7, 0];
    for (other, expected) in [(&scale[..], 128_000), (&[][..], 1_000)] {
        let packets = [
            packet(0, From::A, 1_000, 0, 0).flags(SYN).options(&scale).window(65_535),
            packet(MS, From::B, 5_000, 1_001, 0).flags(SYN | ACK).options(other).window(65_535),
            packet(2 * MS, From::A, 1_001, 5_001, 0).window(1_000),
        ];
        let rows = analysed(&packets);
        assert_eq!(rows.connections[0].sides[0].window, Some((expected, expected)));
        assert_eq!(rows.segments[0].window_bytes, 65_535);
    }
}

#[test]
fn of_options_that_the_capture_cut_off_nothing_is_known() {
    let scale = [2, 4, 3, 232, 1, 3, 3, 7];
    let packets = [
        packet(0, From::A, 1_000, 0, 0).flags(SYN).options(&scale).cut_to(24),
        packet(MS, From::B, 5_000, 1_001, 0).flags(SYN | ACK).options(&scale).window(1_000),
        packet(2 * MS, From::A, 1_001, 5_001, 0).window(1_000),
        packet(3 * MS, From::B, 5_001, 1_001, 0).window(1_000),
        packet(4 * MS, From::A, 1_001, 5_001, 1_000).window(1_000),
    ];
    let rows = analysed(&packets);
    let [a, b] = &rows.connections[0].sides;
    assert_eq!((a.options, b.options.and_then(|o| o.window_scale)), (None, Some(7)));
    // As on the wire, and so whether it was filled is not told.
    assert_eq!((b.window, b.window_full), (Some((1_000, 1_000)), 0));
}

#[test]
fn syns_sent_again_are_counted_and_spoil_the_time_of_the_handshake() {
    let syn = |time_ns| packet(time_ns, From::A, 1_000, 0, 0).flags(SYN);
    let mut packets = vec![syn(0), syn(1_000 * MS), syn(3_000 * MS)];
    let alone = analysed(&packets);
    assert_consistent(&alone);
    assert_eq!((alone.connections[0].begin, alone.connections[0].end), (Begin::Syn, End::Open));
    assert_eq!(alone.connections[0].sides[0].idle_max_ns, 2_000_000_000);
    packets.push(packet(3_020 * MS, From::B, 5_000, 1_001, 0).flags(SYN | ACK));
    packets.push(packet(3_021 * MS, From::A, 1_001, 5_001, 0));
    let rows = analysed(&packets);
    assert_consistent(&rows);
    let connection = &rows.connections[0];
    assert_eq!((connection.sides[0].syns, connection.sides[0].retransmissions.handshake), (3, 2));
    assert_eq!(connection.handshake_ns, (None, Some(1_000_000)));
    assert_eq!(connection.begin, Begin::Handshake);
}

#[test]
fn a_syn_ack_sent_again_is_counted_for_its_sender() {
    let syn_ack = |time_ns| packet(time_ns, From::B, 5_000, 1_001, 0).flags(SYN | ACK);
    let packets = [packet(0, From::A, 1_000, 0, 0).flags(SYN), syn_ack(MS), syn_ack(1_001 * MS)];
    let rows = analysed(&packets);
    assert_consistent(&rows);
    assert_eq!(rows.connections[0].sides[1].retransmissions.handshake, 1);
    assert_eq!(rows.connections[0].handshake_ns, (Some(1_000_000), None));
}

#[test]
fn both_ends_may_open_at_the_same_time() {
    let packets = [
        packet(0, From::A, 1_000, 0, 0).flags(SYN),
        packet(MS, From::B, 5_000, 0, 0).flags(SYN),
        packet(2 * MS, From::A, 1_000, 5_001, 0).flags(SYN | ACK),
        packet(3 * MS, From::B, 5_000, 1_001, 0).flags(SYN | ACK),
        packet(4 * MS, From::A, 1_001, 5_001, 50),
    ];
    let rows = analysed(&packets);
    assert_consistent(&rows);
    assert_eq!(rows.connections.len(), 1);
    assert_eq!(rows.connections[0].begin, Begin::Handshake);
    assert_eq!(rows.connections[0].sides[0].unique_bytes, 50);
}

#[test]
fn data_in_a_syn_counts_behind_its_number() {
    let packets = [
        packet(0, From::A, 1_000, 0, 100).flags(SYN),
        packet(RTT, From::B, 5_000, 1_101, 0).flags(SYN | ACK),
        packet(RTT + 1_000, From::A, 1_101, 5_001, 50),
    ];
    let rows = analysed(&packets);
    assert_consistent(&rows);
    let side = &rows.connections[0].sides[0];
    assert_eq!((side.unique_bytes, side.unseen_bytes, side.retransmissions.total), (150, 0, 0));
    assert_eq!(side.rtt.count, 1);
}

#[test]
fn ports_used_again_make_a_new_connection() {
    let again: Vec<_> = handshake(900_000)
        .into_iter()
        .map(|made| Made { time_ns: made.time_ns + 1_000 * MS, ..made })
        .collect();
    let rows = analysed(&[handshake(1_000), again].concat());
    assert_consistent(&rows);
    let ends: Vec<_> = rows.connections.iter().map(|c| (c.id, c.end)).collect();
    assert_eq!(ends, [(0, End::Replaced), (1, End::Open)]);
}

#[test]
fn a_reset_ends_a_connection_and_its_data_is_none() {
    let rst = packet(40 * MS, From::B, 5_001, 1_001, 12).flags(RST | ACK);
    let (connection, rows) = talk(1_000, &[rst]);
    assert_eq!((connection.end, connection.sides[1].resets), (End::Reset, 1));
    assert_eq!((connection.sides[1].data_bytes, connection.sides[1].unique_bytes), (0, 0));
    assert_eq!(rows.segments[3].meaning, Meaning::Reset);
}

#[test]
fn a_refused_syn_was_answered_by_nobody() {
    let packets =
        [packet(0, From::A, 1_000, 0, 0).flags(SYN), packet(MS, From::B, 0, 1_001, 0).flags(RST | ACK)];
    let rows = analysed(&packets);
    assert_eq!((rows.connections[0].begin, rows.connections[0].end), (Begin::Syn, End::Reset));
}

#[test]
fn a_handshake_without_its_answer_is_half_of_one() {
    let mut packets = handshake(1_000);
    packets.remove(1);
    let rows = analysed(&packets);
    assert_eq!(rows.connections[0].begin, Begin::HalfHandshake);
}

#[test]
fn a_syn_retried_after_a_refusal_opens_a_new_connection_with_its_own_options() {
    let scale = [3, 3, 7, 0];
    let syn = |time_ns| packet(time_ns, From::A, 1_000, 0, 0).flags(SYN).options(&scale).ip_id(7);
    let refusal = |time_ns| packet(time_ns, From::B, 0, 1_001, 0).flags(RST | ACK);
    let packets = [
        // Each packet twice, as a mirror gives them.
        syn(0),
        refusal(MS),
        syn(MS + 100_000),
        refusal(MS + 200_000),
        Made { ip_id: 8, ..syn(500 * MS) },
        packet(501 * MS, From::B, 5_000, 1_001, 0).flags(SYN | ACK).options(&scale),
        packet(502 * MS, From::A, 1_001, 5_001, 0).window(1_000),
    ];
    let rows = analysed(&packets);
    assert_consistent(&rows);
    let ends: Vec<_> = rows.connections.iter().map(|c| (c.begin, c.end)).collect();
    assert_eq!(ends, [(Begin::Syn, End::Reset), (Begin::Handshake, End::Open)]);
    let [refused, opened] = [0, 1].map(|at: usize| &rows.connections[at].sides[0]);
    assert_eq!((refused.syns, refused.copies, refused.retransmissions.total), (2, 1, 0));
    assert_eq!((opened.syns, opened.window), (1, Some((128_000, 128_000))));
}

#[test]
fn of_two_syn_acks_that_differ_the_one_acknowledged_counts() {
    let syn_ack = |time_ns, isn| packet(time_ns, From::B, isn, 1_001, 0).flags(SYN | ACK);
    for (counts, other) in [(5_000, 16_000_000), (16_000_000, 5_000)] {
        let (first, second) = (counts.min(5_000), counts.max(16_000_000).max(other));
        let packets = [
            packet(0, From::A, 1_000, 0, 0).flags(SYN),
            syn_ack(MS, first),
            syn_ack(2 * MS, second),
            packet(3 * MS, From::A, 1_001, counts + 1, 600),
            packet(4 * MS, From::B, counts + 1, 1_601, 206),
            packet(5 * MS, From::A, 1_601, counts + 207, 0),
        ];
        let rows = analysed(&packets);
        assert_consistent(&rows);
        assert_eq!(rows.connections.len(), 1, "{counts}");
        let b = &rows.connections[0].sides[1];
        assert_eq!((b.unique_bytes, b.unseen_bytes, b.flight_max), (206, 0, 206), "{counts}");
        assert_eq!((b.retransmissions.total, b.retransmissions.handshake), (1, 1), "{counts}");
        // The same without A's direction.
        let alone: Vec<_> = packets.into_iter().filter(|made| made.from == From::B).collect();
        let b = &analysed(&alone).connections[0].sides[1];
        assert_eq!((b.unique_bytes, b.unseen_bytes), (206, 0), "{counts}");
    }
}

#[test]
fn a_fin_repeated_after_a_minute_belongs_to_its_connection() {
    let fin = |seconds: i64| packet(seconds * 1_000 * MS, From::A, 1_001, 5_001, 0).flags(FIN | ACK);
    // Of one direction alone, and of both.
    for heard in [false, true] {
        let mut packets = vec![fin(1), fin(9), fin(73), fin(193)];
        if heard {
            packets.insert(1, packet(2_000 * MS, From::B, 5_001, 1_002, 0).flags(FIN | ACK));
        }
        let (connection, _) = talk(1_000, &packets);
        assert_eq!((connection.sides[0].fins, connection.sides[0].retransmissions.total), (4, 3), "{heard}");
    }
}

#[test]
fn data_repeated_long_after_a_reset_belongs_to_its_connection() {
    let rst = packet(40 * MS, From::B, 5_001, 1_001, 0).flags(RST | ACK);
    let (connection, _) = talk(1_000, &[a(30 * MS, 1_001, MSS), rst, a(20_000 * MS, 1_001, MSS)]);
    assert_eq!((connection.end, connection.sides[0].retransmissions.total), (End::Reset, 1));
}

#[test]
fn two_fins_close_and_late_packets_still_belong_to_it() {
    let fin = |time_ns, from, seq, ack| packet(time_ns, from, seq, ack, 0).flags(FIN | ACK);
    let packets = [
        fin(40 * MS, From::A, 1_001, 5_001),
        fin(60 * MS, From::B, 5_001, 1_002),
        packet(61 * MS, From::A, 1_002, 5_002, 0),
    ];
    let (connection, _) = talk(1_000, &packets);
    assert_eq!((connection.end, connection.sides[0].packets), (End::Closed, 4));
}

#[test]
fn a_capture_that_begins_with_the_answer_knows_who_asked() {
    let rows = analysed(&handshake(1_000)[1..]);
    let connection = &rows.connections[0];
    assert_eq!((connection.a.port, connection.b.port), (40_000, 80));
    assert_eq!((connection.begin, connection.handshake_ns.0), (Begin::HalfHandshake, None));
}
