use super::*;
use crate::packet::{Esp, Natt};

/// IPv4 with this protocol, 198.51.100.1 to 198.51.100.2.
fn ipv4(protocol: u8, rest: &[u8]) -> Vec<u8> {
    let [high, low] = (20 + rest.len() as u16).to_be_bytes();
    let head = [0x45, 0, high, low, 0, 0, 0x40, 0, 64, protocol, 0, 0];
    [&head[..], &[198, 51, 100, 1, 198, 51, 100, 2], rest].concat()
}

#[test]
fn tunnels_of_ip_and_gre_are_passed_over() {
    let inner = udp_over_ipv4(4_000, 4_002, b"speech");
    let inner6 = ipv6(17, &udp(4_000, 4_002, b"speech"));
    let gre = |head: &[u8], inner: &[u8]| ipv4(47, &[head, inner].concat());
    for (packet, src) in [
        (ipv4(4, &inner), "192.0.2.1"),
        (ipv4(41, &inner6), "2001:db8::1"),
        (ipv6(4, &inner), "192.0.2.1"),
        (ipv6(60, &[&[4, 0, 0, 0, 0, 0, 0, 0][..], &inner].concat()), "192.0.2.1"),
        (gre(&[0, 0, 8, 0], &inner), "192.0.2.1"),
        (gre(&[0, 0, 0x86, 0xdd], &inner6), "2001:db8::1"),
        (gre(&[0x80, 0, 8, 0, 1, 1, 0, 0], &inner), "192.0.2.1"),
        (gre(&[0x20, 0, 8, 0, 0, 0, 0, 9], &inner), "192.0.2.1"),
        (gre(&[0xb0, 0, 8, 0, 1, 1, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1], &inner), "192.0.2.1"),
        (ipv4(4, &ipv4(47, &[&[0, 0, 8, 0][..], &ipv4(4, &inner)].concat())), "192.0.2.1"),
    ] {
        let found = datagram(101, &packet);
        assert_eq!((found.payload, found.payload_len), (&b"speech"[..], 6));
        assert_eq!(found.src.to_string(), src);
    }
}

#[test]
fn tunnels_that_carry_something_else_are_other_ip() {
    for head in [
        // Frames of Ethernet; PPP, whose version is 1; a source route.
        [0, 0, 0x65, 0x58],
        [0x30, 1, 0x88, 0x0b],
        [0x40, 0, 8, 0],
    ] {
        assert_eq!(decoded(101, &ipv4(47, &[&head[..], &[0; 40]].concat())), Decoded::OtherIp);
    }
    assert_eq!(decoded(101, &ipv4(47, &[0, 0, 8])), Decoded::Malformed);
}

#[test]
fn tunnels_in_tunnels_end_after_four() {
    let mut packet = udp_over_ipv4(1, 2, b"speech");
    for _ in 0..4 {
        packet = ipv4(4, &packet);
        assert_eq!(datagram(101, &packet).payload, b"speech");
    }
    assert_eq!(decoded(101, &ipv4(4, &packet)), Decoded::Malformed);
}

#[test]
fn a_tunnel_that_the_capture_cut_off_keeps_its_lengths() {
    let inner = udp_over_ipv4(1, 2, &[7; 100]);
    let packet = ipv4(4, &inner);
    let cut = Packet { original_len: packet.len() as u32, ..Packet::new(0, LinkType(101), &packet[..60]) };
    match decode(&cut) {
        Decoded::Udp(found) => assert_eq!((found.payload.len(), found.payload_len), (12, 100)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_authentication_header_is_passed_over_in_ipv4_too() {
    let authentication = [17, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1];
    let packet = ipv4(51, &[&authentication[..], &udp(1, 2, b"speech")].concat());
    assert_eq!(datagram(101, &packet).payload, b"speech");
    // Extension headers of IPv6 are none here.
    assert_eq!(decoded(101, &ipv4(60, &[17, 0, 0, 0, 0, 0, 0, 0])), Decoded::OtherIp);
}

#[test]
fn esp_is_told_by_its_header() {
    let body = [&[0, 0, 1, 2, 0, 0, 0, 9][..], &[0xee; 92]].concat();
    for packet in [ipv4(50, &body), ipv6(50, &body)] {
        match decoded(101, &packet) {
            Decoded::Esp(esp) => assert_eq!((esp.spi, esp.seq, esp.len), (0x102, 9, 100)),
            other => panic!("{other:?}"),
        }
    }
    let cut = ipv4(50, &body);
    match decoded(101, &cut[..30]) {
        Decoded::Esp(esp) => assert_eq!((esp.spi, esp.len), (0x102, 100)),
        other => panic!("{other:?}"),
    }
    assert_eq!(decoded(101, &cut[..27]), Decoded::Malformed);
    assert_eq!(decoded(101, &ipv4(50, &[1; 7])), Decoded::Malformed);
}

#[test]
fn esp_in_udp_is_told_from_key_exchange_and_keep_alives() {
    let of = |port: u16, payload: &[u8]| datagram(101, &udp_over_ipv4(port, 40_000, payload)).natt();
    let encrypted = [&[0, 0, 1, 2, 0, 0, 0, 9][..], &[0xee; 20]].concat();
    let Some(Natt::Esp(Esp { spi, seq, len, src, .. })) = of(4_500, &encrypted) else { panic!() };
    assert_eq!((spi, seq, len, src.to_string().as_str()), (0x102, 9, 28, "192.0.2.1"));
    assert_eq!(of(4_500, &[0; 28]), Some(Natt::Ike));
    assert_eq!(of(4_500, &[0xff]), Some(Natt::KeepAlive));
    assert_eq!(of(4_500, &[0xff, 0xff]), Some(Natt::Unclear));
    assert_eq!(of(4_500, &[]), Some(Natt::Unclear));
    assert_eq!(of(500, &encrypted), None);
}

#[test]
fn a_length_of_0_means_as_long_as_the_frame_was() {
    let mut packet = udp_over_ipv4(1, 2, &[7; 100]);
    (packet[2], packet[3]) = (0, 0);
    (packet[24], packet[25]) = (0, 0);
    let whole = datagram(101, &packet);
    assert_eq!((whole.payload.len(), whole.payload_len), (100, 100));
    let cut = Packet { original_len: 128, ..Packet::new(0, LinkType(101), &packet[..40]) };
    match decode(&cut) {
        Decoded::Udp(found) => assert_eq!((found.payload.len(), found.payload_len), (12, 100)),
        other => panic!("{other:?}"),
    }
}
