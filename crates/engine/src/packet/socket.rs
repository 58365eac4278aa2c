//! The system calls of packet sockets.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::thread::check;

/// Opens a raw packet socket on one interface, for all protocols or for sending only.
pub fn open(ifindex: u32, receive: bool) -> io::Result<OwnedFd> {
    let protocol = if receive { (libc::ETH_P_ALL as u16).to_be() } else { 0 };
    // SAFETY: plain system call; the descriptor is owned by nobody else yet.
    let socket = unsafe {
        let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
        check(fd)?;
        OwnedFd::from_raw_fd(fd)
    };
    // SAFETY: all zeros is a valid address; the fields that matter follow.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol;
    address.sll_ifindex = ifindex as i32;
    // SAFETY: `address` is a sockaddr_ll of the size given.
    check(unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    })?;
    Ok(socket)
}

/// Sets an integer option.
pub fn set(socket: &OwnedFd, level: i32, option: i32, value: i32) -> io::Result<()> {
    // SAFETY: the option value is an int that lives through the call.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    })
}

/// Frames dropped by a packet socket since the last call (the kernel resets the count).
pub fn drops(socket: &OwnedFd) -> io::Result<u64> {
    // SAFETY: all zeros is a valid tpacket_stats, and the length says its size.
    unsafe {
        let mut stats: libc::tpacket_stats = std::mem::zeroed();
        let mut len = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        check(libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut stats).cast(),
            &raw mut len,
        ))?;
        Ok(stats.tp_drops.into())
    }
}
