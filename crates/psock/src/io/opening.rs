//! Opening a session: all routes are tried at once, the first that works opens it, and the others join.

use std::net::TcpStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use super::dial::{Purpose, connect, greet, is_final, is_no_psock};
use super::dialer::Dialer;
use super::signal::Signal;
use super::socket::Shared;
use super::worker::{self, Arrival};
use super::{GREETING, JOINING, OpenError, Options, ParallelSocket, Route, plain, random, system};
use crate::wire::{GreetingError, Id, MOST_STREAMS, Secret};

/// A greeting that takes longer than this, and than four times as long as its connection took, no longer
/// blocks the others: the next connection greets alongside it (as in RFC 8305, section 5).
const LONGEST_TURN: Duration = Duration::from_millis(250);

/// Connections that greet in turn within the time of one greeting.
const TURNS: usize = (GREETING.as_millis() / LONGEST_TURN.as_millis()) as usize;

/// Time within which it is known whether there is a session: a connection is made and greeted; if there are
/// more of them than turns, these take longer.
fn longest(routes: usize) -> Duration {
    let more = u32::try_from(routes.saturating_sub(TURNS)).unwrap_or(u32::MAX);
    2 * GREETING + LONGEST_TURN.saturating_mul(more)
}

/// A session that is being opened. Dropping it gives up.
#[derive(Debug)]
pub struct Opening {
    race: Arc<Race>,
}

#[derive(Debug)]
struct Race {
    routes: Vec<Route>,
    options: Arc<Options>,
    id: Id,
    /// No greeting lasts longer.
    due: Instant,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    stage: Stage,
    /// Routes with no result yet.
    trying: usize,
    /// Connections that are being greeted.
    greeting: usize,
    /// When another one may be greeted alongside them.
    next_turn: Instant,
    /// What was wrong with each route.
    problems: Vec<Option<OpenError>>,
    signal: Option<Signal>,
}

#[derive(Debug)]
enum Stage {
    Trying,
    Open {
        shared: Weak<Shared>,
        /// `None`: without psock.
        secret: Option<Secret>,
        /// Until it is taken.
        made: Option<ParallelSocket>,
        since: Instant,
    },
    /// Until the error is taken.
    Failed(Option<OpenError>),
    GivenUp,
}

/// What to do with a connection that was made.
enum Turn {
    Open,
    Join(Arc<Shared>, Secret),
    Nothing,
    /// There is no time left.
    Late,
}

impl Opening {
    /// Begins to open a session over `routes`.
    ///
    /// `signal` becomes that of the socket; until the socket exists it shows nothing, and if it cannot be made,
    /// it shows everything.
    ///
    /// # Errors
    /// [`OpenError`]: the options are invalid.
    pub fn start(routes: &[Route], options: &Options, signal: Option<Signal>) -> Result<Self, OpenError> {
        Self::begin(routes, options, signal, longest(routes.len()))
    }

