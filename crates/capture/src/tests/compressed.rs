use std::io::Write;

use super::*;

/// A file in every compression.
fn packed(file: &[u8]) -> Vec<(Compression, Vec<u8>)> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(file).unwrap();
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
    xz.write_all(file).unwrap();
    let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
    lz4.write_all(file).unwrap();
    let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    bzip2.write_all(file).unwrap();
    vec![
        (Compression::Gzip, gzip.finish().unwrap()),
        (Compression::Zstd, zstd::encode_all(file, 1).unwrap()),
        (Compression::Xz, xz.finish().unwrap()),
        (Compression::Lz4, lz4.finish().unwrap()),
        (Compression::Bzip2, bzip2.finish().unwrap()),
    ]
}

/// RFC 8878 section 3.1.2, and the frame format of lz4.
const SKIPPED: [u8; 10] = [0x53, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 1, 1];

#[test]
fn compressed_captures_are_read_whatever_they_are_in() {
    let file = pcap(1, &[(1, vec![5; 300]), (2, vec![6; 10])]);
    for (compression, bytes) in packed(&file) {
        assert_eq!(open(&bytes[..]).unwrap().compression(), compression);
        assert_eq!(read(&bytes), read(&file), "{compression:?}");
    }
}

#[test]
fn members_streams_and_frames_follow_each_other_in_one_file() {
    let file = pcap(1, &[(1, vec![5; 300]), (2, vec![6; 10])]);
    let (front, rest) = file.split_at(100);
    for ((compression, front), (_, rest)) in packed(front).into_iter().zip(packed(rest)) {
        assert_eq!(read(&[&front[..], &rest].concat()), read(&file), "{compression:?}");
        if matches!(compression, Compression::Zstd | Compression::Lz4) {
            assert_eq!(read(&[&front[..], &SKIPPED, &rest].concat()), read(&file), "{compression:?}");
        }
    }
}

#[test]
fn compressed_files_without_their_end_are_read_until_there() {
    let packets: Vec<_> = (0..2_000).map(|i| (i, vec![i as u8; 200])).collect();
    for (compression, bytes) in packed(&pcap(1, &packets)) {
        for missing in [12, bytes.len() / 2] {
            let (found, end) = read(&bytes[..bytes.len() - missing]);
            if found.is_empty() {
                // Decoders of blocks have nothing before the end of the first.
                continue;
            }
            assert_eq!(end, Ok(true), "{compression:?}");
            assert!(found.len() <= 2_000 && found.iter().all(|(_, data)| data.len() == 200));
        }
    }
}

#[test]
fn compressed_files_of_which_nothing_can_be_read_say_so() {
    for (compression, bytes) in packed(&pcap(1, &[(1, vec![7; 90])])) {
        if compression != Compression::None {
            let (packets, end) = read(&bytes[..12]);
            let message = format!(
                "its {} data is cut short, and nothing can be read of what there is",
                compression.name()
            );
            assert_eq!((packets.len(), end), (0, Err(message)));
        }
    }
}

#[test]
fn what_is_neither_a_frame_nor_its_end_is_damage() {
    let file = pcap(1, &[(1, vec![5; 300])]);
    for (compression, bytes) in packed(&file) {
        let (_, end) = read(&[&bytes[..], b"what is this behind it?"].concat());
        assert!(
            end.is_err_and(|message| message.starts_with("reading failed at offset ")),
            "{compression:?}"
        );
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
    const NOTHING: usize = 2 << 20;
    let lie = words(Order::Little, &[0x0bad, 0xf000_0000]);
    let mut file = [pcapng(Order::Little, &[], 1), lie].concat();
    file.resize(file.len() + NOTHING, 0);
    for (compression, bomb) in packed(&file) {
        assert!(bomb.len() < NOTHING / 100, "{compression:?}");
        let mut capture = open(&bomb[..]).unwrap();
        assert!(capture.next_packet().unwrap().is_some());
        assert!(capture.next_packet().unwrap().is_none());
        assert!(capture.cut_short());
        assert!(capture.buffer_bytes() < 1 << 20);
        assert!(capture.offset() > NOTHING as u64);
    }
}

#[test]
fn a_window_beyond_128_mib_is_refused() {
    // RFC 8878 section 3.1.1.1: a window of 2^(10 + 21) bytes.
    let file = [0x28, 0xb5, 0x2f, 0xfd, 0, 21 << 3, 1, 0, 0];
    let message = read(&file).1.unwrap_err();
    assert_eq!(message, "reading failed at offset 0");
}

#[test]
fn a_dictionary_beyond_128_mib_is_refused() {
    // The .xz file format, section 5.3.1: a preset of 192 MiB for a small file.
    let mut options = liblzma::stream::LzmaOptions::new_preset(0).unwrap();
    options.dict_size(192 << 20);
    let mut filters = liblzma::stream::Filters::new();
    filters.lzma2(&options);
    let stream = liblzma::stream::Stream::new_stream_encoder(&filters, liblzma::stream::Check::None).unwrap();
    let mut encoder = liblzma::write::XzEncoder::new_stream(Vec::new(), stream);
    encoder.write_all(&pcap(1, &[(1, vec![5; 300])])).unwrap();
    let message = read(&encoder.finish().unwrap()).1.unwrap_err();
    assert_eq!(message, "reading failed at offset 0");
}
