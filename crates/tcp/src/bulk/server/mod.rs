//! The server: takes part in transfers that clients request, within limits, and survives all other peers.

mod errand;
mod greeting;
mod session;
mod tape;

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use thiserror::Error;

use super::capture::CaptureOptions;
use super::end::Input;
use super::line::is_temporary;
use super::transfer::Reading;
use crate::control::{Digest, LEAST_TOKEN_BYTES, MOST_CONNECTIONS, Record, Request, Session};
use crate::option::{OptionError, Setting};
use crate::strangers::{Limits, Strangers};

/// Connections that have not identified themselves: of one host, twice as many as a client makes at once.
const STRANGERS: Limits = Limits { most: 1024, most_of_network: 4 * MOST_CONNECTIONS as usize };
/// Stack of a thread that greets one, and perhaps goes on to its transfer.
const STACK_BYTES: usize = 512 * 1024;
/// Most addresses of strangers whose errors are reported, once each: anyone could add to them.
const MOST_TOLD: usize = 1024;
/// How long the server may take to notice that it should stop.
const LOOK: Duration = Duration::from_millis(100);
const BACKLOG: i32 = 1024;
/// Pause after an error of accept(2).
const PAUSE: Duration = Duration::from_millis(10);
/// Events that wait for the user; further ones are lost.
const MOST_EVENTS: usize = 4096;

/// What a server does, and for whom.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Where it listens.
    pub address: SocketAddr,
    /// What clients must know, of [`LEAST_TOKEN_BYTES`] or more; empty for none, which only a loopback address
    /// may have.
    pub token: String,
    /// How long a transfer may last.
    pub most_ns: Option<u64>,
    /// How many bytes a transfer may have, both directions together.
    pub most_bytes: Option<u64>,
    /// How many transfers there may be at once.
    pub most_clients: usize,
    /// Be the client of other servers, for anyone who knows the token; there must be one.
    pub errands: bool,
    /// How this end reads.
    pub reading: Reading,
    /// Record packets for clients that request it.
    pub capture: Option<CaptureOptions>,
    /// Set on the listening socket, from which data connections inherit them.
    pub settings: Vec<Setting>,
}

/// Why a server does not start.
#[derive(Debug, Error)]
pub enum ServerError {
    /// Anyone could use it.
    #[error("{0} can be reached from other hosts, and that needs a token")]
    TokenNeeded(IpAddr),
    /// Whoever hears a proof of it could find it by trying.
    #[error("a token of {0} bytes can be guessed; it must have {LEAST_TOKEN_BYTES} or more")]
    TokenShort(usize),
    /// Anyone could make it send.
    #[error("who may have it send to other servers must know a token")]
    ErrandsNeedToken,
    /// The address cannot be used.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// A socket option.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// A system error in this host.
    #[error("{what}")]
    System {
        /// What failed.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
}

/// What happens to a server.
#[derive(Clone, Debug)]
pub enum ServerEvent {
    /// A peer sent something that no client sends; reported once per address.
    Garbage {
        /// Its address.
        peer: IpAddr,
        /// What is wrong with it.
        why: String,
    },
    /// A client was refused.
    Refused {
        /// Its address.
        peer: SocketAddr,
        /// Why.
        why: String,
    },
    /// A transfer began.
    Began {
        /// Its number.
        number: u64,
        /// The client.
        peer: SocketAddr,
        /// What it is.
        request: Box<Request>,
        /// The server with which this one has it, as its client; `None`: with the client itself.
        with: Option<String>,
    },
    /// The packets of a transfer were recorded for its client, or could not be.
    Recorded {
        /// The transfer's number.
        number: u64,
        /// The client.
        peer: SocketAddr,
        /// The capture, or why there is none.
        found: Result<Box<Record>, String>,
    },
    /// A transfer ended.
    Ended {
        /// Its number.
        number: u64,
        /// The client.
        peer: SocketAddr,
        /// Bytes that came from the client.
        received: u64,
        /// Bytes that went to it.
        sent: u64,
        /// How long it lasted.
        lasted_ns: u64,
        /// Why it ended early; empty if it did not.
        failure: String,
    },
}

/// A data connection with its number.
type Numbered = (u16, Arc<TcpStream>);

/// What all threads of a server share.
#[derive(Debug)]
struct House {
    options: ServerOptions,
    host: Digest,
    stop: AtomicBool,
    strangers: Arc<Strangers>,
    clients: AtomicUsize,
    /// Transfers that began.
    transfers: AtomicU64,
    sessions: Mutex<HashMap<Session, Sender<Numbered>>>,
    /// How to tell each transfer that the server stops.
    stopping: Mutex<HashMap<u64, Sender<Input>>>,
    told: Mutex<HashSet<(IpAddr, String)>>,
    events: SyncSender<ServerEvent>,
}

impl House {
    fn tell(&self, event: ServerEvent) {
        let _ = self.events.try_send(event);
    }

