//! The near end: carries each connection that a program makes in a session of its own at that time, one that is open or
//! is opened for it. The program's connect() ends when the proxy has connected to the destination.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};
use thiserror::Error;
use weir_psock::io::{OpenError, Opening, Options, ParallelSocket, Report, Route, SocketError};
use weir_psock::session::SessionError;
use weir_psock::wire::{GreetingError, Reason};
use weir_tcp::diag::{Diag, Id};

use crate::held::Held;
use crate::house::{Door, Ended, House, LOOK, NO_THREAD, begin, connected, prepare};
use crate::idle::Idle;
use crate::order::{self, Numbering, Ticket};
use crate::packets::Refusal;
use crate::redirect::{Redirect, RedirectError, netns_cookie, ports};
use crate::rules::Rules;
use crate::seccomp::{SeccompError, Supervisor, Watch};
use crate::splice::{join, reset};
use crate::turns::Turns;
use crate::way::{Redirecting, Way};
use crate::wire::{REPLY_BYTES, Request, Status, WireError};

/// Connections to the proxy that sessions make and greet at one time; the proxy limits those that it does not know.
const MOST_STREAMS_OPENING: usize = 256;
/// How long a session waits for those before it, and then no longer; how long a proxy may have no room for it.
/// Nearly as long as TCP goes on trying (`net.ipv4.tcp_syn_retries`).
const TURN: Duration = Duration::from_secs(120);
/// Pause between two questions whether the program still waits.
const ASK: Duration = Duration::from_millis(500);
/// How long a request in a session that was idle is on its way at most, or four round trips.
const ON_ITS_WAY: Duration = Duration::from_millis(500);
/// Pause while there is no room.
const PAUSE: Duration = Duration::from_millis(10);

/// What is carried, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// To the proxy.
    pub routes: Vec<Route>,
    /// Of each session.
    pub options: Options,
    /// Destinations that are reached through the proxy; all others are reached directly.
    pub rules: Rules,
    /// If no session can be opened, destinations are reached directly.
    pub is_fallback: bool,
    /// Most connections that are carried at one time; further ones wait to be taken.
    pub most: usize,
}

