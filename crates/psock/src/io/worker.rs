//! The thread of a session: all its input and output.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use socket2::SockRef;
use weir_clock::now_ns;

use super::dialer::Dialer;
use super::forwarder::Forwarder;
use super::observed::{is_another_rate, observe, pace};
use super::signal::poll;
use super::socket::{Shared, State, StreamReport, Tracked};
use super::{OpenError, system};
use crate::schedule::StreamId;
use crate::session::{Close, SessionError};
use crate::wire::GreetingError;

const READ_BYTES: usize = 256 * 1024;
/// How often the kernel is queried about connections while there is nothing to decide.
const LOOK_NS: u64 = 2_000_000;
const MS: u64 = 1_000_000;
/// Time after the end until connections are closed, whatever the other end does.
const LINGER_NS: u64 = 2000 * MS;
/// The same after a failure.
const FAREWELL_NS: u64 = 300 * MS;
/// How a stream ended that another one over the same path replaced.
const REPLACED: &str = "it made no progress, and another over the same path did";
/// Most streams that are kept in the report.
const MOST_REPORTS: usize = 1024;

/// A connection that was greeted, or that failed.
#[derive(Debug)]
pub struct Arrival {
    /// The client's route.
    pub route: Option<usize>,
    pub stream: Result<TcpStream, OpenError>,
}

#[derive(Debug)]
struct Connection {
    id: StreamId,
    stream: Arc<TcpStream>,
    route: Option<usize>,
    /// Place of its report.
    report: usize,
    has_ended_output: bool,
    /// The rate that TCP was told not to exceed.
    pacing_bytes_per_s: Option<u64>,
}

/// Starts the thread of a session; `ended` is called when that ends.
pub fn start(
    shared: &Arc<Shared>,
    dialer: Option<Dialer>,
    ended: impl FnOnce() + Send + 'static,
) -> Result<(), OpenError> {
    let mut worker = Worker {
        shared: Arc::clone(shared),
        dialer,
        connections: Vec::new(),
        buffer: vec![0; READ_BYTES],
        forwarder: None,
        closes_ns: None,
        looked_ns: 0,
        next_look_ns: u64::MAX,
    };
    // What has arrived counts as soon as there is a socket.
    worker.attach(&mut shared.lock(), now_ns());
    let work = move || {
        worker.run();
        worker.end();
        ended();
    };
    thread::Builder::new()
        .name("psock".to_owned())
        .spawn(work)
        .map(|_| ())
        .map_err(system("no thread can be made"))
}

/// The other end's system has closed a connection with this error; `None`: it has not.
fn by_peer(error: &io::Error) -> Option<Close> {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe).then_some(Close::Reset)
}

struct Worker {
    shared: Arc<Shared>,
    dialer: Option<Dialer>,
    connections: Vec<Connection>,
    buffer: Vec<u8>,
    /// What the application has attached, with the entry to poll for it.
    forwarder: Option<(Box<dyn Forwarder>, libc::pollfd)>,
    /// When connections are closed whatever the other end does.
    closes_ns: Option<u64>,
    looked_ns: u64,
    /// When to make up for a postponed look.
    next_look_ns: u64,
}

impl Worker {
    fn run(&mut self) {
        let shared = Arc::clone(&self.shared);
        let mut fds = Vec::new();
        loop {
            let mut state = shared.lock();
            state.is_asleep = false;
            let now = now_ns();
            self.take_events(&mut state, &fds, now);
            self.attach(&mut state, now);
            self.forward(&mut state, &fds);
            self.look(&mut state, now);
            state.session.drive(now);
            while let Some(dead) = state.session.take_dead() {
                self.reset(&mut state, dead, "it made no progress", now);
            }
            if !state.session.is_finished() && state.session.failure().is_none() {
                self.dial(&state, now);
            }
            self.flush(&mut state, now);
            let until = self.until(&state, now);
            shared.tell(&mut state);
            if self.closes_ns.is_some() && self.connections.is_empty()
                || self.closes_ns.is_some_and(|closes| now >= closes)
            {
                return;
            }
            self.ask(&state, &mut fds);
            state.is_asleep = true;
            drop(state);
            if poll(&mut fds, now, until).is_err() {
                // Out of memory, for instance: it may pass.
                thread::sleep(Duration::from_millis(10));
            }
            if fds.first().is_some_and(|waker| waker.revents != 0) {
                shared.waker.clear();
            }
        }
    }

    fn end(&mut self) {
        let mut state = self.shared.lock();
        for connection in self.connections.drain(..) {
            let _ = connection.stream.shutdown(Shutdown::Both);
            state.session.detach(connection.id);
        }
        state.arriving.clear();
        state.forwarder = None;
        self.forwarder = None;
        state.is_over = true;
        self.shared.tell(&mut state);
    }

