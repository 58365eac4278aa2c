//! A port past the system: an `AF_XDP` socket that its owner polls without ever sleeping for packets.

use std::ffi::CString;
use std::io;
use std::os::fd::AsFd;

use aya::include_bytes_aligned;
use aya::programs::XdpMode;
use weir_wire::{ETHERNET_LEN, IPV4_LEN, MacAddr, fold, ones_complement_sum};

use super::port::{BATCH, Port};
use super::xsk::Xsk;
use crate::xdp::{Object, XdpError};
use weir_clock::sleep_until;

static OBJECT: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/endpoint.o"));
const PROGRAM: &str = "weir_endpoint";
const SOCKETS: &str = "endpoint_sockets";
const QUEUE: u32 = 0;
const IPV4: [u8; 2] = [0x08, 0x00];

/// How long the owner of a CPU yields it to others at a time, and after how much work: the earlier limit if
/// nothing is due meanwhile, else the later one. Ordinary work must get 50 ms of every second, or the kernel's
/// fair server (Linux 6.12, `dl_server` in kernel/sched/fair.c) takes them at once; this leaves it 60 ms in bits.
const NAP_NS: u64 = 64_000;
const NAP_SOON_NS: u64 = 600_000;
const NAP_LATEST_NS: u64 = 900_000;
/// How much later than it should a nap may end.
const NAP_MARGIN_NS: u64 = 40_000;

/// The port.
pub struct Bypass {
    xsk: Xsk,
    /// Keeps the program attached.
    _object: Object,
    /// Destination, source and type of every frame that is sent.
    head: [u8; ETHERNET_LEN],
    /// Whether the program runs in the driver.
    pub native: bool,
    /// When the owner last gave way; `None` if it need not, since it shares the CPU as others do.
    napped_ns: Option<u64>,
    /// How often it gave way.
    pub naps: u64,
}

impl Bypass {
    /// Receives what arrives at an interface of the calling thread's namespace, from now on.
    ///
    /// `naps`: the owner will be real-time and gives way to others by itself.
    pub fn open(interface: &str, address: MacAddr, neighbour: MacAddr, naps: bool) -> Result<Self, XdpError> {
        let name = CString::new(interface).map_err(|_| {
            XdpError::system("find the interface")(io::Error::from(io::ErrorKind::InvalidInput))
        })?;
        // SAFETY: `name` ends with 0 and outlives the call.
        let ifindex = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if ifindex == 0 {
            return Err(XdpError::system("find the interface")(io::Error::last_os_error()));
        }
        let mut object = Object::load("endpoint", OBJECT, PROGRAM, &[])?;
        let program = object.program(PROGRAM)?;
        let native = match program.attach_to_if_index(ifindex, XdpMode::Driver) {
            Ok(_) => true,
            Err(_) => {
                program
                    .attach_to_if_index(ifindex, XdpMode::Skb)
                    .map_err(XdpError::program(format!("attach the XDP program to {interface}")))?;
                false
            }
        };
        let xsk = Xsk::open(ifindex, QUEUE).map_err(XdpError::system("open an AF_XDP socket"))?;
        object.set_socket(SOCKETS, QUEUE, xsk.as_fd())?;
        let mut head = [0; ETHERNET_LEN];
        head[..6].copy_from_slice(&neighbour);
        head[6..12].copy_from_slice(&address);
        head[12..].copy_from_slice(&IPV4);
        Ok(Self { xsk, _object: object, head, native, napped_ns: naps.then_some(0), naps: 0 })
    }

    /// See [`Xsk::is_zero_copy`].
    pub fn is_zero_copy(&self) -> bool {
        self.xsk.is_zero_copy().unwrap_or(false)
    }

    /// See [`Xsk::polls`].
    pub fn polls(&self) -> bool {
        self.xsk.polls()
    }
}

impl Port for Bypass {
    const ADDS_CHECKSUM: bool = true;

    fn receive(&mut self, take: &mut dyn FnMut(&mut [u8])) -> io::Result<usize> {
        let taken = self.xsk.receive(BATCH, &mut |frame| {
            if let Some(packet) = frame.get_mut(ETHERNET_LEN..)
                && header_holds(packet)
            {
                take(packet);
            }
        });
        Ok(taken)
    }

    fn send(&mut self, packet: &[u8]) -> io::Result<bool> {
        let head = self.head;
        Ok(self.xsk.send(|frame| {
            let len = ETHERNET_LEN + packet.len();
            frame[..ETHERNET_LEN].copy_from_slice(&head);
            frame[ETHERNET_LEN..len].copy_from_slice(packet);
            len
        }))
    }

    fn flush(&mut self) -> io::Result<usize> {
        self.xsk.flush()
    }

    fn wait(&mut self, _: u64) -> io::Result<()> {
        self.xsk.poll()
    }

    fn give_way(&mut self, now_ns: u64, next_ns: u64) {
        let Some(napped_ns) = &mut self.napped_ns else { return };
        if *napped_ns == 0 {
            *napped_ns = now_ns;
        }
        if is_nap_due(now_ns - *napped_ns, next_ns.saturating_sub(now_ns)) {
            sleep_until(now_ns + NAP_NS);
            *napped_ns = weir_clock::now_ns();
            self.naps += 1;
        }
    }
}

/// Whether to give way now: this long after the last time, and this long before the next packet is due.
const fn is_nap_due(worked_ns: u64, left_ns: u64) -> bool {
    worked_ns >= NAP_LATEST_NS || (worked_ns >= NAP_SOON_NS && left_ns >= NAP_NS + NAP_MARGIN_NS)
}

/// What the system would check of an IPv4 header: version, length, checksum.
fn header_holds(packet: &[u8]) -> bool {
    packet.get(..IPV4_LEN).is_some_and(|head| {
        head[0] == 0x45
            && usize::from(u16::from_be_bytes([head[2], head[3]])) <= packet.len()
            && fold(ones_complement_sum(head).into()) == u16::MAX
    })
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::endpoints::calls::write_ipv4;

    #[test]
    fn a_nap_waits_for_a_time_when_nothing_is_due_but_not_for_ever() {
        assert!(!is_nap_due(NAP_SOON_NS - 1, u64::MAX));
        assert!(is_nap_due(NAP_SOON_NS, NAP_NS + NAP_MARGIN_NS));
        assert!(!is_nap_due(NAP_SOON_NS, NAP_NS + NAP_MARGIN_NS - 1));
        assert!(is_nap_due(NAP_LATEST_NS, 0));
    }

    #[test]
    fn naps_leave_others_more_than_the_fair_server_would_take() {
        // A switch to others and back takes some microseconds, which are nobody's.
        let left = (NAP_NS - 10_000) as f64 / (NAP_NS + NAP_LATEST_NS) as f64;
        assert!(left > 0.05, "{left}");
    }

    #[test]
    fn a_header_with_another_bit_does_not_hold() {
        let mut packet = [0; 28];
        write_ipv4(&mut packet, 28, 17, Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        assert!(header_holds(&packet));
        assert!(!header_holds(&packet[..19]));
        assert!(!header_holds(&packet[..27]));
        for bit in 0..IPV4_LEN * 8 {
            let mut other = packet;
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(!header_holds(&other), "bit {bit}");
        }
    }
}
