//! CLOCK_MONOTONIC, the clock of `bpf_ktime_get_ns`.

use std::time::Duration;

/// Below this the scheduler's wake-up could come too late: spin instead of sleeping.
const SPIN_NS: u64 = 2_000_000;

/// Now.
pub fn now_ns() -> u64 {
    read_ns(libc::CLOCK_MONOTONIC)
}

/// What to add to CLOCK_REALTIME (as kernel time stamps use it) to get CLOCK_MONOTONIC.
///
/// The closest of several pairs of readings; right to some tens of nanoseconds.
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

/// CPU time of the calling thread.
pub fn thread_cpu_ns() -> u64 {
    read_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn read_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec; both clocks exist on every Linux.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
