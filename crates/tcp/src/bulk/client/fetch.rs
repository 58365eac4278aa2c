//! The server's capture, fetched when the transfer has ended.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};

use crate::bulk::end::{Incoming, Input};
use crate::bulk::line::Writer;
use crate::control::{Message, PART_BYTES, Record, Wish};

/// Time until the server has closed the file and computed its checksum.
const RECORDED: Duration = Duration::from_secs(60);
/// Time for the next part, and for all of them.
const NEXT: Duration = Duration::from_secs(15);
const ALL: Duration = Duration::from_secs(600);
/// Parts that are requested ahead, so that a long round trip does not slow it down.
const AHEAD: u64 = 8;

/// The server's capture, if a client wants it.
#[derive(Clone, Debug)]
pub struct FetchOptions {
    /// A file that is made for it.
    pub file: PathBuf,
    /// No transfer without it.
    pub must: bool,
    /// The largest that is accepted.
    pub most_bytes: u64,
}

impl FetchOptions {
    /// What is requested from a server.
    pub(super) const fn wish(options: Option<&Self>) -> Wish {
        match options {
            None => Wish::None,
            Some(Self { must: true, .. }) => Wish::Must,
            Some(_) => Wish::IfAllowed,
        }
    }
}

/// Why a capture was not fetched, for people to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfetched {
    /// There is none, or it is not accepted; another one may follow.
    Without(String),
    /// It ended early: no other one follows, or it cannot be told from the rest of this one.
    BrokenOff(String),
}

impl Unfetched {
    /// Why.
    pub fn why(self) -> String {
        match self {
            Self::Without(why) | Self::BrokenOff(why) => why,
        }
    }
}

/// Fetches it; `told` is what the server has already said about it.
///
/// Returns why there is none, for people to read.
pub fn fetch(
    options: &FetchOptions,
    told: Option<Result<Record, String>>,
    writer: &mut Writer,
    incoming: &Incoming,
) -> Result<Record, Unfetched> {
    use Unfetched::{BrokenOff, Without};

    let found = match told {
        Some(told) => told,
        None => match next(incoming, RECORDED).map_err(BrokenOff)? {
            Message::Recorded { found } => found,
            _ => return Err(BrokenOff(senseless())),
        },
    };
    let record = found.map_err(Without)?;
    let refused = |e: std::io::Error| format!("it cannot be written here: {e}");
    let made = if record.bytes > options.most_bytes {
        Err(format!("it has {} bytes, {} are taken", record.bytes, options.most_bytes))
    } else {
        OpenOptions::new().write(true).create_new(true).open(&options.file).map_err(refused)
    };
    let mut file = match made {
        Ok(file) => file,
        Err(why) => {
            decline(&record, writer);
            return Err(Without(why));
        }
    };
    let (due, mut hash) = (Instant::now() + ALL, Sha256::new());
    let (mut have, mut asked) = (0, 0);
    while have < record.bytes {
        while asked < record.bytes && asked < have + AHEAD * PART_BYTES as u64 {
            // A server that takes no more questions may have said why.
            let is_asked = writer.send(&Message::Fetch { from: asked }).is_ok();
            asked = if is_asked { asked + PART_BYTES as u64 } else { record.bytes };
        }
        let left = due.saturating_duration_since(Instant::now());
        match next(incoming, NEXT.min(left)).map_err(BrokenOff)? {
            Message::Part { from, bytes }
                if from == have && bytes.len() as u64 == (record.bytes - have).min(PART_BYTES as u64) =>
            {
                file.write_all(&bytes).map_err(|e| BrokenOff(refused(e)))?;
                hash.update(&bytes);
                have += bytes.len() as u64;
            }
            _ => return Err(BrokenOff(senseless())),
        }
    }
    if hash.finalize()[..] == record.sha256 {
        Ok(record)
    } else {
        Err(Without("it was damaged on its way: its checksum is wrong".to_owned()))
    }
}

/// Requests what follows the end: then the server waits for no other request, and may go on to the next capture.
fn decline(record: &Record, writer: &mut Writer) {
    // Of an empty one it expects no request.
    if record.bytes > 0 {
        // If it is gone, the next step finds out.
        let _ = writer.send(&Message::Fetch { from: record.bytes });
    }
}

fn senseless() -> String {
    "it said what makes no sense here".to_owned()
}

