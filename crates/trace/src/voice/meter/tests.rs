use proptest::prelude::*;

use super::super::{Kind, KnownBy, Row, Stream, Told, Voice};
use super::*;
use crate::capture;
use crate::packet::decode;
use crate::testing::{pcap, rtp, udp_frame};
use crate::voice_of;

const SSRC: u32 = 0x1234_5678;
const SECOND_US: u64 = 1_000_000;

/// What the meter says about a capture, in the order of first packets; and who was given out on the way.
fn metered(packets: &[(u64, Vec<u8>)]) -> (Vec<Measured>, usize, Others) {
    let file = pcap(1, packets);
    let mut capture = capture::open(&file[..]).unwrap();
    let mut meter = Meter::new(Options::default());
    let mut found = Vec::new();
    while let Some(packet) = capture.next_packet().unwrap() {
        meter.put(&packet, &decode(&packet), |stream| found.push(stream));
    }
    let early = found.len();
    meter.finish(|stream| found.push(stream));
    found.sort_by_key(|stream| (stream.order, stream.part));
    (found, early, meter.others())
}

fn collected(packets: &[(u64, Vec<u8>)]) -> Voice {
    voice_of(&pcap(1, packets)[..], Options::default()).unwrap()
}

/// Speech of 20 ms: number, lateness in µs, payload type.
fn speech(packets: impl IntoIterator<Item = (u32, u64, u8)>) -> Vec<(u64, Vec<u8>)> {
    let mut sent: Vec<_> = packets
        .into_iter()
        .map(|(number, late_us, payload_type)| {
            let payload = rtp(payload_type, number as u16, number.wrapping_mul(160), SSRC);
            (u64::from(number) * 20_000 + late_us, udp_frame(4_000, 4_002, &payload))
        })
        .collect();
    sent.sort_by_key(|(at, _)| *at);
    sent
}

/// The same numbers by looking at all rows, as docs/quality.md defines them.
fn by_rows(stream: &Stream) -> (u64, u64, u64, u64, Option<i64>, Option<Jitter>) {
    let mut firsts: Vec<&Row> = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    let mut reordered = 0;
    for row in &stream.rows {
        let late = seen.last().is_some_and(|highest| row.seq < *highest);
        if seen.insert(row.seq) {
            reordered += u64::from(late);
            firsts.push(row);
        }
    }
    let expected = (seen.last().unwrap() - seen.first().unwrap() + 1) as u64;
    let gap = firsts.windows(2).map(|pair| pair[1].arrival_ns - pair[0].arrival_ns).max();
    let clock = i64::from(stream.measured.facts.clock_hz);
    let spoken: Vec<_> = firsts.iter().filter(|row| row.speech && clock > 0).collect();
    let (mut now, mut sum, mut max) = (0.0_f64, 0.0, 0.0_f64);
    for pair in spoken.windows(2) {
        let media_ns = |row: &Row| row.timestamp * 1_000_000_000 / clock;
        let apart = (pair[1].arrival_ns - pair[0].arrival_ns) - (media_ns(pair[1]) - media_ns(pair[0]));
        now += (apart.abs() as f64 - now) / 16.0;
        sum += now;
        max = max.max(now);
    }
    let jitter = (spoken.len() > 1).then(|| Jitter { mean_ns: sum / (spoken.len() - 1) as f64, max_ns: max });
    let copies = (stream.rows.len() - firsts.len()) as u64;
    (expected, expected - seen.len() as u64, copies, reordered, gap, jitter)
}

fn assert_same(packets: &[(u64, Vec<u8>)]) {
    let voice = collected(packets);
    let (measured, _, others) = metered(packets);
    assert_eq!(measured.len(), voice.streams.len());
    assert_eq!((others.udp, others.sip), (voice.counts.other_udp, voice.counts.sip));
    for (mine, full) in measured.iter().zip(&voice.streams) {
        assert_eq!(*mine, full.measured, "what looks at all packets finds the same");
        let bytes: u64 = full.rows.iter().map(|row| u64::from(row.payload_bytes)).sum();
        assert_eq!((mine.packets, mine.payload_bytes), (full.rows.len() as u64, bytes));
        let (expected, lost, copies, reordered, gap, jitter) = by_rows(full);
        assert_eq!((mine.expected, mine.lost, mine.copies), (expected, lost, copies));
        assert_eq!((mine.reordered, mine.gap_max_ns), (reordered, gap));
        let (Some(mine), Some(full)) = (mine.jitter, jitter) else {
            assert_eq!(mine.jitter, jitter);
            continue;
        };
        // Media times are rounded to ns in other places.
        assert!((mine.mean_ns - full.mean_ns).abs() < 1.0 && (mine.max_ns - full.max_ns).abs() < 1.0);
    }
}

