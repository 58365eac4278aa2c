//! Link layers, down to the IP header.

use super::{Tags, u16_at, u32_at};
use crate::capture::LinkType;

/// LINKTYPE_... of <https://www.tcpdump.org/linktypes.html>.
const NULL: u16 = 0;
pub const ETHERNET: u16 = 1;
/// DLT_RAW as Linux and OpenBSD number it, seen in files of old programs.
const RAW_LINUX: u16 = 12;
const RAW_OPENBSD: u16 = 14;
const PPP: u16 = 9;
const RAW: u16 = 101;
const LOOP: u16 = 108;
const SLL: u16 = 113;
const IPV4: u16 = 228;
const IPV6: u16 = 229;
const SLL2: u16 = 276;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_MPLS: u16 = 0x8847;
const ETHERTYPE_PPPOE: u16 = 0x8864;
const PPP_IPV4: u16 = 0x0021;
const PPP_IPV6: u16 = 0x0057;

/// More labels than any network stacks.
const MAX_LABELS: usize = 16;

/// What is behind the link layer.
#[derive(Debug, PartialEq, Eq)]
pub enum Network<'a> {
    /// An IP packet of either version.
    Ip {
        /// From its first byte.
        data: &'a [u8],
        /// VLAN tags passed on the way.
        tags: Tags,
        /// Interface, where the link layer names it.
        point: u32,
    },
    NotIp,
    Unknown,
    Malformed,
}

/// Passes over the link layer.
pub fn network(link: LinkType, data: &[u8]) -> Network<'_> {
    let ip = |skip: usize| match data.get(skip..) {
        Some(data) => Network::Ip { data, tags: Tags::default(), point: 0 },
        None => Network::Malformed,
    };
    match link.0 {
        ETHERNET => behind(data, u16_at(data, 12), 14, 0),
        SLL => behind(data, u16_at(data, 14), 16, 0),
        SLL2 => behind(data, u16_at(data, 0), 20, u32_at(data, 4).unwrap_or(0)),
        RAW | RAW_LINUX | RAW_OPENBSD | IPV4 | IPV6 => ip(0),
        // The address family has as many values as there are systems, and the byte order of the machine
        // that captured; the IP header tells its version itself.
        NULL | LOOP => ip(4),
        PPP => {
            let framed = usize::from(data.first() == Some(&0xff)) * 2;
            ppp(data, framed, Tags::default(), 0)
        }
        _ => Network::Unknown,
    }
}

/// What follows an EtherType, tags and labels passed over.
fn behind(data: &[u8], ethertype: Option<u16>, mut at: usize, point: u32) -> Network<'_> {
    let Some(mut ethertype) = ethertype else { return Network::Malformed };
    let mut tags = Tags::default();
    // 802.1Q, 802.1ad, and what was used before it.
    while matches!(ethertype, 0x8100 | 0x88a8 | 0x9100 | 0x9200) {
        let (Some(control), Some(next)) = (u16_at(data, at), u16_at(data, at + 2)) else {
            return Network::Malformed;
        };
        tags.push(control);
        ethertype = next;
        at += 4;
    }
    match ethertype {
        ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => {}
        ETHERTYPE_PPPOE => return ppp(data, at + 6, tags, point),
        ETHERTYPE_MPLS => {
            let bottom = (0..MAX_LABELS).find(|i| data.get(at + 4 * i + 2).is_some_and(|b| b & 1 != 0));
            let Some(labels) = bottom else { return Network::Malformed };
            at += 4 * (labels + 1);
            if !matches!(data.get(at).map(|b| b >> 4), Some(4 | 6)) {
                return Network::NotIp;
            }
        }
        _ => return Network::NotIp,
    }
    data.get(at..).map_or(Network::Malformed, |data| Network::Ip { data, tags, point })
}

fn ppp(data: &[u8], at: usize, tags: Tags, point: u32) -> Network<'_> {
    match (u16_at(data, at), data.get(at + 2..)) {
        (Some(PPP_IPV4 | PPP_IPV6), Some(data)) => Network::Ip { data, tags, point },
        (Some(_), _) => Network::NotIp,
        _ => Network::Malformed,
    }
}
