//! The data connections of one end, each with its thread.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::blocks::{Blocks, Plan, header};
use super::end::Input;
use super::latency::Latency;
use super::line::is_temporary;
use crate::control::{Flow, Request, Total};
use crate::queues::this_thread;
use crate::{Info, Queues};
use weir_clock::{now_ns, sleep_until};

/// How long a blocked read or write goes without checking whether it should end.
const LOOK: Duration = Duration::from_millis(100);
/// What a receiver reads at once.
const READ_BYTES: usize = 256 * 1024;
/// Most samples per block that are kept until they are taken.
const MOST_SAMPLES: usize = 1 << 16;

/// A data connection, and which way it carries blocks.
#[derive(Debug)]
pub struct Given {
    /// The connection.
    pub stream: Arc<TcpStream>,
    /// This end sends.
    pub sends: bool,
}

/// How an end reads: slower than data arrive, on purpose, so that its window closes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Most bytes a second, of all connections of a transfer together; at least 1.
    pub bytes_per_s: Option<u64>,
    /// When to stop reading after the start, and for how long, both in ns.
    pub pause_ns: Option<(u64, u64)>,
}

/// The kernel's state when a block had been written or read.
#[derive(Clone, Copy, Debug)]
pub struct BlockSample {
    /// Number of the connection.
    pub flow: u16,
    /// Number of the block.
    pub block: u64,
    /// Since the start.
    pub at_ns: u64,
    /// The state.
    pub info: Info,
}

/// What all connections of an end are to do.
#[derive(Clone, Copy, Debug)]
struct Orders {
    block_bytes: usize,
    until_ns: Option<u64>,
    start_ns: u64,
    has_latency: bool,
    every_block: bool,
}

/// What a connection's thread reports.
#[derive(Debug)]
struct Told {
    bytes: AtomicU64,
    blocks: AtomicU64,
    first_ns: AtomicU64,
    last_ns: AtomicU64,
    latency: Mutex<Latency>,
    failure: Mutex<String>,
    last_info: Mutex<Option<Info>>,
    /// Number of its thread; 0 before that runs, and when it has ended.
    thread: AtomicU32,
}

#[derive(Debug)]
struct Running {
    told: Arc<Told>,
    stream: Arc<TcpStream>,
    has_latency: bool,
    thread: Option<JoinHandle<()>>,
}

/// All connections of one end.
#[derive(Debug)]
pub struct Transfer {
    running: Vec<Running>,
    start_ns: u64,
    stop: Arc<AtomicBool>,
    abort: Arc<AtomicBool>,
    samples: Arc<Mutex<Vec<BlockSample>>>,
    samples_lost: Arc<AtomicU64>,
}

impl Transfer {
    /// Starts; every connection reports its end to `inputs`.
    pub fn start(
        given: Vec<Given>,
        request: &Request,
        reading: Reading,
        same_clock: bool,
        every_block: bool,
        inputs: &Sender<Input>,
    ) -> io::Result<Self> {
        let start_ns = now_ns();
        let mut transfer = Self {
            running: Vec::new(),
            start_ns,
            stop: Arc::default(),
            abort: Arc::default(),
            samples: Arc::default(),
            samples_lost: Arc::default(),
        };
        let senders = given.iter().filter(|each| each.sends).count() as u64;
        let (mut sender, receivers) = (0, given.len() as u64 - senders);
        for (number, Given { stream, sends }) in (0..).zip(given) {
            stream.set_read_timeout(Some(LOOK))?;
            stream.set_write_timeout(Some(LOOK))?;
            let orders = Orders {
                block_bytes: request.block_bytes as usize,
                until_ns: request.lasts_ns.map(|lasts| start_ns.saturating_add(lasts)),
                start_ns,
                has_latency: same_clock && !sends,
                every_block,
            };
            let mut worker = Worker {
                orders,
                number,
                stream,
                told: Arc::new(Told {
                    bytes: AtomicU64::new(0),
                    blocks: AtomicU64::new(0),
                    first_ns: AtomicU64::new(0),
                    last_ns: AtomicU64::new(0),
                    latency: Mutex::new(Latency::new()),
                    failure: Mutex::default(),
                    last_info: Mutex::default(),
                    thread: AtomicU32::new(0),
                }),
                stop: Arc::clone(&transfer.stop),
                abort: Arc::clone(&transfer.abort),
                samples: Arc::clone(&transfer.samples),
                samples_lost: Arc::clone(&transfer.samples_lost),
            };
            let mut running = Running {
                told: Arc::clone(&worker.told),
                stream: Arc::clone(&worker.stream),
                has_latency: orders.has_latency,
                thread: None,
            };
            let inputs = inputs.clone();
            let share = |total: u64| total / senders + u64::from(sender < total % senders);
            let bytes = request.bytes.filter(|_| sends).map(share);
            let rate = request.bytes_per_s.filter(|_| sends).map(share);
            sender += u64::from(sends);
            let read_rate = reading.bytes_per_s.map(|rate| (rate / receivers.max(1)).max(1));
            let reading = Reading { bytes_per_s: read_rate, ..reading };
            let work = move || {
                worker.told.thread.store(this_thread(), Relaxed);
                let done = if sends { worker.send(bytes, rate) } else { worker.receive(reading) };
                worker.end(done.err());
                // A receiver that is gone has ended already.
                let _ = inputs.send(Input::Ended);
            };
            running.thread = Some(thread::Builder::new().name(format!("flow {number}")).spawn(work)?);
            transfer.running.push(running);
        }
        Ok(transfer)
    }

