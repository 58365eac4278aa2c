//! Disks that are full, or stall.

use std::sync::{Arc, Condvar, Mutex};

use super::*;
use crate::record::Stage;
use crate::record::disk::{Files, Output, Storage};

/// A disk of which a test decides how much fits, and when.
#[derive(Clone)]
struct Disk {
    state: Arc<(Mutex<State>, Condvar)>,
}

struct State {
    /// Bytes that still fit.
    room: u64,
    stalls: bool,
    /// Takes nothing back.
    keeps: bool,
    /// Fails to bring to the disk what it took.
    forgets: bool,
}

impl Disk {
    fn with_room(room: u64) -> Self {
        let state = State { room, stalls: false, keeps: false, forgets: false };
        Self { state: Arc::new((Mutex::new(state), Condvar::new())) }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.0.lock().unwrap());
        self.state.1.notify_all();
    }
}

impl Storage for Disk {
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn Output>> {
        Ok(Box::new(OnDisk { disk: self.clone(), output: Files.create(path)?, len: 0 }))
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        Files.remove(path)
    }
}

struct OnDisk {
    disk: Disk,
    output: Box<dyn Output>,
    len: u64,
}

impl Output for OnDisk {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let state = self.disk.state.0.lock().unwrap();
        let mut state = self.disk.state.1.wait_while(state, |state| state.stalls).unwrap();
        let fits = state.room.min(bytes.len() as u64);
        state.room -= fits;
        self.len += fits;
        self.output.append(&bytes[..fits as usize])?;
        if fits < bytes.len() as u64 { Err(io::Error::from_raw_os_error(libc::ENOSPC)) } else { Ok(()) }
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        let mut state = self.disk.state.0.lock().unwrap();
        if state.keeps {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        state.room += self.len - len;
        self.len = len;
        self.output.truncate(len)
    }

    fn sync(&mut self) -> io::Result<()> {
        let forgets = self.disk.state.0.lock().unwrap().forgets;
        if forgets { Err(io::Error::from_raw_os_error(libc::EIO)) } else { Ok(()) }
    }
}

/// A source whose frames come when the test says so.
struct Fed {
    script: Script,
    more: std::sync::mpsc::Receiver<Vec<Planned>>,
}

impl Source for Fed {
    fn interfaces(&self) -> &[Interface] {
        self.script.interfaces()
    }

