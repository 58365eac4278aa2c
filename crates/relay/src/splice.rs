//! Bytes carried both ways between a connection and a session, in the session's own thread; with memory of the session
//! alone. Ends, resets and urgent bytes are carried as well.

use std::io::{self, Read as _, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::Sender;
use std::time::Duration;

use socket2::SockRef;
use weir_psock::io::Forwarder;
use weir_psock::session::{Read, Session};

use crate::wire::{MOST_OF_PART, PART_BYTES, Part};

/// Most bytes that are written to a connection at once.
const PIECE_BYTES: usize = 64 * 1024;
/// Room for a part and an end.
const LEAST_ROOM: usize = 2 * PART_BYTES + 1;

/// What was carried, and why not everything.
#[derive(Debug)]
pub struct Carried {
    pub result: Result<(), String>,
    /// From the connection to the session.
    pub taken_bytes: u64,
    /// From the session to the connection.
    pub given_bytes: u64,
}

/// Carries one connection; dropping it reports what was carried, and resets the connection unless it has ended.
#[derive(Debug)]
pub struct Splice {
    stream: TcpStream,
    /// Nobody reads any longer what comes for the connection.
    has_ended: Arc<AtomicBool>,
    done: Sender<Carried>,
    result: Result<(), String>,
    taken_bytes: u64,
    given_bytes: u64,
    /// The connection has ended, and the session knows it.
    is_taken: bool,
    /// The session knows that nobody reads.
    is_closed: bool,
    /// The session's direction has ended, and the connection knows it.
    is_given: bool,
    /// What is being given, and how many bytes of it are left.
    part: Part,
    left: usize,
    /// The connection takes no more for now.
    is_full: bool,
    /// What was waited for.
    events: libc::c_short,
}

impl Splice {
    /// For a connection that was [prepared](crate::house::prepare).
    ///
    /// # Errors
    /// It cannot be made non-blocking.
    pub fn new(stream: TcpStream, has_ended: Arc<AtomicBool>, done: Sender<Carried>) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            has_ended,
            done,
            result: Err("the session has ended".to_owned()),
            taken_bytes: 0,
            given_bytes: 0,
            is_taken: false,
            is_closed: false,
            is_given: false,
            part: Part::End,
            left: 0,
            is_full: false,
            events: 0,
        })
    }

    /// Everything that can be done; true: both directions have ended.
    fn step(
        &mut self,
        session: &mut Session,
        events: libc::c_short,
        buffer: &mut [u8],
    ) -> Result<bool, String> {
        // While it is neither read nor written, only this tells that it was reset.
        if self.events == 0 && events != 0 {
            return Err("it was reset".to_owned());
        }
        if self.events & libc::POLLIN != 0 && events & !libc::POLLOUT != 0 {
            self.take(session, buffer)?;
        }
        self.is_full &= events & !libc::POLLIN == 0;
        self.give(session, buffer)?;
        let is_left = self.is_taken && !self.is_given && !self.is_closed && self.has_ended.load(SeqCst);
        if is_left && session.room() >= PART_BYTES {
            self.is_closed = true;
            write(session, &Part::Close.emit())?;
        }
        Ok(self.is_taken && self.is_given)
    }

    /// One read, as what is urgent is known only after poll().
    fn take(&mut self, session: &mut Session, buffer: &mut [u8]) -> Result<(), String> {
        let room = session.room();
        if room < LEAST_ROOM {
            return Ok(());
        }
        let is_urgent = is_at_mark(&self.stream);
        let most = if is_urgent { 1 } else { (room - LEAST_ROOM + 1).min(MOST_OF_PART) };
        let end = buffer.len().min(PART_BYTES + most);
        match self.stream.read(&mut buffer[PART_BYTES..end]) {
            Ok(0) => {
                self.is_taken = true;
                write(session, &Part::End.emit())
            }
            Ok(len) => {
                self.taken_bytes += len as u64;
                let part = if is_urgent { Part::Urgent(len) } else { Part::Data(len) };
                buffer[..PART_BYTES].copy_from_slice(&part.emit());
                write(session, &buffer[..PART_BYTES + len])
            }
            Err(e) if is_passing(&e) => Ok(()),
            Err(e) => Err(e.to_string()),
        }
    }

    /// As much as the connection takes.
    fn give(&mut self, session: &mut Session, buffer: &mut [u8]) -> Result<(), String> {
        while !(self.is_full || self.is_given && self.is_taken) {
            if self.left == 0 {
                let mut head = [0; PART_BYTES];
                if peek(session, &mut head)? < PART_BYTES {
                    break;
                }
                session.skip(PART_BYTES);
                self.begin(session, Part::parse(head).map_err(|e| e.to_string())?)?;
                continue;
            }
            // The urgent byte is written by itself.
            let is_urgent = self.left == 1 && matches!(self.part, Part::Urgent(_));
            let before = usize::from(!is_urgent && matches!(self.part, Part::Urgent(_)));
            let most = (self.left - before).min(PIECE_BYTES).min(buffer.len());
            let len = peek(session, &mut buffer[..most])?;
            if len == 0 {
                break;
            }
            let written = if is_urgent {
                SockRef::from(&self.stream).send_out_of_band(&buffer[..1])
            } else {
                self.stream.write(&buffer[..len])
            };
            match written {
                Ok(written) => {
                    session.skip(written);
                    self.left -= written;
                    self.given_bytes += written as u64;
                }
                Err(e) if is_passing(&e) => self.is_full = true,
                Err(e) => return Err(e.to_string()),
            }
        }
        Ok(())
    }

    fn begin(&mut self, session: &mut Session, part: Part) -> Result<(), String> {
        self.part = part;
        match part {
            Part::Data(len) | Part::Urgent(len) if !self.is_given => self.left = len,
            Part::End if !self.is_given => self.shut()?,
            Part::Close => {
                if !self.is_given {
                    self.shut()?;
                }
                // As if a program had closed it: this system ends it, and resets it if anything more comes.
                self.is_taken = true;
                write(session, &Part::End.emit())?;
            }
            _ => return Err("the other end of the session goes on after its end".to_owned()),
        }
        Ok(())
    }

    fn shut(&mut self) -> Result<(), String> {
        self.is_given = true;
        match self.stream.shutdown(Shutdown::Write) {
            // It was reset after it had ended.
            Err(e) if !(self.is_taken && e.kind() == io::ErrorKind::NotConnected) => Err(e.to_string()),
            _ => Ok(()),
        }
    }

    fn wanted(&mut self, session: &Session) -> libc::pollfd {
        let reads = !self.is_taken && session.room() >= LEAST_ROOM;
        self.events = if reads { libc::POLLIN } else { 0 } | if self.is_full { libc::POLLOUT } else { 0 };
        // A connection that has ended in both directions is always ready, but there is nothing to do.
        let fd = if self.events == 0 && self.is_given { -1 } else { self.stream.as_raw_fd() };
        libc::pollfd { fd, events: self.events, revents: 0 }
    }
}

