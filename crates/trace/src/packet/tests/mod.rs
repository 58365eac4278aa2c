mod reassembly;
mod tunnels;

use super::*;
use crate::capture::LinkType;
use crate::testing::{udp, udp_frame, udp_over_ipv4};

fn decoded(link: u16, data: &[u8]) -> Decoded<'_> {
    decode(&Packet::new(0, LinkType(link), data))
}

fn datagram(link: u16, data: &[u8]) -> Datagram<'_> {
    match decoded(link, data) {
        Decoded::Udp(datagram) => datagram,
        other => panic!("{other:?}"),
    }
}

/// An Ethernet frame with these bytes between the addresses and IP.
fn tagged(between: &[u8]) -> Vec<u8> {
    [&[2; 12][..], between, &udp_over_ipv4(1, 2, b"speech")].concat()
}

/// Radiotap: 26 bytes with a time and flags that tell of padding.
const TIMED: [u8; 26] = {
    let mut head = [0; 26];
    (head[2], head[4], head[7], head[24]) = (26, 3, 0x80, 0x20);
    head
};

/// A frame of IEEE 802.11 with this frame control, what follows the sequence number, LLC and SNAP.
fn wireless(control: &[u8; 2], more: &[u8], ip: &[u8]) -> Vec<u8> {
    [control, &[2; 20][..], &[0x10, 0], more, &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0], ip].concat()
}

#[test]
fn frames_of_a_wireless_lan_that_hide_what_they_carry_are_told() {
    let ip = udp_over_ipv4(4_000, 4_002, b"speech");
    for data in [
        wireless(&[8, 0x42], &[], &ip),
        wireless(&[8, 6], &[], &ip),
        // The second part; several frames in one.
        [&[8, 2], &[2; 20][..], &[0x11, 0], &ip].concat(),
        wireless(&[0x88, 2], &[0x80, 0], &ip),
    ] {
        assert_eq!(decoded(105, &data), Decoded::Opaque(Opaque::Wireless));
    }
    // A beacon, an acknowledgement, data without a payload, a frame that arrived damaged.
    let damaged = [&[0, 0, 9, 0, 2, 0, 0, 0, 0x40][..], &wireless(&[8, 2], &[], &ip)].concat();
    for (link, data) in [
        (105, wireless(&[0x80, 0], &[], &ip)),
        (105, vec![0xd4, 0, 0, 0, 2, 2, 2, 2, 2, 2]),
        (105, wireless(&[0x48, 1], &[], &[])),
        (127, damaged),
    ] {
        assert_eq!(decoded(link, &data), Decoded::NotIp);
    }
    for (link, data) in
        [(127, vec![0, 0, 200, 0, 0, 0, 0, 0]), (127, vec![]), (239, vec![2, 0, 0, 5, 0, 0, 0, 0])]
    {
        assert_eq!(decoded(link, &data), Decoded::Malformed);
    }
}

