//! More system calls of packet sockets.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use crate::thread::check;

/// Receives from now on what has `protocol` on an interface.
pub fn bind(socket: &OwnedFd, ifindex: u32, protocol: u16) -> io::Result<()> {
    // SAFETY: all zeros is a valid address; the fields that matter follow.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = ifindex as i32;
    // SAFETY: `address` is a sockaddr_ll of the size given.
    check(unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    })
}

/// Sets an option whose value is one of the kernel's structures.
///
/// The kernel reads no farther than `T` goes, and refuses a value too short for the option.
pub fn set_value<T>(socket: &OwnedFd, option: i32, value: &T) -> io::Result<()> {
    // SAFETY: `value` has the size given and lives through the call.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            option,
            (&raw const *value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    })
}

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

/// Waits until there is something to read or to complain about; true: to complain.
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

/// Takes the socket's pending error away.
pub fn clear_error(socket: &OwnedFd) -> io::Result<()> {
    let (mut error, mut len) = (0_i32, size_of::<i32>() as libc::socklen_t);
    // SAFETY: `error` is an int that lives through the call.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ERROR,
            (&raw mut error).cast(),
            &raw mut len,
        )
    })
}
