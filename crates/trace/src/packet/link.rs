//! Link layers, down to the IP header.

use super::{Opaque, Tags, u16_at, u32_at};
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
const LOOP: u16 = 108;
const SLL: u16 = 113;
const IPV4: u16 = 228;
const IPV6: u16 = 229;
const SLL2: u16 = 276;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_MPLS: u16 = 0x8847;
const ETHERTYPE_MPLS_UPSTREAM: u16 = 0x8848;
const ETHERTYPE_PPPOE: u16 = 0x8864;
const ETHERTYPE_MACSEC: u16 = 0x88e5;
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
                let bottom = (0..MAX_LABELS).find(|i| data.get(at + 4 * i + 2).is_some_and(|b| b & 1 != 0));
                let Some(labels) = bottom else { return Network::Malformed };
                at += 4 * (labels + 1);
                if !matches!(data.get(at).map(|b| b >> 4), Some(4 | 6)) {
                    return Network::Opaque(Opaque::Mpls);
                }
                ethertype = ETHERTYPE_IPV4;
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