#[test]
fn every_link_layer_leads_to_the_same_datagram() {
    let ip = udp_over_ipv4(4_000, 4_002, b"speech");
    let behind = |head: &[u8]| [head, &ip].concat();
    let len = ip.len() as u8;
    let cases = [
        (0, behind(&[2, 0, 0, 0])),
        (0, behind(&[0, 0, 0, 2])),
        (108, behind(&[0, 0, 0, 2])),
        (1, udp_frame(4_000, 4_002, b"speech")),
        (9, behind(&[0xff, 3, 0, 0x21])),
        // The protocol in one byte, with and without address and control.
        (9, behind(&[0xff, 3, 0x21])),
        (9, behind(&[0x21])),
        (50, behind(&[0xff, 3, 0, 0x21])),
        (12, ip.clone()),
        (101, ip.clone()),
        (228, ip.clone()),
        (113, behind(&[0, 0, 0, 1, 0, 6, 2, 2, 2, 2, 2, 2, 0, 0, 8, 0])),
        (276, behind(&[8, 0, 0, 0, 0, 0, 0, 5, 0, 1, 0, 6, 2, 2, 2, 2, 2, 2, 0, 0])),
        (1, [&[2; 12][..], &[0x88, 0x64, 0x11, 0, 0, 1, 0, 36, 0, 0x21], &ip].concat()),
        (1, [&[2; 12][..], &[0x88, 0x64, 0x11, 0, 0, 1, 0, 35, 0x21], &ip].concat()),
        (1, [&[2; 12][..], &[0, 42, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0], &ip].concat()),
        (113, behind(&[0, 0, 0, 1, 0, 6, 2, 2, 2, 2, 2, 2, 0, 0, 0, 4, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0])),
        (1, [&[2; 12][..], &[0x88, 0x47, 0, 1, 0, 64, 0, 2, 0x11, 64], &ip].concat()),
        // Cisco MetaData; PPP with a direction.
        (1, [&[2; 12][..], &[0x89, 9, 1, 1, 0, 1, 0, 7, 8, 0], &ip].concat()),
        (204, behind(&[1, 0xff, 3, 0, 0x21])),
        // Wireless: from the access point; with QoS and four addresses; behind radiotap with a time, flags that
        // tell of padding, and two words of fields; behind PPI.
        (105, wireless(&[8, 2], &[], &ip)),
        (105, wireless(&[0x88, 3], &[9, 9, 9, 9, 9, 9, 0, 0], &ip)),
        (127, [&[0, 0, 8, 0, 0, 0, 0, 0][..], &wireless(&[8, 1], &[], &ip)].concat()),
        (127, [&TIMED[..], &wireless(&[0x88, 1], &[0, 0, 0xee, 0xee], &ip)].concat()),
        (192, [&[0, 0, 8, 0, 105, 0, 0, 0][..], &wireless(&[8, 2], &[], &ip)].concat()),
        (192, [&[0, 0, 12, 0, 1, 0, 0, 0, 7, 7, 7, 7][..], &udp_frame(4_000, 4_002, b"speech")].concat()),
        // Netfilter's log of machines of both byte orders, with a prefix in front.
        (239, [&[2, 0, 0, 5, 5, 0, 10, 0, 0, 0, 0, 0, len + 4, 0, 9, 0][..], &ip].concat()),
        (239, [&[2, 0, 0, 5, 0, 8, 0, 1, 8, 0, 1, 0, 0, len + 4, 0, 9][..], &ip].concat()),
    ];
    for (link, data) in &cases {
        let found = datagram(*link, data);
        assert_eq!((found.src_port, found.dst_port, found.payload), (4_000, 4_002, &b"speech"[..]), "{link}");
        assert_eq!(found.src.to_string(), "192.0.2.1");
        assert_eq!(found.point, if *link == 276 { 5 } else { 0 });
    }
    assert_eq!(decoded(106, &ip), Decoded::UnknownLink);
}

#[test]
fn frames_that_hide_what_they_carry_are_told() {
    let frame = |between: &[u8]| [&[2; 12][..], between, &[0; 40]].concat();
    for (between, what) in [
        // A pseudowire with its control word.
        (&[0x88, 0x47, 0, 1, 1, 64, 0, 0, 0, 0][..], Opaque::Mpls),
        (&[0x88, 0x48, 0, 1, 1, 64, 0, 0, 0, 0], Opaque::Mpls),
        (&[0x81, 0, 0, 7, 0x88, 0xe5], Opaque::Macsec),
        (&[0x88, 0xe7, 0, 0, 0, 1], Opaque::Backbone),
        (&[0x88, 0x64, 0x11, 0, 0, 1, 0, 42, 0, 0xfd], Opaque::Ppp),
    ] {
        assert_eq!(decoded(1, &frame(between)), Decoded::Opaque(what));
    }
    // Spanning tree, Cisco's protocols behind a SNAP header, negotiation of PPP.
    for between in [
        &[0, 38, 0x42, 0x42, 3][..],
        &[0, 40, 0xaa, 0xaa, 3, 0, 0, 0xc, 0x20, 0],
        &[0x88, 0x64, 0x11, 0, 0, 1, 0, 42, 0xc0, 0x21],
    ] {
        assert_eq!(decoded(1, &frame(between)), Decoded::NotIp);
    }
}

