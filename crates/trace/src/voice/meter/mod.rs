//! Streams measured on the fly: memory grows with the open streams and not with their packets.

mod jitter;
mod losses;
mod sums;
#[cfg(test)]
mod tests;

pub use jitter::Jitter;

use super::finder::{Finder, Others};
use super::holes::{Holes, Missed};
use super::numbers::Numbers;
use super::rtcp::{CapturedNumbers, Reports};
use super::sdp::Media;
use super::track::{Beginning, Pauses, Track};
use super::{Facts, Key, Options};
use crate::capture::Packet;
use crate::packet::Decoded;
pub(super) use sums::{Running, Sums};

/// How often streams that are over are looked for, in time of the capture.
const SWEEP_NS: u64 = 10_000_000_000;
/// Most streams at a time; beyond that, the older half of them is ended.
pub const MAX_STREAMS: usize = 1 << 15;

/// Source of a stream's losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Sequence numbers.
    Counted,
    /// Time stamps, over IAX2: frames not sent in silence count as lost.
    Estimated,
    /// Nothing: over IAX2, from senders whose time stamps are not those of the speech.
    Unknown,
    /// Nothing: the capture itself misses packets.
    Missed(Missed),
}

impl Loss {
    /// Whether it is known how many were lost.
    #[must_use]
    pub const fn is_known(self) -> bool {
        matches!(self, Self::Counted | Self::Estimated)
    }
}

/// What is known about a stream that is over. Definitions are those of docs/quality.md.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Its key.
    pub key: Key,
    /// Position of its first packet in the capture, from 1.
    pub order: u64,
    /// How often the source had started anew before.
    pub part: u32,
    /// The contents of its packets.
    pub facts: Facts,
    /// Packets, copies included.
    pub packets: u64,
    /// Their payload as sent.
    pub payload_bytes: u64,
    /// Earliest packet, ns since 1970.
    pub first_ns: i64,
    /// Latest packet.
    pub last_ns: i64,
    /// Numbers from the first to the last.
    pub expected: u64,
    /// Numbers that never came; 0 if that cannot be determined.
    pub lost: u64,
    /// How far to trust that.
    pub loss: Loss,
    /// Unbroken runs of losses.
    pub loss_runs: u64,
    /// The longest run.
    pub longest_run: u64,
    /// Packets whose number had come before, and that no sender repeats.
    pub copies: u64,
    /// Packets of telephone events that their sender repeated with the same number.
    pub repeats: u64,
    /// Packets after one with a higher number.
    pub reordered: u64,
    /// Packets without a place in the sequence, left out.
    pub strays: u64,
    /// Packets with RTP's marker.
    pub markers: u64,
    /// Why it begins.
    pub beginning: Beginning,
    /// Numbers lost between the packets of the codec before and its own; part of `expected` and `lost`.
    pub lead: u64,
    /// What it did not send while another source was heard, or on hold; not part of `expected`.
    pub pauses: Pauses,
    /// Silences in which the time stamps stood still.
    pub still: u64,
    /// Longest time between two arrivals, ns; `None` with fewer than two.
    pub gap_max_ns: Option<i64>,
    /// Of the packets whose time stamps follow them; `None` with fewer than two, or without a known clock.
    pub jitter: Option<Jitter>,
    /// What its receiver reported by RTCP.
    pub reports: Option<Reports>,
    /// The numbers to which these may apply; `None` for a stream without numbers.
    pub captured: Option<CapturedNumbers>,
}

/// Finds streams by the rules of [`super::Collector`] and keeps sums of them.
#[derive(Debug)]
pub struct Meter {
    finder: Finder<Sums>,
    swept_ns: i64,
    /// Packets until streams are checked again, so that jumping times cost little.
    rest: usize,
}

