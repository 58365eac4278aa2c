//! Which numbers came, counted on the fly: a packet belongs close to the highest number or starts anew
//! (RFC 3550 appendix A.1), so a short window shows copies, order and losses.

/// Width of the window in numbers; those of RTP come at most 100 late.
const WINDOW: i64 = 128;

/// What became of a packet's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It came for the first time.
    First,
    /// It had come before.
    Copy,
}

/// Counts of a stream's numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Losses {
    lowest: i64,
    highest: i64,
    /// Bit i: number `highest` - i came, or lies before the stream's first.
    came: u128,
    received: u64,
    copies: u64,
    reordered: u64,
    runs: u64,
    longest_run: u64,
    /// Lost numbers in a row just below the window.
    run: u64,
}

impl Losses {
    /// Begins with the first packet's number.
    pub const fn new(first: i64) -> Self {
        Self {
            lowest: first,
            highest: first,
            came: u128::MAX,
            received: 1,
            copies: 0,
            reordered: 0,
            runs: 0,
            longest_run: 0,
            run: 0,
        }
    }

    /// The next packet's number.
    pub fn put(&mut self, number: i64) -> Place {
        if number > self.highest {
            self.advance(number - self.highest);
            self.highest = number;
            self.came |= 1;
            self.received += 1;
            return Place::First;
        }
        let back = self.highest - number;
        if back >= WINDOW {
            // Whether it came before is forgotten. IAX2 derives numbers from times, which have no limit.
            self.lowest = self.lowest.min(number);
            self.received += 1;
            self.reordered += 1;
            return Place::First;
        }
        if number >= self.lowest && self.came >> back & 1 != 0 {
            self.copies += 1;
            return Place::Copy;
        }
        if number < self.lowest {
            // From here to the former first one, numbers are missing.
            for missing in number + 1..self.lowest {
                self.came &= !(1 << (self.highest - missing));
            }
            self.lowest = number;
        }
        self.came |= 1 << back;
        self.received += 1;
        self.reordered += 1;
        Place::First
    }

    /// Numbers from the first to the last.
    pub const fn expected(&self) -> u64 {
        (self.highest - self.lowest + 1).unsigned_abs()
    }

    /// Numbers that never came.
    pub const fn lost(&self) -> u64 {
        self.expected().saturating_sub(self.received)
    }

    /// Packets whose number had come before.
    pub const fn copies(&self) -> u64 {
        self.copies
    }

    /// Packets after one with a higher number (RFC 4737 section 3.3), first copies only.
    pub const fn reordered(&self) -> u64 {
        self.reordered
    }

    /// Runs of losses, and the longest; nothing comes any more.
    pub fn runs(mut self) -> (u64, u64) {
        self.advance(WINDOW);
        self.end_run();
        (self.runs, self.longest_run)
    }

    /// Numbers below the window become final.
    fn advance(&mut self, by: i64) {
        let leave = by.min(WINDOW);
        // The oldest ones are the upper bits; nearly always all of them came.
        let all = if leave == WINDOW { u128::MAX } else { !(u128::MAX >> leave) };
        if self.run > 0 || self.came & all != all {
            for bit in (WINDOW - leave..WINDOW).rev() {
                if self.came >> bit & 1 == 0 {
                    self.run += 1;
                } else {
                    self.end_run();
                }
            }
        }
        if leave == WINDOW {
            self.came = 0;
            self.run += (by - WINDOW).unsigned_abs();
        } else {
            self.came <<= leave;
        }
    }

    fn end_run(&mut self) {
        self.runs += u64::from(self.run > 0);
        self.longest_run = self.longest_run.max(self.run);
        self.run = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same by checking every number.
    fn slowly(numbers: &[i64]) -> (u64, u64, u64, u64, (u64, u64)) {
        let (mut seen, mut copies, mut reordered) = (std::collections::BTreeSet::new(), 0, 0);
        for number in numbers {
            let late = seen.last().is_some_and(|highest| number < highest);
            if seen.insert(*number) {
                reordered += u64::from(late);
            } else {
                copies += 1;
            }
        }
        let (first, last) = (*seen.first().unwrap(), *seen.last().unwrap());
        let sorted: Vec<_> = seen.iter().copied().collect();
        let gaps: Vec<_> =
            sorted.windows(2).map(|w| (w[1] - w[0] - 1) as u64).filter(|gap| *gap > 0).collect();
        let expected = (last - first + 1) as u64;
        let runs = (gaps.len() as u64, gaps.iter().copied().max().unwrap_or(0));
        (expected, expected - seen.len() as u64, copies, reordered, runs)
    }

    fn counted(numbers: &[i64]) -> (u64, u64, u64, u64, (u64, u64)) {
        let mut losses = Losses::new(numbers[0]);
        for number in &numbers[1..] {
            losses.put(*number);
        }
        (losses.expected(), losses.lost(), losses.copies(), losses.reordered(), losses.clone().runs())
    }

    #[test]
    fn losses_copies_and_late_packets_are_told() {
        assert_eq!(counted(&[10, 11, 13, 12, 12, 17]), (8, 3, 1, 1, (1, 3)));
        assert_eq!(counted(&[0, -3, 1]), (5, 2, 0, 1, (1, 2)));
    }

    proptest! {
        #[test]
        fn a_short_window_counts_as_a_look_at_everything_does(
            steps in proptest::collection::vec(prop_oneof![5 => 1..2_i64, 2 => -100..150_i64, 1 => 0..3_000_i64], 1..400),
        ) {
            let (mut numbers, mut highest) = (vec![5], 5);
            for step in steps {
                numbers.push(highest + step);
                highest = highest.max(highest + step);
            }
            prop_assert_eq!(counted(&numbers), slowly(&numbers));
        }
    }
}
