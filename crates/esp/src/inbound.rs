//! From a packet with ESP to the one inside.

use std::ops::Range;

use weir_wire::UDP_LEN;

use crate::association::{Association, Mode};
use crate::error::{AssociationError, DecapsulateError};
use crate::ip::{self, Head, NoPacket, Until};
use crate::replay::{Refusal, Window};
use crate::suite::Suite;
use crate::transform::{HEAD_LEN, Transform};

const TRAILER_LEN: usize = 2;

/// Default width of the replay window (RFC 4303, 3.4.3).
pub const DEFAULT_WINDOW: usize = 64;

/// What became of received packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Let through.
    pub accepted: u64,
    /// Not IP packets, or fragments, or cut short.
    pub malformed: u64,
    /// Not ESP of this association: another SPI, IKE, keepalives.
    pub foreign: u64,
    /// Before the replay window.
    pub too_old: u64,
    /// Received before.
    pub replayed: u64,
    /// With a wrong integrity check value.
    pub forged: u64,
    /// Authentic but useless: bad padding or payload, dummies, unnoticed congestion.
    pub discarded: u64,
}

/// The receiver's end of an association.
pub struct Inbound {
    spi: u32,
    suite: Suite,
    is_tunnel: bool,
    is_in_udp: bool,
    esn: bool,
    transform: Transform,
    window: Window,
    counts: Counts,
}

/// Where in a packet ESP is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    head: Head,
    esp_at: usize,
    end: usize,
}

impl Inbound {
    /// Remembers `window` sequence numbers; 0 lets replayed packets through, as does every suite without
    /// authentication (RFC 4303, 3.4.3: anybody could move the window).
    ///
    /// # Errors
    ///
    /// The association is invalid.
    pub fn new(association: &Association<'_>, window: usize) -> Result<Self, AssociationError> {
        association.validate()?;
        let window = Window::new(window)?;
        Ok(Self {
            spi: association.spi,
            suite: association.suite,
            is_tunnel: association.mode != Mode::Transport,
            is_in_udp: association.udp.is_some(),
            esn: association.esn,
            transform: Transform::new(association),
            window: if association.suite.is_authenticated() { window } else { Window::new(0)? },
            counts: Counts::default(),
        })
    }

    /// Continues after `highest`, the highest number that another receiver of this association let through.
    #[must_use]
    pub fn resumed(mut self, highest: u64) -> Self {
        self.window.mark(highest);
        self
    }

    /// What became of the packets so far.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// The highest sequence number that was received and authentic.
    #[must_use]
    pub const fn highest(&self) -> u64 {
        self.window.highest()
    }

    /// Decapsulates an IP packet in place; returns where in it the inner packet is. In transport mode that has
    /// the headers of the outer one.
    ///
    /// Addresses are not checked: which of them may use an association, and which packets it may carry,
    /// is a matter of the policy above (RFC 4301, 5.2). Behind network address translation the checksum of
    /// a packet in transport mode is that of the addresses before it (RFC 3948, 3.1.2).
    ///
    /// # Errors
    ///
    /// The packet is to be dropped, and is counted.
    pub fn decapsulate(&mut self, packet: &mut [u8]) -> Result<Range<usize>, DecapsulateError> {
        let result = self.opened(packet);
        self.counts.add(&result);
        result
    }

    pub(crate) const fn spi(&self) -> u32 {
        self.spi
    }

    /// As [`decapsulate`](Self::decapsulate), but not counted. A packet with another SPI is unchanged.
    pub(crate) fn opened(&mut self, packet: &mut [u8]) -> Result<Range<usize>, DecapsulateError> {
        let place = locate(packet, self.is_in_udp)?;
        let esp = &mut packet[place.esp_at..place.end];
        let &[s0, s1, s2, s3, n0, n1, n2, n3, ..] = &*esp else { return Err(DecapsulateError::Truncated) };
        let spi = u32::from_be_bytes([s0, s1, s2, s3]);
        if spi != self.spi {
            return Err(DecapsulateError::WrongSpi(spi));
        }
        let body_at = HEAD_LEN + self.suite.iv_len();
        let Some(body_len) = esp.len().checked_sub(body_at + self.suite.icv_len()) else {
            return Err(DecapsulateError::Truncated);
        };
        if body_len < TRAILER_LEN {
            return Err(DecapsulateError::Truncated);
        }
        if body_len % self.suite.align() != 0 {
            return Err(DecapsulateError::Misaligned(self.suite.align()));
        }

        let low = u32::from_be_bytes([n0, n1, n2, n3]);
        let sequence = if self.esn { self.window.extended(low) } else { Some(low.into()) };
        let sequence = sequence.ok_or(DecapsulateError::TooOld(low.into()))?;
        self.window.check(sequence).map_err(|refusal| match refusal {
            Refusal::TooOld => DecapsulateError::TooOld(sequence),
            Refusal::Replayed => DecapsulateError::Replayed(sequence),
        })?;
        self.transform.open(esp, sequence).map_err(|_| DecapsulateError::BadIcv)?;
        // Only now is it certain that the number is the sender's.
        self.window.mark(sequence);

        let body = place.esp_at + body_at..place.esp_at + body_at + body_len;
        let (payload_len, next_header) = unpadded(&packet[body.clone()])?;
        let payload = body.start..body.start + payload_len;
        if next_header == ip::NO_NEXT_HEADER {
            return Err(DecapsulateError::Dummy);
        }
        if self.is_tunnel {
            tunnelled(packet, payload, next_header, place.head.traffic_class)
        } else {
            Ok(in_transport(packet, payload, next_header, &place.head))
        }
    }
}

