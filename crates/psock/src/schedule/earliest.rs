//! Earliest arrival: every block is given to a stream so that it arrives when its turn comes.

use super::{Choice, Path, Scheduler, Work};

/// What a path carries per round trip before anything is known of its window (RFC 6928).
const FIRST_WINDOW_BYTES: u64 = 14_600;

/// Gives each stream the block whose turn comes when the stream can have delivered it.
///
/// A block that path *i* takes now arrives after `t = (unsent + block) / rate + srtt / 2`. Until then the paths
/// with a smaller `t` deliver `skip = Σ rate·(t - t_j)` bytes. So path *i* takes the block that begins `skip`
/// bytes ahead, and leaves those before it to the others: what arrives by a slow path waits for nothing, and the
/// receiver needs little memory. Where fewer than `skip` bytes are left, the faster paths will be done sooner
/// without its help, and it is left out. With a small `TCP_NOTSENT_LOWAT` little is committed early, and the
/// estimate is fresh for every block.
///
/// Bytes in flight are on their way already, so the queue is what was never sent, and not (as in other
/// estimates) what was not acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub struct EarliestArrival;

#[derive(Clone, Copy, Debug)]
struct Estimate {
    after_ns: u64,
    rate_bytes_per_s: u64,
}

impl Estimate {
    fn of(path: &Path, block_bytes: u64) -> Self {
        let stats = &path.stats;
        let window = stats.cwnd_bytes.max(FIRST_WINDOW_BYTES);
        let by_window = scaled(window, 1_000_000_000, stats.srtt_ns.max(1_000));
        let is_known = stats.rate_bytes_per_s > 0 && !stats.is_rate_limited;
        let rate = if is_known { stats.rate_bytes_per_s } else { by_window.max(stats.rate_bytes_per_s) };
        let rate_bytes_per_s = rate.max(1);
        let queue_ns = scaled(stats.unsent_bytes + block_bytes, 1_000_000_000, rate_bytes_per_s);
        Self { after_ns: queue_ns.saturating_add(stats.srtt_ns / 2), rate_bytes_per_s }
    }

    /// What the path delivers from its own arrival to that of a block which takes `after_ns`.
    fn until(&self, after_ns: u64) -> u64 {
        scaled(self.rate_bytes_per_s, after_ns.saturating_sub(self.after_ns), 1_000_000_000)
    }
}

fn scaled(a: u64, b: u64, divisor: u64) -> u64 {
    u64::try_from(u128::from(a) * u128::from(b) / u128::from(divisor.max(1))).unwrap_or(u64::MAX)
}

impl Scheduler for EarliestArrival {
    fn name(&self) -> &'static str {
        "earliest"
    }

    fn choose(&mut self, work: &Work, paths: &[Path]) -> Option<Choice> {
        let of = |path: &Path| Estimate::of(path, work.block_bytes);
        let mut best: Option<(u64, Choice)> = None;
        for path in paths.iter().filter(|path| path.is_ready) {
            let after_ns = of(path).after_ns;
            if best.is_some_and(|(before, _)| before <= after_ns) {
                continue;
            }
            if work.is_again {
                // What is missed already goes by the first that can take it.
                best = Some((after_ns, Choice::next(path.id)));
                continue;
            }
            let others = paths.iter().filter(|other| other.id != path.id);
            let ahead = others.map(|other| of(other).until(after_ns)).fold(0, u64::saturating_add);
            // Whole blocks, so that the gaps left for others are.
            let skip_bytes = ahead - ahead % work.block_bytes.max(1);
            if skip_bytes == 0 || skip_bytes.saturating_add(work.block_bytes) <= work.sendable_bytes {
                best = Some((after_ns, Choice { stream: path.id, skip_bytes }));
            }
        }
        best.map(|(_, choice)| choice)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{BLOCK, MS, path, work};
    use super::*;

    const RATE: u64 = 10_000_000;

    #[test]
    fn a_path_that_is_slower_takes_the_block_whose_turn_comes_when_it_arrives() {
        let paths = [path(0, true, 100 * MS, RATE), path(1, false, 4 * MS, RATE)];
        // 48 ms later at 10 MB/s: 480 kB ahead.
        let found = EarliestArrival.choose(&work(2_000_000), &paths);
        assert_eq!(found, Some(Choice { stream: paths[0].id, skip_bytes: 480_000 }));
    }

    #[test]
    fn it_is_left_out_where_the_others_will_be_done_sooner() {
        let paths = [path(0, true, 100 * MS, RATE), path(1, false, 4 * MS, RATE)];
        assert_eq!(EarliestArrival.choose(&work(480_000), &paths), None);
        assert!(EarliestArrival.choose(&work(490_000), &paths).is_some());
    }

    #[test]
    fn the_path_with_the_earliest_arrival_takes_the_next_block() {
        let mut paths = [path(0, true, 20 * MS, RATE), path(1, true, 4 * MS, RATE)];
        assert_eq!(EarliestArrival.choose(&work(BLOCK), &paths), Some(Choice::next(paths[1].id)));
        // 20 ms of queue make it the later one.
        paths[1].stats.unsent_bytes = 200_000;
        assert_eq!(EarliestArrival.choose(&work(BLOCK), &paths), Some(Choice::next(paths[0].id)));
    }

    #[test]
    fn what_was_lost_goes_by_the_first_stream_that_is_ready() {
        let paths = [path(0, true, 100 * MS, RATE), path(1, false, 4 * MS, RATE)];
        let again = Work { is_again: true, ..work(BLOCK) };
        assert_eq!(EarliestArrival.choose(&again, &paths), Some(Choice::next(paths[0].id)));
    }

    #[test]
    fn a_path_of_which_nothing_is_known_is_used() {
        let unknown = Path { stats: Default::default(), ..path(3, true, 0, 0) };
        assert_eq!(EarliestArrival.choose(&work(1), &[unknown]), Some(Choice::next(unknown.id)));
    }
}
