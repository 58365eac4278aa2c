//! IEEE 802.11 frames, and the headers that capture programs put in front of them.

use super::link::{self, Network};
use super::{Opaque, Tags};

/// Frame control: the type, data without payload, a QoS field, and the flags.
const TYPE: u16 = 0x000c;
const DATA: u16 = 0x0008;
const NO_PAYLOAD: u16 = 0x0040;
const QOS: u16 = 0x0080;
const BOTH_SYSTEMS: u16 = 0x0300;
const MORE_FRAGMENTS: u16 = 0x0400;
const PROTECTED: u16 = 0x4000;
const ORDER: u16 = 0x8000;
/// QoS control: several frames in one (A-MSDU).
const AGGREGATED: u16 = 0x0080;

/// Radiotap: which fields there are, and the flags.
const TSFT: u32 = 1;
const FLAGS: u32 = 2;
const MORE_FIELDS: u32 = 1 << 31;
const PADDED: u8 = 0x20;
const DAMAGED: u8 = 0x40;

fn u16_le(data: &[u8], at: usize) -> Option<u16> {
    data.get(at..at + 2).map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]]))
}

/// A frame of IEEE 802.11 (2020), clause 9.2; with `is_padded`, its header is filled up to a multiple of four bytes.
pub fn frame(data: &[u8], is_padded: bool, tags: Tags) -> Network<'_> {
    let (Some(control), Some(&[sequence, _])) =
        (u16_le(data, 0), data.get(22..24).and_then(|s| s.first_chunk()))
    else {
        // Acknowledgements and the like are shorter.
        return if data.len() < 2 { Network::Malformed } else { Network::NotIp };
    };
    if control & TYPE != DATA || control & NO_PAYLOAD != 0 {
        return Network::NotIp;
    }
    let mut at = if control & BOTH_SYSTEMS == BOTH_SYSTEMS { 30 } else { 24 };
    let mut is_aggregated = false;
    if control & QOS != 0 {
        let Some(qos) = u16_le(data, at) else { return Network::Malformed };
        is_aggregated = qos & AGGREGATED != 0;
        at += if control & ORDER != 0 { 6 } else { 2 };
    }
    if is_padded {
        at = at.next_multiple_of(4);
    }
    // What is encrypted, in parts, or several frames at once.
    if control & (PROTECTED | MORE_FRAGMENTS) != 0 || sequence & 0x0f != 0 || is_aggregated {
        return Network::Opaque(Opaque::Wireless);
    }
    // A length, so that LLC with a SNAP header follows.
    link::behind(data, 0, at, tags)
}

/// <https://www.radiotap.org>.
pub fn radiotap(data: &[u8], tags: Tags) -> Network<'_> {
    let (Some(0), Some(length)) = (data.first(), u16_le(data, 2)) else { return Network::Malformed };
    let length = usize::from(length);
    let (Some(head), Some(rest)) = (data.get(..length), data.get(length..)) else {
        return Network::Malformed;
    };
    let words = || head.get(4..).into_iter().flat_map(|rest| rest.chunks_exact(4));
    let present = words().map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    let Some(first) = present.clone().next() else { return Network::Malformed };
    let mut at = 8 + 4 * present.take_while(|word| word & MORE_FIELDS != 0).count();
    if first & TSFT != 0 {
        at = at.next_multiple_of(8) + 8;
    }
    let flags = if first & FLAGS == 0 { 0 } else { head.get(at).copied().unwrap_or(0) };
    if flags & DAMAGED != 0 {
        return Network::NotIp;
    }
    frame(rest, flags & PADDED != 0, tags)
}
