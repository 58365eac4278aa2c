//! An interface of the tap, as the calling thread's namespace has it.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;

use super::error::TapError;
use crate::packet::port::PortError;
use crate::packet::socket;

/// What has to be known of an interface.
pub struct Port {
    pub name: String,
    pub ifindex: u32,
    pub mac: [u8; 6],
    /// Holds the interface in promiscuous mode: a bridge takes what is for others.
    pub promiscuous: Option<OwnedFd>,
}

impl Port {
    /// Finds an interface that is up, in the caller's namespace; `place` is that in words.
    pub fn find(name: &str, place: &str) -> Result<Self, TapError> {
        let missing = || PortError::Missing { interface: name.into(), place: place.into() };
        let unknown = |source| TapError::System { action: "ask about", interface: name.into(), source };
        let c_name = CString::new(name).map_err(|_| missing())?;
        // SAFETY: a valid C string.
        let ifindex = unsafe { libc::if_nametoindex(c_name.as_ptr()) };
        if ifindex == 0 || name.len() >= libc::IFNAMSIZ {
            return Err(missing().into());
        }
        let asking = socket::unbound().map_err(unknown)?;
        if !socket::is_up(&asking, &c_name).map_err(unknown)? {
            return Err(PortError::Down { interface: name.into() }.into());
        }
        let (_, mac) = socket::hardware(&asking, &c_name).map_err(unknown)?;
        Ok(Self { name: name.into(), ifindex, mac, promiscuous: None })
    }

    /// Makes the interface take every frame, for as long as this port is held.
    pub fn be_promiscuous(&mut self) -> Result<(), TapError> {
        let hold = || {
            let socket = socket::unbound()?;
            socket::promiscuous(&socket, self.ifindex)?;
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

/// The number by which the kernel knows the calling thread's namespace.
pub fn netns_inode() -> io::Result<u32> {
    Ok(std::fs::metadata("/proc/thread-self/ns/net")?.ino() as u32)
}
