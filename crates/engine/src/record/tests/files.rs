use std::os::unix::fs::{PermissionsExt, symlink};

use weir_capture::Compression;

use super::*;
use crate::record::RecordError;

const SECOND: i64 = 1_000_000_000;
/// 2026-11-21 16:50:00 UTC.
const EPOCH: i64 = 1_795_279_800 * SECOND;

#[test]
fn a_file_has_the_frames_of_all_interfaces_in_their_order() {
    let folder = Folder::new();
    let path = folder.join("x.pcapng");
    let frames = [frame(10, 60), Planned { interface: 1, ..frame(20, 1514) }, frame(30, 61)];
    let summary = record(Options::new(path.clone()), Script::new(frames));
    assert_eq!(packets(&path), [(10, 0, 60, 60), (20, 1, 1514, 1514), (30, 0, 61, 61)]);
    let file = &summary.files[0];
    assert_eq!((file.frames, file.first_ns, file.last_ns), (3, 10, 30));
    assert_eq!(file.bytes, fs::metadata(&path).unwrap().len());
    assert_eq!(summary.progress.bytes, file.bytes);
    assert_eq!(summary.progress.failure, "");
    assert!(summary.gaps.is_empty());
    assert_accounted(&summary);
}

#[test]
fn frames_are_cut_to_the_snap_length_and_keep_their_own() {
    let folder = Folder::new();
    let path = folder.join("x.pcapng");
    let options = Options { snap_bytes: 64, ..Options::new(path.clone()) };
    record(options, Script::new([frame(1, 1514), frame(2, 60)]));
    assert_eq!(packets(&path), [(1, 0, 1514, 64), (2, 0, 60, 60)]);
}

#[test]
fn the_filter_sees_whole_frames_and_what_it_leaves_out_is_counted() {
    let folder = Folder::new();
    let path = folder.join("x.pcapng");
    let options =
        Options { snap_bytes: 14, filter: "ether[99] = 7".to_owned(), ..Options::new(path.clone()) };
    let mut wanted = frame(2, 100);
    wanted.data[99] = 7;
    let summary = record(options, Script::new([frame(1, 100), wanted, frame(3, 99)]));
    assert_eq!(packets(&path), [(2, 0, 100, 14)]);
    assert_eq!(summary.progress.interfaces[0].filtered, 2);
    assert_accounted(&summary);
}

#[test]
fn without_frames_there_is_an_empty_capture() {
    let folder = Folder::new();
    let rotated = Options { rotate_bytes: Some(1_000), ..Options::new(folder.join("r.pcapng")) };
    for options in [Options::new(folder.join("x.pcapng")), rotated] {
        let summary = record(options, Script::new([]));
        assert_eq!(summary.files.len(), 1);
        assert!(packets(&summary.files[0].path).is_empty());
    }
}

#[test]
fn a_file_that_would_grow_beyond_its_size_is_followed_by_another() {
    let folder = Folder::new();
    let options = Options { rotate_bytes: Some(4_000), ..Options::new(folder.join("x.pcapng")) };
    let frames = (0..10).map(|i| frame(EPOCH + i * SECOND, 1_000));
    let summary = record(options, Script::new(frames));
    assert_eq!(
        folder.names(),
        [
            "x-00001-20261121T165000.pcapng",
            "x-00002-20261121T165003.pcapng",
            "x-00003-20261121T165006.pcapng",
            "x-00004-20261121T165009.pcapng",
        ]
    );
    let all: Vec<_> = summary.files.iter().flat_map(|file| times(&file.path)).collect();
    assert_eq!(all, (0..10).map(|i| EPOCH + i * SECOND).collect::<Vec<_>>());
    // Closed files have the account of their interfaces, beyond the size that frames may take.
    assert!(summary.files.iter().all(|file| file.bytes <= 4_000 + 2 * 100));
    assert_accounted(&summary);
}

