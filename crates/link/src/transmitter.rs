//! The transmitter: frames one after the other, at a rate or at the opportunities of a trace.

use std::sync::Arc;

use crate::queue::Transmission;
use crate::spec::Rate;
use crate::trace::{COUNTED_BYTES, OPPORTUNITY_BYTES, Trace};

/// Largest cost of a frame, so that bits times ns per second stay within 64 bits.
const MOST_BYTES: i64 = 1 << 24;

/// What the rate remembers of the past.
#[derive(Clone, Debug)]
pub enum Transmitter {
    /// No frame takes any time.
    AtOnce,
    /// At a constant rate.
    Constant(Constant),
    /// By a trace.
    Traced(Traced),
}

/// Frames back to back, fractions of a ns carried over.
#[derive(Clone, Debug)]
pub struct Constant {
    bps: u64,
    free_ns: u64,
    /// Behind `free_ns`, in 1/bps ns.
    fraction: u64,
}

/// The opportunities of a trace.
#[derive(Clone, Debug)]
pub struct Traced {
    trace: Arc<Trace>,
    start_ns: u64,
    /// Number of the next opportunity.
    next: u64,
}

impl Transmitter {
    pub fn new(rate: Option<&Rate>, now_ns: u64) -> Self {
        match rate {
            None => Self::AtOnce,
            Some(Rate::Constant { bps }) => {
                Self::Constant(Constant { bps: *bps, free_ns: now_ns, fraction: 0 })
            }
            Some(Rate::Trace(trace)) => {
                Self::Traced(Traced { trace: Arc::clone(trace), start_ns: now_ns, next: 0 })
            }
        }
    }

    /// What a frame costs the rate, in bytes.
    pub fn bill(&self, bytes: u32, overhead_bytes: i32) -> u32 {
        let more = if matches!(self, Self::Traced(_)) { COUNTED_BYTES } else { 0 };
        (i64::from(bytes) + i64::from(overhead_bytes) + more).clamp(1, MOST_BYTES) as u32
    }

    /// The earliest time at which it could begin something new; `None`: at any time.
    pub fn next_ns(&self) -> Option<u64> {
        match self {
            Self::AtOnce => None,
            Self::Constant(constant) => Some(constant.free_ns),
            Self::Traced(traced) => Some(traced.next_ns()),
        }
    }

    /// Its state for a frame that arrives at `now_ns`.
    pub fn transmission(&self, now_ns: u64) -> Transmission {
        match self {
            Self::AtOnce => Transmission { left_ns: 0, bps: f64::INFINITY },
            Self::Constant(constant) => {
                Transmission { left_ns: constant.free_ns.saturating_sub(now_ns), bps: constant.bps as f64 }
            }
            Self::Traced(traced) => Transmission { left_ns: 0, bps: traced.trace.mean_bps() },
        }
    }
}

impl Constant {
    /// When a frame of `bytes` is through if its transmission begins at `start_ns`, or after the one before it.
    pub fn transmit(&mut self, start_ns: u64, bytes: u32) -> u64 {
        if start_ns > self.free_ns {
            (self.free_ns, self.fraction) = (start_ns, 0);
        }
        let work = u64::from(bytes) * 8_000_000_000 + self.fraction;
        self.free_ns = self.free_ns.saturating_add(work / self.bps);
        self.fraction = work % self.bps;
        // Never before its last bit.
        self.free_ns + u64::from(self.fraction > 0)
    }

    pub const fn free_ns(&self) -> u64 {
        self.free_ns
    }
}

impl Traced {
    pub fn next_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.trace.at_ns(self.next))
    }

    /// Uses the next opportunity; returns how many bytes it carries.
    pub const fn take(&mut self) -> u32 {
        self.next += 1;
        OPPORTUNITY_BYTES
    }

    /// Lets all opportunities up to `until_ns` pass.
    pub fn skip(&mut self, until_ns: u64) {
        if let Some(into_ns) = until_ns.checked_sub(self.start_ns) {
            self.next = self.next.max(self.trace.first_after(into_ns));
        }
    }
}
