//! When a client makes the streams of its routes again; no I/O, and the time is an argument.
//!
//! A stream that has ended is made again. If a stream makes no progress, another is tried alongside it: a path
//! that comes back answers it at once, whereas the old stream's TCP waits for its own time-out, which has doubled
//! until it is as long as the outage. Routes with the same ends are one path; while it does not answer, one
//! stream at a time is tried over it.
//!
//! A try is given up when an answer is overdue, and the next one follows: so the first packet that gets through is
//! sent at most a twentieth of the outage after its end, or [`LEAST_PAUSE_NS`].

const MS: u64 = 1_000_000;
/// Time from the end of a stream until the first try.
const FIRST_PAUSE_NS: u64 = 100 * MS;
/// Least time between the beginnings of two tries.
pub const LEAST_PAUSE_NS: u64 = 250 * MS;
/// Most time between the beginnings of two tries, unless the path itself takes longer.
const MOST_PAUSE_NS: u64 = 2000 * MS;
/// Share of an outage that may pass until the next try.
const SHARE: u64 = 20;
/// Longest wait for a connection.
const MOST_PATIENCE_NS: u64 = 5000 * MS;

/// A stream that is to be tried now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Try {
    /// Over which route.
    pub route: usize,
    /// How long to wait for a connection.
    pub patience_ns: u64,
}

/// What is known of a client's routes.
#[derive(Clone, Debug)]
pub struct Redial {
    routes: Vec<Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The first route with the same ends.
    path: usize,
    /// It has no stream, or one that makes no progress.
    is_needed: bool,
    state: State,
    /// Since when it has had no success.
    since_ns: Option<u64>,
    /// How long an answer may take; 0 if nothing is known.
    answer_ns: u64,
    /// The last that was known of it is that it does not work.
    is_silent: bool,
    /// It has had a stream.
    has_worked: bool,
    /// Its other end's host has refused a connection since a stream last came or ended.
    is_refused: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Waiting { until_ns: u64 },
    Trying { from_ns: u64 },
}

impl Redial {
    /// For routes each of which is already being tried elsewhere; the caller reports how that ends. `paths`: for
    /// each of them the number of the first one with the same ends.
    #[must_use]
    pub fn new(paths: impl IntoIterator<Item = usize>, now_ns: u64) -> Self {
        let entry = |path| Entry {
            path,
            is_needed: true,
            state: State::Trying { from_ns: now_ns },
            since_ns: None,
            answer_ns: 0,
            is_silent: false,
            has_worked: false,
            is_refused: false,
        };
        Self { routes: paths.into_iter().map(entry).collect() }
    }

    /// The route has a stream that works.
    pub fn attached(&mut self, route: usize, now_ns: u64) {
        self.routes.iter_mut().for_each(|entry| entry.is_refused = false);
        let Some(entry) = self.routes.get_mut(route) else { return };
        entry.is_needed = false;
        entry.state = State::Idle;
        entry.since_ns = None;
        entry.is_silent = false;
        entry.has_worked = true;
        let path = entry.path;
        for other in self.routes.iter_mut().filter(|other| other.path == path && other.is_needed) {
            other.is_silent = false;
            if let State::Waiting { .. } = other.state {
                other.state = State::Waiting { until_ns: now_ns };
            }
        }
    }

    /// The route's stream makes no progress. `answer_ns`: how long an answer may take.
    pub fn stalls(&mut self, route: usize, answer_ns: u64, now_ns: u64) {
        let Some(entry) = self.routes.get_mut(route).filter(|entry| !entry.is_needed) else { return };
        entry.is_needed = true;
        entry.is_silent = true;
        entry.since_ns = Some(now_ns);
        entry.answer_ns = answer_ns;
        if entry.state == State::Idle {
            entry.state = State::Waiting { until_ns: now_ns };
        }
    }

    /// The route's stream makes progress again.
    pub fn recovers(&mut self, route: usize) {
        let Some(entry) = self.routes.get_mut(route).filter(|entry| entry.is_needed) else { return };
        entry.is_needed = false;
        entry.is_silent = false;
        entry.since_ns = None;
        if let State::Waiting { .. } = entry.state {
            entry.state = State::Idle;
        }
    }

    /// The route's stream has ended. `answer_ns`: how long an answer may take; 0 if nothing new is known.
    pub fn ended(&mut self, route: usize, answer_ns: u64, now_ns: u64) {
        self.routes.iter_mut().for_each(|entry| entry.is_refused = false);
        let Some(entry) = self.routes.get_mut(route) else { return };
        entry.is_needed = true;
        if answer_ns > 0 {
            entry.answer_ns = answer_ns;
        }
        if entry.state == State::Idle {
            entry.state = State::Waiting { until_ns: now_ns.saturating_add(FIRST_PAUSE_NS) };
        }
    }

