//! libpcap's format (draft-ietf-opsawg-pcap): a header, then records.

use super::interface::Interface;
use super::numbers::Order;
use super::{CaptureError, Direction, LinkType, MAX_RECORD_BYTES, Record, Step};

/// Length of the header of the file.
pub const HEADER_LEN: usize = 24;
const RECORD_LEN: usize = 16;
/// Records of a variant by Kuznetsov have 8 more bytes: interface, protocol and packet type.
const RECORD_LEN_MODIFIED: usize = 24;

const MICRO: u32 = 0xa1b2_c3d4;
const NANO: u32 = 0xa1b2_3c4d;
const MODIFIED: u32 = 0xa1b2_cd34;

/// Packet type in a modified record: "outgoing", as in `linux/if_packet.h`.
const PACKET_OUTGOING: u8 = 4;

/// Where a record has the lengths of its packet. Before version 2.4 they were the other way round; in files of
/// 2.3 only in some, as libpcap's `sf-pcap.c` knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lengths {
    CapturedFirst,
    OriginalFirst,
    /// The captured part is not longer than the packet.
    ShorterIsCaptured,
}

impl Lengths {
    const fn of_version(major: u16, minor: u16) -> Self {
        match (major, minor) {
            // 543.0 is tcpdump's of DG/UX.
            (2, 0..=2) | (543, _) => Self::OriginalFirst,
            (2, 3) => Self::ShorterIsCaptured,
            _ => Self::CapturedFirst,
        }
    }
}

/// The contents of the header.
#[derive(Debug)]
pub struct Pcap {
    order: Order,
    fraction_ns: i64,
    record_len: usize,
    lengths: Lengths,
    link: LinkType,
    /// The only one, whose link type and snap length are in the header.
    pub interface: Interface,
}

impl Pcap {
    /// `None` if the first four bytes are not those of pcap.
    pub fn from_header(head: &[u8]) -> Option<Self> {
        let (order, magic) = [Order::Little, Order::Big]
            .into_iter()
            .map(|order| (order, order.u32(head, 0)))
            .find(|(_, magic)| matches!(*magic, MICRO | NANO | MODIFIED))?;
        // The upper 16 bits say whether there is a frame check sequence.
        let link = LinkType((order.u32(head, 20) & 0xffff) as u16);
        Some(Self {
            order,
            fraction_ns: if magic == NANO { 1 } else { 1_000 },
            record_len: if magic == MODIFIED { RECORD_LEN_MODIFIED } else { RECORD_LEN },
            lengths: Lengths::of_version(order.u16(head, 4), order.u16(head, 6)),
            link,
            interface: Interface { link, snap_bytes: order.u32(head, 16), ..Interface::default() },
        })
    }

    /// The packet at the front of `bytes` if it is complete: the usual case, and quick.
    #[inline]
    pub fn front(&mut self, bytes: &[u8]) -> Option<Record> {
        let head = bytes.get(..self.record_len)?;
        let (captured, original) = self.lengths(head);
        let used = self.record_len + captured as usize;
        if captured as usize > MAX_RECORD_BYTES || bytes.len() < used {
            return None;
        }
        let (interface, direction) = match head.get(16..23) {
            Some(more) if more[6] == PACKET_OUTGOING => (self.order.u32(more, 0), Direction::Outbound),
            Some(more) => (self.order.u32(more, 0), Direction::Inbound),
            None => (0, Direction::Unknown),
        };
        self.interface.packets += 1;
        Some(Record {
            time_ns: self.time_ns(head),
            link: self.link,
            interface,
            direction,
            original_len: original.max(captured),
            lost_before: 0,
            data: self.record_len..used,
            used,
        })
    }

    /// The time of the packet at the front of `bytes`, and the bytes of its record.
    pub fn peek(&self, bytes: &[u8]) -> Option<(i64, usize)> {
        let head = bytes.get(..self.record_len)?;
        Some((self.time_ns(head), self.record_len.saturating_add(self.lengths(head).0 as usize)))
    }

    /// Never beyond MAX_TIME_NS: both numbers have 32 bits.
    #[inline]
    fn time_ns(&self, head: &[u8]) -> i64 {
        i64::from(self.order.u32(head, 0)) * 1_000_000_000
            + i64::from(self.order.u32(head, 4)) * self.fraction_ns
    }

    /// How much of the packet was captured, and its length.
    #[inline]
    fn lengths(&self, record: &[u8]) -> (u32, u32) {
        let (first, second) = (self.order.u32(record, 8), self.order.u32(record, 12));
        match self.lengths {
            Lengths::CapturedFirst => (first, second),
            Lengths::OriginalFirst => (second, first),
            Lengths::ShorterIsCaptured => (first.min(second), first.max(second)),
        }
    }

    /// What is at the front of `bytes`.
    pub fn step(&mut self, bytes: &[u8], offset: u64) -> Result<Step, CaptureError> {
        if bytes.len() < self.record_len {
            return Ok(Step::More { needed: self.record_len });
        }
        let captured = self.lengths(bytes).0 as usize;
        if captured > MAX_RECORD_BYTES {
            return Err(CaptureError::Length { offset, what: "a packet", bytes: captured as u64 });
        }
        Ok(self.front(bytes).map_or(Step::More { needed: self.record_len + captured }, Step::Packet))
    }
}
