//! What client and server have in common: the events they wait for, and when reports are due.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::line::Line;
use crate::control::Message;
use weir_clock::now_ns;

/// Most messages of a client that wait to be handled. A client of Weir requests 8 parts of a capture ahead.
const MOST_WAITING: usize = 256;
/// Memory for messages that wait to be handled.
const MOST_WAITING_BYTES: usize = 8 << 20;

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
    waiting: Arc<Waiting>,
}

/// Messages that have not been handled.
#[derive(Debug, Default)]
struct Waiting {
    load: Mutex<Load>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Load {
    messages: usize,
    bytes: usize,
    /// Nobody will handle more.
    is_over: bool,
}

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, Load> {
        self.load.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What happens to a message for which there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// It is the last one: the other end has sent more than it may.
    Floods,
    /// It waits, and the other end with it.
    Waits,
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

    /// Room for messages; see [`listen`].
    pub fn room(&self, excess: Excess) -> Room {
        Room {
            waiting: Arc::clone(&self.waiting),
            most: MOST_WAITING,
            most_bytes: MOST_WAITING_BYTES,
            excess,
        }
    }

    fn taken(&self, input: &Input) {
        if let Input::Message(message) = input {
            let mut load = self.waiting.lock();
            load.messages = load.messages.saturating_sub(1);
            load.bytes = load.bytes.saturating_sub(message.memory_bytes());
            self.waiting.changed.notify_one();
        }
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        self.waiting.lock().is_over = true;
        self.waiting.changed.notify_one();
    }
}

/// Room for messages that have not been handled yet.
#[derive(Debug)]
pub struct Room {
    waiting: Arc<Waiting>,
    most: usize,
    most_bytes: usize,
    excess: Excess,
}

impl Room {
    /// Whether there is room for `message`, perhaps after some time.
    fn takes(&self, message: &Message) -> bool {
        let bytes = message.memory_bytes();
        let mut load = self.waiting.lock();
        loop {
            if load.is_over {
                return false;
            }
            // The largest message must find room, too.
            let has_bytes = load.messages == 0 || load.bytes + bytes <= self.most_bytes;
            if load.messages < self.most && has_bytes {
                load.messages += 1;
                load.bytes += bytes;
                return true;
            }
            if self.excess == Excess::Floods {
                return false;
            }
            load = self.waiting.changed.wait(load).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Passes on what is received on `line`, in a new thread, until its [`super::line::Writer`] is dropped.
///
/// A fast sender must not fill memory: a message that finds no room waits, or is skipped with everything after it.
pub fn listen(mut line: Line, inputs: Sender<Input>, room: Room) -> std::io::Result<JoinHandle<()>> {
    let work = move || {
        loop {
            let input = match line.receive(None) {
                Ok(message) if room.takes(&message) => Input::Message(message),
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
    use crate::control::{MOST_REQUEST_BYTES, PART_BYTES};

    const SOON: Duration = Duration::from_secs(60);

    #[test]
    fn who_says_more_than_may_wait_is_heard_no_more() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let line = Line::new(listener.accept().unwrap().0, MOST_REQUEST_BYTES).unwrap();
        let (inputs, incoming) = channel();
        let room = Room { most: 3, ..incoming.room(Excess::Floods) };
        let listening = listen(line, inputs, room).unwrap();
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
        let room = Room { most: 1, ..incoming.room(Excess::Floods) };
        for _ in 0..3 {
            assert!(room.takes(&Message::Stop) && !room.takes(&Message::Stop));
            inputs.send(Input::Message(Message::Stop)).unwrap();
            assert!(matches!(incoming.try_recv(), Ok(Input::Message(Message::Stop))));
        }
    }

    #[test]
    fn large_messages_need_more_room() {
        let part = Message::Part { from: 0, bytes: vec![0; PART_BYTES] };
        let (inputs, incoming) = channel();
        let room = incoming.room(Excess::Floods);
        let most = (0..).take_while(|_| room.takes(&part)).count();
        assert_eq!(most, MOST_WAITING_BYTES / part.memory_bytes());
        assert!(most >= 16, "a client requests 8 parts ahead");
        inputs.send(Input::Message(part.clone())).unwrap();
        assert!(incoming.try_recv().is_ok() && room.takes(&part) && !room.takes(&part));
    }

    #[test]
    fn who_may_wait_is_heard_to_the_end_in_little_memory() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let line = Line::new(listener.accept().unwrap().0, MOST_REQUEST_BYTES).unwrap();
        let (inputs, incoming) = channel();
        let room = Room { most: 3, ..incoming.room(Excess::Waits) };
        listen(line, inputs, room).unwrap();
        for sent_ns in 0..100 {
            stream.write_all(&Message::Clock { sent_ns }.emit()).unwrap();
        }
        drop(stream);
        for expected in 0..100 {
            let Ok(Input::Message(Message::Clock { sent_ns })) = incoming.recv_timeout(SOON) else {
                panic!()
            };
            assert_eq!(sent_ns, expected);
            assert!(incoming.waiting.lock().messages <= 3);
        }
        assert!(matches!(incoming.recv_timeout(SOON), Ok(Input::Gone(_))));
    }

    #[test]
    fn who_waits_for_nobody_ends() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let line = Line::new(listener.accept().unwrap().0, MOST_REQUEST_BYTES).unwrap();
        let (inputs, incoming) = channel();
        let room = Room { most: 1, ..incoming.room(Excess::Waits) };
        let listening = listen(line, inputs, room).unwrap();
        stream.write_all(&[Message::Stop.emit(), Message::Stop.emit()].concat()).unwrap();
        drop(incoming);
        listening.join().unwrap();
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
