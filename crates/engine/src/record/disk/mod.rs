//! From buffers into files.

mod names;
mod storage;

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender};

use weir_capture::write::{self, Statistics};

use super::chunk::{Chunk, Counts, Span};
use super::gaps::{Gaps, Stage};
use super::progress::Board;
pub use storage::{Files, Output, Storage};

/// A file written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its path.
    pub path: PathBuf,
    /// Frames in it.
    pub frames: u64,
    /// Its size, after compression.
    pub bytes: u64,
    /// Time of its first frame, ns since 1970; 0 without frames.
    pub first_ns: i64,
    /// Time of the last one.
    pub last_ns: i64,
}

/// What the disk's thread leaves behind.
pub struct Written {
    /// Files that are there, in order.
    pub files: Vec<File>,
    /// Those removed because only a limited number is kept.
    pub removed: usize,
    pub gaps: Gaps,
}

/// What goes into every file, and the file's name.
pub struct Layout {
    pub path: PathBuf,
    pub rotates: bool,
    pub keep_files: Option<usize>,
    pub zstd_level: Option<i32>,
    /// Section header and interfaces.
    pub head: Vec<u8>,
}

struct Open {
    output: Box<dyn Output>,
    file: File,
    /// Per interface.
    delivered: Vec<u64>,
    /// Why it ends inside a block that could not be undone: nothing may follow that.
    broken: Option<String>,
}

/// Writes buffers into files.
pub struct Disk {
    layout: Layout,
    storage: Box<dyn Storage>,
    board: Arc<Board>,
    compressor: Option<zstd::bulk::Compressor<'static>>,
    compressed: Vec<u8>,
    open: Option<Open>,
    /// Which file should be open, from 1, when its first frame came, and the counts at that time.
    number: usize,
    begin_ns: i64,
    since: Vec<Counts>,
    closed: VecDeque<File>,
    removed: usize,
    /// Counts at the end of the last buffer.
    counts: Vec<Counts>,
    /// Per interface: time of the last frame in a file, and those missing since.
    last_ns: Vec<i64>,
    missing: Vec<Span>,
    gaps: Gaps,
    has_failed: bool,
}

impl Disk {
    /// Opens the file, unless its name is to show the time of its first frame.
    pub fn new(
        layout: Layout,
        storage: Box<dyn Storage>,
        board: Arc<Board>,
        interfaces: usize,
        start_ns: i64,
    ) -> io::Result<Self> {
        let compressor = layout.zstd_level.map(zstd::bulk::Compressor::new).transpose()?;
        let mut disk = Self {
            layout,
            storage,
            board,
            compressor,
            compressed: Vec::new(),
            open: None,
            number: 0,
            begin_ns: start_ns,
            since: vec![Counts::default(); interfaces],
            closed: VecDeque::new(),
            removed: 0,
            counts: vec![Counts::default(); interfaces],
            last_ns: vec![start_ns; interfaces],
            missing: vec![Span::default(); interfaces],
            gaps: Gaps::new(Stage::Disk, interfaces),
            has_failed: false,
        };
        if !disk.layout.rotates {
            disk.number = 1;
            disk.open()?;
        }
        Ok(disk)
    }

    /// Writes what comes until all senders are gone.
    pub fn run(mut self, filled: &Receiver<Chunk>, returned: &Sender<Chunk>) -> Written {
        while let Ok(mut chunk) = filled.recv() {
            self.take(&chunk);
            chunk.clear();
            // The other side may have ended.
            let _ = returned.send(chunk);
        }
        self.finish()
    }

    fn take(&mut self, chunk: &Chunk) {
        if let Some(begin_ns) = chunk.begins_ns {
            self.close();
            self.make_place();
            self.number += 1;
            self.begin_ns = begin_ns;
            self.since.copy_from_slice(&self.counts);
        }
        if !chunk.bytes.is_empty() {
            match self.write(&chunk.bytes) {
                Ok(()) => self.wrote(chunk),
                Err(e) => self.failed(&e, chunk),
            }
        }
        self.counts.copy_from_slice(&chunk.counts);
    }

    /// Writes whole blocks, all or none of them.
    fn write(&mut self, blocks: &[u8]) -> io::Result<()> {
        if self.open.is_none() {
            self.open()?;
        }
        let bytes = match &mut self.compressor {
            None => blocks,
            Some(compressor) => {
                self.compressed.clear();
                self.compressed.reserve(zstd::zstd_safe::compress_bound(blocks.len()));
                compressor.compress_to_buffer(blocks, &mut self.compressed)?;
                &self.compressed
            }
        };
        let Some(open) = &mut self.open else { return Err(io::Error::other("no file is open")) };
        if let Some(why) = &open.broken {
            if let Err(e) = open.output.truncate(open.file.bytes) {
                let message = format!("{why}, and the partial write cannot be undone: {e}");
                return Err(io::Error::new(e.kind(), message));
            }
            open.broken = None;
        }
        match open.output.append(bytes) {
            Ok(()) => {
                open.file.bytes += bytes.len() as u64;
                self.board.bytes.fetch_add(blocks.len() as u64, Ordering::Relaxed);
                Ok(())
            }
            Err(e) => {
                open.broken = open.output.truncate(open.file.bytes).is_err().then(|| e.to_string());
                Err(e)
            }
        }
    }

