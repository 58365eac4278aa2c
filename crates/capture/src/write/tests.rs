use std::process::Command;

use proptest::prelude::*;

use super::*;
use crate::{MAX_TIME_NS, Packet, open};

const ETHERNET: LinkType = LinkType(1);

fn eth(name: &str) -> Interface {
    Interface {
        link: ETHERNET,
        snap_bytes: 262_144,
        name: name.to_owned(),
        description: "towards B".to_owned(),
        mac: [2, 0, 0, 0, 0, 1],
        filter: "udp".to_owned(),
        os: "Linux 6.1".to_owned(),
    }
}

fn plain(data: &[u8]) -> Frame<'_> {
    Frame {
        time_ns: 0x1234_5678_9abc_def0,
        interface: 0,
        direction: Direction::Unknown,
        lost_before: 0,
        original_len: data.len() as u32,
        data,
    }
}

fn file(frames: &[Frame<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    section(&mut out, &Section { application: "Weir".to_owned(), ..Section::default() });
    interface(&mut out, &eth("a"));
    interface(&mut out, &eth("b"));
    for each in frames {
        frame(&mut out, each);
    }
    let counts = Statistics { start_ns: 1, end_ns: 2, received: 3, dropped: 4, accepted: 5, delivered: 6 };
    statistics(&mut out, 0, &counts);
    out
}

#[test]
fn a_frame_of_unknown_direction_has_no_options() {
    let mut out = Vec::new();
    frame(&mut out, &plain(&[0xaa, 0xbb, 0xcc]));
    #[rustfmt::skip]
    let expected = [
        6, 0, 0, 0,  36, 0, 0, 0,  0, 0, 0, 0,
        0x78, 0x56, 0x34, 0x12,  0xf0, 0xde, 0xbc, 0x9a,  3, 0, 0, 0,  3, 0, 0, 0,
        0xaa, 0xbb, 0xcc, 0,  36, 0, 0, 0,
    ];
    assert_eq!(out, expected);
}

#[test]
fn direction_and_losses_are_options_of_a_frame() {
    let mut out = Vec::new();
    frame(&mut out, &Frame { direction: Direction::Outbound, lost_before: 258, ..plain(&[]) });
    #[rustfmt::skip]
    let options = [
        2, 0, 4, 0, 2, 0, 0, 0,
        4, 0, 8, 0, 2, 1, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0,
    ];
    assert_eq!(out[28..52], options);
    assert_eq!(out.len(), 56);
    assert!(out.len() <= frame_bytes_at_most(0));
}

#[test]
fn statistics_have_their_times_upper_half_first() {
    let mut out = Vec::new();
    statistics(&mut out, 1, &Statistics { start_ns: 0x0000_0001_0000_0002, ..Statistics::default() });
    assert_eq!(out[20..32], [2, 0, 8, 0, 1, 0, 0, 0, 2, 0, 0, 0]);
}

#[test]
fn texts_longer_than_an_option_are_cut_at_a_character() {
    let mut out = Vec::new();
    section(&mut out, &Section { comment: "ü".repeat(40_000), ..Section::default() });
    assert_eq!(u16::from_le_bytes([out[26], out[27]]), u16::MAX - 1);
    let mut reader = open(&out[..]).unwrap();
    assert_eq!(reader.next_packet().unwrap(), None);
    assert!(!reader.cut_short());
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(
        frames in prop::collection::vec(
            (0..MAX_TIME_NS, 0_u32..2, 0..3, any::<u64>(), 0_u32..2_000, prop::collection::vec(any::<u8>(), 0..200)),
            0..50,
        )
    ) {
        let directions = [Direction::Inbound, Direction::Outbound, Direction::Unknown];
        let frames: Vec<_> = frames
            .iter()
            .map(|(time_ns, interface, direction, lost_before, cut, data)| Frame {
                time_ns: *time_ns,
                interface: *interface,
                direction: directions[*direction as usize],
                lost_before: *lost_before,
                original_len: data.len() as u32 + cut,
                data,
            })
            .collect();
        let bytes = file(&frames);
        let mut reader = open(&bytes[..]).unwrap();
        for frame in frames {
            let expected = Packet {
                time_ns: frame.time_ns,
                stated_ns: frame.time_ns,
                link: ETHERNET,
                interface: frame.interface,
                direction: frame.direction,
                original_len: frame.original_len,
                lost_before: frame.lost_before,
                data: frame.data,
            };
            // A lone time that is far from the others is not believed.
            let found = reader.next_packet().unwrap().map(|found| Packet { time_ns: found.stated_ns, ..found });
            prop_assert_eq!(found, Some(expected));
        }
        prop_assert_eq!(reader.next_packet().unwrap(), None);
        prop_assert!(!reader.cut_short());
        prop_assert_eq!(reader.offset(), bytes.len() as u64);
    }
}

/// What a program of Wireshark says of a file; None where it is not installed.
fn wireshark(program: &str, arguments: &[&str], bytes: &[u8]) -> Option<(String, String)> {
    let path = std::env::temp_dir().join(format!("weir-write-{program}-{}.pcapng", std::process::id()));
    std::fs::write(&path, bytes).unwrap();
    let answer = Command::new(program).args(arguments).arg(&path).output();
    std::fs::remove_file(&path).unwrap();
    let Ok(answer) = answer else {
        eprintln!("skipped: {program} is not installed");
        return None;
    };
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    Some((text(&answer.stdout), text(&answer.stderr)))
}

#[test]
fn tshark_reads_directions_interfaces_and_losses() {
    let data = [0x5a; 60];
    let frames = [
        Frame { time_ns: 1_500_000_000_123_456_789, direction: Direction::Inbound, ..plain(&data) },
        Frame {
            time_ns: 1_500_000_000_123_456_790,
            interface: 1,
            direction: Direction::Outbound,
            lost_before: 7,
            original_len: 1514,
            ..plain(&data)
        },
    ];
    let fields =
        ["frame.time_epoch", "frame.interface_name", "frame.packet_flags", "frame.drop_count", "frame.len"];
    let mut arguments = vec!["-Tfields"];
    arguments.extend(fields.iter().flat_map(|field| ["-e", field]));
    arguments.push("-r");
    let Some((out, err)) = wireshark("tshark", &arguments, &file(&frames)) else { return };
    let lines: Vec<_> = out.lines().collect();
    assert_eq!(
        lines,
        ["1500000000.123456789\ta\t0x00000001\t\t60", "1500000000.123456790\tb\t0x00000002\t7\t1514"],
        "{err}"
    );
}

#[test]
fn capinfos_reads_interfaces_and_their_account() {
    let Some((out, err)) = wireshark("capinfos", &[], &file(&[plain(&[0; 60])])) else { return };
    assert_eq!(err, "");
    for expected in [
        "Capture application: Weir",
        "Number of interfaces in file: 2",
        "Name = a",
        "Description = towards B",
        "Capture length = 262144",
        "Time precision = nanoseconds (9)",
        "Filter string = udp",
        "Operating system = Linux 6.1",
        "Number of stat entries = 1",
    ] {
        assert!(out.contains(expected), "{expected}:\n{out}");
    }
}
