//! The RTP header (RFC 3550 section 5.1), and how it differs from other protocols over UDP.

use crate::packet::{u16_at, u32_at};

/// Length without contributing sources and extension.
pub const HEADER_LEN: usize = 12;

/// An RTP header, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// First packet after a pause, for speech.
    pub marker: bool,
    /// Payload type.
    pub payload_type: u8,
    /// Sequence number.
    pub sequence: u16,
    /// Time stamp.
    pub timestamp: u32,
    /// Synchronisation source.
    pub ssrc: u32,
    /// Payload as sent, without padding if that was captured.
    pub payload_bytes: u16,
    /// Length of the datagram as sent.
    pub datagram_bytes: u16,
}

impl Header {
    /// Whether this number comes before the other one, modulo 16 bits.
    #[must_use]
    pub const fn precedes(&self, other: &Self) -> bool {
        self.sequence.wrapping_sub(other.sequence).cast_signed() < 0
    }

    /// The sequence number, if it is a length: by how much it is more than the length of the datagram.
    #[must_use]
    pub const fn beyond_length(&self) -> u16 {
        self.sequence.wrapping_sub(self.datagram_bytes)
    }
}

/// What the first bytes of a datagram can belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// RTP.
    Rtp(Header),
    /// RTCP.
    Rtcp,
    /// Neither.
    Other,
}

/// Decodes one datagram, of which `len` bytes were sent and `payload` was captured.
///
/// Version 2 alone leaves a quarter of all random packets: RFC 7983 section 7 tells RTP and RTCP from
/// STUN, DTLS, TURN and ZRTP by the first byte, RFC 5761 section 4 RTCP from RTP by the second, and
/// lengths must agree. The caller checks that the numbers continue from packet to packet.
#[must_use]
pub fn look(payload: &[u8], len: usize) -> Look {
    let Some(head) = payload.first_chunk::<HEADER_LEN>() else {
        return match payload {
            [128..=191, 192..=223, ..] => Look::Rtcp,
            _ => Look::Other,
        };
    };
    if !(128..=191).contains(&head[0]) {
        return Look::Other;
    }
    if (192..=223).contains(&head[1]) {
        // Compound packets: the first one's length in words, less one, is within the datagram.
        let first = (usize::from(u16::from_be_bytes([head[2], head[3]])) + 1) * 4;
        return if first <= len { Look::Rtcp } else { Look::Other };
    }
    let payload_type = head[1] & 0x7f;
    // 64 to 95 with the marker are RTCP's numbers: they are not used without it either.
    if (64..=95).contains(&payload_type) {
        return Look::Other;
    }
    let mut at = HEADER_LEN + usize::from(head[0] & 0x0f) * 4;
    if head[0] & 0x10 != 0 {
        match u16_at(payload, at + 2) {
            Some(words) => at += 4 + usize::from(words) * 4,
            // Cut off by the capture.
            None if payload.len() < len => at += 4,
            None => return Look::Other,
        }
    }
    if at > len {
        return Look::Other;
    }
    let mut bytes = len - at;
    if head[0] & 0x20 != 0 && payload.len() == len {
        match payload.last().map(|b| usize::from(*b)) {
            Some(padding) if (1..=bytes).contains(&padding) => bytes -= padding,
            _ => return Look::Other,
        }
    }
    Look::Rtp(Header {
        marker: head[1] & 0x80 != 0,
        payload_type,
        sequence: u16::from_be_bytes([head[2], head[3]]),
        timestamp: u32_at(payload, 4).unwrap_or_default(),
        ssrc: u32_at(payload, 8).unwrap_or_default(),
        payload_bytes: u16::try_from(bytes).unwrap_or(u16::MAX),
        datagram_bytes: u16::try_from(len).unwrap_or(u16::MAX),
    })
}

/// Whether this is STUN (RFC 8489 section 5) or DTLS (RFC 9147), which share the ports of media in WebRTC.
#[must_use]
pub fn is_webrtc(payload: &[u8]) -> bool {
    match payload {
        [0..=3, _, _, _, 0x21, 0x12, 0xa4, 0x42, ..] => true,
        [20..=25, 0xfe, 0xfd | 0xff, ..] => payload.len() > 13,
        _ => false,
    }
}
