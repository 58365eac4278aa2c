//! From an IP packet to one with ESP.

use std::ops::Range;

use weir_wire::UDP_LEN;

use crate::association::{Association, Mode, UdpPorts};
use crate::error::{AssociationError, EncapsulateError};
use crate::ip::{self, Head, NoPacket, Outer, Until};
use crate::ivs::Ivs;
use crate::suite::Suite;
use crate::transform::{HEAD_LEN, LANES, Sealing, Transform};

/// Pad length and next header.
const TRAILER_LEN: usize = 2;

/// The longest IP packet, and the longest payload of one of IPv6.
const MAX_LEN: usize = 65_535;

/// A packet in a buffer that has room around it.
pub struct Slot<'a> {
    /// The packet, with [`Outbound::headroom`] in front and [`Outbound::tailroom`] behind.
    pub buffer: &'a mut [u8],
    /// Where in it the packet is; afterwards, where the encapsulated one is.
    pub range: Range<usize>,
    /// Why it was left alone, in which case `range` is unchanged.
    pub error: Option<EncapsulateError>,
}

/// The sender's end of an association.
pub struct Outbound {
    spi: u32,
    suite: Suite,
    mode: Mode,
    udp: Option<UdpPorts>,
    transform: Transform,
    ivs: Ivs,
    sent: u64,
    last: u64,
}

/// A packet that is complete except for what needs the keys.
struct Prepared {
    packet: Range<usize>,
    esp_at: usize,
    sequence: u64,
}

impl Outbound {
    /// Begins with sequence number 1.
    ///
    /// `iv_key` are secret random bytes, drawn anew with every key: initialization vectors
    /// of CBC have to be unpredictable (RFC 3602, 3), and are sequence numbers encrypted with it. Other
    /// suites need none.
    ///
    /// # Errors
    ///
    /// The association is invalid.
    pub fn new(association: &Association<'_>, iv_key: &[u8; 16]) -> Result<Self, AssociationError> {
        association.validate()?;
        Ok(Self {
            spi: association.spi,
            suite: association.suite,
            mode: association.mode,
            udp: association.udp,
            transform: Transform::new(association),
            ivs: Ivs::new(association.spi, iv_key),
            sent: 0,
            last: if association.esn { u64::MAX } else { u32::MAX.into() },
        })
    }

    /// Continues after `sent`, the last sequence number that another sender of this association used: after
    /// a switch to a standby gateway, for instance. A number that is used twice gives away plaintext.
    #[must_use]
    pub const fn resumed(mut self, sent: u64) -> Self {
        self.sent = sent;
        self
    }

    /// The last sequence number that was used; 0 before the first packet.
    #[must_use]
    pub const fn sent(&self) -> u64 {
        self.sent
    }

    /// Bytes needed in front of a packet.
    #[must_use]
    pub const fn headroom(&self) -> usize {
        let outer = match self.mode {
            Mode::Transport => 0,
            Mode::Tunnel { source, .. } => Outer::len(source),
        };
        outer + self.inserted()
    }

    /// Bytes needed behind a packet, at most.
    #[must_use]
    pub const fn tailroom(&self) -> usize {
        self.suite.align() - 1 + TRAILER_LEN + self.suite.icv_len()
    }

    /// Encapsulates the IP packet at `packet` in `buffer`, in place; returns where the result is.
    ///
    /// The time to live of a packet that enters a tunnel is left to the forwarder.
    ///
    /// # Errors
    ///
    /// The packet cannot be protected; the buffer is as it was, and no sequence number used.
    pub fn encapsulate(
        &mut self,
        buffer: &mut [u8],
        packet: Range<usize>,
    ) -> Result<Range<usize>, EncapsulateError> {
        let prepared = self.prepare(buffer, packet)?;
        let esp = &mut buffer[prepared.esp_at..prepared.packet.end];
        self.transform.seal(Sealing { esp, sequence: prepared.sequence });
        Ok(self.finish(buffer, prepared))
    }

