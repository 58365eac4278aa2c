//! What happens in calls and is no loss: hold, another codec, digits, stamps that are wrong.

use super::super::{Beginning, Measured, Meter, Options, Voice};
use super::*;
use crate::capture;
use crate::packet::decode;

const MS: u64 = 1_000;

/// Times in µs and frames.
type Packets = Vec<(u64, Vec<u8>)>;

/// One packet of a source on some ports; payload of 160 B.
fn packet(at_ms: u64, payload_type: u8, seq: u32, stamp: u32, ssrc: u32) -> (u64, Vec<u8>) {
    (at_ms * MS, udp_frame(4_000, 4_002, &rtp(payload_type, seq as u16, stamp, ssrc)))
}

/// Speech of 20 ms from a number on; its time goes with the number.
fn talk(seqs: std::ops::Range<u32>, payload_type: u8, ssrc: u32) -> Packets {
    seqs.map(|i| packet(u64::from(i) * 20, payload_type, i, i * 160, ssrc)).collect()
}

/// What both ways to look at a capture find; they must agree.
fn both(mut packets: Packets) -> Voice {
    packets.sort_by_key(|(at, _)| *at);
    let file = pcap(1, &packets);
    let mut capture = capture::open(&file[..]).unwrap();
    let (mut meter, mut measured) = (Meter::new(Options::default()), Vec::new());
    while let Some(packet) = capture.next_packet().unwrap() {
        meter.put(&packet, &decode(&packet), |stream| measured.push(stream));
    }
    meter.finish(|stream| measured.push(stream));
    measured.sort_by_key(|stream| (stream.order, stream.part));
    let voice = found(&packets);
    let whole: Vec<_> = voice.streams.iter().map(|stream| stream.measured.clone()).collect();
    assert_eq!(measured, whole);
    voice
}

fn measured(voice: &Voice, ssrc: u32) -> Vec<&Measured> {
    voice.streams.iter().map(|stream| &stream.measured).filter(|stream| stream.key.source == ssrc).collect()
}

#[test]
fn numbers_that_pass_while_another_source_is_heard_are_not_lost() {
    // Short, and so long that the numbers are far away, look as if they lay behind, or come round.
    for (from, to) in [(200, 260), (200, 4_200), (200, 40_200), (200, 65_730), (200, 80_200)] {
        let speaker = [talk(0..from, 0, 1), talk(to..to + 200, 0, 1)].concat();
        let music = talk(from..to - 1, 0, 2).into_iter().map(|(at, data)| (at + 5 * MS, data)).collect();
        let voice = both([speaker, music].concat());
        let [speaker] = measured(&voice, 1)[..] else { panic!("one part") };
        assert_eq!((speaker.expected, speaker.lost), (u64::from(from) + 200, 0));
        assert_eq!((speaker.pauses.count, speaker.pauses.skipped), (1, i64::from(to - from)));
        assert_eq!(seqs(&voice.streams[0]), (0..i64::from(from) + 200).collect::<Vec<_>>());
    }
}

#[test]
fn packets_that_overtake_each_other_after_a_pause_are_in_their_places() {
    let late = |mut packet: (u64, Vec<u8>)| {
        packet.0 += 50 * MS;
        packet
    };
    let mut after = talk(5_000..5_100, 0, 1);
    after[0] = late(after[0].clone());
    after[3] = late(after[3].clone());
    let music = talk(201..4_999, 0, 2);
    let voice = both([talk(0..200, 0, 1), after, music].concat());
    let [speaker] = measured(&voice, 1)[..] else { panic!("one part") };
    assert_eq!((speaker.expected, speaker.lost, speaker.pauses.skipped), (300, 0, 4_800));
}

#[test]
fn a_late_packet_of_the_codec_before_stays_with_it() {
    let mut packets = [talk(0..100, 9, 1), talk(100..200, 8, 1)].concat();
    packets[99].0 += 70 * MS;
    packets[100].0 += 30 * MS;
    let voice = both(packets);
    let parts = measured(&voice, 1);
    let told: Vec<_> =
        parts.iter().map(|part| (part.facts.codec.as_str(), part.expected, part.lost)).collect();
    assert_eq!(told, [("G722", 100, 0), ("PCMA", 100, 0)]);
}

