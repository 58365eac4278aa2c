//! Earliest arrival: every block is given to a stream so that it arrives when its turn comes.

use std::collections::BTreeMap;

use super::{Choice, Path, PathStats, Scheduler, StreamId, Work};
use crate::wire::MOST_STREAMS;

/// What a path carries per round trip before anything is known about its window (RFC 6928).
const FIRST_WINDOW_BYTES: u64 = 14_600;

/// Gives each stream the block whose turn comes when the stream can have delivered it.
///
/// A block that path *i* takes now arrives after `t = (unacknowledged + block) / rate - rtt / 2`, with the least
/// round-trip time, and not before `rtt / 2`. On a path that was idle, add a round trip. Until then the paths
/// with a smaller `t` deliver `skip = Σ rate·(t - t_j)` bytes. So path *i* takes the block that begins `skip`
/// bytes ahead, and leaves those before it to the others: what arrives by a slow path waits for nothing, and
/// the receiver needs little memory. If fewer than `skip` bytes are left, the faster paths will finish
/// sooner without its help, and it is left out. With a small `TCP_NOTSENT_LOWAT` little is committed early, and
/// the estimate is fresh for every block.
///
/// In slow start the window grows while a block waits for it, which is taken into account, and a path other
/// than the fastest is given no more than what leaves within a round trip.
///
/// A loss holds up what its stream delivers for a round trip. Blocks that many others then wait for are sent by
/// another stream as well ([`Scheduler::repeats`]).
#[derive(Clone, Debug, Default)]
pub struct EarliestArrival {
    seen: BTreeMap<StreamId, Seen>,
}

/// What is remembered about a path.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// When it was first seen, or last had nothing to do.
    idle_at_ns: u64,
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
    /// Its last bit arrives after this time.
    after_ns: u64,
    rate_bytes_per_s: u64,
    /// In slow start: not even the next round trip will see it leave.
    is_early: bool,
}

