//! What the relay and the proxy have in common: the connections that they carry, and the results of earlier ones.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use weir_psock::io::{ParallelSocket, Report, SocketError};
use weir_psock::session::SessionError;
use weir_psock::wire::Reason;

use crate::splice::{Carried, Splice};

/// Default limit of connections that are carried at one time.
pub const MOST_CONNECTIONS: usize = 2048;

/// Longest wait in one call before the next check whether to stop.
pub const LOOK: Duration = Duration::from_millis(100);
/// Most ended connections that are kept until they are fetched.
const MOST_STORIES: usize = 4096;
/// Stack of each thread that carries a connection, whose buffers are elsewhere.
const STACK_BYTES: usize = 512 * 1024;
/// The error of a connection for which there is no thread.
pub const NO_THREAD: &str = "no thread can be made for it: this process or this host has too many";

/// A connection that has ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Who opened it: the program's own end, or the peer that opened the session.
    pub peer: SocketAddr,
    /// Its destination, if that became known.
    pub to: Option<SocketAddr>,
    /// From the program to the destination.
    pub sent_bytes: u64,
    /// From the destination to the program.
    pub received_bytes: u64,
    /// How long the connection existed.
    pub lasted: Duration,
    /// Without a session: straight to the destination.
    pub is_direct: bool,
    /// The program or the destination aborted it, as they may.
    pub is_reset: bool,
    /// What failed on the way between them; empty if nothing did.
    pub failure: String,
    /// The session, if there was one.
    pub report: Option<Report>,
}

impl Ended {
    pub(crate) fn new(peer: SocketAddr, to: Option<SocketAddr>) -> Self {
        Self {
            peer,
            to,
            sent_bytes: 0,
            received_bytes: 0,
            lasted: Duration::ZERO,
            is_direct: false,
            is_reset: false,
            failure: String::new(),
            report: None,
        }
    }

    pub(crate) fn failed(self, why: impl ToString) -> Self {
        Self { failure: why.to_string(), ..self }
    }
}

#[derive(Debug)]
pub struct House {
    most: usize,
    stack_bytes: usize,
    active: AtomicUsize,
    is_stopped: AtomicBool,
    is_crowded: AtomicBool,
    stories: Mutex<VecDeque<Ended>>,
}

impl House {
    pub fn new(most: usize) -> Arc<Self> {
        Self::with_stacks(most, STACK_BYTES)
    }

