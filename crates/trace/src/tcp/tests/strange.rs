//! What does not belong: answers to older connections, forged ends, gaps of the capture.

use super::*;

const START: i64 = 30 * MS;
const GIB: u32 = 1 << 30;

fn syn(time_ns: i64) -> Made {
    packet(time_ns, From::A, 1_000, 0, 0).flags(SYN)
}

/// A handshake of these numbers and a segment that is acknowledged, from `time_ns` on.
fn opened(time_ns: i64) -> Vec<Made> {
    let at = |made: Made| Made { time_ns: made.time_ns + time_ns, ..made };
    let rest = [a(START, 1_001, MSS), b(START + RTT, 2_001)];
    handshake(1_000).into_iter().chain(rest).map(at).collect()
}

#[test]
fn an_ack_that_answers_an_older_connection_is_not_believed() {
    for stale in [500_000_000_u32, 900, 3_000_000_000] {
        let challenge = packet(MS, From::B, 7_777, stale, 0);
        let packets = [vec![syn(0), challenge], opened(1_000 * MS)].concat();
        let (rows, counts) = counted(Options::default(), &packets);
        assert_consistent(&rows);
        assert_eq!((rows.connections.len(), counts.impossible_acks), (1, 1), "{stale}");
        let connection = &rows.connections[0];
        let [a, b] = &connection.sides;
        assert_eq!((a.unseen_bytes, b.unseen_bytes, a.unique_bytes), (0, 0, 1_000), "{stale}");
        assert_eq!((a.retransmissions.total, a.retransmissions.handshake), (1, 1), "{stale}");
        assert_eq!((a.rtt.count, connection.handshake_ns.1), (1, Some(10_000)), "{stale}");
    }
}

/// RFC 9293 section 3.5.1: the other end has an older connection in mind, and a RST ends that one.
#[test]
fn a_half_open_connection_that_is_discovered_does_not_end_the_new_one() {
    let stale = packet(MS, From::B, 7_777, 500_000, 0).window(1);
    let rst = packet(2 * MS, From::A, 500_000, 0, 0).flags(RST);
    let first = vec![syn(0), stale, rst];
    let rows = analysed(&first);
    assert_eq!((rows.connections[0].begin, rows.connections[0].end), (Begin::Syn, End::Open));
    let rows = analysed(&[first, opened(3_000 * MS)].concat());
    assert_consistent(&rows);
    assert_eq!(rows.connections.len(), 1);
    let connection = &rows.connections[0];
    let [a, b] = &connection.sides;
    assert_eq!((connection.begin, connection.end), (Begin::Handshake, End::Open));
    assert_eq!((a.syns, a.retransmissions.handshake, a.unique_bytes), (2, 1, 1_000));
    // What the other end said of its older connection is not of this one.
    assert_eq!(b.window, Some((60_000, 60_000)));
}

/// RFC 9293 section 3.10.7.3: as long as there is no SYN of the other end, a RST must acknowledge that of this one.
#[test]
fn a_rst_that_does_not_acknowledge_the_syn_refuses_nothing() {
    for (flags, ack, end) in [
        (RST | ACK, 1_001, End::Reset),
        (RST | ACK, 1_000, End::Open),
        (RST | ACK, 500_000, End::Open),
        (RST, 0, End::Open),
    ] {
        let rst = packet(MS, From::B, 0, ack, 0).flags(flags);
        let rows = analysed(&[syn(0), rst.clone()]);
        assert_eq!((rows.connections[0].begin, rows.connections[0].end), (Begin::Syn, end), "{ack}");
        let rows = analysed(&[vec![syn(0), rst], opened(1_000 * MS)].concat());
        assert_consistent(&rows);
        assert_eq!(rows.connections.len(), if end == End::Reset { 2 } else { 1 }, "{ack}");
    }
}

#[test]
fn a_syn_ack_behind_a_refusal_of_the_same_syn_opens_nothing_new() {
    let refusal = packet(MS, From::B, 0, 1_001, 0).flags(RST | ACK);
    let answer = packet(2 * MS, From::B, 5_000, 1_001, 0).flags(SYN | ACK);
    let rst = packet(3 * MS, From::A, 1_001, 0, 0).flags(RST);
    let rows = analysed(&[syn(0), refusal, answer, rst]);
    assert_consistent(&rows);
    let ends: Vec<_> = rows.connections.iter().map(|c| (c.begin, c.end)).collect();
    assert_eq!(ends, [(Begin::Handshake, End::Reset)]);
}

#[test]
fn a_syn_ack_that_answers_another_syn_is_not_believed() {
    let foreign = packet(MS, From::B, 9_000_000, 500_000, 0).flags(SYN | ACK);
    let (rows, counts) = counted(Options::default(), &[vec![syn(0), foreign], opened(1_000 * MS)].concat());
    assert_consistent(&rows);
    assert_eq!((rows.connections.len(), counts.impossible_acks), (1, 1));
    let [a, b] = &rows.connections[0].sides;
    assert_eq!((a.unique_bytes, a.unseen_bytes, a.rtt.count), (1_000, 0, 1));
    assert_eq!((b.syns, b.unseen_bytes, b.retransmissions.total), (2, 0, 0));
}

#[test]
fn a_syn_behind_a_rst_of_the_same_end_begins_anew() {
    let answer = packet(MS, From::B, 5_000, 1_001, 0).flags(SYN | ACK);
    let rst = packet(2 * MS, From::A, 1_001, 0, 0).flags(RST);
    let rows = analysed(&[vec![syn(0), answer, rst], opened(1_000 * MS)].concat());
    assert_consistent(&rows);
    let ends: Vec<_> = rows.connections.iter().map(|c| (c.begin, c.end)).collect();
    assert_eq!(ends, [(Begin::Handshake, End::Reset), (Begin::Handshake, End::Open)]);
    assert_eq!(rows.connections[1].sides[0].unique_bytes, 1_000);
}

