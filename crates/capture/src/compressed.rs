//! gzip and zstd around a capture.

use std::io::{self, BufReader, Read};

use flate2::bufread::MultiGzDecoder;

/// Largest window of zstd that is accepted, as a power of two: 128 MiB, which is what its own tools accept
/// unasked. A decoder takes as much memory as the file wants, up to that; files of the usual levels want 8
/// MiB at most.
const MAX_WINDOW_LOG: u32 = 27;

/// The compression of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Nothing.
    None,
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
}

impl Compression {
    /// Determined from the first bytes of a file.
    #[must_use]
    pub fn of(head: &[u8]) -> Self {
        match head {
            [0x1f, 0x8b, ..] => Self::Gzip,
            // A frame, or a frame to be skipped, which may come first.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            _ => Self::None,
        }
    }

    /// `source`, decompressed.
    pub(crate) fn reader<'a>(self, source: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
        Ok(match self {
            Self::None => Box::new(source),
            Self::Gzip => Box::new(MultiGzDecoder::new(BufReader::with_capacity(64 << 10, source))),
            Self::Zstd => {
                // The decoder also handles consecutive frames, and those to be skipped.
                let mut decoder = zstd::stream::read::Decoder::new(source)?;
                decoder.window_log_max(MAX_WINDOW_LOG)?;
                Box::new(decoder)
            }
        })
    }
}
