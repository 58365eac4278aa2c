//! The calls of two endpoints: when which packet is due, what is in it, and whether it came as it was sent. Pure.

use std::net::Ipv4Addr;

use thiserror::Error;
use weir_wire::{IPV4_LEN, UDP_LEN, fold, ones_complement_sum};

/// Length of an RTP header (RFC 3550, 5.1).
const RTP_LEN: usize = 12;
const PAYLOAD_AT: usize = IPV4_LEN + UDP_LEN + RTP_LEN;
const CHECKSUM_AT: usize = IPV4_LEN + 6;
const UDP: u8 = 17;
/// Expedited forwarding (RFC 3246), as speech has it.
const EXPEDITED: u8 = 46 << 2;
/// The even port of RTP, at both ends: the streams of all calls share it and are told apart by their sources.
pub const RTP_PORT: u16 = 16_384;
/// RTP sequence numbers tell this many packets of a stream apart.
pub const MOST_PACKETS: u32 = 1 << 16;

/// Calls in which both ends talk all the time.
#[derive(Clone, Debug)]
pub struct Calls {
    /// Time from a packet of a stream to the next.
    pub period_ns: u64,
    /// Packets of each stream.
    pub packets: u32,
    /// Speech per packet.
    pub payload_bytes: usize,
    /// In RTP headers.
    pub payload_type: u8,
    /// By how much RTP time stamps of consecutive packets differ.
    pub stamp_units: u32,
    /// When the first packet of each call's stream is due, from the start, for each of the two senders.
    pub phases_ns: [Vec<u64>; 2],
}

/// Why calls are invalid.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum CallsError {
    /// There is nothing to send.
    #[error("there are no calls, no packets, or no time between packets")]
    Nothing,
    /// Both ends talk in every call.
    #[error("{0} streams one way, {1} the other way: every call has one each")]
    Unequal(usize, usize),
    /// The order of packets would not be the same in every period.
    #[error("a stream begins {0} ns after the start, which is more than the time between packets")]
    Phase(u64),
    /// Sequence numbers would repeat.
    #[error("{0} packets in each stream: at most 65536 are told apart")]
    Packets(u32),
    /// The packet would be too long.
    #[error("{0} bytes of speech per packet: at most 1200 fit")]
    Payload(usize),
}

impl Calls {
    /// # Errors
    /// [`CallsError`].
    pub fn validate(&self) -> Result<(), CallsError> {
        let [one, other] = &self.phases_ns;
        if one.is_empty() || self.packets == 0 || self.period_ns == 0 {
            return Err(CallsError::Nothing);
        }
        if one.len() != other.len() {
            return Err(CallsError::Unequal(one.len(), other.len()));
        }
        if let Some(&phase) = one.iter().chain(other).find(|phase| **phase >= self.period_ns) {
            return Err(CallsError::Phase(phase));
        }
        if self.packets > MOST_PACKETS {
            return Err(CallsError::Packets(self.packets));
        }
        if self.payload_bytes > 1200 {
            return Err(CallsError::Payload(self.payload_bytes));
        }
        Ok(())
    }

    /// Number of calls.
    #[must_use]
    pub fn count(&self) -> usize {
        self.phases_ns[0].len()
    }

    /// Time from the start until no more packet is due.
    #[must_use]
    pub fn lasts_ns(&self) -> u64 {
        self.period_ns * u64::from(self.packets)
    }

    /// Length of a packet in the clear.
    #[must_use]
    pub const fn packet_bytes(&self) -> usize {
        PAYLOAD_AT + self.payload_bytes
    }

    /// Where a packet stands in a log: by call, then by sequence number.
    #[must_use]
    pub fn place(&self, call: u32, number: u32) -> usize {
        call as usize * self.packets as usize + number as usize
    }
}

/// A packet that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// From the start.
    pub after_ns: u64,
    /// Which call, from 0.
    pub call: u32,
    /// Which packet of its stream, from 0.
    pub number: u32,
}

/// The packets of one sender, in order of time.
pub struct Script {
    order: Vec<u32>,
    phases_ns: Vec<u64>,
    period_ns: u64,
    packets: u32,
    at: usize,
    number: u32,
}

impl Script {
    /// Packets of the sender with that number.
    #[must_use]
    pub fn new(calls: &Calls, sender: usize) -> Self {
        let phases_ns = calls.phases_ns[sender].clone();
        let mut order: Vec<u32> = (0..phases_ns.len() as u32).collect();
        order.sort_by_key(|&call| phases_ns[call as usize]);
        Self { order, phases_ns, period_ns: calls.period_ns, packets: calls.packets, at: 0, number: 0 }
    }

    /// The next packet; `None` after the last one.
    #[must_use]
    pub fn next(&self) -> Option<Due> {
        if self.number >= self.packets {
            return None;
        }
        let call = *self.order.get(self.at)?;
        let after_ns = self.phases_ns[call as usize] + u64::from(self.number) * self.period_ns;
        Some(Due { after_ns, call, number: self.number })
    }

    /// Moves on to the next one.
    pub fn advance(&mut self) {
        self.at += 1;
        if self.at == self.order.len() {
            self.at = 0;
            self.number += 1;
        }
    }
}

/// Why a packet does not belong to these calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Another kind of packet, or one of other calls.
    Foreign,
    /// Not as it was sent.
    Damaged,
}

/// The packets of one direction, in the clear.
pub struct Form {
    head: [u8; PAYLOAD_AT],
    payload_bytes: usize,
    stamp_units: u32,
    calls: u32,
    packets: u32,
    /// Of the pseudo-header.
    sum: u64,
}

