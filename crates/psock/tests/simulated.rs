//! Sessions over a simulated network: random paths, losses, stalls, deaths and returns, and a checker.
//!
//! `PSOCK_SCHEDULES=N` runs N schedules instead of the usual number, `PSOCK_SEED=N` only that one.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod network;

use std::env;

use network::{MS, NEVER, Pipe};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use weir_psock::schedule::{SCHEDULERS, StreamId, scheduler};
use weir_psock::session::{Config, Read, Session, SessionError, Timing};

const USUAL_SCHEDULES: u64 = 500;
const TIMING: Timing = Timing {
    suspect_ns: 50 * MS,
    dead_ns: 600 * MS,
    ping_ns: 200 * MS,
    lost_ns: 1000 * MS,
    gone_ns: 300 * MS,
    ack_ns: 5 * MS,
};

/// Until the ends of a connection are told that it has ended, if they are.
const MOST_NOTICE_NS: u64 = 300 * MS;
/// For what is still under way.
const SLACK_NS: u64 = 2000 * MS;

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Death {
    /// Both ends are told, each after a time.
    Noticed([u64; 2]),
    /// Nobody is told.
    Silent,
    /// One direction works on.
    OneWay,
}

#[derive(Debug)]
struct Connection {
    ends: [Option<StreamId>; 2],
    /// From the first end to the second, and back.
    pipes: [Pipe; 2],
    dies_ns: u64,
    death: Death,
    /// When an end hears that the other has closed it.
    hears_ns: [u64; 2],
    loss: f64,
}

