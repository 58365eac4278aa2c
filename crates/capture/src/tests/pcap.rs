use super::*;

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
fn records_of_old_versions_have_their_lengths_the_other_way_round() {
    let version = |order, major: u16, minor: u16| match order {
        Order::Little => [major.to_le_bytes(), minor.to_le_bytes()].concat(),
        Order::Big => [major.to_be_bytes(), minor.to_be_bytes()].concat(),
    };
    for order in [Order::Little, Order::Big] {
        for (major, minor, lengths) in
            [(2, 2, [90, 4]), (2, 3, [90, 4]), (2, 3, [4, 90]), (2, 4, [4, 90]), (543, 0, [90, 4])]
        {
            let head =
                [words(order, &[0xa1b2_c3d4]), version(order, major, minor), words(order, &[0, 0, 96, 1])];
            let record = [words(order, &[7, 0]), words(order, &lengths), vec![1, 2, 3, 4]];
            let file = [head.concat(), record.concat(), record.concat()].concat();
            let mut capture = open(&file[..]).unwrap();
            for _ in 0..2 {
                let packet = capture.next_packet().unwrap().unwrap();
                let told = (packet.original_len, packet.data);
                assert_eq!(told, (90, &[1, 2, 3, 4][..]), "{major}.{minor} {lengths:?}");
            }
            assert!(capture.next_packet().unwrap().is_none());
        }
    }
}

