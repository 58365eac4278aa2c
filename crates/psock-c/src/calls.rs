//! What C calls.

use std::os::fd::AsRawFd;
use std::slice;
use std::sync::Arc;
use std::time::{Duration, Instant};

use libc::{c_int, c_void, msghdr, size_t, sockaddr, socklen_t, ssize_t};
use weir_psock::io::{ParallelSocket, Signal, SocketError};

use crate::descriptor::{Descriptor, LISTENING};
use crate::failure::{Failure, Outcome, told};
use crate::message::{self, MOST_MESSAGE_BYTES};
use crate::{address, options, table};

/// The protocol of `psocket`.
pub const IPPROTO_PSOCK: c_int = 0x7073;

/// TCP port of a server unless told otherwise.
pub const PSOCK_PORT: c_int = 29101;
const _: () = assert!(PSOCK_PORT == weir_psock::io::PORT as c_int);

fn failed<T>(errno: c_int) -> Outcome<T> {
    Err(Failure::new(errno))
}

/// Calls `work` with what is behind the descriptor, and keeps its error for `PSOCK_ERROR_TEXT`.
fn with<T: From<i8>>(fd: c_int, work: impl FnOnce(&Arc<Descriptor>) -> Outcome<T>) -> T {
    told(|| {
        let descriptor = table::get(fd)?;
        work(&descriptor).inspect_err(|failure| descriptor.note(failure))
    })
}

fn new_signal() -> Outcome<Signal> {
    Signal::new().map_err(|error| Failure::new(error.raw_os_error().unwrap_or(libc::EMFILE)))
}

/// Makes a socket, as socket(2): `AF_INET` or `AF_INET6`, `SOCK_STREAM` with or without `SOCK_NONBLOCK` and
/// `SOCK_CLOEXEC`, and `IPPROTO_PSOCK` or 0.
#[unsafe(no_mangle)]
pub extern "C" fn psocket(domain: c_int, r#type: c_int, protocol: c_int) -> c_int {
    told(|| {
        if ![libc::AF_INET, libc::AF_INET6].contains(&domain) {
            return failed(libc::EAFNOSUPPORT);
        }
        let flags = r#type & (libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC);
        if r#type & !flags != libc::SOCK_STREAM {
            return failed(libc::EINVAL);
        }
        if ![0, IPPROTO_PSOCK].contains(&protocol) {
            return failed(libc::EPROTONOSUPPORT);
        }
        let signal = new_signal()?;
        let shown = signal.as_raw_fd();
        let fd = table::add(shown, Descriptor::fresh(domain, signal), flags & libc::SOCK_CLOEXEC != 0)?;
        if flags & libc::SOCK_NONBLOCK != 0 {
            table::set_non_blocking(fd);
        }
        Ok(fd)
    })
}

/// Gives a socket its local address, as bind(2): where a server listens, or from where a client connects. Whether
/// the address can be had is known at `plisten` and `pconnect`.
///
/// # Safety
/// `address` has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pbind(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    with(fd, |descriptor| {
        // SAFETY: the caller's promise.
        let address = unsafe { address::read(address, len) }?;
        check_family(descriptor, address.is_ipv4(), true)?;
        descriptor.bind(address).map(|()| 0)
    })
}

/// An IPv6 socket takes IPv4 addresses inside of IPv6 to connect to, not to listen on.
fn check_family(descriptor: &Descriptor, is_ipv4: bool, is_strict: bool) -> Outcome<()> {
    let has_ipv4 = descriptor.setup().domain == libc::AF_INET;
    if has_ipv4 != is_ipv4 && (is_strict || has_ipv4) { failed(libc::EAFNOSUPPORT) } else { Ok(()) }
}

/// Waits for sessions at the address of `pbind` and those of `PSOCK_ADD_LOCAL_ADDR`, as listen(2). The backlog is
/// not used: at most 64 sessions wait to be accepted.
#[unsafe(no_mangle)]
pub extern "C" fn plisten(fd: c_int, backlog: c_int) -> c_int {
    let _ = backlog;
    with(fd, |descriptor| descriptor.listen().map(|()| 0))
}

