//! More system calls of packet sockets.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use crate::thread::check;

/// Packets that a ring of version 3 lost for want of room since the last call (the kernel resets the count).
pub fn drops(socket: &OwnedFd) -> io::Result<u64> {
    let mut stats = libc::tpacket_stats_v3 { tp_packets: 0, tp_drops: 0, tp_freeze_q_cnt: 0 };
    let mut len = size_of::<libc::tpacket_stats_v3>() as libc::socklen_t;
    // SAFETY: `stats` has the length given and lives through the call.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut stats).cast(),
            &raw mut len,
        )
    })?;
    Ok(stats.tp_drops.into())
}

/// Waits until there is something to read or an error; returns true for an error.
pub fn wait_readable(socket: &OwnedFd, wait: Duration) -> io::Result<bool> {
    let mut poll = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let ms = i32::try_from(wait.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: one valid pollfd.
    match check(unsafe { libc::poll(&raw mut poll, 1, ms) }) {
        Ok(()) => Ok(poll.revents & (libc::POLLERR | libc::POLLHUP | libc::POLLNVAL) != 0),
        Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(false),
        Err(e) => Err(e),
    }
}
