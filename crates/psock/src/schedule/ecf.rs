//! Earliest completion first (Lim et al., CoNEXT 2017).

use super::{Choice, Path, Scheduler, Work, fastest};

/// Waits for the fastest path if that delivers the data earlier than a slower one that is ready.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ecf {
    is_waiting: bool,
}

impl Scheduler for Ecf {
    fn name(&self) -> &'static str {
        "ecf"
    }

    fn choose(&mut self, work: &Work, paths: &[Path]) -> Option<Choice> {
        let (fast, slow) = fastest(paths);
        let (fast, slow) = (fast?, slow?);
        if fast.id != slow.id && !work.is_again {
            let float = |number: u64| number as f64;
            let (rtt_f, rtt_s) = (float(fast.stats.srtt_ns), float(slow.stats.srtt_ns));
            let (w_f, w_s) = (float(fast.stats.cwnd_bytes), float(slow.stats.cwnd_bytes));
            let delta = float(fast.stats.rttvar_ns.max(slow.stats.rttvar_ns));
            let k = float(work.sendable_bytes);
            // Hysteresis: beta is 1/4.
            let patience = if self.is_waiting { 1.25 } else { 1.0 };
            if rtt_f * (k.max(w_f) + w_f) < patience * w_f * (rtt_s + delta) {
                if rtt_s * k.max(w_s) >= w_s * (2.0 * rtt_f + delta) {
                    self.is_waiting = true;
                    return None;
                }
            } else {
                self.is_waiting = false;
            }
        }
        Some(Choice::next(slow.id))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{BLOCK, MS, path, work};
    use super::*;

    #[test]
    fn the_fastest_path_is_taken_while_it_is_ready() {
        let paths = [path(0, true, 100 * MS, 1_000_000), path(1, true, 5 * MS, 1_000_000)];
        assert_eq!(Ecf::default().choose(&work(BLOCK), &paths).map(|c| c.stream.0), Some(1));
    }

    #[test]
    fn little_data_waits_for_the_fast_path_and_much_does_not() {
        let paths = [path(0, true, 100 * MS, 10_000_000), path(1, false, 5 * MS, 10_000_000)];
        let mut ecf = Ecf::default();
        assert_eq!(ecf.choose(&work(BLOCK), &paths), None);
        // 5 ms for each 50 kB: 1 MB takes the fast path as long as the slow one needs for anything.
        let found = ecf.choose(&work(2_000_000), &paths);
        assert_eq!(found, Some(Choice::next(paths[0].id)));
    }
}
