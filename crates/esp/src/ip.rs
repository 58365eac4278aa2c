//! IP headers: where they end, and what has to change in them.

use std::net::IpAddr;

use weir_wire::{IPV4_LEN, IPV6_LEN, UDP_LEN, fold, ones_complement_sum};

/// IP protocol numbers.
pub const IPV4: u8 = 4;
pub const UDP: u8 = 17;
pub const IPV6: u8 = 41;
pub const ESP: u8 = 50;
pub const NO_NEXT_HEADER: u8 = 59;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION_OPTIONS: u8 = 60;

/// Time to live of packets that a tunnel makes.
const TTL: u8 = 64;

/// The lower two bits of the former type of service (RFC 3168).
const ECN: u8 = 0b11;
const CONGESTION: u8 = 0b11;

/// Why bytes are not an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPacket {
    NotIp,
    Truncated,
}

/// The IP headers that stay in front of ESP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// 4 or 6.
    pub version: u8,
    /// Length of the headers together.
    pub len: usize,
    /// The protocol that follows them.
    pub protocol: u8,
    /// Where the last of them names it.
    pub protocol_at: usize,
    /// Headers and all that follows.
    pub total_len: usize,
    /// DSCP and ECN.
    pub traffic_class: u8,
    pub is_fragment: bool,
    pub dont_fragment: bool,
}

/// Which extension headers of IPv6 stay in front of ESP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Where ESP is to be put: destination options stay in front only if routing follows (RFC 4303, 3.1.1).
    Insertion,
    /// Where the sender put it.
    Esp,
}

/// Reads the headers of a packet, which may be followed by other bytes.
pub fn parse(packet: &[u8], until: Until) -> Result<Head, NoPacket> {
    match packet.first().map(|first| first >> 4) {
        Some(4) => parse_v4(packet),
        Some(6) => parse_v6(packet, until),
        Some(_) => Err(NoPacket::NotIp),
        None => Err(NoPacket::Truncated),
    }
}

fn parse_v4(packet: &[u8]) -> Result<Head, NoPacket> {
    let header = packet.get(..IPV4_LEN).ok_or(NoPacket::Truncated)?;
    let len = usize::from(header[0] & 0x0f) * 4;
    let total_len = usize::from(be16(header, 2));
    if len < IPV4_LEN {
        return Err(NoPacket::NotIp);
    }
    if total_len < len || total_len > packet.len() {
        return Err(NoPacket::Truncated);
    }
    Ok(Head {
        version: 4,
        len,
        protocol: header[9],
        protocol_at: 9,
        total_len,
        traffic_class: header[1],
        is_fragment: be16(header, 6) & 0x3fff != 0,
        dont_fragment: header[6] & 0x40 != 0,
    })
}

fn parse_v6(packet: &[u8], until: Until) -> Result<Head, NoPacket> {
    let header = packet.get(..IPV6_LEN).ok_or(NoPacket::Truncated)?;
    let total_len = IPV6_LEN + usize::from(be16(header, 4));
    let packet = packet.get(..total_len).ok_or(NoPacket::Truncated)?;
    let mut head = Head {
        version: 6,
        len: IPV6_LEN,
        protocol: header[6],
        protocol_at: 6,
        total_len,
        traffic_class: header[0] << 4 | header[1] >> 4,
        is_fragment: false,
        dont_fragment: true,
    };
    loop {
        let extension = packet.get(head.len..).unwrap_or_default();
        let stays = match head.protocol {
            HOP_BY_HOP | ROUTING => true,
            DESTINATION_OPTIONS => until == Until::Esp || extension.first() == Some(&ROUTING),
            FRAGMENT => {
                head.is_fragment = true;
                false
            }
            _ => false,
        };
        if !stays {
            return Ok(head);
        }
        let &[next, eights, ..] = extension else { return Err(NoPacket::Truncated) };
        let len = (usize::from(eights) + 1) * 8;
        if extension.len() < len {
            return Err(NoPacket::Truncated);
        }
        head.protocol_at = head.len;
        head.protocol = next;
        head.len += len;
    }
}

/// Writes into existing headers which protocol follows and how long the packet is now; `packet` begins
/// with them.
pub fn rewrite(packet: &mut [u8], head: &Head, protocol: u8, total_len: usize) {
    packet[head.protocol_at] = protocol;
    if head.version == 4 {
        packet[2..4].copy_from_slice(&length(total_len));
        checksum_v4(&mut packet[..head.len]);
    } else {
        packet[4..6].copy_from_slice(&length(total_len - IPV6_LEN));
    }
}

