//! When packets left their sender, by the sender's own clock in the time-stamp option (RFC 7323).
//!
//! Away from the sender a capture shows when a packet passed. `TSval` shows when it left, to a tick. Its delay beyond that
//! of the least delayed packet was spent in queues before the point of capture.

use std::collections::BTreeMap;

/// Ticks of clocks in use, ns: Linux since 6.7 with `tcp_usec_ts`; Linux since 4.13, Windows and BSD; older Linux by its
/// HZ. Slower clocks are too coarse to show a queue.
const TICKS_NS: [f64; 5] = [1e3, 1e6, 1e9 / 300.0, 4e6, 10e6];
/// A measured tick may differ from these by this share: a growing queue makes a clock seem slow.
const NEAR: f64 = 0.08;
const LEAST_TICKS: f64 = 20.0;
/// Share of the packets that must have a time stamp; a RST may have none.
const MOSTLY: f64 = 0.9;
/// Two clocks drift no faster than this: a greater change is a queue that grows or shrinks.
const DRIFT: f64 = 2e-4;
/// Parts of the time; the least delay in each shows the drift.
const PARTS: i64 = 64;

/// By packet of the sender: when it left, in ns on the capture's axis, as if no queue had held it up.
///
/// Accurate to `tick_ns`, and never too early; exact if no queue held the packet up.
#[derive(Debug)]
pub(super) struct Departures {
    pub left_ns: Vec<i64>,
    pub tick_ns: f64,
}

/// Reads the sender's clock: `came_ns`, when each of its packets was captured, and its `TSval`. None without time stamps,
/// or if their clock is unknown.
pub(super) fn departures(came_ns: &[i64], tsval: &[Option<u32>]) -> Option<Departures> {
    let there: Vec<(usize, u32)> = tsval.iter().enumerate().filter_map(|(at, v)| Some((at, (*v)?))).collect();
    if (there.len() as f64) < LEAST_TICKS.max(MOSTLY * tsval.len() as f64) {
        return None;
    }
    let first_ns = came_ns[there[0].0];
    let since: Vec<f64> = there.iter().map(|&(at, _)| (came_ns[at] - first_ns) as f64).collect();
    // Continued beyond 32 bits, from 0; for packets that were overtaken it goes back.
    let (mut total, mut before) = (0_i64, there[0].1);
    let ticks: Vec<f64> = there
        .iter()
        .map(|&(_, value)| {
            total += i64::from(value.wrapping_sub(before).cast_signed());
            before = value;
            total as f64
        })
        .collect();
    let tick_ns = tick(&since, &ticks)?;
    let late: Vec<f64> = since.iter().zip(&ticks).map(|(since, ticks)| since - ticks * tick_ns).collect();
    let drift = drift(&since, &late);
    // A packet that leaves right after a tick seems the least delayed.
    let least =
        since.iter().zip(&late).map(|(since, late)| late - drift * since).fold(f64::INFINITY, f64::min);
    let mut left_ns = came_ns.to_vec();
    for ((&(at, _), &since), ticks) in there.iter().zip(&since).zip(&ticks) {
        let earliest = ticks * tick_ns + drift * since + least;
        left_ns[at] = since.min(earliest + tick_ns).round_ties_even() as i64 + first_ns;
    }
    Some(Departures { left_ns, tick_ns })
}

fn tick(since: &[f64], ticks: &[f64]) -> Option<f64> {
    let (mut first, mut last) = (0, 0);
    for (at, &value) in ticks.iter().enumerate() {
        if value < ticks[first] {
            first = at;
        }
        if value > ticks[last] {
            last = at;
        }
    }
    let grown = ticks[last] - ticks[first];
    if grown < LEAST_TICKS {
        return None;
    }
    let measured = (since[last] - since[first]) / grown;
    let off = |tick: &f64| (measured / tick - 1.0).abs();
    TICKS_NS.into_iter().min_by(|one, other| off(one).total_cmp(&off(other))).filter(|tick| off(tick) <= NEAR)
}

