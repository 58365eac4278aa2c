mod situations;

use super::finder::MAX_CANDIDATES;
use super::*;
use crate::capture::Packet;
use crate::testing::{pcap, rtp, udp_frame};
use crate::voice_of;

const SSRC: u32 = 0x1234_5678;

fn found(packets: &[(u64, Vec<u8>)]) -> Voice {
    voice_of(&pcap(1, packets)[..], Options::default()).unwrap()
}

/// Packets of 20 ms with these numbers; the time stamp belongs to the number.
fn speech(numbers: impl IntoIterator<Item = u32>, payload_type: u8) -> Vec<(u64, Vec<u8>)> {
    let packet = |(i, n): (u64, u32)| {
        let payload = rtp(payload_type, n as u16, n.wrapping_mul(160), SSRC);
        (i * 20_000, udp_frame(4_000, 4_002, &payload))
    };
    (0..).zip(numbers).map(packet).collect()
}

fn seqs(stream: &Stream) -> Vec<i64> {
    stream.rows.iter().map(|row| row.seq).collect()
}

#[test]
fn five_packets_that_go_on_are_a_stream_and_four_are_none() {
    let voice = found(&speech(0..5, 0));
    assert_eq!(seqs(&voice.streams[0]), [0, 1, 2, 3, 4]);
    assert_eq!(voice.streams[0].measured.facts.codec, "PCMU");
    assert_eq!(voice.streams[0].measured.facts.clock_hz, 8_000);
    let voice = found(&speech(0..4, 0));
    assert!(voice.streams.is_empty());
    assert_eq!(voice.counts.other_udp, 4);
}

#[test]
fn numbers_and_time_stamps_go_on_when_they_wrap() {
    // 65,530 to 65,545 in numbers; the time stamp wraps once on the way, too.
    let packets: Vec<_> = (0..16_u32)
        .map(|i| {
            let stamp = 0_u32.wrapping_sub(800).wrapping_add(i * 160);
            (u64::from(i) * 20_000, udp_frame(4_000, 4_002, &rtp(8, (65_530 + i) as u16, stamp, SSRC)))
        })
        .collect();
    let voice = found(&packets);
    let rows = &voice.streams[0].rows;
    assert_eq!(seqs(&voice.streams[0]), (65_530..65_546).collect::<Vec<_>>());
    assert!(rows.windows(2).all(|pair| pair[1].timestamp - pair[0].timestamp == 160));
}

#[test]
fn lost_late_and_repeated_packets_keep_their_numbers() {
    let numbers = [10, 11, 12, 13, 14, 17, 16, 18, 18, 19];
    let voice = found(&speech(numbers, 0));
    assert_eq!(seqs(&voice.streams[0]), numbers.map(i64::from));
    assert_eq!(voice.streams[0].rows[6].timestamp, 16 * 160);
}

#[test]
fn a_late_packet_before_the_first_has_a_lower_number() {
    let voice = found(&speech([0, 0xffff, 1, 2, 3, 4], 0));
    assert_eq!(seqs(&voice.streams[0]), [0, -1, 1, 2, 3, 4]);
}

#[test]
fn a_stray_packet_is_left_out_and_counted() {
    let voice = found(&speech((0..10).chain([40_000]).chain(10..20), 0));
    assert_eq!(seqs(&voice.streams[0]), (0..20).collect::<Vec<_>>());
    assert_eq!(voice.streams[0].measured.strays, 1);
}

#[test]
fn a_source_that_starts_anew_is_a_second_part_and_loses_nothing() {
    let voice = found(&speech((0..10).chain(40_000..40_010), 0));
    assert_eq!(
        voice.streams.iter().map(|s| (s.measured.part, s.rows.len())).collect::<Vec<_>>(),
        [(0, 10), (1, 10)]
    );
    assert_eq!(seqs(&voice.streams[1]), (40_000..40_010).collect::<Vec<_>>());
}

#[test]
fn a_long_gap_is_loss_where_time_passed_as_well() {
    let mut packets = speech((0..100).chain(5_000..5_010), 0);
    for (i, (time_us, _)) in packets.iter_mut().enumerate().skip(100) {
        *time_us = (5_000 + i as u64 - 100) * 20_000;
    }
    let voice = found(&packets);
    assert_eq!(voice.streams.len(), 1);
    assert_eq!(*seqs(&voice.streams[0]).last().unwrap(), 5_009);
}

