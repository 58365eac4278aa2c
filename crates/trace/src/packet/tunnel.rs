//! Packets or frames inside packets: IP in IP, GRE and ERSPAN, VXLAN, Geneve, GTP-U, GUE, MPLS in UDP.
//!
//! A header that says what follows it is believed only as far as its format allows: what is reserved must be
//! zero if UDP ports are all that identifies a tunnel.

use super::ip::{self, Found, MALFORMED, Rest};
use super::link::{self, Network};
use super::{Datagram, Decoded, Opaque, Way, u16_at};

/// Most tunnels in tunnels; more is a loop.
const MAX_TUNNELS: u8 = 4;
/// Most extension headers of GTP-U in a row.
const MAX_EXTENSIONS: usize = 16;

const TRANSPARENT_ETHERNET: u16 = 0x6558;
const PPP: u16 = 0x880b;
const ERSPAN_II: u16 = 0x88be;
const ERSPAN_III: u16 = 0x22eb;

const L2TP_PORT: u16 = 1_701;
const GTP_U_PORT: u16 = 2_152;
const VXLAN_PORT: u16 = 4_789;
/// With a field that names what follows (draft-ietf-nvo3-vxlan-gpe).
const VXLAN_GPE_PORT: u16 = 4_790;
const GUE_PORT: u16 = 6_080;
const GENEVE_PORT: u16 = 6_081;
const MPLS_PORT: u16 = 6_635;
/// VXLAN's before it had one of its own, and still the one of Linux where none is named.
const VXLAN_LINUX_PORT: u16 = 8_472;

/// What follows the header of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inside {
    /// IP of either version.
    Ip,
    /// A frame.
    Ethernet,
    /// The protocol of this EtherType.
    Ethertype(u16),
    /// PPP, its framing perhaps left out.
    Ppp,
    /// Nothing to decode.
    Opaque(Opaque),
}

/// An IP packet in an IP packet.
pub fn ip_in_ip<'a>(rest: Rest<'a>, way: &Way) -> Found<'a> {
    enter(rest, 0, Inside::Ip, way)
}

/// RFC 2784 and 2890; version 1 is that of RFC 2637. Source routes (RFC 1701) are not decoded.
pub fn gre<'a>(rest: Rest<'a>, way: &Way) -> Found<'a> {
    let (Some(flags), Some(kind)) = (u16_at(rest.data, 0), u16_at(rest.data, 2)) else { return MALFORMED };
    let is_numbered = flags & 0x1000 != 0;
    let (header_len, inside) = match (flags & 0x4007, kind) {
        // Key (payload length and call), sequence number, acknowledgement; without a number there is no payload.
        (1, PPP) if is_numbered => (12 + usize::from(flags & 0x0080 != 0) * 4, Inside::Ppp),
        (1, PPP) => return Found::Whole(Decoded::OtherIp),
        (0, _) => {
            // Checksum, key, sequence number: each four bytes.
            let header_len = 4 + 4 * (flags & 0xb000).count_ones() as usize;
            match kind {
                TRANSPARENT_ETHERNET => (header_len, Inside::Ethernet),
                // Type I has no header of its own, and no number.
                ERSPAN_II => (header_len + usize::from(is_numbered) * 8, Inside::Ethernet),
                ERSPAN_III => match u16_at(rest.data, header_len + 10) {
                    Some(last) => (header_len + 12 + usize::from(last & 1) * 8, erspan_frame(last)),
                    None => return MALFORMED,
                },
                ethertype => (header_len, Inside::Ethertype(ethertype)),
            }
        }
        _ => (0, Inside::Opaque(Opaque::Tunnel)),
    };
    enter(rest, header_len, inside, way)
}

/// The frame type in the last 16 bits of the header of ERSPAN type III (draft-foschiano-erspan section 4.3).
const fn erspan_frame(bits: u16) -> Inside {
    match bits >> 10 & 0x1f {
        0 => Inside::Ethernet,
        2 => Inside::Ip,
        _ => Inside::Opaque(Opaque::Tunnel),
    }
}

/// What is in a UDP datagram, if that is a tunnel.
pub fn in_udp<'a>(datagram: &Datagram<'a>, way: &Way) -> Option<Found<'a>> {
    let payload = datagram.payload;
    let (header_len, inside) = match datagram.dst_port {
        VXLAN_PORT | VXLAN_GPE_PORT | VXLAN_LINUX_PORT => vxlan(payload)?,
        GENEVE_PORT => geneve(payload)?,
        GTP_U_PORT => gtp_u(payload)?,
        L2TP_PORT => l2tp(payload)?,
        GUE_PORT => gue(payload)?,
        MPLS_PORT => link::is_mpls(payload).then_some((0, Inside::Ethertype(link::ETHERTYPE_MPLS)))?,
        _ => return None,
    };
    let rest = Rest { protocol: 0, data: payload, len: datagram.payload_len };
    Some(enter(rest, header_len, inside, way))
}

