//! Descriptors that signal events: one that wakes a thread, and one that an application polls.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Wakes a thread that polls it.
#[derive(Debug)]
pub struct Waker(OwnedFd);

impl Waker {
    pub fn new() -> io::Result<Self> {
        // SAFETY: plain system call.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        owned(fd).map(Self)
    }

    pub fn wake(&self) {
        let one = 1_u64.to_ne_bytes();
        // SAFETY: `one` has 8 bytes. It fails only where the thread has been woken 2^64 times.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Forgets that it was woken.
    pub fn clear(&self) {
        let mut count = [0_u8; 8];
        // SAFETY: `count` has 8 bytes.
        unsafe { libc::read(self.0.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }
}

impl AsRawFd for Waker {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// One end of a pair of local sockets for an application to poll: it holds a byte while the session can be
/// read, and it is full while the session cannot be written.
///
/// Its descriptor can be duplicated, and its status flags are the application's: nothing here depends on them.
#[derive(Debug)]
pub struct Signal {
    shown: OwnedFd,
    ours: OwnedFd,
    can_read: bool,
    can_write: bool,
}

/// The kernel rounds this up to its minimum.
static LEAST_BUFFER: libc::c_int = 1;

impl Signal {
    /// Shown as writable.
    ///
    /// # Errors
    /// There are too many descriptors.
    pub fn new() -> io::Result<Self> {
        let mut fds = [-1; 2];
        let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
        // SAFETY: the kernel writes two descriptors.
        if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let [shown, ours] = fds;
        let made = Self { shown: owned(shown)?, ours: owned(ours)?, can_read: false, can_write: true };
        // SAFETY: the value is an `int`, and lives through the call.
        unsafe {
            libc::setsockopt(
                shown,
                libc::SOL_SOCKET,
                libc::SO_SNDBUF,
                (&raw const LEAST_BUFFER).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        Ok(made)
    }

    /// Shows an application that polls the descriptor the state of the session.
    pub fn show(&mut self, can_read: bool, can_write: bool) {
        if can_read != self.can_read {
            self.can_read = can_read;
            if can_read {
                send(&self.ours, &[0]);
            } else {
                drain(&self.shown);
            }
        }
        if can_write != self.can_write {
            self.can_write = can_write;
            if can_write {
                drain(&self.ours);
            } else {
                while send(&self.shown, &[0; 1024]) {}
            }
        }
    }
}

impl AsRawFd for Signal {
    fn as_raw_fd(&self) -> RawFd {
        self.shown.as_raw_fd()
    }
}

fn send(fd: &OwnedFd, bytes: &[u8]) -> bool {
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: `bytes` has the length given.
    let sent = unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
    sent > 0
}

fn drain(fd: &OwnedFd) {
    let mut bytes = [0_u8; 4096];
    loop {
        let flags = libc::MSG_DONTWAIT;
        // SAFETY: the kernel writes at most as many bytes as there are.
        let read = unsafe { libc::recv(fd.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), flags) };
        if read <= 0 {
            return;
        }
    }
}

fn owned(fd: RawFd) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was made just now, and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Waits for events, until `until_ns` of `CLOCK_MONOTONIC`.
pub fn poll(fds: &mut [libc::pollfd], now_ns: u64, until_ns: u64) -> io::Result<()> {
    let left_ns = until_ns.saturating_sub(now_ns);
    let left = libc::timespec {
        tv_sec: (left_ns / 1_000_000_000).min(3600) as libc::time_t,
        tv_nsec: (left_ns % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: `fds` has the length given; no signal mask is.
    let found = unsafe {
        libc::ppoll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, &raw const left, std::ptr::null())
    };
    if found < 0 {
        fds.iter_mut().for_each(|fd| fd.revents = 0);
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(signal: &Signal) -> (bool, bool) {
        let mut fds =
            [libc::pollfd { fd: signal.as_raw_fd(), events: libc::POLLIN | libc::POLLOUT, revents: 0 }];
        poll(&mut fds, 0, 0).unwrap();
        (fds[0].revents & libc::POLLIN != 0, fds[0].revents & libc::POLLOUT != 0)
    }

    #[test]
    fn both_directions_are_shown_independently() {
        let mut signal = Signal::new().unwrap();
        assert_eq!(state(&signal), (false, true));
        for (can_read, can_write) in [
            (true, true),
            (true, false),
            (false, false),
            (true, true),
            (false, false),
            (false, true),
            (true, false),
        ] {
            signal.show(can_read, can_write);
            assert_eq!(state(&signal), (can_read, can_write));
        }
    }
}
