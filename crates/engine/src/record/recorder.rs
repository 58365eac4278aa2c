//! A recorder: two threads, and what is known about them from outside.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use weir_capture::{Filter, LinkType, write};

use super::chunk::CHUNK_BYTES;
use super::connections::Selection;
use super::disk::{Disk, File, Files, Layout, Storage, Written};
use super::drain::{Drain, Pool, Rotation};
use super::gaps::{Gap, Gaps};
use super::options::{MAX_SNAP_BYTES, Options, RecordError};
use super::progress::{Board, Mark, Progress};
use super::source::Source;
use crate::thread;

const ETHERNET: LinkType = LinkType(1);
/// Frames wait in a buffer no longer than this.
const FLUSH_AFTER: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(100);
/// Frames that are still in a ring when the end is requested arrive within this.
const LAST_POLL: Duration = Duration::from_millis(50);

/// What a recorder leaves behind.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Final counts.
    pub progress: Progress,
    /// Files that exist, in order.
    pub files: Vec<File>,
    /// Files removed again, because only a limited number is kept.
    pub files_removed: usize,
    /// Where frames are missing, in order of time.
    pub gaps: Vec<Gap>,
}

/// Writes frames of a source into files.
pub struct Recorder {
    options: Options,
    filter: Option<Filter>,
    state: State,
}

enum State {
    Ready,
    Running(Threads),
    Stopped(Box<Summary>),
}

struct Threads {
    board: Arc<Board>,
    drain: JoinHandle<Gaps>,
    disk: JoinHandle<Written>,
}

/// Reads the progress of a recorder that others start and stop.
#[derive(Clone)]
pub struct Watch {
    board: Arc<Board>,
}

impl Watch {
    /// How far it is now, or was at the end.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.board.progress()
    }
}

impl Recorder {
    /// A recorder that has not started; invalid options are reported here.
    ///
    /// # Errors
    /// [`RecordError`] for a bad filter, a path that cannot be written to, or invalid options.
    pub fn new(options: Options) -> Result<Self, RecordError> {
        options.check()?;
        check_path(&options)?;
        let filter = match options.filter.trim() {
            "" => None,
            expression => Some(Filter::compile(expression, ETHERNET)?),
        };
        Ok(Self { options, filter, state: State::Ready })
    }

    /// Starts recording. An existing file is overwritten.
    ///
    /// # Errors
    /// [`RecordError::Path`] if the file cannot be made, [`RecordError::Started`] the second time.
    pub fn start(&mut self, source: Box<dyn Source>) -> Result<(), RecordError> {
        self.start_on(Box::new(Files), source)
    }

    pub(super) fn start_on(
        &mut self,
        storage: Box<dyn Storage>,
        source: Box<dyn Source>,
    ) -> Result<(), RecordError> {
        if !matches!(self.state, State::Ready) {
            return Err(RecordError::Started);
        }
        let interfaces = source.interfaces().len();
        let names = source.interfaces().iter().map(|interface| interface.name.clone());
        let board = Arc::new(Board::new(names.collect()));
        let start_ns = realtime_ns();
        let layout = Layout {
            path: self.options.path.clone(),
            rotates: self.options.rotates(),
            keep_files: self.options.keep_files,
            zstd_level: self.options.zstd_level,
            head: head(&self.options, source.as_ref()),
        };
        let head_bytes = layout.head.len() as u64;
        let (to_disk, filled) = mpsc::channel();
        let (to_pool, returned) = mpsc::channel();
        let disk = Disk::new(layout, storage, Arc::clone(&board), interfaces, start_ns)
            .map_err(|source| RecordError::Path { path: self.options.path.clone(), source })?;
        // At least one being filled and one being written.
        let chunks = (self.options.queue_bytes / CHUNK_BYTES).max(2);
        let drain = Drain::new(
            self.filter.clone(),
            self.options.connections.clone().map(Selection::new),
            self.options.snap_bytes.min(MAX_SNAP_BYTES) as usize,
            Rotation {
                bytes: self.options.rotate_bytes,
                after_ns: self.options.rotate_after.map(|t| i64::try_from(t.as_nanos()).unwrap_or(i64::MAX)),
            },
            head_bytes,
            self.options.most_bytes.map_or(u64::MAX, |most| most.saturating_sub(head_bytes)),
            Arc::clone(&board),
            Pool::new(returned, chunks, interfaces),
            to_disk,
            start_ns,
        );
        let mark = Mark(Arc::clone(&board));
        let disk = Builder::new()
            .name("weir-disk".to_owned())
            .spawn(move || {
                let _mark = mark;
                disk.run(&filled, &to_pool)
            })
            .map_err(RecordError::Thread)?;
        let (mark, cpu) = (Mark(Arc::clone(&board)), self.options.cpu);
        let drain = Builder::new()
            .name("weir-record".to_owned())
            .spawn(move || {
                if let Some(cpu) = cpu
                    && let Err(e) = thread::pin(cpu)
                {
                    mark.0.set_failure(format!("cannot pin the recorder to CPU {cpu}: {e}; it runs on any"));
                }
                record(source, drain, &mark.0)
            })
            .map_err(RecordError::Thread)?;
        self.state = State::Running(Threads { board, drain, disk });
        Ok(())
    }

    /// How far it is; cheap.
    #[must_use]
    pub fn progress(&self) -> Progress {
        match &self.state {
            State::Ready => Progress { file: self.options.path.clone(), ..Progress::default() },
            State::Running(threads) => threads.board.progress(),
            State::Stopped(summary) => summary.progress.clone(),
        }
    }

