//! Listens for sessions, and for further streams of existing ones.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};
use weir_tcp::control::LEAST_TOKEN_BYTES;
use weir_tcp::strangers::{Limits, Stranger as Counted, Strangers};

use super::dial::prepare;
use super::greet::{GreetError, fill};
use super::signal::{Signal, Waker, poll};
use super::socket::Shared;
use super::worker;
use super::{GREETING, OpenError, Options, ParallelSocket, random, system};
use crate::wire::{
    GreetingError, HELLO_BYTES, Hello, Id, MOST_STREAMS, PROOF_BYTES, Responder, Secret, Status,
    begins_like_hello, refusal, refused_welcome,
};

/// Connections that have not proved that they know the token, or the session's key.
const STRANGERS: Limits = Limits { most: 1024, most_of_network: 512 };
/// Most sessions that have not been accepted; further ones wait.
const MOST_WAITING: usize = 64;
/// Most failed attempts that are kept for the application.
const MOST_STORIES: usize = 64;
const BACKLOG: i32 = 1024;
/// Stack of a thread that greets.
const STACK_BYTES: usize = 256 * 1024;
/// Pause after an error of accept(2), usually too many open files.
const PAUSE: Duration = Duration::from_millis(50);

/// A peer that connected without opening a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stranger {
    /// Its address.
    pub peer: SocketAddr,
    /// What was wrong.
    pub why: String,
}

/// Listens, in its own thread.
#[derive(Debug)]
pub struct Listener {
    addresses: Mutex<Vec<SocketAddr>>,
    house: Arc<House>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct House {
    options: Options,
    /// Where it is to listen besides, until its thread takes them.
    added: Mutex<Vec<TcpListener>>,
    sessions: Mutex<HashMap<Id, (Weak<Shared>, Secret)>>,
    queue: Mutex<Queue>,
    changed: Condvar,
    /// There may be room for another session.
    room: Condvar,
    strangers: Arc<Strangers>,
    stop: AtomicBool,
    waker: Waker,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<(ParallelSocket, SocketAddr)>,
    /// Sessions that will wait as soon as they are made.
    coming: usize,
    stories: VecDeque<Stranger>,
    signal: Option<Signal>,
}

impl Queue {
    fn show(&mut self) {
        if let Some(signal) = &mut self.signal {
            signal.show(!self.waiting.is_empty(), false);
        }
    }
}

/// Room for a session until it waits to be accepted.
struct Place<'a>(&'a House);

