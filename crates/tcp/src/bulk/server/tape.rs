//! What is recorded of one transfer, and handed over when the transfer has ended.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};

use super::House;
use crate::bulk::capture::{Recorded, Recording, Wanted};
use crate::bulk::end::Input;
use crate::bulk::line::{Line, Writer};
use crate::control::{Digest, Message, PART_BYTES, Record, Request, Wish};

/// How long a client may take to ask for the next part, and for all of them.
const NEXT: Duration = Duration::from_secs(15);
const ALL: Duration = Duration::from_secs(600);

/// What is recorded, or why it is not.
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
    /// Begins to record where `request` wants it; `None` where it does not.
    ///
    /// # Errors
    /// Why there can be no transfer then.
    pub fn begin(request: &Request, house: &House, line: &Line) -> Result<Option<Self>, String> {
        let state = match (request.capture, &house.options.capture) {
            (Wish::None, _) => return Ok(None),
            (_, None) => Err("it records no packets; that needs weir tcp serve --allow-capture".to_owned()),
            (_, Some(options)) => line.ends().map_err(|e| e.to_string()).and_then(|(server, client)| {
                let most_bytes = options.most_bytes.min(request.capture_bytes);
                options.recorder.begin(&Wanted { server, client, most_bytes })
            }),
        };
        let state = match state {
            Ok(recording) => State::Running(recording),
            Err(why) if request.capture == Wish::Must => return Err(why),
            Err(why) => State::Ended(Err(why)),
        };
        let most_ns = house.options.capture.as_ref().map_or(0, |options| options.most_ns);
        Ok(Some(Self { state, most_ns, ended_early: false, since_1970_ns: 0 }))
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

    /// Ends it, tells the client what there is, and sends the parts that it asks for until it goes away.
    ///
    /// Returns what there is, or why there is nothing.
    pub fn hand_over(
        mut self,
        writer: &mut Writer,
        incoming: &Receiver<Input>,
    ) -> std::io::Result<Result<Record, String>> {
        self.stop();
        let (ended_early, since_1970_ns) = (self.ended_early, self.since_1970_ns);
        let ended = match self.state {
            State::Ended(ended) => ended,
            State::Running(_) => unreachable!("it was stopped"),
        };
        let found = ended.and_then(|ended| {
            let (bytes, sha256) = sum(&ended.file).map_err(|e| format!("its capture cannot be read: {e}"))?;
            let Recorded { file, interface, packets, lost, left_out } = ended;
            let record =
                Record { bytes, sha256, interface, packets, lost, left_out, ended_early, since_1970_ns };
            Ok((file, record))
        });
        let told = found.as_ref().map(|(_, record)| record.clone()).map_err(Clone::clone);
        writer.send(&Message::Recorded { found: told.clone() })?;
        if let Ok((file, record)) = found {
            send_parts(&file, record.bytes, writer, incoming)?;
        }
        Ok(told)
    }
}

fn send_parts(
    file: &File,
    bytes: u64,
    writer: &mut Writer,
    incoming: &Receiver<Input>,
) -> std::io::Result<()> {
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
                writer.send(&Message::Part { from, bytes: part })?;
            }
            // It may have asked for the time before it knew of the end.
            Ok(Input::Message(Message::Clock { .. } | Message::Stop) | Input::Ended) => {}
            Ok(_) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

/// The size of a file, and what tells it from others.
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