/// The next session, as accept(2). `address` may be null; it gets the address of the first stream's other end.
///
/// # Safety
/// `address` is null or has `*len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paccept(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { paccept4(fd, address, len, 0) }
}

/// As `paccept`, with the flags `SOCK_NONBLOCK` and `SOCK_CLOEXEC` for the new descriptor, as accept4(2).
///
/// # Safety
/// `address` is null or has `*len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paccept4(
    fd: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> c_int {
    with(fd, |descriptor| {
        if flags & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) != 0 {
            return failed(libc::EINVAL);
        }
        if !address.is_null() && len.is_null() {
            return failed(libc::EFAULT);
        }
        let (socket, peer) = descriptor.accept(!table::is_non_blocking(fd))?;
        let shown = socket.poll_fd()?;
        let accepted = Descriptor::accepted(descriptor.setup(), socket);
        let made = table::add(shown, accepted, flags & libc::SOCK_CLOEXEC != 0)?;
        if flags & libc::SOCK_NONBLOCK != 0 {
            table::set_non_blocking(made);
        }
        // SAFETY: the caller's promise.
        unsafe { address::write(peer, address, len) }?;
        Ok(made)
    })
}

/// Opens a session with a server, as connect(2). With `O_NONBLOCK` it fails with `EINPROGRESS`; the descriptor is
/// writable when the session is open or has failed, and `SO_ERROR` tells which.
///
/// # Safety
/// `address` has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pconnect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    with(fd, |descriptor| {
        // SAFETY: the caller's promise.
        let address = unsafe { address::read(address, len) }?;
        check_family(descriptor, address.is_ipv4(), false)?;
        descriptor.connect(address, !table::is_non_blocking(fd)).map(|()| 0)
    })
}

/// Sends bytes, as send(2): all of them, or with `O_NONBLOCK` or `MSG_DONTWAIT` as many as there is room for. It
/// never raises SIGPIPE. Success means that the library has the bytes; `psclose` tells whether they arrived.
///
/// # Safety
/// `buffer` has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn psend(fd: c_int, buffer: *const c_void, len: size_t, flags: c_int) -> ssize_t {
    with(fd, |descriptor| {
        if flags & !(libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_MORE) != 0 {
            return failed(libc::EOPNOTSUPP);
        }
        let waits = flags & libc::MSG_DONTWAIT == 0 && !table::is_non_blocking(fd);
        let socket = descriptor.socket(waits)?;
        let bytes: &[u8] = match (buffer.is_null(), len) {
            (_, 0) => &[],
            (true, _) => return failed(libc::EFAULT),
            // SAFETY: the caller's promise; a slice has at most `isize::MAX` bytes.
            (false, _) => unsafe { slice::from_raw_parts(buffer.cast(), len.min(isize::MAX.unsigned_abs())) },
        };
        send(&socket, bytes, waits, descriptor.setup().send_timeout)
    })
}

fn send(socket: &ParallelSocket, bytes: &[u8], waits: bool, limit: Option<Duration>) -> Outcome<ssize_t> {
    if !waits {
        return Ok(socket.write(bytes, Some(Duration::ZERO))?.cast_signed());
    }
    let due = limit.and_then(|limit| Instant::now().checked_add(limit));
    let mut sent = 0;
    loop {
        let left = due.map(|due| due.saturating_duration_since(Instant::now()));
        match socket.write(&bytes[sent..], left) {
            Ok(written) => sent += written,
            Err(error) if sent == 0 => return Err(error.into()),
            // The next call tells why.
            Err(_) => return Ok(sent.cast_signed()),
        }
        if sent == bytes.len() {
            return Ok(sent.cast_signed());
        }
    }
}

