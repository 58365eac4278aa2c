//! How the data in flight changes from round trip to round trip.

use super::stats::median;

/// Growth in two round trips; slow start does it in one, with delayed ACKs (RFC 5681 section 3.1).
const GROWS: f64 = 1.5;
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
