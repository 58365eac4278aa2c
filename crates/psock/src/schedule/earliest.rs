//! Earliest arrival: every block is given to a stream so that it arrives when its turn comes.

use std::collections::BTreeMap;

use super::{Choice, Path, PathStats, Scheduler, StreamId, Work};
use crate::wire::MOST_STREAMS;

/// What a path carries per round trip before anything is known of its window (RFC 6928).
const FIRST_WINDOW_BYTES: u64 = 14_600;

/// Gives each stream the block whose turn comes when the stream can have delivered it.
///
/// A block that path *i* takes now arrives after `t = queue + block / rate + srtt / 2`. Until then the paths with
/// a smaller `t` deliver `skip = Σ rate·(t - t_j)` bytes. So path *i* takes the block that begins `skip` bytes
/// ahead, and leaves those before it to the others: what arrives by a slow path waits for nothing, and the
/// receiver needs little memory. Where fewer than `skip` bytes are left, the faster paths will be done sooner
/// without its help, and it is left out. With a small `TCP_NOTSENT_LOWAT` little is committed early, and the
/// estimate is fresh for every block.
///
/// A window in slow start grows while a block waits for it, which counts.
///
/// The queue is that of the blocks given to the path, as its rate empties it. It has at least what TCP holds and
/// has not sent, and at most what was not acknowledged.
#[derive(Clone, Debug, Default)]
pub struct EarliestArrival {
    seen: BTreeMap<StreamId, Seen>,
}

/// What is remembered of a path.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Until when it is busy with what it was given.
    busy_until_ns: u64,
    /// Its rate when it was last used to the full; 0: never.
    full_bytes_per_s: u64,
}

impl Seen {
    fn rate(&self, stats: &PathStats) -> u64 {
        if !stats.is_rate_limited && stats.rate_bytes_per_s > 0 {
            return stats.rate_bytes_per_s;
        }
        let window = stats.cwnd_bytes.max(FIRST_WINDOW_BYTES);
        let by_window = scaled(window, 1_000_000_000, stats.srtt_ns.max(1_000));
        // A window that filled a queue, over the round-trip time without it, is more than the path carries.
        let most = if self.full_bytes_per_s > 0 { by_window.min(self.full_bytes_per_s) } else { by_window };
        most.max(stats.rate_bytes_per_s).max(1)
    }
}

#[derive(Clone, Copy, Debug)]
struct Estimate {
    /// The last bit leaves after that time, and arrives.
    leaves_ns: u64,
    after_ns: u64,
    rate_bytes_per_s: u64,
}

impl Estimate {
    fn of(path: &Path, block_bytes: u64, seen: Seen, now_ns: u64) -> Self {
        let stats = &path.stats;
        let rate_bytes_per_s = seen.rate(stats);
        let time_ns = |bytes| scaled(bytes, 1_000_000_000, rate_bytes_per_s);
        let (least_ns, most_ns) = (time_ns(stats.unsent_bytes), time_ns(stats.unacked_bytes));
        let busy_ns = seen.busy_until_ns.saturating_sub(now_ns);
        let queue_ns = busy_ns.min(most_ns).max(least_ns);
        let leaves_ns = queue_ns.saturating_add(time_ns(block_bytes));
        let leaves_ns = leaves_ns.min(slow_start_ns(stats, stats.unacked_bytes.saturating_add(block_bytes)));
        Self { leaves_ns, after_ns: leaves_ns.saturating_add(stats.srtt_ns / 2), rate_bytes_per_s }
    }

    /// What the path delivers from its own arrival to that of a block which takes `after_ns`.
    fn until(&self, after_ns: u64) -> u64 {
        scaled(self.rate_bytes_per_s, after_ns.saturating_sub(self.after_ns), 1_000_000_000)
    }
}

/// When the last of `bytes` leaves a path whose window doubles with each round trip; never where it does not, or
/// where more is known.
fn slow_start_ns(stats: &PathStats, bytes: u64) -> u64 {
    let has_rate = !stats.is_rate_limited && stats.rate_bytes_per_s > 0;
    if has_rate || stats.cwnd_bytes >= stats.ssthresh_bytes {
        return u64::MAX;
    }
    // After n round trips 2^(n + 1) - 1 windows have left.
    let windows = bytes.div_ceil(stats.cwnd_bytes.max(FIRST_WINDOW_BYTES));
    stats.srtt_ns.saturating_mul(windows.max(1).ilog2().into())
}

fn scaled(a: u64, b: u64, divisor: u64) -> u64 {
    u64::try_from(u128::from(a) * u128::from(b) / u128::from(divisor.max(1))).unwrap_or(u64::MAX)
}