#[test]
fn a_syn_behind_its_own_ack_still_counts_as_0() {
    let mut packets = handshake(1_000);
    packets.swap(0, 2);
    packets.push(a(START, 1_001, MSS));
    let rows = analysed(&packets);
    assert_consistent(&rows);
    assert_eq!(rows.connections.len(), 1);
    assert_eq!(rows.segments.last().map(|row| row.seq), Some(1));
}

#[test]
fn data_behind_a_gap_of_gigabytes_is_new() {
    for gap in [GIB / 2, 2 * GIB + 7, 3 * GIB - 7] {
        let behind = 2_001_u32.wrapping_add(gap);
        let packets = [
            a(START, 1_001, MSS),
            b(START + RTT, 2_001),
            a(START + 100 * MS, behind, MSS),
            b(START + 120 * MS, behind.wrapping_add(MSS)),
            a(START + 130 * MS, behind.wrapping_add(MSS), MSS),
            b(START + 150 * MS, behind.wrapping_add(2 * MSS)),
        ];
        let (connection, _) = talk(1_000, &packets);
        let side = &connection.sides[0];
        assert_eq!((side.unique_bytes, side.retransmissions.total, side.rtt.count), (3_000, 0, 3), "{gap}");
        assert_eq!(side.unseen_bytes, u64::from(gap), "{gap}");
        assert!(side.flight_max <= 1 << 30, "{gap}");
    }
}

#[test]
fn acks_alone_go_on_behind_a_gap_of_gigabytes() {
    for gap in [2 * GIB - 500_000_000, 2 * GIB + 500_000_000] {
        let mut packets: Vec<_> = (0..5).map(|n| b(i64::from(n) * MS, 1_000 + n * MSS)).collect();
        packets.extend((5..15).map(|n| b(i64::from(n) * MS, (1_000 + n * MSS).wrapping_add(gap))));
        let (rows, counts) = counted(Options::default(), &packets);
        assert_consistent(&rows);
        assert_eq!(counts.impossible_acks, 3, "{gap}");
        assert_eq!(rows.connections[0].sides[1].unseen_bytes, 14_000 + u64::from(gap), "{gap}");
    }
}

#[test]
fn the_same_impossible_ack_again_and_again_is_not_believed() {
    let packets: Vec<_> = (0..9).map(|n| b(START + n * MS, 2_000_000_000)).collect();
    let (connection, _) = talk(1_000, &packets);
    assert_eq!(connection.sides[0].unseen_bytes, 0);
}

#[test]
fn ports_used_again_are_told_by_the_answer_alone() {
    let transfer = |time_ns: i64, isn: u32, asked: u32| {
        let from_b = |time_ns, seq: u32, payload| packet(time_ns, From::B, seq, asked, payload);
        let mut packets = vec![from_b(time_ns, isn, 0).flags(SYN | ACK)];
        packets.extend((0..5).map(|n| from_b(time_ns + i64::from(n), isn + 1 + n * MSS, MSS)));
        packets.push(from_b(time_ns + MS, isn + 5_001, 0).flags(FIN | ACK));
        packets
    };
    for cut in [0, 1] {
        let mut first = transfer(0, 1_000, 7);
        first.truncate(first.len() - cut);
        let rows = analysed(&[first, transfer(30_000 * MS, 900_000_000, 77)].concat());
        assert_consistent(&rows);
        let bytes: Vec<_> = rows.connections.iter().map(|c| c.sides[1].unique_bytes).collect();
        assert_eq!(bytes, [5_000, 5_000], "{cut}");
        assert_eq!(rows.connections[1].sides[1].retransmissions.total, 0);
    }
}

#[test]
fn of_one_direction_a_fin_is_the_end() {
    let mut packets: Vec<_> = (0..5).map(|n| a(i64::from(n) * MS, 1_001 + n * MSS, MSS)).collect();
    packets.push(a(5 * MS, 6_001, 0).flags(FIN | ACK));
    let mut analyzer = Analyzer::new(Options::default(), Rows::default());
    for made in &packets {
        put(&mut analyzer, made);
    }
    put(&mut analyzer, &Made { ports: (9, 9), ..a(250_000 * MS, 1, 1) });
    let ends: Vec<_> = analyzer.sink().connections.iter().map(|c| c.end).collect();
    assert_eq!(ends, [End::HalfClosed]);
}

#[test]
fn a_rst_far_outside_of_the_window_is_not_believed() {
    let rst = packet(START, From::B, 5_001 + 99_999_999, 0, 0).flags(RST);
    let later = [a(START + 10_000 * MS, 1_001, MSS), b(START + 10_020 * MS, 2_001)];
    let (connection, _) = talk(1_000, &[vec![a(START - MS, 1_001, 0), rst], later.to_vec()].concat());
    assert_eq!((connection.end, connection.sides[1].resets), (End::Open, 1));
}

#[test]
fn a_rst_behind_which_data_is_acknowledged_ended_nothing() {
    let rst = packet(START, From::B, 5_001, 0, 0).flags(RST);
    let heard = [a(START + MS, 1_001, MSS), b(START + 21 * MS, 2_001)];
    let (connection, _) = talk(1_000, &[vec![rst.clone()], heard.to_vec()].concat());
    assert_eq!(connection.end, End::Open);
    // What was sent before it may be acknowledged by an ACK that crosses it.
    let crossing = [a(START - MS, 1_001, MSS), rst, b(START + MS, 2_001)];
    let (connection, _) = talk(1_000, &crossing);
    assert_eq!(connection.end, End::Reset);
}
