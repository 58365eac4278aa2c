//! Frames: a header of 24 bytes, and the bytes of a block behind that of a data frame.

use thiserror::Error;

/// Bytes of a header.
pub const HEADER_BYTES: usize = 24;

/// Largest block.
pub const MOST_BLOCK_BYTES: u32 = 64 * 1024;

/// Beyond any offset; sums of offsets and lengths below it cannot overflow.
pub const MOST_OFFSET: u64 = 1 << 62;

/// A frame, or the header of one that carries data. All numbers are little-endian.
///
/// | kind | length | first number | second number |
/// |---|---|---|---|
/// | 1 data | bytes that follow | offset of the first | 0 |
/// | 2 acknowledgement | 0 | every byte below it has arrived | the sender may send up to here |
/// | 3 end | 0 | bytes of the whole direction | 0 |
/// | 4 ping | 0 | any number | 0 |
/// | 5 pong | 0 | the number of the ping | 0 |
/// | 6 abort | 0 | why | 0 |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A block: `len` bytes follow.
    Data {
        /// Of its first byte in this direction.
        offset: u64,
        /// Its bytes.
        len: u32,
    },
    /// What has arrived, and what may be sent.
    Ack {
        /// Every byte below has arrived. The end counts as one more byte.
        next: u64,
        /// No byte at or beyond may be sent yet.
        limit: u64,
    },
    /// The direction ends.
    End {
        /// Its bytes.
        total: u64,
    },
    /// Asks for a pong.
    Ping {
        /// To be repeated.
        number: u64,
    },
    /// Answers a ping.
    Pong {
        /// As the ping had it.
        number: u64,
    },
    /// The session is over.
    Abort {
        /// Why.
        reason: Reason,
    },
}

/// Why an end broke the session off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It was closed before all data had been exchanged.
    Closed,
    /// The other end broke the protocol.
    Violation,
    /// No stream was left for too long.
    Lost,
}

impl Reason {
    const fn number(self) -> u64 {
        match self {
            Self::Closed => 1,
            Self::Violation => 2,
            Self::Lost => 3,
        }
    }
}

/// What a peer that follows the protocol does not send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Violation {
    /// A kind that does not exist.
    #[error("frame of the unknown kind {0}")]
    Kind(u8),
    /// Something where only zeros are allowed.
    #[error("frame of kind {0} with bits set that must be zero")]
    Reserved(u8),
    /// An empty block, or one that is too long.
    #[error("block of {0} bytes; 1 to {MOST_BLOCK_BYTES} are allowed")]
    Length(u32),
    /// Beyond the largest offset.
    #[error("the offset {0} is beyond any")]
    Offset(u64),
    /// An unknown reason.
    #[error("abort for the unknown reason {0}")]
    Reason(u64),
    /// More than the receiver has offered memory for.
    #[error("a block ends at byte {end}, beyond the window, which ends at {limit}")]
    Window {
        /// End of the block.
        end: u64,
        /// End of the window.
        limit: u64,
    },
    /// Data beyond the end.
    #[error("a block ends at byte {end}, beyond the end of the data at {total}")]
    BeyondEnd {
        /// End of the block.
        end: u64,
        /// End of the data.
        total: u64,
    },
    /// Another end than before, or one before bytes that have already come.
    #[error("the data end at byte {total}, which contradicts what came before")]
    End {
        /// As it says now.
        total: u64,
    },
    /// An acknowledgement of what was not sent.
    #[error("byte {next} is acknowledged, and {sent} were sent")]
    Unsent {
        /// As it says.
        next: u64,
        /// As it is.
        sent: u64,
    },
    /// More gaps than blocks can be in flight.
    #[error("the blocks leave more than {} gaps", super::MOST_BLOCKS)]
    Gaps,
    /// A pong that no ping asked for.
    #[error("a pong that no ping asked for")]
    Pong,
}

