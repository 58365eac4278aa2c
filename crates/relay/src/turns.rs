//! A limited number of turns: whoever finds none waits, in the order of arrival.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread, ThreadId};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub struct Turns {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    free: usize,
    /// A thread that is no longer among them has a turn.
    waiting: VecDeque<Thread>,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub struct Turn<'a>(&'a Turns);

impl State {
    fn place(&self, thread: ThreadId) -> Option<usize> {
        self.waiting.iter().position(|each| each.id() == thread)
    }
}

impl Turns {
    pub const fn new(count: usize) -> Self {
        Self { state: Mutex::new(State { free: count, waiting: VecDeque::new() }) }
    }

    /// The next free one; `None` if there is none in time, or as soon as it no longer `may_wait`, which is asked
    /// every `ask_every`.
    pub fn take(
        &self,
        within: Duration,
        ask_every: Duration,
        mut may_wait: impl FnMut() -> bool,
    ) -> Option<Turn<'_>> {
        let mut state = self.lock();
        if state.free > 0 {
            state.free -= 1;
            return Some(Turn(self));
        }
        let (thread, due) = (thread::current(), Instant::now() + within);
        state.waiting.push_back(thread.clone());
        loop {
            let Some(place) = state.place(thread.id()) else { return Some(Turn(self)) };
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() || !may_wait() {
                state.waiting.remove(place);
                return None;
            }
            drop(state);
            thread::park_timeout(left.min(ask_every));
            state = self.lock();
        }
    }

    /// Whoever comes now has to wait.
    pub fn is_crowded(&self) -> bool {
        self.lock().free == 0
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        match state.waiting.pop_front() {
            Some(thread) => thread.unpark(),
            None => state.free += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn whoever_finds_no_turn_waits_for_one_in_the_order_of_arrival() {
        let turns = Turns::new(2);
        let [first, second] = [(); 2].map(|()| turns.take(Duration::ZERO, LONG, || true).unwrap());
        assert!(turns.take(Duration::ZERO, LONG, || true).is_none());
        let order = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for number in 0..5 {
                let (turns, order) = (&turns, &order);
                scope.spawn(move || {
                    let turn = turns.take(LONG, LONG, || true).unwrap();
                    order.lock().unwrap().push(number);
                    drop(turn);
                });
                while turns.lock().waiting.len() <= number {
                    thread::yield_now();
                }
            }
            drop(first);
        });
        assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4]);
        drop(second);
        assert_eq!(turns.lock().free, 2);
    }

    #[test]
    fn whoever_gives_up_leaves_its_place_to_the_next() {
        let turns = Turns::new(1);
        let only = turns.take(Duration::ZERO, LONG, || true).unwrap();
        assert!(turns.take(LONG, LONG, || false).is_none());
        drop(only);
        assert!(turns.take(Duration::ZERO, LONG, || true).is_some());
    }
}