/// How much faster the capture's clock is, by the lower edge of the delays (Moon et al., INFOCOM 1999).
fn drift(since: &[f64], late: &[f64]) -> f64 {
    let whole = since.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let per_part = PARTS as f64 / whole.max(1.0);
    let mut least = BTreeMap::new();
    for (at, &since) in since.iter().enumerate() {
        let part = ((since * per_part) as i64).min(PARTS - 1);
        let best = least.entry(part).or_insert(at);
        if late[at] < late[*best] {
            *best = at;
        }
    }
    let mut least: Vec<usize> = least.into_values().collect();
    least.sort_by(|&one, &other| since[one].total_cmp(&since[other]));
    let mut edge: Vec<usize> = Vec::new();
    for at in least {
        while let [.., one, two] = edge[..] {
            let turns_left = (since[two] - since[one]) * (late[at] - late[one])
                > (late[two] - late[one]) * (since[at] - since[one]);
            if turns_left {
                break;
            }
            edge.pop();
        }
        edge.push(at);
    }
    let over = edge.windows(2).find(|pair| since[pair[1]] >= whole / 2.0);
    match over {
        Some(&[one, other]) if since[other] > since[one] => {
            let slope = (late[other] - late[one]) / (since[other] - since[one]);
            if slope.abs() <= DRIFT { slope } else { 0.0 }
        }
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;
    const START: i64 = 1_800_000_000 * 1_000 * MS;
    const WAY: i64 = 20 * MS;

    /// By a clock that is soon beyond 32 bits.
    fn stamped(left: &[i64], tick: i64) -> Vec<Option<u32>> {
        left.iter().map(|left| Some((left / tick + (1 << 32) - 50) as u32)).collect()
    }

    fn steady(count: i64, every: i64) -> Vec<i64> {
        (0..count).map(|at| START + at * every).collect()
    }

    fn waited(found: &Departures, came: &[i64]) -> Vec<i64> {
        came.iter().zip(&found.left_ns).map(|(came, left)| (came - left).max(0)).collect()
    }

    #[test]
    fn a_queue_is_what_comes_later_than_the_least_delayed() {
        for tick in [1_000, MS, 4 * MS, 10 * MS] {
            let left = steady(2_000, 730_139);
            let queue = |at: usize| if at % 1_000 < 600 { 0 } else { 30 * MS };
            let came: Vec<i64> = left.iter().enumerate().map(|(at, left)| left + WAY + queue(at)).collect();
            let found = departures(&came, &stamped(&left, tick)).unwrap();
            assert_eq!(found.tick_ns, tick as f64);
            for (at, wait) in waited(&found, &came).into_iter().enumerate() {
                // As if it had come by without a queue, never too early, and true to a tick: the least delayed packet may
                // have left a moment after one.
                let off = (found.left_ns[at] - left[at] - WAY) as f64;
                assert!(off >= -0.02 * tick as f64 && off <= 1.05 * tick as f64);
                assert!(
                    (wait - queue(at)).abs() as f64 <= if queue(at) == 0 { 0.0 } else { 1.05 * tick as f64 }
                );
            }
        }
    }

    #[test]
    fn without_a_queue_times_are_those_of_the_capture() {
        let left = steady(2_000, 730_139);
        let came: Vec<i64> = left.iter().map(|left| left + WAY).collect();
        assert_eq!(departures(&came, &stamped(&left, MS)).unwrap().left_ns, came);
    }

    #[test]
    fn clocks_that_drift_apart_are_no_queue() {
        for drift in [-8e-5, 8e-5] {
            let left = steady(60_000, 1_000_003);
            let came: Vec<i64> =
                left.iter().map(|left| left + WAY + ((left - START) as f64 * drift) as i64).collect();
            let found = departures(&came, &stamped(&left, MS)).unwrap();
            assert!(waited(&found, &came).into_iter().all(|wait| wait < MS / 10));
        }
    }

    #[test]
    fn a_queue_that_grows_is_no_clock_that_drifts() {
        let left = steady(2_000, 730_139);
        let queue = |left: i64| ((left - START - 50 * MS).div_euclid(50)).max(0);
        let came: Vec<i64> = left.iter().map(|&left| left + WAY + queue(left)).collect();
        let found = departures(&came, &stamped(&left, MS)).unwrap();
        assert!((waited(&found, &came)[1_999] - queue(left[1_999])).abs() <= 11 * MS / 10);
    }

    #[test]
    fn an_unknown_clock_shows_nothing() {
        let left = steady(2_000, 730_139);
        assert!(departures(&left, &stamped(&left, 1_700_000)).is_none());
        assert!(departures(&left, &vec![None; left.len()]).is_none());
        assert!(departures(&left[..10], &stamped(&left[..10], MS)).is_none());
    }

    #[test]
    fn a_reset_without_a_time_stamp_left_when_it_came() {
        let left = steady(100, 730_139);
        let mut tsval = stamped(&left, MS);
        tsval[99] = None;
        assert_eq!(departures(&left, &tsval).unwrap().left_ns[99], left[99]);
    }
}
