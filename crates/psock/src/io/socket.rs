//! The application's handle of a session.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use thiserror::Error;
use weir_clock::now_ns;

use super::forwarder::Forwarder;
use super::observed::observe;
use super::signal::{Signal, Waker};
use super::worker::Arrival;
use super::{OpenError, Opening, Options, Route, system};
use crate::schedule::scheduler;
use crate::session::{Read, Session, SessionError, StreamTotals, Totals};
use crate::wire::{Status, refused_welcome};

/// Why a call failed.
#[derive(Debug, Error)]
pub enum SocketError {
    /// The session failed.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Nothing could be done in time.
    #[error("nothing could be done in time")]
    TimedOut,
    /// A system error in this host.
    #[error("{what}")]
    System {
        /// What failed.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
}

/// What a stream has carried, and its state.
#[derive(Clone, Debug)]
pub struct StreamReport {
    /// Its number, which no other stream of the session has.
    pub id: u64,
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
    /// How it ended; empty while it works, and if it ended with the session.
    pub ended: String,
}

impl StreamReport {
    /// A stream that has carried nothing.
    pub(super) fn new(id: u64, local: SocketAddr, remote: SocketAddr) -> Self {
        Self {
            id,
            local,
            remote,
            totals: StreamTotals::default(),
            retransmitted_segments: 0,
            srtt_ns: 0,
            ended: String::new(),
        }
    }
}

/// The progress of a session.
#[derive(Clone, Debug)]
pub struct Report {
    /// Both directions.
    pub totals: Totals,
    /// Its streams in the order in which they came, those that have ended as well (at most 1024 of them).
    pub streams: Vec<StreamReport>,
    /// Name of the scheduler.
    pub scheduler: &'static str,
    /// The other end does not speak psock: one connection carries the bytes as they are.
    pub is_plain: bool,
}

const fn reduce(now: &mut u64, before: u64) {
    *now = now.saturating_sub(before);
}

impl Report {
    /// What was added since `before`, a report of the same session.
    #[must_use]
    pub fn since(mut self, before: &Self) -> Self {
        let (now, then) = (&mut self.totals, &before.totals);
        reduce(&mut now.written_bytes, then.written_bytes);
        reduce(&mut now.acknowledged_bytes, then.acknowledged_bytes);
        reduce(&mut now.received_bytes, then.received_bytes);
        reduce(&mut now.duplicate_bytes, then.duplicate_bytes);
        reduce(&mut now.resent_bytes, then.resent_bytes);
        reduce(&mut now.resent_blocks, then.resent_blocks);
        self.streams.retain_mut(|stream| {
            let Some(earlier) = before.streams.iter().find(|it| it.id == stream.id) else { return true };
            reduce(&mut stream.totals.sent_bytes, earlier.totals.sent_bytes);
            reduce(&mut stream.totals.resent_bytes, earlier.totals.resent_bytes);
            reduce(&mut stream.totals.received_bytes, earlier.totals.received_bytes);
            reduce(&mut stream.retransmitted_segments, earlier.retransmitted_segments);
            earlier.ended.is_empty()
        });
        self
    }
}

/// A stream that exists, or existed.
#[derive(Debug)]
pub(super) struct Tracked {
    pub report: StreamReport,
    /// Gone when the stream has ended.
    pub connection: Weak<TcpStream>,
}

/// What the application and the thread share.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    pub waker: Waker,
    most_streams: usize,
}

#[derive(Debug)]
pub(super) struct State {
    pub session: Session,
    /// Connections that were greeted, or could not be made.
    pub arriving: Vec<Arrival>,
    /// Routes of a client with no result yet.
    pub awaited: BTreeSet<usize>,
    pub streams: Vec<Tracked>,
    pub signal: Option<Signal>,
    /// For the thread to take.
    pub forwarder: Option<Box<dyn Forwarder>>,
    /// The other end does not speak psock.
    pub is_plain: bool,
    /// The thread waits for events.
    pub is_asleep: bool,
    /// The thread has ended.
    pub is_over: bool,
}

