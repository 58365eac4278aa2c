//! Sessions of the near end that have carried a connection, or none yet, and wait for the next one.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weir_psock::io::{ParallelSocket, SocketError};

/// Most of them, and how long each waits.
const MOST: usize = 16;
const LONGEST: Duration = Duration::from_secs(30);
/// A session whose other end was heard within this time is used again: an idle stream is probed every 3 s.
const HEARD: Duration = Duration::from_secs(5);
/// How long none is opened in advance after the proxy had no room.
const MODESTY: Duration = Duration::from_secs(60);

#[derive(Default)]
pub struct Idle(Mutex<State>);

#[derive(Default)]
struct State {
    sessions: VecDeque<(ParallelSocket, Instant)>,
    /// One is being opened.
    is_opening: bool,
    /// None is kept any longer.
    is_over: bool,
    /// When the proxy last had no room.
    refused: Option<Instant>,
}

impl Idle {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a session; gives back one for which there is no room, to be closed.
    pub fn keep(&self, session: ParallelSocket) -> Option<ParallelSocket> {
        let mut state = self.state();
        if state.is_over {
            return Some(session);
        }
        state.sessions.push_back((session, Instant::now()));
        if state.sessions.len() > MOST { state.sessions.pop_front().map(|(oldest, _)| oldest) } else { None }
    }

    /// The one that was used last, if the other end keeps it as well.
    pub fn take(&self) -> Option<ParallelSocket> {
        let mut state = self.state();
        while let Some((session, _)) = state.sessions.pop_back() {
            let is_heard = session.silence().is_some_and(|silence| silence < HEARD);
            match session.peek(&mut [0], Some(Duration::ZERO)) {
                Err(SocketError::TimedOut) if is_heard => return Some(session),
                // Without a request, there is one answer: no room.
                Ok(1..) => state.refused = Some(Instant::now()),
                _ => {}
            }
        }
        None
    }

    /// The proxy has no room: what carries nothing would take that of others.
    pub fn refuse(&self) {
        self.state().refused = Some(Instant::now());
    }

    /// Whether one is to be opened in advance: then the caller does so, until [`Idle::end_opening`].
    pub fn begin_opening(&self) -> bool {
        let mut state = self.state();
        let is_full = state.refused.is_some_and(|since| since.elapsed() < MODESTY);
        let begins = !(is_full || state.is_over || state.is_opening) && state.sessions.is_empty();
        state.is_opening |= begins;
        begins
    }

    pub fn end_opening(&self) {
        self.state().is_opening = false;
    }

    pub fn is_over(&self) -> bool {
        self.state().is_over
    }

    /// Those that have waited for longer than `longest`.
    pub fn expired(&self, longest: Duration) -> Vec<ParallelSocket> {
        let sessions = &mut self.state().sessions;
        let count = sessions.iter().take_while(|(_, since)| since.elapsed() >= longest).count();
        sessions.drain(..count).map(|(session, _)| session).collect()
    }

    /// Those that have waited for long; `all`: every one, and none is kept from now on.
    pub fn ending(&self, all: bool) -> Vec<ParallelSocket> {
        self.state().is_over |= all;
        self.expired(if all { Duration::ZERO } else { LONGEST })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_is_opened_in_advance_while_another_is_or_where_there_was_no_room() {
        let idle = Idle::default();
        assert_eq!([idle.begin_opening(), idle.begin_opening()], [true, false]);
        idle.end_opening();
        assert!(idle.begin_opening());
        idle.end_opening();
        idle.refuse();
        assert!(!idle.begin_opening());
    }
}
