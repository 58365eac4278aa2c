//! Seeds of the target "packet": link layers, tunnels, fragments, and what can be wrong with them.

use super::frames::{ethernet, ipv4, ipv6, segment, udp};

/// Name, bytes, and how many packets of what kind they are.
type Seed = (&'static str, Vec<u8>, &'static [(&'static str, u64)]);

/// The input of the target.
fn input(link: u16, packets: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = link.to_le_bytes().to_vec();
    for packet in packets {
        bytes.extend((packet.len() as u16).to_le_bytes());
        bytes.push(1);
        bytes.extend(packet);
    }
    bytes
}

pub fn seeds() -> Vec<Seed> {
    let datagram = udp(4_000, 4_002, b"speech that goes on and on, for as long as it takes");
    let ip = || ipv4(17, false, 0, &datagram);
    let behind = |head: &[u8]| [head, &ip()].concat();
    let between = |bytes: &[u8], rest: &[u8]| [&[2; 12][..], bytes, rest].concat();
    let syn = segment(false, 7, 0, 2, &[2, 4, 5, 0xb4, 1, 3, 3, 7], &[]);
    let esp = [&[0, 0, 1, 2, 0, 0, 0, 9][..], &[0xee; 20]].concat();
    let piece = |cut, from: usize, to: usize| ipv4(17, false, cut, &datagram[from..to]);
    let piece6 =
        |low, from: usize, to: usize| ipv6(44, &[&[17, 0, 0, low, 0, 0, 0, 7], &datagram[from..to]].concat());
    let end = datagram.len();
    let options = |next: u8| [next, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let chain: Vec<u8> = (0..20).flat_map(|_| [60, 0, 1, 4, 0, 0, 0, 0]).collect();
    let gre = |head: &[u8], inner: &[u8]| ipv4(47, false, 0, &[head, inner].concat());
    let to_port =
        |port, head: &[u8], inner: &[u8]| ipv4(17, false, 0, &udp(50_000, port, &[head, inner].concat()));
    let nested = (0..5).fold(ip(), |inner, _| ipv4(4, false, 0, &inner));
    let mut no_length = ip();
    (no_length[2], no_length[3]) = (0, 0);
    vec![
        ("ethernet-tcp", input(1, &[ethernet(&ipv4(6, false, 0, &syn))]), &[("tcp", 1)]),
        ("ethernet-udp", input(1, &[ethernet(&ip())]), &[("udp", 1)]),
        ("ethernet-arp", input(1, &[between(&[8, 6], &[0; 28])]), &[("not ip", 1)]),
        ("ethernet-short", input(1, &[vec![2; 13]]), &[("malformed", 1)]),
        ("vlan", input(1, &[between(&[0x81, 0, 0, 7, 8, 0], &ip())]), &[("udp", 1)]),
        ("qinq", input(1, &[between(&[0x88, 0xa8, 0, 1, 0x81, 0, 0, 7, 8, 0], &ip())]), &[("udp", 1)]),
        ("mpls", input(1, &[between(&[0x88, 0x47, 0, 1, 0, 64, 0, 2, 0x11, 64], &ip())]), &[("udp", 1)]),
        ("pppoe", input(1, &[between(&[0x88, 0x64, 0x11, 0, 0, 1, 0, 81, 0, 0x21], &ip())]), &[("udp", 1)]),
        ("null", input(0, &[behind(&[2, 0, 0, 0])]), &[("udp", 1)]),
        ("loop", input(108, &[behind(&[0, 0, 0, 2])]), &[("udp", 1)]),
        ("ppp", input(9, &[behind(&[0xff, 3, 0, 0x21]), behind(&[0, 0x21])]), &[("udp", 2)]),
        (
            "ppp-short-protocol",
            input(9, &[behind(&[0xff, 3, 0x21]), behind(&[0x21]), vec![0x2d, 9]]),
            &[("ppp", 1), ("udp", 2)],
        ),
        ("llc-snap", input(1, &[between(&[0, 89, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0], &ip())]), &[("udp", 1)]),
        ("llc", input(1, &[between(&[0, 38, 0x42, 0x42, 3], &[0; 35])]), &[("not ip", 1)]),
        ("mpls-pseudowire", input(1, &[between(&[0x88, 0x47, 0, 1, 1, 64], &[0; 40])]), &[("mpls", 1)]),
        ("sll", input(113, &[behind(&[0, 0, 0, 1, 0, 6, 2, 2, 2, 2, 2, 2, 0, 0, 8, 0])]), &[("udp", 1)]),
        (
            "sll2",
            input(276, &[behind(&[8, 0, 0, 0, 0, 0, 0, 5, 0, 1, 0, 6, 2, 2, 2, 2, 2, 2, 0, 0])]),
            &[("udp", 1)],
        ),
        ("unknown-link", input(106, &[ip()]), &[("unknown link", 1)]),
        ("raw-ipv4", input(101, &[ip()]), &[("udp", 1)]),
        ("raw-ipv6", input(101, &[ipv6(17, &datagram)]), &[("udp", 1)]),
        ("raw-icmp", input(101, &[ipv4(1, false, 0, &[8; 20])]), &[("other ip", 1)]),
        (
            "raw-truncated",
            input(101, &[ip()[..30].to_vec(), ip()[..24].to_vec()]),
            &[("malformed", 1), ("udp", 1)],
        ),
        ("raw-no-length", input(101, &[no_length]), &[("udp", 1)]),
        (
            "ipv4-options",
            input(
                101,
                &[{
                    let mut packet = [&ip()[..20], &[1, 1, 1, 0], &ip()[20..]].concat();
                    packet[0] = 0x46;
                    packet[3] += 4;
                    packet
                }],
            ),
            &[("udp", 1)],
        ),
        (
            "ipv6-extensions",
            input(101, &[ipv6(0, &[&options(60)[..], &options(43), &options(17), &datagram].concat())]),
            &[("udp", 1)],
        ),
        ("ipv6-endless-extensions", input(101, &[ipv6(60, &chain)]), &[("malformed", 1)]),
        (
            "ipv4-authentication",
            input(101, &[ipv4(51, false, 0, &[&[17, 4, 0, 0], &[0; 20][..], &datagram].concat())]),
            &[("udp", 1)],
        ),
        (
            "ipv4-fragments",
            input(101, &[piece(0x2000, 0, 24), piece(6, 48, end), piece(0x2003, 24, 48)]),
            &[("fragment", 2), ("udp", 1)],
        ),
        (
            "ipv6-fragments",
            input(101, &[piece6(1, 0, 24), piece6(48, 48, end), piece6(25, 24, 48)]),
            &[("fragment", 2), ("udp", 1)],
        ),
        ("ipv6-atomic-fragment", input(101, &[piece6(0, 0, end)]), &[("udp", 1)]),
        (
            "fragments-overlap",
            input(101, &[piece(0x2000, 0, 24), piece(0x2001, 8, 32), piece(3, 24, end)]),
            &[("fragment", 3)],
        ),
        (
            "fragments-twice",
            input(101, &[piece(0x2000, 0, 24), piece(0x2000, 0, 24), piece(3, 24, end)]),
            &[("fragment", 2), ("udp", 1)],
        ),
        ("fragment-beyond-64-kib", input(101, &[piece(0x1fff, 0, end)]), &[("fragment", 1)]),
        ("esp", input(101, &[ipv4(50, false, 0, &esp), ipv6(50, &esp)]), &[("esp", 2)]),
        (
            "esp-in-udp",
            input(
                101,
                &[&esp[..], &[0; 12], &[0xff]].map(|data| ipv4(17, false, 0, &udp(4_500, 4_500, data))),
            ),
            &[("udp", 3)],
        ),
        (
            "ipip",
            input(101, &[ipv4(4, false, 0, &ip()), ipv4(41, false, 0, &ipv6(17, &datagram))]),
            &[("udp", 2)],
        ),
        ("ipip-too-deep", input(101, &[nested]), &[("deep", 1)]),
        (
            "gre",
            input(
                101,
                &[
                    gre(&[0, 0, 8, 0], &ip()),
                    gre(&[0xb0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2], &ip()),
                ],
            ),
            &[("udp", 2)],
        ),
        ("gre-of-ethernet", input(101, &[gre(&[0, 0, 0x65, 0x58], &ethernet(&ip()))]), &[("udp", 1)]),
        (
            "gre-of-ppp",
            input(101, &[gre(&[0x30, 1, 0x88, 0x0b, 0, 40, 0, 1, 0, 0, 0, 1, 0x21], &ip())]),
            &[("udp", 1)],
        ),
        (
            "gre-of-something",
            input(101, &[gre(&[0, 0, 0x20, 0], &ip()), gre(&[0x40, 0, 8, 0], &ip())]),
            &[("tunnel", 2)],
        ),
        (
            "erspan",
            input(
                101,
                &[
                    gre(&[0, 0, 0x88, 0xbe], &ethernet(&ip())),
                    gre(&[0x10, 0, 0x88, 0xbe, 0, 0, 0, 1, 0x10, 5, 0, 1, 0, 0, 0, 9], &ethernet(&ip())),
                    gre(
                        &[
                            0x10, 0, 0x22, 0xeb, 0, 0, 0, 1, 0x20, 5, 0, 1, 0, 0, 0, 9, 0, 0, 0, 1, 3, 0, 0,
                            0, 0, 0, 0, 1,
                        ],
                        &ethernet(&ip()),
                    ),
                ],
            ),
            &[("udp", 3)],
        ),
        (
            "vxlan",
            input(
                101,
                &[
                    to_port(4_789, &[8, 0, 0, 0, 0, 0, 1, 0], &ethernet(&ip())),
                    to_port(8_472, &[0x88, 0, 0, 5, 0, 0, 1, 0], &ethernet(&ip())),
                    to_port(4_790, &[0x0c, 0, 0, 1, 0, 0, 1, 0], &ip()),
                ],
            ),
            &[("udp", 3)],
        ),
        (
            "vxlan-cut-off",
            input(101, &[to_port(4_789, &[8, 0, 0, 0, 0, 0, 1, 0], &[2; 9])]),
            &[("malformed", 1)],
        ),
        (
            "geneve",
            input(
                101,
                &[
                    to_port(6_081, &[0, 0, 0x65, 0x58, 0, 0, 1, 0], &ethernet(&ip())),
                    to_port(6_081, &[2, 0, 8, 0, 0, 0, 1, 0, 1, 2, 3, 1, 9, 9, 9, 9], &ip()),
                    to_port(6_081, &[0x3f, 0, 8, 0, 0, 0, 1, 0], &ip()),
                ],
            ),
            &[("malformed", 1), ("udp", 2)],
        ),
        (
            "gtp-u",
            input(
                101,
                &[
                    to_port(2_152, &[0x30, 255, 0, 34, 0, 0, 0, 1], &ip()),
                    to_port(2_152, &[0x34, 255, 0, 46, 0, 0, 0, 1, 0, 0, 0, 0x85, 1, 0, 1, 0], &ip()),
                    to_port(2_152, &[0x34, 255, 0, 46, 0, 0, 0, 1, 0, 0, 0, 0x85], &[0, 1].repeat(60)),
                    to_port(2_152, &[0x32, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0], &[]),
                ],
            ),
            &[("tunnel", 1), ("udp", 3)],
        ),
        (
            "l2tp",
            input(101, &[to_port(1_701, &[0x4a, 2, 0, 50, 0, 1, 0, 2, 0, 0, 0, 0, 0, 1, 9, 0x21], &ip())]),
            &[("udp", 1)],
        ),
        (
            "tcp-header-lies",
            input(
                101,
                &[0x40, 0xf0].map(|offset| {
                    let mut wrong = syn.clone();
                    wrong[12] = offset;
                    ipv4(6, false, 0, &wrong)
                }),
            ),
            &[("malformed", 2)],
        ),
    ]
}
