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
}

impl Intervals {
    /// Every `every_ns` from `start_ns` on.
    pub const fn new(start_ns: u64, every_ns: u64) -> Self {
        Self { start_ns, every_ns, next_ns: start_ns.saturating_add(every_ns) }
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
        let now = now_ns();
        if now < self.next_ns {
            return None;
        }
        let passed = (now - self.start_ns) / self.every_ns;
        self.next_ns = self.start_ns.saturating_add((passed + 1).saturating_mul(self.every_ns));
        Some(now - self.start_ns)
    }

    /// The time since the start.
    pub fn elapsed_ns(&self) -> u64 {
        now_ns() - self.start_ns
    }
}
