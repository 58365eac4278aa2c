//! Header templates: Ethernet, IP and UDP or TCP of one flow, with what varies per packet left out.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use thiserror::Error;

use crate::{ETHERNET_LEN, IPV4_LEN, IPV6_LEN, TCP_LEN, UDP_LEN, ones_complement_sum};

/// A MAC address.
pub type MacAddr = [u8; 6];

/// Transport of the test traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum L4 {
    /// UDP.
    Udp,
    /// TCP segments (ACK, PSH) that belong to no connection.
    Tcp,
}

impl L4 {
    /// IANA protocol number.
    #[must_use]
    pub const fn protocol(self) -> u8 {
        match self {
            Self::Udp => 17,
            Self::Tcp => 6,
        }
    }

    /// Header length without options.
    #[expect(clippy::len_without_is_empty, reason = "a header is never empty")]
    #[must_use]
    pub const fn len(self) -> usize {
        match self {
            Self::Udp => UDP_LEN,
            Self::Tcp => TCP_LEN,
        }
    }
}

/// Source and destination of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// Source address; of the same family as `dst_ip`.
    pub src_ip: IpAddr,
    /// Destination address.
    pub dst_ip: IpAddr,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
}

/// Why a header cannot be built.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum HeaderError {
    /// Source and destination are of different families.
    #[error("source {src} and destination {dst} are of different IP versions")]
    MixedFamilies {
        /// Source.
        src: IpAddr,
        /// Destination.
        dst: IpAddr,
    },
}

/// The headers of one flow: lengths and checksums are zero, their sums computed in advance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    bytes: [u8; Self::MAX],
    len: usize,
    ip: u8,
    l4: L4,
    ip_sum: u32,
    l4_sum: u32,
}

impl Header {
    /// Longest header: Ethernet, IPv6 and TCP are 74 bytes; 80 is the next multiple of 16.
    pub const MAX: usize = 80;

    /// Builds the template with TTL (hop limit) 64 and "don't fragment".
    ///
    /// # Errors
    /// [`HeaderError::MixedFamilies`] when source and destination differ in IP version.
    pub fn new(src_mac: MacAddr, dst_mac: MacAddr, to: &Addresses, l4: L4) -> Result<Self, HeaderError> {
        let mut bytes = [0; Self::MAX];
        bytes[0..6].copy_from_slice(&dst_mac);
        bytes[6..12].copy_from_slice(&src_mac);
        let (ip, ip_len) = match (to.src_ip, to.dst_ip) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => (4, ipv4(&mut bytes, src, dst, l4)),
            (IpAddr::V6(src), IpAddr::V6(dst)) => (6, ipv6(&mut bytes, src, dst, l4)),
            (src, dst) => return Err(HeaderError::MixedFamilies { src, dst }),
        };
        let l4_at = ETHERNET_LEN + ip_len;
        let len = l4_at + l4.len();
        bytes[l4_at..l4_at + 2].copy_from_slice(&to.src_port.to_be_bytes());
        bytes[l4_at + 2..l4_at + 4].copy_from_slice(&to.dst_port.to_be_bytes());
        if l4 == L4::Tcp {
            bytes[l4_at + 7] = 1; // sequence number
            bytes[l4_at + 11] = 1; // acknowledgement number
            bytes[l4_at + 12] = 5 << 4; // data offset
            bytes[l4_at + 13] = 0x18; // ACK, PSH
            bytes[l4_at + 14] = 0xff; // window
            bytes[l4_at + 15] = 0xff;
        }
        let addresses = if ip == 4 { 26..34 } else { 22..54 };
        let pseudo = ones_complement_sum(&bytes[addresses]) + ones_complement_sum(&[0, l4.protocol()]);
        let l4_sum = pseudo + ones_complement_sum(&bytes[l4_at..len]);
        let ip_sum = if ip == 4 { ones_complement_sum(&bytes[ETHERNET_LEN..l4_at]) } else { 0 };
        Ok(Self { bytes, len, ip, l4, ip_sum, l4_sum })
    }

    /// The template, followed by zeros after [`Header::len`].
    #[must_use]
    pub const fn bytes(&self) -> &[u8; Self::MAX] {
        &self.bytes
    }

    /// Length from the destination MAC to the end of the UDP or TCP header.
    #[expect(clippy::len_without_is_empty, reason = "a header is never empty")]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Where the UDP or TCP header begins.
    #[must_use]
    pub const fn l4_at(&self) -> usize {
        self.len - self.l4.len()
    }

    /// 4 or 6.
    #[must_use]
    pub const fn ip(&self) -> u8 {
        self.ip
    }

    /// The transport.
    #[must_use]
    pub const fn l4(&self) -> L4 {
        self.l4
    }

    /// Sum of the IPv4 header with its length left out; 0 for IPv6.
    #[must_use]
    pub const fn ip_sum(&self) -> u32 {
        self.ip_sum
    }

    /// Sum of pseudo header and transport header with all lengths left out.
    #[must_use]
    pub const fn l4_sum(&self) -> u32 {
        self.l4_sum
    }
}

fn ipv4(bytes: &mut [u8], src: Ipv4Addr, dst: Ipv4Addr, l4: L4) -> usize {
    bytes[12..14].copy_from_slice(&[0x08, 0x00]);
    bytes[14] = 0x45;
    bytes[20] = 0x40; // don't fragment
    bytes[22] = 64;
    bytes[23] = l4.protocol();
    bytes[26..30].copy_from_slice(&src.octets());
    bytes[30..34].copy_from_slice(&dst.octets());
    IPV4_LEN
}

fn ipv6(bytes: &mut [u8], src: Ipv6Addr, dst: Ipv6Addr, l4: L4) -> usize {
    bytes[12..14].copy_from_slice(&[0x86, 0xdd]);
    bytes[14] = 0x60;
    bytes[20] = l4.protocol();
    bytes[21] = 64;
    bytes[22..38].copy_from_slice(&src.octets());
    bytes[38..54].copy_from_slice(&dst.octets());
    IPV6_LEN
}
