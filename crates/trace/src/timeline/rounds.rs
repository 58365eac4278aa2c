//! How the data in flight changes from round trip to round trip.

use super::stats::median;

/// Growth in two round trips; slow start does it in one, with delayed ACKs (RFC 5681 section 3.1).
const GROWS: f64 = 1.5;
/// Growth of what leaves per round trip, from one half of them to the other: slow start does it from one to the next, and a
/// sender whose rate something else sets never, however much is in flight behind a queue. At an even rate 1.33 is measured,
/// as the first round trip is shorter by [`BEFORE`].
const LEAVES_MORE: f64 = 1.4;
/// Share of a round trip before its end at which all of it has left that ACKs of the one before released.
const BEFORE: f64 = 0.25;
/// Round trips in which a congestion window in use grows by at least this number of segments.
const FLAT_ROUNDS: usize = 6;
/// The same after a loss: then CUBIC adds half a segment per round trip (RFC 9438 section 4.3).
const FLAT_AGAIN: usize = 12;
const GROWN_PER_TRIP: f64 = 0.5;
/// Round trips per segment of the window: twice what that growth takes for the 30 % that a loss costs.
const REGAINED: f64 = 1.2;
const SAME_SEGMENTS: f64 = 2.5;
const FEW_SEGMENTS: f64 = 4.0;
const LEVEL_ROUNDS: usize = 12;
/// Round trips in each of these rounds: if a busy host wakes the application late, most still have a burst.
const LEVEL_TRIPS: f64 = 2.5;
/// Greatest ratio between the largest flights of rounds whose mean stays the same.
const LEVEL_RATIO: f64 = 1.6;
/// Share of the rounds in which the flight must reach a mark.
const REACHED: f64 = 2.0 / 3.0;
/// Greatest change of the mean from one half of the rounds to the other, as a share of it.
const LEVEL: f64 = 0.1;
const MOST_ROUNDS: f64 = (1 << 20) as f64;

/// A value of each piece of time, and how long the round trips are.
#[derive(Clone, Copy)]
pub(super) struct Pieces<'a> {
    /// When pieces begin; the first one at any time.
    pub start_s: &'a [f64],
    pub flight: &'a [f64],
    /// Retransmissions so far.
    pub lost: &'a [f64],
    pub round_s: f64,
}

