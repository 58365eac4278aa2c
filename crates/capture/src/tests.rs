use std::io::Write;

use super::*;

/// Times and contents.
type Packets = Vec<(i64, Vec<u8>)>;

/// All packets, then whether the file was cut short, or the message of the error.
fn read(file: &[u8]) -> (Packets, Result<bool, String>) {
    let mut packets = Vec::new();
    let mut capture = match open(file) {
        Ok(capture) => capture,
        Err(e) => return (packets, Err(e.to_string())),
    };
    loop {
        match capture.next_packet() {
            Ok(Some(packet)) => packets.push((packet.time_ns, packet.data.to_vec())),
            Ok(None) => return (packets, Ok(capture.cut_short())),
            Err(e) => return (packets, Err(e.to_string())),
        }
    }
}

fn words(order: Order, words: &[u32]) -> Vec<u8> {
    let bytes = |word: &u32| if order == Order::Little { word.to_le_bytes() } else { word.to_be_bytes() };
    words.iter().flat_map(bytes).collect()
}

#[test]
fn pcap_is_read_in_either_byte_order_and_resolution() {
    for order in [Order::Little, Order::Big] {
        for (magic, fraction_ns) in [(0xa1b2_c3d4, 1_000), (0xa1b2_3c4d, 1)] {
            // Version 2.4 is two halves of 16 bits, which nobody here looks at.
            let head = words(order, &[magic, 0, 0, 0, 96, 1]);
            let file = [head, words(order, &[1_700_000_000, 999_999, 4, 90]), vec![1, 2, 3, 4]].concat();
            let time_ns = 1_700_000_000_000_000_000 + 999_999 * fraction_ns;
            assert_eq!(read(&file), (vec![(time_ns, vec![1, 2, 3, 4])], Ok(false)));
            let mut capture = open(&file[..]).unwrap();
            let packet = capture.next_packet().unwrap().unwrap();
            assert_eq!((packet.original_len, packet.link), (90, LinkType(1)));
        }
    }
}

#[test]
fn records_with_8_bytes_more_are_read() {
    let head = words(Order::Little, &[0xa1b2_cd34, 0, 0, 0, 96, 1]);
    let file = [head, words(Order::Little, &[1, 0, 2, 2, 0, 0]), vec![7, 8]].concat();
    assert_eq!(read(&file), (vec![(1_000_000_000, vec![7, 8])], Ok(false)));
}

/// A section of one interface with these options, and one packet at so many ticks.
fn pcapng(order: Order, options: &[u8], ticks: u64) -> Vec<u8> {
    let interface_len = 20 + options.len() as u32;
    let link = if order == Order::Little { 1 } else { 1 << 16 };
    let packet = [6, 36, 0, (ticks >> 32) as u32, ticks as u32, 3, 60];
    [
        words(order, &[0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28]),
        words(order, &[5, 16, 0, 16]),
        [words(order, &[1, interface_len, link, 0]), options.to_vec(), words(order, &[interface_len])]
            .concat(),
        [words(order, &packet), vec![9, 8, 7, 0], words(order, &[36])].concat(),
    ]
    .concat()
}

#[test]
fn pcapng_is_read_in_either_byte_order() {
    for order in [Order::Little, Order::Big] {
        let file = pcapng(order, &[], 1_700_000_000_000_001);
        assert_eq!(read(&file), (vec![(1_700_000_000_000_001_000, vec![9, 8, 7])], Ok(false)));
    }
}

