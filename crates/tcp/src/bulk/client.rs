//! The client: requests a transfer, takes part in it, reports what both ends saw.

mod connect;
mod errand;
mod error;
mod fetch;
mod quota;

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

pub use error::ClientError;
pub use fetch::FetchOptions;
use fetch::Unfetched;

use self::connect::{join, open, reach};
use self::error::system;
use self::quota::Quota;
use super::capture::Here;
use super::clock_identity;
use super::end::{Excess, Incoming, Input, Intervals, channel, flooded, listen};
use super::line::{Line, LineError, Writer};
use super::transfer::{BlockSample, Given, Reading, Transfer};
use crate::control::{
    Digest, Event, Flow, MOST_ANSWER_BYTES, Message, Preamble, Proof, Record, Request, prove,
};
use crate::option::Setting;
use weir_clock::{now_ns, realtime_to_monotonic_ns};

/// Time allowed for an answer that needs no work.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
/// Time allowed for a server's first message, which it sends unasked, beyond some times that connecting took.
const GREETING_TIMEOUT: Duration = Duration::from_secs(1);
const GREETING_CONNECTS: u32 = 10;
/// Exchanges of time before the transfer, while the path is still idle.
const CLOCK_EXCHANGES: usize = 8;
/// Time between two of them afterwards.
const CLOCK_EVERY_NS: u64 = 1_000_000_000;
/// Time beyond the interval within which a working server is heard from.
const SILENCE_NS: u64 = 30_000_000_000;
const LOOK: Duration = Duration::from_millis(500);
/// Events that wait for the user; then the transfer's reports wait, too.
const MOST_EVENTS: usize = 256;

/// What a client is to do.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Name or address of the server.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The token for its requests; empty for none.
    pub token: String,
    /// The transfer; its `host`, and what it wants of the server's packets, are filled in.
    pub request: Request,
    /// Set on the client's data connections before they are made.
    pub settings: Vec<Setting>,
    /// Address of this end.
    pub local: Option<IpAddr>,
    /// Port of the first data connection; the others follow.
    pub local_port: Option<u16>,
    /// Keep the kernel's state at every block.
    pub every_block: bool,
    /// How this end reads.
    pub reading: Reading,
    /// Query the server's clock, before the transfer and every second.
    pub clocks: bool,
    /// The server that is to be the client; None: this host is.
    pub via: Option<Via>,
    /// Have the server record the packets, and fetch them.
    pub fetch: Option<FetchOptions>,
    /// Have `via` record them, too.
    pub fetch_via: Option<FetchOptions>,
}

/// A server that is to be the client of another one.
#[derive(Clone, Debug)]
pub struct Via {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The token for its requests; empty for none.
    pub token: String,
}

/// The server's and the client's end of a control connection.
pub(super) type Ends = (SocketAddr, SocketAddr);

/// Proves to the server, by its nonce and whether it has a token, that its token is known.
pub(super) type Prover = Box<dyn FnOnce(&Digest, bool, &Request, Ends) -> Result<Proof, ClientError> + Send>;

fn prover(token: String) -> Prover {
    Box::new(move |nonce, needs_token, request, _| {
        if needs_token && token.is_empty() {
            return Err(ClientError::TokenNeeded);
        }
        Ok(prove(&token, nonce, request))
    })
}

/// What a client reports.
#[derive(Debug)]
pub enum ClientEvent {
    /// Of the transfer.
    Transfer(Event),
    /// The kernel's state at each block.
    Samples {
        /// The samples.
        samples: Vec<BlockSample>,
        /// Further ones for which there was no room.
        lost: u64,
    },
    /// A capture was fetched, or why there is none; before the end of a transfer that wants it.
    Recorded {
        /// Which end recorded it.
        of: Here,
        /// The capture.
        found: Result<Box<Record>, String>,
    },
    /// It ended early.
    Failed(ClientError),
}

/// Bytes that the client has moved so far.
#[derive(Debug, Default)]
pub(super) struct Moved {
    sent: AtomicU64,
    received: AtomicU64,
    all: AtomicBool,
}

