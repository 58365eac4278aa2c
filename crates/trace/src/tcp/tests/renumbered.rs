//! A capture before and behind a device that changes sequence numbers; and data that nobody answers.

use super::*;

const START: i64 = 30 * MS;
const DETOUR: i64 = 40_000;

/// Each packet before and behind a device that adds `shifts` to the numbers of A and B. A is before it.
fn on_both_sides(packets: &[Made], shifts: [u32; 2]) -> Vec<Made> {
    let changed = |made: &Made| {
        let [own, peer] = if made.from == From::A { shifts } else { [shifts[1], shifts[0]] };
        let ack = if made.flags & ACK == 0 { made.ack } else { made.ack.wrapping_add(peer) };
        Made { seq: made.seq.wrapping_add(own), ack, ..made.clone() }
    };
    let pair = |made: &Made| {
        let behind = changed(made);
        let twice = if made.from == From::A { [made.clone(), behind] } else { [behind, made.clone()] };
        let [first, second] = twice;
        [first, Made { time_ns: second.time_ns + DETOUR, ..second }]
    };
    packets.iter().flat_map(pair).collect()
}

#[test]
fn packets_before_and_behind_a_device_that_changes_numbers_count_once() {
    for shifts in [[123_456_789, 0], [0, 987_654_321], [3_000_000_000, 77_777_777], [5_000, 2_500_000_000]] {
        let mut packets = handshake(4_294_960_000);
        for n in 0..20_u32 {
            let at = START + i64::from(n) * MS;
            packets.push(a(at, 4_294_960_001_u32.wrapping_add(n * MSS), MSS));
            packets.push(b(at + MS / 2, 4_294_960_001_u32.wrapping_add((n + 1) * MSS)));
        }
        let packets: Vec<_> =
            packets.into_iter().enumerate().map(|(n, made)| made.ip_id(100 + n as u16)).collect();
        let rows = analysed(&on_both_sides(&packets, shifts));
        assert_consistent(&rows);
        assert_eq!(rows.connections.len(), 1, "{shifts:?}");
        let [a, b] = &rows.connections[0].sides;
        assert_eq!((a.unique_bytes, a.unseen_bytes, b.unseen_bytes), (20_000, 0, 0), "{shifts:?}");
        assert_eq!(a.retransmissions.total + b.retransmissions.total, 0, "{shifts:?}");
        assert_eq!((a.copies, b.copies), (22, 21), "{shifts:?}");
        assert!(a.flight_max <= u64::from(MSS), "{shifts:?}");
        assert!(a.renumbered + b.renumbered >= 42, "{shifts:?}");
        assert_eq!(rows.connections[0].begin, Begin::Handshake);
    }
}

#[test]
fn a_syn_with_another_number_later_is_no_renumbered_one() {
    let mut packets = handshake(1_000);
    packets[0].ip_id = 7;
    // The same ports and identification, a second later: another connection, or a host that tries again.
    packets.truncate(1);
    packets.push(Made { seq: 900_000, time_ns: 1_000 * MS, ..packets[0].clone() });
    let rows = analysed(&packets);
    assert!(rows.connections.iter().all(|c| c.sides[0].renumbered == 0));
}

#[test]
fn data_that_nobody_answers_is_counted_from_the_last_packet_of_the_other_end() {
    let mut packets = vec![a(START, 1_001, 500), b(START + MS, 1_501)];
    let quiet = 1_200_000 * MS;
    packets.extend((0..5).map(|n| a(quiet + n * 1_000 * MS, 1_501, 700)));
    let (connection, _) = talk(1_000, &packets);
    let side = &connection.sides[0];
    assert_eq!((side.unanswered, side.unanswered_ns), (5, 4_000_000_000));
    assert_eq!(side.unanswered_after_ns, (quiet - START - MS) as u64);
    // Anything from the other end is an answer.
    packets.push(b(quiet + 10_000 * MS, 1_501));
    let (connection, _) = talk(1_000, &packets);
    assert_eq!((connection.sides[0].unanswered, connection.sides[0].unanswered_ns), (0, 0));
}
