//! Seeds of the target "tcp": what connections go through.

use super::frames::{ethernet, ipv4, ipv6, pcap, segment};

/// Name, bytes, and connections in it.
type Seed = (&'static str, Vec<u8>, u64);

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 0x10;

/// Initial sequence numbers: that of the initiator wraps soon.
const A: u32 = u32::MAX - 1_000;
const B: u32 = 5_000;

/// MSS, SACK permitted, time stamps, window scale.
const OFFER: [u8; 20] = [2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7];

/// Time in ms, does B send, sequence number and acknowledgement after the initial ones, flags, options, bytes
/// of payload.
type Step<'a> = (u32, bool, u32, u32, u8, &'a [u8], usize);

fn connection(steps: &[Step<'_>]) -> Vec<u8> {
    let packet = |&(ms, back, seq, ack, flags, options, length): &Step<'_>| {
        let (seq, ack) = if back {
            (B.wrapping_add(seq), A.wrapping_add(ack))
        } else {
            (A.wrapping_add(seq), B.wrapping_add(ack))
        };
        (ms * 1_000, ethernet(&ipv4(6, back, 0, &segment(back, seq, ack, flags, options, &vec![7; length]))))
    };
    pcap(1, &steps.iter().map(packet).collect::<Vec<_>>())
}

const HANDSHAKE: [Step<'static>; 3] = [
    (0, false, 0, 0, SYN, &OFFER, 0),
    (10, true, 0, 1, SYN | ACK, &OFFER, 0),
    (20, false, 1, 1, ACK, &[], 0),
];

