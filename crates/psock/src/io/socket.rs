//! What an application holds.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use thiserror::Error;

use super::dial::{Purpose, dial, is_final};
use super::signal::{Signal, Waker};
use super::worker::{self, Arrival, Dialer};
use super::{OpenError, Options, Route, random, system};
use crate::schedule::scheduler;
use crate::session::{Read, Session, SessionError, StreamTotals, Totals};
use crate::wire::MOST_STREAMS;

/// Why a call failed.
#[derive(Debug, Error)]
pub enum SocketError {
    /// The session.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Nothing could be done in time.
    #[error("nothing could be done in time")]
    TimedOut,
    /// Something in this host.
    #[error("{what}")]
    System {
        /// What failed.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
}

/// What a stream has carried, and how it is.
#[derive(Clone, Debug)]
pub struct StreamReport {
    /// This end.
    pub local: SocketAddr,
    /// The other.
    pub remote: SocketAddr,
    /// Bytes of blocks.
    pub totals: StreamTotals,
    /// Segments that TCP sent again.
    pub retransmitted_segments: u64,
    /// TCP's smoothed round-trip time.
    pub srtt_ns: u64,
    /// How it ended; empty while it works, and where it ended with the session.
    pub ended: String,
}

/// Where a session is.
#[derive(Clone, Debug)]
pub struct Report {
    /// Both directions.
    pub totals: Totals,
    /// Its streams in the order in which they came, those that have ended as well (at most 1024 of them).
    pub streams: Vec<StreamReport>,
    /// Name of the scheduler.
    pub scheduler: &'static str,
}

/// What the application and the thread share.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    pub waker: Waker,
}

#[derive(Debug)]
pub(super) struct State {
    pub session: Session,
    /// Connections that were greeted, or were not to be had.
    pub arriving: Vec<Arrival>,
    pub streams: Vec<StreamReport>,
    signal: Option<Signal>,
    /// The thread waits for events.
    pub is_asleep: bool,
    /// The thread has ended.
    pub is_over: bool,
}

impl State {
    /// Tells whoever polls; the application's calls are told by [`Shared::changed`].
    fn show(&mut self) {
        if let Some(signal) = &mut self.signal {
            signal.show(self.session.can_read(), self.session.can_write());
        }
    }
}

