//! What a timeline is made from: captured packets, and what is known about the transfer before.

use super::Rtts;

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
