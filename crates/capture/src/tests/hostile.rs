use super::*;

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
        (&interface, "damaged at offset 64: interface 3, where 1 are described"),
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
    assert!(capture.buffer_bytes() < 1 << 20);
}

#[test]
fn a_block_longer_than_memory_is_passed_over() {
    let mut file = pcapng(Order::Little, &[], 1);
    file.splice(28..28, block(Order::Little, 0x0bad, &vec![0; 40 << 20]));
    let mut capture = open(&file[..]).unwrap();
    assert_eq!(capture.next_packet().unwrap().unwrap().data, [9, 8, 7]);
    assert!(capture.buffer_bytes() < 1 << 20);
}

#[test]
fn a_block_that_claims_4_gb_is_passed_over_until_the_file_ends() {
    for kind in [3, 0x0bad] {
        let lie = [words(Order::Little, &[kind, u32::MAX - 3]), vec![0; 1 << 20]].concat();
        let file = [pcapng(Order::Little, &[], 1), lie].concat();
        let mut capture = open(&file[..]).unwrap();
        assert!(capture.next_packet().unwrap().is_some());
        assert!(capture.next_packet().unwrap().is_none());
        assert!(capture.cut_short());
        assert!(capture.buffer_bytes() < 1 << 20);
    }
}

#[test]
fn blocks_of_4_gb_that_matter_are_errors() {
    for kind in [1, 2, 5, 6, 0x0a0d_0d0a] {
        let lie = words(Order::Little, &[kind, u32::MAX, 0x1a2b_3c4d, 0, 0, 0, 0, 0]);
        let file = [pcapng(Order::Little, &[], 1), lie].concat();
        let message = "damaged at offset 100: a block of 4294967295 bytes".to_owned();
        assert_eq!(read(&file).1, Err(message), "block of type {kind}");
    }
}

#[test]
fn blocks_of_no_length_do_not_stop_the_reading() {
    for (kind, length) in [(6, 0), (0x0bad, 0), (3, 0), (0x0bad, 4), (5, 12), (3, 12)] {
        let lie = words(Order::Little, &[kind, length, 0, 0]);
        let file = [pcapng(Order::Little, &[], 1), lie].concat();
        let message = format!("damaged at offset 100: a block of {length} bytes");
        assert_eq!(read(&file).1, Err(message));
    }
}

#[test]
fn foreign_blocks_end_with_their_length_too() {
    let mut file = pcapng(Order::Little, &[], 1);
    file[40] = 99;
    let message = "damaged at offset 28: a block that does not end with its length, of 16 bytes";
    assert_eq!(read(&file).1, Err(message.to_owned()));
}

#[test]
fn options_that_lie_about_their_length_end_the_options() {
    let order = Order::Little;
    // A million options of no length, then one that goes beyond the block.
    let empty: Vec<_> = std::iter::repeat_n([1, 0, 0, 0], 1 << 20).flatten().collect();
    let options = [empty, vec![2, 0, 0xff, 0xff, b'a', 0, 0, 0]].concat();
    let file = [pcapng(order, &options, 1), packet(order, 0, 2, &options)].concat();
    let mut capture = open(&file[..]).unwrap();
    assert_eq!(capture.next_packet().unwrap().unwrap().time_ns, 1_000);
    assert_eq!(capture.next_packet().unwrap().unwrap().data, [9, 8, 7]);
    assert_eq!(capture.interfaces()[0].name, "");
}

#[test]
fn times_that_no_clock_shows_are_counted_and_left_out() {
    let order = Order::Little;
    let seconds = |value: i64| option(order, 14, &value.to_le_bytes());
    let resolution = |value| option(order, 9, &[value]);
    for (options, ticks) in [
        (vec![], u64::MAX),
        (resolution(0), 1 << 40),
        (resolution(0x80), u64::MAX),
        (seconds(i64::MAX), 0),
        (seconds(i64::MIN), 1),
        ([resolution(9), seconds(i64::MAX)].concat(), i64::MAX as u64),
    ] {
        let file = [pcapng(order, &options, ticks), pcapng(order, &[], 5)].concat();
        let mut capture = open(&file[..]).unwrap();
        assert_eq!(capture.next_packet().unwrap().unwrap().time_ns, 5_000);
        assert_eq!((capture.misdated(), capture.timeless()), (1, 0));
    }
}