impl Moved {
    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Relaxed)
    }

    pub(super) fn received(&self) -> u64 {
        self.received.load(Relaxed)
    }

    /// The transfer is over; its captures may still be on their way.
    pub(super) fn is_all(&self) -> bool {
        self.all.load(Relaxed)
    }

    fn take<'a>(&self, flows: impl Iterator<Item = &'a Flow>, up: u16) {
        let (mut sent, mut received) = (0, 0);
        for (number, flow) in (0..).zip(flows) {
            *(if number < up { &mut sent } else { &mut received }) += flow.bytes;
        }
        self.sent.store(sent, Relaxed);
        self.received.store(received, Relaxed);
    }
}

/// A running client, in its own threads.
#[derive(Debug)]
pub struct Client {
    inputs: Sender<Input>,
    events: Mutex<Receiver<ClientEvent>>,
    moved: Arc<Moved>,
}

impl Client {
    /// Starts.
    ///
    /// # Errors
    /// No thread can be made; everything else is [`ClientEvent::Failed`].
    pub fn start(options: ClientOptions) -> io::Result<Self> {
        let prover = prover(options.token.clone());
        Self::start_with(options, prover)
    }

    /// As [`Client::start`], if another host knows the token.
    pub(super) fn start_with(options: ClientOptions, prover: Prover) -> io::Result<Self> {
        let (inputs, incoming) = channel();
        let (outgoing, events) = mpsc::sync_channel(MOST_EVENTS);
        let for_threads = inputs.clone();
        let moved = Arc::new(Moved::default());
        let to_move = Arc::clone(&moved);
        let work = move || {
            let done = match options.via.clone() {
                None => run(options, prover, &outgoing, (&for_threads, &incoming), &to_move),
                Some(via) => errand::run(&options, &via, prover, &outgoing, &for_threads, &incoming),
            };
            if let Err(error) = done {
                let _ = outgoing.send(ClientEvent::Failed(error));
            }
        };
        thread::Builder::new().name("client".to_owned()).spawn(work)?;
        Ok(Self { inputs, events: Mutex::new(events), moved })
    }

    /// The next event, if one comes in time.
    #[must_use]
    pub fn next_event(&self, within: Duration) -> Option<ClientEvent> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(within).ok()
    }

    /// What it has moved, updated at least twice a second, whatever the interval of reports.
    pub(super) fn moved(&self) -> &Moved {
        &self.moved
    }

    /// Ends the transfer properly: [`Event::Done`] follows.
    pub fn stop(&self) {
        let _ = self.inputs.send(Input::Stop);
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.inputs.send(Input::Abort);
    }
}

