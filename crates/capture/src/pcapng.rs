//! pcapng (draft-ietf-opsawg-pcapng): sections of blocks, several interfaces with their own clocks.

use super::interface::{Interface, Statistics, text};
use super::numbers::Order;
use super::{CaptureError, Direction, LinkType, MAX_RECORD_BYTES, MAX_TIME_NS, Record, Step};

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
/// Replaced by the enhanced packet block, and still found in old files.
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;
const ORDER_MARK: u32 = 0x1a2b_3c4d;

/// Type and length in front, length behind.
const FRAME_LEN: usize = 12;
/// The same, plus what a packet block has before the packet.
const PACKET_LEN: usize = 32;
/// Of a section; a packet may name no more.
const MAX_INTERFACES: usize = 1 << 16;
/// Of all sections, whose facts are kept.
const MAX_FACTS: usize = 1 << 12;

const IF_NAME: u16 = 2;
const IF_DESCRIPTION: u16 = 3;
const IF_TSRESOL: u16 = 9;
const IF_FILTER: u16 = 11;
const IF_TSOFFSET: u16 = 14;
const EPB_FLAGS: u16 = 2;
const EPB_DROPCOUNT: u16 = 4;
const ISB_IFRECV: u16 = 4;
const ISB_IFDROP: u16 = 5;
const ISB_FILTERACCEPT: u16 = 6;
const ISB_OSDROP: u16 = 7;
const ISB_USRDELIV: u16 = 8;

/// Whether these are the first bytes of a section.
pub fn begins(head: &[u8]) -> bool {
    Order::Little.u32(head, 0) == SECTION
}

/// The contents of the blocks so far.
#[derive(Debug)]
pub struct Pcapng {
    order: Order,
    sections: u32,
    /// Of this section.
    sources: Vec<Source>,
    /// Of all sections.
    pub interfaces: Vec<Interface>,
}

impl Default for Pcapng {
    fn default() -> Self {
        Self { order: Order::Little, sections: 0, sources: Vec::new(), interfaces: Vec::new() }
    }
}

/// What is needed to read a packet of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Source {
    link: LinkType,
    clock: Clock,
    offset_ns: i64,
    /// Place in `interfaces`; none if there are too many.
    facts: Option<usize>,
}

/// How long a tick of an interface's time stamps is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clock {
    /// This many ns: the usual case.
    Ns(u64),
    /// This many ticks make a ns.
    PerNs(u64),
    /// Two to the power of this many ticks make a second.
    Binary(u32),
}

impl Clock {
    /// Of the option `if_tsresol`.
    fn of(resolution: u8) -> Option<Self> {
        let exponent = u32::from(resolution & 0x7f);
        match (resolution & 0x80, exponent) {
            (0, 0..=9) => Some(Self::Ns(10_u64.pow(9 - exponent))),
            (0, _) => 10_u64.checked_pow(exponent - 9).map(Self::PerNs),
            _ => Some(Self::Binary(exponent)),
        }
    }

    /// `None` for a time that no clock shows.
    #[inline]
    fn ns(self, ticks: u64) -> Option<i64> {
        let ns = match self {
            Self::Ns(tick) => ticks.checked_mul(tick)?,
            Self::PerNs(ticks_per_ns) => ticks / ticks_per_ns,
            Self::Binary(exponent) => u64::try_from((u128::from(ticks) * 1_000_000_000) >> exponent).ok()?,
        };
        i64::try_from(ns).ok()
    }
}