    fn begin(
        routes: &[Route],
        options: &Options,
        mut signal: Option<Signal>,
        longest: Duration,
    ) -> Result<Self, OpenError> {
        options.check()?;
        if !(1..=MOST_STREAMS).contains(&routes.len()) {
            return Err(OpenError::Addresses(routes.len()));
        }
        if let Some(signal) = &mut signal {
            signal.show(false, false);
        }
        let state = State {
            stage: Stage::Trying,
            trying: routes.len(),
            greeting: 0,
            next_turn: Instant::now(),
            problems: routes.iter().map(|_| None).collect(),
            signal,
        };
        let race = Arc::new(Race {
            routes: routes.to_vec(),
            options: Arc::new(options.clone()),
            id: random().map_err(system("random numbers cannot be had"))?,
            due: Instant::now() + longest,
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        for number in 0..routes.len() {
            let for_thread = Arc::clone(&race);
            let work = move || for_thread.run(number);
            if let Err(source) = thread::Builder::new().name("psock dial".to_owned()).spawn(work) {
                race.fail(number, OpenError::System { what: "no thread can be made", source }, false);
            }
        }
        Ok(Self { race })
    }

    /// The socket, or why there is none. `within`: how long to wait; `None`: until it is known, 5 s for TCP and
    /// 5 s for greetings; a quarter of a second more for each stream beyond the twentieth, and 5 s for the connection
    /// of plain TCP; [`JOINING`] more where [`Options::waits_for_routes`] is set.
    ///
    /// # Errors
    /// Returns itself if the result is not known in time.
    pub fn wait(self, within: Option<Duration>) -> Result<Result<ParallelSocket, OpenError>, Self> {
        let due = within.and_then(|within| Instant::now().checked_add(within));
        let mut state = self.race.lock();
        loop {
            let found = match &mut state.stage {
                Stage::Trying => None,
                Stage::Open { made, since, .. } => made.take().map(|made| Ok((made, *since))),
                Stage::Failed(problem) => problem.take().map(Err),
                Stage::GivenUp => Some(Err(OpenError::Addresses(0))),
            };
            if let Some(found) = found {
                // Routes need the lock when they finish.
                drop(state);
                return match found {
                    Ok((made, since)) => self.joined(made, since, due),
                    Err(problem) => Ok(Err(problem)),
                };
            }
            let left = due.map_or(Duration::MAX, |due| due.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                drop(state);
                return Err(self);
            }
            state = self.race.sleep(state, left);
        }
    }

    /// Waits for the other routes, if the options say so; at most until `due`.
    fn joined(
        self,
        made: ParallelSocket,
        since: Instant,
        due: Option<Instant>,
    ) -> Result<Result<ParallelSocket, OpenError>, Self> {
        let ends = since + JOINING;
        let until = due.map_or(ends, |due| due.min(ends));
        let left = until.saturating_duration_since(Instant::now());
        if !self.race.options.waits_for_routes || made.joined(Some(left)) || Instant::now() >= ends {
            return Ok(Ok(made));
        }
        if let Stage::Open { made: place, .. } = &mut self.race.lock().stage {
            *place = Some(made);
        }
        Err(self)
    }

    /// The same, without a time limit.
    pub(super) fn finished(self) -> Result<ParallelSocket, OpenError> {
        let mut opening = self;
        loop {
            match opening.wait(None) {
                Ok(found) => return found,
                Err(still) => opening = still,
            }
        }
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        let mut state = self.race.lock();
        let unused = match &mut state.stage {
            Stage::Open { made, .. } => made.take(),
            stage => {
                *stage = Stage::GivenUp;
                None
            }
        };
        drop(state);
        self.race.changed.notify_all();
        drop(unused);
    }
}

impl Race {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sleep<'a>(&self, state: MutexGuard<'a, State>, at_most: Duration) -> MutexGuard<'a, State> {
        // No wait of more than an hour: Condvar adds it to the time of day.
        let at_most = at_most.min(Duration::from_secs(3600));
        self.changed.wait_timeout(state, at_most).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Tries a route.
    fn run(&self, number: usize) {
        while !self.attempt(number) {}
    }

    /// False if another route opened the session first: this one is to join it over a new connection.
    fn attempt(&self, number: usize) -> bool {
        let (route, begun) = (&self.routes[number], Instant::now());
        let mut stream = match connect(route, &self.options, GREETING) {
            Ok(stream) => stream,
            Err(problem) => {
                self.fail(number, problem, false);
                return true;
            }
        };
        let greet = |stream: &mut TcpStream, purpose| {
            let due = self.due.min(Instant::now() + GREETING);
            greet(stream, route.remote, self.id, &purpose, &self.options, due)
        };
        match self.turn(LONGEST_TURN.max(4 * begun.elapsed())) {
            Turn::Nothing => {}
            Turn::Late => {
                let why = "no time was left for its greeting".to_owned();
                self.fail(number, OpenError::Silent { to: route.remote, why }, false);
            }
            Turn::Join(shared, secret) => {
                let stream = greet(&mut stream, Purpose::Join(secret)).map(|_| stream);
                shared.arrive(Arrival { route: Some(number), stream });
            }
            Turn::Open => {
                let greeted = greet(&mut stream, Purpose::Open);
                let found = match greeted {
                    Ok(secret) => Ok((stream, Some(secret))),
                    // What was sent to it is not what it expects: it is given a new connection.
                    Err(problem) if self.options.is_fallback && is_no_psock(&problem) => {
                        connect(route, &self.options, GREETING).map(|stream| (stream, None))
                    }
                    Err(problem) => Err(problem),
                };
                match found {
                    Ok((stream, secret)) => self.open(number, stream, secret),
                    Err(problem) if self.is_overtaken(&problem) => return false,
                    Err(problem) => self.fail(number, problem, true),
                }
            }
        }
        true
    }

    /// The name of the session is taken, since another route greets with it or has done so: no more is known of
    /// this one.
    fn is_overtaken(&self, problem: &OpenError) -> bool {
        if !matches!(problem, OpenError::Greeting { source: GreetingError::Full, .. }) {
            return false;
        }
        let mut state = self.lock();
        let is_overtaken = match &state.stage {
            Stage::Trying => state.greeting > 1,
            Stage::Open { secret, .. } => secret.is_some(),
            _ => false,
        };
        if is_overtaken {
            state.greeting -= 1;
            self.changed.notify_all();
        }
        is_overtaken
    }

    /// Waits until the connection can be used.
    fn turn(&self, patience: Duration) -> Turn {
        let mut state = self.lock();
        loop {
            match &state.stage {
                Stage::Trying => {}
                Stage::Open { shared, secret: Some(secret), .. } => {
                    return shared
                        .upgrade()
                        .map_or(Turn::Nothing, |shared| Turn::Join(shared, secret.clone()));
                }
                _ => return Turn::Nothing,
            }
            let now = Instant::now();
            if now >= self.due {
                return Turn::Late;
            }
            if state.greeting == 0 || now >= state.next_turn {
                state.greeting += 1;
                state.next_turn = now + patience;
                return Turn::Open;
            }
            let left = state.next_turn.min(self.due) - now;
            state = self.sleep(state, left);
        }
    }

    /// A route works; there is a session unless another was faster.
    fn open(&self, number: usize, stream: TcpStream, secret: Option<Secret>) {
        let mut state = self.lock();
        state.trying -= 1;
        state.greeting -= 1;
        self.changed.notify_all();
        match &state.stage {
            Stage::Trying => {}
            Stage::GivenUp => {
                // So that the other end is told.
                drop(self.make(&mut state, number, stream, secret).map(ParallelSocket::new));
                return;
            }
            Stage::Open { shared, secret: Some(_), .. } => {
                // Another server, or one that the first session's greeting has not reached: it joins instead.
                let (to, source) = (self.routes[number].remote, GreetingError::Full);
                let stream = Err(OpenError::Greeting { to, source });
                return arrive(shared, Arrival { route: Some(number), stream });
            }
            _ => return,
        }
        state.stage = match self.make(&mut state, number, stream, secret.clone()) {
            Ok(shared) => {
                let made = Some(ParallelSocket::new(Arc::clone(&shared)));
                Stage::Open { shared: Arc::downgrade(&shared), secret, made, since: Instant::now() }
            }
            Err(problem) => {
                show_all(&mut state);
                Stage::Failed(Some(problem))
            }
        };
    }

    fn make(
        &self,
        state: &mut State,
        number: usize,
        stream: TcpStream,
        secret: Option<Secret>,
    ) -> Result<Arc<Shared>, OpenError> {
        let shared = Shared::new(&self.options)?;
        if let Some(secret) = secret {
            let failed: Vec<bool> = state.problems.iter().map(Option::is_some).collect();
            shared.lock().awaited = (0..failed.len()).filter(|route| !failed[*route]).collect();
            let options = Arc::clone(&self.options);
            let dialer = Dialer::new(&self.routes, &failed, self.id, secret, options);
            shared.arrive(Arrival { route: Some(number), stream: Ok(stream) });
            worker::start(&shared, Some(dialer), || {})?;
        } else {
            plain::start(&shared, stream)?;
        }
        let mut inner = shared.lock();
        inner.signal = state.signal.take();
        shared.tell(&mut inner);
        drop(inner);
        Ok(shared)
    }

    /// A route does not work; there is no session if it was the last one, or if no other could do better.
    fn fail(&self, number: usize, problem: OpenError, was_greeting: bool) {
        let mut state = self.lock();
        state.trying -= 1;
        state.greeting -= usize::from(was_greeting);
        self.changed.notify_all();
        match &state.stage {
            Stage::Trying => {}
            Stage::Open { shared, secret: Some(_), .. } => {
                return arrive(shared, Arrival { route: Some(number), stream: Err(problem) });
            }
            _ => return,
        }
        if is_final(&problem) {
            state.stage = Stage::Failed(Some(problem));
        } else {
            state.problems[number] = Some(problem);
            if state.trying > 0 {
                return;
            }
            let first = state.problems.iter_mut().find_map(Option::take);
            state.stage = Stage::Failed(first);
        }
        show_all(&mut state);
    }
}

/// The session's thread is told, unless it has ended meanwhile.
fn arrive(shared: &Weak<Shared>, arrival: Arrival) {
    if let Some(shared) = shared.upgrade() {
        shared.arrive(arrival);
    }
}

fn show_all(state: &mut State) {
    if let Some(signal) = &mut state.signal {
        signal.show(true, true);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    #[test]
    fn how_long_an_opening_takes_at_most_is_what_the_manual_says() {
        let seconds = [1, 20, 21, 64].map(|routes| longest(routes).as_secs_f64());
        assert_eq!(seconds, [10.0, 10.0, 10.25, 21.0]);
    }

    #[test]
    fn no_connection_is_greeted_after_that_time() {
        let mute = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let routes = vec![Route { local: None, remote: mute.local_addr().unwrap() }; 3];
        let opening = Opening::begin(&routes, &Options::default(), None, Duration::ZERO).unwrap();
        let problem = opening.finished().unwrap_err();
        assert!(problem.to_string().ends_with("no time was left for its greeting"), "{problem}");
        for _ in routes {
            let (mut stream, _) = mute.accept().unwrap();
            assert_eq!(stream.read(&mut [0; 10]).unwrap(), 0, "nothing was said");
        }
    }
}