impl Shared {
    pub fn new(options: &Options) -> Result<Arc<Self>, OpenError> {
        let unknown = || OpenError::Scheduler(options.scheduler.clone());
        let session = Session::new(options.config, scheduler(&options.scheduler).ok_or_else(unknown)?);
        Ok(Arc::new(Self {
            state: Mutex::new(State {
                session,
                arriving: Vec::new(),
                streams: Vec::new(),
                signal: None,
                is_asleep: false,
                is_over: false,
            }),
            changed: Condvar::new(),
            waker: Waker::new().map_err(system("no event descriptor can be made"))?,
        }))
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets everybody look who waits.
    pub fn tell(&self, state: &mut State) {
        state.show();
        self.changed.notify_all();
    }

    /// A connection for the session.
    pub fn arrive(&self, arrival: Arrival) {
        let mut state = self.lock();
        if !state.is_over {
            state.arriving.push(arrival);
            self.wake(&mut state);
        }
    }

    /// Whether a session can have another stream.
    pub fn has_room(&self) -> bool {
        let state = self.lock();
        !state.is_over && state.session.streams().count() + state.arriving.len() < MOST_STREAMS
    }

    fn wake(&self, state: &mut State) {
        if state.is_asleep {
            state.is_asleep = false;
            self.waker.wake();
        }
    }

    /// Waits until `done` with the session gives something, or `due`.
    fn wait<T>(
        &self,
        due: Option<Instant>,
        mut done: impl FnMut(&mut State) -> Option<Result<T, SocketError>>,
    ) -> Result<T, SocketError> {
        let mut state = self.lock();
        loop {
            let found = done(&mut state);
            if let Some(found) = found {
                state.show();
                self.wake(&mut state);
                return found;
            }
            state = match due {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(due) => {
                    let left = due.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(SocketError::TimedOut);
                    }
                    self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

/// A session, as an application uses it. Dropping it breaks off what has not come to its end.
#[derive(Debug)]
pub struct ParallelSocket {
    shared: Arc<Shared>,
}

fn due(within: Option<Duration>) -> Option<Instant> {
    within.and_then(|within| Instant::now().checked_add(within))
}

impl ParallelSocket {
    /// Opens a session with a listener: over the first route that works, and then over all of them. Streams that
    /// end are made again while the session lasts.
    ///
    /// # Errors
    /// [`OpenError`]: if no route works, that of the first one.
    pub fn connect(routes: &[Route], options: &Options) -> Result<Self, OpenError> {
        options.check()?;
        if !(1..=MOST_STREAMS).contains(&routes.len()) {
            return Err(OpenError::Addresses(routes.len()));
        }
        let id = random().map_err(system("random numbers cannot be had"))?;
        let mut first_problem = None;
        for (number, route) in routes.iter().enumerate() {
            match dial(route, id, &Purpose::Open, options) {
                Ok((stream, secret)) => {
                    let shared = Shared::new(options)?;
                    let dialer = Dialer::new(routes, number, id, secret, options.clone());
                    shared.arrive(Arrival { route: Some(number), stream: Ok(stream) });
                    worker::start(&shared, Some(dialer), || {})?;
                    return Ok(Self { shared });
                }
                Err(problem) if is_final(&problem) => return Err(problem),
                Err(problem) => {
                    first_problem.get_or_insert(problem);
                }
            }
        }
        Err(first_problem.unwrap_or(OpenError::Addresses(0)))
    }

    pub(super) const fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Writes some bytes, at least one unless `bytes` is empty.
    ///
    /// `within`: how long to wait for memory; `None`: without end, zero: not at all.
    ///
    /// # Errors
    /// [`SocketError`].
    pub fn write(&self, bytes: &[u8], within: Option<Duration>) -> Result<usize, SocketError> {
        self.shared.wait(due(within), |state| match state.session.write(bytes) {
            Ok(0) if !bytes.is_empty() => None,
            written => Some(written.map_err(Into::into)),
        })
    }

    /// Writes all of them, however long that takes.
    ///
    /// # Errors
    /// [`SocketError`]; a part may have been written.
    pub fn write_all(&self, mut bytes: &[u8]) -> Result<(), SocketError> {
        while !bytes.is_empty() {
            bytes = &bytes[self.write(bytes, None)?..];
        }
        Ok(())
    }

    /// Reads some bytes; 0: the other end has sent everything. `within` as for [`ParallelSocket::write`].
    ///
    /// # Errors
    /// [`SocketError`]; what had arrived before is read first.
    pub fn read(&self, into: &mut [u8], within: Option<Duration>) -> Result<usize, SocketError> {
        if into.is_empty() {
            return Ok(0);
        }
        self.shared.wait(due(within), |state| match state.session.read(into) {
            Ok(Read::Bytes(len)) => Some(Ok(len)),
            Ok(Read::End) => Some(Ok(0)),
            Ok(Read::Nothing) => None,
            Err(failure) => Some(Err(failure.into())),
        })
    }

    /// Nothing more will be written; the other end reads the end behind what was.
    pub fn finish(&self) {
        let mut state = self.shared.lock();
        state.session.finish();
        state.show();
        self.shared.wake(&mut state);
    }

    /// Waits until everything that was written has arrived, after [`ParallelSocket::finish`].
    ///
    /// # Errors
    /// [`SocketError`].
    pub fn delivered(&self, within: Option<Duration>) -> Result<(), SocketError> {
        self.shared.wait(due(within), |state| match state.session.failure() {
            _ if state.session.is_delivered() => Some(Ok(())),
            Some(failure) => Some(Err(failure.into())),
            None => None,
        })
    }

    /// Ends the session in good order: waits until everything has arrived at both ends, which takes the other
    /// end's finish as well, and until the connections are closed.
    ///
    /// # Errors
    /// [`SocketError`]; the session is broken off when the socket is dropped.
    pub fn close(&self, within: Option<Duration>) -> Result<(), SocketError> {
        self.finish();
        self.shared.wait(due(within), |state| match state.session.failure() {
            Some(failure) => Some(Err(failure.into())),
            None if state.session.is_finished() && state.is_over => Some(Ok(())),
            None => None,
        })
    }

    /// Breaks the session off; the other end is told so.
    pub fn abort(&self) {
        let mut state = self.shared.lock();
        state.session.abort();
        self.shared.tell(&mut state);
        self.shared.wake(&mut state);
    }

    /// A descriptor to poll: readable while [`ParallelSocket::read`] would not wait, writable while
    /// [`ParallelSocket::write`] would not. It is for nothing else, and belongs to the socket.
    ///
    /// # Errors
    /// None can be made.
    pub fn poll_fd(&self) -> Result<RawFd, SocketError> {
        let mut state = self.shared.lock();
        let what = "no descriptor can be made";
        if state.signal.is_none() {
            state.signal = Some(Signal::new().map_err(|source| SocketError::System { what, source })?);
        }
        state.show();
        Ok(state.signal.as_ref().map_or(-1, AsRawFd::as_raw_fd))
    }

    /// Where it is.
    #[must_use]
    pub fn report(&self) -> Report {
        let state = self.shared.lock();
        Report {
            totals: state.session.totals(),
            streams: state.streams.clone(),
            scheduler: state.session.scheduler(),
        }
    }

    /// Why the session failed, if it did.
    #[must_use]
    pub fn failure(&self) -> Option<SessionError> {
        self.shared.lock().session.failure()
    }
}

impl Drop for ParallelSocket {
    fn drop(&mut self) {
        self.abort();
    }
}