    /// A try failed as the other end's host refused it: all over the same path would be.
    pub fn refused(&mut self, route: usize, now_ns: u64) {
        if let Some(path) = self.routes.get(route).map(|entry| entry.path) {
            let same = self.routes.iter_mut().filter(|entry| entry.path == path);
            same.for_each(|entry| entry.is_refused = true);
        }
        self.failed(route, now_ns);
    }

    /// Every route that has ever worked was refused since a stream last came or ended.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        let mut proven = self.routes.iter().filter(|entry| entry.has_worked).peekable();
        proven.peek().is_some() && proven.all(|entry| entry.is_refused)
    }

    /// A try failed.
    pub fn failed(&mut self, route: usize, now_ns: u64) {
        let Some(entry) = self.routes.get_mut(route) else { return };
        let State::Trying { from_ns } = entry.state else { return };
        if !entry.is_needed {
            entry.state = State::Idle;
            return;
        }
        entry.is_silent = true;
        let since_ns = *entry.since_ns.get_or_insert(from_ns);
        let until_ns = from_ns.saturating_add(pause_ns(since_ns, from_ns)).max(now_ns);
        entry.state = State::Waiting { until_ns };
    }

    /// The next try that is due, which begins now.
    pub fn due(&mut self, now_ns: u64) -> Option<Try> {
        let is_due = |route: &usize| self.next_of(*route).is_some_and(|until_ns| until_ns <= now_ns);
        let route = (0..self.routes.len()).find(is_due)?;
        let entry = self.routes.get_mut(route)?;
        entry.state = State::Trying { from_ns: now_ns };
        let patience_ns = match entry.answer_ns {
            0 => MOST_PATIENCE_NS,
            answer_ns => {
                pause_ns(entry.since_ns.unwrap_or(now_ns), now_ns).max(answer_ns).min(MOST_PATIENCE_NS)
            }
        };
        Some(Try { route, patience_ns })
    }

    /// When to call [`Redial::due`]; `u64::MAX`: at no particular time.
    #[must_use]
    pub fn next_ns(&self) -> u64 {
        (0..self.routes.len()).filter_map(|route| self.next_of(route)).min().unwrap_or(u64::MAX)
    }

    /// When a route is due; `None` while it is not to be tried.
    fn next_of(&self, route: usize) -> Option<u64> {
        let entry = &self.routes[route];
        let State::Waiting { until_ns } = entry.state else { return None };
        let is_tried =
            |other: &Entry| other.path == entry.path && matches!(other.state, State::Trying { .. });
        let is_held = entry.is_silent && self.routes.iter().any(is_tried);
        (!is_held).then_some(until_ns)
    }
}

