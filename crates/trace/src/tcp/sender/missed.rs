//! Data that was acknowledged before it was seen.
//!
//! A capture that takes the two directions from two queues (a mirror, two cards, a card that cuts and joins
//! segments) may record data a moment after its own ACK. Such data is seen for the first time: no sender repeats
//! what was acknowledged a moment ago. The capture missed data that does not come within that moment; if it
//! comes later, its sender has not received the ACK and sent it again.

use super::data::REORDERED_NS;
use super::ranges::Ranges;

/// Resolution of these times, so that many ACKs without the data make one range and not one each.
const COARSE_NS: i64 = 1_000_000;

/// What was acknowledged a moment ago and not seen, each with the time until which it may come.
#[derive(Debug, Default)]
pub struct Missed {
    ranges: Ranges<i64>,
}

impl Missed {
    /// Adds what an ACK at `now` covers; true if there were too many, so that the first was given up.
    pub fn add(&mut self, start: i64, end: i64, now: i64) -> bool {
        self.expire(now);
        let until = now.saturating_add(REORDERED_NS as i64);
        self.ranges.add(start, end, until.saturating_add(COARSE_NS - until.rem_euclid(COARSE_NS)))
    }

    /// Gives up what is no longer expected at `now`.
    pub fn expire(&mut self, now: i64) {
        if !self.ranges.is_empty() {
            self.ranges.retain(|until| now <= until);
        }
    }

    /// Whether any of it is expected.
    pub fn overlaps(&self, start: i64, end: i64) -> bool {
        self.ranges.first_in(start, end).is_some()
    }

    /// Whether the byte at this place is.
    pub fn contains(&self, at: i64) -> bool {
        self.ranges.contains(at)
    }

    /// Removes what came; returns how many bytes that was.
    pub fn take(&mut self, start: i64, end: i64) -> u64 {
        self.ranges.cut(start, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    #[test]
    fn what_does_not_come_within_a_moment_is_expected_no_more() {
        let mut missed = Missed::default();
        assert!(!missed.add(0, 1_000, 100 * MS));
        missed.expire(103 * MS);
        assert!(missed.overlaps(500, 600));
        missed.expire(105 * MS);
        assert!(!missed.overlaps(500, 600));
    }

    #[test]
    fn acks_alone_leave_few_ranges_however_many_come() {
        let mut missed = Missed::default();
        for n in 0..10_000 {
            assert!(!missed.add(n * 1_000, (n + 1) * 1_000, n * 1_000));
        }
        assert!(missed.overlaps(9_999_000, 10_000_000) && !missed.overlaps(0, 5_000_000));
    }
}