impl Pcapng {
    /// The packet at the front of `bytes` if it is complete and nothing is wrong: the usual case, and quick.
    #[inline]
    pub fn front(&mut self, bytes: &[u8]) -> Option<Record> {
        let head = bytes.get(..PACKET_LEN)?;
        let old = match self.order.u32(head, 0) {
            ENHANCED_PACKET => false,
            PACKET => true,
            _ => return None,
        };
        let length = self.order.u32(head, 4) as usize;
        let used = length.next_multiple_of(4);
        if !(PACKET_LEN..=MAX_RECORD_BYTES).contains(&length) || bytes.len() < used {
            return None;
        }
        let captured = self.order.u32(head, 20);
        if self.order.u32(bytes, used - 4) as usize != length || captured as usize > used - PACKET_LEN {
            return None;
        }
        let (id, source, time_ns) = self.origin(head, old)?;
        let end = 28 + captured as usize;
        let options = &bytes[end.next_multiple_of(4).min(used - 4)..used - 4];
        let (direction, mut lost_before) =
            if options.is_empty() { (Direction::Unknown, 0) } else { self.packet_options(options) };
        if old {
            // The old block has its own counter, all ones if it is not known.
            lost_before = Some(self.order.u16(head, 10)).filter(|n| *n != u16::MAX).unwrap_or(0).into();
        }
        if let Some(interface) = source.facts.and_then(|at| self.interfaces.get_mut(at)) {
            interface.packets += 1;
            interface.lost_between = interface.lost_between.saturating_add(lost_before);
        }
        Some(Record {
            time_ns,
            link: source.link,
            interface: id,
            direction,
            original_len: self.order.u32(head, 24).max(captured),
            lost_before,
            data: 28..end,
            used,
        })
    }

    /// The time of the packet at the front of `bytes`, if it has one, and the bytes of its block.
    pub fn peek(&self, bytes: &[u8]) -> Option<(i64, usize)> {
        let head = bytes.get(..PACKET_LEN)?;
        let kind = self.order.u32(head, 0);
        let is_packet = matches!(kind, ENHANCED_PACKET | PACKET);
        let (_, _, time_ns) = is_packet.then(|| self.origin(head, kind == PACKET))??;
        Some((time_ns, (self.order.u32(head, 4) as usize).next_multiple_of(4)))
    }

    /// The interface of a packet, and its time; `None` if either cannot be.
    #[inline]
    fn origin(&self, head: &[u8], old: bool) -> Option<(u32, Source, i64)> {
        let id = if old { self.order.u16(head, 8).into() } else { self.order.u32(head, 8) };
        let source = *self.sources.get(id as usize)?;
        let ticks = (u64::from(self.order.u32(head, 12)) << 32) | u64::from(self.order.u32(head, 16));
        let time_ns = source.clock.ns(ticks)?.checked_add(source.offset_ns)?;
        (time_ns.unsigned_abs() < MAX_TIME_NS as u64).then_some((id, source, time_ns))
    }

    fn packet_options(&self, options: &[u8]) -> (Direction, u64) {
        let mut found = (Direction::Unknown, 0);
        for (code, value) in self.order.options(options) {
            match (code, value.len()) {
                (EPB_FLAGS, 4) => {
                    found.0 = match self.order.u32(value, 0) & 3 {
                        1 => Direction::Inbound,
                        2 => Direction::Outbound,
                        _ => Direction::Unknown,
                    }
                }
                (EPB_DROPCOUNT, 8) => found.1 = self.order.u64(value, 0),
                _ => {}
            }
        }
        found
    }

    /// What is at the front of `bytes`.
    pub fn step(&mut self, bytes: &[u8], offset: u64) -> Result<Step, CaptureError> {
        if bytes.len() < FRAME_LEN {
            return Ok(Step::More { needed: FRAME_LEN });
        }
        if begins(bytes) {
            self.order = match (Order::Little.u32(bytes, 8), Order::Big.u32(bytes, 8)) {
                (ORDER_MARK, _) => Order::Little,
                (_, ORDER_MARK) => Order::Big,
                _ => return Err(CaptureError::ByteOrder { offset }),
            };
        }
        let kind = self.order.u32(bytes, 0);
        let length = self.order.u32(bytes, 4);
        let minimum = match kind {
            SECTION => 28,
            INTERFACE => 20,
            STATISTICS => 24,
            ENHANCED_PACKET | PACKET => PACKET_LEN,
            SIMPLE_PACKET => 16,
            _ => FRAME_LEN,
        };
        let wrong = |what| Err(CaptureError::Length { offset, what, bytes: u64::from(length) });
        if (length as usize) < minimum {
            return wrong("a block");
        }
        // Some writers leave the padding to 32 bits out of the length.
        let used = (length as usize).next_multiple_of(4);
        match kind {
            SECTION | INTERFACE | STATISTICS | ENHANCED_PACKET | PACKET => {}
            SIMPLE_PACKET => return Ok(Step::Timeless { used, length }),
            _ => return Ok(Step::Foreign { used, length }),
        }
        if length as usize > MAX_RECORD_BYTES {
            return wrong("a block");
        }
        if bytes.len() < used {
            return Ok(Step::More { needed: used });
        }
        if self.order.u32(bytes, used - 4) != length {
            return wrong("a block that does not end with its length,");
        }
        let block = &bytes[..used - 4];
        match kind {
            SECTION => {
                self.sections = self.sections.saturating_add(1);
                self.sources.clear();
            }
            INTERFACE => self.describe(block, offset)?,
            STATISTICS => self.count(block, offset)?,
            _ => return self.packet(kind, bytes, offset, used),
        }
        Ok(Step::Skip { used })
    }

