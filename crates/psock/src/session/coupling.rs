//! Coupled congestion control: what the streams of a session take together from a shared bottleneck.
//!
//! The linked increases algorithm (LIA, RFC 6356) outside of the kernel. A session keeps a window for each stream,
//! which grows and shrinks with what its TCP acknowledges and loses. The window is enforced as a rate, by pacing.
//! TCP's own window of Reno grows at least as fast and shrinks as much, so that the smaller one, LIA's, decides.
//!
//! Slow start is TCP's alone (RFC 6356, section 3): at the beginning, after a time-out and after a pause, when TCP
//! makes its window small and doubles it up to its threshold. LIA's window, which then only bounds TCP's, stays as it
//! was meanwhile, so that a stream is as fast as before when TCP is.

use std::collections::BTreeMap;

use crate::schedule::{PathStats, StreamId};

const NS_PER_S: f64 = 1e9;
/// TCP's window does not grow while it is not used, so LIA's may be larger by this; then TCP's is used, and grows.
const HEADROOM: f64 = 1.25;
/// A paced stream loses less at a full queue than one that sends in bursts, so it would take more: its window
/// grows by that much less (found by simulation, `tests/fairness.rs`).
const PACED: f64 = 0.8;
/// No window is smaller than this many segments (RFC 5681, section 3.1).
const LEAST_SEGMENTS: f64 = 2.0;

/// The windows of a session's streams.
#[derive(Clone, Debug, Default)]
pub struct Coupling {
    windows: BTreeMap<StreamId, Window>,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    bytes: f64,
    /// TCP's own.
    cwnd_bytes: f64,
    mss_bytes: f64,
    srtt_ns: f64,
    in_flight_bytes: f64,
    /// Nothing has been lost yet, and TCP has not ended its slow start by itself: there is nothing to bound.
    is_first: bool,
    acked_bytes: u64,
    retransmitted_segments: u64,
    /// Once this is acknowledged, so is everything that was in flight when the window was last halved (RFC 6582).
    recover_bytes: u64,
}

impl Window {
    fn new(stats: &PathStats) -> Self {
        let cwnd_bytes = stats.cwnd_bytes as f64;
        Self {
            bytes: cwnd_bytes,
            cwnd_bytes,
            mss_bytes: 0.0,
            srtt_ns: 0.0,
            in_flight_bytes: 0.0,
            is_first: true,
            acked_bytes: stats.acked_bytes,
            retransmitted_segments: stats.retransmitted_segments,
            recover_bytes: 0,
        }
    }

    /// The smaller of both windows, which decides.
    fn used_bytes(&self) -> f64 {
        self.bytes.min(self.cwnd_bytes)
    }

    /// What it carries per nanosecond; 0 if it carries nothing.
    fn rate(&self) -> f64 {
        if self.in_flight_bytes > 0.0 && self.srtt_ns > 0.0 { self.used_bytes() / self.srtt_ns } else { 0.0 }
    }
}

impl Coupling {
    /// Takes what is now known about a stream; returns its window in bytes.
    pub fn update(&mut self, id: StreamId, stats: &PathStats) -> u64 {
        if stats.srtt_ns == 0 || stats.mss_bytes == 0 {
            return stats.cwnd_bytes;
        }
        let growth = self.growth();
        let window = self.windows.entry(id).or_insert_with(|| Window::new(stats));
        let acked_bytes = stats.acked_bytes.saturating_sub(window.acked_bytes) as f64;
        let has_lost = stats.retransmitted_segments > window.retransmitted_segments;
        let is_slow_start = stats.cwnd_bytes < stats.ssthresh_bytes;
        let in_flight_bytes = stats.unacked_bytes.saturating_sub(stats.unsent_bytes);
        let before_bytes = window.used_bytes();
        window.acked_bytes = stats.acked_bytes;
        window.retransmitted_segments = stats.retransmitted_segments;
        window.cwnd_bytes = stats.cwnd_bytes as f64;
        window.mss_bytes = stats.mss_bytes as f64;
        window.srtt_ns = stats.srtt_ns as f64;
        window.in_flight_bytes = in_flight_bytes as f64;
        if has_lost {
            // Once for all that was in flight together. TCP may have shrunk its window already: the former one counts.
            if stats.acked_bytes >= window.recover_bytes {
                window.bytes = before_bytes / 2.0;
                window.is_first = false;
                window.recover_bytes = stats.acked_bytes.saturating_add(in_flight_bytes);
            }
        } else if window.is_first {
            window.bytes = window.cwnd_bytes;
            window.is_first = is_slow_start;
        } else if !(is_slow_start && window.cwnd_bytes < window.bytes) {
            if window.in_flight_bytes >= window.used_bytes() / 2.0 {
                // Only if the window is used.
                let alone = 1.0 / window.bytes;
                let coupled = growth.map_or(alone, |coupled| coupled.min(alone));
                window.bytes += PACED * coupled * acked_bytes * window.mss_bytes;
            }
            window.bytes = window.bytes.min(HEADROOM * window.cwnd_bytes);
        }
        window.bytes = window.bytes.max(LEAST_SEGMENTS * window.mss_bytes);
        (window.bytes as u64).min(stats.cwnd_bytes)
    }

