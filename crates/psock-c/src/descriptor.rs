//! What is behind a descriptor: a socket that is set up, being opened, open, or listening.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use libc::c_int;
use weir_psock::io::{Listener, Opening, ParallelSocket, Signal};

use crate::failure::{Failure, Outcome};
use crate::setup::{Linger, Setup};

/// Longest wait until the connections are closed.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Time between checks whether a call waits in vain: its listener was closed, or its input was shut down.
pub const LISTENING: Duration = Duration::from_millis(200);

/// How far a socket is.
#[derive(Debug)]
enum Stage {
    Fresh(Signal),
    /// `None` while a call waits for it.
    Opening(Option<Opening>),
    Open(Arc<ParallelSocket>),
    Listening(Arc<Listener>),
    /// Why, until it is reported.
    Failed(Option<Failure>),
}

#[derive(Debug)]
struct Inner {
    setup: Setup,
    stage: Stage,
    /// Error text of the last call that failed.
    text: String,
}

/// What is behind a descriptor.
#[derive(Debug)]
pub struct Descriptor {
    inner: Mutex<Inner>,
    /// A session that a call waited for is open, or has failed.
    settled: Condvar,
    is_closed: AtomicBool,
    /// `pshutdown` with `SHUT_RD`.
    is_deaf: AtomicBool,
}

fn failed<T>(errno: c_int) -> Outcome<T> {
    Err(Failure::new(errno))
}

impl Descriptor {
    /// A new socket; `signal` is what its descriptor shows.
    #[must_use]
    pub fn fresh(domain: c_int, signal: Signal) -> Self {
        Self::new(Setup::new(domain), Stage::Fresh(signal))
    }

    /// A session that a listener has accepted.
    #[must_use]
    pub fn accepted(setup: Setup, socket: ParallelSocket) -> Self {
        Self::new(setup, Stage::Open(Arc::new(socket)))
    }