    /// Encapsulates many packets. For AES-CBC that is faster than one after the other, since up to
    /// eight are encrypted side by side.
    pub fn encapsulate_each(&mut self, slots: &mut [Slot<'_>]) {
        for group in slots.chunks_mut(LANES) {
            let mut prepared: [Option<Prepared>; LANES] = [const { None }; LANES];
            for (slot, place) in group.iter_mut().zip(&mut prepared) {
                slot.error = None;
                match self.prepare(slot.buffer, slot.range.clone()) {
                    Ok(ready) => *place = Some(ready),
                    Err(error) => slot.error = Some(error),
                }
            }
            let ready = group.iter_mut().zip(&prepared).filter_map(|(slot, prepared)| {
                let prepared = prepared.as_ref()?;
                let esp = &mut slot.buffer[prepared.esp_at..prepared.packet.end];
                Some(Sealing { esp, sequence: prepared.sequence })
            });
            self.transform.seal_each(ready);
            for (slot, prepared) in group.iter_mut().zip(prepared) {
                if let Some(prepared) = prepared {
                    slot.range = self.finish(slot.buffer, prepared);
                }
            }
        }
    }

    /// What lies between the IP header and the encrypted part.
    const fn inserted(&self) -> usize {
        let udp = if self.udp.is_some() { UDP_LEN } else { 0 };
        udp + HEAD_LEN + self.suite.iv_len()
    }

    /// Checks everything, and only then changes the buffer and takes the next number.
    fn prepare(&mut self, buffer: &mut [u8], packet: Range<usize>) -> Result<Prepared, EncapsulateError> {
        let bytes = buffer.get(packet.clone()).ok_or(EncapsulateError::Truncated)?;
        let head = ip::parse(bytes, Until::Insertion).map_err(EncapsulateError::from)?;
        // What lies after the packet pads a short frame.
        let end = packet.start + head.total_len;
        let (protected_at, kept, next_header) = match self.mode {
            Mode::Transport if head.is_fragment => return Err(EncapsulateError::Fragment),
            Mode::Transport => (packet.start + head.len, head.len, head.protocol),
            Mode::Tunnel { source, .. } => {
                let next_header = if head.version == 4 { ip::IPV4 } else { ip::IPV6 };
                (packet.start, Outer::len(source), next_header)
            }
        };
        let protected = end - protected_at + TRAILER_LEN;
        let padding = protected.wrapping_neg() % self.suite.align();
        let tail = padding + TRAILER_LEN + self.suite.icv_len();
        let front = kept + self.inserted();
        let (Some(start), true) = (protected_at.checked_sub(front), end + tail <= buffer.len()) else {
            return Err(EncapsulateError::NoRoom { head: self.headroom(), tail: self.tailroom() });
        };
        let packet_len = end + tail - start;
        if packet_len > self.longest(&head) {
            return Err(EncapsulateError::TooLong(packet_len));
        }
        if self.sent >= self.last {
            return Err(EncapsulateError::Exhausted);
        }
        self.sent += 1;

        trailer(&mut buffer[end..end + padding + TRAILER_LEN], next_header);
        if self.mode == Mode::Transport {
            buffer.copy_within(packet.start..protected_at, start);
        }
        let made = &mut buffer[start..end + tail];
        self.write_front(made, kept, &head);
        Ok(Prepared {
            packet: start..end + tail,
            esp_at: start + kept + if self.udp.is_some() { UDP_LEN } else { 0 },
            sequence: self.sent,
        })
    }

    /// Everything that stays in the clear; `kept` is the length of the IP headers in front of ESP.
    fn write_front(&mut self, made: &mut [u8], kept: usize, head: &Head) {
        let protocol = if self.udp.is_some() { ip::UDP } else { ip::ESP };
        match self.mode {
            Mode::Transport => ip::rewrite(made, head, protocol, made.len()),
            Mode::Tunnel { source, destination } => Outer {
                source,
                destination,
                protocol,
                // RFC 6040, 4.1 and RFC 4301, 8.1: the same as in the inner packet.
                traffic_class: head.traffic_class,
                dont_fragment: head.dont_fragment,
                id: self.sent as u16,
                total_len: made.len(),
            }
            .emit(made),
        }
        let mut esp = &mut made[kept..];
        if let Some(ports) = self.udp {
            ip::emit_udp(esp, ports.source, ports.destination);
            esp = &mut esp[UDP_LEN..];
        }
        esp[..4].copy_from_slice(&self.spi.to_be_bytes());
        esp[4..HEAD_LEN].copy_from_slice(&(self.sent as u32).to_be_bytes());
        match self.suite.iv_len() {
            0 => {}
            // Unique is enough for counter modes (RFC 4106, 3.1; RFC 7634, 2).
            8 => esp[HEAD_LEN..HEAD_LEN + 8].copy_from_slice(&self.sent.to_be_bytes()),
            len => esp[HEAD_LEN..HEAD_LEN + len].copy_from_slice(self.ivs.of(self.sent)),
        }
    }

    fn finish(&self, buffer: &mut [u8], prepared: Prepared) -> Range<usize> {
        let packet = &mut buffer[prepared.packet.clone()];
        if self.udp.is_some() && packet[0] >> 4 == 6 {
            ip::checksum_udp6(packet, prepared.esp_at - prepared.packet.start - UDP_LEN);
        }
        prepared.packet
    }

    const fn longest(&self, head: &Head) -> usize {
        let is_v6 = match self.mode {
            Mode::Transport => head.version == 6,
            Mode::Tunnel { source, .. } => source.is_ipv6(),
        };
        if is_v6 { MAX_LEN + weir_wire::IPV6_LEN } else { MAX_LEN }
    }
}

/// Padding 1, 2, 3, ..., its length and the next header (RFC 4303, 2.4).
fn trailer(bytes: &mut [u8], next_header: u8) {
    let (padding, last) = bytes.split_at_mut(bytes.len() - TRAILER_LEN);
    for (number, byte) in (1..).zip(padding.iter_mut()) {
        *byte = number;
    }
    // At most 15 bytes.
    last[0] = padding.len() as u8;
    last[1] = next_header;
}

impl From<NoPacket> for EncapsulateError {
    fn from(why: NoPacket) -> Self {
        match why {
            NoPacket::NotIp => Self::NotIp,
            NoPacket::Truncated => Self::Truncated,
        }
    }
}