/// The server's next message that is about the capture.
fn next(incoming: &Incoming, within: Duration) -> Result<Message, String> {
    let due = Instant::now() + within;
    loop {
        match incoming.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Ok(Input::Message(Message::Clocked { .. } | Message::Ready) | Input::Ended) => {}
            Ok(Input::Message(Message::Refuse { why })) => return Err(why),
            Ok(Input::Message(message)) => return Ok(message),
            Ok(Input::Gone(why)) => return Err(why),
            Ok(Input::Stop | Input::Abort) => return Err("the user ended it".to_owned()),
            Ok(Input::Flooded) => return Err("it says too much".to_owned()),
            Err(_) => return Err("it did not come in time".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::path::Path;

    use super::*;
    use crate::bulk::end::channel;
    use crate::bulk::line::Line;
    use crate::control::MOST_ANSWER_BYTES;

    /// What comes of a record when these messages come.
    fn fetched(file: &Path, record: Record, came: Vec<Input>) -> Result<Record, String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        // The other end takes what is asked for, and says nothing.
        let _other = listener.accept().unwrap();
        let mut writer = Line::new(stream, 100).unwrap().writer();
        let (inputs, incoming) = channel();
        for input in came {
            inputs.send(input).unwrap();
        }
        let options = FetchOptions { file: file.to_owned(), must: false, most_bytes: 1_000_000 };
        fetch(&options, Some(Ok(record)), &mut writer, &incoming).map_err(Unfetched::why)
    }

    fn record_of(bytes: &[u8]) -> Record {
        Record { bytes: bytes.len() as u64, sha256: Sha256::digest(bytes).into(), ..Record::default() }
    }

    fn part(from: usize, bytes: &[u8]) -> Input {
        Input::Message(Message::Part { from: from as u64, bytes: bytes.to_vec() })
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("weir-fetch-{}-{name}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        folder
    }

    #[test]
    fn parts_become_the_file_whose_checksum_is_told() {
        let folder = folder("whole");
        let bytes: Vec<u8> = (0..PART_BYTES + 5).map(|n| n as u8).collect();
        let (first, rest) = bytes.split_at(PART_BYTES);
        let clock = Input::Message(Message::Clocked { sent_ns: 1, at_ns: 2 });
        let came = vec![clock, part(0, first), part(PART_BYTES, rest)];
        let found = fetched(&folder.join("f"), record_of(&bytes), came);
        assert_eq!(found, Ok(record_of(&bytes)));
        assert_eq!(std::fs::read(folder.join("f")).unwrap(), bytes);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_server_of_a_capture_that_is_not_taken_waits_for_no_question() {
        let folder = folder("declined");
        std::fs::write(folder.join("there"), "").unwrap();
        for (name, most_bytes) in [("large", 9), ("there", 10)] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let mut server = Line::new(listener.accept().unwrap().0, MOST_ANSWER_BYTES).unwrap();
            let mut writer = Line::new(stream, 100).unwrap().writer();
            let (_inputs, incoming) = channel();
            let options = FetchOptions { file: folder.join(name), must: false, most_bytes };
            let told = Some(Ok(record_of(b"0123456789")));
            assert!(matches!(fetch(&options, told, &mut writer, &incoming), Err(Unfetched::Without(_))));
            drop(writer);
            assert_eq!(server.receive(None).unwrap(), Message::Fetch { from: 10 });
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn whatever_is_wrong_with_it_is_told() {
        let folder = folder("wrong");
        let record = || record_of(b"0123456789");
        let failure = |name: &str, record, came| fetched(&folder.join(name), record, came).unwrap_err();
        let damaged = failure("damaged", record(), vec![part(0, b"012345678x")]);
        assert_eq!(damaged, "it was damaged on its way: its checksum is wrong");
        let senseless = "it said what makes no sense here";
        assert_eq!(failure("short", record(), vec![part(0, b"0123")]), senseless);
        assert_eq!(failure("elsewhere", record(), vec![part(10, b"0123456789")]), senseless);
        assert_eq!(failure("gone", record(), vec![Input::Gone("it is gone".to_owned())]), "it is gone");
        assert_eq!(failure("stopped", record(), vec![Input::Stop]), "the user ended it");
        let large = Record { bytes: 1_000_001, ..record() };
        assert_eq!(failure("large", large, vec![]), "it has 1000001 bytes, 1000000 are taken");
        std::fs::write(folder.join("there"), "").unwrap();
        assert!(failure("there", record(), vec![]).starts_with("it cannot be written here"));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
