//! An end of the link: an interface whose frames come with the times at which they arrived.

use std::ops::Deref;

use super::pool::{Frame, Pool};
use super::progress::Overload;
use crate::engine::Endpoint;
use crate::packet::port::{self, PortError};
use crate::packet::ring::Packet;
use weir_clock::{now_ns, realtime_to_monotonic_ns};

const RING_MIB: usize = 32;
const TAG_AT: usize = 12;
const COMPARE_NS: u64 = 1_000_000_000;
/// Beyond this, a stamp or the difference between both clocks is wrong.
const STRANGE_NS: u64 = 1_000_000;

/// An interface.
pub struct Port {
    inner: port::Port,
    clock: Clock,
}

/// CLOCK_MONOTONIC from the kernel's stamps, which are CLOCK_REALTIME.
struct Clock {
    ahead_ns: i64,
    compared_ns: u64,
}

impl Port {
    /// Opens an interface; arriving frames are kept from now on.
    pub fn open(at: &Endpoint) -> Result<Self, PortError> {
        Ok(Self { inner: port::Port::open(at, RING_MIB)?, clock: Clock::new() })
    }

    /// Takes up to `most` arrived frames with their times; returns whether there may be more.
    pub fn receive(
        &mut self,
        most: usize,
        pool: &Pool,
        overload: &mut Overload,
        mut take: impl FnMut(u64, Frame),
    ) -> bool {
        let mut now = now_ns();
        for _ in 0..most {
            let clock = &mut self.clock;
            let taken = self.inner.take(|packet| {
                if !packet.is_outgoing
                    && let Some(frame) = kept(&packet, pool, overload)
                {
                    take(clock.monotonic_ns(packet.time_ns, &mut now), frame);
                }
            });
            if taken.is_none() {
                return false;
            }
        }
        true
    }
}

impl Deref for Port {
    type Target = port::Port;

    fn deref(&self) -> &port::Port {
        &self.inner
    }
}

/// A frame from the ring, with its tag back in place; `None` if it cannot be kept.
fn kept(packet: &Packet<'_>, pool: &Pool, overload: &mut Overload) -> Option<Frame> {
    if packet.len > packet.data.len() {
        overload.too_long += 1;
        return None;
    }
    overload.unfinished += u64::from(packet.is_unfinished);
    let tag = packet.tag.as_ref().map_or(&[][..], |tag| &tag[..]);
    let Some(mut frame) = pool.take(packet.len + tag.len()) else {
        overload.no_memory += 1;
        return None;
    };
    let (front, behind) = packet.data.split_at(TAG_AT.min(packet.data.len()));
    let bytes = frame.bytes_mut();
    bytes[..front.len()].copy_from_slice(front);
    bytes[front.len()..front.len() + tag.len()].copy_from_slice(tag);
    bytes[front.len() + tag.len()..].copy_from_slice(behind);
    Some(frame)
}

impl Clock {
    fn new() -> Self {
        Self { ahead_ns: realtime_to_monotonic_ns(), compared_ns: now_ns() }
    }

    /// The time of a stamp, but never later than now: a frame does not arrive after it was read. `now` is
    /// read anew if that matters.
    fn monotonic_ns(&mut self, real_ns: u64, now: &mut u64) -> u64 {
        let found = real_ns.wrapping_add_signed(self.ahead_ns);
        if found > *now {
            *now = now_ns();
        }
        let is_strange = found > *now + STRANGE_NS || found + COMPARE_NS < *now;
        // A caller that compared a moment ago may have read the clock after `now`.
        if now.saturating_sub(self.compared_ns) < COMPARE_NS && !is_strange {
            return found.min(*now);
        }
        *self = Self::new();
        real_ns.wrapping_add_signed(self.ahead_ns).min(self.compared_ns)
    }
}
