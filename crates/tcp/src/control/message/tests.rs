use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::control::{
    Decoder, Joined, LatencyNs, MOST_ANSWER_BYTES, MOST_CONNECTIONS, MOST_REQUEST_BYTES, Preamble, Wish,
    prove, prove_errand, verify, verify_errand,
};
use crate::{Info, Queues};

pub fn errand() -> Errand {
    Errand {
        host: "b.example".into(),
        port: 29_100,
        clocks: true,
        capture: Wish::IfAllowed,
        capture_bytes: 1 << 30,
        request: request(),
    }
}

fn request() -> Request {
    Request {
        host: [7; 32],
        up: 2,
        down: 0,
        block_bytes: 131_072,
        lasts_ns: Some(10_000_000_000),
        bytes: None,
        bytes_per_s: None,
        interval_ns: 1_000_000_000,
        congestion: "cubic".into(),
        capture: Wish::IfAllowed,
        capture_bytes: 1 << 30,
    }
}

fn decoded(bytes: &[u8], most: usize) -> Result<Vec<Message>, ProtocolError> {
    let mut decoder = Decoder::new(most);
    decoder.push(bytes);
    std::iter::from_fn(|| decoder.next_message().transpose()).collect()
}

fn flows() -> impl Strategy<Value = Flow> {
    let latency = any::<[u64; 6]>().prop_map(|[count, min, mean, p50, p99, max]| LatencyNs {
        count,
        min,
        mean,
        p50,
        p99,
        max,
    });
    let queues = (vec(any::<u8>(), 0..=36), any::<[Option<u64>; 3]>())
        .prop_map(|(memory, [unread, unacked, waited])| Queues::new(&memory).with(unread, unacked, waited));
    (any::<u64>(), any::<u64>(), option::of(latency), vec(any::<u8>(), 0..=280), queues).prop_map(
        |(bytes, blocks, latency, info, queues)| Flow {
            bytes,
            blocks,
            latency,
            info: Info::new(&info),
            queues,
        },
    )
}

fn totals() -> impl Strategy<Value = Total> {
    (flows(), any::<Option<u64>>(), any::<Option<u64>>(), ".{0,40}")
        .prop_map(|(flow, first_ns, last_ns, failure)| Total { flow, first_ns, last_ns, failure })
}

fn messages() -> impl Strategy<Value = Message> {
    prop_oneof![
        (any::<Digest>(), any::<bool>())
            .prop_map(|(nonce, needs_token)| Message::Challenge { nonce, needs_token }),
        (any::<Proof>(), any::<Digest>(), 1..=128_u16, 24..=524_288_u32, 1_000_000..=3_600_000_000_000_u64)
            .prop_map(|(proof, host, up, block_bytes, interval_ns)| Message::Request {
                proof,
                request: Request { host, up, block_bytes, interval_ns, ..request() }
            }),
        (any::<Session>(), any::<Digest>()).prop_map(|(session, host)| Message::Accept { session, host }),
        ".{0,100}".prop_map(|why| Message::Refuse { why }),
        Just(Message::Ready),
        Just(Message::Go),
        Just(Message::Stop),
        any::<u64>().prop_map(|sent_ns| Message::Clock { sent_ns }),
        any::<[u64; 2]>().prop_map(|[sent_ns, at_ns]| Message::Clocked { sent_ns, at_ns }),
        any::<u64>().prop_map(|start_ns| Message::Begun { start_ns }),
        (any::<u64>(), vec(flows(), 0..5)).prop_map(|(at_ns, flows)| Message::Interval { at_ns, flows }),
        vec(totals(), 0..5).prop_map(|totals| Message::Done { totals }),
        (any::<Proof>(), "[a-z0-9.:]{1,40}", any::<u16>(), any::<bool>()).prop_map(
            |(proof, host, port, clocks)| Message::Errand {
                proof,
                errand: Box::new(Errand { host, port, clocks, ..errand() })
            }
        ),
        (any::<Digest>(), any::<bool>()).prop_map(|(nonce, needs_token)| Message::Prove {
            nonce,
            needs_token,
            request: Box::new(request())
        }),
        any::<Proof>().prop_map(|proof| Message::Proven { proof }),
        events().prop_map(Message::Event),
        prop_oneof![records().prop_map(Ok), ".{0,60}".prop_map(Err)]
            .prop_map(|found| Message::Recorded { found }),
        any::<u64>().prop_map(|from| Message::Fetch { from }),
        (any::<u64>(), vec(any::<u8>(), 0..200)).prop_map(|(from, bytes)| Message::Part { from, bytes }),
    ]
}