#[test]
fn another_source_or_port_is_another_stream() {
    let mut packets = Vec::new();
    for i in 0..10_u32 {
        for (port, ssrc) in [(4_002, 1), (4_002, 2), (4_004, 1)] {
            packets.push((u64::from(i) * 20_000, udp_frame(4_000, port, &rtp(0, i as u16, i * 160, ssrc))));
        }
    }
    let voice = found(&packets);
    let keys: Vec<_> = voice
        .streams
        .iter()
        .map(|s| (s.measured.key.dst_port, s.measured.key.source, s.rows.len()))
        .collect();
    assert_eq!(keys, [(4_002, 1, 10), (4_002, 2, 10), (4_004, 1, 10)]);
}

#[test]
fn what_looks_like_rtp_for_a_packet_and_does_not_go_on_is_none() {
    // A constant first word, numbers and stamps that jump: version 2 alone would take them.
    let jumping = speech((0..60).map(|i| i * 977), 0);
    assert!(found(&jumping).streams.is_empty());
    // A protocol that counts its packets but whose "time stamp" stands still.
    let still = |i: u16| udp_frame(4_000, 4_002, &rtp(0, i, 77, SSRC));
    let still: Vec<_> = (0..60).map(|i| (u64::from(i) * 20_000, still(i))).collect();
    let voice = found(&still);
    assert!(voice.streams.is_empty());
    assert_eq!(voice.counts.other_udp, 60);
}

#[test]
fn rtcp_stun_and_dtls_are_told_from_rtp() {
    let rtcp = [&[0x81, 201, 0, 7][..], &[0; 28]].concat();
    let others = [[&[0, 1, 0, 8][..], &[0; 20]].concat(), [&[22, 254, 253][..], &[0; 30]].concat()];
    let mut packets: Vec<_> = (0..9).map(|i| (i, udp_frame(1, 2, &rtcp))).collect();
    packets.extend(others.iter().flat_map(|other| (0..9).map(|i| (i, udp_frame(1, 2, other)))));
    let voice = found(&packets);
    assert!(voice.streams.is_empty());
    assert_eq!((voice.counts.rtcp, voice.counts.other_udp), (9, 18));
}

#[test]
fn padding_extensions_and_contributors_are_no_payload() {
    let mut payload = rtp(0, 1, 160, SSRC);
    payload[0] = 0x80 | 0x20 | 0x10 | 2;
    payload.splice(12..12, [1, 1, 1, 1, 2, 2, 2, 2, 0xbe, 0xde, 0, 1, 0, 0, 0, 0]);
    payload.extend([0, 0, 0, 4]);
    let rtp::Look::Rtp(header) = rtp::look(&payload, payload.len()) else { panic!("no RTP") };
    assert_eq!(header.payload_bytes, 160);
    *payload.last_mut().unwrap() = 200;
    assert_eq!(rtp::look(&payload, payload.len()), rtp::Look::Other);
}

const INVITE: &str = "INVITE sip:b@192.0.2.1 SIP/2.0\r\nContent-Type: application/sdp\r\n\r\nv=0\r\n\
    o=- 1 1 IN IP4 192.0.2.2\r\ns=-\r\nc=IN IP4 192.0.2.2\r\nt=0 0\r\nm=audio 4002 RTP/AVP 111 101\r\n\
    a=rtpmap:111 opus/48000/2\r\na=rtpmap:101 telephone-event/8000\r\n";

#[test]
fn session_descriptions_name_dynamic_payload_types() {
    let mut packets = vec![(0, udp_frame(5_060, 5_060, INVITE.as_bytes()))];
    packets.extend(speech(0..20, 111));
    let voice = found(&packets);
    let facts = &voice.streams[0].measured.facts;
    assert_eq!((facts.codec.as_str(), facts.clock_hz, facts.kind), ("opus", 48_000, Kind::Audio));
    assert_eq!((facts.known_by, voice.counts.sip), (KnownBy::Sdp, 1));
}

