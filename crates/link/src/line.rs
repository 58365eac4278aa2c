//! What is under way: frames by the time when they are due.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

/// Something that is due.
#[derive(Clone, Debug)]
struct Entry<D> {
    due_ns: u64,
    /// Among those due at the same time, the order in which they came.
    number: u64,
    item: D,
}

/// Ordered by time and, at equal times, by the order in which they came.
///
/// Mostly each is due later than all before it: those are kept in a ring, and only the others in a heap.
#[derive(Clone, Debug)]
pub struct Line<D> {
    in_order: VecDeque<Entry<D>>,
    others: BinaryHeap<Reverse<Entry<D>>>,
    number: u64,
}

impl<D> Line<D> {
    pub const fn new() -> Self {
        Self { in_order: VecDeque::new(), others: BinaryHeap::new(), number: 0 }
    }

    pub fn len(&self) -> usize {
        self.in_order.len() + self.others.len()
    }

    /// Adds what is expected to be due later than everything else.
    pub fn push(&mut self, due_ns: u64, item: D) {
        let entry = self.entry(due_ns, item);
        if self.in_order.back().is_none_or(|last| last.due_ns <= due_ns) {
            self.in_order.push_back(entry);
        } else {
            self.others.push(Reverse(entry));
        }
    }

    /// Adds what is due later than some that will come.
    pub fn push_aside(&mut self, due_ns: u64, item: D) {
        let entry = self.entry(due_ns, item);
        self.others.push(Reverse(entry));
    }

    /// When the first is due.
    pub fn due_ns(&self) -> Option<u64> {
        let other = self.others.peek().map(|Reverse(entry)| entry.due_ns);
        self.in_order.front().map(|entry| entry.due_ns).into_iter().chain(other).min()
    }

    /// The first, if it is due by `now_ns`, with its time.
    pub fn pop(&mut self, now_ns: u64) -> Option<(u64, D)> {
        let is_other_first = match (self.in_order.front(), self.others.peek()) {
            (Some(first), Some(Reverse(other))) => other < first,
            (None, Some(_)) => true,
            (_, None) => false,
        };
        let due_ns = self.due_ns().filter(|&due_ns| due_ns <= now_ns)?;
        let entry = if is_other_first { self.others.pop()?.0 } else { self.in_order.pop_front()? };
        Some((due_ns, entry.item))
    }

    const fn entry(&mut self, due_ns: u64, item: D) -> Entry<D> {
        self.number += 1;
        Entry { due_ns, number: self.number, item }
    }
}

impl<D> PartialEq for Entry<D> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<D> Eq for Entry<D> {}

impl<D> PartialOrd for Entry<D> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<D> Ord for Entry<D> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.due_ns, self.number).cmp(&(other.due_ns, other.number))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn all_come_out_by_time_and_then_in_the_order_in_which_they_came(
            pushed in prop::collection::vec((0_u64..50, any::<bool>()), 0..200)
        ) {
            let mut line = Line::new();
            for (i, &(due_ns, aside)) in pushed.iter().enumerate() {
                if aside { line.push_aside(due_ns, i) } else { line.push(due_ns, i) }
            }
            let mut expected: Vec<_> = pushed.iter().enumerate().map(|(i, &(due_ns, _))| (due_ns, i)).collect();
            expected.sort_unstable();
            prop_assert_eq!(line.len(), expected.len());
            for (due_ns, i) in expected {
                prop_assert_eq!(line.due_ns(), Some(due_ns));
                prop_assert!(due_ns == 0 || line.pop(due_ns - 1).is_none());
                prop_assert_eq!(line.pop(due_ns), Some((due_ns, i)));
            }
            prop_assert_eq!(line.due_ns(), None);
        }
    }
}
