//! libpcap's format (draft-ietf-opsawg-pcap): a header, then records.

use super::{CaptureError, LinkType, MAX_RECORD_BYTES, Order, Record, Step};

/// Length of the header of the file.
pub const HEADER_LEN: usize = 24;
const RECORD_LEN: usize = 16;
/// Records of a variant by Kuznetsov have 8 more bytes: interface, protocol and packet type.
const RECORD_LEN_MODIFIED: usize = 24;

const MICRO: u32 = 0xa1b2_c3d4;
const NANO: u32 = 0xa1b2_3c4d;
const MODIFIED: u32 = 0xa1b2_cd34;

/// What the header said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pcap {
    order: Order,
    fraction_ns: i64,
    record_len: usize,
    link: LinkType,
}

impl Pcap {
    /// None where the first four bytes are not those of pcap.
    pub fn from_header(head: &[u8]) -> Option<Self> {
        let (order, magic) = [Order::Little, Order::Big]
            .into_iter()
            .map(|order| (order, order.u32(head, 0)))
            .find(|(_, magic)| matches!(*magic, MICRO | NANO | MODIFIED))?;
        Some(Self {
            order,
            fraction_ns: if magic == NANO { 1 } else { 1_000 },
            record_len: if magic == MODIFIED { RECORD_LEN_MODIFIED } else { RECORD_LEN },
            // The upper 16 bits say whether there is a frame check sequence.
            link: LinkType((order.u32(head, 20) & 0xffff) as u16),
        })
    }

    /// What lies in front of `bytes`.
    pub fn step(&self, bytes: &[u8], offset: u64) -> Result<Step, CaptureError> {
        if bytes.len() < self.record_len {
            return Ok(Step::More { needed: self.record_len });
        }
        let captured = self.order.u32(bytes, 8) as usize;
        if captured > MAX_RECORD_BYTES {
            return Err(CaptureError::Length { offset, what: "a packet", bytes: captured as u64 });
        }
        let used = self.record_len + captured;
        if bytes.len() < used {
            return Ok(Step::More { needed: used });
        }
        let (seconds, fraction) = (self.order.u32(bytes, 0), self.order.u32(bytes, 4));
        let record = Record {
            time_ns: i64::from(seconds) * 1_000_000_000 + i64::from(fraction) * self.fraction_ns,
            link: self.link,
            interface: 0,
            original_len: self.order.u32(bytes, 12).max(captured as u32),
            data: self.record_len..used,
        };
        Ok(Step::Packet { record, used })
    }
}
