//! IPv4 and IPv6, and what follows them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Datagram, Decoded, Esp, Tags, Way, tunnel, u16_at, u32_at};

const IPV4: u8 = 4;
const TCP: u8 = 6;
const UDP: u8 = 17;
const IPV6: u8 = 41;
const GRE: u8 = 47;
const ESP: u8 = 50;
const UDP_LEN: usize = 8;
const PSH: u8 = 8;

/// Bytes of IP in the shortest Ethernet frame, with and without a VLAN tag.
const SHORTEST: [usize; 2] = [42, 46];

/// Most extension headers in a row; more is not traffic but an attack.
const MAX_EXTENSIONS: usize = 16;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION: u8 = 60;
const MOBILITY: u8 = 135;
const HIP: u8 = 139;
const SHIM6: u8 = 140;

/// What an IP packet turns out to be.
#[derive(Debug)]
pub enum Found<'a> {
    /// Something complete, or undecodable.
    Whole(Decoded<'a>),
    /// A fragment.
    Piece(Piece<'a>),
}

/// A packet that contradicts itself.
pub const MALFORMED: Found<'static> = Found::Whole(Decoded::Malformed);

/// The header of an IP packet, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub src: IpAddr,
    pub dst: IpAddr,
    pub ecn: u8,
    /// 0 in IPv6.
    pub ip_id: u16,
}

/// What follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest<'a> {
    pub protocol: u8,
    /// Captured, padding of the link layer cut off.
    pub data: &'a [u8],
    /// As sent.
    pub len: usize,
}

/// A fragment: a part of what follows a header.
#[derive(Debug)]
pub struct Piece<'a> {
    pub head: Head,
    pub rest: Rest<'a>,
    pub way: Way,
    pub id: u32,
    /// In bytes.
    pub offset: usize,
    /// Whether more fragments follow.
    pub more: bool,
}

/// A TCP segment directly after a plain IPv4 header without options: most packets.
#[inline(always)]
pub fn segment(data: &[u8], tags: Tags, point: u32) -> Option<Datagram<'_>> {
    let head = data.first_chunk::<40>()?;
    // Neither a fragment nor the first of some.
    if head[0] != 0x45 || head[9] != TCP || u16::from_be_bytes([head[6], head[7]]) & 0x3fff != 0 {
        return None;
    }
    let total = usize::from(u16::from_be_bytes([head[2], head[3]]));
    let header_len = usize::from(head[32] >> 4) * 4;
    if header_len < 20 || total < 20 + header_len {
        return None;
    }
    let (_, captured) = data[..total.min(data.len())].split_at(20);
    let (header, mut payload) = captured.split_at(header_len.min(captured.len()));
    let mut payload_len = total - 20 - header_len;
    if SHORTEST.contains(&total) && is_padding(head[33], payload) {
        (payload, payload_len) = (&[], 0);
    }
    Some(Datagram {
        src: Ipv4Addr::new(head[12], head[13], head[14], head[15]).into(),
        dst: Ipv4Addr::new(head[16], head[17], head[18], head[19]).into(),
        src_port: u16::from_be_bytes([head[20], head[21]]),
        dst_port: u16::from_be_bytes([head[22], head[23]]),
        tags,
        point,
        ecn: head[1] & 3,
        ip_id: u16::from_be_bytes([head[4], head[5]]),
        header,
        payload,
        payload_len,
    })
}

/// Whether a segment's payload is the padding of its frame, which programs that rewrite captures count as IP's:
/// few bytes, all zero, that no application pushed.
fn is_padding(flags: u8, payload: &[u8]) -> bool {
    flags & PSH == 0 && payload.iter().all(|byte| *byte == 0)
}

/// Decodes an IP packet.
pub fn dissect<'a>(data: &'a [u8], way: &Way) -> Found<'a> {
    match data.first().map(|b| b >> 4) {
        Some(4) => match segment(data, way.tags, way.point) {
            Some(segment) => Found::Whole(Decoded::Tcp(segment)),
            None => ipv4(data, way).unwrap_or(MALFORMED),
        },
        Some(6) => ipv6(data, way).unwrap_or(MALFORMED),
        // A loopback header in front of something other than IP.
        Some(_) => Found::Whole(Decoded::NotIp),
        None => MALFORMED,
    }
}

fn ipv4<'a>(data: &'a [u8], way: &Way) -> Option<Found<'a>> {
    let raw = data.first_chunk::<20>()?;
    let header_len = usize::from(raw[0] & 0x0f) * 4;
    let total = match usize::from(u16::from_be_bytes([raw[2], raw[3]])) {
        // Captured before the network card cut it into segments.
        0 => data.len() + way.missing,
        total => total,
    };
    if header_len < 20 || total < header_len {
        return None;
    }
    let ip_id = u16::from_be_bytes([raw[4], raw[5]]);
    let head = Head {
        src: Ipv4Addr::new(raw[12], raw[13], raw[14], raw[15]).into(),
        dst: Ipv4Addr::new(raw[16], raw[17], raw[18], raw[19]).into(),
        ecn: raw[1] & 3,
        ip_id,
    };
    let captured = data.get(header_len..total.min(data.len()))?;
    let rest = Rest { protocol: raw[9], data: captured, len: total - header_len };
    let cut = u16::from_be_bytes([raw[6], raw[7]]) & 0x3fff;
    Some(if cut == 0 {
        payload(head, rest, way)
    } else {
        let (offset, more) = (usize::from(cut & 0x1fff) * 8, cut & 0x2000 != 0);
        Found::Piece(Piece { head, rest, way: *way, id: ip_id.into(), offset, more })
    })
}