    fn new(setup: Setup, stage: Stage) -> Self {
        let inner = Inner { setup, stage, text: String::new() };
        Self {
            inner: Mutex::new(inner),
            settled: Condvar::new(),
            is_closed: AtomicBool::new(false),
            is_deaf: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The settings.
    #[must_use]
    pub fn setup(&self) -> Setup {
        self.lock().setup.clone()
    }

    /// Sets what can be set at any time.
    pub fn set_anytime(&self, change: impl FnOnce(&mut Setup)) {
        change(&mut self.lock().setup);
    }

    /// Sets what must be known before there is a session or a listener.
    ///
    /// # Errors
    /// `EINVAL`: there is already one. The errors of `change`.
    pub fn set(&self, change: impl FnOnce(&mut Setup) -> Outcome<()>) -> Outcome<()> {
        let mut inner = self.lock();
        if !matches!(inner.stage, Stage::Fresh(_)) {
            return failed(libc::EINVAL);
        }
        change(&mut inner.setup)
    }

    /// Keeps what went wrong, for `PSOCK_ERROR_TEXT`.
    pub fn note(&self, failure: &Failure) {
        self.lock().text.clone_from(&failure.text);
    }

    /// The last error.
    #[must_use]
    pub fn text(&self) -> String {
        self.lock().text.clone()
    }

    /// This end's address.
    ///
    /// # Errors
    /// `EADDRINUSE`: the socket already has one.
    pub fn bind(&self, address: SocketAddr) -> Outcome<()> {
        self.set(|setup| {
            if !setup.local.is_empty() {
                return failed(libc::EINVAL);
            }
            setup.local.push(address);
            Ok(())
        })
    }

    /// Opens a session.
    ///
    /// # Errors
    /// `EINPROGRESS` unless `waits`; `EALREADY`, `EISCONN`; the error of the attempt.
    pub fn connect(&self, to: SocketAddr, waits: bool) -> Outcome<()> {
        let mut inner = self.lock();
        match &inner.stage {
            Stage::Fresh(_) => {}
            Stage::Opening(_) | Stage::Failed(Some(_)) => {
                drop(inner);
                return match self.socket(false) {
                    Ok(_) => failed(libc::EISCONN),
                    Err(failure) if failure.errno == libc::EAGAIN => failed(libc::EALREADY),
                    Err(failure) => Err(failure),
                };
            }
            Stage::Open(_) => return failed(libc::EISCONN),
            Stage::Listening(_) => return failed(libc::EOPNOTSUPP),
            Stage::Failed(None) => return failed(libc::EINVAL),
        }
        let routes = inner.setup.routes(to)?;
        let Stage::Fresh(signal) = std::mem::replace(&mut inner.stage, Stage::Failed(None)) else {
            return failed(libc::EINVAL);
        };
        inner.stage = Stage::Opening(Some(Opening::start(&routes, &inner.setup.options, Some(signal))?));
        drop(inner);
        if waits { self.socket(true).map(|_| ()) } else { failed(libc::EINPROGRESS) }
    }

    /// The session, if there is one in time.
    fn settle(&self, within: Option<Duration>) -> Outcome<Arc<ParallelSocket>> {
        let mut inner = self.lock();
        let opening = loop {
            match &mut inner.stage {
                Stage::Open(socket) => return Ok(Arc::clone(socket)),
                Stage::Failed(Some(failure)) => return Err(failure.clone()),
                Stage::Opening(opening) => match opening.take() {
                    Some(opening) => break opening,
                    // Another thread's call waits for it.
                    None if within == Some(Duration::ZERO) => return failed(libc::EAGAIN),
                    None => inner = self.settled.wait(inner).unwrap_or_else(PoisonError::into_inner),
                },
                _ => return failed(libc::ENOTCONN),
            }
        };
        drop(inner);
        let waited = opening.wait(within);
        let mut inner = self.lock();
        self.settled.notify_all();
        if self.is_closed.load(SeqCst) {
            return failed(libc::EBADF);
        }
        let (stage, outcome) = match waited {
            Ok(Ok(socket)) => {
                let socket = Arc::new(socket);
                (Stage::Open(Arc::clone(&socket)), Ok(socket))
            }
            Ok(Err(problem)) => {
                let failure = Failure::from(problem);
                (Stage::Failed(Some(failure.clone())), Err(failure))
            }
            Err(still) => (Stage::Opening(Some(still)), failed(libc::EAGAIN)),
        };
        inner.stage = stage;
        outcome
    }

    /// The session; a call that may wait does so for one that is being opened.
    ///
    /// # Errors
    /// `ENOTCONN`, `EAGAIN`; the error of a `pconnect` that went on in the background.
    pub fn socket(&self, waits: bool) -> Outcome<Arc<ParallelSocket>> {
        let settled = self.settle(if waits { None } else { Some(Duration::ZERO) });
        if settled.is_err() {
            self.is_told();
        }
        settled
    }

    /// The session, if there is one; the reason why there is none stays to be reported.
    ///
    /// # Errors
    /// As for [`Self::socket`].
    pub fn look(&self) -> Outcome<Arc<ParallelSocket>> {
        self.settle(Some(Duration::ZERO))
    }

    /// The reason why there is no session has been reported.
    fn is_told(&self) {
        if let Stage::Failed(failure) = &mut self.lock().stage {
            *failure = None;
        }
    }

    /// The result of a `pconnect` that went on in the background, or why the session failed; reported once.
    pub fn take_error(&self) -> Option<Failure> {
        match self.socket(false) {
            Ok(socket) => socket.failure().map(Failure::from),
            Err(failure) => Some(failure).filter(|it| ![libc::EAGAIN, libc::ENOTCONN].contains(&it.errno)),
        }
    }

    /// Listens.
    ///
    /// # Errors
    /// `EINVAL`: the socket has no address, or is something else; `EADDRINUSE`, `EACCES` and other system errors.
    pub fn listen(&self) -> Outcome<()> {
        let mut inner = self.lock();
        match &inner.stage {
            Stage::Fresh(_) => {}
            // Again, with another backlog.
            Stage::Listening(_) => return Ok(()),
            _ => return failed(libc::EINVAL),
        }
        let Some(first) = inner.setup.local.first() else { return failed(libc::EINVAL) };
        let port = first.port();
        if port == 0 && inner.setup.local.len() > 1 {
            // Each would have another port.
            return failed(libc::EINVAL);
        }
        let at = |address: &SocketAddr| {
            let own = address.port();
            SocketAddr::new(address.ip(), if own == 0 { port } else { own })
        };
        let addresses: Vec<_> = inner.setup.local.iter().map(at).collect();
        let listener = Listener::bind(&addresses, inner.setup.options.clone())?;
        let listener = Arc::new(listener);
        if let Stage::Fresh(signal) =
            std::mem::replace(&mut inner.stage, Stage::Listening(Arc::clone(&listener)))
        {
            listener.set_signal(signal);
        }
        Ok(())
    }

    /// Listens at another address; with port 0, at the port of the first.
    ///
    /// # Errors
    /// `EINVAL`: it does not listen; `EADDRINUSE`, `EACCES` and other system errors.
    pub fn listen_also(&self, address: SocketAddr) -> Outcome<()> {
        let inner = self.lock();
        let Stage::Listening(listener) = &inner.stage else { return failed(libc::EINVAL) };
        let first = listener.addresses().first().map_or(0, SocketAddr::port);
        let port = if address.port() == 0 { first } else { address.port() };
        listener.add(SocketAddr::new(address.ip(), port))?;
        Ok(())
    }

    /// The next session of a listener.
    ///
    /// # Errors
    /// `EINVAL`: it does not listen. `EAGAIN`: no session waits. `EBADF`: it was closed meanwhile.
    pub fn accept(&self, waits: bool) -> Outcome<(ParallelSocket, SocketAddr)> {
        let inner = self.lock();
        let Stage::Listening(listener) = &inner.stage else { return failed(libc::EINVAL) };
        let (listener, limit) = (Arc::clone(listener), inner.setup.receive_timeout);
        drop(inner);
        if !waits {
            return listener.accept(Some(Duration::ZERO)).ok_or_else(|| Failure::new(libc::EAGAIN));
        }
        let mut left = limit.unwrap_or(Duration::MAX);
        while !left.is_zero() {
            let wait = left.min(LISTENING);
            if let Some(found) = listener.accept(Some(wait)) {
                return Ok(found);
            }
            if self.is_closed.load(SeqCst) {
                return failed(libc::EBADF);
            }
            left = left.saturating_sub(wait);
        }
        failed(libc::EAGAIN)
    }

    /// Whether it listens.
    #[must_use]
    pub fn is_listening(&self) -> bool {
        matches!(self.lock().stage, Stage::Listening(_))
    }

    /// This end's address: that of the first stream, of the listener, or of `pbind`.
    #[must_use]
    pub fn local(&self) -> Option<SocketAddr> {
        if let Ok(socket) = self.look() {
            return socket.report().streams.first().map(|stream| stream.local);
        }
        let inner = self.lock();
        match &inner.stage {
            Stage::Listening(listener) => listener.addresses().first().copied(),
            _ => inner.setup.local.first().copied(),
        }
    }

    /// The other end's address: that of the first stream.
    ///
    /// # Errors
    /// `ENOTCONN`.
    pub fn remote(&self) -> Outcome<SocketAddr> {
        let streams = self.look().map_err(|_| Failure::new(libc::ENOTCONN))?.report().streams;
        streams.first().map(|stream| stream.remote).ok_or_else(|| Failure::new(libc::ENOTCONN))
    }

    /// Ends one direction, or both.
    ///
    /// # Errors
    /// `EINVAL`, `ENOTCONN`.
    pub fn shut_down(&self, how: c_int) -> Outcome<()> {
        let (reads, writes) = match how {
            libc::SHUT_RD => (true, false),
            libc::SHUT_WR => (false, true),
            libc::SHUT_RDWR => (true, true),
            _ => return failed(libc::EINVAL),
        };
        let socket = self.look().map_err(|_| Failure::new(libc::ENOTCONN))?;
        if reads {
            self.is_deaf.store(true, SeqCst);
        }
        if writes {
            socket.finish();
        }
        Ok(())
    }

    /// Nothing more is to be read.
    #[must_use]
    pub fn is_deaf(&self) -> bool {
        self.is_deaf.load(SeqCst)
    }

    /// Aborts the session, if there is one: the process ends.
    #[must_use]
    pub fn abort(&self) -> Option<Arc<ParallelSocket>> {
        // Another thread may hold it for ever by now.
        let inner = self.inner.try_lock().ok()?;
        let Stage::Open(socket) = &inner.stage else { return None };
        socket.abort();
        Some(Arc::clone(socket))
    }

    /// Ends the socket, whose descriptor is gone: waits until everything that was sent has arrived.
    ///
    /// # Errors
    /// Why it has not arrived.
    pub fn close(&self) -> Outcome<()> {
        self.is_closed.store(true, SeqCst);
        let mut inner = self.lock();
        let linger = inner.setup.linger;
        let stage = std::mem::replace(&mut inner.stage, Stage::Failed(None));
        drop(inner);
        let Stage::Open(socket) = stage else { return Ok(()) };
        if linger == Linger::For(Duration::ZERO) {
            socket.abort();
            let _ = socket.ended(Some(LAST_WORDS));
            return Ok(());
        }
        let begun = Instant::now();
        socket.finish();
        let delivered = socket.delivered(linger.limit());
        if delivered.is_ok() {
            // The other end may still send, and is then told that no one reads it.
            let _ = socket.close(Some(linger.farewell(begun.elapsed())));
        }
        socket.abort();
        let _ = socket.ended(Some(LAST_WORDS));
        delivered.map_err(Into::into)
    }
}

#[cfg(test)]
mod tests {
    use weir_psock::io::{Options, Route};
    use weir_psock::session::Config;

    use super::*;

    #[test]
    fn what_nobody_reads_is_waited_for_no_longer_than_so_linger_says() {
        let config = Config { receive_bytes: 4096, ..Config::default() };
        let small = Options { config, ..Options::default() };
        let listener = Listener::bind(&["127.0.0.1:0".parse().unwrap()], small).unwrap();
        let route = Route { local: None, remote: listener.addresses()[0] };
        let socket = ParallelSocket::connect(&[route], &Options::default()).unwrap();
        let (_unread, _) = listener.accept(None).unwrap();
        socket.write_all(&[0; 100_000]).unwrap();
        let linger = Linger::For(Duration::from_millis(10));
        let setup = Setup { linger, ..Setup::new(libc::AF_INET) };
        let failure = Descriptor::accepted(setup, socket).close().unwrap_err();
        assert_eq!(failure.errno, libc::EAGAIN);
    }
}