    /// Opens the file that should be open and writes its head.
    fn open(&mut self) -> io::Result<()> {
        let path = self.path();
        self.board.set_file(path.clone());
        let output = self.storage.create(&path)?;
        self.open = Some(Open {
            output,
            file: File { path, frames: 0, bytes: 0, first_ns: 0, last_ns: 0 },
            delivered: vec![0; self.last_ns.len()],
            broken: None,
        });
        let head = std::mem::take(&mut self.layout.head);
        let result = self.write(&head);
        self.layout.head = head;
        if result.is_err()
            && let Some(Open { file, .. }) = self.open.take()
            && self.layout.rotates
        {
            // It is made again when there is room. Only what was made here under its own name is removed:
            // a single file may be a device.
            let _ = self.storage.remove(&file.path);
        }
        result
    }

    fn path(&self) -> PathBuf {
        if self.layout.rotates {
            names::rotated(&self.layout.path, self.number, self.begin_ns)
        } else {
            self.layout.path.clone()
        }
    }

    fn wrote(&mut self, chunk: &Chunk) {
        for (interface, span) in chunk.spans.iter().enumerate().filter(|(_, span)| span.frames > 0) {
            self.board.written(interface, span.frames);
            let missing = std::mem::take(&mut self.missing[interface]);
            if missing.frames > 0 {
                self.gaps.push(interface, self.last_ns[interface], span.first_ns, missing.frames);
            }
            self.last_ns[interface] = span.last_ns;
            let Some(open) = &mut self.open else { continue };
            open.delivered[interface] += span.frames;
            if open.file.frames == 0 {
                (open.file.first_ns, open.file.last_ns) = (span.first_ns, span.last_ns);
            }
            open.file.frames += span.frames;
            open.file.first_ns = open.file.first_ns.min(span.first_ns);
            open.file.last_ns = open.file.last_ns.max(span.last_ns);
        }
        if std::mem::take(&mut self.has_failed) {
            let path = self.path();
            self.board.set_failure(format!(
                "{} could not be written for a while; frames are missing, and writing goes on",
                path.display()
            ));
        }
    }

    fn failed(&mut self, error: &io::Error, chunk: &Chunk) {
        self.has_failed = true;
        let path = self.path();
        self.board.set_failure(format!(
            "cannot write {}: {error}; frames are left out until it can be written",
            path.display()
        ));
        for (interface, span) in chunk.spans.iter().enumerate() {
            self.board.not_written(interface, span.frames);
            self.miss(interface, span);
        }
    }

    /// Counts frames of an interface that are in no file.
    fn miss(&mut self, interface: usize, span: &Span) {
        if span.frames > 0 {
            let missing = &mut self.missing[interface];
            missing.add(span.first_ns);
            missing.frames += span.frames - 1;
            missing.last_ns = span.last_ns;
        }
    }

    /// Closes the open file with the account of its interfaces.
    fn close(&mut self) {
        let Some(open) = &self.open else { return };
        let mut blocks = Vec::new();
        for (interface, (now, since)) in self.counts.iter().zip(&self.since).enumerate() {
            let received = now.seen - since.seen;
            let account = Statistics {
                start_ns: self.begin_ns,
                end_ns: open.file.last_ns.max(self.begin_ns),
                received,
                dropped: now.lost - since.lost,
                accepted: received - (now.filtered - since.filtered),
                delivered: open.delivered[interface],
            };
            write::statistics(&mut blocks, interface as u32, &account);
        }
        // On a full disk the file is complete without its account.
        let _ = self.write(&blocks);
        if let Some(mut open) = self.open.take() {
            if let Err(e) = open.output.sync() {
                let path = open.file.path.display();
                self.board.set_failure(format!(
                    "{path} may be incomplete: the disk did not take the last of it: {e}"
                ));
            }
            self.closed.push_back(open.file);
        }
    }

    /// Removes the oldest files, so that there are not too many with the next one.
    fn make_place(&mut self) {
        while self.layout.keep_files.is_some_and(|keep| self.closed.len() >= keep) {
            let Some(oldest) = self.closed.pop_front() else { return };
            self.removed += 1;
            // It, or its folder, is already gone: nothing that the record would miss.
            let _ = self.storage.remove(&oldest.path);
        }
    }

    fn finish(mut self) -> Written {
        if self.number == 0 {
            // Nothing came: an empty capture, which shows that.
            self.number = 1;
            if let Err(e) = self.open() {
                self.board.set_failure(format!("cannot write {}: {e}", self.path().display()));
            }
        }
        self.close();
        for interface in 0..self.missing.len() {
            let missing = self.missing[interface];
            if missing.frames > 0 {
                self.gaps.push(interface, self.last_ns[interface], missing.last_ns, missing.frames);
            }
        }
        Written { files: self.closed.into(), removed: self.removed, gaps: self.gaps }
    }
}
