//! A TUN interface (Documentation/networking/tuntap.rst): IP packets that the kernel routes to it are read from a
//! file, and those written there arrive by it.
//!
//! A packet for which its queue (500 packets) has no room is dropped where it would be queued, at once: a flood
//! costs the kernel little beyond routing it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::thread::check;

const DEVICE: &str = "/dev/net/tun";
const STATISTICS: &str = "/proc/self/net/dev";
/// Index, among the numbers after a name, of packets dropped on sending: the queue had no room for them.
const DROPPED_AT: usize = 11;

/// The interface, which is removed when this is closed.
pub struct Tun {
    pub name: String,
    file: File,
}

impl Tun {
    /// Makes an interface in the namespace of this thread; it is down.
    pub fn create(name: &str) -> io::Result<Self> {
        if name.is_empty() || name.len() >= libc::IFNAMSIZ {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "an interface name has 1 to 15 bytes"));
        }
        let file = File::options().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(DEVICE)?;
        // SAFETY: all zeros is a valid request; the name fits, and the last byte stays 0.
        unsafe {
            let mut request: libc::ifreq = std::mem::zeroed();
            for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
                *to = from as libc::c_char;
            }
            request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
            check(libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request))?;
        }
        Ok(Self { name: name.to_owned(), file })
    }

    /// Reads a packet and returns its length, cut to the room there is; `None` if there is none.
    pub fn read(&mut self, room: &mut [u8]) -> Option<usize> {
        self.file.read(room).ok()
    }

    /// Writes a packet; false if the kernel does not take it.
    pub fn write(&mut self, packet: &[u8]) -> bool {
        self.file.write(packet).is_ok()
    }

    /// The descriptor that becomes readable when there is a packet.
    pub fn descriptor(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Packets that found no room in the queue so far; `None` if the interface is gone.
    pub fn dropped(&self) -> Option<u64> {
        let text = std::fs::read_to_string(STATISTICS).ok()?;
        dropped_in(&text, &self.name)
    }
}

fn dropped_in(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let (_, numbers) = lines.find(|(found, _)| found.trim() == name)?;
    numbers.split_whitespace().nth(DROPPED_AT)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_found_by_the_name_of_the_interface() {
        let text = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:       1       2    3    4    5     6          7         8        9      10   11   12   13    14      15         16
  esp0: 100 200 300 400 500 600 700 800 900 1000 1100 1200 1300 1400 1500 1600
";
        assert_eq!(dropped_in(text, "esp0"), Some(1200));
        assert_eq!(dropped_in(text, "lo"), Some(12));
        assert_eq!(dropped_in(text, "esp"), None);
    }

    #[test]
    fn a_name_that_no_interface_can_have_is_refused() {
        for name in ["", "an-interface-name"] {
            let refused = Tun::create(name).err().map(|error| error.kind());
            assert_eq!(refused, Some(io::ErrorKind::InvalidInput));
        }
    }
}
