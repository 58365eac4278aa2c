//! gzip, zstd, xz, lz4 and bzip2 around a capture.

use std::io::{self, BufRead, BufReader, Chain, Cursor, ErrorKind, Read};

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;
use liblzma::bufread::XzDecoder;
use liblzma::stream::{CONCATENATED, Stream};
use lz4_flex::frame::FrameDecoder;

/// Largest window of zstd that is accepted, as a power of two: 128 MiB, which is what its own tools accept
/// unasked. A decoder takes as much memory as the file wants, up to that; files of the usual levels want 8
/// MiB at most. lz4 takes 17 MiB at most, bzip2 4 MiB.
const MAX_WINDOW_LOG: u32 = 27;
/// Memory for a dictionary of xz of the same size, and for the decoder itself. `xz -9` wants half of it.
const MAX_XZ_BYTES: u64 = (1 << MAX_WINDOW_LOG) + (1 << 20);
/// Bytes that the decoders read at a time.
const CHUNK_BYTES: usize = 64 << 10;

/// The compression of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Nothing.
    None,
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
    /// The .xz file format, version 1.2.1.
    Xz,
    /// The LZ4 frame format, version 1.6.4, and its legacy frames.
    Lz4,
    /// bzip2.
    Bzip2,
}

impl Compression {
    /// Determined from the first bytes of a file.
    #[must_use]
    pub fn of(head: &[u8]) -> Self {
        match head {
            [0x1f, 0x8b, ..] => Self::Gzip,
            // A frame, or a frame to be skipped, which may come first.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            [0xfd, b'7', b'z', b'X', ..] => Self::Xz,
            [0x04, 0x22, 0x4d, 0x18, ..] | [0x02, 0x21, 0x4c, 0x18, ..] => Self::Lz4,
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => Self::Bzip2,
            _ => Self::None,
        }
    }

    /// Its name, as that of the program that decompresses it; empty for none.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Xz => "xz",
            Self::Lz4 => "lz4",
            Self::Bzip2 => "bzip2",
        }
    }

    /// `source`, decompressed. Streams, members and frames may follow each other.
    pub(crate) fn reader<'a>(self, source: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
        let buffered = |source| BufReader::with_capacity(CHUNK_BYTES, source);
        Ok(match self {
            Self::None => Box::new(source),
            Self::Gzip => Box::new(MultiGzDecoder::new(buffered(source))),
            Self::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::new(source)?;
                decoder.window_log_max(MAX_WINDOW_LOG)?;
                Box::new(decoder)
            }
            Self::Xz => {
                let stream = Stream::new_stream_decoder(MAX_XZ_BYTES, CONCATENATED)?;
                Box::new(XzDecoder::new_stream(buffered(source), stream))
            }
            Self::Lz4 => Box::new(Lz4::Between(buffered(source))),
            Self::Bzip2 => Box::new(MultiBzDecoder::new(buffered(source))),
        })
    }
}

/// Frames of lz4 that follow each other; a [`FrameDecoder`] ends with its frame.
enum Lz4<R: Read> {
    Between(R),
    Inside(Box<FrameDecoder<Chain<Cursor<[u8; 4]>, R>>>),
    Ended,
}

impl<R: BufRead> Lz4<R> {
    /// What comes behind the end of a frame.
    fn next(mut source: R) -> io::Result<Self> {
        let mut magic = [0; 4];
        loop {
            if source.fill_buf()?.is_empty() {
                return Ok(Self::Ended);
            }
            source.read_exact(&mut magic)?;
            if !matches!(magic, [0x50..=0x5f, 0x2a, 0x4d, 0x18]) {
                return Ok(Self::Inside(Box::new(FrameDecoder::new(Cursor::new(magic).chain(source)))));
            }
            // A frame to be skipped: its length, and what it has.
            source.read_exact(&mut magic)?;
            let length = u64::from(u32::from_le_bytes(magic));
            if io::copy(&mut source.by_ref().take(length), &mut io::sink())? < length {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

impl<R: BufRead> Read for Lz4<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self {
                Self::Inside(decoder) => {
                    let read = decoder.read(buffer)?;
                    if read > 0 || buffer.is_empty() {
                        return Ok(read);
                    }
                }
                Self::Between(_) => {}
                Self::Ended => return Ok(0),
            }
            let source = match std::mem::replace(self, Self::Ended) {
                Self::Inside(decoder) => decoder.into_inner().into_inner().1,
                Self::Between(source) => source,
                Self::Ended => return Ok(0),
            };
            *self = Self::next(source)?;
        }
    }
}
