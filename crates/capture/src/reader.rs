//! A capture being read: the buffer between a stream of bytes and the parsers.

use std::io::{self, ErrorKind, Read};

use super::interface::Interface;
use super::pcap::{self, Pcap};
use super::pcapng::{self, Pcapng};
use super::{CaptureError, Compression, Format, MAX_RECORD_BYTES, Packet, Record, Step};

/// Bytes read at a time: many for the system, and few for the cache.
const CHUNK_BYTES: usize = 128 << 10;
/// A buffer that grew beyond this for one packet is made small again.
const KEPT_BYTES: usize = 1 << 20;
/// Clocks of several interfaces, and the buffers of captures, differ by less than this.
const FAR_NS: u64 = 2_000_000_000;
/// The least gap at the beginning or end of a capture that no network makes: a year.
const IMPOSSIBLE_NS: u64 = 365 * 86_400 * 1_000_000_000;
/// Share of its distance from a packet by which the packets around it may be apart, as a divisor.
const LONE: u64 = 4;
/// Bytes that show the time of any packet.
const HEAD_BYTES: usize = 32;
/// So many misdated packets in a row are recognised; more may be a clock that was set.
const MOST_IN_A_ROW: usize = 3;

#[derive(Debug)]
enum Parser {
    Pcap(Pcap),
    Pcapng(Pcapng),
}

impl Parser {
    #[inline]
    fn front(&mut self, bytes: &[u8]) -> Option<Record> {
        match self {
            Self::Pcap(parser) => parser.front(bytes),
            Self::Pcapng(parser) => parser.front(bytes),
        }
    }

    fn peek(&self, bytes: &[u8]) -> Option<(i64, usize)> {
        match self {
            Self::Pcap(parser) => parser.peek(bytes),
            Self::Pcapng(parser) => parser.peek(bytes),
        }
    }

    fn step(&mut self, bytes: &[u8], offset: u64) -> Result<Step, CaptureError> {
        match self {
            Self::Pcap(parser) => parser.step(bytes, offset),
            Self::Pcapng(parser) => parser.step(bytes, offset),
        }
    }
}

/// A capture being read.
pub struct Capture<R> {
    source: R,
    parser: Parser,
    compression: Compression,
    buffer: Vec<u8>,
    /// The unread part of `buffer`.
    begin: usize,
    end: usize,
    /// Of the buffer's first byte within the (decompressed) file.
    base: u64,
    ended: bool,
    cut_short: bool,
    timeless: u64,
    misdated: u64,
    foreign: u64,
    backwards: u64,
    redated: u64,
    first_redated: Option<Redated>,
    packets: u64,
    last_ns: i64,
}

/// A packet whose time in the file cannot be right: those before and after it are far from it, and close together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redated {
    /// Its number in the file, from 1.
    pub number: u64,
    /// How much later than the packet next to it the file says that it is, ns.
    pub off_ns: i64,
}

/// Opens a capture, decompressing it if its first bytes say so.
///
/// # Errors
/// [`CaptureError::Unknown`] for data that is not a capture, and read errors.
pub fn open<'a>(mut source: impl Read + 'a) -> Result<Capture<Box<dyn Read + 'a>>, CaptureError> {
    let mut head = [0; 4];
    let wrong = |source| CaptureError::Read { offset: 0, source };
    let length = fill(&mut source, &mut head).map_err(wrong)?;
    let compression = Compression::of(&head[..length]);
    if compression == Compression::None {
        // The bytes go directly into the buffer, without another copy.
        return Capture::new(Box::new(source), compression, &head[..length]);
    }
    let whole = io::Cursor::new(head).take(length as u64).chain(source);
    Capture::new(compression.reader(whole).map_err(wrong)?, compression, &[])
}

impl<R: Read> Capture<R> {
    /// `head` are bytes that come before those of `source`.
    fn new(source: R, compression: Compression, head: &[u8]) -> Result<Self, CaptureError> {
        let mut capture = Self {
            source,
            parser: Parser::Pcapng(Pcapng::default()),
            compression,
            buffer: vec![0; CHUNK_BYTES],
            begin: 0,
            end: head.len(),
            base: 0,
            ended: false,
            cut_short: false,
            timeless: 0,
            misdated: 0,
            foreign: 0,
            backwards: 0,
            redated: 0,
            first_redated: None,
            packets: 0,
            last_ns: i64::MIN,
        };
        capture.buffer[..head.len()].copy_from_slice(head);
        capture.need(pcap::HEADER_LEN)?;
        let head = &capture.buffer[..capture.end];
        if head.len() < pcap::HEADER_LEN {
            let bytes = head.len();
            return Err(match compression.name() {
                name if capture.cut_short && !name.is_empty() => CaptureError::CutShort { compression: name },
                _ => CaptureError::TooShort { bytes },
            });
        }
        if let Some(parser) = Pcap::from_header(head) {
            capture.parser = Parser::Pcap(parser);
            capture.begin = pcap::HEADER_LEN;
        } else if !pcapng::begins(head) {
            return Err(CaptureError::Unknown { found: [head[0], head[1], head[2], head[3]] });
        }
        Ok(capture)
    }