fn run(
    options: ClientOptions,
    prover: Prover,
    events: &SyncSender<ClientEvent>,
    (inputs, incoming): (&Sender<Input>, &Incoming),
    moved: &Moved,
) -> Result<(), ClientError> {
    let request = Request {
        host: clock_identity().map_err(system("random numbers cannot be had"))?,
        capture: FetchOptions::wish(options.fetch.as_ref()),
        capture_bytes: options.fetch.as_ref().map_or(0, |fetch| fetch.most_bytes),
        ..options.request.clone()
    };
    let begun = Instant::now();
    let (mut control, to) = reach(&options.host, options.port, options.local)?;
    let greeting = GREETING_TIMEOUT + (begun.elapsed() * GREETING_CONNECTS).min(ANSWER_TIMEOUT);
    // Before the server does any work for it.
    open(to, &options.settings)?;
    let not_weir = |source| ClientError::NotWeir { to, source };
    control.write_all(&Preamble::Control.emit()).map_err(|e| not_weir(e.into()))?;
    let mut line = Line::new(control, MOST_ANSWER_BYTES).map_err(|e| not_weir(e.into()))?;
    let (session, same_clock) = ask(&mut line, prover, &request, greeting).map_err(|e| match e {
        Asked::Line(source) => not_weir(source),
        Asked::Client(error) => error,
    })?;

    let mut given = Vec::new();
    let mut connections = Vec::new();
    for index in 0..request.up + request.down {
        let (mut stream, joined) = join(&options, to, index)?;
        let lost = |source| ClientError::Connect { to, source };
        stream.write_all(&Preamble::Data { session, index }.emit()).map_err(lost)?;
        given.push(Given { stream: Arc::new(stream), sends: joined.up });
        connections.push(joined);
    }
    match line.receive(Some(ANSWER_TIMEOUT)) {
        Ok(Message::Ready) => {}
        Ok(Message::Refuse { why }) => return Err(ClientError::Refused(why)),
        Ok(_) => return Err(not_weir(LineError::Closed)),
        Err(source) => return Err(not_weir(source)),
    }

    let mut writer = line.writer();
    listen(line, inputs.clone(), incoming.room(Excess::Waits)).map_err(system("no thread can be made"))?;
    let lost = |why: String, after_ns| ClientError::Lost { why, after_ns };
    let mut quota = Quota::new(request.interval_ns);
    if options.clocks {
        exchange_clocks(&mut writer, incoming, events, &mut quota).map_err(|why| lost(why, 0))?;
    }
    writer.send(&Message::Go).map_err(|e| lost(e.to_string(), 0))?;
    let transfer = Transfer::start(given, &request, options.reading, same_clock, options.every_block, inputs)
        .map_err(system("the transfer cannot begin"))?;
    let since_1970_ns = transfer.start_ns().saturating_sub_signed(realtime_to_monotonic_ns());
    let happened = |event| drop(events.send(ClientEvent::Transfer(event)));
    happened(Event::Started { connections, same_clock, since_1970_ns });

    let mut intervals = Intervals::new(transfer.start_ns(), request.interval_ns, request.lasts_ns);
    let (mut open, mut answer, mut heard_ns) = (transfer.len(), None, 0);
    let (mut clock_ns, mut recorded) = (CLOCK_EVERY_NS, None::<Result<Record, String>>);
    let tell = |at_ns, transfer: &Transfer| {
        if options.every_block {
            let (samples, lost) = transfer.take_samples();
            let _ = events.send(ClientEvent::Samples { samples, lost });
        }
        happened(Event::Interval { of_server: false, at_ns, flows: transfer.flows() });
    };
    while open > 0 || answer.is_none() {
        match intervals.wait(incoming, LOOK) {
            Some(Input::Ended) => open -= 1,
            Some(Input::Abort) => return Ok(()),
            Some(Input::Stop) => {
                quota.stop(intervals.elapsed_ns());
                transfer.stop();
                let _ = writer.send(&Message::Stop);
            }
            Some(Input::Gone(why)) if answer.is_some() => {
                recorded.get_or_insert(Err(why));
            }
            Some(Input::Gone(why)) => return Err(lost(why, intervals.elapsed_ns())),
            Some(Input::Flooded) => return Err(lost(flooded(), intervals.elapsed_ns())),
            Some(Input::Message(message)) => {
                heard_ns = intervals.elapsed_ns();
                match message {
                    Message::Clocked { sent_ns, at_ns } => {
                        quota.answer(sent_ns, at_ns).map_err(ClientError::Protocol)?;
                        happened(Event::Clock { sent_ns, at_ns, heard_ns: now_ns() });
                    }
                    Message::Begun { start_ns } => {
                        quota.begin(start_ns).map_err(ClientError::Protocol)?;
                        happened(Event::Begun { server_ns: start_ns, client_ns: transfer.start_ns() });
                    }
                    Message::Interval { at_ns, flows }
                        if flows.len() == transfer.len() && answer.is_none() =>
                    {
                        quota.report(true, at_ns, heard_ns).map_err(ClientError::Protocol)?;
                        happened(Event::Interval { of_server: true, at_ns, flows });
                    }
                    Message::Done { totals } if totals.len() == transfer.len() && answer.is_none() => {
                        answer = Some(totals);
                    }
                    Message::Recorded { found }
                        if answer.is_some() && options.fetch.is_some() && recorded.is_none() =>
                    {
                        recorded = Some(found);
                    }
                    Message::Refuse { why } => return Err(ClientError::Refused(why)),
                    other => return Err(ClientError::Protocol(other.unexpected())),
                }
            }
            None => {}
        }
        moved.take(transfer.counts().iter(), request.up);
        if let Some(at_ns) = intervals.due() {
            tell(at_ns, &transfer);
        }
        if options.clocks && answer.is_none() && intervals.elapsed_ns() >= clock_ns {
            clock_ns = intervals.elapsed_ns() + CLOCK_EVERY_NS;
            // If the server is gone, its silence will tell.
            let sent_ns = now_ns();
            quota.ask(sent_ns);
            let _ = writer.send(&Message::Clock { sent_ns });
        }
        quota.check_end(intervals.elapsed_ns()).map_err(|why| lost(why, intervals.elapsed_ns()))?;
        let silent_ns = intervals.elapsed_ns().saturating_sub(heard_ns);
        if answer.is_none() && silent_ns > request.interval_ns.saturating_add(SILENCE_NS) {
            return Err(lost("nothing was heard for 30 s".into(), intervals.elapsed_ns()));
        }
    }
    tell(intervals.elapsed_ns(), &transfer);
    let (client, server) = (transfer.totals(), answer.unwrap_or_default());
    moved.take(client.iter().map(|total| &total.flow), request.up);
    moved.all.store(true, Relaxed);
    if let Some(wanted) = &options.fetch {
        let found = fetch::fetch(wanted, recorded, &mut writer, incoming).map_err(Unfetched::why);
        let _ = events.send(ClientEvent::Recorded { of: Here::Server, found: found.map(Box::new) });
    }
    happened(Event::Done { client, server, stopped: quota.has_stopped() });
    Ok(())
}

