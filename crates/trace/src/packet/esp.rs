//! The Encapsulating Security Payload (RFC 4303), over IP or in UDP (RFC 3948).

use std::net::IpAddr;

use super::{Datagram, Tags, u32_at};

/// Port of ESP in UDP.
const NATT_PORT: u16 = 4500;
const HEADER_LEN: usize = 8;

/// The header of an encrypted packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Esp {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Security association, as the receiver numbers it.
    pub spi: u32,
    /// Sequence number, the lower 32 bits where there are 64.
    pub seq: u32,
    /// Bytes from the SPI to the end, as sent.
    pub len: usize,
    /// VLAN tags.
    pub tags: Tags,
    /// As [`Datagram::point`].
    pub point: u32,
}

/// What UDP port 4500 carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Natt {
    /// An encrypted packet.
    Esp(Esp),
    /// Key exchange, behind the marker of four zero bytes.
    Ike,
    /// One byte that keeps a NAT binding alive.
    KeepAlive,
    /// Too short, or cut off, to be classified.
    Unclear,
}

impl Esp {
    /// From the header at the beginning of `data`, which was `len` bytes when sent; `None` if the capture cut
    /// it off.
    pub(super) fn of(
        data: &[u8],
        len: usize,
        [src, dst]: [IpAddr; 2],
        tags: Tags,
        point: u32,
    ) -> Option<Self> {
        let (spi, seq) = (u32_at(data, 0)?, u32_at(data, 4)?);
        (len >= HEADER_LEN).then_some(Self { src, dst, spi, seq, len, tags, point })
    }
}

impl Datagram<'_> {
    /// What a UDP datagram is in NAT traversal; `None` on ports other than 4500.
    #[must_use]
    pub fn natt(&self) -> Option<Natt> {
        if self.src_port != NATT_PORT && self.dst_port != NATT_PORT {
            return None;
        }
        Some(match (self.payload, self.payload_len) {
            ([0xff], 1) => Natt::KeepAlive,
            ([0, 0, 0, 0, ..], _) => Natt::Ike,
            (data, len) => Esp::of(data, len, [self.src, self.dst], self.tags, self.point)
                .map_or(Natt::Unclear, Natt::Esp),
        })
    }
}
