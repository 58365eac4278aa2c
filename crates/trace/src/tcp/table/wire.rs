//! What the ends of a packet look like, in a form that is cheap to compare and hash.

use std::hash::Hasher;
use std::net::IpAddr;

use super::super::fold::{FACTOR, fold};
use super::Interface;
use crate::packet::Datagram;

/// What distinguishes packets of one direction of a connection from others, compared in one go. The
/// addresses of IPv6 are mixed, so that packets of others may look the same.
#[derive(Clone, Copy, Debug)]
pub struct Wire {
    ends: u64,
    /// Ports, VLAN tags, and whether it is IPv6.
    rest: u64,
    interface: u64,
}

impl Wire {
    /// No packet's.
    pub const NONE: Self = Self { ends: 0, rest: u64::MAX, interface: 0 };
    const IPV6: u64 = 1 << 63;

    #[inline]
    pub fn of((of_file, of_link): Interface, datagram: &Datagram<'_>) -> Self {
        let (ends, version) = match (datagram.src, datagram.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                (u64::from(src.to_bits()) << 32 | u64::from(dst.to_bits()), 0)
            }
            (src, dst) => (fold(end(src, 0)).wrapping_add(end(dst, 0)), Self::IPV6),
        };
        // Written apart: side by side they would be read as one, which waits until both are written.
        let ports = u64::from(datagram.src_port) << 20 | u64::from(datagram.dst_port);
        let rest = ports | u64::from(datagram.tags.bits()) << 36 | version;
        Self { ends, rest, interface: u64::from(of_file) << 32 | u64::from(of_link) }
    }

    /// Whether no other packets look the same.
    #[inline]
    pub fn is_exact(&self) -> bool {
        self.rest & Self::IPV6 == 0
    }

    /// One of `places` to keep it at.
    #[inline]
    pub fn place(&self, places: usize) -> usize {
        ((self.ends ^ self.rest).wrapping_mul(FACTOR) >> 48) as usize % places
    }

    #[inline]
    pub fn is(&self, other: &Self) -> bool {
        (self.ends ^ other.ends) | (self.rest ^ other.rest) | (self.interface ^ other.interface) == 0
    }
}

/// Hash of a packet's ends, the same for both directions, which may have different VLANs.
pub fn hash(datagram: &Datagram<'_>) -> u64 {
    fold(end(datagram.src, datagram.src_port).wrapping_add(end(datagram.dst, datagram.dst_port)))
}

fn end(addr: IpAddr, port: u16) -> u64 {
    match addr {
        IpAddr::V4(addr) => fold(u64::from(addr.to_bits()) << 16 | u64::from(port)),
        IpAddr::V6(addr) => {
            let bits = addr.to_bits();
            fold(fold((bits >> 64) as u64 ^ u64::from(port)).wrapping_add(bits as u64))
        }
    }
}

/// Passes on a hash that was already computed.
#[derive(Default)]
pub struct Ready(u64);

impl Hasher for Ready {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}
