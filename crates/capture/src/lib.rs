//! Capture files as a stream of packets: pcap and pcapng, bare or compressed.
//!
//! The parsers ([`pcap`], [`pcapng`]) look at a slice and return what is at its front, or how much more they
//! need; [`Capture`] fills the slice from any [`Read`](std::io::Read). It holds one record at a time.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]

mod compressed;
pub mod cut;
mod error;
pub mod filter;
mod interface;
mod numbers;
mod pcap;
mod pcapng;
mod reader;
pub mod write;

use std::ops::Range;

pub use compressed::Compression;
pub use error::CaptureError;
pub use filter::{Filter, FilterError, Instruction};
pub use interface::{Interface, Statistics};
pub use reader::{Capture, Redated, open};

/// Longest record that is accepted; libpcap's own limit (MAXIMUM_SNAPLEN) is 256 KiB, USB captures have more.
pub const MAX_RECORD_BYTES: usize = 16 << 20;

/// Times lie within this many ns of 1970 (the years 1824 to 2116), so that differences of them fit into i64.
pub const MAX_TIME_NS: i64 = 1 << 62;

/// A link type as registered for pcap ("LINKTYPE_...").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkType(pub u16);

/// Which way a packet went, seen from the interface that captured it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The file does not say.
    #[default]
    Unknown,
    /// It came in.
    Inbound,
    /// It went out.
    Outbound,
}

/// One packet of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Time of capture, ns since 1970; less than [`MAX_TIME_NS`] from there. If only this packet's time in the file
    /// is far from those of its neighbours, the time of the packet before it.
    pub time_ns: i64,
    /// The same as it is in the file.
    pub stated_ns: i64,
    /// The link type of `data`.
    pub link: LinkType,
    /// Interface within its section of a pcapng file, number of the interface in modified pcap, 0 in pcap.
    pub interface: u32,
    /// Which way it went.
    pub direction: Direction,
    /// Length on the link; more than `data` has if the capture cut it short.
    pub original_len: u32,
    /// Packets lost between the previous one of this interface and this one, if the file says so.
    pub lost_before: u64,
    /// What was captured.
    pub data: &'a [u8],
}

impl<'a> Packet<'a> {
    /// A completely captured packet of which nothing else is known.
    #[must_use]
    pub const fn new(time_ns: i64, link: LinkType, data: &'a [u8]) -> Self {
        Self {
            time_ns,
            stated_ns: time_ns,
            link,
            interface: 0,
            direction: Direction::Unknown,
            original_len: data.len() as u32,
            lost_before: 0,
            data,
        }
    }
}

/// Format of a capture file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// libpcap's.
    Pcap,
    /// Blocks, several interfaces.
    Pcapng,
}

/// A record in the slice that a parser was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub time_ns: i64,
    pub link: LinkType,
    pub interface: u32,
    pub direction: Direction,
    pub original_len: u32,
    pub lost_before: u64,
    pub data: Range<usize>,
    /// Bytes of the whole record.
    pub used: usize,
}

/// What is at the front.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A packet.
    Packet(Record),
    /// Something else of `used` bytes.
    Skip { used: usize },
    /// A block that is not needed here, and need not be in the slice: `used` bytes, of which the last four
    /// repeat its `length`.
    Foreign { used: usize, length: u32 },
    /// A packet without a time, in such a block.
    Timeless { used: usize, length: u32 },
    /// A packet with a time beyond [`MAX_TIME_NS`], in such a block.
    Misdated { used: usize, length: u32 },
    /// This many bytes are needed to decide.
    More { needed: usize },
}

#[cfg(test)]
mod tests;