#[test]
fn two_packets_suffice_where_sip_announced_them_before_or_after() {
    let sip = (0, udp_frame(5_060, 5_060, INVITE.as_bytes()));
    let two = speech(0..2, 111);
    for packets in [[vec![sip.clone()], two.clone()].concat(), [two, vec![sip]].concat()] {
        assert_eq!(found(&packets).streams[0].rows.len(), 2);
    }
}

#[test]
fn sessions_have_an_address_for_all_or_for_each_of_their_media() {
    let sdp = b"SIP/2.0 200 OK\r\n\r\nv=0\nc=IN IP4 10.0.0.1\nm=audio 4000 RTP/AVP 0\nm=video 5000/2 UDP/TLS/RTP/SAVPF 96\n\
        c=IN IP6 2001:db8::9\na=rtpmap:96 H264/90000\nm=application 9 TCP 1\nm=audio 0 RTP/AVP 0\n";
    let media = sdp::media_in(sdp);
    let told: Vec<_> = media.iter().map(|m| (m.address.to_string(), m.port, m.kind)).collect();
    let of = |address: &str, port, kind| (address.to_owned(), port, kind);
    let expected = [
        of("10.0.0.1", 4_000, Kind::Audio),
        of("2001:db8::9", 5_000, Kind::Video),
        of("10.0.0.1", 0, Kind::Audio),
    ];
    assert_eq!(told, expected);
    assert_eq!(media[1].encoding(96).unwrap().clock_hz, 90_000);
}

#[test]
fn telephone_events_and_comfort_noise_tell_nothing_about_time() {
    let mut packets = vec![(0, udp_frame(5_060, 5_060, INVITE.as_bytes()))];
    packets.extend(speech(0..10, 111));
    packets.extend(speech(10..13, 101).into_iter().map(|(at, p)| (at + 200_000, p)));
    packets.extend(speech(13..15, 13).into_iter().map(|(at, p)| (at + 260_000, p)));
    let voice = found(&packets);
    let speaks: Vec<_> = voice.streams[0].rows.iter().map(|row| row.speech).collect();
    assert_eq!(speaks, [vec![true; 10], vec![false; 5]].concat());
    let types = &voice.streams[0].measured.facts.payload_types;
    assert_eq!(types.iter().map(|t| (t.0, t.1)).collect::<Vec<_>>(), [(13, 2), (101, 3), (111, 10)]);
}

#[test]
fn the_clock_of_an_unknown_codec_is_told_by_its_speed() {
    let packets: Vec<_> = (0..50_u32)
        .map(|i| (u64::from(i) * 20_000, udp_frame(1, 2, &rtp(111, i as u16, i * 960, SSRC))))
        .collect();
    let facts = &found(&packets).streams[0].measured.facts;
    assert_eq!((facts.clock_hz, facts.known_by, facts.codec.as_str()), (48_000, KnownBy::Estimated, ""));
}

#[test]
fn ports_named_by_the_user_need_no_proof() {
    let options = Options { decode_as: vec![4_000..=4_001], ..Options::default() };
    let voice = voice_of(&pcap(1, &speech([5], 0))[..], options).unwrap();
    assert_eq!(seqs(&voice.streams[0]), [5]);
}

/// A mini frame of call 7 with GSM.
fn mini(stamp: u16) -> Vec<u8> {
    let head = [&7_u16.to_be_bytes()[..], &stamp.to_be_bytes(), &[0; 33]].concat();
    udp_frame(4_569, 4_569, &head)
}

#[test]
fn iax2_calls_are_numbered_by_their_times() {
    let full = [&[0x80, 7, 0, 9][..], &[0, 0, 0, 20, 0, 0, 2, 2], &[0; 33]].concat();
    let mut packets = vec![(0, udp_frame(4_569, 4_569, &full))];
    packets.extend([40_u16, 60, 100, 120, 140].map(|ms| (u64::from(ms) * 1_000, mini(ms))));
    let voice = found(&packets);
    let stream = &voice.streams[0];
    assert_eq!(
        (stream.measured.key.source, stream.measured.facts.codec.as_str(), stream.measured.facts.clock_hz),
        (7, "GSM", 1_000)
    );
    assert_eq!(seqs(stream), [0, 1, 2, 4, 5, 6]);
    assert!(stream.rows.iter().all(|row| row.payload_bytes == 33));
}

