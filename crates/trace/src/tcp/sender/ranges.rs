//! Few ranges of sequence numbers, in order and apart from each other.

/// More than this is not traffic but an attack, or a capture that missed most of it.
const MAX_RANGES: usize = 256;

/// Ranges `start..end`, each with what is known about it.
#[derive(Debug)]
pub struct Ranges<T> {
    list: Vec<(i64, i64, T)>,
}

impl<T> Default for Ranges<T> {
    fn default() -> Self {
        Self { list: Vec::new() }
    }
}

impl<T: Copy + PartialEq> Ranges<T> {
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many numbers are in them.
    pub fn size(&self) -> i64 {
        self.list.iter().map(|range| range.1 - range.0).sum()
    }

    /// End of the last one.
    pub fn end(&self) -> Option<i64> {
        self.list.last().map(|range| range.1)
    }

    pub fn contains(&self, at: i64) -> bool {
        self.list.iter().any(|range| range.0 <= at && at < range.1)
    }

    /// The first that overlaps.
    pub fn first_in(&self, start: i64, end: i64) -> Option<T> {
        self.list.iter().find(|range| range.0 < end && start < range.1).map(|range| range.2)
    }

    /// Adds one, merging it with those that it overlaps, and with those that it touches if the same is
    /// known about them; true if the first had to be dropped for it.
    pub fn add(&mut self, start: i64, end: i64, known: T) -> bool {
        if start >= end {
            return false;
        }
        let mut from = self.list.partition_point(|range| range.1 < start);
        let mut to = from + self.list[from..].partition_point(|range| range.0 <= end);
        from += usize::from(self.list.get(from).is_some_and(|range| range.1 == start && range.2 != known));
        to -= usize::from(from < to && self.list[to - 1].0 == end && self.list[to - 1].2 != known);
        if from == to {
            let full = self.list.len() >= MAX_RANGES;
            if full {
                self.list.remove(0);
            }
            self.list.insert(from.saturating_sub(usize::from(full)), (start, end, known));
            return full;
        }
        let last = self.list[to - 1].1;
        let first = &mut self.list[from];
        (first.0, first.1) = (first.0.min(start), last.max(end));
        self.list.drain(from + 1..to);
        false
    }

    /// Removes what lies in `start..end`; returns how many bytes that was.
    pub fn cut(&mut self, start: i64, end: i64) -> u64 {
        let mut taken = 0;
        let mut at = self.list.partition_point(|range| range.1 <= start);
        while let Some(&(left, right, known)) = self.list.get(at) {
            if left >= end {
                break;
            }
            taken += right.min(end).abs_diff(left.max(start));
            match (left < start, end < right) {
                (false, false) => {
                    self.list.remove(at);
                    continue;
                }
                (true, false) => self.list[at].1 = start,
                (false, true) => self.list[at].0 = end,
                (true, true) => {
                    self.list[at].1 = start;
                    self.list.insert(at + 1, (end, right, known));
                }
            }
            at += 1;
        }
        taken
    }

    /// Removes what lies before `end`.
    #[inline]
    pub fn cut_below(&mut self, end: i64) {
        if self.reaches_below(end) {
            self.cut(i64::MIN, end);
        }
    }

    /// Whether some of it lies before `end`.
    #[inline]
    pub fn reaches_below(&self, end: i64) -> bool {
        self.list.first().is_some_and(|range| range.0 < end)
    }

    /// Removes the first of what lies before `end`.
    pub fn take_below(&mut self, end: i64) -> Option<(i64, i64)> {
        let &(start, stop, _) = self.list.first().filter(|range| range.0 < end)?;
        let stop = stop.min(end);
        self.cut(start, stop);
        Some((start, stop))
    }

    /// Keeps those of which the known is as `wanted`.
    pub fn retain(&mut self, wanted: impl Fn(T) -> bool) {
        self.list.retain(|range| wanted(range.2));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranges_that_overlap_or_are_alike_become_one() {
        let mut ranges = Ranges::default();
        ranges.add(10, 20, 'a');
        ranges.add(30, 40, 'b');
        ranges.add(20, 30, 'a');
        assert_eq!(ranges.list, [(10, 30, 'a'), (30, 40, 'b')]);
        ranges.add(28, 35, 'c');
        assert_eq!(ranges.list, [(10, 40, 'a')]);
    }

    #[test]
    fn the_oldest_goes_when_there_are_too_many() {
        let mut ranges = Ranges::default();
        for i in 0..MAX_RANGES as i64 {
            assert!(!ranges.add(i * 10, i * 10 + 5, ()));
        }
        assert!(ranges.add(100_000, 100_001, ()));
        assert_eq!((ranges.list.len(), ranges.list[0].0), (MAX_RANGES, 10));
    }

    proptest! {
        /// Against a set of single numbers.
        #[test]
        fn ranges_hold_what_was_added_and_not_cut(
            steps in proptest::collection::vec((any::<bool>(), 0..100_i64, 0..30_i64), 0..40),
        ) {
            let mut ranges = Ranges::default();
            let mut set = std::collections::BTreeSet::new();
            for (add, start, len) in steps {
                if add {
                    ranges.add(start, start + len, ());
                    set.extend(start..start + len);
                } else {
                    let before = set.len();
                    set.retain(|n| !(start..start + len).contains(n));
                    prop_assert_eq!(ranges.cut(start, start + len), (before - set.len()) as u64);
                }
                prop_assert_eq!(ranges.size(), set.len() as i64);
                for n in 0..140 {
                    prop_assert_eq!(ranges.contains(n), set.contains(&n));
                }
            }
        }
    }
}
