//! The mirror: a thread that takes frames out of their ring and sends them to the logger.
//!
//! As XDP live frames, which the program builds from the ring itself; this side only selects them.
//! Frames that are too long for that, and all where the interface does not take XDP frames, go through a
//! packet socket.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use aya::programs::{ProgramError, TestRun, TestRunAttrs, TestRunOptions};

use super::MIRROR;
use super::error::TapError;
use super::layout::{Counts, Job, Mirror};
use super::memory::Rings;
use super::merge::{Item, Merge};
use super::port::Port;
use super::programs::{Programs, os_error};
use super::ring::SETTLE_NS;
use crate::mapped::Mapped;
use crate::packet::socket;
use crate::thread::{enter, pin};
use weir_clock::now_ns;

/// Frames sent at a time.
pub const JOBS: usize = 1024;
/// Longest live frame: it lies in one page with the kernel's own data around it.
const LIVE_BYTES: usize = 3072;
/// Frames between flushes.
const BATCH: u32 = 64;
const NAP: (Duration, Duration) = (Duration::from_micros(100), Duration::from_millis(1));

/// What the thread reports.
#[derive(Default)]
pub struct Progress {
    /// Frames taken out of the ring.
    pub taken: AtomicU64,
    /// Sent through the socket.
    pub sent: AtomicU64,
    /// Of the last frame that the socket refused.
    pub error: AtomicI32,
    /// Why the thread gave up.
    pub failure: Mutex<String>,
}

/// The running thread; dropping it ends it, and what is still in the ring is not sent.
pub struct Pump {
    stop: Arc<AtomicBool>,
    pub progress: Arc<Progress>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread works with.
pub struct Parts {
    pub programs: Arc<Programs>,
    pub rings: Rings,
    pub counts: Mapped<Counts>,
    pub port: Port,
    pub logger_mac: [u8; 6],
    pub cpu: Option<usize>,
    /// Whether it can be observed how many live frames the interface takes; otherwise none are sent.
    pub is_traced: bool,
}

impl Pump {
    /// Starts the thread in the calling thread's namespace.
    pub fn start(parts: Parts) -> Result<Self, TapError> {
        let (name, cpu) = (parts.port.name.clone(), parts.cpu);
        let error = |source| TapError::System { action: "mirror to", interface: name.clone(), source };
        let netns = File::open("/proc/thread-self/ns/net").map_err(error)?;
        let progress = Arc::new(Progress::default());
        let mut sender = Sender {
            socket: socket::open(parts.port.ifindex, false).map_err(error)?,
            jobs: parts.programs.array("tap_jobs", JOBS)?,
            state: parts.programs.array("tap_mirror", 1)?,
            merge: Merge::new(parts.rings),
            takes_live: parts.is_traced.then_some(false),
            counts: parts.counts,
            programs: parts.programs,
            logger_mac: parts.logger_mac,
            progress: Arc::clone(&progress),
            frame: Vec::new(),
        };
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let work = move || {
            let result =
                enter(&netns).and_then(|()| cpu.map_or(Ok(()), pin)).and_then(|()| sender.run(&seen));
            if let Err(e) = result {
                *sender.progress.failure.lock().unwrap_or_else(PoisonError::into_inner) = e.to_string();
            }
        };
        let builder = std::thread::Builder::new().name("weir-mirror".into());
        Ok(Self { stop, progress, thread: Some(builder.spawn(work).map_err(error)?) })
    }
}

impl Pump {
    /// Whether it still sends: it may have given up.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Sender {
    programs: Arc<Programs>,
    merge: Merge,
    counts: Mapped<Counts>,
    jobs: Mapped<Job>,
    state: Mapped<Mirror>,
    socket: OwnedFd,
    logger_mac: [u8; 6],
    /// Whether the interface has taken a live frame yet; `None`: it does not.
    takes_live: Option<bool>,
    progress: Arc<Progress>,
    frame: Vec<u8>,
}

impl Sender {
    fn run(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut nap = NAP.0;
        while !stop.load(Ordering::Relaxed) {
            if self.send_what_is_there()? > 0 {
                nap = NAP.0;
                continue;
            }
            std::thread::sleep(nap);
            nap = (2 * nap).min(NAP.1);
        }
        Ok(())
    }

