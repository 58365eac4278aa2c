use super::{NATT, association, packet, sent, tunnel};
use crate::{DecapsulateError, EncapsulateError, Inbound, Mode, Outbound, Suite};
use weir_wire::{fold, ones_complement_sum};

fn outbound(mode: Mode) -> Outbound {
    Outbound::new(&association(Suite::AesGcm, mode, false), &[0; 16]).unwrap()
}

fn inbound(mode: Mode) -> Inbound {
    Inbound::new(&association(Suite::AesGcm, mode, false), 64).unwrap()
}

fn is_checksum_right(header: &[u8]) -> bool {
    fold(ones_complement_sum(&header[..20]).into()) == 0xffff
}

#[test]
fn a_tunnel_in_ipv4_has_this_header() {
    let wire = sent(&mut outbound(tunnel(4)), &packet(4, 0xb8, 160), 0).unwrap();
    assert_eq!(wire.len(), 244);
    // Class and "do not fragment" are the inner packet's; without fragments there is no ID (RFC 6864).
    assert_eq!(wire[..10], [0x45, 0xb8, 0, 244, 0, 0, 0x40, 0, 64, 50]);
    assert_eq!(wire[12..20], [192, 0, 2, 1, 192, 0, 2, 2]);
    assert!(is_checksum_right(&wire));
    assert_eq!(wire[20..36], [0x12, 0x34, 0x56, 0x78, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1]);
}

#[test]
fn a_packet_that_may_be_fragmented_keeps_that_right_and_gets_an_id() {
    let mut inner = packet(4, 0, 160);
    inner[6] = 0;
    let mut sender = outbound(tunnel(4)).resumed(0x1_2344);
    let wire = sent(&mut sender, &inner, 0).unwrap();
    assert_eq!(wire[4..8], [0x23, 0x45, 0, 0]);
}

#[test]
fn a_tunnel_in_ipv6_has_this_header() {
    let wire = sent(&mut outbound(tunnel(6)), &packet(4, 0xb8, 160), 0).unwrap();
    assert_eq!(wire[..8], [0x6b, 0x80, 0, 0, 0, 224, 50, 64]);
    assert_eq!(wire[8..12], [0x20, 0x01, 0x0d, 0xb8]);
    assert_eq!((wire[23], wire[39]), (1, 2));
}

#[test]
fn transport_mode_changes_protocol_length_and_checksum_alone() {
    let original = packet(4, 0xb8, 160);
    let wire = sent(&mut outbound(Mode::Transport), &original, 0).unwrap();
    assert_eq!(wire[..2], original[..2]);
    assert_eq!(wire[2..4], 224u16.to_be_bytes());
    assert_eq!(wire[4..9], original[4..9]);
    assert_eq!(wire[9], 50);
    assert_eq!(wire[12..20], original[12..20]);
    assert!(is_checksum_right(&wire));
}

#[test]
fn esp_in_udp_has_a_checksum_in_ipv6_alone() {
    for (version, at) in [(4, 20), (6, 40)] {
        let mut association = association(Suite::AesGcm, tunnel(version), false);
        association.udp = NATT;
        let wire = sent(&mut Outbound::new(&association, &[0; 16]).unwrap(), &packet(4, 0, 160), 0).unwrap();
        let udp = &wire[at..];
        assert_eq!(udp[..4], [0x11, 0x94, 0x11, 0x94]);
        assert_eq!(udp[4..6], (udp.len() as u16).to_be_bytes());
        if version == 4 {
            assert_eq!(udp[6..8], [0, 0]);
        } else {
            let pseudo = [&wire[8..40], &[0, 17], &udp[4..6]].concat();
            let sum = ones_complement_sum(&pseudo) + ones_complement_sum(udp);
            assert_eq!(fold(sum.into()), 0xffff);
        }
    }
}

