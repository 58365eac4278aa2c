//! An interface of the tap, as the calling thread's namespace has it.

use std::ffi::CString;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use super::error::TapError;
use crate::thread::check;

/// What has to be known of an interface.
pub struct Port {
    pub name: String,
    pub ifindex: u32,
    pub mac: [u8; 6],
    /// Holds the interface in promiscuous mode: a bridge takes what is for others.
    pub promiscuous: Option<OwnedFd>,
}

impl Port {
    /// Finds an interface that is up.
    pub fn find(name: &str, netns: &str) -> Result<Self, TapError> {
        let missing = || TapError::Missing { interface: name.into(), netns: netns.into() };
        let system = |action| move |source| TapError::System { action, interface: name.into(), source };
        let c_name = CString::new(name).map_err(|_| missing())?;
        // SAFETY: a valid C string.
        let ifindex = unsafe { libc::if_nametoindex(c_name.as_ptr()) };
        if ifindex == 0 || name.len() >= libc::IFNAMSIZ {
            return Err(missing());
        }
        let socket = packet_socket(0).map_err(system("ask about"))?;
        // SAFETY: all zeros is a valid request.
        let mut request: libc::ifreq = unsafe { zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        // SAFETY: `request` is valid, and each call fills the member that is read after it.
        let (flags, mac) = unsafe {
            check(libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS, &raw mut request))
                .map_err(system("ask about"))?;
            let flags = request.ifr_ifru.ifru_flags;
            check(libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFHWADDR, &raw mut request))
                .map_err(system("ask about"))?;
            (flags, request.ifr_ifru.ifru_hwaddr.sa_data)
        };
        if i32::from(flags) & libc::IFF_UP == 0 {
            return Err(TapError::Down { interface: name.into() });
        }
        let mac = std::array::from_fn(|i| mac[i] as u8);
        Ok(Self { name: name.into(), ifindex, mac, promiscuous: None })
    }

    /// Makes the interface take every frame, for as long as this port is held.
    pub fn be_promiscuous(&mut self) -> Result<(), TapError> {
        let hold = || {
            let socket = packet_socket(0)?;
            let request = libc::packet_mreq {
                mr_ifindex: self.ifindex as libc::c_int,
                mr_type: libc::PACKET_MR_PROMISC as u16,
                mr_alen: 0,
                mr_address: [0; 8],
            };
            // SAFETY: `request` is valid for its length.
            check(unsafe {
                libc::setsockopt(
                    socket.as_raw_fd(),
                    libc::SOL_PACKET,
                    libc::PACKET_ADD_MEMBERSHIP,
                    (&raw const request).cast(),
                    size_of::<libc::packet_mreq>() as libc::socklen_t,
                )
            })?;
            Ok(socket)
        };
        let error = |source| TapError::System {
            action: "receive the frames of others on",
            interface: self.name.clone(),
            source,
        };
        self.promiscuous = Some(hold().map_err(error)?);
        Ok(())
    }
}

/// A packet socket that receives nothing (protocol 0).
pub fn packet_socket(protocol: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: a plain system call.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, protocol) };
    check(fd)?;
    // SAFETY: a new descriptor that nobody else has.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The number by which the kernel knows the calling thread's namespace.
pub fn netns_inode() -> io::Result<u32> {
    Ok(std::fs::metadata("/proc/thread-self/ns/net")?.ino() as u32)
}
