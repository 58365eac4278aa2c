//! What a capture itself missed: it looks like loss, but nothing else was captured meanwhile, either.

use super::rtcp::CapturedNumbers;
use super::track::Pauses;

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
    /// How long the newest one lasted, and the others in it.
    last: (i64, u64),
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
            self.last = (
                arrival_ns.saturating_sub(newest.arrival_ns),
                order.saturating_sub(newest.order).saturating_sub(1),
            );
            self.gaps += 1;
            self.lasted_ns += self.last.0;
            self.beside += self.last.1;
        }
        self.newest = Some(place);
    }

    /// The newest gap was a pause of the source, in which others may have paused as well: it shows nothing, and neither
    /// does its time.
    pub fn excuse(&mut self) {
        let (lasted_ns, beside) = std::mem::take(&mut self.last);
        let Some(first) = self.first.as_mut().filter(|_| lasted_ns > 0) else { return };
        first.arrival_ns += lasted_ns;
        first.order += beside;
        self.gaps -= 1;
        self.lasted_ns -= lasted_ns;
        self.beside -= beside;
    }

    /// The numbers that the capture has, of which `count` were sent; `None` without any.
    pub fn captured(&self, count: u64, pauses: Pauses) -> Option<CapturedNumbers> {
        let count = count + pauses.skipped.max(0).unsigned_abs();
        self.first.map(|first| CapturedNumbers { first: first.number, count, pauses })
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

    /// Whether the numbers that are missing, `lost` of `expected`, show nothing of the network; `totals` are those of its
    /// receiver's reports.
    pub fn missed(&self, lost: u64, expected: u64, totals: Option<(u64, u64)>) -> Option<Missed> {
        let seen_by_receiver = || {
            totals.is_some_and(|(covered, missed)| {
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
    fn a_pause_in_which_everything_was_silent_is_no_gap() {
        let (mut holes, mut order) = (Holes::default(), 0);
        for i in (0..1_000).filter(|i| !(400..700).contains(i) && i % 97 != 5) {
            holes.put(i as u16, i * 20 * MS, order);
            order += 2;
            if i == 700 {
                assert!(holes.are_of_all(), "by its gap");
                holes.excuse();
            }
        }
        assert_eq!(holes.missed(8, 700, None), None);
    }

    #[test]
    fn a_stream_of_which_hardly_anything_was_captured_shows_no_loss() {
        let (holes, lost) = beside(|at_ms| at_ms % 1_300 == 0, |_| true);
        assert_eq!(holes.missed(lost, 1_000, None), Some(Missed::Sparse));
        let (holes, lost) = beside(|at_ms| at_ms % 60 == 0, |_| true);
        assert_eq!(holes.missed(lost, 1_000, None), None);
    }
}
