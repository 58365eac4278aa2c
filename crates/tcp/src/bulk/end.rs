//! What client and server have in common: the events they wait for, and when reports are due.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::line::Line;
use crate::control::Message;
use weir_clock::now_ns;

/// Most messages of a client that wait to be handled. A client of Weir requests 8 parts of a capture ahead.
pub const MOST_WAITING: usize = 256;

/// An event at one end.
#[derive(Debug)]
pub enum Input {
    /// The other end sent a message.
    Message(Message),
    /// The other end can no longer be read; why.
    Gone(String),
    /// The other end has sent more than may wait, and is no longer read.
    Flooded,
    /// A data connection has ended.
    Ended,
    /// The user wants it to end properly.
    Stop,
    /// The user no longer wants to wait.
    Abort,
}

/// Why an end that has sent too much is no longer read.
pub fn flooded() -> String {
    format!("more than {MOST_WAITING} of its messages wait for an answer")
}

/// The events of an end, in order.
#[derive(Debug)]
pub struct Incoming {
    inputs: Receiver<Input>,
    waiting: Arc<AtomicUsize>,
}

/// What puts something in, and what takes it out.
pub fn channel() -> (Sender<Input>, Incoming) {
    let (sender, inputs) = mpsc::channel();
    (sender, Incoming { inputs, waiting: Arc::default() })
}

impl Incoming {
    /// The next one, if it comes in time.
    pub fn recv_timeout(&self, within: Duration) -> Result<Input, RecvTimeoutError> {
        self.inputs.recv_timeout(within).inspect(|input| self.taken(input))
    }

    /// The next one, if it is there.
    pub fn try_recv(&self) -> Result<Input, TryRecvError> {
        self.inputs.try_recv().inspect(|input| self.taken(input))
    }

    /// Messages that may wait; see [`listen`].
    pub fn room(&self, most: usize) -> Room {
        Room { waiting: Arc::clone(&self.waiting), most }
    }

    fn taken(&self, input: &Input) {
        if matches!(input, Input::Message(_)) {
            let _ = self.waiting.fetch_update(SeqCst, SeqCst, |waiting| Some(waiting.saturating_sub(1)));
        }
    }
}

/// Room for messages that have not been handled yet.
#[derive(Debug)]
pub struct Room {
    waiting: Arc<AtomicUsize>,
    most: usize,
}

impl Room {
    fn takes_one(&self) -> bool {
        self.waiting.fetch_add(1, SeqCst) < self.most
    }
}

/// Passes on what is received on `line`, in a new thread, until its [`super::line::Writer`] is dropped.
///
/// A message that finds no room is skipped, and so is everything after it: a fast sender must not fill memory.
pub fn listen(mut line: Line, inputs: Sender<Input>, room: Room) -> std::io::Result<JoinHandle<()>> {
    let work = move || {
        loop {
            let input = match line.receive(None) {
                Ok(message) if room.takes_one() => Input::Message(message),
                Ok(_) => Input::Flooded,
                Err(e) => Input::Gone(e.to_string()),
            };
            let (is_flooded, is_last) = (matches!(input, Input::Flooded), matches!(input, Input::Gone(_)));
            if inputs.send(input).is_err() || is_last {
                break;
            }
            if is_flooded {
                line.drain();
                break;
            }
        }
    };
    thread::Builder::new().name("control".to_owned()).spawn(work)
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
    pub fn wait(&self, inputs: &Incoming, look: Duration) -> Option<Input> {
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
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::control::MOST_REQUEST_BYTES;

    #[test]
    fn who_says_more_than_may_wait_is_heard_no_more() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let line = Line::new(listener.accept().unwrap().0, MOST_REQUEST_BYTES).unwrap();
        let (inputs, incoming) = channel();
        let listening = listen(line, inputs, incoming.room(3)).unwrap();
        for sent_ns in 0..10 {
            stream.write_all(&Message::Clock { sent_ns }.emit()).unwrap();
        }
        drop(stream);
        // Nobody looks before everything was said.
        listening.join().unwrap();
        for expected in 0..3 {
            let Ok(Input::Message(Message::Clock { sent_ns })) = incoming.try_recv() else { panic!() };
            assert_eq!(sent_ns, expected);
        }
        assert!(matches!(incoming.try_recv(), Ok(Input::Flooded)));
        assert!(matches!(incoming.try_recv(), Err(TryRecvError::Disconnected)));
    }

    #[test]
    fn what_was_looked_at_makes_room() {
        let (inputs, incoming) = channel();
        let room = incoming.room(1);
        for _ in 0..3 {
            assert!(room.takes_one());
            inputs.send(Input::Message(Message::Stop)).unwrap();
            assert!(matches!(incoming.try_recv(), Ok(Input::Message(Message::Stop))));
        }
    }

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
