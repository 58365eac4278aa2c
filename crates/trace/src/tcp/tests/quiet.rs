//! Packets without new data: probes, windows, ACKs.

use super::*;

const START: i64 = 30 * MS;

/// One segment of A, acknowledged with this window.
fn one(window: u16) -> Vec<Made> {
    vec![a(START, 1_001, MSS), b(START + RTT, 2_001).window(window)]
}

#[test]
fn a_closed_window_and_its_probes_are_told() {
    let mut packets = one(0);
    // As Linux probes, and as BSD does: the byte before, and the byte after the window.
    packets.push(a(START + 300 * MS, 2_000, 0));
    packets.push(b(START + 320 * MS, 2_001).window(0));
    packets.push(a(START + 700 * MS, 2_001, 1));
    packets.push(b(START + 720 * MS, 2_001).window(0));
    packets.push(a(START + 1_500 * MS, 2_001, 1));
    packets.push(b(START + 1_520 * MS, 2_002).window(60_000));
    packets.push(a(START + 1_521 * MS, 2_002, 500));
    let (connection, _) = talk(1_000, &packets);
    let [a, b] = &connection.sides;
    assert_eq!((a.window_probes, a.keep_alives, a.retransmissions.total), (3, 0, 0));
    assert_eq!((b.zero_windows, b.zero_window_ns, b.shut_ns), (1, 1_500_000_000, 0));
    assert_eq!((a.unique_bytes, a.unseen_bytes), (1_501, 0));
    assert_eq!(b.window, Some((0, 60_000)));
}

#[test]
fn probes_of_a_window_that_closed_before_the_capture_are_no_retransmissions() {
    let probe =
        |time_s: i64| [a(time_s * 1_000 * MS, 2_001, 1), b(time_s * 1_000 * MS + RTT, 2_001).window(0)];
    let packets: Vec<_> = [1, 7, 18, 38].into_iter().flat_map(probe).collect();
    let rows = analysed(&packets);
    assert_consistent(&rows);
    let [a, b] = &rows.connections[0].sides;
    // The first one may as well be data.
    assert_eq!((a.window_probes, a.keep_alives, a.retransmissions.total), (3, 0, 0));
    assert_eq!(b.zero_window_ns, 37_000_000_000);
}

#[test]
fn a_window_that_stays_closed_counts_to_the_end() {
    let mut packets = one(0);
    packets.push(a(START + 520 * MS, 2_000, 0));
    let (connection, _) = talk(1_000, &packets);
    assert_eq!(connection.sides[1].zero_window_ns, 500_000_000);
    assert_eq!(connection.sides[1].shut_ns, 500_000_000);
}

#[test]
fn an_end_that_thinks_before_it_answers_is_told_from_the_path() {
    let answer = |at_ms: i64, seq, ack| packet(START + at_ms * MS, From::B, seq, ack, 300);
    let asks = |at_ms: i64, seq, ack| packet(START + at_ms * MS, From::A, seq, ack, 200);
    let (connection, _) = talk(
        1_000,
        &[
            a(START, 1_001, 200),
            b(START + RTT, 1_201),
            answer(520, 5_001, 1_201),
            // More of the same, and the next question, asked again as no ACK came.
            answer(521, 5_301, 1_201),
            asks(821, 1_201, 5_601),
            asks(1_121, 1_201, 5_601),
            answer(1_221, 5_601, 1_401),
            asks(1_222, 1_401, 5_901),
        ],
    );
    let of = |side: &Side| (side.answers, side.answers_ns / 1_000_000, side.answer_max_ns / 1_000_000);
    assert_eq!((of(&connection.sides[0]), of(&connection.sides[1])), ((2, 300, 299), (2, 580, 500)));
}

#[test]
fn keep_alives_are_no_retransmissions() {
    let mut packets = one(60_000);
    packets.push(a(START + 60_000 * MS, 2_000, 0));
    packets.push(b(START + 60_020 * MS, 2_001));
    packets.push(a(START + 120_000 * MS, 2_000, 1));
    packets.push(b(START + 120_020 * MS, 2_001));
    let (connection, _) = talk(1_000, &packets);
    let [a, b] = &connection.sides;
    assert_eq!((a.keep_alives, a.retransmissions.total, b.duplicate_acks), (2, 0, 0));
    assert_eq!((a.unique_bytes, a.data_bytes, a.data_ns), (1_000, 1_000, Some((START, START))));
    assert_eq!(connection.idle_max_ns, 59_980_000_000);
}

