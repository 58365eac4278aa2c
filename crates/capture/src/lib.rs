//! Capture files as a stream of packets: pcap and pcapng, bare or compressed.
//!
//! The parsers ([`pcap`], [`pcapng`]) look at a slice and say what is in front, or how much more they
//! need; [`Capture`] fills the slice from any [`Read`]. It holds one record at a time.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]

mod compressed;
mod error;
mod pcap;
mod pcapng;

use std::io::{self, ErrorKind, Read};
use std::ops::Range;

pub use compressed::Compression;
pub use error::CaptureError;

/// Longest record that is believed; libpcap's own limit (MAXIMUM_SNAPLEN) is 256 KiB, USB captures have more.
pub const MAX_RECORD_BYTES: usize = 16 << 20;
const CHUNK_BYTES: usize = 256 << 10;

/// A link type as registered for pcap ("LINKTYPE_...").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkType(pub u16);

/// One packet of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Time of capture, ns since 1970.
    pub time_ns: i64,
    /// What `data` begins with.
    pub link: LinkType,
    /// Interface within its section of a pcapng file; 0 in pcap.
    pub interface: u32,
    /// Length on the link; more than `data` has where the capture cut it short.
    pub original_len: u32,
    /// What was captured.
    pub data: &'a [u8],
}

/// A record in the slice that a parser was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub time_ns: i64,
    pub link: LinkType,
    pub interface: u32,
    pub original_len: u32,
    pub data: Range<usize>,
}

/// What lies in front.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A packet; `used` bytes belong to its record.
    Packet { record: Record, used: usize },
    /// Something else of `used` bytes, which need not be in the slice.
    Skip { used: usize },
    /// A packet without a time, of `used` bytes.
    Timeless { used: usize },
    /// This many bytes must be there to tell.
    More { needed: usize },
}

/// Format of a capture file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// libpcap's.
    Pcap,
    /// Blocks, several interfaces.
    Pcapng,
}

enum Parser {
    Pcap(pcap::Pcap),
    Pcapng(pcapng::Pcapng),
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
    /// Of `begin` within the (decompressed) file.
    offset: u64,
    ended: bool,
    cut_short: bool,
    timeless: u64,
}

/// Opens a capture, decompressing it if its first bytes say so.
///
/// # Errors
/// [`CaptureError::Unknown`] for what is no capture, and whatever reading raises.
pub fn open<'a>(mut source: impl Read + 'a) -> Result<Capture<Box<dyn Read + 'a>>, CaptureError> {
    let mut head = [0; 4];
    let length = fill(&mut source, &mut head).map_err(|e| CaptureError::Read { offset: 0, source: e })?;
    let whole = io::Cursor::new(head).take(length as u64).chain(source);
    let compression = Compression::of(&head[..length]);
    Capture::new(compression.reader(whole), compression)
}

impl<R: Read> Capture<R> {
    fn new(source: R, compression: Compression) -> Result<Self, CaptureError> {
        let mut capture = Self {
            source,
            parser: Parser::Pcapng(pcapng::Pcapng::default()),
            compression,
            buffer: vec![0; CHUNK_BYTES],
            begin: 0,
            end: 0,
            offset: 0,
            ended: false,
            cut_short: false,
            timeless: 0,
        };
        capture.need(pcap::HEADER_LEN)?;
        let head = &capture.buffer[..capture.end];
        if head.len() < pcap::HEADER_LEN {
            return Err(CaptureError::TooShort { bytes: head.len() });
        }
        if let Some(parser) = pcap::Pcap::from_header(head) {
            capture.parser = Parser::Pcap(parser);
            capture.consume(pcap::HEADER_LEN)?;
        } else if !pcapng::begins(head) {
            return Err(CaptureError::Unknown { found: [head[0], head[1], head[2], head[3]] });
        }
        Ok(capture)
    }