impl Frame {
    /// The frame's header.
    #[must_use]
    pub fn emit(&self) -> [u8; HEADER_BYTES] {
        let (kind, len, first, second) = match *self {
            Self::Data { offset, len } => (1, len, offset, 0),
            Self::Ack { next, limit } => (2, 0, next, limit),
            Self::End { total } => (3, 0, total, 0),
            Self::Ping { number } => (4, 0, number, 0),
            Self::Pong { number } => (5, 0, number, 0),
            Self::Abort { reason } => (6, 0, reason.number(), 0),
        };
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = kind;
        bytes[4..8].copy_from_slice(&u32::to_le_bytes(len));
        bytes[8..16].copy_from_slice(&u64::to_le_bytes(first));
        bytes[16..].copy_from_slice(&u64::to_le_bytes(second));
        bytes
    }

    /// The frame that begins with these bytes.
    ///
    /// # Errors
    /// [`Violation`] if no frame can begin with these bytes.
    pub fn parse(bytes: &[u8; HEADER_BYTES]) -> Result<Self, Violation> {
        let [kind, a, b, c, l0, l1, l2, l3, rest @ ..] = *bytes;
        let number =
            |at: usize| rest[at..].first_chunk::<8>().map_or(0, |number| u64::from_le_bytes(*number));
        let (len, first, second) = (u32::from_le_bytes([l0, l1, l2, l3]), number(0), number(8));
        let offset = |offset: u64| {
            if offset < MOST_OFFSET { Ok(offset) } else { Err(Violation::Offset(offset)) }
        };
        let frame = match kind {
            1 if (1..=MOST_BLOCK_BYTES).contains(&len) => Self::Data { offset: offset(first)?, len },
            1 => return Err(Violation::Length(len)),
            2 => Self::Ack { next: offset(first)?, limit: offset(second)? },
            3 => Self::End { total: offset(first)? },
            4 => Self::Ping { number: first },
            5 => Self::Pong { number: first },
            6 => Self::Abort {
                reason: match first {
                    1 => Reason::Closed,
                    2 => Reason::Violation,
                    3 => Reason::Lost,
                    other => return Err(Violation::Reason(other)),
                },
            },
            other => return Err(Violation::Kind(other)),
        };
        let is_long = len != 0 && kind != 1;
        let has_more = second != 0 && kind != 2;
        if [a, b, c] != [0; 3] || is_long || has_more {
            return Err(Violation::Reserved(kind));
        }
        Ok(frame)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn frames_are_laid_out_as_the_protocol_says() {
        let data = Frame::Data { offset: 0x0102, len: 0x0304 };
        assert_eq!(data.emit(), [1, 0, 0, 0, 4, 3, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],);
        let ack = Frame::Ack { next: 5, limit: 0x0607 };
        assert_eq!(ack.emit(), [2, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 7, 6, 0, 0, 0, 0, 0, 0],);
    }

    #[test]
    fn what_is_no_frame_is_named() {
        let with = |change: fn(&mut [u8; HEADER_BYTES])| {
            let mut bytes = Frame::Data { offset: 1, len: 1 }.emit();
            change(&mut bytes);
            Frame::parse(&bytes).unwrap_err()
        };
        assert_eq!(with(|b| b[0] = 0), Violation::Kind(0));
        assert_eq!(with(|b| b[0] = 7), Violation::Kind(7));
        assert_eq!(with(|b| b[1] = 1), Violation::Reserved(1));
        assert_eq!(with(|b| b[23] = 1), Violation::Reserved(1));
        assert_eq!(with(|b| b[4] = 0), Violation::Length(0));
        assert_eq!(with(|b| b[6] = 2), Violation::Length(0x0002_0001));
        assert_eq!(with(|b| b[15] = 0x40), Violation::Offset(MOST_OFFSET + 1));
        assert_eq!(with(|b| b[0] = 3), Violation::Reserved(3));
        assert_eq!(
            with(|b| {
                b[0] = 6;
                b[4] = 0;
                b[8] = 9;
            }),
            Violation::Reason(9)
        );
    }

    proptest! {
        #[test]
        fn whatever_parses_is_emitted_as_it_came(bytes in any::<[u8; HEADER_BYTES]>(), kind in 0_u8..8) {
            let mut bytes = bytes;
            bytes[0] = kind;
            bytes[1..4].fill(0);
            for at in [6, 7, 15, 23] {
                bytes[at] = 0;
            }
            if kind != 2 {
                bytes[16..].fill(0);
            }
            if let Ok(frame) = Frame::parse(&bytes) {
                prop_assert_eq!(frame.emit(), bytes);
            }
        }
    }
}
