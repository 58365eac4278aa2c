//! An Ethernet interface: a socket that receives into a ring, and one that sends.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use thiserror::Error;

use super::ring::{Packet, Ring};
use super::socket;
use crate::engine::Endpoint;
use crate::thread::{check, place, within};

/// Frames handed to the kernel at once. Each is late by the time that those before it take.
pub const BATCH: usize = 32;

const ETHERNET_BYTES: usize = 14;
/// Two VLAN tags.
const TAGS_BYTES: usize = 8;

/// Why an interface cannot be used.
#[derive(Debug, Error)]
pub enum PortError {
    /// A namespace cannot be entered.
    #[error("cannot enter {place}: {source}")]
    Netns {
        /// The namespace, in words.
        place: String,
        /// The kernel's reason.
        source: io::Error,
    },
    /// An interface does not exist.
    #[error("there is no interface '{interface}' in {place}")]
    Missing {
        /// Its name.
        interface: String,
        /// The namespace, in words.
        place: String,
    },
    /// An interface cannot carry frames.
    #[error("interface {interface} is down: bring it up first (ip link set {interface} up)")]
    Down {
        /// Its name.
        interface: String,
    },
    /// The interface does not carry Ethernet frames.
    #[error("interface {interface} is no Ethernet interface: only Ethernet frames can be carried")]
    NotEthernet {
        /// Its name.
        interface: String,
    },
    /// Packet sockets do not work here.
    #[error("cannot use packet sockets on {interface} (needs CAP_NET_RAW): {source}")]
    Socket {
        /// The interface.
        interface: String,
        /// The kernel's reason.
        source: io::Error,
    },
}

/// An interface.
pub struct Port {
    pub name: String,
    receiver: OwnedFd,
    sender: OwnedFd,
    ring: Ring,
    ifindex: u32,
}

// SAFETY: the ring's memory belongs to the port, which is used by one thread at a time.
unsafe impl Send for Port {}

/// What became of an attempt to send.
pub enum Sent {
    /// This many frames left.
    All(usize),
    /// The first one found no room; it may later.
    NoRoom,
    /// The first one was refused.
    Refused(io::Error),
}

impl Port {
    /// Opens an interface; arriving frames are kept from now on, in a ring of this many MiB.
    pub fn open(at: &Endpoint, ring_mib: usize) -> Result<Self, PortError> {
        let interface = || at.interface.clone();
        let refuse = |source| PortError::Socket { interface: interface(), source };
        let path = at.netns.as_deref();
        let missing = || PortError::Missing { interface: interface(), place: place(path) };
        let name = CString::new(at.interface.as_str()).map_err(|_| missing())?;
        within(path, || {
            // SAFETY: `name` ends with 0 and outlives the call.
            let ifindex = unsafe { libc::if_nametoindex(name.as_ptr()) };
            if ifindex == 0 {
                return Err(missing());
            }
            let receiver = socket::open(ifindex, false).map_err(refuse)?;
            let (kind, _) = socket::hardware(&receiver, &name).map_err(refuse)?;
            if kind != libc::ARPHRD_ETHER {
                return Err(PortError::NotEthernet { interface: interface() });
            }
            if !socket::is_up(&receiver, &name).map_err(refuse)? {
                return Err(PortError::Down { interface: interface() });
            }
            let mtu = socket::mtu(&receiver, &name).map_err(refuse)?;
            let sender = socket::open(ifindex, false).map_err(refuse)?;
            // Straight to the driver. If that is refused, frames pass the queueing discipline first, no more.
            let _ = socket::set(&sender, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1);
            // Frames sent by this interface must not come back (Linux 4.20; before, they are left out below).
            let _ = socket::set(&receiver, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1);
            let ring = Ring::new(&receiver, mtu + ETHERNET_BYTES + TAGS_BYTES, ring_mib).map_err(refuse)?;
            socket::promiscuous(&receiver, ifindex).map_err(refuse)?;
            socket::bind(&receiver, ifindex, libc::ETH_P_ALL as u16).map_err(refuse)?;
            Ok(Self { name: interface(), receiver, sender, ring, ifindex })
        })
        .map_err(|source| PortError::Netns { place: place(path), source })?
    }

    /// Hands the next frame that arrived to `take`, if there is one.
    pub fn take<R>(&mut self, take: impl FnOnce(Packet<'_>) -> R) -> Option<R> {
        self.ring.take(take)
    }

    /// Sends frames, at most [`BATCH`] of them.
    pub fn send<F: AsRef<[u8]>>(&self, frames: &[F]) -> Sent {
        debug_assert!((1..=BATCH).contains(&frames.len()));
        // SAFETY: all zeros is a valid iovec, and a valid mmsghdr.
        let (mut vectors, mut messages): ([libc::iovec; BATCH], [libc::mmsghdr; BATCH]) =
            unsafe { std::mem::zeroed() };
        for ((message, vector), frame) in messages.iter_mut().zip(&mut vectors).zip(frames) {
            let bytes = frame.as_ref();
            *vector = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
            message.msg_hdr.msg_iov = vector;
            message.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: as many messages as frames, whose pointers outlive the call; the kernel only reads the frames.
        let sent = unsafe {
            libc::sendmmsg(
                self.sender.as_raw_fd(),
                messages.as_mut_ptr(),
                frames.len() as u32,
                libc::MSG_DONTWAIT,
            )
        };
        if sent > 0 {
            return Sent::All(sent as usize);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::ENOBUFS | libc::EAGAIN | libc::EINTR) => Sent::NoRoom,
            _ => Sent::Refused(error),
        }
    }

    /// Frames that the kernel could not put into the ring since the last call.
    pub fn not_received(&self) -> u64 {
        socket::drops(&self.receiver).unwrap_or(0)
    }

    /// The descriptor that becomes readable when a frame arrives.
    pub fn descriptor(&self) -> RawFd {
        self.receiver.as_raw_fd()
    }

    /// Whether the interface still exists: one that is down may come up again. Clears the socket's pending
    /// error, which would otherwise be reported again and again.
    pub fn is_there(&self) -> bool {
        let _ = socket::clear_error(&self.receiver);
        // SAFETY: all zeros is a valid request; the kernel writes the name into it.
        unsafe {
            let mut request: libc::ifreq = std::mem::zeroed();
            request.ifr_ifru.ifru_ifindex = self.ifindex as i32;
            check(libc::ioctl(self.receiver.as_raw_fd(), libc::SIOCGIFNAME, &raw mut request)).is_ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_interface_is_named_with_its_namespace() {
        let at = Endpoint { netns: None, interface: "nowhere".into() };
        let error = Port::open(&at, 1).map(|_| ()).expect_err("it is absent");
        assert_eq!(
            error.to_string(),
            "there is no interface 'nowhere' in the network namespace of this process"
        );
    }
}
