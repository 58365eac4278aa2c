//! Seeds of the target "capture": formats, and what can be wrong with them.

use super::frames::{ethernet, ipv4, pcap, udp};

/// Name, bytes, packets, how it ends.
type Seed = (&'static str, Vec<u8>, u64, &'static str);

fn words(big: bool, words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| if big { word.to_be_bytes() } else { word.to_le_bytes() }).collect()
}

fn frame() -> Vec<u8> {
    ethernet(&ipv4(17, false, 0, &udp(4_000, 4_002, b"speech")))
}

fn classic(big: bool, magic: u32, more: &[u8]) -> Vec<u8> {
    let length = frame().len() as u32;
    let head = words(big, &[magic, 0, 0, 0, 65_535, 1]);
    let record = words(big, &[1_700_000_000, 999, length, length]);
    [&head, &record, more, &frame(), &record, more, &frame()].concat()
}

/// Of a version in which the lengths of records stood the other way round.
fn old(minor: u8, longer: u32) -> Vec<u8> {
    let mut head = words(false, &[0xa1b2_c3d4, 2, 0, 0, 65_535, 1]);
    head[6] = minor;
    let length = frame().len() as u32;
    let record = |lengths: [u32; 2]| [words(false, &[7, 9]), words(false, &lengths), frame()].concat();
    [head, record([length + longer, length]), record([length + longer, length])].concat()
}

fn block(big: bool, kind: u32, body: &[u8]) -> Vec<u8> {
    let length = 12 + body.len() as u32;
    [&words(big, &[kind, length]), body, &words(big, &[length])].concat()
}

fn option(big: bool, code: u16, value: &[u8]) -> Vec<u8> {
    let length = value.len() as u16;
    let head = [code, length].map(|n| if big { n.to_be_bytes() } else { n.to_le_bytes() }).concat();
    [&head, value, &[0; 3][..value.len().next_multiple_of(4) - value.len()]].concat()
}

fn section(big: bool) -> Vec<u8> {
    block(big, 0x0a0d_0d0a, &words(big, &[0x1a2b_3c4d, if big { 1 << 16 } else { 1 }, u32::MAX, u32::MAX]))
}

fn interface(big: bool, options: &[u8]) -> Vec<u8> {
    block(big, 1, &[&words(big, &[if big { 1 << 16 } else { 1 }, 65_535]), options].concat())
}

fn packet(big: bool, kind: u32, interface: u32, high: u32, options: &[u8]) -> Vec<u8> {
    let length = frame().len() as u32;
    let padding = vec![0; frame().len().next_multiple_of(4) - frame().len()];
    block(
        big,
        kind,
        &[&words(big, &[interface, high, 7, length, length]), &frame(), &padding, options].concat(),
    )
}

fn pcapng(big: bool, interface_options: &[u8], packet_options: &[u8]) -> Vec<u8> {
    let packet = packet(big, 6, 0, 400_000, packet_options);
    [section(big), interface(big, interface_options), packet].concat()
}

/// A section and an interface, which take 48 bytes, then these.
fn then(blocks: &[Vec<u8>]) -> Vec<u8> {
    [section(false), interface(false, &[]), blocks.concat()].concat()
}

/// RFC 1952, with the bytes stored as they are (RFC 1951 section 3.2.4).
fn gzip(data: &[u8]) -> Vec<u8> {
    let mut crc = u32::MAX;
    for byte in data {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    let length = data.len() as u16;
    let stored = [&[1][..], &length.to_le_bytes(), &(!length).to_le_bytes(), data].concat();
    let trailer = [(!crc).to_le_bytes(), (data.len() as u32).to_le_bytes()].concat();
    [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3][..], &stored, &trailer].concat()
}

/// RFC 8878: a frame of one window of 128 KiB, of blocks whose headers are given.
fn zstd(blocks: &[Vec<u8>]) -> Vec<u8> {
    [&[0x28, 0xb5, 0x2f, 0xfd, 0, 7 << 3][..], &blocks.concat()].concat()
}

