//! `CLOCK_MONOTONIC`, which BPF programs (`bpf_ktime_get_ns`) and all processes of a host share, and the CPU time
//! of a thread.

use std::time::Duration;

/// Below this the scheduler could wake the thread too late: spin instead of sleeping.
const SPIN_NS: u64 = 2_000_000;
const NS_PER_S: u64 = 1_000_000_000;

/// Now.
#[must_use]
pub fn now_ns() -> u64 {
    read_ns(libc::CLOCK_MONOTONIC)
}

/// CPU time that the calling thread has used.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    read_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// How often in a second the kernel counts a jiffy (`HZ`): its coarse clocks advance with them.
#[must_use]
pub fn ticks_per_s() -> u32 {
    let mut tick = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `tick` is a valid timespec; this clock exists since Linux 2.6.32.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut tick) };
    let tick_ns = tick.tv_nsec.max(1) as u64;
    ((NS_PER_S + tick_ns / 2) / tick_ns) as u32
}

/// What to add to `CLOCK_REALTIME` (as kernel time stamps use it) to get `CLOCK_MONOTONIC`.
///
/// The closest of several pairs of readings; right to some tens of nanoseconds until the clock is set.
#[must_use]
pub fn realtime_to_monotonic_ns() -> i64 {
    let pair = || {
        let before = now_ns();
        let real = read_ns(libc::CLOCK_REALTIME);
        let after = now_ns();
        (after - before, (before + (after - before) / 2) as i64 - real as i64)
    };
    (0..16).map(|_| pair()).min().map_or(0, |best| best.1)
}

/// Waits until `due_ns`: sleeps while that is far away, then spins.
pub fn wait_until(due_ns: u64) {
    loop {
        let now = now_ns();
        if now >= due_ns {
            return;
        }
        let left = due_ns - now;
        if left > 2 * SPIN_NS {
            std::thread::sleep(Duration::from_nanos(left - SPIN_NS));
        } else {
            std::hint::spin_loop();
        }
    }
}

/// Sleeps until `due_ns`, or until a signal comes.
pub fn sleep_until(due_ns: u64) {
    let due = libc::timespec {
        tv_sec: (due_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (due_ns % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: `due` is a valid timespec; nothing is written where the time left would go.
    unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &raw const due,
            std::ptr::null_mut(),
        )
    };
}

/// Time after which a thread that is needed at once lets others run.
const SLICE_NS: u64 = 100_000;
const MOST_URGENT: libc::c_int = -20;

/// `struct sched_attr` as it was first (`include/uapi/linux/sched/types.h`).
#[repr(C)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// Lets this thread be woken as close to its time as the kernel can, even if others want the CPU.
///
/// By default the kernel adds 50 µs. A short slice, which any thread may request since Linux 6.12, puts a
/// thread that sleeps most of the time before those that do not; a higher priority needs a privilege, and is
/// omitted without it.
pub fn wake_precisely() {
    // SAFETY: plain system call about the calling thread.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    // SAFETY: as above.
    let usual = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    for nice in [MOST_URGENT, usual] {
        let wanted = SchedAttr {
            size: size_of::<SchedAttr>() as u32,
            policy: libc::SCHED_OTHER.cast_unsigned(),
            flags: 0,
            nice,
            priority: 0,
            runtime_ns: SLICE_NS,
            deadline_ns: 0,
            period_ns: 0,
        };
        // SAFETY: `wanted` has the size that it says, and lives through the call, which is about this thread.
        if unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const wanted, 0) } == 0 {
            return;
        }
    }
}

fn read_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec; these clocks exist on every Linux.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
