//! Greetings over a socket, with a deadline.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::wire::{GreetingError, Initiator, REPLY_BYTES, Secret, WELCOME_BYTES, begins_like_hello};

/// Why a greeting failed.
#[derive(Debug, Error)]
pub enum GreetError {
    /// The other end sent an error.
    #[error(transparent)]
    Greeting(#[from] GreetingError),
    /// It said nothing, or too little.
    #[error("it sent nothing in time")]
    Late,
    /// It closed the connection.
    #[error("it closed the connection")]
    Closed,
    /// The system reported an error.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Fills `into`, in portions of any size, as long as `is_fine` accepts what has come, until `due`.
pub fn fill(
    mut stream: &TcpStream,
    into: &mut [u8],
    due: Instant,
    is_fine: impl Fn(&[u8]) -> bool,
) -> Result<(), GreetError> {
    let mut have = 0;
    while have < into.len() {
        let left = due.saturating_duration_since(Instant::now());
        if left < Duration::from_millis(1) {
            return Err(GreetError::Late);
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut into[have..]) {
            Ok(0) => return Err(GreetError::Closed),
            Ok(read) => have += read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Err(e) if e.kind() == io::ErrorKind::ConnectionReset => return Err(GreetError::Closed),
            Err(e) => return Err(e.into()),
        }
        if !is_fine(&into[..have]) {
            return Err(GreetingError::NotPsock.into());
        }
    }
    Ok(())
}

/// The client's side; returns the session's key.
pub fn initiate(stream: &mut TcpStream, initiator: Initiator, due: Instant) -> Result<Secret, GreetError> {
    stream.write_all(initiator.hello())?;
    let mut reply = [0; REPLY_BYTES];
    // Both sides begin with the same bytes.
    fill(stream, &mut reply, due, begins_like_hello)?;
    let proved = initiator.prove(&reply)?;
    stream.write_all(proved.proof())?;
    let mut welcome = [0; WELCOME_BYTES];
    fill(stream, &mut welcome, due, |_| true)?;
    Ok(proved.welcomed(&welcome)?)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    #[test]
    fn a_peer_that_sends_byte_by_byte_has_no_more_time_than_others() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut slow = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        slow.write_all(b"W").unwrap();
        let mut into = [0; 48];
        let due = Instant::now() + Duration::from_millis(20);
        let late = fill(&stream, &mut into, due, |_| true).unwrap_err();
        assert!(matches!(late, GreetError::Late), "{late:?}");
        slow.write_all(b"EIRPSK").unwrap();
        let late = fill(&stream, &mut into, due, |_| true).unwrap_err();
        assert!(matches!(late, GreetError::Late), "what comes later does not count");
    }
}
