//! Counts and gaps.

use proptest::prelude::*;

use super::*;
use crate::record::connections::tests::segment;
use crate::record::gaps::Gaps;
use crate::record::{Connections, Gap, InterfaceProgress, Stage};

const fn gap(from_ns: i64, to_ns: i64, frames: u64) -> Gap {
    Gap { interface: 0, from_ns, to_ns, frames, stage: Stage::Ring }
}

fn merged(gaps: &[(i64, i64, u64)], limit: usize) -> Vec<Gap> {
    let mut merged = Gaps::new(Stage::Ring, 1).with_limit(limit);
    for (from_ns, to_ns, frames) in gaps {
        merged.push(0, *from_ns, *to_ns, *frames);
    }
    merged.into_vec()
}

#[test]
fn gaps_that_touch_are_one() {
    assert_eq!(merged(&[(1, 2, 3), (2, 5, 4), (6, 7, 1)], 10), [gap(1, 5, 7), gap(6, 7, 1)]);
}

#[test]
fn a_gap_that_begins_before_others_takes_them_in() {
    assert_eq!(merged(&[(1, 2, 3), (6, 7, 1), (8, 9, 1), (5, 20, 4)], 10), [gap(1, 2, 3), gap(5, 20, 6)]);
    assert_eq!(merged(&[(6, 7, 1), (5, 7, 4)], 10), [gap(5, 7, 5)]);
}

#[test]
fn gaps_of_different_interfaces_stay_apart() {
    let mut gaps = Gaps::new(Stage::Disk, 2);
    gaps.push(0, 1, 2, 1);
    gaps.push(1, 1, 2, 1);
    assert_eq!(gaps.into_vec().len(), 2);
}

#[test]
fn too_many_gaps_become_fewer_and_wider_and_miss_no_frame() {
    let pieces: Vec<_> = (0..1_000).map(|i| (i * 1_000_000, i * 1_000_000 + 1, 2)).collect();
    let fewer = merged(&pieces, 10);
    assert!(fewer.len() <= 10);
    assert_eq!(fewer.iter().map(|gap| gap.frames).sum::<u64>(), 2_000);
    assert_eq!((fewer[0].from_ns, fewer[fewer.len() - 1].to_ns), (0, 999_000_001));
}

#[test]
fn a_loss_lies_between_the_frames_around_it_on_its_interface() {
    let folder = Folder::new();
    let frames = [
        frame(10, 60),
        Planned { interface: 1, ..frame(15, 60) },
        Planned { lost_before: 5, ..frame(20, 60) },
        frame(30, 60),
        Planned { lost_before: 2, ..frame(40, 60) },
    ];
    let summary = record(Options::new(folder.join("x.pcapng")), Script::new(frames));
    assert_eq!(summary.gaps, [gap(10, 20, 5), gap(30, 40, 2)]);
    assert_eq!(summary.progress.interfaces[0].lost, 7);
    assert_eq!(summary.progress.interfaces[1].lost, 0);
}

#[test]
fn a_loss_on_one_of_several_cpus_reaches_back_beyond_the_frames_of_the_others() {
    let folder = Folder::new();
    let frames = [
        frame(10, 60),
        frame(20, 60),
        Planned { lost_before: 5, lost_since_ns: Some(10), ..frame(30, 60) },
        Planned { lost_before: 2, lost_since_ns: Some(30), ..frame(40, 60) },
    ];
    let summary = record(Options::new(folder.join("x.pcapng")), Script::new(frames));
    assert_eq!(summary.gaps, [gap(10, 40, 7)]);
}

#[test]
fn a_loss_before_a_frame_that_the_filter_leaves_out_is_told_with_the_next_one() {
    let folder = Folder::new();
    let path = folder.join("x.pcapng");
    let frames = [Planned { lost_before: 5, ..frame(20, 60) }, Planned { lost_before: 1, ..frame(30, 100) }];
    let options = Options { filter: "greater 100".to_owned(), ..Options::new(path.clone()) };
    let summary = record(options, Script::new(frames));
    assert_eq!(summary.progress.interfaces[0].lost, 6);
    // epb_dropcount of the one frame written.
    let bytes = fs::read(&path).unwrap();
    let option: Vec<u8> = [&[4, 0, 8, 0, 6][..], &[0; 7]].concat();
    assert_eq!(bytes.windows(12).filter(|bytes| *bytes == option).count(), 1);
}

#[test]
fn frames_lost_behind_the_last_one_make_a_gap_to_the_end() {
    let folder = Folder::new();
    let source = Script { trailing: [3, 0], ..Script::new([frame(10, 60)]) };
    let summary = record(Options::new(folder.join("x.pcapng")), source);
    let [last] = summary.gaps[..] else { panic!("{:?}", summary.gaps) };
    assert_eq!((last.from_ns, last.frames, last.stage), (10, 3, Stage::Ring));
    assert!(last.to_ns > 10);
    assert_eq!(summary.progress.interfaces[0].lost, 3);
}

