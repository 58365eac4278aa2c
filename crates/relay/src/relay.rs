//! The near end: takes the connections of programs, and carries each in its own session.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};
use thiserror::Error;
use weir_psock::io::{OpenError, Opening, Options, ParallelSocket, Route};
use weir_psock::wire::GreetingError;

use crate::house::{CONNECT, Door, Ended, House, LOOK, NO_THREAD, prepare};
use crate::order::{self, Numbering, Ticket};
use crate::redirect::{Redirect, RedirectError, netns_cookie};
use crate::rules::Rules;
use crate::seccomp::{SeccompError, Supervisor, Watch};
use crate::splice::End;
use crate::turns::Turns;
use crate::way::{Redirecting, Way};
use crate::wire::{REPLY_BYTES, Request, Status, WireError};

/// Connections that wait to be taken: the kernel's own limit (net.core.somaxconn).
pub const BACKLOG: i32 = 4096;
/// Connections to the proxy that sessions make and greet at one time; the proxy limits those that it does not know.
const MOST_STREAMS_OPENING: usize = 256;
/// How long a session waits for those before it, and then no longer; how long a proxy may have no room for it.
/// Nearly as long as TCP goes on trying (`net.ipv4.tcp_syn_retries`).
const TURN: Duration = Duration::from_secs(120);
/// Time within which the proxy must have answered: it tries to connect for 10 s.
const PATIENCE: Duration = Duration::from_secs(20);
/// Once the programs have ended and the destination has everything: time until it must have ended its direction.
const LINGER: Duration = Duration::from_secs(5);
/// Pause after an error of accept(2), usually too many open files, or while there is no room.
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

/// Carries each connection in a session of its own.
struct Carrier {
    settings: Settings,
    /// For sessions that are being opened.
    turns: Turns,
    numbering: Numbering,
}

impl Carrier {
    fn new(settings: Settings) -> Self {
        let turns = Turns::new((MOST_STREAMS_OPENING / settings.routes.len().max(1)).max(1));
        Self { settings, turns, numbering: Numbering::default() }
    }
}

/// State of the end.
#[derive(Debug, Default)]
struct Finish {
    /// The programs have ended.
    is_told: AtomicBool,
    /// What they had begun is being carried.
    is_all: AtomicBool,
}

