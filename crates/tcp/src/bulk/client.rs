//! The client: asks for a transfer, takes part in it, tells what both ends saw.

mod errand;

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use thiserror::Error;

use super::clock_identity;
use super::end::{Input, Intervals, listen};
use super::line::{Line, LineError, Writer};
use super::transfer::{BlockSample, Given, Transfer};
use crate::clock::{now_ns, since_1970_ns};
use crate::control::{Digest, Flow, MOST_ANSWER_BYTES, Message, Preamble, Proof, Request, Total, prove};
use crate::option::{OptionError, Setting, Value};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// For an answer that needs no work.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
/// Exchanges of time before the transfer, while the path is still idle.
const CLOCK_EXCHANGES: usize = 8;
/// Between two of them afterwards.
const CLOCK_EVERY_NS: u64 = 1_000_000_000;
/// Beyond the interval, in which a server that works is heard.
const SILENCE_NS: u64 = 30_000_000_000;
const LOOK: Duration = Duration::from_millis(500);

/// What a client is to do.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Name or address of the server.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// What it may ask for; empty for none.
    pub token: String,
    /// The transfer; its `host` is filled in.
    pub request: Request,
    /// Set on the client's data connections before they are made.
    pub settings: Vec<Setting>,
    /// Address of this end.
    pub local: Option<IpAddr>,
    /// Port of the first data connection; the others follow.
    pub local_port: Option<u16>,
    /// Keep the kernel's state at every block.
    pub every_block: bool,
    /// Ask for the server's clock, before the transfer and every second.
    pub clocks: bool,
    /// The server that is to be the client; None: this host is.
    pub via: Option<Via>,
}

/// A server that is to be the client of another one.
#[derive(Clone, Debug)]
pub struct Via {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// What it may ask for; empty for none.
    pub token: String,
}

/// Proves to the server, by its nonce and whether it has a token, that its token is known.
pub(super) type Prover = Box<dyn FnOnce(&Digest, bool, &Request) -> Result<Proof, ClientError> + Send>;

fn prover(token: String) -> Prover {
    Box::new(move |nonce, needs_token, request| {
        if needs_token && token.is_empty() {
            return Err(ClientError::TokenNeeded);
        }
        Ok(prove(&token, nonce, request))
    })
}

/// A data connection that was made.
#[derive(Clone, Debug)]
pub struct Joined {
    /// This end.
    pub local: SocketAddr,
    /// The server's.
    pub remote: SocketAddr,
    /// The client sends.
    pub up: bool,
    /// Its congestion control at this end.
    pub congestion: Option<Value>,
    /// What the kernel made of the settings, in their order.
    pub settings: Vec<Option<Value>>,
}

/// What happens to a client.
#[derive(Debug)]
pub enum ClientEvent {
    /// All connections are there.
    Started {
        /// They.
        connections: Vec<Joined>,
        /// Both ends have one clock, so that block latency can be told.
        same_clock: bool,
        /// The start, in ns since 1970.
        since_1970_ns: u64,
    },
    /// An exchange of time.
    Clock {
        /// When the question was sent, by this end's `CLOCK_MONOTONIC`.
        sent_ns: u64,
        /// The answer, by the server's.
        at_ns: u64,
        /// When that was heard.
        heard_ns: u64,
    },
    /// The server's end has begun.
    Begun {
        /// When, by its `CLOCK_MONOTONIC`.
        server_ns: u64,
        /// When this end did, by its own.
        client_ns: u64,
    },
    /// How far one end is.
    Interval {
        /// It is the server's view.
        of_server: bool,
        /// Since the start at that end.
        at_ns: u64,
        /// By connection.
        flows: Vec<Flow>,
    },
    /// The kernel's state at each block.
    Samples {
        /// They.
        samples: Vec<BlockSample>,
        /// More for which there was no room.
        lost: u64,
    },
    /// The end.
    Done {
        /// This end's view of each connection.
        client: Vec<Total>,
        /// The server's.
        server: Vec<Total>,
        /// The user ended it.
        stopped: bool,
    },
    /// It broke off.
    Failed(ClientError),
}

