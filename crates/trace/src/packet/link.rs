//! Link layers, down to the IP header.

use super::{Opaque, Tags, u16_at, u32_at, wireless};
use crate::capture::LinkType;

/// LINKTYPE_... of <https://www.tcpdump.org/linktypes.html>.
const NULL: u16 = 0;
pub const ETHERNET: u16 = 1;
/// DLT_RAW as Linux and OpenBSD number it, seen in files of old programs.
const RAW_LINUX: u16 = 12;
const RAW_OPENBSD: u16 = 14;
const PPP: u16 = 9;
const PPP_HDLC: u16 = 50;
const RAW: u16 = 101;
const WIRELESS: u16 = 105;
const LOOP: u16 = 108;
const SLL: u16 = 113;
const RADIOTAP: u16 = 127;
/// The CACE Per-Packet Information Header, with a link type of its own.
const PPI: u16 = 192;
const PPP_WITH_DIRECTION: u16 = 204;
const IPV4: u16 = 228;
const IPV6: u16 = 229;
const NFLOG: u16 = 239;
const SLL2: u16 = 276;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
pub const ETHERTYPE_MPLS: u16 = 0x8847;
const ETHERTYPE_MPLS_UPSTREAM: u16 = 0x8848;
const ETHERTYPE_PPPOE: u16 = 0x8864;
const ETHERTYPE_MACSEC: u16 = 0x88e5;
/// Cisco MetaData: version, length, an option with the security group, the next EtherType.
const ETHERTYPE_CISCO_METADATA: u16 = 0x8909;
/// IEEE 802.1ah.
const ETHERTYPE_BACKBONE: u16 = 0x88e7;
/// A value up to this, in the place of an EtherType, is a length (IEEE 802.3 clause 3.2.6).
const LONGEST_FRAME: u16 = 1_500;

const PPP_IPV4: u16 = 0x0021;
const PPP_IPV6: u16 = 0x0057;
/// Headers compressed by RFC 1144, fragments (RFC 1990), and what is compressed or encrypted (RFC 1962, 1968).
const PPP_VJ_COMPRESSED: u16 = 0x002d;
const PPP_VJ_UNCOMPRESSED: u16 = 0x002f;
const PPP_MULTILINK: u16 = 0x003d;
const PPP_COMPRESSED: u16 = 0x00fd;

/// More labels than any network stacks.
const MAX_LABELS: usize = 16;

/// What follows the link layer.
#[derive(Debug, PartialEq, Eq)]
pub enum Network<'a> {
    /// An IP packet of either version.
    Ip {
        /// From its first byte.
        data: &'a [u8],
        /// VLAN tags passed on the way.
        tags: Tags,
    },
    NotIp,
    Opaque(Opaque),
    Malformed,
}

/// Skips the link layer; returns also the interface, if the link layer names it. `None` for an unknown
/// one.
pub fn network(link: LinkType, data: &[u8]) -> Option<(Network<'_>, u32)> {
    let tags = Tags::default();
    let ip = |skip: usize| match data.get(skip..) {
        Some(data) => Network::Ip { data, tags },
        None => Network::Malformed,
    };
    let behind = |at: usize, header_len| match u16_at(data, at) {
        Some(ethertype) => behind(data, ethertype, header_len, tags),
        None => Network::Malformed,
    };
    Some((
        match link.0 {
            ETHERNET => ethernet(data, tags),
            SLL => behind(14, 16),
            SLL2 => return Some((behind(0, 20), u32_at(data, 4).unwrap_or(0))),
            RAW | RAW_LINUX | RAW_OPENBSD | IPV4 | IPV6 => ip(0),
            // The address family has as many values as there are systems, and the byte order of the machine
            // that captured; the IP header tells its version itself.
            NULL | LOOP => ip(4),
            PPP | PPP_HDLC => ppp(data, tags),
            PPP_WITH_DIRECTION => data.get(1..).map_or(Network::Malformed, |data| ppp(data, tags)),
            WIRELESS => wireless::frame(data, false, tags),
            RADIOTAP => wireless::radiotap(data, tags),
            PPI => match (data.get(2..4), data.get(4..8)) {
                (Some(&[low, high]), Some(&[kind, more, 0, 0])) => {
                    let inner = LinkType(u16::from_le_bytes([kind, more]));
                    let rest = data.get(usize::from(u16::from_le_bytes([low, high]))..);
                    match rest.filter(|_| inner.0 != PPI) {
                        Some(rest) => return network(inner, rest),
                        None => Network::Malformed,
                    }
                }
                _ => Network::Malformed,
            },
            NFLOG => nflog(data, tags),
            _ => return None,
        },
        0,
    ))
}

/// A frame, after these tags.
pub fn ethernet(data: &[u8], tags: Tags) -> Network<'_> {
    u16_at(data, 12).map_or(Network::Malformed, |ethertype| behind(data, ethertype, 14, tags))
}