proptest! {
    #[test]
    fn sums_agree_with_all_packets(
        first in 0..65_536_u32,
        packets in proptest::collection::vec(
            (0..100_u32, 0..60_000_u64, prop::sample::select(vec![0_u8, 8, 13, 96, 101])), 1..300),
        usual in prop::sample::select(vec![0_u8, 96]),
    ) {
        let sent = (first..).zip(packets).flat_map(|(number, (chance, late_us, other))| match chance {
            0..10 => vec![],
            10..15 => vec![(number, late_us, usual), (number, late_us / 2, usual)],
            15..18 => vec![(number, late_us, other)],
            _ => vec![(number, late_us, usual)],
        });
        assert_same(&speech(sent));
    }
}

#[test]
fn a_source_that_starts_anew_is_measured_as_two_parts() {
    let anew =
        (0..200).chain(1 << 16..(1 << 16) + 200).map(|i: u32| if i < 1 << 16 { i } else { i + 30_000 });
    let mut packets = speech(anew.clone().map(|i| (i, 0, 0)));
    for (at, (time_us, _)) in packets.iter_mut().enumerate() {
        *time_us = at as u64 * 20_000;
    }
    assert_same(&packets);
    assert_eq!(metered(&packets).0.iter().map(|s| (s.part, s.lost)).collect::<Vec<_>>(), [(0, 0), (1, 0)]);
}

#[test]
fn a_run_of_losses_is_measured_to_its_end() {
    let (found, ..) = metered(&speech((0..100).chain(137..400).chain(402..500).map(|i| (i, 0, 0))));
    assert_eq!((found[0].lost, found[0].loss_runs, found[0].longest_run), (39, 2, 37));
}

#[test]
fn comfort_noise_in_front_does_not_hide_the_jitter_of_speech() {
    let packets =
        speech((0..100).map(|i| (i, 0, 13)).chain((100..300).map(|i| (i, u64::from(i % 2) * 1_000, 0))));
    assert_same(&packets);
    assert!(metered(&packets).0[0].jitter.unwrap().mean_ns > 5e5);
}

#[test]
fn iax2_is_measured_with_numbers_made_of_its_times() {
    let mini =
        |ms: u16| udp_frame(4_569, 4_569, &[&7_u16.to_be_bytes()[..], &ms.to_be_bytes(), &[0; 33]].concat());
    let packets: Vec<_> =
        (0..300_u16).filter(|i| i % 50 != 7).map(|i| (u64::from(i) * 20_000, mini(i * 20))).collect();
    assert_same(&packets);
    let (found, ..) = metered(&packets);
    assert_eq!((found[0].expected, found[0].lost, found[0].loss), (300, 6, Loss::Estimated));
}

#[test]
fn a_stream_is_given_out_when_it_has_been_idle_and_another_begins_after_that() {
    let mut packets = speech((0..50).map(|i| (i, 0, 0)));
    let later = packets.clone();
    // Something else keeps the clock going.
    packets.extend((2..400).map(|i| (i * 10 * SECOND_US, udp_frame(1, 2, b"no voice"))));
    packets.extend(later.into_iter().map(|(at, data)| (at + 4_000 * SECOND_US, data)));
    assert_same(&packets);
    let (found, early, _) = metered(&packets);
    assert_eq!((early, found.iter().map(|s| s.packets).collect::<Vec<_>>()), (1, vec![50, 50]));
}

#[test]
fn a_stream_that_pauses_for_minutes_is_one_and_loses_what_was_lost() {
    let packets = speech((0..50).chain(15_000..15_050).map(|i| (i, 0, 0)));
    assert_same(&packets);
    let (found, ..) = metered(&packets);
    assert_eq!(found.iter().map(|s| (s.packets, s.lost)).collect::<Vec<_>>(), [(100, 14_950)]);
}

#[test]
fn time_stamps_that_restart_at_a_marker_are_neither_delay_nor_jitter() {
    let packets: Vec<_> = (0..200_u32)
        .map(|i| {
            let mut payload = rtp(0, i as u16, i * 160 + if i < 100 { 0 } else { 344_000 }, SSRC);
            payload[1] |= if i == 100 { 0x80 } else { 0 };
            (u64::from(i) * 20_000, udp_frame(4_000, 4_002, &payload))
        })
        .collect();
    let stream = &collected(&packets).streams[0];
    assert_eq!(stream.measured.jitter, Some(Jitter { mean_ns: 0.0, max_ns: 0.0 }));
    let stretches: Vec<_> = stream.rows.iter().map(|row| row.stretch).collect();
    assert_eq!(stretches, [[0; 100], [1; 100]].concat());
    assert_eq!(metered(&packets).0[0], stream.measured);
}

/// IAX2 frames of 20 ms with these times in ms.
fn iax2(times_ms: &[u16]) -> Vec<(u64, Vec<u8>)> {
    let frame = |ms: u16| [&7_u16.to_be_bytes()[..], &ms.to_be_bytes(), &[0; 33]].concat();
    let place = |(i, ms): (u64, &u16)| (i * 20_000, udp_frame(4_569, 4_569, &frame(*ms)));
    (0..).zip(times_ms).map(place).collect()
}