/// Why there was no transfer, or it broke off.
#[derive(Debug, Error)]
pub enum ClientError {
    /// No such host.
    #[error("the host {host} is not known")]
    Resolve {
        /// Its name.
        host: String,
        /// Why.
        source: io::Error,
    },
    /// Nobody answers.
    #[error("cannot connect to {to}")]
    Connect {
        /// The last address that was tried.
        to: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The local end cannot be had.
    #[error("the local end {local} cannot be used")]
    Local {
        /// It.
        local: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// A socket option.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// Somebody answers, but no Weir server.
    #[error("{to} does not answer as a Weir server does")]
    NotWeir {
        /// Who.
        to: SocketAddr,
        /// How.
        source: LineError,
    },
    /// A token is needed, and none was given.
    #[error("the server wants a token, and none was given")]
    TokenNeeded,
    /// The server that is to be the client wants a token, and none was given.
    #[error("{host}, which is to be the client, wants a token, and none was given")]
    ViaTokenNeeded {
        /// Its name.
        host: String,
    },
    /// The server does not do it, or no longer.
    #[error("the server refuses: {0}")]
    Refused(String),
    /// The server that is to be the client does not do it, or no longer.
    #[error("{host}, which is to be the client, says: {why}")]
    ViaRefused {
        /// Its name.
        host: String,
        /// Why.
        why: String,
    },
    /// It is gone.
    #[error("the server went away after {:.1} s: {why}", *.after_ns as f64 / 1e9)]
    Lost {
        /// What was noticed.
        why: String,
        /// Since the start.
        after_ns: u64,
    },
    /// Something in this host.
    #[error("{what}")]
    System {
        /// What failed.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
}

fn system(what: &'static str) -> impl FnOnce(io::Error) -> ClientError {
    move |source| ClientError::System { what, source }
}

/// A client at work, in threads of its own.
#[derive(Debug)]
pub struct Client {
    inputs: Sender<Input>,
    events: Mutex<Receiver<ClientEvent>>,
}

impl Client {
    /// Begins.
    ///
    /// # Errors
    /// No thread can be made; everything else is [`ClientEvent::Failed`].
    pub fn start(options: ClientOptions) -> io::Result<Self> {
        let prover = prover(options.token.clone());
        Self::start_with(options, prover)
    }

    /// As [`Client::start`], where somebody else knows the token.
    pub(super) fn start_with(options: ClientOptions, prover: Prover) -> io::Result<Self> {
        let (inputs, incoming) = mpsc::channel();
        let (outgoing, events) = mpsc::channel();
        let for_threads = inputs.clone();
        let work = move || {
            let done = match options.via.clone() {
                None => run(options, prover, &outgoing, &for_threads, &incoming),
                Some(via) => errand::run(&options, &via, prover, &outgoing, &for_threads, &incoming),
            };
            if let Err(error) = done {
                let _ = outgoing.send(ClientEvent::Failed(error));
            }
        };
        thread::Builder::new().name("client".to_owned()).spawn(work)?;
        Ok(Self { inputs, events: Mutex::new(events) })
    }

    /// The next event, if one comes in time.
    #[must_use]
    pub fn next_event(&self, within: Duration) -> Option<ClientEvent> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(within).ok()
    }

    /// Ends the transfer in good order: [`ClientEvent::Done`] follows.
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
    events: &Sender<ClientEvent>,
    inputs: &Sender<Input>,
    incoming: &Receiver<Input>,
) -> Result<(), ClientError> {
    let request = Request {
        host: clock_identity().map_err(system("random numbers cannot be had"))?,
        ..options.request.clone()
    };
    let (mut control, to) = reach(&options.host, options.port, options.local)?;
    // Before the server has any work with it.
    open(to, &options.settings)?;
    let not_weir = |source| ClientError::NotWeir { to, source };
    control.write_all(&Preamble::Control.emit()).map_err(|e| not_weir(e.into()))?;
    let mut line = Line::new(control, MOST_ANSWER_BYTES).map_err(|e| not_weir(e.into()))?;
    let (session, same_clock) = ask(&mut line, prover, &request).map_err(|e| match e {
        Asked::Line(source) => not_weir(source),
        Asked::Client(error) => error,
    })?;

    let mut given = Vec::new();
    let mut connections = Vec::new();
    for index in 0..request.up + request.down {
        let (mut stream, joined) = join(&options, to, index)?;
        let lost = |source| ClientError::Connect { to, source };
        stream.write_all(&Preamble::Data { session, index }.emit()).map_err(lost)?;
        given.push(Given { stream, sends: joined.up });
        connections.push(joined);
    }
    match line.receive(Some(ANSWER_TIMEOUT)) {
        Ok(Message::Ready) => {}
        Ok(Message::Refuse { why }) => return Err(ClientError::Refused(why)),
        Ok(_) => return Err(not_weir(LineError::Closed)),
        Err(source) => return Err(not_weir(source)),
    }

    let mut writer = line.writer().map_err(system("a connection cannot be shared"))?;
    listen(line, inputs.clone()).map_err(system("no thread can be made"))?;
    let lost = |why: String, after_ns| ClientError::Lost { why, after_ns };
    if options.clocks {
        exchange_clocks(&mut writer, incoming, events).map_err(|why| lost(why, 0))?;
    }
    writer.send(&Message::Go).map_err(|e| lost(e.to_string(), 0))?;
    let transfer = Transfer::start(given, &request, same_clock, options.every_block, inputs)
        .map_err(system("the transfer cannot begin"))?;
    let since_1970_ns = transfer.start_ns().saturating_add_signed(since_1970_ns());
    let _ = events.send(ClientEvent::Started { connections, same_clock, since_1970_ns });

    let mut intervals = Intervals::new(transfer.start_ns(), request.interval_ns, request.lasts_ns);
    let (mut open, mut stopped, mut answer, mut heard_ns) = (transfer.len(), false, None, 0);
    let mut clock_ns = CLOCK_EVERY_NS;
    let tell = |at_ns, transfer: &Transfer| {
        if options.every_block {
            let (samples, lost) = transfer.take_samples();
            let _ = events.send(ClientEvent::Samples { samples, lost });
        }
        let _ = events.send(ClientEvent::Interval { of_server: false, at_ns, flows: transfer.flows() });
    };
    while open > 0 || answer.is_none() {
        match intervals.wait(incoming, LOOK) {
            Some(Input::Ended) => open -= 1,
            Some(Input::Abort) => return Ok(()),
            Some(Input::Stop) => {
                stopped = true;
                transfer.stop();
                let _ = writer.send(&Message::Stop);
            }
            Some(Input::Gone(_)) if answer.is_some() => {}
            Some(Input::Gone(why)) => return Err(lost(why, intervals.elapsed_ns())),
            Some(Input::Message(message)) => {
                heard_ns = intervals.elapsed_ns();
                match message {
                    Message::Clocked { sent_ns, at_ns } => {
                        let _ = events.send(ClientEvent::Clock { sent_ns, at_ns, heard_ns: now_ns() });
                    }
                    Message::Begun { start_ns } => {
                        let client_ns = transfer.start_ns();
                        let _ = events.send(ClientEvent::Begun { server_ns: start_ns, client_ns });
                    }
                    Message::Interval { at_ns, flows } if flows.len() == transfer.len() => {
                        let _ = events.send(ClientEvent::Interval { of_server: true, at_ns, flows });
                    }
                    Message::Done { totals } if totals.len() == transfer.len() => answer = Some(totals),
                    Message::Refuse { why } => return Err(ClientError::Refused(why)),
                    _ => return Err(lost("it said what makes no sense here".into(), heard_ns)),
                }
            }
            None => {}
        }
        if let Some(at_ns) = intervals.due() {
            tell(at_ns, &transfer);
        }
        if options.clocks && answer.is_none() && intervals.elapsed_ns() >= clock_ns {
            clock_ns = intervals.elapsed_ns() + CLOCK_EVERY_NS;
            // If the server is gone, its silence will tell.
            let _ = writer.send(&Message::Clock { sent_ns: now_ns() });
        }
        let silent_ns = intervals.elapsed_ns().saturating_sub(heard_ns);
        if answer.is_none() && silent_ns > request.interval_ns.saturating_add(SILENCE_NS) {
            return Err(lost("nothing was heard for 30 s".into(), intervals.elapsed_ns()));
        }
    }
    tell(intervals.elapsed_ns(), &transfer);
    let (client, server) = (transfer.totals(), answer.unwrap_or_default());
    let _ = events.send(ClientEvent::Done { client, server, stopped });
    Ok(())
}

/// Asks for the server's time, one question after the other.
fn exchange_clocks(
    writer: &mut Writer,
    incoming: &Receiver<Input>,
    events: &Sender<ClientEvent>,
) -> Result<(), String> {
    for _ in 0..CLOCK_EXCHANGES {
        writer.send(&Message::Clock { sent_ns: now_ns() }).map_err(|e| e.to_string())?;
        match incoming.recv_timeout(ANSWER_TIMEOUT) {
            Ok(Input::Message(Message::Clocked { sent_ns, at_ns })) => {
                let _ = events.send(ClientEvent::Clock { sent_ns, at_ns, heard_ns: now_ns() });
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

/// Puts the request; the session, and whether the server has the clock of this host.
fn ask(line: &mut Line, prover: Prover, request: &Request) -> Result<([u8; 16], bool), Asked> {
    let refused = |why| Asked::Client(ClientError::Refused(why));
    let (nonce, needs_token) = match line.receive(Some(ANSWER_TIMEOUT))? {
        Message::Challenge { nonce, needs_token } => (nonce, needs_token),
        Message::Refuse { why } => return Err(refused(why)),
        _ => return Err(Asked::Line(LineError::Closed)),
    };
    let proof = prover(&nonce, needs_token, request).map_err(Asked::Client)?;
    line.send(&Message::Request { proof, request: request.clone() }).map_err(LineError::from)?;
    match line.receive(Some(ANSWER_TIMEOUT))? {
        Message::Accept { session, host } => Ok((session, host == request.host)),
        Message::Refuse { why } => Err(refused(why)),
        _ => Err(Asked::Line(LineError::Closed)),
    }
}

/// The control connection, over the first address of the host that answers.
fn reach(host: &str, port: u16, local: Option<IpAddr>) -> Result<(TcpStream, SocketAddr), ClientError> {
    let unknown = |source| ClientError::Resolve { host: host.to_owned(), source };
    let mut failure = unknown(io::Error::other("it has no address"));
    for to in (host, port).to_socket_addrs().map_err(unknown)? {
        if local.is_some_and(|local| local.is_ipv4() != to.is_ipv4()) {
            continue;
        }
        match connect(to, local, 0, &[]) {
            Ok(stream) => return Ok((stream, to)),
            Err(e) => failure = e,
        }
    }
    Err(failure)
}

/// A data connection, with everything that the user wants of it.
fn join(options: &ClientOptions, to: SocketAddr, index: u16) -> Result<(TcpStream, Joined), ClientError> {
    let port = options.local_port.map_or(0, |port| port.saturating_add(index));
    let stream = connect(to, options.local, port, &options.settings)?;
    let local = stream.local_addr().map_err(system("a connection has no end here"))?;
    let joined = Joined {
        local,
        remote: to,
        up: index < options.request.up,
        congestion: Setting::congestion("").effective(&stream),
        settings: options.settings.iter().map(|setting| setting.effective(&stream)).collect(),
    };
    Ok((stream, joined))
}

fn connect(
    to: SocketAddr,
    local: Option<IpAddr>,
    port: u16,
    settings: &[Setting],
) -> Result<TcpStream, ClientError> {
    let socket = open(to, settings)?;
    if local.is_some() || port != 0 {
        let any = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let local = SocketAddr::new(local.unwrap_or(any), port);
        // A port whose last connection ended a moment ago can be used again.
        let bound = socket.set_reuse_address(true).and_then(|()| socket.bind(&local.into()));
        bound.map_err(|source| ClientError::Local { local, source })?;
    }
    socket
        .connect_timeout(&to.into(), CONNECT_TIMEOUT)
        .map_err(|source| ClientError::Connect { to, source })?;
    Ok(socket.into())
}

/// A socket with everything that is to be set before it is connected.
fn open(to: SocketAddr, settings: &[Setting]) -> Result<Socket, ClientError> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))
        .map_err(system("no socket can be made"))?;
    for setting in settings {
        setting.set(&socket)?;
    }
    Ok(socket)
}