    /// The next packet; None at the end.
    ///
    /// # Errors
    /// [`CaptureError`] if the file is damaged; nothing more can be read then.
    #[inline]
    pub fn next_packet(&mut self) -> Result<Option<Packet<'_>>, CaptureError> {
        let record = match self.parser.front(&self.buffer[self.begin..self.end]) {
            Some(record) => record,
            None => match self.search()? {
                Some(record) => record,
                None => return Ok(None),
            },
        };
        self.packets += 1;
        let mut time_ns = record.time_ns;
        if time_ns.abs_diff(self.last_ns) > FAR_NS {
            time_ns = self.dated(&record)?;
        }
        self.backwards += u64::from(time_ns < self.last_ns);
        self.last_ns = time_ns;
        let bytes = &self.buffer[self.begin..self.end];
        self.begin += record.used;
        Ok(Some(Packet {
            time_ns,
            stated_ns: record.time_ns,
            link: record.link,
            interface: record.interface,
            direction: record.direction,
            original_len: record.original_len,
            lost_before: record.lost_before,
            data: &bytes[record.data],
        }))
    }

    /// The time of a packet that is far from the one before: that of its neighbour if only this one and a few are far off.
    #[cold]
    fn dated(&mut self, record: &Record) -> Result<i64, CaptureError> {
        let stated_ns = record.time_ns;
        let (behind, is_end) = self.times_behind(record.used)?;
        let last = (self.last_ns > i64::MIN).then_some(self.last_ns);
        let neighbour = match (last, behind.first()) {
            // Far from the one before, and from the one with which the time comes back.
            (Some(last), Some(_)) => (0..behind.len())
                .any(|at| {
                    let run = behind[..at].iter().chain([&stated_ns]);
                    let apart = run.map(|ns| ns.abs_diff(last).min(ns.abs_diff(behind[at]))).min();
                    apart.is_some_and(|apart| apart > FAR_NS && last.abs_diff(behind[at]) < apart / LONE)
                })
                .then_some(last),
            // The first one, and the last one: the silence beside them may be real.
            (None, Some(next)) => (stated_ns > next.saturating_add(FAR_NS as i64)
                || next.abs_diff(stated_ns) > IMPOSSIBLE_NS)
                .then_some(*next),
            (Some(last), None) if is_end => {
                (stated_ns < last || last.abs_diff(stated_ns) > IMPOSSIBLE_NS).then_some(last)
            }
            _ => None,
        };
        if let Some(neighbour) = neighbour {
            self.redated += 1;
            let first = Redated { number: self.packets, off_ns: stated_ns.saturating_sub(neighbour) };
            self.first_redated.get_or_insert(first);
        }
        Ok(neighbour.unwrap_or(stated_ns))
    }

    /// The times of the packets behind a record of `used` bytes, and whether the file ends with the record.
    fn times_behind(&mut self, used: usize) -> Result<(Vec<i64>, bool), CaptureError> {
        let mut times_ns = Vec::with_capacity(MOST_IN_A_ROW);
        let mut at = used;
        while times_ns.len() < MOST_IN_A_ROW && at.saturating_add(HEAD_BYTES) <= MAX_RECORD_BYTES {
            self.need(at + HEAD_BYTES)?;
            let bytes = self.buffer[self.begin..self.end].get(at..).unwrap_or_default();
            let Some((time_ns, next)) = self.parser.peek(bytes) else { break };
            times_ns.push(time_ns);
            at = at.saturating_add(next);
        }
        Ok((times_ns, self.end - self.begin == used))
    }

    /// The next packet if it is not simply in front: `begin` is then at its record.
    #[cold]
    fn search(&mut self) -> Result<Option<Record>, CaptureError> {
        loop {
            if self.begin == self.end && !self.need(1)? {
                return Ok(None);
            }
            let offset = self.offset();
            match self.parser.step(&self.buffer[self.begin..self.end], offset)? {
                Step::Packet(record) => return Ok(Some(record)),
                Step::Skip { used } => self.begin += used,
                Step::Timeless { used, length } => {
                    self.pass(used, length)?;
                    self.timeless += 1;
                }
                Step::Misdated { used, length } => {
                    self.pass(used, length)?;
                    self.misdated += 1;
                }
                Step::Foreign { used, length } => {
                    self.pass(used, length)?;
                    self.foreign += 1;
                }
                Step::More { needed } => {
                    if !self.need(needed)? {
                        self.cut_short = true;
                        self.begin = self.end;
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// pcap or pcapng.
    pub const fn format(&self) -> Format {
        match self.parser {
            Parser::Pcap(_) => Format::Pcap,
            Parser::Pcapng(_) => Format::Pcapng,
        }
    }

    /// The compression of the file.
    pub const fn compression(&self) -> Compression {
        self.compression
    }

    /// Interfaces described so far, section by section, and what is known about them; of a file with thousands,
    /// only the first ones.
    pub fn interfaces(&self) -> &[Interface] {
        match &self.parser {
            Parser::Pcap(parser) => std::slice::from_ref(&parser.interface),
            Parser::Pcapng(parser) => &parser.interfaces,
        }
    }

    /// Whether the file ends inside a record.
    pub const fn cut_short(&self) -> bool {
        self.cut_short
    }

    /// Packets that are left out because they have no time (pcapng's Simple Packet Blocks).
    pub const fn timeless(&self) -> u64 {
        self.timeless
    }

    /// Packets that are left out because their time is impossible: beyond [`super::MAX_TIME_NS`].
    pub const fn misdated(&self) -> u64 {
        self.misdated
    }

    /// Blocks of pcapng that were skipped: name resolution, secrets, and unknown ones.
    pub const fn foreign_blocks(&self) -> u64 {
        self.foreign
    }

    /// Packets whose time is before that of the packet before them.
    pub const fn backwards(&self) -> u64 {
        self.backwards
    }

    /// Packets whose time is that of their neighbour, because their own cannot be right.
    pub const fn redated(&self) -> u64 {
        self.redated
    }

    /// The first of these.
    pub const fn first_redated(&self) -> Option<Redated> {
        self.first_redated
    }

    /// Offset of what comes next in the (decompressed) file.
    pub const fn offset(&self) -> u64 {
        self.base + self.begin as u64
    }

    /// Memory of the buffer.
    #[cfg(test)]
    pub(crate) const fn buffer_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    /// Skips a block of `used` bytes that ends with its `length`, reading on if it is not in the
    /// buffer.
    fn pass(&mut self, used: usize, length: u32) -> Result<(), CaptureError> {
        let offset = self.offset();
        let mut left = used - 4;
        loop {
            let here = left.min(self.end - self.begin);
            self.begin += here;
            left -= here;
            if !self.need(if left == 0 { 4 } else { 1 })? {
                self.begin = self.end;
                self.cut_short = true;
                return Ok(());
            }
            if left == 0 {
                break;
            }
        }
        let behind = &self.buffer[self.begin..self.begin + 4];
        if behind != length.to_le_bytes() && behind != length.to_be_bytes() {
            let what = "a block that does not end with its length,";
            return Err(CaptureError::Length { offset, what, bytes: length.into() });
        }
        self.begin += 4;
        Ok(())
    }

    /// Makes sure that `needed` unread bytes are in the buffer; false if the file has fewer.
    fn need(&mut self, needed: usize) -> Result<bool, CaptureError> {
        debug_assert!(needed <= MAX_RECORD_BYTES + 24, "callers refuse what is longer");
        if self.end - self.begin >= needed {
            return Ok(true);
        }
        self.buffer.copy_within(self.begin..self.end, 0);
        self.base += self.begin as u64;
        self.end -= self.begin;
        self.begin = 0;
        if self.buffer.len() > KEPT_BYTES && self.end.max(needed) <= CHUNK_BYTES {
            self.buffer.truncate(CHUNK_BYTES);
            self.buffer.shrink_to_fit();
        }
        while self.end < needed && !self.ended {
            if self.buffer.len() == self.end {
                // Grows as bytes really come: a wrong length costs nothing.
                let more = needed.min(self.buffer.len() * 2);
                self.buffer.reserve_exact(more - self.buffer.len());
                self.buffer.resize(more, 0);
            }
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(read) => self.end += read,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // A compressed file whose end is missing.
                Err(e) if e.kind() == ErrorKind::UnexpectedEof => {
                    self.ended = true;
                    self.cut_short = true;
                }
                Err(source) => {
                    return Err(CaptureError::Read { offset: self.base + self.end as u64, source });
                }
            }
        }
        Ok(self.end >= needed)
    }
}

/// Fills `bytes` as far as `source` goes.
fn fill(source: &mut impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < bytes.len() {
        match source.read(&mut bytes[length..]) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(length)
}