/// One random world.
#[derive(Debug)]
struct World {
    rng: SmallRng,
    sessions: [Session; 2],
    /// What each end sends, and how much of it the application has written.
    data: [Vec<u8>; 2],
    written: [usize; 2],
    /// What each end has read.
    read: [Vec<u8>; 2],
    ended: [bool; 2],
    connections: Vec<Connection>,
    /// When a path comes up (again), and how long it lasts then.
    births: Vec<(u64, u64, u64, u64)>,
    /// The application at this end does nothing until then.
    pauses: [u64; 2],
    /// One path works all the time.
    is_steady: bool,
    /// No stream of this end has failed, so nothing was to be sent again but what was late.
    is_untroubled: [bool; 2],
    /// Blocks that were late, and went by another stream as well.
    repeated_blocks: u64,
    /// No path works from then on.
    ends_ns: u64,
    receive_bytes: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let name = SCHEDULERS[rng.random_range(0..SCHEDULERS.len())];
        let config = Config {
            receive_bytes: 1 << rng.random_range(6..14),
            send_bytes: 1 << rng.random_range(6..15),
            block_bytes: 1 << rng.random_range(4..12),
            timing: TIMING,
            is_fair: rng.random_bool(0.25),
        };
        // Where little can be under way at a time, there is little to send.
        let window = config.receive_bytes.min(config.send_bytes);
        let longest = (100 * config.block_bytes as usize).min(30 * window);
        let data = [0, 1].map(|_| {
            let len = rng.random_range(0..=longest);
            (0..len).map(|_| rng.random()).collect()
        });
        let is_steady = rng.random_bool(0.5);
        let mut births = Vec::new();
        for path in 0..rng.random_range(1..=4) {
            if path == 0 && is_steady {
                births.push((0, NEVER, 1 << rng.random_range(14..23), rng.random_range(MS / 10..60 * MS)));
                continue;
            }
            let mut at = rng.random_range(0..50 * MS);
            for _ in 0..rng.random_range(1..6) {
                let longest: u64 = 1 << rng.random_range(20..31);
                let lasts = rng.random_range(1..longest);
                births.push((
                    at,
                    at + lasts,
                    1 << rng.random_range(14..23),
                    rng.random_range(MS / 10..60 * MS),
                ));
                at += lasts + rng.random_range(0..1500 * MS);
            }
        }
        let ends_ns = births.iter().map(|(_, dies_ns, ..)| *dies_ns).max().unwrap_or(0);
        births.sort_unstable();
        births.reverse();
        let session = || Session::new(config, scheduler(name).unwrap());
        Self {
            sessions: [session(), session()],
            data,
            written: [0; 2],
            read: [vec![], vec![]],
            ended: [false; 2],
            connections: vec![],
            births,
            pauses: [0; 2],
            is_steady,
            is_untroubled: [!scheduler(name).unwrap().copies(); 2],
            repeated_blocks: 0,
            ends_ns,
            receive_bytes: config.receive_bytes as u64,
            rng,
        }
    }

    fn is_over(&self) -> bool {
        (0..2).all(|end| {
            let session = &self.sessions[end];
            session.failure().is_some() || session.is_finished() && self.ended[end]
        })
    }

    fn be_born(&mut self, now: u64) {
        while self.births.last().is_some_and(|(at, ..)| *at <= now) {
            let (_, dies_ns, bytes_per_s, delay_ns) = self.births.pop().unwrap();
            let rng = &mut self.rng;
            let death = match rng.random_range(0..4) {
                0 => Death::Silent,
                1 => Death::OneWay,
                _ => Death::Noticed([0, 1].map(|_| rng.random_range(0..MOST_NOTICE_NS))),
            };
            let mut pipe =
                |dead_ns| Pipe::new(bytes_per_s, delay_ns, rng.random_range(1000..20_000), dead_ns);
            let pipes = [pipe(dies_ns), pipe(if death == Death::OneWay { NEVER } else { dies_ns })];
            let ends = [0, 1].map(|end: usize| self.sessions[end].attach(now));
            let loss = if self.rng.random_bool(0.5) { 0.0 } else { 0.05 };
            self.connections.push(Connection { ends, pipes, dies_ns, death, hears_ns: [NEVER; 2], loss });
        }
    }

    /// Everything that happens at this time.
    fn step(&mut self, now: u64) {
        self.be_born(now);
        self.deliver(now);
        for end in 0..2 {
            self.use_application(end, now);
        }
        // What one end sends may let the other go on at once.
        for _ in 0..2 {
            for end in 0..2 {
                self.drive(end, now);
            }
        }
        self.bury(now);
    }

    fn deliver(&mut self, now: u64) {
        for connection in &mut self.connections {
            for from in 0..2 {
                while let Some(bytes) = connection.pipes[from].arrived(now) {
                    let Some(id) = connection.ends[1 - from] else { continue };
                    // As the system hands it out, in portions of any size.
                    let cut = self.rng.random_range(0..=bytes.len());
                    for part in [&bytes[..cut], &bytes[cut..]] {
                        let session = &mut self.sessions[1 - from];
                        match session.input(id, part, now) {
                            Ok(()) | Err(SessionError::Aborted(_)) => {}
                            Err(failure) => assert_eq!(session.failure(), Some(failure)),
                        }
                        assert!(
                            !matches!(session.failure(), Some(SessionError::Violation(_))),
                            "{session:?}"
                        );
                    }
                }
            }
        }
    }

    fn use_application(&mut self, end: usize, now: u64) {
        if now < self.pauses[end] {
            return;
        }
        let session = &mut self.sessions[end];
        let rest = &self.data[end][self.written[end]..];
        let most = self.rng.random_range(0..=rest.len().min(5000));
        if session.failure().is_none() && !rest.is_empty() {
            self.written[end] += session.write(&rest[..most]).unwrap();
        }
        if self.written[end] == self.data[end].len() {
            session.finish();
        }
        let mut buffer = vec![0; self.rng.random_range(1..5000)];
        match session.read(&mut buffer) {
            Ok(Read::Bytes(len)) => {
                self.read[end].extend_from_slice(&buffer[..len]);
                let (read, sent) = (&self.read[end], &self.data[1 - end]);
                assert!(sent.starts_with(read), "bytes came twice, in disorder, or were made up");
            }
            Ok(Read::End) => self.ended[end] = true,
            Ok(Read::Nothing) | Err(_) => {}
        }
        if self.rng.random_bool(0.005) {
            self.pauses[end] = now + self.rng.random_range(0..300 * MS);
        }
    }

    fn drive(&mut self, end: usize, now: u64) {
        let session = &mut self.sessions[end];
        for connection in &self.connections {
            if let Some(id) = connection.ends[end] {
                session.set_stats(id, connection.pipes[end].stats(), now);
                if connection.pipes[end].room() > 0 {
                    session.set_writable(id);
                }
            }
        }
        let before = session.totals();
        session.drive(now);
        let totals = session.totals();
        self.is_untroubled[end] &= !session.streams().any(|id| session.is_suspect(id));
        if self.is_untroubled[end] {
            self.repeated_blocks += totals.resent_blocks - before.resent_blocks;
        }
        assert!(totals.reorder_peak_bytes <= self.receive_bytes, "{totals:?}");
        for connection in &mut self.connections {
            let Some(id) = connection.ends[end] else { continue };
            let pending = session.pending(id);
            let len = pending.len().min(connection.pipes[end].room());
            if len > 0 {
                let part = pending[..self.rng.random_range(1..=len)].to_vec();
                session.sent(id, part.len());
                connection.pipes[end].push(now, &part, connection.loss, &mut self.rng);
            }
        }
    }

    fn bury(&mut self, now: u64) {
        for end in 0..2 {
            while let Some(dead) = self.sessions[end].take_dead() {
                let connection =
                    self.connections.iter_mut().find(|each| each.ends[end] == Some(dead)).unwrap();
                connection.ends[end] = None;
                self.is_untroubled[end] = false;
                // It closes the connection, which the other end hears of if that direction works.
                let pipe = &connection.pipes[end];
                let at = now.max(pipe.last_ns) + pipe.delay_ns;
                if at < pipe.dead_ns {
                    connection.hears_ns[1 - end] = at;
                }
            }
        }
        for connection in &mut self.connections {
            for end in 0..2 {
                let told = match connection.death {
                    Death::Noticed(after) if connection.dies_ns < NEVER => connection.dies_ns + after[end],
                    _ => NEVER,
                };
                if now >= told.min(connection.hears_ns[end])
                    && let Some(id) = connection.ends[end].take()
                {
                    self.sessions[end].detach(id);
                    self.is_untroubled[end] = false;
                }
            }
        }
        self.connections.retain(|connection| connection.ends != [None; 2]);
    }

    fn next_ns(&self, now: u64) -> u64 {
        let mut next = self.births.last().map_or(NEVER, |(at, ..)| *at);
        for connection in &self.connections {
            for end in 0..2 {
                next = next.min(connection.pipes[end].next_ns()).min(connection.hears_ns[end]);
                if let (Death::Noticed(after), true) = (connection.death, connection.dies_ns < NEVER) {
                    let told = connection.dies_ns + after[end];
                    if connection.ends[end].is_some() {
                        next = next.min(told);
                    }
                }
            }
        }
        for end in 0..2 {
            next = next.min(self.sessions[end].deadline_ns());
            if self.pauses[end] > now {
                next = next.min(self.pauses[end]);
            }
        }
        // The application and partial writes go on by themselves.
        next.clamp(now + MS / 10, now + 5 * MS)
    }

    /// How both ends came out.
    fn run(&mut self) -> [Option<SessionError>; 2] {
        let mut now = 0;
        let mut steps = 0;
        while !self.is_over() {
            self.step(now);
            now = self.next_ns(now);
            steps += 1;
            assert!(
                steps < 1_000_000,
                "neither complete nor failed after {} s: {self:#?}",
                now / 1_000_000_000
            );
            // Both ends hear of it, or are not answered, and have no stream for as long as they may.
            let latest_ns = MOST_NOTICE_NS + TIMING.ping_ns + TIMING.dead_ns + TIMING.lost_ns + SLACK_NS;
            assert!(now <= self.ends_ns.saturating_add(latest_ns), "no error in time: {self:#?}");
        }
        [0, 1].map(|end| self.sessions[end].failure())
    }
}

