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

/// A frame of Ethernet with a datagram of 192.0.2.1, behind these bytes from the EtherType on.
fn frame(between: &[u8]) -> Vec<u8> {
    [&[2; 12][..], between, &udp_over_ipv4(4_000, 4_002, b"speech")].concat()
}

/// From the header of a tunnel on, in a datagram to its port.
fn to_port(port: u16, header: &[u8], inside: &[u8]) -> Vec<u8> {
    ipv4(17, &udp(50_000, port, &[header, inside].concat()))
}

#[test]
fn frames_in_gre_and_erspan_are_looked_into() {
    let (plain, tagged) = (frame(&[8, 0]), frame(&[0x81, 0, 0, 7, 8, 0]));
    let gre = |head: &[u8], inner: &[u8]| ipv4(47, &[head, inner].concat());
    let numbered = |kind: [u8; 2]| [&[0x10, 0][..], &kind, &[0, 0, 0, 9]].concat();
    let third = |last: u8, more: &[u8]| {
        [&numbered([0x22, 0xeb])[..], &[0x20, 5, 0, 1, 0, 0, 0, 9, 0, 0, 0, last], more].concat()
    };
    for (packet, tags) in [
        (gre(&[0, 0, 0x65, 0x58], &plain), ""),
        (gre(&[0x20, 0, 0x65, 0x58, 0, 0, 7, 0], &tagged), "7"),
        // Type I; type II with a session; type III without and with what its platform adds.
        (gre(&[0, 0, 0x88, 0xbe], &plain), ""),
        (gre(&[&numbered([0x88, 0xbe])[..], &[0x10, 5, 0, 1, 0, 0, 0, 9]].concat(), &tagged), "7"),
        (gre(&third(0, &[]), &plain), ""),
        (gre(&third(1, &[0x30, 0, 0, 0, 0, 0, 0, 1]), &tagged), "7"),
    ] {
        let found = datagram(101, &packet);
        assert_eq!((found.payload, found.payload_len), (&b"speech"[..], 6));
        assert_eq!((found.src.to_string().as_str(), found.tags.to_string().as_str()), ("192.0.2.1", tags));
    }
}

#[test]
fn ppp_in_gre_and_l2tp_is_looked_into() {
    let ip = udp_over_ipv4(4_000, 4_002, b"speech");
    let pptp = |head: &[u8]| ipv4(47, &[&[0x30][..], head, &ip].concat());
    for packet in [
        pptp(&[1, 0x88, 0x0b, 0, 40, 0, 1, 0, 0, 0, 1, 0xff, 3, 0, 0x21]),
        pptp(&[0x81, 0x88, 0x0b, 0, 40, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0x21]),
        to_port(1_701, &[0, 2, 0, 1, 0, 2, 0xff, 3, 0, 0x21], &ip),
        to_port(1_701, &[0x4a, 2, 0, 50, 0, 1, 0, 2, 0, 0, 0, 0, 0, 1, 9, 0x21], &ip),
    ] {
        assert_eq!(datagram(101, &packet).payload, b"speech", "{packet:02x?}");
    }
    // An acknowledgement alone; compressed; a control message.
    assert_eq!(decoded(101, &ipv4(47, &[0x20, 0x81, 0x88, 0x0b, 0, 0, 0, 1, 0, 0, 0, 1])), Decoded::OtherIp);
    let compressed = pptp(&[1, 0x88, 0x0b, 0, 40, 0, 1, 0, 0, 0, 1, 0xfd, 0x90, 1]);
    assert_eq!(decoded(101, &compressed), Decoded::Opaque(Opaque::Ppp));
    assert_eq!(datagram(101, &to_port(1_701, &[0xc8, 2, 0, 12, 0, 0, 0, 0], &[0; 4])).dst_port, 1_701);
}

#[test]
fn vxlan_geneve_and_gtp_are_looked_into() {
    let (ip, plain, tagged) =
        (udp_over_ipv4(4_000, 4_002, b"speech"), frame(&[8, 0]), frame(&[0x81, 0, 0, 7, 8, 0]));
    for (port, header, inside) in [
        (4_789, &[8, 0, 0, 0, 0, 0, 1, 0][..], &plain),
        (8_472, &[8, 0, 0, 0, 0, 0, 1, 0], &tagged),
        (4_789, &[0x88, 0, 0, 5, 0, 0, 1, 0], &plain),
        (4_790, &[0x0c, 0, 0, 1, 0, 0, 1, 0], &ip),
        (4_790, &[0x0c, 0, 0, 3, 0, 0, 1, 0], &plain),
        (6_081, &[0, 0, 0x65, 0x58, 0, 0, 1, 0], &tagged),
        (6_081, &[2, 0x40, 8, 0, 0, 0, 1, 0, 1, 2, 3, 1, 9, 9, 9, 9], &ip),
        (2_152, &[0x30, 255, 0, 34, 0, 0, 0, 1], &ip),
        (2_152, &[0x32, 255, 0, 38, 0, 0, 0, 1, 0, 9, 0, 0], &ip),
        (6_635, &[0, 1, 0, 64, 0, 2, 0x11, 64], &ip),
        (6_080, &[0, 4, 0, 0], &ip),
        (6_080, &[1, 4, 0, 0, 9, 9, 9, 9], &ip),
        (6_080, &[], &ip),
        // Two extension headers, one of 4 and one of 8 bytes.
        (2_152, &[0x34, 255, 0, 50, 0, 0, 0, 1, 0, 0, 0, 0x85, 1, 0, 1, 0x40, 2, 0, 0, 0, 0, 0, 0, 0], &ip),
    ] {
        let packet = to_port(port, header, inside);
        let found = datagram(101, &packet);
        assert_eq!(
            (found.payload, found.src.to_string().as_str()),
            (&b"speech"[..], "192.0.2.1"),
            "{header:?}"
        );
    }
}