#[test]
fn vlan_tags_are_passed_over_and_named() {
    let one = tagged(&[0x81, 0, 0x60, 100, 8, 0]);
    assert_eq!(datagram(1, &one).tags.to_string(), "100");
    let two = tagged(&[0x88, 0xa8, 0, 10, 0x81, 0, 0, 100, 8, 0]);
    assert_eq!(datagram(1, &two).tags.to_string(), "10.100");
    // A priority, and no VLAN: what is tagged so in one direction only is one connection all the same.
    let none = [&one[..14], &[0xe0, 0], &one[16..]].concat();
    assert_eq!(datagram(1, &none).tags, Tags::default());
    assert_eq!(datagram(1, &two).payload, b"speech");
}

/// IPv6 from the next header on.
fn ipv6(next: u8, rest: &[u8]) -> Vec<u8> {
    let len = rest.len() as u16;
    let mut head = vec![0x60, 0, 0, 0, (len >> 8) as u8, len as u8, next, 64];
    head.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    head.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    [&head, rest].concat()
}

#[test]
fn extension_headers_of_ipv6_are_passed_over() {
    let udp = udp(4_000, 4_002, b"speech");
    let options = |next: u8| [next, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let authentication = [17, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1];
    let atomic = [17, 0, 0, 0, 0, 0, 0, 9];
    for (next, between) in [
        (17, vec![]),
        (0, [&options(60)[..], &options(17)].concat()),
        (51, authentication.to_vec()),
        (44, atomic.to_vec()),
    ] {
        let packet = ipv6(next, &[&between[..], &udp].concat());
        let found = datagram(101, &packet);
        assert_eq!((found.payload, found.payload_len), (&b"speech"[..], 6));
        assert_eq!(found.dst.to_string(), "2001:db8::2");
    }
}

#[test]
fn fragments_are_told() {
    let mut packet = udp_over_ipv4(1, 2, b"speech");
    packet[6] = 0x20;
    assert_eq!(decoded(101, &packet), Decoded::Fragment);
    packet[6..8].copy_from_slice(&[0, 8]);
    assert_eq!(decoded(101, &packet), Decoded::Fragment);
    assert_eq!(decoded(101, &ipv6(44, &[17, 0, 0, 1, 0, 0, 0, 9, 1, 2, 3])), Decoded::Fragment);
}

#[test]
fn the_length_as_sent_is_known_where_the_capture_cut_the_packet() {
    let packet = udp_frame(1, 2, &[7; 172]);
    let found = datagram(1, &packet[..54]);
    assert_eq!((found.payload.len(), found.payload_len), (12, 172));
    assert_eq!(decoded(1, &packet[..36]), Decoded::Malformed);
}

#[test]
fn padding_behind_a_short_packet_is_no_payload() {
    let packet = [udp_frame(1, 2, b"ab"), vec![0; 16]].concat();
    assert_eq!(datagram(1, &packet).payload, b"ab");
}

#[test]
fn headers_that_contradict_themselves_are_malformed() {
    let good = udp_over_ipv4(1, 2, b"speech");
    for (at, value) in [(0, 0x44), (0, 0x4f), (3, 19), (3, 27), (25, 7)] {
        let mut packet = good.clone();
        packet[at] = value;
        assert_eq!(decoded(101, &packet), Decoded::Malformed, "byte {at} = {value}");
    }
    assert_eq!(decoded(101, &[]), Decoded::Malformed);
    assert_eq!(decoded(1, &[0; 60]), Decoded::NotIp);
}

#[test]
fn an_endless_chain_of_extension_headers_ends() {
    let chain: Vec<u8> = (0..100).flat_map(|_| [60, 0, 0, 0, 0, 0, 0, 0]).collect();
    assert_eq!(decoded(101, &ipv6(60, &chain)), Decoded::Malformed);
}

/// A segment over IPv4 in an Ethernet frame: 192.0.2.1 to 192.0.2.2, `options` of TCP.
fn tcp_frame(options: &[u8], payload: &[u8]) -> Vec<u8> {
    let header_len = 20 + options.len();
    let total = (20 + header_len + payload.len()) as u16;
    let [high, low] = total.to_be_bytes();
    let ip = [0x45, 1, high, low, 0x12, 0x34, 0x40, 0, 64, 6, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
    let tcp =
        [0x9c, 0x40, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2, (header_len as u8 / 4) << 4, 0x18, 1, 0, 0, 0, 0, 0];
    [&[2; 6][..], &[3; 6], &[8, 0], &ip, &tcp, options, payload].concat()
}

#[test]
fn padding_that_ip_counts_as_its_own_is_no_payload() {
    // An ACK in a frame of 60 bytes, whose length a program has rewritten.
    let mut ack = tcp_frame(&[], &[0; 6]);
    ack[47] = 0x10;
    // The same bytes, pushed; others; and as many in a longer packet.
    let pushed = tcp_frame(&[], &[0; 6]);
    let mut written = tcp_frame(&[], b"hello!");
    written[47] = 0x10;
    let mut longer = tcp_frame(&[], &[0; 7]);
    longer[47] = 0x10;
    // Behind a VLAN tag that was removed.
    let mut tagged = tcp_frame(&[], &[0; 2]);
    tagged[47] = 0x10;
    for (frame, expected) in [(ack, 0), (tagged, 0), (pushed, 6), (written, 6), (longer, 7)] {
        let Decoded::Tcp(found) = decoded(1, &frame) else { panic!("{:?}", decoded(1, &frame)) };
        assert_eq!((found.payload_len, found.payload.len()), (expected, expected));
    }
}

#[test]
fn segments_are_taken_apart_whatever_is_in_front_of_them() {
    let frame = tcp_frame(&[1; 12], b"GET /");
    let vlan = [&frame[..12], &[0x81, 0, 0, 7, 8, 0], &frame[14..]].concat();
    // An option of IP, which takes another way.
    let mut optioned = [&frame[14..34], &[1, 1, 1, 0], &frame[34..]].concat();
    (optioned[0], optioned[3]) = (0x46, optioned[3] + 4);
    let cases = [(1, &frame[..], ""), (1, &vlan, "7"), (101, &frame[14..], ""), (101, &optioned, "")];
    for (link, data, tags) in cases {
        let Decoded::Tcp(found) = decoded(link, data) else { panic!("{:?}", decoded(link, data)) };
        assert_eq!((found.src.to_string().as_str(), found.src_port), ("192.0.2.1", 40_000));
        assert_eq!((found.dst.to_string().as_str(), found.dst_port), ("192.0.2.2", 80));
        assert_eq!((found.ecn, found.ip_id, found.tags.to_string().as_str()), (1, 0x1234, tags));
        assert_eq!((found.header.len(), &found.header[20..]), (32, &[1; 12][..]));
        assert_eq!((found.payload, found.payload_len), (&b"GET /"[..], 5));
    }
}

#[test]
fn segments_that_the_capture_cut_keep_what_there_is_of_them() {
    let frame = tcp_frame(&[1; 12], &[7; 100]);
    for (captured, header, payload) in [(54, 20, 0), (60, 26, 0), (66, 32, 0), (70, 32, 4), (47, 13, 0)] {
        let Decoded::Tcp(found) = decoded(1, &frame[..captured]) else { panic!("{captured} bytes") };
        let lengths = (found.header.len(), found.payload.len(), found.payload_len);
        assert_eq!(lengths, (header, payload, 100), "{captured} bytes");
    }
    assert_eq!(decoded(1, &frame[..46]), Decoded::Malformed);
}

#[test]
fn segments_that_contradict_themselves_are_malformed() {
    let good = tcp_frame(&[], b"GET /");
    // Header lengths of 16 and 60 bytes, where there are 25.
    for (at, value) in [(46, 0x40), (46, 0xf0), (17, 39)] {
        let mut frame = good.clone();
        frame[at] = value;
        assert_eq!(decoded(1, &frame), Decoded::Malformed, "byte {at} = {value}");
    }
}
