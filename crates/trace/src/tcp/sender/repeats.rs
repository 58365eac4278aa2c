//! Packets sent again, kept until a DSACK may call them needless.

use std::collections::VecDeque;

/// A DSACK comes a round trip later; no more than this is repeated in one.
const MAX_REPEATS: usize = 1_024;

#[derive(Debug)]
struct Repeat {
    start: i64,
    end: i64,
    /// Number of the DSACK that reported it, 0 if none did.
    reported: u64,
}

/// What was sent again lately, in the order of sending.
#[derive(Debug, Default)]
pub struct Repeats {
    list: VecDeque<Repeat>,
    dsacks: u64,
    /// Probes with a byte that came before and has not been reported, and their byte.
    probes: u32,
    probe: i64,
}

impl Repeats {
    pub fn add(&mut self, start: i64, end: i64) {
        while self.list.front().is_some_and(|repeat| repeat.reported > 0) || self.list.len() >= MAX_REPEATS {
            self.list.pop_front();
        }
        self.list.push_back(Repeat { start, end, reported: 0 });
    }

    /// A probe with the byte at `at`: the DSACK that answers it says nothing about what was sent again.
    pub fn add_probe(&mut self, at: i64) {
        self.probes = if self.probe == at { self.probes.saturating_add(1) } else { 1 };
        self.probe = at;
    }

    /// A DSACK for `start..end`: returns how many packets it makes needless. A range that was sent again twice and
    /// arrived three times is reported twice, so that one DSACK takes one packet of each range.
    pub fn report(&mut self, start: i64, end: i64) -> u64 {
        if self.probes > 0 && (start, end) == (self.probe, self.probe + 1) {
            self.probes -= 1;
            return 0;
        }
        self.dsacks += 1;
        let (mut found, mut behind) = (0, start);
        for repeat in &mut self.list {
            // Bytes that this DSACK already accounted for by an earlier packet do not count again.
            if repeat.reported == 0 && repeat.start < end && repeat.end > behind {
                repeat.reported = self.dsacks;
                found += 1;
                behind = repeat.end;
            }
        }
        found
    }
}