fn ipv6<'a>(data: &'a [u8], way: &Way) -> Option<Found<'a>> {
    let raw = data.first_chunk::<40>()?;
    let address = |at: usize| raw[at..].first_chunk::<16>().map(|raw| Ipv6Addr::from(*raw).into());
    let total = match usize::from(u16::from_be_bytes([raw[4], raw[5]])) {
        // A jumbogram, or captured before the network card cut it into segments.
        0 => data.len() + way.missing,
        payload => 40 + payload,
    };
    let head = Head { src: address(8)?, dst: address(24)?, ecn: (raw[1] >> 4) & 3, ip_id: 0 };
    let rest = Rest { protocol: raw[6], data: &data[40..total.min(data.len())], len: total - 40 };
    Some(payload(head, rest, way))
}

/// What follows an IP header, or reassembled fragments.
pub fn payload<'a>(head: Head, mut rest: Rest<'a>, way: &Way) -> Found<'a> {
    let is_v6 = head.src.is_ipv6();
    for _ in 0..=MAX_EXTENSIONS {
        let units = rest.data.get(1).copied().map(usize::from);
        let length = match rest.protocol {
            TCP | UDP => {
                let found = transport(head, rest, way).unwrap_or(Decoded::Malformed);
                let inside = match &found {
                    Decoded::Udp(datagram) => tunnel::in_udp(datagram, way),
                    _ => None,
                };
                return inside.unwrap_or(Found::Whole(found));
            }
            ESP => {
                let esp = Esp::of(rest.data, rest.len, [head.src, head.dst], way.tags, way.point);
                return Found::Whole(esp.map_or(Decoded::Malformed, Decoded::Esp));
            }
            IPV4 | IPV6 => return tunnel::ip_in_ip(rest, way),
            GRE => return tunnel::gre(rest, way),
            AUTHENTICATION => units.map(|units| (units + 2) * 4),
            HOP_BY_HOP | ROUTING | DESTINATION | MOBILITY | HIP | SHIM6 if is_v6 => {
                units.map(|units| (units + 1) * 8)
            }
            FRAGMENT if is_v6 => match (u16_at(rest.data, 2), u32_at(rest.data, 4)) {
                // An atomic fragment (RFC 6946): a whole packet nevertheless.
                (Some(cut), Some(_)) if cut & 0xfff9 == 0 => Some(8),
                (Some(cut), Some(id)) => {
                    let Some(rest) = behind(rest, 8) else { return MALFORMED };
                    let (offset, more) = (usize::from(cut & 0xfff8), cut & 1 != 0);
                    return Found::Piece(Piece { head, rest, way: *way, id, offset, more });
                }
                _ => None,
            },
            _ => return Found::Whole(Decoded::OtherIp),
        };
        let Some(next) = length.and_then(|length| behind(rest, length)) else { return MALFORMED };
        rest = next;
    }
    MALFORMED
}

/// What follows a header of this length, whose first byte names the next one.
fn behind(rest: Rest<'_>, length: usize) -> Option<Rest<'_>> {
    let len = rest.len.checked_sub(length)?;
    Some(Rest { protocol: *rest.data.first()?, data: rest.data.get(length..)?, len })
}

fn transport<'a>(head: Head, rest: Rest<'a>, way: &Way) -> Option<Decoded<'a>> {
    let is_udp = rest.protocol == UDP;
    let (src_port, dst_port) = (u16_at(rest.data, 0)?, u16_at(rest.data, 2)?);
    let (mut len, header_len) = if is_udp {
        let len = match usize::from(u16_at(rest.data, 4)?) {
            // "As long as IP says" (RFC 2675 section 4).
            0 => rest.len,
            len => rest.len.min(len),
        };
        (len, UDP_LEN)
    } else {
        (rest.len, usize::from(*rest.data.get(12)? >> 4) * 4)
    };
    if len < header_len || (!is_udp && header_len < 20) {
        return None;
    }
    let captured = &rest.data[..len.min(rest.data.len())];
    let (header, payload) = captured.split_at(header_len.min(captured.len()));
    len -= header_len;
    let datagram = Datagram {
        src: head.src,
        dst: head.dst,
        src_port,
        dst_port,
        tags: way.tags,
        point: way.point,
        ecn: head.ecn,
        ip_id: head.ip_id,
        header,
        payload,
        payload_len: len,
    };
    Some(if is_udp { Decoded::Udp(datagram) } else { Decoded::Tcp(datagram) })
}