/// Sends the bytes of several buffers, as sendmsg(2) and `psend`. The address is not used; control messages are refused
/// with `EOPNOTSUPP`.
///
/// # Safety
/// `message` and what it refers to are as for sendmsg(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn psendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    with(fd, |descriptor| {
        if flags & !(libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_MORE) != 0 {
            return failed(libc::EOPNOTSUPP);
        }
        // SAFETY: the caller's promise.
        let (header, buffers) = unsafe { message::read(message) }?;
        if header.msg_controllen != 0 {
            return failed(libc::EOPNOTSUPP);
        }
        let waits = flags & libc::MSG_DONTWAIT == 0 && !table::is_non_blocking(fd);
        let socket = descriptor.socket(waits)?;
        let mut sent = 0;
        for buffer in buffers.iter().filter(|buffer| buffer.iov_len > 0) {
            // SAFETY: the caller's promise; `message::read` has limited the sum.
            let bytes = unsafe { slice::from_raw_parts(buffer.iov_base.cast::<u8>(), buffer.iov_len) };
            match send(&socket, bytes, waits, descriptor.setup().send_timeout) {
                Ok(more) if more.unsigned_abs() < bytes.len() => return Ok(sent + more),
                Ok(more) => sent += more,
                Err(failure) if sent == 0 => return Err(failure),
                // The next call tells why.
                Err(_) => return Ok(sent),
            }
        }
        Ok(sent)
    })
}

/// Receives bytes, as recv(2): 0 when the other end has sent everything. `MSG_DONTWAIT`, `MSG_WAITALL` and `MSG_PEEK` are
/// known.
///
/// # Safety
/// `buffer` has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn precv(fd: c_int, buffer: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
    with(fd, |descriptor| {
        if buffer.is_null() && len > 0 {
            check_receiving(flags)?;
            return failed(libc::EFAULT);
        }
        let into: &mut [u8] = match len {
            0 => &mut [],
            // SAFETY: the caller's promise. What was there before is not read.
            _ => unsafe { slice::from_raw_parts_mut(buffer.cast(), len.min(isize::MAX.unsigned_abs())) },
        };
        receive(fd, descriptor, into, flags)
    })
}

/// Receives bytes into several buffers, as recvmsg(2) and `precv`: there is no address, and there are no control
/// messages.
///
/// # Safety
/// `message` and what it refers to are as for recvmsg(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn precvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    with(fd, |descriptor| {
        // SAFETY: the caller's promise.
        let (_, buffers) = unsafe { message::read(message) }?;
        let room: usize = buffers.iter().map(|buffer| buffer.iov_len).sum();
        let mut bytes = vec![0; room.min(MOST_MESSAGE_BYTES)];
        let received = receive(fd, descriptor, &mut bytes, flags)?;
        // SAFETY: the caller's promise.
        unsafe { message::write(message, &bytes[..received.unsigned_abs()]) }?;
        Ok(received)
    })
}

fn check_receiving(flags: c_int) -> Outcome<()> {
    let known = libc::MSG_DONTWAIT | libc::MSG_WAITALL | libc::MSG_PEEK | libc::MSG_NOSIGNAL;
    if flags & !known == 0 { Ok(()) } else { failed(libc::EOPNOTSUPP) }
}

fn receive(fd: c_int, descriptor: &Descriptor, into: &mut [u8], flags: c_int) -> Outcome<ssize_t> {
    check_receiving(flags)?;
    let waits = flags & libc::MSG_DONTWAIT == 0 && !table::is_non_blocking(fd);
    let socket = descriptor.socket(waits)?;
    if into.is_empty() || descriptor.is_deaf() {
        return Ok(0);
    }
    let limit = if waits { descriptor.setup().receive_timeout } else { Some(Duration::ZERO) };
    let is_peek = flags & libc::MSG_PEEK != 0;
    let read =
        |into: &mut [u8], wait| if is_peek { socket.peek(into, wait) } else { socket.read(into, wait) };
    // What was peeked at does not go away, so that more cannot be waited for.
    let is_whole = waits && !is_peek && flags & libc::MSG_WAITALL != 0;
    let due = limit.and_then(|limit| Instant::now().checked_add(limit));
    let mut received = 0;
    loop {
        let left = due.map(|due| due.saturating_duration_since(Instant::now()));
        let wait = left.map_or(LISTENING, |left| left.min(LISTENING));
        let found = match read(&mut into[received..], Some(wait)) {
            Ok(found) => found,
            // Another thread's pshutdown does not wake this one.
            Err(SocketError::TimedOut) if left.is_none_or(|left| left > wait) => {
                if descriptor.is_deaf() {
                    return Ok(received.cast_signed());
                }
                continue;
            }
            Err(error) if received == 0 => return Err(error.into()),
            Err(_) => return Ok(received.cast_signed()),
        };
        received += found;
        if found == 0 || received == into.len() || !is_whole {
            return Ok(received.cast_signed());
        }
    }
}

