//! Data that the capture recorded behind its own ACK.

use super::*;

const START: i64 = 30 * MS;
const US: i64 = 1_000;

fn first_sightings(packets: &[Made], bytes: u64) -> Connection {
    let (connection, _) = talk(1_000, packets);
    let side = &connection.sides[0];
    assert_eq!((side.unique_bytes, side.unseen_bytes), (bytes, 0));
    assert_eq!((side.retransmissions.total, side.copies), (0, 0));
    connection
}

#[test]
fn data_that_stands_behind_its_own_ack_is_new() {
    let packets = [
        a(START, 1_001, MSS),
        b(START + RTT, 5_001),
        a(START + RTT + 2 * US, 2_001, 2 * MSS),
        a(START + RTT + 3 * US, 4_001, MSS),
        a(START + RTT + 4 * US, 5_001, MSS),
        b(START + 2 * RTT, 6_001),
    ];
    let connection = first_sightings(&packets, 5_000);
    let side = &connection.sides[0];
    // The first ACK answers what was not seen yet: no round trip of what was.
    assert_eq!((side.out_of_order, side.rtt.count, side.rtt.max_ns), (0, 1, 19_996_000));
}

#[test]
fn a_segment_of_which_a_part_was_acknowledged_in_front_of_it_is_new() {
    let packets = [
        b(START, 2_001),
        a(START + 2 * US, 1_001, 3 * MSS),
        b(START + RTT, 4_001),
        a(START + RTT + US, 4_001, MSS),
    ];
    let connection = first_sightings(&packets, 4_000);
    assert_eq!((connection.sides[0].rtt.count, connection.sides[0].flight_max), (1, 2_000));
}

#[test]
fn data_behind_its_own_ack_and_behind_later_data_is_out_of_order() {
    let packets = [
        a(START, 1_001, MSS),
        a(START + US, 3_001, MSS),
        b(START + RTT, 4_001),
        a(START + RTT + US, 2_001, MSS),
    ];
    let connection = first_sightings(&packets, 3_000);
    assert_eq!(connection.sides[0].out_of_order, 1);
}

#[test]
fn the_first_data_of_a_capture_may_stand_behind_its_own_ack() {
    let packets = [b(0, 3_001), a(2 * US, 1_001, MSS), a(3 * US, 2_001, MSS), a(4 * US, 3_001, MSS)];
    let rows = analysed(&packets);
    assert_consistent(&rows);
    let side = &rows.connections[0].sides[1];
    assert_eq!((side.unique_bytes, side.unseen_bytes, side.retransmissions.total), (3_000, 0, 0));
}

#[test]
fn a_fin_behind_its_own_ack_is_no_data_and_sent_once() {
    let packets =
        [a(START, 1_001, MSS), b(START + RTT, 2_002), a(START + RTT + US, 2_001, 0).flags(FIN | ACK)];
    first_sightings(&packets, 1_000);
}

#[test]
fn data_long_behind_its_own_ack_was_sent_again_and_its_first_copy_not_captured() {
    let packets = [a(START, 1_001, MSS), b(START + RTT, 3_001), a(START + RTT + 300 * MS, 2_001, MSS)];
    let (connection, _) = talk(1_000, &packets);
    let side = &connection.sides[0];
    assert_eq!((side.unique_bytes, side.unseen_bytes, side.retransmissions.total), (1_000, 1_000, 1));
}

#[test]
fn data_seen_behind_its_own_ack_is_sent_again_the_second_time() {
    let late = |after| a(START + RTT + after, 2_001, MSS);
    let packets = [a(START, 1_001, MSS), b(START + RTT, 3_001), late(US), late(300 * MS)];
    let (connection, _) = talk(1_000, &packets);
    let side = &connection.sides[0];
    assert_eq!((side.unique_bytes, side.unseen_bytes, side.retransmissions.total), (2_000, 0, 1));
}