impl Pieces<'_> {
    fn number(&self, at: usize, trips: f64) -> usize {
        ((self.start_s[at] - self.start_s[0]) / (trips * self.round_s)).floor().min(MOST_ROUNDS) as usize
    }

    /// The greatest of `values` in each round of `trips` round trips.
    fn most(&self, values: &[f64], trips: f64) -> Vec<f64> {
        let mut most = vec![0.0; self.number(values.len() - 1, trips) + 1];
        for (at, &value) in values.iter().enumerate() {
            let number = self.number(at, trips);
            most[number] = value.max(most[number]);
        }
        most
    }

    /// When slow start was over, in s on the same axis: the flight stopped growing, or something was lost. The beginning,
    /// if the flight never grew from one round trip to the next.
    pub fn growing_until(&self) -> f64 {
        let most = self.most(self.flight, 1.0);
        let mut number = 2;
        while number < most.len() && most[number] >= GROWS * most[number - 2] {
            number += 1;
        }
        if number == 2 {
            return self.start_s[0];
        }
        let grown = self.start_s[0] + number as f64 * self.round_s;
        let lost = self.lost.iter().position(|&lost| lost > 0.0);
        lost.map_or(grown, |at| grown.min(self.start_s[at]))
    }

    /// The same, if more left in its later round trips than in its earlier ones; otherwise the beginning. `sent`: the greatest
    /// so far, bytes, from 0; `rtt_s` by piece.
    ///
    /// Behind a full link, and with an application that writes more and more at a time, the flight grows while no more leaves
    /// than before: then no congestion window is the limit.
    pub fn starting_until(&self, sent: &[f64], rtt_s: &[f64]) -> f64 {
        let until = self.growing_until();
        let (begun, last) = (self.start_s[0], self.start_s[self.start_s.len() - 1]);
        let growing = self.start_s.partition_point(|&start_s| start_s < until);
        let mut known: Vec<f64> = rtt_s[..growing].iter().copied().filter(|rtt| rtt.is_finite()).collect();
        let usual_s = if known.is_empty() { self.round_s } else { median(&mut known).max(self.round_s) };
        // Without the last round trip of a transfer, in which less may be left to send.
        let trips = ((until.min(last) - begun) / usual_s + BEFORE).floor().max(2.0);
        // What ACKs release leaves when a round trip is over.
        let left = |trips: f64| {
            let before =
                self.start_s.partition_point(|&start_s| start_s - begun < (trips - BEFORE) * usual_s);
            before.checked_sub(1).map_or(0.0, |at| sent[at])
        };
        let half = (trips / 2.0).floor();
        let (earlier, later) = (left(half) / half, (left(trips) - left(half)) / (trips - half));
        if later >= LEAVES_MORE * earlier { until } else { begun }
    }

    /// By piece: the greatest flight stayed the same for [`FLAT_ROUNDS`], and nothing had been lost.
    ///
    /// After a loss, only if a congestion window in use would have grown meanwhile ([`free`]). A few segments do not
    /// indicate a limit: there was little to send.
    pub fn flat(&self, mss: f64) -> Vec<bool> {
        let most = self.most(self.flight, 1.0);
        let so_far = self.most(self.lost, 1.0);
        let mut rounds = vec![false; most.len()];
        for (length, after_loss) in [(FLAT_ROUNDS, false), (FLAT_AGAIN, true)] {
            let free = free(&so_far, &most, length, 1.0, mss);
            for (at, window) in most.windows(length).enumerate() {
                let (low, high) = range(window);
                if high - low <= SAME_SEGMENTS * mss && low >= FEW_SEGMENTS * mss && free[at].is(after_loss) {
                    rounds[at..at + length].fill(true);
                }
            }
        }
        self.by_piece(&rounds, 1.0)
    }

    /// By piece: the greatest flight varied for [`LEVEL_ROUNDS`] round trips, and did not grow.
    ///
    /// Or it reached the same mark in most of them, and never exceeded it: what a busy host sent late in the others does not
    /// indicate a limit. After a loss as in [`Self::flat`], and only if growth would show despite the variation.
    pub fn level(&self, mss: f64) -> Vec<bool> {
        let most = self.most(self.flight, LEVEL_TRIPS);
        let so_far = self.most(self.lost, LEVEL_TRIPS);
        let free = free(&so_far, &most, LEVEL_ROUNDS, LEVEL_TRIPS, mss);
        let mut rounds = vec![false; most.len()];
        let near = SAME_SEGMENTS * mss;
        let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
        for (at, window) in most.windows(LEVEL_ROUNDS).enumerate() {
            let (early, late) = window.split_at(LEVEL_ROUNDS / 2);
            let (earlier, later) = (mean(early), mean(late));
            let same = near.max(LEVEL * earlier);
            let (low, high) = range(window);
            let stays =
                (later - earlier).abs() <= same && high <= LEVEL_RATIO * low && low >= FEW_SEGMENTS * mss;
            let mark = median(&mut window.to_vec());
            let reached = window.iter().filter(|&&value| value >= mark - near).count() as f64;
            let marked =
                reached / window.len() as f64 >= REACHED && high <= mark + near && mark >= FEW_SEGMENTS * mss;
            let would_show = GROWN_PER_TRIP * mss * early.len() as f64 * LEVEL_TRIPS >= 2.0 * same;
            if (stays || marked) && ((free[at].is(true) && would_show) || free[at].is(false)) {
                rounds[at..at + LEVEL_ROUNDS].fill(true);
            }
        }
        self.by_piece(&rounds, LEVEL_TRIPS)
    }

    fn by_piece(&self, rounds: &[bool], trips: f64) -> Vec<bool> {
        (0..self.start_s.len()).map(|at| rounds[self.number(at, trips)]).collect()
    }
}

fn range(window: &[f64]) -> (f64, f64) {
    window
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &value| (low.min(value), high.max(value)))
}

/// What was lost before or in some rounds.
#[derive(Clone, Copy)]
struct Losses {
    /// Nothing so far.
    none: bool,
    /// Nothing in these rounds; and so long before them that the congestion window has regained what the loss cost, and
    /// grows.
    regained: bool,
}