    /// One whose threads have stacks of this size.
    pub fn with_stacks(most: usize, stack_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            stack_bytes,
            active: AtomicUsize::new(0),
            is_stopped: AtomicBool::new(false),
            is_crowded: AtomicBool::new(false),
            stories: Mutex::default(),
        })
    }

    pub fn active(&self) -> usize {
        self.active.load(SeqCst)
    }

    pub fn has_room(&self) -> bool {
        self.active() < self.most
    }

    pub fn stop(&self) {
        self.is_stopped.store(true, SeqCst);
    }

    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(SeqCst)
    }

    /// Others wait for the room of whatever carries nothing.
    pub fn is_crowded(&self) -> bool {
        self.is_crowded.load(SeqCst)
    }

    pub fn set_crowded(&self, is_crowded: bool) {
        self.is_crowded.store(is_crowded, SeqCst);
    }

    pub fn ended(&self) -> Vec<Ended> {
        self.stories().drain(..).collect()
    }

    pub fn tell(&self, ended: Ended) {
        let mut stories = self.stories();
        if stories.len() >= MOST_STORIES {
            stories.pop_front();
        }
        stories.push_back(ended);
    }

    fn stories(&self) -> std::sync::MutexGuard<'_, VecDeque<Ended>> {
        self.stories.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does `work` in a new thread; false if there can be none, and `work` is dropped.
    #[must_use]
    pub fn apart(self: &Arc<Self>, work: impl FnOnce(&Arc<Self>) -> Option<Ended> + Send + 'static) -> bool {
        self.active.fetch_add(1, SeqCst);
        let house = Arc::clone(self);
        let counted = move || {
            let (begun, counted) = (Instant::now(), Counted(&house.active));
            if let Some(ended) = work(&house) {
                house.tell(Ended { lasted: begun.elapsed(), ..ended });
            }
            drop(counted);
        };
        let thread = thread::Builder::new().name("psock relay".to_owned()).stack_size(self.stack_bytes);
        let is_started = thread.spawn(counted).is_ok();
        if !is_started {
            self.active.fetch_sub(1, SeqCst);
        }
        is_started
    }

    /// Reads from a session until `into` is full; returns how much there was before the end.
    pub fn fill(&self, session: &ParallelSocket, into: &mut [u8], within: Duration) -> Result<usize, String> {
        let (due, mut have) = (Instant::now() + within, 0);
        while have < into.len() {
            match session.read(&mut into[have..], Some(LOOK)) {
                Ok(0) => break,
                Ok(len) => have += len,
                Err(SocketError::TimedOut) if self.is_stopped() => return Err("it was stopped".to_owned()),
                Err(SocketError::TimedOut) if Instant::now() < due => {}
                Err(SocketError::TimedOut) => {
                    return Err("the other end of the session says nothing".to_owned());
                }
                Err(e) => return Err(e.to_string()),
            }
        }
        Ok(have)
    }

    /// Carries a connection in a session, which its program is at this end of (`is_near`), or its destination. Returns
    /// whether the session can carry another one. `before`: its report then, as data may have come since.
    pub fn carry(
        &self,
        session: &ParallelSocket,
        stream: TcpStream,
        programs: &Arc<AtomicBool>,
        is_near: bool,
        before: &Report,
        ended: &mut Ended,
    ) -> bool {
        let (done, carried) = mpsc::channel();
        match Splice::new(stream, Arc::clone(programs), done) {
            Ok(splice) => session.attach(Box::new(splice)),
            Err(error) => {
                session.abort();
                ended.failure = error.to_string();
                return false;
            }
        }
        let Carried { result, taken_bytes, given_bytes } = loop {
            match carried.recv_timeout(LOOK) {
                Ok(carried) => break carried,
                Err(_) if self.is_stopped() => session.abort(),
                Err(_) if programs.load(SeqCst) => session.wake(),
                Err(_) => {}
            }
        };
        let (sent, received) = if is_near { (taken_bytes, given_bytes) } else { (given_bytes, taken_bytes) };
        (ended.sent_bytes, ended.received_bytes) = (sent, received);
        ended.report = Some(session.report().since(before));
        let Err(why) = result else { return true };
        // Whoever ends a session early at the other end carries a reset.
        let is_own =
            |failure| matches!(failure, SessionError::Aborted(Reason::Closed) | SessionError::Closed);
        ended.is_reset = !self.is_stopped() && session.failure().is_none_or(is_own);
        if !ended.is_reset {
            ended.failure = if self.is_stopped() { "it was stopped".to_owned() } else { why };
        }
        false
    }

    /// Waits until a session has something to be read; false if nothing comes `within` this time, or the
    /// session fails. After `firm`, it is to make room where others wait for that.
    pub fn awaits(&self, session: &ParallelSocket, firm: Duration, within: Duration) -> bool {
        let begun = Instant::now();
        loop {
            match session.peek(&mut [0], Some(LOOK)) {
                Err(SocketError::TimedOut) => {
                    let waited = begun.elapsed();
                    if self.is_stopped() || waited > within || waited > firm && self.is_crowded() {
                        return false;
                    }
                }
                found => return found.is_ok(),
            }
        }
    }

    /// Waits until everything has arrived at both ends of a session.
    pub fn close(&self, session: &ParallelSocket) -> Result<(), String> {
        loop {
            match session.close(Some(LOOK)) {
                Ok(()) => return Ok(()),
                Err(SocketError::TimedOut) if !self.is_stopped() => {}
                Err(e) => return Err(e.to_string()),
            }
        }
    }
}

/// The thread that takes connections into a house; dropping it aborts what is open and takes nothing more.
#[derive(Debug)]
pub struct Door {
    pub house: Arc<House>,
    thread: Option<JoinHandle<()>>,
}

impl Door {
    /// Does `work`, which ends when the house is stopped.
    pub fn open(
        name: &str,
        house: &Arc<House>,
        work: impl FnOnce(&Arc<House>) + Send + 'static,
    ) -> io::Result<Self> {
        let for_thread = Arc::clone(house);
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || work(&for_thread))?;
        Ok(Self { house: Arc::clone(house), thread: Some(thread) })
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.house.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// One of the counted connections, until it is dropped, whatever happens.
struct Counted<'a>(&'a AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// For a connection whose other end may vanish silently, and that carries bytes as they come.
pub fn prepare(stream: &TcpStream) -> io::Result<()> {
    let keepalive =
        TcpKeepalive::new().with_time(Duration::from_secs(60)).with_interval(Duration::from_secs(15));
    SockRef::from(stream).set_tcp_keepalive(&keepalive)?;
    // Else an urgent byte would not be read in its place.
    SockRef::from(stream).set_out_of_band_inline(true)?;
    stream.set_nodelay(true)
}

/// Starts to connect: the SYN has been sent.
pub fn begin(to: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    match socket.connect(&to.into()) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(socket),
    }
}

/// A socket that has started to connect, when it is connected: as long as the kernel tries, and this `lasts`.
pub fn connected<E: From<io::Error>>(
    socket: Socket,
    mut lasts: impl FnMut() -> Result<(), E>,
) -> Result<TcpStream, E> {
    let mut entry = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    while entry.revents == 0 {
        lasts()?;
        // SAFETY: one entry, whose descriptor is open. An error is as if nothing had happened.
        unsafe { libc::poll(&raw mut entry, 1, LOOK.as_millis() as libc::c_int) };
    }
    if let Some(error) = socket.take_error()? {
        return Err(error.into());
    }
    socket.set_nonblocking(false)?;
    Ok(socket.into())
}