#[test]
fn music_from_another_host_and_a_second_hold_are_pauses_too() {
    let music = |from: u32, to: u32| -> Packets {
        (from..to)
            .map(|i| (u64::from(i) * 20 * MS, udp_frame(6_000, 4_002, &rtp(0, i as u16, i * 160, 9))))
            .collect()
    };
    let speaker = [talk(0..200, 0, 1), talk(400..500, 0, 1), talk(700..900, 0, 1)].concat();
    let voice = both([speaker, music(200, 400), music(500, 700)].concat());
    let [speaker] = measured(&voice, 1)[..] else { panic!("one part") };
    assert_eq!((speaker.lost, speaker.pauses.count, speaker.pauses.skipped), (0, 2, 400));
}

#[test]
fn numbers_that_are_missing_while_another_source_goes_on_as_before_are_lost() {
    let voice = both([talk(0..100, 0, 1), talk(130..200, 0, 1), talk(0..200, 0, 2)].concat());
    assert_eq!(measured(&voice, 1)[0].lost, 30);
    assert_eq!(measured(&voice, 1)[0].pauses.count, 0);
    let voice = both([talk(0..100, 0, 1), talk(130..200, 0, 1)].concat());
    assert_eq!(measured(&voice, 1)[0].lost, 30);
}