fn after_handshake(steps: &[Step<'_>]) -> Vec<u8> {
    connection(&[&HANDSHAKE[..], steps].concat())
}

fn sack(left: u32, right: u32) -> Vec<u8> {
    let edges = [left, right].map(|edge| A.wrapping_add(edge).to_be_bytes()).concat();
    [&[1, 1, 5, 10][..], &edges].concat()
}

pub fn seeds() -> Vec<Seed> {
    let timestamps = [1, 1, 8, 10, 0, 0, 0, 5, 0, 0, 0, 1];
    let (gap, duplicate) = (sack(201, 301), sack(101, 201));
    let other = |i: u32| {
        let mut packet = ipv4(6, false, 0, &segment(false, i, 0, SYN, &[], &[]));
        packet[20..22].copy_from_slice(&(1_000 + i as u16).to_be_bytes());
        (i, ethernet(&packet))
    };
    let wrong_options: Vec<Step<'_>> = vec![
        // Lengths of 0 and 1, beyond the header, of nothing known; SACK blocks that are half one.
        (30, false, 1, 1, ACK, &[5, 0, 0, 0], 0),
        (31, false, 1, 1, ACK, &[5, 1, 0, 0], 0),
        (32, false, 1, 1, ACK, &[8, 40, 0, 0], 0),
        (33, true, 1, 1, ACK, &[5, 6, 0, 0, 0, 1, 1, 1], 0),
        (34, true, 1, 1, ACK, &[3, 3, 255, 0], 0),
        (35, true, 1, 1, ACK, &[254, 4, 1, 1, 0, 9, 9, 9], 0),
    ];
    vec![
        (
            "whole",
            after_handshake(&[
                (21, false, 1, 1, ACK, &timestamps, 100),
                (31, true, 1, 101, ACK, &timestamps, 0),
                (40, true, 1, 101, ACK, &[], 50),
                (50, false, 101, 51, FIN | ACK, &[], 0),
                (60, true, 51, 102, FIN | ACK, &[], 0),
                (70, false, 102, 52, ACK, &[], 0),
            ]),
            1,
        ),
        ("reset", after_handshake(&[(21, false, 1, 1, ACK, &[], 10), (25, true, 1, 0, RST, &[], 0)]), 1),
        (
            "middle",
            connection(&[(0, true, 9_000, 500, ACK, &[], 20), (1, false, 500, 9_020, ACK, &[], 0)]),
            1,
        ),
        ("silence", connection(&[HANDSHAKE[0], (1_000, false, 0, 0, SYN, &OFFER, 0)]), 1),
        (
            "wrap",
            after_handshake(&[
                (21, false, 1, 1, ACK, &[], 900),
                (22, false, 901, 1, ACK, &[], 300),
                (32, true, 1, 1_201, ACK, &[], 0),
            ]),
            1,
        ),
        (
            "fast-retransmission",
            after_handshake(&[
                (21, false, 1, 1, ACK, &[], 100),
                (22, false, 101, 1, ACK, &[], 100),
                (23, false, 201, 1, ACK, &[], 100),
                (31, true, 1, 101, ACK, &[], 0),
                (33, true, 1, 101, ACK, &gap, 0),
                (34, true, 1, 101, ACK, &gap, 0),
                (35, true, 1, 101, ACK, &gap, 0),
                (40, false, 101, 1, ACK, &[], 100),
                (50, true, 1, 301, ACK, &[], 0),
            ]),
            1,
        ),
        (
            "time-out-and-dsack",
            after_handshake(&[
                (21, false, 1, 1, ACK, &[], 200),
                (400, false, 101, 1, ACK, &[], 100),
                (401, true, 1, 201, ACK, &[], 0),
                (410, true, 1, 201, ACK, &duplicate, 0),
            ]),
            1,
        ),
        (
            "out-of-order",
            after_handshake(&[
                (21, false, 101, 1, ACK, &[], 100),
                (22, false, 1, 1, ACK, &[], 100),
                (30, true, 1, 201, ACK, &[], 0),
            ]),
            1,
        ),
        (
            "keep-alive",
            after_handshake(&[
                (21, false, 1, 1, ACK, &[], 100),
                (30, true, 1, 101, ACK, &[], 0),
                (60_000, false, 100, 1, ACK, &[], 0),
                (60_010, true, 1, 101, ACK, &[], 0),
                (120_000, false, 100, 1, ACK, &[], 1),
                (120_010, true, 1, 101, ACK, &[], 0),
            ]),
            1,
        ),
        ("zero-window", zero_window(), 1),
        ("wrong-options", after_handshake(&wrong_options), 1),
        (
            "impossible-numbers",
            after_handshake(&[
                (21, false, 1 << 31, 1, ACK, &[], 100),
                (22, true, 1, 1 << 31, ACK, &gap, 0),
                (23, true, 1 << 30, (1 << 31) + 5, ACK, &[], 10),
                (24, false, u32::MAX, 0, FIN | SYN | RST | ACK, &OFFER, 10),
            ]),
            1,
        ),
        (
            "backwards",
            connection(&[HANDSHAKE[2], HANDSHAKE[1], HANDSHAKE[0], (5, false, 1, 1, ACK, &[], 9)]),
            1,
        ),
        (
            "ports-again",
            connection(&[
                HANDSHAKE[0],
                HANDSHAKE[1],
                (30, true, 1, 1, RST | ACK, &[], 0),
                (90_000, false, 77_777, 0, SYN, &OFFER, 0),
                (90_010, true, 99_999, 77_778, SYN | ACK, &OFFER, 0),
            ]),
            2,
        ),
        (
            "refused-and-tried-again",
            connection(&[
                HANDSHAKE[0],
                (10, true, 0, 1, RST | ACK, &[], 0),
                (500, false, 0, 0, SYN, &OFFER, 0),
                (510, true, 0, 1, SYN | ACK, &OFFER, 0),
                (520, false, 1, 1, ACK, &[], 9),
            ]),
            2,
        ),
        (
            "half-open",
            connection(&[
                HANDSHAKE[0],
                (10, true, 77_777, 999_999, ACK, &[], 0),
                (11, false, 999_999, 0, RST, &[], 0),
                (3_000, false, 0, 0, SYN, &OFFER, 0),
                (3_010, true, 0, 1, SYN | ACK, &OFFER, 0),
            ]),
            1,
        ),
        (
            "two-answers",
            connection(&[
                HANDSHAKE[0],
                HANDSHAKE[1],
                (11, true, 16_000_000, 1, SYN | ACK, &OFFER, 0),
                (20, false, 1, 16_000_001, ACK, &[], 9),
                (21, true, 16_000_001, 10, ACK, &[], 9),
            ]),
            1,
        ),
        (
            "data-behind-its-ack",
            after_handshake(&[
                (21, false, 1, 1, ACK, &[], 100),
                (31, true, 1, 401, ACK, &[], 0),
                (32, false, 201, 1, ACK, &[], 200),
                (32, false, 101, 1, ACK, &[], 100),
                (33, false, 301, 1, FIN | ACK, &[], 200),
            ]),
            1,
        ),
        ("flood", pcap(1, &(0..40).map(other).collect::<Vec<_>>()), 40),
        ("ipv6", pcap(101, &[(0, ipv6(6, &segment(false, 1, 1, ACK, &[], b"hello")))]), 1),
        (
            "fragments",
            {
                let whole = segment(false, 1, 1, ACK, &[], &[7; 60]);
                let piece = |cut, part: &[u8]| ethernet(&ipv4(6, false, cut, part));
                pcap(1, &[(0, piece(0x2000, &whole[..32])), (1, piece(4, &whole[32..]))])
            },
            1,
        ),
        (
            "truncated",
            {
                let mut file = after_handshake(&[]);
                let whole = ethernet(&ipv4(
                    6,
                    false,
                    0,
                    &segment(false, A.wrapping_add(1), B + 1, ACK, &timestamps, &[7; 99]),
                ));
                for kept in [54, 60, 50] {
                    let words = [1_700_000_001, 0, kept, whole.len() as u32];
                    file.extend(words.iter().flat_map(|word: &u32| word.to_le_bytes()));
                    file.extend(&whole[..kept as usize]);
                }
                file
            },
            1,
        ),
    ]
}

/// The receiver closes its window, is probed, and opens it again.
fn zero_window() -> Vec<u8> {
    let mut file = after_handshake(&[
        (21, false, 1, 1, ACK, &[], 100),
        (30, true, 1, 101, ACK, &[], 0),
        (300, false, 101, 1, ACK, &[], 1),
        (310, true, 1, 101, ACK, &[], 0),
        (400, true, 1, 101, ACK, &[], 0),
    ]);
    // The window's place in the frames of B: two of them are to have none.
    let mut at = 24;
    let mut seen = 0;
    while at < file.len() {
        let length = u32::from_le_bytes([file[at + 8], file[at + 9], file[at + 10], file[at + 11]]) as usize;
        seen += 1;
        if seen == 5 || seen == 7 {
            file[at + 16 + 48..at + 16 + 50].fill(0);
        }
        at += 16 + length;
    }
    file
}
