//! The sampled connections: which to query, and what is known about each; no I/O.

use std::collections::BTreeMap;

use weir_tcp::Sample;
use weir_tcp::diag::{Connection, Id, State};
use weir_tcp::watch::{Progress, Row, Watched};

use super::due::{Counted, Due};
use super::record::Record;

/// Longest time for which nothing is known about a connection: as long as a period, and as this.
const QUIET_NS: u64 = 100_000_000;
/// With many connections, this long for each.
const QUIET_EACH_NS: u64 = 1_000_000;

/// The answer of `INET_DIAG` about a connection.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its number.
    pub number: u32,
    /// When it was queried, by `CLOCK_MONOTONIC`. What happened since then is known from samples.
    pub asked_ns: u64,
    /// The answer; none if the connection no longer exists.
    pub found: Option<Connection>,
    /// Samples that found no room, so far.
    pub missed: u64,
}

/// New results.
#[derive(Debug, Default)]
pub struct News {
    /// In time order.
    pub rows: Vec<Row>,
    /// How late the due samples were.
    pub late_ns: Vec<u64>,
    /// Connections that have ended.
    pub ended: Vec<Id>,
}

#[derive(Debug)]
struct Alive {
    id: Id,
    due: Due,
    /// When it was sampled last.
    seen_ns: Option<u64>,
    /// Its state then.
    state: Option<State>,
    asked_ns: u64,
    /// Some process owns it.
    has_owner: bool,
}

/// Those that still exist, by number.
#[derive(Debug)]
pub struct Connections {
    period_ns: u64,
    alive: BTreeMap<u32, Alive>,
}

impl Connections {
    /// None.
    pub const fn new(period_ns: u64) -> Self {
        Self { period_ns, alive: BTreeMap::new() }
    }

    /// Adds one, whose first sample is due at `due_ns`.
    pub fn add(&mut self, number: u32, id: Id, due_ns: u64) {
        let due = Due::new(self.period_ns, due_ns);
        let fresh = Alive { id, due, seen_ns: None, state: None, asked_ns: 0, has_owner: false };
        self.alive.insert(number, fresh);
    }

    /// Number of connections.
    pub fn len(&self) -> usize {
        self.alive.len()
    }

    /// Those without events, about which nothing is reported, and those that had not been accepted.
    pub fn to_ask(&self, now_ns: u64) -> Vec<(u32, Id)> {
        let each_ns = QUIET_EACH_NS * self.alive.len() as u64;
        let quiet_ns = QUIET_NS.max(self.period_ns).max(each_ns);
        let is_unknown = |each: &Alive| {
            let known_ns = if each.has_owner { each.seen_ns } else { each.seen_ns.and(Some(each.asked_ns)) };
            known_ns.is_none_or(|known_ns| now_ns >= known_ns.saturating_add(quiet_ns))
        };
        let unknown = self.alive.iter().filter(|(_, each)| is_unknown(each));
        unknown.map(|(number, each)| (*number, each.id)).collect()
    }

    /// Takes over samples, and answers that came before the samples were read.
    pub fn take(&mut self, mut records: Vec<Record>, answers: Vec<Answer>, progress: &mut Progress) -> News {
        let mut news = News::default();
        // Each CPU records its own in order, and reserves room a moment after it read the clock.
        records.sort_by_key(|record| record.at_ns);
        for record in records {
            self.take_record(&record, progress, &mut news);
        }
        for answer in answers {
            self.take_answer(answer, progress, &mut news);
        }
        news.rows.sort_by_key(|row| row.at_ns);
        news
    }

    fn take_record(&mut self, record: &Record, progress: &mut Progress, news: &mut News) {
        let &Record { due_ns, at_ns, missed, number, is_last, sample } = record;
        let Some((alive, each)) = self.find(number, progress) else { return };
        let counted = match due_ns {
            Some(due_ns) => {
                news.late_ns.push(at_ns.saturating_sub(due_ns));
                alive.due.sampled(due_ns, missed)
            }
            None => alive.due.passed(at_ns, missed),
        };
        alive.note(each, counted, state_of(&sample));
        each.samples += 1;
        alive.seen_ns = Some(at_ns);
        news.rows.push(Row { connection: number, at_ns, sample });
        if is_last {
            self.end(number, at_ns, progress, news);
        }
    }