    /// When it began, by `CLOCK_MONOTONIC`.
    pub const fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// Connections.
    pub const fn len(&self) -> usize {
        self.running.len()
    }

    /// The progress of each connection.
    pub fn flows(&self) -> Vec<Flow> {
        self.running
            .iter()
            .map(|each| {
                let last_info = *lock(&each.told.last_info);
                let thread = Some(each.told.thread.load(Relaxed)).filter(|number| *number != 0);
                let queues = match last_info {
                    Some(_) => Queues::default(),
                    None => Queues::of(&*each.stream, thread),
                };
                let info = last_info.or_else(|| Info::of(&*each.stream).ok());
                Flow {
                    queues,
                    bytes: each.told.bytes.load(Relaxed),
                    blocks: each.told.blocks.load(Relaxed),
                    latency: each.has_latency.then(|| lock(&each.told.latency).take()),
                    info: info.unwrap_or_default(),
                }
            })
            .collect()
    }

    /// The same without latency and the kernel's state, which costs less.
    pub fn counts(&self) -> Vec<Flow> {
        let count = |each: &Running| Flow {
            bytes: each.told.bytes.load(Relaxed),
            blocks: each.told.blocks.load(Relaxed),
            ..Flow::default()
        };
        self.running.iter().map(count).collect()
    }

    /// Samples per block since the last call, and how many found no room.
    pub fn take_samples(&self) -> (Vec<BlockSample>, u64) {
        (std::mem::take(&mut *lock(&self.samples)), self.samples_lost.swap(0, Relaxed))
    }

    /// Lets senders end after what they are writing.
    pub fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    /// Aborts every connection.
    pub fn abort(&self) {
        self.abort.store(true, Relaxed);
        for each in &self.running {
            let _ = each.stream.shutdown(Shutdown::Both);
        }
    }

    /// The final state of each connection; waits for it.
    pub fn totals(mut self) -> Vec<Total> {
        for each in &mut self.running {
            if let Some(thread) = each.thread.take() {
                let _ = thread.join();
            }
        }
        let since = |ns: u64| (ns != 0).then(|| ns.saturating_sub(self.start_ns));
        let flows = self.flows();
        let total = |(each, flow): (&Running, Flow)| Total {
            flow: Flow { latency: each.has_latency.then(|| lock(&each.told.latency).total()), ..flow },
            first_ns: since(each.told.first_ns.load(Relaxed)),
            last_ns: since(each.told.last_ns.load(Relaxed)),
            failure: lock(&each.told.failure).clone(),
        };
        self.running.iter().zip(flows).map(total).collect()
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.abort();
    }
}

/// One connection's thread.
struct Worker {
    orders: Orders,
    number: u16,
    stream: Arc<TcpStream>,
    told: Arc<Told>,
    stop: Arc<AtomicBool>,
    abort: Arc<AtomicBool>,
    samples: Arc<Mutex<Vec<BlockSample>>>,
    samples_lost: Arc<AtomicU64>,
}

impl Worker {
    fn send(&mut self, bytes: Option<u64>, bytes_per_s: Option<u64>) -> io::Result<()> {
        let mut plan = Plan::new(self.orders.block_bytes, bytes);
        let mut buffer = filler(plan.most());
        let (mut number, mut sent) = (0, 0_u64);
        while !self.is_over()
            && let Some(len) = plan.next_len()
        {
            if let Some(rate) = bytes_per_s {
                let due = u128::from(sent) * 1_000_000_000 / u128::from(rate);
                self.wait_until(self.orders.start_ns.saturating_add(due as u64));
                if self.is_over() {
                    break;
                }
            }
            buffer[..super::HEADER_BYTES].copy_from_slice(&header(len, number, now_ns()));
            let written = self.write(&buffer[..len])?;
            sent += written as u64;
            if written < len {
                break;
            }
            number += 1;
            self.told.blocks.store(number, Relaxed);
            self.sample(number);
        }
        self.stream.shutdown(Shutdown::Write)?;
        // The other end closes when it has read everything; only then are the numbers complete.
        self.drain()
    }