/// A block of zstd that is the bytes themselves.
fn raw(data: &[u8], last: bool) -> Vec<u8> {
    let head = (data.len() as u32) << 3 | u32::from(last);
    [&head.to_le_bytes()[..3], data].concat()
}

/// A block of zstd that is 128 KiB of zeros.
fn zeros(last: bool) -> Vec<u8> {
    let head: u32 = (128 << 10) << 3 | 1 << 1 | u32::from(last);
    [&head.to_le_bytes()[..3], &[0]].concat()
}

pub fn seeds() -> Vec<Seed> {
    let every_option = |big| {
        let eight = |value: u32| words(big, &if big { [0, value] } else { [value, 0] });
        let interface = [
            option(big, 2, b"eth0"),
            option(big, 3, b"A, towards B"),
            option(big, 9, &[9]),
            option(big, 11, b"\0udp"),
            option(big, 14, &eight(3)),
            option(big, 0, &[]),
        ];
        let packet = [option(big, 1, b"why"), option(big, 2, &words(big, &[1])), option(big, 4, &eight(2))];
        pcapng(big, &interface.concat(), &packet.concat())
    };
    let statistics = |id| {
        let counters: Vec<_> =
            (4..9).flat_map(|code| option(false, code, &[5, 0, 0, 0, 0, 0, 0, 0])).collect();
        block(false, 5, &[words(false, &[id, 0, 0]), counters].concat())
    };
    let with = |options: &[Vec<u8>]| pcapng(false, &options.concat(), &[]);
    let one = || packet(false, 6, 0, 0, &[]);
    let custom = |length| words(false, &[0x0bad, length, 0, 0]);
    let whole = pcap(1, &[(0, frame()), (5, frame())]);
    let (front, rest) = whole.split_at(50);
    let bomb: Vec<_> = std::iter::once(raw(&then(&[words(false, &[0x0bad, 1 << 30])]), false))
        .chain((0..63).map(|_| zeros(false)))
        .chain([zeros(true)])
        .collect();
    let skipped = vec![0x53, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 1, 1];
    vec![
        ("pcap-le-us", classic(false, 0xa1b2_c3d4, &[]), 2, "whole"),
        ("pcap-be-us", classic(true, 0xa1b2_c3d4, &[]), 2, "whole"),
        ("pcap-le-ns", classic(false, 0xa1b2_3c4d, &[]), 2, "whole"),
        ("pcap-be-ns", classic(true, 0xa1b2_3c4d, &[]), 2, "whole"),
        ("pcap-modified", classic(false, 0xa1b2_cd34, &[7, 0, 0, 0, 8, 0, 4, 0]), 2, "whole"),
        ("pcap-2.2", old(2, 60), 2, "whole"),
        ("pcap-2.3", old(3, 60), 2, "whole"),
        ("pcap-cut-short", whole[..whole.len() - 5].to_vec(), 1, "cut short"),
        ("pcap-cut-in-a-header", whole[..whole.len() - frame().len() - 5].to_vec(), 1, "cut short"),
        ("pcap-backwards", pcap(1, &[(9, frame()), (5, frame()), (7, frame())]), 3, "whole"),
        (
            "pcap-length-lies",
            [&whole[..], &words(false, &[0, 0, 0x7fff_ffff, 1])].concat(),
            2,
            "damaged at offset 152: a packet of 2147483647 bytes",
        ),
        ("pcapng-le", pcapng(false, &[], &[]), 1, "whole"),
        ("pcapng-be", pcapng(true, &[], &[]), 1, "whole"),
        ("pcapng-two-sections", [pcapng(true, &[], &[]), pcapng(false, &[], &[])].concat(), 2, "whole"),
        ("pcapng-options-le", every_option(false), 1, "whole"),
        ("pcapng-options-be", every_option(true), 1, "whole"),
        ("pcapng-clock-binary", with(&[option(false, 9, &[0x94])]), 1, "whole"),
        ("pcapng-clock-picoseconds", with(&[option(false, 9, &[12])]), 1, "whole"),
        (
            "pcapng-clock-absurd",
            with(&[option(false, 9, &[0x7f])]),
            0,
            "damaged at offset 28: time stamps of resolution 0x7f",
        ),
        ("pcapng-time-out-of-range", then(&[packet(false, 6, 0, u32::MAX, &[]), one()]), 1, "whole"),
        ("pcapng-offset-out-of-range", with(&[option(false, 14, &[0xff; 8])]), 1, "whole"),
        ("pcapng-simple-packet", then(&[block(false, 3, &[4, 0, 0, 0, 1, 2, 3, 4]), one()]), 1, "whole"),
        ("pcapng-old-packet", then(&[packet(false, 2, 0x0003_0000, 0, &[])]), 1, "whole"),
        ("pcapng-statistics", then(&[one(), statistics(0)]), 1, "whole"),
        (
            "pcapng-statistics-of-nobody",
            then(&[one(), statistics(9)]),
            1,
            "damaged at offset 128: interface 9, where 1 are described",
        ),
        (
            "pcapng-foreign-blocks",
            then(&[4, 10, 0x0bad, 0x4000_0bad, 99].map(|kind| block(false, kind, &[1; 8]))),
            0,
            "whole",
        ),
        ("pcapng-block-of-4-gb", then(&[one(), custom(u32::MAX - 3)]), 1, "cut short"),
        (
            "pcapng-packet-of-4-gb",
            then(&[words(false, &[6, u32::MAX, 0, 0])]),
            0,
            "damaged at offset 48: a block of 4294967295 bytes",
        ),
        ("pcapng-block-of-0", then(&[custom(0)]), 0, "damaged at offset 48: a block of 0 bytes"),
        (
            "pcapng-block-of-two-lengths",
            then(&[words(false, &[0x0bad, 16, 0, 20])]),
            0,
            "damaged at offset 48: a block that does not end with its length, of 16 bytes",
        ),
        (
            "pcapng-empty-options",
            pcapng(false, &[1, 0, 0, 0].repeat(50), &[1, 0, 0, 0].repeat(50)),
            1,
            "whole",
        ),
        ("pcapng-option-lies", pcapng(false, &[2, 0, 0xff, 0xff], &[4, 0, 0xff, 0xff]), 1, "whole"),
        (
            "pcapng-interface-out-of-range",
            then(&[packet(false, 6, u32::MAX, 0, &[])]),
            0,
            "damaged at offset 48: interface 4294967295, where 1 are described",
        ),
        (
            "pcapng-no-byte-order",
            [&pcapng(false, &[], &[])[..], &words(false, &[0x0a0d_0d0a, 28, 7])].concat(),
            1,
            "damaged at offset 128: a section without its byte-order mark",
        ),
        ("gzip", gzip(&whole), 2, "whole"),
        ("gzip-members", [gzip(front), gzip(rest)].concat(), 2, "whole"),
        ("gzip-cut-short", gzip(&whole)[..150].to_vec(), 1, "cut short"),
        ("zstd", zstd(&[raw(front, false), raw(rest, true)]), 2, "whole"),
        ("zstd-frames", [zstd(&[raw(front, true)]), skipped, zstd(&[raw(rest, true)])].concat(), 2, "whole"),
        (
            "zstd-cut-short",
            zstd(&[raw(&whole[..100], false), raw(&whole[100..], true)])[..140].to_vec(),
            1,
            "cut short",
        ),
        ("zstd-bomb", zstd(&bomb), 0, "cut short"),
        (
            "zstd-window-of-2-gb",
            vec![0x28, 0xb5, 0x2f, 0xfd, 0, 21 << 3, 1, 0, 0],
            0,
            "reading failed at offset 0",
        ),
        ("empty", vec![], 0, "too short for a capture: 0 bytes"),
        (
            "no-capture",
            b"#!/bin/sh\necho this is no capture\n".to_vec(),
            0,
            "neither pcap nor pcapng: it begins with 23 21 2f 62",
        ),
    ]
}