#[test]
fn iax2_times_go_on_beyond_65_seconds_even_after_a_silence() {
    let times_ms = (0..10).chain(4_000..4_010).map(|i: u64| i * 20);
    let packets: Vec<_> = times_ms.map(|ms| (ms * 1_000, mini(ms as u16))).collect();
    let voice = found(&packets);
    assert_eq!(voice.streams[0].rows.last().unwrap().timestamp, 4_009 * 20);
}

/// Speech of two calls of number 7, a minute apart, with this IAX control frame in front of the second.
fn two_calls(destination: u16, subclass: u8) -> Voice {
    let mut packets: Vec<_> = (0..10_u16).map(|i| (u64::from(i) * 20_000, mini(i * 20))).collect();
    let control = [&[0x80, 7][..], &destination.to_be_bytes(), &[0, 0, 0, 0, 0, 1, 6, subclass]].concat();
    packets.push((60_000_000, udp_frame(4_569, 4_569, &control)));
    packets.extend((0..10_u16).map(|i| (60_010_000 + u64::from(i) * 20_000, mini(i * 20))));
    found(&packets)
}

#[test]
fn an_iax2_number_used_again_is_another_call_on_either_side() {
    for subclass in [1, 7] {
        let voice = two_calls(9, subclass);
        assert_eq!(voice.streams.iter().map(|s| s.rows.len()).collect::<Vec<_>>(), [10, 10], "{subclass}");
    }
    // Sent again, and of another kind.
    assert_eq!(two_calls(0x8009, 7).streams.len(), 1);
    assert_eq!(two_calls(9, 4).streams.len(), 1);
}

#[test]
fn calls_in_iax2_trunk_frames_are_streams_each() {
    let trunk = |ms: u32| {
        let mut frame = [&[0, 0, 1, 0][..], &ms.to_be_bytes()].concat();
        for call in [3_u16, 4] {
            frame.extend([&call.to_be_bytes()[..], &33_u16.to_be_bytes(), &[0; 33]].concat());
        }
        udp_frame(4_569, 4_569, &frame)
    };
    let packets: Vec<_> = (0..10_u32).map(|i| (u64::from(i) * 20_000, trunk(i * 20))).collect();
    let voice = found(&packets);
    assert_eq!(
        voice.streams.iter().map(|s| (s.measured.key.source, s.rows.len())).collect::<Vec<_>>(),
        [(3, 10), (4, 10)]
    );
}

#[test]
fn a_flood_of_sources_is_forgotten_and_counted() {
    let mut collector = Collector::new(Options::default());
    let packets = u32::try_from(MAX_CANDIDATES).unwrap() + 1_000;
    for i in 0..packets {
        let data = udp_frame(4_000, 4_002, &rtp(0, 1, 1, i));
        collector.put(&Packet::new(0, crate::capture::LinkType(1), &data));
    }
    assert_eq!(collector.finder.open(), MAX_CANDIDATES);
    assert_eq!(collector.finder.others().udp, 1_000);
}

#[test]
fn a_forgotten_candidate_that_sip_announces_later_is_no_stream() {
    let mut packets = speech(0..2, 111);
    let flood = u32::try_from(MAX_CANDIDATES).unwrap();
    packets.extend((0..flood).map(|i| (50_000, udp_frame(6_000, 6_002, &rtp(0, 1, 1, i)))));
    packets.push((60_000, udp_frame(5_060, 5_060, INVITE.as_bytes())));
    let voice = found(&packets);
    assert!(voice.streams.is_empty());
    assert_eq!(voice.counts.other_udp, u64::from(flood) + 2);
}

#[test]
fn packets_seen_at_two_interfaces_are_two_streams() {
    let mut packets = speech(0..10, 0);
    for (_, frame) in &mut packets {
        frame.splice(0..14, [8, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 6, 2, 2, 2, 2, 2, 2, 0, 0]);
    }
    let mut both = packets.clone();
    both.extend(packets.into_iter().map(|(at, mut frame)| {
        frame[7] = 2;
        (at, frame)
    }));
    both.sort_by_key(|(at, _)| *at);
    let voice = voice_of(&pcap(276, &both)[..], Options::default()).unwrap();
    assert_eq!(voice.streams.iter().map(|s| s.rows.len()).collect::<Vec<_>>(), [10, 10]);
}
