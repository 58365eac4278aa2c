//! What can be wrong with a capture.

use std::io;

use thiserror::Error;

/// Why a capture cannot be read on. Offsets count bytes of the file, after decompression.
#[derive(Debug, Error)]
pub enum CaptureError {
    /// Fewer bytes than the header of any capture.
    #[error("too short for a capture: {bytes} bytes")]
    TooShort {
        /// Bytes there are.
        bytes: usize,
    },
    /// A compressed file that ends before anything of the capture can be decompressed.
    #[error("its {compression} data is cut short, and nothing can be read of what there is")]
    CutShort {
        /// The name of the compression.
        compression: &'static str,
    },
    /// The first bytes are not those of a known format.
    #[error(
        "neither pcap nor pcapng: it begins with {:02x} {:02x} {:02x} {:02x}",
        found[0], found[1], found[2], found[3]
    )]
    Unknown {
        /// The first bytes.
        found: [u8; 4],
    },
    /// A record or block with an impossible length.
    #[error("damaged at offset {offset}: {what} of {bytes} bytes")]
    Length {
        /// Where it begins.
        offset: u64,
        /// What is too long or too short.
        what: &'static str,
        /// The length it claims.
        bytes: u64,
    },
    /// An interface that was not described, or one too many.
    #[error("damaged at offset {offset}: interface {interface}, where {known} are described")]
    Interface {
        /// Where the block begins.
        offset: u64,
        /// The interface it names.
        interface: u32,
        /// Interfaces there are.
        known: usize,
    },
    /// An interface whose time stamps have an unusable resolution.
    #[error("damaged at offset {offset}: time stamps of resolution {resolution:#04x}")]
    Clock {
        /// Where the block begins.
        offset: u64,
        /// The value of `if_tsresol`.
        resolution: u8,
    },
    /// A section whose byte order cannot be determined.
    #[error("damaged at offset {offset}: a section without its byte-order mark")]
    ByteOrder {
        /// Where the section begins.
        offset: u64,
    },
    /// Reading failed, or the compressed data is damaged.
    #[error("reading failed at offset {offset}")]
    Read {
        /// Bytes read until then.
        offset: u64,
        /// Why.
        source: io::Error,
    },
}
