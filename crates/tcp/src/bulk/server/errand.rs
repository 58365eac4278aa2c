//! A transfer with another server, as its client, for a third host.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::time::Duration;

use super::tape::{Order, STOPPED, Taken, Tape, Then, hand_over};
use super::{Broken, House, Place, ServerEvent, lock};
use crate::bulk::capture::Here;
use crate::bulk::client::{Client, ClientError, ClientEvent, ClientOptions, FetchOptions};
use crate::bulk::end::{Excess, Incoming, Input, channel, flooded, listen};
use crate::bulk::line::{Line, Writer};
use crate::bulk::transfer::Reading;
use crate::control::{Digest, Errand, Event, Message, Proof, Record, Request, Wish};
use crate::option::Setting;
use weir_clock::now_ns;

/// How long the third host may take for a proof, and to be noticed at all.
const PROVING: Duration = Duration::from_secs(15);
const LOOK: Duration = Duration::from_millis(20);
/// Time between two signs of life.
const ALIVE_NS: u64 = 5_000_000_000;
/// Allowance beyond a limit of time, for what is still in transit.
const GRACE_NS: u64 = 5_000_000_000;

/// Why a third host does not get the other server's packets.
pub const NOT_PASSED_ON: &str = "it passes no captures on; that needs weir tcp serve --allow-capture";

/// A third host that may have this done.
pub struct Principal {
    /// Its control connection.
    pub line: Line,
    /// Its request.
    pub errand: Box<Errand>,
    /// Its address.
    pub peer: SocketAddr,
}

/// The other server's challenge, and the ends of the connection by which it came: its own, and this one.
struct Question {
    nonce: Digest,
    needs_token: bool,
    request: Box<Request>,
    ends: (SocketAddr, SocketAddr),
}

/// The other server's capture in transit; dropping this removes the file.
///
/// It has its own folder: a thread that is still fetching it then cannot make it anew.
struct Passed {
    folder: PathBuf,
    file: PathBuf,
    /// This server's own limit.
    most_bytes: u64,
}

impl Passed {
    fn new(folder: PathBuf, most_bytes: u64) -> Self {
        // If that fails, so does the file, and the third host is told.
        let _ = fs::create_dir(&folder);
        Self { file: folder.join("capture.pcapng"), folder, most_bytes }
    }

    /// The result.
    fn taken(&self, found: Result<Box<Record>, String>) -> Taken {
        let record = found?;
        let file = File::open(&self.file).map_err(|e| format!("its capture cannot be read: {e}"))?;
        Ok((file, *record))
    }
}

