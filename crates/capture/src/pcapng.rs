//! pcapng (draft-ietf-opsawg-pcapng): sections of blocks, several interfaces with clocks of their own.

use super::{CaptureError, LinkType, MAX_RECORD_BYTES, Order, Record, Step};

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
/// Replaced by the enhanced packet block, and still found in old files.
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
const ORDER_MARK: u32 = 0x1a2b_3c4d;

/// Type and length in front, length behind.
const FRAME_LEN: usize = 12;
const MAX_INTERFACES: usize = 1 << 16;

const END_OF_OPTIONS: u16 = 0;
const IF_TSRESOL: u16 = 9;
const IF_TSOFFSET: u16 = 14;

/// Are these the first bytes of a section?
pub fn begins(head: &[u8]) -> bool {
    Order::Little.u32(head, 0) == SECTION
}

/// What the blocks until now said.
#[derive(Debug)]
pub struct Pcapng {
    order: Order,
    interfaces: Vec<Interface>,
}

impl Default for Pcapng {
    fn default() -> Self {
        Self { order: Order::Little, interfaces: Vec::new() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Interface {
    link: LinkType,
    clock: Clock,
    offset_ns: i64,
}

/// How long a tick of an interface's time stamps is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clock {
    /// This many ns: the usual case.
    Ns(u64),
    /// This many ticks make a second.
    PerSecond(u128),
}

impl Clock {
    /// Of the option `if_tsresol`.
    fn of(resolution: u8) -> Option<Self> {
        let exponent = u32::from(resolution & 0x7f);
        if resolution & 0x80 != 0 {
            return 1_u128.checked_shl(exponent).filter(|n| *n > 0).map(Self::PerSecond);
        }
        match exponent {
            0..=9 => Some(Self::Ns(10_u64.pow(9 - exponent))),
            _ => 10_u128.checked_pow(exponent).map(Self::PerSecond),
        }
    }

    fn ns(self, ticks: u64) -> i64 {
        match self {
            Self::Ns(tick) => i64::try_from(u128::from(ticks) * u128::from(tick)).unwrap_or(i64::MAX),
            Self::PerSecond(rate) => {
                i64::try_from(u128::from(ticks) * 1_000_000_000 / rate).unwrap_or(i64::MAX)
            }
        }
    }
}

impl Pcapng {
    /// What lies in front of `bytes`.
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
        let length = self.order.u32(bytes, 4) as usize;
        let minimum = match kind {
            SECTION => 28,
            INTERFACE => 20,
            ENHANCED_PACKET | PACKET => 32,
            SIMPLE_PACKET => 16,
            _ => FRAME_LEN,
        };
        if length < minimum {
            return Err(CaptureError::Length { offset, what: "a block", bytes: length as u64 });
        }
        // Some writers leave the padding to 32 bits out of the length.
        let used = length.next_multiple_of(4);
        if !matches!(kind, SECTION | INTERFACE | ENHANCED_PACKET | PACKET) {
            let step = if kind == SIMPLE_PACKET { Step::Timeless { used } } else { Step::Skip { used } };
            return Ok(step);
        }
        if length > MAX_RECORD_BYTES {
            return Err(CaptureError::Length { offset, what: "a block", bytes: length as u64 });
        }
        if bytes.len() < used {
            return Ok(Step::More { needed: used });
        }
        let behind = self.order.u32(bytes, used - 4) as usize;
        if behind != length {
            return Err(CaptureError::Length {
                offset,
                what: "a block that does not end with its length,",
                bytes: length as u64,
            });
        }
        let block = &bytes[..used - 4];
        match kind {
            SECTION => self.interfaces.clear(),
            INTERFACE => self.describe(block, offset)?,
            _ => return self.packet(kind, block, offset, used),
        }
        Ok(Step::Skip { used })
    }

    fn describe(&mut self, block: &[u8], offset: u64) -> Result<(), CaptureError> {
        if self.interfaces.len() == MAX_INTERFACES {
            let known = self.interfaces.len();
            return Err(CaptureError::Interface { offset, interface: known as u32, known });
        }
        let mut interface =
            Interface { link: LinkType(self.order.u16(block, 8)), clock: Clock::Ns(1_000), offset_ns: 0 };
        let mut at = 16;
        while at + 4 <= block.len() {
            let (code, length) = (self.order.u16(block, at), self.order.u16(block, at + 2) as usize);
            let Some(value) = block.get(at + 4..at + 4 + length) else { break };
            match (code, value) {
                (END_OF_OPTIONS, _) => break,
                (IF_TSRESOL, &[resolution]) => {
                    interface.clock =
                        Clock::of(resolution).ok_or(CaptureError::Clock { offset, resolution })?;
                }
                (IF_TSOFFSET, value) if length == 8 => {
                    let (first, second) = (self.order.u32(value, 0), self.order.u32(value, 4));
                    let (high, low) =
                        if self.order == Order::Big { (first, second) } else { (second, first) };
                    let seconds = (i64::from(high) << 32) | i64::from(low);
                    interface.offset_ns = seconds.saturating_mul(1_000_000_000);
                }
                _ => {}
            }
            at += 4 + length.next_multiple_of(4);
        }
        self.interfaces.push(interface);
        Ok(())
    }

    fn packet(&self, kind: u32, block: &[u8], offset: u64, used: usize) -> Result<Step, CaptureError> {
        let id = if kind == PACKET { self.order.u16(block, 8).into() } else { self.order.u32(block, 8) };
        let Some(interface) = self.interfaces.get(id as usize) else {
            return Err(CaptureError::Interface { offset, interface: id, known: self.interfaces.len() });
        };
        let captured = self.order.u32(block, 20) as usize;
        if captured > block.len() - 28 {
            return Err(CaptureError::Length { offset, what: "a packet", bytes: captured as u64 });
        }
        let ticks = (u64::from(self.order.u32(block, 12)) << 32) | u64::from(self.order.u32(block, 16));
        let record = Record {
            time_ns: interface.clock.ns(ticks).saturating_add(interface.offset_ns),
            link: interface.link,
            interface: id,
            original_len: self.order.u32(block, 24).max(captured as u32),
            data: 28..28 + captured,
        };
        Ok(Step::Packet { record, used })
    }
}
