//! What schedulers make of paths that differ, over a simulated network without loss.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod network;

use network::{MS, NEVER, Pipe};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use weir_psock::io::UNSENT_BYTES;
use weir_psock::schedule::scheduler;
use weir_psock::session::{Config, Read, Session};

const MBIT: u64 = 1_000_000 / 8;

/// A rate in both directions, and a one-way delay.
type Ends = (u64, u64);

/// How a transfer came out.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    /// Of the sum of all paths.
    share: f64,
    reorder_peak_bytes: u64,
}

/// Sends `total` bytes over `paths` with the scheduler `name`.
fn transfer(name: &str, paths: &[Ends], total: usize, receive_bytes: usize) -> Outcome {
    let config = Config { receive_bytes, send_bytes: 8 << 20, ..Config::default() };
    let mut sessions = [0, 1].map(|_| Session::new(config, scheduler(name).unwrap()));
    // As with TCP_NOTSENT_LOWAT: the window and a little more.
    let pipe = |(rate, delay): Ends| {
        Pipe::new(rate, delay, 2 * rate * delay / 1_000_000_000 + u64::from(UNSENT_BYTES), NEVER)
    };
    let mut streams: Vec<_> = paths
        .iter()
        .map(|ends| ([0, 1].map(|end: usize| sessions[end].attach(0).unwrap()), [0, 1].map(|_| pipe(*ends))))
        .collect();
    let mut rng = SmallRng::seed_from_u64(1);
    let (part, mut buffer) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    let (mut now, mut written, mut read) = (0, 0, 0);
    while read < total {
        written += sessions[0].write(&part[..part.len().min(total - written)]).unwrap();
        for (ids, pipes) in &mut streams {
            for from in 0..2 {
                while let Some(bytes) = pipes[from].arrived(now) {
                    sessions[1 - from].input(ids[1 - from], &bytes, now).unwrap();
                }
            }
        }
        while let Read::Bytes(len) = sessions[1].read(&mut buffer).unwrap() {
            read += len;
        }
        // A block at a time, until nobody can take one.
        let mut is_busy = true;
        while is_busy {
            is_busy = false;
            for end in 0..2 {
                for (ids, pipes) in &streams {
                    sessions[end].set_stats(ids[end], pipes[end].stats(), now);
                    if pipes[end].room() > 0 {
                        sessions[end].set_writable(ids[end]);
                    }
                }
                sessions[end].drive(now);
                for (ids, pipes) in &mut streams {
                    let pending = sessions[end].pending(ids[end]);
                    let len = pending.len().min(pipes[end].room());
                    pipes[end].push(now, &pending[..len], 0.0, &mut rng);
                    sessions[end].sent(ids[end], len);
                    is_busy |= len > 0;
                }
            }
        }
        let arrivals = streams.iter().flat_map(|(_, pipes)| pipes).map(Pipe::next_ns);
        let next = arrivals.chain(sessions.iter().map(Session::deadline_ns)).min().unwrap();
        assert!(next < 600_000 * MS, "it goes on for ever");
        now = next.max(now + 1);
    }
    let sum: u64 = paths.iter().map(|(rate, _)| rate).sum();
    let share = total as f64 / (now as f64 / 1e9) / sum as f64;
    Outcome { share, reorder_peak_bytes: sessions[1].totals().reorder_peak_bytes }
}

#[test]
fn poll_all_and_earliest_carry_the_sum_of_the_paths_at_any_ratio_and_round_robin_n_times_the_slowest() {
    for tenths in [1, 5] {
        let paths = [(tenths * 10 * MBIT, MS), ((10 - tenths) * 10 * MBIT, MS)];
        let share = |name, total| transfer(name, &paths, total, 4 << 20).share;
        for name in ["poll-all", "earliest"] {
            let found = share(name, 40_000_000);
            assert!(found > 0.97, "{name} at {tenths}: {found}");
        }
        let slowest = 2.0 * tenths as f64 / 10.0;
        let found = share("round-robin", 10_000_000);
        assert!(found > 0.95 * slowest && found < 1.01 * slowest, "at {tenths}: {found}");
    }
}

#[test]
fn earliest_needs_little_memory_where_round_trips_differ_much() {
    // Round trips of 5 and 100 ms, 100 Mb/s each.
    let paths = [(100 * MBIT, 2 * MS + MS / 2), (100 * MBIT, 50 * MS)];
    let run = |name| transfer(name, &paths, 30_000_000, 4 << 20);
    let (earliest, poll_all) = (run("earliest"), run("poll-all"));
    assert!(earliest.share > 0.95, "{earliest:?}");
    assert!(earliest.reorder_peak_bytes < 1_000_000, "{earliest:?}");
    assert!(2 * earliest.reorder_peak_bytes < poll_all.reorder_peak_bytes, "{earliest:?}, {poll_all:?}");
}

/// Sends a message of `len` bytes every 20 ms over two paths; the longest that any took. The first path, which is
/// the faster one, delivers nothing from its 4th message on.
fn longest_delay(name: &str) -> u64 {
    const INTERVAL: u64 = 20 * MS;
    const LEN: usize = 1000;
    let mut sessions = [0, 1].map(|_| Session::new(Config::default(), scheduler(name).unwrap()));
    let mut rng = SmallRng::seed_from_u64(1);
    let pipe = |delay, dead_ns| Pipe::new(100 * MBIT, delay, 1 << 20, dead_ns);
    let mut streams = [(5 * MS, 3 * INTERVAL), (30 * MS, NEVER)].map(|(delay, dead_ns)| {
        let ids = [0, 1].map(|end: usize| sessions[end].attach(0).unwrap());
        (ids, [pipe(delay, dead_ns), pipe(delay, NEVER)])
    });
    let (mut buffer, mut written, mut read, mut longest) = (vec![0; LEN], 0, 0, 0);
    for now in (0..1000 * MS).step_by(MS as usize) {
        if now % INTERVAL == 0 && written < 20 {
            written += 1;
            assert_eq!(sessions[0].write(&vec![0; LEN]).unwrap(), LEN);
        }
        for _ in 0..3 {
            for (ids, pipes) in &mut streams {
                for from in 0..2 {
                    while let Some(bytes) = pipes[from].arrived(now) {
                        sessions[1 - from].input(ids[1 - from], &bytes, now).unwrap();
                    }
                    sessions[from].set_stats(ids[from], pipes[from].stats(), now);
                    sessions[from].set_writable(ids[from]);
                }
            }
            for end in 0..2 {
                sessions[end].drive(now);
                for (ids, pipes) in &mut streams {
                    let pending = sessions[end].pending(ids[end]).to_vec();
                    pipes[end].push(now, &pending, 0.0, &mut rng);
                    sessions[end].sent(ids[end], pending.len());
                }
            }
        }
        while let Read::Bytes(len) = sessions[1].read(&mut buffer).unwrap() {
            read += len;
            longest = longest.max(now - (read as u64 - 1) / LEN as u64 * INTERVAL);
        }
    }
    assert_eq!(read, 20 * LEN, "{name}");
    longest
}

#[test]
fn urgent_bytes_on_every_path_do_not_wait_for_one_that_fails() {
    let (redundant, earliest) = (longest_delay("redundant"), longest_delay("earliest"));
    assert!(redundant <= 33 * MS, "{redundant}");
    assert!(earliest > 300 * MS, "until the path was known to be dead: {earliest}");
}