/// The header in front of a tunnelled packet (RFC 4301, 5.1.2).
pub struct Outer {
    pub source: IpAddr,
    pub destination: IpAddr,
    pub protocol: u8,
    pub traffic_class: u8,
    pub dont_fragment: bool,
    /// Of packets that may be fragmented (RFC 6864).
    pub id: u16,
    pub total_len: usize,
}

impl Outer {
    /// Length of its header.
    pub const fn len(source: IpAddr) -> usize {
        match source {
            IpAddr::V4(_) => IPV4_LEN,
            IpAddr::V6(_) => IPV6_LEN,
        }
    }

    /// Writes the header at the beginning of `packet`. Both ends are of one IP version.
    pub fn emit(&self, packet: &mut [u8]) {
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let id = if self.dont_fragment { 0 } else { self.id };
                let header = &mut packet[..IPV4_LEN];
                header[0] = 0x45;
                header[1] = self.traffic_class;
                header[2..4].copy_from_slice(&length(self.total_len));
                header[4..6].copy_from_slice(&id.to_be_bytes());
                header[6] = if self.dont_fragment { 0x40 } else { 0 };
                header[7] = 0;
                header[8] = TTL;
                header[9] = self.protocol;
                header[12..16].copy_from_slice(&source.octets());
                header[16..20].copy_from_slice(&destination.octets());
                checksum_v4(header);
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let header = &mut packet[..IPV6_LEN];
                header[0] = 0x60 | self.traffic_class >> 4;
                header[1] = self.traffic_class << 4;
                header[2..4].fill(0);
                header[4..6].copy_from_slice(&length(self.total_len - IPV6_LEN));
                header[6] = self.protocol;
                header[7] = TTL;
                header[8..24].copy_from_slice(&source.octets());
                header[24..40].copy_from_slice(&destination.octets());
            }
            _ => unreachable!("an association has ends of one IP version"),
        }
    }
}

/// Writes a UDP header with a checksum of zero (RFC 3948, 2.1); `udp` begins with it and ends with the packet.
pub fn emit_udp(udp: &mut [u8], source: u16, destination: u16) {
    let len = length(udp.len());
    udp[..2].copy_from_slice(&source.to_be_bytes());
    udp[2..4].copy_from_slice(&destination.to_be_bytes());
    udp[4..6].copy_from_slice(&len);
    udp[6..8].fill(0);
}

/// Writes the checksum that UDP needs in IPv6 (RFC 8200, 8.1). `packet` is otherwise complete.
///
/// The pseudo header has the final destination, which differs from the header's if routing follows.
pub fn checksum_udp6(packet: &mut [u8], udp_at: usize) {
    let len = length(packet.len() - udp_at);
    let sum = u64::from(ones_complement_sum(&packet[8..IPV6_LEN]))
        + u64::from(ones_complement_sum(&[0, UDP]))
        + u64::from(ones_complement_sum(&len))
        + u64::from(ones_complement_sum(&packet[udp_at..]));
    // RFC 768: a sum of zero is sent as all ones.
    let check = match !fold(sum) {
        0 => 0xffff,
        check => check,
    };
    packet[udp_at + 6..udp_at + UDP_LEN].copy_from_slice(&check.to_ne_bytes());
}

/// Copies the congestion state of the outer header (RFC 6040, 4.2); false if the packet must be
/// dropped. `packet` begins with the inner header.
#[must_use]
pub fn merge_congestion(packet: &mut [u8], inner: &Head, outer: u8) -> bool {
    let ecn = match (inner.traffic_class & ECN, outer & ECN) {
        (0, CONGESTION) => return false,
        // ECT(0) becomes what the outer header has, if that is ECT(1) or CE; ECT(1) becomes only CE.
        (0b10, changed @ (0b01 | CONGESTION)) => changed,
        (0b01, CONGESTION) => CONGESTION,
        _ => return true,
    };
    if inner.version == 4 {
        packet[1] = packet[1] & !ECN | ecn;
        checksum_v4(&mut packet[..inner.len]);
    } else {
        packet[1] = packet[1] & !(ECN << 4) | ecn << 4;
    }
    true
}

fn checksum_v4(header: &mut [u8]) {
    header[10..12].fill(0);
    let sum = !fold(ones_complement_sum(header).into());
    header[10..12].copy_from_slice(&sum.to_ne_bytes());
}

/// A length of at most 65,535, as the caller made sure.
const fn length(bytes: usize) -> [u8; 2] {
    (bytes as u16).to_be_bytes()
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}
