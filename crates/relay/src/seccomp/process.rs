//! Memory and descriptors of other processes: process_vm_readv(2), process_vm_writev(2), pidfd_getfd(2).

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use socket2::SockAddr;

/// `SIN6_LEN_RFC2133`: the scope may be left out.
pub const SHORTEST_SOCKADDR_IN6: usize = 24;

pub fn done(returned: libc::c_long) -> io::Result<libc::c_long> {
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(returned) }
}

/// The address given to connect(); empty if the kernel refuses the length.
pub fn read_address(thread: u32, address: u64, len: u32) -> io::Result<Vec<u8>> {
    if len as usize > size_of::<libc::sockaddr_storage>() {
        return Ok(Vec::new());
    }
    read(thread, address, size_of::<libc::sockaddr_in6>().min(len as usize))
}

/// Returns an address as getpeername() does: cut to the length at `len`, where its own length is stored.
pub fn write_address(thread: u32, address: u64, len: u64, value: SocketAddr) -> io::Result<()> {
    let room = read(thread, len, size_of::<libc::c_int>())?;
    let room = room.first_chunk().copied().map(libc::c_int::from_ne_bytes);
    // The kernel reports a length below 0.
    let room: usize = room.and_then(|room| room.try_into().ok()).ok_or(io::ErrorKind::InvalidInput)?;
    let value = SockAddr::from(value);
    // SAFETY: an address of this length, whose padding was zeroed.
    let bytes = unsafe { std::slice::from_raw_parts(value.as_ptr().cast::<u8>(), value.len() as usize) };
    write(thread, address, &bytes[..bytes.len().min(room)])?;
    write(thread, len, &value.len().to_ne_bytes())
}

fn read(thread: u32, address: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: len };
    let remote = libc::iovec { iov_base: address as usize as *mut libc::c_void, iov_len: len };
    // SAFETY: the kernel writes at most as many bytes as there are.
    let got = unsafe {
        libc::process_vm_readv(thread as libc::pid_t, &raw const local, 1, &raw const remote, 1, 0)
    };
    bytes.truncate(done(got as libc::c_long)? as usize);
    Ok(bytes)
}

fn write(thread: u32, address: u64, bytes: &[u8]) -> io::Result<()> {
    let local = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let remote = libc::iovec { iov_base: address as usize as *mut libc::c_void, iov_len: bytes.len() };
    // SAFETY: the kernel reads the bytes.
    let put = unsafe {
        libc::process_vm_writev(thread as libc::pid_t, &raw const local, 1, &raw const remote, 1, 0)
    };
    if done(put as libc::c_long)? as usize == bytes.len() {
        Ok(())
    } else {
        Err(io::ErrorKind::WriteZero.into())
    }
}

/// Parses `struct sockaddr_in` and `struct sockaddr_in6`; nothing else is selected.
pub fn sockaddr(bytes: &[u8]) -> Option<SocketAddr> {
    let (family, rest) = bytes.split_first_chunk::<2>()?;
    let (port, rest) = rest.split_first_chunk::<2>()?;
    let port = u16::from_be_bytes(*port);
    match libc::c_int::from(u16::from_ne_bytes(*family)) {
        libc::AF_INET if bytes.len() >= size_of::<libc::sockaddr_in>() => {
            Some(SocketAddrV4::new(rest.first_chunk().copied().map(Ipv4Addr::from_octets)?, port).into())
        }
        libc::AF_INET6 if bytes.len() >= SHORTEST_SOCKADDR_IN6 => {
            let address = rest.get(4..)?.first_chunk().copied().map(Ipv6Addr::from_octets)?;
            Some(SocketAddrV6::new(address, port, 0, 0).into())
        }
        _ => None,
    }
}

/// A local duplicate of descriptor `fd` of a thread in another process.
pub fn copy_of(thread: u32, fd: RawFd) -> io::Result<OwnedFd> {
    let owner = match pidfd(thread, libc::PIDFD_THREAD) {
        // Before Linux 6.9, processes can be opened, and not their threads.
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => pidfd(process_of(thread)?, 0),
        found => found,
    }?;
    // SAFETY: of numbers alone.
    let copy = done(unsafe { libc::syscall(libc::SYS_pidfd_getfd, owner.as_raw_fd(), fd, 0) })?;
    // SAFETY: it was made just now, and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(copy as RawFd) })
}

fn pidfd(number: u32, flags: u32) -> io::Result<OwnedFd> {
    // SAFETY: of numbers alone.
    let made = done(unsafe { libc::syscall(libc::SYS_pidfd_open, number, flags) })?;
    // SAFETY: it was made just now, and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(made as RawFd) })
}

/// The process that a thread belongs to.
pub fn process_of(thread: u32) -> io::Result<u32> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status"))?;
    let number = status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok());
    number.ok_or_else(|| io::ErrorKind::InvalidData.into())
}