#[test]
fn esp_stands_behind_the_extension_headers_that_every_router_reads() {
    // Hop by hop, destination options in front of routing, routing; then destination options, for the end.
    let mut original = packet(6, 0, 20);
    let mut extensions = vec![];
    for next in [60u8, 43, 60] {
        extensions.extend([next, 0, 1, 4, 0, 0, 0, 0]);
    }
    extensions.extend([17, 0, 1, 4, 0, 0, 0, 0]);
    original.splice(40..40, extensions);
    original[6] = 0;
    original[4..6].copy_from_slice(&(28 + 32u16).to_be_bytes());

    let wire = sent(&mut outbound(Mode::Transport), &original, 0).unwrap();
    assert_eq!(wire[6..8], original[6..8]);
    assert_eq!((wire[40], wire[48], wire[56]), (60, 43, 50));
    assert_eq!(wire[64..68], [0x12, 0x34, 0x56, 0x78]);
    let mut received = wire.clone();
    let inside = inbound(Mode::Transport).decapsulate(&mut received).unwrap();
    assert_eq!(received[inside], original);
}

#[test]
fn what_pads_a_short_frame_is_not_sent() {
    let original = packet(4, 0, 4);
    let padded = [&original[..], &[0; 14]].concat();
    let mut wire = sent(&mut outbound(tunnel(4)), &padded, 0).unwrap();
    // Nor is it read.
    wire.extend([0xee; 6]);
    let inside = inbound(tunnel(4)).decapsulate(&mut wire).unwrap();
    assert_eq!(wire[inside], original);
}

#[test]
fn congestion_on_the_way_is_told_to_the_inner_packet() {
    // RFC 6040, figure 4: inner, outer, result.
    const DROP: u8 = 0xff;
    let table = [
        [0b00, 0b00, 0b00],
        [0b00, 0b01, 0b00],
        [0b00, 0b10, 0b00],
        [0b00, 0b11, DROP],
        [0b10, 0b00, 0b10],
        [0b10, 0b10, 0b10],
        [0b10, 0b01, 0b01],
        [0b10, 0b11, 0b11],
        [0b01, 0b00, 0b01],
        [0b01, 0b10, 0b01],
        [0b01, 0b01, 0b01],
        [0b01, 0b11, 0b11],
        [0b11, 0b00, 0b11],
        [0b11, 0b10, 0b11],
        [0b11, 0b01, 0b11],
        [0b11, 0b11, 0b11],
    ];
    for version in [4, 6] {
        for [inner, outer, result] in table {
            let original = packet(version, 0xb8 | inner, 20);
            let mut wire = sent(&mut outbound(tunnel(4)), &original, 0).unwrap();
            wire[1] = wire[1] & !0b11 | outer;
            let received = inbound(tunnel(4)).decapsulate(&mut wire);
            if result == DROP {
                assert_eq!(received, Err(DecapsulateError::Congestion));
            } else {
                let expected = packet(version, 0xb8 | result, 20);
                assert_eq!(wire[received.unwrap()], expected, "{inner:#b} in {outer:#b}");
            }
        }
    }
}

#[test]
fn fragments_go_into_tunnels_but_not_into_transport_mode() {
    let mut fragment = packet(4, 0, 160);
    fragment[6] = 0x20;
    assert!(sent(&mut outbound(tunnel(4)), &fragment, 0).is_ok());
    let refused = sent(&mut outbound(Mode::Transport), &fragment, 0);
    assert_eq!(refused, Err(EncapsulateError::Fragment));
    let mut received = sent(&mut outbound(tunnel(4)), &fragment, 0).unwrap();
    received[6] = 0x20;
    assert_eq!(inbound(tunnel(4)).decapsulate(&mut received), Err(DecapsulateError::Fragment));
}

#[test]
fn packets_longer_than_ip_allows_are_refused() {
    let longest = 65_535 - 20 - 8 - 8 - 16 - 28;
    for (size, fits) in [(longest - 16, true), (longest, false)] {
        let wire = sent(&mut outbound(tunnel(4)), &packet(4, 0, size), 0);
        assert_eq!(wire.is_ok(), fits, "{size}: {:?}", wire.err());
    }
    let wire = sent(&mut outbound(tunnel(6)), &packet(4, 0, longest), 0);
    assert!(wire.is_ok(), "the header of IPv6 does not count: {:?}", wire.err());
}
