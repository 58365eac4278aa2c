//! The thread of a socket whose other end speaks plain TCP.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use socket2::SockRef;
use weir_clock::now_ns;

use super::observed::{observe, unacked};
use super::signal::poll;
use super::socket::{Shared, State, StreamReport, Tracked};
use super::{OpenError, system};

const READ_BYTES: usize = 256 * 1024;
/// No event reports acknowledgements: TCP is queried for them at this interval.
const LOOK_NS: u64 = 5_000_000;

/// Starts the thread.
pub fn start(shared: &Arc<Shared>, stream: TcpStream) -> Result<(), OpenError> {
    let ends = (stream.local_addr(), stream.peer_addr(), stream.set_nonblocking(true));
    let (local, remote, ()) = (
        ends.0.map_err(system("the connection has no address"))?,
        ends.1.map_err(system("the connection has no other end"))?,
        ends.2.map_err(system("the connection cannot be made non-blocking"))?,
    );
    let stream = Arc::new(stream);
    let mut state = shared.lock();
    state.is_plain = true;
    state.session.plain_begin();
    let report = StreamReport::new(0, local, remote);
    state.streams.push(Tracked { report, connection: Arc::downgrade(&stream) });
    drop(state);
    let worker = Worker {
        shared: Arc::clone(shared),
        stream,
        pending: Vec::new(),
        taken: 0,
        sent_bytes: 0,
        has_ended: [false; 2],
        buffer: vec![0; READ_BYTES],
    };
    thread::Builder::new()
        .name("psock".to_owned())
        .spawn(move || worker.run())
        .map(|_| ())
        .map_err(system("no thread can be made"))
}

struct Worker {
    shared: Arc<Shared>,
    stream: Arc<TcpStream>,
    /// What TCP is to take, and how much of it it has.
    pending: Vec<u8>,
    taken: usize,
    /// What TCP has taken.
    sent_bytes: u64,
    /// The output, the input.
    has_ended: [bool; 2],
    buffer: Vec<u8>,
}

impl Worker {
    fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let mut fds = [libc::pollfd { fd: shared.waker.as_raw_fd(), events: libc::POLLIN, revents: 0 }; 2];
        loop {
            let mut state = shared.lock();
            state.is_asleep = false;
            if self.receive(&mut state).and_then(|()| self.send(&mut state)).is_err() {
                state.session.plain_break();
            }
            let is_waiting = self.account(&mut state);
            // While it is neither read nor written, only the socket knows that it was reset.
            if is_waiting && !matches!(self.stream.take_error(), Ok(None)) {
                state.session.plain_break();
            }
            if state.session.failure().is_some() || state.session.is_finished() {
                self.end(&mut state);
                return;
            }
            shared.tell(&mut state);
            let reads = !self.has_ended[1] && state.session.plain_room() > 0;
            let events = if reads { libc::POLLIN } else { 0 }
                | if self.taken < self.pending.len() { libc::POLLOUT } else { 0 };
            // A connection that has ended is always ready.
            fds[1] = libc::pollfd {
                fd: if events == 0 { -1 } else { self.stream.as_raw_fd() },
                events,
                revents: 0,
            };
            state.is_asleep = true;
            drop(state);
            let now = now_ns();
            let until = if is_waiting { now + LOOK_NS } else { u64::MAX };
            if poll(&mut fds, now, until).is_err() {
                thread::sleep(Duration::from_millis(10));
            }
            if fds[0].revents != 0 {
                shared.waker.clear();
            }
        }
    }

    /// Takes what has come, as far as there is memory for it.
    fn receive(&mut self, state: &mut State) -> io::Result<()> {
        let room = state.session.plain_room().min(self.buffer.len());
        if self.has_ended[1] || room == 0 {
            return Ok(());
        }
        match (&*self.stream).read(&mut self.buffer[..room]) {
            Ok(0) => {
                self.has_ended[1] = true;
                state.session.plain_end();
            }
            Ok(read) => state.session.plain_input(&self.buffer[..read]),
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(e) => return Err(e),
        }
        Ok(())
    }

    /// Gives TCP what it takes, and the end after everything.
    fn send(&mut self, state: &mut State) -> io::Result<()> {
        loop {
            if self.taken == self.pending.len() {
                self.taken = 0;
                self.pending.clear();
                state.session.plain_output(&mut self.pending);
            }
            if self.pending.is_empty() {
                break;
            }
            match (&*self.stream).write(&self.pending[self.taken..]) {
                Ok(written) => {
                    self.taken += written;
                    self.sent_bytes += written as u64;
                }
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                    return Ok(());
                }
                Err(e) => return Err(e),
            }
        }
        if state.session.plain_is_at_end() && !self.has_ended[0] {
            self.has_ended[0] = true;
            self.stream.shutdown(Shutdown::Write)?;
        }
        Ok(())
    }

    /// Checks what has arrived at the other end; returns whether something has not.
    fn account(&self, state: &mut State) -> bool {
        let given = self.sent_bytes + u64::from(self.has_ended[0]);
        // If the kernel does not say, what it has taken counts, as for send(2).
        let left = unacked(&self.stream).unwrap_or(0);
        state.session.plain_acknowledge(given.saturating_sub(left), self.has_ended[0]);
        let received_bytes = state.session.totals().received_bytes;
        let stats = observe(&self.stream);
        if let Some(Tracked { report, .. }) = state.streams.first_mut() {
            report.totals.sent_bytes = self.sent_bytes;
            report.totals.received_bytes = received_bytes;
            if let Some(stats) = stats {
                report.srtt_ns = stats.srtt_ns;
                report.retransmitted_segments = stats.retransmitted_segments;
            }
        }
        left > 0
    }

    fn end(&self, state: &mut State) {
        if state.session.failure().is_some() {
            // With a reset, so that the other end does not take it for the end of the data.
            let _ = SockRef::from(&*self.stream).set_linger(Some(Duration::ZERO));
        }
        if let Some(Tracked { report, .. }) = state.streams.first_mut()
            && let Some(failure) = state.session.failure()
        {
            report.ended = failure.to_string();
        }
        state.is_over = true;
        self.shared.tell(state);
    }
}
