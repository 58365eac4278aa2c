//! What can be wrong with an association, and why a packet is not let through.

use thiserror::Error;

/// An invalid security association.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AssociationError {
    /// 0 to 255 are reserved (RFC 4303, 2.1).
    #[error("SPI {0}: 0 to 255 are reserved, expected 256 or more")]
    Spi(u32),
    /// An encryption key of another length.
    #[error("{suite} takes encryption keys of {expected} bytes (salt included), not {found}")]
    EncryptionKey {
        /// Its name.
        suite: &'static str,
        /// Lengths that it takes.
        expected: &'static str,
        /// Length of the key given.
        found: usize,
    },
    /// An authentication key of another length.
    #[error("{suite} takes authentication keys of {expected} bytes, not {found}")]
    AuthenticationKey {
        /// Its name.
        suite: &'static str,
        /// Length that it takes; 0: none.
        expected: usize,
        /// Length of the key given.
        found: usize,
    },
    /// A tunnel from IPv4 to IPv6, or the other way round.
    #[error("the ends of the tunnel are of different IP versions")]
    Family,
    /// Extended sequence numbers are not sent in full: only an integrity check can confirm them.
    #[error("extended sequence numbers need an authenticated suite")]
    EsnUnauthenticated,
    /// A replay window beyond [`MAX_WINDOW`](crate::MAX_WINDOW).
    #[error("a replay window of {0} packets; at most 1,048,576 are possible")]
    Window(usize),
}

/// Why a packet was not encapsulated. Nothing was sent, and no sequence number used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum EncapsulateError {
    /// Neither IPv4 nor IPv6.
    #[error("no IP packet")]
    NotIp,
    /// Its headers announce more bytes than there are, or than a packet may have.
    #[error("the IP packet is cut short")]
    Truncated,
    /// In transport mode only whole datagrams can be protected (RFC 4303, 3.3.4).
    #[error("a fragment cannot be protected in transport mode")]
    Fragment,
    /// Longer than an IP packet can be, once encapsulated.
    #[error("{0} bytes after ESP, more than an IP packet can have")]
    TooLong(usize),
    /// The buffer has too little room around the packet.
    #[error("{head} bytes of room are needed in front of the packet and {tail} behind it")]
    NoRoom {
        /// In front.
        head: usize,
        /// Behind.
        tail: usize,
    },
    /// All sequence numbers are used; a new association is needed (RFC 4303, 3.3.3).
    #[error("all sequence numbers are used")]
    Exhausted,
}

/// Why a packet was dropped. Its buffer must then not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecapsulateError {
    /// Neither IPv4 nor IPv6.
    #[error("no IP packet")]
    NotIp,
    /// Its headers announce more bytes than there are, or it has too few for this suite.
    #[error("the packet is cut short")]
    Truncated,
    /// It must be reassembled first (RFC 4303, 3.4.1).
    #[error("a fragment")]
    Fragment,
    /// Another protocol, or ESP in UDP although none was agreed on, or the other way round.
    #[error("not ESP, or not in the encapsulation agreed on")]
    NotEsp,
    /// IKE on the port of ESP (RFC 3948, 2.2).
    #[error("IKE, not ESP")]
    Ike,
    /// A packet that keeps a NAT binding alive (RFC 3948, 2.3).
    #[error("a keepalive")]
    Keepalive,
    /// Of another association.
    #[error("SPI {0:#x} is another association's")]
    WrongSpi(u32),
    /// The encrypted part is not a multiple of the cipher's block.
    #[error("the ciphertext is not a multiple of {0} bytes")]
    Misaligned(usize),
    /// Left of the replay window, or a number that is never sent.
    #[error("sequence number {0} lies before the replay window")]
    TooOld(u64),
    /// Received before.
    #[error("sequence number {0} came before")]
    Replayed(u64),
    /// Changed in transit, made by another sender, or the keys differ.
    #[error("the integrity check failed")]
    BadIcv,
    /// The padding is not 1, 2, 3, ... (RFC 4303, 2.4).
    #[error("bad padding")]
    BadPadding,
    /// What was decrypted is not what the mode and the next header say.
    #[error("next header {0} does not fit what was decrypted")]
    BadPayload(u8),
    /// Sent to hide that there is nothing to send (RFC 4303, 2.6).
    #[error("a dummy packet")]
    Dummy,
    /// Congestion was experienced by a packet that does not support ECN: it must be dropped (RFC 6040, 4.2).
    #[error("congestion experienced, but the inner packet does not support ECN")]
    Congestion,
}
