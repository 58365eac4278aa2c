//! Messages cut out of a stream of bytes, and numbers out of messages.
//!
//! A message is its kind (1 byte), three bytes of 0, the length of its body (32 bits), the body. All numbers are
//! little-endian.

use thiserror::Error;

use super::{MOST_CONNECTIONS, Message};

const HEAD_BYTES: usize = 8;

/// Why bytes are not a message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProtocolError {
    /// Another protocol.
    #[error("these are not the first bytes of a Weir client")]
    Magic,
    /// Another version of this one.
    #[error("version {0} of the protocol, this is version 4: use the same version of Weir at both ends")]
    Version(u8),
    /// A kind that does not exist.
    #[error("message of the unknown kind {0}")]
    Kind(u8),
    /// Longer than any message.
    #[error("message of {bytes} bytes, {most} are allowed")]
    TooLong {
        /// Its claimed length.
        bytes: usize,
        /// What is allowed.
        most: usize,
    },
    /// A body that ends early, is too long, or has invalid contents.
    #[error("message that makes no sense: {0}")]
    Body(&'static str),
}

/// Cuts messages out of a stream.
#[derive(Debug)]
pub struct Decoder {
    bytes: Vec<u8>,
    most: usize,
}

impl Decoder {
    /// Takes messages of at most `most_bytes`.
    #[must_use]
    pub const fn new(most_bytes: usize) -> Self {
        Self { bytes: Vec::new(), most: most_bytes }
    }

    /// Takes bytes as they come.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole message, or `None` until more bytes have come.
    ///
    /// # Errors
    /// [`ProtocolError`]; nothing that follows can be decoded then.
    pub fn next_message(&mut self) -> Result<Option<Message>, ProtocolError> {
        let Some(head) = self.bytes.first_chunk::<HEAD_BYTES>() else { return Ok(None) };
        let [kind, a, b, c, len @ ..] = *head;
        let len = u32::from_le_bytes(len) as usize;
        if [a, b, c] != [0; 3] {
            return Err(ProtocolError::Body("its head"));
        }
        if len > self.most {
            return Err(ProtocolError::TooLong { bytes: len, most: self.most });
        }
        if self.bytes.len() < HEAD_BYTES + len {
            return Ok(None);
        }
        let mut reader = Reader(&self.bytes[HEAD_BYTES..HEAD_BYTES + len]);
        let message = Message::read(kind, &mut reader)?;
        if !reader.0.is_empty() {
            return Err(ProtocolError::Body("it is too long"));
        }
        self.bytes.drain(..HEAD_BYTES + len);
        Ok(Some(message))
    }
}

/// Takes numbers from the front.
pub(super) struct Reader<'a>(pub &'a [u8]);

impl Reader<'_> {
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], ProtocolError> {
        let (first, rest) = self.0.split_first_chunk().ok_or(ProtocolError::Body("it is too short"))?;
        self.0 = rest;
        Ok(*first)
    }

    pub fn u8(&mut self) -> Result<u8, ProtocolError> {
        Ok(self.array::<1>()?[0])
    }

    pub fn u16(&mut self) -> Result<u16, ProtocolError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub fn u32(&mut self) -> Result<u32, ProtocolError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub fn u64(&mut self) -> Result<u64, ProtocolError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub fn flag(&mut self) -> Result<bool, ProtocolError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(ProtocolError::Body("neither yes nor no")),
        }
    }

    pub fn maybe(&mut self) -> Result<Option<u64>, ProtocolError> {
        Ok(if self.flag()? { Some(self.u64()?) } else { None })
    }

    pub fn bytes(&mut self) -> Result<&[u8], ProtocolError> {
        let len = usize::from(self.u16()?);
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(ProtocolError::Body("it is too short"))?;
        self.0 = rest;
        Ok(bytes)
    }

    /// All that is left.
    pub fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0).to_vec()
    }

    pub fn text(&mut self) -> Result<String, ProtocolError> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| ProtocolError::Body("text that is not UTF-8"))
    }
}

/// Appends numbers.
#[derive(Default)]
pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub fn array(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub fn u8(&mut self, value: u8) {
        self.array(&[value]);
    }

    pub fn u16(&mut self, value: u16) {
        self.array(&value.to_le_bytes());
    }

    pub fn u32(&mut self, value: u32) {
        self.array(&value.to_le_bytes());
    }

    pub fn u64(&mut self, value: u64) {
        self.array(&value.to_le_bytes());
    }

    pub fn maybe(&mut self, value: Option<u64>) {
        self.u8(value.is_some().into());
        if let Some(value) = value {
            self.u64(value);
        }
    }

    /// Cut where it is too long for its length.
    pub fn bytes(&mut self, bytes: &[u8]) {
        let bytes = &bytes[..bytes.len().min(usize::from(u16::MAX))];
        self.u16(bytes.len() as u16);
        self.array(bytes);
    }

    pub fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// The message of this kind.
    pub fn message(self, kind: u8) -> Vec<u8> {
        let mut message = vec![kind, 0, 0, 0];
        message.extend((self.0.len() as u32).to_le_bytes());
        message.extend(self.0);
        message
    }
}

pub(super) fn short(text: String, most: usize) -> Result<String, ProtocolError> {
    if text.len() > most { Err(ProtocolError::Body("text that is too long")) } else { Ok(text) }
}

pub(super) fn many<T>(
    from: &mut Reader<'_>,
    mut read: impl FnMut(&mut Reader<'_>) -> Result<T, ProtocolError>,
) -> Result<Vec<T>, ProtocolError> {
    let count = from.u16()?;
    if count > 2 * MOST_CONNECTIONS {
        return Err(ProtocolError::Body("too many connections"));
    }
    (0..count).map(|_| read(from)).collect()
}
