//! Connections to one destination are made in the order in which the program opened them, although each has a session
//! of its own: the near end numbers its requests, and the far end starts to connect in the order of the numbers.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, Hasher};
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::wire::Position;

/// Longest wait for an earlier connection, at each end: its session may have failed.
pub const PATIENCE: Duration = Duration::from_secs(1);
/// Most sequences that the far end remembers; connections of further ones are made as they come.
const MOST_SEQUENCES: usize = 4096;
/// How long the far end remembers a sequence of which nothing comes.
const KEPT: Duration = Duration::from_secs(60);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits while `holds`, or until `due`.
fn wait_while<'a, T>(
    changed: &Condvar,
    mut guard: MutexGuard<'a, T>,
    due: Instant,
    holds: impl Fn(&T) -> bool,
) -> MutexGuard<'a, T> {
    loop {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() || !holds(&guard) {
            return guard;
        }
        guard = changed.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// The sequences of a near end, each of which exists as long as one of its tickets.
#[derive(Debug, Default)]
pub struct Numbering {
    sequences: Mutex<HashMap<SocketAddr, Weak<Sequence>>>,
}

#[derive(Debug)]
struct Sequence {
    id: u64,
    state: Mutex<Tickets>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Tickets {
    taken: u64,
    /// Those whose requests have not been sent.
    unsent: BTreeSet<u64>,
    sent: u64,
}

/// A connection of a sequence, until the far end has made it.
#[derive(Debug)]
pub struct Ticket {
    sequence: Arc<Sequence>,
    number: u64,
    /// The number of its request, once that has been sent.
    sent: OnceLock<u64>,
}

impl Numbering {
    /// The next ticket to `to`.
    pub fn ticket(&self, to: SocketAddr) -> Ticket {
        let mut sequences = lock(&self.sequences);
        let known = sequences.get(&to).and_then(Weak::upgrade);
        let sequence = known.unwrap_or_else(|| {
            sequences.retain(|_, each| each.strong_count() > 0);
            // The keys of each hasher are drawn by the standard library.
            let id = RandomState::new().build_hasher().finish();
            let made = Arc::new(Sequence { id, state: Mutex::default(), changed: Condvar::new() });
            sequences.insert(to, Arc::downgrade(&made));
            made
        });
        let number = {
            let mut state = lock(&sequence.state);
            state.taken += 1;
            let number = state.taken;
            state.unsent.insert(number);
            number
        };
        Ticket { sequence, number, sent: OnceLock::new() }
    }
}

impl Ticket {
    /// Sends a request when those before it have been sent, or after `patience`; `send` gets its position.
    /// Sent again, a request has the same one: the far end waits for every number.
    pub fn send<T>(&self, patience: Duration, send: impl FnOnce(Position) -> T) -> T {
        let Sequence { id, state, changed } = &*self.sequence;
        let is_early = |tickets: &Tickets| tickets.unsent.first().is_some_and(|first| *first < self.number);
        let number = *self.sent.get_or_init(|| {
            let mut tickets = wait_while(changed, lock(state), Instant::now() + patience, is_early);
            tickets.sent += 1;
            tickets.sent - 1
        });
        let result = send(Position { sequence: *id, number });
        self.leave();
        result
    }

    /// It holds up no others any longer.
    fn leave(&self) {
        if lock(&self.sequence.state).unsent.remove(&self.number) {
            self.sequence.changed.notify_all();
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.leave();
    }
}

/// The sequences that a far end knows.
#[derive(Debug)]
pub struct Ordering {
    /// Longest wait for the connection of an earlier position.
    pub patience: Duration,
    sequences: Mutex<HashMap<u64, Arc<Progress>>>,
}

#[derive(Debug)]
struct Progress {
    next: Mutex<Next>,
    changed: Condvar,
}

#[derive(Debug)]
struct Next {
    number: u64,
    used: Instant,
}

impl Ordering {
    pub fn new(patience: Duration) -> Self {
        Self { patience, sequences: Mutex::default() }
    }

    /// Does `work` when that of all earlier positions has been done, or after `patience`.
    pub fn in_turn<T>(&self, position: Position, patience: Duration, work: impl FnOnce() -> T) -> T {
        let Some(progress) = self.progress(position.sequence) else { return work() };
        let is_early = |next: &Next| next.number < position.number;
        drop(wait_while(&progress.changed, lock(&progress.next), Instant::now() + patience, is_early));
        let result = work();
        let mut next = lock(&progress.next);
        next.used = Instant::now();
        next.number = next.number.max(position.number.saturating_add(1));
        drop(next);
        progress.changed.notify_all();
        result
    }

    fn progress(&self, sequence: u64) -> Option<Arc<Progress>> {
        let mut sequences = lock(&self.sequences);
        if let Some(found) = sequences.get(&sequence) {
            return Some(Arc::clone(found));
        }
        if sequences.len() >= MOST_SEQUENCES {
            sequences.retain(|_, each| Arc::strong_count(each) > 1 || lock(&each.next).used.elapsed() < KEPT);
        }
        if sequences.len() >= MOST_SEQUENCES {
            return None;
        }
        let next = Mutex::new(Next { number: 0, used: Instant::now() });
        let made = Arc::new(Progress { next, changed: Condvar::new() });
        sequences.insert(sequence, Arc::clone(&made));
        Some(made)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn to(port: u16) -> SocketAddr {
        SocketAddr::new([192, 0, 2, 1].into(), port)
    }

    fn position(sequence: u64, number: u64) -> Position {
        Position { sequence, number }
    }

    fn number(ticket: &Ticket, patience: Duration) -> u64 {
        ticket.send(patience, |position| position.number)
    }

    #[test]
    fn requests_are_sent_in_the_order_of_their_tickets() {
        let numbering = Numbering::default();
        let tickets: Vec<_> = (0..20).map(|_| numbering.ticket(to(80))).collect();
        let sent = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for (at, ticket) in tickets.iter().enumerate().rev() {
                let sent = &sent;
                scope.spawn(move || ticket.send(LONG, |position| lock(sent).push((at, position.number))));
            }
        });
        let expected: Vec<_> = (0..20).map(|at| (at as usize, at)).collect();
        assert_eq!(sent.into_inner().unwrap(), expected);
    }

    #[test]
    fn destinations_do_not_wait_for_each_other_and_a_failure_holds_up_none() {
        let numbering = Numbering::default();
        let [first, second, third] = [80, 80, 81].map(|port| numbering.ticket(to(port)));
        assert_eq!(number(&third, LONG), 0);
        drop(first);
        assert_eq!(number(&second, LONG), 0);
    }

    #[test]
    fn whoever_waits_too_long_goes_first_and_numbers_have_no_gaps() {
        let numbering = Numbering::default();
        let [first, second] = [80, 80].map(|port| numbering.ticket(to(port)));
        assert_eq!(number(&second, Duration::ZERO), 0);
        assert_eq!(number(&first, LONG), 1);
    }

    #[test]
    fn a_request_that_is_sent_again_keeps_its_number() {
        let numbering = Numbering::default();
        let tickets = [80, 80].map(|port| numbering.ticket(to(port)));
        let numbers = [0, 0, 1, 0, 1].map(|at| number(&tickets[at], LONG));
        assert_eq!(numbers, [0, 0, 1, 0, 1]);
    }

    #[test]
    fn a_sequence_ends_with_its_last_ticket() {
        let numbering = Numbering::default();
        let first = numbering.ticket(to(80));
        let sequence = first.send(LONG, |position| position.sequence);
        // It is not made yet.
        assert_eq!(numbering.ticket(to(80)).send(LONG, |position| position), position(sequence, 1));
        drop(first);
        let next = numbering.ticket(to(80)).send(LONG, |position| position);
        assert!(next.sequence != sequence && next.number == 0);
        assert_eq!(lock(&numbering.sequences).len(), 1);
    }

    #[test]
    fn work_is_done_in_the_order_of_the_numbers() {
        let (ordering, (done, results)) = (Ordering::new(LONG), mpsc::channel());
        thread::scope(|scope| {
            for number in (0..20).rev() {
                let (ordering, done) = (&ordering, done.clone());
                scope.spawn(move || ordering.in_turn(position(1, number), LONG, || done.send(number)));
            }
        });
        drop(done);
        assert_eq!(results.iter().collect::<Vec<_>>(), (0..20).collect::<Vec<_>>());
    }

    #[test]
    fn a_number_that_never_comes_is_not_waited_for_forever() {
        let ordering = Ordering::new(LONG);
        assert_eq!(ordering.in_turn(position(1, u64::MAX), Duration::ZERO, || 3), 3);
        // And one that comes late does not wait at all.
        assert_eq!(ordering.in_turn(position(1, 5), LONG, || 4), 4);
    }

    #[test]
    fn a_flood_of_sequences_is_not_remembered() {
        let ordering = Ordering::new(LONG);
        for sequence in 0..2 * MOST_SEQUENCES as u64 {
            ordering.in_turn(position(sequence, 0), LONG, || ());
        }
        assert_eq!(lock(&ordering.sequences).len(), MOST_SEQUENCES);
        // Of which no number is waited for.
        ordering.in_turn(position(u64::MAX, 9), LONG, || ());
    }
}