    fn take_answer(&mut self, answer: Answer, progress: &mut Progress, news: &mut News) {
        let Answer { number, asked_ns: at_ns, found, missed } = answer;
        let Some((alive, each)) = self.find(number, progress) else { return };
        alive.asked_ns = at_ns;
        // In TIME-WAIT, and in a FIN-WAIT-2 that no program owns, nothing is left but the ends and the same cookie.
        let is_one =
            |found: &Connection| found.state != State::TIME_WAIT && !found.sample.info.bytes().is_empty();
        let Some(found) = found.filter(is_one) else {
            let counted = alive.due.passed(at_ns, missed);
            alive.note(each, counted, State::CLOSE);
            self.end(number, at_ns, progress, news);
            return;
        };
        // When a connection ends, no process owns it any more.
        each.inode = if each.inode == 0 { found.inode } else { each.inode };
        alive.has_owner = each.inode != 0;
        // Something happened meanwhile. Which of the two came first is not known.
        if alive.seen_ns.is_some_and(|seen_ns| seen_ns >= at_ns) {
            return;
        }
        // The kernel answers with the lock held: what happened before has been reported by then.
        let counted = alive.due.passed(at_ns, missed);
        alive.note(each, counted, found.state);
        each.samples += 1;
        alive.seen_ns = Some(at_ns);
        news.rows.push(Row { connection: number, at_ns, sample: found.sample.as_by_bpf() });
    }

    fn find<'a>(
        &'a mut self,
        number: u32,
        progress: &'a mut Progress,
    ) -> Option<(&'a mut Alive, &'a mut Watched)> {
        Some((self.alive.get_mut(&number)?, progress.connections.get_mut(number as usize)?))
    }

    fn end(&mut self, number: u32, at_ns: u64, progress: &mut Progress, news: &mut News) {
        if let Some(each) = progress.connections.get_mut(number as usize) {
            each.ended_ns = Some(at_ns);
        }
        news.ended.extend(self.alive.remove(&number).map(|alive| alive.id));
    }
}

impl Alive {
    /// Notes what was counted since the last sample. The next state is that of the next sample.
    fn note(&mut self, each: &mut Watched, counted: Counted, next: State) {
        each.missed += counted.missed;
        // Otherwise segments take a path without events: whether something happened is not known.
        if tells_all(self.state.unwrap_or(next)) && tells_all(next) {
            each.idle += counted.idle;
        }
        self.state = Some(next);
    }
}

/// Until one of its ends has closed.
const fn tells_all(state: State) -> bool {
    matches!(state, State::ESTABLISHED | State::SYN_SENT | State::SYN_RECV)
}

