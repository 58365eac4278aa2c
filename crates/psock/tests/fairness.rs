//! What the streams of a session take from a bottleneck that they share with one TCP connection, simulated.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod bottleneck;

use std::ops::Range;

use bottleneck::{Bottleneck, S, World};

/// Until all flows have left slow start and know each other.
const SETTLED: Range<u64> = 20 * S..120 * S;

/// Chance decides a little of who loses what.
const SEEDS: Range<u64> = 1..4;

/// How many packets of each flow were acknowledged in that time.
fn counts(acked: &[Vec<u64>], time: &Range<u64>) -> Vec<f64> {
    acked.iter().map(|times| times.iter().filter(|at| time.contains(at)).count() as f64).collect()
}

/// The share of the first `streams` flows in all.
fn share(counts: &[f64], streams: usize) -> f64 {
    counts[..streams].iter().sum::<f64>() / counts.iter().sum::<f64>()
}

/// One, two and four streams have, together and on average, half of what they share with a connection.
fn assert_fair(what: &str, time: &Range<u64>, change: impl Fn(World) -> World) {
    for streams in [1, 2, 4] {
        let one = |seed| {
            let world = World { seed, ..World::shared(true, streams) };
            share(&counts(&change(world).run(), time), streams)
        };
        let shares: Vec<f64> = SEEDS.map(one).collect();
        let ours = shares.iter().sum::<f64>() / shares.len() as f64;
        assert!((0.43..0.57).contains(&ours), "{what}, {streams} streams: {shares:?}");
        let jain = 1.0 / (2.0 * (ours * ours + (1.0 - ours) * (1.0 - ours)));
        assert!(jain >= 0.98, "{what}, {streams} streams: {jain}");
    }
}

#[test]
fn streams_that_are_coupled_take_together_what_one_connection_takes() {
    assert_fair("all the time", &SETTLED, |world| world);
}

#[test]
fn streams_that_are_not_coupled_take_a_share_each() {
    let counts = counts(&World::shared(false, 4).run(), &SETTLED);
    let ours = share(&counts, 4);
    assert!(ours > 0.72, "{ours} of {counts:?}");
}

#[test]
fn paths_of_their_own_are_filled_by_coupled_streams_too() {
    let world = World::over(true, vec![Bottleneck::usual(); 2], vec![0, 1], vec![]);
    let counts = counts(&world.run(), &SETTLED);
    let all = 2 * (SETTLED.end - SETTLED.start) / Bottleneck::usual().packet_ns;
    let used = counts.iter().sum::<f64>() / all as f64;
    assert!(used > 0.95, "{used}");
}

#[test]
fn a_path_that_others_use_is_left_to_them_where_another_is_free() {
    let world = World::over(true, vec![Bottleneck::usual(); 2], vec![0, 1], vec![0]);
    let counts = counts(&world.run(), &SETTLED);
    assert!(counts[0] / (counts[0] + counts[2]) < 0.5, "{counts:?}");
    let packets = (SETTLED.end - SETTLED.start) / Bottleneck::usual().packet_ns;
    assert!(counts[1] / packets as f64 > 0.95, "{counts:?}");
}

fn once(from: u64, to: u64) -> Vec<Range<u64>> {
    std::iter::once(from..to).collect()
}

/// Two seconds of every ten.
fn pauses() -> Vec<Range<u64>> {
    (1..12).map(|number| 10 * number * S..(10 * number + 2) * S).collect()
}

#[test]
fn streams_that_pause_take_no_more_than_a_connection_that_pauses_too() {
    let pausing = |world| World { pauses: pauses(), do_others_pause: true, ..world };
    assert_fair("with pauses", &SETTLED, pausing);
}

#[test]
fn streams_that_come_back_from_a_pause_do_not_push_away_a_connection_that_went_on() {
    for streams in [1, 2, 4] {
        let world = World { pauses: pauses(), ..World::shared(true, streams) };
        let acked = world.run();
        let busy = (1..12).map(|number| (10 * number + 2) * S..10 * (number + 1) * S);
        let each = busy.map(|time| counts(&acked, &time));
        let sums = each.fold(vec![0.0; streams + 1], |sums, each| {
            sums.iter().zip(each).map(|(sum, count)| sum + count).collect()
        });
        let ours = share(&sums, streams);
        assert!(ours < 0.57, "{streams} streams: {ours} of {sums:?}");
    }
}

#[test]
fn after_an_outage_the_shares_are_as_before() {
    let outage = |world| World { outages: once(40 * S, 45 * S), ..world };
    assert_fair("after an outage", &(50 * S..120 * S), outage);
}

/// 100 Mb/s, 40 ms: 500 packets fill it.
const LONG: Bottleneck = Bottleneck::new(80_000, 250, S / 25);

/// What two streams of a session carry alone over the long path from the 8th to the 28th round trip after a time in
/// which they carried nothing, as a share of what they carried before.
fn speed_after(world: World, back_ns: u64) -> f64 {
    let acked = world.run();
    let rate = |time: Range<u64>| {
        let lasts_ns = time.end - time.start;
        counts(&acked, &time).iter().sum::<f64>() / lasts_ns as f64
    };
    rate(back_ns + 8 * LONG.rtt_ns..back_ns + 28 * LONG.rtt_ns) / rate(40 * S..60 * S)
}

#[test]
fn a_transfer_after_a_pause_is_at_full_speed_within_a_few_round_trips() {
    let world = World {
        pauses: once(60 * S, 65 * S),
        end_ns: 70 * S,
        ..World::over(true, vec![LONG], vec![0, 0], vec![])
    };
    // TCP's threshold is three quarters of the window that it had.
    let speed = speed_after(world, 65 * S);
    assert!(speed > 0.7, "{speed}");
}

#[test]
fn a_transfer_after_an_outage_is_at_half_its_speed_within_a_few_round_trips() {
    let world = World {
        outages: once(60 * S, 61 * S),
        end_ns: 70 * S,
        ..World::over(true, vec![LONG], vec![0, 0], vec![])
    };
    // The time-outs double from 0.2 s: they end, a round trip each, before 61.8 s.
    let speed = speed_after(world, 61 * S + S * 4 / 5);
    assert!(speed > 0.45, "{speed}");
}
