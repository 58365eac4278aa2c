//! Paths that carry nothing for a while, simulated: how soon they are in use again, and what comes of a session that
//! has no other.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod network;

use std::ops::Range;

use network::{MS, NEVER, Pipe};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use weir_psock::redial::{LEAST_PAUSE_NS, Redial, Try};
use weir_psock::schedule::{StreamId, scheduler};
use weir_psock::session::{Config, Read, Session, SessionError, Timing};

const S: u64 = 1000 * MS;
const DELAY: u64 = 5 * MS;
const RTT: u64 = 2 * DELAY;
const BYTES_PER_S: u64 = 2_500_000;
/// Connection and greeting.
const JOIN: u64 = 3 * RTT;
/// Throughput is looked at in portions of this.
const BIN: u64 = 20 * MS;

struct Connection {
    path: usize,
    ids: [StreamId; 2],
    /// From the client to the server, and back.
    pipes: [Pipe; 2],
}

/// A client that sends as much as it can over a path for each of `outages`, if it has anything to send.
struct World {
    outages: Vec<Range<u64>>,
    sessions: [Session; 2],
    redial: Redial,
    connections: Vec<Connection>,
    /// Tries, how they end and when.
    tries: Vec<(Try, u64, bool)>,
    is_idle: bool,
    now: u64,
    /// What has arrived by each path, in each bin.
    carried: Vec<Vec<u64>>,
    rng: SmallRng,
}

impl World {
    fn new(outages: Vec<Range<u64>>, timing: Timing, is_idle: bool) -> Self {
        let config = Config { timing, ..Config::default() };
        let session = || Session::new(config, scheduler("earliest").unwrap());
        let paths = outages.len();
        let mut world = Self {
            carried: vec![Vec::new(); paths],
            outages,
            sessions: [session(), session()],
            redial: Redial::new(0..paths, 0),
            connections: Vec::new(),
            tries: Vec::new(),
            is_idle,
            now: 0,
            rng: SmallRng::seed_from_u64(1),
        };
        (0..paths).for_each(|path| world.join(path));
        world
    }

    /// A connection over a path that was greeted.
    fn join(&mut self, path: usize) {
        let now = self.now;
        let ids = [0, 1].map(|end: usize| self.sessions[end].attach(now).unwrap());
        let pipes = [0, 1].map(|_| {
            let mut pipe = Pipe::new(BYTES_PER_S, DELAY, 60_000, NEVER);
            pipe.outage = self.outages[path].clone();
            pipe
        });
        self.connections.push(Connection { path, ids, pipes });
        self.redial.attached(path, self.now);
    }

    /// Both ends hear of the end of a path's connection.
    fn leave(&mut self, path: usize) {
        let all = std::mem::take(&mut self.connections);
        let (gone, left): (Vec<_>, Vec<_>) = all.into_iter().partition(|each| each.path == path);
        self.connections = left;
        for connection in gone {
            for end in 0..2 {
                self.sessions[end].detach(connection.ids[end]);
            }
        }
    }

    fn is_dead(&self, path: usize, at: u64) -> bool {
        self.outages[path].contains(&at)
    }

    fn step(&mut self) {
        self.now += MS;
        let now = self.now;
        for connection in &mut self.connections {
            for from in 0..2 {
                while let Some(bytes) = connection.pipes[from].arrived(now) {
                    self.sessions[1 - from].input(connection.ids[1 - from], &bytes, now).unwrap();
                    if from == 0 {
                        let bin = (now / BIN) as usize;
                        let carried = &mut self.carried[connection.path];
                        carried.resize(carried.len().max(bin + 1), 0);
                        carried[bin] += bytes.len() as u64;
                    }
                }
            }
        }
        let [client, server] = &mut self.sessions;
        while !self.is_idle && client.failure().is_none() && client.write(&[0; 65536]).unwrap() > 0 {}
        while matches!(server.read(&mut [0; 65536]), Ok(Read::Bytes(_))) {}
        for end in 0..2 {
            let session = &mut self.sessions[end];
            for connection in &self.connections {
                session.set_stats(connection.ids[end], connection.pipes[end].stats(), now);
                if connection.pipes[end].room() > 0 {
                    session.set_writable(connection.ids[end]);
                }
            }
            session.drive(now);
            for connection in &mut self.connections {
                let pending = session.pending(connection.ids[end]);
                let part = pending[..pending.len().min(connection.pipes[end].room())].to_vec();
                session.sent(connection.ids[end], part.len());
                connection.pipes[end].push(now, &part, 0.0, &mut self.rng);
            }
        }
        self.dial();
    }

