//! BLEST, which estimates blocking (Ferlin et al., IFIP Networking 2016).

use super::{Choice, Path, Scheduler, Work, fastest};

const LAMBDAS: std::ops::RangeInclusive<f64> = 1.0..=1.3;
const STEP: f64 = 0.01;

/// Leaves a slower path out where its block would fill the window before it arrives.
#[derive(Clone, Copy, Debug)]
pub struct Blest {
    /// Corrects the estimate: it grows while the window is found full.
    lambda: f64,
    adapted_ns: u64,
}

impl Default for Blest {
    fn default() -> Self {
        Self { lambda: *LAMBDAS.start(), adapted_ns: 0 }
    }
}

impl Scheduler for Blest {
    fn name(&self) -> &'static str {
        "blest"
    }

    fn choose(&mut self, work: &Work, paths: &[Path]) -> Option<Choice> {
        let (fast, slow) = fastest(paths);
        let (fast, slow) = (fast?, slow?);
        if fast.id == slow.id || work.is_again {
            return Some(Choice::next(slow.id));
        }
        if work.now_ns.saturating_sub(self.adapted_ns) >= slow.stats.srtt_ns {
            self.adapted_ns = work.now_ns;
            let step = if work.is_limited { STEP } else { -STEP };
            self.lambda = (self.lambda + step).clamp(*LAMBDAS.start(), *LAMBDAS.end());
        }
        let float = |number: u64| number as f64;
        // What the fast path sends in one round trip of the slow one, while its window grows.
        let rounds = float(slow.stats.srtt_ns) / float(fast.stats.srtt_ns.max(1));
        let growth = float(fast.stats.mss_bytes) * (rounds - 1.0) / 2.0;
        let fast_bytes = self.lambda * rounds * (float(fast.stats.cwnd_bytes) + growth);
        let room = float(work.window_bytes) - float(slow.stats.unacked_bytes + work.block_bytes);
        (fast_bytes <= room).then(|| Choice::next(slow.id))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{BLOCK, MS, path, work};
    use super::*;

    #[test]
    fn the_slow_path_is_left_out_where_it_would_fill_the_window() {
        // The fast path sends 1 MB in 100 ms.
        let paths = [path(0, true, 100 * MS, 10_000_000), path(1, false, 5 * MS, 10_000_000)];
        let with = |window_bytes| Work { window_bytes, ..work(BLOCK) };
        assert_eq!(Blest::default().choose(&with(900_000), &paths), None);
        assert!(Blest::default().choose(&with(2_000_000), &paths).is_some());
        let again = Work { is_again: true, ..with(900_000) };
        assert!(Blest::default().choose(&again, &paths).is_some());
    }

    #[test]
    fn its_estimate_grows_while_the_window_is_full_and_stays_within_bounds() {
        let paths = [path(0, true, 100 * MS, 10_000_000), path(1, false, 5 * MS, 10_000_000)];
        let mut blest = Blest::default();
        let mut ask = |round: u64, is_limited| {
            let work = Work { now_ns: round * 100 * MS, is_limited, ..work(BLOCK) };
            blest.choose(&work, &paths);
            blest.lambda
        };
        assert!((1..=50).map(|round| ask(round, true)).last().is_some_and(|at| (at - 1.3).abs() < 1e-9));
        assert!((51..=100).map(|round| ask(round, false)).last().is_some_and(|at| (at - 1.0).abs() < 1e-9));
    }
}