impl Losses {
    const fn is(self, after_loss: bool) -> bool {
        if after_loss { self.regained } else { self.none }
    }
}

/// By window of `length` rounds, each of `trips` round trips.
///
/// CUBIC stays at its former size for seconds, unless Reno would exceed that by then (RFC 9438 section 4.3). `so_far`:
/// losses until the end of each round; 0 if nothing was sent in it. `most`: in flight, bytes.
fn free(so_far: &[f64], most: &[f64], length: usize, trips: f64, mss: f64) -> Vec<Losses> {
    let (mut lost, mut last) = (0.0_f64, None);
    let mut losses = Vec::with_capacity(so_far.len());
    for (at, &so_far) in so_far.iter().enumerate() {
        if so_far > lost {
            (lost, last) = (so_far, Some(at));
        }
        losses.push((lost, last));
    }
    let window = |(at, window): (usize, &[f64])| {
        let before = if at == 0 { 0.0 } else { losses[at - 1].0 };
        let end = at + length - 1;
        let (lost, last) = losses[end];
        let clean = lost <= before;
        let since = last.map_or(f64::INFINITY, |last| (end - last) as f64 * trips);
        Losses {
            none: clean && before <= 0.0,
            regained: clean && since >= REGAINED * (range(window).1 / mss),
        }
    };
    most.windows(length).enumerate().map(window).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIP_S: f64 = 0.1;
    const MSS: f64 = 1_000.0;

    /// When slow start is over, with a segment each `gap_s`-th second and ACKs a round trip of `TRIP_S` and the wait behind a
    /// link later, in round trips.
    fn trips_of(departures_s: &[f64], link_bytes_per_s: f64) -> f64 {
        let mut free_s = 0.0_f64;
        let mut events: Vec<(f64, f64, f64, f64)> = Vec::new();
        for &left_s in departures_s {
            free_s = free_s.max(left_s) + MSS / link_bytes_per_s;
            events.push((left_s, MSS, 0.0, f64::NAN));
            events.push((free_s + TRIP_S, 0.0, MSS, free_s + TRIP_S - left_s));
        }
        events.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (mut sent, mut acked, mut rtt) = (0.0, 0.0, f64::NAN);
        let mut columns = [const { Vec::new() }; 4];
        for (at_s, more, less, trip) in events {
            (sent, acked, rtt) = (sent + more, acked + less, if trip.is_nan() { rtt } else { trip });
            for (column, value) in columns.iter_mut().zip([at_s, sent, sent - acked, rtt]) {
                column.push(value);
            }
        }
        let [start_s, sent, flight, rtt_s] = columns;
        let lost = vec![0.0; start_s.len()];
        let pieces = Pieces { start_s: &start_s, flight: &flight, lost: &lost, round_s: TRIP_S };
        (pieces.starting_until(&sent, &rtt_s) / TRIP_S).round()
    }

    fn bursts(sizes: &[usize]) -> Vec<f64> {
        let of = |(round, &size): (usize, &usize)| {
            (0..size).map(move |n| round as f64 * 1.02 * TRIP_S + n as f64 * 1e-5)
        };
        sizes.iter().enumerate().flat_map(of).collect()
    }

    #[test]
    fn a_window_that_grows_by_a_half_or_more_is_in_slow_start() {
        assert!(trips_of(&bursts(&[10, 20, 40, 80, 160]), 1e9) >= 4.0);
        assert!(trips_of(&bursts(&[4, 6, 9, 14, 21, 32]), 1e9) >= 5.0);
        assert!(trips_of(&bursts(&[10, 20, 40, 80, 80, 80, 80]), 1e9) <= 6.0);
    }

    #[test]
    fn a_queue_that_grows_while_no_more_leaves_is_no_slow_start() {
        // Twice the rate of the link.
        let even: Vec<f64> = (0..200).map(|n| f64::from(n) * 0.005).collect();
        assert_eq!(trips_of(&even, 100_000.0), 0.0);
    }

    #[test]
    fn the_same_in_each_round_trip_is_no_slow_start() {
        assert_eq!(trips_of(&bursts(&[8; 6]), 1e9), 0.0);
    }
}
