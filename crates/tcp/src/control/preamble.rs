//! The first bytes of a connection.

use super::codec::{ProtocolError, Reader};
use super::{MAGIC, PREAMBLE_BYTES, Session};

/// The first bytes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preamble {
    /// A client that wants a transfer.
    Control,
    /// A data connection.
    Data {
        /// Of this session.
        session: Session,
        /// Its number.
        index: u16,
    },
}

impl Preamble {
    /// As bytes.
    #[must_use]
    pub fn emit(&self) -> [u8; PREAMBLE_BYTES] {
        let mut bytes = [0; PREAMBLE_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        if let Self::Data { session, index } = self {
            bytes[8] = 1;
            bytes[10..12].copy_from_slice(&index.to_le_bytes());
            bytes[12..28].copy_from_slice(session);
        }
        bytes
    }

    /// From bytes.
    ///
    /// # Errors
    /// [`ProtocolError`].
    pub fn parse(bytes: &[u8; PREAMBLE_BYTES]) -> Result<Self, ProtocolError> {
        let mut reader = Reader(bytes);
        let magic: [u8; 8] = reader.array()?;
        if magic[..7] != MAGIC[..7] {
            return Err(ProtocolError::Magic);
        }
        if magic[7] != MAGIC[7] {
            return Err(ProtocolError::Version(magic[7]));
        }
        let is_data = reader.flag()?;
        let _ = reader.u8()?;
        let index = reader.u16()?;
        let session = reader.array()?;
        let found = if is_data { Self::Data { session, index } } else { Self::Control };
        // Every byte without a meaning is 0, so that it can be given one.
        if found.emit() == *bytes { Ok(found) } else { Err(ProtocolError::Body("its preamble")) }
    }
}
