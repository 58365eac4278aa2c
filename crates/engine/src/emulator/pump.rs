//! The thread that carries frames.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weir_link::PathSpec;

use super::crossing::Crossing;
use super::pool::Pool;
use super::port::Port;
use super::progress::Progress;
use super::way::{Way, gone};
use super::{Options, Shared, lock};
use crate::priority;
use crate::thread::{check, pin, take_precedence};
use weir_clock::{now_ns, sleep_until, thread_cpu_ns};

/// A sleeper wakes late, by 5 µs on hardware and by 50 on a virtual machine. So it aims to wake early and
/// spins for the rest, at most this long.
const MOST_SPIN_NS: u64 = 60_000;
const LEAST_SPIN_NS: u64 = 2_000;
/// Frames with a longer delay may wait this long, at most, before they are read.
const PATIENCE_NS: u64 = 500_000;
/// Below this a wait is not worth it.
const LEAST_PATIENCE_NS: u64 = 100_000;
/// A real-time thread that runs this long ...
const RUN_NS: u64 = 500_000;
/// ... rests this long: with 7 % for others, the kernel has no reason to stop it for 50 ms, neither by its
/// fair server (5 %, Linux 6.12) nor by the earlier limit on real-time work (5 %).
const REST_NS: u64 = 40_000;
/// Anything shorter is the time that the call itself takes.
const SHORTEST_SLEEP_NS: u64 = 5_000;
const LONGEST_WAIT_NS: u64 = 50_000_000;
/// An interface that takes nothing is tried again after this.
const ASK_AGAIN_NS: u64 = 50_000;
const TELL_EVERY_NS: u64 = 100_000_000;

/// Both directions.
pub struct Pump {
    ports: [Port; 2],
    ways: [Way; 2],
    pool: Pool,
    device: Option<Crossing>,
    cpu: Option<usize>,
    busy: bool,
    slack_ns: u64,
    real_time: bool,
    real_time_refused: String,
    /// When it last rested, and how long it has slept since.
    slept_ns: u64,
    rested_ns: u64,
    waker: Waker,
    start_ns: u64,
    end_ns: u64,
    failure: String,
}

/// How late this thread wakes from its sleep.
struct Waker {
    late_ns: u64,
}

impl Pump {
    /// Called on the thread that will run it: memory for frames belongs to one thread.
    pub fn new(ports: [Port; 2], options: &Options) -> Self {
        let start_ns = now_ns();
        let lasts = options.duration.unwrap_or(Duration::MAX).as_nanos();
        Self {
            ways: options.paths.each_ref().map(|spec| Way::new(spec, options.device.is_some(), start_ns)),
            ports,
            device: options.device.as_ref().map(|crossed| Crossing::new(crossed, start_ns)),
            pool: Pool::new(options.memory_bytes),
            cpu: options.cpu,
            busy: options.busy,
            slack_ns: u64::try_from(options.slack.as_nanos()).unwrap_or(u64::MAX),
            real_time: options.real_time && !options.busy,
            real_time_refused: String::new(),
            slept_ns: start_ns,
            rested_ns: 0,
            waker: Waker { late_ns: MOST_SPIN_NS },
            start_ns,
            end_ns: start_ns.saturating_add(u64::try_from(lasts).unwrap_or(u64::MAX)),
            failure: String::new(),
        }
    }

    /// Carries frames until the end.
    pub fn run(mut self, shared: &Shared) {
        if let Some(cpu) = self.cpu
            && let Err(error) = pin(cpu)
        {
            self.failure = format!("CPU {cpu} cannot be used: {error}");
        }
        // Without the privilege it is late more often, and reports it.
        let _ = take_precedence();
        if self.real_time
            && let Err(error) = priority::raise(0)
        {
            self.real_time_refused = error.to_string();
        }
        let _ = wake_exactly();
        let mut told_ns = 0;
        while self.failure.is_empty() && !shared.stop.load(Ordering::Relaxed) {
            let now = now_ns();
            if now >= self.end_ns {
                break;
            }
            self.carry(now);
            if shared.has_changes.swap(false, Ordering::Acquire) {
                self.change(&mut lock(&shared.changes));
            }
            if now - told_ns >= TELL_EVERY_NS {
                told_ns = now;
                self.tell(shared, false);
                self.look();
            }
            self.wait();
        }
        for way in &mut self.ways {
            way.give_up("the link ended");
        }
        self.tell(shared, true);
    }

    /// Takes what arrived by `now`, and sends what is due.
    fn carry(&mut self, now: u64) {
        let [first, second] = &mut self.ports;
        let [there, back] = &mut self.ways;
        let device = &mut self.device;
        let due = [there.read(first, &self.pool, device, now), back.read(second, &self.pool, device, now)];
        for (way, port, until_ns) in [(there, second, due[0]), (back, first, due[1])] {
            if let Err(error) = way.send(port, until_ns) {
                self.failure = error;
            }
        }
    }

    fn change(&mut self, changes: &mut [Option<PathSpec>; 2]) {
        for (way, change) in self.ways.iter_mut().zip(changes) {
            if let Some(spec) = change.take() {
                way.change(spec);
            }
        }
    }