impl State {
    /// Signals those who poll; the application's calls are woken by [`Shared::changed`].
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
                awaited: BTreeSet::new(),
                streams: Vec::new(),
                signal: None,
                forwarder: None,
                is_plain: false,
                is_asleep: false,
                is_over: false,
            }),
            changed: Condvar::new(),
            waker: Waker::new().map_err(system("no event descriptor can be made"))?,
            most_streams: options.most_streams,
        }))
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes everyone who waits.
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

    /// Takes another stream if the session can have one, after `welcome` was sent on it; false if it cannot.
    ///
    /// A stream that makes no progress does not count: the new one is to replace it.
    pub fn admit(&self, mut stream: TcpStream, welcome: &[u8]) -> io::Result<bool> {
        let mut state = self.lock();
        let session = &state.session;
        let working = session.streams().filter(|id| !session.is_suspect(*id)).count();
        if state.is_over || working + state.arriving.len() >= self.most_streams {
            drop(state);
            stream.write_all(&refused_welcome(Status::Full))?;
            return Ok(false);
        }
        // A new connection takes so little at once.
        stream.write_all(welcome)?;
        state.arriving.push(Arrival { route: None, stream: Ok(stream) });
        self.wake(&mut state);
        Ok(true)
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

/// A session, as an application uses it. Dropping it aborts what is unfinished.
#[derive(Debug)]
pub struct ParallelSocket {
    shared: Arc<Shared>,
}

fn due(within: Option<Duration>) -> Option<Instant> {
    within.and_then(|within| Instant::now().checked_add(within))
}

/// What a read returns; `None`: it waits.
fn found(read: Result<Read, SessionError>) -> Option<Result<usize, SocketError>> {
    match read {
        Ok(Read::Bytes(len)) => Some(Ok(len)),
        Ok(Read::End) => Some(Ok(0)),
        Ok(Read::Nothing) => None,
        Err(failure) => Some(Err(failure.into())),
    }
}

impl ParallelSocket {
    /// Opens a session with a listener: tries all routes at once. The first that works opens the session, the
    /// others join it. Streams that end are made again while the session lasts.
    ///
    /// [`Opening::wait`] says how long it takes at most. [`Opening`] does the same without blocking.
    ///
    /// # Errors
    /// [`OpenError`]: if no route works, the error of the first one.
    pub fn connect(routes: &[Route], options: &Options) -> Result<Self, OpenError> {
        Opening::start(routes, options, None)?.finished()
    }

    pub(super) const fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Waits until each route has a stream or has failed; false if that is not known in time. A client's
    /// session has no other routes to wait for once it has failed, and a listener's has none at all.
    #[must_use]
    pub fn joined(&self, within: Option<Duration>) -> bool {
        let is_joined = |state: &mut State| {
            state.awaited.is_empty() || state.is_over || state.session.failure().is_some()
        };
        self.shared.wait(due(within), |state| is_joined(state).then_some(Ok(()))).is_ok()
    }

    /// Writes some bytes, at least one unless `bytes` is empty.
    ///
    /// `within`: how long to wait for memory; `None`: without limit, zero: not at all.
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
        self.shared.wait(due(within), |state| found(state.session.read(into)))
    }

    /// As [`ParallelSocket::read`], but what it gives can be read again.
    ///
    /// # Errors
    /// As [`ParallelSocket::read`].
    pub fn peek(&self, into: &mut [u8], within: Option<Duration>) -> Result<usize, SocketError> {
        if into.is_empty() {
            return Ok(0);
        }
        self.shared.wait(due(within), |state| found(state.session.peek(into)))
    }

    /// Has the session's own thread move bytes between the session and `forwarder`, until that is done or the session
    /// has ended: it is dropped then. Sessions of plain TCP ([`Report::is_plain`]) have none.
    pub fn attach(&self, forwarder: Box<dyn Forwarder>) {
        let mut state = self.shared.lock();
        if !state.is_over && !state.is_plain {
            state.forwarder = Some(forwarder);
        }
        self.shared.wake(&mut state);
    }

    /// Has what is attached look again.
    pub fn wake(&self) {
        self.shared.wake(&mut self.shared.lock());
    }

    /// Nothing more will be written; the other end reads the end after all data.
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

    /// Time since anything came by a stream that exists, if only from the other end's TCP; `None`: there is none.
    #[must_use]
    pub fn silence(&self) -> Option<Duration> {
        let heard_ns = self.shared.lock().session.worked_ns()?;
        Some(Duration::from_nanos(now_ns().saturating_sub(heard_ns)))
    }

    /// What the other end's TCP has acknowledged on the streams that exist, as this system knows now.
    #[must_use]
    pub fn acked_bytes(&self) -> u64 {
        let state = self.shared.lock();
        let connections = state.streams.iter().filter_map(|stream| stream.connection.upgrade());
        connections.filter_map(|connection| observe(&connection)).map(|stats| stats.acked_bytes).sum()
    }

    /// Ends the session properly: waits until everything has arrived at both ends, which requires the other
    /// end's finish as well, and until the connections are closed.
    ///
    /// # Errors
    /// [`SocketError`]; the session is aborted when the socket is dropped.
    pub fn close(&self, within: Option<Duration>) -> Result<(), SocketError> {
        self.finish();
        self.shared.wait(due(within), |state| match state.session.failure() {
            Some(failure) => Some(Err(failure.into())),
            None if state.session.is_finished() && state.is_over => Some(Ok(())),
            None => None,
        })
    }

    /// Waits until the connections are closed, after the session has ended or was aborted; false
    /// if they are not in time.
    #[must_use]
    pub fn ended(&self, within: Option<Duration>) -> bool {
        self.shared.wait(due(within), |state| state.is_over.then_some(Ok(()))).is_ok()
    }

    /// Aborts the session; the other end is told.
    pub fn abort(&self) {
        let mut state = self.shared.lock();
        state.session.abort();
        self.shared.tell(&mut state);
        self.shared.wake(&mut state);
    }

    /// A descriptor to poll: readable while [`ParallelSocket::read`] would not wait, writable while
    /// [`ParallelSocket::write`] would not. It has no other use, and belongs to the socket.
    ///
    /// # Errors
    /// No descriptor can be made.
    pub fn poll_fd(&self) -> Result<RawFd, SocketError> {
        let mut state = self.shared.lock();
        let what = "no descriptor can be made";
        if state.signal.is_none() {
            state.signal = Some(Signal::new().map_err(|source| SocketError::System { what, source })?);
        }
        state.show();
        Ok(state.signal.as_ref().map_or(-1, AsRawFd::as_raw_fd))
    }

    /// The session's progress.
    #[must_use]
    pub fn report(&self) -> Report {
        let state = self.shared.lock();
        Report {
            totals: state.session.totals(),
            streams: state.streams.iter().map(|tracked| tracked.report.clone()).collect(),
            scheduler: state.session.scheduler(),
            is_plain: state.is_plain,
        }
    }

    /// The connection of a stream, by its place in the [`Report`], for socket options; `None` if it has ended.
    #[must_use]
    pub fn connection(&self, stream: usize) -> Option<Arc<TcpStream>> {
        self.shared.lock().streams.get(stream)?.connection.upgrade()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_that_of_each_stream_whichever_ports_it_has() {
        let (at, session) =
            (SocketAddr::from(([192, 0, 2, 1], 1)), Shared::new(&Options::default()).unwrap());
        let report = |streams: &[(u64, u64, &str)]| {
            let stream = |&(id, sent_bytes, ended): &(u64, u64, &str)| {
                let mut stream = StreamReport::new(id, at, at);
                (stream.totals.sent_bytes, stream.ended) = (sent_bytes, ended.to_owned());
                stream
            };
            let streams = streams.iter().map(stream).collect();
            Report { streams, ..ParallelSocket::new(Arc::clone(&session)).report() }
        };
        let before = report(&[(1, 500, "reset"), (2, 70, "")]);
        let added = report(&[(1, 500, "reset"), (2, 100, ""), (3, 20, "")]).since(&before);
        let streams: Vec<_> = added.streams.iter().map(|it| (it.id, it.totals.sent_bytes)).collect();
        assert_eq!(streams, [(2, 30), (3, 20)]);
    }
}
