//! Packets of streams that are known: after a pause, and where another part of a stream begins.

use std::rc::Rc;

use super::{Ear, Finder};
use crate::voice::facts::encoding_of;
use crate::voice::track::{Beginning, Keep, Put, Raw, Track};
use crate::voice::{Key, Kind};

/// A source with other ports than the silent one must have been heard for as long, in ns and as a share of the silence.
const LEAST_OTHER_NS: i64 = 1_000_000_000;
const LEAST_SHARE: f64 = 0.5;
const LEAST_OTHER_SHARE: f64 = 0.8;

impl<K: Keep> Finder<K> {
    /// A packet of the stream in this place.
    #[inline]
    pub(super) fn place(&mut self, at: usize, raw: Raw) {
        let track = &self.tracks[at];
        if track.has_paused() || track.may_have_paused(&raw) {
            self.resume_or_add(at, raw);
        } else {
            self.add(at, raw);
        }
    }

    /// The same, for packets that were held: the ones before may have begun another part.
    #[cold]
    pub(super) fn place_again(&mut self, key: &Key, raw: Raw) {
        if let Some(&at) = self.index.get(key) {
            self.place(at, raw);
        }
    }

    /// A packet after a pause, or during the time in which it becomes clear where the stream goes on.
    #[cold]
    fn resume_or_add(&mut self, at: usize, raw: Raw) {
        let key = self.tracks[at].key;
        if !self.tracks[at].has_paused() {
            if !(self.was_replaced(at, raw.arrival_ns) && self.tracks[at].resume_with(raw)) {
                self.add(at, raw);
            }
        } else if !self.tracks[at].is_resuming(&raw) {
            self.resume(at);
            self.place_again(&key, raw);
        } else if self.tracks[at].await_order(raw) {
            self.resume(at);
        }
    }

    /// Adds the packets that were held after a pause.
    #[cold]
    fn resume(&mut self, at: usize) {
        let key = self.tracks[at].key;
        for raw in self.tracks[at].resume() {
            if let Some(&at) = self.index.get(&key) {
                self.add(at, raw);
            }
        }
    }

    /// Adds a packet to its stream, or begins another part of it.
    #[inline]
    fn add(&mut self, at: usize, raw: Raw) {
        if let Put::Restart(first, second) = self.tracks[at].put(raw, self.packets) {
            let (key, part) = (self.tracks[at].key, self.tracks[at].part + 1);
            let mut next = Track::new(key, self.packets, part, first, true);
            next.media = self.tracks[at].media.clone();
            next.put(second, self.packets);
            self.begin(next);
        }
    }

    /// Packets of another payload type than `before` took the place of a stream's: a part of its own, unless both
    /// stand for the same codec.
    #[cold]
    pub(super) fn change(&mut self, key: &Key, before: u8, held: Vec<Raw>) {
        let Some(&at) = self.index.get(key) else { return };
        self.resume(at);
        let Some(&at) = self.index.get(key) else { return };
        let is_old = |raw: &Raw| raw.header.payload_type == before;
        let Some(first) = held.iter().find(|raw| !is_old(raw)) else { return };
        let (track, newest) = (&self.tracks[at], self.session_of(key));
        let old = encoding_of(before, track.media.as_deref()).map(|(encoding, _)| encoding);
        let now = newest.as_deref().or(track.media.as_deref());
        let new = encoding_of(first.header.payload_type, now).map(|(encoding, _)| encoding);
        let is_change = match (&old, &new) {
            (Some(old), _) if !old.is_speech() => false,
            (Some(old), Some(new)) => {
                !new.name.eq_ignore_ascii_case(&old.name) || new.clock_hz != old.clock_hz
            }
            _ => true,
        };
        if !is_change || new.is_some_and(|new| !new.is_speech() || new.kind == Kind::Video) {
            let known = newest.map(|newest| Rc::new(newest.with(track.media.as_deref())));
            self.tracks[at].media = known.or_else(|| self.tracks[at].media.clone());
            for raw in held {
                self.place_again(key, raw);
            }
            return;
        }
        // Packets may have overtaken each other, those of the old codec as well.
        let mut next = Track::new(*key, self.packets, track.part + 1, *first, true);
        next.beginning = Beginning::Codec;
        next.media = newest.or_else(|| track.media.clone());
        let (late, new): (Vec<_>, Vec<_>) = held.into_iter().partition(is_old);
        for raw in late {
            self.add(at, raw);
        }
        let track = &self.tracks[at];
        next.lead = new.iter().map(|raw| track.missing_before(raw)).min().unwrap_or(0);
        self.begin(next);
        for raw in new.into_iter().skip(1) {
            self.place_again(key, raw);
        }
    }

    /// Whether, since the stream fell silent, another one was heard at its destination, or it was on hold.
    #[cold]
    fn was_replaced(&self, at: usize, now_ns: i64) -> bool {
        let track = &self.tracks[at];
        let since_ns = track.newest_ns();
        let silent_ns = now_ns.saturating_sub(since_ns) as f64;
        if self.sessions.hold_ns(&track.key, since_ns, now_ns) as f64 >= LEAST_SHARE * silent_ns {
            return true;
        }
        let (mut same, mut other) = (0, 0);
        for each in self.heard.get(&Ear::of(&track.key)).into_iter().flatten().filter(|each| **each != at) {
            let (key, heard_ns) = (&self.tracks[*each].key, self.tracks[*each].took_over_ns(since_ns));
            let is_same = (key.src, key.src_port) == (track.key.src, track.key.src_port);
            *(if is_same { &mut same } else { &mut other }) += heard_ns;
        }
        same as f64 >= LEAST_SHARE * silent_ns
            || (other >= LEAST_OTHER_NS && (same + other) as f64 >= LEAST_OTHER_SHARE * silent_ns)
    }
}
