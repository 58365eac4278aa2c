//! What the other end may send in the course of a transfer: answers to what was asked, reports when they are due, the
//! end once, and that in time. No clock.

use std::collections::VecDeque;

use super::{CLOCK_EVERY_NS, CLOCK_EXCHANGES};

/// Time by which reports may be ahead: clocks differ, and a host that stood still has missed some.
const AHEAD_NS: u64 = 10_000_000_000;
/// Reports beyond those of the elapsed time: the last one, and one at each end of it.
const EXTRA: u64 = 8;
/// Time until the transfer has ended after the user stopped it.
const STOPPING_NS: u64 = 30_000_000_000;
/// Beyond any time of a clock; sums and differences below it do not overflow.
const MOST_NS: u64 = 1 << 62;

/// What one end has sent so far, and what it still may send.
#[derive(Debug, Default)]
pub struct Quota {
    interval_ns: u64,
    /// Questions for the time that wait for an answer.
    questions: VecDeque<u64>,
    has_started: bool,
    has_begun: bool,
    clocks: Reports,
    /// Of the client's end, and of the server's.
    intervals: [Reports; 2],
    stopped_ns: Option<u64>,
}

#[derive(Debug, Default)]
struct Reports {
    count: u64,
    last_ns: u64,
}

impl Reports {
    fn take(&mut self, every_ns: u64, extra: u64, elapsed_ns: u64) -> Result<(), String> {
        self.count += 1;
        let most = elapsed_ns.saturating_add(AHEAD_NS) / every_ns.max(1);
        if self.count > most.saturating_add(extra) {
            return Err(format!(
                "it sent {} reports, one every {} s was requested",
                self.count,
                every_ns as f64 / 1e9
            ));
        }
        Ok(())
    }
}

impl Quota {
    /// For reports every `interval_ns`.
    pub fn new(interval_ns: u64) -> Self {
        Self { interval_ns, ..Self::default() }
    }

    /// It is asked for the time; `sent_ns` identifies the question.
    pub fn ask(&mut self, sent_ns: u64) {
        self.questions.push_back(sent_ns);
    }

    /// It answers a question for the time.
    pub fn answer(&mut self, sent_ns: u64, at_ns: u64) -> Result<(), String> {
        check_time(at_ns)?;
        match self.questions.pop_front() {
            Some(asked_ns) if asked_ns == sent_ns => Ok(()),
            _ => Err("it answered a question that was not asked".to_owned()),
        }
    }

    /// It reports that all connections exist.
    pub fn start(&mut self, since_1970_ns: u64) -> Result<(), String> {
        check_time(since_1970_ns)?;
        once(&mut self.has_started, "all connections exist")
    }

    /// It reports that it has begun.
    pub fn begin(&mut self, start_ns: u64) -> Result<(), String> {
        check_time(start_ns)?;
        once(&mut self.has_begun, "it has begun")
    }

    /// It reports an exchange of time that it has made.
    pub fn exchange(&mut self, times_ns: [u64; 3], elapsed_ns: u64) -> Result<(), String> {
        times_ns.into_iter().try_for_each(check_time)?;
        self.clocks.take(CLOCK_EVERY_NS, CLOCK_EXCHANGES as u64 + EXTRA, elapsed_ns)
    }

    /// It reports the progress of an end, `at_ns` after its start.
    pub fn report(&mut self, of_server: bool, at_ns: u64, elapsed_ns: u64) -> Result<(), String> {
        let reports = &mut self.intervals[usize::from(of_server)];
        if at_ns < reports.last_ns || at_ns > elapsed_ns.saturating_add(AHEAD_NS) {
            return Err("the times of its reports make no sense".to_owned());
        }
        reports.last_ns = at_ns;
        reports.take(self.interval_ns, EXTRA, elapsed_ns)
    }

    /// The user stops the transfer.
    pub fn stop(&mut self, elapsed_ns: u64) {
        self.stopped_ns.get_or_insert(elapsed_ns);
    }

    /// Whether the user has stopped the transfer.
    pub const fn has_stopped(&self) -> bool {
        self.stopped_ns.is_some()
    }