/// Asks for the server's time, one question after the other.
fn exchange_clocks(
    writer: &mut Writer,
    incoming: &Incoming,
    events: &SyncSender<ClientEvent>,
    quota: &mut Quota,
) -> Result<(), String> {
    for _ in 0..CLOCK_EXCHANGES {
        let sent_ns = now_ns();
        quota.ask(sent_ns);
        writer.send(&Message::Clock { sent_ns }).map_err(|e| e.to_string())?;
        match incoming.recv_timeout(ANSWER_TIMEOUT) {
            Ok(Input::Message(Message::Clocked { sent_ns, at_ns })) => {
                quota.answer(sent_ns, at_ns)?;
                let clock = Event::Clock { sent_ns, at_ns, heard_ns: now_ns() };
                let _ = events.send(ClientEvent::Transfer(clock));
            }
            Ok(Input::Gone(why) | Input::Message(Message::Refuse { why })) => return Err(why),
            Ok(Input::Stop | Input::Abort) => return Err("the user ended it".to_owned()),
            _ => return Err("it did not tell its time".to_owned()),
        }
    }
    Ok(())
}

enum Asked {
    Line(LineError),
    Client(ClientError),
}

impl From<LineError> for Asked {
    fn from(error: LineError) -> Self {
        Self::Line(error)
    }
}

/// Sends the request; returns the session, and whether the server has the clock of this host.
fn ask(
    line: &mut Line,
    prover: Prover,
    request: &Request,
    greeting: Duration,
) -> Result<([u8; 16], bool), Asked> {
    let refused = |why| Asked::Client(ClientError::Refused(why));
    let (nonce, needs_token) = match line.receive(Some(greeting))? {
        Message::Challenge { nonce, needs_token } => (nonce, needs_token),
        Message::Refuse { why } => return Err(refused(why)),
        _ => return Err(Asked::Line(LineError::Closed)),
    };
    let (client, server) = line.ends().map_err(LineError::from)?;
    let proof = prover(&nonce, needs_token, request, (server, client)).map_err(Asked::Client)?;
    line.send(&Message::Request { proof, request: request.clone() }).map_err(LineError::from)?;
    match line.receive(Some(ANSWER_TIMEOUT))? {
        Message::Accept { session, host } => Ok((session, host == request.host)),
        Message::Refuse { why } => Err(refused(why)),
        _ => Err(Asked::Line(LineError::Closed)),
    }
}