    fn read(&mut self, wait: Duration, take: &mut dyn FnMut(Frame<'_>)) -> io::Result<usize> {
        if self.script.frames.is_empty()
            && let Ok(more) = self.more.recv_timeout(wait)
        {
            self.script.frames.extend(more);
        }
        self.script.read(wait, take)
    }

    fn lost(&self) -> Vec<u64> {
        self.script.lost()
    }
}

fn fed() -> (std::sync::mpsc::Sender<Vec<Planned>>, Fed) {
    let (feed, more) = std::sync::mpsc::channel();
    (feed, Fed { script: Script::new([]), more })
}

fn kilobytes(times: std::ops::Range<i64>) -> Vec<Planned> {
    times.map(|time_ns| frame(time_ns, 1_000)).collect()
}

#[test]
fn a_full_disk_leaves_a_whole_file_and_a_gap_to_the_end() {
    let folder = Folder::new();
    let path = folder.join("x.pcapng");
    let mut recorder = Recorder::new(Options::new(path.clone())).unwrap();
    let script = Script::new(kilobytes(0..10_000));
    recorder.start_on(Box::new(Disk::with_room(5_500_000)), Box::new(script)).unwrap();
    let summary = recorder.stop();
    let found = times(&path);
    assert!(found.len() > 4_000 && found.len() < 5_500, "{}", found.len());
    assert_eq!(found, (0..found.len() as i64).collect::<Vec<_>>());
    let [gap] = summary.gaps[..] else { panic!("{:?}", summary.gaps) };
    assert_eq!((gap.from_ns, gap.to_ns, gap.stage), (found.len() as i64 - 1, 9_999, Stage::Disk));
    assert_eq!(gap.frames, 10_000 - found.len() as u64);
    assert_eq!(summary.progress.interfaces[0].not_written, gap.frames);
    let failure = &summary.progress.failure;
    assert!(failure.contains("No space left on device") && failure.contains("x.pcapng"), "{failure}");
    assert_accounted(&summary);
}

#[test]
fn writing_goes_on_when_there_is_room_again() {
    let folder = Folder::new();
    let path = folder.join("x.pcapng");
    let disk = Disk::with_room(1_500_000);
    let mut recorder = Recorder::new(Options::new(path.clone())).unwrap();
    let (feed, source) = fed();
    recorder.start_on(Box::new(disk.clone()), Box::new(source)).unwrap();
    feed.send(kilobytes(0..4_000)).unwrap();
    wait_for(&recorder, |progress| progress.interfaces[0].not_written > 0);
    disk.change(|state| state.room = u64::MAX / 2);
    feed.send(kilobytes(4_000..6_000)).unwrap();
    wait_for(&recorder, |progress| progress.interfaces[0].seen == 6_000);
    let summary = recorder.stop();
    let found = times(&path);
    assert_eq!((found[0], found[found.len() - 1]), (0, 5_999));
    let missing: u64 = summary.gaps.iter().map(|gap| gap.frames).sum();
    assert_eq!(missing, 6_000 - found.len() as u64);
    for gap in &summary.gaps {
        assert!(found.contains(&gap.from_ns) && found.contains(&gap.to_ns));
        assert!(!found.iter().any(|time| (gap.from_ns + 1..gap.to_ns).contains(time)));
    }
    assert!(summary.progress.failure.contains("writing goes on"), "{}", summary.progress.failure);
    assert_accounted(&summary);
}

#[test]
fn a_disk_that_stalls_makes_frames_wait_in_the_source_and_costs_none() {
    let folder = Folder::new();
    let path = folder.join("x.pcapng");
    let disk = Disk::with_room(u64::MAX / 2);
    let options = Options { queue_bytes: 3 << 20, ..Options::new(path.clone()) };
    let mut recorder = Recorder::new(options).unwrap();
    let (feed, source) = fed();
    recorder.start_on(Box::new(disk.clone()), Box::new(source)).unwrap();
    disk.change(|state| state.stalls = true);
    feed.send(kilobytes(0..8_000)).unwrap();
    wait_for(&recorder, |progress| progress.failure.contains("the disk has stalled"));
    assert_eq!(recorder.progress().interfaces[0].not_written, 0);
    disk.change(|state| state.stalls = false);
    wait_for(&recorder, |progress| progress.interfaces[0].seen == 8_000);
    let summary = recorder.stop();
    assert_eq!(times(&path), (0..8_000).collect::<Vec<_>>());
    assert_eq!(summary.gaps, []);
    assert_eq!(summary.progress.interfaces[0].written, 8_000);
    assert_eq!(summary.progress.failure, "");
    assert_accounted(&summary);
}

#[test]
fn a_file_that_ends_inside_a_block_goes_on_once_that_can_be_taken_back() {
    let folder = Folder::new();
    let path = folder.join("x.pcapng");
    let disk = Disk::with_room(1_500_000);
    disk.change(|state| state.keeps = true);
    let mut recorder = Recorder::new(Options::new(path.clone())).unwrap();
    let (feed, source) = fed();
    recorder.start_on(Box::new(disk.clone()), Box::new(source)).unwrap();
    feed.send(kilobytes(0..4_000)).unwrap();
    wait_for(&recorder, |progress| progress.failure.contains("cannot be undone"));
    // The first reason is told as well.
    assert!(recorder.progress().failure.contains("No space left on device"));
    disk.change(|state| (state.keeps, state.room) = (false, u64::MAX / 2));
    feed.send(kilobytes(4_000..6_000)).unwrap();
    wait_for(&recorder, |progress| progress.interfaces[0].seen == 6_000);
    let summary = recorder.stop();
    let found = times(&path);
    assert_eq!(found[found.len() - 1], 5_999);
    assert_eq!(found.len() as u64, summary.progress.interfaces[0].written);
    assert_accounted(&summary);
}

#[test]
fn a_disk_that_loses_what_it_took_is_told_at_the_end() {
    let folder = Folder::new();
    let disk = Disk::with_room(u64::MAX / 2);
    disk.change(|state| state.forgets = true);
    let mut recorder = Recorder::new(Options::new(folder.join("x.pcapng"))).unwrap();
    recorder.start_on(Box::new(disk), Box::new(Script::new([frame(1, 60)]))).unwrap();
    let failure = recorder.stop().progress.failure;
    assert!(failure.contains("x.pcapng may be incomplete") && failure.contains("Input/output"), "{failure}");
}

#[test]
fn a_device_that_is_always_full_is_refused_at_the_start() {
    let mut recorder = Recorder::new(Options::new(PathBuf::from("/dev/full"))).unwrap();
    let error = recorder.start(Box::new(Script::new([]))).unwrap_err().to_string();
    assert!(error.contains("/dev/full") && error.contains("No space left on device"), "{error}");
}

#[test]
fn files_that_rotate_onto_a_full_disk_are_tried_again() {
    let folder = Folder::new();
    let disk = Disk::with_room(0);
    let options = Options { rotate_bytes: Some(1_000_000), ..Options::new(folder.join("x.pcapng")) };
    let mut recorder = Recorder::new(options).unwrap();
    let (feed, source) = fed();
    recorder.start_on(Box::new(disk.clone()), Box::new(source)).unwrap();
    feed.send(kilobytes(0..2_000)).unwrap();
    wait_for(&recorder, |progress| progress.interfaces[0].not_written > 0);
    wait_for(&recorder, |_| folder.names().is_empty());
    disk.change(|state| state.room = u64::MAX / 2);
    feed.send(kilobytes(2_000..4_000)).unwrap();
    wait_for(&recorder, |progress| progress.interfaces[0].seen == 4_000);
    let summary = recorder.stop();
    let found: Vec<_> = summary.files.iter().flat_map(|file| times(&file.path)).collect();
    assert_eq!(found[found.len() - 1], 3_999);
    assert_eq!(found.len() as u64, summary.progress.interfaces[0].written);
    assert!(summary.gaps[0].to_ns == found[0] && summary.gaps[0].frames == found[0] as u64);
    assert_eq!(folder.names().len(), summary.files.len());
    assert_accounted(&summary);
}
