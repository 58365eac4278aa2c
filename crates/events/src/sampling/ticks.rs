//! The times at which samples were due, from those at which the timer ran.

/// Numbers the rounds of a timer that runs every `period_ns`, where rounds may be late or left out.
///
/// The timer does not tell when it was due, but it keeps to its grid: the earliest round so far shows where that is.
#[derive(Clone, Debug)]
pub struct Ticks {
    period_ns: u64,
    round: u64,
    /// When the last round ran, and when it was due.
    last: Option<(u64, u64)>,
    /// The timer was started anew since.
    is_new: bool,
}

impl Ticks {
    pub const fn new(period_ns: u64) -> Self {
        Self { period_ns, round: 0, last: None, is_new: false }
    }

    /// The number of the round that ran at `ran_ns`, and by how much it was late, unless that was told already.
    pub fn at(&mut self, ran_ns: u64) -> (u64, Option<u64>) {
        let Some((last_ns, due_ns)) = self.last else {
            self.last = Some((ran_ns, ran_ns));
            return (self.round, Some(0));
        };
        if ran_ns <= last_ns {
            return (self.round, None);
        }
        let next_ns = due_ns + self.period_ns;
        let late_ns = ran_ns.saturating_sub(next_ns);
        let left_out = late_ns / self.period_ns;
        self.round += 1 + left_out;
        let due_ns = if self.is_new { ran_ns } else { ran_ns.min(next_ns + left_out * self.period_ns) };
        self.is_new = false;
        self.last = Some((ran_ns, due_ns));
        (self.round, Some(late_ns))
    }

    /// The timer is started anew: its grid is another one. Rounds are numbered on.
    pub const fn restart(&mut self) {
        self.is_new = true;
    }

    /// Nothing is due until the next round.
    pub const fn rest(&mut self) {
        self.last = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn rounds_are_late_after_the_earliest_one() {
        let mut ticks = Ticks::new(MS);
        assert_eq!(ticks.at(100 * MS + 300), (0, Some(0)));
        assert_eq!(ticks.at(101 * MS + 50), (1, Some(0)), "the first one was late");
        assert_eq!(ticks.at(102 * MS + 90), (2, Some(40)));
        assert_eq!(ticks.at(102 * MS + 90), (2, None), "told once");
    }

    #[test]
    fn rounds_that_were_left_out_are_counted() {
        let mut ticks = Ticks::new(MS);
        ticks.at(100 * MS);
        assert_eq!(ticks.at(103 * MS + 7), (3, Some(2 * MS + 7)));
        assert_eq!(ticks.at(104 * MS + 3), (4, Some(3)), "the grid is the same");
    }

    #[test]
    fn a_timer_that_is_started_anew_has_another_grid() {
        let mut ticks = Ticks::new(MS);
        ticks.at(100 * MS);
        ticks.restart();
        assert_eq!(ticks.at(105 * MS + MS / 2), (5, Some(4 * MS + MS / 2)));
        assert_eq!(ticks.at(106 * MS + MS / 2), (6, Some(0)));
    }

    #[test]
    fn while_nothing_is_sampled_nothing_is_late() {
        let mut ticks = Ticks::new(MS);
        ticks.at(100 * MS);
        ticks.rest();
        assert_eq!(ticks.at(200 * MS), (0, Some(0)));
    }
}