/// Ends one direction or both, as shutdown(2). After `SHUT_WR` the other end reads the end of the data.
#[unsafe(no_mangle)]
pub extern "C" fn pshutdown(fd: c_int, how: c_int) -> c_int {
    with(fd, |descriptor| descriptor.shut_down(how).map(|()| 0))
}

/// Closes a socket. It waits until everything that was sent has arrived, unless `SO_LINGER` says otherwise, and
/// fails where that cannot be; the descriptor is closed in any case.
#[unsafe(no_mangle)]
pub extern "C" fn psclose(fd: c_int) -> c_int {
    told(|| table::remove(fd)?.close().map(|()| 0))
}

/// Sets an option, as setsockopt(2); those of the level `SOL_PSOCK`, and those of TCP and IP for every stream.
///
/// # Safety
/// `value` has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setpsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    with(fd, |descriptor| {
        if value.is_null() {
            return failed(libc::EFAULT);
        }
        // SAFETY: the caller's promise.
        let value = unsafe { slice::from_raw_parts(value.cast::<u8>(), len as usize) };
        options::set(descriptor, level, name, value).map(|()| 0)
    })
}

/// Sets what an option of the level `SOL_PSOCK` is for the sockets that are made from now on; not addresses, which
/// belong to one socket.
///
/// # Safety
/// `value` has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn psock_setopt(name: c_int, value: *const c_void, len: socklen_t) -> c_int {
    told(|| {
        if value.is_null() {
            return failed(libc::EFAULT);
        }
        // SAFETY: the caller's promise.
        let value = unsafe { slice::from_raw_parts(value.cast::<u8>(), len as usize) };
        options::set_default(name, value).map(|()| 0)
    })
}

/// Reads an option, as getsockopt(2).
///
/// # Safety
/// `value` has `*len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getpsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    with(fd, |descriptor| {
        if value.is_null() || len.is_null() {
            return failed(libc::EFAULT);
        }
        // SAFETY: the caller's promise.
        let room = unsafe { slice::from_raw_parts_mut(value.cast::<u8>(), len.read_unaligned() as usize) };
        let found = options::get(descriptor, level, name, room)?;
        let size = found.len().min(room.len());
        room[..size].copy_from_slice(&found[..size]);
        // SAFETY: the caller's promise.
        unsafe { len.write_unaligned(size as socklen_t) };
        Ok(0)
    })
}

/// This end's address, as getsockname(2): that of the first stream, or where a server listens.
///
/// # Safety
/// `address` has `*len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pgetsockname(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
    with(fd, |descriptor| {
        if address.is_null() {
            return failed(libc::EFAULT);
        }
        let any = || {
            let is_ipv4 = descriptor.setup().domain == libc::AF_INET;
            let ip: std::net::IpAddr =
                if is_ipv4 { [0; 4].into() } else { std::net::Ipv6Addr::UNSPECIFIED.into() };
            std::net::SocketAddr::new(ip, 0)
        };
        // SAFETY: the caller's promise.
        unsafe { address::write(descriptor.local().unwrap_or_else(any), address, len) }.map(|()| 0)
    })
}

/// The other end's address, as getpeername(2): that of the first stream.
///
/// # Safety
/// `address` has `*len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pgetpeername(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
    with(fd, |descriptor| {
        if address.is_null() {
            return failed(libc::EFAULT);
        }
        // SAFETY: the caller's promise.
        unsafe { address::write(descriptor.remote()?, address, len) }.map(|()| 0)
    })
}