    /// An error if the user has stopped the transfer, and it should have ended since.
    pub fn check_end(&self, elapsed_ns: u64) -> Result<(), String> {
        match self.stopped_ns {
            Some(stopped_ns) if elapsed_ns.saturating_sub(stopped_ns) > STOPPING_NS => {
                Err(format!("it did not end within {} s of the request", STOPPING_NS / 1_000_000_000))
            }
            _ => Ok(()),
        }
    }
}

fn check_time(ns: u64) -> Result<(), String> {
    if ns < MOST_NS { Ok(()) } else { Err(format!("{ns} ns is no time")) }
}

fn once(has_happened: &mut bool, what: &str) -> Result<(), String> {
    if std::mem::replace(has_happened, true) { Err(format!("it said twice that {what}")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn reports_may_come_as_often_as_requested_and_no_more() {
        let mut quota = Quota::new(S / 10);
        // The requested ones of 100 s, and those of 10 s that came late.
        for number in 0..1_100 {
            let elapsed_ns = number * S / 11;
            quota.report(true, elapsed_ns, elapsed_ns).unwrap();
            quota.report(false, elapsed_ns, elapsed_ns).unwrap();
        }
        let refused = (0..10).find_map(|_| quota.report(true, 100 * S, 100 * S).err());
        assert_eq!(refused.as_deref(), Some("it sent 1109 reports, one every 0.1 s was requested"));
        assert_eq!(quota.report(false, 100 * S, 100 * S), Ok(()), "the other end's are counted apart");
    }

    #[test]
    fn reports_neither_go_back_in_time_nor_come_from_the_future() {
        let mut quota = Quota::new(S);
        quota.report(true, 5 * S, 5 * S).unwrap();
        let senseless = Err("the times of its reports make no sense".to_owned());
        assert_eq!(quota.report(true, 5 * S - 1, 6 * S), senseless);
        assert_eq!(quota.report(true, 17 * S, 6 * S), senseless);
        assert_eq!(quota.report(true, u64::MAX, 6 * S), senseless);
    }

    #[test]
    fn only_questions_that_were_asked_are_answered_once_and_in_order() {
        let mut quota = Quota::new(S);
        quota.ask(1);
        quota.ask(2);
        assert_eq!(quota.answer(1, 7), Ok(()));
        assert_eq!(quota.answer(2, 7), Ok(()));
        assert_eq!(quota.answer(2, 7).unwrap_err(), "it answered a question that was not asked");
        quota.ask(3);
        assert!(quota.answer(4, 7).is_err());
    }

    #[test]
    fn what_happens_once_is_said_once() {
        let mut quota = Quota::new(S);
        assert_eq!((quota.begin(7), quota.start(7)), (Ok(()), Ok(())));
        assert_eq!(quota.begin(7).unwrap_err(), "it said twice that it has begun");
        assert_eq!(quota.start(7).unwrap_err(), "it said twice that all connections exist");
    }

    #[test]
    fn times_beyond_any_clock_are_refused() {
        let mut quota = Quota::new(S);
        assert!(quota.begin(MOST_NS).is_err() && quota.start(u64::MAX).is_err());
        assert!(quota.exchange([0, 0, MOST_NS], S).is_err());
        quota.ask(1);
        assert!(quota.answer(1, u64::MAX).is_err());
    }

    #[test]
    fn exchanges_of_time_come_eight_times_and_then_every_second() {
        let mut quota = Quota::new(S);
        let most = (0..).take_while(|_| quota.exchange([0; 3], 5 * S).is_ok()).count();
        assert_eq!(most, 8 + 8 + 15);
    }

    #[test]
    fn a_transfer_that_was_stopped_must_end() {
        let mut quota = Quota::new(S);
        assert_eq!((quota.has_stopped(), quota.check_end(1000 * S)), (false, Ok(())));
        quota.stop(1000 * S);
        quota.stop(1020 * S);
        assert_eq!((quota.has_stopped(), quota.check_end(1030 * S)), (true, Ok(())));
        assert_eq!(quota.check_end(1031 * S).unwrap_err(), "it did not end within 30 s of the request");
    }
}
