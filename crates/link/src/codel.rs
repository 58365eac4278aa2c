//! CoDel as in RFC 8289, appendix A, over any store of frames.

use crate::spec::CoDel;

/// The controller's state.
#[derive(Clone, Debug)]
pub struct Controller {
    settings: CoDel,
    /// When the waiting time will have been above the target for an interval, if it is above now.
    first_above_ns: Option<u64>,
    drop_next_ns: u64,
    count: u64,
    last_count: u64,
    is_dropping: bool,
}

/// The frame that was at the head, taken out.
pub struct Head<I> {
    pub item: I,
    pub arrived_ns: u64,
    /// No more than the largest frame waits behind it.
    pub is_last: bool,
}

impl Controller {
    pub const fn new(settings: CoDel) -> Self {
        Self { settings, first_above_ns: None, drop_next_ns: 0, count: 0, last_count: 0, is_dropping: false }
    }

    /// The frame to transmit at `now_ns`: `next` takes frames out, `drop` gets those dropped before it.
    pub fn dequeue<I>(
        &mut self,
        now_ns: u64,
        mut next: impl FnMut() -> Option<Head<I>>,
        mut drop: impl FnMut(I),
    ) -> Option<I> {
        let (mut head, mut may_drop) = self.take(now_ns, &mut next);
        if self.is_dropping {
            self.is_dropping = may_drop;
            while self.is_dropping && now_ns >= self.drop_next_ns {
                head.into_iter().for_each(&mut drop);
                self.count += 1;
                (head, may_drop) = self.take(now_ns, &mut next);
                if may_drop {
                    self.drop_next_ns = self.control_law(self.drop_next_ns);
                } else {
                    self.is_dropping = false;
                }
            }
        } else if may_drop {
            head.into_iter().for_each(&mut drop);
            (head, _) = self.take(now_ns, &mut next);
            self.is_dropping = true;
            // If it dropped not long ago, the rate of drops that it ended with is a good one to begin with.
            let delta = self.count - self.last_count;
            let was_recent = now_ns.saturating_sub(self.drop_next_ns) < 16 * self.settings.interval_ns;
            self.count = if delta > 1 && was_recent { delta } else { 1 };
            self.drop_next_ns = self.control_law(now_ns);
            self.last_count = self.count;
        }
        head
    }

    /// `dodequeue` of the RFC: the next frame, and whether it may be dropped.
    fn take<I>(&mut self, now_ns: u64, next: &mut impl FnMut() -> Option<Head<I>>) -> (Option<I>, bool) {
        let Some(head) = next() else {
            self.first_above_ns = None;
            return (None, false);
        };
        if now_ns.saturating_sub(head.arrived_ns) < self.settings.target_ns || head.is_last {
            self.first_above_ns = None;
            return (Some(head.item), false);
        }
        let above_ns = *self.first_above_ns.get_or_insert(now_ns + self.settings.interval_ns);
        // The RFC checks the time only from the next frame on; an interval is never 0, so it is the same.
        (Some(head.item), now_ns >= above_ns)
    }

    fn control_law(&self, at_ns: u64) -> u64 {
        at_ns + (self.settings.interval_ns as f64 / (self.count as f64).sqrt()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const SETTINGS: CoDel = CoDel { target_ns: 5 * MS, interval_ns: 100 * MS };

    /// Dequeues every ms for `ms`, each frame having waited for `waited_ns`; the times of drops in ms.
    fn drops(controller: &mut Controller, from_ms: u64, ms: u64, waited_ns: u64, is_last: bool) -> Vec<u64> {
        let mut dropped = Vec::new();
        for at_ms in from_ms..from_ms + ms {
            let now_ns = at_ms * MS;
            let next = || Some(Head { item: (), arrived_ns: now_ns - waited_ns, is_last });
            controller.dequeue(now_ns, next, |()| dropped.push(at_ms));
        }
        dropped
    }

    #[test]
    fn below_the_target_nothing_is_dropped() {
        assert_eq!(drops(&mut Controller::new(SETTINGS), 1000, 5000, 5 * MS - 1, false), []);
    }

    #[test]
    fn a_queue_of_one_frame_is_never_too_long() {
        assert_eq!(drops(&mut Controller::new(SETTINGS), 1000, 5000, 50 * MS, true), []);
    }

    #[test]
    fn above_the_target_drops_come_after_an_interval_and_then_by_its_inverse_square_root() {
        let found = drops(&mut Controller::new(SETTINGS), 1000, 600, 6 * MS, false);
        // First above at 1000 ms; count 1 at 1100, then 100/sqrt(n) ms apart, seen at the next dequeueing.
        let mut due_ms = 1100.0_f64;
        let mut expected = vec![1100];
        for count in 1_u32.. {
            due_ms += 100.0 / f64::from(count).sqrt();
            if due_ms >= 1600.0 {
                break;
            }
            expected.push(due_ms.ceil() as u64);
        }
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(&expected) {
            assert!(found.abs_diff(*expected) <= 1, "{found} {expected}");
        }
    }

    #[test]
    fn one_short_wait_ends_the_drops_and_a_soon_return_takes_up_their_rate() {
        let mut controller = Controller::new(SETTINGS);
        let first = drops(&mut controller, 1000, 1000, 6 * MS, false);
        assert!(first.len() > 10);
        assert_eq!(drops(&mut controller, 2000, 1, 0, false), []);
        let second = drops(&mut controller, 2001, 200, 6 * MS, false);
        // Again an interval of patience, and then not the slow start of the first time.
        assert_eq!(second[0], 2101);
        assert!(second[1] - second[0] < (first[1] - first[0]) / 2, "{second:?}");
    }

    #[test]
    fn after_a_long_time_below_the_target_it_starts_slowly_again() {
        let mut controller = Controller::new(SETTINGS);
        drops(&mut controller, 1000, 1000, 6 * MS, false);
        drops(&mut controller, 2000, 2000, 0, false);
        let again = drops(&mut controller, 4000, 210, 6 * MS, false);
        assert_eq!(again, [4100, 4200]);
    }
}
