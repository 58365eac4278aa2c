//! What schedulers make of unequal paths with CUBIC: throughput beside independent connections, and reorder memory.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod cubic;

use cubic::{Connection, Line};
use weir_psock::schedule::scheduler;
use weir_psock::session::{Config, Read, Session};

const MS: u64 = 1_000_000;
const MB: usize = 1 << 20;
/// Sent before it is recorded, and until when it is.
const FROM_NS: u64 = 4000 * MS;
const UNTIL_NS: u64 = 8000 * MS;

/// Two paths of 50 Mbit/s with queues of 50 ms, and round trips of 5 and 100 ms.
const UNEQUAL: [Line; 2] = [Line::new(50, 5 * MS / 2, 50 * MS), Line::new(50, 50 * MS, 50 * MS)];

#[derive(Clone, Copy, Debug)]
struct Outcome {
    /// Of what independent connections carry.
    share: f64,
    reorder_peak_bytes: u64,
}

/// Bytes that arrive over all lines by connections that do not know of each other.
fn independent(lines: &[Line]) -> u64 {
    let mut total = 0;
    for line in lines {
        let mut connection = Connection::new(*line);
        let mut now = 0;
        while now < UNTIL_NS {
            while connection.is_writable() {
                connection.push(now, &[0; 32768]);
            }
            now = connection.next_ns();
            connection.advance(now);
            while let Some(bytes) = connection.arrived() {
                total += if now >= FROM_NS { bytes.len() as u64 } else { 0 };
            }
        }
    }
    total
}

/// Sends as much as it can over `lines`, with the scheduler `name`.
fn transfer(name: &str, lines: &[Line], receive_bytes: usize) -> Outcome {
    let config = Config { receive_bytes, send_bytes: 4 * MB, ..Config::default() };
    let mut sessions = [0, 1].map(|_| Session::new(config, scheduler(name).unwrap()));
    let mut streams: Vec<_> = lines
        .iter()
        .map(|line| {
            let ids = [0, 1].map(|end: usize| sessions[end].attach(0).unwrap());
            (ids, [0, 1].map(|_| Connection::new(*line)))
        })
        .collect();
    let (part, mut buffer) = (vec![0; MB], vec![0; MB]);
    let (mut now, mut total) = (0, 0);
    while now < UNTIL_NS {
        for (ids, ends) in &mut streams {
            for from in 0..2 {
                ends[from].advance(now);
                while let Some(bytes) = ends[from].arrived() {
                    sessions[1 - from].input(ids[1 - from], &bytes, now).unwrap();
                }
            }
        }
        while let Read::Bytes(len) = sessions[1].read(&mut buffer).unwrap() {
            total += if now >= FROM_NS { len as u64 } else { 0 };
        }
        while sessions[0].write(&part).unwrap() > 0 {}
        // A block at a time, until nobody can take one.
        let mut is_busy = true;
        while is_busy {
            is_busy = false;
            for end in 0..2 {
                for (ids, ends) in &streams {
                    sessions[end].set_stats(ids[end], ends[end].stats(), now);
                    if ends[end].is_writable() {
                        sessions[end].set_writable(ids[end]);
                    }
                }
                sessions[end].drive(now);
                for (ids, ends) in &mut streams {
                    let len = sessions[end].pending(ids[end]).len();
                    if len > 0 && ends[end].is_writable() {
                        ends[end].push(now, sessions[end].pending(ids[end]));
                        sessions[end].sent(ids[end], len);
                        is_busy = true;
                    }
                }
            }
        }
        let next = streams.iter().flat_map(|(_, ends)| ends).map(Connection::next_ns);
        let next = next.chain(sessions.iter().map(Session::deadline_ns)).min().unwrap();
        now = next.max(now + 1);
    }
    let share = total as f64 / independent(lines) as f64;
    Outcome { share, reorder_peak_bytes: sessions[1].totals().reorder_peak_bytes }
}

#[test]
fn earliest_carries_the_sum_with_less_than_a_megabyte_where_round_trips_are_5_and_100_ms() {
    let (earliest, poll_all) =
        (transfer("earliest", &UNEQUAL, 4 * MB), transfer("poll-all", &UNEQUAL, 4 * MB));
    assert!(earliest.share > 0.99, "{earliest:?}");
    // Slow start overshoots, and its losses hold up most.
    assert!(earliest.reorder_peak_bytes < 1_000_000, "{earliest:?}");
    assert!(poll_all.reorder_peak_bytes > 1_300_000, "{poll_all:?}");
}

#[test]
fn earliest_carries_most_of_the_sum_where_the_receiver_has_a_megabyte() {
    let found = transfer("earliest", &UNEQUAL, 1_000_000);
    assert!(found.share > 0.95, "{found:?}");
}

#[test]
fn earliest_carries_more_than_poll_all_where_round_trips_are_10_and_200_ms() {
    let lines = [Line::new(50, 5 * MS, 50 * MS), Line::new(50, 100 * MS, 50 * MS)];
    let (earliest, poll_all) = (transfer("earliest", &lines, 4 * MB), transfer("poll-all", &lines, 4 * MB));
    assert!(earliest.share > poll_all.share + 0.02, "{earliest:?}, {poll_all:?}");
    assert!(2 * earliest.reorder_peak_bytes < poll_all.reorder_peak_bytes + 1_000_000, "{earliest:?}");
}
