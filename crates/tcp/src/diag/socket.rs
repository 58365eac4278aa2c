//! The socket that queries the kernel.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use thiserror::Error;

use super::{Connection, Id, Malformed, Replies, Reply, request_all, request_one};

/// More than one part of a list ever has (the kernel's skbs have at most 32 KiB).
const BUFFER_BYTES: usize = 1 << 16;

/// How often a list that changes while it is read is read again.
const TRIES: usize = 3;

/// Why the kernel gave no answer.
#[derive(Debug, Error)]
pub enum DiagError {
    /// There is no such socket.
    #[error("the kernel cannot be asked about TCP connections (SOCK_DIAG)")]
    Open(#[source] io::Error),
    /// A request could not be sent, or its answer could not be received.
    #[error("asking the kernel about TCP connections failed")]
    Ask(#[source] io::Error),
    /// The answer is invalid.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

/// Queries the connections of the network namespace in which it was made.
#[derive(Debug)]
pub struct Diag {
    socket: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Diag {
    /// Opens it; needs no privileges.
    ///
    /// # Errors
    /// [`DiagError::Open`] if the kernel has no `SOCK_DIAG` (before Linux 3.3, or not built in).
    pub fn open() -> Result<Self, DiagError> {
        // SAFETY: plain system call; the descriptor is owned by nobody else yet.
        let fd = unsafe {
            libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_SOCK_DIAG)
        };
        if fd < 0 {
            return Err(DiagError::Open(io::Error::last_os_error()));
        }
        // SAFETY: `fd` was opened just now.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { socket, sequence: 0, buffer: vec![0; BUFFER_BYTES] })
    }

    /// The connection `id`; `None` if it no longer exists.
    ///
    /// # Errors
    /// [`DiagError`].
    pub fn one(&mut self, id: &Id) -> Result<Option<Connection>, DiagError> {
        self.sequence = self.sequence.wrapping_add(1);
        self.send(&request_one(id, self.sequence))?;
        let mut found = None;
        self.receive(|reply| match reply {
            Reply::Connection(connection) => {
                found = Some(*connection);
                Ok(true)
            }
            Reply::Done(_) | Reply::Error(libc::ENOENT | libc::ESTALE) => Ok(true),
            Reply::Error(number) => Err(refused(number)),
        })?;
        Ok(found)
    }

    /// All connections in `states` (a bit each) between these ports; 0 is any.
    ///
    /// # Errors
    /// [`DiagError`].
    pub fn all(
        &mut self,
        states: u32,
        local_port: u16,
        remote_port: u16,
    ) -> Result<Vec<Connection>, DiagError> {
        let mut all = Vec::new();
        for ipv6 in [false, true] {
            let before = all.len();
            for _ in 0..TRIES {
                all.truncate(before);
                self.sequence = self.sequence.wrapping_add(1);
                self.send(&request_all(ipv6, states, local_port, remote_port, self.sequence))?;
                let mut changed = false;
                self.receive(|reply| match reply {
                    Reply::Connection(connection) => {
                        all.push(*connection);
                        Ok(false)
                    }
                    Reply::Done(interrupted) => {
                        changed = interrupted;
                        Ok(true)
                    }
                    // No IPv6 here.
                    Reply::Error(libc::ENOENT) if ipv6 => Ok(true),
                    Reply::Error(number) => Err(refused(number)),
                })?;
                if !changed {
                    break;
                }
            }
        }
        Ok(all)
    }

    fn send(&self, request: &[u8]) -> Result<(), DiagError> {
        // SAFETY: `request` has the length given.
        let sent = unsafe { libc::send(self.socket.as_raw_fd(), request.as_ptr().cast(), request.len(), 0) };
        if sent < 0 { Err(DiagError::Ask(io::Error::last_os_error())) } else { Ok(()) }
    }

    /// Hands the messages of the answer to `take` until it returns true.
    fn receive(&mut self, mut take: impl FnMut(Reply) -> Result<bool, DiagError>) -> Result<(), DiagError> {
        loop {
            // SAFETY: the buffer has the length given.
            let received = unsafe {
                libc::recv(self.socket.as_raw_fd(), self.buffer.as_mut_ptr().cast(), self.buffer.len(), 0)
            };
            if received < 0 {
                let error = io::Error::last_os_error();
                if error.kind() == io::ErrorKind::Interrupted {
                    continue;
                }
                return Err(DiagError::Ask(error));
            }
            for reply in Replies::new(&self.buffer[..received as usize], self.sequence) {
                if take(reply?)? {
                    return Ok(());
                }
            }
        }
    }
}

fn refused(number: i32) -> DiagError {
    DiagError::Ask(io::Error::from_raw_os_error(number))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::diag::State;
    use crate::fields::field;

    const ALL: u32 = u32::MAX;

    fn pair(address: &str) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(address).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    #[test]
    fn a_connection_of_ours_is_listed_from_both_ends_and_found_again_exactly() {
        let (client, server) = pair("127.0.0.1:0");
        let mut diag = Diag::open().unwrap();
        for (stream, other) in [(&client, &server), (&server, &client)] {
            let (local, remote) = (stream.local_addr().unwrap(), other.local_addr().unwrap());
            let listed = diag.all(ALL, local.port(), remote.port()).unwrap();
            let found = listed.iter().find(|each| each.id.local == local).unwrap();
            assert_eq!(found.id.remote, remote);
            assert_eq!(found.state, State(1));
            assert!(!found.congestion.is_empty());
            let again = diag.one(&found.id).unwrap().unwrap();
            assert_eq!((again.id, again.inode), (found.id, found.inode));
            let mss = field("snd_mss_bytes").unwrap();
            assert!(again.sample.get(mss).is_some_and(|bytes| bytes > 0));
        }
    }

    #[test]
    fn another_cookie_is_another_connection() {
        let (client, server) = pair("127.0.0.1:0");
        let (local, remote) = (client.local_addr().unwrap(), server.local_addr().unwrap());
        let any = Id { local, remote, interface: 0, cookie: Id::ANY_COOKIE };
        let mut diag = Diag::open().unwrap();
        let found = diag.one(&any).unwrap().unwrap();
        assert_ne!(found.id.cookie, Id::ANY_COOKIE);
        assert_eq!(diag.one(&Id { cookie: found.id.cookie ^ 1, ..found.id }).unwrap(), None);
    }

    #[test]
    fn a_listener_is_no_connection_but_is_listed_where_asked_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut diag = Diag::open().unwrap();
        let states = 1 << State::LISTEN.0;
        assert_eq!(diag.all(states, port, 0).unwrap().len(), 1);
        assert_eq!(diag.all(!states, port, 0).unwrap().len(), 0);
    }
}
