//! A control connection: messages over a stream, with deadlines.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use socket2::{SockRef, TcpKeepalive};
use thiserror::Error;

use crate::control::{Decoder, Message, ProtocolError};
use crate::fields::field;
use crate::queues::Queues;
use crate::sample::Info;

/// How long a message that is not read may block.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// A dead host is noticed after about this time.
const KEEPALIVE: Duration = Duration::from_secs(5);
/// `TCP_CLOSE` and `TCP_CLOSE_WAIT` (`include/net/tcp_states.h`).
const CLOSE: u64 = 7;
const CLOSE_WAIT: u64 = 8;
/// How often the state of a connection is looked at.
const LOOK: Duration = Duration::from_millis(1);

/// Why no message came.
#[derive(Debug, Error)]
pub enum LineError {
    /// The other end closed the connection.
    #[error("the other end closed the connection")]
    Closed,
    /// Nothing came in time.
    #[error("nothing was heard in time")]
    Late,
    /// The system reported an error.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The bytes are not a message.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
}

/// Messages over a stream.
#[derive(Debug)]
pub struct Line {
    stream: Arc<TcpStream>,
    decoder: Decoder,
}

impl Line {
    /// Over `stream`; takes messages of at most `most_bytes`.
    pub fn new(stream: impl Into<Arc<TcpStream>>, most_bytes: usize) -> io::Result<Self> {
        let stream = stream.into();
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE).with_retries(3);
        SockRef::from(&*stream).set_tcp_keepalive(&keepalive)?;
        Ok(Self { stream, decoder: Decoder::new(most_bytes) })
    }

    /// This end of it, and the other one.
    pub fn ends(&self) -> io::Result<(SocketAddr, SocketAddr)> {
        Ok((self.stream.local_addr()?, self.stream.peer_addr()?))
    }

    /// A second handle on the same stream, for writing.
    pub fn writer(&self) -> Writer {
        Writer { stream: Arc::clone(&self.stream) }
    }

    /// Sends a message.
    pub fn send(&mut self, message: &Message) -> io::Result<()> {
        (&*self.stream).write_all(&message.emit())
    }

    /// The next message; `None` for no time limit.
    pub fn receive(&mut self, within: Option<Duration>) -> Result<Message, LineError> {
        let due = within.map(|within| Instant::now() + within);
        loop {
            if let Some(message) = self.decoder.next_message()? {
                return Ok(message);
            }
            let mut bytes = [0; 4096];
            let read = read_by(&self.stream, &mut bytes, due)?;
            self.decoder.push(&bytes[..read]);
        }
    }

    /// Reads and discards until there is no more to come.
    pub fn drain(&mut self) {
        let mut bytes = [0; 4096];
        while read_by(&self.stream, &mut bytes, None).is_ok() {}
    }
}

/// Writes messages, while another thread reads.
#[derive(Debug)]
pub struct Writer {
    stream: Arc<TcpStream>,
}

impl Writer {
    /// Sends a message.
    pub fn send(&mut self, message: &Message) -> io::Result<()> {
        (&*self.stream).write_all(&message.emit())
    }

    /// Waits, at most `within`, until the other end has closed the connection; whether it took all that was written.
    ///
    /// A program that dies closes its connections as one that ends does. But nobody acknowledges what arrives after
    /// that, and what arrived before and was not read makes the kernel reset the connection.
    pub fn is_taken(&self, within: Duration) -> bool {
        let due = Instant::now() + within;
        loop {
            let is_acked = Queues::of(&*self.stream, None).unacked_bytes == Some(0);
            match state(&self.stream) {
                Ok(CLOSE) | Err(_) => return false,
                Ok(CLOSE_WAIT) if is_acked => return true,
                _ if Instant::now() >= due => return is_acked,
                _ => thread::sleep(LOOK),
            }
        }
    }
}

fn state(stream: &TcpStream) -> io::Result<u64> {
    let field = field("state").ok_or(io::ErrorKind::Unsupported)?;
    Info::of(stream)?.get(field).ok_or_else(|| io::ErrorKind::Unsupported.into())
}

impl Drop for Writer {
    fn drop(&mut self) {
        // The reading thread comes to an end. What was written still arrives.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// Reads some bytes, at least one, by `due`.
pub fn read_by(mut stream: &TcpStream, to: &mut [u8], due: Option<Instant>) -> Result<usize, LineError> {
    loop {
        let left = due.map(|due| due.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return Err(LineError::Late);
        }
        // A timeout of less than a microsecond would mean none.
        stream.set_read_timeout(left.map(|left| left.max(Duration::from_millis(1))))?;
        match stream.read(to) {
            Ok(0) => return Err(LineError::Closed),
            Ok(read) => return Ok(read),
            Err(e) if is_temporary(&e) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// A time-out or a signal: to be tried again.
pub fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Longer than any test lasts.
    const LONG: Duration = Duration::from_secs(60);

    fn pair() -> (Line, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (Line::new(near, 100).unwrap(), listener.accept().unwrap().0)
    }

    #[test]
    fn what_was_read_before_the_connection_closed_was_taken() {
        let (line, mut far) = pair();
        let mut writer = line.writer();
        writer.send(&Message::Ready).unwrap();
        let mut bytes = vec![0; Message::Ready.emit().len()];
        far.read_exact(&mut bytes).unwrap();
        drop(far);
        assert!(writer.is_taken(LONG));
    }

    #[test]
    fn what_comes_after_the_connection_closed_was_not_taken() {
        let (line, far) = pair();
        drop(far);
        let mut writer = line.writer();
        writer.send(&Message::Ready).unwrap();
        assert!(!writer.is_taken(LONG));
    }

    #[test]
    fn what_nobody_read_was_not_taken() {
        let (line, far) = pair();
        let mut writer = line.writer();
        writer.send(&Message::Ready).unwrap();
        drop(far);
        assert!(!writer.is_taken(LONG));
    }
}