impl Drop for Passed {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Carries a transfer out.
pub fn serve(principal: Principal, house: &Arc<House>) {
    let Principal { mut line, errand, peer } = principal;
    let place = match Place::take(house) {
        Ok(place) => place,
        Err(why) => {
            let _ = line.send(&Message::Refuse { why: why.clone() });
            house.tell(ServerEvent::Refused { peer, why });
            return;
        }
    };
    let number = house.transfers.fetch_add(1, SeqCst) + 1;
    let with = Some(format!("{} port {}", errand.host, errand.port));
    house.tell(ServerEvent::Began { number, peer, request: Box::new(errand.request.clone()), with });
    let mut moved = Moved::default();
    let begun_ns = now_ns();
    let failure = carry(line, &errand, house, number, &mut moved, place).err().unwrap_or_default();
    lock(&house.stopping).remove(&number);
    if let Some(found) = moved.recorded {
        house.tell(ServerEvent::Recorded { number, peer, found: found.map(Box::new) });
    }
    house.tell(ServerEvent::Ended {
        number,
        peer,
        received: moved.received,
        sent: moved.sent,
        lasted_ns: now_ns().saturating_sub(begun_ns),
        failure,
    });
}

/// Bytes that this host, as the client, has read and written, and what it has recorded of them.
#[derive(Default)]
struct Moved {
    received: u64,
    sent: u64,
    recorded: Option<Result<Record, String>>,
}

/// Returns why it ended early; the third host is told.
fn carry(
    line: Line,
    errand: &Errand,
    house: &Arc<House>,
    number: u64,
    moved: &mut Moved,
    place: Place<'_>,
) -> Result<(), String> {
    let mut writer = line.writer();
    let (inputs, incoming) = channel();
    listen(line, inputs.clone(), incoming.room(Excess::Floods)).map_err(|e| e.to_string())?;
    lock(&house.stopping).insert(number, inputs.clone());
    // A server that was stopped before this insertion has not told this transfer.
    if house.stop.load(SeqCst) {
        let _ = inputs.send(Input::Stop);
    }
    let told = go_between(errand, house, (&mut writer, &incoming), number, moved).and_then(|over| {
        let Over { last, ours, theirs } = over;
        // A client that sees the end of this one may begin another one at once, if no capture is in transit.
        let is_taken = |taken: &Option<Taken>| matches!(taken, Some(Ok(_)));
        let mut place = (is_taken(&ours) || is_taken(&theirs)).then_some(place);
        writer.send(&Message::Event(last)).map_err(|e| e.to_string())?;
        let why = |(Broken::Refused(why) | Broken::Gone(why))| why;
        if let Some(ours) = ours {
            let then = if theirs.is_some() { Then::More } else { Then::Free(place.take()) };
            moved.recorded = Some(hand_over(ours, then, &mut writer, &incoming).map_err(why)?);
        }
        if let Some(theirs) = theirs {
            // Its own server reports the capture.
            let _told = hand_over(theirs, Then::Free(place), &mut writer, &incoming).map_err(why)?;
        }
        Ok(())
    });
    if let Err(why) = &told {
        let _ = writer.send(&Message::Refuse { why: why.clone() });
    }
    told
}

/// A transfer at its end, which has not been reported to the third host yet.
struct Over {
    last: Event,
    /// This host's capture, if it is wanted.
    ours: Option<Taken>,
    /// The other server's, if it is wanted.
    theirs: Option<Taken>,
}

fn go_between(
    errand: &Errand,
    house: &Arc<House>,
    (writer, incoming): (&mut Writer, &Incoming),
    number: u64,
    moved: &mut Moved,
) -> Result<Over, String> {
    let (questions, asked) = mpsc::channel();
    let (proofs, proven) = mpsc::channel();
    let passed = passed(errand, house, number);
    let client = begin(errand, passed.as_ref(), questions, proven)?;
    let order = Order { wish: errand.capture, most_bytes: errand.capture_bytes, here: Here::Client };
    let (mut tape, mut theirs) = (None, None);
    let (mut lasting, mut said_ns) = (Lasting::default(), now_ns());
    let (mut is_asked, mut is_stopped) = (false, false);
    loop {
        let event = client.next_event(LOOK);
        while let Ok(Question { nonce, needs_token, request, ends }) = asked.try_recv() {
            // No data connection is made before it is answered.
            tape = Tape::begin(order, house, Ok(ends))?;
            is_asked = true;
            writer.send(&Message::Prove { nonce, needs_token, request }).map_err(|e| e.to_string())?;
        }
        if event.is_none() && now_ns().saturating_sub(said_ns) > ALIVE_NS {
            said_ns = now_ns();
            writer.send(&Message::Ready).map_err(|e| e.to_string())?;
        }
        loop {
            match incoming.try_recv() {
                Ok(Input::Message(Message::Proven { proof })) if std::mem::take(&mut is_asked) => {
                    let _ = proofs.send(proof);
                }
                Ok(Input::Message(Message::Stop)) => {
                    if !std::mem::replace(&mut is_stopped, true) {
                        client.stop();
                    }
                }
                Ok(Input::Message(_)) => return Err("that makes no sense here".to_owned()),
                Ok(Input::Stop | Input::Abort) => return Err(STOPPED.to_owned()),
                Ok(Input::Gone(why)) => return Err(why),
                Ok(Input::Flooded) => return Err(flooded()),
                Ok(Input::Ended) => {}
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
        }
        (moved.received, moved.sent) = (client.moved().received(), client.moved().sent());
        let options = &house.options;
        if options.most_bytes.is_some_and(|most| moved.received + moved.sent > most) {
            return Err("the transfer has more bytes than are allowed here".to_owned());
        }
        let elapsed_ns = lasting.until(now_ns(), client.moved().is_all());
        if is_too_long(elapsed_ns, options.most_ns) {
            return Err("the transfer lasts longer than is allowed here".to_owned());
        }
        if let Some(tape) = &mut tape {
            tape.look(elapsed_ns);
        }
        match event {
            None | Some(ClientEvent::Samples { .. }) => {}
            Some(ClientEvent::Recorded { found, .. }) => theirs = Some(found),
            Some(ClientEvent::Failed(error)) => return Err(said(&error)),
            Some(ClientEvent::Transfer(event)) => {
                if let Event::Started { since_1970_ns, connections, .. } = &event {
                    lasting.start_ns = Some(now_ns());
                    if let Some(tape) = &mut tape {
                        let ends: Vec<_> = connections.iter().map(|one| (one.local, one.remote)).collect();
                        tape.name(&ends);
                        tape.begun(*since_1970_ns);
                    }
                }
                if matches!(event, Event::Done { .. }) {
                    let ours = tape.map(Tape::taken);
                    let theirs = (errand.request.capture != Wish::None).then(|| match (&passed, theirs) {
                        (Some(passed), Some(found)) => passed.taken(found),
                        (Some(_), None) => Err("nothing was heard of it".to_owned()),
                        (None, _) => Err(NOT_PASSED_ON.to_owned()),
                    });
                    return Ok(Over { last: event, ours, theirs });
                }
                writer.send(&Message::Event(event)).map_err(|e| e.to_string())?;
                said_ns = now_ns();
            }
        }
    }
}

/// How long a transfer lasts: a capture that is fetched after it does not count.
#[derive(Default)]
struct Lasting {
    start_ns: Option<u64>,
    lasted_ns: Option<u64>,
}

impl Lasting {
    /// What it has lasted until `now_ns`, or in all where it `is_over`.
    fn until(&mut self, now_ns: u64, is_over: bool) -> u64 {
        let lasted_ns = self.start_ns.map_or(0, |start| now_ns.saturating_sub(start));
        if is_over { *self.lasted_ns.get_or_insert(lasted_ns) } else { lasted_ns }
    }
}

fn is_too_long(lasted_ns: u64, most_ns: Option<u64>) -> bool {
    most_ns.is_some_and(|most| lasted_ns > most.saturating_add(GRACE_NS))
}

/// Where the other server's capture goes meanwhile, if it is wanted and may be passed on.
fn passed(errand: &Errand, house: &House, number: u64) -> Option<Passed> {
    let options = house.options.capture.as_ref().filter(|_| errand.request.capture != Wish::None)?;
    let folder = options.recorder.folder().join(format!("passed-{number}"));
    Some(Passed::new(folder, options.most_bytes))
}

fn begin(
    errand: &Errand,
    passed: Option<&Passed>,
    questions: Sender<Question>,
    proven: Receiver<Proof>,
) -> Result<Client, String> {
    let options = ClientOptions {
        host: errand.host.clone(),
        port: errand.port,
        token: String::new(),
        request: errand.request.clone(),
        settings: Vec::new(),
        local: None,
        local_port: None,
        every_block: false,
        reading: Reading::default(),
        clocks: errand.clocks,
        via: None,
        fetch: passed.map(|passed| FetchOptions {
            file: passed.file.clone(),
            must: errand.request.capture == Wish::Must,
            most_bytes: errand.request.capture_bytes.min(passed.most_bytes),
        }),
        fetch_via: None,
    };
    let prover =
        move |nonce: &Digest, needs_token: bool, request: &Request, ends: (SocketAddr, SocketAddr)| {
            let late = |_| ClientError::Refused("nobody proved to know its token in time".to_owned());
            let question = Question { nonce: *nonce, needs_token, request: Box::new(request.clone()), ends };
            drop(questions.send(question));
            proven.recv_timeout(PROVING).map_err(late)
        };
    let mut options = options;
    if !options.request.congestion.is_empty() {
        options.settings.push(Setting::congestion(&options.request.congestion));
    }
    Client::start_with(options, Box::new(prover)).map_err(|e| e.to_string())
}

/// An error with its causes.
fn said(error: &ClientError) -> String {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("{error}{cause}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_passed_on_is_gone_with_its_transfer_and_cannot_be_made_later() {
        let folder = std::env::temp_dir().join(format!("weir-passed-{}", std::process::id()));
        let passed = Passed::new(folder.clone(), 1);
        let file = passed.file.clone();
        fs::write(&file, b"half of it").unwrap();
        drop(passed);
        assert!(!folder.exists());
        assert!(File::create_new(&file).is_err(), "whoever still fetches it comes too late");
    }

    #[test]
    fn what_is_fetched_after_a_transfer_takes_none_of_its_time() {
        let mut lasting = Lasting::default();
        assert_eq!(lasting.until(100, false), 0, "it has not begun");
        lasting.start_ns = Some(100);
        assert_eq!(lasting.until(400, false), 300);
        assert_eq!(lasting.until(500, true), 400);
        let later = lasting.until(u64::MAX, true);
        assert_eq!(later, 400);
        assert!(!is_too_long(later, Some(400)) && !is_too_long(u64::MAX, None));
        assert!(is_too_long(401 + GRACE_NS, Some(400)));
    }
}
