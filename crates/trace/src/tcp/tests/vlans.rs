//! VLANs: one for each direction, and networks that use the same addresses.

use super::*;

const START: i64 = 30 * MS;

/// A connection with `bytes` of A, of which each direction has its VLAN.
fn tagged([of_a, of_b]: [u16; 2], isn: u32, bytes: u32) -> Vec<Made> {
    let data = [packet(START, From::A, isn + 1, 5_001, bytes), b(START + RTT, isn + 1 + bytes)];
    let vlan = |made: Made| Made { vlan: if made.from == From::A { of_a } else { of_b }, ..made };
    handshake(isn).into_iter().chain(data).map(vlan).collect()
}

/// Packets of all, in the order of their times.
fn together(parts: &[Vec<Made>]) -> Rows {
    let mut packets = parts.concat();
    packets.sort_by_key(|made| made.time_ns);
    let rows = analysed(&packets);
    assert_consistent(&rows);
    rows
}

#[test]
fn a_vlan_for_each_direction_is_one_connection() {
    for (vlans, name) in [([10, 20], "10/20"), ([10, 0], "10/-"), ([10, 10], "10"), ([0, 0], "")] {
        let rows = together(&[tagged(vlans, 1_000, MSS)]);
        assert_eq!(rows.connections.len(), 1, "{name}");
        let connection = &rows.connections[0];
        assert_eq!((connection.begin, connection.vlan()), (Begin::Handshake, name.into()));
        assert_eq!((connection.sides[0].rtt.count, connection.sides[0].unseen_bytes), (1, 0), "{name}");
    }
}

#[test]
fn a_vlan_for_each_direction_is_one_connection_from_the_middle_on() {
    let rows = together(&[tagged([10, 20], 1_000, MSS).split_off(3)]);
    assert_eq!((rows.connections.len(), rows.connections[0].begin), (1, Begin::Middle));
}

#[test]
fn the_same_addresses_and_ports_in_two_vlans_are_two_connections() {
    let rows = together(&[tagged([10, 10], 1_000, MSS), tagged([20, 20], 800_000, 2 * MSS)]);
    let seen: Vec<_> = rows.connections.iter().map(|c| (c.vlan(), c.sides[0].unique_bytes)).collect();
    assert_eq!(seen, [("10".into(), 1_000), ("20".into(), 2_000)]);
    assert!(rows.connections.iter().all(|c| c.sides[0].rtt.count == 1));
}

/// What a router routes from VLAN to VLAN passes a trunk twice.
#[test]
fn the_same_packets_in_two_vlans_are_two_connections() {
    let again: Vec<_> = tagged([20, 10], 1_000, MSS)
        .into_iter()
        .map(|made| Made { time_ns: made.time_ns + 1_000, ..made })
        .collect();
    let rows = together(&[tagged([10, 20], 1_000, MSS), again]);
    let seen: Vec<_> = rows.connections.iter().map(|c| c.sides[0].retransmissions.total).collect();
    assert_eq!(seen, [0, 0]);
    assert!(rows.connections.iter().all(|c| c.sides[1].packets == 2));
}

#[test]
fn an_answer_in_another_vlan_that_does_not_fit_is_of_another_connection() {
    let mut first = tagged([10, 10], 1_000, MSS);
    first.retain(|made| made.from == From::A);
    let mut second = tagged([20, 20], 2_000_000_000, MSS);
    second.retain(|made| made.from == From::B);
    let rows = together(&[first, second]);
    let seen: Vec<_> = rows.connections.iter().map(|c| (c.vlan(), c.begin)).collect();
    let half = Begin::HalfHandshake;
    assert_eq!(seen, [("10".into(), half), ("20".into(), half)]);
}