    /// Less than all of it only if the time is over.
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut written = 0;
        while written < bytes.len() {
            match (&*self.stream).write(&bytes[written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(some) => {
                    written += some;
                    self.count(some);
                }
                Err(e) if is_temporary(&e) => {}
                Err(e) => return Err(e),
            }
            if written < bytes.len() && self.is_over() {
                break;
            }
        }
        Ok(written)
    }

    fn drain(&self) -> io::Result<()> {
        let mut bytes = [0; 64];
        loop {
            match (&*self.stream).read(&mut bytes) {
                Ok(0) => return Ok(()),
                Ok(_) => return Err(io::Error::other("the receiver sent something")),
                Err(e) if is_temporary(&e) && !self.abort.load(Relaxed) => {}
                Err(e) => return Err(e),
            }
        }
    }

    fn receive(&mut self, reading: Reading) -> io::Result<()> {
        // A hundred reads a second at most, if they are to be slow.
        let at_once =
            reading.bytes_per_s.map_or(READ_BYTES, |rate| (rate / 100).clamp(1, READ_BYTES as u64) as usize);
        let mut buffer = vec![0; at_once];
        let mut blocks = Blocks::default();
        let (mut number, mut received) = (0, 0_u64);
        loop {
            self.wait_to_read(reading, received);
            let read = match (&*self.stream).read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(e) if is_temporary(&e) && !self.abort.load(Relaxed) => continue,
                Err(e) => return Err(e),
            };
            received += read as u64;
            let now = self.count(read);
            let before = number;
            let mut latency = lock(&self.told.latency);
            let has_latency = self.orders.has_latency;
            let found = blocks.push(&buffer[..read], |sent_ns| {
                number += 1;
                if has_latency {
                    latency.record(now.saturating_sub(sent_ns));
                }
            });
            drop(latency);
            found.map_err(io::Error::other)?;
            if number != before {
                self.told.blocks.store(number, Relaxed);
                self.sample(number);
            }
        }
        self.stream.shutdown(Shutdown::Write)
    }

    /// Waits as long as nothing is to be read; after the end of the transfer, what has arrived is read at once.
    fn wait_to_read(&self, reading: Reading, received: u64) {
        let start_ns = self.orders.start_ns;
        if let Some(rate) = reading.bytes_per_s {
            let due_ns = u128::from(received) * 1_000_000_000 / u128::from(rate);
            self.wait_until(start_ns.saturating_add(u64::try_from(due_ns).unwrap_or(u64::MAX)));
        }
        if let Some((from_ns, lasts_ns)) = reading.pause_ns
            && now_ns() >= start_ns.saturating_add(from_ns)
        {
            self.wait_until(start_ns.saturating_add(from_ns).saturating_add(lasts_ns));
        }
    }

    fn end(&self, failure: Option<io::Error>) {
        *lock(&self.told.last_info) = Info::of(&*self.stream).ok();
        self.told.thread.store(0, Relaxed);
        if let Some(error) = failure {
            *lock(&self.told.failure) = error.to_string();
        }
        // The other end must not wait for what will not come.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Counts bytes that were written or read just now; returns the time.
    fn count(&self, bytes: usize) -> u64 {
        let now = now_ns();
        if self.told.bytes.fetch_add(bytes as u64, Relaxed) == 0 {
            self.told.first_ns.store(now, Relaxed);
        }
        self.told.last_ns.store(now, Relaxed);
        now
    }

    fn sample(&self, block: u64) {
        if !self.orders.every_block {
            return;
        }
        let Ok(info) = Info::of(&*self.stream) else { return };
        let at_ns = now_ns() - self.orders.start_ns;
        let mut samples = lock(&self.samples);
        if samples.len() < MOST_SAMPLES {
            samples.push(BlockSample { flow: self.number, block, at_ns, info });
        } else {
            self.samples_lost.fetch_add(1, Relaxed);
        }
    }

    fn is_over(&self) -> bool {
        let ended = self.orders.until_ns.is_some_and(|until| now_ns() >= until);
        ended || self.stop.load(Relaxed) || self.abort.load(Relaxed)
    }

    fn wait_until(&self, due_ns: u64) {
        let due_ns = self.orders.until_ns.map_or(due_ns, |until| until.min(due_ns));
        while !self.is_over() {
            let now = now_ns();
            if now >= due_ns {
                return;
            }
            sleep_until(due_ns.min(now + LOOK.as_nanos() as u64));
        }
    }
}

/// Bytes that no link can compress.
fn filler(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        // xorshift64 (Marsaglia 2003).
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes());
    }
    bytes
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