#[test]
fn iax2_times_that_are_not_locked_to_the_speech_tell_nothing() {
    // As a clock shows them; one after the other, out of a buffer.
    let clock: Vec<_> = (0..40_u16).map(|i| i * 20 + [0, 7, 2, 11, 5, 13, 1][usize::from(i % 7)]).collect();
    let buffered: Vec<_> = [67, 84].into_iter().chain(525..560).collect();
    for times in [clock, buffered] {
        let packets = iax2(&times);
        assert_eq!(metered(&packets).0[0], collected(&packets).streams[0].measured);
        let found = &metered(&packets).0[0];
        assert_eq!((found.lost, found.copies, found.loss), (0, 0, Loss::Unknown));
        assert_eq!((found.facts.clock_hz, found.jitter), (0, None));
    }
    // Locked, with every fifth lost.
    let lossy: Vec<_> = (0..100_u16).filter(|i| i % 5 != 3).map(|i| i * 20).collect();
    let found = &metered(&iax2(&lossy)).0[0];
    assert_eq!((found.lost, found.loss), (20, Loss::Estimated));
}

#[test]
fn codecs_that_the_user_tells_come_before_what_the_capture_says() {
    let encoding = |name: &str, clock_hz| super::super::Encoding {
        name: name.to_owned(),
        clock_hz,
        kind: Kind::Unknown,
    };
    let told = |encodings| Options { told: Told { encodings }, ..Options::default() };
    let packets = speech((0..200).map(|i| (i, 0, if i % 50 == 7 { 101 } else { 96 })));
    let of = |encodings| {
        let voice = voice_of(&pcap(1, &packets)[..], told(encodings)).unwrap();
        let stream = &voice.streams[0];
        let facts = &stream.measured.facts;
        let jitter = stream.measured.jitter.map(|jitter| jitter.mean_ns);
        let silent = stream.rows.iter().filter(|row| !row.speech).count();
        (facts.codec.clone(), facts.clock_hz, facts.known_by, jitter, silent)
    };
    assert_eq!(of(vec![]), (String::new(), 8_000, KnownBy::Estimated, Some(0.0), 4));
    let any = of(vec![(None, encoding("G729", 8_000))]);
    assert_eq!(any, ("G729".to_owned(), 8_000, KnownBy::Option, Some(0.0), 4));
    let (name, clock_hz, known_by, jitter, silent) =
        of(vec![(Some(96), encoding("AMR", 16_000)), (Some(101), encoding("AMR", 16_000))]);
    assert_eq!((name.as_str(), clock_hz, known_by, silent), ("AMR", 16_000, KnownBy::Option, 0));
    assert!(jitter.unwrap() > 9e6, "by this clock the time stamps run at half speed");
}

#[test]
fn candidates_that_come_to_nothing_are_forgotten_and_counted() {
    let mut packets = speech((0..4).map(|i| (i, 0, 0)));
    packets.extend((0..20).map(|i| (i * 10 * SECOND_US + SECOND_US, udp_frame(1, 2, &rtp(0, 1, 1, 9)))));
    packets.sort_by_key(|(at, _)| *at);
    let file = pcap(1, &packets);
    let mut capture = capture::open(&file[..]).unwrap();
    let mut meter = Meter::new(Options::default());
    while let Some(packet) = capture.next_packet().unwrap() {
        meter.put(&packet, &decode(&packet), |stream| panic!("{stream:?}"));
    }
    assert_eq!(meter.finder.open(), 1);
    assert!(meter.others().udp >= 4);
}

#[test]
fn too_many_streams_at_once_end_the_older_ones_and_lose_none() {
    let mut meter = Meter::new(Options { decode_as: vec![4_000..=4_000], ..Options::default() });
    let mut found = 0;
    let flood = u32::try_from(MAX_STREAMS).unwrap() * 2;
    for ssrc in 0..flood {
        let data = udp_frame(4_000, 4_002, &rtp(0, 1, 1, ssrc));
        let packet = Packet::new(i64::from(ssrc), capture::LinkType(1), &data);
        meter.put(&packet, &decode(&packet), |_| found += 1);
        assert!(meter.finder.open() <= MAX_STREAMS + 1);
    }
    assert!(found > 0);
    meter.finish(|_| found += 1);
    assert_eq!(found, flood);
}

#[test]
fn a_session_description_that_comes_late_names_the_codec_and_chooses_the_clock() {
    let invite = b"SIP/2.0 200 OK\r\n\r\nv=0\r\nc=IN IP4 192.0.2.2\r\nm=audio 4002 RTP/AVP 96\r\na=rtpmap:96 L16/16000\r\n";
    let mut packets = speech((0..200).map(|i| (i, 0, 96)));
    packets.push((5 * SECOND_US, udp_frame(5_060, 5_060, invite)));
    let (found, ..) = metered(&packets);
    assert_eq!((found[0].facts.codec.as_str(), found[0].facts.clock_hz), ("L16", 16_000));
    // By the true clock, the time stamps run at half speed.
    assert!(found[0].jitter.unwrap().max_ns > 9e6);
}