fn records() -> impl Strategy<Value = Record> {
    (any::<[u64; 5]>(), any::<Digest>(), "[a-z0-9.]{0,15}", any::<bool>()).prop_map(
        |([bytes, packets, lost, left_out, since_1970_ns], sha256, interface, ended_early)| Record {
            bytes,
            sha256,
            interface,
            packets,
            lost,
            left_out,
            ended_early,
            since_1970_ns,
        },
    )
}

#[test]
fn the_largest_part_fits_and_a_larger_one_is_refused() {
    let part = |bytes| Message::Part { from: 7, bytes: vec![1; bytes] }.emit();
    assert_eq!(decoded(&part(PART_BYTES), MOST_ANSWER_BYTES).map(|found| found.len()), Ok(1));
    let refused = decoded(&part(PART_BYTES + 1), MOST_ANSWER_BYTES);
    assert_eq!(refused, Err(ProtocolError::Body("a part that is too long")));
}

fn events() -> impl Strategy<Value = Event> {
    let joined = (any::<[u8; 4]>(), any::<[u8; 16]>(), any::<u16>(), any::<bool>(), "[a-z]{0,15}").prop_map(
        |(v4, v6, port, up, congestion)| Joined {
            local: (v4, port).into(),
            remote: (v6, port).into(),
            up,
            congestion,
            settings: vec![],
        },
    );
    prop_oneof![
        (vec(joined, 0..4), any::<bool>(), any::<u64>()).prop_map(
            |(connections, same_clock, since_1970_ns)| Event::Started {
                connections,
                same_clock,
                since_1970_ns
            }
        ),
        any::<[u64; 3]>().prop_map(|[sent_ns, at_ns, heard_ns]| Event::Clock { sent_ns, at_ns, heard_ns }),
        any::<[u64; 2]>().prop_map(|[server_ns, client_ns]| Event::Begun { server_ns, client_ns }),
        (any::<bool>(), any::<u64>(), vec(flows(), 0..4))
            .prop_map(|(of_server, at_ns, flows)| Event::Interval { of_server, at_ns, flows }),
        (vec(totals(), 0..4), vec(totals(), 0..4), any::<bool>())
            .prop_map(|(client, server, stopped)| Event::Done { client, server, stopped }),
    ]
}

#[test]
fn the_proof_of_an_errand_is_for_its_target_and_none_of_a_request() {
    let errand = errand();
    let proof = prove_errand("secret", &[1; 32], &errand);
    assert!(verify_errand("secret", &[1; 32], &errand, &proof));
    assert!(!verify_errand("other", &[1; 32], &errand, &proof));
    assert!(!verify_errand(
        "secret",
        &[1; 32],
        &Errand { host: "c.example".into(), ..errand.clone() },
        &proof
    ));
    assert!(!verify_errand("secret", &[1; 32], &Errand { port: 22, ..errand.clone() }, &proof));
    assert!(!verify_errand("secret", &[1; 32], &Errand { capture: Wish::None, ..errand }, &proof));
    assert!(!verify("secret", &[1; 32], &request(), &proof));
}

#[test]
fn the_largest_errand_fits() {
    let request = Request { bytes: Some(u64::MAX), bytes_per_s: Some(u64::MAX), ..request() };
    let errand = Errand { host: "x".repeat(253), request, ..errand() };
    let bytes = Message::Errand { proof: [0; 32], errand: Box::new(errand) }.emit();
    assert_eq!(decoded(&bytes, MOST_REQUEST_BYTES).map(|found| found.len()), Ok(1));
}

#[test]
fn the_preamble_is_as_published() {
    let control = Preamble::Control.emit();
    assert_eq!(&control[..8], b"WEIRTCP\x04");
    assert_eq!(control[8..], [0; 24]);
    let data = Preamble::Data { session: [9; 16], index: 258 }.emit();
    assert_eq!(data[8..12], [1, 0, 2, 1]);
    assert_eq!(data[12..28], [9; 16]);
    for preamble in [Preamble::Control, Preamble::Data { session: [9; 16], index: 258 }] {
        assert_eq!(Preamble::parse(&preamble.emit()), Ok(preamble));
    }
}

