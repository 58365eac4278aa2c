//! IAX2 frames (RFC 5456 section 8): full, mini and trunk frames on port 4569.

use super::codecs::{Encoding, Kind};
use crate::packet::{u16_at, u32_at};

/// The one port of IAX2.
pub const PORT: u16 = 4569;

const FULL_LEN: usize = 12;
const MINI_LEN: usize = 4;
const META_LEN: usize = 8;
const VOICE: u8 = 2;
const CONTROL: u8 = 6;
const CONTROL_NEW: u8 = 1;
const CONTROL_ACCEPT: u8 = 7;
/// In front of the destination call number: sent again (section 8.1.1).
const RETRANSMITTED: u16 = 0x8000;
const META_TRUNK: u8 = 1;

/// Speech of one call in a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speech {
    /// Source call number.
    pub call: u16,
    /// Low 16 bits of the call's time in ms.
    pub stamp: u16,
    /// Speech in bytes, as sent.
    pub payload_bytes: u16,
    /// Which codec, if the frame says so: the number of the bit in RFC 5456 section 8.7.
    pub codec: Option<u8>,
}

/// The type of a datagram on IAX2's port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// Speech of one call.
    Speech(Speech),
    /// A trunk frame; its calls come from [`trunk`].
    Trunk,
    /// A call begins, with this source call number: NEW from the caller, ACCEPT from the callee.
    New(u16),
    /// Signalling.
    Other,
    /// Not IAX2.
    Foreign,
}

/// Decodes one datagram, of which `len` bytes were sent and `payload` was captured.
#[must_use]
pub fn look(payload: &[u8], len: usize) -> Look {
    let (Some(first), Some(second)) = (u16_at(payload, 0), u16_at(payload, 2)) else { return Look::Foreign };
    if first & 0x8000 != 0 {
        let (Some(&kind), Some(&subclass)) = (payload.get(10), payload.get(11)) else { return Look::Foreign };
        let call = first & 0x7fff;
        return match kind {
            VOICE => Look::Speech(Speech {
                call,
                stamp: u16_at(payload, 6).unwrap_or_default(),
                payload_bytes: clamp(len.saturating_sub(FULL_LEN)),
                codec: codec_bit(subclass),
            }),
            // If sent again, it may come after the first speech.
            CONTROL if matches!(subclass, CONTROL_NEW | CONTROL_ACCEPT) && second & RETRANSMITTED == 0 => {
                Look::New(call)
            }
            1..=12 => Look::Other,
            _ => Look::Foreign,
        };
    }
    match first {
        // Meta frames: V is the first bit of the next byte.
        0 if second & 0x8000 != 0 => Look::Other,
        0 if payload[2] == META_TRUNK => Look::Trunk,
        0 => Look::Foreign,
        call => Look::Speech(Speech {
            call,
            stamp: second,
            payload_bytes: clamp(len.saturating_sub(MINI_LEN)),
            codec: None,
        }),
    }
}

/// The calls in a trunk frame (RFC 5456 section 8.1.3.2), as far as it was captured.
pub fn trunk(payload: &[u8]) -> impl Iterator<Item = Speech> + '_ {
    let stamped = payload.get(3).is_some_and(|data| data & 1 != 0);
    let common = u32_at(payload, 4).unwrap_or_default() as u16;
    let mut at = META_LEN;
    std::iter::from_fn(move || {
        let (first, second) = (u16_at(payload, at)?, u16_at(payload, at + 2)?);
        // With time stamps the length comes first.
        let (call, payload_bytes, stamp) =
            if stamped { (second, first, u16_at(payload, at + 4)?) } else { (first, second, common) };
        at += if stamped { 6 } else { 4 } + usize::from(payload_bytes);
        Some(Speech { call: call & 0x7fff, stamp, payload_bytes, codec: None })
    })
}

/// What a subclass means: a power of two if its first bit is set, else a small bit mask, in which no bit is no codec
/// (section 8.1.1).
fn codec_bit(subclass: u8) -> Option<u8> {
    if subclass & 0x80 != 0 { Some(subclass & 0x7f) } else { subclass.checked_ilog2().map(|bit| bit as u8) }
}

/// The codec behind a bit, by its name in SDP.
#[must_use]
pub fn encoding(bit: u8) -> Option<Encoding> {
    let name = match bit {
        0 => "G723",
        1 => "GSM",
        2 => "PCMU",
        3 => "PCMA",
        4 | 11 => "G726-32",
        5 => "DVI4",
        6 => "L16",
        7 => "LPC",
        8 => "G729",
        9 => "speex",
        10 => "iLBC",
        12 => "G722",
        13 => "AMR",
        _ => return None,
    };
    Some(Encoding { name: name.to_owned(), clock_hz: CLOCK_HZ, kind: Kind::Audio })
}

/// Time stamps count milliseconds, whatever the codec.
pub const CLOCK_HZ: u32 = 1_000;

fn clamp(bytes: usize) -> u16 {
    u16::try_from(bytes).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subclass_is_a_power_of_two_or_a_bit_or_no_codec() {
        let codecs = [0x00, 0x02, 0x08, 0x80, 0x8c].map(codec_bit);
        assert_eq!(codecs, [None, Some(1), Some(3), Some(0), Some(12)]);
    }
}