    /// A handle for progress while another thread waits for the end; `None` unless it runs.
    #[must_use]
    pub fn watch(&self) -> Option<Watch> {
        match &self.state {
            State::Running(threads) => Some(Watch { board: Arc::clone(&threads.board) }),
            State::Ready | State::Stopped(_) => None,
        }
    }

    /// Writes everything that has come so far, closes the file and returns the result. Safe to call again.
    pub fn stop(&mut self) -> Summary {
        let summary = match std::mem::replace(&mut self.state, State::Stopped(Box::default())) {
            State::Ready => Summary {
                progress: Progress { file: self.options.path.clone(), ..Progress::default() },
                ..Summary::default()
            },
            State::Running(threads) => threads.stop(),
            State::Stopped(summary) => *summary,
        };
        self.state = State::Stopped(Box::new(summary.clone()));
        summary
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if matches!(self.state, State::Running(_)) {
            self.stop();
        }
    }
}

impl Threads {
    fn stop(self) -> Summary {
        self.board.stop.store(true, Ordering::Relaxed);
        let (ring, written) = (self.drain.join(), self.disk.join());
        if ring.is_err() || written.is_err() {
            self.board.set_failure("the recorder failed; this is a bug in Weir: please report it".to_owned());
        }
        let mut summary = Summary { progress: self.board.progress(), ..Summary::default() };
        if let Ok(gaps) = ring {
            summary.gaps.extend(gaps.into_vec());
        }
        if let Ok(written) = written {
            summary.files = written.files;
            summary.files_removed = written.removed;
            summary.gaps.extend(written.gaps.into_vec());
        }
        summary.gaps.sort_by_key(|gap| (gap.from_ns, gap.interface, gap.stage));
        summary
    }
}

/// Reads the source until it is told to stop.
fn record(mut source: Box<dyn Source>, mut drain: Drain, board: &Board) -> Gaps {
    let mut stop_ns = None;
    let mut published = Instant::now();
    let mut flushed = published;
    loop {
        if stop_ns.is_none() && board.stop.load(Ordering::Relaxed) {
            stop_ns = Some(realtime_ns());
        }
        let mut latest_ns = i64::MIN;
        let read = source.read(if stop_ns.is_some() { LAST_POLL } else { POLL }, &mut |frame| {
            latest_ns = frame.time_ns;
            drain.take(&frame);
        });
        match read {
            Err(e) => {
                board.set_failure(format!("no more frames come from the source: {e}"));
                break;
            }
            Ok(frames) => {
                if stop_ns.is_some_and(|stop_ns| frames == 0 || latest_ns >= stop_ns) {
                    break;
                }
            }
        }
        drain.decide();
        let now = Instant::now();
        if now - published >= POLL {
            drain.publish(&source.lost());
            published = now;
        }
        if now - flushed >= FLUSH_AFTER {
            drain.flush();
            flushed = now;
        }
    }
    drain.finish(source.as_ref(), realtime_ns())
}

/// What each file begins with.
fn head(options: &Options, source: &dyn Source) -> Vec<u8> {
    let (hardware, os) = machine();
    let mut head = Vec::new();
    let section = write::Section {
        hardware,
        os: os.clone(),
        application: concat!("Weir ", env!("CARGO_PKG_VERSION")).to_owned(),
        comment: options.comment.clone(),
    };
    write::section(&mut head, &section);
    for interface in source.interfaces() {
        let interface = write::Interface {
            link: ETHERNET,
            snap_bytes: options.snap_bytes.min(MAX_SNAP_BYTES),
            name: interface.name.clone(),
            description: interface.description.clone(),
            mac: interface.mac,
            filter: options.filter.trim().to_owned(),
            os: os.clone(),
        };
        write::interface(&mut head, &interface);
    }
    head
}

/// The machine's architecture, and its operating system.
fn machine() -> (String, String) {
    // SAFETY: all zeros is a valid utsname, and the call fills it with texts that end with 0.
    let name = unsafe {
        let mut name: libc::utsname = std::mem::zeroed();
        if libc::uname(&raw mut name) != 0 {
            return (String::new(), String::new());
        }
        name
    };
    let text = |field: &[libc::c_char]| {
        let bytes = field.iter().take_while(|c| **c != 0).map(|c| *c as u8);
        String::from_utf8_lossy(&bytes.collect::<Vec<_>>()).into_owned()
    };
    (text(&name.machine), format!("{} {}", text(&name.sysname), text(&name.release)))
}

/// Checks before the start for anything that would prevent it, without making a file.
fn check_path(options: &Options) -> Result<(), RecordError> {
    let path = &options.path;
    let refuse = |path: &Path, source| Err(RecordError::Path { path: path.to_owned(), source });
    if path.is_dir() || path.file_name().is_none() {
        return refuse(path, io::Error::from_raw_os_error(libc::EISDIR));
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if let Err(source) = std::fs::read_dir(folder) {
        return refuse(folder, source);
    }
    // A file that exists may be writable where none may be made: /dev/null.
    let place = if path.exists() && !options.rotates() { path } else { folder };
    let Ok(name) = CString::new(place.as_os_str().as_bytes()) else {
        return refuse(place, io::Error::from(io::ErrorKind::InvalidInput));
    };
    // SAFETY: `name` ends with 0 and outlives the call.
    match thread::check(unsafe { libc::access(name.as_ptr(), libc::W_OK) }) {
        Ok(()) => Ok(()),
        Err(source) => refuse(place, source),
    }
}

fn realtime_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
