//! From a captured packet to what it carries: link layer, tunnels, IP, then UDP, TCP or ESP, without copying.
//!
//! [`decode`] decodes one packet, [`Reassembly`] also reassembles fragments.

mod esp;
mod ip;
mod link;
mod opaque;
mod reassembly;
mod tags;
mod tunnel;
mod wireless;

use std::net::IpAddr;

pub use esp::{Esp, Natt};
pub use opaque::Opaque;
pub use reassembly::{FragmentCounts, Reassembly};
pub use tags::Tags;

use crate::capture::Packet;

/// A UDP datagram or the payload of a TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// VLAN tags.
    pub tags: Tags,
    /// The interface that saw it, if the link layer names it (SLL2); otherwise 0.
    pub point: u32,
    /// The two ECN bits of the IP header (RFC 3168).
    pub ecn: u8,
    /// Identification of the IPv4 header; 0 in IPv6.
    pub ip_id: u16,
    /// What was captured of the transport header, options included.
    pub header: &'a [u8],
    /// What was captured of the payload.
    pub payload: &'a [u8],
    /// Length of the payload as sent.
    pub payload_len: usize,
}

/// A packet, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// A datagram.
    Udp(Datagram<'a>),
    /// A segment.
    Tcp(Datagram<'a>),
    /// Encrypted (RFC 4303), not in UDP; see [`Datagram::natt`] for that.
    Esp(Esp),
    /// IP with something else inside.
    OtherIp,
    /// A fragment of a datagram that is not complete.
    Fragment,
    /// Not IP: ARP, spanning tree and the like.
    NotIp,
    /// A packet that may contain IP, but is not decoded.
    Opaque(Opaque),
    /// An unknown link layer.
    UnknownLink,
    /// Headers that are contradictory or that the capture cut off.
    Malformed,
}

/// What was passed on the way to an IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Way {
    tags: Tags,
    point: u32,
    /// Bytes at the end of the packet that were not captured.
    missing: usize,
    /// Tunnels.
    tunnels: u8,
}

/// Decodes a packet; a tunnel is represented by its contents.
#[inline]
#[must_use]
pub fn decode<'a>(packet: &Packet<'a>) -> Decoded<'a> {
    match plain(packet) {
        Some(segment) => Decoded::Tcp(segment),
        None => decode_any(packet),
    }
}

/// The segment in an ordinary packet, as nearly all are.
#[inline(always)]
fn plain<'a>(packet: &Packet<'a>) -> Option<Datagram<'a>> {
    match packet.data {
        [_, _, _, _, _, _, _, _, _, _, _, _, 0x08, 0x00, data @ ..] if packet.link.0 == link::ETHERNET => {
            ip::segment(data, Tags::default(), 0)
        }
        _ => None,
    }
}

#[inline(never)]
fn decode_any<'a>(packet: &Packet<'a>) -> Decoded<'a> {
    match dissect(packet) {
        ip::Found::Whole(decoded) => decoded,
        ip::Found::Piece(_) => Decoded::Fragment,
    }
}

/// The same for all cases, including the less usual ones.
fn dissect<'a>(packet: &Packet<'a>) -> ip::Found<'a> {
    let Some((network, point)) = link::network(packet.link, packet.data) else {
        return ip::Found::Whole(Decoded::UnknownLink);
    };
    ip::Found::Whole(match network {
        link::Network::Ip { data, tags } => {
            let missing = (packet.original_len as usize).saturating_sub(packet.data.len());
            return ip::dissect(data, &Way { tags, point, missing, tunnels: 0 });
        }
        link::Network::NotIp => Decoded::NotIp,
        link::Network::Opaque(what) => Decoded::Opaque(what),
        link::Network::Malformed => Decoded::Malformed,
    })
}

/// The 16 bits at `at`, in network byte order.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|raw| u16::from_be_bytes(*raw))
}

/// The 32 bits at `at`, in network byte order.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|raw| u32::from_be_bytes(*raw))
}

#[cfg(test)]
mod tests;