/// Time between the beginnings of two tries.
fn pause_ns(since_ns: u64, now_ns: u64) -> u64 {
    (now_ns.saturating_sub(since_ns) / SHARE).clamp(LEAST_PAUSE_NS, MOST_PAUSE_NS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RTT: u64 = 10 * MS;

    /// Streams over two paths, by turns, all of which work.
    fn working(routes: usize) -> Redial {
        let mut redial = Redial::new((0..routes).map(|route| route % 2), 0);
        (0..routes).for_each(|route| redial.attached(route, 0));
        assert_eq!((redial.next_ns(), redial.due(u64::MAX)), (u64::MAX, None));
        redial
    }

    #[test]
    fn a_stream_that_has_ended_is_made_again_soon() {
        let mut redial = working(2);
        redial.ended(1, RTT, 0);
        assert_eq!((redial.due(99 * MS), redial.next_ns()), (None, 100 * MS));
        assert_eq!(redial.due(100 * MS).map(|each| each.route), Some(1));
        assert_eq!(redial.due(u64::MAX), None, "it is being tried");
        redial.attached(1, 110 * MS);
        assert_eq!(redial.next_ns(), u64::MAX);
    }

    #[test]
    fn a_path_that_does_not_answer_is_tried_four_times_a_second_and_later_less_often() {
        let mut redial = working(2);
        redial.stalls(0, RTT, 0);
        let mut now = 0;
        let mut tries = Vec::new();
        while now < 120_000 * MS {
            now = redial.next_ns();
            let each = redial.due(now).unwrap();
            assert_eq!(each.route, 0);
            tries.push(now);
            now += each.patience_ns;
            redial.failed(0, now);
        }
        assert_eq!(tries[..4], [0, 250 * MS, 500 * MS, 750 * MS]);
        for pair in tries.windows(2) {
            let pause = pair[1] - pair[0];
            assert!(pause <= LEAST_PAUSE_NS.max(pair[1] / 19) && pause <= MOST_PAUSE_NS, "{pair:?}");
        }
        assert_eq!(tries[tries.len() - 1] - tries[tries.len() - 2], MOST_PAUSE_NS);
    }

    #[test]
    fn a_path_is_tried_by_one_stream_and_all_follow_when_it_answers() {
        let mut redial = working(6);
        for route in [0, 2, 4] {
            redial.stalls(route, RTT, 0);
        }
        assert_eq!(redial.due(0).map(|each| each.route), Some(0));
        assert_eq!((redial.due(0), redial.next_ns()), (None, u64::MAX));
        redial.failed(0, 250 * MS);
        let next = redial.due(250 * MS).map(|each| each.route).unwrap();
        redial.attached(next, 260 * MS);
        let more = [redial.due(260 * MS), redial.due(260 * MS)].map(|each| each.unwrap().route);
        let mut all = [next, more[0], more[1]];
        all.sort_unstable();
        assert_eq!((all, redial.due(u64::MAX)), ([0, 2, 4], None));
    }

    #[test]
    fn a_stream_that_goes_on_by_itself_is_not_replaced() {
        let mut redial = working(1);
        redial.stalls(0, RTT, 0);
        redial.recovers(0);
        assert_eq!(redial.next_ns(), u64::MAX);
        redial.stalls(0, RTT, MS);
        assert!(redial.due(MS).is_some());
        redial.recovers(0);
        redial.failed(0, 300 * MS);
        assert_eq!(redial.next_ns(), u64::MAX, "nobody waits for it any more");
    }

    #[test]
    fn the_other_end_refuses_when_every_path_that_has_worked_does_so_after_the_last_stream() {
        // Paths 0, 1 and 2; over the last of them nothing ever works.
        let mut redial = Redial::new([0, 1, 0, 3], 0);
        redial.refused(3, 0);
        assert!(!redial.is_refused(), "nothing has worked yet");
        (0..3).for_each(|route| redial.attached(route, 0));
        redial.ended(1, RTT, 0);
        redial.refused(1, 0);
        redial.ended(0, RTT, 0);
        redial.ended(2, RTT, 0);
        redial.refused(3, 0);
        redial.refused(0, 0);
        assert!(!redial.is_refused(), "of the second path it is not known since then");
        redial.refused(1, 0);
        assert!(redial.is_refused());
        redial.attached(2, 0);
        assert!(!redial.is_refused());
    }

    proptest! {
        #[test]
        fn a_route_without_a_stream_that_works_is_being_tried_or_will_be(
            events in prop::collection::vec((0..6_u8, 0..4_usize, 0..400_u64), 1..200),
        ) {
            let mut redial = Redial::new((0..4).map(|route| route % 2), 0);
            let mut now = 0;
            for (event, route, pause) in events {
                now += pause * MS;
                match event {
                    0 => redial.attached(route, now),
                    1 => redial.stalls(route, RTT, now),
                    2 => redial.recovers(route),
                    3 => redial.ended(route, RTT, now),
                    4 => redial.failed(route, now),
                    _ => {}
                }
                while let Some(due) = redial.due(now) {
                    prop_assert!(redial.routes[due.route].is_needed);
                    prop_assert!((LEAST_PAUSE_NS..=MOST_PATIENCE_NS).contains(&due.patience_ns));
                }
                prop_assert!(redial.next_ns() > now);
                for entry in &redial.routes {
                    prop_assert!(!entry.is_needed || entry.state != State::Idle, "{:?}", redial);
                }
            }
            // Once every try has an end, the others follow.
            (0..4).for_each(|route| redial.failed(route, now));
            let is_needed = redial.routes.iter().any(|entry| entry.is_needed);
            prop_assert_eq!(redial.next_ns() < u64::MAX, is_needed);
        }
    }

    #[test]
    fn a_slow_path_is_given_the_time_that_it_needs() {
        let mut redial = working(1);
        redial.stalls(0, 400 * MS, 0);
        assert_eq!(redial.due(0), Some(Try { route: 0, patience_ns: 400 * MS }));
        redial.failed(0, 400 * MS);
        assert_eq!(redial.next_ns(), 400 * MS);
        let mut unknown = Redial::new([0], 0);
        unknown.failed(0, 0);
        assert_eq!(unknown.next_ns(), LEAST_PAUSE_NS);
        assert_eq!(unknown.due(LEAST_PAUSE_NS), Some(Try { route: 0, patience_ns: MOST_PATIENCE_NS }));
    }
}
