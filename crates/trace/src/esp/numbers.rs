//! Which sequence numbers of a security association arrived, within a window as wide as any receiver's.

/// Width of the window in numbers; a host with many paths or queues is that far out of order.
pub const WINDOW: i64 = 4_096;
const WORDS: usize = WINDOW as usize / 64;

/// Counts of numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbers {
    lowest: i64,
    highest: i64,
    received: u64,
    copies: u64,
    reordered: u64,
    /// One bit per number of the window, at its remainder.
    came: Box<[u64; WORDS]>,
}

impl Numbers {
    /// Begins with the first packet's number.
    pub fn new(first: i64) -> Self {
        let mut numbers = Self {
            lowest: first,
            highest: first,
            received: 1,
            copies: 0,
            reordered: 0,
            came: Box::new([0; WORDS]),
        };
        numbers.mark(first);
        numbers
    }

    /// The next packet's number.
    pub fn put(&mut self, number: i64) {
        if number > self.highest {
            self.pass(number);
        } else if self.highest - number >= WINDOW {
            // Late, or a copy: no receiver accepts it, and it fills no gap.
            self.reordered += 1;
            return;
        } else if self.has(number) {
            self.copies += 1;
            return;
        } else {
            self.lowest = self.lowest.min(number);
            self.reordered += 1;
        }
        self.mark(number);
        self.received += 1;
    }

    /// The highest one.
    pub const fn highest(&self) -> i64 {
        self.highest
    }

    /// Numbers between the lowest and the highest that never arrived.
    pub const fn lost(&self) -> u64 {
        (self.highest - self.lowest + 1).unsigned_abs().saturating_sub(self.received)
    }

    /// Packets whose number had arrived before.
    pub const fn copies(&self) -> u64 {
        self.copies
    }

    /// Packets after one with a higher number.
    pub const fn reordered(&self) -> u64 {
        self.reordered
    }

    /// Moves the window up.
    fn pass(&mut self, highest: i64) {
        if highest - self.highest >= WINDOW {
            self.came.fill(0);
        } else {
            for number in self.highest + 1..highest {
                let (word, bit) = place(number);
                self.came[word] &= !bit;
            }
        }
        self.highest = highest;
    }

    fn has(&self, number: i64) -> bool {
        let (word, bit) = place(number);
        self.came[word] & bit != 0
    }

    fn mark(&mut self, number: i64) {
        let (word, bit) = place(number);
        self.came[word] |= bit;
    }
}

const fn place(number: i64) -> (usize, u64) {
    let at = number.rem_euclid(WINDOW) as usize;
    (at / 64, 1 << (at % 64))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a set of all numbers.
        #[test]
        fn a_window_counts_as_a_look_at_everything_does(
            steps in proptest::collection::vec(
                prop_oneof![5 => 1..2_i64, 2 => -2_000..3_000_i64, 1 => 0..9_000_i64], 1..300),
        ) {
            let (mut numbers, mut seen) = (Numbers::new(5), std::collections::BTreeSet::from([5]));
            let (mut copies, mut reordered) = (0, 0);
            for step in steps {
                let number = numbers.highest() + step;
                let late = step < 0;
                numbers.put(number);
                if seen.insert(number) {
                    reordered += u64::from(late);
                } else {
                    copies += 1;
                }
            }
            let expected = (seen.last().unwrap() - seen.first().unwrap() + 1) as u64;
            prop_assert_eq!(numbers.lost(), expected - seen.len() as u64);
            prop_assert_eq!((numbers.copies(), numbers.reordered()), (copies, reordered));
        }
    }
}
