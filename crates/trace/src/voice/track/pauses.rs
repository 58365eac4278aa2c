//! What a stream did not send: numbers that its source skipped while another one was heard, or on hold.

use super::{BETWEEN_TURNS_NS, Keep, Raw, Track};
use crate::voice::sequence::around;

/// Numbers that are missing after a silence as long as this may not have been sent.
const SHORTEST_PAUSE_NS: i64 = 200_000_000;
/// In a silence of so many packets, a number far ahead may look as if it lay behind.
const LONG_PAUSE: f64 = 16_384.0;
/// So many packets after a pause show which of them is the first: some may have overtaken others.
const RESUMING: usize = 32;
/// Numbers far ahead after a pause fit the time that it took, by a fifth.
const PAUSE_TOLERANCE: f64 = 0.2;

impl<K: Keep> Track<K> {
    /// Whether numbers are missing in front of this packet that its source may not have sent.
    #[inline]
    pub fn may_have_paused(&self, raw: &Raw) -> bool {
        let silent_ns = raw.arrival_ns.saturating_sub(self.newest.arrival_ns);
        silent_ns >= SHORTEST_PAUSE_NS && self.is_proven() && self.skips(raw, silent_ns)
    }

    #[cold]
    fn skips(&self, raw: &Raw, silent_ns: i64) -> bool {
        let skipped = self.sequence.skipped_by(raw.header.sequence);
        // In a long silence, numbers come round.
        let is_long = || self.packets_in(silent_ns).is_some_and(|expected| expected > LONG_PAUSE);
        (1..=i16::MAX as u16).contains(&skipped) || (skipped > 0 && is_long())
    }

    /// Begins to hold packets, from the first one after a pause, if its source may have reached that number: while it
    /// was silent, another source was heard instead, or it was on hold.
    pub fn resume_with(&mut self, raw: Raw) -> bool {
        let goes_on = self.skipped_before(&raw).is_some();
        if goes_on {
            self.holes.excuse();
            self.resuming.push(raw);
        }
        goes_on
    }

    /// Whether packets are held.
    pub const fn has_paused(&self) -> bool {
        !self.resuming.is_empty()
    }

    /// Whether a packet is to be held with them: after another silence, it is not.
    pub fn is_resuming(&self, raw: &Raw) -> bool {
        self.resuming
            .last()
            .is_some_and(|last| raw.arrival_ns.saturating_sub(last.arrival_ns) < SHORTEST_PAUSE_NS)
    }

    /// Holds a packet after a pause; true if they are enough.
    pub fn await_order(&mut self, raw: Raw) -> bool {
        self.resuming.push(raw);
        self.resuming.len() >= RESUMING
    }

    /// The packets that were held; their numbers follow those from before the pause.
    pub fn resume(&mut self) -> Vec<Raw> {
        let held = std::mem::take(&mut self.resuming);
        if let Some(first) = held.first()
            && let Some(skipped) = self.skipped_before(first)
        {
            let beside =
                |raw: &Raw| i64::from(raw.header.sequence.wrapping_sub(first.header.sequence).cast_signed());
            // Some may come from before the pause.
            let least = held.iter().map(|raw| skipped + beside(raw)).filter(|skipped| *skipped >= 0).min();
            self.pause(least.unwrap_or(skipped), first.arrival_ns);
        }
        held
    }

    /// For how long of the time from `from_ns` until now it sent, if it did not do so before.
    pub fn took_over_ns(&self, from_ns: i64) -> i64 {
        let begins = self.since_ns.saturating_add(BETWEEN_TURNS_NS / 2) >= from_ns;
        if begins { self.newest.arrival_ns.saturating_sub(self.since_ns.max(from_ns)).max(0) } else { 0 }
    }

    /// How many numbers a packet skips that comes next after a silence; `None` if its source cannot have reached its
    /// number.
    fn skipped_before(&self, raw: &Raw) -> Option<i64> {
        let sequence = raw.header.sequence;
        let silent_ns = raw.arrival_ns.saturating_sub(self.newest.arrival_ns);
        let skipped = self.sequence.skipped_by(sequence);
        let Some(expected) = self.packets_in(silent_ns) else {
            return self.sequence.place(sequence).map(|_| skipped.into());
        };
        let skipped = around(skipped, expected);
        let is_near = skipped <= i64::from(i16::MAX) && self.sequence.place(sequence).is_some();
        (is_near || (skipped as f64 - expected).abs() <= PAUSE_TOLERANCE * expected).then_some(skipped)
    }

    fn pause(&mut self, skipped: i64, arrival_ns: i64) {
        let resumed = self.sequence.after(skipped);
        if self.pauses.count == 0 {
            self.pauses.from = resumed - skipped;
        }
        self.pauses.until = resumed;
        self.sequence.advance(resumed - 1);
        self.resumed = Some((resumed, skipped));
        self.pauses.count += 1;
        self.pauses.skipped += skipped;
        self.pauses.lasted_ns += arrival_ns.saturating_sub(self.newest.arrival_ns);
    }
}