impl Estimate {
    fn of(path: &Path, block_bytes: u64, seen: Seen, now_ns: u64) -> Self {
        let stats = &path.stats;
        let rate_bytes_per_s = seen.rate(stats);
        let time_ns = |bytes| scaled(bytes, 1_000_000_000, rate_bytes_per_s);
        let least_rtt_ns = if stats.least_rtt_ns > 0 { stats.least_rtt_ns } else { stats.srtt_ns };
        let there_ns = least_rtt_ns - least_rtt_ns / 2;
        // What left in the last round trip is on the way or arrived, and the rest follows at the path's rate.
        let busy_ns = now_ns.saturating_sub(seen.idle_at_ns);
        let left_bytes = stats.unacked_bytes.saturating_sub(stats.sacked_bytes).saturating_add(block_bytes);
        let full_ns = time_ns(left_bytes).saturating_add(there_ns).saturating_sub(busy_ns.min(least_rtt_ns));
        if stats.cwnd_bytes >= stats.ssthresh_bytes {
            return Self { after_ns: full_ns.max(there_ns), rate_bytes_per_s, is_early: false };
        }
        // The rate lags behind the window. For each byte that is acknowledged two leave.
        let window_bytes = stats.cwnd_bytes.max(FIRST_WINDOW_BYTES);
        let sent_bytes = stats.unacked_bytes.saturating_sub(stats.unsent_bytes);
        let waiting_bytes = stats.unsent_bytes.saturating_add(block_bytes);
        let waiting_bytes = waiting_bytes.saturating_sub(window_bytes.saturating_sub(sent_bytes));
        let queued_ns = stats.srtt_ns.saturating_sub(least_rtt_ns);
        let slow_start_ns = (time_ns(waiting_bytes) / 2).saturating_add(there_ns + queued_ns);
        Self {
            after_ns: full_ns.min(slow_start_ns).max(there_ns),
            rate_bytes_per_s,
            is_early: stats.unsent_bytes > 0 && waiting_bytes > window_bytes.saturating_mul(2),
        }
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

    fn repeats(&self) -> bool {
        true
    }

    fn choose(&mut self, work: &Work, paths: &[Path]) -> Option<Choice> {
        for Path { id, stats, .. } in paths {
            let seen = self.seen.entry(*id).or_insert(Seen { idle_at_ns: work.now_ns, full_bytes_per_s: 0 });
            // Frames without data do not count.
            if stats.unacked_bytes <= stats.mss_bytes {
                seen.idle_at_ns = work.now_ns;
            }
            if !stats.is_rate_limited && stats.rate_bytes_per_s > 0 {
                seen.full_bytes_per_s = stats.rate_bytes_per_s;
            }
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
                // A missing block already goes by the first stream that can take it.
                best = Some((estimate, Choice::next(path.id)));
                continue;
            }
            let others = paths.iter().filter(|other| other.id != path.id);
            let ahead = others.map(|other| of(other).until(after_ns)).fold(0, u64::saturating_add);
            // Whole blocks, so that the gaps left for others are.
            let skip_bytes = ahead - ahead % work.block_bytes.max(1);
            let has_enough = skip_bytes.saturating_add(work.block_bytes) <= work.sendable_bytes;
            if skip_bytes == 0 || has_enough && !estimate.is_early {
                best = Some((estimate, Choice { stream: path.id, skip_bytes }));
            }
        }
        let (_, choice) = best?;
        if self.seen.len() > MOST_STREAMS {
            self.seen.retain(|id, _| paths.iter().any(|path| path.id == *id));
        }
        Some(choice)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{self, BLOCK, MS, path};
    use super::*;

    const RATE: u64 = 10_000_000;
    const NOW_NS: u64 = 1000 * MS;

    fn work(sendable_bytes: u64) -> Work {
        Work { now_ns: NOW_NS, ..testing::work(sendable_bytes) }
    }

    /// Two paths have been busy for long.
    fn busy() -> EarliestArrival {
        EarliestArrival { seen: (0..2).map(|id| (StreamId(id), Seen::default())).collect() }
    }

    #[test]
    fn a_path_that_is_slower_takes_the_block_whose_turn_comes_when_it_arrives() {
        let paths = [path(0, true, 100 * MS, RATE), path(1, false, 4 * MS, RATE)];
        // After 51 ms; by the other, whose window is full, after 3 ms. At 10 MB/s: 480 kB ahead.
        let found = busy().choose(&work(2_000_000), &paths);
        assert_eq!(found, Some(Choice { stream: paths[0].id, skip_bytes: 480_000 }));
    }

    #[test]
    fn it_is_left_out_where_the_others_will_be_done_sooner() {
        let paths = [path(0, true, 100 * MS, RATE), path(1, false, 4 * MS, RATE)];
        assert_eq!(busy().choose(&work(480_000), &paths), None);
        assert!(busy().choose(&work(490_000), &paths).is_some());
    }

    #[test]
    fn the_path_with_the_earliest_arrival_takes_the_next_block() {
        let mut paths = [path(0, true, 20 * MS, RATE), path(1, true, 4 * MS, RATE)];
        assert_eq!(busy().choose(&work(BLOCK), &paths), Some(Choice::next(paths[1].id)));
        // 20 ms of queue make it the later one.
        (paths[1].stats.unsent_bytes, paths[1].stats.unacked_bytes) = (200_000, 200_000);
        assert_eq!(busy().choose(&work(BLOCK), &paths), Some(Choice::next(paths[0].id)));
    }

    #[test]
    fn what_was_not_acknowledged_arrives_first_at_the_rate_of_the_path() {
        let mut paths = [path(0, true, 20 * MS, RATE), path(1, false, 4 * MS, RATE)];
        let mut skip = |unacked_bytes, sacked_bytes| {
            (paths[0].stats.unacked_bytes, paths[0].stats.sacked_bytes) = (unacked_bytes, sacked_bytes);
            busy().choose(&work(2_000_000), &paths).map(|choice| choice.skip_bytes)
        };
        // 10 ms against 3 ms, while there is room in the path.
        assert_eq!([skip(100_000, 0), skip(190_000, 0)], [Some(70_000); 2]);
        assert_eq!([skip(200_000, 0), skip(300_000, 0)], [80_000, 180_000].map(Some), "it queues");
        assert_eq!(skip(300_000, 50_000), Some(130_000), "what has arrived behind a loss");
    }

    #[test]
    fn what_an_idle_path_was_given_at_once_leaves_one_after_another() {
        let mut paths = [path(0, true, 20 * MS, RATE), path(1, false, 4 * MS, RATE)];
        let mut scheduler = busy();
        let mut skip = |after_ns, unacked_bytes| {
            paths[0].stats.unacked_bytes = unacked_bytes;
            let work = Work { now_ns: NOW_NS + after_ns, ..work(2_000_000) };
            scheduler.choose(&work, &paths).map(|choice| choice.skip_bytes)
        };
        // A block takes 1 ms, and arrives 10 ms later.
        assert_eq!([skip(0, 0), skip(0, 10_000), skip(0, 20_000)], [80_000, 90_000, 100_000].map(Some));
        assert_eq!(skip(3 * MS, 30_000), Some(80_000), "all of it was sent");
    }

    #[test]
    fn a_queue_on_the_way_delays_what_is_sent_and_no_acknowledgement() {
        let mut paths = [path(0, true, 100 * MS, RATE), path(1, false, 4 * MS, RATE)];
        // 40 ms of the round trip are a queue, which what was not acknowledged fills.
        paths[0].stats = PathStats { least_rtt_ns: 60 * MS, unacked_bytes: 1_000_000, ..paths[0].stats };
        // (1,000 + 10 kB) / 10 MB/s - 30 ms = 71 ms against 3 ms.
        let found = busy().choose(&work(2_000_000), &paths);
        assert_eq!(found.map(|choice| choice.skip_bytes), Some(680_000));
    }

    #[test]
    fn a_window_that_filled_a_queue_tells_no_rate_once_the_queue_is_empty() {
        let mut paths = [path(0, true, 100 * MS, RATE), path(1, false, 4 * MS, RATE)];
        let mut scheduler = busy();
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
        let skip = |paths: &[Path]| busy().choose(&work(500_000), paths).map(|c| c.skip_bytes);
        assert_eq!(skip(&paths), Some(470_000));
        // Two windows wait already.
        let larger = paths.map(|path| {
            let stats = PathStats { unacked_bytes: 40_000, unsent_bytes: 30_000, ..path.stats };
            Path { stats, ..path }
        });
        assert_eq!(skip(&larger), None);
    }

    #[test]
    fn the_rate_of_a_window_that_doubles_lags_behind() {
        let mut slow = path(0, true, 100 * MS, RATE);
        let stats =
            PathStats { ssthresh_bytes: u64::MAX, unacked_bytes: slow.stats.cwnd_bytes, ..slow.stats };
        slow.stats = stats;
        let skip = |slow| {
            let paths = [slow, path(1, false, 4 * MS, RATE)];
            busy().choose(&work(5_000_000), &paths).map(|choice| choice.skip_bytes)
        };
        // 5 kB are acknowledged until the block leaves, in 0.5 ms, and it arrives 47.5 ms later than by the other.
        assert_eq!(skip(slow), Some(470_000));
        slow.stats.ssthresh_bytes = 0;
        // 1,010 kB take 101 ms at its rate: 51 - 3 ms.
        assert_eq!(skip(slow), Some(480_000));
    }

    #[test]
    fn what_was_lost_goes_by_the_first_stream_that_is_ready() {
        let paths = [path(0, true, 100 * MS, RATE), path(1, false, 4 * MS, RATE)];
        let again = Work { is_again: true, ..work(BLOCK) };
        assert_eq!(busy().choose(&again, &paths), Some(Choice::next(paths[0].id)));
    }

    #[test]
    fn a_path_of_which_nothing_is_known_is_used() {
        let unknown = Path { stats: Default::default(), ..path(3, true, 0, 0) };
        assert_eq!(busy().choose(&work(1), &[unknown]), Some(Choice::next(unknown.id)));
    }
}
