//! The results of a session: its progress, what a read finds, why it failed.

use thiserror::Error;

use crate::wire::{Reason, Violation};

/// Why a session failed; this never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SessionError {
    /// All connections have been gone, or made no progress, for too long.
    #[error("no connection worked for {:.1} s", *.0 as f64 / 1e9)]
    Lost(u64),
    /// The other end does not follow the protocol.
    #[error("the other end breaks the protocol: {0}")]
    Violation(#[from] Violation),
    /// The other end aborted the session.
    #[error("the other end broke the session off: {}", match .0 {
        Reason::Closed => "it was closed before all data had been exchanged",
        Reason::Violation => "it says that this end breaks the protocol",
        Reason::Lost => "it had no connection for too long",
    })]
    Aborted(Reason),
    /// This end aborted it.
    #[error("the session was closed before all data had been exchanged")]
    Closed,
    /// The other end no longer has such a session.
    #[error("the other end has ended the session")]
    Forgotten,
    /// The other end's system has closed all connections, as at the end of a process, and none came back.
    #[error("the other end has closed all connections, and did not come back")]
    Gone,
    /// The one connection to a peer that speaks plain TCP is gone.
    #[error("the plain TCP connection ended early")]
    Broken,
    /// Bytes were written after the end.
    #[error("nothing can be written after the end")]
    Finished,
}

impl SessionError {
    /// What the other end is told, if it does not know already.
    pub(super) const fn reason(self) -> Option<Reason> {
        match self {
            Self::Aborted(_) | Self::Forgotten | Self::Gone | Self::Broken | Self::Finished => None,
            Self::Closed => Some(Reason::Closed),
            Self::Violation(_) => Some(Reason::Violation),
            Self::Lost(_) => Some(Reason::Lost),
        }
    }
}

/// What [`Session::read`](super::Session::read) found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// This many bytes.
    Bytes(usize),
    /// Nothing yet.
    Nothing,
    /// The end: everything has been read.
    End,
}

/// The progress of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Bytes that the application wrote.
    pub written_bytes: u64,
    /// Those of them that have arrived in order.
    pub acknowledged_bytes: u64,
    /// Bytes that have arrived here in order.
    pub received_bytes: u64,
    /// Bytes that wait for others before them.
    pub reorder_bytes: u64,
    /// Most of them at one time.
    pub reorder_peak_bytes: u64,
    /// Bytes that came more than once.
    pub duplicate_bytes: u64,
    /// Bytes of blocks that were given to a second stream.
    pub resent_bytes: u64,
    /// Blocks that were given to a second stream.
    pub resent_blocks: u64,
}