impl Form {
    /// Between two addresses.
    #[must_use]
    pub fn new(calls: &Calls, source: Ipv4Addr, destination: Ipv4Addr) -> Self {
        let udp_len = (UDP_LEN + RTP_LEN + calls.payload_bytes) as u16;
        let mut head = [0; PAYLOAD_AT];
        write_ipv4(&mut head, calls.packet_bytes() as u16, UDP, source, destination);
        write_udp(&mut head[IPV4_LEN..], RTP_PORT, udp_len);
        let rtp = &mut head[IPV4_LEN + UDP_LEN..];
        rtp[0] = 2 << 6;
        rtp[1] = calls.payload_type;
        let pseudo = u64::from(ones_complement_sum(&head[12..IPV4_LEN]))
            + u64::from(ones_complement_sum(&[0, UDP]))
            + u64::from(ones_complement_sum(&udp_len.to_be_bytes()));
        Self {
            head,
            payload_bytes: calls.payload_bytes,
            stamp_units: calls.stamp_units,
            calls: calls.count() as u32,
            packets: calls.packets,
            sum: pseudo,
        }
    }

    /// Writes a packet, without its UDP checksum if another layer adds it.
    pub fn write(&self, packet: &mut [u8], call: u32, number: u32, with_checksum: bool) {
        let (head, payload) = packet.split_at_mut(PAYLOAD_AT);
        head.copy_from_slice(&self.head);
        let rtp = &mut head[IPV4_LEN + UDP_LEN..];
        rtp[2..4].copy_from_slice(&(number as u16).to_be_bytes());
        rtp[4..8].copy_from_slice(&number.wrapping_mul(self.stamp_units).to_be_bytes());
        rtp[8..12].copy_from_slice(&call.to_be_bytes());
        speak(payload, call, number);
        if with_checksum {
            let sum = self.sum + u64::from(ones_complement_sum(&packet[IPV4_LEN..]));
            // Zero would say that there is none (RFC 768).
            let checksum = match !fold(sum) {
                0 => u16::MAX,
                other => other,
            };
            packet[CHECKSUM_AT..CHECKSUM_AT + 2].copy_from_slice(&checksum.to_ne_bytes());
        }
    }

    /// Identifies a packet: call and number.
    ///
    /// # Errors
    /// It belongs to none of these calls, or is not as it was sent.
    pub fn read(&self, packet: &[u8]) -> Result<(u32, u32), Fault> {
        let (Some(head), Some(payload)) = (packet.get(..PAYLOAD_AT), packet.get(PAYLOAD_AT..)) else {
            return Err(Fault::Foreign);
        };
        let ports = IPV4_LEN..IPV4_LEN + 4;
        if head[9] != UDP || head[12..20] != self.head[12..20] || head[ports.clone()] != self.head[ports] {
            return Err(Fault::Foreign);
        }
        let rtp = &head[IPV4_LEN + UDP_LEN..];
        let call = u32::from_be_bytes([rtp[8], rtp[9], rtp[10], rtp[11]]);
        let number = u32::from(u16::from_be_bytes([rtp[2], rtp[3]]));
        if call >= self.calls || number >= self.packets {
            return Err(Fault::Foreign);
        }
        if head[CHECKSUM_AT..CHECKSUM_AT + 2] != [0, 0] {
            let sum = self.sum + u64::from(ones_complement_sum(&packet[IPV4_LEN..]));
            if fold(sum) != u16::MAX {
                return Err(Fault::Damaged);
            }
        }
        let stamp = number.wrapping_mul(self.stamp_units).to_be_bytes();
        let is_whole = payload.len() == self.payload_bytes && spoken(payload, call, number);
        if rtp[4..8] == stamp && rtp[..2] == self.head[IPV4_LEN + UDP_LEN..][..2] && is_whole {
            Ok((call, number))
        } else {
            Err(Fault::Damaged)
        }
    }
}

/// An IPv4 header without options.
pub fn write_ipv4(head: &mut [u8], total_len: u16, protocol: u8, source: Ipv4Addr, destination: Ipv4Addr) {
    let head = &mut head[..IPV4_LEN];
    head.copy_from_slice(&[0x45, EXPEDITED, 0, 0, 0, 0, 0x40, 0, 64, protocol, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    head[2..4].copy_from_slice(&total_len.to_be_bytes());
    head[12..16].copy_from_slice(&source.octets());
    head[16..20].copy_from_slice(&destination.octets());
    let checksum = !fold(ones_complement_sum(head).into());
    head[10..12].copy_from_slice(&checksum.to_ne_bytes());
}

/// A UDP header without a checksum, with the same port at both ends.
pub fn write_udp(head: &mut [u8], port: u16, len: u16) {
    head[..2].copy_from_slice(&port.to_be_bytes());
    head[2..4].copy_from_slice(&port.to_be_bytes());
    head[4..6].copy_from_slice(&len.to_be_bytes());
    head[6..8].copy_from_slice(&[0, 0]);
}

/// Fills a packet with bytes that no other packet has.
fn speak(payload: &mut [u8], call: u32, number: u32) {
    let word = word(call, number);
    for part in payload.chunks_mut(8) {
        part.copy_from_slice(&word[..part.len()]);
    }
}

fn spoken(payload: &[u8], call: u32, number: u32) -> bool {
    let word = word(call, number);
    payload.chunks(8).all(|part| *part == word[..part.len()])
}

/// The output function of SplitMix64: every bit of the number matters in every byte.
fn word(call: u32, number: u32) -> [u8; 8] {
    let mut mixed = (u64::from(call) << 32 | u64::from(number)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ mixed >> 31).to_be_bytes()
}
