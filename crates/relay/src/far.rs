//! What a connection is carried to: a session whose other end has connected to the destination, or a connection without
//! one.

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use thiserror::Error;
use weir_psock::io::{OpenError, Opening, ParallelSocket, Report, SocketError};
use weir_psock::session::SessionError;
use weir_psock::wire::{GreetingError, Reason};
use weir_tcp::diag::{Diag, Id};

use crate::held::Held;
use crate::house::{House, LOOK, begin, connected, prepare};
use crate::idle::Idle;
use crate::order::{self, Numbering, Ticket};
use crate::packets::Refusal;
use crate::relay::Settings;
use crate::splice::reset;
use crate::turns::Turns;
use crate::wire::{REPLY_BYTES, Request, Status, WireError};

/// How long a session waits for those before it, and then no longer; how long a proxy may have no room for it.
/// Nearly as long as TCP goes on trying (`net.ipv4.tcp_syn_retries`).
pub(crate) const TURN: Duration = Duration::from_secs(120);
/// Connections to the proxy that sessions make and greet at one time; the proxy limits those that it does not know.
const MOST_STREAMS_OPENING: usize = 256;
/// Pause between two questions whether the program still waits.
const ASK: Duration = Duration::from_millis(500);
/// How long a request in a session that was idle is on its way at most, or four round trips.
const ON_ITS_WAY: Duration = Duration::from_millis(500);

/// What every connection needs.
pub(crate) struct Carrier {
    pub(crate) settings: Settings,
    /// For sessions that are being opened.
    pub(crate) turns: Turns,
    pub(crate) numbering: Numbering,
    pub(crate) idle: Idle,
    /// None: whoever gives up is not noticed.
    pub(crate) diag: Option<Mutex<Diag>>,
}

impl Carrier {
    pub(crate) fn new(settings: Settings) -> Self {
        let turns = Turns::new((MOST_STREAMS_OPENING / settings.routes.len().max(1)).max(1));
        let diag = working_diag().map(Mutex::new);
        Self { settings, turns, numbering: Numbering::default(), idle: Idle::default(), diag }
    }
}

/// What asks the kernel for connections, if it knows them: without its module, it answers that there is none.
fn working_diag() -> Option<Diag> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
    let known = TcpStream::connect(listener.local_addr().ok()?).ok()?;
    let (local, remote) = (known.local_addr().ok()?, known.peer_addr().ok()?);
    let mut diag = Diag::open().ok()?;
    let id = Id { local, remote, interface: 0, cookie: Id::ANY_COOKIE };
    matches!(diag.one(&id), Ok(Some(_))).then_some(diag)
}

/// How long a connection may take: as long as the program waits for it.
pub(crate) struct Patience<'a> {
    pub(crate) house: &'a House,
    pub(crate) carrier: &'a Carrier,
    pub(crate) held: &'a Held,
    pub(crate) asked: Instant,
}

impl Patience<'_> {
    pub(crate) fn lasts(&mut self) -> Result<(), Failed> {
        if self.house.is_stopped() {
            return Err(Failed::Stopped);
        }
        if let Some(diag) = &self.carrier.diag
            && self.asked.elapsed() > ASK
        {
            self.asked = Instant::now();
            if !self.held.is_waiting(&mut diag.lock().unwrap_or_else(PoisonError::into_inner)) {
                return Err(Failed::GaveUp);
            }
        }
        Ok(())
    }
}

/// What a connection is carried to.
pub(crate) enum Far {
    /// With its report before the request.
    Session(ParallelSocket, Box<Report>),
    Direct(TcpStream),
}

impl Far {
    pub(crate) fn reset(&self) {
        match self {
            Self::Session(session, _) => session.abort(),
            Self::Direct(stream) => reset(stream),
        }
    }
}

/// A connection without a session.
pub(crate) fn directly(patience: &mut Patience<'_>) -> Result<TcpStream, Failed> {
    let socket = begin(patience.held.to)?;
    let stream = connected(socket, || patience.lasts())?;
    prepare(&stream)?;
    Ok(stream)
}

/// A session whose other end has connected to the destination. While the proxy has no room, it is tried again.
pub(crate) fn connect(
    patience: &mut Patience<'_>,
    ticket: &Ticket,
) -> Result<(ParallelSocket, Report), Failed> {
    let (begun, carrier) = (Instant::now(), patience.carrier);
    loop {
        while let Some(session) = carrier.idle.take() {
            match request(patience, &session, ticket, true) {
                Err(Failed::Unheard) => drop(carrier.idle.expired(Duration::ZERO)),
                Err(failed) if failed.has_no_room() => carrier.idle.refuse(),
                // The other end has closed it meanwhile.
                Err(Failed::Session(_) | Failed::Wire(WireError::NotProxy)) => {}
                result => return result.map(|before| (session, before)),
            }
        }
        let opened = open(carrier, &mut || patience.lasts());
        match opened
            .and_then(|session| request(patience, &session, ticket, false).map(|before| (session, before)))
        {
            Err(failed) if (failed.has_no_room() || failed.is_broken_off()) && begun.elapsed() < TURN => {
                if failed.has_no_room() {
                    carrier.idle.refuse();
                }
                patience.lasts()?;
                thread::sleep(LOOK);
            }
            result => return result,
        }
    }
}

