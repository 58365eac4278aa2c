//! The capture of one transfer, handed over when the transfer has ended.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};

use super::{Broken, House, Place};
use crate::bulk::capture::{Here, Recorded, Recording, Wanted};
use crate::bulk::end::{Incoming, Input, flooded};
use crate::bulk::line::Writer;
use crate::control::{Digest, Message, PART_BYTES, Record, Wish};

/// How long a client may take to request the next part, and all of them.
const NEXT: Duration = Duration::from_secs(15);
const ALL: Duration = Duration::from_secs(600);

/// Why a transfer, or what follows it, ends early.
pub const STOPPED: &str = "the server was stopped";

/// A finished capture, or why there is none.
pub type Taken = Result<(File, Record), String>;

/// What a client wants recorded: whether, how much at most, and at which end.
#[derive(Clone, Copy)]
pub struct Order {
    pub wish: Wish,
    pub most_bytes: u64,
    pub here: Here,
}

/// What is recorded, or why nothing is.
pub struct Tape {
    state: State,
    most_ns: u64,
    ended_early: bool,
    /// The start of the transfer in ns since 1970.
    since_1970_ns: u64,
}

enum State {
    Running(Box<dyn Recording>),
    Ended(Result<Recorded, String>),
}

impl Tape {
    /// Starts recording if `order` says so; `None` if it does not.
    ///
    /// `ends`: the server's and the client's of the control connection.
    ///
    /// # Errors
    /// Why there can be no transfer then.
    pub fn begin(
        order: Order,
        house: &House,
        ends: io::Result<(SocketAddr, SocketAddr)>,
    ) -> Result<Option<Self>, String> {
        let state = match (order.wish, &house.options.capture) {
            (Wish::None, _) => return Ok(None),
            (_, None) => Err("it records no packets; that needs weir tcp serve --allow-capture".to_owned()),
            (_, Some(options)) => ends.map_err(|e| e.to_string()).and_then(|(server, client)| {
                let most_bytes = options.most_bytes.min(order.most_bytes);
                options.recorder.begin(&Wanted { server, client, here: order.here, most_bytes })
            }),
        };
        let state = match state {
            Ok(recording) => State::Running(recording),
            Err(why) if order.wish == Wish::Must => return Err(why),
            Err(why) => State::Ended(Err(why)),
        };
        let most_ns = house.options.capture.as_ref().map_or(0, |options| options.most_ns);
        Ok(Some(Self { state, most_ns, ended_early: false, since_1970_ns: 0 }))
    }

    /// The data connections, by their ends.
    pub fn name(&mut self, connections: &[(SocketAddr, SocketAddr)]) {
        if let State::Running(recording) = &mut self.state {
            recording.name(connections);
        }
    }

    /// The transfer has begun, at this time since 1970.
    pub const fn begun(&mut self, since_1970_ns: u64) {
        self.since_1970_ns = since_1970_ns;
    }

    /// Ends it when it has lasted as long as it may.
    pub fn look(&mut self, elapsed_ns: u64) {
        if elapsed_ns > self.most_ns && matches!(self.state, State::Running(_)) {
            self.ended_early = true;
            self.stop();
        }
    }

    fn stop(&mut self) {
        if let State::Running(recording) = &mut self.state {
            self.state = State::Ended(recording.stop());
        }
    }

    /// Ends it; returns the capture, or why there is none.
    pub fn taken(mut self) -> Taken {
        self.stop();
        let (ended_early, since_1970_ns) = (self.ended_early, self.since_1970_ns);
        let ended = match self.state {
            State::Ended(ended) => ended?,
            State::Running(_) => unreachable!("it was stopped"),
        };
        let (bytes, sha256) = sum(&ended.file).map_err(|e| format!("its capture cannot be read: {e}"))?;
        let Recorded { file, interface, packets, lost, left_out } = ended;
        Ok((file, Record { bytes, sha256, interface, packets, lost, left_out, ended_early, since_1970_ns }))
    }
}

/// What follows a capture.
pub enum Then<'a> {
    /// Another one.
    More,
    /// Nothing: a client that has all of it may begin another transfer at once, in this place.
    Free(Option<Place<'a>>),
}

/// Tells the client what was `taken`, and sends the parts that it requests, until it has had the last one or
/// is gone.
///
/// Returns the capture, or why there is none. The caller tells the client why it ended early.
pub fn hand_over(
    taken: Taken,
    then: Then<'_>,
    writer: &mut Writer,
    incoming: &Incoming,
) -> Result<Result<Record, String>, Broken> {
    let told = taken.as_ref().map(|(_, record)| record.clone()).map_err(Clone::clone);
    let place = match then {
        Then::Free(place) => place.filter(|_| told.is_ok()),
        Then::More => None,
    };
    writer.send(&Message::Recorded { found: told.clone() })?;
    if let Ok((file, record)) = taken {
        send_parts(&file, record.bytes, place, writer, incoming)?;
    }
    Ok(told)
}

