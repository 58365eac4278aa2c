//! Seeds of the target "voice": RTP, what announces it, and its neighbours.

use super::frames::{ethernet, ipv4, pcap, udp};

/// Name, bytes, and streams in it, where every datagram that looks like RTP is taken for it.
type Seed = (&'static str, Vec<u8>, usize);

const SDP: &str = "INVITE sip:b@example.org SIP/2.0\r\nContent-Type: application/sdp\r\nContent-Length: 130\r\n\r\n\
v=0\r\no=a 1 1 IN IP4 192.0.2.1\r\ns=-\r\nc=IN IP4 192.0.2.1\r\nt=0 0\r\n\
m=audio 4000 RTP/AVP 96\r\na=rtpmap:96 opus/48000/2\r\na=ptime:20\r\n";

fn frame(src_port: u16, dst_port: u16, payload: &[u8]) -> Vec<u8> {
    ethernet(&ipv4(17, false, 0, &udp(src_port, dst_port, payload)))
}

fn rtp(first: u8, second: u8, seq: u16, timestamp: u32, payload: &[u8]) -> Vec<u8> {
    let head = [&[first, second][..], &seq.to_be_bytes(), &timestamp.to_be_bytes(), &[0, 0, 0, 7]].concat();
    frame(4_000, 4_002, &[&head, payload].concat())
}

/// 20 packets of 20 ms.
fn stream(packet: impl Fn(u16) -> Vec<u8>) -> Vec<(u32, Vec<u8>)> {
    (0..20).map(|i| (u32::from(i) * 20_000, packet(i))).collect()
}

pub fn seeds() -> Vec<Seed> {
    let speech = |i: u16| rtp(0x80, 0, i.wrapping_sub(10), u32::from(i) * 160, &[0xd5; 20]);
    let lossy = stream(|i| speech(i * 3));
    let mut swapped = stream(speech);
    swapped.swap(4, 5);
    swapped[8].1 = swapped[7].1.clone();
    let announced = [
        vec![(0, frame(5_060, 5_060, SDP.as_bytes()))],
        stream(|i| rtp(0x80, 96, i, u32::from(i) * 960, &[1; 20])),
    ];
    // An extension of no length, padding beyond the packet, more contributing sources than there are.
    let headers = [
        (0x90, vec![0xbe, 0xde, 0, 0, 9, 9]),
        (0xa0, vec![200]),
        (0x8f, vec![1; 8]),
        (0x90, vec![0, 0, 255, 255]),
    ];
    let wrong: Vec<_> = headers
        .iter()
        .zip(0..)
        .map(|((first, rest), i)| (u32::from(i), rtp(*first, 0, i, 0, rest)))
        .collect();
    let jumps = stream(|i| rtp(0x80, 0, i.wrapping_mul(20_000), u32::from(i) << 28, &[0; 20]));
    let report = [0x80, 200, 0, 6, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let iax2_new = [0x80, 1, 0, 0, 0, 0, 0, 0, 0, 0, 6, 1, 9, 4, 0, 0, 0, 4];
    let iax2 = |i: u16| {
        let full = [&[0x80, 1, 0, 2, 0, 0, 0, 3, 1, 1, 2, 4][..], &[0xd5; 20]].concat();
        let [high, low] = (i * 20 + 3).to_be_bytes();
        let mini = [&[0, 1, high, low][..], &[0xd5; 20]].concat();
        frame(4_569, 4_569, if i == 0 { &full } else { &mini })
    };
    // Calls in a trunk with time stamps of their own; an entry without its end.
    let trunk = |i: u16| {
        let [high, low] = (i * 20 + 3).to_be_bytes();
        let entry = [&[0, 20, 0, 1, high, low][..], &[0xd5; 20]].concat();
        frame(4_569, 4_569, &[&[0, 0, 1, 1, 0, 0, 0, low][..], &entry, &[0xff, 0xff, 0]].concat())
    };
    // Times as a clock shows them, not those of the speech.
    let unlocked = |i: u16| {
        let [high, low] = (i * 20 + [0, 7, 2, 11, 5, 13, 1][usize::from(i % 7)]).to_be_bytes();
        frame(4_569, 4_569, &[&[0, 1, high, low][..], &[0xd5; 20]].concat())
    };
    let restart = |i: u16| {
        let (marker, moved) = (u8::from(i == 10) << 7, if i < 10 { 0 } else { 344_000 });
        rtp(0x80, marker, i, u32::from(i) * 160 + moved, &[0xd5; 20])
    };
    // Another codec in the middle; a silence in which stamps stand still; numbers that are lengths.
    let codecs = |i: u16| rtp(0x80, if i < 20 { 9 } else { 8 }, i, u32::from(i) * 160, &[0xd5; 8]);
    let change: Vec<_> = (0..42).map(|i| (u32::from(i) * 20_000, codecs(i))).collect();
    let still: Vec<_> =
        (0..36_u16).map(|i| (u32::from(i) * 20_000 + if i < 18 { 0 } else { 700_000 }, speech(i))).collect();
    let lengths = stream(|i| rtp(0x81, 10, 12 + i % 7, u32::from(i), &vec![0; usize::from(i % 7)]));
    // A receiver report with a round trip, and VoIP metrics.
    let received = [
        &[0x81, 201, 0, 7, 0, 0, 0, 8, 0, 0, 0, 7, 25, 0, 0, 3, 0, 0, 0, 90, 0, 0, 0, 9][..],
        &[0, 0, 0, 1, 0, 0, 1, 0, 0x80, 207, 0, 10, 0, 0, 0, 8, 7, 0, 0, 8, 0, 0, 0, 7],
        &[9; 28],
    ]
    .concat();
    let hold = SDP.replace("a=ptime:20", "a=inactive");
    let held = [
        vec![(0, frame(5_060, 5_060, SDP.as_bytes())), (100, frame(5_060, 5_060, hold.as_bytes()))],
        stream(|i| rtp(0x80, 96, i * 2, u32::from(i) * 1_920, &[1; 20])),
    ];
    // Music of another source, behind which numbers are far ahead, and packets overtake each other.
    let music = |i: u32| {
        let mut packet = rtp(0x80, 0, i as u16, i * 160, &[0xff; 8]);
        let source = packet.len() - 9;
        packet[source] ^= 1;
        packet
    };
    let mut resumed: Vec<_> = (0..8_u32).map(|i| (i * 20_000, speech(i as u16))).collect();
    resumed.extend((9..20).map(|i| (i * 20_000, music(i))));
    resumed.extend((20..40).map(|i| (i * 20_000 + i % 3 * 25_000, speech(i as u16))));
    resumed.sort_by_key(|(at_us, _)| *at_us);
    let short: Vec<_> =
        (0..16_u8).map(|n| (u32::from(n), frame(4_000, 4_002, &vec![0x80; n.into()]))).collect();
    vec![
        ("rtp", pcap(1, &stream(speech)), 1),
        ("rtp-loss", pcap(1, &lossy), 1),
        ("rtp-reordered-and-twice", pcap(1, &swapped), 1),
        ("rtp-jumps", pcap(1, &jumps), 1),
        ("rtp-wrong-headers", pcap(1, &wrong), 1),
        ("rtp-time-stamps-restart", pcap(1, &stream(restart)), 1),
        ("iax2-unlocked", pcap(1, &stream(unlocked)), 1),
        ("rtp-short", pcap(1, &short), 1),
        ("rtp-announced", pcap(1, &announced.concat()), 1),
        ("rtp-codec-change", pcap(1, &change), 2),
        ("rtp-still", pcap(1, &still), 1),
        ("rtp-lengths", pcap(1, &lengths), 1),
        ("rtp-resumed", pcap(1, &resumed), 2),
        ("rtp-on-hold", pcap(1, &held.concat()), 1),
        ("rtcp-received", pcap(1, &[(0, frame(4_001, 4_003, &received))]), 0),
        ("rtcp", pcap(1, &[(0, frame(4_001, 4_003, &report))]), 0),
        ("iax2", pcap(1, &[vec![(0, frame(4_569, 4_569, &iax2_new))], stream(iax2)].concat()), 1),
        ("iax2-trunk", pcap(1, &stream(trunk)), 1),
    ]
}