#[test]
fn keep_alives_of_both_ends_at_the_same_time_are_no_time_outs() {
    let data_of_b = Made { payload: 1_000, ..b(START + RTT, 2_001) };
    let mut packets = vec![a(START, 1_001, MSS), data_of_b];
    packets.push(packet(START + RTT + MS, From::A, 2_001, 6_001, 0));
    for n in 1..=3 {
        let at = START + n * 30_000 * MS;
        let of = |after, from, seq, ack, payload| packet(at + after, from, seq, ack, payload);
        packets.push(of(0, From::B, 6_000, 2_001, 1));
        packets.push(of(MS, From::A, 2_001, 6_001, 0));
        packets.push(of(2 * MS, From::A, 2_000, 6_001, (n % 2) as u32));
        packets.push(of(RTT, From::B, 6_001, 2_001, 0));
    }
    let (connection, _) = talk(1_000, &packets);
    for side in &connection.sides {
        assert_eq!((side.keep_alives, side.retransmissions.total, side.unique_bytes), (3, 0, 1_000));
    }
}

#[test]
fn only_an_ack_that_changes_nothing_while_data_is_out_is_a_duplicate() {
    let out = a(START + 30 * MS, 2_001, MSS);
    let again = b(START + 51 * MS, 2_001);
    let with_data = Made { payload: 5, ..again.clone() };
    let cases = [
        ("as RFC 5681 says", vec![out.clone(), again.clone()], 1),
        ("a window update", vec![out.clone(), again.clone().window(50_000)], 0),
        ("with data", vec![out.clone(), with_data], 0),
        ("nothing outstanding", vec![again.clone()], 0),
        ("with FIN", vec![out, again.flags(ACK | FIN)], 0),
    ];
    for (name, rest, expected) in cases {
        let (connection, _) = talk(1_000, &[one(60_000), rest].concat());
        assert_eq!(connection.sides[1].duplicate_acks, expected, "{name}");
    }
}

#[test]
fn a_pure_ack_that_came_twice_on_the_way_is_a_copy() {
    let ack = |time_ns| b(time_ns, 1_001).ip_id(9);
    // The first of them repeats the ACK of the SYN/ACK.
    let packets = [a(START, 1_001, MSS), ack(START + 1_000), ack(START + 3_000)];
    let (connection, _) = talk(1_000, &packets);
    assert_eq!((connection.sides[1].copies, connection.sides[1].duplicate_acks), (1, 1));
    assert_eq!(connection.sides[1].pure_acks, 2);
}

#[test]
fn filling_the_window_counts_once_each_time() {
    let mut packets = one(2_000);
    packets.push(a(START + 21 * MS, 2_001, MSS));
    packets.push(a(START + 22 * MS, 3_001, MSS));
    packets.push(b(START + 50 * MS, 4_001).window(2_000));
    packets.push(a(START + 51 * MS, 4_001, 500));
    let (connection, _) = talk(1_000, &packets);
    assert_eq!(connection.sides[1].window_full, 1);
}

#[test]
fn congestion_marks_are_counted() {
    let marked = Made { ecn: 3, ..a(START, 1_001, MSS) };
    let (connection, _) = talk(1_000, &[marked, a(START + 1, 2_001, MSS)]);
    assert_eq!(connection.sides[0].congestion_marks, 1);
}

#[test]
fn a_full_segment_that_a_closed_window_refuses_is_a_probe_when_it_comes_again() {
    let mut packets = one(0);
    for (n, after_ms) in [300, 700, 1_500, 3_100].into_iter().enumerate() {
        let opens = n == 3;
        packets.push(a(START + after_ms * MS, 2_001, MSS));
        let answer = b(START + after_ms * MS + RTT, if opens { 3_001 } else { 2_001 });
        packets.push(answer.window(if opens { 60_000 } else { 0 }));
    }
    packets.push(a(START + 3_130 * MS, 3_001, 500));
    let (connection, rows) = talk(1_000, &packets);
    let [a, _] = &connection.sides;
    assert_eq!((a.window_probes, a.retransmissions.total, a.keep_alives), (3, 0, 0));
    assert_eq!((a.unique_bytes, a.unseen_bytes), (2_500, 0));
    // The answer that took it says nothing about the way.
    assert!(rows.rtts.iter().all(|row| row.rtt_ns < RTT as u64 + 30 * MS as u64), "{:?}", rows.rtts);
}

#[test]
fn a_segment_that_is_lost_within_an_open_window_is_no_probe() {
    let mut packets = one(60_000);
    packets.push(a(START + 300 * MS, 2_001, MSS));
    packets.push(a(START + 900 * MS, 2_001, MSS));
    packets.push(b(START + 920 * MS, 3_001));
    let (connection, _) = talk(1_000, &packets);
    let [a, _] = &connection.sides;
    assert_eq!((a.window_probes, a.retransmissions.timeout), (0, 1));
}
