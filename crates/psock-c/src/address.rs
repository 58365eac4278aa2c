//! `struct sockaddr` read and written.

use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};
use std::ptr;

use libc::{c_int, sockaddr, sockaddr_in, sockaddr_in6, socklen_t};

use crate::failure::{Failure, Outcome};

/// The address that C gives; an IPv4 address inside IPv6 is an IPv4 address.
///
/// # Errors
/// `EFAULT`: none. `EINVAL`: too short. `EAFNOSUPPORT`: neither IPv4 nor IPv6.
///
/// # Safety
/// `address` is null, or has `len` bytes.
pub unsafe fn read(address: *const sockaddr, len: socklen_t) -> Outcome<SocketAddr> {
    if address.is_null() {
        return Err(Failure::new(libc::EFAULT));
    }
    let len = len as usize;
    if len < size_of::<libc::sa_family_t>() {
        return Err(Failure::new(libc::EINVAL));
    }
    // SAFETY: as many bytes are there; they may have any alignment.
    let family = c_int::from(unsafe { address.cast::<libc::sa_family_t>().read_unaligned() });
    match family {
        libc::AF_INET if len >= size_of::<sockaddr_in>() => {
            // SAFETY: as before.
            let found = unsafe { address.cast::<sockaddr_in>().read_unaligned() };
            let ip = u32::from_be(found.sin_addr.s_addr).into();
            Ok(SocketAddrV4::new(ip, u16::from_be(found.sin_port)).into())
        }
        libc::AF_INET6 if len >= size_of::<sockaddr_in6>() => {
            // SAFETY: as before.
            let found = unsafe { address.cast::<sockaddr_in6>().read_unaligned() };
            let (ip, port) = (found.sin6_addr.s6_addr.into(), u16::from_be(found.sin6_port));
            let whole = SocketAddrV6::new(ip, port, found.sin6_flowinfo, found.sin6_scope_id);
            Ok(ip.to_ipv4_mapped().map_or_else(|| whole.into(), |ip| SocketAddrV4::new(ip, port).into()))
        }
        libc::AF_INET | libc::AF_INET6 => Err(Failure::new(libc::EINVAL)),
        _ => Err(Failure::new(libc::EAFNOSUPPORT)),
    }
}

/// Writes what fits of `address`, and its whole length, as accept(2) does; nothing where `to` is null.
///
/// # Errors
/// `EFAULT`: there is no place for the length.
///
/// # Safety
/// `len` is null or can be written; `to` is null or has `*len` bytes.
pub unsafe fn write(address: SocketAddr, to: *mut sockaddr, len: *mut socklen_t) -> Outcome<()> {
    if to.is_null() {
        return Ok(());
    }
    match address {
        SocketAddr::V4(v4) => {
            let found = sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from(*v4.ip()).to_be() },
                sin_zero: [0; 8],
            };
            // SAFETY: the caller's promise.
            unsafe { put(&found, to.cast(), len) }
        }
        SocketAddr::V6(v6) => {
            let found = sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            };
            // SAFETY: the caller's promise.
            unsafe { put(&found, to.cast(), len) }
        }
    }
}

/// Writes what fits of a value, and its whole length.
///
/// # Errors
/// `EFAULT`: there is no place.
///
/// # Safety
/// `len` is null or can be written; `to` is null or has `*len` bytes.
pub unsafe fn put<T>(value: &T, to: *mut u8, len: *mut socklen_t) -> Outcome<()> {
    if to.is_null() || len.is_null() {
        return Err(Failure::new(libc::EFAULT));
    }
    let size = size_of::<T>();
    // SAFETY: `len` can be read and written, and as many bytes can be written as it says.
    unsafe {
        let room = (len.read_unaligned() as usize).min(size);
        ptr::copy_nonoverlapping(ptr::from_ref(value).cast::<u8>(), to, room);
        len.write_unaligned(size as socklen_t);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(address: SocketAddr) -> SocketAddr {
        let mut bytes = [0_u8; 64];
        let mut len = 64;
        // SAFETY: the lengths are right.
        unsafe {
            write(address, bytes.as_mut_ptr().cast(), &raw mut len).unwrap();
            read(bytes.as_ptr().cast(), len).unwrap()
        }
    }

    #[test]
    fn addresses_come_out_as_they_went_in() {
        for text in ["192.0.2.1:80", "[2001:db8::1]:443", "[fe80::1%3]:7"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(round(address), address);
        }
        let mapped: SocketAddr = "[::ffff:192.0.2.1]:80".parse().unwrap();
        assert_eq!(round(mapped), "192.0.2.1:80".parse().unwrap());
    }

    #[test]
    fn what_is_no_address_is_refused_and_little_room_is_not_exceeded() {
        let bytes = [0xff_u8; 64];
        // SAFETY: the lengths are right.
        let found = |len| unsafe { read(bytes.as_ptr().cast(), len) }.unwrap_err().errno;
        assert_eq!([found(1), found(64)], [libc::EINVAL, libc::EAFNOSUPPORT]);
        // SAFETY: null is allowed.
        assert_eq!(unsafe { read(ptr::null(), 16) }.unwrap_err().errno, libc::EFAULT);
        let (mut room, mut len) = ([0x55_u8; 8], 4);
        // SAFETY: four bytes are there.
        unsafe { write("192.0.2.1:80".parse().unwrap(), room.as_mut_ptr().cast(), &raw mut len) }.unwrap();
        assert_eq!((room[4..].to_vec(), len), (vec![0x55; 4], 16));
        // SAFETY: as before.
        let short = unsafe { read(room.as_ptr().cast(), 8) }.unwrap_err().errno;
        assert_eq!(short, libc::EINVAL);
    }
}
