//! Frames of a network interface, both ways, by a packet socket.

mod ring;
mod socket;

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use super::source::{Direction, Frame, Interface, Source};
use crate::engine::{Endpoint, EngineError};
use crate::packet;
use crate::thread::{check, place, within};
use ring::{Packet, Ring};

/// What an interface carries.
///
/// The filter stays in user space: it has to see VLAN tags, which the kernel takes out of a frame before it
/// would run, and frames that it leaves out must be counted.
pub struct InterfaceSource {
    socket: OwnedFd,
    ring: Ring,
    ifindex: u32,
    interfaces: [Interface; 1],
    lost: u64,
    /// Of those lost, the ones not yet reported with a frame.
    untold: u64,
    /// Something happened to the interface.
    is_in_doubt: bool,
}

impl InterfaceSource {
    /// Opens an interface, and makes it promiscuous. No frame is kept before [`InterfaceSource::listen`].
    ///
    /// # Errors
    /// [`EngineError`] for a namespace or an interface that does not exist, and without CAP_NET_RAW.
    pub fn open(at: &Endpoint, ring_bytes: usize) -> Result<Self, EngineError> {
        let refuse = |source| EngineError::Socket { interface: at.interface.clone(), source };
        let path = at.netns.as_deref();
        let missing = || EngineError::Interface { interface: at.interface.clone(), place: place(path) };
        let name = CString::new(at.interface.as_str()).map_err(|_| missing())?;
        within(path, || {
            // SAFETY: `name` ends with 0 and outlives the call.
            let ifindex = unsafe { libc::if_nametoindex(name.as_ptr()) };
            if ifindex == 0 {
                return Err(missing());
            }
            let socket = packet::socket::open(ifindex, false).map_err(refuse)?;
            let ring = Ring::new(&socket, ring_bytes).map_err(refuse)?;
            packet::socket::promiscuous(&socket, ifindex).map_err(refuse)?;
            let (kind, mac) = packet::socket::hardware(&socket, &name).map_err(refuse)?;
            // Frames of the loopback interface have Ethernet headers, too.
            if !matches!(kind, libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK) {
                return Err(EngineError::NotEthernet { interface: at.interface.clone(), kind });
            }
            let interface = Interface { name: at.interface.clone(), description: String::new(), mac };
            Ok(Self {
                socket,
                ring,
                ifindex,
                interfaces: [interface],
                lost: 0,
                untold: 0,
                is_in_doubt: false,
            })
        })
        .map_err(|source| EngineError::Netns { place: place(path), source })?
    }

    /// Keeps frames from now on.
    ///
    /// # Errors
    /// The kernel's error; [`EngineError::Socket`].
    pub fn listen(&mut self) -> Result<(), EngineError> {
        packet::socket::bind(&self.socket, self.ifindex, libc::ETH_P_ALL as u16)
            .map_err(|source| EngineError::Socket { interface: self.interfaces[0].name.clone(), source })
    }

    fn count_lost(&mut self) -> io::Result<()> {
        let lost = socket::drops(&self.socket)?;
        self.lost += lost;
        self.untold += lost;
        Ok(())
    }

    /// A link that is down is not the end: it may come up again. An interface that is gone will not.
    fn check(&self) -> io::Result<()> {
        // SAFETY: all zeros is a valid request; the kernel writes the name into it.
        unsafe {
            let mut request: libc::ifreq = std::mem::zeroed();
            request.ifr_ifru.ifru_ifindex = self.ifindex as i32;
            check(libc::ioctl(self.socket.as_raw_fd(), libc::SIOCGIFNAME, &raw mut request))
        }
        .map_err(|e| match e.raw_os_error() {
            Some(libc::ENODEV) => {
                io::Error::new(e.kind(), format!("interface {} is gone", self.interfaces[0].name))
            }
            _ => e,
        })
    }
}

impl Source for InterfaceSource {
    fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    fn read(&mut self, wait: Duration, take: &mut dyn FnMut(Frame<'_>)) -> io::Result<usize> {
        if !self.ring.has_block() {
            if socket::wait_readable(&self.socket, wait)? {
                // Reported once: the link went down, or the interface is gone. What came before is read first.
                packet::socket::clear_error(&self.socket)?;
                self.is_in_doubt = true;
                std::thread::sleep(2 * ring::RETIRE_AFTER);
            }
            if !self.ring.has_block() {
                if std::mem::take(&mut self.is_in_doubt) {
                    self.check()?;
                }
                self.count_lost()?;
                return Ok(0);
            }
        }
        let mut frames = 0;
        // A block at a time: the kernel has it back as soon as it is read.
        if self.ring.is_losing() {
            self.count_lost()?;
        }
        let untold = &mut self.untold;
        self.ring.take_block(&mut |packet: Packet<'_>| {
            frames += 1;
            take(Frame {
                time_ns: packet.time_ns,
                interface: 0,
                direction: if packet.is_outgoing { Direction::Outbound } else { Direction::Inbound },
                original_len: packet.original_len,
                lost_before: std::mem::take(untold),
                lost_since_ns: None,
                data: packet.data,
            });
        })?;
        Ok(frames)
    }

    fn lost(&self) -> Vec<u64> {
        vec![self.lost]
    }
}