/// What follows an EtherType, after tags and labels.
pub fn behind(data: &[u8], mut ethertype: u16, mut at: usize, mut tags: Tags) -> Network<'_> {
    loop {
        match ethertype {
            ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => {
                return data.get(at..).map_or(Network::Malformed, |data| Network::Ip { data, tags });
            }
            // 802.1Q, 802.1ad, and their predecessors.
            0x8100 | 0x88a8 | 0x9100 | 0x9200 => {
                let (Some(control), Some(next)) = (u16_at(data, at), u16_at(data, at + 2)) else {
                    return Network::Malformed;
                };
                tags.push(control);
                (ethertype, at) = (next, at + 4);
            }
            ETHERTYPE_PPPOE => return data.get(at + 6..).map_or(Network::Malformed, |data| ppp(data, tags)),
            ETHERTYPE_MPLS | ETHERTYPE_MPLS_UPSTREAM => {
                let Some(labels) = labels_len(data.get(at..).unwrap_or_default()) else {
                    return Network::Malformed;
                };
                at += labels;
                if !matches!(data.get(at).map(|b| b >> 4), Some(4 | 6)) {
                    return Network::Opaque(Opaque::Mpls);
                }
                ethertype = ETHERTYPE_IPV4;
            }
            ETHERTYPE_CISCO_METADATA => {
                let Some(next) = u16_at(data, at + 6) else { return Network::Malformed };
                (ethertype, at) = (next, at + 8);
            }
            ETHERTYPE_MACSEC => return Network::Opaque(Opaque::Macsec),
            ETHERTYPE_BACKBONE => return Network::Opaque(Opaque::Backbone),
            // The length of a frame of IEEE 802.3, or Linux's number for one.
            0..=LONGEST_FRAME => match data.get(at..at + 8) {
                // LLC with a SNAP header (IEEE 802 clause 9, RFC 1042).
                Some([0xaa, 0xaa, 3, 0, 0, 0 | 0xf8, high, low]) => {
                    ethertype = u16::from_be_bytes([*high, *low]);
                    // A length within a length is invalid.
                    if ethertype <= LONGEST_FRAME {
                        return Network::NotIp;
                    }
                    at += 8;
                }
                _ => return Network::NotIp,
            },
            _ => return Network::NotIp,
        }
    }
}

/// Bytes of the MPLS labels at the front, down to the bottom of the stack (RFC 3032).
fn labels_len(data: &[u8]) -> Option<usize> {
    let bottom = (0..MAX_LABELS).find(|i| data.get(4 * i + 2).is_some_and(|byte| byte & 1 != 0))?;
    Some(4 * (bottom + 1))
}

/// Whether there are MPLS labels with IP behind them.
pub fn is_mpls(data: &[u8]) -> bool {
    labels_len(data).and_then(|at| data.get(at)).is_some_and(|byte| matches!(byte >> 4, 4 | 6))
}

/// Netfilter's log: attributes with lengths and types in the byte order of the machine that captured.
fn nflog(data: &[u8], tags: Tags) -> Network<'_> {
    const PAYLOAD: u16 = 9;
    let Some(&[family, 0, ..]) = data.first_chunk::<4>() else { return Network::Malformed };
    if !matches!(family, 2 | 10) {
        return Network::NotIp;
    }
    let mut rest = &data[4..];
    // The first attribute is short: in the other byte order it would be long.
    let is_big = matches!(rest, [0, ..]);
    while let Some(head) = rest.first_chunk::<4>() {
        let word = |at: usize| {
            let bytes = [head[at], head[at + 1]];
            if is_big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
        };
        let length = usize::from(word(0));
        if length < 4 {
            return Network::Malformed;
        }
        if word(2) == PAYLOAD {
            // The capture may have cut it.
            return Network::Ip { data: &rest[4..length.min(rest.len())], tags };
        }
        let Some(behind) = rest.get(length.next_multiple_of(4)..) else { return Network::Malformed };
        rest = behind;
    }
    Network::NotIp
}

/// RFC 1661 and 1662: address and control may be left out, and so may the first byte of the protocol if it is 0
/// (section 6.5 and 6.6).
pub fn ppp(data: &[u8], tags: Tags) -> Network<'_> {
    let data = data.strip_prefix(&[0xff, 3]).unwrap_or(data);
    let (protocol, data) = match data {
        [short, data @ ..] if short & 1 != 0 => (u16::from(*short), data),
        [high, low, data @ ..] => (u16::from_be_bytes([*high, *low]), data),
        _ => return Network::Malformed,
    };
    match protocol {
        PPP_IPV4 | PPP_IPV6 => Network::Ip { data, tags },
        PPP_VJ_COMPRESSED | PPP_VJ_UNCOMPRESSED | PPP_MULTILINK | PPP_COMPRESSED => {
            Network::Opaque(Opaque::Ppp)
        }
        _ => Network::NotIp,
    }
}