#[test]
fn other_protocols_and_other_versions_are_told_apart() {
    let mut bytes = Preamble::Control.emit();
    bytes[7] = 1;
    assert_eq!(Preamble::parse(&bytes), Err(ProtocolError::Version(1)));
    bytes[..16].copy_from_slice(b"GET / HTTP/1.1\r\n");
    assert_eq!(Preamble::parse(&bytes), Err(ProtocolError::Magic));
}

#[test]
fn a_proof_holds_for_one_token_one_nonce_and_one_request() {
    let proof = prove("secret", &[1; 32], &request());
    assert!(verify("secret", &[1; 32], &request(), &proof));
    assert!(!verify("Secret", &[1; 32], &request(), &proof));
    assert!(!verify("secret", &[2; 32], &request(), &proof));
    assert!(!verify("secret", &[1; 32], &Request { up: 3, ..request() }, &proof));
}

#[test]
fn requests_that_nobody_can_carry_out_are_refused() {
    let wrong = [
        Request { up: 0, ..request() },
        Request { up: 129, ..request() },
        Request { block_bytes: 23, ..request() },
        Request { block_bytes: u32::MAX, ..request() },
        Request { block_bytes: 4 << 20, up: 17, ..request() },
        Request { bytes: Some(47), ..request() },
        Request { lasts_ns: Some(0), ..request() },
        Request { bytes_per_s: Some(1), ..request() },
        Request { interval_ns: 0, ..request() },
        Request { congestion: "0123456789abcdef".into(), ..request() },
    ];
    for request in wrong {
        let bytes = Message::Request { proof: [0; 32], request: request.clone() }.emit();
        let found = decoded(&bytes, MOST_REQUEST_BYTES);
        assert!(matches!(found, Err(ProtocolError::Body(_))), "{request:?}: {found:?}");
    }
}

#[test]
fn the_largest_answer_and_the_largest_request_fit() {
    let flow = Flow {
        latency: Some(LatencyNs::default()),
        info: Info::new(&[1; 280]),
        queues: Queues::new(&[1; 36]).with(Some(1), Some(2), Some(3)),
        ..Flow::default()
    };
    let total = Total { flow, first_ns: Some(1), last_ns: Some(2), failure: "ß".repeat(1000) };
    let totals = vec![total; 2 * usize::from(MOST_CONNECTIONS)];
    let (client, server) = (totals.clone(), totals.clone());
    for done in [Message::Done { totals }, Message::Event(Event::Done { client, server, stopped: true })] {
        assert_eq!(decoded(&done.emit(), MOST_ANSWER_BYTES).map(|found| found.len()), Ok(1));
    }
    let request = Request {
        bytes: Some(u64::MAX),
        bytes_per_s: Some(u64::MAX),
        congestion: "123456789012345".into(),
        ..request()
    };
    let bytes = Message::Request { proof: [0; 32], request }.emit();
    assert_eq!(decoded(&bytes, MOST_REQUEST_BYTES).map(|found| found.len()), Ok(1));
}

#[test]
fn a_length_that_is_not_allowed_is_refused_before_its_bytes_come() {
    let mut decoder = Decoder::new(100);
    decoder.push(&[5, 0, 0, 0, 101, 0, 0, 0]);
    assert_eq!(decoder.next_message(), Err(ProtocolError::TooLong { bytes: 101, most: 100 }));
}

proptest! {
    #[test]
    fn messages_survive_the_way_in_any_portions(sent in vec(messages(), 1..4), portion in 1_usize..400) {
        let bytes: Vec<u8> = sent.iter().flat_map(Message::emit).collect();
        let mut decoder = Decoder::new(MOST_ANSWER_BYTES);
        let mut came = Vec::new();
        for part in bytes.chunks(portion) {
            decoder.push(part);
            while let Some(message) = decoder.next_message().unwrap() {
                came.push(message);
            }
        }
        prop_assert_eq!(came, sent);
    }

    #[test]
    fn garbage_is_refused_or_waited_for(bytes in vec(any::<u8>(), 0..300)) {
        let _ = decoded(&bytes, MOST_REQUEST_BYTES);
        if let Some(first) = bytes.first_chunk() {
            let _ = Preamble::parse(first);
        }
    }

    #[test]
    fn a_damaged_message_never_panics(message in messages(), at in any::<usize>(), value in any::<u8>()) {
        let mut bytes = message.emit();
        let at = at % bytes.len();
        bytes[at] = value;
        let _ = decoded(&bytes, MOST_ANSWER_BYTES);
    }
}
