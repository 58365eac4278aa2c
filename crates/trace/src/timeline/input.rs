//! What a timeline is made from: captured packets, and what is known about the transfer before.

use super::Rtts;
use crate::tcp::Ranges;

const SYN: u8 = 2;
const RST: u8 = 4;

/// A packet of a connection, as in `segments` of `docs/trace.md`.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// Time, ns.
    pub time_ns: i64,
    /// First sequence number.
    pub seq: i64,
    /// Acknowledgement.
    pub ack: i64,
    /// On an ACK: what SACK had reported beyond it by then, bytes; see [`report`].
    pub sacked_bytes: u32,
    /// Payload, bytes.
    pub payload_bytes: u32,
    /// Window, scaled, bytes.
    pub window_bytes: u32,
    /// Time stamp of its sender.
    pub tsval: Option<u32>,
    /// Byte 13 of the TCP header.
    pub flags: u8,
    /// Whether the sender of the data sent it.
    pub from_sender: bool,
    /// A retransmission, but not a probe that the receiver reported as needless.
    pub again: bool,
    /// A tail loss probe.
    pub probe: bool,
    /// Sent again after a time-out.
    pub timeout: bool,
}

impl Packet {
    const fn opens_or_resets(&self) -> bool {
        self.flags & (SYN | RST) != 0
    }

    pub(super) const fn has_data(&self) -> bool {
        self.from_sender && self.payload_bytes > 0 && !self.opens_or_resets()
    }

    pub(super) const fn is_ack(&self) -> bool {
        !self.from_sender && !self.opens_or_resets()
    }

    pub(super) fn end(&self) -> i64 {
        self.seq + i64::from(self.payload_bytes)
    }
}

/// A block of an ACK that reports what arrived behind a gap (RFC 2018).
#[derive(Clone, Copy, Debug)]
pub struct SackBlock {
    /// Time, ns.
    pub time_ns: i64,
    /// First sequence number.
    pub left: i64,
    /// The one behind the last.
    pub right: i64,
}

/// Tells ACKs what SACK had reported by then; both in the order of the capture, and duplicates left out.
pub(super) fn report(packets: &mut [Packet], blocks: &[SackBlock]) {
    let mut blocks = blocks.iter().peekable();
    let mut reported = Ranges::default();
    let (mut sent, mut acked) = (i64::MIN, i64::MIN);
    for packet in packets {
        if packet.has_data() {
            sent = sent.max(packet.end());
        } else if packet.is_ack() {
            acked = acked.max(packet.ack);
            while let Some(block) = blocks.next_if(|block| block.time_ns <= packet.time_ns) {
                // A device on the path may change numbers, but not those of blocks.
                if block.right <= sent {
                    reported.add(block.left, block.right, ());
                }
            }
            reported.cut_below(acked);
            packet.sacked_bytes = u32::try_from(reported.size()).unwrap_or(u32::MAX);
        }
    }
}

/// Where packets were captured, seen from the sender of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At the sender.
    Sender,
    /// Between sender and receiver.
    Between,
    /// At the receiver.
    Receiver,
}

/// Round trips of a connection.
#[derive(Debug, Default)]
pub struct PathRtts {
    /// Of the whole path, from sender to receiver and back.
    pub trips: Rtts,
    /// From the point of capture to the sender: how much later each ACK counts. With time stamps only the least counts: data
    /// counts from when it left, not from when it arrived.
    pub behind: Rtts,
    /// The same as measured, pauses and queues included.
    pub echoes: Rtts,
}

/// Why a capture shows nothing of what limited a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// It does not have the receiver's ACKs.
    NoAcks,
    /// The times of packets go back again and again.
    Clock,
    /// More was in flight than the window allowed.
    TooMuch,
    /// A sequence number is far beyond all data that was captured.
    Jump,
}

/// What is known about the transfer before.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Where it was captured.
    pub place: Place,
    /// Payload of a full segment, bytes; 0 if the handshake was not seen.
    pub mss_bytes: i64,
    /// The least round trip, s; 0 if none is known.
    pub min_rtt_s: f64,
    /// Whether the scale of the windows is known; otherwise only a closed one is known, unless the data shows that they are not
    /// scaled.
    pub scaled: bool,
}
