//! The CPU on which connections are sampled.
//!
//! The kernel reads a connection's state under its lock (`tcp_get_info`). A program that sends without pause
//! holds the lock nearly always. A thread that waits for it on another CPU is woken at each release, but too
//! late: tens of switches for one sample, at the expense of both. On the program's own CPU the wait ends with its
//! next system call. The kernel does not report which CPU that is, but the switches show it.

use std::mem;

/// Switches for one sample beyond which a CPU is the wrong one; on the right one there is at most one.
const MOST_SWITCHES: u64 = 3;
/// Rounds until the CPUs are tried again if none was right.
const PAUSE_ROUNDS: u32 = 100;

/// Where the calling thread samples, and where else it could.
pub struct Place {
    chooser: Chooser,
    before: u64,
}

impl Place {
    /// Where it is now: wherever the kernel puts it.
    pub fn new() -> Self {
        Self { chooser: Chooser::new(allowed()), before: 0 }
    }

    /// A round begins.
    pub fn begin(&mut self) {
        self.before = switches();
    }

    /// The round ended, with this many samples: moves the thread if they cost too much.
    pub fn end(&mut self, samples: usize) {
        let switches = switches() - self.before;
        if let Some(cpus) = self.chooser.judge(switches > samples as u64 * MOST_SWITCHES) {
            move_to(cpus);
        }
    }
}

/// Tries one CPU after the other.
struct Chooser {
    cpus: Vec<usize>,
    next: usize,
    tried: usize,
    pause: u32,
}

impl Chooser {
    const fn new(cpus: Vec<usize>) -> Self {
        Self { cpus, next: 0, tried: 0, pause: 0 }
    }

    /// The CPU to move to, if this one is the wrong one; all of them, if each was wrong.
    fn judge(&mut self, is_wrong: bool) -> Option<&[usize]> {
        if !is_wrong {
            self.tried = 0;
            return None;
        }
        if self.pause > 0 {
            self.pause -= 1;
            return None;
        }
        if self.tried == self.cpus.len() {
            (self.tried, self.pause) = (0, PAUSE_ROUNDS);
            return Some(&self.cpus);
        }
        let chosen = self.next;
        self.next = (self.next + 1) % self.cpus.len();
        self.tried += 1;
        Some(&self.cpus[chosen..=chosen])
    }
}

/// How often this thread has had to wait so far.
fn switches() -> u64 {
    // SAFETY: all zeros is a valid rusage, and there is room for one.
    let usage = unsafe {
        let mut usage: libc::rusage = mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    u64::try_from(usage.ru_nvcsw).unwrap_or_default()
}

/// CPUs that this thread may use; none if the kernel has more than a set holds.
fn allowed() -> Vec<usize> {
    // SAFETY: all zeros is an empty set, and the kernel writes no more than its size.
    unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set);
        (0..libc::CPU_SETSIZE.cast_unsigned() as usize).filter(|&cpu| libc::CPU_ISSET(cpu, &set)).collect()
    }
}

/// Restricts this thread to these CPUs; if the kernel refuses, it stays where it is.
fn move_to(cpus: &[usize]) {
    // SAFETY: all zeros is an empty set; the CPUs are of another one.
    unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        cpus.iter().for_each(|&cpu| libc::CPU_SET(cpu, &mut set));
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stays_where_samples_are_cheap() {
        let mut chooser = Chooser::new(vec![2, 5]);
        assert_eq!(chooser.judge(true), Some(&[2][..]));
        assert!((0..1000).all(|_| chooser.judge(false).is_none()));
        assert_eq!(chooser.judge(true), Some(&[5][..]));
    }

    #[test]
    fn where_every_cpu_is_wrong_it_pauses() {
        let mut chooser = Chooser::new(vec![0, 1, 2]);
        let mut moves: Vec<Vec<usize>> = Vec::new();
        for _ in 0..150 {
            moves.extend(chooser.judge(true).map(<[usize]>::to_vec));
        }
        let all = vec![0, 1, 2];
        assert_eq!(moves, [vec![0], vec![1], vec![2], all.clone(), vec![0], vec![1], vec![2], all]);
    }

    #[test]
    fn without_a_set_of_cpus_nothing_moves() {
        assert!((0..300).all(|_| Chooser::new(vec![]).judge(true).is_none_or(<[usize]>::is_empty)));
    }

    #[test]
    fn a_thread_may_run_somewhere_and_its_waits_are_counted() {
        assert!(!allowed().is_empty());
        let before = switches();
        while switches() == before {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}