    /// A stream has ended.
    pub fn remove(&mut self, id: StreamId) {
        self.windows.remove(&id);
    }

    /// The rate that enforces a stream's window; `None` in its first slow start, and for one without others, which is
    /// fair by itself.
    pub fn rate_bytes_per_s(&self, id: StreamId) -> Option<u64> {
        if self.windows.len() < 2 {
            return None;
        }
        let window = self.windows.get(&id).filter(|window| !window.is_first)?;
        Some(((window.bytes / window.srtt_ns * NS_PER_S) as u64).max(1))
    }

    /// By what a window grows for each byte acknowledged, in units of its segment: `α / w_tot` of RFC 6356, section
    /// 3, which is `max(w/rtt²) / (Σ w/rtt)²`. `None` if no stream carries anything.
    fn growth(&self) -> Option<f64> {
        let carrying = || self.windows.values().filter(|window| window.rate() > 0.0);
        let sum: f64 = carrying().map(Window::rate).sum();
        let best = carrying().map(|window| window.rate() / window.srtt_ns).fold(0.0, f64::max);
        (sum > 0.0).then(|| best / (sum * sum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1000;
    const MS: u64 = 1_000_000;

    /// TCP's window is 100 segments, which are under way.
    fn stats(acked_bytes: u64, retransmitted_segments: u64) -> PathStats {
        PathStats {
            srtt_ns: 10 * MS,
            mss_bytes: MSS,
            cwnd_bytes: 100 * MSS,
            ssthresh_bytes: if retransmitted_segments == 0 { u64::MAX } else { 50 * MSS },
            unacked_bytes: 100 * MSS,
            acked_bytes,
            retransmitted_segments,
            ..PathStats::default()
        }
    }

    /// There is another stream, which carries nothing.
    fn beside() -> Coupling {
        let mut coupling = Coupling::default();
        coupling.update(StreamId(99), &PathStats { unacked_bytes: 0, ..stats(0, 0) });
        coupling
    }

    /// Streams that have left slow start with windows of 50 segments.
    fn halved(streams: u32) -> Coupling {
        let mut coupling = beside();
        for (acked_bytes, losses) in [(0, 0), (MSS, 1)] {
            for id in 0..streams {
                coupling.update(StreamId(id), &stats(acked_bytes, losses));
            }
        }
        coupling
    }

    #[test]
    fn slow_start_is_left_alone_and_a_loss_halves_the_window_once_per_round_trip() {
        let mut coupling = beside();
        let id = StreamId(0);
        assert_eq!(coupling.update(id, &stats(0, 0)), 100 * MSS);
        assert_eq!(coupling.rate_bytes_per_s(id), None);
        assert_eq!(coupling.update(id, &stats(MSS, 1)), 50 * MSS);
        // 50 segments in 10 ms.
        assert_eq!(coupling.rate_bytes_per_s(id), Some(5_000_000));
        assert_eq!(coupling.update(id, &stats(2 * MSS, 9)), 50 * MSS, "the same round trip");
        assert_eq!(coupling.update(id, &stats(101 * MSS, 10)), 25 * MSS);
    }

    #[test]
    fn a_slow_start_that_tcp_ends_by_itself_is_bounded_from_then_on() {
        let mut coupling = beside();
        let id = StreamId(0);
        coupling.update(id, &stats(0, 0));
        // HyStart of CUBIC.
        let ended = PathStats { ssthresh_bytes: 100 * MSS, ..stats(MSS, 0) };
        assert_eq!(coupling.update(id, &ended), 100 * MSS);
        assert_eq!(coupling.rate_bytes_per_s(id), Some(10_000_000));
    }

    #[test]
    fn after_a_pause_a_stream_is_as_fast_as_before_when_tcp_is() {
        let mut coupling = halved(1);
        let id = StreamId(0);
        for cwnd in [10, 20, 40] {
            let restarted = PathStats { cwnd_bytes: cwnd * MSS, ..stats(2 * MSS, 1) };
            assert_eq!(coupling.update(id, &restarted), cwnd * MSS);
            assert_eq!(coupling.rate_bytes_per_s(id), Some(5_000_000), "TCP's window decides");
        }
        let back = PathStats { cwnd_bytes: 50 * MSS, ..stats(2 * MSS, 1) };
        assert_eq!(coupling.update(id, &back), 50 * MSS);
    }

    #[test]
    fn a_time_out_halves_the_window_once_and_a_loss_while_it_comes_back_halves_what_there_was() {
        let mut coupling = halved(1);
        let id = StreamId(0);
        let dead = |cwnd, losses| PathStats { cwnd_bytes: cwnd * MSS, ..stats(101 * MSS, losses) };
        assert_eq!(coupling.update(id, &dead(1, 2)), MSS);
        assert_eq!(coupling.update(id, &dead(1, 3)), MSS, "another time-out of the same data");
        assert_eq!(coupling.rate_bytes_per_s(id), Some(2_500_000), "25 segments in 10 ms");
        let back = |cwnd, losses| PathStats { cwnd_bytes: cwnd * MSS, ..stats(300 * MSS, losses) };
        assert_eq!(coupling.update(id, &back(12, 3)), 12 * MSS);
        assert_eq!(coupling.update(id, &back(6, 4)), 6 * MSS);
        assert_eq!(coupling.rate_bytes_per_s(id), Some(600_000), "6 segments in 10 ms");
    }

    #[test]
    fn n_streams_together_grow_by_an_nth_of_what_one_does_and_that_is_a_little_less_than_reno() {
        for streams in [1, 2, 5] {
            let mut coupling = halved(streams);
            let own = |coupling: &Coupling| -> Vec<f64> {
                (0..streams).map(|id| coupling.windows[&StreamId(id)].bytes).collect()
            };
            let windows = |coupling: &Coupling| -> f64 { own(coupling).iter().sum() };
            let before = windows(&coupling);
            // A round trip: each stream has its window acknowledged.
            for id in 0..streams {
                coupling.update(StreamId(id), &stats(51 * MSS, 1));
            }
            let grown = (windows(&coupling) - before) / MSS as f64;
            assert!((grown - PACED / f64::from(streams)).abs() < 0.02, "{streams}: {grown}");
        }
    }

    #[test]
    fn a_window_that_is_not_used_does_not_grow_and_none_outgrows_that_of_tcp() {
        let mut coupling = halved(1);
        let unused = PathStats { unacked_bytes: MSS, ..stats(51 * MSS, 1) };
        assert_eq!(coupling.update(StreamId(0), &unused), 50 * MSS);
        let small = PathStats { cwnd_bytes: 10 * MSS, ssthresh_bytes: 10 * MSS, ..stats(52 * MSS, 1) };
        assert_eq!(coupling.update(StreamId(0), &small), 10 * MSS);
        assert_eq!(coupling.rate_bytes_per_s(StreamId(0)), Some(1_250_000));
        let nothing = PathStats { cwnd_bytes: 0, ssthresh_bytes: 0, ..stats(53 * MSS, 1) };
        coupling.update(StreamId(0), &nothing);
        assert_eq!(coupling.rate_bytes_per_s(StreamId(0)), Some(200_000), "two segments in 10 ms");
        coupling.remove(StreamId(0));
        assert_eq!(coupling.rate_bytes_per_s(StreamId(0)), None);
    }

    #[test]
    fn a_stream_without_others_is_left_to_tcp() {
        let mut coupling = halved(1);
        assert!(coupling.rate_bytes_per_s(StreamId(0)).is_some());
        coupling.remove(StreamId(99));
        assert_eq!(coupling.rate_bytes_per_s(StreamId(0)), None);
    }
}