#[test]
fn records_with_8_bytes_more_are_read() {
    let head = words(Order::Little, &[0xa1b2_cd34, 0, 0, 0, 96, 1]);
    let file = [head, words(Order::Little, &[1, 0, 2, 2, 0, 0]), vec![7, 8]].concat();
    assert_eq!(read(&file), (vec![(1_000_000_000, vec![7, 8])], Ok(false)));
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
fn records_with_8_bytes_more_tell_the_direction() {
    for order in [Order::Little, Order::Big] {
        for (kind, direction) in [(0, Direction::Inbound), (3, Direction::Inbound), (4, Direction::Outbound)]
        {
            let head = words(order, &[0xa1b2_cd34, 0, 0, 0, 96, 1]);
            let file = [head, words(order, &[1, 0, 1, 2, 7]), vec![8, 0, kind, 0, 5]].concat();
            let mut capture = open(&file[..]).unwrap();
            let packet = capture.next_packet().unwrap().unwrap();
            assert_eq!((packet.interface, packet.direction, packet.original_len), (7, direction, 2));
        }
    }
}

#[test]
fn the_header_tells_of_the_only_interface() {
    let head = words(Order::Big, &[0xa1b2_c3d4, 0, 0, 0, 96, 0x1400_0071]);
    let file = [head, words(Order::Big, &[1, 0, 0, 2])].concat();
    let mut capture = open(&file[..]).unwrap();
    assert_eq!(capture.next_packet().unwrap().unwrap().original_len, 2);
    let expected = Interface { link: LinkType(113), snap_bytes: 96, packets: 1, ..Interface::default() };
    assert_eq!(capture.interfaces(), [expected]);
}

#[test]
fn packets_that_go_back_in_time_are_counted() {
    let times = [5, 6, 4, 4, 7, 6];
    let file = pcap(1, &times.map(|time| (time, vec![1])));
    let mut capture = open(&file[..]).unwrap();
    while capture.next_packet().unwrap().is_some() {}
    assert_eq!(capture.backwards(), 2);
}

const SECOND: u64 = 1_000_000;
const YEAR: u64 = 366 * 86_400 * SECOND;

/// The times of packets as read, in us; and of the first whose time is not its own, its number and offset in us.
fn dated(times_us: &[u64]) -> (Vec<u64>, u64, Option<(u64, i64)>) {
    let file = pcap(1, &times_us.iter().map(|time| (*time, vec![1])).collect::<Vec<_>>());
    let mut capture = open(&file[..]).unwrap();
    let mut found = Vec::new();
    let mut stated = Vec::new();
    while let Some(packet) = capture.next_packet().unwrap() {
        found.push(packet.time_ns as u64 / 1000);
        stated.push(packet.stated_ns as u64 / 1000);
    }
    assert_eq!(stated, times_us, "what the file says is kept");
    assert_eq!(capture.backwards(), 0);
    (found, capture.redated(), capture.first_redated().map(|first| (first.number, first.off_ns / 1000)))
}

#[test]
fn a_packet_far_from_both_neighbours_has_the_time_of_the_one_before() {
    let at = 5_000 * SECOND;
    for off in [-4_000, -60, -5, 5, 60, 3600, 86_400, 1_000_000_000] {
        let wrong = (at as i64 + off * SECOND as i64) as u64;
        let (times, number, first) = dated(&[at, at + 10, wrong, at + 20, at + 30]);
        assert_eq!(times, [at, at + 10, at + 10, at + 20, at + 30], "{off} s");
        assert_eq!((number, first), (1, Some((3, off * SECOND as i64 - 10))));
    }
}

#[test]
fn two_or_three_misdated_packets_in_a_row_have_the_time_of_the_one_before() {
    let at = 50_000 * SECOND;
    for off in [-40_000, -3600, -5, 5, 60, 3600, 86_400, 1_000_000_000] {
        let wrong = |us: u64| (at as i64 + off * SECOND as i64) as u64 + us;
        let two = [at, at + 10, wrong(11), wrong(12), at + 20, at + 30];
        let (times, number, first) = dated(&two);
        assert_eq!(times, [at, at + 10, at + 10, at + 10, at + 20, at + 30], "{off} s");
        assert_eq!((number, first), (2, Some((3, off * SECOND as i64 + 1))));
        let apart = [at, at + 10, wrong(11), wrong(40 * 60 * SECOND), wrong(12), at + 20, at + 30, at + 40];
        assert_eq!(dated(&apart).1, 3, "{off} s");
    }
}

#[test]
fn two_misdated_packets_apart_are_both_found() {
    let at = 50_000 * SECOND;
    let times = [at, at + 10, at + 3600 * SECOND, at + 20, at + 30, at - 7200 * SECOND, at + 40, at + 50];
    assert_eq!(dated(&times).0, [at, at + 10, at + 10, at + 20, at + 30, at + 30, at + 40, at + 50]);
}

#[test]
fn the_first_and_the_last_packet_can_be_misdated_too() {
    let at = 3 * YEAR;
    assert_eq!(dated(&[at + 3600 * SECOND, at, at + 10]).0, [at, at, at + 10]);
    assert_eq!(dated(&[7, at, at + 10]).0, [at, at, at + 10]);
    assert_eq!(dated(&[at, at + 10, at + 2 * YEAR]).0, [at, at + 10, at + 10]);
    assert_eq!(dated(&[at, at + 10, at - 60 * SECOND]).0, [at, at + 10, at + 10]);
}

#[test]
fn silence_and_steps_of_the_clock_are_no_misdated_packets() {
    let silent = [0, 10, 100 * SECOND, 100 * SECOND + 10, 300 * SECOND, 700 * SECOND, 700 * SECOND + 1];
    assert_eq!(dated(&silent), (silent.to_vec(), 0, None));
    let hours = [0, 3600 * SECOND, 7200 * SECOND];
    assert_eq!(dated(&hours), (hours.to_vec(), 0, None));
    let file = pcap(1, &[5000, 5001, 100, 101, 102].map(|s| (s * SECOND, vec![1])));
    let mut stepped = open(&file[..]).unwrap();
    while stepped.next_packet().unwrap().is_some() {}
    assert_eq!((stepped.redated(), stepped.backwards()), (0, 1));
}

#[test]
fn a_record_longer_than_the_buffer_is_read_and_the_buffer_made_small_again() {
    let long = vec![7; 3 << 20];
    let file = pcap(1, &[(1, vec![5; 30]), (2, long.clone()), (3, vec![6; 200_000]), (4, vec![6; 9])]);
    let mut capture = open(&file[..]).unwrap();
    capture.next_packet().unwrap();
    assert_eq!(capture.next_packet().unwrap().unwrap().data, long);
    assert_eq!(capture.next_packet().unwrap().unwrap().data.len(), 200_000);
    assert_eq!(capture.next_packet().unwrap().unwrap().data.len(), 9);
    assert!(capture.next_packet().unwrap().is_none());
    assert!(capture.buffer_bytes() < 1 << 20);
    assert_eq!(capture.offset(), file.len() as u64);
}

#[test]
fn bytes_may_come_in_any_portions() {
    /// One byte at a time, with interruptions.
    struct Drops<'a>(&'a [u8], bool);
    impl std::io::Read for Drops<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(std::io::ErrorKind::Interrupted.into());
            }
            let some = buffer.len().min(1);
            self.0.read(&mut buffer[..some])
        }
    }
    let file = pcap(1, &[(1, vec![5; 30]), (2, vec![6; 10])]);
    let mut capture = open(Drops(&file, false)).unwrap();
    assert_eq!(capture.next_packet().unwrap().unwrap().data, [5; 30]);
    assert_eq!(capture.next_packet().unwrap().unwrap().data, [6; 10]);
    assert!(capture.next_packet().unwrap().is_none());
}
