//! What a recorder reads: the frames of a tap, in this process or in another one.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use super::layout::{Counts, Info, MAGIC};
use super::memory::Rings;
use super::merge::Merge;
use crate::mapped::Mapped;
use crate::record::{Direction, Frame, Interface, Source};
use crate::thread::check;
use weir_clock::{now_ns, realtime_to_monotonic_ns};

/// Frames handed over at a time.
const BATCH: usize = 4096;
/// A frame is stamped before it is in its ring, and shares the stamp with up to 15 others. What is younger
/// than this may still be overtaken by one of another CPU with an older stamp.
pub const SETTLE_NS: u64 = 50_000;
/// How long to sleep when nothing is there. No frame wakes the reader: that would cost the bridge more
/// than the copy.
const NAP: (Duration, Duration) = (Duration::from_micros(100), Duration::from_millis(1));
/// The clocks are compared so often ...
const COMPARE_NS: u64 = 1_000_000_000;
/// ... and differences up to this are measurement errors, which would only disturb the order.
const CLOCK_NOISE_NS: u64 = 500;

/// The ring of a [`Tap`](super::Tap) as a source of frames. Only one may read it at a time; if it stops or
/// is killed, the next one continues.
pub struct RingSource {
    merge: Merge,
    counts: Mapped<Counts>,
    interfaces: Vec<Interface>,
    clock: Clock,
    /// Losses of each side that were reported to earlier readers.
    told_before: [u64; 2],
}

/// CLOCK_REALTIME from CLOCK_MONOTONIC.
struct Clock {
    monotonic_ahead_ns: i64,
    compared_ns: u64,
}

impl Clock {
    fn new() -> Self {
        Self { monotonic_ahead_ns: realtime_to_monotonic_ns(), compared_ns: now_ns() }
    }

    fn compare(&mut self, now_ns: u64) {
        if now_ns - self.compared_ns < COMPARE_NS {
            return;
        }
        self.compared_ns = now_ns;
        let ahead_ns = realtime_to_monotonic_ns();
        if ahead_ns.abs_diff(self.monotonic_ahead_ns) > CLOCK_NOISE_NS {
            self.monotonic_ahead_ns = ahead_ns;
        }
    }

    const fn unix_ns(&self, monotonic_ns: u64) -> i64 {
        monotonic_ns as i64 - self.monotonic_ahead_ns
    }
}

impl RingSource {
    /// Maps the ring behind the descriptors of [`Tap::ring_fds`](super::Tap::ring_fds), which may be closed
    /// then. Needs no privilege.
    ///
    /// # Errors
    /// Errors from mapping; `InvalidInput` if the descriptors are not those of a tap of this version.
    pub fn open(fds: &[RawFd]) -> io::Result<Self> {
        let own = fds.iter().map(|&fd| duplicate(fd)).collect::<io::Result<Vec<_>>>()?;
        let [info, counts, rings, memory] = &own[..] else {
            let message = format!("a tap's ring has four file descriptors, not {}", fds.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        };
        let info = Mapped::<Info>::new(info, 1)?.get(0);
        if info.magic != MAGIC || info.cpus == 0 || !info.chunks.is_power_of_two() {
            let message = "these file descriptors are not those of a ring of this version of Weir";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let cpus = info.cpus as usize;
        let merge = Merge::new(Rings::new(rings, memory, cpus, info.chunks as usize)?);
        let told_before = [0, 1].map(|side| (0..cpus).map(|cpu| merge.rings().told(cpu, side)).sum());
        let names = info.name.map(|name| {
            let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
            String::from_utf8_lossy(&name[..end]).into_owned()
        });
        let interface = |side: usize| Interface {
            name: names[side].clone(),
            description: format!("tap, side {}, towards {}", ["A", "B"][side], names[1 - side]),
            mac: info.mac[side],
        };
        Ok(Self {
            counts: Mapped::new(counts, cpus)?,
            interfaces: vec![interface(0), interface(1)],
            clock: Clock::new(),
            told_before,
            merge,
        })
    }

    fn take_what_is_there(&mut self, take: &mut dyn FnMut(Frame<'_>)) -> io::Result<usize> {
        let now_ns = now_ns();
        self.clock.compare(now_ns);
        self.merge.refresh()?;
        let mut taken = 0;
        while taken < BATCH {
            let Some(item) = self.merge.next(now_ns.saturating_sub(SETTLE_NS))? else { break };
            take(Frame {
                time_ns: self.clock.unix_ns(item.record.time_ns),
                interface: item.record.side as usize,
                direction: Direction::Inbound,
                original_len: item.record.length,
                lost_before: item.record.lost.into(),
                lost_since_ns: Some(self.clock.unix_ns(item.before_ns)),
                data: self.merge.bytes(&item),
            });
            taken += 1;
        }
        self.merge.give_back();
        Ok(taken)
    }
}

/// A private duplicate of the descriptor `fd`, if it is one.
fn duplicate(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: a plain system call; a bad descriptor is an error.
    let own = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) };
    check(own)?;
    // SAFETY: a new descriptor that nobody else has.
    Ok(unsafe { OwnedFd::from_raw_fd(own) })
}

impl Source for RingSource {
    fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    fn read(&mut self, wait: Duration, take: &mut dyn FnMut(Frame<'_>)) -> io::Result<usize> {
        let end = Instant::now() + wait;
        let mut nap = NAP.0;
        loop {
            let taken = self.take_what_is_there(take)?;
            let left = end.saturating_duration_since(Instant::now());
            if taken > 0 || left.is_zero() {
                return Ok(taken);
            }
            std::thread::sleep(nap.min(left));
            nap = (2 * nap).min(NAP.1);
        }
    }

    /// Since the last frame that a reader before this one has read.
    fn lost(&self) -> Vec<u64> {
        let lost = |side: usize| -> u64 {
            (0..self.counts.len()).map(|cpu| self.counts.get(cpu).side[side].not_copied).sum()
        };
        (0..2).map(|side| lost(side).saturating_sub(self.told_before[side])).collect()
    }

    fn lost_since_ns(&self, interface: usize) -> Option<i64> {
        self.merge.untold_since_ns(interface).map(|since_ns| self.clock.unix_ns(since_ns))
    }
}