    /// Moves bytes between the session and what the application has attached.
    fn forward(&mut self, state: &mut State, fds: &[libc::pollfd]) {
        let mut events = 0;
        if let Some(forwarder) = state.forwarder.take() {
            self.forwarder = Some((forwarder, libc::pollfd { fd: -1, events: 0, revents: 0 }));
        } else if let (Some((_, entry)), Some(last)) = (&self.forwarder, fds.last()) {
            // Connections come before it, and none has its descriptor.
            events = if last.fd == entry.fd { last.revents } else { 0 };
        }
        let Some((forwarder, entry)) = &mut self.forwarder else { return };
        match forwarder.forward(&mut state.session, events, &mut self.buffer) {
            Some(next) => *entry = next,
            None => self.forwarder = None,
        }
    }

    /// What to wait for: the waker first, then the connections in their order, and what is attached.
    fn ask(&self, state: &State, fds: &mut Vec<libc::pollfd>) {
        let entry = |fd, events| libc::pollfd { fd, events, revents: 0 };
        fds.clear();
        fds.push(entry(self.shared.waker.as_raw_fd(), libc::POLLIN));
        let wants = state.session.wants_to_send();
        for connection in &self.connections {
            let id = connection.id;
            let waits = !state.session.pending(id).is_empty() || wants && !state.session.is_writable(id);
            let out = if waits { libc::POLLOUT } else { 0 };
            fds.push(entry(connection.stream.as_raw_fd(), libc::POLLIN | out));
        }
        fds.extend(self.forwarder.as_ref().map(|(_, entry)| *entry));
    }

    /// Until when to wait.
    fn until(&self, state: &State, now: u64) -> u64 {
        let session = state.session.deadline_ns();
        let dialer = if self.closes_ns.is_some() { u64::MAX } else { self.dial_deadline() };
        session.min(dialer).min(self.closes_ns.unwrap_or(u64::MAX)).min(self.next_look_ns).max(now)
    }

    fn dial_deadline(&self) -> u64 {
        self.dialer.as_ref().map_or(u64::MAX, |dialer| dialer.redial.next_ns())
    }

    fn take_events(&mut self, state: &mut State, fds: &[libc::pollfd], now: u64) {
        let events: Vec<_> =
            fds.iter().skip(1).zip(&self.connections).map(|(fd, c)| (c.id, fd.revents)).collect();
        for (id, revents) in events {
            if revents & libc::POLLOUT != 0 {
                state.session.set_writable(id);
            }
            if revents & !libc::POLLOUT != 0 {
                self.read(state, id, now);
            }
        }
    }

    fn read(&mut self, state: &mut State, id: StreamId, now: u64) {
        let Some(connection) = self.connections.iter_mut().find(|each| each.id == id) else { return };
        match (&*connection.stream).read(&mut self.buffer) {
            Ok(0) => self.close(state, id, "the other end closed it", Some(Close::End), now),
            Ok(read) => {
                // Its error stays in the session; after the end there is nothing left to report.
                let _ = state.session.input(id, &self.buffer[..read], now);
            }
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(e) => self.close(state, id, &e.to_string(), by_peer(&e), now),
        }
    }

    /// Makes ended streams again, and others alongside those that make no progress.
    fn dial(&mut self, state: &State, now: u64) {
        let Some(dialer) = &mut self.dialer else { return };
        for connection in &self.connections {
            let Some(route) = connection.route else { continue };
            if state.session.is_stalled(connection.id) {
                dialer.redial.stalls(route, state.session.answer_ns(connection.id), now);
            } else {
                dialer.redial.recovers(route);
            }
        }
        dialer.dial(&self.shared, now);
    }

    /// Closes a connection whose path carries nothing: what TCP holds is not sent when the path comes back.
    fn reset(&mut self, state: &mut State, id: StreamId, why: &str, now: u64) {
        if let Some(connection) = self.connections.iter().find(|each| each.id == id) {
            let _ = SockRef::from(&*connection.stream).set_linger(Some(Duration::ZERO));
        }
        self.close(state, id, why, None, now);
    }

