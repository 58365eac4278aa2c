//! What a capture itself missed: it looks like loss, but nothing else was captured meanwhile, either.

use super::rtcp::{CapturedNumbers, Reports};

/// A number so far ahead is no gap.
const FAR: u16 = 3_000;
/// Gaps, and packets of others that would be expected in them, from which on their absence is no chance.
const LEAST_GAPS: u64 = 5;
const LEAST_EXPECTED: f64 = 20.0;
/// Share of those that may have come: a gap begins and ends with the usual time between two packets.
const HARDLY: f64 = 0.25;
/// Share of the numbers that are missing in an excerpt. A network that loses as many carries no call.
const SPARSE: f64 = 0.9;
const LEAST_MISSING: u64 = 20;
/// Share of the numbers that a receiver's reports must cover.
const COVERED: f64 = 0.8;
/// Multiple of what the receiver missed, beside what its reports may not have covered yet.
const MORE: u64 = 4;

/// Why it is not known what the network lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    /// The capture has hardly any of the numbers.
    Sparse,
    /// In the stream's gaps, hardly anything else was captured.
    Gaps,
    /// The receiver missed far fewer (RTCP).
    Reports,
}

/// Gaps between the numbers of a stream as its packets come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holes {
    first: Option<Place>,
    newest: Option<Place>,
    own: u64,
    gaps: u64,
    lasted_ns: i64,
    /// Other packets that were captured in them.
    beside: u64,
}

/// A packet of the stream in the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    number: u16,
    arrival_ns: i64,
    /// Its position among all packets.
    order: u64,
}

impl Holes {
    /// The next packet; `order` is its position in the capture.
    #[inline]
    pub fn put(&mut self, number: u16, arrival_ns: i64, order: u64) {
        self.own += 1;
        let place = Place { number, arrival_ns, order };
        let Some(newest) = self.newest else {
            (self.first, self.newest) = (Some(place), Some(place));
            return;
        };
        let ahead = number.wrapping_sub(newest.number);
        if ahead == 0 || ahead > u16::MAX / 2 {
            return;
        }
        if (2..FAR).contains(&ahead) {
            self.gaps += 1;
            self.lasted_ns += arrival_ns.saturating_sub(newest.arrival_ns);
            self.beside += order.saturating_sub(newest.order).saturating_sub(1);
        }
        self.newest = Some(place);
    }

    /// The numbers that the capture has, of which there are `count`; `None` without any.
    pub fn captured(&self, count: u64) -> Option<CapturedNumbers> {
        self.first.map(|first| CapturedNumbers { first: first.number, count })
    }

    /// Whether hardly anything else was captured in the gaps, although there is much at other times.
    fn are_of_all(&self) -> bool {
        let (Some(first), Some(newest)) = (self.first, self.newest) else { return false };
        let outside_ns = newest.arrival_ns.saturating_sub(first.arrival_ns) - self.lasted_ns;
        if self.gaps < LEAST_GAPS || outside_ns <= 0 || self.lasted_ns <= 0 {
            return false;
        }
        let others = (newest.order - first.order).saturating_sub(self.own - 1).saturating_sub(self.beside);
        let expected = others as f64 * self.lasted_ns as f64 / outside_ns as f64;
        expected >= LEAST_EXPECTED && self.beside as f64 <= HARDLY * expected
    }

    /// Whether the numbers that are missing, `lost` of `expected`, show nothing of the network; `reports` are those of the
    /// receiver.
    pub fn missed(&self, lost: u64, expected: u64, reports: Option<&Reports>) -> Option<Missed> {
        let seen_by_receiver = || {
            let totals = |reports: &Reports| reports.totals(self.captured(expected)?);
            reports.and_then(totals).is_some_and(|(covered, missed)| {
                covered as f64 >= COVERED * expected as f64
                    && lost >= MORE * missed + expected.saturating_sub(covered) + LEAST_MISSING
            })
        };
        if seen_by_receiver() {
            Some(Missed::Reports)
        } else if lost >= LEAST_MISSING && lost as f64 >= SPARSE * expected as f64 {
            Some(Missed::Sparse)
        } else {
            self.are_of_all().then_some(Missed::Gaps)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    /// A stream of a packet each 20 ms, of which `there` are captured, beside another one every 5 ms, of which those are.
    fn beside(there: impl Fn(i64) -> bool, other: impl Fn(i64) -> bool) -> (Holes, u64) {
        let (mut holes, mut order, mut lost) = (Holes::default(), 0, 0);
        for at_ms in 0..20_000 {
            if at_ms % 5 == 2 && other(at_ms) {
                order += 1;
            }
            if at_ms % 20 == 0 {
                if there(at_ms) {
                    order += 1;
                    holes.put((at_ms / 20 + 65_000) as u16, at_ms * MS, order);
                } else {
                    lost += 1;
                }
            }
        }
        (holes, lost)
    }

    #[test]
    fn gaps_in_which_nothing_else_was_captured_are_those_of_the_capture() {
        let captured = |at_ms: i64| at_ms % 2_000 >= 160;
        let (holes, lost) = beside(|at_ms| at_ms == 0 || captured(at_ms), captured);
        assert_eq!(holes.missed(lost, 1_000, None), Some(Missed::Gaps));
        let (holes, lost) = beside(|at_ms| at_ms == 0 || captured(at_ms), |_| true);
        assert_eq!(holes.missed(lost, 1_000, None), None);
        // Without anything else, the gaps show nothing.
        let (holes, lost) = beside(|at_ms| at_ms == 0 || captured(at_ms), |_| false);
        assert_eq!(holes.missed(lost, 1_000, None), None);
    }

    #[test]
    fn a_stream_of_which_hardly_anything_was_captured_shows_no_loss() {
        let (holes, lost) = beside(|at_ms| at_ms % 1_300 == 0, |_| true);
        assert_eq!(holes.missed(lost, 1_000, None), Some(Missed::Sparse));
        let (holes, lost) = beside(|at_ms| at_ms % 60 == 0, |_| true);
        assert_eq!(holes.missed(lost, 1_000, None), None);
    }
}