/// Has the proxy connect to the destination. The path of a session that `was_idle` may be gone, and nobody was told.
/// Returns the session's report before.
fn request(
    patience: &mut Patience<'_>,
    session: &ParallelSocket,
    ticket: &Ticket,
    was_idle: bool,
) -> Result<Report, Failed> {
    let before = session.report();
    let acked_bytes = session.acked_bytes();
    let to = patience.held.to;
    let send = |position| session.write_all(&Request { to, position }.emit());
    ticket.send(order::PATIENCE, send).map_err(Failed::Session)?;
    // The other end may be slow; its TCP is not.
    let srtt_ns = before.streams.iter().map(|stream| stream.srtt_ns).max().unwrap_or_default();
    let on_its_way = ON_ITS_WAY.max(4 * Duration::from_nanos(srtt_ns));
    let sent = Instant::now();
    let (mut reply, mut have) = ([0; REPLY_BYTES], 0);
    while have < REPLY_BYTES {
        match session.read(&mut reply[have..], Some(LOOK)) {
            Ok(0) => return Err(WireError::NotProxy.into()),
            Ok(len) => have += len,
            Err(SocketError::TimedOut) => {
                let is_late = was_idle && sent.elapsed() >= on_its_way;
                if is_late && session.acked_bytes() <= acked_bytes {
                    return Err(Failed::Unheard);
                }
                patience.lasts()?;
            }
            Err(e) => return Err(Failed::Session(e)),
        }
    }
    match Status::parse(&reply)? {
        Status::Connected => Ok(before),
        refusal => Err(Failed::Refused(refusal)),
    }
}

/// Why there is no connection.
#[derive(Debug, Error)]
pub(crate) enum Failed {
    #[error("{0}")]
    Open(#[source] OpenError),
    #[error("it was stopped")]
    Stopped,
    #[error("the program gave up")]
    GaveUp,
    #[error("the proxy has not received the request")]
    Unheard,
    #[error(transparent)]
    Session(SocketError),
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error(transparent)]
    Refused(Status),
    #[error(transparent)]
    Local(#[from] io::Error),
}

impl Failed {
    /// The proxy carries as many sessions as it may.
    pub(crate) const fn has_no_room(&self) -> bool {
        match self {
            Self::Refused(status) => matches!(status, Status::Full),
            Self::Open(OpenError::Greeting { source, .. }) => matches!(source, GreetingError::Full),
            _ => false,
        }
    }

    /// The proxy has closed a new session: it makes room where a request is long in coming, as from a busy host.
    const fn is_broken_off(&self) -> bool {
        matches!(self, Self::Session(SocketError::Session(SessionError::Aborted(Reason::Closed))))
    }

    /// What the program's connect() fails with; `None`: nothing answers.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Refused(Status::Late) => None,
            Self::Refused(Status::Refused) => Some(Refusal::Refused),
            Self::Refused(Status::NoRoute) => Some(Refusal::NetworkUnreachable),
            Self::Local(e) => match e.kind() {
                io::ErrorKind::TimedOut => None,
                io::ErrorKind::ConnectionRefused => Some(Refusal::Refused),
                io::ErrorKind::NetworkUnreachable => Some(Refusal::NetworkUnreachable),
                _ => Some(Refusal::HostUnreachable),
            },
            _ => Some(Refusal::HostUnreachable),
        }
    }

    /// With its cause.
    pub(crate) fn in_words(&self) -> String {
        match self {
            Self::Open(problem) => match std::error::Error::source(problem) {
                Some(cause) => format!("{problem}: {cause}"),
                None => problem.to_string(),
            },
            _ => self.to_string(),
        }
    }
}

/// A new session, as long as it `lasts`.
pub(crate) fn open(
    carrier: &Carrier,
    lasts: &mut dyn FnMut() -> Result<(), Failed>,
) -> Result<ParallelSocket, Failed> {
    let Carrier { settings, turns, .. } = carrier;
    let _turn = turns.take(TURN, LOOK, || lasts().is_ok());
    lasts()?;
    let mut opening = Opening::start(&settings.routes, &settings.options, None).map_err(Failed::Open)?;
    loop {
        match opening.wait(Some(LOOK)) {
            Ok(found) => return found.map_err(Failed::Open),
            Err(still) => opening = still,
        }
        lasts()?;
    }
}

/// Whether nothing that speaks the protocol is where the proxy should be.
pub(crate) const fn has_no_psock(problem: &OpenError) -> bool {
    match problem {
        OpenError::Greeting { source, .. } => {
            matches!(source, GreetingError::NotPsock | GreetingError::Version(_))
        }
        OpenError::Silent { .. } | OpenError::Connect { .. } => true,
        _ => false,
    }
}