/// RFC 7348 section 5, with a group in the second half of the first word (draft-smith-vxlan-group-policy), or
/// with a next protocol.
fn vxlan(payload: &[u8]) -> Option<(usize, Inside)> {
    let head = payload.first_chunk::<8>()?;
    let inside = match (head[0], head[3]) {
        (0x08 | 0x88, _) if head[1] & !0x48 == 0 => Inside::Ethernet,
        (0x0c, 1 | 2) => Inside::Ip,
        (0x0c, 3) => Inside::Ethernet,
        _ => return None,
    };
    (head[7] == 0).then_some((8, inside))
}

/// RFC 8926 section 3.4.
fn geneve(payload: &[u8]) -> Option<(usize, Inside)> {
    let head = payload.first_chunk::<8>()?;
    if head[0] >> 6 != 0 || head[1] & 0x3f != 0 || head[7] != 0 {
        return None;
    }
    let inside = match u16::from_be_bytes([head[2], head[3]]) {
        TRANSPARENT_ETHERNET => Inside::Ethernet,
        ethertype => Inside::Ethertype(ethertype),
    };
    Some((8 + usize::from(head[0] & 0x3f) * 4, inside))
}

/// draft-ietf-intarea-gue, sections 3 and 4: IP behind a header of version 0, or at once in version 1.
fn gue(payload: &[u8]) -> Option<(usize, Inside)> {
    let &[first, protocol, ..] = payload.first_chunk::<4>()?;
    let at = 4 + usize::from(first & 0x1f) * 4;
    match (first >> 6, first & 0x20, protocol) {
        (1, _, _) if matches!(first >> 4, 4 | 6) => Some((0, Inside::Ip)),
        (0, 0, 4 | 41) if payload.get(at).is_some_and(|byte| matches!(byte >> 4, 4 | 6)) => {
            Some((at, Inside::Ip))
        }
        _ => None,
    }
}

/// 3GPP TS 29.281 section 5: packets of users (G-PDU) and no signalling.
fn gtp_u(payload: &[u8]) -> Option<(usize, Inside)> {
    let head = payload.first_chunk::<8>()?;
    if head[0] & 0xf8 != 0x30 || head[1] != 255 {
        return None;
    }
    // Sequence number, N-PDU number and next extension are all there if one of them is.
    let mut at = if head[0] & 7 == 0 { 8 } else { 12 };
    let mut next = if head[0] & 4 == 0 { 0 } else { *payload.get(11)? };
    for _ in 0..MAX_EXTENSIONS {
        if next == 0 {
            break;
        }
        let units = usize::from(*payload.get(at)?);
        at += units.max(1) * 4;
        next = *payload.get(at - 1)?;
    }
    let is_ip = next == 0 && matches!(payload.get(at).map(|byte| byte >> 4), Some(4 | 6));
    Some((at, if is_ip { Inside::Ip } else { Inside::Opaque(Opaque::Tunnel) }))
}

/// Data of version 2 (RFC 2661 section 3.1); control messages are datagrams like others.
fn l2tp(payload: &[u8]) -> Option<(usize, Inside)> {
    let flags = u16_at(payload, 0)?;
    // Type and what is reserved are 0.
    if flags & 0xb4ff != 0x0002 {
        return None;
    }
    let length = usize::from(flags & 0x4000 != 0) * 2;
    let numbers = usize::from(flags & 0x0800 != 0) * 4;
    let at = 6 + length + numbers;
    let offset = if flags & 0x0200 == 0 { 0 } else { 2 + usize::from(u16_at(payload, at)?) };
    Some((at + offset, Inside::Ppp))
}

/// Continues after `skip` bytes.
fn enter<'a>(rest: Rest<'a>, skip: usize, inside: Inside, way: &Way) -> Found<'a> {
    if way.tunnels == MAX_TUNNELS {
        return Found::Whole(Decoded::Opaque(Opaque::Deep));
    }
    let Some(data) = rest.data.get(skip..) else { return MALFORMED };
    let missing = rest.len.saturating_sub(rest.data.len());
    let way = Way { missing, tunnels: way.tunnels + 1, ..*way };
    let network = match inside {
        Inside::Ip => return ip::dissect(data, &way),
        Inside::Opaque(what) => Network::Opaque(what),
        Inside::Ethernet => link::ethernet(data, way.tags),
        Inside::Ethertype(ethertype) => link::behind(data, ethertype, 0, way.tags),
        Inside::Ppp => link::ppp(data, way.tags),
    };
    match network {
        Network::Ip { data, tags } => ip::dissect(data, &Way { tags, ..way }),
        // An unknown EtherType.
        Network::NotIp if matches!(inside, Inside::Ethertype(_)) => {
            Found::Whole(Decoded::Opaque(Opaque::Tunnel))
        }
        Network::NotIp => Found::Whole(Decoded::NotIp),
        Network::Opaque(what) => Found::Whole(Decoded::Opaque(what)),
        Network::Malformed => MALFORMED,
    }
}
