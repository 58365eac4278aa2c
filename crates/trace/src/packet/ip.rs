//! IPv4 and IPv6, and the ports behind them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Datagram, Decoded, Tags, u16_at};

const TCP: u8 = 6;
const UDP: u8 = 17;
const UDP_LEN: usize = 8;

/// Extension headers in a row; more is no traffic but an attack.
const MAX_EXTENSIONS: usize = 16;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION: u8 = 60;
const MOBILITY: u8 = 135;
const HIP: u8 = 139;
const SHIM6: u8 = 140;

/// Where the transport header is and how much of it was sent.
struct Inner<'a> {
    src: IpAddr,
    dst: IpAddr,
    protocol: u8,
    /// Captured, padding of the link layer cut off.
    data: &'a [u8],
    /// As sent.
    len: usize,
}

/// Takes an IP packet apart.
pub fn decode(data: &[u8], tags: Tags, point: u32) -> Decoded<'_> {
    let inner = match data.first().map(|b| b >> 4) {
        Some(4) => ipv4(data),
        Some(6) => ipv6(data),
        // A loopback header in front of something else than IP.
        Some(_) => return Decoded::NotIp,
        None => return Decoded::Malformed,
    };
    let inner = match inner {
        Ok(inner) => inner,
        Err(other) => return other,
    };
    let header_len = match inner.protocol {
        UDP => Some(UDP_LEN),
        TCP => inner.data.get(12).map(|b| usize::from(b >> 4) * 4).filter(|len| *len >= 20),
        _ => return Decoded::OtherIp,
    };
    let ports = u16_at(inner.data, 0).zip(u16_at(inner.data, 2));
    let (Some(header_len), Some((src_port, dst_port))) = (header_len, ports) else {
        return Decoded::Malformed;
    };
    let mut len = inner.len;
    if inner.protocol == UDP {
        match u16_at(inner.data, 4).map(usize::from) {
            // A length of 0 means "as long as IP says" (RFC 2675 section 4).
            Some(0) => {}
            Some(udp_len) if udp_len >= UDP_LEN => len = len.min(udp_len),
            _ => return Decoded::Malformed,
        }
    }
    if len < header_len {
        return Decoded::Malformed;
    }
    let end = len.min(inner.data.len());
    let datagram = Datagram {
        src: inner.src,
        dst: inner.dst,
        src_port,
        dst_port,
        tags,
        point,
        payload: inner.data.get(header_len..end).unwrap_or_default(),
        payload_len: len - header_len,
    };
    if inner.protocol == UDP { Decoded::Udp(datagram) } else { Decoded::Tcp(datagram) }
}

fn ipv4(data: &[u8]) -> Result<Inner<'_>, Decoded<'_>> {
    let Some(head) = data.first_chunk::<20>() else { return Err(Decoded::Malformed) };
    let header_len = usize::from(head[0] & 0x0f) * 4;
    let total = match usize::from(u16::from_be_bytes([head[2], head[3]])) {
        // Captured before the network card cut it into segments.
        0 => data.len(),
        total => total,
    };
    if header_len < 20 || total < header_len {
        return Err(Decoded::Malformed);
    }
    // More fragments to come, or not the first.
    if u16::from_be_bytes([head[6], head[7]]) & 0x3fff != 0 {
        return Err(Decoded::Fragment);
    }
    Ok(Inner {
        src: Ipv4Addr::new(head[12], head[13], head[14], head[15]).into(),
        dst: Ipv4Addr::new(head[16], head[17], head[18], head[19]).into(),
        protocol: head[9],
        data: data.get(header_len..total.min(data.len())).ok_or(Decoded::Malformed)?,
        len: total - header_len,
    })
}

fn ipv6(data: &[u8]) -> Result<Inner<'_>, Decoded<'_>> {
    let address = |at: usize| data.get(at..).and_then(<[u8]>::first_chunk::<16>).copied();
    let (Some(src), Some(dst), Some(payload)) = (address(8), address(24), u16_at(data, 4)) else {
        return Err(Decoded::Malformed);
    };
    let total = match usize::from(payload) {
        // A jumbogram, or captured before the network card cut it into segments.
        0 => data.len(),
        payload => 40 + payload,
    };
    let captured = &data[..total.min(data.len())];
    let (mut next, mut at) = (data[6], 40);
    for _ in 0..=MAX_EXTENSIONS {
        let length = match next {
            HOP_BY_HOP | ROUTING | DESTINATION | MOBILITY | HIP | SHIM6 => {
                captured.get(at + 1).map(|units| (usize::from(*units) + 1) * 8)
            }
            AUTHENTICATION => captured.get(at + 1).map(|units| (usize::from(*units) + 2) * 4),
            FRAGMENT => match u16_at(captured, at + 2) {
                // An atomic fragment (RFC 6946): a whole packet all the same.
                Some(offset) if offset & 0xfff9 == 0 => Some(8),
                Some(_) => return Err(Decoded::Fragment),
                None => None,
            },
            protocol => {
                if at > total {
                    return Err(Decoded::Malformed);
                }
                return Ok(Inner {
                    src: Ipv6Addr::from(src).into(),
                    dst: Ipv6Addr::from(dst).into(),
                    protocol,
                    data: captured.get(at..).ok_or(Decoded::Malformed)?,
                    len: total - at,
                });
            }
        };
        let Some((length, following)) = length.zip(captured.get(at).copied()) else {
            return Err(Decoded::Malformed);
        };
        next = following;
        at += length;
    }
    Err(Decoded::Malformed)
}