impl Counts {
    /// Counts one packet.
    pub(crate) fn add(&mut self, result: &Result<Range<usize>, DecapsulateError>) {
        let counter = match result {
            Ok(_) => &mut self.accepted,
            Err(error) => self.of(*error),
        };
        *counter += 1;
    }

    fn of(&mut self, error: DecapsulateError) -> &mut u64 {
        use DecapsulateError as E;
        match error {
            E::NotIp | E::Truncated | E::Fragment | E::Misaligned(_) => &mut self.malformed,
            E::NotEsp | E::Ike | E::Keepalive | E::WrongSpi(_) => &mut self.foreign,
            E::TooOld(_) => &mut self.too_old,
            E::Replayed(_) => &mut self.replayed,
            E::BadIcv => &mut self.forged,
            E::BadPadding | E::BadPayload(_) | E::Dummy | E::Congestion => &mut self.discarded,
        }
    }
}

/// SPI of an ESP packet, to find its association; in UDP or not.
///
/// # Errors
///
/// It is not ESP.
pub fn spi_of(packet: &[u8]) -> Result<u32, DecapsulateError> {
    let is_in_udp = ip::parse(packet, Until::Esp)?.protocol == ip::UDP;
    let place = locate(packet, is_in_udp)?;
    let spi = packet[place.esp_at..place.end].first_chunk().ok_or(DecapsulateError::Truncated)?;
    Ok(u32::from_be_bytes(*spi))
}

fn locate(packet: &[u8], is_in_udp: bool) -> Result<Place, DecapsulateError> {
    let head = ip::parse(packet, Until::Esp)?;
    if head.is_fragment {
        return Err(DecapsulateError::Fragment);
    }
    if head.protocol != if is_in_udp { ip::UDP } else { ip::ESP } {
        return Err(DecapsulateError::NotEsp);
    }
    if !is_in_udp {
        return Ok(Place { head, esp_at: head.len, end: head.total_len });
    }
    let udp = &packet[head.len..head.total_len];
    let &[_, _, _, _, high, low, ..] = udp else { return Err(DecapsulateError::Truncated) };
    let udp_len = usize::from(u16::from_be_bytes([high, low]));
    if udp_len < UDP_LEN || udp_len > udp.len() {
        return Err(DecapsulateError::Truncated);
    }
    match &udp[UDP_LEN..udp_len] {
        [0xff] => Err(DecapsulateError::Keepalive),
        // RFC 3948, 2.2: the marker that is no SPI.
        [0, 0, 0, 0, ..] => Err(DecapsulateError::Ike),
        _ => Ok(Place { head, esp_at: head.len + UDP_LEN, end: head.len + udp_len }),
    }
}

/// Length of the decrypted part without its trailer, and its type.
fn unpadded(body: &[u8]) -> Result<(usize, u8), DecapsulateError> {
    let (&[pad_len, next_header], front) =
        body.split_last_chunk().map(|(front, last)| (last, front)).ok_or(DecapsulateError::Truncated)?;
    let payload_len = front.len().checked_sub(pad_len.into()).ok_or(DecapsulateError::BadPadding)?;
    let is_right = front[payload_len..].iter().zip(1..=u8::MAX).all(|(byte, number)| *byte == number);
    if is_right { Ok((payload_len, next_header)) } else { Err(DecapsulateError::BadPadding) }
}

/// The packet inside a tunnel, which may be followed by padding that hides its length (RFC 4303, 2.7).
fn tunnelled(
    packet: &mut [u8],
    payload: Range<usize>,
    next_header: u8,
    outer_class: u8,
) -> Result<Range<usize>, DecapsulateError> {
    let version = match next_header {
        ip::IPV4 => 4,
        ip::IPV6 => 6,
        other => return Err(DecapsulateError::BadPayload(other)),
    };
    let bytes = &mut packet[payload.clone()];
    let inner = ip::parse(bytes, Until::Insertion).map_err(|_| DecapsulateError::BadPayload(next_header))?;
    if inner.version != version {
        return Err(DecapsulateError::BadPayload(next_header));
    }
    if !ip::merge_congestion(bytes, &inner, outer_class) {
        return Err(DecapsulateError::Congestion);
    }
    Ok(payload.start..payload.start + inner.total_len)
}

/// Puts the headers of the outer packet in front of what was protected.
fn in_transport(packet: &mut [u8], payload: Range<usize>, next_header: u8, head: &Head) -> Range<usize> {
    let start = payload.start - head.len;
    packet.copy_within(..head.len, start);
    let total_len = payload.end - start;
    ip::rewrite(&mut packet[start..payload.end], head, next_header, total_len);
    start..payload.end
}

impl From<NoPacket> for DecapsulateError {
    fn from(why: NoPacket) -> Self {
        match why {
            NoPacket::NotIp => Self::NotIp,
            NoPacket::Truncated => Self::Truncated,
        }
    }
}
