//! `CLOCK_MONOTONIC`, which the processes of one host share.

/// Now.
#[must_use]
pub fn now_ns() -> u64 {
    read_ns(libc::CLOCK_MONOTONIC)
}

/// What to add to [`now_ns`] for ns since 1970; right to some tens of nanoseconds until the clock is set.
#[must_use]
pub fn since_1970_ns() -> i64 {
    let pair = || {
        let before = now_ns();
        let real = read_ns(libc::CLOCK_REALTIME);
        let after = now_ns();
        (after - before, real as i64 - (before + (after - before) / 2) as i64)
    };
    (0..16).map(|_| pair()).min().map_or(0, |best| best.1)
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

/// Lets this thread be woken as close to its time as the kernel can; by default it takes 50 µs more.
pub fn wake_precisely() {
    // SAFETY: plain system call about the calling thread.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

fn read_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec; both clocks exist on every Linux.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