/// Runs the world of a seed, and checks it; whether it was complete, and how many blocks were late.
fn check(seed: u64) -> (bool, u64) {
    let mut world = World::new(seed);
    let failures = world.run();
    for (end, failure) in failures.iter().enumerate() {
        if world.ended[end] {
            assert!(world.read[end] == world.data[1 - end], "the end was read, and data are missing");
        }
        if world.sessions[end].is_delivered() {
            let arrived = world.sessions[1 - end].totals().received_bytes;
            assert_eq!(arrived, world.data[end].len() as u64, "delivered, and not arrived");
        }
        assert!(world.ended[end] || failure.is_some());
    }
    if world.is_steady {
        assert_eq!(failures, [None; 2], "a path worked all the time");
    }
    (failures == [None; 2], world.repeated_blocks)
}

#[test]
fn data_arrive_once_in_order_and_complete_or_there_is_an_error() {
    let number = |name| env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seeds = match number("PSOCK_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("PSOCK_SCHEDULES").unwrap_or(USUAL_SCHEDULES),
    };
    let count = seeds.end - seeds.start;
    let (mut complete, mut repeated) = (0, 0);
    for seed in seeds {
        let checked = std::panic::catch_unwind(|| check(seed));
        let (is_complete, blocks) = checked.unwrap_or_else(|_| panic!("PSOCK_SEED={seed} shows it"));
        complete += u64::from(is_complete);
        repeated += blocks;
    }
    if count > 100 {
        let failed = count - complete;
        assert!(failed > 0 && complete > count / 2, "{complete} of {count} complete: nothing was tested");
        assert!(repeated > count / 100, "{repeated} late blocks in {count} schedules: that was not tested");
    }
}