impl Relay {
    /// Starts carrying the connections that programs make in the calling thread's network namespace.
    ///
    /// # Errors
    /// [`RelayError`].
    pub fn start(way: Way<'_>, settings: Settings) -> Result<Self, RelayError> {
        let first = listen((Ipv4Addr::LOCALHOST, 0).into()).map_err(system("cannot listen on 127.0.0.1"))?;
        let at = first.local_addr().map_err(system("the socket has no address"))?;
        // Noted nowhere, this connection is closed again.
        drop(TcpStream::connect(at).map_err(RelayError::Loopback)?);
        // A host may be without IPv6.
        let second = listen((Ipv6Addr::LOCALHOST, 0).into()).ok();
        let port = |listener: &TcpListener| listener.local_addr().map_or(0, |at| at.port());
        let ports = [at.port(), second.as_ref().map_or(0, port)];
        let cookie =
            netns_cookie(&first).map_err(system("this kernel does not tell network namespaces apart"))?;
        let rules = &settings.rules;
        let redirecting = match way {
            Way::Bpf(cgroup) => Redirecting::Bpf(Redirect::attach(cgroup, cookie, ports, rules)?),
            Way::Seccomp(watched) => {
                Redirecting::Seccomp(Supervisor::start(watched, cookie, ports, rules.clone())?)
            }
        };
        let watch = match &redirecting {
            Redirecting::Bpf(_) => None,
            Redirecting::Seccomp(supervisor) => Some(supervisor.watch()),
        };
        let listeners: Vec<_> = [Some(first), second].into_iter().flatten().collect();
        let (house, end) = (House::new(settings.most), Arc::<Finish>::default());
        let for_thread = Arc::clone(&end);
        let work = move |house: &Arc<House>| {
            accept(&listeners, redirecting, house, &Arc::new(Carrier::new(settings)), &for_thread)
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

    /// The programs have ended: what they sent is still delivered, and then destinations have 5 s to end their
    /// direction.
    pub fn finish(&self) {
        self.end.is_told.store(true, SeqCst);
    }

    /// Aborts everything that is open, and takes nothing more.
    pub fn stop(&self) {
        self.door.house.stop();
    }
}

fn listen(at: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP))?;
    if at.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&at.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn accept(
    listeners: &[TcpListener],
    mut redirecting: Redirecting,
    house: &Arc<House>,
    carrier: &Arc<Carrier>,
    end: &Arc<Finish>,
) {
    let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let watched = [redirecting.fd()].into_iter();
    let mut fds: Vec<_> = watched.chain(listeners.iter().map(AsRawFd::as_raw_fd)).map(entry).collect();
    while !house.is_stopped() {
        // What programs began before they ended waits by now.
        let is_last = end.is_told.load(SeqCst) && !end.is_all.load(SeqCst);
        // While there is no room, what comes waits.
        let is_full = !house.has_room();
        let wait = if is_full {
            PAUSE
        } else if is_last {
            Duration::ZERO
        } else {
            LOOK
        };
        let mut is_empty = !is_full;
        let polled = if is_full { 1 } else { fds.len() };
        let wait_ms = wait.as_millis() as libc::c_int;
        // SAFETY: as many entries as are said. An error is as if nothing had happened.
        let found = unsafe { libc::poll(fds.as_mut_ptr(), polled as libc::nfds_t, wait_ms) };
        if let Some(watched) = fds.first_mut()
            && found > 0
            && !redirecting.serve(watched.revents)
        {
            watched.fd = -1;
        }
        for listener in listeners {
            if !house.has_room() {
                is_empty = false;
                break;
            }
            let (stream, from) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => continue,
                Err(_) => {
                    is_empty = false;
                    thread::sleep(PAUSE);
                    continue;
                }
            };
            is_empty = false;
            // Others on this host may connect as well: they are turned away.
            if let Some(to) = redirecting.take(from) {
                let (carrier, end) = (Arc::clone(carrier), Arc::clone(end));
                let (ended, ticket) = (Ended::new(from, Some(to)), carrier.numbering.ticket(to));
                take(house, stream, ended, move |house, stream, ended| {
                    carry(house, &carrier, &end.is_told, stream, (to, ticket), ended)
                });
            }
        }
        if is_last && is_empty {
            end.is_all.store(true, SeqCst);
        }
    }
}

/// Has a connection carried in a new thread; if that is not possible, the program sees that it failed.
fn take(
    house: &Arc<House>,
    stream: TcpStream,
    ended: Ended,
    carry: impl FnOnce(&House, &TcpStream, Ended) -> Ended + Send + 'static,
) {
    let stream = Arc::new(stream);
    let (for_thread, begun) = (Arc::clone(&stream), ended.clone());
    if !house.apart(move |house| Some(carry(house, &for_thread, begun))) {
        stream.reset();
        house.tell(ended.failed(NO_THREAD));
    }
}

/// Carries a connection to its end.
fn carry(
    house: &House,
    carrier: &Carrier,
    has_ended: &AtomicBool,
    stream: &TcpStream,
    (to, ticket): (SocketAddr, Ticket),
    mut ended: Ended,
) -> Ended {
    let is_fallback = carrier.settings.is_fallback;
    let found =
        prepare(stream).map_err(Failed::from).and_then(|()| connect(house, carrier, stream, to, &ticket));
    // It is made, or will not be.
    drop(ticket);
    let done = match found {
        Ok(session) => {
            let mut goes_on = lingering(has_ended, || session.delivered(Some(Duration::ZERO)).is_ok());
            house.carry(stream, &session, Some(&session), &mut goes_on, &mut ended);
            ended.report = Some(session.report());
            Ok(())
        }
        Err(Failed::Open(problem)) if is_fallback && has_no_psock(&problem) => {
            ended.is_direct = true;
            directly(house, has_ended, stream, to, &mut ended).map_err(|e| e.to_string())
        }
        Err(failed) => Err(failed.in_words()),
    };
    if let Err(why) = done {
        // The program is to see that it failed, and not an end.
        stream.reset();
        return ended.failed(why);
    }
    ended
}

/// Carries a connection without a session.
fn directly(
    house: &House,
    has_ended: &AtomicBool,
    stream: &TcpStream,
    to: SocketAddr,
    ended: &mut Ended,
) -> io::Result<()> {
    let direct = TcpStream::connect_timeout(&to, CONNECT)?;
    prepare(&direct)?;
    let mut goes_on = lingering(has_ended, || unsent_bytes(&direct) == 0);
    house.carry(stream, &direct, None, &mut goes_on, ended);
    Ok(())
}