    /// Reports what a stranger did, once for each address, however often it happens.
    fn tell_once(&self, peer: IpAddr, kind: String, event: ServerEvent) {
        let mut told = lock(&self.told);
        if told.len() < MOST_TOLD && told.insert((peer, kind)) {
            self.tell(event);
        }
    }
}

/// A running server, in its own threads.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    house: Arc<House>,
    events: Mutex<Receiver<ServerEvent>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Server {
    /// Starts listening.
    ///
    /// # Errors
    /// [`ServerError`].
    pub fn start(options: ServerOptions) -> Result<Self, ServerError> {
        let at = options.address;
        if options.token.is_empty() && !at.ip().to_canonical().is_loopback() {
            return Err(ServerError::TokenNeeded(at.ip()));
        }
        if (1..LEAST_TOKEN_BYTES).contains(&options.token.len()) {
            return Err(ServerError::TokenShort(options.token.len()));
        }
        if options.token.is_empty() && options.errands {
            return Err(ServerError::ErrandsNeedToken);
        }
        let system = |what| move |source| ServerError::System { what, source };
        let socket = Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP))
            .map_err(system("no socket can be made"))?;
        for setting in &options.settings {
            setting.set(&socket)?;
        }
        let bound = socket
            .set_reuse_address(true)
            .and_then(|()| socket.bind(&at.into()))
            .and_then(|()| socket.listen(BACKLOG))
            .and_then(|()| socket.set_read_timeout(Some(LOOK)));
        bound.map_err(|source| ServerError::Listen { address: at, source })?;
        let listener = TcpListener::from(socket);
        let address = listener.local_addr().map_err(system("the socket has no address"))?;
        let (outgoing, events) = mpsc::sync_channel(MOST_EVENTS);
        let house = Arc::new(House {
            options,
            host: super::clock_identity().map_err(system("random numbers cannot be had"))?,
            stop: AtomicBool::new(false),
            strangers: Strangers::new(STRANGERS),
            clients: AtomicUsize::new(0),
            transfers: AtomicU64::new(0),
            sessions: Mutex::default(),
            stopping: Mutex::default(),
            told: Mutex::default(),
            events: outgoing,
        });
        let for_thread = Arc::clone(&house);
        let thread = thread::Builder::new()
            .name("server".to_owned())
            .spawn(move || accept(&listener, &for_thread))
            .map_err(system("no thread can be made"))?;
        Ok(Self { address, house, events: Mutex::new(events), thread: Mutex::new(Some(thread)) })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next event, if one comes in time.
    #[must_use]
    pub fn next_event(&self, within: Duration) -> Option<ServerEvent> {
        lock(&self.events).recv_timeout(within).ok()
    }

    /// Stops listening, and ends all transfers; their clients are told.
    pub fn stop(&self) {
        self.house.stop.store(true, SeqCst);
        for inputs in lock(&self.house.stopping).values() {
            let _ = inputs.send(Input::Stop);
        }
        if let Some(thread) = lock(&self.thread).take() {
            let _ = thread.join();
        }
    }

    /// Transfers under way.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.house.clients.load(SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Why a transfer ended early.
#[derive(Debug, PartialEq, Eq)]
enum Broken {
    /// By the server; the client has not been told yet.
    Refused(String),
    /// By the client.
    Gone(String),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Gone(error.to_string())
    }
}

/// Room for a transfer, until it is dropped.
#[derive(Debug)]
struct Place<'a>(&'a House);

impl<'a> Place<'a> {
    /// Why there is none.
    fn take(house: &'a House) -> Result<Self, String> {
        let most = house.options.most_clients;
        let place = Self(house);
        if house.clients.fetch_add(1, SeqCst) >= most {
            return Err(format!("it is busy with {most} other transfers, and has no room"));
        }
        Ok(place)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.clients.fetch_sub(1, SeqCst);
    }
}

fn accept(listener: &TcpListener, house: &Arc<House>) {
    while !house.stop.load(SeqCst) {
        let (stream, peer) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(e) => {
                if !is_temporary(&e) {
                    // Too many open files, for instance: it may pass.
                    house.strangers.close_one();
                    thread::sleep(PAUSE);
                }
                continue;
            }
        };
        let stream = Arc::new(stream);
        let stranger = house.strangers.admit(&stream, peer.ip());
        let for_thread = Arc::clone(house);
        let work = move || greeting::greet(stream, stranger, peer, &for_thread);
        // If there is no thread, it is dropped with its work.
        let _ = thread::Builder::new().name("greeting".to_owned()).stack_size(STACK_BYTES).spawn(work);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