impl Forwarder for Splice {
    fn forward(
        &mut self,
        session: &mut Session,
        events: libc::c_short,
        buffer: &mut [u8],
    ) -> Option<libc::pollfd> {
        match self.step(session, events, buffer) {
            Ok(false) => return Some(self.wanted(session)),
            Ok(true) => self.result = Ok(()),
            Err(why) => {
                session.abort();
                self.result = Err(why);
            }
        }
        None
    }
}

impl Drop for Splice {
    fn drop(&mut self) {
        let result = std::mem::replace(&mut self.result, Ok(()));
        if result.is_err() {
            reset(&self.stream);
        }
        let Self { taken_bytes, given_bytes, .. } = *self;
        // Whoever waits no longer is not told.
        let _ = self.done.send(Carried { result, taken_bytes, given_bytes });
    }
}

/// Closed then, a connection is reset, so that its other end does not take it for the end of the data (`SO_LINGER` in
/// socket(7)).
pub fn reset(stream: &TcpStream) {
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// `SIOCATMARK` (asm-generic/sockios.h), which libc lacks.
const SIOCATMARK: libc::Ioctl = 0x8905;

/// Whether the next byte is urgent (sockatmark(3)).
fn is_at_mark(stream: &TcpStream) -> bool {
    let mut is_mark: libc::c_int = 0;
    // SAFETY: the descriptor is open, and the kernel writes one int.
    let done = unsafe { libc::ioctl(stream.as_raw_fd(), SIOCATMARK, &raw mut is_mark) };
    done == 0 && is_mark != 0
}

/// Writes what there is room for.
fn write(session: &mut Session, bytes: &[u8]) -> Result<(), String> {
    session.write(bytes).map(|_| ()).map_err(|e| e.to_string())
}

/// How many bytes there are.
fn peek(session: &Session, into: &mut [u8]) -> Result<usize, String> {
    match session.peek(into) {
        Ok(Read::Bytes(len)) => Ok(len),
        Ok(Read::Nothing) => Ok(0),
        Ok(Read::End) => Err("the other end of the session ended early".to_owned()),
        Err(e) => Err(e.to_string()),
    }
}

/// Carries bytes both ways between two connections until both directions have ended, or one fails: then both are reset.
/// `goes_on` is asked ten times a second, with whether the second was given everything. Also returns how many bytes
/// were carried to the second, and to the first.
pub fn join(ends: [&TcpStream; 2], goes_on: &mut dyn FnMut(bool) -> bool) -> (Result<(), String>, [u64; 2]) {
    let mut carried = [0; 2];
    let result = join_ends(ends, &mut carried, goes_on);
    if result.is_err() {
        ends.iter().for_each(|end| reset(end));
    }
    (result, carried)
}

fn join_ends(
    ends: [&TcpStream; 2],
    carried: &mut [u64; 2],
    goes_on: &mut dyn FnMut(bool) -> bool,
) -> Result<(), String> {
    let text = |e: io::Error| e.to_string();
    // What waits in each of them, from where to where.
    let mut buffers = [(); 2].map(|()| (vec![0; PIECE_BYTES], 0, 0));
    let (mut is_read, mut is_shut) = ([false; 2], [false; 2]);
    for end in ends {
        end.set_nonblocking(true).map_err(text)?;
    }
    while is_shut != [true; 2] && goes_on(is_shut[0]) {
        let is_waiting = [0, 1].map(|from| buffers[from].1 < buffers[from].2);
        let mut entries = [0, 1].map(|end| {
            let reads = !is_read[end] && !is_waiting[end];
            let events =
                if reads { libc::POLLIN } else { 0 } | if is_waiting[1 - end] { libc::POLLOUT } else { 0 };
            let fd = if events == 0 && is_shut[1 - end] { -1 } else { ends[end].as_raw_fd() };
            libc::pollfd { fd, events, revents: 0 }
        });
        // SAFETY: both entries are written by the kernel. An error is as if nothing had happened.
        unsafe { libc::poll(entries.as_mut_ptr(), 2, 100) };
        if entries.iter().any(|entry| entry.events == 0 && entry.revents != 0) {
            return Err("it was reset".to_owned());
        }
        for from in 0..2 {
            let ((buffer, start, end), mut source, mut sink) =
                (&mut buffers[from], ends[from], ends[1 - from]);
            if entries[from].revents & !libc::POLLOUT != 0 && start == end && !is_read[from] {
                match source.read(buffer) {
                    Ok(0) => is_read[from] = true,
                    Ok(len) => (*start, *end) = (0, len),
                    Err(e) if is_passing(&e) => {}
                    Err(e) => return Err(text(e)),
                }
            }
            if start < end {
                match sink.write(&buffer[*start..*end]) {
                    Ok(len) => {
                        *start += len;
                        carried[from] += len as u64;
                    }
                    Err(e) if is_passing(&e) => {}
                    Err(e) => return Err(text(e)),
                }
            }
            if is_read[from] && start == end && !is_shut[from] {
                sink.shutdown(Shutdown::Write).map_err(text)?;
                is_shut[from] = true;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
