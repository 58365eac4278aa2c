//! Recorders on made-up sources and disks.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod account;
mod files;
mod full;

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::source::{Direction, Frame, Interface, Source};
use super::{Options, Progress, Recorder, Summary};

const DEADLINE: Duration = Duration::from_secs(20);

/// A frame of a script.
#[derive(Clone, Debug)]
struct Planned {
    time_ns: i64,
    interface: usize,
    lost_before: u64,
    lost_since_ns: Option<i64>,
    data: Vec<u8>,
}

fn frame(time_ns: i64, bytes: usize) -> Planned {
    Planned { time_ns, interface: 0, lost_before: 0, lost_since_ns: None, data: vec![0x5a; bytes] }
}

/// A source with two interfaces whose frames are all there from the start.
struct Script {
    interfaces: [Interface; 2],
    frames: VecDeque<Planned>,
    lost: [u64; 2],
    /// Lost behind the last frame.
    trailing: [u64; 2],
    error: Option<io::Error>,
}

impl Script {
    fn new(frames: impl IntoIterator<Item = Planned>) -> Self {
        let interface = |name: &str| Interface {
            name: name.to_owned(),
            description: format!("{name}, towards the test"),
            mac: [2, 0, 0, 0, 0, 1],
        };
        Self {
            interfaces: [interface("a"), interface("b")],
            frames: frames.into_iter().collect(),
            lost: [0; 2],
            trailing: [0; 2],
            error: None,
        }
    }
}

impl Source for Script {
    fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    fn read(&mut self, _wait: Duration, take: &mut dyn FnMut(Frame<'_>)) -> io::Result<usize> {
        let batch = self.frames.len().min(64);
        for planned in self.frames.drain(..batch) {
            self.lost[planned.interface] += planned.lost_before;
            take(Frame {
                time_ns: planned.time_ns,
                interface: planned.interface,
                direction: Direction::Inbound,
                original_len: planned.data.len() as u32,
                lost_before: planned.lost_before,
                lost_since_ns: planned.lost_since_ns,
                data: &planned.data,
            });
        }
        match self.error.take() {
            Some(error) if batch == 0 => Err(error),
            error => {
                self.error = error;
                Ok(batch)
            }
        }
    }

    fn lost(&self) -> Vec<u64> {
        (0..2).map(|i| self.lost[i] + self.trailing[i]).collect()
    }
}

/// A folder of its own, gone afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let name = format!("weir-record-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Names of what is in it, in order.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Records all of a source.
fn record(options: Options, source: impl Source + 'static) -> Summary {
    let mut recorder = Recorder::new(options).unwrap();
    recorder.start(Box::new(source)).unwrap();
    recorder.stop()
}

/// Waits for a state that is sure to come.
fn wait_for(recorder: &Recorder, is_there: impl Fn(&Progress) -> bool) {
    let end = Instant::now() + DEADLINE;
    while !is_there(&recorder.progress()) {
        assert!(Instant::now() < end, "{:?}", recorder.progress());
        std::thread::yield_now();
    }
}

/// Times, interfaces and lengths (on the link and as kept) of the packets of a file.
fn packets(path: &Path) -> Vec<(i64, u32, u32, usize)> {
    let mut capture = weir_capture::open(fs::File::open(path).unwrap()).unwrap();
    let mut found = Vec::new();
    while let Some(packet) = capture.next_packet().unwrap() {
        found.push((packet.time_ns, packet.interface, packet.original_len, packet.data.len()));
    }
    found
}

fn times(path: &Path) -> Vec<i64> {
    packets(path).into_iter().map(|packet| packet.0).collect()
}

/// Every frame seen has one fate.
fn assert_accounted(summary: &Summary) {
    for interface in &summary.progress.interfaces {
        assert_eq!(
            interface.seen,
            interface.filtered + interface.written + interface.not_written,
            "{interface:?}"
        );
    }
    let written: u64 = summary.progress.interfaces.iter().map(|i| i.written).sum();
    let in_files: u64 = summary.files.iter().map(|file| file.frames).sum();
    if summary.files_removed == 0 {
        assert_eq!(written, in_files);
    }
}
