//! How long connections are kept, how many of them, and what had to be given up.

use crate::Share;

/// Bounds of an analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// A connection without a handshake is given up after this, ns.
    pub half_open_ns: i64,
    /// An open connection is given up after this, ns; hosts probe after two hours of silence (RFC 9293 section
    /// 3.8.4), and translators keep a connection for as long (RFC 5382, requirement 5).
    pub idle_ns: i64,
    /// A connection that is over waits this long for late packets, ns: in TIME-WAIT hosts do so for two segment
    /// lifetimes of two minutes (RFC 9293 sections 3.4.2 and 3.6.1), and an end that was not seen repeats its FIN
    /// or its data after a minute or two (RFC 6298 section 2.5).
    pub closed_ns: i64,
    /// The same for one that was refused, of which there may be many.
    pub refused_ns: i64,
    /// Most open connections at a time, including those with nothing but a SYN.
    pub max_connections: usize,
    /// Of these, connections with more than a SYN: they take ten times the memory.
    pub max_states: usize,
    /// Of these, refused ones, which only wait for late packets: a scan makes tens of thousands a second.
    pub max_refused: usize,
    /// Most segments sent and not yet acknowledged that are remembered, all connections together.
    pub max_outstanding: usize,
    /// The connections that are followed. With a share, they are numbered by the segments of all connections
    /// until their first one, from 1, which orders those of all shares.
    pub share: Share,
}

impl Default for Options {
    fn default() -> Self {
        const SECOND: i64 = 1_000_000_000;
        Self {
            half_open_ns: 300 * SECOND,
            idle_ns: 8_100 * SECOND,
            closed_ns: 240 * SECOND,
            refused_ns: 5 * SECOND,
            max_connections: 1_000_000,
            max_states: 200_000,
            max_refused: 1 << 14,
            max_outstanding: 1 << 20,
            share: Share::ALL,
        }
    }
}

/// What an analysis saw and could not use in full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Segments analysed.
    pub segments: u64,
    /// Segments whose header the capture cut.
    pub truncated: u64,
    /// Segments older than one before them of the same connection; times between them count as 0.
    pub backwards: u64,
    /// ACKs of more than any window allows; ignored.
    pub impossible_acks: u64,
    /// Connections given up before their time because too many were open.
    pub evicted: u64,
    /// Segments, gaps and SACK ranges forgotten because there were too many; round trips and causes of
    /// retransmissions may be missing for them.
    pub forgotten: u64,
}
