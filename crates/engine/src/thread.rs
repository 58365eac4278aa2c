//! Threads in other network namespaces, on chosen CPUs.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, ScopedJoinHandle};

use crate::partition;

/// The namespace at `netns` (`None`: the caller's) in words.
pub fn place(netns: Option<&Path>) -> String {
    netns.map_or_else(
        || "the network namespace of this process".into(),
        |path| format!("network namespace {}", path.display()),
    )
}

/// Runs `work` on a new thread inside the namespace at `netns` (`None`: here).
///
/// # Errors
/// Errors from opening the namespace or entering it; both need CAP_SYS_ADMIN.
pub fn within<T: Send>(netns: Option<&Path>, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let Some(path) = netns else { return Ok(work()) };
    let file = File::open(path)?;
    std::thread::scope(|scope| {
        let inside = scope.spawn(move || {
            enter(&file)?;
            Ok(work())
        });
        inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Moves the calling thread into a namespace.
pub fn enter(netns: &File) -> io::Result<()> {
    // SAFETY: a plain system call on an open descriptor.
    check(unsafe { libc::setns(netns.as_raw_fd(), libc::CLONE_NEWNET) })
}

/// Makes a private network namespace, moves the calling thread there, and
/// returns the handle that keeps it alive.
pub fn enter_private() -> io::Result<File> {
    // SAFETY: a plain system call without arguments in memory.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) })?;
    File::open("/proc/thread-self/ns/net")
}

/// Pins the calling thread to one CPU; it joins the partition that owns the CPU, if there is one.
pub fn pin(cpu: usize) -> io::Result<()> {
    match bind(cpu) {
        // The CPU is closed to this thread, or does not exist.
        Err(refused) if refused.kind() == io::ErrorKind::InvalidInput && partition::join().is_ok() => {
            bind(cpu)
        }
        bound => bound,
    }
}

fn bind(cpu: usize) -> io::Result<()> {
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    // SAFETY: all zeros is a valid empty set, and `cpu` lies within it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        check(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set))
    }
}

/// Puts the calling thread ahead of other ordinary ones (nice -20).
pub fn take_precedence() -> io::Result<()> {
    // SAFETY: a plain system call; who 0 is the calling thread.
    check(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) })
}

/// Keeps a CPU awake while it lives.
///
/// A CPU that goes idle sleeps, and waking it takes long: on a virtual machine the sleeper
/// has to be woken through the hypervisor, which costs the waker some 10 µs and the
/// sleeper from 10 µs to milliseconds.
pub enum Awake {
    /// Idle CPUs poll for work: they are woken without an interrupt, and their time still
    /// counts as idle. Applies to all CPUs.
    Polling(#[expect(dead_code, reason = "the request holds while the file is open")] File),
    /// Where the kernel has no such idle state, a thread keeps the CPU busy.
    Spinning(#[expect(dead_code, reason = "the thread spins while this lives")] Spinner),
}

impl Awake {
    /// Keeps `cpu` awake by the gentlest means that work here.
    pub fn start(cpu: usize) -> Self {
        match poll_when_idle() {
            Ok(request) => Self::Polling(request),
            Err(_) => Self::Spinning(Spinner::start(cpu)),
        }
    }
}

/// Allows idle CPUs no latency at all (PM QoS), which leaves cpuidle only its polling state.
/// The kernel takes the request back when the file is closed, however that happens.
fn poll_when_idle() -> io::Result<File> {
    let state = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/cpuidle/state0/name")?;
    if state.trim() != "POLL" {
        return Err(io::Error::from(io::ErrorKind::Unsupported));
    }
    let mut request = File::options().write(true).open("/dev/cpu_dma_latency")?;
    request.write_all(&0i32.to_ne_bytes())?;
    Ok(request)
}

/// A thread of class SCHED_IDLE with nice 19 on one CPU: it gives way to everything else at
/// once, and its time shows as `nice` in /proc/stat.
pub struct Spinner {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Spinner {
    fn start(cpu: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            if pin(cpu).is_err() || yield_to_all().is_err() {
                return; // no privilege for it: the CPU sleeps as it would otherwise
            }
            while !seen.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn yield_to_all() -> io::Result<()> {
    let priority = libc::sched_param { sched_priority: 0 };
    // SAFETY: `priority` is valid; who 0 is the calling thread.
    unsafe {
        check(libc::setpriority(libc::PRIO_PROCESS, 0, 19))?;
        check(libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const priority))
    }
}

pub fn check(status: libc::c_int) -> io::Result<()> {
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Time in ns for a cache line to pass from one CPU to the other and back, the best of
/// several series; about a millisecond in all.
///
/// Packets are handed from the sender's CPU to the device's, so what this costs is part of
/// every result. It is constant on hardware; a hypervisor that moves virtual CPUs between
/// core complexes changes it several times over.
///
/// # Errors
/// Errors from pinning a thread; `InvalidInput` if both CPUs are the same.
pub fn handover_ns(cpu: usize, other: usize) -> io::Result<f64> {
    const SERIES: usize = 10;
    const ROUNDS: u64 = 300;
    if cpu == other {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    let ball = AtomicU64::new(0);
    let give_up = AtomicBool::new(false);
    let last = 2 * ROUNDS * SERIES as u64;
    std::thread::scope(|scope| {
        let partner = scope.spawn(|| {
            let pinned = pin(other);
            if pinned.is_err() {
                give_up.store(true, Ordering::Release);
                return pinned;
            }
            let mut next = 1;
            while next < last && !give_up.load(Ordering::Relaxed) {
                if ball.compare_exchange(next, next + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                    next += 2;
                }
            }
            Ok(())
        });
        let player = scope.spawn(|| {
            let pinned = pin(cpu);
            if let Err(e) = pinned {
                give_up.store(true, Ordering::Release);
                return Err(e);
            }
            let mut best = f64::INFINITY;
            let mut next = 0;
            for _ in 0..SERIES {
                let start = weir_clock::now_ns();
                for _ in 0..ROUNDS {
                    ball.store(next + 1, Ordering::Release);
                    while ball.load(Ordering::Acquire) != next + 2 {
                        if give_up.load(Ordering::Relaxed) {
                            return Err(io::Error::other("the other CPU cannot be used"));
                        }
                    }
                    next += 2;
                }
                best = best.min((weir_clock::now_ns() - start) as f64 / ROUNDS as f64);
            }
            Ok(best)
        });
        let result = join(player);
        give_up.store(true, Ordering::Release);
        join(partner)?;
        result
    })
}

pub fn join<T>(handle: ScopedJoinHandle<'_, T>) -> T {
    handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
