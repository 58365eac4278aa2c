//! The times at which samples of one connection are due, and what became of each.

/// Counts them as time passes.
///
/// Due times are a period apart. If something happens to the connection before the next one, there is a sample, or it
/// is missed for lack of room. If nothing happens, there is nothing to report: the connection is idle.
#[derive(Clone, Debug)]
pub struct Due {
    period_ns: u64,
    /// The first due time that is not counted.
    next_ns: u64,
    /// Samples known to be missed.
    missed: u64,
    /// Those of them whose due time is not counted.
    ahead: u64,
}

/// What was counted now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Due times after which nothing happened.
    pub idle: u64,
    /// Due times after which something happened, and no sample was kept.
    pub missed: u64,
}

impl Due {
    /// The first one is due at `first_ns`.
    pub fn new(period_ns: u64, first_ns: u64) -> Self {
        Self { period_ns: period_ns.max(1), next_ns: first_ns, missed: 0, ahead: 0 }
    }

    /// There is a sample of this due time; so far, `missed` found no room.
    pub fn sampled(&mut self, due_ns: u64, missed: u64) -> Counted {
        let counted = self.passed(due_ns, missed);
        if self.next_ns <= due_ns {
            self.next_ns += self.period_ns;
        }
        counted
    }

    /// There are no more samples until `now_ns`; so far, `missed` found no room. Something may still happen after
    /// the last due time: it is not counted.
    pub fn passed(&mut self, now_ns: u64, missed: u64) -> Counted {
        let periods = now_ns.saturating_sub(self.next_ns) / self.period_ns;
        self.next_ns += periods * self.period_ns;
        let fresh = missed.saturating_sub(self.missed);
        self.missed += fresh;
        self.ahead += fresh;
        let among = self.ahead.min(periods);
        self.ahead -= among;
        Counted { idle: periods - among, missed: fresh }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn due() -> Due {
        Due::new(MS, 100 * MS)
    }

    fn counted(idle: u64, missed: u64) -> Counted {
        Counted { idle, missed }
    }

    #[test]
    fn with_a_sample_for_each_due_time_none_is_idle() {
        let mut due = due();
        for number in 0..5 {
            assert_eq!(due.sampled((100 + number) * MS, 0), counted(0, 0));
        }
    }

    #[test]
    fn due_times_between_two_samples_are_idle() {
        let mut due = due();
        due.sampled(100 * MS, 0);
        assert_eq!(due.sampled(104 * MS, 0), counted(3, 0));
        assert_eq!(due.sampled(105 * MS, 0), counted(0, 0));
    }

    #[test]
    fn a_due_time_is_idle_only_when_its_period_is_over() {
        let mut due = due();
        due.sampled(100 * MS, 0);
        assert_eq!(due.passed(101 * MS - 1, 0), counted(0, 0), "none is due");
        assert_eq!(due.passed(104 * MS - 1, 0), counted(2, 0), "of 101, 102 and 103");
        assert_eq!(due.passed(104 * MS - 1, 0), counted(0, 0), "told once");
        assert_eq!(due.sampled(103 * MS, 0), counted(0, 0), "something happened after all");
        assert_eq!(due.sampled(104 * MS, 0), counted(0, 0));
    }

    #[test]
    fn what_found_no_room_is_missed_and_not_idle() {
        let mut due = due();
        due.sampled(100 * MS, 0);
        assert_eq!(due.sampled(106 * MS, 2), counted(3, 2));
        assert_eq!(due.sampled(107 * MS, 2), counted(0, 0));
        assert_eq!(due.sampled(109 * MS, 3), counted(0, 1));
    }

    #[test]
    fn what_is_missed_before_its_period_is_over_is_counted_once() {
        let mut due = due();
        assert_eq!(due.passed(100 * MS + MS / 2, 1), counted(0, 1));
        assert_eq!(due.passed(102 * MS, 1), counted(1, 0), "that of 101; 100 was missed");
        assert_eq!(due.sampled(102 * MS, 1), counted(0, 0));
    }

    #[test]
    fn every_due_time_is_counted_as_one_thing() {
        let mut due = due();
        let (mut sampled, mut idle, mut missed) = (0, 0, 0);
        let mut count = |counted: Counted| {
            idle += counted.idle;
            missed += counted.missed;
        };
        for (is_sample, at_ms, so_far) in [(true, 100, 0), (false, 107, 2), (true, 107, 2), (true, 113, 6)] {
            let at_ns = at_ms * MS;
            sampled += u64::from(is_sample);
            count(if is_sample { due.sampled(at_ns, so_far) } else { due.passed(at_ns, so_far) });
        }
        assert_eq!(sampled + idle + missed, 14, "from 100 to 113");
        assert_eq!((sampled, missed), (3, 6));
    }

    #[test]
    fn a_sample_of_a_time_that_was_counted_changes_nothing() {
        let mut due = due();
        due.sampled(104 * MS, 0);
        assert_eq!(due.sampled(102 * MS, 0), counted(0, 0));
        assert_eq!(due.sampled(105 * MS, 0), counted(0, 0));
    }
}
