//! Rows of the time series, and the trait of their consumers.

use super::facts::{Connection, From};

/// What a packet means to its own direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Meaning {
    /// New data, SYN or FIN, in order.
    New = 0,
    /// No data: an ACK that moves on, or opens the window.
    Ack = 1,
    /// An ACK that repeats the last one.
    DuplicateAck = 2,
    /// New data out of place.
    OutOfOrder = 3,
    /// Sent again after a time-out.
    Timeout = 4,
    /// Sent again after duplicate ACKs or SACK blocks.
    Fast = 5,
    /// Sent again to probe the tail.
    TailProbe = 6,
    /// SYN or SYN/ACK sent again.
    Handshake = 7,
    /// Sent again for no visible reason.
    Unexplained = 8,
    /// A copy made on the way.
    Copy = 9,
    /// Keep-alive.
    KeepAlive = 10,
    /// Probe of a closed window.
    WindowProbe = 11,
    /// RST.
    Reset = 12,
}

impl Meaning {
    /// Names in the order of their numbers, as in tables and files.
    pub const NAMES: [&'static str; 13] = [
        "new",
        "ack",
        "duplicate_ack",
        "out_of_order",
        "timeout",
        "fast",
        "tail_probe",
        "handshake",
        "unexplained",
        "copy",
        "keep_alive",
        "window_probe",
        "reset",
    ];

    /// Whether it was sent again.
    #[must_use]
    pub const fn is_retransmission(self) -> bool {
        matches!(self, Self::Timeout | Self::Fast | Self::TailProbe | Self::Handshake | Self::Unexplained)
    }
}

/// A packet of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRow {
    /// Connection.
    pub connection: u32,
    /// Sender.
    pub from: From,
    /// Time, ns since 1970.
    pub time_ns: i64,
    /// First sequence number, counted from the side's initial one (0: its SYN) and continued beyond 32 bits;
    /// from the first packet if the SYN was not captured.
    pub seq: i64,
    /// Payload, bytes.
    pub payload_bytes: u32,
    /// Of these, bytes that were not seen before: all rows of a side add up to its `unique_bytes`. The byte of a
    /// window probe, once accepted, counts in the next packet with data or FIN.
    pub new_bytes: u32,
    /// Acknowledgement, counted as the other side's `seq` is.
    pub ack: i64,
    /// Window, scaled, bytes.
    pub window_bytes: u32,
    /// The flags of byte 13 (RFC 9293 section 3.1).
    pub flags: u8,
    /// What it means.
    pub meaning: Meaning,
    /// Data of its sender sent and not yet acknowledged, after this packet, bytes.
    pub flight_bytes: u32,
    /// SACK blocks in it.
    pub sack_blocks: u8,
    /// Its time stamp by the clock of its sender (`TSval`, RFC 7323 section 3.2).
    pub tsval: Option<u32>,
}

/// How a round trip was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Method {
    /// By the ACK of data that was sent once.
    Ack = 0,
    /// By the time-stamp option.
    Timestamp = 1,
    /// By the time-stamp option, from an ACK without data to the data that it released: where data is received,
    /// the only way to see the path.
    Echo = 2,
}

/// A round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RttRow {
    /// Connection.
    pub connection: u32,
    /// Sender of the data, or of the ACK that was echoed.
    pub from: From,
    /// When the answer was captured, ns since 1970.
    pub time_ns: i64,
    /// How long after what it answers, ns.
    pub rtt_ns: u64,
    /// End of the data answered, or of all data before the ACK echoed, as `SegmentRow::seq` counts.
    pub seq: i64,
    /// How it was measured.
    pub method: Method,
}

/// A SACK block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SackRow {
    /// Connection.
    pub connection: u32,
    /// Sender of the block, which received the data.
    pub from: From,
    /// Time, ns since 1970.
    pub time_ns: i64,
    /// First byte of the other side that it covers.
    pub left: i64,
    /// First byte after it.
    pub right: i64,
    /// Whether it reports a duplicate (RFC 2883).
    pub duplicate: bool,
}

/// Takes findings as they are made.
pub trait Sink {
    /// Whether rows are wanted; otherwise only `connection` is called.
    const ROWS: bool;
    /// A connection is over, or the capture is.
    fn connection(&mut self, connection: Connection);
    /// A packet.
    fn segment(&mut self, _row: &SegmentRow) {}
    /// A round trip.
    fn rtt(&mut self, _row: &RttRow) {}
    /// A SACK block.
    fn sack(&mut self, _row: &SackRow) {}
}