/// The accounts at the end of a file: interface, received, dropped, accepted, delivered.
fn accounts(path: &Path) -> Vec<(u32, [u64; 4])> {
    let bytes = fs::read(path).unwrap();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let (mut at, mut found) = (0, Vec::new());
    while at < bytes.len() {
        if word(at) == 5 {
            // Head, two times, then four counts of 12 bytes.
            found.push((word(at + 8), [0, 1, 2, 3].map(|i| long(at + 20 + 2 * 12 + 12 * i + 4))));
        }
        at += word(at + 4) as usize;
    }
    found
}

#[test]
fn a_file_without_frames_has_the_account_of_those_left_out() {
    let folder = Folder::new();
    let options = Options {
        filter: "greater 100".to_owned(),
        rotate_bytes: Some(1_000),
        ..Options::new(folder.join("x.pcapng"))
    };
    let summary = record(options, Script::new([frame(1, 60), frame(2, 60)]));
    assert_eq!(accounts(&summary.files[0].path), [(0, [2, 0, 0, 0]), (1, [0; 4])]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn every_frame_is_accounted_for_in_the_files_and_beside_them(
        script in prop::collection::vec((0_usize..2, 0_u64..3, 0_usize..300, 0_i64..50), 0..300),
        rotate_bytes in prop::option::of(1_u64..5_000),
        rotate_ns in prop::option::of(1_u64..500),
    ) {
        let folder = Folder::new();
        let mut time_ns = 0;
        let frames: Vec<_> = script
            .into_iter()
            .map(|(interface, lost_before, bytes, after_ns)| {
                time_ns += after_ns;
                Planned { interface, lost_before, ..frame(time_ns, bytes) }
            })
            .collect();
        let options = Options {
            filter: "greater 100".to_owned(),
            rotate_bytes,
            rotate_after: rotate_ns.map(Duration::from_nanos),
            ..Options::new(folder.join("x.pcapng"))
        };
        let summary = record(options, Script::new(frames.clone()));
        assert_accounted(&summary);
        let wanted: Vec<_> =
            frames.iter().filter(|f| f.data.len() >= 100).map(|f| (f.time_ns, f.interface as u32)).collect();
        let found: Vec<_> = summary.files.iter().flat_map(|f| packets(&f.path)).map(|p| (p.0, p.1)).collect();
        prop_assert_eq!(found, wanted);
        let all: Vec<_> = summary.files.iter().flat_map(|file| accounts(&file.path)).collect();
        for (number, interface) in summary.progress.interfaces.iter().enumerate() {
            let mut sums = [0; 4];
            for (_, counts) in all.iter().filter(|(of, _)| *of == number as u32) {
                prop_assert_eq!(counts[2], counts[3], "accepted and delivered differ");
                for (sum, count) in sums.iter_mut().zip(counts) {
                    *sum += count;
                }
            }
            let InterfaceProgress { seen, lost, written, .. } = interface.clone();
            prop_assert_eq!(sums, [seen, lost, written, written]);
            let missing: u64 = summary.gaps.iter().filter(|g| g.interface == number).map(|g| g.frames).sum();
            prop_assert_eq!(missing, lost);
        }
    }
}

/// Segments of two connections to one server, the first one's and the second one's in turn.
fn segments() -> Vec<Planned> {
    let clients = ["192.0.2.1:40000", "192.0.2.9:50000"];
    let segment = |time_ns: i64, flags| Planned {
        data: segment(clients[time_ns as usize % 2], "198.51.100.7:80", flags, 0),
        ..frame(time_ns, 0)
    };
    (0..6).map(|time_ns| segment(time_ns, if time_ns < 2 { 0x02 } else { 0x18 })).collect()
}

#[test]
fn of_all_connections_only_the_headers_of_the_named_ones_are_written() {
    let folder = Folder::new();
    let connections = Connections::of_port(80);
    connections.name([("192.0.2.1:40000".parse().unwrap(), "198.51.100.7:80".parse().unwrap())]);
    let options = Options { connections: Some(connections), ..Options::new(folder.join("x.pcapng")) };
    let summary = record(options, Script::new(segments()));
    assert_accounted(&summary);
    let headers = [(0, 0, 154, 54), (2, 0, 154, 54), (4, 0, 154, 54)];
    assert_eq!(packets(&folder.join("x.pcapng")), headers);
    assert_eq!(summary.progress.interfaces[0].filtered, 3);
}

#[test]
fn frames_wait_until_their_connection_is_named() {
    let folder = Folder::new();
    let connections = Connections::of_port(80);
    let options = Options { connections: Some(connections.clone()), ..Options::new(folder.join("x.pcapng")) };
    let mut recorder = Recorder::new(options).unwrap();
    recorder.start(Box::new(Script::new(segments()))).unwrap();
    connections.name([("198.51.100.7:80".parse().unwrap(), "192.0.2.9:50000".parse().unwrap())]);
    let summary = recorder.stop();
    assert_accounted(&summary);
    assert_eq!(times(&folder.join("x.pcapng")), [1, 3, 5]);
}

#[test]
fn without_a_named_connection_nothing_is_written() {
    let folder = Folder::new();
    let options =
        Options { connections: Some(Connections::of_port(80)), ..Options::new(folder.join("x.pcapng")) };
    let summary = record(options, Script::new(segments()));
    assert_accounted(&summary);
    assert_eq!(packets(&folder.join("x.pcapng")), []);
    assert_eq!(summary.progress.interfaces[0].filtered, 6);
}
