//! What client and server have in common: what they wait for, and when reports are due.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use super::line::Line;
use crate::clock::now_ns;
use crate::control::Message;

/// What happens to an end.
#[derive(Debug)]
pub enum Input {
    /// The other end says something.
    Message(Message),
    /// The other end cannot be heard any more; why.
    Gone(String),
    /// A data connection has ended.
    Ended,
    /// The user wants it to end in good order.
    Stop,
    /// The user no longer wants to know.
    Abort,
}

/// Hands on what is said on `line`, in a thread of its own, until its [`super::line::Writer`] is dropped.
pub fn listen(mut line: Line, inputs: Sender<Input>) -> std::io::Result<()> {
    let work = move || {
        loop {
            let input = match line.receive(None) {
                Ok(message) => Input::Message(message),
                Err(e) => Input::Gone(e.to_string()),
            };
            let is_last = matches!(input, Input::Gone(_));
            if inputs.send(input).is_err() || is_last {
                break;
            }
        }
    };
    thread::Builder::new().name("control".to_owned()).spawn(work).map(drop)
}

/// When the next report is due.
#[derive(Debug)]
pub struct Intervals {
    start_ns: u64,
    every_ns: u64,
    next_ns: u64,
    until_ns: Option<u64>,
}

impl Intervals {
    /// Every `every_ns` from `start_ns` on. At the end, after `lasts_ns`, a last report is made anyway: one that is
    /// due just before or after is left out, as next to nothing would happen between the two.
    pub fn new(start_ns: u64, every_ns: u64, lasts_ns: Option<u64>) -> Self {
        let until_ns = lasts_ns.map(|lasts| start_ns.saturating_add(lasts));
        Self { start_ns, every_ns, next_ns: start_ns.saturating_add(every_ns), until_ns }
    }

    /// The next input; `None` if `look` passes, or a report becomes due, without one.
    pub fn wait(&self, inputs: &Receiver<Input>, look: Duration) -> Option<Input> {
        let left = Duration::from_nanos(self.next_ns.saturating_sub(now_ns()));
        match inputs.recv_timeout(left.min(look)) {
            Ok(input) => Some(input),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Input::Abort),
        }
    }

    /// The time since the start if a report is due; those that were missed are left out.
    pub fn due(&mut self) -> Option<u64> {
        self.due_at(now_ns())
    }

    fn due_at(&mut self, now: u64) -> Option<u64> {
        let nominal = self.next_ns;
        if now < nominal {
            return None;
        }
        let passed = (now - self.start_ns) / self.every_ns;
        self.next_ns = self.start_ns.saturating_add((passed + 1).saturating_mul(self.every_ns));
        let is_last = self.until_ns.is_some_and(|until| nominal.abs_diff(until) <= self.every_ns / 10);
        if is_last { None } else { Some(now - self.start_ns) }
    }

    /// The time since the start.
    pub fn elapsed_ns(&self) -> u64 {
        now_ns() - self.start_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_keep_to_their_times_and_missed_ones_are_left_out() {
        let mut intervals = Intervals::new(1_000, 100, None);
        let times = [1_050, 1_100, 1_150, 1_399, 1_401, 1_499, 1_500];
        let found: Vec<_> = times.iter().map(|now| intervals.due_at(*now)).collect();
        assert_eq!(found, [None, Some(100), None, Some(399), Some(401), None, Some(500)]);
    }

    #[test]
    fn no_report_comes_just_before_the_last_one() {
        let mut intervals = Intervals::new(1_000, 100, Some(205));
        let found: Vec<_> = [1_100, 1_201, 1_300].iter().map(|now| intervals.due_at(*now)).collect();
        assert_eq!(found, [Some(100), None, Some(300)], "what is still on its way is reported again");
    }
}