#[test]
fn beyond_its_most_bytes_nothing_is_written_and_all_is_counted() {
    let folder = Folder::new();
    let path = folder.join("x.pcapng");
    let sized = |most_bytes| Options { most_bytes, ..Options::new(path.clone()) };
    let script = || Script::new((0..10).map(|i| frame(i, if i < 9 { 1_000 } else { 60 })));
    let whole = record(sized(None), script()).progress.bytes;
    let summary = record(sized(Some(whole - 3_000)), script());
    // Not the small one at the end either.
    let written = summary.progress.interfaces[0].written;
    assert!((5..=6).contains(&written), "{summary:?}");
    assert_eq!(times(&path), (0..written as i64).collect::<Vec<_>>());
    assert_eq!(summary.progress.interfaces[0].not_written, 10 - written);
    assert!(summary.progress.bytes <= whole - 3_000 + 2 * 100);
    assert_accounted(&summary);
}

#[test]
fn a_frame_larger_than_a_file_has_one_of_its_own() {
    let folder = Folder::new();
    let options = Options { rotate_bytes: Some(10), ..Options::new(folder.join("x.pcapng")) };
    let summary = record(options, Script::new((0..3).map(|i| frame(i, 60))));
    assert_eq!(summary.files.iter().map(|file| file.frames).collect::<Vec<_>>(), [1, 1, 1]);
}

#[test]
fn rotation_by_time_goes_by_the_frames_own() {
    let folder = Folder::new();
    let options =
        Options { rotate_after: Some(Duration::from_secs(10)), ..Options::new(folder.join("x.pcapng")) };
    let frames = [0, 9, 10, 19, 45, 54, 55].map(|s| frame(EPOCH + s * SECOND, 60));
    let summary = record(options, Script::new(frames));
    let begins: Vec<_> = summary.files.iter().map(|file| (file.first_ns - EPOCH) / SECOND).collect();
    assert_eq!(begins, [0, 10, 45, 55]);
    assert_accounted(&summary);
}

#[test]
fn only_the_latest_files_are_kept() {
    let folder = Folder::new();
    let options =
        Options { rotate_bytes: Some(10), keep_files: Some(2), ..Options::new(folder.join("x.pcapng")) };
    let summary = record(options, Script::new((0..5).map(|i| frame(i * SECOND, 60))));
    assert_eq!(folder.names(), ["x-00004-19700101T000003.pcapng", "x-00005-19700101T000004.pcapng"]);
    assert_eq!((summary.files.len(), summary.files_removed), (2, 3));
    assert_eq!(summary.progress.interfaces[0].written, 5);
}

#[test]
fn compressed_files_are_smaller_and_read_the_same() {
    let folder = Folder::new();
    let path = folder.join("x.pcapng.zst");
    let options = Options { zstd_level: Some(1), ..Options::new(path.clone()) };
    let summary = record(options, Script::new((0..20_000).map(|i| frame(i, 200))));
    assert_eq!(Compression::of(&fs::read(&path).unwrap()), Compression::Zstd);
    assert_eq!(times(&path), (0..20_000).collect::<Vec<_>>());
    assert!(summary.files[0].bytes < summary.progress.bytes / 4);
    assert_eq!(summary.files[0].bytes, fs::metadata(&path).unwrap().len());
}

#[test]
fn a_compressed_file_that_was_cut_off_is_read_up_to_its_last_whole_part() {
    let folder = Folder::new();
    let path = folder.join("x.pcapng.zst");
    let options = Options { zstd_level: Some(1), ..Options::new(path.clone()) };
    // More than two buffers: 200 B become 240.
    record(options, Script::new((0..10_000).map(|i| frame(i, 200))));
    let mut bytes = fs::read(&path).unwrap();
    let starts: Vec<_> =
        (0..bytes.len() - 4).filter(|at| bytes[*at..].starts_with(&[0x28, 0xb5, 0x2f, 0xfd])).collect();
    // Head, three buffers, account.
    assert_eq!(starts.len(), 5);
    bytes.truncate(starts[3] + 10);
    let mut capture = weir_capture::open(&bytes[..]).unwrap();
    let mut found = Vec::new();
    while let Ok(Some(packet)) = capture.next_packet() {
        found.push(packet.time_ns);
    }
    assert!(found.len() > 8_000 && found.len() < 10_000, "{}", found.len());
    assert_eq!(found, (0..found.len() as i64).collect::<Vec<_>>());
}

#[test]
fn what_cannot_be_written_to_is_refused_before_the_start() {
    let folder = Folder::new();
    for path in [folder.0.clone(), folder.join("missing/x.pcapng"), PathBuf::from("/proc/x.pcapng/y")] {
        let error = Recorder::new(Options::new(path)).err();
        assert!(matches!(error, Some(RecordError::Path { .. })), "{error:?}");
    }
    assert!(folder.names().is_empty());
}

