//! The near end: carries each connection that a program makes in a session of its own at that time, one that is open or
//! is opened for it. The program's connect() ends when the proxy has connected to the destination.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};
use thiserror::Error;
use weir_psock::io::{Options, Route};

use crate::far::{Carrier, Failed, Far, Patience, TURN, connect, directly, has_no_psock, open};
use crate::held::Held;
use crate::house::{Door, Ended, House, LOOK, NO_THREAD, prepare};
use crate::order::Ticket;
use crate::redirect::{Redirect, RedirectError, netns_cookie, ports};
use crate::rules::Rules;
use crate::seccomp::{SeccompError, Supervisor, Watch};
use crate::splice::join;
use crate::way::{Redirecting, Way};

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

#[cfg(test)]
mod tests;