    /// The next packet; None at the end.
    ///
    /// # Errors
    /// [`CaptureError`] where the file is damaged; nothing more can be read then.
    pub fn next_packet(&mut self) -> Result<Option<Packet<'_>>, CaptureError> {
        let record = loop {
            if self.begin == self.end && !self.need(1)? {
                return Ok(None);
            }
            let head = &self.buffer[self.begin..self.end];
            let step = match &mut self.parser {
                Parser::Pcap(parser) => parser.step(head, self.offset)?,
                Parser::Pcapng(parser) => parser.step(head, self.offset)?,
            };
            match step {
                Step::Packet { record, used } => {
                    let at = self.begin;
                    self.consume(used)?;
                    break Record { data: at + record.data.start..at + record.data.end, ..record };
                }
                Step::Timeless { used } => {
                    self.timeless += 1;
                    self.consume(used)?;
                }
                Step::Skip { used } => self.consume(used)?,
                Step::More { needed } => {
                    if !self.need(needed)? {
                        self.cut_short = true;
                        self.offset += (self.end - self.begin) as u64;
                        self.begin = self.end;
                        return Ok(None);
                    }
                }
            }
        };
        Ok(Some(Packet {
            time_ns: record.time_ns,
            link: record.link,
            interface: record.interface,
            original_len: record.original_len,
            data: &self.buffer[record.data],
        }))
    }

    /// pcap or pcapng.
    pub const fn format(&self) -> Format {
        match self.parser {
            Parser::Pcap(_) => Format::Pcap,
            Parser::Pcapng(_) => Format::Pcapng,
        }
    }

    /// What the file was wrapped in.
    pub const fn compression(&self) -> Compression {
        self.compression
    }

    /// Does the file end inside a record?
    pub const fn cut_short(&self) -> bool {
        self.cut_short
    }

    /// Packets without a time (pcapng's Simple Packet Blocks), which are left out.
    pub const fn timeless(&self) -> u64 {
        self.timeless
    }

    /// Offset of what comes next in the (decompressed) file.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Passes over `bytes`, reading on where they are not in the buffer yet.
    fn consume(&mut self, bytes: usize) -> Result<(), CaptureError> {
        let mut left = bytes;
        loop {
            let here = left.min(self.end - self.begin);
            self.begin += here;
            self.offset += here as u64;
            left -= here;
            if left == 0 {
                return Ok(());
            }
            if !self.need(1)? {
                self.cut_short = true;
                return Ok(());
            }
        }
    }

    /// Sees to it that `needed` unread bytes are in the buffer; false if the file has fewer.
    fn need(&mut self, needed: usize) -> Result<bool, CaptureError> {
        if self.end - self.begin >= needed {
            return Ok(true);
        }
        self.buffer.copy_within(self.begin..self.end, 0);
        self.end -= self.begin;
        self.begin = 0;
        while self.end < needed && !self.ended {
            if self.buffer.len() == self.end {
                // Doubling as bytes really come: a length that lies costs nothing.
                self.buffer.resize(self.buffer.len() * 2, 0);
            }
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(read) => self.end += read,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // A compressed file of which the end is missing.
                Err(e) if e.kind() == ErrorKind::UnexpectedEof => {
                    self.ended = true;
                    self.cut_short = true;
                }
                Err(source) => {
                    return Err(CaptureError::Read { offset: self.offset + self.end as u64, source });
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

/// Byte order of a file's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Little,
    Big,
}

impl Order {
    /// The number at `at`; 0 beyond the end, which callers rule out.
    pub fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let raw = bytes.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default();
        match self {
            Self::Little => u16::from_le_bytes(raw),
            Self::Big => u16::from_be_bytes(raw),
        }
    }

    /// The same for 32 bits.
    pub fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let raw = bytes.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default();
        match self {
            Self::Little => u32::from_le_bytes(raw),
            Self::Big => u32::from_be_bytes(raw),
        }
    }
}

#[cfg(test)]
mod tests;