impl<'a> Place<'a> {
    /// `None`: there is none by `due`.
    fn take(house: &'a House, due: Instant) -> Option<Self> {
        let mut queue = lock(&house.queue);
        while queue.waiting.len() + queue.coming >= MOST_WAITING {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() || house.stop.load(SeqCst) {
                return None;
            }
            queue = house.room.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        queue.coming += 1;
        Some(Self(house))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        lock(&self.0.queue).coming -= 1;
        self.0.room.notify_one();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Listener {
    /// Listens on each of these addresses; the streams of a session may come to any of them.
    ///
    /// # Errors
    /// [`OpenError`]; without a token only loopback addresses are allowed.
    pub fn bind(addresses: &[SocketAddr], options: Options) -> Result<Self, OpenError> {
        options.check()?;
        if !(1..=MOST_STREAMS).contains(&addresses.len()) {
            return Err(OpenError::Addresses(addresses.len()));
        }
        if (1..LEAST_TOKEN_BYTES).contains(&options.token.len()) {
            return Err(OpenError::TokenShort(options.token.len()));
        }
        check_reach(addresses, &options)?;
        let made = addresses.iter().map(|at| listen(*at, &options));
        let listeners = made.collect::<Result<Vec<_>, _>>()?;
        let local = listeners.iter().map(TcpListener::local_addr).collect::<io::Result<_>>();
        let addresses = local.map_err(system("the socket has no address"))?;
        let house = Arc::new(House {
            options,
            added: Mutex::default(),
            sessions: Mutex::default(),
            queue: Mutex::default(),
            changed: Condvar::new(),
            strangers: Strangers::new(STRANGERS),
            room: Condvar::new(),
            stop: AtomicBool::new(false),
            waker: Waker::new().map_err(system("no event descriptor can be made"))?,
        });
        let for_thread = Arc::clone(&house);
        let thread = thread::Builder::new()
            .name("psock listen".to_owned())
            .spawn(move || accept(listeners, &for_thread))
            .map_err(system("no thread can be made"))?;
        Ok(Self { addresses: Mutex::new(addresses), house, thread: Some(thread) })
    }

    /// Where it listens.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        lock(&self.addresses).clone()
    }

    /// Listens at one more address, to which streams of all sessions may come.
    ///
    /// # Errors
    /// [`OpenError`], as for [`Self::bind`].
    pub fn add(&self, address: SocketAddr) -> Result<(), OpenError> {
        let mut addresses = lock(&self.addresses);
        if addresses.len() >= MOST_STREAMS {
            return Err(OpenError::Addresses(addresses.len() + 1));
        }
        check_reach(&[address], &self.house.options)?;
        let listener = listen(address, &self.house.options)?;
        addresses.push(listener.local_addr().map_err(system("the socket has no address"))?);
        lock(&self.house.added).push(listener);
        self.house.waker.wake();
        Ok(())
    }

    /// The next session, and the address that opened it. `within`: how long to wait; `None`: without limit.
    #[must_use]
    pub fn accept(&self, within: Option<Duration>) -> Option<(ParallelSocket, SocketAddr)> {
        let due = within.and_then(|within| Instant::now().checked_add(within));
        let mut queue = lock(&self.house.queue);
        loop {
            if let Some(found) = queue.waiting.pop_front() {
                queue.show();
                self.house.room.notify_one();
                return Some(found);
            }
            queue = match due {
                None => self.house.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
                Some(due) => {
                    let left = due.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return None;
                    }
                    self.house.changed.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// From now on, `signal` is readable while a session waits to be accepted.
    pub fn set_signal(&self, signal: Signal) {
        let mut queue = lock(&self.house.queue);
        queue.signal = Some(signal);
        queue.show();
    }

    /// A peer that connected without success since the last call; at most 64 are kept.
    #[must_use]
    pub fn stranger(&self) -> Option<Stranger> {
        lock(&self.house.queue).stories.pop_front()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.house.stop.store(true, SeqCst);
        self.house.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // Sessions that were not accepted: their threads hold this house, and it holds them.
        lock(&self.house.queue).waiting.clear();
        self.house.room.notify_all();
    }
}

/// Without a token, only this host may connect.
fn check_reach(addresses: &[SocketAddr], options: &Options) -> Result<(), OpenError> {
    let is_open = |at: &&SocketAddr| !at.ip().to_canonical().is_loopback();
    match addresses.iter().find(is_open) {
        Some(open) if options.token.is_empty() => Err(OpenError::TokenNeeded(open.ip())),
        _ => Ok(()),
    }
}

fn listen(at: SocketAddr, options: &Options) -> Result<TcpListener, OpenError> {
    let made = Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP));
    let socket = made.map_err(system("no socket can be made"))?;
    prepare(&socket, options)?;
    let refused = |source| OpenError::Listen { at, source };
    if at.is_ipv6() {
        // So that 0.0.0.0 and :: can both be used.
        socket.set_only_v6(true).map_err(refused)?;
    }
    socket
        .set_reuse_address(true)
        .and_then(|()| socket.bind(&at.into()))
        .and_then(|()| socket.listen(BACKLOG))
        .and_then(|()| socket.set_nonblocking(true))
        .map_err(refused)?;
    Ok(socket.into())
}

fn accept(mut listeners: Vec<TcpListener>, house: &Arc<House>) {
    let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    while !house.stop.load(SeqCst) {
        house.waker.clear();
        listeners.append(&mut lock(&house.added));
        let mut fds: Vec<_> = listeners.iter().map(|listener| entry(listener.as_raw_fd())).collect();
        fds.push(entry(house.waker.as_raw_fd()));
        if house.stop.load(SeqCst) {
            return;
        }
        if poll(&mut fds, 0, u64::MAX).is_err() {
            thread::sleep(PAUSE);
        }
        for (listener, fd) in listeners.iter().zip(&fds) {
            if fd.revents == 0 {
                continue;
            }
            match listener.accept() {
                Ok((stream, peer)) => greet_apart(stream, peer, house),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => {
                    house.strangers.close_one();
                    thread::sleep(PAUSE);
                }
            }
        }
    }
}

/// Greets in a new thread.
fn greet_apart(stream: TcpStream, peer: SocketAddr, house: &Arc<House>) {
    let stream = Arc::new(stream);
    let stranger = house.strangers.admit(&stream, peer.ip());
    let for_thread = Arc::clone(house);
    let work = move || {
        let greeted = greet(stream, stranger, peer, &for_thread);
        let why = match greeted {
            // A peer that sends nothing at all is a port scanner, or a check whether the listener lives.
            Ok(()) | Err(GreetError::Closed | GreetError::Io(_)) => return,
            Err(error) => error.to_string(),
        };
        let mut queue = lock(&for_thread.queue);
        if queue.stories.len() < MOST_STORIES {
            queue.stories.push_back(Stranger { peer, why });
        }
    };
    // If there is no thread, it is dropped with its work.
    let _ = thread::Builder::new().name("psock greet".to_owned()).stack_size(STACK_BYTES).spawn(work);
}

fn greet(
    shared_stream: Arc<TcpStream>,
    stranger: Counted,
    peer: SocketAddr,
    house: &Arc<House>,
) -> Result<(), GreetError> {
    let (due, mut stream) = (Instant::now() + GREETING, &*shared_stream);
    let mut bytes = [0; HELLO_BYTES];
    fill(stream, &mut bytes, due, begins_like_hello)?;
    let hello = match Hello::parse(&bytes) {
        Ok(hello) => hello,
        Err(error) => {
            if let GreetingError::Version(_) = error {
                stream.write_all(&refusal(Status::Version))?;
            }
            return Err(error.into());
        }
    };
    let nonce = random()?;
    let known = lock(&house.sessions).get(&hello.id).cloned();
    let (responder, joined) = match (hello.opens, known) {
        (true, None) => (Responder::open(&house.options.token, hello, nonce), None),
        (false, Some((shared, secret))) => (Responder::join(&secret, hello, nonce), Some(shared)),
        // A session of this name exists, or does not.
        (true, Some(_)) => return refuse(stream, Status::Full, GreetingError::Full),
        (false, None) => return refuse(stream, Status::Unknown, GreetingError::Unknown),
    };
    stream.write_all(responder.reply())?;
    let mut proof = [0; PROOF_BYTES];
    fill(stream, &mut proof, due, |_| true)?;
    let (welcome, secret) = match responder.verify(&proof) {
        Ok(verified) => verified,
        Err(error) => {
            stream.write_all(&refused_welcome(Status::Secret))?;
            return Err(error.into());
        }
    };
    // Nothing else holds a connection that does not count any more.
    let known = if stranger.identify() { Arc::into_inner(shared_stream) } else { None };
    let stream = known.ok_or(GreetError::Closed)?;
    match joined {
        Some(shared) => join(stream, &welcome, shared.upgrade()),
        None => open(stream, peer, &welcome, hello.id, secret, house, due),
    }
}

fn refuse(mut stream: &TcpStream, status: Status, error: GreetingError) -> Result<(), GreetError> {
    stream.write_all(&refusal(status))?;
    Err(error.into())
}

fn join(mut stream: TcpStream, welcome: &[u8], shared: Option<Arc<Shared>>) -> Result<(), GreetError> {
    let is_admitted = match shared {
        Some(shared) => shared.admit(stream, welcome)?,
        None => {
            stream.write_all(&refused_welcome(Status::Full))?;
            false
        }
    };
    if is_admitted { Ok(()) } else { Err(GreetingError::Full.into()) }
}

fn open(
    mut stream: TcpStream,
    peer: SocketAddr,
    welcome: &[u8],
    id: Id,
    secret: Secret,
    house: &Arc<House>,
    due: Instant,
) -> Result<(), GreetError> {
    let shared = Shared::new(&house.options).map_err(|error| io::Error::other(error.to_string()))?;
    let Some(_place) = Place::take(house, due) else {
        stream.write_all(&refused_welcome(Status::Full))?;
        return Err(GreetingError::Full.into());
    };
    let is_new = {
        let mut sessions = lock(&house.sessions);
        let is_new = !sessions.contains_key(&id);
        if is_new {
            // Before the client learns of it: its other streams follow at once.
            sessions.insert(id, (Arc::downgrade(&shared), secret));
        }
        is_new
    };
    if !is_new {
        stream.write_all(&refused_welcome(Status::Full))?;
        return Err(GreetingError::Full.into());
    }
    // Counted before the client learns of it, or its other streams could be one too many.
    let admitted = shared.admit(stream, welcome).map_err(GreetError::from);
    let started = admitted.and_then(|is_admitted| {
        if !is_admitted {
            return Err(GreetingError::Full.into());
        }
        let for_thread = Arc::clone(house);
        let ended = move || {
            lock(&for_thread.sessions).remove(&id);
        };
        worker::start(&shared, None, ended).map_err(|error| io::Error::other(error.to_string()).into())
    });
    if let Err(error) = started {
        lock(&house.sessions).remove(&id);
        return Err(error);
    }
    let mut queue = lock(&house.queue);
    let made = ParallelSocket::new(shared);
    if house.stop.load(SeqCst) {
        drop(queue);
        // No one accepts any more; dropped without the lock.
        return Ok(());
    }
    queue.waiting.push_back((made, peer));
    queue.show();
    drop(queue);
    house.changed.notify_one();
    Ok(())
}
