use std::io::{self, Read, Write};

use super::*;

#[test]
fn compressed_captures_are_read_whatever_they_are_in() {
    let file = pcap(1, &[(1, vec![5; 300]), (2, vec![6; 10])]);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&file).unwrap();
    let gzip = gzip.finish().unwrap();
    let zstd = |part: &[u8]| zstd::encode_all(part, 1).unwrap();
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
fn compressed_files_without_their_end_are_read_until_there() {
    let packets: Vec<_> = (0..2_000).map(|i| (i, vec![i as u8; 200])).collect();
    let file = pcap(1, &packets);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&file).unwrap();
    for packed in [gzip.finish().unwrap(), zstd::encode_all(&file[..], 1).unwrap()] {
        let (found, end) = read(&packed[..packed.len() - 8]);
        assert_eq!(end, Ok(true));
        assert!(found.len() <= 2_000);
        assert!(found.iter().all(|(_, data)| data.len() == 200));
    }
}

#[test]
fn damage_inside_of_compression_is_an_error_with_its_place() {
    let file = pcap(1, &[(1, (0..=255).collect()), (2, vec![6; 100_000])]);
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.write_all(&file).unwrap();
    let mut zstd = encoder.finish().unwrap();
    *zstd.last_mut().unwrap() ^= 1;
    let message = read(&zstd).1.unwrap_err();
    assert!(message.starts_with("reading failed at offset "), "{message}");
}

#[test]
fn bombs_take_no_memory() {
    // 2 MB of nothing behind a block to be passed over that claims to be longer.
    const NOTHING: u64 = 2 << 20;
    let lie = words(Order::Little, &[0x0bad, 0xf000_0000]);
    let head = [pcapng(Order::Little, &[], 1), lie].concat();
    let file = || head.chain(io::repeat(0).take(NOTHING));
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    io::copy(&mut file(), &mut gzip).unwrap();
    for bomb in [zstd::encode_all(file(), 1).unwrap(), gzip.finish().unwrap()] {
        assert!((bomb.len() as u64) < NOTHING / 100);
        let mut capture = open(&bomb[..]).unwrap();
        assert!(capture.next_packet().unwrap().is_some());
        assert!(capture.next_packet().unwrap().is_none());
        assert!(capture.cut_short());
        assert!(capture.buffer_bytes() < 1 << 20);
        assert!(capture.offset() > NOTHING);
    }
}

#[test]
fn a_window_beyond_128_mib_is_refused() {
    // RFC 8878 section 3.1.1.1: a window of 2^(10 + 21) bytes.
    let file = [0x28, 0xb5, 0x2f, 0xfd, 0, 21 << 3, 1, 0, 0];
    let message = read(&file).1.unwrap_err();
    assert_eq!(message, "reading failed at offset 0");
}