/// A message of a call about 192.0.2.2:4002, sent by that host or by the other one.
fn described(at_ms: u64, cseq: u32, port: u16, attribute: &str, address: &str) -> (u64, Vec<u8>) {
    let body = format!("v=0\r\nc=IN IP4 {address}\r\nm=audio {port} RTP/AVP 0 8\r\na={attribute}\r\n");
    let message = format!(
        "INVITE sip:b@example.net SIP/2.0\r\nCall-ID: 1\r\nCSeq: {cseq} INVITE\r\nFrom: <sip:a@x>\r\n\
         To: <sip:b@x>\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    (at_ms * MS, udp_frame(5_060, 5_060, message.as_bytes()))
}

#[test]
fn numbers_that_pass_while_the_call_is_on_hold_are_not_lost() {
    for (attribute, address) in
        [("sendonly", "192.0.2.2"), ("inactive", "192.0.2.2"), ("sendrecv", "0.0.0.0")]
    {
        let messages = vec![
            described(0, 1, 4_002, "sendrecv", "192.0.2.2"),
            described(2_000, 2, 4_002, attribute, address),
            described(5_900, 3, 4_002, "sendrecv", "192.0.2.2"),
        ];
        let voice = both([messages, talk(5..102, 0, 1), talk(300..400, 0, 1)].concat());
        let speaker = measured(&voice, 1)[0];
        assert_eq!((speaker.lost, speaker.pauses.skipped), (0, 198), "{attribute} {address}");
        assert!(!voice.calls[0].both_ways);
    }
}

#[test]
fn a_fax_in_a_call_is_no_voice_and_the_speech_around_it_loses_nothing() {
    let fax = |at_ms: u64, cseq: u32, port: u16| {
        let text = format!(
            "INVITE sip:b@x SIP/2.0\r\nCall-ID: 1\r\nCSeq: {cseq} INVITE\r\nFrom: <sip:a@x>\r\nTo: <sip:b@x>\r\n\r\n\
             v=0\r\nc=IN IP4 192.0.2.2\r\nm=audio 0 RTP/AVP 0\r\nm=image {port} udptl t38\r\na=T38FaxVersion:0\r\n"
        );
        (at_ms * MS, udp_frame(5_060, 5_060, text.as_bytes()))
    };
    for port in [4_002, 5_000] {
        // UDPTL: a number, a length, and data.
        let pages = (0_u16..300).map(|i| {
            let number = i.to_be_bytes();
            (4_020 * MS + u64::from(i) * 20 * MS, udp_frame(port, port, &[&number[..], &[6; 30]].concat()))
        });
        let around = [vec![described(0, 1, 4_002, "sendrecv", "192.0.2.2")], talk(1..200, 0, 1)].concat();
        let packets = [around, vec![fax(4_010, 2, port)], pages.collect()].concat();
        let voice = both(packets);
        let [speech] = measured(&voice, 1)[..] else { panic!("one part") };
        assert_eq!((voice.streams.len(), speech.expected, speech.lost), (1, 199, 0));
        assert_eq!(voice.counts.opaque.get(&crate::packet::Opaque::Fax), Some(&300));
        assert_eq!(voice.counts.other_udp, 0);
    }
}

#[test]
fn a_fax_that_was_refused_leaves_the_speech_as_it_is() {
    let text = "INVITE sip:b@x SIP/2.0\r\nCall-ID: 1\r\nCSeq: 2 INVITE\r\n\r\n\
        v=0\r\nc=IN IP4 192.0.2.2\r\nm=image 4002 udptl t38\r\n";
    let offer = (2_010 * MS, udp_frame(5_060, 5_060, text.as_bytes()));
    let voice = both([talk(0..200, 0, 1), vec![offer]].concat());
    let [speech] = measured(&voice, 1)[..] else { panic!("one part") };
    assert_eq!((speech.expected, speech.lost, voice.counts.opaque.len()), (200, 0, 0));
}

#[test]
fn another_codec_in_the_same_numbers_begins_a_part_and_losses_between_belong_to_it() {
    let voice = both([talk(0..100, 9, 1), talk(103..200, 8, 1)].concat());
    let parts = measured(&voice, 1);
    let told: Vec<_> = parts
        .iter()
        .map(|part| (part.facts.codec.as_str(), part.beginning, part.expected, part.lost))
        .collect();
    assert_eq!(told, [("G722", Beginning::First, 100, 0), ("PCMA", Beginning::Codec, 100, 3)]);
    assert_eq!((parts[1].part, parts[1].lead, parts[1].loss_runs, parts[1].longest_run), (1, 3, 1, 3));
}

#[test]
fn a_few_packets_of_another_codec_and_the_same_codec_by_another_number_change_nothing() {
    let voice = both([talk(0..100, 0, 1), talk(100..110, 8, 1), talk(110..200, 0, 1)].concat());
    assert_eq!(measured(&voice, 1).len(), 1);
    let opus = |number: u8| {
        let sdp = format!(
            "INVITE sip:b@x SIP/2.0\r\nCall-ID: 1\r\nCSeq: 1 INVITE\r\n\r\nv=0\r\nc=IN IP4 192.0.2.2\r\n\
             m=audio 4002 RTP/AVP {number}\r\na=rtpmap:{number} opus/48000/2\r\n"
        );
        udp_frame(5_060, 5_060, sdp.as_bytes())
    };
    let speech = |seqs: std::ops::Range<u32>, number: u8| -> Packets {
        seqs.map(|i| packet(u64::from(i) * 20, number, i, i * 960, 1)).collect()
    };
    let messages = vec![(0, opus(111)), (1_990 * MS, opus(96))];
    let voice = both([messages, speech(1..100, 111), speech(100..200, 96)].concat());
    let [stream] = measured(&voice, 1)[..] else { panic!("one part") };
    assert_eq!((stream.facts.codec.as_str(), stream.packets), ("opus", 199));
}

#[test]
fn stamps_at_another_rate_than_announced_are_taken_at_their_own() {
    let g722: Packets = (0..200).map(|i| packet(u64::from(i) * 20, 9, i, i * 320, 1)).collect();
    let facts = &both(g722).streams[0].measured;
    assert_eq!((facts.facts.clock_hz, facts.facts.nominal_hz), (16_000, 8_000));
    assert_eq!(facts.jitter.unwrap().max_ns, 0.0);
}

#[test]
fn stamps_that_stand_still_in_silences_are_counted_and_are_no_jitter() {
    let spurts = (0..300_u32).map(|i| packet(u64::from(i) * 20 + u64::from(i / 100) * 900, 0, i, i * 160, 1));
    let stream = &both(spurts.collect()).streams[0];
    assert_eq!((stream.measured.still, stream.measured.jitter.unwrap().max_ns), (2, 0.0));
    assert_eq!(stream.rows.iter().map(|row| row.stretch).max(), Some(2));
}

/// A datagram that looks like RTP whose numbers are its length and a constant.
fn with_length(at_ms: u64, bytes: usize, beyond: u16) -> (u64, Vec<u8>) {
    let mut payload = rtp(0, 0, (at_ms / 20) as u32, 1);
    payload.truncate(12);
    payload.resize(bytes, 0);
    payload[2..4].copy_from_slice(&(bytes as u16).wrapping_add(beyond).to_be_bytes());
    (at_ms * MS, udp_frame(47_808, 47_808, &payload))
}

#[test]
fn numbers_that_are_the_lengths_of_their_datagrams_are_none() {
    for beyond in [0, 65_532, 8] {
        let packets: Packets =
            (0..300_u64).map(|i| with_length(i * 20, 20 + (i as usize * 7) % 31, beyond)).collect();
        let voice = both(packets);
        assert!(voice.streams.is_empty(), "{beyond}");
        assert_eq!(voice.counts.other_udp, 300);
    }
}

/// Digits of 100 ms every 300 ms, the first and the last packet of each three times with one number; the speech
/// between them uses the other numbers.
fn digits(payload_type: u8) -> Packets {
    let mut packets = Vec::new();
    for digit in 0..8_u32 {
        let (begin, stamp) = (digit * 15, digit * 15 * 160);
        for (i, number) in [0, 0, 0, 1, 2, 3, 4, 4, 4].into_iter().enumerate() {
            let mut payload = rtp(payload_type, (begin + number) as u16, stamp, 1);
            payload.truncate(16);
            let at_ms = u64::from(digit) * 300 + i as u64 * 10;
            packets.push((at_ms * MS, udp_frame(4_000, 4_002, &payload)));
        }
    }
    packets
}

#[test]
fn telephone_events_alone_are_recognised_and_their_repetitions_are_no_copies() {
    let stream = &both(digits(101)).streams[0].measured;
    assert_eq!((stream.facts.codec.as_str(), stream.copies, stream.repeats), ("telephone-event", 0, 32));
    assert_eq!((stream.loss, stream.jitter), (Loss::Unknown, None));
}

#[test]
fn telephone_events_between_speech_are_repeated_by_their_sender_and_lose_nothing() {
    let speech = (0..120_u32)
        .filter(|i| i % 15 > 4)
        .map(|i| packet(u64::from(i) * 20, 0, i, i * 160, 1))
        .collect::<Packets>();
    let voice = both([speech, digits(101)].concat());
    let stream = measured(&voice, 1)[0];
    assert_eq!((stream.facts.codec.as_str(), stream.copies, stream.repeats, stream.lost), ("PCMU", 0, 32, 0));
}

#[test]
fn pictures_are_recognised_without_a_description() {
    // Four packets per picture, 25 pictures a second.
    let pictures = (0..400_u32).map(|i| {
        let mut payload = rtp(96, i as u16, i / 4 * 3_600, 1);
        payload.resize(1_200, 0);
        (u64::from(i / 4) * 40 * MS + u64::from(i % 4), udp_frame(4_000, 4_002, &payload))
    });
    let facts = &both(pictures.collect()).streams[0].measured.facts;
    assert_eq!((facts.kind, facts.clock_hz), (Kind::Video, 90_000));
    // A transport stream: one packet after the other.
    let stream = (0..400_u32).map(|i| packet(u64::from(i) * 10, 97, i, i * 900, 1));
    assert_eq!(both(stream.collect()).streams[0].measured.facts.kind, Kind::Video);
}

#[test]
fn the_usual_opus_of_webrtc_is_guessed_unless_its_clock_says_otherwise() {
    let binding = [&[0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42][..], &[7; 12]].concat();
    let stun = (0, udp_frame(4_000, 4_002, &binding));
    for (step, expected) in [(960, ("opus", KnownBy::WebRtc)), (1_800, ("", KnownBy::Estimated))] {
        let speech = (1..200_u32).map(|i| packet(u64::from(i) * 20, 111, i, i * step, 1));
        let facts = both([vec![stun.clone()], speech.collect()].concat()).streams.remove(0).measured.facts;
        assert_eq!((facts.codec.as_str(), facts.known_by), expected);
    }
}

#[test]
fn what_a_receiver_reports_belongs_to_its_stream() {
    // To 192.0.2.2 from 192.0.2.1, as all frames here: the receiver would be 192.0.2.2, so hosts are swapped.
    let losses = [64, 0, 0, 25, 0, 0, 0, 99];
    let report = [&[0x81, 201, 0, 7, 0, 0, 0, 9, 0, 0, 0, 1][..], &losses, &[0; 12]].concat();
    let mut frame = udp_frame(4_003, 4_001, &report);
    let (src, dst) = (frame[26..30].to_vec(), frame[30..34].to_vec());
    frame[26..30].copy_from_slice(&dst);
    frame[30..34].copy_from_slice(&src);
    let voice = both([talk(0..100, 0, 1), vec![(500 * MS, frame)]].concat());
    let Measured { reports, captured, .. } = &voice.streams[0].measured;
    assert_eq!(reports.unwrap().loss_ratio(captured.unwrap()), Some(0.25));
    assert_eq!((voice.counts.rtcp, voice.counts.rtcp_unreadable), (1, 0));
}
