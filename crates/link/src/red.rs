//! When RED drops (Floyd and Jacobson 1993, figure 2; `gentle` as Floyd recommended in 2000).

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::spec::Red;

/// The estimator and its state.
#[derive(Clone, Debug)]
pub struct Early {
    settings: Red,
    min: f64,
    max: f64,
    average: f64,
    /// Frames that passed since the last drop; `None` below the lower threshold.
    since: Option<f64>,
    /// Since when the queue has been empty.
    empty_since_ns: Option<u64>,
    rng: SmallRng,
}

impl Early {
    /// With both thresholds in the unit of the lengths given to [`Self::drops`].
    pub fn new(settings: Red, min: f64, max: f64, seed: u64, now_ns: u64) -> Self {
        Self {
            settings,
            min,
            max,
            average: 0.0,
            since: None,
            empty_since_ns: Some(now_ns),
            rng: SmallRng::seed_from_u64(seed),
        }
    }

    /// The queue ran empty.
    pub fn ran_empty(&mut self, at_ns: u64) {
        self.empty_since_ns.get_or_insert(at_ns);
    }

    /// Whether a frame that meets a queue of `length` is dropped; one like it is transmitted in `frame_ns`.
    pub fn drops(&mut self, now_ns: u64, length: f64, frame_ns: f64) -> bool {
        let weight = self.settings.weight;
        if let Some(since_ns) = self.empty_since_ns.take() {
            // As if this many frames had met an empty queue.
            let frames = now_ns.saturating_sub(since_ns) as f64 / frame_ns.max(1.0);
            self.average *= (1.0 - weight).powf(frames);
        } else {
            self.average += weight * (length - self.average);
        }
        let Some(ratio) = self.ratio() else {
            self.since = None;
            return false;
        };
        let since = self.since.map_or(0.0, |since| since + 1.0);
        // Drops at even distances from 1 to 1/ratio, rather than independent ones (section 7 of the paper).
        let spread = if since * ratio < 1.0 { ratio / (1.0 - since * ratio) } else { 1.0 };
        let is_dropped = self.rng.random_bool(spread.clamp(0.0, 1.0));
        self.since = Some(if is_dropped { -1.0 } else { since });
        is_dropped
    }

    /// The probability at the present average; `None` below the lower threshold.
    fn ratio(&self) -> Option<f64> {
        let (max_ratio, average) = (self.settings.max_ratio, self.average);
        if average < self.min {
            None
        } else if average < self.max {
            Some(max_ratio * (average - self.min) / (self.max - self.min))
        } else if self.settings.gentle && average < 2.0 * self.max {
            Some(max_ratio + (1.0 - max_ratio) * (average - self.max) / self.max)
        } else {
            Some(1.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Limit;

    fn early(weight: f64, gentle: bool) -> Early {
        let (min, max) = (Limit::Packets(10), Limit::Packets(30));
        let settings = Red { min, max, max_ratio: 0.1, weight, gentle };
        Early { empty_since_ns: None, ..Early::new(settings, 10.0, 30.0, 3, 0) }
    }

    /// Numbers of the frames dropped, of so many that meet a queue of `length`.
    fn dropped(early: &mut Early, frames: usize, length: f64) -> Vec<usize> {
        (0..frames).filter(|_| early.drops(0, length, 1000.0)).collect()
    }

    #[test]
    fn below_the_lower_threshold_nothing_is_dropped_and_from_the_upper_one_everything() {
        assert_eq!(dropped(&mut early(1.0, false), 10_000, 9.9), []);
        assert_eq!(dropped(&mut early(1.0, false), 100, 30.0).len(), 100);
        assert_eq!(dropped(&mut early(1.0, true), 100, 60.0).len(), 100);
    }

    #[test]
    fn at_a_constant_average_the_gaps_between_drops_are_even_from_one_to_the_inverse_of_the_ratio() {
        // Half-way: a ratio of 0.05, so gaps of 1 to 20 and of 10.5 on average (section 7 of the paper).
        let found = dropped(&mut early(1.0, false), 200_000, 20.0);
        let gaps: Vec<usize> = found.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.iter().all(|gap| (1..=20).contains(gap)));
        let mean = gaps.iter().sum::<usize>() as f64 / gaps.len() as f64;
        assert!((mean - 10.5).abs() < 0.2, "{mean}");
        for length in 1..=20 {
            let share = gaps.iter().filter(|&&gap| gap == length).count() as f64 / gaps.len() as f64;
            assert!((share - 0.05).abs() < 0.01, "{length}: {share}");
        }
    }

    #[test]
    fn gentle_goes_on_where_the_probability_would_jump() {
        let ratio_at = |gentle, average| {
            let mut early = early(1.0, gentle);
            early.average = average;
            early.ratio().expect("above the lower threshold")
        };
        assert!((ratio_at(true, 45.0) - (0.1 + 0.9 / 2.0)).abs() < 1e-12);
        assert!((ratio_at(false, 45.0) - 1.0).abs() < 1e-12);
        assert!((ratio_at(true, 20.0) - ratio_at(false, 20.0)).abs() < 1e-12);
    }

    #[test]
    fn a_burst_that_the_average_does_not_notice_passes() {
        let mut early = early(0.002, false);
        assert_eq!(dropped(&mut early, 100, 50.0), []);
    }

    #[test]
    fn the_average_falls_while_the_queue_is_empty() {
        let mut early = early(0.002, false);
        early.average = 25.0;
        early.ran_empty(1_000_000);
        // A thousand frames of 1000 ns later: 25 * 0.998^1000 = 3.4.
        assert!(!early.drops(2_000_000, 0.0, 1000.0));
        assert!((early.average - 25.0 * 0.998_f64.powi(1000)).abs() < 0.01, "{}", early.average);
    }
}
