//! The server's packets: whether a client wants them, and what was recorded.

use super::codec::{ProtocolError, Reader, Writer, short};
use super::{Digest, MOST_TEXT};

/// Longest name of an interface (`IFNAMSIZ`).
const MOST_INTERFACE: usize = 15;

/// Whether a client wants the server to record the packets of its transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wish {
    /// No.
    #[default]
    None,
    /// Yes, if the server allows it.
    IfAllowed,
    /// Yes, and no transfer without it.
    Must,
}

/// A capture of the server, which waits to be fetched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Of the file.
    pub bytes: u64,
    /// Of the file.
    pub sha256: Digest,
    /// The interface that was recorded.
    pub interface: String,
    /// Packets in it.
    pub packets: u64,
    /// Packets that came too fast to be recorded.
    pub lost: u64,
    /// Packets for which its limit of bytes left no room.
    pub left_out: u64,
    /// It ended before the transfer did: its limit of time was reached.
    pub ended_early: bool,
    /// The start of the transfer at the server by the clock of the capture, in ns since 1970.
    pub since_1970_ns: u64,
}

impl Wish {
    pub(super) fn write(self, to: &mut Writer) {
        to.u8(match self {
            Self::None => 0,
            Self::IfAllowed => 1,
            Self::Must => 2,
        });
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Result<Self, ProtocolError> {
        match from.u8()? {
            0 => Ok(Self::None),
            1 => Ok(Self::IfAllowed),
            2 => Ok(Self::Must),
            _ => Err(ProtocolError::Body("what is to be recorded")),
        }
    }
}

impl Record {
    fn write(&self, to: &mut Writer) {
        to.u64(self.bytes);
        to.array(&self.sha256);
        to.text(&self.interface);
        for value in [self.packets, self.lost, self.left_out] {
            to.u64(value);
        }
        to.u8(self.ended_early.into());
        to.u64(self.since_1970_ns);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, ProtocolError> {
        Ok(Self {
            bytes: from.u64()?,
            sha256: from.array()?,
            interface: short(from.text()?, MOST_INTERFACE)?,
            packets: from.u64()?,
            lost: from.u64()?,
            left_out: from.u64()?,
            ended_early: from.flag()?,
            since_1970_ns: from.u64()?,
        })
    }
}

/// A record, or why there is none.
pub(super) fn write(found: &Result<Record, String>, to: &mut Writer) {
    to.u8(found.is_ok().into());
    match found {
        Ok(record) => record.write(to),
        Err(why) => to.text(&why.chars().take(MOST_TEXT / 4).collect::<String>()),
    }
}

pub(super) fn read(from: &mut Reader<'_>) -> Result<Result<Record, String>, ProtocolError> {
    Ok(if from.flag()? { Ok(Record::read(from)?) } else { Err(short(from.text()?, MOST_TEXT)?) })
}