    fn tell(&mut self, shared: &Shared, ended: bool) {
        for (way, port) in self.ways.iter_mut().zip(&self.ports) {
            way.overload.not_received += port.not_received();
        }
        let progress = Progress {
            directions: self.ways.each_ref().map(Way::told),
            elapsed_ns: now_ns() - self.start_ns,
            cpu_ns: thread_cpu_ns(),
            real_time_refused: self.real_time_refused.clone(),
            failure: self.failure.clone(),
            ended,
        };
        *lock(&shared.progress) = progress;
    }

    /// Ends it if an interface is gone. Sockets report only that it went down, which happens first.
    fn look(&mut self) {
        if let Some(port) = self.ports.iter().find(|port| !port.is_there()) {
            self.failure = gone(port);
        }
    }

    /// Waits until there is something to do.
    fn wait(&mut self) {
        if self.busy {
            return std::hint::spin_loop();
        }
        let now = now_ns();
        if self.ways.iter().any(|way| way.stuck_since_ns.is_some()) {
            return self.sleep_until(now + ASK_AGAIN_NS);
        }
        if self.real_time && now - self.slept_ns >= RUN_NS {
            return self.sleep_until(now + REST_NS);
        }
        let next_ns = self.ways.iter().filter_map(Way::next_ns).min();
        let wake_ns = next_ns
            .map_or(u64::MAX, |ns| ns.saturating_add(self.slack_ns).saturating_sub(self.waker.late_ns));
        if wake_ns <= now {
            return std::hint::spin_loop();
        }
        // A frame that arrives meanwhile is due no sooner than after the least delay.
        let least_ns = self.ways.iter().map(|way| way.path.least_delay_ns()).min().unwrap_or(0);
        let patience_ns = (least_ns / 2).min(PATIENCE_NS).max(self.slack_ns);
        if next_ns.is_some() && patience_ns >= LEAST_PATIENCE_NS {
            return self.sleep_until(wake_ns.min(now + patience_ns));
        }
        let wait_ns = (wake_ns - now).min(LONGEST_WAIT_NS).min(self.end_ns.saturating_sub(now));
        self.listen(now + wait_ns, wait_ns);
    }

    fn sleep_until(&mut self, wake_ns: u64) {
        sleep_until(wake_ns);
        (self.slept_ns, self.rested_ns) = (now_ns(), 0);
        self.waker.follow(self.slept_ns.saturating_sub(wake_ns));
    }

    /// Waits until a frame arrives, at most for `wait_ns`, which is until `wake_ns`.
    fn listen(&mut self, wake_ns: u64, wait_ns: u64) {
        let mut polled = self.ports.each_ref().map(|port| libc::pollfd {
            fd: port.descriptor(),
            events: libc::POLLIN,
            revents: 0,
        });
        let wait = libc::timespec { tv_sec: 0, tv_nsec: wait_ns as libc::c_long };
        // SAFETY: two valid descriptors, a valid timespec, and no mask of signals.
        let ready = unsafe { libc::ppoll(polled.as_mut_ptr(), 2, &raw const wait, std::ptr::null()) };
        let now = now_ns();
        let slept_ns = (now + wait_ns).saturating_sub(wake_ns);
        if slept_ns >= SHORTEST_SLEEP_NS {
            self.rested_ns += slept_ns;
        }
        if self.rested_ns >= REST_NS {
            (self.slept_ns, self.rested_ns) = (now, 0);
        }
        if ready <= 0 {
            return self.waker.follow(now.saturating_sub(wake_ns));
        }
        if polled.iter().any(|polled| polled.revents & !libc::POLLIN != 0) {
            self.look();
        }
    }
}

impl Waker {
    /// Follows a level that is rarely exceeded: it rises faster than it falls.
    fn follow(&mut self, late_ns: u64) {
        if late_ns > self.late_ns {
            self.late_ns += (late_ns - self.late_ns) / 4;
        } else {
            self.late_ns -= (self.late_ns - late_ns) / 64;
        }
        self.late_ns = self.late_ns.clamp(LEAST_SPIN_NS, MOST_SPIN_NS);
    }
}

/// Makes this thread's timers no later than they have to be; the default is up to 50 µs.
fn wake_exactly() -> io::Result<()> {
    // SAFETY: a plain system call.
    check(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn followed(late_ns: impl IntoIterator<Item = u64>) -> u64 {
        let mut waker = Waker { late_ns: MOST_SPIN_NS };
        late_ns.into_iter().for_each(|late_ns| waker.follow(late_ns));
        waker.late_ns
    }

    #[test]
    fn a_prompt_sleeper_spins_little_and_a_late_one_no_longer_than_it_may() {
        assert!(followed([5_000; 1000]) < 6_000);
        assert_eq!(followed([0; 1000]), LEAST_SPIN_NS);
        assert_eq!(followed([10_000_000; 10]), MOST_SPIN_NS);
    }

    #[test]
    fn a_sleeper_that_is_late_one_time_in_ten_is_prepared_for_it() {
        let found = followed((0..1000).map(|n| if n % 10 == 9 { 40_000 } else { 10_000 }));
        assert!((25_000..=40_000).contains(&found), "{found}");
    }
}
