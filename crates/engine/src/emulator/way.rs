//! One direction of the link: frames from one interface, through the path, to the other.

use std::io;

use weir_link::{Pace, Path, PathSpec};

use super::crossing::Crossing;
use super::lead::Lead;
use super::pool::{Frame, Pool};
use super::port::Port;
use super::progress::{Direction, Late, Overload, Paced};
use crate::packet::port::{BATCH, Sent};
use weir_clock::now_ns;

/// Frames read at a time, so that those that are due do not wait long.
const READ: usize = 256;
/// Batches sent at a time, so that the ring does not fill up meanwhile.
const WRITE: usize = 8;
/// Longest time for which an interface that takes nothing is tried for one frame.
const GIVE_UP_NS: u64 = 10_000_000;

/// One direction.
pub struct Way {
    pub path: Path<Frame>,
    /// Frames that departed and have not been sent, and what is known about each.
    frames: Vec<Frame>,
    facts: Vec<(u64, Pace)>,
    /// Since when the interface takes no frame.
    pub stuck_since_ns: Option<u64>,
    /// When the last frame left, if another one may follow it without a pause.
    last_ns: Option<u64>,
    sent: u64,
    sent_bytes: u64,
    pub overload: Overload,
    late: Late,
    pace: Paced,
    /// Behind a device.
    lead: Option<Lead>,
}

impl Way {
    pub fn new(spec: &PathSpec, is_behind_device: bool, now: u64) -> Self {
        // It was checked when the emulator was started.
        let path = Path::new(spec.clone(), now).unwrap_or_else(|error| unreachable!("{error}"));
        Self {
            path,
            frames: Vec::with_capacity(BATCH),
            facts: Vec::with_capacity(BATCH),
            stuck_since_ns: None,
            last_ns: None,
            sent: 0,
            sent_bytes: 0,
            overload: Overload::default(),
            late: Late::new(),
            pace: Paced::default(),
            lead: is_behind_device.then(Lead::default),
        }
    }

    /// How much sooner than due frames leave. Not with a rate: until then what waits for it could be dropped.
    fn lead_ns(&self) -> u64 {
        self.lead.as_ref().filter(|_| self.path.spec().rate.is_none()).map_or(0, Lead::ns)
    }

    /// When the next frame of those that came is to leave; `None`: there is none.
    pub fn next_ns(&self) -> Option<u64> {
        self.path.next_ns().map(|ns| ns.saturating_sub(self.lead_ns()))
    }

    /// Switches to another path, which was checked.
    pub fn change(&mut self, spec: PathSpec) {
        let _ = self.path.change(spec, now_ns());
        self.last_ns = None;
        // The pace is measured at one rate only.
        self.pace = Paced::default();
    }

    /// Takes frames in, through `device` if there is one; returns the time up to which all have been taken.
    pub fn read(&mut self, port: &mut Port, pool: &Pool, device: &mut Option<Crossing>, now: u64) -> u64 {
        let soonest_ns = (now + self.lead_ns()).saturating_sub(self.path.least_delay_ns());
        let (path, mut last_ns) = (&mut self.path, 0);
        let is_more = port.receive(READ, pool, &mut self.overload, |at_ns, mut frame| {
            let len = frame.bytes().len();
            last_ns = at_ns;
            match device.as_mut().map_or(Some(at_ns), |device| device.pass(at_ns, len)) {
                Some(leaves_ns) => {
                    frame.is_early = leaves_ns > soonest_ns;
                    path.arrive(leaves_ns, frame, len as u32);
                }
                None => path.turn_away(len as u32),
            }
        });
        if is_more { last_ns.min(now) } else { now }
    }

    /// Sends what is due. Fails when the interface is gone.
    pub fn send(&mut self, port: &Port, until_ns: u64) -> Result<(), String> {
        let until_ns = until_ns + self.lead_ns();
        for _ in 0..WRITE {
            while self.frames.len() < BATCH
                && let Some(departure) = self.path.depart(until_ns)
            {
                self.frames.push(departure.frame);
                self.facts.push((departure.due_ns, departure.pace));
            }
            if self.frames.is_empty() {
                return Ok(());
            }
            match port.send(&self.frames) {
                Sent::All(n) => self.left(n),
                Sent::NoRoom => {
                    let now = now_ns();
                    let since_ns = *self.stuck_since_ns.get_or_insert(now);
                    if now - since_ns < GIVE_UP_NS {
                        return Ok(());
                    }
                    self.refuse(&format!("the queue of {} was full", port.name));
                }
                Sent::Refused(error) => {
                    if !port.is_there() {
                        return Err(gone(port));
                    }
                    self.refuse(&reason(port, &error));
                }
            }
        }
        Ok(())
    }

    /// Counts the first `n` frames, which the kernel has taken.
    fn left(&mut self, n: usize) {
        let now = now_ns();
        self.stuck_since_ns = None;
        for (frame, (due_ns, pace)) in self.frames.drain(..n).zip(self.facts.drain(..n)) {
            self.sent += 1;
            self.sent_bytes += frame.bytes().len() as u64;
            self.late.add(now.abs_diff(due_ns));
            if let Some(lead) = self.lead.as_mut().filter(|_| frame.is_early) {
                lead.follow(now, due_ns);
            }
            if let (Pace::Follows(bits), Some(last_ns)) = (pace, self.last_ns) {
                self.pace.bits += bits;
                self.pace.ns += now - last_ns;
            }
            self.pace.bursts += u64::from(pace == Pace::Begins);
            if pace != Pace::Apart {
                self.last_ns = Some(now);
            }
        }
    }

    /// Drops the first frame, which is not sent.
    fn refuse(&mut self, reason: &str) {
        self.frames.remove(0);
        self.facts.remove(0);
        self.stuck_since_ns = None;
        self.last_ns = None;
        self.overload.refused += 1;
        reason.clone_into(&mut self.overload.reason);
    }

    pub fn give_up(&mut self, reason: &str) {
        while !self.frames.is_empty() {
            self.refuse(reason);
        }
    }

    pub fn told(&self) -> Direction {
        Direction {
            counters: self.path.counters(),
            held: self.path.held() + self.frames.len() as u64,
            queued: self.path.queued(),
            sent: self.sent,
            sent_bytes: self.sent_bytes,
            overload: self.overload.clone(),
            late: self.late.clone(),
            pace: self.pace,
        }
    }
}

/// Why the link ends when this interface is gone.
pub fn gone(port: &Port) -> String {
    format!("interface {} is gone", port.name)
}

fn reason(port: &Port, error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EMSGSIZE) => format!(
            "frames were longer than the MTU of {} allows: switch offloads off at the senders (ethtool -K IF tso off \
             gso off), or give both ends one MTU",
            port.name
        ),
        Some(libc::ENETDOWN) => format!("{} is down", port.name),
        _ => format!("{}: {error}", port.name),
    }
}