    /// `how`: the other end has closed it.
    fn close(&mut self, state: &mut State, id: StreamId, why: &str, how: Option<Close>, now: u64) {
        let Some(at) = self.connections.iter().position(|each| each.id == id) else { return };
        let connection = self.connections.remove(at);
        // An end that has everything closes its streams.
        let why = if state.session.is_finished() { "" } else { why };
        self.report(state, &connection, why);
        if let (Some(dialer), Some(route)) = (&mut self.dialer, connection.route) {
            dialer.redial.ended(route, state.session.answer_ns(id), now);
        }
        match how {
            Some(how) => state.session.close(id, how, now),
            None => state.session.detach(id),
        }
        let _ = connection.stream.shutdown(Shutdown::Both);
    }

    fn attach(&mut self, state: &mut State, now: u64) {
        let mut arriving = std::mem::take(&mut state.arriving);
        // What works first: beside it, a failure ends nothing.
        arriving.sort_by_key(|arrival| arrival.stream.is_err());
        for Arrival { route, stream } in arriving {
            let mut is_refused = false;
            let made = match stream {
                Ok(stream) => self.accept(state, route, stream, now),
                Err(error) => {
                    let is_forgotten =
                        matches!(error, OpenError::Greeting { source: GreetingError::Unknown, .. });
                    if is_forgotten && !self.has_working(state) {
                        state.session.forget();
                    }
                    is_refused = matches!(&error, OpenError::Connect { source, .. }
                        if source.kind() == io::ErrorKind::ConnectionRefused);
                    None
                }
            };
            let (Some(dialer), Some(route)) = (&mut self.dialer, route) else { continue };
            state.awaited.remove(&route);
            match made {
                Some(()) => dialer.redial.attached(route, now),
                None if is_refused => dialer.redial.refused(route, now),
                None => dialer.redial.failed(route, now),
            }
        }
        if self.dialer.as_ref().is_some_and(|dialer| dialer.redial.is_refused()) {
            // Its hosts answer: nobody listens any more.
            state.session.part();
        }
    }

    /// There is a connection that makes progress, or is not known to make none.
    fn has_working(&self, state: &State) -> bool {
        self.connections.iter().any(|each| !state.session.is_stalled(each.id))
    }

    /// Takes a connection that was greeted, in place of the one that its route had; `None`: it is not needed.
    fn accept(&mut self, state: &mut State, route: Option<usize>, stream: TcpStream, now: u64) -> Option<()> {
        let (local, remote) = (stream.local_addr().ok()?, stream.peer_addr().ok()?);
        stream.set_nonblocking(true).ok()?;
        let before = route.and_then(|_| self.connections.iter().find(|each| each.route == route));
        if let Some(id) = before.map(|before| before.id) {
            if !state.session.is_stalled(id) {
                // The other end closes what is dropped here.
                return None;
            }
            self.reset(state, id, REPLACED, now);
        }
        let id = state.session.attach(now)?;
        let stream = Arc::new(stream);
        let report = self.add_report(state, id, local, remote, &stream);
        self.connections.push(Connection {
            id,
            stream,
            route,
            report,
            has_ended_output: false,
            pacing_bytes_per_s: None,
        });
        Some(())
    }

    fn add_report(
        &mut self,
        state: &mut State,
        id: StreamId,
        local: SocketAddr,
        remote: SocketAddr,
        stream: &Arc<TcpStream>,
    ) -> usize {
        if state.streams.len() >= MOST_REPORTS
            && let Some(oldest) = state.streams.iter().position(|stream| !stream.report.ended.is_empty())
        {
            state.streams.remove(oldest);
            for connection in &mut self.connections {
                connection.report -= usize::from(connection.report > oldest);
            }
        }
        let report = StreamReport::new(id.0.into(), local, remote);
        state.streams.push(Tracked { report, connection: Arc::downgrade(stream) });
        state.streams.len() - 1
    }

    fn report(&self, state: &mut State, connection: &Connection, ended: &str) {
        let totals = state.session.stream_totals(connection.id);
        let observed = observe(&connection.stream);
        let Some(Tracked { report, .. }) = state.streams.get_mut(connection.report) else { return };
        report.totals = totals.unwrap_or(report.totals);
        report.ended = ended.to_owned();
        if let Some(stats) = observed {
            report.retransmitted_segments = stats.retransmitted_segments;
            report.srtt_ns = stats.srtt_ns;
        }
    }