/// Why there is no relay.
#[derive(Debug, Error)]
pub enum RelayError {
    /// The BPF programs.
    #[error(transparent)]
    Redirect(#[from] RedirectError),
    /// The seccomp filter.
    #[error(transparent)]
    Seccomp(#[from] SeccompError),
    /// Programs could not reach the relay.
    #[error("nothing can be reached at 127.0.0.1; ip link set lo up")]
    Loopback(#[source] io::Error),
    /// A system error in this host.
    #[error("{what}")]
    System {
        /// What failed.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
}

fn system(what: &'static str) -> impl FnOnce(io::Error) -> RelayError {
    move |source| RelayError::System { what, source }
}

/// Carries connections, in its own threads.
#[derive(Debug)]
pub struct Relay {
    door: Door,
    end: Arc<Finish>,
    watch: Option<Arc<Watch>>,
}

/// What every connection needs.
struct Carrier {
    settings: Settings,
    /// For sessions that are being opened.
    turns: Turns,
    numbering: Numbering,
    idle: Idle,
    /// None: whoever gives up is not noticed.
    diag: Option<Mutex<Diag>>,
}

impl Carrier {
    fn new(settings: Settings) -> Self {
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

/// State of the end.
#[derive(Debug, Default)]
struct Finish {
    /// The programs have ended.
    is_told: Arc<AtomicBool>,
    /// What they had begun is being carried.
    is_all: AtomicBool,
}

impl Relay {
    /// Starts carrying the connections that programs make in the calling thread's network namespace.
    ///
    /// # Errors
    /// [`RelayError`].
    pub fn start(way: Way<'_>, settings: Settings) -> Result<Self, RelayError> {
        let (first, only) =
            listen((Ipv4Addr::LOCALHOST, 0).into()).map_err(system("cannot listen on 127.0.0.1"))?;
        let mut queued = vec![only.map_err(RelayError::Loopback)?];
        let cookie =
            netns_cookie(&first).map_err(system("this kernel does not tell network namespaces apart"))?;
        let mut listeners = vec![first];
        // A host may be without IPv6.
        if let Ok((second, Ok(only))) = listen((Ipv6Addr::LOCALHOST, 0).into()) {
            listeners.push(second);
            queued.push(only);
        }
        let rules = &settings.rules;
        let redirecting = match way {
            Way::Bpf(cgroup) => Redirecting::Bpf(Redirect::attach(cgroup, cookie, &listeners, rules)?.into()),
            Way::Seccomp(watched) => {
                Redirecting::Seccomp(Supervisor::start(watched, cookie, ports(&listeners), rules.clone())?)
            }
        };
        let watch = match &redirecting {
            Redirecting::Bpf(_) => None,
            Redirecting::Seccomp(supervisor) => Some(supervisor.watch()),
        };
        let (house, end) = (House::new(settings.most), Arc::<Finish>::default());
        let for_thread = Arc::clone(&end);
        let work = move |house: &Arc<House>| {
            serve(redirecting, house, &Arc::new(Carrier::new(settings)), &for_thread);
            // Until here, they hold what comes.
            drop((listeners, queued));
        };
        let door = Door::open("psock accept", &house, work).map_err(system("no thread can be made"))?;
        Ok(Self { door, end, watch })
    }

    /// Whether programs under a seccomp filter are still running.
    #[must_use]
    pub fn watches(&self) -> bool {
        self.watch.as_ref().is_some_and(|watch| !watch.has_ended())
    }

    /// Threads of programs under a seccomp filter that could not be examined since the last call: they reach their
    /// destinations directly.
    #[must_use]
    pub fn unseen(&self) -> Vec<u32> {
        self.watch.as_ref().map(|watch| watch.unseen()).unwrap_or_default()
    }

    /// Open connections; after [`Relay::finish`] and before [`Relay::stop`] not 0 as long as one may wait to
    /// be taken.
    #[must_use]
    pub fn active(&self) -> usize {
        let house = &self.door.house;
        // In this order: what waited counts as active before it is known that nothing waits.
        let is_waiting =
            self.end.is_told.load(SeqCst) && !self.end.is_all.load(SeqCst) && !house.is_stopped();
        house.active().max(is_waiting.into())
    }

    /// Connections that have ended since the last call, in the order of their ends.
    #[must_use]
    pub fn ended(&self) -> Vec<Ended> {
        self.door.house.ended()
    }

    /// The programs have ended: what they sent is still delivered.
    pub fn finish(&self) {
        self.end.is_told.store(true, SeqCst);
    }

    /// Aborts everything that is open, and takes nothing more.
    pub fn stop(&self) {
        self.door.house.stop();
    }
}

/// A listener that answers no SYN, as its queue is full of one connection, which is never taken; with the other end of
/// that one.
pub fn listen(at: SocketAddr) -> io::Result<(TcpListener, io::Result<TcpStream>)> {
    let socket = Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP))?;
    if at.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // The sockets that connect from here to programs have the same port.
    socket.set_reuse_port(true)?;
    socket.bind(&at.into())?;
    socket.listen(0)?;
    let listener = TcpListener::from(socket);
    let only = listener.local_addr().and_then(TcpStream::connect);
    Ok((listener, only))
}

/// Has each connection carried that is held.
fn serve(mut redirecting: Redirecting, house: &Arc<House>, carrier: &Arc<Carrier>, end: &Arc<Finish>) {
    spare(house, carrier);
    let mut watched = libc::pollfd { fd: redirecting.fd(), events: libc::POLLIN, revents: 0 };
    while !house.is_stopped() {
        // What programs began before they ended waits by now.
        let is_last = end.is_told.load(SeqCst) && !end.is_all.load(SeqCst);
        let wait = if is_last { Duration::ZERO } else { LOOK };
        // SAFETY: one entry. An error is as if nothing had happened.
        let found = unsafe { libc::poll(&raw mut watched, 1, wait.as_millis() as libc::c_int) };
        if found > 0 && !redirecting.serve(watched.revents) {
            watched.fd = -1;
        }
        let is_all = loop {
            // What comes meanwhile waits.
            if !house.has_room() {
                thread::sleep(PAUSE);
                break false;
            }
            let Some(held) = redirecting.next() else { break found <= 0 };
            let (carrier, end) = (Arc::clone(carrier), Arc::clone(end));
            let ticket = carrier.numbering.ticket(held.to);
            take(house, held, move |house, held, ended| carry(house, &carrier, &end, held, ticket, ended));
        };
        for session in carrier.idle.ending(is_last && is_all) {
            // Without a thread, it is broken off.
            let _ = house.apart(move |house| {
                let _ = house.close(&session);
                None
            });
        }
        if is_last && is_all {
            end.is_all.store(true, SeqCst);
        }
    }
}

/// Has a connection carried in a new thread; if that is not possible, the program sees that it failed.
fn take(
    house: &Arc<House>,
    held: Held,
    carry: impl FnOnce(&Arc<House>, Held, Ended) -> Ended + Send + 'static,
) {
    let ended = Ended::new(held.from, Some(held.to));
    let begun = ended.clone();
    // Dropped with its work, the connection is refused.
    if !house.apart(move |house| Some(carry(house, held, begun))) {
        house.tell(ended.failed(NO_THREAD));
    }
}

/// Carries a connection to its end.
fn carry(
    house: &Arc<House>,
    carrier: &Arc<Carrier>,
    end: &Finish,
    held: Held,
    ticket: Ticket,
    mut ended: Ended,
) -> Ended {
    let mut patience = Patience { house, carrier, held: &held, asked: Instant::now() };
    let found = match connect(&mut patience, &ticket) {
        Err(Failed::Open(problem)) if carrier.settings.is_fallback && has_no_psock(&problem) => {
            ended.is_direct = true;
            directly(&mut patience).map(Far::Direct)
        }
        found => found.map(|(session, before)| Far::Session(session, Box::new(before))),
    };
    spare(house, carrier);
    // It is made, or will not be.
    drop(ticket);
    let far = match found {
        Ok(far) => far,
        Err(Failed::GaveUp) => return Ended { is_reset: true, ..ended },
        Err(failed) => {
            match failed.refusal() {
                Some(refusal) => held.refuse(refusal),
                // Whoever gets no answer goes on asking, until its own time is over.
                None => {
                    let until = Instant::now() + TURN;
                    while Instant::now() < until && patience.lasts().is_ok() {
                        thread::sleep(LOOK);
                    }
                }
            }
            return ended.failed(failed.in_words());
        }
    };
    let Ok(stream) = held.accept().and_then(|stream| prepare(&stream).map(|()| stream)) else {
        far.reset();
        return Ended { is_reset: true, ..ended };
    };
    match far {
        Far::Session(session, before) => {
            if house.carry(&session, stream, &end.is_told, true, &before, &mut ended)
                && let Some(oldest) = carrier.idle.keep(session)
            {
                // It carries nothing; and this connection has ended well.
                let _ = house.close(&oldest);
            }
        }
        Far::Direct(direct) => {
            // Once the programs have ended, this system does the rest, as for any program.
            let mut goes_on = |is_given| !(house.is_stopped() || is_given && end.is_told.load(SeqCst));
            let (result, [sent, received]) = join([&stream, &direct], &mut goes_on);
            (ended.sent_bytes, ended.received_bytes) = (sent, received);
            ended.is_reset = result.is_err();
            if house.is_stopped() {
                "it was stopped".clone_into(&mut ended.failure);
            }
        }
    }
    ended
}

/// Has a session opened that waits for a connection, unless one does.
fn spare(house: &Arc<House>, carrier: &Arc<Carrier>) {
    let idle = &carrier.idle;
    if carrier.turns.is_crowded() || !idle.begin_opening() {
        return;
    }
    let (house, carrier) = (Arc::clone(house), Arc::clone(carrier));
    let open = move || {
        let lasts = || !house.is_stopped() && !carrier.idle.is_over();
        match open(&carrier, &mut || if lasts() { Ok(()) } else { Err(Failed::Stopped) }) {
            Ok(session) => {
                if let Some(session) = carrier.idle.keep(session) {
                    let _ = house.close(&session);
                }
            }
            Err(failed) if failed.has_no_room() => carrier.idle.refuse(),
            // The next connection says why.
            Err(_) => {}
        }
        carrier.idle.end_opening();
    };
    // If there is no thread now, there is no spare session later either.
    let _ = thread::Builder::new().name("psock spare".to_owned()).spawn(open);
}

/// How long a connection may take: as long as the program waits for it.
struct Patience<'a> {
    house: &'a House,
    carrier: &'a Carrier,
    held: &'a Held,
    asked: Instant,
}

impl Patience<'_> {
    fn lasts(&mut self) -> Result<(), Failed> {
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
enum Far {
    /// With its report before the request.
    Session(ParallelSocket, Box<Report>),
    Direct(TcpStream),
}

impl Far {
    fn reset(&self) {
        match self {
            Self::Session(session, _) => session.abort(),
            Self::Direct(stream) => reset(stream),
        }
    }
}

/// A connection without a session.
fn directly(patience: &mut Patience<'_>) -> Result<TcpStream, Failed> {
    let socket = begin(patience.held.to)?;
    let stream = connected(socket, || patience.lasts())?;
    prepare(&stream)?;
    Ok(stream)
}

/// A session whose other end has connected to the destination. While the proxy has no room, it is tried again.
fn connect(patience: &mut Patience<'_>, ticket: &Ticket) -> Result<(ParallelSocket, Report), Failed> {
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
enum Failed {
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
    const fn has_no_room(&self) -> bool {
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
    fn refusal(&self) -> Option<Refusal> {
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
    fn in_words(&self) -> String {
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
fn open(carrier: &Carrier, lasts: &mut dyn FnMut() -> Result<(), Failed>) -> Result<ParallelSocket, Failed> {
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
const fn has_no_psock(problem: &OpenError) -> bool {
    match problem {
        OpenError::Greeting { source, .. } => {
            matches!(source, GreetingError::NotPsock | GreetingError::Version(_))
        }
        OpenError::Silent { .. } | OpenError::Connect { .. } => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
