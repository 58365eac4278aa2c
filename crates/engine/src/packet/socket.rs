//! The system calls of packet sockets.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::thread::check;

/// Opens a raw packet socket on one interface, for all protocols or for sending only.
pub fn open(ifindex: u32, receive: bool) -> io::Result<OwnedFd> {
    let socket = unbound()?;
    bind(&socket, ifindex, if receive { libc::ETH_P_ALL as u16 } else { 0 })?;
    Ok(socket)
}

/// Opens a raw packet socket that receives nothing.
pub fn unbound() -> io::Result<OwnedFd> {
    // SAFETY: plain system call; the descriptor is owned by nobody else yet.
    unsafe {
        let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
        check(fd)?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

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

/// The value of an integer option.
pub fn get(socket: &OwnedFd, level: i32, option: i32) -> io::Result<i32> {
    let (mut value, mut len) = (0_i32, size_of::<i32>() as libc::socklen_t);
    // SAFETY: `value` is an int that lives through the call.
    check(unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, option, (&raw mut value).cast(), &raw mut len)
    })?;
    Ok(value)
}

/// Sets an option of packet sockets whose value is one of the kernel's structures.
pub fn set_value<T>(socket: &OwnedFd, option: i32, value: &T) -> io::Result<()> {
    set_structure(socket, libc::SOL_PACKET, option, value)
}

/// Sets an option whose value is one of the kernel's structures.
///
/// The kernel reads no farther than `T` goes, and refuses a value too short for the option.
pub fn set_structure<T>(socket: &OwnedFd, level: i32, option: i32, value: &T) -> io::Result<()> {
    // SAFETY: `value` has the size given and lives through the call.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const *value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    })
}

/// Makes the interface accept frames for other hosts, until the socket is closed.
pub fn promiscuous(socket: &OwnedFd, ifindex: u32) -> io::Result<()> {
    let request = libc::packet_mreq {
        mr_ifindex: ifindex as i32,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_value(socket, libc::PACKET_ADD_MEMBERSHIP, &request)
}

/// Kind (ARPHRD_ETHER, ...) and address.
pub fn hardware(socket: &OwnedFd, name: &CStr) -> io::Result<(u16, [u8; 6])> {
    let answer = ask(socket, name, libc::SIOCGIFHWADDR)?;
    // SAFETY: the kernel filled in an address of at least six bytes.
    let address = unsafe { answer.ifr_ifru.ifru_hwaddr };
    Ok((address.sa_family, std::array::from_fn(|at| address.sa_data[at] as u8)))
}

/// Whether it is up.
pub fn is_up(socket: &OwnedFd, name: &CStr) -> io::Result<bool> {
    let answer = ask(socket, name, libc::SIOCGIFFLAGS)?;
    // SAFETY: the kernel filled in the flags.
    Ok(i32::from(unsafe { answer.ifr_ifru.ifru_flags }) & libc::IFF_UP != 0)
}

/// Most bytes of a frame after its Ethernet header.
pub fn mtu(socket: &OwnedFd, name: &CStr) -> io::Result<usize> {
    let answer = ask(socket, name, libc::SIOCGIFMTU)?;
    // SAFETY: the kernel filled in the MTU.
    Ok(unsafe { answer.ifr_ifru.ifru_mtu } as usize)
}

fn ask(socket: &OwnedFd, name: &CStr, what: libc::Ioctl) -> io::Result<libc::ifreq> {
    // SAFETY: all zeros is a valid request; a name that is too long is cut, and the last byte
    // stays 0.
    unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name[..libc::IFNAMSIZ - 1].iter_mut().zip(name.to_bytes()) {
            *to = *from as libc::c_char;
        }
        check(libc::ioctl(socket.as_raw_fd(), what, &raw mut request))?;
        Ok(request)
    }
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