#[test]
fn a_clock_beyond_all_use_is_an_error() {
    let file = pcapng(Order::Little, &option(Order::Little, 9, &[0x7f]), 1);
    assert_eq!(read(&file).1.unwrap_err(), "damaged at offset 44: time stamps of resolution 0x7f");
}

#[test]
fn interfaces_that_nobody_described_are_errors() {
    let order = Order::Little;
    let old = block(order, 2, &[words(order, &[1, 0, 8, 3, 60]), vec![9, 8, 7, 0]].concat());
    let statistics = block(order, 5, &words(order, &[1, 0, 0]));
    for wrong in [packet(order, 1, 1, &[]), packet(order, u32::MAX, 1, &[]), old, statistics] {
        let file = [pcapng(order, &[], 1), wrong].concat();
        let message = read(&file).1.unwrap_err();
        assert!(message.starts_with("damaged at offset 100: interface "), "{message}");
        assert!(message.ends_with(", where 1 are described"), "{message}");
    }
    // A new section forgets the interfaces of the last one.
    let file = [pcapng(order, &[], 1), section(order), packet(order, 0, 1, &[])].concat();
    let message = "damaged at offset 128: interface 0, where 0 are described".to_owned();
    assert_eq!(read(&file).1, Err(message));
}

#[test]
fn a_flood_of_interfaces_ends_and_few_facts_are_kept() {
    let order = Order::Little;
    let name = option(order, 2, &[b'x'; 1_000]);
    let flood: Vec<_> = std::iter::repeat_n(interface(order, &name), 5_000).flatten().collect();
    let file = [section(order), flood, packet(order, 4_999, 1, &[])].concat();
    let mut capture = open(&file[..]).unwrap();
    assert_eq!(capture.next_packet().unwrap().unwrap().interface, 4_999);
    assert_eq!(capture.interfaces().len(), 4_096);
    assert!(capture.interfaces().iter().all(|interface| interface.name.len() == 255));
    let flood: Vec<_> = std::iter::repeat_n(interface(order, &[]), (1 << 16) + 1).flatten().collect();
    let message = read(&[section(order), flood].concat()).1.unwrap_err();
    assert_eq!(message, "damaged at offset 1310748: interface 65536, where 65536 are described");
}

#[test]
fn names_that_are_no_text_are_kept_as_far_as_they_are() {
    let order = Order::Little;
    let names = [option(order, 2, &[b'a', 0xff, b'b']), option(order, 3, b"c\0d")].concat();
    let file = pcapng(order, &names, 1);
    let mut capture = open(&file[..]).unwrap();
    capture.next_packet().unwrap();
    let found = &capture.interfaces()[0];
    assert_eq!((found.name.as_str(), found.description.as_str()), ("a\u{fffd}b", "c"));
}

proptest::proptest! {
    /// Whatever the bytes are, every file ends: in its end or in an error.
    #[test]
    fn arbitrary_blocks_are_read_to_an_end(
        big: bool,
        blocks in proptest::collection::vec(
            (0..8_u32, proptest::collection::vec(proptest::prelude::any::<u8>(), 0..80)), 0..20),
    ) {
        let order = if big { Order::Big } else { Order::Little };
        let mut file = [section(order), interface(order, &[])].concat();
        for (kind, mut body) in blocks {
            body.resize(body.len().next_multiple_of(4), 0);
            file.extend(block(order, kind, &body));
        }
        let (packets, _) = read(&file);
        proptest::prop_assert!(packets.iter().all(|(time_ns, _)| time_ns.unsigned_abs() < MAX_TIME_NS as u64));
    }
}
