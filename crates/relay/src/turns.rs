//! A limited number of turns: whoever finds none waits.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub struct Turns {
    free: Mutex<usize>,
    changed: Condvar,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub struct Turn<'a>(&'a Turns);

impl Turns {
    pub const fn new(count: usize) -> Self {
        Self { free: Mutex::new(count), changed: Condvar::new() }
    }

    /// The next free one; `None` if there is none in time.
    pub fn take(&self, within: Duration) -> Option<Turn<'_>> {
        let (due, mut free) = (Instant::now() + within, self.lock());
        while *free == 0 {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            free = self.changed.wait_timeout(free, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        *free -= 1;
        Some(Turn(self))
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.lock() += 1;
        self.0.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn whoever_finds_no_turn_waits_for_one() {
        let turns = Turns::new(2);
        let [first, second] = [(); 2].map(|()| turns.take(Duration::ZERO).unwrap());
        assert!(turns.take(Duration::ZERO).is_none());
        thread::scope(|scope| {
            let waiting = scope.spawn(|| turns.take(Duration::from_secs(60)).is_some());
            drop(first);
            assert!(waiting.join().unwrap());
        });
        drop(second);
        assert_eq!(*turns.lock(), 2);
    }
}
