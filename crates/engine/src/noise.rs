//! How long a CPU is taken from a thread that wants it: by the host, by interrupts, by other work.
//!
//! The same idea as sysjitter and the kernel's osnoise tracer; it needs no more privileges than a trial.

use std::io;
use std::time::Duration;

use crate::priority;
use crate::thread::{self, Awake};
use weir_clock::{now_ns, sleep_until};

/// Gaps kept; a CPU that is taken away more often than this in a stretch is hopeless anyway.
const MAX_GAPS: usize = 1 << 16;

/// A time for which a CPU was taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// When it began, CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// How long it lasted.
    pub length_ns: u64,
}

/// What one CPU did while it was listened to.
#[derive(Clone, Debug)]
pub struct Heard {
    /// Its number.
    pub cpu: usize,
    /// From when ...
    pub start_ns: u64,
    /// ... to when, CLOCK_MONOTONIC.
    pub end_ns: u64,
    /// Gaps of the threshold and longer, in order.
    pub gaps: Vec<Gap>,
    /// Whether the listening thread was real-time, as sender and device are in a short trial.
    pub real_time: bool,
}

/// How to listen to a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Without ever sleeping, as a sender does: hears whatever takes the CPU away.
    Spinning,
    /// Waking up again and again, as a device does for its packets: hears what else keeps the CPU then,
    /// such as other work inside a kernel that is not preempted there.
    Waking,
}

/// Time from one wake-up to the next.
const WAKE_NS: u64 = 100_000;

/// Listens to all of `cpus` at once and notes the gaps of `threshold_ns` and longer.
///
/// Real-time if that is allowed and `lasts` is short enough (see [`priority::longest`]).
///
/// # Errors
/// Errors from pinning a thread: `InvalidInput` for a CPU that does not exist or may not be used.
pub fn listen(cpus: &[(usize, Way)], lasts: Duration, threshold_ns: u64) -> io::Result<Vec<Heard>> {
    let real_time = lasts <= priority::longest();
    let listen_to = |(cpu, way)| {
        thread::pin(cpu)?;
        let real_time = real_time && priority::raise(0).is_ok();
        let mut gaps = Vec::with_capacity(MAX_GAPS);
        let start_ns = now_ns();
        let until_ns = start_ns + lasts.as_nanos() as u64;
        let mut before = start_ns;
        while before < until_ns {
            if way == Way::Waking {
                before += WAKE_NS;
                sleep_until(before);
            }
            let now = now_ns();
            if now.saturating_sub(before) >= threshold_ns && gaps.len() < MAX_GAPS {
                gaps.push(Gap { start_ns: before, length_ns: now - before });
            }
            before = before.max(now);
        }
        Ok(Heard { cpu, start_ns, end_ns: before, gaps, real_time })
    };
    std::thread::scope(|scope| {
        let _awake: Vec<_> = cpus.iter().map(|&(cpu, _)| Awake::start(cpu)).collect();
        let listening: Vec<_> = cpus.iter().map(|&each| scope.spawn(move || listen_to(each))).collect();
        listening.into_iter().map(thread::join).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_long_enough_in_order_and_within_the_stretch() {
        let lasts = Duration::from_millis(5);
        for heard in listen(&[(0, Way::Spinning), (0, Way::Waking)], lasts, 200).expect("CPU 0 is there") {
            assert!(heard.end_ns - heard.start_ns >= lasts.as_nanos() as u64);
            assert!(heard.gaps.iter().all(|gap| gap.length_ns >= 200));
            assert!(heard.gaps.iter().all(|gap| gap.start_ns >= heard.start_ns));
            assert!(heard.gaps.iter().all(|gap| gap.start_ns + gap.length_ns <= heard.end_ns));
            assert!(heard.gaps.windows(2).all(|two| two[0].start_ns + two[0].length_ns <= two[1].start_ns));
        }
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_an_error() {
        listen(&[(usize::MAX, Way::Spinning)], Duration::from_millis(1), 1_000)
            .expect_err("no machine has it");
    }
}
