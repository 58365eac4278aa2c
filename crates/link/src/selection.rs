//! Which frames something happens to.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::pattern::Pattern;

/// Which frames are lost, duplicated or held back.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Selection {
    /// None.
    #[default]
    Never,
    /// Each with the same probability, independently.
    Random {
        /// The probability.
        ratio: f64,
    },
    /// In bursts.
    GilbertElliott(GilbertElliott),
    /// By their numbers, from 1 in the order of arrival.
    Frames(Pattern),
}

/// Two states, a good and a bad one, that may change after each frame (E. N. Gilbert, "Capacity of a
/// Burst-Noise Channel", 1960; E. O. Elliott, 1963). The first frame meets the good one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GilbertElliott {
    /// Probability to go from good to bad (`p` of tc-netem).
    pub to_bad: f64,
    /// Probability to go from bad to good (`r`).
    pub to_good: f64,
    /// Probability that a frame is selected in the bad state (`1-h`).
    pub in_bad: f64,
    /// The same in the good one (`1-k`).
    pub in_good: f64,
}

impl GilbertElliott {
    /// Runs of `mean_run` frames on average, `ratio` of all frames; `None` if there are no such runs.
    #[must_use]
    pub fn of_runs(ratio: f64, mean_run: f64) -> Option<Self> {
        let to_good = 1.0 / mean_run;
        let to_bad = ratio * to_good / (1.0 - ratio);
        let is_possible = mean_run >= 1.0 && (0.0..1.0).contains(&ratio) && to_bad <= 1.0;
        is_possible.then_some(Self { to_bad, to_good, in_bad: 1.0, in_good: 0.0 })
    }

    /// The ratio of selected frames in the long run.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        let changes = self.to_bad + self.to_good;
        if changes == 0.0 {
            return self.in_good;
        }
        (self.to_bad * self.in_bad + self.to_good * self.in_good) / changes
    }
}

/// A [`Selection`] at work.
#[derive(Clone, Debug)]
pub struct Chooser {
    selection: Selection,
    rng: SmallRng,
    seen: u64,
    cursor: usize,
    is_bad: bool,
}

impl Chooser {
    pub fn new(selection: Selection, seed: u64) -> Self {
        Self { selection, rng: SmallRng::seed_from_u64(seed), seen: 0, cursor: 0, is_bad: false }
    }

    /// Whether the next frame is selected.
    pub fn takes_next(&mut self) -> bool {
        self.seen += 1;
        match &self.selection {
            Selection::Never => false,
            Selection::Random { ratio } => self.rng.random_bool(*ratio),
            Selection::GilbertElliott(model) => {
                let (taken, changes) =
                    if self.is_bad { (model.in_bad, model.to_good) } else { (model.in_good, model.to_bad) };
                let is_taken = self.rng.random_bool(taken);
                self.is_bad ^= self.rng.random_bool(changes);
                is_taken
            }
            Selection::Frames(pattern) => pattern.takes(self.seen, &mut self.cursor),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMES: usize = 400_000;

    fn drawn(selection: Selection) -> Vec<bool> {
        let mut chooser = Chooser::new(selection, 7);
        (0..FRAMES).map(|_| chooser.takes_next()).collect()
    }

    fn ratio(drawn: &[bool]) -> f64 {
        drawn.iter().filter(|&&is_taken| is_taken).count() as f64 / drawn.len() as f64
    }

    fn mean_run(drawn: &[bool]) -> f64 {
        let runs = drawn.chunk_by(|a, b| a == b).filter(|run| run[0]);
        let (n, sum) = runs.fold((0, 0), |(n, sum), run| (n + 1, sum + run.len()));
        f64::from(sum as u32) / f64::from(n)
    }

    #[test]
    fn random_ones_are_as_many_as_asked_for_and_independent() {
        let drawn = drawn(Selection::Random { ratio: 0.05 });
        // Four standard deviations of the binomial; runs of independent losses have a mean of 1 / (1 - p).
        assert!((ratio(&drawn) - 0.05).abs() < 4.0 * (0.05_f64 * 0.95 / FRAMES as f64).sqrt());
        assert!((mean_run(&drawn) - 1.0 / 0.95).abs() < 0.01);
    }

    #[test]
    fn runs_have_the_ratio_and_the_length_that_were_asked_for() {
        let model = GilbertElliott::of_runs(0.02, 5.0).expect("possible");
        assert!((model.ratio() - 0.02).abs() < 1e-12);
        let drawn = drawn(Selection::GilbertElliott(model));
        assert!((ratio(&drawn) - 0.02).abs() < 0.002);
        assert!((mean_run(&drawn) - 5.0).abs() < 0.4);
    }

    #[test]
    fn all_four_parameters_count() {
        let model = GilbertElliott { to_bad: 0.1, to_good: 0.3, in_bad: 0.5, in_good: 0.01 };
        assert!((model.ratio() - (0.1 * 0.5 + 0.3 * 0.01) / 0.4).abs() < 1e-12);
        assert!((ratio(&drawn(Selection::GilbertElliott(model))) - model.ratio()).abs() < 0.004);
    }

    #[test]
    fn runs_that_cannot_be_are_refused() {
        assert_eq!(GilbertElliott::of_runs(0.9, 2.0), None);
        assert_eq!(GilbertElliott::of_runs(0.1, 0.5), None);
        assert_eq!(GilbertElliott::of_runs(1.0, 2.0), None);
        assert_eq!(GilbertElliott::of_runs(0.1, f64::NAN), None);
    }

    #[test]
    fn one_seed_draws_the_same_frames_again() {
        let selection = Selection::Random { ratio: 0.5 };
        assert_eq!(drawn(selection.clone()), drawn(selection.clone()));
        let mut other = Chooser::new(selection.clone(), 8);
        assert_ne!(drawn(selection)[..64], (0..64).map(|_| other.takes_next()).collect::<Vec<_>>());
    }
}
