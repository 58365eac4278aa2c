//! An end of the link: a socket that receives and one that sends.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use super::EmulatorError;
use super::pool::{Frame, Pool};
use super::progress::Overload;
use super::ring::{Packet, Ring};
use crate::clock::{now_ns, realtime_to_monotonic_ns};
use crate::engine::Endpoint;
use crate::packet::socket;
use crate::thread::{check, within};

/// Frames that are handed to the kernel at once. Each is late by the time that those before it take.
pub const BATCH: usize = 32;

const TAG_AT: usize = 12;
const ETHERNET_BYTES: usize = 14;
/// Two VLAN tags.
const TAGS_BYTES: usize = 8;
const COMPARE_NS: u64 = 1_000_000_000;
/// Beyond this, a stamp or the difference between both clocks is wrong.
const STRANGE_NS: u64 = 1_000_000;

/// An interface.
pub struct Port {
    pub name: String,
    receiver: OwnedFd,
    sender: OwnedFd,
    ring: Ring,
    ifindex: u32,
    clock: Clock,
}

// SAFETY: the ring's memory belongs to the port, which is used by one thread at a time.
unsafe impl Send for Port {}

/// CLOCK_MONOTONIC from the kernel's stamps, which are CLOCK_REALTIME.
struct Clock {
    ahead_ns: i64,
    compared_ns: u64,
}

/// What became of an attempt to send.
pub enum Sent {
    /// So many frames left.
    All(usize),
    /// The first one found no room; later it may.
    NoRoom,
    /// The first one is refused.
    Refused(io::Error),
}

impl Port {
    /// Opens an interface; frames that arrive are kept from here on.
    pub fn open(at: &Endpoint) -> Result<Self, EmulatorError> {
        let interface = || at.interface.clone();
        let refuse = |source| EmulatorError::Socket { interface: interface(), source };
        let path = at.netns.as_deref();
        let netns = || path.map_or_else(|| "of this process".to_owned(), |p| p.display().to_string());
        let missing = || EmulatorError::Missing { interface: interface(), netns: netns() };
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
                return Err(EmulatorError::NotEthernet { interface: interface() });
            }
            if !socket::is_up(&receiver, &name).map_err(refuse)? {
                return Err(EmulatorError::Down { interface: interface() });
            }
            let mtu = socket::mtu(&receiver, &name).map_err(refuse)?;
            let sender = socket::open(ifindex, false).map_err(refuse)?;
            // Straight to the driver. Where that is refused, the queueing discipline is in the way, no more.
            let _ = socket::set(&sender, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1);
            // What leaves by this interface is not to come back (Linux 4.20; before, it is left out below).
            let _ = socket::set(&receiver, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1);
            let ring = Ring::new(&receiver, mtu + ETHERNET_BYTES + TAGS_BYTES).map_err(refuse)?;
            socket::promiscuous(&receiver, ifindex).map_err(refuse)?;
            socket::bind(&receiver, ifindex, libc::ETH_P_ALL as u16).map_err(refuse)?;
            Ok(Self { name: interface(), receiver, sender, ring, ifindex, clock: Clock::new() })
        })
        .map_err(|source| EmulatorError::Netns { path: netns(), source })?
    }

    /// Takes up to `most` frames that arrived, with their times; whether there may be more.
    pub fn receive(
        &mut self,
        most: usize,
        pool: &Pool,
        overload: &mut Overload,
        mut take: impl FnMut(u64, Frame),
    ) -> bool {
        let mut now = now_ns();
        for _ in 0..most {
            let clock = &mut self.clock;
            let taken = self.ring.take(|packet| {
                if !packet.is_outgoing
                    && let Some(frame) = kept(&packet, pool, overload)
                {
                    take(clock.monotonic_ns(packet.time_ns, &mut now), frame);
                }
            });
            if taken.is_none() {
                return false;
            }
        }
        true
    }

    /// Sends frames, at most [`BATCH`] of them.
    pub fn send(&self, frames: &[Frame]) -> Sent {
        debug_assert!((1..=BATCH).contains(&frames.len()));
        // SAFETY: all zeros is a valid iovec, and a valid mmsghdr.
        let (mut vectors, mut messages): ([libc::iovec; BATCH], [libc::mmsghdr; BATCH]) =
            unsafe { std::mem::zeroed() };
        for ((message, vector), frame) in messages.iter_mut().zip(&mut vectors).zip(frames) {
            let bytes = frame.bytes();
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

    /// What becomes readable when a frame arrives.
    pub fn descriptor(&self) -> RawFd {
        self.receiver.as_raw_fd()
    }

    /// Whether the interface is still there: one that is down may come up again. What the socket complains of is
    /// taken away, or it would go on.
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

/// A frame out of the ring, with its tag back in place; None where it cannot be kept.
fn kept(packet: &Packet<'_>, pool: &Pool, overload: &mut Overload) -> Option<Frame> {
    if packet.len > packet.data.len() {
        overload.too_long += 1;
        return None;
    }
    overload.unfinished += u64::from(packet.is_unfinished);
    let tag = packet.tag.as_ref().map_or(&[][..], |tag| &tag[..]);
    let Some(mut frame) = pool.take(packet.len + tag.len()) else {
        overload.no_memory += 1;
        return None;
    };
    let (front, behind) = packet.data.split_at(TAG_AT.min(packet.data.len()));
    let bytes = frame.bytes_mut();
    bytes[..front.len()].copy_from_slice(front);
    bytes[front.len()..front.len() + tag.len()].copy_from_slice(tag);
    bytes[front.len() + tag.len()..].copy_from_slice(behind);
    Some(frame)
}

impl Clock {
    fn new() -> Self {
        Self { ahead_ns: realtime_to_monotonic_ns(), compared_ns: now_ns() }
    }

    /// Of a stamp, but never later than now: a frame does not arrive after it was read. `now` is read anew where
    /// that matters.
    fn monotonic_ns(&mut self, real_ns: u64, now: &mut u64) -> u64 {
        let found = real_ns.wrapping_add_signed(self.ahead_ns);
        if found > *now {
            *now = now_ns();
        }
        let is_strange = found > *now + STRANGE_NS || found + COMPARE_NS < *now;
        // Whoever compared a moment ago may have read the clock after `now`.
        if now.saturating_sub(self.compared_ns) < COMPARE_NS && !is_strange {
            return found.min(*now);
        }
        *self = Self::new();
        real_ns.wrapping_add_signed(self.ahead_ns).min(self.compared_ns)
    }
}