    fn send_what_is_there(&mut self) -> io::Result<usize> {
        let horizon_ns = now_ns().saturating_sub(SETTLE_NS);
        self.merge.refresh()?;
        let mut items = Vec::with_capacity(JOBS);
        while items.len() < JOBS {
            let Some(item) = self.merge.next(horizon_ns)? else { break };
            items.push(item);
        }
        for run in items.chunk_by(|a, b| fits_live(a) == fits_live(b)) {
            if self.takes_live.is_some() && fits_live(&run[0]) && self.send_live(run)? {
                continue;
            }
            for item in run {
                self.send_through_socket(item);
            }
        }
        self.merge.give_back();
        self.progress.taken.fetch_add(items.len() as u64, Ordering::Relaxed);
        Ok(items.len())
    }

    /// Lets the program send frames; false if the interface takes none that way.
    fn send_live(&mut self, items: &[Item]) -> io::Result<bool> {
        for (index, item) in items.iter().enumerate() {
            let chunk = self.merge.rings().chunk(item.cpu, item.position) as u32;
            let at = (item.position % super::layout::CHUNK) as u32;
            self.jobs.set(index, Job { chunk, at });
        }
        let longest = items.iter().map(|item| item.record.captured).max().unwrap_or(0);
        let jobs = items.len() as u32;
        let mac = self.logger_mac;
        self.state.set(0, Mirror { jobs, input_len: longest, mac, ..Mirror::default() });
        let sent_before = self.sent_live();
        let frame = vec![0; longest as usize];
        loop {
            let next = self.state.get(0).next;
            if next >= jobs {
                break;
            }
            let options = TestRunOptions {
                data_in: Some(&frame),
                repeat: jobs - next,
                attrs: TestRunAttrs::new().xdp_live_frames(BATCH.min(jobs - next)),
                ..TestRunOptions::new()
            };
            match self.programs.sender().map_err(io::Error::other)?.test_run(options) {
                Ok(_) => {}
                // A signal ended the call early.
                Err(ProgramError::SyscallError(e)) if e.io_error.raw_os_error() == Some(libc::EINTR) => {}
                // Memory may be short, say. The rest of these is not sent; the next ones are tried again.
                Err(e) => {
                    let error = os_error(&e).unwrap_or(libc::EIO);
                    self.progress.error.store(error, Ordering::Relaxed);
                    break;
                }
            }
        }
        if self.state.get(0).misfits > 0 {
            self.progress.error.store(libc::EMSGSIZE, Ordering::Relaxed);
        }
        if self.sent_live() > sent_before {
            self.takes_live = Some(true);
        } else if self.takes_live == Some(false) && self.cannot_send_live() {
            self.takes_live = None;
            return Ok(false);
        }
        Ok(true)
    }

    /// Whether the interface has said that it takes no live frames at all; it may refuse some for other
    /// reasons.
    fn cannot_send_live(&self) -> bool {
        (0..self.counts.len())
            .any(|cpu| matches!(-self.counts.get(cpu).error[MIRROR], libc::ENXIO | libc::EOPNOTSUPP))
    }

    fn sent_live(&self) -> u64 {
        (0..self.counts.len()).map(|cpu| self.counts.get(cpu).mirror_sent).sum()
    }

    fn send_through_socket(&mut self, item: &Item) {
        if item.record.captured < item.record.length {
            self.progress.error.store(libc::EMSGSIZE, Ordering::Relaxed);
            return;
        }
        self.frame.clear();
        self.frame.extend_from_slice(self.merge.bytes(item));
        if let Some(mac) = self.frame.first_chunk_mut() {
            *mac = self.logger_mac;
        }
        // SAFETY: `frame` is valid for its length.
        let sent = unsafe {
            libc::send(
                self.socket.as_raw_fd(),
                self.frame.as_ptr().cast(),
                self.frame.len(),
                libc::MSG_DONTWAIT,
            )
        };
        if sent >= 0 {
            self.progress.sent.fetch_add(1, Ordering::Relaxed);
        } else {
            let error = io::Error::last_os_error().raw_os_error().unwrap_or(0);
            self.progress.error.store(error, Ordering::Relaxed);
        }
    }
}

const fn fits_live(item: &Item) -> bool {
    item.record.captured as usize <= LIVE_BYTES
}