    /// Queries the kernel about every connection, and tells it how fast each may be.
    fn look(&mut self, state: &mut State, now: u64) {
        let next = self.looked_ns.saturating_add(LOOK_NS);
        let is_due = now >= next || state.session.wants_to_send();
        (self.looked_ns, self.next_look_ns) = if is_due { (now, u64::MAX) } else { (self.looked_ns, next) };
        for connection in &mut self.connections {
            let totals = state.session.stream_totals(connection.id);
            if let Some(Tracked { report, .. }) = state.streams.get_mut(connection.report) {
                report.totals = totals.unwrap_or(report.totals);
            }
            let Some(stats) = is_due.then(|| observe(&connection.stream)).flatten() else { continue };
            state.session.set_stats(connection.id, stats, now);
            if let Some(Tracked { report, .. }) = state.streams.get_mut(connection.report) {
                report.srtt_ns = stats.srtt_ns;
                report.retransmitted_segments = stats.retransmitted_segments;
            }
            let wanted = state.session.pacing_bytes_per_s(connection.id);
            if is_another_rate(connection.pacing_bytes_per_s, wanted) {
                connection.pacing_bytes_per_s = wanted;
                pace(&connection.stream, wanted);
            }
        }
    }

    /// Writes what is pending, and ends what is at its end.
    fn flush(&mut self, state: &mut State, now: u64) {
        let mut broken = Vec::new();
        for connection in &mut self.connections {
            let pending = state.session.pending(connection.id);
            if pending.is_empty() {
                continue;
            }
            match (&*connection.stream).write(pending) {
                Ok(written) => state.session.sent(connection.id, written),
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(e) => broken.push((connection.id, e)),
            }
        }
        for (id, error) in broken {
            // What the other end sent before it closed may still be there to be read.
            self.read_rest(state, id, now);
            self.close(state, id, &error.to_string(), by_peer(&error), now);
        }
        let patience_ns = match state.session.failure() {
            None if state.session.is_finished() => LINGER_NS,
            None => return,
            // There is nobody left to tell, or to wait for.
            Some(SessionError::Lost(_) | SessionError::Forgotten | SessionError::Gone) => 0,
            Some(_) => FAREWELL_NS,
        };
        self.closes_ns.get_or_insert(now.saturating_add(patience_ns));
        for connection in &mut self.connections {
            if !connection.has_ended_output && state.session.pending(connection.id).is_empty() {
                connection.has_ended_output = true;
                let _ = connection.stream.shutdown(Shutdown::Write);
            }
        }
    }

    fn read_rest(&mut self, state: &mut State, id: StreamId, now: u64) {
        let Some(connection) = self.connections.iter_mut().find(|each| each.id == id) else { return };
        while let Ok(read @ 1..) = (&*connection.stream).read(&mut self.buffer) {
            if state.session.input(id, &self.buffer[..read], now).is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::io::{Options, Route};
    use crate::wire::Secret;

    const LOOPBACK: &str = "127.0.0.1:0";

    fn refused(route: usize) -> Arrival {
        let (to, source) = (LOOPBACK.parse().unwrap(), io::ErrorKind::ConnectionRefused.into());
        Arrival { route: Some(route), stream: Err(OpenError::Connect { to, source }) }
    }

    #[test]
    fn a_session_ends_when_the_paths_that_worked_are_refused_and_nothing_else_arrives() {
        let listener = TcpListener::bind(LOOPBACK).unwrap();
        let at = listener.local_addr().unwrap();
        let works = |route| Arrival { route: Some(route), stream: Ok(TcpStream::connect(at).unwrap()) };
        // The third is one to which nobody ever listens.
        let routes = ["127.0.0.1", "127.0.0.2", "127.0.0.3"]
            .map(|local| Route { local: Some(local.parse().unwrap()), remote: at });
        let (shared, id) = (Shared::new(&Options::default()).unwrap(), [0; 16]);
        let dialer =
            Dialer::new(&routes, &[false; 3], id, Secret::of_token(b"", &id), Arc::new(Options::default()));
        let mut worker = Worker {
            shared: Arc::clone(&shared),
            dialer: Some(dialer),
            connections: Vec::new(),
            buffer: Vec::new(),
            forwarder: None,
            closes_ns: None,
            looked_ns: 0,
            next_look_ns: u64::MAX,
        };
        let state = &mut *shared.lock();
        let mut arrive = |state: &mut State, arriving, closes: bool| {
            state.arriving = arriving;
            worker.attach(state, 1);
            let ids: Vec<_> = worker.connections.iter().map(|connection| connection.id).collect();
            for id in ids.into_iter().filter(|_| closes) {
                worker.close(state, id, "reset", Some(Close::Reset), 1);
            }
        };
        arrive(state, vec![works(0), works(1), refused(2)], true);
        arrive(state, vec![refused(2), refused(1)], false);
        assert_eq!(state.session.failure(), None, "one is still to be tried");
        arrive(state, vec![refused(0), works(1)], true);
        assert_eq!(state.session.failure(), None, "one works");
        arrive(state, vec![refused(0), refused(1)], false);
        assert_eq!(state.session.failure(), Some(SessionError::Gone));
    }
}