fn send_parts(
    file: &File,
    bytes: u64,
    mut place: Option<Place<'_>>,
    writer: &mut Writer,
    incoming: &Incoming,
) -> Result<(), Broken> {
    if bytes == 0 {
        // Empty parts are never requested.
        return Ok(());
    }
    let due = Instant::now() + ALL;
    loop {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        match incoming.recv_timeout(left.min(NEXT)) {
            Ok(Input::Message(Message::Fetch { from })) if from < bytes => {
                let mut part = vec![0; (bytes - from).min(PART_BYTES as u64) as usize];
                file.read_exact_at(&mut part, from)?;
                let is_last = from + part.len() as u64 == bytes;
                if is_last {
                    drop(place.take());
                }
                writer.send(&Message::Part { from, bytes: part })?;
                if is_last {
                    return Ok(());
                }
            }
            // It may have asked for the time before it knew about the end.
            Ok(Input::Message(Message::Clock { .. } | Message::Stop) | Input::Ended) => {}
            Ok(Input::Flooded) => return Err(Broken::Refused(flooded())),
            Ok(Input::Stop | Input::Abort) => return Err(Broken::Refused(STOPPED.to_owned())),
            // No answer is expected: the client wants none of it, has what it wants, or is gone.
            Ok(_) | Err(_) => return Ok(()),
        }
    }
}

/// The size of a file, and its checksum.
fn sum(file: &File) -> std::io::Result<(u64, Digest)> {
    let (mut hash, mut at, mut buffer) = (Sha256::new(), 0, vec![0; PART_BYTES]);
    loop {
        let read = file.read_at(&mut buffer, at)?;
        if read == 0 {
            return Ok((at, hash.finalize().into()));
        }
        hash.update(&buffer[..read]);
        at += read as u64;
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::sync::mpsc::Sender;

    use super::*;
    use crate::bulk::end::channel;
    use crate::bulk::line::Line;
    use crate::control::MOST_ANSWER_BYTES;

    fn ends() -> (Line, Writer) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let server = Line::new(listener.accept().unwrap().0, 100).unwrap();
        (Line::new(client, MOST_ANSWER_BYTES).unwrap(), server.writer())
    }

    fn file_of(name: &str, bytes: &[u8]) -> File {
        let path = std::env::temp_dir().join(format!("weir-tape-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        let file = File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file
    }

    fn fetch(inputs: &Sender<Input>, from: u64) {
        inputs.send(Input::Message(Message::Fetch { from })).unwrap();
    }

    #[test]
    fn whoever_breaks_a_capture_off_leaves_the_reason_to_the_caller() {
        let flooded = "more than 256 of its messages wait for an answer";
        for (input, why) in [(Input::Flooded, flooded), (Input::Stop, "the server was stopped")] {
            let (mut client, mut writer) = ends();
            let heard = std::thread::spawn(move || std::iter::from_fn(|| client.receive(None).ok()).count());
            let (inputs, incoming) = channel();
            fetch(&inputs, 0);
            inputs.send(input).unwrap();
            let bytes = vec![7; PART_BYTES + 1];
            let taken = Ok((file_of(why, &bytes), Record { bytes: bytes.len() as u64, ..Record::default() }));
            let done = hand_over(taken, Then::Free(None), &mut writer, &incoming);
            assert_eq!(done, Err(Broken::Refused(why.to_owned())));
            drop(writer);
            assert_eq!(heard.join().unwrap(), 2, "the record and a part");
        }
    }

    #[test]
    fn the_second_capture_follows_at_once_when_the_first_is_declined_or_empty() {
        let (mut client, mut writer) = ends();
        let (inputs, incoming) = channel();
        let taken = |bytes: &[u8]| {
            Ok((file_of("declined", bytes), Record { bytes: bytes.len() as u64, ..Record::default() }))
        };
        for first in [&b"first"[..], b""] {
            if !first.is_empty() {
                fetch(&inputs, first.len() as u64);
            }
            assert!(hand_over(taken(first), Then::More, &mut writer, &incoming).unwrap().is_ok());
            fetch(&inputs, 0);
            assert!(hand_over(taken(b"second"), Then::Free(None), &mut writer, &incoming).unwrap().is_ok());
            for _ in 0..2 {
                assert!(matches!(client.receive(None), Ok(Message::Recorded { found: Ok(_) })));
            }
            let Ok(Message::Part { bytes, .. }) = client.receive(None) else { panic!() };
            assert_eq!(bytes, b"second");
        }
    }

    #[test]
    fn two_captures_are_handed_over_one_after_the_other() {
        let (mut client, mut writer) = ends();
        let (inputs, incoming) = channel();
        for (file, then) in [(&b"first"[..], Then::More), (&b"second"[..], Then::Free(None))] {
            fetch(&inputs, 0);
            let record = Record { bytes: file.len() as u64, ..Record::default() };
            let taken = Ok((file_of("both", file), record));
            assert!(hand_over(taken, then, &mut writer, &incoming).unwrap().is_ok());
            assert!(matches!(client.receive(None), Ok(Message::Recorded { found: Ok(_) })));
            let Ok(Message::Part { bytes, .. }) = client.receive(None) else { panic!() };
            assert_eq!(bytes, file);
        }
    }
}
