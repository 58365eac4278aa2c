//! Order statistics and rates over weighted pieces of time.

use std::cmp::Ordering;
use std::collections::BTreeMap;

/// The value of rank `at`, and the least of those after it.
fn ranked(values: &mut [f64], at: usize) -> (f64, f64) {
    let (_, value, rest) = values.select_nth_unstable_by(at, f64::total_cmp);
    let value = *value;
    (value, rest.iter().copied().min_by(f64::total_cmp).unwrap_or(value))
}

/// The median; of an even number of values the mean of the middle two. NaN without values.
#[must_use]
pub fn median(values: &mut [f64]) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    let (value, next) = ranked(values, (values.len() - 1) / 2);
    if values.len() % 2 == 1 { value } else { (value + next) / 2.0 }
}

/// The quantile `share`, linear between ranks (type 7 of Hyndman and Fan, The American Statistician 50(4), 1996).
pub(super) fn quantile(values: &mut [f64], share: f64) -> f64 {
    let at = (values.len() - 1) as f64 * share;
    let (low, high) = ranked(values, at as usize);
    let part = at.fract();
    if part >= 0.5 { high - (high - low) * (1.0 - part) } else { low + (high - low) * part }
}

/// The value below which `share` of the weights lie, where values are finite and weights positive; NaN without any.
#[must_use]
pub fn weighted_quantile(pairs: impl Iterator<Item = (f64, f64)>, share: f64) -> f64 {
    let mut kept: Vec<(f64, f64)> =
        pairs.filter(|&(value, weight)| value.is_finite() && weight > 0.0).collect();
    let mut sought = share * kept.iter().map(|&(_, weight)| weight).sum::<f64>();
    let mut rest = &mut kept[..];
    // Quickselect: halves that cannot hold the value are left unsorted.
    while rest.len() > 32 {
        let middle = rest.len() / 2;
        rest.select_nth_unstable_by(middle, by_value);
        let (low, high) = rest.split_at_mut(middle);
        let weight: f64 = low.iter().map(|&(_, weight)| weight).sum();
        if weight >= sought {
            rest = low;
        } else {
            sought -= weight;
            rest = high;
        }
    }
    rest.sort_unstable_by(by_value);
    let mut total = 0.0;
    let found = rest.iter().find(|&&(_, weight)| {
        total += weight;
        total >= sought
    });
    found.or(rest.last()).map_or(f64::NAN, |&(value, _)| value)
}

fn by_value(one: &(f64, f64), other: &(f64, f64)) -> Ordering {
    one.0.total_cmp(&other.0)
}

/// How much `amount` grows per second around each piece, over `2 * half_s`, inside the whole time. The amounts are those
/// at the beginnings of pieces.
#[must_use]
pub fn rates(start_s: &[f64], lasts_s: &[f64], amount: &[f64], half_s: f64) -> Vec<f64> {
    let (Some(&first), Some(&begin), Some(&last)) = (start_s.first(), start_s.last(), lasts_s.last()) else {
        return Vec::new();
    };
    let end = begin + last;
    let line = Line { start_s, amount, end };
    let (mut behind, mut ahead) = (Cursor::default(), Cursor::default());
    let around = |(&start, &lasts): (&f64, &f64)| {
        let middle = lasts / 2.0 + start;
        let (left, right) = ((middle - half_s).max(first), (middle + half_s).min(end));
        let grown = line.at(right, &mut ahead) - line.at(left, &mut behind);
        grown / (right - left).max(1e-9)
    };
    start_s.iter().zip(lasts_s).map(around).collect()
}

/// Amounts between times, linear; the last one lasts until the end.
struct Line<'a> {
    start_s: &'a [f64],
    amount: &'a [f64],
    end: f64,
}

impl Line<'_> {
    /// The amount at `time`.
    fn at(&self, time: f64, cursor: &mut Cursor) -> f64 {
        let at = cursor.seek(self.start_s, time);
        let low = self.amount[at];
        let (high, until) = match self.start_s.get(at + 1) {
            Some(&until) => (self.amount[at + 1], until),
            None => (low, self.end),
        };
        let length = until - self.start_s[at];
        if length > 0.0 && time > self.start_s[at] {
            (high - low) / length * (time - self.start_s[at]) + low
        } else {
            low
        }
    }
}