#[test]
fn interfaces_of_pcapng_have_clocks_of_their_own() {
    let resolution = |value: u8| [9, 0, 1, 0, value, 0, 0, 0];
    for (option, ticks, time_ns) in [
        (resolution(9), 1_700_000_000_000_000_007, 1_700_000_000_000_000_007),
        (resolution(3), 5, 5_000_000),
        (resolution(0x8a), 1_536, 1_500_000_000),
        (resolution(12), 3_000, 3),
    ] {
        assert_eq!(read(&pcapng(Order::Little, &option, ticks)).0[0].0, time_ns);
    }
    let offset = [14, 0, 8, 0, 100, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(read(&pcapng(Order::Little, &offset, 1)).0[0].0, 100_000_001_000);
    let absurd = read(&pcapng(Order::Little, &resolution(0x7f), 1)).1.unwrap_err();
    assert_eq!(absurd, "damaged at offset 44: time stamps of resolution 0x7f");
}

#[test]
fn sections_one_after_the_other_may_differ_in_byte_order() {
    let file = [pcapng(Order::Little, &[], 1), pcapng(Order::Big, &[], 2)].concat();
    assert_eq!(read(&file).0.iter().map(|p| p.0).collect::<Vec<_>>(), [1_000, 2_000]);
}

#[test]
fn compressed_captures_are_read_whatever_they_are_in() {
    let file = pcap(1, &[(1, vec![5; 300]), (2, vec![6; 10])]);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&file).unwrap();
    let gzip = gzip.finish().unwrap();
    let zstd =
        |part: &[u8]| ruzstd::encoding::compress_to_vec(part, ruzstd::encoding::CompressionLevel::Fastest);
    // Members, and frames with one to be skipped between them, follow each other in one file.
    let (front, rest) = file.split_at(100);
    let frames = [zstd(front), vec![0x53, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 1, 1], zstd(rest)].concat();
    for packed in [&gzip, &zstd(&file), &frames] {
        assert_eq!(read(packed), read(&file));
    }
    assert_eq!(open(&frames[..]).unwrap().compression(), Compression::Zstd);
    let (packets, end) = read(&gzip[..gzip.len() - 12]);
    assert!(packets.len() <= 2);
    assert_eq!(end, Ok(true));
}

#[test]
fn a_file_that_ends_inside_a_packet_is_read_until_there() {
    let file = pcap(1, &[(1, vec![5; 30]), (2, vec![6; 10])]);
    for missing in 1..26 {
        let (packets, end) = read(&file[..file.len() - missing]);
        assert_eq!((packets.len(), end), (1, Ok(true)), "{missing} bytes missing");
    }
}

#[test]
fn errors_say_what_is_wrong_and_where() {
    let long = [pcap(1, &[(1, vec![5; 6])]), words(Order::Little, &[0, 0, 99_999_999, 0])].concat();
    let pcapng = pcapng(Order::Little, &[], 1);
    let mut behind = pcapng.clone();
    *behind.last_mut().unwrap() = 1;
    let mut interface = pcapng.clone();
    interface[64 + 8] = 3;
    let short = [&pcapng[..44], &[1, 0, 0, 0, 8, 0, 0, 0, 8, 0, 0, 0]].concat();
    for (file, message) in [
        (&b"hello"[..], "too short for a capture: 5 bytes"),
        (b"#!/bin/sh\necho this is no capture", "neither pcap nor pcapng: it begins with 23 21 2f 62"),
        (&long, "damaged at offset 46: a packet of 99999999 bytes"),
        (&behind, "damaged at offset 64: a block that does not end with its length, of 36 bytes"),
        (&interface, "damaged at offset 64: a packet of interface 3, of 1 described"),
        (&short, "damaged at offset 44: a block of 8 bytes"),
    ] {
        assert_eq!(read(file).1, Err(message.to_owned()));
    }
}

#[test]
fn a_length_that_lies_takes_no_memory() {
    let head = [pcap(1, &[]), words(Order::Little, &[0, 0, MAX_RECORD_BYTES as u32, 0])].concat();
    let mut capture = open(&head[..]).unwrap();
    assert!(capture.next_packet().unwrap().is_none());
    assert!(capture.cut_short());
    assert!(capture.buffer.len() <= 2 * CHUNK_BYTES);
}

#[test]
fn a_block_longer_than_memory_is_passed_over() {
    let mut file = pcapng(Order::Little, &[], 1);
    let unknown = [words(Order::Little, &[0x0bad, 40 << 20]), vec![0; (40 << 20) - 8]].concat();
    file.splice(28..28, unknown);
    let mut capture = open(&file[..]).unwrap();
    assert_eq!(capture.next_packet().unwrap().unwrap().data, [9, 8, 7]);
    assert!(capture.buffer.len() <= CHUNK_BYTES);
}

#[test]
fn packets_without_a_time_are_counted() {
    let mut file = pcapng(Order::Little, &[], 1);
    file.splice(64..64, words(Order::Little, &[3, 20, 4, 0x0101_0101, 20]));
    let mut capture = open(&file[..]).unwrap();
    assert!(capture.next_packet().unwrap().is_some());
    assert_eq!(capture.timeless(), 1);
}

/// A pcap file, little-endian, µs: times in µs and frames.
pub fn pcap(link: u32, packets: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, link] {
        file.extend(word.to_le_bytes());
    }
    for (time_us, data) in packets {
        let words = [time_us / 1_000_000, time_us % 1_000_000, data.len() as u64, data.len() as u64];
        file.extend(words.iter().flat_map(|word| (*word as u32).to_le_bytes()));
        file.extend(data);
    }
    file
}
