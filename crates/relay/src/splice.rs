//! Bytes carried both ways between two ends, with bounded memory; ends and resets are carried as well.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use socket2::SockRef;
use weir_psock::io::{ParallelSocket, SocketError};

/// Most bytes that wait in each direction.
const BUFFER_BYTES: usize = 64 * 1024;
/// How often [`splice`] asks whether to continue while nothing happens.
const ASK_EVERY_MS: libc::c_int = 100;

/// The result of a read.
pub enum Got {
    Bytes(usize),
    /// Nothing yet.
    Nothing,
    /// The other end has sent everything.
    End,
}

/// One of the two ends. No call blocks; errors are reported as text.
pub trait End {
    /// The descriptor to poll.
    fn fd(&self) -> Result<RawFd, String>;
    fn read(&self, into: &mut [u8]) -> Result<Got, String>;
    /// How many were taken.
    fn write(&self, bytes: &[u8]) -> Result<usize, String>;
    /// Nothing more will be written.
    fn finish(&self) -> Result<(), String>;
    /// Aborts it, so that the other end does not take it for the end of the data.
    fn reset(&self);
}

impl End for TcpStream {
    fn fd(&self) -> Result<RawFd, String> {
        self.set_nonblocking(true).map_err(|e| e.to_string())?;
        Ok(self.as_raw_fd())
    }

    fn read(&self, into: &mut [u8]) -> Result<Got, String> {
        let mut stream = self;
        match Read::read(&mut stream, into) {
            Ok(0) => Ok(Got::End),
            Ok(len) => Ok(Got::Bytes(len)),
            Err(e) if is_passing(&e) => Ok(Got::Nothing),
            Err(e) => Err(e.to_string()),
        }
    }

    fn write(&self, bytes: &[u8]) -> Result<usize, String> {
        let mut stream = self;
        match Write::write(&mut stream, bytes) {
            Ok(len) => Ok(len),
            Err(e) if is_passing(&e) => Ok(0),
            Err(e) => Err(e.to_string()),
        }
    }

    fn finish(&self) -> Result<(), String> {
        self.shutdown(Shutdown::Write).map_err(|e| e.to_string())
    }

