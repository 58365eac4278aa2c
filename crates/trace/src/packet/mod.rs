//! From a captured packet to what it carries: link layer, IP, UDP and TCP, without copying.

mod ip;
mod link;
mod tags;

use std::net::IpAddr;

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
    /// Which interface saw it, where the link layer tells (SLL2); 0 elsewhere.
    pub point: u32,
    /// What was captured of the payload.
    pub payload: &'a [u8],
    /// Length of the payload as sent.
    pub payload_len: usize,
}

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// A datagram.
    Udp(Datagram<'a>),
    /// A segment.
    Tcp(Datagram<'a>),
    /// IP with something else inside.
    OtherIp,
    /// A fragment of a datagram; not put together.
    Fragment,
    /// No IP: ARP, spanning tree and the like.
    NotIp,
    /// A link layer that is not known here.
    UnknownLink,
    /// Headers that contradict themselves or that the capture cut off.
    Malformed,
}

/// Takes a packet apart.
#[must_use]
pub fn decode<'a>(packet: &Packet<'a>) -> Decoded<'a> {
    match link::network(packet.link, packet.data) {
        link::Network::Ip { data, tags, point } => ip::decode(data, tags, point),
        link::Network::NotIp => Decoded::NotIp,
        link::Network::Unknown => Decoded::UnknownLink,
        link::Network::Malformed => Decoded::Malformed,
    }
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