fn state_of(sample: &Sample) -> State {
    State(sample.info.bytes().first().copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const ESTABLISHED: State = State::ESTABLISHED;
    const CLOSE_WAIT: State = State(8);

    fn id(cookie: u64) -> Id {
        let (local, remote) = ("192.0.2.1:1000".parse().unwrap(), "192.0.2.2:443".parse().unwrap());
        Id { local, remote, interface: 0, cookie }
    }

    /// So many connections, sampled every millisecond from 100 ms on.
    fn some(count: u32) -> (Connections, Progress) {
        let (mut connections, mut progress) = (Connections::new(MS), Progress::default());
        for number in 0..count {
            let id = id(u64::from(number) + 1);
            connections.add(number, id, 100 * MS);
            progress.connections.push(Watched::found(&id, 7, "cubic".into(), None, 100 * MS));
        }
        (connections, progress)
    }

    fn record(due_ms: u64, late_ns: u64) -> Record {
        let due_ns = due_ms * MS;
        Record {
            due_ns: Some(due_ns),
            at_ns: due_ns + late_ns,
            missed: 0,
            number: 0,
            is_last: false,
            sample: sample(ESTABLISHED),
        }
    }

    fn sample(state: State) -> Sample {
        Sample::by_bpf(&[state.0], &[0; 36], 0, 0)
    }

    fn answer(asked_ns: u64, state: Option<State>) -> Answer {
        let found = state.map(|state| Connection {
            id: id(1),
            state,
            uid: 0,
            inode: 9,
            congestion: "cubic".into(),
            sample: sample(state),
        });
        Answer { number: 0, asked_ns, found, missed: 0 }
    }

    fn times(news: &News) -> Vec<u64> {
        news.rows.iter().map(|row| row.at_ns).collect()
    }

    #[test]
    fn samples_are_counted_with_their_lateness_in_the_order_of_their_times() {
        let (mut connections, mut progress) = some(1);
        let news = connections.take(vec![record(101, 9), record(100, 5)], vec![], &mut progress);
        assert_eq!(times(&news), [100 * MS + 5, 101 * MS + 9]);
        assert_eq!(news.late_ns, [5, 9]);
        let each = &progress.connections[0];
        assert_eq!((each.samples, each.missed, each.idle), (2, 0, 0));
    }

    #[test]
    fn a_connection_at_which_nothing_happens_is_idle_and_misses_nothing() {
        let (mut connections, mut progress) = some(1);
        let asked_ns = 350 * MS + MS / 2;
        let news = connections.take(vec![], vec![answer(asked_ns, Some(ESTABLISHED))], &mut progress);
        assert_eq!(times(&news), [asked_ns]);
        assert_eq!(news.late_ns, [] as [u64; 0], "it was not due");
        let each = &progress.connections[0];
        assert_eq!((each.samples, each.missed, each.idle), (1, 0, 250));
        // Then something happens.
        connections.take(vec![record(350, 900_000), record(360, 0)], vec![], &mut progress);
        let each = &progress.connections[0];
        assert_eq!((each.samples, each.missed, each.idle), (3, 0, 259));
    }

    #[test]
    fn samples_without_room_are_missed() {
        let (mut connections, mut progress) = some(1);
        let later = Record { missed: 4, ..record(110, 0) };
        connections.take(vec![record(100, 0), later], vec![], &mut progress);
        let each = &progress.connections[0];
        assert_eq!((each.samples, each.missed, each.idle), (2, 4, 5));
        let quiet = Answer { missed: 6, ..answer(121 * MS, Some(ESTABLISHED)) };
        connections.take(vec![], vec![quiet], &mut progress);
        let each = &progress.connections[0];
        assert_eq!((each.samples, each.missed, each.idle), (3, 6, 13));
    }

    #[test]
    fn an_answer_while_something_happens_is_no_sample() {
        let (mut connections, mut progress) = some(1);
        let asked_ns = 103 * MS + 10;
        let answers = vec![answer(asked_ns, Some(ESTABLISHED))];
        let news = connections.take(vec![record(100, 0), record(103, 10)], answers, &mut progress);
        assert_eq!(times(&news), [100 * MS, asked_ns], "that of the program");
        assert_eq!((progress.connections[0].samples, progress.connections[0].idle), (2, 2));
    }

    #[test]
    fn the_last_sample_ends_a_connection() {
        let (mut connections, mut progress) = some(2);
        let last = Record { due_ns: None, at_ns: 103 * MS + 7, is_last: true, ..record(0, 0) };
        let news = connections.take(vec![record(100, 0), last], vec![], &mut progress);
        assert_eq!((news.ended, connections.len()), (vec![id(1)], 1));
        let each = &progress.connections[0];
        assert_eq!((each.ended_ns, each.samples, each.idle), (Some(103 * MS + 7), 2, 2));
        // What comes later is of nobody.
        let news = connections.take(vec![record(104, 0)], vec![answer(105 * MS, None)], &mut progress);
        assert_eq!((times(&news), news.ended.len()), (vec![], 0));
    }

    #[test]
    fn a_connection_that_is_not_there_any_more_has_ended() {
        for state in [None, Some(State::TIME_WAIT)] {
            let (mut connections, mut progress) = some(1);
            let news = connections.take(vec![], vec![answer(105 * MS, state)], &mut progress);
            assert_eq!((times(&news), news.ended, connections.len()), (vec![], vec![id(1)], 0));
            assert_eq!((progress.connections[0].ended_ns, progress.connections[0].idle), (Some(105 * MS), 0));
        }
    }

    #[test]
    fn a_connection_of_which_only_the_ends_are_left_has_ended() {
        let (mut connections, mut progress) = some(1);
        let mut left = answer(105 * MS, Some(State(5)));
        left.found.as_mut().unwrap().sample = Sample::default();
        let news = connections.take(vec![], vec![left], &mut progress);
        assert_eq!((times(&news), news.ended, connections.len()), (vec![], vec![id(1)], 0));
    }

    #[test]
    fn when_an_end_has_closed_nobody_knows_whether_nothing_happens() {
        let (mut connections, mut progress) = some(1);
        let closing = Record { sample: sample(CLOSE_WAIT), ..record(110, 0) };
        connections.take(vec![record(100, 0), record(105, 0), closing], vec![], &mut progress);
        assert_eq!(progress.connections[0].idle, 4, "until then");
        connections.take(vec![], vec![answer(200 * MS, Some(CLOSE_WAIT))], &mut progress);
        let last = Record { due_ns: None, is_last: true, missed: 3, ..record(220, 0) };
        connections.take(vec![last], vec![], &mut progress);
        let each = &progress.connections[0];
        assert_eq!((each.samples, each.missed, each.idle), (5, 3, 4));
    }

    #[test]
    fn connections_are_asked_for_at_first_and_when_nothing_has_happened_for_a_while() {
        let (mut connections, mut progress) = some(1);
        assert_eq!(connections.to_ask(100 * MS), [(0, id(1))]);
        connections.take(vec![], vec![answer(100 * MS, Some(ESTABLISHED))], &mut progress);
        assert_eq!(connections.to_ask(199 * MS), []);
        assert_eq!(connections.to_ask(200 * MS), [(0, id(1))]);
        connections.take(vec![record(150, 0)], vec![], &mut progress);
        assert_eq!(connections.to_ask(249 * MS), []);
        assert_eq!(connections.to_ask(250 * MS), [(0, id(1))]);
    }

    #[test]
    fn however_much_happens_it_is_asked_who_has_a_connection_until_somebody_has() {
        let (mut connections, mut progress) = some(1);
        progress.connections[0].inode = 0;
        let mut nobody = answer(100 * MS, Some(ESTABLISHED));
        if let Some(found) = &mut nobody.found {
            found.inode = 0;
        }
        connections.take(vec![], vec![nobody], &mut progress);
        connections.take(vec![record(199, 0)], vec![], &mut progress);
        assert_eq!(connections.to_ask(200 * MS), [(0, id(1))]);
        connections.take(vec![record(200, 0)], vec![answer(200 * MS, Some(ESTABLISHED))], &mut progress);
        assert_eq!(progress.connections[0].inode, 9);
        assert_eq!(connections.to_ask(299 * MS), []);
    }

    #[test]
    fn many_connections_and_long_periods_are_asked_for_less_often() {
        let (mut connections, mut progress) = some(300);
        let answers =
            (0..300).map(|number| Answer { number, ..answer(100 * MS, Some(ESTABLISHED)) }).collect();
        connections.take(vec![], answers, &mut progress);
        assert_eq!(connections.to_ask(399 * MS), []);
        assert_eq!(connections.to_ask(400 * MS).len(), 300);
        let mut slow = Connections::new(1_000 * MS);
        slow.add(0, id(1), 100 * MS);
        slow.take(vec![], vec![answer(100 * MS, Some(ESTABLISHED))], &mut progress);
        assert_eq!((slow.to_ask(1_099 * MS).len(), slow.to_ask(1_100 * MS).len()), (0, 1));
    }
}
