//! From the source into buffers.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use weir_capture::{Filter, write};

use super::chunk::{CHUNK_BYTES, Chunk, Counts};
use super::connections::{Fate, Selection};
use super::gaps::{Gaps, Stage};
use super::progress::Board;
use super::source::{Frame, Source};

/// A disk that takes this long for a buffer is reported as stalled.
const PATIENCE: Duration = Duration::from_secs(1);

/// When a file is full.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rotation {
    pub bytes: Option<u64>,
    pub after_ns: Option<i64>,
}

impl Rotation {
    const fn is_on(self) -> bool {
        self.bytes.is_some() || self.after_ns.is_some()
    }
}

/// Buffers, of which at most a given number exist.
pub struct Pool {
    returned: Receiver<Chunk>,
    /// How many may still be made.
    left: usize,
    interfaces: usize,
}

impl Pool {
    pub const fn new(returned: Receiver<Chunk>, chunks: usize, interfaces: usize) -> Self {
        Self { returned, left: chunks, interfaces }
    }

    /// Returns an empty buffer; with `wait`, it waits if all are on their way to disk. `None` then means that
    /// disk's thread is gone.
    fn get(&mut self, wait: bool, board: &Board) -> Option<Chunk> {
        if let Ok(chunk) = self.returned.try_recv() {
            return Some(chunk);
        }
        if self.left > 0 {
            self.left -= 1;
            return Some(Chunk::new(self.interfaces));
        }
        if !wait {
            return None;
        }
        loop {
            let chunk = self.returned.recv_timeout(PATIENCE);
            board.set_standstill(matches!(chunk, Err(RecvTimeoutError::Timeout)));
            match chunk {
                Ok(chunk) => return Some(chunk),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }
}

/// Sorts frames into those left out and those in a buffer. If all buffers wait for the disk, it waits as
/// well, and frames wait in the source.
pub struct Drain {
    filter: Option<Filter>,
    selection: Option<Selection>,
    snap_bytes: usize,
    rotation: Rotation,
    /// Bytes that each file begins with.
    head_bytes: u64,
    /// Bytes that may still be written.
    left_bytes: u64,
    board: Arc<Board>,
    pool: Pool,
    filled: Sender<Chunk>,
    current: Chunk,
    counts: Vec<Counts>,
    /// Per interface: frames lost since the last one written, for `epb_dropcount`.
    lost_since: Vec<u64>,
    /// Per interface: time of the last frame seen.
    last_ns: Vec<i64>,
    gaps: Gaps,
    /// The file that `current` goes into: bytes so far, and time of its first frame.
    file_bytes: u64,
    file_begin_ns: Option<i64>,
}

impl Drain {
    /// `start_ns`: since when frames count.
    #[expect(clippy::too_many_arguments, reason = "called in one place")]
    pub fn new(
        filter: Option<Filter>,
        selection: Option<Selection>,
        snap_bytes: usize,
        rotation: Rotation,
        head_bytes: u64,
        left_bytes: u64,
        board: Arc<Board>,
        mut pool: Pool,
        filled: Sender<Chunk>,
        start_ns: i64,
    ) -> Self {
        let interfaces = pool.interfaces;
        Self {
            filter,
            selection,
            snap_bytes,
            rotation,
            head_bytes,
            left_bytes,
            current: pool.get(false, &board).unwrap_or_else(|| Chunk::new(interfaces)),
            board,
            pool,
            filled,
            counts: vec![Counts::default(); interfaces],
            lost_since: vec![0; interfaces],
            last_ns: vec![start_ns; interfaces],
            gaps: Gaps::new(Stage::Ring, interfaces),
            file_bytes: head_bytes,
            file_begin_ns: None,
        }
    }

    /// Takes a frame of the source.
    pub fn take(&mut self, frame: &Frame<'_>) {
        let interface = frame.interface;
        if frame.lost_before > 0 {
            let since_ns = frame.lost_since_ns.unwrap_or(i64::MAX);
            self.lose(interface, frame.lost_before, since_ns, frame.time_ns);
        }
        let previous_ns = std::mem::replace(&mut self.last_ns[interface], frame.time_ns);
        if self.filter.as_ref().is_some_and(|filter| !filter.matches(frame.data, frame.original_len)) {
            return self.leave_out(interface);
        }
        self.decide();
        match self.selection.as_mut().map(|selection| selection.take(frame)) {
            None => self.keep(frame, self.snap_bytes),
            Some(Fate::Keep(bytes)) => self.keep(frame, bytes.min(self.snap_bytes)),
            Some(Fate::Drop) => self.leave_out(interface),
            Some(Fate::Wait) => {}
            Some(Fate::Lose) => self.lose(interface, 1, previous_ns, frame.time_ns),
        }
    }

    /// Takes the frames that have waited, once the connections of the test are named.
    pub fn decide(&mut self) {
        let Some(mut selection) = self.selection.take() else { return };
        selection.decide(|frame, is_kept| {
            if is_kept { self.keep(&frame, self.snap_bytes) } else { self.leave_out(frame.interface) }
        });
        self.selection = Some(selection);
    }

    fn leave_out(&mut self, interface: usize) {
        self.counts[interface].seen += 1;
        self.counts[interface].filtered += 1;
    }

    /// Writes the first `bytes` of a frame.
    fn keep(&mut self, frame: &Frame<'_>, bytes: usize) {
        let interface = frame.interface;
        let data = &frame.data[..frame.data.len().min(bytes)];
        let most = write::frame_bytes_at_most(data.len());
        if most as u64 > self.left_bytes {
            // Smaller ones that follow are left out too, so that the record has no holes.
            self.left_bytes = 0;
        }
        let has_room = self.left_bytes > 0 && self.make_room(most, frame.time_ns);
        // Not before: a frame that begins a file counts there.
        self.counts[interface].seen += 1;
        if !has_room {
            self.lost_since[interface] += 1;
            self.board.not_written(interface, 1);
            return;
        }
        let before = self.current.bytes.len();
        write::frame(
            &mut self.current.bytes,
            &write::Frame {
                time_ns: frame.time_ns,
                interface: interface as u32,
                direction: frame.direction,
                lost_before: std::mem::take(&mut self.lost_since[interface]),
                original_len: frame.original_len,
                data,
            },
        );
        let written = (self.current.bytes.len() - before) as u64;
        self.file_bytes += written;
        self.left_bytes = self.left_bytes.saturating_sub(written);
        self.file_begin_ns.get_or_insert(frame.time_ns);
        self.current.spans[interface].add(frame.time_ns);
    }

    /// Notes frames that the source lost between the last frame (or `since_ns`, if that is earlier) and
    /// `to_ns`.
    fn lose(&mut self, interface: usize, frames: u64, since_ns: i64, to_ns: i64) {
        self.counts[interface].lost += frames;
        self.lost_since[interface] += frames;
        self.gaps.push(interface, self.last_ns[interface].min(since_ns), to_ns, frames);
    }

    /// Makes sure that `bytes` can be appended, in a new file if it is time for one. False if no thread
    /// is left to write them.
    fn make_room(&mut self, bytes: usize, time_ns: i64) -> bool {
        let first = self.file_begin_ns.is_none();
        let is_due = self.rotation.is_on() && (first || self.is_file_full(bytes as u64, time_ns));
        let is_empty = self.current.bytes.is_empty();
        let is_full = self.current.bytes.len() + bytes > CHUNK_BYTES;
        if (is_due || is_full) && !is_empty && !self.submit(true) {
            return false;
        }
        if is_due {
            self.current.begins_ns = Some(time_ns);
            self.file_bytes = self.head_bytes;
            self.file_begin_ns = Some(time_ns);
        }
        true
    }

    fn is_file_full(&self, more: u64, time_ns: i64) -> bool {
        let begin_ns = self.file_begin_ns.unwrap_or(time_ns);
        self.rotation.bytes.is_some_and(|limit| {
            // One frame at least, or no file would ever do.
            self.file_bytes > self.head_bytes && self.file_bytes + more > limit
        }) || self.rotation.after_ns.is_some_and(|limit| time_ns.saturating_sub(begin_ns) >= limit)
    }

    /// Sends frames in a partly filled buffer on their way without waiting for it to fill.
    pub fn flush(&mut self) {
        if !self.current.bytes.is_empty() {
            self.submit(false);
        }
    }

    /// Sends the current buffer on its way to disk, if there is another one to continue with.
    fn submit(&mut self, wait: bool) -> bool {
        let Some(next) = self.pool.get(wait, &self.board) else { return false };
        let full = std::mem::replace(&mut self.current, next);
        self.send(full);
        true
    }

    fn send(&self, mut full: Chunk) {
        full.counts.copy_from_slice(&self.counts);
        if let Err(refused) = self.filled.send(full) {
            // The disk's thread has died.
            for (interface, span) in refused.0.spans.iter().enumerate() {
                self.board.not_written(interface, span.frames);
            }
        }
    }

    /// Publishes how many frames came, and how many the source reports as lost.
    pub fn publish(&self, lost: &[u64]) {
        let mut counts = self.counts.clone();
        for (count, lost) in counts.iter_mut().zip(lost) {
            count.lost = count.lost.max(*lost);
        }
        self.board.publish(&counts);
    }

    /// Sends the rest and returns where frames are missing. `source` has the final count
    /// of what it lost.
    pub fn finish(mut self, source: &dyn Source, now_ns: i64) -> Gaps {
        self.decide();
        if let Some(selection) = self.selection.take() {
            // Nobody has named them: they are not of the test.
            selection.undecided().for_each(|interface| self.leave_out(interface));
        }
        let lost = source.lost();
        for interface in 0..self.counts.len() {
            let trailing = lost.get(interface).copied().unwrap_or(0);
            let trailing = trailing.saturating_sub(self.counts[interface].lost);
            if trailing > 0 {
                let since_ns = source.lost_since_ns(interface).unwrap_or(i64::MAX);
                self.lose(interface, trailing, since_ns, now_ns);
            }
        }
        self.publish(&[]);
        // Even an empty one: it has the final counts.
        let last = std::mem::replace(&mut self.current, Chunk::empty());
        self.send(last);
        self.gaps
    }
}
