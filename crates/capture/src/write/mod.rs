//! pcapng written (draft-ietf-opsawg-pcapng): blocks appended to a buffer, which the caller brings to a file.
//!
//! Numbers are little-endian and times are nanoseconds, whatever the machine. Nothing is allocated per packet
//! once the buffer has its size.

mod options;

#[cfg(test)]
mod tests;

use crate::{Direction, LinkType};
use options::{END_OF_OPTIONS, number, option, text};

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;
const ORDER_MARK: u32 = 0x1a2b_3c4d;
const VERSION: [u16; 2] = [1, 0];
/// The section is as long as the file.
const LENGTH_UNKNOWN: u64 = u64::MAX;

/// Where and by which program a file is written. Empty texts are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// The machine.
    pub hardware: String,
    /// Its operating system.
    pub os: String,
    /// The program, with its version.
    pub application: String,
    /// Anything else a reader should know.
    pub comment: String,
}

/// An interface. Empty texts are left out, as is an address of zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its link type.
    pub link: LinkType,
    /// Most bytes of a frame that are kept.
    pub snap_bytes: u32,
    /// Its name.
    pub name: String,
    /// Its description.
    pub description: String,
    /// Ethernet address.
    pub mac: [u8; 6],
    /// Expression of libpcap that frames had to match.
    pub filter: String,
    /// Its operating system.
    pub os: String,
}

/// A frame to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// ns since 1970; a time before is written as 0.
    pub time_ns: i64,
    /// Place among the interfaces of the section.
    pub interface: u32,
    /// Which way it went; written unless unknown.
    pub direction: Direction,
    /// Frames of the interface that were lost since the one before; written unless 0.
    pub lost_before: u64,
    /// Length on the link.
    pub original_len: u32,
    /// What is kept of it.
    pub data: &'a [u8],
}

/// What became of the frames of an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// From when they are counted, ns since 1970.
    pub start_ns: i64,
    /// Until when.
    pub end_ns: i64,
    /// Frames that came.
    pub received: u64,
    /// Frames lost for lack of room before the filter saw them.
    pub dropped: u64,
    /// Frames that the filter let pass.
    pub accepted: u64,
    /// Frames in the file.
    pub delivered: u64,
}

/// Appends the header of a section, with which a file begins.
pub fn section(out: &mut Vec<u8>, section: &Section) {
    block(out, SECTION, |out| {
        out.extend_from_slice(&ORDER_MARK.to_le_bytes());
        out.extend(VERSION.iter().flat_map(|part| part.to_le_bytes()));
        out.extend_from_slice(&LENGTH_UNKNOWN.to_le_bytes());
        text(out, options::COMMENT, &section.comment);
        text(out, options::SHB_HARDWARE, &section.hardware);
        text(out, options::SHB_OS, &section.os);
        text(out, options::SHB_USERAPPL, &section.application);
        option(out, END_OF_OPTIONS, &[]);
    });
}

/// Appends the description of the next interface.
pub fn interface(out: &mut Vec<u8>, interface: &Interface) {
    block(out, INTERFACE, |out| {
        out.extend_from_slice(&interface.link.0.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&interface.snap_bytes.to_le_bytes());
        text(out, options::IF_NAME, &interface.name);
        text(out, options::IF_DESCRIPTION, &interface.description);
        if interface.mac != [0; 6] {
            option(out, options::IF_MAC, &interface.mac);
        }
        option(out, options::IF_TSRESOL, &[options::NANOSECONDS]);
        if !interface.filter.is_empty() {
            option(out, options::IF_FILTER, &options::filter_value(&interface.filter));
        }
        text(out, options::IF_OS, &interface.os);
        option(out, END_OF_OPTIONS, &[]);
    });
}

const PACKET_HEAD_BYTES: usize = 28;
/// Padding, two options, their end, and the length again.
const PACKET_TAIL_BYTES: usize = 3 + 8 + 12 + 4 + 4;

/// Most bytes that [`frame`] appends for `data_len` bytes of a frame.
#[must_use]
pub const fn frame_bytes_at_most(data_len: usize) -> usize {
    PACKET_HEAD_BYTES + data_len + PACKET_TAIL_BYTES
}

/// Appends a frame.
pub fn frame(out: &mut Vec<u8>, frame: &Frame<'_>) {
    let mut tail = Tail { bytes: [0; PACKET_TAIL_BYTES], len: 0 };
    tail.len = frame.data.len().next_multiple_of(4) - frame.data.len();
    let flags = direction_flags(frame.direction);
    if flags != 0 {
        tail.push(&options::EPB_FLAGS.to_le_bytes());
        tail.push(&4_u16.to_le_bytes());
        tail.push(&flags.to_le_bytes());
    }
    if frame.lost_before != 0 {
        tail.push(&options::EPB_DROPCOUNT.to_le_bytes());
        tail.push(&8_u16.to_le_bytes());
        tail.push(&frame.lost_before.to_le_bytes());
    }
    if flags != 0 || frame.lost_before != 0 {
        tail.push(&[0; 4]);
    }
    let length = (PACKET_HEAD_BYTES + frame.data.len() + tail.len + 4) as u32;
    tail.push(&length.to_le_bytes());

    let time = ticks(frame.time_ns);
    let words = [
        ENHANCED_PACKET,
        length,
        frame.interface,
        (time >> 32) as u32,
        time as u32,
        frame.data.len() as u32,
        frame.original_len,
    ];
    let mut head = [0; PACKET_HEAD_BYTES];
    for (bytes, word) in head.chunks_exact_mut(4).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    out.reserve(length as usize);
    out.extend_from_slice(&head);
    out.extend_from_slice(frame.data);
    out.extend_from_slice(&tail.bytes[..tail.len]);
}

/// Bits 0 and 1 of `epb_flags`.
const fn direction_flags(direction: Direction) -> u32 {
    match direction {
        Direction::Unknown => 0,
        Direction::Inbound => 1,
        Direction::Outbound => 2,
    }
}

/// What follows a frame's bytes; on the stack, so that one copy appends it.
struct Tail {
    bytes: [u8; PACKET_TAIL_BYTES],
    len: usize,
}

impl Tail {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
}

/// Appends the account of an interface, with which a file ends.
pub fn statistics(out: &mut Vec<u8>, interface: u32, statistics: &Statistics) {
    block(out, STATISTICS, |out| {
        out.extend_from_slice(&interface.to_le_bytes());
        out.extend_from_slice(&time_bytes(statistics.end_ns));
        option(out, options::ISB_STARTTIME, &time_bytes(statistics.start_ns));
        option(out, options::ISB_ENDTIME, &time_bytes(statistics.end_ns));
        number(out, options::ISB_IFRECV, statistics.received);
        number(out, options::ISB_IFDROP, statistics.dropped);
        number(out, options::ISB_FILTERACCEPT, statistics.accepted);
        number(out, options::ISB_USRDELIV, statistics.delivered);
        option(out, END_OF_OPTIONS, &[]);
    });
}

/// Appends a block with its length at both ends.
fn block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    body(out);
    let length = (out.len() - start + 4) as u32;
    out[start + 4..start + 8].copy_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&length.to_le_bytes());
}

/// Ticks of an interface whose `if_tsresol` is 9.
fn ticks(time_ns: i64) -> u64 {
    u64::try_from(time_ns).unwrap_or(0)
}

/// A time as its upper and its lower 32 bits, each little-endian.
fn time_bytes(time_ns: i64) -> [u8; 8] {
    ticks(time_ns).rotate_left(32).to_le_bytes()
}
