//! Selected connections, found as they appear.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use super::{MOST_CONNECTIONS, Options, Shared, Watched};
use crate::diag::{Diag, DiagError, Id};
use weir_clock::{now_ns, thread_cpu_ns};

/// A connection by its number among those watched.
pub type Found = Result<Vec<(u32, Id)>, DiagError>;

/// Returns how many connections have begun so far in this network namespace; `None` if that is not known.
pub type Begun = Box<dyn Fn() -> Option<u64> + Send>;

/// Pauses between two looks: while nothing was found, and just after something was.
const SOONEST_NS: u64 = 1_000_000;
const SOON_NS: u64 = 10_000_000;
/// The longest pause.
const LATEST_NS: u64 = 1_000_000_000;
/// Lower bound of the longest pause if connections are counted: waking up costs more than that.
const COUNTED_NS: u64 = 100_000_000;
/// After a find the pause is this part of the time since then: connections of one program come in groups.
const SINCE: u64 = 4;
/// It grows until looking takes this part of a CPU's time. The kernel walks its whole table of connections for each
/// look, a millisecond or more, which would affect what is watched.
const COST: u64 = 500;

/// Finds them, and numbers them.
pub struct Finder<'a> {
    diag: Diag,
    options: &'a Options,
    shared: &'a Shared,
    /// Cookies of connections that were found, or are not selected.
    judged: HashSet<u64>,
    /// Some of those already examined may still turn out to be selected.
    is_undecided: bool,
    news: News,
    found_ns: Option<u64>,
}

impl<'a> Finder<'a> {
    pub fn new(options: &'a Options, shared: &'a Shared, begun: Option<Begun>) -> Result<Self, DiagError> {
        Ok(Self {
            diag: Diag::open()?,
            options,
            shared,
            judged: HashSet::new(),
            is_undecided: false,
            news: News { begun, counted: None },
            found_ns: None,
        })
    }

    /// Looks again and again, until it is over or the receiver is gone.
    pub fn keep_looking(&mut self, listener: &Sender<Found>, over: &AtomicBool) {
        let mut pause_ns = self.pause_ns(0, now_ns());
        loop {
            thread::park_timeout(Duration::from_nanos(pause_ns));
            if over.load(SeqCst) {
                return;
            }
            let began = thread_cpu_ns();
            // In this order: what begins after they were counted is found next time.
            let found = if self.news.has_come() || self.is_undecided { self.look() } else { Ok(Vec::new()) };
            let failed = found.is_err();
            if found.as_ref().map_or(true, |found| !found.is_empty()) && listener.send(found).is_err()
                || failed
            {
                return;
            }
            pause_ns = self.pause_ns(thread_cpu_ns() - began, now_ns());
        }
    }

    fn pause_ns(&self, cost_ns: u64, now_ns: u64) -> u64 {
        let since_ns = self.found_ns.map(|at| now_ns.saturating_sub(at));
        let least_ns = if self.news.begun.is_some() { COUNTED_NS } else { SOON_NS };
        pause_ns(cost_ns, since_ns, self.options.period_ns, least_ns)
    }

    /// Looks for connections that are not known yet.
    pub fn look(&mut self) -> Found {
        let filter = &self.options.filter;
        let mut fresh = filter.candidates(&mut self.diag)?;
        fresh.retain(|each| !self.judged.contains(&each.id.cookie));
        self.is_undecided = false;
        let mut found = Vec::new();
        if fresh.is_empty() {
            return Ok(found);
        }
        let owners = if filter.has_process() { filter.owners() } else { HashMap::new() };
        let mut progress = self.shared.progress();
        for each in fresh {
            let owner = owners.get(&each.inode);
            if !filter.fits_owner(owner) {
                // A connection that waits to be accepted has no owner yet.
                if each.inode != 0 {
                    self.judged.insert(each.id.cookie);
                } else {
                    self.is_undecided = true;
                }
                continue;
            }
            self.judged.insert(each.id.cookie);
            if progress.connections.len() >= MOST_CONNECTIONS {
                progress.left_out += 1;
                continue;
            }
            found.push((progress.connections.len() as u32, each.id));
            self.found_ns = Some(now_ns());
            let fresh = Watched::found(&each.id, each.inode, each.congestion, owner, now_ns());
            progress.connections.push(fresh);
        }
        Ok(found)
    }
}

/// Whether connections have begun, if they are counted: each look costs much more than that.
struct News {
    begun: Option<Begun>,
    counted: Option<u64>,
}

impl News {
    /// Whether any have begun since the last time; always true if they are not counted.
    fn has_come(&mut self) -> bool {
        let before = self.counted;
        self.counted = self.begun.as_ref().and_then(|begun| begun());
        self.counted.is_none() || self.counted != before
    }
}

/// Time until the next look, after one that took `cost_ns`; `since_ns` after the last find, if there was one.
/// However cheap looks are, it grows to `least_ns`.
fn pause_ns(cost_ns: u64, since_ns: Option<u64>, period_ns: u64, least_ns: u64) -> u64 {
    let Some(since_ns) = since_ns else { return period_ns.clamp(SOONEST_NS, SOON_NS) };
    let dearest = cost_ns.saturating_mul(COST).clamp(least_ns, LATEST_NS);
    (since_ns / SINCE).clamp(SOON_NS, dearest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_connections_are_counted_nobody_looks_for_those_that_are_not_there() {
        let counts = std::sync::Mutex::new(vec![Some(8), None, None, Some(7), Some(7), Some(5), Some(5)]);
        let begun: Begun = Box::new(move || counts.lock().unwrap().pop().unwrap());
        let mut news = News { begun: Some(begun), counted: None };
        let looks: Vec<_> = (0..7).map(|_| news.has_come()).collect();
        assert_eq!(looks, [true, false, true, false, true, true, true]);
        let mut unknown = News { begun: None, counted: None };
        assert!(unknown.has_come() && unknown.has_come());
    }

    #[test]
    fn the_first_connection_is_looked_for_as_often_as_it_will_be_sampled() {
        assert_eq!(pause_ns(5_000_000, None, 2_000_000, SOON_NS), 2_000_000);
        assert_eq!(pause_ns(5_000_000, None, 10, SOON_NS), SOONEST_NS);
        assert_eq!(pause_ns(5_000_000, None, u64::MAX, SOON_NS), SOON_NS);
    }

    #[test]
    fn soon_after_a_find_others_are_looked_for_often() {
        assert_eq!(pause_ns(1_400_000, Some(0), 1, SOON_NS), SOON_NS);
        assert_eq!(pause_ns(1_400_000, Some(100_000_000), 1, SOON_NS), 25_000_000);
    }

    #[test]
    fn later_looks_take_a_fixed_part_of_the_time() {
        assert_eq!(pause_ns(1_000_000, Some(u64::MAX), 1, SOON_NS), 500_000_000);
        assert_eq!(pause_ns(1_000, Some(u64::MAX), 1, SOON_NS), SOON_NS);
        assert_eq!(pause_ns(50_000_000, Some(u64::MAX), 1, SOON_NS), LATEST_NS);
        assert_eq!(pause_ns(1_000, Some(u64::MAX), 1, COUNTED_NS), COUNTED_NS);
        assert_eq!(pause_ns(1_000, Some(0), 1, COUNTED_NS), SOON_NS);
    }
}