impl Meter {
    /// Nothing seen yet.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self { finder: Finder::new(options), swept_ns: i64::MIN, rest: 0 }
    }

    /// The next packet, decoded; `sink` is given the streams that are over.
    #[inline]
    pub fn put(&mut self, packet: &Packet<'_>, decoded: &Decoded<'_>, sink: impl FnMut(Measured)) {
        self.finder.put(packet, decoded);
        self.rest = self.rest.saturating_sub(1);
        if self.finder.open() == 0 {
            return;
        }
        if self.finder.streams() > MAX_STREAMS {
            self.halve(sink);
        } else if self.rest == 0 && packet.time_ns.abs_diff(self.swept_ns) >= SWEEP_NS {
            self.sweep(packet.time_ns, sink);
        }
    }

    /// The remaining streams.
    pub fn finish(&mut self, sink: impl FnMut(Measured)) {
        self.end(|_| true, sink);
    }

    /// What belonged to no stream.
    #[must_use]
    pub const fn others(&self) -> Others {
        self.finder.others()
    }

    #[cold]
    fn sweep(&mut self, now_ns: i64, sink: impl FnMut(Measured)) {
        self.swept_ns = now_ns;
        self.end(|track| !track.goes_on(now_ns), sink);
        self.rest = self.finder.open();
    }

    /// Ends the older half of the streams: as many packets go by until there are too many again.
    #[cold]
    fn halve(&mut self, sink: impl FnMut(Measured)) {
        let mut times: Vec<_> = self.finder.newest_ns().collect();
        let middle = times.len() / 2;
        let (_, median, _) = times.select_nth_unstable(middle);
        let median = *median;
        self.end(|track| track.is_proven() && track.newest_ns() <= median, sink);
    }

    fn end(&mut self, is_over: impl Fn(&Track<Sums>) -> bool, mut sink: impl FnMut(Measured)) {
        self.finder.end(is_over, |track, reports| {
            let found = Found::of(&track);
            let media = track.media.as_deref();
            if let Some(sums) = track.kept.finish(media) {
                sink(Measured::of(found, media, &sums, reports));
            }
        });
    }
}

/// The finder's facts about a stream that is over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub key: Key,
    pub order: u64,
    pub part: u32,
    pub strays: u64,
    pub codec: Option<u8>,
    pub beginning: Beginning,
    pub lead: u64,
    pub pauses: Pauses,
    pub holes: Holes,
}

impl Found {
    /// Of this stream.
    pub const fn of<K>(track: &Track<K>) -> Self {
        let Track { key, order, part, strays, codec, beginning, lead, pauses, holes, .. } = *track;
        Self { key, order, part, strays, codec, beginning, lead, pauses, holes }
    }
}

impl Measured {
    pub(super) fn of(found: Found, media: Option<&Media>, sums: &Running, reports: Option<Reports>) -> Self {
        let Found { key, order, part, strays, codec, beginning, lead, pauses, holes } = found;
        let (facts, jitter, still) = sums.judge(codec, media);
        let (loss_runs, longest_run) = sums.losses.clone().runs();
        let (expected, lost) = (sums.losses.expected() + lead, sums.losses.lost() + lead);
        let captured = holes.captured(expected - lead, pauses);
        let totals = reports.zip(captured).and_then(|(reports, captured)| reports.totals(captured));
        let missed = || holes.missed(lost, expected, totals);
        let loss = match sums.numbers {
            Numbers::Given if sums.lacks_speech() => Loss::Unknown,
            Numbers::Given => missed().map_or(Loss::Counted, Loss::Missed),
            Numbers::ByTime { .. } => Loss::Estimated,
            Numbers::ByArrival { .. } => Loss::Unknown,
        };
        Self {
            key,
            order,
            part,
            facts,
            packets: sums.packets,
            payload_bytes: sums.payload_bytes,
            first_ns: sums.first_ns,
            last_ns: sums.last_ns,
            expected,
            lost,
            loss,
            loss_runs: loss_runs + u64::from(lead > 0),
            longest_run: longest_run.max(lead),
            copies: sums.losses.copies() - sums.repeats(),
            repeats: sums.repeats(),
            reordered: sums.losses.reordered(),
            strays,
            markers: sums.markers,
            beginning,
            lead,
            pauses,
            still,
            gap_max_ns: sums.gap_max_ns,
            jitter,
            reports,
            captured,
        }
    }
}