#[test]
fn datagrams_to_the_ports_of_tunnels_that_are_none_stay_datagrams() {
    let plain = frame(&[8, 0]);
    for (port, header) in [
        // Reserved bits, a version or a message that is another one, too short.
        (4_789, &[8, 0, 0, 0, 0, 0, 1, 1][..]),
        (4_789, &[0x80, 0, 0, 0, 0, 0, 1, 0]),
        (6_081, &[0x40, 0, 0x65, 0x58, 0, 0, 1, 0]),
        (6_081, &[0, 0, 0x65, 0x58, 0, 0, 1, 9]),
        (2_152, &[0x32, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0]),
        (2_152, &[0x50, 255, 0, 4, 0, 0, 0, 0]),
        (4_790, &[0x0c, 0, 0, 9, 0, 0, 1, 0]),
        (6_635, &[0, 1, 1, 64, 0, 0, 0, 0]),
        (6_080, &[0x20, 4, 0, 0]),
        (6_080, &[0, 6, 0, 0]),
    ] {
        assert_eq!(datagram(101, &to_port(port, header, &plain)).dst_port, port, "{header:?}");
    }
    assert_eq!(datagram(101, &to_port(4_789, &[8, 0], &[])).dst_port, 4_789);
}

#[test]
fn tunnels_that_carry_something_else_are_told() {
    let opaque = Decoded::Opaque(Opaque::Tunnel);
    // An EtherType of its own kind; a source route.
    for head in [[0, 0, 0x20, 0], [0x40, 0, 8, 0]] {
        assert_eq!(decoded(101, &ipv4(47, &[&head[..], &[0; 40]].concat())), opaque);
    }
    assert_eq!(decoded(101, &to_port(2_152, &[0x30, 255, 0, 8, 0, 0, 0, 1], &[1; 8])), opaque);
    assert_eq!(decoded(101, &to_port(6_081, &[0, 0, 0x20, 0, 0, 0, 1, 0], &[1; 8])), opaque);
    // ARP in a tunnel is ARP.
    let arp = [&[2; 12][..], &[8, 6], &[0; 28]].concat();
    assert_eq!(decoded(101, &to_port(4_789, &[8, 0, 0, 0, 0, 0, 1, 0], &arp)), Decoded::NotIp);
    assert_eq!(decoded(101, &ipv4(47, &[0, 0, 8])), Decoded::Malformed);
    assert_eq!(decoded(101, &to_port(4_789, &[8, 0, 0, 0, 0, 0, 1, 0], &[2; 9])), Decoded::Malformed);
}

#[test]
fn tunnels_in_tunnels_end_after_four() {
    let mut packet = udp_over_ipv4(1, 2, b"speech");
    for _ in 0..4 {
        packet = ipv4(4, &packet);
        assert_eq!(datagram(101, &packet).payload, b"speech");
    }
    assert_eq!(decoded(101, &ipv4(4, &packet)), Decoded::Opaque(Opaque::Deep));
}

#[test]
fn a_fragmented_tunnel_is_put_together_and_looked_into() {
    let whole = to_port(4_789, &[8, 0, 0, 0, 0, 0, 1, 0], &frame(&[8, 0]));
    let (first, second) = whole[20..].split_at(32);
    let piece = |cut: u16, rest: &[u8]| {
        let mut piece = ipv4(17, rest);
        piece[6..8].copy_from_slice(&cut.to_be_bytes());
        piece
    };
    let pieces = [piece(0x2000, first), piece(4, second)];
    let mut reassembly = Reassembly::new();
    assert_eq!(reassembly.decode(&Packet::new(0, LinkType(101), &pieces[0])), Decoded::Fragment);
    match reassembly.decode(&Packet::new(0, LinkType(101), &pieces[1])) {
        Decoded::Udp(found) => assert_eq!(found.payload, b"speech"),
        other => panic!("{other:?}"),
    }
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