impl Scheduler for EarliestArrival {
    fn name(&self) -> &'static str {
        "earliest"
    }

    fn choose(&mut self, work: &Work, paths: &[Path]) -> Option<Choice> {
        for path in paths.iter().filter(|path| !path.stats.is_rate_limited && path.stats.rate_bytes_per_s > 0)
        {
            self.seen.entry(path.id).or_default().full_bytes_per_s = path.stats.rate_bytes_per_s;
        }
        let seen = &self.seen;
        let of = |path: &Path| {
            let seen = seen.get(&path.id).copied().unwrap_or_default();
            Estimate::of(path, work.block_bytes, seen, work.now_ns)
        };
        let mut best: Option<(Estimate, Choice)> = None;
        for path in paths.iter().filter(|path| path.is_ready) {
            let estimate = of(path);
            let after_ns = estimate.after_ns;
            if best.is_some_and(|(before, _)| before.after_ns <= after_ns) {
                continue;
            }
            if work.is_again {
                // What is missed already goes by the first that can take it.
                best = Some((estimate, Choice::next(path.id)));
                continue;
            }
            let others = paths.iter().filter(|other| other.id != path.id);
            let ahead = others.map(|other| of(other).until(after_ns)).fold(0, u64::saturating_add);
            // Whole blocks, so that the gaps left for others are.
            let skip_bytes = ahead - ahead % work.block_bytes.max(1);
            if skip_bytes == 0 || skip_bytes.saturating_add(work.block_bytes) <= work.sendable_bytes {
                best = Some((estimate, Choice { stream: path.id, skip_bytes }));
            }
        }
        let (estimate, choice) = best?;
        if self.seen.len() > MOST_STREAMS {
            self.seen.retain(|id, _| paths.iter().any(|path| path.id == *id));
        }
        self.seen.entry(choice.stream).or_default().busy_until_ns =
            work.now_ns.saturating_add(estimate.leaves_ns);
        Some(choice)
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
        let found = EarliestArrival::default().choose(&work(2_000_000), &paths);
        assert_eq!(found, Some(Choice { stream: paths[0].id, skip_bytes: 480_000 }));
    }

    #[test]
    fn it_is_left_out_where_the_others_will_be_done_sooner() {
        let paths = [path(0, true, 100 * MS, RATE), path(1, false, 4 * MS, RATE)];
        assert_eq!(EarliestArrival::default().choose(&work(480_000), &paths), None);
        assert!(EarliestArrival::default().choose(&work(490_000), &paths).is_some());
    }

    #[test]
    fn the_path_with_the_earliest_arrival_takes_the_next_block() {
        let mut paths = [path(0, true, 20 * MS, RATE), path(1, true, 4 * MS, RATE)];
        assert_eq!(EarliestArrival::default().choose(&work(BLOCK), &paths), Some(Choice::next(paths[1].id)));
        // 20 ms of queue make it the later one.
        (paths[1].stats.unsent_bytes, paths[1].stats.unacked_bytes) = (200_000, 200_000);
        assert_eq!(EarliestArrival::default().choose(&work(BLOCK), &paths), Some(Choice::next(paths[0].id)));
    }

    #[test]
    fn what_a_path_was_given_counts_until_its_rate_has_sent_it() {
        let mut paths = [path(0, true, 20 * MS, RATE), path(1, false, 4 * MS, RATE)];
        let mut scheduler = EarliestArrival::default();
        // 8 ms later at 10 MB/s; a block takes 1 ms.
        let mut skip = |now_ns, unacked_bytes| {
            paths[0].stats.unacked_bytes = unacked_bytes;
            let work = Work { now_ns, ..work(2_000_000) };
            scheduler.choose(&work, &paths).map(|choice| choice.skip_bytes)
        };
        assert_eq!([skip(0, 0), skip(0, 10_000), skip(0, 20_000)], [80_000, 90_000, 100_000].map(Some));
        assert_eq!(skip(3 * MS, 30_000), Some(80_000), "all of it was sent");
        assert_eq!(skip(3 * MS, 0), Some(80_000), "nothing is under way, so the rate is higher");
    }

    #[test]
    fn a_window_that_filled_a_queue_tells_no_rate_once_the_queue_is_empty() {
        let mut paths = [path(0, true, 100 * MS, RATE), path(1, false, 4 * MS, RATE)];
        let mut scheduler = EarliestArrival::default();
        let mut skip =
            |paths: &[Path]| scheduler.choose(&work(2_000_000), paths).map(|choice| choice.skip_bytes);
        assert_eq!(skip(&paths), Some(480_000));
        // It kept 40 ms full, and has less to do now.
        paths[1].stats.cwnd_bytes = 400_000;
        paths[1].stats.is_rate_limited = true;
        paths[1].stats.rate_bytes_per_s = RATE / 2;
        paths[0].stats.unacked_bytes = 0;
        assert_eq!(skip(&paths), Some(480_000));
    }

    #[test]
    fn a_path_in_slow_start_is_not_left_out_for_its_small_window() {
        let mut slow = path(0, true, 100 * MS, 0);
        slow.stats =
            PathStats { srtt_ns: 100 * MS, cwnd_bytes: 5_000, ssthresh_bytes: u64::MAX, ..slow.stats };
        let paths = [slow, path(1, false, 4 * MS, RATE)];
        // It leaves at once, and arrives 47 ms later than by the other: at 10 MB/s, 470 kB ahead.
        let skip =
            |paths: &[Path]| EarliestArrival::default().choose(&work(500_000), paths).map(|c| c.skip_bytes);
        assert_eq!(skip(&paths), Some(470_000));
        // Two windows and more, so two further round trips.
        let larger =
            paths.map(|path| Path { stats: PathStats { unacked_bytes: 40_000, ..path.stats }, ..path });
        assert_eq!(skip(&larger), None);
    }

    #[test]
    fn what_was_lost_goes_by_the_first_stream_that_is_ready() {
        let paths = [path(0, true, 100 * MS, RATE), path(1, false, 4 * MS, RATE)];
        let again = Work { is_again: true, ..work(BLOCK) };
        assert_eq!(EarliestArrival::default().choose(&again, &paths), Some(Choice::next(paths[0].id)));
    }

    #[test]
    fn a_path_of_which_nothing_is_known_is_used() {
        let unknown = Path { stats: Default::default(), ..path(3, true, 0, 0) };
        assert_eq!(EarliestArrival::default().choose(&work(1), &[unknown]), Some(Choice::next(unknown.id)));
    }
}