    /// A complete packet block, which may have errors.
    fn packet(&mut self, kind: u32, bytes: &[u8], offset: u64, used: usize) -> Result<Step, CaptureError> {
        let id = if kind == PACKET { self.order.u16(bytes, 8).into() } else { self.order.u32(bytes, 8) };
        self.source(id, offset)?;
        let captured = self.order.u32(bytes, 20);
        if captured as usize > used - PACKET_LEN {
            return Err(CaptureError::Length { offset, what: "a packet", bytes: captured.into() });
        }
        // Only the time can be wrong now.
        let length = self.order.u32(bytes, 4);
        Ok(self.front(bytes).map_or(Step::Misdated { used, length }, Step::Packet))
    }

    fn source(&self, id: u32, offset: u64) -> Result<&Source, CaptureError> {
        let known = self.sources.len();
        self.sources.get(id as usize).ok_or(CaptureError::Interface { offset, interface: id, known })
    }

    fn describe(&mut self, block: &[u8], offset: u64) -> Result<(), CaptureError> {
        let known = self.sources.len();
        if known == MAX_INTERFACES {
            return Err(CaptureError::Interface { offset, interface: known as u32, known });
        }
        let link = LinkType(self.order.u16(block, 8));
        let facts = Some(self.interfaces.len()).filter(|at| *at < MAX_FACTS);
        let mut source = Source { link, clock: Clock::Ns(1_000), offset_ns: 0, facts };
        let mut interface = Interface {
            section: self.sections.saturating_sub(1),
            id: known as u32,
            link,
            snap_bytes: self.order.u32(block, 12),
            ..Interface::default()
        };
        for (code, value) in self.order.options(&block[16..]) {
            match (code, value) {
                (IF_NAME, value) => interface.name = text(value),
                (IF_DESCRIPTION, value) => interface.description = text(value),
                // A string of libpcap; others are programs.
                (IF_FILTER, [0, value @ ..]) => interface.filter = text(value),
                (IF_TSRESOL, &[resolution]) => {
                    source.clock = Clock::of(resolution).ok_or(CaptureError::Clock { offset, resolution })?;
                }
                (IF_TSOFFSET, value) if value.len() == 8 => {
                    let seconds = self.order.u64(value, 0).cast_signed();
                    source.offset_ns = seconds.saturating_mul(1_000_000_000);
                }
                _ => {}
            }
        }
        self.sources.push(source);
        if facts.is_some() {
            self.interfaces.push(interface);
        }
        Ok(())
    }

    /// Statistics: counters since the beginning of the capture, so that the last ones count.
    fn count(&mut self, block: &[u8], offset: u64) -> Result<(), CaptureError> {
        let facts = self.source(self.order.u32(block, 8), offset)?.facts;
        let Some(interface) = facts.and_then(|at| self.interfaces.get_mut(at)) else { return Ok(()) };
        let Statistics { received, dropped, accepted, dropped_by_system, delivered } =
            &mut interface.statistics;
        for (code, value) in self.order.options(&block[20..]).filter(|(_, value)| value.len() == 8) {
            let place = match code {
                ISB_IFRECV => &mut *received,
                ISB_IFDROP => &mut *dropped,
                ISB_FILTERACCEPT => &mut *accepted,
                ISB_OSDROP => &mut *dropped_by_system,
                ISB_USRDELIV => &mut *delivered,
                _ => continue,
            };
            *place = Some(self.order.u64(value, 0));
        }
        Ok(())
    }
}