#[test]
fn options_without_sense_are_refused() {
    let folder = Folder::new();
    let plain = Options::new(folder.join("x.pcapng"));
    for options in [
        Options { snap_bytes: 0, ..plain.clone() },
        Options { rotate_bytes: Some(0), ..plain.clone() },
        Options { rotate_after: Some(Duration::ZERO), ..plain.clone() },
        Options { keep_files: Some(0), rotate_bytes: Some(1), ..plain.clone() },
        Options { keep_files: Some(1), ..plain.clone() },
    ] {
        assert!(matches!(Recorder::new(options).err(), Some(RecordError::Option { .. })));
    }
    let error = Recorder::new(Options { filter: "porrt 80".to_owned(), ..plain }).err().unwrap();
    assert!(error.to_string().contains("porrt 80"), "{error}");
}

#[test]
fn a_recorder_starts_once_and_stops_as_often_as_one_likes() {
    let folder = Folder::new();
    let mut recorder = Recorder::new(Options::new(folder.join("x.pcapng"))).unwrap();
    recorder.start(Box::new(Script::new([frame(1, 60)]))).unwrap();
    assert!(matches!(recorder.start(Box::new(Script::new([]))), Err(RecordError::Started)));
    let first = recorder.stop();
    assert_eq!(first.progress.interfaces[0].written, 1);
    assert_eq!(recorder.stop().progress, first.progress);
    assert!(matches!(recorder.start(Box::new(Script::new([]))), Err(RecordError::Started)));
}

#[test]
fn a_recorder_that_goes_away_leaves_a_whole_file() {
    let folder = Folder::new();
    let path = folder.join("x.pcapng");
    let mut recorder = Recorder::new(Options::new(path.clone())).unwrap();
    recorder.start(Box::new(Script::new([frame(1, 60)]))).unwrap();
    drop(recorder);
    assert_eq!(times(&path), [1]);
}

#[test]
fn a_source_that_fails_ends_the_record_with_a_sentence() {
    let folder = Folder::new();
    let path = folder.join("x.pcapng");
    let source =
        Script { error: Some(io::Error::other("the interface is gone")), ..Script::new([frame(1, 60)]) };
    let summary = record(Options::new(path.clone()), source);
    assert_eq!(times(&path), [1]);
    assert_eq!(summary.progress.failure, "no more frames come from the source: the interface is gone");
}

#[test]
fn a_recorder_that_ended_by_itself_says_so() {
    let folder = Folder::new();
    let error = Some(io::Error::other("the interface is gone"));
    let mut recorder = Recorder::new(Options::new(folder.join("x.pcapng"))).unwrap();
    recorder.start(Box::new(Script { error, ..Script::new([]) })).unwrap();
    wait_for(&recorder, |progress| progress.ended);
    assert!(recorder.stop().progress.ended);

    let asked = record(Options::new(folder.join("y.pcapng")), Script::new([frame(1, 60)]));
    assert!(!asked.progress.ended);
}

#[test]
fn a_record_is_for_its_owner_only() {
    let folder = Folder::new();
    let path = folder.join("x.pcapng");
    record(Options::new(path.clone()), Script::new([frame(1, 60)]));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn another_file_takes_the_place_of_one_that_others_may_have_open() {
    let folder = Folder::new();
    let path = folder.join("x.pcapng");
    fs::write(&path, "old").unwrap();
    let mut opened = fs::File::open(&path).unwrap();
    record(Options::new(path.clone()), Script::new([frame(1, 60)]));
    assert_eq!(io::read_to_string(&mut opened).unwrap(), "old");
    assert_eq!(packets(&path).len(), 1);
}

#[test]
fn a_link_in_the_place_of_a_record_is_neither_followed_nor_replaced() {
    let folder = Folder::new();
    let (victim, path) = (folder.join("victim"), folder.join("x.pcapng"));
    fs::write(&victim, "old").unwrap();
    symlink(&victim, &path).unwrap();
    let mut recorder = Recorder::new(Options::new(path.clone())).unwrap();
    let error = recorder.start(Box::new(Script::new([]))).unwrap_err().to_string();
    assert!(error.contains("x.pcapng") && error.contains("symbolic link"), "{error}");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "old");
    assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
}