/// Ratio between amounts of data in flight whose round trips are compared.
const SPREAD: f64 = 1.3;
/// Greatest ratio between a round trip and the one that a queue in front of the capacity would make.
const FITS: f64 = 1.4;
/// Share of the sizes of the data in flight at which it must fit.
const MOST_FIT: f64 = 2.0 / 3.0;
/// Share of the round trips below which short ones at a size of the data in flight count for nothing: a token bucket lets
/// bursts through, and what was lost counts as in flight.
const RARE: f64 = 0.01;
/// Ratio between much and little data in flight, whose round trips must differ in the same direction.
const RISES: f64 = 1.5;
/// Shares of the trips with the least and with the most data in flight.
const FEWEST: f64 = 0.25;
/// Segments usually in flight; fewer make no queue that could be told from delayed ACKs.
const LEAST_SEGMENTS: f64 = 4.0;

/// A bottleneck as it would be with a queue in front of it.
#[derive(Clone, Copy, Debug)]
pub struct Queue {
    /// Bytes per second.
    pub capacity: f64,
    /// The round trip without a queue, s.
    pub min_rtt_s: f64,
    /// Payload of a full segment.
    pub mss_bytes: f64,
}

impl Queue {
    /// Whether round trips, each with the data in flight before it, are as long as the queue makes them; and whether that
    /// varied enough to show it.
    ///
    /// With that much sent but not acknowledged, the last of it arrives after the time that the bottleneck takes for it, and
    /// not before the least round trip. Delayed ACKs, clocks that tick slowly and paths that pause lengthen round trips,
    /// however much is in flight.
    #[must_use]
    pub fn explains(self, trips: impl Iterator<Item = (f64, f64)>) -> (bool, bool) {
        let trips: Vec<(f64, f64)> = trips.map(|(rtt_s, flight)| (rtt_s, flight.max(1.0))).collect();
        let usual = median(&mut trips.iter().map(|&(_, flight)| flight).collect::<Vec<_>>());
        if trips.is_empty() || usual < LEAST_SEGMENTS * self.mss_bytes || shortens(&trips) {
            return (false, false);
        }
        let mut levels: BTreeMap<i64, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
        let few = RARE * trips.len() as f64;
        for (rtt_s, flight) in trips {
            let expected_s = (flight / self.capacity).max(self.min_rtt_s);
            let level = (flight.ln() / SPREAD.ln()).round_ties_even() as i64;
            let (expected, ratios) = levels.entry(level).or_default();
            expected.push(expected_s);
            ratios.push(rtt_s / expected_s);
        }
        let (mut count, mut fitting) = (0.0, Vec::new());
        for (mut expected, mut ratios) in levels.into_values() {
            let (is_rare, ratio) = ((ratios.len() as f64) < few, median(&mut ratios));
            if (1.0 / FITS..=FITS).contains(&ratio) {
                fitting.push(median(&mut expected));
            }
            count += if is_rare && ratio < 1.0 / FITS { 0.0 } else { 1.0 };
        }
        let (low, high) =
            fitting.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), &s| (low.min(s), high.max(s)));
        (fitting.len() as f64 >= MOST_FIT * count, high >= SPREAD * low)
    }
}

/// Whether round trips were shorter with much in flight than with little: no queue does that.
fn shortens(trips: &[(f64, f64)]) -> bool {
    let mut by_flight = trips.to_vec();
    by_flight.sort_by(|one, other| one.1.total_cmp(&other.1));
    let part = ((by_flight.len() as f64 * FEWEST).ceil() as usize).max(1);
    let medians = |some: &[(f64, f64)]| {
        let (mut rtt_s, mut flight): (Vec<f64>, Vec<f64>) = some.iter().copied().unzip();
        (median(&mut rtt_s), median(&mut flight))
    };
    let (little, much) = (medians(&by_flight[..part]), medians(&by_flight[by_flight.len() - part..]));
    much.1 >= RISES * little.1 && much.0 < little.0
}

