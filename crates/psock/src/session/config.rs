//! Memory and times of a session.

/// Time limits of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// A stream that has made no progress for this time, and for four round trips, gets no blocks; those that it
    /// carries are sent by other streams as well.
    pub suspect_ns: u64,
    /// A stream that has made no progress for this time is given up.
    pub dead_ns: u64,
    /// A stream by which nothing came for this time is probed; a session with less than four times as
    /// much before it fails probes earlier.
    pub ping_ns: u64,
    /// The session fails when no stream has worked for this time.
    pub lost_ns: u64,
    /// The session fails when the other end has closed all streams and made no new one for this time, and eight round
    /// trips: a client that lives tries again after a tenth of a second.
    pub gone_ns: u64,
    /// What has arrived is acknowledged after this time at the latest.
    pub ack_ns: u64,
}

const MS: u64 = 1_000_000;

impl Default for Timing {
    fn default() -> Self {
        Self {
            suspect_ns: 300 * MS,
            dead_ns: 10_000 * MS,
            ping_ns: 3_000 * MS,
            lost_ns: 15_000 * MS,
            gone_ns: 1_000 * MS,
            ack_ns: 5 * MS,
        }
    }
}

/// Memory and times of one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// For bytes that have arrived and that the application has not read, in order or not; at least 1.
    pub receive_bytes: usize,
    /// For bytes that were written and not acknowledged; at least 1.
    pub send_bytes: usize,
    /// Largest block that is sent, 1 to 65536.
    pub block_bytes: u32,
    /// Times.
    pub timing: Timing,
    /// The streams together take no more of a shared bottleneck than one TCP connection would.
    pub is_fair: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            receive_bytes: 4 << 20,
            send_bytes: 4 << 20,
            block_bytes: 32 * 1024,
            timing: Timing::default(),
            is_fair: false,
        }
    }
}
