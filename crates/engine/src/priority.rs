//! Real-time priority while a trial lasts, so that other work on the same CPUs waits instead of the trial.

use std::io;
use std::time::Duration;

use crate::thread::check;

/// The lowest real-time priority: ahead of all ordinary work, behind threads that serve interrupts.
const PRIORITY: libc::c_int = 1;

/// How long ordinary work may starve before the kernel's fair server (Linux 6.12, `dl_server` in
/// kernel/sched/fair.c) stops a real-time thread for 50 ms: 0.95 s, less a margin for our own start.
const FAIR_SERVER: Duration = Duration::from_millis(900);

/// Share of the kernel's own limit on real-time work that a trial may use.
const SHARE_OF_LIMIT: f64 = 0.95;

/// Longest time for which a thread that never sleeps can be real-time without being stopped.
///
/// Beyond this a trial would have a pause of 50 ms in it, and real time spoils more than it saves.
#[must_use]
pub fn longest() -> Duration {
    let limit_us = std::fs::read_to_string("/proc/sys/kernel/sched_rt_runtime_us")
        .ok()
        .and_then(|text| text.trim().parse::<i64>().ok());
    bound(limit_us)
}

/// [`longest`] under a `sched_rt_runtime_us` of `limit_us`; -1 stands for no limit.
fn bound(limit_us: Option<i64>) -> Duration {
    match limit_us {
        Some(limit_us) if limit_us >= 0 => {
            FAIR_SERVER.min(Duration::from_micros(limit_us as u64).mul_f64(SHARE_OF_LIMIT))
        }
        _ => FAIR_SERVER,
    }
}

/// Makes a thread (0: the calling one) real time.
///
/// # Errors
/// `PermissionDenied` without CAP_SYS_NICE, or in a control group without real-time budget.
pub fn raise(thread: libc::pid_t) -> io::Result<()> {
    set(thread, Policy { class: libc::SCHED_FIFO, priority: PRIORITY })
}

/// Whether a thread of this process may become real-time; tried on one that does nothing else.
///
/// # Errors
/// As for [`raise`].
pub fn allowed() -> io::Result<()> {
    std::thread::scope(|scope| crate::thread::join(scope.spawn(|| raise(0))))
}

/// Threads that are real-time while this lives; dropping it restores their policies.
///
/// They belong to the device under test. Should this process be killed, they stay raised until the
/// interfaces that they serve are removed, which ends them.
#[derive(Debug)]
pub struct Raised(Vec<(libc::pid_t, Policy)>);

impl Raised {
    /// Raises all of `threads`, or none.
    ///
    /// # Errors
    /// As for [`raise`]; `NotFound` for a thread that has ended.
    pub fn new(threads: &[libc::pid_t]) -> io::Result<Self> {
        let mut raised = Self(Vec::with_capacity(threads.len()));
        for &thread in threads {
            let before = Policy::of(thread)?;
            raise(thread)?;
            raised.0.push((thread, before));
        }
        Ok(raised)
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        for &(thread, before) in &self.0 {
            // A thread that has ended has nothing to restore.
            let _ = set(thread, before);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Policy {
    class: libc::c_int,
    priority: libc::c_int,
}

impl Policy {
    fn of(thread: libc::pid_t) -> io::Result<Self> {
        let mut parameters = libc::sched_param { sched_priority: 0 };
        // SAFETY: `parameters` is valid and outlives both calls.
        let class = unsafe {
            check(libc::sched_getparam(thread, &raw mut parameters))?;
            libc::sched_getscheduler(thread)
        };
        check(class)?;
        Ok(Self { class, priority: parameters.sched_priority })
    }
}

fn set(thread: libc::pid_t, policy: Policy) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: policy.priority };
    // SAFETY: `parameters` is valid and outlives the call.
    check(unsafe { libc::sched_setscheduler(thread, policy.class, &raw const parameters) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn this_thread() -> libc::pid_t {
        // SAFETY: a plain system call without arguments.
        unsafe { libc::gettid() }
    }

    #[test]
    fn threads_are_what_they_were_when_the_trial_is_over() {
        let thread = this_thread();
        let before = Policy::of(thread).expect("this thread lives");
        match Raised::new(&[thread]) {
            Ok(raised) => {
                let meanwhile = Policy::of(thread).expect("this thread lives");
                assert_eq!(meanwhile, Policy { class: libc::SCHED_FIFO, priority: PRIORITY });
                drop(raised);
            }
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::PermissionDenied),
        }
        assert_eq!(Policy::of(thread).expect("this thread lives"), before);
    }

    #[test]
    fn a_thread_that_has_ended_leaves_the_others_as_they_were() {
        let thread = this_thread();
        let before = Policy::of(thread).expect("this thread lives");
        let ended = std::thread::spawn(this_thread).join().expect("ends");
        Raised::new(&[thread, ended]).expect_err("one of them has ended");
        assert_eq!(Policy::of(thread).expect("this thread lives"), before);
    }

    #[test]
    fn a_trial_stays_below_what_stops_a_real_time_thread() {
        assert_eq!(bound(None), FAIR_SERVER);
        assert_eq!(bound(Some(-1)), FAIR_SERVER);
        assert_eq!(bound(Some(950_000)), FAIR_SERVER);
        assert_eq!(bound(Some(500_000)), Duration::from_millis(475));
        assert_eq!(bound(Some(0)), Duration::ZERO);
    }
}