    fn dial(&mut self) {
        let now = self.now;
        while let Some(dead) = self.sessions[0].take_dead() {
            let path = self.connections.iter().find(|each| each.ids[0] == dead).unwrap().path;
            self.leave(path);
            self.redial.ended(path, 0, now);
        }
        for connection in &self.connections {
            let (client, id) = (&self.sessions[0], connection.ids[0]);
            if client.is_stalled(id) {
                self.redial.stalls(connection.path, client.answer_ns(id), now);
            } else {
                self.redial.recovers(connection.path);
            }
        }
        while let Some(due) = self.redial.due(now) {
            let works = (0..=6).all(|way| !self.is_dead(due.route, now + way * DELAY));
            let ends = now + if works { JOIN } else { due.patience_ns };
            self.tries.push((due, ends, works));
        }
        let all = std::mem::take(&mut self.tries);
        let (over, left): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, ends, _)| *ends <= now);
        self.tries = left;
        for (done, _, works) in over {
            let old = self.connections.iter().find(|each| each.path == done.route).map(|each| each.ids[0]);
            let is_wanted = old.is_none_or(|id| self.sessions[0].is_stalled(id));
            if works && is_wanted {
                self.leave(done.route);
                self.join(done.route);
            } else {
                self.redial.failed(done.route, now);
            }
        }
    }

    fn run_to(&mut self, end: u64) {
        while self.now < end && self.sessions.iter().any(|session| session.failure().is_none()) {
            self.step();
        }
    }

    /// Bytes in a bin.
    fn rate(&self, path: usize, time: Range<u64>) -> u64 {
        let bins = time.start / BIN..time.end / BIN;
        let count = bins.end - bins.start;
        bins.filter_map(|bin| self.carried[path].get(bin as usize)).sum::<u64>() / count
    }
}

#[test]
fn a_path_that_comes_back_is_in_use_again_within_two_round_trips_of_being_found() {
    for lasts in [S / 2, S, 2 * S, 5 * S, 9 * S, 12 * S, 30 * S] {
        for begins in [2 * S, 2 * S + 130 * MS, 2 * S + 310 * MS] {
            let back = begins + lasts;
            let mut world = World::new(vec![0..0, begins..back], Timing::default(), false);
            world.run_to(back + 3 * S);
            assert_eq!(world.sessions[0].failure(), None);
            let before = world.rate(1, S..2 * S);
            let mut bins = (back / BIN..world.now / BIN).map(|bin| bin * BIN..(bin + 1) * BIN);
            let bin = bins.find(|bin| world.rate(1, bin.clone()) >= before / 2).unwrap();
            let took = bin.end - back;
            // The next try begins, and connects and greets.
            let found = LEAST_PAUSE_NS.max(lasts / 20) + JOIN;
            assert!(took <= found + 2 * RTT + BIN, "{} ms after {} ms", took / MS, lasts / MS);
        }
    }
}

#[test]
fn the_other_path_goes_on_while_one_carries_nothing() {
    let mut world = World::new(vec![0..0, 2 * S..7 * S], Timing::default(), false);
    world.run_to(10 * S);
    let before = world.rate(0, S..2 * S);
    // Until the path was suspect, the window may be full of what waits for it.
    assert!(world.rate(0, 2 * S + 500 * MS..7 * S) >= before * 95 / 100);
    assert!(world.rate(1, 8 * S..10 * S) >= world.rate(1, S..2 * S) * 95 / 100);
}

#[test]
fn when_all_paths_die_both_ends_fail_within_the_time_set() {
    for lost_ns in [S, 3 * S, 15 * S] {
        let timing = Timing { lost_ns, ..Timing::default() };
        let mut world = World::new(vec![2 * S..NEVER, 2 * S + 100 * MS..NEVER], timing, false);
        world.run_to(100 * S);
        for session in &world.sessions {
            assert!(matches!(session.failure(), Some(SessionError::Lost(_))), "{:?}", session.failure());
        }
        let took = world.now - (2 * S + 100 * MS);
        assert!((lost_ns - RTT..lost_ns + 2 * RTT).contains(&took), "{} ms of {}", took / MS, lost_ns / MS);
    }
}

#[test]
fn an_idle_session_hears_of_it_when_a_ping_is_not_answered() {
    for lost_ns in [S, 15 * S] {
        let timing = Timing { lost_ns, ..Timing::default() };
        let mut world = World::new(vec![8 * S..NEVER, 8 * S..NEVER], timing, true);
        world.run_to(100 * S);
        assert!(world.sessions.iter().all(|session| session.failure().is_some()));
        let took = world.now - 8 * S;
        // From what was heard last.
        assert!((lost_ns * 3 / 4 - RTT..lost_ns + 2 * RTT).contains(&took), "{} ms", took / MS);
    }
}
