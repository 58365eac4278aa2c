use super::*;

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
    for (options, ticks, time_ns) in [
        (resolution(9), 1_700_000_000_000_000_007, 1_700_000_000_000_000_007),
        (resolution(3), 5, 5_000_000),
        (resolution(0x8a), 1_536, 1_500_000_000),
        (resolution(12), 3_000, 3),
    ] {
        assert_eq!(read(&pcapng(Order::Little, &options, ticks)).0[0].0, time_ns);
    }
    for order in [Order::Little, Order::Big] {
        for (seconds, time_ns) in [(100_i64, 100_000_001_000), (-100, -99_999_999_000)] {
            let value = if order == Order::Little { seconds.to_le_bytes() } else { seconds.to_be_bytes() };
            assert_eq!(read(&pcapng(order, &option(order, 14, &value), 1)).0[0].0, time_ns);
        }
    }
}

#[test]
fn sections_one_after_the_other_may_differ_in_byte_order() {
    let file = [pcapng(Order::Little, &[], 1), pcapng(Order::Big, &[], 2)].concat();
    assert_eq!(read(&file).0.iter().map(|p| p.0).collect::<Vec<_>>(), [1_000, 2_000]);
}

#[test]
fn packets_without_a_time_are_counted() {
    let mut file = pcapng(Order::Little, &[], 1);
    file.splice(64..64, words(Order::Little, &[3, 20, 4, 0x0101_0101, 20]));
    let mut capture = open(&file[..]).unwrap();
    assert!(capture.next_packet().unwrap().is_some());
    assert_eq!(capture.timeless(), 1);
}

#[test]
fn interfaces_are_described_section_by_section() {
    for order in [Order::Little, Order::Big] {
        let options = [
            option(order, 2, b"eth0"),
            option(order, 3, b"A, towards B"),
            option(order, 11, b"\0udp port 5060"),
            option(order, 9, &[9]),
            // Nothing counts behind the end.
            option(order, 0, &[]),
            option(order, 2, b"eth1"),
        ]
        .concat();
        let first = pcapng(order, &options, 1);
        let second = [section(order), interface(order, &[]), interface(order, &option(order, 2, b"b"))];
        let file = [&first, &second.concat(), &packet(order, 1, 5, &[])[..]].concat();
        let mut capture = open(&file[..]).unwrap();
        assert_eq!(capture.next_packet().unwrap().unwrap().interface, 0);
        assert_eq!(capture.next_packet().unwrap().unwrap().interface, 1);
        let [one, two, three] = capture.interfaces() else { panic!("{:?}", capture.interfaces()) };
        assert_eq!((one.name.as_str(), one.description.as_str()), ("eth0", "A, towards B"));
        assert_eq!((one.filter.as_str(), one.snap_bytes, one.packets), ("udp port 5060", 96, 1));
        assert_eq!((two.section, two.id, two.packets), (1, 0, 0));
        assert_eq!((three.section, three.id, three.name.as_str(), three.packets), (1, 1, "b", 1));
        assert_eq!(three.link, LinkType(1));
    }
}

#[test]
fn packets_tell_their_direction_and_what_was_lost_before_them() {
    for order in [Order::Little, Order::Big] {
        let flags = |value| option(order, 2, &words(order, &[value]));
        let eight = |value: u32| match order {
            Order::Little => words(order, &[value, 0]),
            Order::Big => words(order, &[0, value]),
        };
        let comment = option(order, 1, b"hello");
        let file = [
            section(order),
            interface(order, &[]),
            packet(order, 0, 1, &[comment, flags(0xffff_fffd)].concat()),
            packet(order, 0, 2, &[flags(2), option(order, 4, &eight(3))].concat()),
            packet(order, 0, 3, &option(order, 4, &eight(4))),
        ]
        .concat();
        let mut capture = open(&file[..]).unwrap();
        let mut next = || capture.next_packet().unwrap().map(|p| (p.direction, p.lost_before));
        assert_eq!(next(), Some((Direction::Inbound, 0)));
        assert_eq!(next(), Some((Direction::Outbound, 3)));
        assert_eq!(next(), Some((Direction::Unknown, 4)));
        assert_eq!((capture.interfaces()[0].lost_between, capture.interfaces()[0].lost()), (7, 7));
    }
}

#[test]
fn the_last_statistics_of_an_interface_count() {
    for order in [Order::Little, Order::Big] {
        let eight = |value: u32| match order {
            Order::Little => words(order, &[value, 0]),
            Order::Big => words(order, &[0, value]),
        };
        let statistics = |dropped| {
            let options: Vec<_> = [(4, 100), (5, dropped), (6, 50), (7, 1), (8, 49), (99, 5)]
                .into_iter()
                .flat_map(|(code, value)| option(order, code, &eight(value)))
                .collect();
            block(order, 5, &[words(order, &[0, 0, 0]), options].concat())
        };
        let file = [pcapng(order, &[], 1), statistics(2), statistics(7)].concat();
        let mut capture = open(&file[..]).unwrap();
        while capture.next_packet().unwrap().is_some() {}
        let found = capture.interfaces()[0].statistics;
        assert_eq!((found.received, found.dropped, found.accepted), (Some(100), Some(7), Some(50)));
        assert_eq!((found.dropped_by_system, found.delivered), (Some(1), Some(49)));
        assert_eq!(capture.interfaces()[0].lost(), 8);
    }
}

#[test]
fn packet_blocks_of_old_files_are_read() {
    let order = Order::Little;
    let old = |drops: u16| {
        let interface = u32::from(drops) << 16;
        block(order, 2, &[words(order, &[interface, 0, 8, 3, 60]), vec![9, 8, 7, 0]].concat())
    };
    let file = [section(order), interface(order, &[]), old(5), old(u16::MAX)].concat();
    let mut capture = open(&file[..]).unwrap();
    let mut next = || capture.next_packet().unwrap().map(|p| (p.time_ns, p.lost_before, p.data.to_vec()));
    assert_eq!(next(), Some((8_000, 5, vec![9, 8, 7])));
    assert_eq!(next(), Some((8_000, 0, vec![9, 8, 7])));
}

#[test]
fn blocks_without_packets_are_passed_over_and_counted() {
    let order = Order::Big;
    let foreign: Vec<_> = [4, 10, 0x0bad, 0x4000_0bad, 0x8000_0001, 77]
        .into_iter()
        .flat_map(|kind| block(order, kind, &[1; 8]))
        .collect();
    let file = [section(order), interface(order, &[]), foreign, packet(order, 0, 1, &[])].concat();
    let mut capture = open(&file[..]).unwrap();
    assert!(capture.next_packet().unwrap().is_some());
    assert_eq!(capture.foreign_blocks(), 6);
}
