//! Round trips: summed up, smoothed, and matched by time stamps.

use std::collections::VecDeque;

use crate::tcp::facts::Summary;

/// Most ticks of a time-stamp clock that wait for their echo; at 1 ms a tick, two seconds.
const MAX_TICKS: usize = 2_048;
/// The same while none has been echoed.
const MAX_TICKS_UNANSWERED: usize = 16;
/// Room that an empty list keeps.
const KEPT_TICKS: usize = 64;
/// Greatest time that is summed up, some 78 hours: squares then fit.
const MAX_NS: u64 = 1 << 48;
/// The least that Linux waits beyond the smoothed round trip (tcp_rto_min).
const LEAST_WAIT_NS: u64 = 200_000_000;

/// Exact sums of times.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sums {
    count: u64,
    min_ns: u64,
    max_ns: u64,
    sum: u128,
    squares: u128,
}

impl Sums {
    #[inline]
    pub fn add(&mut self, time_ns: u64) {
        let time_ns = time_ns.min(MAX_NS);
        self.min_ns = if self.count == 0 { time_ns } else { self.min_ns.min(time_ns) };
        self.max_ns = self.max_ns.max(time_ns);
        self.count += 1;
        self.sum += u128::from(time_ns);
        self.squares = self.squares.saturating_add(u128::from(time_ns) * u128::from(time_ns));
    }

    pub fn min_ns(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min_ns)
    }

    /// Mean and standard deviation (of all, not of a sample).
    #[expect(clippy::cast_precision_loss, reason = "a mean has no more than 53 bits to tell")]
    pub fn summary(&self) -> Summary {
        if self.count == 0 {
            return Summary::default();
        }
        let (count, n) = (u128::from(self.count), self.count as f64);
        // count * squares - sum^2, exact where it fits.
        let exact = count.checked_mul(self.squares).zip(self.sum.checked_mul(self.sum));
        let spread = match exact {
            Some((squares, square)) => squares.saturating_sub(square) as f64,
            None => (n * self.squares as f64 - (self.sum as f64).powi(2)).max(0.0),
        };
        Summary {
            count: self.count,
            min_ns: self.min_ns,
            max_ns: self.max_ns,
            mean_ns: self.sum as f64 / n,
            sd_ns: spread.sqrt() / n,
        }
    }
}

/// Smoothed round trip and its variation (RFC 6298 section 2).
#[derive(Clone, Copy, Debug, Default)]
pub struct Smoothed {
    srtt_ns: u64,
    var_ns: u64,
}

impl Smoothed {
    #[inline]
    pub fn add(&mut self, rtt_ns: u64) {
        let rtt_ns = rtt_ns.clamp(1, MAX_NS);
        if self.srtt_ns == 0 {
            (self.srtt_ns, self.var_ns) = (rtt_ns, rtt_ns / 2);
        } else {
            self.var_ns = (3 * self.var_ns + self.srtt_ns.abs_diff(rtt_ns)) / 4;
            self.srtt_ns = (7 * self.srtt_ns + rtt_ns) / 8;
        }
    }
}

/// Round trip of the whole path, as its sender knows it: from the point of capture to either end and back.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    srtt_ns: u64,
    var_ns: u64,
}

impl Path {
    #[inline]
    pub fn new(there: Smoothed, here: Smoothed) -> Self {
        Self { srtt_ns: there.srtt_ns + here.srtt_ns, var_ns: there.var_ns + here.var_ns }
    }

    /// `None` while nothing has been measured.
    #[inline]
    pub fn rtt_ns(&self) -> Option<u64> {
        (self.srtt_ns > 0).then_some(self.srtt_ns)
    }

    /// When a time-out may come by RFC 6298, without its minimum.
    pub fn least_timeout_ns(&self) -> Option<u64> {
        self.rtt_ns().map(|rtt| rtt + 4 * self.var_ns)
    }

    /// When a time-out comes by Linux's rule, less a tenth for what was not measured exactly.
    #[inline]
    pub fn timeout_ns(&self) -> u64 {
        (self.srtt_ns + (4 * self.var_ns).max(LEAST_WAIT_NS)) / 10 * 9
    }
}

/// A tick of the sender's time-stamp clock.
#[derive(Clone, Copy, Debug)]
struct Tick {
    value: u32,
    /// First packet with data that carried it.
    time_ns: i64,
    end: i64,
}

/// Time stamps on their way to the other end and back. Each value counts once: from the first data packet
/// that carried it to the first packet that echoes it; later packets with the same value would count the
/// length of a tick as part of the round trip.
#[derive(Debug, Default)]
pub struct Ticks {
    list: VecDeque<Tick>,
    last: Option<u32>,
    echoed: Option<u32>,
}

impl Ticks {
    #[inline]
    pub fn sent(&mut self, value: u32, time_ns: i64, end: i64) {
        if self.last == Some(value) || self.last.is_some_and(|last| is_before(value, last)) {
            return;
        }
        self.last = Some(value);
        if self.list.len() >= if self.echoed.is_some() { MAX_TICKS } else { MAX_TICKS_UNANSWERED } {
            self.list.pop_front();
        }
        self.list.push_back(Tick { value, time_ns, end });
    }

    /// When the packet echoed was sent, and where its data ended.
    #[inline]
    pub fn echo(&mut self, value: u32) -> Option<(i64, i64)> {
        if self.echoed == Some(value) {
            return None;
        }
        self.echoed = Some(value);
        let mut answered = None;
        while let Some(tick) = self.list.front().filter(|tick| !is_before(value, tick.value)) {
            let found = (tick.value == value).then_some((tick.time_ns, tick.end));
            self.list.pop_front();
            if found.is_some() {
                answered = found;
                break;
            }
        }
        if self.list.capacity() > 2 * KEPT_TICKS && self.list.is_empty() {
            self.list.shrink_to(KEPT_TICKS);
        }
        answered
    }
}

/// Whether `a` is before `b`, on a clock that wraps.
#[inline]
pub fn is_before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_ticks_wait_before_the_first_echo_and_an_empty_list_takes_little() {
        let mut ticks = Ticks::default();
        (0..10_000).for_each(|value| ticks.sent(value, i64::from(value), 0));
        assert_eq!(ticks.list.len(), MAX_TICKS_UNANSWERED);
        assert_eq!(ticks.echo(9_999), Some((9_999, 0)));
        (10_000..20_000).for_each(|value| ticks.sent(value, i64::from(value), 0));
        assert_eq!(ticks.list.len(), MAX_TICKS);
        assert_eq!(ticks.echo(19_999), Some((19_999, 0)));
        assert!(ticks.list.is_empty() && ticks.list.capacity() <= 2 * KEPT_TICKS);
    }
}