    fn reset(&self) {
        // Closed with data unread or this set, a connection is reset (tcp(7), SO_LINGER in socket(7)).
        let _ = SockRef::from(self).set_linger(Some(Duration::ZERO));
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

impl End for ParallelSocket {
    fn fd(&self) -> Result<RawFd, String> {
        self.poll_fd().map_err(|e| e.to_string())
    }

    fn read(&self, into: &mut [u8]) -> Result<Got, String> {
        match Self::read(self, into, Some(Duration::ZERO)) {
            Ok(0) => Ok(Got::End),
            Ok(len) => Ok(Got::Bytes(len)),
            Err(SocketError::TimedOut) => Ok(Got::Nothing),
            Err(e) => Err(e.to_string()),
        }
    }

    fn write(&self, bytes: &[u8]) -> Result<usize, String> {
        match Self::write(self, bytes, Some(Duration::ZERO)) {
            Ok(len) => Ok(len),
            Err(SocketError::TimedOut) => Ok(0),
            Err(e) => Err(e.to_string()),
        }
    }

    fn finish(&self) -> Result<(), String> {
        Self::finish(self);
        Ok(())
    }

    fn reset(&self) {
        self.abort();
    }
}

/// Why not everything was carried.
#[derive(Debug, PartialEq, Eq)]
pub enum Broken {
    /// The end that was named first failed.
    First(String),
    /// The other one failed.
    Second(String),
    /// It was told to stop.
    Stopped,
}

/// The progress of one direction.
#[derive(Debug)]
struct Way {
    buffer: Vec<u8>,
    from: usize,
    to: usize,
    /// Bytes that were written.
    carried_bytes: u64,
    /// The source has ended.
    is_read: bool,
    /// The sink knows it.
    is_told: bool,
}

impl Way {
    fn new() -> Self {
        Self {
            buffer: vec![0; BUFFER_BYTES],
            from: 0,
            to: 0,
            carried_bytes: 0,
            is_read: false,
            is_told: false,
        }
    }

    fn waits_to_read(&self) -> bool {
        self.from == self.to && !self.is_read
    }

    fn waits_to_write(&self) -> bool {
        self.from < self.to
    }

    /// Carries a part; returns whether anything was done, or an error and whether it is the source's.
    fn step(&mut self, source: &dyn End, sink: &dyn End) -> Result<bool, (bool, String)> {
        let mut has_moved = false;
        if self.waits_to_read() {
            match source.read(&mut self.buffer).map_err(|why| (true, why))? {
                Got::Bytes(len) => (self.from, self.to) = (0, len),
                Got::Nothing => return Ok(false),
                Got::End => self.is_read = true,
            }
            has_moved = true;
        }
        if self.waits_to_write() {
            let len = sink.write(&self.buffer[self.from..self.to]).map_err(|why| (false, why))?;
            self.from += len;
            self.carried_bytes += len as u64;
            has_moved |= len > 0;
        }
        if self.is_read && !self.waits_to_write() && !self.is_told {
            sink.finish().map_err(|why| (false, why))?;
            self.is_told = true;
            has_moved = true;
        }
        Ok(has_moved)
    }
}

/// Carries bytes both ways until both directions have ended, or one end fails: then both are reset.
///
/// `goes_on` is called at least every 100 ms, with whether everything from `first` was given to `second`.
/// Also returns how many bytes were carried from `first` to `second`, and back.
pub fn splice(
    first: &dyn End,
    second: &dyn End,
    goes_on: &mut dyn FnMut(bool) -> bool,
) -> (Result<(), Broken>, [u64; 2]) {
    let (mut there, mut back) = (Way::new(), Way::new());
    let result = carry(first, second, &mut there, &mut back, goes_on);
    if result.is_err() {
        first.reset();
        second.reset();
    }
    (result, [there.carried_bytes, back.carried_bytes])
}

fn carry(
    first: &dyn End,
    second: &dyn End,
    there: &mut Way,
    back: &mut Way,
    goes_on: &mut dyn FnMut(bool) -> bool,
) -> Result<(), Broken> {
    let fds = [first.fd().map_err(Broken::First)?, second.fd().map_err(Broken::Second)?];
    while !(there.is_told && back.is_told) {
        if !goes_on(there.is_told) {
            return Err(Broken::Stopped);
        }
        let blame = |is_first, why| if is_first { Broken::First(why) } else { Broken::Second(why) };
        let has_moved = there.step(first, second).map_err(|(source, why)| blame(source, why))?
            | back.step(second, first).map_err(|(source, why)| blame(!source, why))?;
        if !has_moved {
            wait(fds, there, back)?;
        }
    }
    Ok(())
}

/// Waits until something can be done, or [`ASK_EVERY_MS`].
fn wait(fds: [RawFd; 2], there: &Way, back: &Way) -> Result<(), Broken> {
    let entry = |fd, reads: bool, writes: bool, is_told: bool| {
        let events = if reads { libc::POLLIN } else { 0 } | if writes { libc::POLLOUT } else { 0 };
        // A connection that has ended in both directions is always ready, but there is nothing to do.
        libc::pollfd { fd: if events == 0 && is_told { -1 } else { fd }, events, revents: 0 }
    };
    let mut entries = [
        entry(fds[0], there.waits_to_read(), back.waits_to_write(), back.is_told),
        entry(fds[1], back.waits_to_read(), there.waits_to_write(), there.is_told),
    ];
    // SAFETY: both entries are written by the kernel. An error is as if nothing had happened.
    unsafe { libc::poll(entries.as_mut_ptr(), 2, ASK_EVERY_MS) };
    // While an end is neither read nor written, only this tells that it was reset.
    let is_reset = |entry: &libc::pollfd| entry.fd >= 0 && entry.events == 0 && entry.revents != 0;
    match entries.each_ref().map(is_reset) {
        [true, _] => Err(Broken::First("it was reset".to_owned())),
        [_, true] => Err(Broken::Second("it was reset".to_owned())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::{AsRawFd, Broken, End, Read, Shutdown, TcpStream, Write, io, splice};

    /// A connection on loopback: what a program holds, and what is spliced.
    fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let outer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (outer, listener.accept().unwrap().0)
    }

    type Outcome = (Result<(), Broken>, [u64; 2]);

    /// Two programs and what is between them.
    fn joined() -> (TcpStream, TcpStream, thread::JoinHandle<Outcome>) {
        let ((left, first), (right, second)) = (connection(), connection());
        (left, right, thread::spawn(move || splice(&first, &second, &mut |_| true)))
    }

    #[test]
    fn bytes_and_ends_are_carried_both_ways() {
        let (mut left, mut right, between) = joined();
        let data: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
        let expected = data.clone();
        let mut writer = left.try_clone().unwrap();
        let writing = thread::spawn(move || {
            writer.write_all(&data).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        });
        let mut got = Vec::new();
        right.read_to_end(&mut got).unwrap();
        assert!(got == expected);
        writing.join().unwrap();
        // One direction has ended, and the other one works.
        right.write_all(b"answer").unwrap();
        drop(right);
        let mut answer = String::new();
        left.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "answer");
        assert_eq!(between.join().unwrap(), (Ok(()), [3_000_000, 6]));
    }

    #[test]
    fn a_reset_is_carried() {
        let (left, mut right, between) = joined();
        End::reset(&left);
        drop(left);
        assert!(matches!(between.join().unwrap().0, Err(Broken::First(_))));
        let found = Read::read(&mut right, &mut [0]).unwrap_err();
        assert_eq!(found.kind(), io::ErrorKind::ConnectionReset);
    }

    #[test]
    fn a_reset_is_seen_while_the_other_end_takes_nothing() {
        let (mut left, right, between) = joined();
        left.set_nonblocking(true).unwrap();
        // Until neither this connection nor the other one takes anything.
        let mut idle = 0;
        while idle < 20 {
            match Write::write(&mut left, &[0; 65536]) {
                Ok(_) => idle = 0,
                Err(_) => {
                    idle += 1;
                    let mut entry = libc::pollfd { fd: left.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
                    // SAFETY: one entry.
                    unsafe { libc::poll(&raw mut entry, 1, 10) };
                }
            }
        }
        End::reset(&left);
        drop(left);
        assert!(matches!(between.join().unwrap().0, Err(Broken::First(_))));
        drop(right);
    }

    #[test]
    fn whoever_asks_can_stop_it() {
        let ((_left, first), (_right, second)) = (connection(), connection());
        assert_eq!(splice(&first, &second, &mut |_| false), (Err(Broken::Stopped), [0, 0]));
    }
}