/// Where a time lies in times that grow, for one time after the other.
#[derive(Debug, Default)]
pub struct Cursor(usize);

impl Cursor {
    /// The last of `times` that is not after `time`; the first one if all are.
    pub fn seek(&mut self, times: &[f64], time: f64) -> usize {
        let last = times.len() - 1;
        while self.0 < last && times[self.0 + 1] <= time {
            self.0 += 1;
        }
        while self.0 > 0 && times[self.0] > time {
            self.0 -= 1;
        }
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_between_the_middle_two() {
        assert_eq!(median(&mut [4.0, 1.0, 3.0, 2.0]), 2.5);
        assert_eq!(median(&mut [5.0, 1.0, 3.0]), 3.0);
        assert!(median(&mut []).is_nan());
    }

    #[test]
    fn a_quantile_lies_between_two_ranks() {
        assert_eq!(quantile(&mut [1.0, 2.0, 3.0, 4.0], 0.25), 1.75);
        assert_eq!(quantile(&mut [7.0], 0.75), 7.0);
    }

    #[test]
    fn a_weighted_quantile_counts_time_and_leaves_out_what_is_unknown() {
        let values = (0..1_000).map(|at| (f64::from(at * 7 % 1_000), if at < 500 { 1.0 } else { 2.0 }));
        let mut sorted: Vec<_> = values.clone().collect();
        sorted.sort_by(by_value);
        let mut total = 0.0;
        let known = sorted.iter().find(|pair| {
            total += pair.1;
            total >= 0.75 * 1_500.0
        });
        assert_eq!(weighted_quantile(values, 0.75), known.unwrap().0);
        assert_eq!(weighted_quantile([(1.0, 0.0), (f64::NAN, 5.0), (3.0, 1.0)].into_iter(), 0.5), 3.0);
        assert!(weighted_quantile([(f64::INFINITY, 1.0)].into_iter(), 0.5).is_nan());
    }

    #[test]
    fn a_queue_explains_round_trips_that_grow_with_the_flight_and_no_others() {
        let queue = Queue { capacity: 1e6, min_rtt_s: 0.01, mss_bytes: 1_000.0 };
        let flights = (20..120).map(|segments| f64::from(segments) * 1_000.0);
        assert_eq!(queue.explains(flights.clone().map(|flight| (flight / 1e6, flight))), (true, true));
        assert_eq!(queue.explains(std::iter::repeat_n((0.02, 20_000.0), 9)), (true, false));
        assert!(!queue.explains(flights.map(|flight| (0.2, flight / 10.0))).0);
        assert_eq!(queue.explains(std::iter::empty()), (false, false));
        // A token bucket lets what fits into it through at once; a host that delays ACKs does not.
        let explained = |rtt_s| {
            let bursts = (1..60).map(|segments| (rtt_s, f64::from(segments) * 1_000.0));
            let standing = (0..60_000).map(|at| f64::from(100 + at % 80) * 1_000.0);
            queue.explains(bursts.chain(standing.map(|flight| (flight / 1e6, flight))))
        };
        assert_eq!((explained(0.01), explained(0.1)), ((true, true), (false, true)));
    }

    #[test]
    fn round_trips_that_shorten_while_the_flight_grows_are_no_queue() {
        // From 58 to 49 ms, each near the time that the flight takes at 1 MB/s.
        let queue = Queue { capacity: 1e6, min_rtt_s: 0.045, mss_bytes: 1_000.0 };
        let trips = (0..40).map(|n| (0.058 - f64::from(n) * 2.2e-4, 42_000.0 + f64::from(n) * 900.0));
        assert_eq!(queue.explains(trips.clone()), (false, false));
        // The other way round they are one.
        assert!(queue.explains(trips.map(|(rtt_s, flight)| (0.107 - rtt_s, flight))).0);
    }

    #[test]
    fn a_steady_growth_has_one_rate() {
        let start: Vec<f64> = (0..100).map(f64::from).collect();
        let amount: Vec<f64> = start.iter().map(|s| s * 50.0).collect();
        let found = rates(&start, &[1.0; 100], &amount, 2.0);
        assert!(found[5..95].iter().all(|rate| (rate - 50.0).abs() < 1e-9));
    }
}
