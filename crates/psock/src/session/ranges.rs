//! A set of numbers, kept as ranges that do not touch.

use std::collections::BTreeMap;

/// Ranges `start..end` that neither overlap nor touch.
#[derive(Clone, Debug, Default)]
pub struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Adds `start..end`; returns how many of these numbers are new.
    pub fn insert(&mut self, start: u64, end: u64) -> u64 {
        if start >= end {
            return 0;
        }
        let (mut from, mut to, mut known) = (start, end, 0);
        if let Some((&a, &b)) = self.0.range(..=start).next_back()
            && b >= start
        {
            self.0.remove(&a);
            known += b.min(end) - start;
            from = a;
            to = to.max(b);
        }
        while let Some((&a, &b)) = self.0.range(start..=end).next() {
            self.0.remove(&a);
            known += b.min(end) - a;
            to = to.max(b);
        }
        self.0.insert(from, to);
        end - start - known
    }

    /// Removes `start..end`.
    pub fn remove(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        if let Some((&a, &b)) = self.0.range(..start).next_back()
            && b > start
        {
            self.0.insert(a, start);
            if b > end {
                self.0.insert(end, b);
            }
        }
        while let Some((&a, &b)) = self.0.range(start..end).next() {
            self.0.remove(&a);
            if b > end {
                self.0.insert(end, b);
            }
        }
    }

    /// The first range.
    pub fn first(&self) -> Option<(u64, u64)> {
        self.0.first_key_value().map(|(start, end)| (*start, *end))
    }

    /// Where the last range ends.
    pub fn end(&self) -> Option<u64> {
        self.0.last_key_value().map(|(_, end)| *end)
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().map(|(start, end)| (*start, *end))
    }

    /// How many numbers.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn they_hold_what_a_plain_set_holds(
            steps in vec((any::<bool>(), 0_u64..60, 0_u64..20), 0..40)
        ) {
            let (mut ranges, mut plain) = (Ranges::default(), BTreeSet::new());
            for (adds, start, len) in steps {
                if adds {
                    let before = plain.len();
                    plain.extend(start..start + len);
                    prop_assert_eq!(ranges.insert(start, start + len), (plain.len() - before) as u64);
                } else {
                    ranges.remove(start, start + len);
                    plain.retain(|number| !(start..start + len).contains(number));
                }
                let held: Vec<u64> = ranges.iter().flat_map(|(start, end)| start..end).collect();
                prop_assert_eq!(held, plain.iter().copied().collect::<Vec<_>>());
                let apart = ranges.iter().zip(ranges.iter().skip(1)).all(|((_, end), (start, _))| end < start);
                prop_assert!(apart && ranges.iter().all(|(start, end)| start < end));
            }
        }
    }
}