/// A session whose other end has connected with `to`. While the proxy has no room, it is tried again, as long as the
/// program has not given up.
fn connect(
    house: &House,
    carrier: &Carrier,
    stream: &TcpStream,
    to: SocketAddr,
    ticket: &Ticket,
) -> Result<ParallelSocket, Failed> {
    let begun = Instant::now();
    loop {
        let is_last = begun.elapsed() > TURN || is_reset(stream);
        match open(house, carrier).and_then(|session| request(house, &session, to, ticket).map(|()| session))
        {
            Err(failed) if failed.has_no_room() && !is_last => thread::sleep(LOOK),
            result => return result,
        }
    }
}

/// Has the proxy connect with `to`.
fn request(house: &House, session: &ParallelSocket, to: SocketAddr, ticket: &Ticket) -> Result<(), Failed> {
    let send = |position| session.write_all(&Request { to, position }.emit());
    ticket.send(order::PATIENCE, send).map_err(|e| Failed::Session(e.to_string()))?;
    let mut reply = [0; REPLY_BYTES];
    if house.fill(session, &mut reply, PATIENCE).map_err(Failed::Session)? < REPLY_BYTES {
        return Err(WireError::NotProxy.into());
    }
    match Status::parse(&reply)? {
        Status::Connected => Ok(()),
        refusal => Err(Failed::Refused(refusal)),
    }
}

/// The program has given up.
fn is_reset(stream: &TcpStream) -> bool {
    let mut entry = libc::pollfd { fd: stream.as_raw_fd(), events: 0, revents: 0 };
    // SAFETY: one entry, whose descriptor is open.
    unsafe { libc::poll(&raw mut entry, 1, 0) == 1 }
}

/// Whether to carry on: for [`LINGER`] once the program is gone and all that it sent has arrived.
fn lingering(has_ended: &AtomicBool, has_arrived: impl Fn() -> bool) -> impl FnMut(bool) -> bool {
    let mut since = None;
    move |is_told| {
        if !is_told || !has_ended.load(SeqCst) || !has_arrived() {
            return true;
        }
        since.get_or_insert_with(Instant::now).elapsed() < LINGER
    }
}

/// What the other end has not acknowledged; 0 if the kernel does not report it.
fn unsent_bytes(stream: &TcpStream) -> libc::c_int {
    let mut bytes = 0;
    // SAFETY: the descriptor is open, and the kernel writes one int.
    unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    bytes
}

/// Why there is no connection.
#[derive(Debug, Error)]
enum Failed {
    #[error("{0}")]
    Open(#[source] OpenError),
    #[error("it was stopped")]
    Stopped,
    #[error("{0}")]
    Session(String),
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

fn open(house: &House, carrier: &Carrier) -> Result<ParallelSocket, Failed> {
    let Carrier { settings, turns, .. } = carrier;
    let _turn = turns.take(TURN, LOOK, || !house.is_stopped());
    if house.is_stopped() {
        return Err(Failed::Stopped);
    }
    let mut opening = Opening::start(&settings.routes, &settings.options, None).map_err(Failed::Open)?;
    loop {
        match opening.wait(Some(LOOK)) {
            Ok(found) => return found.map_err(Failed::Open),
            Err(_) if house.is_stopped() => return Err(Failed::Stopped),
            Err(still) => opening = still,
        }
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
mod tests {
    use std::io::Read;

    use super::*;

    /// What a program reads whose connection is taken into `house`, and what is told of it.
    fn taken(house: &Arc<House>) -> (io::ErrorKind, String) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut program = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, from) = listener.accept().unwrap();
        take(house, stream, Ended::new(from, None), |_, _, ended| ended);
        let [ended] = &house.ended()[..] else { panic!("it is told once") };
        assert_eq!(house.active(), 0);
        (Read::read(&mut program, &mut [0]).unwrap_err().kind(), ended.failure.clone())
    }

    #[test]
    fn a_connection_that_cannot_be_carried_is_reset_and_told() {
        // No system has room for such a stack.
        let (seen, why) = taken(&House::with_stacks(10, 1 << 60));
        assert_eq!((seen, why.as_str()), (io::ErrorKind::ConnectionReset, NO_THREAD));
    }
}
